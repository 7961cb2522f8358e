"""A part of an experiment that is looked at closely: from one number of results to another."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Range", "moments_within", "value_at"]

_LEAST = 4
"""Results that the closest look still spans."""
_NEWEST = 4
"""Of the whole, the first look at the newest results shows this part."""


@dataclass(frozen=True, slots=True)
class Range:
    """Results `begin` to `end` of an experiment that has `total` of them.

    Parameters
    ----------
    begin, end, total : int
        With ``0 <= begin < end <= total``.

    Examples
    --------
    >>> whole = Range(0, 1000, 1000)
    >>> whole.closer()
    Range(begin=250, end=750, total=1000)
    >>> whole.closer().later().later()
    Range(begin=500, end=1000, total=1000)
    >>> whole.closer().wider() == whole
    True
    """

    begin: int
    end: int
    total: int

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left out."""
        return self.begin == 0 and self.end == self.total

    @property
    def follows(self) -> bool:
        """Whether it reaches to the newest result, and grows with the experiment."""
        return self.end == self.total

    def closer(self) -> Range:
        """Return half of it: the middle, or the newest half of a range that follows."""
        width = max(self._width // 2, min(_LEAST, self._width))
        if self.follows and not self.is_whole:
            return self._of(self.end - width, width)
        return self._of(self.begin + (self._width - width) // 2, width)

    def wider(self) -> Range:
        """Return a range twice as wide around it, or as wide as there are results."""
        width = min(2 * self._width, self.total)
        return self._of(self.begin - (width - self._width) // 2, width)

    def earlier(self) -> Range:
        """Return the range moved back by half its width."""
        return self._of(self.begin - max(self._width // 2, 1), self._width)

    def later(self) -> Range:
        """Return the range moved on by half its width."""
        return self._of(self.begin + max(self._width // 2, 1), self._width)

    def newest(self) -> Range:
        """Return the newest results: that many, but no more than a quarter of all."""
        most = max(self.total // _NEWEST, min(_LEAST, self.total))
        width = min(self._width, most)
        return self._of(self.total - width, width)

    def whole(self) -> Range:
        """Return everything."""
        return Range(0, self.total, self.total)

    @property
    def _width(self) -> int:
        return self.end - self.begin

    def _of(self, begin: int, width: int) -> Range:
        begin = min(max(begin, 0), self.total - width)
        return Range(begin, begin + width, self.total)


def moments_within(across: Sequence[float], begin: float, end: float) -> list[float]:
    """Return the places between two others, which are added where lines reach them.

    Examples
    --------
    >>> moments_within([0, 10, 20], 5, 30)
    [5, 10, 20]
    """
    inside = list(across[bisect_left(across, begin) : bisect_right(across, end)])
    edges = [edge for edge in (begin, end) if across and across[0] <= edge <= across[-1]]
    return sorted({*edges, *inside})


def value_at(across: Sequence[float], up: Sequence[float | None], where: float) -> float | None:
    """Return the height of a line at a place; None beyond its ends, and where it has a gap.

    Examples
    --------
    >>> value_at([0, 10], [0.0, 1.0], 4), value_at([0, 10], [0.0, None], 4)
    (0.4, None)
    """
    place = bisect_left(across, where)
    if place == len(across):
        return None
    right = up[place]
    if across[place] == where or right is None:
        return right
    left = up[place - 1] if place else None
    if left is None:
        return None
    share = (where - across[place - 1]) / (across[place] - across[place - 1])
    return (1 - share) * left + share * right
