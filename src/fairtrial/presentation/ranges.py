"""A range of an experiment's results, for zooming."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Range", "moments_within", "value_at"]

_LEAST = 4
"""Smallest number of results in a range."""
_NEWEST = 4
"""The newest results shown from the whole are one part in this many."""


@dataclass(frozen=True, slots=True)
class Range:
    """Results `begin` to `end` of an experiment with `total` results.

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
        """Whether the range contains all results."""
        return self.begin == 0 and self.end == self.total

    @property
    def follows(self) -> bool:
        """Whether the range ends with the newest result, and grows with the experiment."""
        return self.end == self.total

    def closer(self) -> Range:
        """Return half of the range: the middle, or the newest half of a range that follows."""
        width = max(self._width // 2, min(_LEAST, self._width))
        if self.follows and not self.is_whole:
            return self._of(self.end - width, width)
        return self._of(self.begin + (self._width - width) // 2, width)

    def wider(self) -> Range:
        """Return a range twice as wide around this one, as far as there are results."""
        width = min(2 * self._width, self.total)
        return self._of(self.begin - (width - self._width) // 2, width)

    def earlier(self) -> Range:
        """Return the range moved back by half its width."""
        return self._of(self.begin - max(self._width // 2, 1), self._width)

    def later(self) -> Range:
        """Return the range moved forward by half its width."""
        return self._of(self.begin + max(self._width // 2, 1), self._width)

    def newest(self) -> Range:
        """Return the newest results: as many as in this range, but at most a quarter of all."""
        most = max(self.total // _NEWEST, min(_LEAST, self.total))
        width = min(self._width, most)
        return self._of(self.total - width, width)

    def whole(self) -> Range:
        """Return the range of all results."""
        return Range(0, self.total, self.total)

    @property
    def _width(self) -> int:
        return self.end - self.begin

    def _of(self, begin: int, width: int) -> Range:
        begin = min(max(begin, 0), self.total - width)
        return Range(begin, begin + width, self.total)


def moments_within(across: Sequence[float], begin: float, end: float) -> list[float]:
    """Return the places between `begin` and `end`; these are included if the line reaches them.

    Examples
    --------
    >>> moments_within([0, 10, 20], 5, 30)
    [5, 10, 20]
    """
    inside = list(across[bisect_left(across, begin) : bisect_right(across, end)])
    edges = [edge for edge in (begin, end) if across and across[0] <= edge <= across[-1]]
    return sorted({*edges, *inside})


def value_at(across: Sequence[float], up: Sequence[float | None], where: float) -> float | None:
    """Return the height of a line at a place; None beyond its ends and in its gaps.

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
