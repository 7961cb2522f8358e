"""Which arms a rule rejected, when, and what their estimates were."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from fairtrial.core.keywords import named_arguments
from fairtrial.core.recommendation import Progress
from fairtrial.errors import InvalidArgument
from fairtrial.plots import _style as style
from fairtrial.plots._causal import QuestionLike
from fairtrial.plots._fonts import legible
from fairtrial.presentation.sources import Traced, trace_of
from fairtrial.presentation.words import plural, shorten

__all__ = ["rejections"]

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


@legible
@named_arguments
def rejections(
    source: Traced | Sequence[Progress], problem: QuestionLike, *, ax: Axes | None = None
) -> Figure:
    """Draw which arms were rejected, when, and what their estimates were at that time.

    The marks show the estimates from all rows at the moment when the arm was first seen rejected;
    the rule's own estimates, which may be clipped or use only one phase, can differ.

    Parameters
    ----------
    source : Study or sequence of Progress
        Moments of one experiment with a rule that rejects arms, in order.
    problem : Problem
        Its causal problem.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure.

    Raises
    ------
    InvalidArgument
        If there is no moment to draw, or no moment reports which arms are live.

    Examples
    --------
    >>> import fairtrial as ft
    >>> from fairtrial.simulation import trace
    >>> arms = {"a": [[0.5, 0.5], [0.4, 0.6]], "b": [[0.9, 0.1], [0.1, 0.9]]}
    >>> problem, environment = ft.causal.chain(0.4, arms, [0.1, 0.9], fairness_bound=0.2)
    >>> policy = ft.causal.ConstraintSuccessiveRejection(problem, budget=400)
    >>> figure = rejections(trace(policy, environment, seed=1, points=40), problem)
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['a', 'b']
    """
    moments = trace_of(source)
    if any(moment.live is None for moment in moments):
        raise InvalidArgument("source", "must report which arms are live", source)
    lives = _lives(moments, problem)
    ax = style.axes(ax, 7.4, 1.1 + 0.2 * max(4, len(lives)))
    told = max(moments[-1].told, 1)
    _draw_lives(ax, lives, told)
    answer = moments[-1].recommendation
    leader = answer.arm if answer.decided else answer.leader
    _name_lives(ax, lives, str(leader))
    _scale_lives(ax, told)
    _explain_lives(ax, lives, moments[-1])
    return style.root(ax)


def _lives(moments: Sequence[Progress], problem: QuestionLike) -> list[_Life]:
    """Return when every arm was rejected, the longest-lived first."""
    lives = [_life(moments, problem, place) for place in range(len(problem.arm_labels))]
    return sorted(lives, key=lambda life: (-life.end, life.reason is not None))


def _life(moments: Sequence[Progress], problem: QuestionLike, place: int) -> _Life:
    arm = problem.arm_labels[place]
    for moment in moments:
        if arm not in (moment.live or ()):
            reason, words = _why(moment, problem, place)
            return _Life(arm, moment.told, reason, words)
    return _Life(arm, moments[-1].told, None, "")


def _why(moment: Progress, problem: QuestionLike, place: int) -> tuple[str, str]:
    arm = problem.arm_labels[place]
    gaps = [limit.value for limit in moment.value_limits if limit.arm == arm]
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
            # Near the right edge the text is on the other side of the mark, above the line.
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
    ax.set_xlim(0, 1.02 * told)
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    ax.set_xlabel("rows", fontsize=style.SMALL, color=style.INK)


def _explain_lives(ax: Axes, lives: Sequence[_Life], last: Progress) -> None:
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
