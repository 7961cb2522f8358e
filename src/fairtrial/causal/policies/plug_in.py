"""The recommended rule for a fixed budget: every row informs about every arm."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fairtrial.causal._weighted import ESTIMATORS, Weighted, require_cell_estimator
from fairtrial.causal.allocation import MOST_PAIRS, Wanted, solve
from fairtrial.causal.contradictions import contradictions
from fairtrial.causal.divergences import divergences
from fairtrial.causal.errors import ModelError
from fairtrial.causal.estimates import Estimates
from fairtrial.causal.estimation import best_fair, estimate_records, warn_of
from fairtrial.causal.policies.base import NO_FAIR_ARM, FixedBudgetPolicy
from fairtrial.causal.policies.schedule import (
    LEAST_BUDGET,
    even_shares,
    fairness_margin,
    phase_lengths,
    quality_margin,
)
from fairtrial.causal.problem import Problem
from fairtrial.core.validation import check_choice, check_flag
from fairtrial.errors import InvalidArgument

__all__ = ["PlugIn"]

Floats = NDArray[np.float64]


class PlugIn(FixedBudgetPolicy):
    """The recommended rule for a fixed budget: allocate rows once, use every row for every arm.

    An optimisation decides how many rows each action gets. At the end, all rows are used for every
    arm, weighted by how likely each arm was to produce them. The answer is the best arm whose
    estimated gaps are within the bound.

    Parameters
    ----------
    problem : Problem
        The problem.
    budget : int
        Number T of rows.
    estimator : {"sn", "mis", "cell"}, optional
        See `estimate`. By default ``"cell"`` if the model allows it, otherwise ``"sn"``. ``"cell"``
        is about as accurate as ``"sn"`` if a row's cell says nothing about its outcome, and much
        better if it says a lot.
    phased : bool
        Spend the budget in phases; after each phase, stop drawing rows for arms that are clearly
        unfair or clearly not the best. Certificates are then not proven.
    seed : None, int or numpy.random.Generator
        Ignored; the policy is deterministic.

    Raises
    ------
    ModelError
        If the estimator does not suit the model.

    Notes
    -----
    If the model does not determine how much the arms' distributions differ, or there are too many
    pairs of sensitive values, all affordable actions get equally many rows. The numbers of rows are
    fixed in advance, so the verdicts of ``certificate()`` have a proven level. With `phased`, arms
    are dropped by the margins of constraint successive rejection; the final answer is computed in
    the same way, and is wrong about as often.

    Examples
    --------
    >>> from fairtrial.causal import chain
    >>> arms = {"a": [[0.5, 0.5], [0.4, 0.6]], "b": [[0.2, 0.8], [0.1, 0.9]]}
    >>> problem, environment = chain(0.4, arms, [0.1, 0.9], fairness_bound=0.2)
    >>> policy = PlugIn(problem, budget=1000)
    >>> generator = np.random.default_rng(0)
    >>> while not policy.stopped:
    ...     pull = policy.ask()
    ...     policy.tell(pull, environment.sample(pull, generator))
    >>> policy.recommend().arm, policy.certificate().verdicts
    ('b', ('fair', 'fair'))
    """

    version = 2

    def __init__(
        self,
        problem: Problem,
        budget: int,
        estimator: str | None = None,
        phased: bool = False,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(problem, budget, seed)
        self.estimator = estimator
        self._chosen = _best_estimator(problem) if estimator is None else estimator
        check_choice("estimator", self._chosen, ESTIMATORS)
        self.phased = check_flag("phased", phased)
        if self.phased and self.budget < LEAST_BUDGET:
            raise InvalidArgument("budget", f"must be at least {LEAST_BUDGET} rows", budget)
        if self.phased and problem.outcome_range is None:
            raise InvalidArgument("phased", "must be False without an outcome_range", phased)
        if estimator == "cell":
            require_cell_estimator(problem)

    def _estimator(self) -> str:
        return self._chosen

    @property
    def _lengths(self) -> Sequence[int]:
        return phase_lengths(self.budget) if self.phased else [self.budget]

    def _shares(self) -> Floats:
        pairs = tuple(range(len(self.problem.value_pairs)))
        try:
            divergences(self.problem)
        except ModelError:
            return even_shares(self.problem)
        if len(pairs) > MOST_PAIRS:
            return even_shares(self.problem)
        return solve(self.problem, self._live, Wanted(True, pairs, True)).shares.ravel()

    def _judge(self) -> None:
        weighted = Weighted(self.problem, self._ledger.records(), self._chosen)
        level = int(self._phase) + 1
        if level < len(self._lengths):
            self._reject(weighted.means, weighted.gaps, level)
        means = np.where(self._live, weighted.means, np.nan)
        best, tie = best_fair(self.problem, means, weighted.gaps)
        self._leader = NO_FAIR_ARM if best is None else best
        if level == len(self._lengths) or not self._live.any():
            self._decide(best, tie)

    def _reject(self, means: Floats, gaps: Floats, level: int) -> None:
        """Reject arms that are clearly unfair, or clearly worse than a clearly fair arm."""
        size = np.abs(gaps).max(axis=1, initial=0.0)
        bound, margin = self.problem.bound, fairness_margin(level)
        with np.errstate(invalid="ignore"):
            passed = self._live & (size < bound - margin)
            best = np.max(means[passed], initial=-np.inf)
            bad = means < best - quality_margin(level)
            self._live = self._live & ~(size > bound + margin) & ~bad

    def certificate(self, delta: float = 0.05) -> Estimates:
        """Return estimates and verdicts of all arms at level 1 - delta.

        They are only proven if exactly the planned rows arrived, without lost or unsolicited rows.

        Raises
        ------
        InvalidArgument
            If the budget is not used up yet.
        """
        if not self.stopped:
            raise InvalidArgument("budget", f"must be spent first; {self.told} rows are in")
        fixed = self.told == self.asked == self.budget and not self.phased
        records = self._ledger.records()
        found = contradictions(self.problem, records)
        result = estimate_records(
            self.problem, records, self._chosen, delta, fixed, contradicted=found
        )
        warn_of(result)
        return result


def _best_estimator(problem: Problem) -> str:
    try:
        require_cell_estimator(problem)
    except ModelError:
        return "sn"
    return "cell"
