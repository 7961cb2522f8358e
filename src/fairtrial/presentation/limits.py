"""The standing of an estimate against its limit: one vocabulary for figures, tables and words."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np

from fairtrial.core.progress_parts import MeasureLimit, ValueLimit
from fairtrial.core.recommendation import Effect, Estimate, Progress
from fairtrial.presentation.sources import named

__all__ = [
    "Standing",
    "Standings",
    "as_estimate",
    "distance_to_limit",
    "document_of",
    "finite",
    "has_interval",
    "kind_of_intervals",
    "limits_of",
    "name_of_limit",
    "sure_distance",
    "visible_range",
]


class Standing(StrEnum):
    """Whether an estimate meets its limit, in words for readers.

    This is settled once an interval that holds at all times is on one side of the limit, once the
    bets on the limit have gained enough, or once the arm is the answer, which can only be right if
    the arm keeps all its limits. Interval and bets together call a limit met that is missed with
    probability at most delta, for each limit (docs/explanation/effects.md).
    """

    FREE = "no limit"
    UNKNOWN = "not known yet"
    KEPT = "met"
    DECIDED = "kept, by the decision"
    LIKELY_KEPT = "met so far, not settled"
    LIKELY_BROKEN = "missed so far, not settled"
    BROKEN = "missed"

    @property
    def met(self) -> bool | None:
        """Whether the limit is met, as a document says it; None if that is not settled.

        Examples
        --------
        >>> Standing.DECIDED.met, Standing.BROKEN.met, Standing.LIKELY_KEPT.met, Standing.FREE.met
        (True, False, None, None)
        """
        return {Standing.KEPT: True, Standing.DECIDED: True, Standing.BROKEN: False}.get(self)


def finite(value: float | None) -> float | None:
    """Return the number, or None if it is missing or not finite."""
    return None if value is None or not math.isfinite(value) else float(value)


def has_interval(estimate: Estimate) -> bool:
    """Return whether an estimate has an interval, which may have one end only."""
    return estimate.lower is not None or estimate.upper is not None


def kind_of_intervals(progress: Progress, estimates: Iterable[Estimate]) -> str:
    """Return the kind of intervals that some of these estimates have; empty if none has any.

    Examples
    --------
    >>> from fairtrial.core import Recommendation
    >>> progress = Progress(Recommendation(None, "running"), 1, 1, 0, intervals="anytime")
    >>> one = Estimate({"arm": "a"}, 1, mean=0.5)
    >>> kind_of_intervals(progress, [one])
    ''
    >>> kind_of_intervals(progress, [one, replace(one, lower=0.2)])
    'anytime'
    """
    return progress.intervals if any(map(has_interval, estimates)) else ""


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


def document_of(progress: Progress) -> dict[str, Any]:
    """Return a progress as JSON's own types; its limits have ``met``, as tables and pages say it.

    ``met`` is true or false once it is settled whether a limit is met, and null before, or where
    there is no limit.

    Examples
    --------
    >>> from fairtrial.core import Recommendation
    >>> mean = Estimate({"arm": "a"}, 20, mean=0.5, lower=0.4, upper=0.6, lower_limit=0.3)
    >>> progress = Progress(Recommendation(None, "running"), 20, 20, 0, actions=(mean,))
    >>> document_of(progress)["actions"][0]["met"]
    True
    """
    effects = progress.effects
    # They are found anew whenever they are asked for.
    progress = replace(progress, find_effects=lambda: effects)
    by, found = Standings.by(progress), progress.to_dict()
    standings = {
        "actions": map(by.of, progress.actions),
        "arms": map(by.of, progress.arms),
        "limited": map(by.of, progress.limited),
        "effects": map(by.of_effect, effects),
        "measure_limits": map(by.of_measure, progress.measure_limits),
        "value_limits": map(by.of_value, progress.value_limits),
    }
    for name, of_each in standings.items():
        for document, standing in zip(found[name], of_each, strict=True):
            document["met"] = standing.met
    return found


@dataclass(frozen=True)
class Standings:
    """Whether limits are met, by everything that a progress says of them.

    Every table and figure asks here, so a limit has one standing wherever it is shown.

    Parameters
    ----------
    answer : collection of str
        The arms that a decision has named.
    hold : bool
        Whether intervals hold at all times, so that they settle a limit.
    measured : tuple of MeasureLimit
        Limits of measures, with the evidence that each is kept.

    Examples
    --------
    >>> sure = Estimate({"arm": "a"}, 20, mean=0.5, lower=0.4, upper=0.6, lower_limit=0.3)
    >>> Standings().of(sure).value, Standings(hold=False).of(sure).value
    ('met', 'met so far, not settled')
    """

    answer: Collection[str] = ()
    hold: bool = True
    measured: tuple[MeasureLimit, ...] = ()

    @classmethod
    def by(cls, progress: Progress) -> Standings:
        """Return the standings of all limits in a progress."""
        return cls(
            named(progress.recommendation),
            progress.intervals == "anytime",
            progress.measure_limits,
        )

    def of(self, estimate: Estimate) -> Standing:
        """Return whether an estimate meets its limits; a mean exactly on a limit does.

        If it is the mean of a measure, the evidence about its limits counts too. Limits of a
        measure against a control are not limits of its mean.
        """
        place = tuple(estimate.labels.get(key) for key in ("arm", "group", "measure"))
        if own := self._limits_by_place.get(place):
            return min((self.of_measure(one) for one in own), key=_WORST_FIRST.index)
        return self._judge(estimate)

    @cached_property
    def _limits_by_place(self) -> dict[tuple[Any, ...], list[MeasureLimit]]:
        """The limits on means of measures, by arm, group and measure."""
        found: dict[tuple[Any, ...], list[MeasureLimit]] = {}
        for one in self.measured:
            if one.control is None:
                found.setdefault((one.arm, one.group, one.measure), []).append(one)
        return found

    def of_effect(self, effect: Effect) -> Standing:
        """Return whether a difference from the control meets its limits."""
        return self._judge(as_estimate(effect))

    def of_measure(self, limit: MeasureLimit) -> Standing:
        """Return whether a limit of a measure is met, by its evidence or its interval."""
        ends = (limit.bound, None) if limit.kind == "floor" else (None, limit.bound)
        mean = Estimate({"arm": limit.arm}, 0, limit.estimate, limit.lower, limit.upper, *ends)
        # What makes intervals approximate also makes the bets unreliable.
        return self._judge(mean, kept=limit.met_by_bets and self.hold)

    def of_value(self, limit: ValueLimit) -> Standing:
        """Return whether a value is within its bound."""
        value, is_answer = finite(limit.value), str(limit.arm) in self.answer
        if limit.certain:
            return Standing.KEPT
        if is_answer:
            return Standing.DECIDED
        if value is None:
            return Standing.UNKNOWN
        return Standing.LIKELY_KEPT if abs(value) < limit.bound else Standing.LIKELY_BROKEN

    def _judge(self, estimate: Estimate, *, kept: bool = False) -> Standing:
        low, high = _interval_of(estimate)
        lower, upper = _ends(estimate)
        mean, has_limit = finite(estimate.mean), bool(limits_of(estimate))
        if kept or (has_limit and self.hold and low <= lower and upper <= high):
            return Standing.KEPT
        if has_limit and self.hold and (upper < low or high < lower):
            return Standing.BROKEN
        if has_limit and str(estimate.labels.get("arm")) in self.answer:
            return Standing.DECIDED
        if mean is None:
            return Standing.UNKNOWN
        if not has_limit:
            return Standing.FREE
        return Standing.LIKELY_KEPT if low <= mean <= high else Standing.LIKELY_BROKEN


_WORST_FIRST = (
    Standing.BROKEN,
    Standing.LIKELY_BROKEN,
    Standing.UNKNOWN,
    Standing.LIKELY_KEPT,
    Standing.DECIDED,
    Standing.KEPT,
)


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
