"""What is known about every mean: estimates, intervals, floors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from fairtrial.core.keywords import named_arguments
from fairtrial.core.recommendation import Progress
from fairtrial.plots import _style as style
from fairtrial.plots._fonts import legible
from fairtrial.presentation.charts import Interval, IntervalChart, interval_chart
from fairtrial.presentation.limits import Standing
from fairtrial.presentation.panels import shown_panels
from fairtrial.presentation.sources import HasProgress, minimizes, progress_of

__all__ = ["means"]

# Circle: on the right side of its limit; cross: on the wrong side. Filled: the whole interval is,
# too; square: the decision has settled it. Diamond: no limit.
_MARKS = {
    Standing.FREE: ("D", style.BLUE, style.BLUE),
    Standing.KEPT: ("o", style.BLUE, style.BLUE),
    Standing.DECIDED: ("s", style.BLUE, style.BLUE),
    Standing.LIKELY_KEPT: ("o", "white", style.BLUE),
    Standing.LIKELY_BROKEN: ("X", "white", style.VERMILLION),
    Standing.BROKEN: ("X", style.VERMILLION, style.VERMILLION),
}


@legible
@named_arguments
def means(source: Progress | HasProgress, *, figure: Figure | SubFigure | None = None) -> Figure:
    """Draw every mean with its interval and its floor.

    The first panel has the arms' overall quality, if the policy reports one; then there is a panel
    for each group. Shape and fill of a mark show the status of its floor: a circle for a mean on
    the right side and a cross for one on the wrong side, filled if the whole interval is there too;
    a square for a floor that the decision has settled. Each interval holds on its own, and is wider
    than the evidence that decides. The answer, or the leader, has a grey band. A thin arrow at the
    edge shows that an interval continues beyond the axis.

    At most 24 arms are drawn: the answer, or the leader, then the arms with the best means that are
    not ruled out. At most 14 groups are drawn: those where the answer, or the leader, is nearest to
    its floor.

    Parameters
    ----------
    source : Study, Policy or Progress
        The source of the estimates.
    figure : matplotlib.figure.Figure or SubFigure, optional
        Where to draw; by default a new figure.

    Raises
    ------
    InvalidArgument
        If the source reports no estimates.

    Examples
    --------
    >>> from fairtrial import Estimate, Progress, Recommendation
    >>> cell = Estimate({"arm": "a", "group": "x"}, 20, mean=.3, lower=.1, upper=.5, lower_limit=0.)
    >>> progress = Progress(
    ...     Recommendation(arm=None, status="running"), asked=20, told=20, outstanding=0,
    ...     actions=(cell,))
    >>> [ax.get_title(loc="left") for ax in means(progress).axes]
    ['x']
    """
    return draw_means(progress_of(source), minimizes(source), figure)


def draw_means(progress: Progress, minimize: bool, figure: Figure | SubFigure | None) -> Figure:
    """Draw the means of a progress, with a given direction."""
    shown = shown_panels(progress, minimize)
    chart = interval_chart(progress, shown.arms, shown.all, shown.note)
    board = style.canvas(figure, *style.small_multiples_size(len(chart.panels), len(chart.arms)))
    names = [name for name, _ in chart.panels]
    axes = style.small_multiples(board, names, share_scale=len(set(chart.axes)) == 1)
    for ax, (_, row), axis in zip(axes, chart.panels, chart.axes, strict=True):
        ax.set_xlim(*axis)
        intervals = [(at, one) for at, one in enumerate(row) if one is not None]
        _draw_intervals(ax, intervals, axis)
        _draw_limits(ax, intervals)
        _draw_means(ax, intervals)
    _scale(axes)
    style.name_rows(axes, chart.arms, chart.best)
    _explain(board, chart)
    return style.root(board)


def _draw_intervals(
    ax: Axes, intervals: Sequence[tuple[int, Interval]], axis: tuple[float, float]
) -> None:
    known = [(row, *one.ends) for row, one in intervals if one.ends is not None]
    rows, lows, highs = zip(*known, strict=True) if known else ((), (), ())
    ax.hlines(rows, lows, highs, color=style.PALE_BLUE, linewidth=1.6, gid="intervals", zorder=2)
    for edge, ends, marker in ((axis[0], lows, "<"), (axis[1], highs, ">")):
        beyond = [row for row, end in zip(rows, ends, strict=True) if end == edge]
        at = [edge] * len(beyond)
        ax.scatter(at, beyond, 14, style.PALE_BLUE, marker=marker, clip_on=False, gid="arrows")


def _draw_limits(ax: Axes, intervals: Sequence[tuple[int, Interval]]) -> None:
    at = [(row, limit) for row, one in intervals for limit in one.limits]
    ax.vlines(
        [limit for _, limit in at],
        [row - 0.42 for row, _ in at],
        [row + 0.42 for row, _ in at],
        color=style.INK,
        linewidth=1.6,
        gid="limits",
        zorder=2.5,
    )


def _draw_means(ax: Axes, intervals: Sequence[tuple[int, Interval]]) -> None:
    for state, (marker, face, edge) in _MARKS.items():
        at = [(one.mean, row) for row, one in intervals if one.standing is state]
        if at:
            x, y = zip(*at, strict=True)
            marks = ax.scatter(x, y, 30, marker=marker, facecolor=face, edgecolor=edge, zorder=3)
            marks.set_gid(state.name)
            marks.set_linewidth(1.3)
    for row, one in intervals:
        if one.mean is None:
            place = {"transform": ax.get_yaxis_transform(), "va": "center", "ha": "right"}
            look = {"color": style.MUTED, "fontsize": 7, "gid": "no result"}
            style.write(ax, 0.98, row, "no result", **place, **look)


def _scale(axes: Sequence[Axes]) -> None:
    for ax in axes:
        ax.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 2.5, 5, 10]))
    last = style.bottom_left(axes)
    last.set_xlabel("mean outcome", loc="left", fontsize=style.SMALL, color=style.INK)


def _explain(board: Figure | SubFigure, chart: IntervalChart) -> None:
    marks = [_mark(state, meaning) for state, meaning in chart.marks]
    if chart.interval:
        marks.append(Line2D([], [], label=chart.interval, color=style.PALE_BLUE, linewidth=1.6))
    if chart.limit:
        marks.append(Line2D([], [], label=chart.limit, markeredgewidth=1.6, **style.UPRIGHT))
    style.key(board, marks, chart.note)


def _mark(state: Standing, meaning: str) -> Line2D:
    marker, face, edge = _MARKS[state]
    look: dict[str, Any] = {"markerfacecolor": face, "markeredgecolor": edge}
    return Line2D([], [], linestyle="none", marker=marker, label=meaning, **look)
