"""Alternative truths instead of the assumed means."""

from __future__ import annotations

import numpy as np

from fairtrial.core.validation import index_of
from fairtrial.delayed._timed import TimedEnvironment
from fairtrial.delayed.environments import SimulatedEnvironment
from fairtrial.errors import InvalidArgument, NotSupported

__all__ = ["at_effect", "values"]


def values(environment: TimedEnvironment) -> dict[str, float]:
    """Return the true mean of every arm."""
    return dict(zip(environment.problem.arms, environment.arm_means.tolist(), strict=True))


def with_losses(
    environment: TimedEnvironment, rate: float, depends_on_outcome: bool
) -> SimulatedEnvironment:
    """Return the environment in which a share `rate` of the pulls is lost by chance."""
    if depends_on_outcome:
        accepted = "must be false: this family only simulates losses by chance"
        raise InvalidArgument("depends_on_outcome", accepted, depends_on_outcome)
    if rate >= 1.0:
        raise InvalidArgument("rate", "must be below 1", rate)
    return _simulated(environment).clone(loss=rate)


def at_effect(
    environment: TimedEnvironment, effect: float, control: str | None
) -> SimulatedEnvironment:
    """Return the environment in which all differences from the control are multiplied by `effect`.

    Without a control, the worst arm takes its place.
    """
    simulated = _simulated(environment)
    problem, means = environment.problem, environment.arm_means
    worst = int(np.argmin(problem.sign * means))
    arm = worst if control is None else index_of("control", control, problem.arms)
    return simulated.clone(means=means[arm] + effect * (means - means[arm]))


def _simulated(environment: TimedEnvironment) -> SimulatedEnvironment:
    if isinstance(environment, SimulatedEnvironment):
        return environment
    name = type(environment).__name__
    raise NotSupported(f"{name} has no scenarios: its outcomes are recorded, not simulated")
