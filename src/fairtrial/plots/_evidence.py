"""The evidence on its way to the threshold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from fairtrial.core.keywords import named_arguments
from fairtrial.core.recommendation import Progress
from fairtrial.plots import _style as style
from fairtrial.plots._fonts import legible
from fairtrial.presentation.alternatives import strength
from fairtrial.presentation.charts import EvidenceChart, e_value_ticks, evidence_chart
from fairtrial.presentation.sources import Floats, LeadPeriod, Traced, trace_of
from fairtrial.presentation.words import decimals, fixed, listed, shorten

__all__ = ["evidence"]

_SHORT = 14
_DEEPEST = 2.0
_THIN: dict[str, Any] = {"color": style.MUTED, "linewidth": 0.8, "alpha": 0.8}
_NARROWEST_NAMED = 0.11
"""A period shorter than this share of the axis does not show its leader's name."""


@legible
@named_arguments
def evidence(source: Traced | Sequence[Progress], *, ax: Axes | None = None) -> Figure:
    """Draw the evidence for the leader, and the threshold that stops the policy.

    Dotted lines mark changes of the leader; the leader's name is above its period. If every
    possible answer has its own evidence against it, thin lines show it for at most 6 answers that
    are ruled out, each up to a cross on the threshold.

    Parameters
    ----------
    source : Study or sequence of Progress
        Moments of one experiment, in order.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure.

    Raises
    ------
    InvalidArgument
        If there is no moment to draw.

    Examples
    --------
    >>> from fairtrial import Progress, Recommendation
    >>> leads = Recommendation(arm=None, status="running", leader="b")
    >>> trace = [Progress(leads, n, n, 0, evidence=n / 50, threshold=3.0) for n in range(100)]
    >>> evidence(trace).axes[0].get_xlabel()
    'results'
    """
    chart = evidence_chart(trace_of(source))
    ax = style.axes(ax, 6.4, 3.4, grid="y")
    if chart.is_empty:
        ax.set_axis_off()
        waits = chart.threshold[-1] is not None
        style.message(ax, "no evidence yet" if waits else "no evidence is reported")
        return style.root(ax)
    told = np.array(chart.told, dtype=np.float64)
    gained, needed = np.array(chart.evidence, float), np.array(chart.threshold, float)
    _draw_rivals(ax, chart, needed[-1])
    ax.plot(told, gained, color=style.BLUE, linewidth=1.8, gid="evidence", zorder=3)
    ax.plot(told[-1:], gained[-1:], "o", color=style.BLUE, markersize=5, zorder=4)
    ax.plot(told, needed, color=style.VERMILLION, linewidth=1.6, linestyle=(0, (5, 2)))
    ax.lines[-1].set_gid("threshold")
    ax.set_xlabel("results", fontsize=style.SMALL, color=style.INK)
    what = "strength of evidence\nagainst the last rival"
    if not chart.in_e_values:
        what = "evidence for the leader\n(in the rule's units)"
    ax.set_ylabel(what, fontsize=style.SMALL)
    _set_scale(ax, told, gained, needed)
    if chart.in_e_values:
        ax.set_yticks(*zip(*e_value_ticks(*ax.get_ylim()), strict=True))
    _name_threshold(ax, told, needed, in_e_values=chart.in_e_values)
    _mark_leaders(ax, chart.lead_periods)
    return style.root(ax)


def _draw_rivals(ax: Axes, chart: EvidenceChart, threshold: float) -> None:
    """Draw the evidence against each answer that is ruled out, until it was."""
    for one in chart.rivals:
        values = np.array(one.against, dtype=np.float64)
        ax.plot(chart.told[: len(values)], values, **_THIN, gid="alternative")
    look: dict[str, Any] = {"color": style.MUTED, "markersize": 6, "gid": "ruled out", "zorder": 4}
    for crossing in chart.crossings:
        names = [shorten(answer, _SHORT) for answer in crossing.answers]
        ax.plot([crossing.told], [threshold], "x", **look)
        ax.annotate(
            f"{listed(names, 2)} out",
            (crossing.told, threshold),
            xytext=(3, -5),
            textcoords="offset points",
            rotation=90,
            ha="left",
            va="top",
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.9, "pad": 0.4},
            zorder=5,
            fontsize=7,
            color=style.MUTED,
            parse_math=False,
        )


def _set_scale(ax: Axes, told: Floats, gained: Floats, needed: Floats) -> None:
    top = np.nanmax([*gained, *needed])
    # Large early losses would squeeze the part that decides; they run off the axis.
    low = min(max(np.nanmin(gained), -_DEEPEST * top), 0.0)
    if np.nanmin(gained) < low:
        place = {"transform": ax.transAxes, "ha": "center", "va": "bottom", "color": style.MUTED}
        style.write(ax, 0.5, 0.02, "the evidence runs on below", gid="below", fontsize=7, **place)
    ax.set_ylim(low - 0.03 * (top - low), top + 0.22 * (top - low or 1.0))
    ax.set_xlim(0, 1.02 * max(told[-1], 1.0))
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))


def _name_threshold(ax: Axes, told: Floats, needed: Floats, *, in_e_values: bool) -> None:
    known = np.flatnonzero(np.isfinite(needed))
    if known.size:
        last = float(needed[known[-1]])
        named = f"threshold {fixed(last, decimals([last], 3))}"
        if in_e_values:
            named = f"ruled out at {strength(last)}"
        # Left of the middle the evidence is still low, and the names of early leaders have ended.
        ax.annotate(
            named,
            (told[known[known.size // 5]], needed[known[known.size // 5]]),
            xytext=(3, 3),
            textcoords="offset points",
            fontsize=style.SMALL,
            color=style.DARK_VERMILLION,
        )


def _mark_leaders(ax: Axes, lead_periods: Sequence[LeadPeriod]) -> None:
    length = ax.get_xlim()[1]
    for index, period in enumerate(lead_periods):
        if index:
            line = ax.axvline(period.start, color=style.MUTED, linewidth=0.9, linestyle=":")
            line.set_gid("leader change")
        width = (period.end - period.start) / length
        if width >= _NARROWEST_NAMED:
            place = {"transform": ax.get_xaxis_transform(), "va": "top", "color": style.MUTED}
            name = shorten(period.leader, max(5, int(60 * width)))
            style.write(ax, period.start + 0.008 * length, 0.985, name, gid="leader", **place)
