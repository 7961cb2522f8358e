"""The paper's Figures 3 and 5, error by budget in our environments, and the causal graphs."""

from __future__ import annotations

from pathlib import Path

from papers.causal.cache import PAPER_RULES, PLUG_IN, SimulationCache
from papers.causal.instances import (
    BINDING,
    HEPAR,
    LOOSE,
    OFFERS,
    TIGHT,
    UNCONSTRAINED,
    Setting,
)

__all__ = ["write_figures"]

_CURVES = {
    "figure-3a": UNCONSTRAINED,
    "figure-3b": LOOSE,
    "figure-3c": TIGHT,
    "figure-5": HEPAR,
    "figure-5-binding": BINDING,
    "offers-easy": OFFERS[0],
    "offers-hard": OFFERS[1],
}
_GRAPHS = {"graph-hepar": HEPAR, "graph-offers": OFFERS[0]}


def write_figures(cache: SimulationCache, folder: Path) -> list[Path]:
    """Write all figures into a folder; return their paths."""
    from fairtrial.plots import causal_graph

    paths = []
    for name, setting in _CURVES.items():
        paths.append(folder / f"{name}.png")
        _draw_errors(cache, setting, paths[-1])
    for name, setting in _GRAPHS.items():
        paths.append(folder / f"{name}.png")
        environment = setting.instances[0].make(cache.budgets(setting)[0])
        causal_graph(environment.problem).savefig(paths[-1], dpi=150)
    return paths


def _draw_errors(cache: SimulationCache, setting: Setting, path: Path) -> None:
    from matplotlib.figure import Figure

    from fairtrial.plots import error_by_budget

    figure = Figure(figsize=(6.4, 3.8), layout="constrained", facecolor="white")
    ax = figure.subplots()
    errors = {
        rule: {budget: cache.errors(setting, rule, budget) for budget in cache.budgets(setting)}
        for rule in (*PAPER_RULES, PLUG_IN)
    }
    counts = {
        rule: {budget: (found.wrong, found.runs) for budget, found in by_budget.items()}
        for rule, by_budget in errors.items()
    }
    error_by_budget(counts, ax=ax)
    ax.set_title(setting.name, loc="left", fontsize=9)
    figure.savefig(path, dpi=150)
