"""Time-uniform bounds and thresholds, each with a name, its source and its assumptions."""

from fairtrial.confidence.bounds import Bound, FiniteLIL, NormalMixture, PolynomialStitching
from fairtrial.confidence.student import StudentMixture
from fairtrial.confidence.thresholds import (
    GaussianMixture,
    KaufmannKoolen,
    Stylised,
    StylisedWithoutHalf,
    Threshold,
    threshold_named,
)

__all__ = [
    "Bound",
    "FiniteLIL",
    "GaussianMixture",
    "KaufmannKoolen",
    "NormalMixture",
    "PolynomialStitching",
    "StudentMixture",
    "Stylised",
    "StylisedWithoutHalf",
    "Threshold",
    "threshold_named",
]
