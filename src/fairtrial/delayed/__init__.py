"""The top k arms, when results come late and may be seen coming."""

from fairtrial.delayed.complexity import Complexity, complexity
from fairtrial.delayed.delays import (
    ConstantDelay,
    EmpiricalDelay,
    GeometricDelay,
    LognormalDelay,
    OutcomeDelay,
    UniformDelay,
)
from fairtrial.delayed.diagnosis import Diagnosis, diagnose
from fairtrial.delayed.environments import CurveEnvironment, SimulatedEnvironment, TopTruth
from fairtrial.delayed.errors import ConflictingReport
from fairtrial.delayed.fitting import fit_world
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
from fairtrial.delayed.predictors import (
    CalibratedPredictor,
    Curve,
    CurvePredictor,
    LastValue,
    LinearPredictor,
)
from fairtrial.delayed.problem import Problem

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
    "TopTruth",
    "UniformDelay",
    "complexity",
    "diagnose",
    "fit_world",
]
