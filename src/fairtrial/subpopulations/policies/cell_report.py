"""What the rules of the family say of their results: the answer, estimates and effects."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.effects import (
    Difference,
    Ends,
    Spread,
    difference_from_sums,
    effects_of_arms,
    level_of_each,
)
from fairtrial.confidence.means import BlockMeans, Means, Settled, means_of
from fairtrial.core.fixed_confidence import Answers
from fairtrial.core.recommendation import Effect, Estimate
from fairtrial.core.wording import or_within
from fairtrial.subpopulations.problem import Problem

__all__ = [
    "NOTHING_YET",
    "ArmsWithLimits",
    "Cells",
    "difference_from_counted",
    "effect_level",
    "effects",
    "estimates",
    "targets_of_arms",
]

Floats = NDArray[np.float64]

NOTHING_YET = "not every cell that matters has a result yet"
"""Why there is no answer at first."""


class Cells(NamedTuple):
    """The results of all cells, in the units of the problem.

    Attributes
    ----------
    problem : Problem
        The problem.
    delta : float
        Probability of a wrong answer that is accepted.
    counts, sums : ndarray of shape (K, L)
        How many results there are, and their sums.
    scale : ndarray of shape (K, L)
        The scale of the noise.
    settled : Settled or None
        The results that count, if not all do.
    in_range : BlockMeans or None
        Finds means of results in a range from their blocks, if means are not those of `settled`.
    """

    problem: Problem
    delta: float
    counts: Floats
    sums: Floats
    scale: Floats
    settled: Settled | None = None
    in_range: BlockMeans | None = None

    @property
    def known(self) -> Settled:
        """The results that means and differences count."""
        return self.settled or Settled(self.counts, self.sums, np.zeros_like(self.counts))

    @property
    def plain(self) -> Means:
        """The means without intervals."""
        known = self.known
        return Means.so_far(known.counts, known.sums).or_so_far(self.counts, self.sums)


class ArmsWithLimits(Answers):
    """The best arm that keeps its limits, by its number; K stands for "no arm"."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem

    def label(self, answer: int) -> str | None:
        """Return the label of an arm; None for "no arm"."""
        arms = self._problem.arms
        return None if answer == len(arms) else arms[answer]

    @property
    def no_arm(self) -> str:
        """In words, why no arm leads."""
        if not self._problem.can_exclude:
            return "no arm leads"
        if self._problem.usual_floor:
            return f"no arm has {self._problem.usual_floor}"
        return f"no arm keeps all its {self._limits}"

    def finding(self, label: str | None) -> str:
        """Return in words what there is enough evidence for."""
        spare = self._problem.floor_tolerance
        if label is None:
            return self.no_arm + (f" by {spare:g}" if spare else "")
        near = or_within(self._problem.tolerance, "the best")
        if not self._problem.can_exclude:
            return f"{label!r} is the best arm{near}"
        if self._problem.usual_floor:
            within = f" (to within {spare:g})" if spare else ""
            return f"{label!r} is the best arm with {self._problem.usual_floor}{within}{near}"
        kept = f"keeps all its {self._limits}" + (f" to within {spare:g}" if spare else "")
        return f"{label!r} is the best arm that {kept}{near}"

    @property
    def _limits(self) -> str:
        problem = self._problem
        if problem.measures or problem.refers_to_control:
            return "limits"
        return "limits" if np.isfinite(problem.ceilings).any() else "floors"


# ----------------------------------------------------------------------------- effects


def effects(
    problem: Problem, answer: int | None, difference: Difference
) -> Callable[[], tuple[Effect, ...]]:
    """Return a function that computes all effects with a function for one difference."""
    reference = _reference(problem, answer)
    if reference is None:
        return tuple
    weights: dict[str | None, Floats] = {None: problem.shares}
    if len(problem.groups) > 1:
        weights |= zip(problem.groups, np.eye(len(problem.groups)), strict=True)
    limits = _limits_of_effects(problem)
    return partial(effects_of_arms, problem.arms, reference, weights, difference, limits)


def difference_from_counted(cells: Cells, spread: Spread) -> Difference:
    """Return a function that estimates a difference from the results that means count."""
    known = cells.known
    return partial(
        difference_from_sums,
        known.counts.ravel().copy(),
        known.sums.ravel(),
        spread=spread,
        level=effect_level(cells.problem, cells.delta),
        missing=known.missing.ravel(),
    )


def effect_level(problem: Problem, delta: float) -> float:
    """Return the error probability of each effect."""
    return level_of_each(delta, len(problem.arms), has_control=problem.control is not None)


def _reference(problem: Problem, answer: int | None) -> int | None:
    """Return the arm that the others are compared with: the control, or else the leader."""
    if problem.control is not None:
        return problem.arms.index(problem.control)
    return None if answer == len(problem.arms) else answer


def _limits_of_effects(problem: Problem) -> dict[tuple[str, str | None], Ends]:
    """Return by arm and group the ends that the difference from the control must stay between."""
    if problem.measured is not None:
        # These differences are of the objective; the limits of all measures are shown together.
        return {}
    in_groups, overall = problem.differences()
    found: dict[tuple[str, str | None], Ends] = {}
    for k, arm in enumerate(problem.arms):
        for group, least in (
            (None, overall[k, 0]),
            *zip(problem.groups, in_groups[k], strict=True),
        ):
            if math.isfinite(least):
                limit = float(problem.sign * least)
                found[arm, group] = (limit, None) if problem.sign > 0 else (None, limit)
    if len(problem.groups) == 1:
        # If there is only one group, its limits also hold overall.
        for arm in problem.arms:
            if (arm, problem.groups[0]) in found:
                found.setdefault((arm, None), found[arm, problem.groups[0]])
    return found


# --------------------------------------------------------------------------- estimates


def estimates(cells: Cells) -> tuple[tuple[Estimate, ...], tuple[Estimate, ...]]:
    """Return an estimate of the mean of every cell, and one of every arm."""
    return _cell_estimates(cells), _arm_estimates(cells)


def _cell_estimates(cells: Cells) -> tuple[Estimate, ...]:
    problem = cells.problem
    found = _means(cells, cells.delta).within(problem.reward_range)
    so_far = Means.so_far(cells.counts, cells.sums)
    limits = problem.floors, problem.ceilings
    lower_limits, upper_limits = limits if problem.sign > 0 else limits[::-1]
    least, most = problem.reward_range or (-math.inf, math.inf)
    estimates = []
    for action, labels in enumerate(problem.action_labels):
        place = divmod(action, len(problem.groups))
        mean, lower, upper = found.at(place)
        estimates.append(
            Estimate(
                labels=labels,
                pulls=int(cells.counts[place]),
                mean=mean,
                lower=lower,
                upper=upper,
                # A limit that no mean can miss, such as a floor of 0 for conversions, is none.
                lower_limit=_limit(lower_limits[place], lower_limits[place] > least),
                upper_limit=_limit(upper_limits[place], upper_limits[place] < most),
                counted=None if cells.settled is None else int(cells.settled.counts[place]),
                mean_of_all=so_far.at(place)[0],
            )
        )
    return tuple(estimates)


def _arm_estimates(cells: Cells) -> tuple[Estimate, ...]:
    problem, settled = cells.problem, cells.settled
    found = _weighted_means(cells).within(problem.reward_range)
    so_far = Means.so_far(cells.counts, cells.sums).weighted(problem.shares)
    return tuple(
        Estimate(
            {"arm": arm},
            int(cells.counts[k].sum()),
            *found.at(k),
            counted=None if settled is None else int(settled.counts[k].sum()),
            mean_of_all=so_far.at(k)[0],
        )
        for k, arm in enumerate(problem.arms)
    )


def _means(cells: Cells, level: float) -> Means:
    if cells.in_range is not None:
        found = cells.in_range.of_each(level).reshaped(cells.counts.shape)
        return found.around(cells.plain.mean)
    found = means_of(cells.known, cells.scale, level, cells.problem.reward_range)
    return found.or_so_far(cells.counts, cells.sums)


def _weighted_means(cells: Cells) -> Means:
    """Return the mean of each arm over all groups."""
    shares = cells.problem.shares
    if cells.in_range is None:
        return _means(cells, cells.delta / len(shares)).weighted(shares)
    found = cells.in_range.of(targets_of_arms(cells.problem), cells.delta)
    return found.around(cells.plain.weighted(shares).mean)


def targets_of_arms(problem: Problem) -> Floats:
    """Return for each arm the weight of every action in its mean over all groups."""
    return np.kron(np.eye(len(problem.arms)), problem.shares).astype(np.float64)


def _limit(bound: float, can_be_missed: np.bool_) -> float | None:
    """Return a bound on a mean; None if there is none, or no mean in the range can miss it."""
    return float(bound) if math.isfinite(bound) and can_be_missed else None
