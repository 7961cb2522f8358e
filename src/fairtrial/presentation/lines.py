"""Line charts as data: what changes with the number of results, or the size of an effect."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from fairtrial.core.recommendation import Progress
from fairtrial.presentation.bounds import bounded_values
from fairtrial.presentation.guardrails import (
    Guardrail,
    guardrails_of_arm,
    places_of_measures,
)
from fairtrial.presentation.limits import distance_to_limit, finite
from fairtrial.presentation.ranges import moments_within, value_at
from fairtrial.presentation.shares import shares_of
from fairtrial.presentation.sources import arm_of
from fairtrial.presentation.words import fixed

__all__ = [
    "Level",
    "Line",
    "LineChart",
    "behind_chart",
    "bound_chart",
    "distance_chart",
    "effect_chart",
    "limit_evidence_chart",
    "measure_charts",
    "stopping_chart",
]

_STEPS = 80
_MOST_LINES = 6
_MOST_MEASURES = 6

_Name = tuple[str, int]
"""The name of a line, and a number that distinguishes it from others with the same name."""


@dataclass(frozen=True, slots=True)
class Line:
    """Values over an axis.

    Parameters
    ----------
    name : str
        What the line shows.
    across, up : tuple of float
        The coordinates of its points.
    """

    name: str
    across: tuple[float, ...]
    up: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Level:
    """A height with a name, to compare lines with."""

    height: float
    name: str


@dataclass(frozen=True, slots=True)
class LineChart:
    """Lines with common axes.

    Parameters
    ----------
    lines : tuple of Line
        The lines to draw.
    across, up : str
        The names of the axes.
    span, height : (float, float)
        The ends of the axes.
    shares : bool
        Whether the heights are probabilities, to be written in per cent.
    marked : bool
        Whether to mark the points themselves, if there are few.
    level : Level, optional
        The level to compare the lines with.
    in_e_values : bool
        Whether the heights are logarithms of e-values; readers see the e-values.
    """

    lines: tuple[Line, ...]
    across: str
    up: str
    span: tuple[float, float]
    height: tuple[float, float]
    shares: bool
    marked: bool = False
    level: Level | None = None
    in_e_values: bool = False

    @property
    def shown_level(self) -> Level | None:
        """The level, if it is within the height of the chart."""
        if self.level is None or not self.height[0] <= self.level.height <= self.height[1]:
            return None
        return self.level

    def within(self, begin: float, end: float) -> LineChart:
        """Return the part of the chart between two places, with the height of that part.

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
    """Return the share of runs that have decided, by number of pulls.

    Parameters
    ----------
    times : mapping of str to array_like
        For each name, the numbers of pulls of the runs that decided.
    runs : int
        Number of all runs, including those that did not decide.
    most : int
        Number of pulls after which runs were cut off.

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
    """Return values by the size of an effect, as a multiple of the assumed one.

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
    """Return how far an arm's means were on the right side of their limits, by results.

    The chart shows the means that are nearest to their limits now. None if there is nothing to
    draw, or if pulls have several measures: see `measure_charts`.
    """
    if any("measure" in one.labels for moment in trace for one in moment.actions[:1]):
        return None
    found: dict[_Name, list[tuple[float, float]]] = {}
    for moment in trace:
        for one in moment.actions:
            distance = distance_to_limit(finite(one.mean), one)
            if arm_of(one.labels) == arm and distance is not None:
                name = ", ".join(str(v) for key, v in one.labels.items() if key != "arm") or arm
                found.setdefault((name, 0), []).append((float(moment.told), distance))
    return _over_results(found, "distance from the limit", Level(0.0, "limit"))


def measure_charts(trace: Sequence[Progress], arm: str) -> dict[str, LineChart]:
    """Return for each measure how far an arm's means were on the right side of their limits.

    Each measure has its own chart, because units differ. If there are many, return the measures
    whose limits have the least evidence now.
    """
    charts = {}
    for measure in _least_certain(trace[-1], arm):
        found = _of_limits(trace, arm, lambda one: one.distance, measure)
        up = f"distance from the limit, in units of {measure}"
        chart = _over_results(found, up, Level(0.0, "limit"))
        if chart is not None:
            charts[measure] = chart
    return charts


def limit_evidence_chart(trace: Sequence[Progress], arm: str) -> LineChart | None:
    """Return the evidence that an arm keeps each limit of a measure, by results.

    Evidence has the same scale for all measures. The chart ends at the level that settles a limit,
    and as far below 1. None if there were no bets on the arm's limits.
    """
    levels = [one.needed for one in guardrails_of_arm(trace[-1], arm) if one.needed is not None]
    most = max(levels, default=0.0)
    if not most > 0.0:
        return None

    def evidence(one: Guardrail) -> float | None:
        return None if one.log_evidence is None else min(max(one.log_evidence, -most), most)

    found = _of_limits(trace, arm, evidence)
    if not any(value for points in found.values() for _, value in points):
        return None
    chart = _over_results(found, "evidence that the limit is kept", Level(most, "settled"))
    return None if chart is None else replace(chart, in_e_values=True)


def _of_limits(
    trace: Sequence[Progress],
    arm: str,
    value_of: Callable[[Guardrail], float | None],
    measure: str | None = None,
) -> dict[_Name, list[tuple[float, float]]]:
    """Return a value for each of an arm's limits at each moment, for one measure or for all."""
    limits = guardrails_of_arm(trace[-1], arm)
    places = places_of_measures(limits)
    found: dict[_Name, list[tuple[float, float]]] = {}
    for moment in trace:
        for number, one in enumerate(guardrails_of_arm(moment, arm)):
            value = value_of(one)
            if value is not None and measure in (None, one.measure):
                name = f"{one.where}, {_limit_of(one, places[one.measure])}"
                if measure is None:
                    name = f"{one.measure}, {name}"
                found.setdefault((name, number), []).append((float(moment.told), value))
    return found


def _limit_of(one: Guardrail, places: int) -> str:
    return one.limit(partial(fixed, places=places))


def _least_certain(progress: Progress, arm: str) -> list[str]:
    """Return the measures whose limits to show, in the order of the problem."""
    least: dict[str, float] = {}
    for one in guardrails_of_arm(progress, arm):
        known = math.inf if one.log_evidence is None else one.log_evidence
        least[one.measure] = min(known, least.get(one.measure, math.inf))
    shown = sorted(least, key=lambda measure: least[measure])[:_MOST_MEASURES]
    return [measure for measure in least if measure in shown]


def bound_chart(trace: Sequence[Progress], arm: str) -> LineChart | None:
    """Return how far an arm's bounded values were within their bound, by results."""
    found: dict[_Name, list[tuple[float, float]]] = {}
    for moment in trace:
        for one in bounded_values(moment, minimize=False):
            if one.arm == arm and one.distance is not None:
                found.setdefault((one.of, 0), []).append((float(moment.told), one.distance))
    return _over_results(found, "distance from the bound", Level(0.0, "bound"))


def behind_chart(trace: Sequence[Progress]) -> LineChart | None:
    """Return by how many pulls arms were behind what they are owed; None if unknown."""
    found: dict[_Name, list[tuple[float, float]]] = {}
    for moment in trace:
        for one in shares_of(moment):
            if one.behind is not None:
                found.setdefault((one.arm, 0), []).append((float(moment.told), one.behind))
    level = Level(0.0, "what is owed")
    return _over_results(found, "pulls behind", level, smallest_first=False)


def _over_results(
    found: Mapping[_Name, Sequence[tuple[float, float]]],
    up: str,
    level: Level,
    *,
    smallest_first: bool = True,
) -> LineChart | None:
    """Return values by results; if there are many lines, only those that matter most now."""
    drawn = {name: points for name, points in found.items() if len({x for x, _ in points}) > 1}
    if not drawn:
        return None
    sign = 1.0 if smallest_first else -1.0
    names = sorted(drawn, key=lambda name: sign * drawn[name][-1][1])[:_MOST_LINES]
    lines = [
        Line(name[0], tuple(x for x, _ in drawn[name]), tuple(y for _, y in drawn[name]))
        for name in drawn
        if name in names
    ]
    height = _height([0.0, level.height, *(value for line in lines for value in line.up)])
    span = (0.0, max(line.across[-1] for line in lines))
    return LineChart(tuple(lines), "results", up, span, height, shares=False, level=level)
