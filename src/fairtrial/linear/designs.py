"""Optimal shares of the pulls: G-optimal, XY-optimal and oracle designs, with certificates."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.core.documentation import documented_by
from fairtrial.core.keywords import named_arguments
from fairtrial.core.validation import check_array, check_instance, check_integer, check_number
from fairtrial.errors import FairtrialError, InvalidArgument
from fairtrial.linear._kernels.designs import (
    Metric,
    MinMaxSolver,
    PairSearch,
    Search,
    g_design,
    span,
)
from fairtrial.linear.problem import Problem

__all__ = [
    "Design",
    "DesignNotConverged",
    "g_optimal_design",
    "oracle_design",
    "round_design",
    "xy_optimal_design",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_NEGLIGIBLE = (1e-6, 1e-8, 0.0)
"""Thresholds for leaving out small shares: the first that keeps the design within `tol`."""

_RESIDUAL = 1e-9
_ROUNDING = 1e-12
_MOST_ROUNDS = 200


class DesignNotConverged(FairtrialError, RuntimeError):
    """A design that was required to be within `tol` is not; its bounds are attributes."""

    def __init__(self, lower: float, value: float, tol: float) -> None:
        self.lower, self.value, self.tol = lower, value, tol
        super().__init__(
            f"the design is certified within {value / lower - 1.0:.2g} only, not {tol:g}: "
            f"its value is {value:.10g}, and no design goes below {lower:.10g}"
        )

    def __reduce__(self) -> tuple[type[DesignNotConverged], tuple[float, float, float]]:
        return type(self), (self.lower, self.value, self.tol)


@dataclass(frozen=True, eq=False)
class Design:
    """Shares of the pulls, the variance that they give, and a bound for any shares.

    Attributes
    ----------
    weights : ndarray of shape (K,)
        Share of every arm; the sum is one. Among equal arms, the first has the share.
    value : float
        The criterion at these weights: the largest variance that remains after one pull, divided
        by these shares; in units in which every arm has unit noise.
    lower : float
        Certified lower bound: no weights have a smaller value.
    essential : tuple of int
        Arms with a share below 1e-6 that are necessary to measure something at all.
    """

    weights: Floats
    value: float
    lower: float
    essential: tuple[int, ...] = ()

    @property
    def gap(self) -> float:
        """Certified relative distance from the optimum."""
        return self.value / self.lower - 1.0 if self.lower > 0.0 else 0.0

    @property
    def support(self) -> Integers:
        """Arms with a share."""
        return np.flatnonzero(self.weights)


@named_arguments
def g_optimal_design(
    problem: Problem, tol: float = 1e-4, max_seconds: float | None = None, require: bool = False
) -> Design:
    """Return the design that minimises the variance of the worst measured arm.

    It minimises the largest ``x' L^-1 x`` over arms, where ``L`` is the sum of
    ``weights[k] x_k x_k'`` and every x is divided by its noise scale. The optimum is exactly the
    rank of the features, and the design is also D-optimal. It measures every difference of two
    arms within four times the rank.

    Parameters
    ----------
    problem : Problem
        The problem.
    tol : float
        Relative distance from the optimum to reach.
    max_seconds : float, optional
        Time after which to stop early. The result then depends on the speed of the machine.
    require : bool
        Whether to raise if `tol` is not reached; otherwise see the design's `gap`.

    Raises
    ------
    DesignNotConverged
        If `tol` is not reached and `require` is set.

    Notes
    -----
    Source: Kiefer, Wolfowitz (1960), "The equivalence of two extremum problems"; solved by
    exchanges with away steps on a growing set of arms: Todd, Yildirim (2007), "On Khachiyan's
    algorithm for the computation of minimum-volume enclosing ellipsoids".

    Examples
    --------
    >>> design = g_optimal_design(Problem([[1, 0], [0, 1], [0.5, 0.5]], noise_std=1.0))
    >>> design.weights.tolist(), round(design.value, 6)
    ([0.5, 0.5, 0.0], 2.0)
    """
    goal = _goal(problem, tol, max_seconds, require)
    arms = problem.reduced.arms[problem.distinct_arms]
    if problem.rank == 0:
        return _nothing_to_measure(problem)
    shares, _ = g_design(arms, _start(problem), goal.tol, _MOST_ROUNDS, goal.deadline)
    return _finished(problem, shares, Search(arms), float(problem.rank), goal)


@documented_by(g_optimal_design)
@named_arguments
def xy_optimal_design(
    problem: Problem,
    candidates: ArrayLike | None = None,
    tol: float = 1e-6,
    max_seconds: float | None = None,
    require: bool = False,
) -> Design:
    """Return the design that minimises the variance of the worst measured difference.

    It minimises the largest ``y' L^-1 y`` over all differences y of candidates, where ``L`` is
    the sum of ``weights[k] x_k x_k'`` and every x is divided by its noise scale.

    Parameters
    ----------
    candidates : array-like of int, optional
        Indices of the candidates to compare: those still in the race; by default all.

    Raises
    ------
    DesignNotConverged
        If `tol` is not reached and `require` is set.

    Notes
    -----
    Source: Soare, Lazaric, Munos (2014), section 4. Memory grows with the number of
    candidates, not of their pairs; time grows with the pairs.

    Examples
    --------
    >>> design = xy_optimal_design(Problem([[1.0, 0.1], [1.0, -0.1]], noise_std=1.0))
    >>> design.weights.round(6).tolist(), round(design.value, 6)
    ([0.5, 0.5], 4.0)
    """
    goal = _goal(problem, tol, max_seconds, require)
    design = _reduced_xy_design(problem, _chosen(problem, candidates), goal)
    with np.errstate(over="ignore", under="ignore"):
        square = float(np.square(problem.reduced.unit))
    return replace(design, value=square * design.value, lower=square * design.lower)


def reduced_xy_design(problem: Problem, candidates: Integers, tol: float) -> Design:
    """Return the XY design for some distinct candidates, by position in the reduced problem.

    Its value is in the units of the reduced problem.
    """
    return _reduced_xy_design(problem, candidates, _goal(problem, tol, None, False))


def _reduced_xy_design(problem: Problem, candidates: Integers, goal: _Goal) -> Design:
    return _min_max(problem, problem.reduced.candidates[candidates], True, goal)


@documented_by(g_optimal_design)
@named_arguments
def oracle_design(
    problem: Problem,
    theta: ArrayLike,
    tol: float = 1e-6,
    max_seconds: float | None = None,
    require: bool = False,
) -> Design:
    """Return the design that distinguishes the best candidate from all others with fewest pulls.

    It minimises the largest ``y' L^-1 y / gap^2`` over the differences y between the best
    candidate and another, and their gaps in value (plus `tolerance`). With `top` above 1
    these are all pairs of a candidate among the best and one that is not.

    Parameters
    ----------
    theta : array-like of shape (d,)
        The assumed parameter.

    Returns
    -------
    Design
        In units in which every arm has unit noise, ``2 * value`` is the complexity.

    Raises
    ------
    InvalidArgument
        If candidates tie for best: no number of pulls can distinguish them.
    DesignNotConverged
        If `tol` is not reached and `require` is set.

    Notes
    -----
    Source: Soare, Lazaric, Munos (2014), eq. (6).

    Examples
    --------
    >>> problem = Problem([[1, 0], [0, 1]], noise_std=1.0)
    >>> design = oracle_design(problem, [1.0, 0.5])
    >>> design.weights.round(6).tolist(), round(design.value, 4)
    ([0.5, 0.5], 16.0)
    """
    goal = _goal(problem, tol, max_seconds, require)
    contrasts = contrasts_at(problem, theta)
    if contrasts.tied:
        first, second = (problem.answers[index] for index in contrasts.tied)
        raise InvalidArgument("theta", f"must leave one best: {first!r} and {second!r} tie", theta)
    return _min_max(problem, contrasts.directions, False, goal)


# ----------------------------------------------------------------------------- arguments


class _Goal(NamedTuple):
    tol: float
    deadline: float
    require: bool


def _goal(problem: Problem, tol: float, max_seconds: float | None, require: bool) -> _Goal:
    check_instance("problem", problem, Problem)
    tolerance = check_number("tol", tol, low=1e-9, high=1.0)
    deadline = math.inf
    if max_seconds is not None:
        limit = check_number("max_seconds", max_seconds, low=0.0, open_low=True)
        deadline = time.monotonic() + limit
    return _Goal(tolerance, deadline, require)


def _chosen(problem: Problem, candidates: ArrayLike | None) -> Integers:
    """Return the positions of candidates among the distinct ones."""
    if candidates is None:
        return np.arange(len(problem.answer_groups))
    accepted = f"must be indices of candidates, 0 to {len(problem.answers) - 1}"
    given = np.asarray(candidates)
    if given.ndim != 1 or not given.size or given.dtype.kind not in "iu":
        raise InvalidArgument("candidates", accepted, candidates)
    if given.min() < 0 or given.max() >= len(problem.answers):
        raise InvalidArgument("candidates", accepted, candidates)
    return np.unique(problem.group_of[given])


class Contrasts(NamedTuple):
    """What must be distinguished at some theta.

    Attributes
    ----------
    best : tuple of int
        The best candidates, best first.
    tied : tuple of int
        Two candidates that no number of pulls could distinguish; otherwise empty.
    directions : ndarray of shape (m, r)
        Differences between a best candidate and another, over their gap plus the tolerance.
    """

    best: tuple[int, ...]
    tied: tuple[int, ...]
    directions: Floats


def contrasts_at(problem: Problem, theta: ArrayLike) -> Contrasts:
    """Return the best candidates at `theta`, and what distinguishes them from the others."""
    first = np.array([group[0] for group in problem.answer_groups])
    values = problem.sign * problem.values(theta)
    least = _ROUNDING * float(np.abs(values).max())
    return _contrasts(problem, values[first], problem.tolerance, least, problem.reduced.unit)


def _contrasts(
    problem: Problem, values: Floats, slack: float, least: float, unit: float
) -> Contrasts:
    """Return what distinguishes the best of the distinct candidates from the others.

    `slack` is added to every gap; `unit` converts a candidate's coordinates to values.
    """
    first = [group[0] for group in problem.answer_groups]
    order = np.argsort(-values, kind="stable")
    best, others = order[: problem.top], order[problem.top :]
    answer = tuple(first[index] for index in best)
    if not others.size:
        return Contrasts(answer, (), np.empty((0, problem.rank)))
    gaps = values[best][:, np.newaxis] - values[others] + slack
    if gaps[-1, 0] <= least:
        return Contrasts(answer, (answer[-1], first[others[0]]), np.empty((0, problem.rank)))
    points, rest = problem.reduced.candidates, problem.reduced.rest
    differences = points[best][:, np.newaxis] - points[others]
    differences += rest[best][:, np.newaxis] - rest[others]
    directions = differences / (gaps / unit)[:, :, np.newaxis]
    return Contrasts(answer, (), directions.reshape(-1, problem.rank))


def plug_in_design(problem: Problem, phi: Floats, near: float, tol: float) -> Design:
    """Return the oracle design at an estimate in the reduced coordinates, rewards maximised.

    `near` is the part of the range of all values that is added to every gap.
    """
    reduced = problem.reduced
    values = (reduced.candidates + reduced.rest) @ phi
    width = float(values.max() - values.min())
    slack = near * width or 1.0
    slack += min(problem.tolerance / reduced.unit, 1e100) if problem.tolerance else 0.0
    # A power of two rounds nothing, so shares do not depend on the unit of rewards.
    unit = math.ldexp(1.0, math.frexp(max(width, slack))[1])
    contrasts = _contrasts(problem, values, slack, 0.0, unit)
    return _min_max(problem, contrasts.directions, False, _goal(problem, tol, None, False))


# ---------------------------------------------------------------------------- results


def _nothing_to_measure(problem: Problem) -> Design:
    """Return equal shares: every design is as good as any other."""
    number = len(problem.arms)
    return Design(_read_only(np.full(number, 1.0 / number)), 0.0, 0.0)


def _finished(
    problem: Problem, shares: Floats, search: Search, lower: float, goal: _Goal
) -> Design:
    """Leave out negligible shares, and compute the rest to full accuracy."""
    arms = problem.reduced.arms[problem.distinct_arms]
    clear = _needed(arms, shares, search.span(), _NEGLIGIBLE[0])
    for negligible in _NEGLIGIBLE:
        kept = clear | ((shares >= negligible) & (shares > 0.0))
        left = np.where(kept, shares, 0.0)
        left /= left.sum()
        value = search.largest(Metric(arms, left))
        if value <= lower * (1.0 + goal.tol):
            break
    weights = np.zeros(len(problem.arms))
    weights[problem.distinct_arms] = left
    essential = problem.distinct_arms[clear & (left < _NEGLIGIBLE[0])]
    bounds = max(value, lower), min(value, lower)
    design = Design(_read_only(weights), *bounds, tuple(essential.tolist()))
    if goal.require and design.gap > goal.tol:
        raise DesignNotConverged(design.lower, design.value, goal.tol)
    return design


def _read_only(weights: Floats) -> Floats:
    weights.setflags(write=False)
    return weights


def _needed(arms: Floats, shares: Floats, wanted: Floats, negligible: float) -> NDArray[np.bool_]:
    """Return the arms whose shares are not negligible, or that `wanted` rows depend on."""
    kept = shares >= negligible
    basis = span(arms[kept])
    scale = float(np.abs(wanted).max())
    for arm in np.argsort(-np.where(kept, 0.0, shares), kind="stable"):
        outside = wanted - (wanted @ basis) @ basis.T
        if np.abs(outside).max() <= _RESIDUAL * scale:
            break
        if not kept[arm] and np.abs(outside @ arms[arm]).max() > 0.0:
            kept[arm] = True
            basis = span(arms[kept])
    return kept


def _start(problem: Problem) -> Integers:
    """Return positions, among the distinct arms, of arms that span everything."""
    return np.searchsorted(problem.distinct_arms, np.sort(problem.basis_arms))


def _min_max(problem: Problem, points: Floats, pairs: bool, goal: _Goal) -> Design:
    if not len(points) or (pairs and len(points) == 1):
        return _nothing_to_measure(problem)
    arms = problem.reduced.arms[problem.distinct_arms]
    search = PairSearch(points) if pairs else Search(points)
    solver = MinMaxSolver(arms, _start(problem), search, goal.deadline)
    solver.run(goal.tol, _MOST_ROUNDS)
    return _finished(problem, solver.best, search, solver.lower, goal)


# ------------------------------------------------------------------------------------ rounding


@named_arguments
def round_design(design: Design | ArrayLike, n: int) -> NDArray[np.int64]:
    """Return the whole numbers of pulls that come closest to a design, `n` in total.

    Parameters
    ----------
    design : Design or array-like of shape (K,)
        The design, or shares. Shares below 1e-6 of the sum are left out, unless they are
        essential to the design.
    n : int
        Total number of pulls: at least one for every arm with a share.

    Returns
    -------
    ndarray of int, shape (K,)
        At least 1 for every arm with a share. With p such arms, variances grow by a factor
        of at most ``n / (n - p + 1)`` compared with the exact shares.

    Raises
    ------
    InvalidArgument
        If `n` is smaller than the number of arms with a share, or the shares are not valid.

    Notes
    -----
    Source: Pukelsheim (2006), "Optimal design of experiments", section 12.

    Examples
    --------
    >>> round_design([0.5, 0.3, 0.2], 7).tolist()
    [3, 2, 2]
    """
    weights = _shares(design)
    support = np.flatnonzero(weights)
    shares = weights[support]
    total = check_integer("n", n, low=1)
    if total < support.size:
        raise InvalidArgument(
            "n",
            f"must be at least {support.size}, one pull per used arm (a design with a looser tol "
            "uses fewer)",
            n,
        )
    counts = np.ceil((total - 0.5 * support.size) * shares).astype(np.int64)
    counts = np.maximum(counts, 1)
    while counts.sum() < total:
        counts[np.argmin(counts / shares)] += 1
    while counts.sum() > total:
        counts[np.argmax((counts - 1) / shares)] -= 1
    pulls = np.zeros(weights.size, dtype=np.int64)
    pulls[support] = counts
    return pulls


def _shares(design: Design | ArrayLike) -> Floats:
    """Return shares without negligible ones; the sum is one."""
    weights = design.weights if isinstance(design, Design) else design
    given = check_array("design", weights, (None,), axes=("arms",))
    if not given.size or (given < 0.0).any() or given.sum() == 0.0:
        raise InvalidArgument("design", "must be non-negative shares, not all zero", design)
    kept = given >= _NEGLIGIBLE[0] * given.sum()
    if isinstance(design, Design):
        kept[list(design.essential)] = True
    return np.asarray(np.where(kept, given, 0.0) / given[kept].sum())
