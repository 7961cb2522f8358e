"""How many pulls an answer needs at least: the complexity T*, with certified bounds, and shares."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.complexity import Complexity, assumptions_of, positive_spread
from fairtrial.confidence.cutting_planes import best_shares
from fairtrial.core.keywords import named_arguments
from fairtrial.core.validation import check_instance, check_number
from fairtrial.errors import InvalidArgument
from fairtrial.subpopulations._kernels.model import CEILING, NO_CONTROL, Model
from fairtrial.subpopulations._kernels.pitfalls import NONE, empirical_best
from fairtrial.subpopulations._kernels.planning import cuts_at, fluid_start
from fairtrial.subpopulations._measured_planning import (
    MeasuredInstance,
    assumed_of_predictions,
    assumptions_of_measures,
    measured_instance,
    why_undecidable,
)
from fairtrial.subpopulations.environments import CellEnvironment, arrival_shares
from fairtrial.subpopulations.policies.units import control_of, limits_of
from fairtrial.subpopulations.problem import Problem

__all__ = ["Complexity", "complexity"]

Floats = NDArray[np.float64]

_ROUNDING = 1e-10
"""Differences below this, relative to the largest mean or floor, count as zero."""

_FEW_CELLS = 50
_FEW_STEPS, _MANY_STEPS = 1_000, 20_000
"""Steps towards the start shares of questions with few and with many cells. With few cells, cuts
are cheap and need no good start; with hundreds, each one is a large linear programme."""
_NEAR = 1.1
_LEAST_PART = 1e-9


@named_arguments
def complexity(
    environment: CellEnvironment, tol: float | None = None, arrivals: Any = None
) -> Complexity:
    """Return certified bounds on the complexity T* of the right answer, and its optimal shares.

    A rule that is wrong with probability at most delta needs at least
    ``T* kl(delta, 1 - delta)`` pulls on average, even if it knows the means.

    Parameters
    ----------
    environment : GaussianEnvironment, BernoulliEnvironment or ReplayEnvironment
        The problem, with the means and standard deviations that are assumed to be true. With
        `costs`, T* counts cost. With a tolerance it is the complexity of the answer that the
        policies give. A standard deviation of zero counts as 1e-7 of the largest.
    tol : float, optional
        Relative distance of the certified bounds to reach, in [1e-9, 1]. By default 1e-6 for up
        to 50 cells, 1e-3 for up to 500, and 1e-2 for more, which takes seconds at most. Very
        large or very ill-scaled problems may not reach it: see the bounds returned.
    arrivals : array-like of shape (L,) or mapping by group, optional
        Probabilities of the groups, if they arrive by themselves and only the arm is chosen; any
        non-negative numbers. The costs must then be equal. By default those of the environment,
        if it has any.

    Raises
    ------
    InvalidArgument
        If an argument has the wrong shape or value.

    Notes
    -----
    T* is computed for Gaussian rewards. For other rewards it is a yardstick, close to what the best
    rules need, but not a bound. If the environment states what predictions explain, T* is that of
    rules that know them: differences within a group have the variance that is left, and the mean
    prediction of a group, which limits of single arms need, is estimated from all its pulls. For
    rows of a table predictions are ignored, and `assumptions` says so.

    Source: Wu, Zheng, Zhu, "Best Arm Identification with Fairness Constraints on
    Subpopulations", eq. (5) to (8). Solved by cutting planes: each linear programme gives
    multipliers, and the upper bound on 2 / T* is computed from them again, so that it holds
    whatever the solver's tolerance.

    Examples
    --------
    >>> from fairtrial.subpopulations import GaussianEnvironment, Problem
    >>> problem = Problem(3, {"x": 0.2, "y": 0.3, "z": 0.5}, noise_std=1.0)
    >>> means = [[0.2, 0.6, 0.8], [0.4, 0.4, 0.3], [-0.2, 1.0, 1.5]]
    >>> found = complexity(GaussianEnvironment(problem, means))
    >>> found.answer, round(found.value, 3)
    ('0', 190.884)
    >>> found = complexity(GaussianEnvironment(problem, [[0.3] * 3] * 3))
    >>> found.value, found.allocation, found.reason
    (inf, None, "the arms '0' and '1' tie for best")
    """
    problem = check_instance("environment", environment, CellEnvironment).problem
    arrivals = environment.arrivals if arrivals is None else arrivals
    wanted = _default_tolerance(problem.n_actions) if tol is None else tol
    tolerance = check_number("tol", wanted, low=1e-9, high=1.0)
    instance: _Instance | MeasuredInstance = (
        measured_instance(environment, _check_arrivals(problem, arrivals))
        if problem.measures or environment.predicted_variances
        else _instance(environment, arrivals)
    )
    answer = None if instance.best < 0 else problem.arms[instance.best]
    assumes = (
        assumptions_of_measures(environment)
        if problem.measures
        else assumptions_of("normal rewards", problem.reward_range is not None)
    )
    assumes += assumed_of_predictions(environment)
    if problem.shape[0] == 1 and not problem.has_limits:
        any_shares = np.full(problem.shape, 1.0 / problem.n_actions)
        return Complexity(0.0, 0.0, 0.0, any_shares, answer, "", assumes)
    asked = instance if problem.measures else _instance(environment, arrivals)
    reason = _why_infinite(environment, asked)
    if reason:
        return Complexity(math.inf, math.inf, math.inf, None, answer, reason, assumes)
    closed = arrivals is None and not problem.refers_to_control
    if answer is None and closed and isinstance(instance, _Instance):
        lower, upper, shares = _closed_form_of_none(instance)
    else:
        lower, upper, shares = _cutting_planes(instance, tolerance)
    weights = shares / problem.costs
    weights /= weights.sum()
    weights.setflags(write=False)
    return Complexity(0.5 * (lower + upper), lower, upper, weights, answer, "", assumes)


def _default_tolerance(cells: int) -> float:
    return 1e-6 if cells <= _FEW_CELLS else 1e-3 if cells <= 500 else 1e-2


# --------------------------------------------------------------------------- the instance


class _Instance(NamedTuple):
    """Problem and means in units of the largest standard deviation; shares are of the cost.

    `totals`: the sums that the shares have, over all cells (one entry) or in each group.
    """

    model: Any
    means: Floats
    best: int
    totals: Floats

    def start(self, steps: int) -> Floats:
        """Return good shares, found in that many steps."""
        return np.asarray(fluid_start(*self, steps))

    def cuts(self, shares: Floats, factor: float) -> tuple[float, Floats]:
        """Return F, and the gradients of all pitfalls up to `factor` times F."""
        information, cuts = cuts_at(*self[:3], shares, factor)
        return float(information), np.asarray(cuts)

    @property
    def least(self) -> float:
        """The part of even shares to mix in.

        If a cell has no share, the rows of a rival that contain it have no derivative.
        """
        return 0.0 if self.model.control == NO_CONTROL else _LEAST_PART


def _instance(environment: CellEnvironment, arrivals: Any) -> _Instance:
    problem, stds = environment.problem, positive_spread(environment.cell_stds)
    signed = problem.sign * environment.cell_means
    unit = stds.max()
    model = Model(
        weights=problem.shares,
        limits=limits_of(problem) / unit,
        own_limits=limits_of(problem, problem.floor_tolerance) / unit,
        rival_limits=limits_of(problem, -problem.floor_tolerance) / unit,
        variances=(stds / unit) ** 2 * problem.costs,
        costs=problem.costs,
        active=np.ones(problem.shape),
        tolerance=problem.tolerance / unit,
        control=control_of(problem),
    )
    means = _on_limits(signed / unit, model.limits[: CEILING + 1])
    best = int(empirical_best(means, model.weights, model.limits))
    if problem.refers_to_control:
        named = environment.truth.best
        best = NONE if named is None else problem.arms.index(named)
    return _Instance(model, means, best, _check_arrivals(problem, arrivals))


def _check_arrivals(problem: Problem, arrivals: Any) -> Floats:
    if arrivals is None:
        return np.ones(1)
    shares = arrival_shares(problem, arrivals)
    if np.ptp(problem.costs) > 0.0:
        raise InvalidArgument("arrivals", "must be left out when the costs of cells differ")
    return shares


def _on_limits(means: Floats, limits: Floats) -> Floats:
    """Move means that differ from their limits only by rounding onto these limits."""
    rounding = _rounding(means, limits)
    for end in limits:
        means = np.where(np.abs(means - end) <= rounding, end, means)
    return means


def _rounding(means: Floats, limits: Floats) -> float:
    largest = np.abs(limits[np.isfinite(limits)]).max(initial=0.0)
    return float(_ROUNDING * max(np.abs(means).max(), largest))


# ------------------------------------------------------------------ when no number suffices


def _why_infinite(environment: CellEnvironment, instance: _Instance | MeasuredInstance) -> str:
    problem = environment.problem
    if isinstance(instance, MeasuredInstance):
        return why_undecidable(environment) or _group_that_never_comes(problem, instance)
    return (
        _limit_exactly_met(problem, instance)
        or _difference_exactly_met(environment, instance)
        or _tie(environment, instance)
        or _group_that_never_comes(problem, instance)
    )


def _limit_exactly_met(problem: Problem, instance: _Instance) -> str:
    model, means, best, _ = instance
    if best < 0:
        return ""
    margins = np.abs(means[best] - model.own_limits[: CEILING + 1, best])
    met = np.argwhere(margins <= _rounding(means, model.limits))
    if not met.size:
        return ""
    end, group = map(int, met[0])
    limit = "floor" if (end == 0) == (problem.sign > 0) else "ceiling"
    return (
        f"the mean of the best arm {problem.arms[best]!r} is exactly on its {limit} "
        f"in group {problem.groups[group]!r}"
    )


def _difference_exactly_met(environment: CellEnvironment, instance: _Instance) -> str:
    problem, best = environment.problem, instance.best
    if best < 0 or not problem.refers_to_control:
        return ""
    spare = problem.floor_tolerance
    above = problem.above_control(problem.sign * environment.cell_means, spare)
    met = np.argwhere(above[:, best] == problem.differences(spare)[:, best])
    if not met.size:
        return ""
    overall, group = map(int, met[0])
    where = "overall" if overall else f"in group {problem.groups[group]!r}"
    return (
        f"the best arm {problem.arms[best]!r} is exactly as far from the control "
        f"{problem.control!r} as it may be, {where}"
    )


def _tie(environment: CellEnvironment, instance: _Instance) -> str:
    model, means, best, _ = instance
    if best < 0:
        return ""
    problem = environment.problem
    quality = means @ model.weights
    floors, ceilings = model.rival_limits[: CEILING + 1]
    tied = ((means >= floors) & (means <= ceilings)).all(axis=1)
    if problem.refers_to_control:
        tied &= problem.within(environment.cell_means, -problem.floor_tolerance)
    tied &= quality[best] + model.tolerance - quality <= _rounding(means, model.limits)
    tied[best] = False
    if not tied.any():
        return ""
    rival = problem.arms[int(np.argmax(tied))]
    return f"the arms {problem.arms[best]!r} and {rival!r} tie for best"


def _group_that_never_comes(problem: Problem, instance: _Instance | MeasuredInstance) -> str:
    if instance.totals.all():
        return ""
    information, _ = instance.cuts(instance.start(1), _NEAR)
    if information > 0.0:
        return ""
    missing = [
        repr(group)
        for group, total in zip(problem.groups, instance.totals, strict=True)
        if total == 0.0
    ]
    return f"the answer depends on a group that never arrives: {', '.join(missing)}"


# ----------------------------------------------------------------------------- the solution


def _closed_form_of_none(instance: _Instance) -> tuple[float, float, Floats]:
    """No arm is feasible: for each, only the limit that it breaks most clearly matters."""
    model, means = instance.model, instance.means
    floors, ceilings = model.rival_limits
    outside = np.maximum(np.maximum(floors - means, means - ceilings), 0.0)
    gain = outside**2 / model.variances
    arms, clearest = np.arange(len(gain)), gain.argmax(axis=1)
    effort = 1.0 / gain[arms, clearest]
    shares = np.zeros_like(gain)
    shares[arms, clearest] = effort / effort.sum()
    needed = 2.0 * float(effort.sum())
    return needed, needed, shares


def _cutting_planes(
    instance: _Instance | MeasuredInstance, tol: float
) -> tuple[float, float, Floats]:
    """Return certified bounds on T*, and the shares that attain the upper one."""
    cells = math.prod(instance.means.shape[:2])
    start = instance.start(_FEW_STEPS if cells <= _FEW_CELLS else _MANY_STEPS)
    return best_shares(
        lambda shares: instance.cuts(shares, _NEAR), start, instance.totals, tol, instance.least
    )
