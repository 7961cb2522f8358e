"""The cost of guaranteed shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from fairtrial.core.keywords import named_arguments
from fairtrial.errors import InvalidArgument
from fairtrial.plots import _style as style
from fairtrial.plots._fonts import legible
from fairtrial.plots._lines import (
    Bound,
    draw_bound,
    handle,
    handles,
    name_axes,
    write_counts,
)
from fairtrial.presentation.quotas import (
    AllocationRuns,
    is_simulation,
    measured,
)
from fairtrial.presentation.sources import Floats

__all__ = ["cost_of_fairness"]


@legible
@named_arguments
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
        Simulations of the same policy and environment, each for a problem with another tolerance.
    bounds : mapping of str to callable, optional
        Upper bounds on the regret, by name: functions of the tolerance.
    figure : matplotlib.figure.Figure or SubFigure, optional
        Where to draw; by default a new figure.

    Raises
    ------
    InvalidArgument
        If there is no simulation, or one has no regret and violation.

    Examples
    --------
    >>> from types import SimpleNamespace as Bag
    >>> problems = [Bag(guaranteed_shares=(0.2, 0.2), unfairness_tolerance=alpha)
    ...             for alpha in (0, 2, 4)]
    >>> runs = [Bag(problem=problem, pulls=np.ones((2, 2)), metrics={
    ...             "regret": np.full(2, 9.0 - problem.unfairness_tolerance),
    ...             "violation": np.full(2, problem.unfairness_tolerance)})
    ...         for problem in problems]
    >>> cost_of_fairness(runs).axes[0].get_ylabel()
    'regret'
    """
    ordered = sorted(
        _checked(simulations), key=lambda runs: float(runs.problem.unfairness_tolerance)
    )
    tolerances = np.array([float(runs.problem.unfairness_tolerance) for runs in ordered])
    board = style.canvas(figure, 6.4, 5.2)
    upper, lower = board.subplots(2, 1, sharex=True)
    _draw_against_tolerance(upper, tolerances, ordered, "regret")
    _draw_against_tolerance(lower, tolerances, ordered, "violation")
    for index, (name, bound) in enumerate((bounds or {}).items()):
        fine = np.linspace(tolerances[0], tolerances[-1], 200)
        draw_bound(upper, index, name, fine, bound)
    limit: dict[str, Any] = {"color": style.VERMILLION, "linestyle": (0, (4, 2))}
    lower.plot(tolerances, tolerances + 1, linewidth=1.4, gid="limit", **limit)
    name_axes(upper, "", "regret")
    name_axes(lower, "tolerance (pulls)", "largest violation (pulls)")
    for ax in (upper, lower):
        ax.set_ylim(bottom=0)
        write_counts(ax)
    style.key(board, [*handles(upper), handle(label="tolerance + 1: the limit", **limit)])
    return style.root(board)


def _draw_against_tolerance(
    ax: Axes, tolerances: Floats, ordered: Sequence[AllocationRuns], measure: str
) -> None:
    style.tidy(ax, grid="y")
    per_run = [measured(runs, measure) for runs in ordered]
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


def _checked(simulations: Sequence[AllocationRuns]) -> Sequence[AllocationRuns]:
    if not isinstance(simulations, Sequence) or not simulations:
        raise InvalidArgument("simulations", "must be at least one simulation", simulations)
    for runs in simulations:
        if not is_simulation(runs) or runs.problem.guaranteed_shares is None:
            raise InvalidArgument("simulations", "must be of problems with a tolerance", runs)
    return simulations
