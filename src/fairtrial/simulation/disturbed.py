"""Environments in which less is as planned; apart, as they import compiled code."""

from fairtrial.core.drifting import DriftingEnvironment
from fairtrial.core.lossy import LossyEnvironment

__all__ = ["DriftingEnvironment", "LossyEnvironment"]
