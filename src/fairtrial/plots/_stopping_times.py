"""How long the runs of a simulation took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import StrMethodFormatter

from fairtrial.core.keywords import named_arguments
from fairtrial.core.validation import check_number
from fairtrial.errors import InvalidArgument
from fairtrial.plots import _style as style
from fairtrial.plots._fonts import legible
from fairtrial.presentation.limits import finite
from fairtrial.presentation.sources import Floats, SimulationLike
from fairtrial.presentation.words import number, plural, shorten

__all__ = ["stopping_times"]

_BINS = 40
_LINES: dict[str, dict[str, Any]] = {
    "mean": {"color": style.BLUE, "linewidth": 1.4, "marker": "D", "markersize": 6},
    "median": {
        "color": style.BLUE,
        "linewidth": 1.4,
        "linestyle": ":",
        "marker": "o",
        "markersize": 6,
        "markerfacecolor": "white",
        "zorder": 4,
    },
    "lower bound": {"color": style.VERMILLION, "linewidth": 1.8, "linestyle": (0, (4, 2))},
}
_TALLEST = 0.6
"""Height of the fullest bin, in rows."""


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    times: Floats
    unfinished: int
    bound: float | None


@legible
@named_arguments
def stopping_times(
    simulation: SimulationLike | Mapping[str, SimulationLike],
    lower_bound: float | None = None,
    *,
    ax: Axes | None = None,
) -> Figure:
    """Draw the distribution of stopping times, with mean, median and the lower bound.

    Several simulations are drawn below each other on one scale, with the same bins. Runs that ended
    without an answer count with the length that they reached: mean and median are then themselves
    lower bounds, and are labelled so.

    Parameters
    ----------
    simulation : Simulation, or mapping of str to Simulation
        The simulations to draw; the keys name the rows.
    lower_bound : float, optional
        Mean stopping time that no correct policy can beat, in pulls; by default the
        `lower_bound` of each simulation, if it has one.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure.

    Raises
    ------
    InvalidArgument
        If there are no runs, or the bound is negative or not finite.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> runs = SimpleNamespace(
    ...     stopping_time=np.array([90, 100, 140]), status=["decided"] * 3, lower_bound=70.0)
    >>> print(stopping_times({"BlockBetting": runs}).axes[0].texts[0].get_text())
    3 runs,  mean 110 (s.e. 15),  median 100,  bound 70
    """
    rows = _rows(simulation, lower_bound)
    ax = style.axes(ax, 6.8, 0.9 + 1.25 * len(rows))
    edges = _bin_edges(rows)
    for index, row in enumerate(rows):
        _draw_row(ax, row, len(rows) - 1 - index, edges)
    _scale(ax, rows, edges)
    _explain(ax, any(row.bound is not None for row in rows))
    return style.root(ax)


def _rows(
    simulation: SimulationLike | Mapping[str, SimulationLike], bound: float | None
) -> list[_Row]:
    named = simulation if isinstance(simulation, Mapping) else {"": simulation}
    if not named:
        raise InvalidArgument("simulation", "must name at least one simulation", named)
    if bound is not None:
        bound = check_number("lower_bound", bound, low=0.0)
    return [_row(str(name), runs, bound) for name, runs in named.items()]


def _row(name: str, runs: SimulationLike, bound: float | None) -> _Row:
    times = np.asarray(getattr(runs, "stopping_time", None), dtype=np.float64)
    if times.ndim != 1 or not times.size:
        raise InvalidArgument("simulation", "must have the stopping times of its runs", runs)
    unfinished = sum(status != "decided" for status in runs.status)
    own = finite(runs.lower_bound) if bound is None else bound
    return _Row(name, times, unfinished, own)


def _bin_edges(rows: list[_Row]) -> Floats:
    pooled = np.concatenate([row.times for row in rows])
    spread = int(np.ptp(pooled))
    edges: Floats = np.histogram_bin_edges(pooled, bins=min(_BINS, max(spread, 1)))
    return edges


def _draw_row(ax: Axes, row: _Row, base: float, edges: Floats) -> None:
    counts, _ = np.histogram(row.times, edges)
    heights = _TALLEST * counts / counts.max()
    bars: dict[str, Any] = {
        "color": style.SKY,
        "edgecolor": "white",
        "linewidth": 0.4,
        "align": "edge",
    }
    ax.bar(edges[:-1], heights, np.diff(edges), bottom=base, **bars)
    ax.axhline(base, color=style.MUTED, linewidth=0.6)
    for name, value in (("mean", row.times.mean()), ("median", np.median(row.times))):
        ax.plot([value, value], [base, base + _TALLEST], gid=name, **_LINES[name], markevery=[0])
    if row.bound is not None:
        bound = [row.bound, row.bound]
        ax.plot(bound, [base, base + _TALLEST + 0.03], gid="lower bound", **_LINES["lower bound"])
    place = {"transform": ax.get_yaxis_transform(), "va": "bottom"}
    style.write(ax, 0.0, base + _TALLEST + 0.07, _sentence(row), gid="numbers", **place)
    if row.name:
        bold = {"fontweight": "bold", "gid": "name", **place}
        style.write(ax, 0.0, base + _TALLEST + 0.19, shorten(row.name, 60), **bold)


def _sentence(row: _Row) -> str:
    runs = len(row.times)
    error = row.times.std(ddof=1) / np.sqrt(runs) if runs > 1 else np.nan
    mean = f"mean {'≥ ' if row.unfinished else ''}{number(row.times.mean())}"
    if np.isfinite(error):
        mean += f" (s.e. {number(error, 2)})"
    median_is_bound = 2 * row.unfinished >= runs
    median = f"median {'≥ ' if median_is_bound else ''}{number(float(np.median(row.times)))}"
    parts = [plural(runs, "run"), mean, median]
    if row.bound is not None:
        parts.append(f"bound {number(row.bound)}")
    if row.unfinished:
        parts.append(f"{number(row.unfinished)} without an answer")
    return ",  ".join(parts)


def _scale(ax: Axes, rows: list[_Row], edges: Floats) -> None:
    bounds = [row.bound for row in rows if row.bound is not None]
    ax.set_xlim(0, 1.02 * max([edges[-1], *bounds]))
    ax.set_ylim(-0.07, len(rows) - (0 if rows[0].name else 0.14))
    ax.set_yticks([])
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    ax.set_xlabel("results until the stop", fontsize=style.SMALL, color=style.INK)


def _explain(ax: Axes, with_bound: bool) -> None:
    names = [name for name in _LINES if with_bound or name != "lower bound"]
    style.key(style.root(ax), [Line2D([], [], label=name, **_LINES[name]) for name in names])
