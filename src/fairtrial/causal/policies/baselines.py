"""Baselines: two stages, no constraint, no weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fairtrial.causal._gaps import applied, contrasts, mean_direction, own_effects
from fairtrial.causal._weighted import Weighted
from fairtrial.causal.allocation import Wanted, solve
from fairtrial.causal.estimation import best_fair
from fairtrial.causal.policies.base import FixedBudgetPolicy
from fairtrial.causal.policies.phased import PhasedPolicy
from fairtrial.causal.policies.schedule import (
    LEAST_BUDGET,
    even_shares,
    fairness_margin,
    phase_lengths,
)
from fairtrial.causal.problem import Problem
from fairtrial.core.documentation import documented_by
from fairtrial.errors import InvalidArgument

__all__ = ["SuccessiveRejection", "TwoStageRejection", "UniformSampling"]

Floats = NDArray[np.float64]


class TwoStageRejection(PhasedPolicy):
    """Use half of the budget to reject unfair arms, the other half to find the best remaining arm.

    This is the baseline of Gao and Feng, section 6: successive rejection for the constraint, then
    for the outcome.

    Parameters
    ----------
    problem : Problem
        The problem; its outcome has a range, its sensitive attribute at most four values.
    budget : int
        Number T of rows; each stage gets half of them. At least 20.
    variant : {1, 2}
        1 uses only the current phase's rows, 2 all rows so far.
    seed : None, int or numpy.random.Generator
        Ignored; the rule is deterministic.

    Examples
    --------
    >>> from fairtrial.causal import chain
    >>> arms = {"fair": [[0.6, 0.4]] * 2, "unfair": [[0, 1], [0.5, 0.5]]}
    >>> problem, environment = chain(0.5, arms, reward=[0.1, 0.9], fairness_bound=0.1)
    >>> rule = TwoStageRejection(problem, 2000)
    >>> rule.compiled_run(environment, np.random.default_rng(0), None).answer
    'fair'
    """

    def __init__(
        self,
        problem: Problem,
        budget: int,
        variant: int = 2,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(problem, budget, variant, seed)
        if self.budget < 2 * LEAST_BUDGET:
            raise InvalidArgument("budget", f"must be at least {2 * LEAST_BUDGET} rows", budget)
        if problem.pairs and not problem.can_force.all():
            raise InvalidArgument("problem", "must allow forced rows: stage one is made of them")

    @property
    def _stage_lengths(self) -> list[int]:
        return phase_lengths(self.budget // 2)

    @property
    def _has_first_stage(self) -> bool:
        return bool(self.problem.pairs)

    @property
    def _lengths(self) -> Sequence[int]:
        return self._stage_lengths * (2 if self._has_first_stage else 1)

    @property
    def _in_first_stage(self) -> bool:
        return self._has_first_stage and self._phase < len(self._stage_lengths)

    def _shares(self) -> Floats:
        everyone = tuple(range(len(self.problem.value_pairs)))
        wanted = Wanted(False, everyone) if self._in_first_stage else Wanted(True, ())
        return solve(self.problem, self._live, wanted).shares.ravel()

    def _judge(self) -> None:
        level = int(self._phase) % len(self._stage_lengths) + 1
        if self._in_first_stage:
            self._judge_fairness(level)
        else:
            self._judge_means(level)

    def _judge_fairness(self, level: int) -> None:
        estimator = self._clipped(level)
        gaps = [estimator.gaps(pair, False) for pair in range(len(self.problem.pairs))]
        with np.errstate(invalid="ignore"):
            limit = self.problem.bound + fairness_margin(level)
            unfair = (np.abs(np.array(gaps)) > limit).any(axis=0)
        self._live = self._live & ~unfair
        if not self._live.any():
            self._decide(None)
        elif self._live.sum() == 1:
            self._decide(int(np.argmax(self._live)))


@documented_by(TwoStageRejection)
class SuccessiveRejection(PhasedPolicy):
    """Find the best arm without regard to fairness, by successive rejection.

    Source: Sen et al. 2017, "Identifying best interventions through online importance sampling"
    (SRIS), without the constraint and with natural rows only.

    Parameters
    ----------
    problem : Problem
        The problem; its fairness bound is ignored.
    budget : int
        Number T of rows; at least 10.

    Examples
    --------
    >>> from fairtrial.causal import chain
    >>> problem, environment = chain(0.5, [[[0.6, 0.4]] * 2, [[0, 1], [0.5, 0.5]]], [0.1, 0.9], 0.1)
    >>> rule = SuccessiveRejection(problem, 2000)
    >>> run = rule.compiled_run(environment, np.random.default_rng(0), None)
    >>> run.answer, environment.truth.best
    ('1', '0')
    """

    def _shares(self) -> Floats:
        return solve(self.problem, self._live, Wanted(True, ())).shares.ravel()

    def _judge(self) -> None:
        self._judge_means(int(self._phase) + 1)

    def _reason(self, leader: str | None) -> str:
        if not self.stopped:
            return super()._reason(leader)
        best = f"{leader!r} has the best estimated mean, whether it is fair or not"
        return f"{best}{self._judges_by}"


@documented_by(TwoStageRejection)
class UniformSampling(FixedBudgetPolicy):
    """Spread rows evenly over all affordable actions, and judge each arm by its own rows.

    This baseline uses no weights: an arm's mean under a value is the mean of its rows with that
    value, and its gap is the difference of two such means. Only if the sensitive attribute has
    parents, a group's rows are weighted to estimate its mean under another value.

    Parameters
    ----------
    problem : Problem
        The problem.
    budget : int
        Number T of rows.

    Examples
    --------
    >>> from fairtrial.causal import chain
    >>> problem, environment = chain(0.5, [[[0.6, 0.4]] * 2, [[0.2, 0.8]] * 2], [0.1, 0.9], 0.3)
    >>> [pull.arm for pull in UniformSampling(problem, 6).ask(6)]
    ['0', '0', '0', '1', '1', '1']
    """

    @property
    def _lengths(self) -> Sequence[int]:
        return [self.budget]

    def _shares(self) -> Floats:
        return even_shares(self.problem)

    def _judge(self) -> None:
        records = self._ledger.records()
        shares = Weighted(self.problem, records, "mis").shares
        effects = own_effects(self.problem, records)
        means = applied(mean_direction(self.problem, shares), effects)[:, 0]
        gaps = applied(contrasts(self.problem, shares), effects)
        self._decide(*best_fair(self.problem, means, gaps))
