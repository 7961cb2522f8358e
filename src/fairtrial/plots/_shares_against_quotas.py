"""The share of pulls that every arm got, against the share that it is guaranteed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.core.validation import check_array
from fairtrial.errors import InvalidArgument
from fairtrial.plots import _style as style
from fairtrial.plots._quotas import (
    is_simulation,
    quotas_of,
)
from fairtrial.plots._sources import Floats, Source, progress_of, pulls_of
from fairtrial.plots._words import percent, plural, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["shares_against_quotas"]

_MOST_ARMS = 60


def shares_against_quotas(
    source: Source,
    quotas: ArrayLike | None = None,
    *,
    ax: Axes | None = None,
) -> Figure:
    """Draw the share of pulls that every arm got, against the share that it is guaranteed.

    A bar is dark up to the guaranteed share; what goes beyond is light. With more than 60
    arms those 60 are drawn that are nearest to their guarantee, or most below it.

    Parameters
    ----------
    source : Simulation, Study, Policy or Progress
        Of a simulation the mean over the runs, with a tick at the run that gave the arm least.
    quotas : array_like of shape (n_arms,), optional
        Guaranteed shares; by default those of the source's problem.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InvalidArgument
        If there are no quotas, or the source reports no pulls by arm.
    MissingExtra
        If matplotlib is not installed.

    Examples
    --------
    >>> from fairtrial import Estimate, Progress, Recommendation
    >>> progress = Progress(
    ...     Recommendation(arm=None, status="running"), asked=40, told=40, outstanding=0,
    ...     actions=tuple(Estimate({"arm": name}, pulls=20) for name in "ab"))
    >>> figure = shares_against_quotas(progress, quotas=[0.3, 0.1])
    >>> [round(float(bar.get_width()), 3) for bar in figure.axes[0].patches]
    [0.3, 0.1, 0.2, 0.4]
    """
    labels, pulls, promised = _served(source)
    given = promised if quotas is None else quotas
    if given is None:
        raise InvalidArgument("quotas", "must be given: the source knows of no guaranteed shares")
    owed = check_array("quotas", given, (len(labels),))
    if (owed < 0).any() or owed.max() > 1:
        raise InvalidArgument("quotas", "must be shares from 0 to 1", quotas)
    plays = getattr(getattr(source, "problem", None), "plays", 1)
    shares = plays * pulls / max(int(pulls.sum()), 1)
    shown = _nearest(shares - owed)
    names = [", ".join(map(str, labels[arm].values())) for arm in shown]
    if ax is None:
        ax = style.new_figure(6.4, 1.3 + 0.24 * len(shown)).subplots()
    style.tidy(ax)
    _draw_shares(ax, shares[shown], owed[shown])
    least = _least_shares(source, plays)
    if least is not None:
        _draw_ticks(ax, least[shown], 0.2, style.VERMILLION, "least")
    _finish_shares(ax, names, shares[shown], owed[shown])
    _explain_shares(ax, int(pulls.sum()), len(labels) - len(shown), least is not None)
    return style.root(ax.figure)


def _served(source: object) -> tuple[list[Mapping[str, Any]], NDArray[np.int64], Floats | None]:
    """Return the labels of every arm, its pulls, and its guaranteed share if that is known."""
    if is_simulation(source):
        labels, pulls = pulls_of(source)
        problem = source.problem
        return labels, pulls, quotas_of(problem) if hasattr(problem, "shares") else None
    arms = progress_of(source).arms
    limits = [arm.limit for arm in arms if arm.limit is not None]
    if not arms or len(limits) < len(arms):
        return *pulls_of(source), None
    # Pulls that were issued: those are what a share is of, not the results that came.
    issued = np.array([arm.pulls for arm in arms], dtype=np.int64)
    return [arm.labels for arm in arms], issued, np.array(limits)


def _nearest(surplus: Floats) -> NDArray[np.int64]:
    """Return the arms to draw, in their own order."""
    order = np.argsort(surplus, kind="stable")[:_MOST_ARMS]
    return np.sort(order)


def _least_shares(source: object, plays: int) -> Floats | None:
    if not is_simulation(source):
        return None
    pulls: NDArray[Any] = source.pulls
    if len(pulls) < 2:
        return None
    totals = np.maximum(pulls.sum(axis=1, keepdims=True), 1)
    least: Floats = (plays * pulls / totals).min(axis=0)
    return least


def _draw_shares(ax: Axes, shares: Floats, owed: Floats) -> None:
    rows = np.arange(len(shares))
    kept = np.minimum(shares, owed)
    look: dict[str, Any] = {"height": 0.62, "edgecolor": style.BLUE, "linewidth": 0.6}
    ax.barh(rows, kept, color=style.BLUE, gid="guaranteed", **look)
    ax.barh(rows, shares - kept, left=kept, color=style.SKY, gid="beyond", **look)
    _draw_ticks(ax, owed, 0.42, style.INK, "quota")


def _draw_ticks(ax: Axes, at: Floats, half: float, color: str, gid: str) -> None:
    rows = np.arange(len(at))
    ax.vlines(at, rows - half, rows + half, color=color, linewidth=2, gid=gid, zorder=3)


def _finish_shares(ax: Axes, names: Sequence[str], shares: Floats, owed: Floats) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    rows = range(len(names))
    short = [shorten(name, style.LABEL_LENGTH) for name in names]
    ax.set_yticks(rows, labels=short, parse_math=False)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_xlim(0, 1.4 * max(float(shares.max()), float(owed.max()), 1e-9))
    ax.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda share, _: percent(share)))
    place = {"transform": ax.get_yaxis_transform(), "ha": "right", "va": "center"}
    for row in rows:
        text = f"{percent(float(shares[row]))}, owed {percent(float(owed[row]))}"
        style.write(ax, 1.0, row, text, color=style.MUTED, fontsize=7, gid="share", **place)


def _explain_shares(ax: Axes, total: int, hidden: int, with_least: bool) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    marks: list[Any] = [
        Patch(color=style.BLUE, label=f"share of {plural(total, 'pull')}, as far as guaranteed"),
        Patch(facecolor=style.SKY, edgecolor=style.BLUE, label="beyond that"),
        Line2D([], [], label="guaranteed share", markeredgewidth=2, **style.UPRIGHT),
    ]
    if with_least:
        tick = {**style.UPRIGHT, "color": style.VERMILLION, "markersize": 6}
        marks.append(Line2D([], [], label="share in its worst run", markeredgewidth=2, **tick))
    if hidden:
        style.title(ax, f"{plural(hidden, 'arm')} further above their share are not drawn")
    style.key(style.root(ax.figure), marks)
