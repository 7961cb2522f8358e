"""How an estimate stands against its limit: one vocabulary for figures, tables and words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import Enum

import numpy as np

from fairtrial.core.recommendation import Estimate

__all__ = ["Standing", "finite", "limit_of", "slack", "standing", "visible_range"]


class Standing(Enum):
    """An estimate against its limit; the value is the phrase for readers."""

    FREE = "no limit"
    UNKNOWN = "no result yet"
    KEPT = "kept: the whole interval is on the right side"
    LIKELY_KEPT = "open: the mean is on the right side, the interval is not"
    LIKELY_BROKEN = "open: the mean is on the wrong side, the interval is not"
    BROKEN = "broken: the whole interval is on the wrong side"


def finite(value: float | None) -> float | None:
    """Return the number, or None for one that is missing or not finite."""
    return None if value is None or not math.isfinite(value) else float(value)


def limit_of(estimate: Estimate) -> float | None:
    """Return the limit that the estimate is held against, if any."""
    return finite(estimate.limit)


def slack(value: float | None, limit: float | None, minimize: bool) -> float | None:
    """Return how far a value is on the right side of its limit; negative on the wrong one.

    Examples
    --------
    >>> slack(0.25, 0.0, minimize=False), slack(0.25, 0.0, minimize=True)
    (0.25, -0.25)
    """
    if value is None or limit is None:
        return None
    return limit - value if minimize else value - limit


def standing(estimate: Estimate, minimize: bool) -> Standing:
    """Return how the estimate stands. A mean exactly on its limit keeps it."""
    limit, mean = limit_of(estimate), finite(estimate.mean)
    if mean is None:
        return Standing.UNKNOWN
    if limit is None:
        return Standing.FREE
    ends = [slack(finite(end), limit, minimize) for end in (estimate.lower, estimate.upper)]
    worst, best = reversed(ends) if minimize else ends
    if worst is not None and worst >= 0:
        return Standing.KEPT
    if best is not None and best < 0:
        return Standing.BROKEN
    return (
        Standing.LIKELY_BROKEN if (slack(mean, limit, minimize) or 0) < 0 else Standing.LIKELY_KEPT
    )


def visible_range(estimates: Iterable[Estimate | None]) -> tuple[float, float]:
    """Return an axis on which all means and limits show, and most intervals whole.

    A few cells with hardly any results have intervals so wide that they would squeeze
    everything else; those run off the axis.
    """
    known = [estimate for estimate in estimates if estimate is not None]
    anchors = _finite([e.mean for e in known] + [e.limit for e in known])
    ends = _finite([e.lower for e in known] + [e.upper for e in known])
    if not anchors and not ends:
        return 0.0, 1.0
    reach = [
        abs(end - mean)
        for e in known
        if (mean := finite(e.mean)) is not None
        for end in _finite([e.lower, e.upper])
    ]
    pad = float(np.quantile(reach, 0.8)) if reach else 0.0
    low = min(anchors or ends) - pad
    high = max(anchors or ends) + pad
    low, high = max(low, min(ends + anchors)), min(high, max(ends + anchors))
    margin = 0.04 * (high - low) or 0.05 * max(abs(high), 1.0)
    return low - margin, high + margin


def _finite(values: Sequence[float | None]) -> list[float]:
    return [number for value in values if (number := finite(value)) is not None]
