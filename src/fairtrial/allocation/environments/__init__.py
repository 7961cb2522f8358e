"""Environments: binary, bounded, drifting, with sleeping arms, with contexts, or replayed."""

from fairtrial.allocation.environments.base import AllocationEnvironment
from fairtrial.allocation.environments.steady import (
    BernoulliEnvironment,
    BetaEnvironment,
    ReplayEnvironment,
)
from fairtrial.allocation.environments.varied import (
    ContextualEnvironment,
    DriftingEnvironment,
    SleepingEnvironment,
)

__all__ = [
    "AllocationEnvironment",
    "BernoulliEnvironment",
    "BetaEnvironment",
    "ContextualEnvironment",
    "DriftingEnvironment",
    "ReplayEnvironment",
    "SleepingEnvironment",
]
