"""The standing of an estimate against its limit: one vocabulary for figures, tables and words."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum

import numpy as np

from fairtrial.core.recommendation import Effect, Estimate

__all__ = [
    "Standing",
    "as_estimate",
    "distance_to_limit",
    "finite",
    "limits_of",
    "name_of_limit",
    "standing",
    "sure_distance",
    "visible_range",
]


class Standing(StrEnum):
    """Whether an estimate meets its limit, in words for readers.

    This is settled once the whole interval is on one side of the limit, or once the arm is the
    answer, which can only be right if the arm keeps all its limits.
    """

    FREE = "no limit"
    UNKNOWN = "no result yet"
    KEPT = "met"
    DECIDED = "kept, by the decision"
    LIKELY_KEPT = "met so far, not settled"
    LIKELY_BROKEN = "missed so far, not settled"
    BROKEN = "missed"


def finite(value: float | None) -> float | None:
    """Return the number, or None if it is missing or not finite."""
    return None if value is None or not math.isfinite(value) else float(value)


def limits_of(estimate: Estimate) -> list[float]:
    """Return the limits on an estimate: none, one, or the two ends of an interval."""
    return _finite([estimate.lower_limit, estimate.upper_limit])


def name_of_limit(estimates: Iterable[Estimate | None]) -> str:
    """Return the name for a limit among these estimates."""
    known = [estimate for estimate in estimates if estimate is not None]
    has_floors = any(finite(estimate.lower_limit) is not None for estimate in known)
    has_ceilings = any(finite(estimate.upper_limit) is not None for estimate in known)
    if has_ceilings:
        return "limit" if has_floors else "ceiling"
    return "floor"


def distance_to_limit(value: float | None, estimate: Estimate) -> float | None:
    """Return the distance of a value from the nearest limit; negative on the wrong side.

    Examples
    --------
    >>> distance_to_limit(0.25, Estimate({"arm": "a"}, 20, lower_limit=0.0))
    0.25
    >>> distance_to_limit(0.25, Estimate({"arm": "a"}, 20, upper_limit=0.0))
    -0.25
    """
    low, high = _interval_of(estimate)
    if value is None or not limits_of(estimate):
        return None
    return min(value - low, high - value)


def sure_distance(estimate: Estimate) -> float | None:
    """Return the distance of the whole interval from the limits; negative on the wrong side."""
    low, high = _interval_of(estimate)
    lower, upper = _ends(estimate)
    distance = min(lower - low, high - upper)
    return distance if math.isfinite(distance) else None


def standing(estimate: Estimate, answer: Collection[str] = ()) -> Standing:
    """Return whether the estimate meets its limits; a mean exactly on a limit does.

    Parameters
    ----------
    estimate : Estimate
        An estimate for an arm, in a group or overall.
    answer : collection of str
        The arms that a decision has named.
    """
    distance = distance_to_limit(finite(estimate.mean), estimate)
    if finite(estimate.mean) is None:
        return Standing.UNKNOWN
    if distance is None:
        return Standing.FREE
    low, high = _interval_of(estimate)
    lower, upper = _ends(estimate)
    if low <= lower and upper <= high:
        return Standing.KEPT
    if upper < low or high < lower:
        return Standing.BROKEN
    if str(estimate.labels.get("arm")) in answer:
        return Standing.DECIDED
    return Standing.LIKELY_BROKEN if distance < 0 else Standing.LIKELY_KEPT


def as_estimate(effect: Effect) -> Estimate:
    """Return a difference from the control as an estimate, to compare it with its limits."""
    return Estimate(
        labels={"arm": effect.arm},
        pulls=0,
        mean=effect.difference,
        lower=effect.lower,
        upper=effect.upper,
        lower_limit=effect.lower_limit,
        upper_limit=effect.upper_limit,
    )


def _interval_of(estimate: Estimate) -> tuple[float, float]:
    low, high = finite(estimate.lower_limit), finite(estimate.upper_limit)
    return -math.inf if low is None else low, math.inf if high is None else high


def _ends(estimate: Estimate) -> tuple[float, float]:
    lower, upper = finite(estimate.lower), finite(estimate.upper)
    return -math.inf if lower is None else lower, math.inf if upper is None else upper


def visible_range(estimates: Iterable[Estimate | None]) -> tuple[float, float]:
    """Return an axis that shows all means and limits, and most intervals completely.

    A few cells with hardly any results have intervals so wide that they would squeeze everything
    else; those may extend beyond the axis.
    """
    known = [estimate for estimate in estimates if estimate is not None]
    anchors = _finite([e.mean for e in known]) + [end for e in known for end in limits_of(e)]
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
