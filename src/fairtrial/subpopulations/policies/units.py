"""A problem in the form that kernels read, and the assumptions that all rules share."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.data_unit import unit_after
from fairtrial.core.validation import index_of
from fairtrial.subpopulations._kernels.indices import ANY_GROUP
from fairtrial.subpopulations._kernels.model import NO_CONTROL, Model
from fairtrial.subpopulations.problem import Problem

__all__ = [
    "column_of",
    "control_of",
    "far_from_zero",
    "limits_of",
    "model_of",
    "needed_cells",
    "power_of_two",
    "unit_of",
]

Floats = NDArray[np.float64]

_FAR = 8.0
"""A range counts as far if its distance from zero is more than this many widths."""

_FARTHEST = 1e150
"""The largest size whose square is computed."""

_USUAL = 20
"""Scales within this many powers of two of 1 need no unit of their own."""


def unit_of(problem: Problem) -> float:
    """Return the unit of rewards in the kernels: 1 unless the rewards are tiny or huge.

    It is a power of two, so that nothing is rounded: decisions are the same in every unit. If the
    noise is estimated, the first reward can change it; see `Tracker.unit`.
    """
    if problem.estimates_noise:
        limits = np.abs([problem.limits(), problem.limits(problem.floor_tolerance)])
        finite = limits[np.isfinite(limits)]
        return unit_after(1.0, max(problem.tolerance, finite.max(initial=0.0)), is_first=True)
    return power_of_two(float(problem.scale.max()))


def power_of_two(scale: float) -> float:
    """Return a power of two that is near a scale; 1 if the scale is a usual one.

    Examples
    --------
    >>> power_of_two(0.3), power_of_two(1e9)
    (1.0, 1073741824.0)
    """
    exponent = round(math.log2(scale))
    return 1.0 if abs(exponent) <= _USUAL else 2.0**exponent


def far_from_zero(low: float, high: float) -> bool:
    """Return whether a range is so far from zero that its width would be lost in squares."""
    return min(abs(low), abs(high)) > _FAR * (high - low)


def needed_cells(problem: Problem) -> NDArray[np.bool_]:
    """Return which cells can matter, shape (K, L)."""
    matters = problem.shares > 0.0 if len(problem.arms) > 1 else np.zeros_like(problem.shares)
    return np.asarray(problem.constrained | (matters > 0.0))


def model_of(problem: Problem, informative_only: bool, unit: float | None = None) -> Model:
    """Return the problem in the form that kernels read.

    Parameters
    ----------
    problem : Problem
        The problem.
    informative_only : bool
        Whether cells that no answer depends on are left out.
    unit : float, optional
        The unit of rewards; by default `unit_of` the problem.
    """
    needed = np.ones(problem.shape, dtype=bool)
    if informative_only:
        needed = needed_cells(problem)
    unit = unit_of(problem) if unit is None else unit
    return Model(
        weights=np.array(problem.shares),
        limits=_divided(limits_of(problem), unit),
        own_limits=_divided(limits_of(problem, problem.floor_tolerance), unit),
        rival_limits=_divided(limits_of(problem, -problem.floor_tolerance), unit),
        variances=_variances_of(problem, unit),
        costs=np.array(problem.costs),
        active=needed.astype(np.float64),
        tolerance=float(_divided(problem.tolerance, unit)),
        control=control_of(problem),
    )


def _divided(values: Any, unit: float) -> Floats:
    """Return values in a unit; those that are too large for squares there are as far as can be."""
    with np.errstate(over="ignore"):
        found = np.clip(values / unit, -_FARTHEST, _FARTHEST)
    return np.asarray(np.where(np.isfinite(values), found, values))


def _variances_of(problem: Problem, unit: float) -> Floats:
    """Return the variances of rewards; 1 if they are to be estimated."""
    if problem.estimates_noise:
        return np.ones(problem.shape)
    return np.asarray((problem.scale / unit) ** 2)


def limits_of(problem: Problem, spare: float = 0.0) -> Floats:
    """Return all limits in the form that kernels read; limits against a control only if any."""
    own = problem.limits(spare)
    return np.concatenate([own, problem.differences(spare)]) if problem.refers_to_control else own


def control_of(problem: Problem) -> int:
    """Return the index of the arm that limits refer to."""
    if problem.control is None or not problem.refers_to_control:
        return NO_CONTROL
    return problem.arms.index(problem.control)


def column_of(problem: Problem, group: str | None) -> int:
    """Return the index of the group that arrived, if one did."""
    return ANY_GROUP if group is None else index_of("group", group, problem.groups)
