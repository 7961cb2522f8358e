"""Errors about the readings of a pull."""

from __future__ import annotations

from fairtrial.errors import ConflictingOutcome

__all__ = ["ConflictingReport"]


class ConflictingReport(ConflictingOutcome):
    """A reading of this stage was reported before with another value; nothing was changed."""
