"""What guaranteed shares cost, and how they are kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.core.recommendation import Progress
from fairtrial.core.validation import check_array, check_choice
from fairtrial.errors import InvalidArgument
from fairtrial.plots import _style as style
from fairtrial.plots._sources import Floats, Source, Traced, progress_of, pulls_of, trace_of
from fairtrial.plots._words import percent, plural, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

__all__ = ["cost_of_fairness", "regret_over_time", "shares_against_quotas", "violation_over_time"]

_LINES: tuple[dict[str, Any], ...] = (
    {"color": style.BLUE, "linestyle": "-"},
    {"color": style.VERMILLION, "linestyle": (0, (6, 2))},
    {"color": "#009E73", "linestyle": (0, (4, 1.5, 1, 1.5))},
    {"color": "#CC79A7", "linestyle": (0, (1, 1.2))},
    {"color": "#E69F00", "linestyle": (0, (8, 2, 1, 2, 1, 2))},
    {"color": style.SKY, "linestyle": (0, (3, 3))},
)
_BOUND_STYLES: tuple[Any, ...] = ((0, (2, 2)), (0, (7, 3)), (0, (1, 3)))
_WIDE = 100.0
"""Ratio of largest to smallest number beyond which an axis is logarithmic."""
_MOST_ARMS = 60


class AllocationRuns(Protocol):
    """Replications of a policy that serves arms with guaranteed shares: a `Simulation`."""

    @property
    def problem(self) -> Any: ...
    @property
    def pulls(self) -> NDArray[Any]: ...
    @property
    def extra(self) -> Mapping[str, NDArray[np.float64]]: ...


Curve = Sequence[AllocationRuns] | tuple[ArrayLike, ArrayLike]
"""Simulations with growing horizons, or the rounds and one number for each of them (a column
per round, a row per run, if there are several runs)."""

Bound = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class _Line:
    """A number at some rounds: one row per run."""

    name: str
    at: Floats
    values: Floats

    @property
    def mean(self) -> Floats:
        mean: Floats = self.values.mean(axis=0)
        return mean

    def between(self, low: float, high: float) -> tuple[Floats, Floats]:
        """Return two quantiles over the runs, at each of the rounds."""
        lower, upper = np.quantile(self.values, [low, high], axis=0)
        return lower, upper


# -------------------------------------------------------------------- the cost of a quota


def cost_of_fairness(
    simulations: Sequence[AllocationRuns],
    bounds: Mapping[str, Bound] | None = None,
    *,
    figure: Figure | SubFigure | None = None,
) -> Figure:
    """Draw regret and largest violation against the tolerance.

    Parameters
    ----------
    simulations : sequence of Simulation
        Of the same policy and world, each for a problem with another tolerance.
    bounds : mapping of str to callable, optional
        Upper bounds on the regret, by name: functions of the tolerance.
    figure : matplotlib.figure.Figure or SubFigure, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InvalidArgument
        If there is no simulation, or one lacks regret and violation.
    MissingExtra
        If matplotlib is not installed.

    Examples
    --------
    >>> from types import SimpleNamespace as Bag
    >>> runs = [Bag(problem=Bag(tolerance=alpha), pulls=np.ones((2, 2)),
    ...             extra={"regret": np.array([9.0, 9.0]) - alpha, "violation": np.full(2, alpha)})
    ...         for alpha in (0, 2, 4)]
    >>> cost_of_fairness(runs).axes[0].get_ylabel()
    'regret'
    """
    ordered = sorted(_checked(simulations), key=lambda runs: float(runs.problem.tolerance))
    tolerances = np.array([float(runs.problem.tolerance) for runs in ordered])
    board = style.canvas(figure, 6.4, 5.2)
    upper, lower = board.subplots(2, 1, sharex=True)
    _draw_against_tolerance(upper, tolerances, ordered, "regret")
    _draw_against_tolerance(lower, tolerances, ordered, "violation")
    for index, (name, bound) in enumerate((bounds or {}).items()):
        fine = np.linspace(tolerances[0], tolerances[-1], 200)
        _draw_bound(upper, index, name, fine, bound)
    limit: dict[str, Any] = {"color": style.VERMILLION, "linestyle": (0, (4, 2))}
    lower.plot(tolerances, tolerances + 1, linewidth=1.4, gid="limit", **limit)
    _name_axes(upper, "", "regret")
    _name_axes(lower, "tolerance (pulls)", "largest violation (pulls)")
    for ax in (upper, lower):
        ax.set_ylim(bottom=0)
        _write_counts(ax)
    style.key(board, [*_handles(upper), _handle(label="tolerance + 1: the limit", **limit)])
    return style.root(board)


def _draw_against_tolerance(
    ax: Axes, tolerances: Floats, ordered: Sequence[AllocationRuns], measure: str
) -> None:
    style.tidy(ax, grid="y")
    per_run = [_measured(runs, measure) for runs in ordered]
    means = [float(values.mean()) for values in per_run]
    errors = [
        2.0 * float(values.std(ddof=1)) / np.sqrt(values.size) if values.size > 1 else 0.0
        for values in per_run
    ]
    label = "mean of the runs, ± 2 standard errors" if measure == "regret" else "_"
    ax.errorbar(
        tolerances,
        means,
        yerr=errors,
        color=style.BLUE,
        marker="o",
        markersize=4,
        linewidth=1.4,
        capsize=2,
        label=label,
        gid=measure,
    )


# ----------------------------------------------------------------------------- over time


def regret_over_time(
    curves: Mapping[str, Curve],
    bounds: Mapping[str, Bound] | None = None,
    *,
    measure: str = "r_regret",
    ax: Axes | None = None,
) -> Figure:
    """Draw the regret that policies have made up to each round, and upper bounds of it.

    The line is the mean of the runs, the band holds the middle 90 per cent of them.

    Parameters
    ----------
    curves : mapping of str to (sequence of Simulation, or pair of array_like)
        By the name of the policy: simulations with growing horizons; or rounds, shape (n,),
        and regrets, shape (n,) or (runs, n).
    bounds : mapping of str to callable, optional
        Upper bounds by name: functions of the round.
    measure : {"r_regret", "regret"}
        What is read from a simulation: the regret beyond what the shares demand, or all of it.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InvalidArgument
        If there is nothing to draw, or a curve is of another form.
    MissingExtra
        If matplotlib is not installed.

    Examples
    --------
    >>> figure = regret_over_time({"ours": ([10, 100], [3.0, 5.0])}, {"bound": lambda t: 9.0})
    >>> [line.get_label() for line in figure.axes[0].lines]
    ['ours', 'bound']
    """
    check_choice("measure", measure, ("r_regret", "regret"))
    lines = _lines(curves, lambda runs: _measured(runs, measure))
    if ax is None:
        ax = style.new_figure(6.4, 4.0).subplots()
    style.tidy(ax, grid="y")
    for index, line in enumerate(lines):
        _draw_line(ax, index, line, line.between(0.05, 0.95))
    for index, (name, bound) in enumerate((bounds or {}).items()):
        _draw_bound(ax, index, name, _spread(lines), bound)
    _scale_time(ax, lines)
    _scale_regret(ax, lines)
    _name_axes(ax, "round", "r-regret" if measure == "r_regret" else "regret")
    return _with_key(ax)


def violation_over_time(
    curves: Mapping[str, Curve | Traced | Sequence[Progress]],
    *,
    tolerance: float | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw how far the arm that lacks most is behind its share at each round.

    The line is the mean of the runs, the band above it reaches to the worst of them. A
    guarantee at tolerance alpha is kept at a round if and only if this number is below
    alpha + 1, the ruled line: then no arm lacks more than alpha whole pulls.

    Parameters
    ----------
    curves : mapping of str to (sequence of Simulation, Study, trace, or pair of array_like)
        By the name of the policy: simulations with growing horizons; a study, or the moments
        of one run; or rounds, shape (n,), and the largest share times round minus pulls, shape
        (n,) or (runs, n).
    tolerance : float, optional
        The pulls that an arm may lack. By default that of the simulations' problem, if there
        are simulations, else 0.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InvalidArgument
        If there is nothing to draw, or a curve is of another form.
    MissingExtra
        If matplotlib is not installed.

    Examples
    --------
    >>> figure = violation_over_time({"ours": ([1, 2, 3], [0.2, 0.4, 0.1])})
    >>> [line.get_label() for line in figure.axes[0].lines]
    ['ours', 'limit: tolerance + 1']
    """
    lines = _lines(curves, _violations, _followed)
    if ax is None:
        ax = style.new_figure(6.4, 4.0).subplots()
    style.tidy(ax, grid="y")
    for index, line in enumerate(lines):
        _draw_line(ax, index, line, (line.mean, line.between(0.0, 1.0)[1]))
    limit = (_tolerance_of(curves) if tolerance is None else tolerance) + 1
    ax.axhline(limit, color=style.INK, linewidth=1, linestyle=(0, (2, 2)), gid="limit").set_label(
        "limit: tolerance + 1"
    )
    _scale_time(ax, lines)
    _name_axes(ax, "round", "largest violation (pulls)")
    return _with_key(ax)


def _lines(
    curves: Mapping[str, Any],
    measure: Callable[[Any], Floats],
    read: Callable[[Any], Any] = lambda curve: curve,
) -> list[_Line]:
    if not isinstance(curves, Mapping) or not curves:
        raise InvalidArgument("curves", "must map at least one name to a curve", curves)
    return [_line(name, read(curve), measure) for name, curve in curves.items()]


def _line(name: str, curve: Any, measure: Callable[[Any], Floats]) -> _Line:
    if isinstance(curve, Sequence) and curve and all(map(_is_simulation, curve)):
        ordered = sorted(curve, key=_rounds)
        runs = {len(one.pulls) for one in ordered}
        if len(runs) > 1:
            raise InvalidArgument("curves", f"must have equal numbers of runs in {name!r}", runs)
        values = np.stack([measure(one) for one in ordered], axis=1)
        return _Line(name, np.array([_rounds(one) for one in ordered]), values)
    if not isinstance(curve, tuple) or len(curve) != 2:
        message = "must be simulations with growing horizons, or a pair (rounds, values)"
        raise InvalidArgument("curves", message, curve)
    at = check_array("curves", curve[0], (None,))
    values = check_array("curves", np.atleast_2d(np.asarray(curve[1])), (None, len(at)))
    return _Line(name, at, values)


def _followed(curve: Any) -> Any:
    """Return a study, or the moments of one run, as rounds and what the last arm lacked then."""
    is_trace = isinstance(curve, Sequence) and curve and isinstance(curve[0], Progress)
    if not is_trace and not callable(getattr(curve, "trace", None)):
        return curve
    moments = [moment for moment in trace_of(curve) if moment.asked > 0]
    if not moments or not all("credits" in moment.details for moment in moments):
        raise InvalidArgument("curves", "must be of a policy with guaranteed shares", curve)
    lacking = [max(moment.details["credits"].values()) for moment in moments]
    return [moment.asked for moment in moments], lacking


def _is_simulation(source: object) -> bool:
    pulls = getattr(source, "pulls", None)
    return isinstance(pulls, np.ndarray) and pulls.ndim == 2 and hasattr(source, "problem")


def _rounds(runs: AllocationRuns) -> float:
    """Return the rounds that a simulation's runs have had; each may serve several arms."""
    return float(runs.pulls[0].sum()) / getattr(runs.problem, "plays", 1)


def _measured(runs: AllocationRuns, measure: str) -> Floats:
    if measure not in runs.extra:
        known = ", ".join(runs.extra) or "nothing"
        raise InvalidArgument("simulations", f"must measure {measure!r}; this measures {known}")
    return np.asarray(runs.extra[measure], dtype=np.float64)


def _violations(runs: AllocationRuns) -> Floats:
    owed = _quotas_of(runs.problem) * _rounds(runs)
    violations: Floats = (owed - runs.pulls).max(axis=1)
    return violations


def _quotas_of(problem: Any) -> Floats:
    shares = getattr(problem, "shares", None)
    if shares is None:
        raise InvalidArgument("source", "must be of a problem with guaranteed shares", problem)
    return np.array([float(share) for share in shares])


def _tolerance_of(curves: Mapping[str, Any]) -> float:
    simulations: list[Any] = [
        one
        for curve in curves.values()
        if isinstance(curve, Sequence)
        for one in curve
        if _is_simulation(one)
    ]
    return max((float(one.problem.tolerance) for one in simulations), default=0.0)


def _checked(simulations: Sequence[AllocationRuns]) -> Sequence[AllocationRuns]:
    if not isinstance(simulations, Sequence) or not simulations:
        raise InvalidArgument("simulations", "must be at least one simulation", simulations)
    for runs in simulations:
        if not _is_simulation(runs) or not hasattr(runs.problem, "tolerance"):
            raise InvalidArgument("simulations", "must be of problems with a tolerance", runs)
    return simulations


# ------------------------------------------------------------------------------- drawing


def _draw_line(ax: Axes, index: int, line: _Line, band: tuple[Floats, Floats]) -> None:
    look = _LINES[index % len(_LINES)]
    ax.plot(line.at, line.mean, linewidth=1.5, label=line.name, gid="curve", **look)
    if len(line.values) > 1:
        ax.fill_between(line.at, *band, color=look["color"], alpha=0.15, linewidth=0, gid="band")


def _draw_bound(ax: Axes, index: int, name: str, at: Floats, bound: Bound) -> None:
    values = [float(bound(float(x))) for x in at]
    pattern = _BOUND_STYLES[index % len(_BOUND_STYLES)]
    ax.plot(at, values, color=style.INK, linewidth=1, linestyle=pattern, label=name, gid="bound")


def _spread(lines: Sequence[_Line]) -> Floats:
    """Return rounds at which to draw a smooth curve."""
    low = max(1.0, min(float(line.at.min()) for line in lines))
    high = max(float(line.at.max()) for line in lines)
    rounds: Floats = np.unique(np.geomspace(low, max(high, low), 200).round())
    return rounds


def _scale_time(ax: Axes, lines: Sequence[_Line]) -> None:
    low = min(float(line.at.min()) for line in lines)
    high = max(float(line.at.max()) for line in lines)
    if low > 0 and high / low >= _WIDE and not _evenly_spaced(lines):
        ax.set_xscale("log")
    if high > low:
        ax.set_xlim(low, high)
    _write_counts(ax)


def _evenly_spaced(lines: Sequence[_Line]) -> bool:
    """Return whether the rounds were taken at even distances, and so want an even axis."""
    steps = [np.diff(line.at) for line in lines if len(line.at) > 2]
    return all(step.max() <= 2 * step.min() for step in steps)


def _scale_regret(ax: Axes, lines: Sequence[_Line]) -> None:
    means = np.concatenate([line.mean for line in lines])
    drawn = np.concatenate([np.asarray(line.get_ydata(), dtype=float) for line in ax.lines])
    if means.min() > 0 and means.max() / means.min() >= _WIDE:
        ax.set_yscale("log")
        ax.set_ylim(bottom=0.7 * drawn[drawn > 0].min())
    _write_counts(ax)


def _name_axes(ax: Axes, across: str, up: str) -> None:
    ax.set_xlabel(across, fontsize=style.SMALL, color=style.INK)
    ax.set_ylabel(up, fontsize=style.SMALL, color=style.INK)


def _write_counts(ax: Axes) -> None:
    from matplotlib.ticker import FuncFormatter

    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.7g}"))


def _handle(**look: Any) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], linewidth=1.4, **look)


def _handles(ax: Axes) -> list[Any]:
    return [
        handle
        for handle, name in zip(*ax.get_legend_handles_labels(), strict=True)
        if not name.startswith("_")
    ]


def _with_key(ax: Axes) -> Figure:
    figure = style.root(ax.figure)
    style.key(figure, _handles(ax))
    return figure


# ------------------------------------------------------------------ shares against quotas


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
    if _is_simulation(source):
        labels, pulls = pulls_of(source)
        problem = source.problem  # type: ignore[attr-defined]
        return labels, pulls, _quotas_of(problem) if hasattr(problem, "shares") else None
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
    if not _is_simulation(source):
        return None
    pulls: NDArray[Any] = source.pulls  # type: ignore[attr-defined]
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
