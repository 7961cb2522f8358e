"""Lines with bands over runs, bounds beside them, and axes for both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from fairtrial.plots import _style as style
from fairtrial.presentation.sources import Floats

__all__ = [
    "Bound",
    "Line",
    "draw_bound",
    "draw_line",
    "handle",
    "handles",
    "name_axes",
    "scale_regret",
    "scale_time",
    "spread",
    "with_key",
    "write_counts",
]

_BOUND_STYLES: tuple[Any, ...] = ((0, (2, 2)), (0, (7, 3)), (0, (1, 3)))
_WIDE = 100.0
"""Ratio of largest to smallest number beyond which an axis is logarithmic."""

Bound = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Line:
    """A quantity at some rounds: one row per run."""

    name: str
    at: Floats
    values: Floats

    @property
    def mean(self) -> Floats:
        mean: Floats = self.values.mean(axis=0)
        return mean

    def between(self, low: float, high: float) -> tuple[Floats, Floats]:
        """Return two quantiles over the runs, at each of the rounds."""
        lower, upper = np.quantile(self.values, [low, high], axis=0)
        return lower, upper


def draw_line(ax: Axes, index: int, line: Line, band: tuple[Floats, Floats]) -> None:
    """Draw the mean of the runs over a band, in the style of that place in the key."""
    look = style.LINES[index % len(style.LINES)]
    ax.plot(line.at, line.mean, linewidth=1.5, label=line.name, gid="curve", **look)
    if len(line.values) > 1:
        ax.fill_between(line.at, *band, color=look["color"], alpha=0.15, linewidth=0, gid="band")


def draw_bound(ax: Axes, index: int, name: str, at: Floats, bound: Bound) -> None:
    """Draw a bound thin and black, because it is not measured."""
    values = [float(bound(float(x))) for x in at]
    pattern = _BOUND_STYLES[index % len(_BOUND_STYLES)]
    ax.plot(at, values, color=style.INK, linewidth=1, linestyle=pattern, label=name, gid="bound")


def spread(lines: Sequence[Line]) -> Floats:
    """Return rounds at which to draw a smooth curve."""
    low = max(1.0, min(float(line.at.min()) for line in lines))
    high = max(float(line.at.max()) for line in lines)
    rounds: Floats = np.unique(np.geomspace(low, max(high, low), 200).round())
    return rounds


def scale_time(ax: Axes, lines: Sequence[Line]) -> None:
    """Scale the horizontal axis to the rounds: by powers of ten if they were chosen like that."""
    low = min(float(line.at.min()) for line in lines)
    high = max(float(line.at.max()) for line in lines)
    if low > 0 and high / low >= _WIDE and not _evenly_spaced(lines):
        ax.set_xscale("log")
    if high > low:
        ax.set_xlim(low, high)
    write_counts(ax)


def _evenly_spaced(lines: Sequence[Line]) -> bool:
    """Return whether the rounds are evenly spaced and need a linear axis."""
    steps = [np.diff(line.at) for line in lines if len(line.at) > 2]
    return all(step.max() <= 2 * step.min() for step in steps)


def scale_regret(ax: Axes, lines: Sequence[Line]) -> None:
    """Scale the vertical axis to the lines; bounds may run off it."""
    means = np.concatenate([line.mean for line in lines])
    drawn = np.concatenate([np.asarray(line.get_ydata(), dtype=float) for line in ax.lines])
    if means.min() > 0 and means.max() / means.min() >= _WIDE:
        ax.set_yscale("log")
        ax.set_ylim(bottom=0.7 * drawn[drawn > 0].min())
    write_counts(ax)


def name_axes(ax: Axes, across: str, up: str) -> None:
    """Name both axes."""
    ax.set_xlabel(across, fontsize=style.SMALL, color=style.INK)
    ax.set_ylabel(up, fontsize=style.SMALL, color=style.INK)


def write_counts(ax: Axes) -> None:
    """Write the numbers on both axes in full, with commas."""
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.7g}"))


def handle(**look: Any) -> Any:
    """Return a line for the key."""
    return Line2D([], [], linewidth=1.4, **look)


def handles(ax: Axes) -> list[Any]:
    """Return all drawn objects that have a name."""
    return [
        handle
        for handle, name in zip(*ax.get_legend_handles_labels(), strict=True)
        if not name.startswith("_")
    ]


def with_key(ax: Axes) -> Figure:
    """Explain the lines below the figure, and return it."""
    figure = style.root(ax.figure)
    style.key(figure, handles(ax))
    return figure
