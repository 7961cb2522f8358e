"""What may be true instead of the assumed means."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.environment import Environment
from fairtrial.core.scenario import Scenario
from fairtrial.core.shifted_rows import shifted_rows
from fairtrial.core.validation import index_of
from fairtrial.errors import InvalidArgument
from fairtrial.subpopulations.environments import (
    BernoulliEnvironment,
    CellEnvironment,
    ReplayEnvironment,
)
from fairtrial.subpopulations.limits import LimitRow

__all__ = ["at_effect", "harms", "values", "with_means"]

Floats = NDArray[np.float64]

_JUST = 0.1
"""How far "just beyond" a limit is, relative to the assumed distance within it."""

_LEAST_OF_SPREAD = 0.01

_CEILING = 1


def values(environment: Environment) -> dict[str, float]:
    """Return the true quality of every arm."""
    problem: Any = environment.problem
    quality = problem.quality(environment.truth.means)
    return dict(zip(problem.arms, quality.tolist(), strict=True))


def at_effect(environment: CellEnvironment, effect: float, control: str | None) -> CellEnvironment:
    """Return the environment in which all differences from the control are multiplied by `effect`.

    Without a control it is the worst of the acceptable arms, or of all arms if none is acceptable.
    """
    means, arm = environment.cell_means, _control(environment, control)
    if effect == 0.0 and isinstance(environment, ReplayEnvironment):
        return environment.with_rows_of(arm)
    return with_means(environment, means[arm] + effect * (means - means[arm]))


def _control(environment: CellEnvironment, control: str | None) -> int:
    problem = environment.problem
    if control is not None:
        return index_of("control", control, problem.arms)
    quality = problem.sign * problem.quality(environment.cell_means)
    kept = problem.feasible(environment.cell_means)
    return int(np.argmin(np.where(kept, quality, np.inf) if kept.any() else quality))


def with_means(environment: CellEnvironment, means: Any) -> CellEnvironment:
    """Return the environment with other means; the rows of a table are shifted.

    `means` has a form that `Problem.check_means` accepts.
    """
    problem = environment.problem
    means = problem.check_means(means)
    if isinstance(environment, BernoulliEnvironment):
        return environment.with_means(means)
    if not isinstance(environment, ReplayEnvironment):
        return environment.clone(means=means)
    rows = environment.rows
    if problem.measured is not None or environment.predictions:
        return environment.with_rows(_shifted(environment, means))
    names = [f"means[{', '.join(labels.values())}]" for labels in problem.action_labels]
    given = zip(names, rows, means.ravel().tolist(), strict=True)
    return environment.with_rows(
        [shifted_rows(name, own, mean, problem.reward_range) for name, own, mean in given]
    )


def _shifted(environment: ReplayEnvironment, means: Floats) -> list[Floats]:
    """Return rows with other means, shifted as a whole, so that values of a row stay together.

    Raises
    ------
    InvalidArgument
        If a value would leave its range.
    """
    problem, found = environment.problem, []
    ranges = np.broadcast_to([-np.inf, np.inf], (max(1, len(problem.measures)), 2))
    if problem.measure_ranges is not None:
        ranges = problem.measure_ranges
    elif problem.reward_range is not None:
        ranges = np.array([problem.reward_range])
    wanted = means.reshape(problem.n_actions, -1)
    for action, (own, mean) in enumerate(zip(environment.rows, wanted, strict=True)):
        moved = own + (mean - np.nanmean(own, axis=0))
        if (moved < ranges[:, 0]).any() or (moved > ranges[:, 1]).any():
            name = f"means[{', '.join(problem.labels(action).values())}]"
            accepted = "must keep shifted rows, with all that belongs to them, in their ranges"
            raise InvalidArgument(name, accepted, mean.tolist())
        found.append(np.where(np.isnan(own), own, moved))
    return found


def harms(environment: CellEnvironment) -> Iterator[Scenario]:
    """Yield the scenarios in which the assumed answer would do harm."""
    problem, best = environment.problem, environment.truth.best
    if best is None:
        return
    if problem.measured is not None:
        yield from _harms_of_measures(environment, problem.arms.index(best))
        return
    arm = problem.arms.index(best)
    group, *_ = _closest_limit(environment, arm)
    if group is not None:
        where = f"in group {problem.groups[group]!r}" if len(problem.groups) > 1 else "everywhere"
        why = f"{best!r} is just beyond its limit {where}: naming it would be harmful"
        yield from _beyond("one group harmed", why, environment, [arm], [_JUST])
    accepted = np.flatnonzero(problem.within(environment.cell_means, problem.floor_tolerance))
    why = "Every arm is beyond a limit: the right answer is that no arm is acceptable"
    yield from _beyond("none acceptable", why, environment, accepted.tolist(), [1.0, _JUST])


def _harms_of_measures(environment: CellEnvironment, best: int) -> Iterator[Scenario]:
    """Yield the scenarios in which the answer, or every acceptable arm, breaks a limit."""
    problem = environment.problem
    why = f"{problem.arms[best]!r} is just beyond its limit of "
    row = _closest_row(environment, best)
    if row is not None:
        why += f"{problem.name_of(row)}: naming it would be harmful"
        yield from _beyond_rows("one group harmed", why, environment, [best], [_JUST])
    accepted = np.flatnonzero(problem.feasible(environment.cell_means)).tolist()
    why = "Every arm is beyond a limit: the right answer is that no arm is acceptable"
    if all(_closest_row(environment, arm) is not None for arm in accepted):
        yield from _beyond_rows("none acceptable", why, environment, accepted, [1.0, _JUST])


def _closest_row(environment: CellEnvironment, arm: int) -> LimitRow | None:
    """Return the limit that an arm is closest to, in standard deviations; None without limits."""
    problem = environment.problem
    closest: tuple[float, LimitRow | None] = (math.inf, None)
    for row in problem.limit_rows:
        distance = row.distances(environment.cell_means, problem.shares)[arm]
        relative = float(distance / _spread_of(environment, row, arm))
        if relative < closest[0]:
            closest = relative, row
    return closest[1]


def _spread_of(environment: CellEnvironment, row: LimitRow, arm: int) -> float:
    variances = row.variances(environment.cell_covariances)
    of_arm = variances[arm] if row.control is None else variances[arm] + variances[row.control]
    own = of_arm @ environment.problem.shares if row.group is None else of_arm[row.group]
    return max(math.sqrt(own), np.finfo(float).tiny)


def _beyond_rows(
    name: str, why: str, environment: CellEnvironment, arms: list[int], factors: list[float]
) -> Iterator[Scenario]:
    """Yield the scenario in which each of these arms is beyond its closest limit."""
    problem = environment.problem
    for factor in factors:
        means = environment.cell_means.copy()
        # A control comes first, because limits of the others may refer to it.
        for arm in sorted(arms, key=lambda one: problem.arms[one] != problem.control):
            row = _closest_row(environment, arm)
            assert row is not None, "arms without limits are not moved"
            distance = row.distances(means, problem.shares)[arm]
            beyond = max(factor * distance, _LEAST_OF_SPREAD * _spread_of(environment, row, arm))
            step = (distance + beyond) * (-1.0 if row.is_floor else 1.0)
            means[arm] += _moves(environment, row, arm, means[arm], step)
        with suppress(InvalidArgument):
            yield Scenario(name, with_means(environment, means), why)
            return


def _moves(
    environment: CellEnvironment, row: LimitRow, arm: int, means: Floats, step: float
) -> Floats:
    """Return how an arm's means move, shape (L, M), so that what a limit is on moves by a step.

    If it consists of several measures, each moves in proportion to its variance and its weight,
    which does not depend on units. Where a range ends, the others move further.
    """
    problem = environment.problem
    shares = problem.shares if row.group is None else np.eye(problem.shape[1])[row.group]
    part = shares[:, np.newaxis] * row.weights
    variances = shares @ np.diagonal(environment.cell_covariances[arm], axis1=1, axis2=2)
    variances = np.where(row.weights == 0.0, 0.0, variances)
    variances = variances / variances.max() if variances.any() else np.ones_like(variances)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Groups move equally.
        ease = np.where(part != 0.0, variances / shares[:, np.newaxis], 0.0)
    at_once = step * ease * part / np.sum(part**2 * ease)
    ranges = problem.measure_ranges
    low, high = (-np.inf, np.inf) if ranges is None else ranges.T
    moved, left = np.zeros_like(means), step
    for _ in range(means.size):
        wanted = means + moved + left * ease * part / np.sum(part**2 * ease)
        possible = np.clip(wanted, low, high)
        moved, is_free = possible - means, possible == wanted
        if is_free.all():
            return moved
        left = step - float(np.sum(part * moved))
        ease = np.where(is_free, ease, 0.0)
        if not ease.any():
            break
    # Nothing within the ranges is enough.
    return at_once


def _beyond(
    name: str, why: str, environment: CellEnvironment, arms: list[int], factors: list[float]
) -> Iterator[Scenario]:
    """Yield the scenario in which each of these arms is beyond its closest limit.

    The distance is the first of the factors, times the assumed distance within the limit, for which
    all means stay possible in the range. Yield nothing if an arm has no limit, or no factor works.
    """
    for factor in factors:
        moved = [_beyond_its_limit(environment, arm, factor) for arm in arms]
        means = environment.cell_means.copy()
        for cell in filter(None, moved):
            means[cell[0]] = cell[1]
        with suppress(InvalidArgument):
            if None not in moved:
                yield Scenario(name, with_means(environment, means), why)
                return


def _beyond_its_limit(
    environment: CellEnvironment, arm: int, factor: float
) -> tuple[tuple[int, int], float] | None:
    """Return a cell of an arm, and a mean beyond its limit; None if the arm has no limits."""
    problem = environment.problem
    group, end, margin = _closest_limit(environment, arm)
    if group is None:
        return None
    least = _LEAST_OF_SPREAD * float(environment.cell_stds[arm, group])
    beyond = max(factor * margin, least) + problem.floor_tolerance
    limit = _ends_of(environment, arm)[end, group]
    return (arm, group), problem.sign * (limit + beyond if end == _CEILING else limit - beyond)


def _closest_limit(environment: CellEnvironment, arm: int) -> tuple[int | None, int, float]:
    """Return the group, the end, and the distance of the closest limit that an arm has in a group.

    The group is None if the arm has no limits.
    """
    means = environment.problem.sign * environment.cell_means[arm]
    margins = means - _ends_of(environment, arm)
    margins[_CEILING] *= -1.0
    end, group = map(int, np.unravel_index(margins.argmin(), margins.shape))
    margin = float(margins[end, group])
    return (group, end, margin) if math.isfinite(margin) else (None, end, margin)


def _ends_of(environment: CellEnvironment, arm: int) -> Floats:
    """Return by group an arm's floor, its ceiling, and the least mean beside the control."""
    problem = environment.problem
    ends = problem.limits()[:, arm]
    if problem.control is None or not problem.refers_to_control:
        return ends
    control = problem.sign * environment.cell_means[problem.arms.index(problem.control)]
    return np.vstack([ends, control + problem.differences()[0, arm]])
