"""Where the pulls went, against where they should have gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.plots import _style as style
from fairtrial.presentation.cuts import cut_by, groups_by
from fairtrial.presentation.sources import (
    Floats,
    Grid,
    Source,
    optimal_shares,
    pulls_of,
)
from fairtrial.presentation.words import percent, plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

__all__ = ["allocation"]

_MOST_LABELLED = 60
"""Cells beyond which the bars carry no numbers, as these would touch."""


def allocation(
    source: Source,
    optimal: ArrayLike | None = None,
    *,
    figure: Figure | SubFigure | None = None,
) -> Figure:
    """Draw the share of pulls that every action got, against the optimal allocation.

    A panel for each group, a bar for each arm; without groups there is one panel. Of many arms
    24 are drawn, and of many groups 14: those with the most pulls. Shares are of all pulls all
    the same.

    Parameters
    ----------
    source : Simulation, Study, Policy or Progress
        Of a simulation, the pulls of all replications together, so that the shares are
        those of the mean numbers of pulls.
    optimal : array_like of shape (n_actions,) or (n_arms, n_groups), optional
        Optimal shares, non-negative with sum 1, in the order of the actions:
        the weights that a family's `complexity` returns. Drawn as ticks across the bars.
    figure : matplotlib.figure.Figure or SubFigure, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InvalidArgument
        If the source reports no actions, or `optimal` is not a distribution over them.
    MissingExtra
        If matplotlib is not installed.

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
    best = optimal_shares(optimal, len(labels))
    shares = pulls / max(int(pulls.sum()), 1)
    shown, note = _most_pulled(Grid.of(labels), pulls)
    grid = Grid.of([labels[action] for action in shown])
    size = style.small_multiples_size(len(grid.groups), len(grid.arms))
    board = style.canvas(figure, *size)
    axes = style.small_multiples(board, grid.groups)
    numbered = len(shown) <= _MOST_LABELLED
    for ax, (_, actions) in zip(axes, grid.panels(shown), strict=True):
        _draw_bars(ax, actions, shares)
        if best is not None:
            _draw_optimal(ax, actions, best)
        if numbered:
            _write_shares(ax, actions, shares)
    style.name_rows(axes, grid.arms)
    _scale(axes, shares[shown], None if best is None else best[shown])
    _explain(board, int(pulls.sum()), best is not None, note)
    return style.root(board)


def _most_pulled(grid: Grid, pulls: NDArray[np.int64]) -> tuple[list[int], str]:
    """Return the actions that are drawn, arm by arm, and which these are."""
    why = "those with the most pulls"
    by_group = dict(grid.panels(range(len(pulls))))
    by_arm = dict(zip(grid.arms, zip(*by_group.values(), strict=True), strict=True))
    cut = cut_by(_ranks(by_arm, pulls), why)
    groups, note = groups_by(_ranks(by_group, pulls), why)
    places = [grid.groups.index(group) for group in groups]
    found = [by_arm[arm][place] for arm in cut.arms for place in places]
    return [action for action in found if action is not None], f"{cut.note} {note}".strip()


def _ranks(parts: Mapping[str, Sequence[int | None]], pulls: NDArray[np.int64]) -> dict[str, int]:
    return {
        name: -sum(int(pulls[action]) for action in actions if action is not None)
        for name, actions in parts.items()
    }


def _draw_bars(ax: Axes, actions: Sequence[int | None], shares: Floats) -> None:
    rows = [row for row, action in enumerate(actions) if action is not None]
    widths = [shares[action] for action in actions if action is not None]
    ax.barh(rows, widths, height=0.62, color=style.SKY, edgecolor=style.BLUE, linewidth=0.6)


def _draw_optimal(ax: Axes, actions: Sequence[int | None], best: Floats) -> None:
    rows = [row for row, action in enumerate(actions) if action is not None]
    at = [best[action] for action in actions if action is not None]
    low, high = np.array(rows) - 0.4, np.array(rows) + 0.4
    ax.vlines(at, low, high, color=style.INK, linewidth=2, gid="optimal", zorder=3)


def _write_shares(ax: Axes, actions: Sequence[int | None], shares: Floats) -> None:
    # In a column of their own, where neither bar nor tick can touch them.
    place = {"transform": ax.get_yaxis_transform(), "ha": "right", "va": "center"}
    paper = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
    look = {"color": style.MUTED, "fontsize": 7, "bbox": paper, "gid": "share"}
    for row, action in enumerate(actions):
        if action is not None:
            style.write(ax, 1.0, row, percent(float(shares[action]), places=1), **look, **place)


def _scale(axes: Sequence[Axes], shares: Floats, best: Floats | None) -> None:
    from matplotlib.ticker import MaxNLocator

    most = max(float(shares.max()), 0.0 if best is None else float(best.max())) or 1.0
    for ax in axes:
        ax.set_xlim(0, 1.35 * most)
        ax.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 2.5, 5, 10]))
        style.in_percent(ax.xaxis)


def _explain(board: Figure | SubFigure, total: int, with_optimal: bool, note: str) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    marks: list[Patch | Line2D] = [
        Patch(facecolor=style.SKY, edgecolor=style.BLUE, label=f"share of {plural(total, 'pull')}")
    ]
    if with_optimal:
        marks.append(Line2D([], [], label="optimal share", markeredgewidth=2, **style.UPRIGHT))
    style.key(board, marks, note)
