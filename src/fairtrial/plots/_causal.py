"""Fair interventions: outcome against gap, error against budget, rejections, the causal graph."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.recommendation import Progress
from fairtrial.core.validation import check_choice
from fairtrial.errors import InvalidArgument
from fairtrial.plots import _layers as layers
from fairtrial.plots import _style as style
from fairtrial.plots._sources import Floats, Traced, trace_of
from fairtrial.plots._words import plural, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["causal_graph", "error_by_budget", "fair_outcomes", "rejections"]


class GraphLike(Protocol):
    """A causal model: a graph whose nodes are listed parents first."""

    @property
    def nodes(self) -> Sequence[str]: ...
    def parents(self, node: str) -> Sequence[str]: ...
    def ancestors(self, nodes: Sequence[str]) -> frozenset[str]: ...


class QuestionLike(Protocol):
    """A causal problem: what `fairtrial.causal.Problem` is."""

    @property
    def model(self) -> GraphLike: ...
    @property
    def attributes(self) -> Sequence[str]: ...
    @property
    def intervened(self) -> str: ...
    @property
    def outcome_node(self) -> str: ...
    @property
    def columns(self) -> Sequence[str]: ...
    @property
    def arm_labels(self) -> Sequence[str]: ...
    @property
    def pairs(self) -> Sequence[tuple[str, str]]: ...
    @property
    def is_root(self) -> bool: ...
    @property
    def fairness_bound(self) -> float: ...
    @property
    def direction(self) -> str: ...


class EstimatesLike(Protocol):
    """Estimates of all arms: what `fairtrial.causal.estimate` returns."""

    @property
    def problem(self) -> Any: ...
    @property
    def delta(self) -> float: ...
    @property
    def rows(self) -> int: ...
    @property
    def means(self) -> Floats: ...
    @property
    def gaps(self) -> Floats: ...
    @property
    def mean_normal(self) -> Floats: ...
    @property
    def mean_bernstein(self) -> Floats: ...
    @property
    def gaps_normal(self) -> Floats: ...
    @property
    def gaps_bernstein(self) -> Floats: ...
    @property
    def verdicts(self) -> Sequence[str]: ...
    @property
    def best(self) -> str | None: ...


# ----------------------------------------------------------------- outcome against gap

# A circle's gap is estimated inside the bound, a cross's outside; filled, that is certain.
_MARKS = {
    "fair": ("o", style.BLUE, style.BLUE),
    "inside, undecided": ("o", "white", style.BLUE),
    "outside, undecided": ("X", "white", style.VERMILLION),
    "unfair": ("X", style.VERMILLION, style.VERMILLION),
}
_MOST_NAMED = 20
_SIDES = ((1, 1), (-1, 1), (1, -1), (-1, -1), (1, 0), (-1, 0))
"""Where a name may stand: right or left, above, below or beside its mark."""


def fair_outcomes(
    estimates: EstimatesLike, interval: str = "normal", *, ax: Axes | None = None
) -> Figure:
    """Draw every arm's mean outcome against its counterfactual gap, with the fairness band.

    The answer is the highest mark (the lowest, if outcomes are minimized) inside the band; its
    name is bold. Where gaps are not just each other's negatives (more than two values, or an
    attribute with parents) the size of the largest is shown. Filled marks have a verdict that
    holds for all arms together at the estimates' level.

    Parameters
    ----------
    estimates : Estimates
        What `fairtrial.causal.estimate`, or a policy's `estimates`, returned.
    interval : {"normal", "bernstein"}
        The intervals drawn, each at the estimates' own level.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InvalidArgument
        If `interval` is another one.
    MissingExtra
        If matplotlib is not installed.

    Examples
    --------
    >>> import fairtrial as ft
    >>> arms = {"a": [[0.5, 0.5], [0.4, 0.6]], "b": [[0.2, 0.8], [0.1, 0.9]]}
    >>> problem, world = ft.causal.chain(0.4, arms, [0.1, 0.9], fairness_bound=0.2)
    >>> log = world.table([0] * 500 + [3] * 500, np.random.default_rng(1))
    >>> fair_outcomes(ft.causal.estimate(problem, log)).axes[0].get_ylabel()
    'mean Y'
    """
    check_choice("interval", interval, ["normal", "bernstein"])
    points = _points(estimates, interval)
    if ax is None:
        ax = style.new_figure(6.8, 4.4).subplots()
    style.tidy(ax, grid="both")
    _draw_band(ax, estimates.problem)
    for kind, look in _MARKS.items():
        _draw_points(ax, [p for p in points if p.kind == kind], kind, look)
    if points:
        _set_limits(ax, points, estimates.problem.fairness_bound)
        _name_points(ax, points, estimates.best)
    else:
        style.message(ax, "no row tells of any arm yet")
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
    """Return the arms that something is known of."""
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
    """Return the first pair's gap if it tells all, else the size of the largest; 0 without any."""
    if not len(gaps):
        return 0.0, (0.0, 0.0)
    if _has_one_gap(problem):
        return float(gaps[0]), _pair(ends[0])
    place = int(np.argmax(np.abs(gaps)))
    low, high = _pair(ends[place] if gaps[place] >= 0 else -ends[place])
    return float(abs(gaps[place])), (low, high)


def _has_one_gap(problem: QuestionLike) -> bool:
    """Return whether there are two gaps of which one is the other's negative."""
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
    """Show all marks and most intervals whole; a few wide ones run off the axes."""
    gaps = [(p.gap, p.gap_ends) for p in points]
    low, high = _span([p.gap for p in points], gaps)
    # A bound that nothing comes near would squeeze all marks together.
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
    """Write names where they touch neither each other nor a mark; leave those out that would."""
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
    """Return the first side of a mark where a name touches nothing, and take that place."""
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
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    marks: list[Any] = [
        Line2D([], [], linestyle="none", marker=m, markerfacecolor=f, markeredgecolor=e, label=kind)
        for kind, (m, f, e) in _MARKS.items()
        if any(point.kind == kind for point in points)
    ]
    level = 100 * (1 - estimates.delta)
    what = "approximate" if interval == "normal" else "Bernstein"
    marks.append(
        Line2D([], [], color=style.MUTED, linewidth=0.9, label=f"{level:g} % interval, {what}")
    )
    bound = f"fair: gap inside ±{estimates.problem.fairness_bound:g}"
    marks.append(Patch(facecolor="#e3eef6", edgecolor=style.BLUE, linestyle="--", label=bound))
    style.key(style.root(ax), marks)
    answer = "no fair arm" if estimates.best is None else shorten(estimates.best, 30)
    style.title(ax, f"{plural(estimates.rows, 'row')}, best by the estimates: {answer}")


# ----------------------------------------------------------------- error against budget

_LINES = (
    (style.BLUE, "-", "o"),
    (style.VERMILLION, (0, (5, 2)), "s"),
    ("#009E73", (0, (2, 1.2)), "^"),
    ("#CC79A7", (0, (6, 2, 1, 2)), "D"),
    (style.INK, ":", "v"),
    ("#E69F00", (0, (3, 1, 1, 1, 1, 1)), "P"),
    (style.SKY, "-", "X"),
    (style.MUTED, (0, (1, 1)), "*"),
)
_LEVEL = 0.95


def error_by_budget(errors: Mapping[str, Mapping[int, Any]], *, ax: Axes | None = None) -> Figure:
    """Draw how often rules answer wrongly against the rows that they may spend.

    Bars are 95 % intervals of Clopper and Pearson (1934); rules stand a little apart at the
    same budget, so that their bars do not hide each other.

    Parameters
    ----------
    errors : mapping of str to mapping of int to Simulation or (int, int)
        By rule and budget the replications, or the number of wrong answers and of runs.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InvalidArgument
        If there is no rule, there are more than eight, one has no budget, or the truth of a
        simulation is not known.
    MissingExtra
        If matplotlib is not installed.

    Examples
    --------
    >>> figure = error_by_budget({"plug-in": {2000: (4, 100), 10_000: (0, 100)}})
    >>> figure.axes[0].lines[0].get_ydata().tolist()
    [0.04, 0.0]
    """
    if not errors or len(errors) > len(_LINES):
        raise InvalidArgument("errors", f"must name 1 to {len(_LINES)} rules", list(errors))
    counts = {rule: _counts(rule, by_budget) for rule, by_budget in errors.items()}
    if ax is None:
        ax = style.new_figure(6.4, 3.8).subplots()
    style.tidy(ax, grid="y")
    middle = (len(counts) - 1) / 2
    for place, (rule, by_budget) in enumerate(counts.items()):
        shift = 1.012 ** (place - middle)
        _draw_errors(ax, rule, by_budget, shift, _LINES[place])
    _scale_errors(ax, sorted({budget for by in counts.values() for budget in by}))
    return style.root(ax)


def _counts(rule: str, by_budget: Mapping[int, Any]) -> dict[int, tuple[int, int]]:
    if not by_budget:
        raise InvalidArgument("errors", f"must have a budget for {rule!r}", by_budget)
    return {int(budget): _count(by_budget[budget]) for budget in sorted(by_budget)}


def _count(found: Any) -> tuple[int, int]:
    """Return the number of wrong answers and of runs."""
    if not isinstance(found, tuple):
        correct = getattr(found, "correct", None)
        if correct is None:
            accepted = "must hold simulations whose truth is known, or (wrong, runs)"
            raise InvalidArgument("errors", accepted, found)
        found = int((~np.asarray(correct)).sum()), len(correct)
    wrong, runs = found
    if not 0 <= wrong <= runs or runs == 0:
        raise InvalidArgument("errors", "must hold (wrong, runs) with 0 <= wrong <= runs", found)
    return int(wrong), int(runs)


def _draw_errors(
    ax: Axes,
    rule: str,
    by_budget: Mapping[int, tuple[int, int]],
    shift: float,
    look: tuple[str, Any, str],
) -> None:
    colour, dashes, marker = look
    budgets = shift * np.array(list(by_budget), dtype=np.float64)
    rates = np.array([wrong / runs for wrong, runs in by_budget.values()])
    ends = np.array([_clopper_pearson(*found) for found in by_budget.values()])
    ax.vlines(budgets, ends[:, 0], ends[:, 1], color=colour, linewidth=1.1, alpha=0.6)
    ax.plot(
        budgets,
        rates,
        color=colour,
        linestyle=dashes,
        marker=marker,
        markersize=5,
        linewidth=1.5,
        label=rule,
        clip_on=False,
        gid="errors",
    )


def _clopper_pearson(wrong: int, runs: int) -> tuple[float, float]:
    from scipy.special import betaincinv

    tail = (1.0 - _LEVEL) / 2.0
    low = betaincinv(wrong, runs - wrong + 1, tail) if wrong else 0.0
    high = betaincinv(wrong + 1, runs - wrong, 1.0 - tail) if wrong < runs else 1.0
    return float(low), float(high)


def _scale_errors(ax: Axes, budgets: Sequence[int]) -> None:
    from matplotlib.ticker import PercentFormatter

    if len(budgets) > 1:
        ax.set_xscale("log")
    ax.set_xticks(budgets, labels=[f"{budget:,}" for budget in budgets])
    ax.minorticks_off()
    ax.set_ylim(-0.015, 1.02)
    ax.yaxis.set_major_formatter(PercentFormatter(1.0))
    ax.set_xlabel("rows (budget)", fontsize=style.SMALL, color=style.INK)
    ax.set_ylabel("wrong answers", fontsize=style.SMALL, color=style.INK)
    style.key(style.root(ax), ax.get_lines())


# ------------------------------------------------------------------------- rejections

_REASONS = {
    "gap": ("X", style.VERMILLION, "rejected: estimated gap outside the bound"),
    "mean": ("v", style.MUTED, "rejected: estimated gap inside, mean below the leader's"),
    "other": ("D", style.INK, "rejected: the estimates shown do not tell why"),
}


@dataclass(frozen=True, slots=True)
class _Life:
    arm: str
    end: int
    reason: str | None
    words: str


def rejections(
    source: Traced | Sequence[Progress], problem: QuestionLike, *, ax: Axes | None = None
) -> Figure:
    """Draw which arms were rejected, when, and what the estimates said of them then.

    The marks tell what the estimates of all rows so far showed when the arm was first seen
    rejected; the rule's own estimates, clipped or of the phase alone, may differ from those.

    Parameters
    ----------
    source : Study or sequence of Progress
        Moments of one experiment with a rule that rejects arms, in order.
    problem : Problem
        Its causal problem.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InvalidArgument
        If there is not one moment to draw, or no moment tells which arms are live.
    MissingExtra
        If matplotlib is not installed.

    Examples
    --------
    >>> import fairtrial as ft
    >>> from fairtrial.simulation import trace
    >>> arms = {"a": [[0.5, 0.5], [0.4, 0.6]], "b": [[0.9, 0.1], [0.1, 0.9]]}
    >>> problem, world = ft.causal.chain(0.4, arms, [0.1, 0.9], fairness_bound=0.2)
    >>> policy = ft.causal.ConstraintSuccessiveRejection(problem, budget=400)
    >>> figure = rejections(trace(policy, world, seed=1, points=40), problem)
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['a', 'b']
    """
    moments = trace_of(source)
    if any("live" not in moment.details for moment in moments):
        raise InvalidArgument("source", "must tell which arms are live", source)
    lives = _lives(moments, problem)
    if ax is None:
        ax = style.new_figure(7.4, 1.1 + 0.2 * max(4, len(lives))).subplots()
    style.tidy(ax)
    told = max(moments[-1].told, 1)
    _draw_lives(ax, lives, told)
    answer = moments[-1].recommendation
    leader = answer.arm if answer.decided else answer.leader
    _name_lives(ax, lives, str(leader))
    _scale_lives(ax, told)
    _explain_lives(ax, lives, moments[-1])
    return style.root(ax)


def _lives(moments: Sequence[Progress], problem: QuestionLike) -> list[_Life]:
    """Return when every arm's life ended: the longest first."""
    lives = [_life(moments, problem, place) for place in range(len(problem.arm_labels))]
    return sorted(lives, key=lambda life: (-life.end, life.reason is not None))


def _life(moments: Sequence[Progress], problem: QuestionLike, place: int) -> _Life:
    arm = problem.arm_labels[place]
    for moment in moments:
        if arm not in moment.details["live"]:
            reason, words = _why(moment, problem, place)
            return _Life(arm, moment.told, reason, words)
    return _Life(arm, moments[-1].told, None, "")


def _why(moment: Progress, problem: QuestionLike, place: int) -> tuple[str, str]:
    gaps = [values[place] for values in moment.details.get("gaps", {}).values()]
    gap = max((value for value in gaps if value is not None), key=abs, default=None)
    if gap is not None and abs(gap) >= problem.fairness_bound:
        return "gap", f"gap {abs(gap):.3g}, bound {problem.fairness_bound:g}"
    means = {str(arm.labels["arm"]): arm.mean for arm in moment.arms}
    own = means.get(problem.arm_labels[place])
    leader = means.get(str(moment.recommendation.leader))
    if own is not None and leader is not None and _is_worse(own, leader, problem):
        return "mean", f"mean {own:.3g}, leader's {leader:.3g}"
    return "other", ""


def _is_worse(own: float, leader: float, problem: QuestionLike) -> bool:
    return own < leader if problem.direction == "maximize" else own > leader


def _draw_lives(ax: Axes, lives: Sequence[_Life], told: int) -> None:
    for row, life in enumerate(lives):
        alive = life.reason is None
        colour, width = (style.BLUE, 2.4) if alive else (style.SKY, 1.6)
        ax.hlines(row, 0, life.end, color=colour, linewidth=width, gid="life", zorder=2)
        if life.reason is not None:
            marker, colour, _ = _REASONS[life.reason]
            ax.scatter([life.end], [row], 26, colour, marker=marker, zorder=3, gid=life.reason)
            # Near the right edge the words go on the other side of the mark, above the line.
            late = life.end > 0.72 * told
            ax.annotate(
                life.words,
                (life.end, row),
                xytext=(-7, 3.5) if late else (7, 0),
                textcoords="offset points",
                ha="right" if late else "left",
                va="bottom" if late else "center",
                fontsize=6.5,
                color=style.MUTED,
                gid="why",
            )


def _name_lives(ax: Axes, lives: Sequence[_Life], leader: str) -> None:
    style.name_rows([ax], [life.arm for life in lives], [leader])
    ax.tick_params(axis="y", labelsize=7.0 if len(lives) > 12 else style.SMALL)


def _scale_lives(ax: Axes, told: int) -> None:
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    ax.set_xlim(0, 1.02 * told)
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    ax.set_xlabel("rows", fontsize=style.SMALL, color=style.INK)


def _explain_lives(ax: Axes, lives: Sequence[_Life], last: Progress) -> None:
    from matplotlib.lines import Line2D

    marks = [Line2D([], [], color=style.BLUE, linewidth=2.4, label="live to the end")]
    for reason, (marker, colour, label) in _REASONS.items():
        if any(life.reason == reason for life in lives):
            look: dict[str, Any] = {"linestyle": "none", "marker": marker, "color": colour}
            marks.append(Line2D([], [], label=label, **look))
    style.key(style.root(ax), marks)
    style.title(ax, _ending(last))


def _ending(last: Progress) -> str:
    if not last.recommendation.decided:
        return f"after {plural(last.told, 'row')}, not decided yet"
    answer = last.recommendation.arm
    named = "no fair arm" if answer is None else shorten(str(answer), 30)
    return f"after {plural(last.told, 'row')} the answer is: {named}"


# -------------------------------------------------------------------------- the graph

_ROLES: dict[str, tuple[str, str, str, Any]] = {
    "sensitive": ("sensitive attribute", "#fbe9df", style.VERMILLION, "-"),
    "intervened": ("where the arms act", "#dcecf7", style.BLUE, "-"),
    "outcome": ("outcome", "#e2f3ec", "#009E73", "-"),
    "read": ("read in every row", "white", style.INK, "-"),
    "unread": ("not read", "white", style.MUTED, (0, (3, 2))),
}
_BOX_HEIGHT, _LAYER_GAP, _ROW_GAP = 0.32, 0.75, 0.62


def causal_graph(problem: QuestionLike, *, ax: Axes | None = None) -> Figure:
    """Draw the part of the causal graph that the question touches, causes at the left.

    Shown are the nodes that every row holds, and those on the way from them to the outcome.
    Arrows out of the sensitive attribute are those whose distributions have to be known.

    Parameters
    ----------
    problem : Problem
        The causal problem.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    MissingExtra
        If matplotlib is not installed.

    Examples
    --------
    >>> import fairtrial as ft
    >>> problem, world = ft.causal.chain(0.4, {"a": [[1, 0], [0, 1]]}, [0.1, 0.9], 0.2)
    >>> [text.get_text() for text in causal_graph(problem).axes[0].texts]
    ['S', 'V', 'Y']
    """
    nodes = _shown_nodes(problem)
    parents = {
        node: [parent for parent in problem.model.parents(node) if parent in nodes]
        for node in nodes
    }
    widths = {node: 0.26 + 0.082 * len(shorten(node, style.LABEL_LENGTH)) for node in nodes}
    drawing = layers.arrange(parents, widths, _LAYER_GAP, _ROW_GAP)
    if ax is None:
        ax = style.new_figure(drawing.width + 0.5, drawing.height + 0.7).subplots()
    _empty_frame(ax, drawing)
    for (parent, child), route in drawing.routes.items():
        _draw_arrow(ax, route, parent in problem.attributes, (parent, child))
    roles = {node: _role(problem, node) for node in nodes}
    for node in nodes:
        _draw_node(ax, node, drawing.places[node], widths[node], roles[node])
    _explain_roles(ax, set(roles.values()))
    return style.root(ax)


def _shown_nodes(problem: QuestionLike) -> list[str]:
    """Return the read nodes and all between them and the outcome, parents first."""
    model, read = problem.model, set(problem.columns) | {problem.outcome_node}
    leading = model.ancestors([problem.outcome_node])
    between = {node for node in leading if model.ancestors([node]) & read}
    return [node for node in model.nodes if node in read | between]


def _role(problem: QuestionLike, node: str) -> str:
    if node in problem.attributes:
        return "sensitive"
    named = {problem.intervened: "intervened", problem.outcome_node: "outcome"}
    return named.get(node, "read" if node in problem.columns else "unread")


def _empty_frame(ax: Axes, drawing: layers.Drawing) -> None:
    ax.set_xlim(-0.1, drawing.width + 0.1)
    ax.set_ylim(-0.15, drawing.height + 0.15)
    ax.set_aspect("equal")
    ax.set_axis_off()


def _draw_node(ax: Axes, node: str, place: tuple[float, float], width: float, role: str) -> None:
    from matplotlib.patches import FancyBboxPatch

    _, face, edge, dashes = _ROLES[role]
    x, y = place
    box = FancyBboxPatch(
        (x - width / 2, y - _BOX_HEIGHT / 2),
        width,
        _BOX_HEIGHT,
        boxstyle="round,pad=0,rounding_size=0.07",
        facecolor=face,
        edgecolor=edge,
        linestyle=dashes,
        linewidth=1.2,
        zorder=3,
        gid=role,
    )
    ax.add_patch(box)
    bold = role in ("sensitive", "intervened", "outcome")
    look = {"ha": "center", "va": "center", "zorder": 4}
    weight = "bold" if bold else "normal"
    name = shorten(node, style.LABEL_LENGTH)
    style.write(ax, x, y, name, fontweight=weight, **look)


def _draw_arrow(
    ax: Axes, route: NDArray[np.float64], from_sensitive: bool, edge: tuple[str, str]
) -> None:
    from matplotlib.patches import FancyArrowPatch, PathPatch
    from matplotlib.path import Path

    colour = style.VERMILLION if from_sensitive else style.MUTED
    points = layers.bezier(route)
    codes = [Path.MOVETO, *[Path.CURVE4] * (len(points) - 1)]
    ax.add_patch(
        PathPatch(Path(points, codes), facecolor="none", edgecolor=colour, linewidth=1.0, zorder=1)
    )
    tail = points[-1] - 0.12 * _unit(points[-1] - points[-2])
    head = FancyArrowPatch(
        tail, points[-1], arrowstyle="-|>", mutation_scale=11, shrinkA=0, shrinkB=0, linewidth=0
    )
    head.set_color(colour)
    head.set_gid(f"{edge[0]} -> {edge[1]}")
    head.set_zorder(2)
    ax.add_patch(head)


def _unit(vector: Floats) -> Floats:
    return vector / max(float(np.hypot(*vector)), 1e-12)


def _explain_roles(ax: Axes, roles: set[str]) -> None:
    from matplotlib.patches import Patch

    marks = [
        Patch(facecolor=face, edgecolor=edge, linestyle=dashes, label=label)
        for role, (label, face, edge, dashes) in _ROLES.items()
        if role in roles
    ]
    style.key(style.root(ax), marks)
