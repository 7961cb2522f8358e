"""What may be true instead of the means that are assumed."""

from __future__ import annotations

import numpy as np

from fairtrial.core.validation import index_of
from fairtrial.delayed.environments import SimulatedEnvironment
from fairtrial.delayed.timed import TimedEnvironment
from fairtrial.errors import NotSupported

__all__ = ["at_effect", "values"]


def values(environment: TimedEnvironment) -> dict[str, float]:
    """Return the true mean of every arm."""
    return dict(zip(environment.problem.arms, environment.arm_means.tolist(), strict=True))


def at_effect(
    environment: TimedEnvironment, effect: float, control: str | None
) -> SimulatedEnvironment:
    """Return the environment in which all differences from the control are `effect` times as large.

    Without a control it is the worst arm.
    """
    if not isinstance(environment, SimulatedEnvironment):
        name = type(environment).__name__
        raise NotSupported(f"{name} has no scenarios: its outcomes are recorded, not simulated")
    problem, means = environment.problem, environment.arm_means
    worst = int(np.argmin(problem.sign * means))
    arm = worst if control is None else index_of("control", control, problem.arms)
    return environment.clone(means=means[arm] + effect * (means - means[arm]))
