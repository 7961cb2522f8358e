"""The best arm overall among those that fail no group."""

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
from fairtrial.subpopulations.problem import Problem

__all__ = [
    "BalancedTracking",
    "BernoulliEnvironment",
    "BlockBetting",
    "Complexity",
    "ExactTracking",
    "GaussianEnvironment",
    "PlainTrackAndStop",
    "Problem",
    "ReplayEnvironment",
    "RoundRobin",
    "TrackAndStop",
    "UniformSampling",
    "complexity",
]
