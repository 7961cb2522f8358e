"""The share of pulls that every arm got, compared with its guaranteed share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray

from fairtrial.core.keywords import named_arguments
from fairtrial.core.validation import check_array
from fairtrial.errors import InvalidArgument
from fairtrial.plots import _style as style
from fairtrial.plots._fonts import legible
from fairtrial.presentation.cuts import MOST_ARMS
from fairtrial.presentation.quotas import is_simulation
from fairtrial.presentation.shares import Share, carried_note, pulls_in, shares_of, shown_shares
from fairtrial.presentation.sources import Floats, Source, problem_of, progress_of, pulls_of
from fairtrial.presentation.words import percent, plural, shorten

__all__ = ["shares_against_quotas", "shares_height"]


@legible
@named_arguments
def shares_against_quotas(
    source: Source,
    quotas: ArrayLike | None = None,
    *,
    ax: Axes | None = None,
) -> Figure:
    """Draw the share of pulls that every arm got, compared with its guaranteed share.

    A bar is dark up to the share that the arm is owed by now, and light beyond. The owed share is
    the guaranteed one, minus the credit with which the arm began: an arm that was ahead at the end
    of an earlier epoch is owed less. At most 24 arms are drawn: those that are nearest to what they
    are owed, or most below it.

    Parameters
    ----------
    source : Simulation, Study, Policy or Progress
        For a simulation, the mean over the runs, with a tick at the run that gave the arm least.
    quotas : array_like of shape (n_arms,), optional
        Guaranteed shares; by default those of the source's problem.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure.

    Raises
    ------
    InvalidArgument
        If there are no quotas, or the source reports no pulls by arm.

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
    shares = _served(source, quotas)
    shown, note = shown_shares(shares)
    ax = style.axes(ax, 6.4, shares_height(len(shares)))
    _draw_shares(ax, shown)
    least = _least_shares(source)
    if least is not None:
        places = [place for place, one in enumerate(shares) if one in shown]
        _draw_ticks(ax, least[places], 0.2, style.VERMILLION, "least")
    _finish_shares(ax, shown)
    _explain_shares(ax, shares, note, least is not None)
    return style.root(ax.figure)


def shares_height(arms: int) -> float:
    """Return the height in inches that makes that many arms readable."""
    return 1.3 + 0.24 * min(arms, MOST_ARMS)


def _served(source: object, quotas: ArrayLike | None) -> list[Share]:
    """Return every arm's share, with the given quotas or those of the source."""
    known = [] if is_simulation(source) else shares_of(progress_of(source))
    if known and quotas is None:
        return known
    labels, pulls = pulls_of(source)
    if known:
        pulls = np.array([one.pulls for one in known if not one.joint], dtype=np.int64)
    shares = _plays_of(source) * pulls / max(int(pulls.sum()), 1)
    owed = _checked_quotas(source, quotas, len(labels))
    names = [", ".join(map(str, row.values())) for row in labels]
    rows = zip(names, pulls.tolist(), shares.tolist(), owed.tolist(), strict=True)
    return [Share(name, number, share, quota, quota) for name, number, share, quota in rows]


def _checked_quotas(source: object, quotas: ArrayLike | None, arms: int) -> Floats:
    given = quotas
    if quotas is None and is_simulation(source):
        given = source.problem.guaranteed_shares
    if given is None:
        raise InvalidArgument("quotas", "must be given: the source has no guaranteed shares")
    owed = check_array("quotas", given, (arms,), axes=("arms",))
    if (owed < 0).any() or owed.max() > 1:
        raise InvalidArgument("quotas", "must be shares from 0 to 1", quotas)
    return owed


def _plays_of(source: object) -> int:
    problem = problem_of(source)
    return 1 if problem is None else problem.plays


def _least_shares(source: object) -> Floats | None:
    if not is_simulation(source):
        return None
    pulls: NDArray[Any] = source.pulls
    if len(pulls) < 2:
        return None
    plays = _plays_of(source)
    totals = np.maximum(pulls.sum(axis=1, keepdims=True), 1)
    least: Floats = (plays * pulls / totals).min(axis=0)
    return least


def _draw_shares(ax: Axes, shown: Sequence[Share]) -> None:
    rows = np.arange(len(shown))
    shares, owed = np.array([(one.share, one.owed) for one in shown]).T
    kept = np.minimum(shares, owed)
    look: dict[str, Any] = {"height": 0.62, "edgecolor": style.BLUE, "linewidth": 0.6}
    ax.barh(rows, kept, color=style.BLUE, gid="guaranteed", **look)
    ax.barh(rows, shares - kept, left=kept, color=style.SKY, gid="beyond", **look)
    if any(one.carried for one in shown):
        _draw_ticks(ax, np.array([one.quota for one in shown]), 0.28, style.MUTED, "quota")
    _draw_ticks(ax, owed, 0.42, style.INK, "owed")


def _draw_ticks(ax: Axes, at: Floats, half: float, color: str, gid: str) -> None:
    rows = np.arange(len(at))
    ax.vlines(at, rows - half, rows + half, color=color, linewidth=2, gid=gid, zorder=3)


def _finish_shares(ax: Axes, shown: Sequence[Share]) -> None:
    rows = range(len(shown))
    short = [shorten(one.arm, style.LABEL_LENGTH) for one in shown]
    ax.set_yticks(rows, labels=short, parse_math=False)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(shown) - 0.4, -0.6)
    ax.set_xlim(0, 1.4 * max(1e-9, *(max(one.share, one.owed, one.quota) for one in shown)))
    ax.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    style.in_percent(ax.xaxis)
    place = {"transform": ax.get_yaxis_transform(), "ha": "right", "va": "center"}
    for row, one in enumerate(shown):
        text = f"{percent(one.share)}, owed {percent(one.owed)}"
        style.write(ax, 1.0, row, text, color=style.MUTED, fontsize=7, gid="share", **place)


def _explain_shares(ax: Axes, shares: Sequence[Share], note: str, with_least: bool) -> None:
    total, carried = pulls_in(shares), carried_note(shares)
    marks: list[Any] = [
        Patch(color=style.BLUE, label=f"share of {plural(total, 'pull')}, as far as owed"),
        Patch(facecolor=style.SKY, edgecolor=style.BLUE, label="beyond that"),
    ]
    owed = "owed by now" if carried else "guaranteed share, owed at any time"
    marks.append(Line2D([], [], label=owed, markeredgewidth=2, **style.UPRIGHT))
    if carried:
        tick = {**style.UPRIGHT, "color": style.MUTED, "markersize": 7}
        marks.append(Line2D([], [], label="guaranteed share", markeredgewidth=2, **tick))
    if with_least:
        tick = {**style.UPRIGHT, "color": style.VERMILLION, "markersize": 6}
        marks.append(Line2D([], [], label="share in its worst run", markeredgewidth=2, **tick))
    style.key(ax.figure, marks, " ".join(filter(None, [note, carried])))
