"""The best arm overall among those that fail no group."""

from typing import TYPE_CHECKING

from fairtrial.core.lazy import lazy_names
from fairtrial.subpopulations.limits import OVERALL
from fairtrial.subpopulations.problem import Problem

if TYPE_CHECKING:
    from fairtrial.subpopulations.environments import (
        BernoulliEnvironment,
        GaussianEnvironment,
        ReplayEnvironment,
    )
    from fairtrial.subpopulations.planning import Complexity, complexity
    from fairtrial.subpopulations.policies import (
        BalancedTracking,
        BlockBetting,
        ExactTracking,
        PlainTrackAndStop,
        RoundRobin,
        TrackAndStop,
        UniformSampling,
    )
    from fairtrial.subpopulations.predicted_environment import (
        GaussianPredictedEnvironment,
        PredictedEnvironment,
    )

__all__ = [
    "OVERALL",
    "BalancedTracking",
    "BernoulliEnvironment",
    "BlockBetting",
    "Complexity",
    "ExactTracking",
    "GaussianEnvironment",
    "GaussianPredictedEnvironment",
    "PlainTrackAndStop",
    "PredictedEnvironment",
    "Problem",
    "ReplayEnvironment",
    "RoundRobin",
    "TrackAndStop",
    "UniformSampling",
    "complexity",
]

# These modules import compiled code.
__getattr__, __dir__ = lazy_names(
    __name__, ["environments", "predicted_environment", "policies", "planning"]
)
