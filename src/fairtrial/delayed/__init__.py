"""Find the best k arms when results arrive late, possibly with readings before them."""

from typing import TYPE_CHECKING

from fairtrial.core.lazy import lazy_names
from fairtrial.delayed.diagnosis import Diagnosis, diagnose
from fairtrial.delayed.errors import ConflictingReport
from fairtrial.delayed.predictors import (
    CalibratedPredictor,
    Curve,
    CurvePredictor,
    LastValue,
    LinearPredictor,
)
from fairtrial.delayed.problem import Problem

if TYPE_CHECKING:
    from fairtrial.delayed.delays import (
        ConstantDelay,
        EmpiricalDelay,
        GeometricDelay,
        LognormalDelay,
        OutcomeDelay,
        UniformDelay,
    )
    from fairtrial.delayed.environments import CurveEnvironment, SimulatedEnvironment
    from fairtrial.delayed.fitting import fit_environment
    from fairtrial.delayed.planning import Complexity, complexity
    from fairtrial.delayed.policies import (
        ASHA,
        BlockBetting,
        Hyperband,
        InformationRacing,
        MedianStopping,
        PairedRacing,
        Racing,
        SequentialHalving,
        SuccessiveHalving,
        SuccessiveRejects,
    )

__all__ = [
    "ASHA",
    "BlockBetting",
    "CalibratedPredictor",
    "Complexity",
    "ConflictingReport",
    "ConstantDelay",
    "Curve",
    "CurveEnvironment",
    "CurvePredictor",
    "Diagnosis",
    "EmpiricalDelay",
    "GeometricDelay",
    "Hyperband",
    "InformationRacing",
    "LastValue",
    "LinearPredictor",
    "LognormalDelay",
    "MedianStopping",
    "OutcomeDelay",
    "PairedRacing",
    "Problem",
    "Racing",
    "SequentialHalving",
    "SimulatedEnvironment",
    "SuccessiveHalving",
    "SuccessiveRejects",
    "UniformDelay",
    "complexity",
    "diagnose",
    "fit_environment",
]

# These import compiled code.
__getattr__, __dir__ = lazy_names(
    __name__, ["delays", "environments", "fitting", "planning", "policies"]
)
