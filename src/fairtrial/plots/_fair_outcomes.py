"""Fair interventions: every arm's outcome against its counterfactual gap."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from fairtrial.core.keywords import named_arguments
from fairtrial.core.validation import check_choice
from fairtrial.plots import _style as style
from fairtrial.plots._causal import EstimatesLike, QuestionLike
from fairtrial.plots._fonts import legible
from fairtrial.presentation.sources import Floats, check_offers
from fairtrial.presentation.words import plural, shorten

__all__ = ["fair_outcomes"]


# Circle: estimated gap inside the bound; cross: outside. Filled: certain.
_MARKS = {
    "fair": ("o", style.BLUE, style.BLUE),
    "inside, undecided": ("o", "white", style.BLUE),
    "outside, undecided": ("X", "white", style.VERMILLION),
    "unfair": ("X", style.VERMILLION, style.VERMILLION),
}
_MOST_NAMED = 20
_SIDES = ((1, 1), (-1, 1), (1, -1), (-1, -1), (1, 0), (-1, 0))
"""Places of a name: right or left, above, below or beside its mark."""


@legible
@named_arguments
def fair_outcomes(
    estimates: EstimatesLike, interval: str = "normal", *, ax: Axes | None = None
) -> Figure:
    """Draw every arm's mean outcome against its counterfactual gap, with the fairness band.

    The answer is the highest mark (the lowest, if outcomes are minimized) inside the band; its
    name is bold. If the gaps are not just each other's negatives (more than two values, or an
    attribute with parents), the size of the largest is shown. Filled marks have a verdict that
    holds for all arms together at the estimates' level.

    Parameters
    ----------
    estimates : Estimates
        From `fairtrial.causal.estimate`, or a policy's `estimates`.
    interval : {"normal", "bernstein"}
        The intervals drawn, each at the estimates' own level. Verdicts use wider ones: by
        Bernstein's inequality if outcomes have a range, and for all arms together. So a normal
        interval may be clear of the bound while the verdict is open; the legend explains this.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure.

    Raises
    ------
    InvalidArgument
        If `estimates` has another type, or `interval` is unknown.

    Examples
    --------
    >>> import fairtrial as ft
    >>> arms = {"a": [[0.5, 0.5], [0.4, 0.6]], "b": [[0.2, 0.8], [0.1, 0.9]]}
    >>> problem, environment = ft.causal.chain(0.4, arms, [0.1, 0.9], fairness_bound=0.2)
    >>> log = environment.table([0] * 500 + [3] * 500, np.random.default_rng(1))
    >>> fair_outcomes(ft.causal.estimate(problem, log)).axes[0].get_ylabel()
    'mean Y'
    """
    check_choice("interval", interval, ["normal", "bernstein"])
    accepted = "must be what causal.estimate, or a policy's estimates, returned"
    check_offers("estimates", estimates, accepted, "problem", "best")
    points = _points(estimates, interval)
    ax = style.axes(ax, 6.8, 4.4, grid="both")
    _draw_band(ax, estimates.problem)
    for kind, look in _MARKS.items():
        _draw_points(ax, [p for p in points if p.kind == kind], kind, look)
    if points:
        _set_limits(ax, points, estimates.problem.fairness_bound)
        _name_points(ax, points, estimates.best)
    else:
        style.message(ax, "no row is informative about any arm yet")
    _explain_points(ax, estimates, points, interval)
    return style.root(ax)


@dataclass(frozen=True, slots=True)
class _Point:
    arm: str
    kind: str
    gap: float
    mean: float
    gap_ends: tuple[float, float]
    mean_ends: tuple[float, float]


def _points(estimates: EstimatesLike, interval: str) -> list[_Point]:
    """Return the arms for which there are data."""
    problem = estimates.problem
    means = getattr(estimates, f"mean_{interval}")
    gaps = getattr(estimates, f"gaps_{interval}")
    result = []
    for k, arm in enumerate(problem.arm_labels):
        if math.isfinite(estimates.means[k]):
            gap, ends = _shown_gap(problem, estimates.gaps[k], gaps[k])
            kind = _kind(estimates.verdicts[k], abs(gap) < problem.fairness_bound)
            result.append(_Point(arm, kind, gap, float(estimates.means[k]), ends, _pair(means[k])))
    return result


def _shown_gap(problem: Any, gaps: Floats, ends: Floats) -> tuple[float, tuple[float, float]]:
    """Return the first pair's gap if it says everything, or else the largest size (or 0)."""
    if not len(gaps):
        return 0.0, (0.0, 0.0)
    if _has_one_gap(problem):
        return float(gaps[0]), _pair(ends[0])
    place = int(np.argmax(np.abs(gaps)))
    low, high = _pair(ends[place] if gaps[place] >= 0 else -ends[place])
    return float(abs(gaps[place])), (low, high)


def _has_one_gap(problem: QuestionLike) -> bool:
    """Return whether there are two gaps, one of them the other's negative."""
    return len(problem.pairs) == 2 and problem.is_root


def _pair(ends: Floats) -> tuple[float, float]:
    return float(min(ends)), float(max(ends))


def _kind(verdict: str, inside: bool) -> str:
    if verdict != "undecided":
        return verdict
    return "inside, undecided" if inside else "outside, undecided"


def _draw_band(ax: Axes, problem: QuestionLike) -> None:
    bound = problem.fairness_bound
    low = -bound if _has_one_gap(problem) or not problem.pairs else 0.0
    ax.axvspan(low, bound, color="#e3eef6", zorder=0, linewidth=0, gid="band")
    for end in {low, bound} - {0.0}:
        ax.axvline(end, color=style.BLUE, linewidth=0.9, linestyle=(0, (4, 2)), zorder=1)
    text = "counterfactual gap: none, nothing carries it"
    if _has_one_gap(problem):
        a, b = problem.pairs[0]
        text = f"counterfactual gap: mean outcome as {a}, less that as {b}"
    elif problem.pairs:
        text = "largest counterfactual gap"
    ax.set_xlabel(text, fontsize=style.SMALL, color=style.INK, parse_math=False)
    name = f"mean {problem.outcome_node}"
    ax.set_ylabel(name, fontsize=style.SMALL, color=style.INK, parse_math=False)


def _draw_points(ax: Axes, points: Sequence[_Point], kind: str, look: tuple[str, str, str]) -> None:
    if not points:
        return
    marker, face, edge = look
    x, y = [p.gap for p in points], [p.mean for p in points]
    lines: dict[str, Any] = {"color": edge, "linewidth": 0.9, "alpha": 0.45, "zorder": 2}
    ax.hlines(y, [p.gap_ends[0] for p in points], [p.gap_ends[1] for p in points], **lines)
    ax.vlines(x, [p.mean_ends[0] for p in points], [p.mean_ends[1] for p in points], **lines)
    ax.scatter(x, y, 34, marker=marker, facecolor=face, edgecolor=edge, zorder=3, gid=kind)


def _set_limits(ax: Axes, points: Sequence[_Point], bound: float) -> None:
    """Show all marks and most intervals completely; a few wide ones run off the axes."""
    gaps = [(p.gap, p.gap_ends) for p in points]
    low, high = _span([p.gap for p in points], gaps)
    # A bound far from all marks would squeeze them together.
    shown = bound if bound <= 3.0 * max(abs(low), abs(high)) else 0.0
    low = min(low, -shown if low < 0.0 else 0.0)
    high = max(high, shown if high > 0.0 else 0.0)
    ax.set_xlim(low - 0.07 * (high - low or 1.0), high + 0.07 * (high - low or 1.0))
    low, high = _span([p.mean for p in points], [(p.mean, p.mean_ends) for p in points])
    ax.set_ylim(low - 0.06 * (high - low or 1.0), high + 0.06 * (high - low or 1.0))


def _span(
    centres: Sequence[float], intervals: Iterable[tuple[float, tuple[float, float]]]
) -> tuple[float, float]:
    reach = [max(c - low, high - c) for c, (low, high) in intervals if math.isfinite(high - low)]
    pad = float(np.quantile(reach, 0.7)) if reach else 0.0
    return min(centres) - pad, max(centres) + pad


def _name_points(ax: Axes, points: Sequence[_Point], best: str | None) -> None:
    """Write names where they touch neither each other nor a mark; omit the others."""
    style.root(ax).draw_without_rendering()
    marks = ax.transData.transform([(p.gap, p.mean) for p in points])
    scale = style.root(ax).dpi / 72.0
    taken = [_Box(x - 5 * scale, y - 5 * scale, x + 5 * scale, y + 5 * scale) for x, y in marks]
    order = sorted(range(len(points)), key=lambda i: (points[i].arm != best, -points[i].mean))
    for place in order[:_MOST_NAMED]:
        _name_point(ax, points[place], marks[place], taken, best, scale)


@dataclass(frozen=True, slots=True)
class _Box:
    left: float
    bottom: float
    right: float
    top: float

    def touches(self, other: _Box) -> bool:
        return (
            self.left < other.right
            and other.left < self.right
            and self.bottom < other.top
            and other.bottom < self.top
        )


def _name_point(
    ax: Axes, point: _Point, mark: Floats, taken: list[_Box], best: str | None, scale: float
) -> None:
    bold = point.arm == best
    name = shorten(point.arm, style.LABEL_LENGTH)
    side = _free_side(ax, mark, (5.2 if bold else 4.6) * len(name) * scale, taken, scale)
    if side is None and not bold:
        return
    right, up = side or _SIDES[0]
    ax.annotate(
        name,
        (point.gap, point.mean),
        xytext=(7 * right, 9 * up),
        textcoords="offset points",
        ha="left" if right > 0 else "right",
        va="center",
        fontsize=style.SMALL if bold else 7.0,
        fontweight="bold" if bold else "normal",
        color=style.INK if bold else style.MUTED,
        gid="name",
        parse_math=False,
    )


def _free_side(
    ax: Axes, mark: Floats, width: float, taken: list[_Box], scale: float
) -> tuple[int, int] | None:
    """Return the first side of a mark where a name touches nothing, and mark it as taken."""
    height, frame = 10.0 * scale, ax.get_window_extent()
    for right, up in _SIDES:
        left = mark[0] + 7 * scale if right > 0 else mark[0] - 7 * scale - width
        bottom = mark[1] - height / 2 + up * 0.9 * height
        box = _Box(left, bottom, left + width, bottom + height)
        inside = frame.x0 <= box.left and box.right <= frame.x1
        if inside and not any(box.touches(other) for other in taken):
            taken.append(box)
            return right, up
    return None


def _explain_points(
    ax: Axes, estimates: EstimatesLike, points: Sequence[_Point], interval: str
) -> None:
    marks: list[Any] = [
        Line2D([], [], linestyle="none", marker=m, markerfacecolor=f, markeredgecolor=e, label=kind)
        for kind, (m, f, e) in _MARKS.items()
        if any(point.kind == kind for point in points)
    ]
    level = 100 * (1 - estimates.delta)
    what = "approximate (verdicts: wider)" if interval == "normal" else "Bernstein"
    marks.append(
        Line2D([], [], color=style.MUTED, linewidth=0.9, label=f"{level:g} % interval, {what}")
    )
    bound = f"fair: gap inside ±{estimates.problem.fairness_bound:g}"
    marks.append(Patch(facecolor="#e3eef6", edgecolor=style.BLUE, linestyle="--", label=bound))
    style.key(style.root(ax), marks)
    answer = "no fair arm" if estimates.best is None else shorten(estimates.best, 30)
    style.title(ax, f"{plural(estimates.rows, 'row')}, best by the estimates: {answer}")
