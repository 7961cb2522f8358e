"""The policies: thin classes over the compiled kernels."""

from fairtrial.linear.policies.blocks import BlockBetting
from fairtrial.linear.policies.levels import (
    ConstantLevel,
    MixtureLevel,
    PhaseLevel,
    RidgeLevel,
    Soare2014Level,
    StaticChecksLevel,
    StaticLevel,
)
from fairtrial.linear.policies.phases import ODLinBAI, Rage, XYAdaptive
from fairtrial.linear.policies.static import (
    GAllocation,
    XYAllocation,
    XYOracle,
)
from fairtrial.linear.policies.tracking import (
    FrankWolfeSampling,
    FullyAdaptiveXY,
    LazyTrackAndStop,
    LinGame,
    LinGapE,
)

__all__ = [
    "BlockBetting",
    "ConstantLevel",
    "FrankWolfeSampling",
    "FullyAdaptiveXY",
    "GAllocation",
    "LazyTrackAndStop",
    "LinGame",
    "LinGapE",
    "MixtureLevel",
    "ODLinBAI",
    "PhaseLevel",
    "Rage",
    "RidgeLevel",
    "Soare2014Level",
    "StaticChecksLevel",
    "StaticLevel",
    "XYAdaptive",
    "XYAllocation",
    "XYOracle",
]
