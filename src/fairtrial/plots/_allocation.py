"""The shares of the pulls, compared with the optimal ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from fairtrial.core.keywords import named_arguments
from fairtrial.plots import _style as style
from fairtrial.plots._fonts import legible
from fairtrial.presentation.charts import Bar, ShareChart, most_pulled, share_chart
from fairtrial.presentation.sources import Source, noun_of_pulls, pulls_of
from fairtrial.presentation.words import percent, plural

__all__ = ["allocation"]

_MOST_LABELLED = 60
"""With more cells, bars have no numbers, because these would overlap."""


@legible
@named_arguments
def allocation(
    source: Source,
    optimal: ArrayLike | None = None,
    *,
    figure: Figure | SubFigure | None = None,
) -> Figure:
    """Draw the share of pulls that every action got, compared with the optimal allocation.

    There is a panel for each group, or a single panel, and a bar for each arm. At most 24 arms and
    14 groups are drawn: those with the most pulls. Shares are still shares of all pulls.

    Parameters
    ----------
    source : Simulation, Study, Policy or Progress
        For a simulation, the pulls of all replications are added up, so that the shares are
        those of the mean numbers of pulls.
    optimal : array_like of shape (n_actions,) or (n_arms, n_groups), optional
        Optimal shares, non-negative with sum 1, in the order of the actions: the `allocation`
        of a family's `complexity`. Drawn as ticks across the bars.
    figure : matplotlib.figure.Figure or SubFigure, optional
        Where to draw; by default a new figure.

    Raises
    ------
    InvalidArgument
        If the source reports no actions, or `optimal` is not a distribution over them.

    Examples
    --------
    >>> from fairtrial import Estimate, Progress, Recommendation
    >>> labels = [{"arm": "a"}, {"arm": "b"}]
    >>> progress = Progress(
    ...     Recommendation(arm=None, status="running"), asked=40, told=40, outstanding=0,
    ...     actions=tuple(Estimate(label, pulls=20) for label in labels))
    >>> figure = allocation(progress, optimal=[0.5, 0.5])
    >>> [float(bar.get_width()) for bar in figure.axes[0].patches]
    [0.5, 0.5]
    """
    labels, pulls = pulls_of(source)
    chart = share_chart(labels, pulls.tolist(), optimal, *most_pulled(labels, pulls.tolist()))
    size = style.small_multiples_size(len(chart.panels), len(chart.arms))
    board = style.canvas(figure, *size)
    axes = style.small_multiples(board, [name for name, _ in chart.panels])
    numbered = sum(bar is not None for _, row in chart.panels for bar in row) <= _MOST_LABELLED
    for ax, (_, row) in zip(axes, chart.panels, strict=True):
        bars = [(at, bar) for at, bar in enumerate(row) if bar is not None]
        _draw_bars(ax, bars)
        if numbered:
            _write_shares(ax, bars)
    style.name_rows(axes, chart.arms)
    _scale(axes, chart.most)
    _explain(board, chart, noun_of_pulls(source))
    return style.root(board)


def _draw_bars(ax: Axes, bars: Sequence[tuple[int, Bar]]) -> None:
    rows, widths = [row for row, _ in bars], [bar.share for _, bar in bars]
    ax.barh(rows, widths, height=0.62, color=style.SKY, edgecolor=style.BLUE, linewidth=0.6)
    best = [bar.optimal for _, bar in bars if bar.optimal is not None]
    if best:
        low, high = np.array(rows) - 0.4, np.array(rows) + 0.4
        ax.vlines(best, low, high, color=style.INK, linewidth=2, gid="optimal", zorder=3)


def _write_shares(ax: Axes, bars: Sequence[tuple[int, Bar]]) -> None:
    # In a separate column, where neither a bar nor a tick can touch them.
    place = {"transform": ax.get_yaxis_transform(), "ha": "right", "va": "center"}
    paper = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
    look = {"color": style.MUTED, "fontsize": 7, "bbox": paper, "gid": "share"}
    for row, bar in bars:
        style.write(ax, 1.0, row, percent(bar.share, places=1), **look, **place)


def _scale(axes: Sequence[Axes], most: float) -> None:
    for ax in axes:
        ax.set_xlim(0, 1.35 * most)
        ax.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 2.5, 5, 10]))
        style.in_percent(ax.xaxis)


def _explain(board: Figure | SubFigure, chart: ShareChart, noun: str) -> None:
    share = f"share of {plural(chart.total, noun)}"
    marks: list[Patch | Line2D] = [Patch(facecolor=style.SKY, edgecolor=style.BLUE, label=share)]
    if chart.has_optimal:
        marks.append(Line2D([], [], label="optimal share", markeredgewidth=2, **style.UPRIGHT))
    style.key(board, marks, chart.note)
