"""The information in shares of the pulls on everything that an answer with limits depends on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fairtrial.linear._kernels.limited_planning import cuts_with_limits
from fairtrial.linear._units import Units
from fairtrial.linear.problem import Problem

__all__ = ["best_within_limits", "looked_at"]

Floats = NDArray[np.float64]
Look = Callable[[Floats], tuple[float, Floats, Floats]]

_NEAR = 1.1
"""Comparisons with up to this many times the information of the hardest are included."""


def best_within_limits(problem: Problem, theta: Floats) -> int | None:
    """Return the best candidate that keeps its limits at theta; None if there is none."""
    values, kept = problem.sign * problem.values(theta), problem.feasible(theta)
    return int(np.argmax(np.where(kept, values, -np.inf))) if kept.any() else None


def looked_at(problem: Problem, theta: Floats, best: int | None) -> Look:
    """Return a function of shares of the pulls, shape (K, 1).

    It returns their information on the hardest comparison; the derivatives of this one and of those
    nearly as hard, shape (n, K, 1); and the directions that decide them, in the reduced coordinates
    and divided by their effects, shape (n, r).
    """
    units = Units(problem)
    model, limits = units.model, units.limits(0.0)
    answer = len(limits.excluded) if best is None else int(problem.group_of[best])
    means = problem.sign * (problem.features @ theta) / problem.scale
    phi = np.asarray(np.linalg.lstsq(problem.reduced.arms, means, rcond=None)[0])

    def look(shares: Floats) -> tuple[float, Floats, Floats]:
        flat = np.ascontiguousarray(shares[:, 0])
        found: tuple[float, Floats, Floats] = cuts_with_limits(
            model, limits, units.tolerance, answer, phi, flat, _NEAR
        )
        return found

    return look
