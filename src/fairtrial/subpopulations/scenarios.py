"""What may be true instead of the means that are assumed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.environment import Environment
from fairtrial.core.moved_rows import moved_rows
from fairtrial.core.scenario import Scenario
from fairtrial.core.validation import index_of
from fairtrial.errors import InvalidArgument
from fairtrial.subpopulations.environments import CellEnvironment, ReplayEnvironment

__all__ = ["at_effect", "harms", "values", "with_arrivals", "with_means"]

Floats = NDArray[np.float64]

_JUST = 0.1
"""How far beyond a limit "just" is, as a part of how far the mean was assumed to be within it."""

_LEAST_OF_SPREAD = 0.01

_CEILING = 1


def values(environment: Environment) -> dict[str, float]:
    """Return the true quality of every arm."""
    problem: Any = environment.problem
    quality = problem.quality(environment.truth.means)
    return dict(zip(problem.arms, quality.tolist(), strict=True))


def at_effect(environment: CellEnvironment, effect: float, control: str | None) -> CellEnvironment:
    """Return the environment in which all differences from the control are `effect` times as large.

    Without a control it is the worst of the acceptable arms; of all, if none is acceptable.
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
    """Return the environment with other means: the rows of a table are moved.

    `means` are as `Problem.check_means` takes them.
    """
    problem = environment.problem
    means = problem.check_means(means)
    if not isinstance(environment, ReplayEnvironment):
        return environment.clone(means=means)
    rows = environment.rows
    names = [f"means[{', '.join(labels.values())}]" for labels in problem.action_labels]
    given = zip(names, rows, means.ravel().tolist(), strict=True)
    return environment.with_rows(
        [moved_rows(name, own, mean, problem.reward_range) for name, own, mean in given]
    )


def with_arrivals(environment: CellEnvironment, arrivals: Any) -> CellEnvironment:
    """Return the environment in which groups come by themselves, in these proportions."""
    return environment.clone(arrivals=arrivals)


def harms(environment: CellEnvironment) -> Iterator[Scenario]:
    """Yield the scenarios in which the assumed answer would do harm."""
    problem, best = environment.problem, environment.truth.best
    if best is None:
        return
    arm = problem.arms.index(best)
    group, *_ = _closest_limit(environment, arm)
    if group is not None:
        where = f"in group {problem.groups[group]!r}" if len(problem.groups) > 1 else "everywhere"
        why = f"{best!r} is just beyond its limit {where}: to name it would be harmful"
        yield from _beyond("one group harmed", why, environment, [arm], [_JUST])
    accepted = np.flatnonzero(problem.within(environment.cell_means, problem.floor_tolerance))
    why = "Every arm is beyond a limit: the right answer is that no arm is acceptable"
    yield from _beyond("none acceptable", why, environment, accepted.tolist(), [1.0, _JUST])


def _beyond(
    name: str, why: str, environment: CellEnvironment, arms: list[int], factors: list[float]
) -> Iterator[Scenario]:
    """Yield the scenario in which each of these arms is beyond the closest of its limits.

    How far: the first of the factors, times how far it was assumed to be within, that leaves means
    which rewards of the range can have. Nothing where an arm has no limit, or no factor does.
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
    """Return the group, the end, and the distance of an arm's closest limit in a group.

    The group is None if the arm has no limits.
    """
    means = environment.problem.sign * environment.cell_means[arm]
    margins = means - _ends_of(environment, arm)
    margins[_CEILING] *= -1.0
    end, group = map(int, np.unravel_index(margins.argmin(), margins.shape))
    margin = float(margins[end, group])
    return (group, end, margin) if math.isfinite(margin) else (None, end, margin)


def _ends_of(environment: CellEnvironment, arm: int) -> Floats:
    """Return by group an arm's floor, its ceiling, and what it must reach beside the control."""
    problem = environment.problem
    ends = problem.limits()[:, arm]
    if problem.control is None or not problem.refers_to_control:
        return ends
    control = problem.sign * environment.cell_means[problem.arms.index(problem.control)]
    return np.vstack([ends, control + problem.differences()[0, arm]])
