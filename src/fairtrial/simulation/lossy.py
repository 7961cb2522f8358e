"""Environments that lose results; apart, as they import compiled code."""

from fairtrial.core.lossy import LossyEnvironment

__all__ = ["LossyEnvironment"]
