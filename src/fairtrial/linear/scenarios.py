"""What may be true instead of the assumed parameter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.environment import Environment
from fairtrial.core.scenario import Scenario
from fairtrial.core.shifted_rows import shifted_rows
from fairtrial.core.validation import index_of
from fairtrial.errors import InvalidArgument
from fairtrial.linear._limits import Requirement
from fairtrial.linear.environments import ArmEnvironment, ReplayEnvironment
from fairtrial.linear.problem import Problem

__all__ = ["at_effect", "harms", "values"]

Floats = NDArray[np.float64]

_ROUNDING = 1e-9

_JUST = 0.1
"""How far "just beyond" a limit is, relative to the assumed distance within it."""

_LEAST_OF_SPREAD = 0.01


def values(environment: Environment) -> dict[str, float]:
    """Return the true value of every candidate."""
    problem: Any = environment.problem
    found = environment.truth.details["values"]
    return dict(zip(problem.answers, found.tolist(), strict=True))


def at_effect(environment: ArmEnvironment, effect: float, control: str | None) -> ArmEnvironment:
    """Return the environment in which all differences from the control are multiplied by `effect`.

    Without a control it is the worst candidate. If no parameter gives all arms the same mean (the
    features contain no constant), the means themselves are multiplied by `effect`.
    """
    problem, found = environment.problem, environment.values
    worst = int(np.argmin(problem.sign * found))
    arm = worst if control is None else index_of("control", control, problem.answers)
    base = float(found[arm])
    if isinstance(environment, ReplayEnvironment):
        return _moved(environment, base, effect)
    theta = environment.closest_theta
    same = _constant(problem)
    start = np.zeros_like(theta) if same is None else base * same
    return environment.clone(theta=start + effect * (theta - start))


def _constant(problem: Problem) -> Floats | None:
    """Return the parameter that gives every arm and candidate the mean 1, if there is one."""
    rows = (
        problem.features
        if problem.candidates is None
        else np.vstack([problem.features, problem.candidates])
    )
    theta = np.asarray(np.linalg.lstsq(rows, np.ones(len(rows)), rcond=None)[0])
    return theta if np.abs(rows @ theta - 1.0).max() < _ROUNDING else None


def _moved(environment: ReplayEnvironment, base: float, effect: float) -> ReplayEnvironment:
    problem, table = environment.problem, environment.rows_by_label
    moved = {
        label: shifted_rows(
            f"mean[{label}]", rows, base + effect * (rows.mean() - base), problem.reward_range
        )
        for label, rows in table.items()
    }
    columns = {
        environment.arm: [label for label, rows in moved.items() for _ in rows],
        environment.reward: np.concatenate(list(moved.values())).tolist(),
    }
    return environment.clone(table=columns)


def harms(environment: ArmEnvironment) -> Iterator[Scenario]:
    """Yield the scenario in which the assumed answer is just beyond its closest limit.

    For simulated environments only. Theta moves as little as possible, in the metric of equal
    pulls.
    """
    problem, best = environment.problem, environment.truth.best
    if not problem.has_limits or best is None or isinstance(environment, ReplayEnvironment):
        return
    arm = problem.answers.index(best)
    margins = [one.distance(problem.sign * means)[arm] for one, means in _limits_of(environment)]
    closest = int(np.argmin(margins))
    if not np.isfinite(margins[closest]):
        return
    one = problem.requirements[closest]
    row = (
        one.factor
        * problem.sign
        * (one.features[arm] - (one.features[one.control] if one.control >= 0 else 0.0))
    )
    least = _LEAST_OF_SPREAD * float(environment.arm_stds.max())
    down = margins[closest] + max(_JUST * margins[closest], least) + problem.floor_tolerance
    step = problem.reduced.basis @ (problem.reduced.basis.T @ row)
    length = float(row @ step)
    if length <= 0.0:
        return
    why = f"{best!r} is just beyond a limit, {one.name}: naming it would be harmful"
    with suppress(InvalidArgument):
        moved = environment.clone(theta=environment.closest_theta - step * (down / length))
        yield Scenario("beyond a limit", moved, why)


def _limits_of(environment: ArmEnvironment) -> Iterable[tuple[Requirement, Floats]]:
    return zip(environment.problem.requirements, environment.limited_means, strict=True)
