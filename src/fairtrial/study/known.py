"""What was computed from the whole log of a study, kept while the log does not grow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fairtrial.core import Progress
from fairtrial.study.assumption_checks import AssumptionWarning

__all__ = ["Known"]


@dataclass(frozen=True)
class Known:
    """What the log up to an event leads to; a long log is not read again for it.

    Parameters
    ----------
    head : int
        The last event.
    moments : sequence of Progress
        The progress at evenly spaced numbers of outcomes; empty if it is not known.
    points : int
        The largest number of moments that was asked for.
    doubts : sequence of AssumptionWarning, or None
        What contradicts the assumptions.
    weighted_means : sequence of float or None, or None
        The mean of every action, weighted by inverse propensities.
    """

    head: int
    moments: Sequence[Progress] = ()
    points: int = 0
    doubts: Sequence[AssumptionWarning] | None = None
    weighted_means: Sequence[float | None] | None = None
