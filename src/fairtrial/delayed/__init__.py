"""The top k arms, when results come late and may be seen coming."""

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
from fairtrial.delayed.policies import InformationRacing, Racing
from fairtrial.delayed.predictors import (
    CalibratedPredictor,
    Curve,
    CurvePredictor,
    LastValue,
    LinearPredictor,
)
from fairtrial.delayed.problem import Problem

__all__ = [
    "CalibratedPredictor",
    "ConflictingReport",
    "ConstantDelay",
    "Curve",
    "CurveEnvironment",
    "CurvePredictor",
    "Diagnosis",
    "EmpiricalDelay",
    "GeometricDelay",
    "InformationRacing",
    "LastValue",
    "LinearPredictor",
    "LognormalDelay",
    "OutcomeDelay",
    "Problem",
    "Racing",
    "SimulatedEnvironment",
    "TopTruth",
    "UniformDelay",
    "diagnose",
]
