"""What the usual tests against a control, and of limits, are about in this family."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.intersection_union import ArmTests, Contrasts
from fairtrial.subpopulations.environments import CellEnvironment, arrival_shares
from fairtrial.subpopulations.problem import Problem

__all__ = ["contrasts"]

Floats = NDArray[np.float64]

Row = tuple[Floats, Floats, float]
"""Weights of an arm's means, weights of the control's, shape (L, M), and what must be exceeded."""


def contrasts(environment: CellEnvironment, control: str | None) -> Contrasts:
    """Return what must be shown of each arm, and what is true of it.

    With a control: that it is better overall, and keeps each of its limits. Without: that it keeps
    them. The patients of every arm belong to the groups in the proportions in which these arrive,
    by default those of the overall mean.
    """
    problem = environment.problem
    base = None if control is None else problem.arms.index(control)
    others = [arm for arm in range(len(problem.arms)) if arm != base]
    takers = others if base is None else [base, *others]
    arrivals = environment.arrivals
    return Contrasts(
        arms=tuple(problem.arms[arm] for arm in others),
        tests=tuple(ArmTests.together(list(_rows_of(problem, arm, base))) for arm in others),
        means=environment.cell_means.reshape(*problem.shape, -1)[takers],
        covariances=environment.cell_covariances[takers],
        shares=problem.shares if arrivals is None else arrival_shares(problem, arrivals),
    )


def _rows_of(problem: Problem, arm: int, base: int | None) -> Iterator[Row]:
    """Yield the overall mean of an arm, and its limits that can be missed."""
    weights = problem.objective_weights
    quality = problem.sign * np.outer(problem.shares, np.ones(1) if weights is None else weights)
    yield (quality, 0.0 * quality, -np.inf) if base is None else (quality, quality, 0.0)
    yield from (
        _rows_of_rewards(problem, arm) if weights is None else _rows_of_measures(problem, arm)
    )


def _rows_of_rewards(problem: Problem, arm: int) -> Iterator[Row]:
    """Yield the limits of an arm where a result is one number."""
    groups = problem.sign * np.eye(len(problem.groups))[..., np.newaxis]
    floors, ceilings = problem.limits_that_can_be_missed()[:, arm]
    for own, floor, ceiling, least in zip(
        groups, floors, ceilings, problem.differences()[0, arm], strict=True
    ):
        if np.isfinite(floor):
            yield own, 0.0 * own, float(floor)
        if np.isfinite(ceiling):
            yield -own, 0.0 * own, -float(ceiling)
        if np.isfinite(least):
            yield own, own, float(least)
    superiority = float(problem.differences()[1, arm, 0])
    if np.isfinite(superiority):
        overall = problem.sign * problem.shares[:, np.newaxis]
        yield overall, overall, superiority


def _rows_of_measures(problem: Problem, arm: int) -> Iterator[Row]:
    """Yield the limits of an arm on its measures."""
    for row in problem.limit_rows:
        if problem.can_be_missed(row, arm):
            side = 1.0 if row.is_floor else -1.0
            groups = problem.shares if row.group is None else np.eye(len(problem.groups))[row.group]
            own = side * np.outer(groups, row.weights)
            control = 0.0 * own if row.control is None else own
            yield own, control, side * float(row.bounds[arm])
