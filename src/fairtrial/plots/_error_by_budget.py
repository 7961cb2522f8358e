"""How often rules give a wrong answer, by budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from fairtrial.core.keywords import named_arguments
from fairtrial.errors import InvalidArgument
from fairtrial.plots import _style as style
from fairtrial.plots._fonts import legible
from fairtrial.simulation.summary import error_interval

__all__ = ["error_by_budget"]


@legible
@named_arguments
def error_by_budget(errors: Mapping[str, Mapping[int, Any]], *, ax: Axes | None = None) -> Figure:
    """Draw how often rules give a wrong answer, by the number of rows that they may spend.

    Bars are 95 % intervals of Clopper and Pearson (1934); at the same budget, rules are drawn
    slightly apart, so that their bars do not hide each other.

    Parameters
    ----------
    errors : mapping of str to mapping of int to Simulation or (int, int)
        By rule and budget: the replications, or the numbers of wrong answers and of runs.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure.

    Raises
    ------
    InvalidArgument
        If there is no rule, there are more than eight, one has no budget, or a simulation's truth
        is unknown.

    Examples
    --------
    >>> figure = error_by_budget({"plug-in": {2000: (4, 100), 10_000: (0, 100)}})
    >>> figure.axes[0].lines[0].get_ydata().tolist()
    [0.04, 0.0]
    """
    if not isinstance(errors, Mapping):
        raise InvalidArgument("errors", "must be a mapping by rule", errors)
    if not errors or len(errors) > len(style.LINES):
        raise InvalidArgument("errors", f"must name 1 to {len(style.LINES)} rules", list(errors))
    counts = {rule: _counts(rule, by_budget) for rule, by_budget in errors.items()}
    ax = style.axes(ax, 6.4, 3.8, grid="y")
    middle = (len(counts) - 1) / 2
    for place, (rule, by_budget) in enumerate(counts.items()):
        shift = 1.012 ** (place - middle)
        _draw_errors(ax, rule, by_budget, shift, place)
    _scale_errors(ax, sorted({budget for by in counts.values() for budget in by}))
    return style.root(ax)


def _counts(rule: str, by_budget: Mapping[int, Any]) -> dict[int, tuple[int, int]]:
    if not isinstance(by_budget, Mapping) or not by_budget:
        raise InvalidArgument("errors", f"must have a budget for {rule!r}", by_budget)
    return {int(budget): _count(by_budget[budget]) for budget in sorted(by_budget)}


def _count(found: Any) -> tuple[int, int]:
    """Return the numbers of wrong answers and of runs."""
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
    place: int,
) -> None:
    look = style.LINES[place]
    budgets = shift * np.array(list(by_budget), dtype=np.float64)
    rates = np.array([wrong / runs for wrong, runs in by_budget.values()])
    ends = np.array([error_interval(*found) for found in by_budget.values()])
    ax.vlines(budgets, ends[:, 0], ends[:, 1], color=look["color"], linewidth=1.1, alpha=0.6)
    ax.plot(
        budgets,
        rates,
        marker=style.MARKERS[place],
        markersize=5,
        linewidth=1.5,
        label=rule,
        clip_on=False,
        gid="errors",
        **look,
    )


def _scale_errors(ax: Axes, budgets: Sequence[int]) -> None:
    if len(budgets) > 1:
        ax.set_xscale("log")
    ax.set_xticks(budgets, labels=[f"{budget:,}" for budget in budgets])
    ax.minorticks_off()
    ax.set_ylim(-0.015, 1.02)
    ax.yaxis.set_major_formatter(PercentFormatter(1.0))
    ax.set_xlabel("rows (budget)", fontsize=style.SMALL, color=style.INK)
    ax.set_ylabel("wrong answers", fontsize=style.SMALL, color=style.INK)
    style.key(style.root(ax), ax.get_lines())
