"""Environments with losses or drift; a separate module, because it imports compiled code."""

from fairtrial.core.drifting import DriftingEnvironment
from fairtrial.core.lossy import LossyEnvironment

__all__ = ["DriftingEnvironment", "LossyEnvironment"]
