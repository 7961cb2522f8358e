"""Pictures of races on late results: the time saved, cost and errors of rules, and one race."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from numpy.typing import NDArray

from fairtrial.core.keywords import named_arguments
from fairtrial.core.recommendation import Progress
from fairtrial.core.validation import check_array, check_number
from fairtrial.errors import InvalidArgument
from fairtrial.plots import _style as style
from fairtrial.plots._fonts import legible
from fairtrial.plots._lines import handle, name_axes
from fairtrial.presentation.sources import Floats, StudyLike, trace_of
from fairtrial.presentation.words import shorten
from fairtrial.simulation.summary import error_interval

__all__ = ["cost_of_answers", "race_over_time", "time_ratios"]

_NORMAL_95 = 1.96
_WIDE = 8.0
"""Ratio of largest to smallest number beyond which an axis is logarithmic."""
_MOST_NAMES = 40
_STATUS: dict[str, dict[str, Any]] = {
    "accepted": {"color": style.BLUE, "marker": "o"},
    "undecided": {"color": style.MUTED, "marker": "."},
    "rejected": {"color": style.VERMILLION, "marker": "x"},
}


# ------------------------------------------------------------------------------ ratios


@legible
@named_arguments
def time_ratios(
    curves: Mapping[str, Mapping[float, Any]],
    across: str = "number of arms",
    *,
    ax: Axes | None = None,
) -> Figure:
    """Draw the ratio between a rule's time and another's, by what varies from race to race.

    Bars are 95 % intervals. Below the line at 1 a rule is faster than the one it is compared with.

    Parameters
    ----------
    curves : mapping of str to mapping of float to pair
        By rule and number (of arms, of steps of delay, ...): a pair of simulations, the rule's
        and that of the rule to compare with, where run i of both uses the same noise; or a ratio
        and its standard error.
    across : str
        What varies.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure.

    Raises
    ------
    InvalidArgument
        If there is no rule, there are more than eight, one has no number, or a pair has
        another form.

    Examples
    --------
    >>> figure = time_ratios({"information": {10: (0.37, 0.01), 100: (0.44, 0.01)}})
    >>> figure.axes[0].lines[0].get_ydata().tolist()
    [0.37, 0.44]
    """
    if not isinstance(curves, Mapping) or not 1 <= len(curves) <= len(style.LINES):
        raise InvalidArgument("curves", f"must name 1 to {len(style.LINES)} rules", curves)
    found = {rule: _ratios(rule, by_number) for rule, by_number in curves.items()}
    ax = style.axes(ax, 6.4, 3.8, grid="y")
    middle = (len(found) - 1) / 2
    logarithmic = _scale_numbers(ax, np.concatenate([rows[:, 0] for rows in found.values()]))
    for place, (rule, rows) in enumerate(found.items()):
        _draw_ratios(ax, place, rule, rows, 1.012 ** (place - middle) if logarithmic else 1.0)
    ax.axhline(1.0, color=style.INK, linewidth=1, linestyle=(0, (2, 2)), gid="equal")
    ax.set_ylim(bottom=0.0)
    name_axes(ax, across, "time / time without readings")
    style.key(ax.figure, ax.get_lines()[:-1])
    return style.root(ax)


def _ratios(rule: str, by_number: Mapping[float, Any]) -> Floats:
    """Return rows of number, ratio and standard error, by number."""
    if not isinstance(by_number, Mapping) or not by_number:
        message = (
            f"must map each rule to a mapping from a number (of arms, say) to a pair; {rule!r} "
            "has no such mapping"
        )
        raise InvalidArgument("curves", message, by_number)
    rows = [(float(number), *_ratio(by_number[number])) for number in sorted(by_number)]
    return np.array(rows)


def _ratio(pair: Any) -> tuple[float, float]:
    if not isinstance(pair, tuple) or len(pair) != 2:
        message = "must hold pairs: two simulations, or a ratio and its standard error"
        raise InvalidArgument("curves", message, pair)
    times = [getattr(one, "elapsed", None) for one in pair]
    if times[0] is None or times[1] is None:
        return check_number("curves", pair[0]), check_number("curves", pair[1], low=0.0)
    own = check_array("curves", times[0], (None,))
    other = check_array("curves", times[1], own.shape)
    mean = float(own.mean() / other.mean())
    if own.size < 2:
        return mean, 0.0
    residual = float((own - mean * other).std(ddof=1))
    return mean, residual / (float(own.size) ** 0.5 * float(other.mean()))


def _draw_ratios(ax: Axes, place: int, rule: str, rows: Floats, shift: float) -> None:
    look = style.LINES[place]
    at, ratio, error = rows[:, 0] * shift, rows[:, 1], _NORMAL_95 * rows[:, 2]
    ax.vlines(at, ratio - error, ratio + error, color=look["color"], linewidth=1.1, alpha=0.6)
    marker = style.MARKERS[place]
    ax.plot(at, ratio, marker=marker, markersize=5, linewidth=1.5, label=rule, gid="ratio", **look)


def _scale_numbers(ax: Axes, numbers: Floats) -> bool:
    """Put ticks at the numbers; return whether the axis is logarithmic."""
    logarithmic = bool(numbers.min() > 0 and numbers.max() / numbers.min() >= _WIDE)
    if logarithmic:
        ax.set_xscale("log")
    ticks = np.unique(numbers)
    ax.set_xticks(ticks, labels=[f"{tick:,.4g}" for tick in ticks])
    ax.minorticks_off()
    return logarithmic


# ------------------------------------------------------------------------------- costs


@legible
@named_arguments
def cost_of_answers(
    results: Mapping[str, Any],
    delta: float | None = None,
    unit: str = "time",
    *,
    figure: Figure | SubFigure | None = None,
) -> Figure:
    """Draw the cost of answers, rule by rule, and how often they are wrong.

    Left: the mean cost, and the middle 90 per cent of the runs. Right: the share of runs
    without the right answer, with the 95 % interval of Clopper and Pearson (1934).

    Parameters
    ----------
    results : mapping of str to Simulation or pair of array_like
        By rule the replications; or their costs, and whether the answers were right.
    delta : float, optional
        The accepted share of wrong answers, drawn as a line.
    unit : str
        The unit of the cost.
    figure : matplotlib.figure.Figure or SubFigure, optional
        Where to draw; by default a new one.

    Raises
    ------
    InvalidArgument
        If there is no rule, or a result has another form.

    Examples
    --------
    >>> figure = cost_of_answers({"race": ([3.0, 5.0], [True, True])}, delta=0.05, unit="seconds")
    >>> [ax.get_xlabel() for ax in figure.axes]
    ['seconds', 'wrong answers']
    """
    if not isinstance(results, Mapping) or not results:
        raise InvalidArgument("results", "must name at least one rule", results)
    found = {rule: _costs(one) for rule, one in results.items()}
    canvas = style.canvas(figure, 7.2, 1.1 + 0.32 * len(found))
    left, right = canvas.subplots(1, 2, sharey=True)
    for ax in (left, right):
        style.tidy(ax)
    style.name_rows([left, right], list(found))
    for row, (costs, correct) in enumerate(found.values()):
        _draw_cost(left, row, costs)
        _draw_wrong(right, row, correct)
    _scale_costs(left, right, unit, delta)
    return style.root(canvas)


def _costs(result: Any) -> tuple[Floats, NDArray[np.bool_]]:
    elapsed, correct = getattr(result, "elapsed", None), getattr(result, "correct", None)
    if elapsed is None and isinstance(result, tuple) and len(result) == 2:
        elapsed, correct = result
    if elapsed is None or correct is None:
        message = "must hold simulations whose truth is known, or pairs (costs, correct)"
        raise InvalidArgument("results", message, result)
    costs = check_array("results", elapsed, (None,))
    right = np.asarray(correct, dtype=np.bool_)
    if right.shape != costs.shape or not costs.size:
        raise InvalidArgument("results", "must have a verdict for every cost", right.shape)
    return costs, right


def _draw_cost(ax: Axes, row: int, costs: Floats) -> None:
    low, high = np.quantile(costs, [0.05, 0.95])
    ax.hlines(row, low, high, color=style.SKY, linewidth=3, gid="spread")
    ax.plot(costs.mean(), row, marker="o", color=style.BLUE, linestyle="none", gid="cost")


def _draw_wrong(ax: Axes, row: int, correct: NDArray[np.bool_]) -> None:
    runs, wrong = correct.size, int((~correct).sum())
    low, high = error_interval(wrong, runs)
    ax.hlines(row, low, high, color=style.ORANGE, linewidth=3, gid="interval")
    (mark,) = ax.plot(wrong / runs, row, marker="D", color=style.VERMILLION, linestyle="none")
    mark.set(gid="wrong", clip_on=False)


def _scale_costs(left: Axes, right: Axes, unit: str, delta: float | None) -> None:
    low, high = left.dataLim.intervalx
    if low > 0 and high / low >= _WIDE:
        left.set_xscale("log")
        parts = (1.0, 2.0, 5.0) if high / low < _WIDE**2 else (1.0,)
        left.xaxis.set_major_locator(LogLocator(subs=parts))
        left.xaxis.set_major_formatter(FuncFormatter(lambda cost, _: f"{cost:,.7g}"))
        left.xaxis.set_minor_formatter(NullFormatter())
    else:
        left.set_xlim(left=0.0)
    most = max(right.dataLim.intervalx[1], 0.0 if delta is None else delta)
    right.set_xlim(0.0, min(1.0, 1.1 * most))
    right.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    style.in_percent(right.xaxis)
    left.set_xlabel(unit, fontsize=style.SMALL, color=style.INK)
    right.set_xlabel("wrong answers", fontsize=style.SMALL, color=style.INK)
    if delta is not None:
        right.axvline(delta, color=style.INK, linewidth=1, linestyle=(0, (2, 2)), gid="delta")


# ---------------------------------------------------------------------------- one race


@legible
@named_arguments
def race_over_time(
    source: StudyLike | Sequence[Progress],
    *,
    figure: Figure | SubFigure | None = None,
) -> Figure:
    """Draw one race: accepted and rejected arms, pulls in flight, and the arrival of results.

    The horizontal axis counts readings and results: both can lead to a decision.

    Parameters
    ----------
    source : Study or sequence of Progress
        A study of a policy that races, or its moments: `fairtrial.simulation.trace` returns
        those of a simulated one.
    figure : matplotlib.figure.Figure or SubFigure, optional
        Where to draw; by default a new one.

    Raises
    ------
    InvalidArgument
        If `source` is something else.

    Examples
    --------
    >>> from fairtrial.delayed import InformationRacing, Problem
    >>> policy = InformationRacing(Problem(["a", "b"], noise_std=0.1))
    >>> moments = [policy.progress()]
    >>> while not policy.stopped:
    ...     pull = policy.ask()
    ...     policy.tell(pull, 1.0 if pull.arm == "b" else 0.0)
    ...     moments.append(policy.progress())
    >>> figure = race_over_time(moments)
    >>> [text.get_text() for text in figure.axes[0].get_yticklabels()]
    ['b', 'a']
    """
    moments = trace_of(source)
    if any(moment.readings is None or not moment.arm_states for moment in moments):
        raise InvalidArgument("source", "must be of a policy that races on late results")
    arms = len(moments[0].arm_states)
    height = 0.24 * min(arms, _MOST_NAMES) + 2.6
    canvas = style.canvas(figure, 7.2, height)
    panels = canvas.subplots(
        3, 1, sharex=True, height_ratios=[max(1.2, 0.24 * min(arms, _MOST_NAMES)), 0.8, 0.8]
    )
    heard = np.array([moment.told + (moment.readings or 0) for moment in moments], float)
    _draw_arms(panels[0], heard, moments)
    _draw_steps(panels[1], heard, [moment.outstanding for moment in moments], "in flight")
    _draw_steps(panels[2], heard, [moment.told for moment in moments], "results")
    panels[2].set_xlabel("readings and results so far", fontsize=style.SMALL, color=style.INK)
    style.key(
        canvas,
        [handle(label=name, linestyle="none", **look) for name, look in _STATUS.items()],
    )
    return style.root(canvas)


def _draw_arms(ax: Axes, heard: Floats, moments: Sequence[Progress]) -> None:
    """Draw a line for every arm while it is undecided; accepted arms on top."""
    ends = {arm: _end(arm, heard, moments) for arm in _states(moments[0])}
    order = sorted(ends, key=lambda arm: _place(*ends[arm]))
    style.tidy(ax)
    for row, arm in enumerate(order):
        status, end = ends[arm]
        look = _STATUS[status]
        ax.hlines(row, heard[0], end, color=look["color"], linewidth=1.6, alpha=0.7, gid="alive")
        ax.plot(end, row, markersize=6, gid=status, clip_on=False, **look)
    ax.set_ylim(len(order) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    if len(order) > _MOST_NAMES:
        ax.set_yticks([])
        return
    names = [shorten(arm, style.LABEL_LENGTH) for arm in order]
    ax.set_yticks(range(len(order)), labels=names, parse_math=False)


def _place(status: str, end: float) -> tuple[int, float]:
    """Return the sort key of an arm: accepted first, the first rejected last."""
    return list(_STATUS).index(status), end if status == "accepted" else -end


def _end(arm: str, heard: Floats, moments: Sequence[Progress]) -> tuple[str, float]:
    """Return the fate of an arm, and after how many readings and results."""
    for at, moment in zip(heard, moments, strict=True):
        status = _states(moment)[arm]
        if status != "undecided":
            return status, float(at)
    return "undecided", float(heard[-1])


def _states(moment: Progress) -> dict[str, str]:
    return {one.arm: one.status for one in moment.arm_states}


def _draw_steps(ax: Axes, heard: Floats, values: Sequence[int], name: str) -> None:
    style.tidy(ax, grid="y")
    ax.step(heard, values, where="post", color=style.BLUE, linewidth=1.3, gid=name)
    ax.set_ylim(bottom=0.0)
    ax.set_ylabel(name, fontsize=style.SMALL, color=style.INK)
