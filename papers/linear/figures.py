"""The paper's Figures 4 and 5, all rules against the bound, and one race."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fairtrial.simulation import trace
from papers.linear.cache import BLOCK_BETTING, DELTA, SimulationCache, policy
from papers.linear.dimensions import GROWING, dimension_runs, dimensions_of
from papers.linear.instances import CROWDED, paper_instance
from papers.linear.published import STRATEGIES, shares_of
from papers.linear.rules import known_rules, rule_runs
from papers.report import save_figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["write_figures"]

_TOLD_THE_TRUTH = "XYOracle"
_SAME_AS_G = "XYAllocation"


def write_figures(cache: SimulationCache, folder: Path) -> list[Path]:
    """Write all figures into a folder; return their paths."""
    drawings: dict[str, Callable[[SimulationCache], Figure]] = {
        "figure-4": _dimensions,
        "figure-5": _shares,
        "rules": _rules,
        "survivors": _survivors,
    }
    figures = ((name, draw(cache)) for name, draw in drawings.items())
    return save_figures(figures, folder, dpi=110)


def _dimensions(cache: SimulationCache) -> Figure:
    from fairtrial.plots import budget_by_dimension

    measured = dimensions_of(cache)
    budgets = {
        name: {dimension: dimension_runs(cache, name, dimension) for dimension in measured}
        for name in GROWING
    }
    bound = {
        dimension: paper_instance(dimension).complexity.lower_bound(DELTA) for dimension in measured
    }
    return budget_by_dimension(budgets, bound)


def _shares(cache: SimulationCache) -> Figure:
    from fairtrial.plots import design_weights

    arms = [f"x{number}" for number in range(1, 7)]
    return design_weights({one.name: shares_of(cache, one) for one in STRATEGIES}, arms)


def _rules(cache: SimulationCache) -> Figure:
    from fairtrial.plots import times_the_bound

    # Show only one of two rules with equal shares, and not the one that knows theta: readers can
    # distinguish eight.
    left_out = (_TOLD_THE_TRUTH, _SAME_AS_G)
    return times_the_bound(
        {
            instance.name: {
                name: rule_runs(cache, instance, name)
                for name in known_rules(instance)
                if name not in left_out
            }
            for instance in cache.environments
        }
    )


def _survivors(cache: SimulationCache) -> Figure:
    from fairtrial.plots import survivors_over_time

    instance = CROWDED[0]
    rules = (BLOCK_BETTING, "LinGapE", "Rage")
    points = 60 if cache.quick else 200
    return survivors_over_time(
        {
            name: trace(
                policy(name, instance), instance.environment, seed=cache.seed, points=points
            )
            for name in rules
        }
    )
