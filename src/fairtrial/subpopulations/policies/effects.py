"""By how much the arms differ from the control, or from the leader."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.block_betting.effects import DifferenceInterval
from fairtrial.core.recommendation import Effect
from fairtrial.subpopulations.problem import Problem

__all__ = ["effects_of_arms"]

Floats = NDArray[np.float64]

Difference = Callable[[Floats], DifferenceInterval | None]
"""Return the difference of weighted cell means, given the weights, shape (K L,)."""


def effects_of_arms(
    problem: Problem, reference: int | None, difference: Difference
) -> tuple[Effect, ...]:
    """Return every other arm against one: all overall, then by group."""
    if reference is None:
        return ()
    return tuple(
        _effect(problem, arm, reference, group, weights, difference)
        for group, weights in _weightings(problem)
        for arm in range(len(problem.arms))
        if arm != reference
    )


def _weightings(problem: Problem) -> Iterator[tuple[str | None, Floats]]:
    """Yield what is compared: all groups together, then each, if there are several."""
    yield None, problem.shares
    if len(problem.groups) > 1:
        for index, group in enumerate(problem.groups):
            yield group, np.eye(len(problem.groups))[index]


def _effect(
    problem: Problem,
    arm: int,
    reference: int,
    group: str | None,
    weights: Floats,
    difference: Difference,
) -> Effect:
    target = np.zeros(problem.shape)
    target[arm], target[reference] = weights, -weights
    names = problem.arms[arm], problem.arms[reference], group
    found = difference(target.ravel())
    return Effect(*names) if found is None else Effect(*names, *found)
