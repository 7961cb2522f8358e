"""The best of many arms that are described by features."""

from typing import TYPE_CHECKING

from fairtrial.core.lazy import lazy_names
from fairtrial.linear.problem import NotEstimable, Problem

if TYPE_CHECKING:
    from fairtrial.linear.designs import (
        Design,
        DesignNotConverged,
        g_optimal_design,
        oracle_design,
        round_design,
        xy_optimal_design,
    )
    from fairtrial.linear.environments import (
        BernoulliEnvironment,
        GaussianEnvironment,
        ReplayEnvironment,
    )
    from fairtrial.linear.fit import LackOfFit, lack_of_fit
    from fairtrial.linear.planning import Complexity, complexity
    from fairtrial.linear.policies import (
        BlockBetting,
        ConstantLevel,
        FrankWolfeSampling,
        FullyAdaptiveXY,
        GAllocation,
        LazyTrackAndStop,
        LinGame,
        LinGapE,
        MixtureLevel,
        ODLinBAI,
        PhaseLevel,
        Rage,
        RidgeLevel,
        Soare2014Level,
        StaticChecksLevel,
        StaticLevel,
        XYAdaptive,
        XYAllocation,
        XYOracle,
    )

__all__ = [
    "BernoulliEnvironment",
    "BlockBetting",
    "Complexity",
    "ConstantLevel",
    "Design",
    "DesignNotConverged",
    "FrankWolfeSampling",
    "FullyAdaptiveXY",
    "GAllocation",
    "GaussianEnvironment",
    "LackOfFit",
    "LazyTrackAndStop",
    "LinGame",
    "LinGapE",
    "MixtureLevel",
    "NotEstimable",
    "ODLinBAI",
    "PhaseLevel",
    "Problem",
    "Rage",
    "ReplayEnvironment",
    "RidgeLevel",
    "Soare2014Level",
    "StaticChecksLevel",
    "StaticLevel",
    "XYAdaptive",
    "XYAllocation",
    "XYOracle",
    "complexity",
    "g_optimal_design",
    "lack_of_fit",
    "oracle_design",
    "round_design",
    "xy_optimal_design",
]

# These modules import compiled code.
__getattr__, __dir__ = lazy_names(
    __name__, ["environments", "policies", "planning", "designs", "fit"]
)
