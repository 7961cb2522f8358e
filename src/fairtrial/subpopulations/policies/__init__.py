"""The policies: thin classes over the compiled kernels."""

from fairtrial.subpopulations.policies.blocks import BlockBetting
from fairtrial.subpopulations.policies.trackers import (
    BalancedTracking,
    ExactTracking,
    PlainTrackAndStop,
    RoundRobin,
    TrackAndStop,
    UniformSampling,
)

__all__ = [
    "BalancedTracking",
    "BlockBetting",
    "ExactTracking",
    "PlainTrackAndStop",
    "RoundRobin",
    "TrackAndStop",
    "UniformSampling",
]
