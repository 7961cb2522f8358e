"""Designs, remaining candidates, and the cost of rules for arms with features."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, StrMethodFormatter
from numpy.typing import ArrayLike

from fairtrial.core.keywords import named_arguments
from fairtrial.core.recommendation import Progress
from fairtrial.core.validation import check_array, check_integer, check_labels
from fairtrial.errors import InvalidArgument
from fairtrial.plots import _style as style
from fairtrial.plots._fonts import legible
from fairtrial.plots._lines import draw_bound, name_axes
from fairtrial.presentation.alternatives import alternatives
from fairtrial.presentation.sources import Floats, SimulationLike, Traced, trace_of
from fairtrial.presentation.words import percent, plural

__all__ = ["budget_by_dimension", "design_weights", "survivors_over_time", "times_the_bound"]

_MOST_ROWS = 30
_DECADE = 10.0
"""Ratio of largest to smallest number beyond which an axis is logarithmic."""

# ---------------------------------------------------------------------------------- designs


@legible
@named_arguments
def design_weights(
    designs: Mapping[str, Any],
    arms: Sequence[str] | None = None,
    *,
    most_arms: int = _MOST_ROWS,
    figure: Figure | SubFigure | None = None,
) -> Figure:
    """Draw the shares of the pulls that designs give to the arms.

    There is a panel for each design and a bar for each arm. If there are many arms, those with the
    largest shares in any design are drawn, in their order; the last bar has all others together.

    Parameters
    ----------
    designs : mapping of str to Design or array_like of shape (K,)
        By name: designs, or shares or numbers of pulls, not negative. They are divided by
        their sum.
    arms : sequence of str, optional
        Labels of the arms, in the order of the shares; by default 0 to K - 1.
    most_arms : int
        The most arms with a separate bar.
    figure : matplotlib.figure.Figure or SubFigure, optional
        Where to draw; by default a new figure.

    Raises
    ------
    InvalidArgument
        If there is no design, or the designs are not for the same arms.

    Examples
    --------
    >>> figure = design_weights({"G": [0.5, 0.5, 0.0], "oracle": [0.9, 0.1, 0.0]})
    >>> [ax.get_title(loc="left") for ax in figure.axes]
    ['G', 'oracle']
    """
    shares = _shares(designs)
    labels = _labels(arms, shares.shape[1])
    names, table = _largest(labels, shares, check_integer("most_arms", most_arms, low=1))
    size = style.small_multiples_size(len(table), len(names))
    board = style.canvas(figure, *size)
    axes = style.small_multiples(board, list(designs))
    for ax, row in zip(axes, table, strict=True):
        _draw_shares(ax, row)
    style.name_rows(axes, names)
    _scale_shares(axes, float(table.max()))
    style.bottom_left(axes).set_xlabel(
        "share of the pulls", fontsize=style.SMALL, color=style.INK, loc="left"
    )
    return style.root(board)


def _shares(designs: Mapping[str, Any]) -> Floats:
    if not isinstance(designs, Mapping) or not designs:
        raise InvalidArgument("designs", "must map at least one name to a design", designs)
    rows: list[Floats] = []
    for name, design in designs.items():
        size = len(rows[0]) if rows else None
        weights = getattr(design, "weights", design)
        given = check_array(f"designs[{name!r}]", weights, (size,), axes=("arms",))
        if not given.size or (given < 0.0).any() or given.sum() == 0.0:
            raise InvalidArgument(
                f"designs[{name!r}]", "must be non-negative shares, not all zero", design
            )
        rows.append(given / given.sum())
    return np.stack(rows)


def _labels(arms: Sequence[str] | None, number: int) -> tuple[str, ...]:
    labels = check_labels("arms", number if arms is None else arms)
    if len(labels) != number:
        raise InvalidArgument("arms", f"must be {number} labels, one per share", arms)
    return labels


def _largest(labels: Sequence[str], shares: Floats, most: int) -> tuple[list[str], Floats]:
    """Return the arms with the largest shares, and the sum of all others, if there are too many."""
    if len(labels) <= most:
        return list(labels), shares
    order = np.argsort(-shares.max(axis=0), kind="stable")
    kept, others = np.sort(order[:most]), order[most:]
    rest = shares[:, others].sum(axis=1, keepdims=True)
    names = [labels[arm] for arm in kept] + [f"other {plural(len(others), 'arm')}"]
    return names, np.hstack([shares[:, kept], rest])


def _draw_shares(ax: Axes, shares: Floats) -> None:
    rows = np.arange(len(shares))
    look: dict[str, Any] = {"color": style.SKY, "edgecolor": style.BLUE, "linewidth": 0.6}
    ax.barh(rows, shares, height=0.62, gid="share", **look)
    place = {"transform": ax.get_yaxis_transform(), "ha": "right", "va": "center"}
    paper = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
    for row, value in enumerate(shares):
        if value > 0.0:
            text = percent(float(value), places=1)
            style.write(ax, 1.0, row, text, color=style.MUTED, fontsize=7, bbox=paper, **place)


def _scale_shares(axes: Sequence[Axes], most: float) -> None:
    for ax in axes:
        ax.set_xlim(0, 1.45 * most)
        ax.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 2.5, 5, 10]))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda share, _: percent(share)))


# -------------------------------------------------------------------------------- survivors


@legible
@named_arguments
def survivors_over_time(
    traces: Mapping[str, Traced | Sequence[Progress]], *, ax: Axes | None = None
) -> Figure:
    """Draw how many candidates are still in the race, result by result.

    This works for every rule that reports which candidates are live: rules that eliminate; block
    betting in every family, which rejects answers ("no arm" is one if there are limits); and rules
    that test one gap at a time, where the live candidates are those that the data do not rule out
    yet. A dot marks the answer.

    Parameters
    ----------
    traces : mapping of str to (Study or sequence of Progress)
        By name the moments of one experiment each, in order: a study, or the result of
        `fairtrial.simulation.trace`; at most eight.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure.

    Raises
    ------
    InvalidArgument
        If there is no trace, there are more than eight, or one does not report live candidates.

    Examples
    --------
    >>> import fairtrial as ft
    >>> from fairtrial.simulation import trace
    >>> problem = ft.linear.Problem([[1, 0], [0, 1], [0.6, 0.6]], noise_std=0.5)
    >>> environment = ft.linear.GaussianEnvironment(problem, [1.0, 0.0])
    >>> moments = trace(ft.linear.BlockBetting(problem), environment, points=20)
    >>> figure = survivors_over_time({"BlockBetting": moments})
    >>> [float(y) for y in figure.axes[0].lines[0].get_ydata()[[0, -1]]]
    [3.0, 1.0]
    """
    _check_names("traces", traces)
    curves = {name: _survivors(name, trace_of(trace)) for name, trace in traces.items()}
    ax = style.axes(ax, 6.4, 3.8, grid="y")
    for place, (name, (told, live, decided)) in enumerate(curves.items()):
        look = style.LINES[place]
        ax.step(told, live, where="post", label=name, linewidth=1.6, gid="survivors", **look)
        if decided:
            end = {"color": look["color"], "marker": style.MARKERS[place], "zorder": 4}
            ax.plot(told[-1:], live[-1:], markersize=6, clip_on=False, gid="answer", **end)
    _scale_survivors(ax, [told for told, _, _ in curves.values()], curves.values())
    return _with_key(ax)


def _survivors(name: str, moments: Sequence[Progress]) -> tuple[Floats, Floats, bool]:
    told = np.array([moment.told for moment in moments], dtype=np.float64)
    live = np.array([_live(name, moment) for moment in moments], dtype=np.float64)
    return told, live, moments[-1].recommendation.decided


def _live(name: str, moment: Progress) -> int:
    if moment.live is not None:
        return len(moment.live)
    answers = alternatives(moment)
    if not answers:
        raise InvalidArgument("traces", "must report which candidates are live", name)
    return sum(not answer.rejected for answer in answers)


def _scale_survivors(ax: Axes, times: Sequence[Floats], curves: Any) -> None:
    most = max(float(live.max()) for _, live, _ in curves)
    ends = [float(told[-1]) for told in times]
    shortest = max(1.0, min(float(told[told > 0].min(initial=np.inf)) for told in times))
    if max(ends) / max(min(ends), 1.0) >= _DECADE:
        ax.set_xscale("symlog", linthresh=shortest)
    ax.set_xlim(0, 1.02 * max(ends))
    if most >= 20:
        ax.set_yscale("log")
        ticks = [digit * 10**power for power in range(7) for digit in (1, 2, 5)]
        ax.set_yticks([tick for tick in ticks if tick <= most])
        ax.minorticks_off()
        ax.set_ylim(0.9, 1.15 * most)
    else:
        ax.set_ylim(0, 1.06 * most)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    name_axes(ax, "results", "candidates still in the race")


# -------------------------------------------------------------------------------- dimensions


@legible
@named_arguments
def budget_by_dimension(
    budgets: Mapping[str, Mapping[int, Any]],
    bound: Mapping[int, float] | Callable[[float], float] | None = None,
    *,
    ax: Axes | None = None,
) -> Figure:
    """Draw how many pulls rules need, by the dimension of the features.

    Points are means of the runs, bars are two standard errors of the mean.

    Parameters
    ----------
    budgets : mapping of str to mapping of int to (Simulation, float or array_like)
        By rule and dimension: a simulation, or numbers of pulls, one per run; at most eight
        rules.
    bound : mapping of int to float, or callable, optional
        Mean number of pulls that every rule needs at least, by dimension.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure.

    Raises
    ------
    InvalidArgument
        If there is no rule, there are more than eight, or one has no dimension or no pulls.

    Examples
    --------
    >>> figure = budget_by_dimension({"G": {2: [90, 110], 4: [190, 210]}}, {2: 50.0, 4: 50.0})
    >>> figure.axes[0].containers[0].lines[0].get_ydata().tolist()
    [100.0, 200.0]
    """
    _check_names("budgets", budgets)
    curves = {rule: _budgets(rule, by_dimension) for rule, by_dimension in budgets.items()}
    dimensions = sorted({dimension for curve in curves.values() for dimension in curve})
    ax = style.axes(ax, 6.4, 4.2, grid="y")
    for place, (rule, curve) in enumerate(curves.items()):
        _draw_budgets(ax, rule, curve, place)
    if bound is not None:
        _draw_least(ax, bound, dimensions)
    _scale_budgets(ax, dimensions)
    return _with_key(ax)


def _budgets(rule: str, by_dimension: Mapping[int, Any]) -> dict[int, Floats]:
    if not isinstance(by_dimension, Mapping) or not by_dimension:
        raise InvalidArgument("budgets", f"must have a dimension for {rule!r}", by_dimension)
    return {
        check_integer("budgets: a dimension", dimension, low=1): _times(by_dimension[dimension])
        for dimension in sorted(by_dimension)
    }


def _times(runs: Any) -> Floats:
    given: ArrayLike = getattr(runs, "stopping_time", runs)
    times = check_array("budgets", np.atleast_1d(given), (None,), axes=("runs",))
    if not times.size or (times <= 0.0).any():
        raise InvalidArgument("budgets", "must be positive numbers of pulls", runs)
    return times


def _mean_and_error(times: Floats) -> tuple[float, float]:
    error = float(times.std(ddof=1)) / times.size**0.5 if times.size > 1 else 0.0
    return float(times.mean()), error


def _draw_budgets(ax: Axes, rule: str, curve: Mapping[int, Floats], place: int) -> None:
    found = np.array([_mean_and_error(times) for times in curve.values()])
    ax.errorbar(
        list(curve),
        found[:, 0],
        yerr=2.0 * found[:, 1],
        marker=style.MARKERS[place],
        markersize=4.5,
        linewidth=1.5,
        elinewidth=0.9,
        capsize=2,
        label=rule,
        gid="budget",
        **style.LINES[place],
    )


def _draw_least(
    ax: Axes, bound: Mapping[int, float] | Callable[[float], float], dimensions: Sequence[int]
) -> None:
    if isinstance(bound, Mapping):
        known = {float(dimension): float(value) for dimension, value in bound.items()}
        draw_bound(ax, 0, "bound for every rule", np.array(sorted(known)), known.__getitem__)
        return
    draw_bound(ax, 0, "bound for every rule", np.array(dimensions, dtype=np.float64), bound)


def _scale_budgets(ax: Axes, dimensions: Sequence[int]) -> None:
    drawn = np.concatenate([np.asarray(line.get_ydata(), dtype=float) for line in ax.lines])
    if drawn.max() / drawn.min() >= _DECADE:
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0)))
        ax.minorticks_off()
    else:
        ax.set_ylim(bottom=0.0)
    ax.set_xticks(dimensions)
    ax.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    name_axes(ax, "dimension of the features", "pulls until the answer")


# --------------------------------------------------------------------------------- the bound


@legible
@named_arguments
def times_the_bound(
    simulations: Mapping[str, Mapping[str, SimulationLike]], *, ax: Axes | None = None
) -> Figure:
    """Draw the pulls of rules as multiples of the lower bound, environment by environment.

    There is a mark for each rule, on a logarithmic axis; bars are two standard errors of the mean.
    No proven rule can be left of the line at 1.

    Parameters
    ----------
    simulations : mapping of str to mapping of str to Simulation
        By environment and rule; every simulation needs a `lower_bound`; at most twelve rules.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure.

    Raises
    ------
    InvalidArgument
        If there is no environment, there are more than twelve rules, or a simulation has no bound.

    Examples
    --------
    >>> from types import SimpleNamespace as Bag
    >>> runs = Bag(stopping_time=np.array([150, 250]), lower_bound=100.0)
    >>> figure = times_the_bound({"two arms": {"BlockBetting": runs}})
    >>> figure.axes[0].containers[0].lines[0].get_xdata().tolist()
    [2.0]
    """
    if not isinstance(simulations, Mapping) or not simulations:
        raise InvalidArgument(
            "simulations", "must map at least one environment to rules", simulations
        )
    for environment, by_rule in simulations.items():
        if not isinstance(by_rule, Mapping):
            raise InvalidArgument(
                f"simulations[{environment!r}]", "must map rules to runs", by_rule
            )
    rules = list(dict.fromkeys(rule for by_rule in simulations.values() for rule in by_rule))
    _check_names("simulations", dict.fromkeys(rules), len(style.MARKERS))
    ax = style.axes(ax, 6.8, 1.3 + 0.52 * len(simulations))
    for place, rule in enumerate(rules):
        rows = [row for row, by_rule in enumerate(simulations.values()) if rule in by_rule]
        found = [_ratio(by_rule[rule]) for by_rule in simulations.values() if rule in by_rule]
        shift = 0.62 * ((place + 0.5) / len(rules) - 0.5)
        _draw_ratios(ax, rule, np.array(rows) + shift, np.array(found), place)
    ax.axvline(1.0, color=style.INK, linewidth=1, linestyle=(0, (2, 2)), gid="bound").set_label(
        "the bound"
    )
    style.name_rows([ax], list(simulations))
    _scale_ratios(ax)
    return _with_key(ax)


def _ratio(runs: SimulationLike) -> tuple[float, float]:
    bound = getattr(runs, "lower_bound", None)
    if bound is None or not np.isfinite(bound) or bound <= 0.0:
        raise InvalidArgument("simulations", "must have a positive lower_bound", runs)
    mean, error = _mean_and_error(_times(runs))
    return mean / bound, 2.0 * error / bound


def _draw_ratios(ax: Axes, rule: str, rows: Floats, found: Floats, place: int) -> None:
    ax.errorbar(
        found[:, 0],
        rows,
        xerr=found[:, 1],
        linestyle="none",
        marker=style.MARKERS[place],
        markersize=5.5,
        elinewidth=0.9,
        color=style.LINES[place % len(style.LINES)]["color"],
        label=rule,
        gid="ratio",
    )


def _scale_ratios(ax: Axes) -> None:
    ax.set_xscale("log")
    ax.set_xlim(left=0.9)
    ax.xaxis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0)))
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    ax.minorticks_off()
    ax.set_xlabel("mean pulls, times the bound", fontsize=style.SMALL, color=style.INK)


# ------------------------------------------------------------------------------------ shared


def _check_names(name: str, curves: Mapping[str, Any], most: int = len(style.LINES)) -> None:
    if not isinstance(curves, Mapping) or not 1 <= len(curves) <= most:
        raise InvalidArgument(name, f"must name 1 to {most} rules", curves)


def _with_key(ax: Axes) -> Figure:
    figure = style.root(ax.figure)
    handles, _ = ax.get_legend_handles_labels()
    style.key(figure, handles)
    return figure
