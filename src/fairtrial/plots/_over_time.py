"""Regret, and missing shares of arms, round by round."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from fairtrial.core.keywords import named_arguments
from fairtrial.core.recommendation import Progress
from fairtrial.core.validation import check_array, check_choice, check_number
from fairtrial.errors import InvalidArgument
from fairtrial.plots import _style as style
from fairtrial.plots._fonts import legible
from fairtrial.plots._lines import (
    Bound,
    Line,
    draw_bound,
    draw_line,
    name_axes,
    scale_regret,
    scale_time,
    spread,
    with_key,
)
from fairtrial.presentation.quotas import (
    AllocationRuns,
    is_simulation,
    measured,
    rounds,
    violations,
)
from fairtrial.presentation.sources import Floats, Traced, trace_of

__all__ = ["regret_over_time", "violation_over_time"]


Curve = Sequence[AllocationRuns] | tuple[ArrayLike, ArrayLike]
"""Simulations with growing horizons, or the rounds and a number for each of them (a column
per round, a row per run, if there are several runs)."""


@legible
@named_arguments
def regret_over_time(
    curves: Mapping[str, Curve],
    bounds: Mapping[str, Bound] | None = None,
    *,
    measure: str = "r_regret",
    ax: Axes | None = None,
) -> Figure:
    """Draw the cumulative regret of policies by round, and upper bounds on it.

    The line is the mean of the runs, the band contains the middle 90 per cent of them.

    Parameters
    ----------
    curves : mapping of str to (sequence of Simulation, or pair of array_like)
        By the name of the policy: simulations with growing horizons; or rounds, shape (n,),
        and regrets, shape (n,) or (runs, n).
    bounds : mapping of str to callable, optional
        Upper bounds by name: functions of the round.
    measure : {"r_regret", "regret"}
        The measure of a simulation: the regret beyond what the shares require, or all regret.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure.

    Raises
    ------
    InvalidArgument
        If there is nothing to draw, or a curve has another form.

    Examples
    --------
    >>> figure = regret_over_time({"ours": ([10, 100], [3.0, 5.0])}, {"bound": lambda t: 9.0})
    >>> [line.get_label() for line in figure.axes[0].lines]
    ['ours', 'bound']
    """
    check_choice("measure", measure, ("r_regret", "regret"))
    lines = _lines(curves, lambda runs: measured(runs, measure))
    ax = style.axes(ax, 6.4, 4.0, grid="y")
    for index, line in enumerate(lines):
        draw_line(ax, index, line, line.between(0.05, 0.95))
    for index, (name, bound) in enumerate((bounds or {}).items()):
        draw_bound(ax, index, name, spread(lines), bound)
    scale_time(ax, lines)
    scale_regret(ax, lines)
    name_axes(ax, "round", "r-regret" if measure == "r_regret" else "regret")
    return with_key(ax)


@legible
@named_arguments
def violation_over_time(
    curves: Mapping[str, Curve | Traced | Sequence[Progress]],
    *,
    unfairness_tolerance: float | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw at each round how far the arm that is most behind is behind its share.

    The line is the mean of the runs, the band above it reaches to the worst run. A guarantee at
    tolerance alpha holds at a round if and only if this number is below alpha + 1, the thin line:
    then no arm is more than alpha whole pulls behind.

    Parameters
    ----------
    curves : mapping of str to (sequence of Simulation, Study, trace, or pair of array_like)
        By the name of the policy: simulations with growing horizons; a study, or the moments
        of one run; or rounds, shape (n,), and the largest share times round minus pulls, shape
        (n,) or (runs, n).
    unfairness_tolerance : float, optional
        The pulls that an arm may be behind. By default that of the simulations' problem, or 0 if
        there are no simulations.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure.

    Raises
    ------
    InvalidArgument
        If there is nothing to draw, or a curve has another form.

    Examples
    --------
    >>> figure = violation_over_time({"ours": ([1, 2, 3], [0.2, 0.4, 0.1])})
    >>> [line.get_label() for line in figure.axes[0].lines]
    ['ours', 'limit: tolerance + 1']
    """
    if unfairness_tolerance is not None:
        check_number("unfairness_tolerance", unfairness_tolerance, low=0.0)
    lines = _lines(curves, violations, _followed)
    ax = style.axes(ax, 6.4, 4.0, grid="y")
    for index, line in enumerate(lines):
        draw_line(ax, index, line, (line.mean, line.between(0.0, 1.0)[1]))
    limit = (_tolerance_of(curves) if unfairness_tolerance is None else unfairness_tolerance) + 1
    ax.axhline(limit, color=style.INK, linewidth=1, linestyle=(0, (2, 2)), gid="limit").set_label(
        "limit: tolerance + 1"
    )
    scale_time(ax, lines)
    name_axes(ax, "round", "largest violation (pulls)")
    return with_key(ax)


def _lines(
    curves: Mapping[str, Any],
    measure: Callable[[Any], Floats],
    read: Callable[[Any], Any] = lambda curve: curve,
) -> list[Line]:
    if not isinstance(curves, Mapping) or not curves:
        raise InvalidArgument("curves", "must map at least one name to a curve", curves)
    return [_line(name, read(curve), measure) for name, curve in curves.items()]


def _line(name: str, curve: Any, measure: Callable[[Any], Floats]) -> Line:
    if isinstance(curve, Sequence) and curve and all(map(is_simulation, curve)):
        ordered = sorted(curve, key=rounds)
        runs = {len(one.pulls) for one in ordered}
        if len(runs) > 1:
            raise InvalidArgument("curves", f"must have equal numbers of runs in {name!r}", runs)
        values = np.stack([measure(one) for one in ordered], axis=1)
        return Line(name, np.array([rounds(one) for one in ordered]), values)
    if not isinstance(curve, tuple) or len(curve) != 2:
        message = "must be simulations with growing horizons, or a pair (rounds, values)"
        raise InvalidArgument("curves", message, curve)
    at = check_array("curves", curve[0], (None,), axes=("rounds",))
    given = np.atleast_2d(np.asarray(curve[1]))
    values = check_array("curves", given, (None, len(at)), axes=("runs", "rounds"))
    return Line(name, at, values)


def _followed(curve: Any) -> Any:
    """Return a study, or the moments of one run, as rounds and the largest shortfall at each."""
    is_trace = isinstance(curve, Sequence) and curve and isinstance(curve[0], Progress)
    if not is_trace and not callable(getattr(curve, "trace", None)):
        return curve
    moments = [moment for moment in trace_of(curve) if moment.asked > 0]
    if not moments or not all(moment.shares for moment in moments):
        raise InvalidArgument("curves", "must be of a policy with guaranteed shares", curve)
    lacking = [
        max(one.behind or 0.0 for one in moment.shares if not one.joint) for moment in moments
    ]
    return [moment.asked for moment in moments], lacking


def _tolerance_of(curves: Mapping[str, Any]) -> float:
    simulations: list[Any] = [
        one
        for curve in curves.values()
        if isinstance(curve, Sequence)
        for one in curve
        if is_simulation(one)
    ]
    return max((float(one.problem.unfairness_tolerance) for one in simulations), default=0.0)
