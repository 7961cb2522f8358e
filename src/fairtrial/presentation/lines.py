"""Lines over one axis, as data: what changes with the pulls, or with the size of an effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from fairtrial.core.recommendation import Progress
from fairtrial.presentation.bounds import bounded_values
from fairtrial.presentation.limits import distance_to_limit, finite
from fairtrial.presentation.ranges import moments_within, value_at
from fairtrial.presentation.shares import shares_of
from fairtrial.presentation.sources import arm_of

__all__ = [
    "Line",
    "LineChart",
    "behind_chart",
    "bound_chart",
    "distance_chart",
    "effect_chart",
    "stopping_chart",
]

_STEPS = 80
_MOST_LINES = 6


@dataclass(frozen=True, slots=True)
class Line:
    """Values over an axis.

    Parameters
    ----------
    name : str
        What it is of.
    across, up : tuple of float
        Where its points are.
    """

    name: str
    across: tuple[float, ...]
    up: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class LineChart:
    """Lines with common axes.

    Parameters
    ----------
    lines : tuple of Line
        What is drawn.
    across, up : str
        What the axes are.
    span, height : (float, float)
        Their ends.
    shares : bool
        Whether what goes up is a probability, to be written in per cent.
    marked : bool
        Whether the points themselves are shown: where they are few.
    """

    lines: tuple[Line, ...]
    across: str
    up: str
    span: tuple[float, float]
    height: tuple[float, float]
    shares: bool
    marked: bool = False

    def within(self, begin: float, end: float) -> LineChart:
        """Return the part of the chart between two places, as high as its lines are there.

        Examples
        --------
        >>> line = Line("a", (0.0, 10.0, 20.0), (0.0, 5.0, 1.0))
        >>> chart = LineChart((line,), "results", "mean", (0.0, 20.0), (0.0, 5.0), shares=False)
        >>> chart.within(5, 10).lines[0].up, chart.within(5, 10).height
        ((2.5, 5.0), (2.5, 5.0))
        """
        lines = tuple(_line_within(line, begin, end) for line in self.lines)
        height = _height([value for line in lines for value in line.up])
        return replace(self, lines=lines, span=(begin, end), height=height)


def _line_within(line: Line, begin: float, end: float) -> Line:
    places = moments_within(line.across, begin, end)
    values = [(x, y) for x in places if (y := value_at(line.across, line.up, x)) is not None]
    return replace(line, across=tuple(x for x, _ in values), up=tuple(y for _, y in values))


def _height(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values, default=0.0), max(values, default=1.0)
    return low, high if high > low else low + (abs(low) or 1.0)


def stopping_chart(times: Mapping[str, ArrayLike], runs: int, most: int) -> LineChart:
    """Return the probability of having decided by a number of pulls.

    Parameters
    ----------
    times : mapping of str to array_like
        By name, the pulls of the runs that decided.
    runs : int
        Number of all runs.
    most : int
        Pulls after which runs were ended.

    Examples
    --------
    >>> chart = stopping_chart({"full": [10, 20]}, runs=4, most=20)
    >>> chart.lines[0].up[0], chart.lines[0].up[-1]
    (0.0, 0.5)
    """
    across = np.unique(np.linspace(0, most, _STEPS + 1).round())
    lines = [
        Line(name, tuple(across.tolist()), tuple((_decided_by(across, own) / runs).tolist()))
        for name, own in times.items()
    ]
    up = "runs that have decided"
    return LineChart(tuple(lines), "pulls", up, (0.0, float(most)), (0.0, 1.0), shares=True)


def _decided_by(pulls: ArrayLike, times: ArrayLike) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.searchsorted(np.sort(np.asarray(times)), pulls, side="right")


def effect_chart(
    effects: Sequence[float], values: Mapping[str, Sequence[float]], up: str, shares: bool
) -> LineChart:
    """Return values over the size of an effect, as a multiple of what is assumed.

    Examples
    --------
    >>> effect_chart([0, 1], {"mean": [900.0, 300.0]}, "pulls", shares=False).height
    (0.0, 900.0)
    """
    lines = [Line(name, tuple(effects), tuple(own)) for name, own in values.items()]
    highest = 1.0 if shares else max(max(line.up) for line in lines)
    across = "effect, in multiples of what is assumed"
    span = (0.0, float(max(effects)))
    return LineChart(tuple(lines), across, up, span, (0.0, highest), shares, marked=True)


def distance_chart(trace: Sequence[Progress], arm: str) -> LineChart | None:
    """Return how far an arm's means were on the right side of their limits, over the results.

    Those that are nearest to their limits now are shown; None if there is nothing to draw, or if
    pulls measure several things, whose distances have units of their own.
    """
    if any("measure" in one.labels for moment in trace for one in moment.actions[:1]):
        return None
    found: dict[str, list[tuple[float, float]]] = {}
    for moment in trace:
        for one in moment.actions:
            distance = distance_to_limit(finite(one.mean), one)
            if arm_of(one.labels) == arm and distance is not None:
                name = ", ".join(str(v) for key, v in one.labels.items() if key != "arm") or arm
                found.setdefault(name, []).append((float(moment.told), distance))
    return _over_results(found, "distance from the limit", smallest_first=True)


def bound_chart(trace: Sequence[Progress], arm: str) -> LineChart | None:
    """Return how far an arm's bounded values were within their bound, over the results."""
    found: dict[str, list[tuple[float, float]]] = {}
    for moment in trace:
        for one in bounded_values(moment, minimize=False):
            if one.arm == arm and one.distance is not None:
                found.setdefault(one.of, []).append((float(moment.told), one.distance))
    return _over_results(found, "distance from the bound", smallest_first=True)


def behind_chart(trace: Sequence[Progress]) -> LineChart | None:
    """Return by how many pulls arms were behind what they are owed; None if it is not known."""
    found: dict[str, list[tuple[float, float]]] = {}
    for moment in trace:
        for one in shares_of(moment):
            if one.behind is not None:
                found.setdefault(one.arm, []).append((float(moment.told), one.behind))
    return _over_results(found, "pulls behind", smallest_first=False)


def _over_results(
    found: Mapping[str, Sequence[tuple[float, float]]], up: str, *, smallest_first: bool
) -> LineChart | None:
    """Return values over the results; only the lines that matter most now, if they are many."""
    drawn = {name: points for name, points in found.items() if len({x for x, _ in points}) > 1}
    if not drawn:
        return None
    sign = 1.0 if smallest_first else -1.0
    names = sorted(drawn, key=lambda name: sign * drawn[name][-1][1])[:_MOST_LINES]
    lines = [
        Line(name, tuple(x for x, _ in drawn[name]), tuple(y for _, y in drawn[name]))
        for name in drawn
        if name in names
    ]
    height = _height([0.0, *(value for line in lines for value in line.up)])
    span = (0.0, max(line.across[-1] for line in lines))
    return LineChart(tuple(lines), "results", up, span, height, shares=False)
