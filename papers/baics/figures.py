"""The paper's Figures 1 and 2: observed shares of pulls and the optimal allocation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from papers.baics.cache import SimulationCache, tracker
from papers.baics.instances import E1, E2, Instance
from papers.baics.stopping_times import PAPER_CAP
from papers.report import save_figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

__all__ = ["write_figures"]

_RULES = {
    "T-a-SCS": "T-a-SCS: sees the floors",
    "T-a-S": "T-a-S: blind to floors, groups by weight",
}


def write_figures(cache: SimulationCache, folder: Path) -> list[Path]:
    """Write both figures into a folder; return their paths."""
    instances = enumerate((E1, E2), start=1)
    figures = ((f"figure-{number}", _draw(cache, instance)) for number, instance in instances)
    return save_figures(figures, folder)


def _draw(cache: SimulationCache, instance: Instance) -> Figure:
    from matplotlib.figure import Figure

    from fairtrial.plots import allocation

    figure = Figure(figsize=(7.5, 5.5), layout="constrained", facecolor="white")
    panels: list[SubFigure] = list(figure.subfigures(len(_RULES), 1, squeeze=False)[:, 0])
    optimal = instance.complexity().allocation
    for (rule, title), panel in zip(_RULES.items(), panels, strict=True):
        horizon = PAPER_CAP if (instance, rule) == (E2, "T-a-S") else None
        runs = (300, 40) if instance is E1 else (300, 20)
        policy = tracker(rule, instance, 0.1, "stylised")
        simulation = cache.simulate(instance, policy, runs, horizon)
        cut = "" if horizon is None else f"; runs cut at {horizon:,} rounds"
        panel.suptitle(f"{instance.name}, {title}{cut}", fontsize=10, x=0.01, ha="left")
        allocation(simulation, optimal, figure=panel)
    return figure
