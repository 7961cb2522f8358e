"""The evidence on its way to the threshold."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairtrial.core.recommendation import Progress
from fairtrial.presentation.limits import finite
from fairtrial.presentation.sources import Floats

__all__ = ["or_nan", "series"]


def series(trace: Sequence[Progress]) -> tuple[Floats, Floats, Floats]:
    """Return results, evidence and threshold of every moment; NaN where there is none."""
    return (
        np.array([float(moment.told) for moment in trace]),
        np.array([or_nan(moment.evidence) for moment in trace]),
        np.array([or_nan(moment.threshold) for moment in trace]),
    )


def or_nan(value: float | None) -> float:
    """Return a number, NaN for one that is missing or not finite."""
    clean = finite(value)
    return float("nan") if clean is None else clean
