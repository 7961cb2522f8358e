"""Constraint successive rejection: test fairness and outcome in the same phases."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairtrial.causal._clipped import Clipped
from fairtrial.causal.allocation import Wanted, solve
from fairtrial.causal.errors import BoundTooTight
from fairtrial.causal.policies.base import NO_FAIR_ARM
from fairtrial.causal.policies.phased import PhasedPolicy
from fairtrial.causal.policies.schedule import (
    easier_pairs,
    fairness_margin,
    n_phases,
    quality_margin,
    smallest_budget,
    value_pairs_of,
)
from fairtrial.causal.problem import Problem
from fairtrial.core.validation import check_flag
from fairtrial.errors import InvalidArgument

__all__ = ["ConstraintSuccessiveRejection"]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class ConstraintSuccessiveRejection(PhasedPolicy):
    """Sample in phases; after each, reject arms that are unfair or too bad to be the best.

    Every phase draws its rows by the allocation programme for the remaining arms, and estimates
    means and gaps by clipped importance weights.

    Parameters
    ----------
    problem : Problem
        The problem; its outcome has a range, its sensitive attribute at most four values.
    budget : int
        Number T of rows; at least 10.
    variant : {1, 2}
        1 uses only the current phase's rows, as the bound in the paper requires; 2 uses all rows so
        far, and is wrong far less often.
    one_sided : bool
        Estimate only one of two opposite gaps, the one with the smaller divergence; for a sensitive
        attribute without parents.
    pool_natural : bool
        Use natural rows for the gaps, too.
    seed : None, int or numpy.random.Generator
        Ignored; the policy is deterministic.

    Raises
    ------
    BoundTooTight
        If no arm can pass the fairness test with this budget.

    Notes
    -----
    Source: Gao and Feng, algorithm 1 (CSR), with ceil(log2(10 sqrt(T))) phases. The answer is the
    best arm among those that passed the last phase's test. No error probability is promised;
    `PlugIn` is wrong less often.

    Examples
    --------
    >>> from fairtrial.causal import chain
    >>> arms = {"a": [[0.5, 0.5], [0.4, 0.6]], "b": [[0.2, 0.8], [0.1, 0.9]]}
    >>> problem, environment = chain(0.4, arms, [0.1, 0.9], fairness_bound=0.2)
    >>> policy = ConstraintSuccessiveRejection(problem, budget=1000)
    >>> policy.compiled_run(environment, np.random.default_rng(0), None).answer
    'b'
    """

    def __init__(
        self,
        problem: Problem,
        budget: int,
        variant: int = 2,
        one_sided: bool = False,
        pool_natural: bool = False,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(problem, budget, variant, seed)
        self.one_sided = check_flag("one_sided", one_sided)
        self.pool_natural = check_flag("pool_natural", pool_natural)
        self._require_loose_bound()
        if self.one_sided and not problem.is_root:
            raise InvalidArgument(
                "one_sided", "must be False where the sensitive attribute has parents", one_sided
            )
        if problem.pairs and not self.pool_natural and not problem.can_force.all():
            raise InvalidArgument(
                "pool_natural", "must be True where no arm's rows can be forced", pool_natural
            )

    def _require_loose_bound(self) -> None:
        bound = self.problem.bound
        if self.problem.pairs and bound <= fairness_margin(n_phases(self.budget)):
            raise BoundTooTight(smallest_budget(bound), self.budget)

    @property
    def _pairs(self) -> tuple[int, ...]:
        everyone = tuple(range(len(self.problem.pairs)))
        return easier_pairs(self.problem) if self.one_sided else everyone

    def _shares(self) -> Floats:
        parts = value_pairs_of(self.problem, self._pairs)
        wanted = Wanted(True, parts, self.pool_natural)
        return solve(self.problem, self._live, wanted).shares.ravel()

    def _judge(self) -> None:
        level = int(self._phase) + 1
        estimator = self._clipped(level)
        means = estimator.means()
        passed, unfair = self._test_gaps(estimator, level)
        if self._live.sum() == 1:
            arm = int(np.argmax(self._live))
            self._decide(arm, passed_margin=bool(passed[arm]))
            return
        certified = self._live & passed
        if certified.any():
            self._live = self._live & ~unfair & ~_too_bad(means, certified, level)
        self._passed = certified & self._live
        self._name_best(np.where(self._passed & ~np.isnan(means), means, -np.inf))

    def _test_gaps(self, estimator: Clipped, level: int) -> tuple[Flags, Flags]:
        """Return which arms are inside the bound by the phase's margin, and which are outside."""
        gaps = [estimator.gaps(pair, self.pool_natural) for pair in self._pairs]
        size: Floats = np.abs(np.array(gaps).reshape(len(gaps), self.problem.n_arms))
        bound, margin = self.problem.bound, fairness_margin(level)
        with np.errstate(invalid="ignore"):
            passed, unfair = size < bound - margin, size > bound + margin
        return np.asarray(passed.all(axis=0)), np.asarray(unfair.any(axis=0))

    def _name_best(self, quality: Floats) -> None:
        """Make the best arm that passed the leader; after the last phase it is the answer."""
        found = int(np.argmax(quality)) if quality.max() > -np.inf else None
        self._leader = NO_FAIR_ARM if found is None else found
        if self._phase + 1 == len(self._lengths):
            tie = bool((quality == quality.max()).sum() > 1)
            self._decide(found, tie and found is not None, found is not None)


def _too_bad(means: Floats, certified: Flags, level: int) -> Flags:
    """Return which arms are worse than the best certified arm by more than the margin."""
    best = np.nanmax(means[certified & ~np.isnan(means)], initial=-np.inf)
    with np.errstate(invalid="ignore"):
        return np.asarray(means < best - quality_margin(level))
