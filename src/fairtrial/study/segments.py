"""Compare the arms of a finished experiment within segments of its units.

Each segment is a part of the units, such as those of one country. All intervals hold together, for
all segments of all columns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.block_betting.cuts import Cuts, units_until_each
from fairtrial.confidence.effects import BlockResults, Spread, difference_of_arms
from fairtrial.core.wording import plural
from fairtrial.errors import InvalidArgument

__all__ = ["SegmentEffect", "SegmentEffects", "segment_effects"]

MOST_SEGMENTS = 100
"""Most segments of all columns together: more would make every interval useless."""

_GROWTH, _TOUCH, _INITIAL = 0.03, 2, 10.0
"""How units are cut into blocks, as for the answer of `subpopulations`."""


_DIGITS_OF_WIDTH = 3
"""Digits of an interval's width that are shown."""

_MIDDLE = 0.5


@dataclass(frozen=True)
class SegmentEffect:
    """The difference between an arm and the reference in one segment.

    Parameters
    ----------
    column, segment : str
        The column, and its value that the segment's units have.
    arm, reference : str
        The difference is the mean outcome of `arm` minus that of `reference`.
    units : int
        Number of units of both arms in the segment.
    missing : int
        Number of those without an outcome.
    difference, lower, upper : float or None
        The estimate and the ends of its interval; None if the segment has too few units.
    """

    column: str
    segment: str
    arm: str
    reference: str
    units: int
    missing: int
    difference: float | None = None
    lower: float | None = None
    upper: float | None = None

    @property
    def name(self) -> str:
        """What is compared where."""
        return f"{self.column} = {self.segment}: {self.arm} minus {self.reference}"

    def in_words(self) -> str:
        """Return the difference with its interval and the number of units."""
        units = plural(self.units, "unit")
        if self.difference is None:
            return f"too few units ({units})"
        difference, interval = self.rounded()
        return f"{difference} ({interval}), {units}"

    def rounded(self) -> tuple[str, str]:
        """Return the difference and its interval, with as many digits as its width supports.

        Examples
        --------
        >>> SegmentEffect("device", "tv", "b", "a", 90, 0, 8.9e-05, -0.00711, 0.0078).rounded()
        ('0.0001', '-0.0071 to 0.0078')
        >>> SegmentEffect("device", "tv", "b", "a", 2, 0).rounded()
        ('-', '-')
        """
        if self.difference is None or self.lower is None or self.upper is None:
            return "-", "-"
        width = self.upper - self.lower
        places = max(0, _DIGITS_OF_WIDTH - 1 - math.floor(math.log10(width))) if width > 0 else 4
        ends = f"{self.lower:.{places}f} to {self.upper:.{places}f}"
        return f"{self.difference:.{places}f}", ends


@dataclass(frozen=True)
class SegmentEffects:
    """All differences by segment, whose intervals hold together.

    Parameters
    ----------
    effects : tuple of SegmentEffect
        In the order of the columns; of each column, the largest segment is first.
    confidence : float
        The probability with which all intervals hold, together and at all times.
    level : float
        The probability that one of them is allowed to fail: ``1 - confidence`` divided by their
        number (Bonferroni).
    """

    effects: tuple[SegmentEffect, ...]
    confidence: float
    level: float

    @property
    def note(self) -> str:
        """What the intervals promise, in words."""
        return (
            f"All {len(self.effects):,} intervals hold together and at all times with "
            f"{self.confidence:.4g} probability: each may fail with probability {self.level:.3g}. "
            "This assumes that in a segment neither the order of assignment nor the arm of a unit "
            "depends on outcomes, that the mean of an arm does not change, and that the value of "
            "a segment was known before the assignment. The answer does not use them"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return this as data."""
        return {
            "confidence": self.confidence,
            "level_of_each": self.level,
            "note": self.note,
            "effects": [asdict(one) for one in self.effects],
        }


@dataclass(frozen=True)
class _Units:
    """Units in the order of assignment; the outcome of a unit without one is NaN."""

    arms: NDArray[np.int64]
    outcomes: NDArray[np.float64]

    def only(self, chosen: NDArray[np.bool_]) -> _Units:
        return _Units(self.arms[chosen], self.outcomes[chosen])


def segment_effects(
    columns: Mapping[str, Sequence[str]],
    arms: Sequence[str],
    reference: str,
    assigned: NDArray[np.int64],
    outcomes: NDArray[np.float64],
    reward_range: tuple[float, float],
    delta: float,
) -> SegmentEffects:
    """Return the differences of all arms from a reference, in all segments of all columns.

    Parameters
    ----------
    columns : mapping of str to sequence of str
        The value of every unit, by column.
    arms : sequence of str
        The arms.
    reference : str
        The arm that others are compared with; fixed before the outcomes were known.
    assigned : array of int
        The arm of every unit, in the order of assignment.
    outcomes : array
        The outcome of every unit, NaN if it is missing: it then counts as its worst value.
    reward_range : (float, float)
        The range of outcomes.
    delta : float
        The probability that any of the intervals ever fails.

    Raises
    ------
    InvalidArgument
        If there are more than 100 segments.

    Notes
    -----
    The units of a segment are cut into blocks by their assignments alone, and each block gives one
    look at the difference (docs/explanation/effects.md). The number of segments does not depend on
    outcomes, so each interval may fail with probability delta divided by the number of intervals.
    """
    segments = _segments(columns)
    others = [arm for arm in range(len(arms)) if arms[arm] != reference]
    level = delta / (len(segments) * len(others))
    low, width = reward_range[0], reward_range[1] - reward_range[0]
    # In units of the range no square overflows.
    units = _Units(assigned, (outcomes - low) / width)
    spread = Spread(np.ones(len(arms)), (0.0, 1.0))
    effects = []
    for column, segment, chosen in segments:
        own = units.only(chosen)
        results = _as_blocks(own, len(arms))
        for arm in others:
            effect = _effect(own, arm, arms.index(reference))
            target = np.zeros(len(arms))
            target[arm], target[arms.index(reference)] = 1.0, -1.0
            found = difference_of_arms(results, target, spread, level)
            ends = () if found is None else found.times(width)
            effects.append(SegmentEffect(column, segment, arms[arm], reference, *effect, *ends))
    return SegmentEffects(tuple(effects), 1.0 - delta, level)


def _segments(columns: Mapping[str, Sequence[str]]) -> list[tuple[str, str, NDArray[np.bool_]]]:
    """Return every column's values, the most frequent first, and which units have them."""
    found: list[tuple[str, str, NDArray[np.bool_]]] = []
    for column, values in columns.items():
        names: dict[str, int] = {}
        codes = np.array([names.setdefault(value, len(names)) for value in values], dtype=np.int64)
        if len(found) + len(names) > MOST_SEGMENTS:
            accepted = f"must have at most {MOST_SEGMENTS} segments together; {column!r} has"
            raise InvalidArgument("segments", f"{accepted} {len(names):,}", list(columns))
        sizes = np.bincount(codes, minlength=len(names))
        labels = list(names)
        largest_first = np.argsort(-sizes, kind="stable").tolist()
        found += [(column, labels[code], codes == code) for code in largest_first]
    return found


def _effect(units: _Units, arm: int, reference: int) -> tuple[int, int]:
    """Return the number of units of two arms, and of those without an outcome."""
    compared = (units.arms == arm) | (units.arms == reference)
    return int(compared.sum()), int(np.isnan(units.outcomes[compared]).sum())


def _as_blocks(units: _Units, arms: int) -> BlockResults:
    """Return the results of the units, in [0, 1], cut into blocks by their assignments.

    The first units, until every arm has some, are one block, and so are the last ones.
    """
    begin = units_until_each(units.arms, arms, _INITIAL)
    cuts = Cuts(units.arms, arms, begin, _GROWTH, _TOUCH * arms)
    starts = np.array(sorted({0, *cuts.starts, cuts.rest}), dtype=np.int64)
    block = np.searchsorted(starts, np.arange(len(units.arms)), side="right") - 1
    cell, shape = block * arms + units.arms, (len(starts), arms)
    came = ~np.isnan(units.outcomes)
    off = np.where(came, units.outcomes, _MIDDLE) - _MIDDLE

    def summed(weights: NDArray[Any]) -> NDArray[np.float64]:
        found = np.bincount(cell, weights=weights, minlength=len(starts) * arms)
        return found.astype(np.float64).reshape(shape)

    counts = summed(came)
    return BlockResults(counts, summed(~came), summed(off), summed(off**2), np.full(shape, _MIDDLE))
