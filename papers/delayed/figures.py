"""The paper's Figures 1 and 2, the learning curves, and one race from start to end."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairtrial.core import Progress, Pull, run_policy
from fairtrial.delayed import InformationRacing
from papers.delayed.cache import SimulationCache
from papers.delayed.instances import TASKS, curves, free
from papers.delayed.learning import contests
from papers.delayed.savings import CURVES, PARALLEL, RATIOS, Curve, ratios
from papers.report import save_figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["write_figures"]


def write_figures(cache: SimulationCache, folder: Path) -> list[Path]:
    """Write all figures into a folder; return their paths."""
    drawings: dict[str, Callable[[SimulationCache], Figure]] = {
        **{name: partial(_savings, curve=curve) for name, curve in CURVES.items()},
        **{f"curves-{task}": partial(_learning, task=task) for task in TASKS},
        "one-race": _one_race,
    }
    figures = ((name, draw(cache)) for name, draw in drawings.items())
    return save_figures(figures, folder)


def _savings(cache: SimulationCache, curve: Curve) -> Figure:
    from matplotlib.figure import Figure

    from fairtrial.plots import time_ratios

    figure = Figure(figsize=(9.0, 3.9), layout="constrained", facecolor="white")
    halves = figure.subfigures(1, len(PARALLEL), squeeze=False)
    axes = []
    for half, parallel in zip(halves.flat, PARALLEL, strict=True):
        ax = half.subplots()
        found = {
            rule: {
                value: (ratio.mean, ratio.error)
                for value, ratio in ratios(cache, curve, rule, parallel).items()
            }
            for rule in RATIOS
        }
        time_ratios(found, curve.across, ax=ax)
        ax.set_title(f"{curve.title}; b = {parallel}", loc="left", fontsize=9)
        axes.append(ax)
    highest = max(ax.get_ylim()[1] for ax in axes)
    for ax in axes:
        ax.set_ylim(0.0, highest)
    return figure


def _learning(cache: SimulationCache, task: str) -> Figure:
    from fairtrial.plots import cost_of_answers

    found = {
        name: (contest.seconds, contest.correct)
        for name, contest in contests(cache, curves(task)).items()
    }
    figure = cost_of_answers(found, delta=0.05, unit="seconds of training")
    figure.suptitle(task, x=0.01, ha="left", fontsize=9)
    return figure


class _Watched(InformationRacing):
    """The default rule, which stores its progress after every reading and result."""

    moments: list[Progress]

    def read(self, *reading: Any, **details: Any) -> None:
        super().read(*reading, **details)
        self.moments.append(self.progress())

    def learn(self, pull: Pull, outcome: float) -> None:
        super().learn(pull, outcome)
        self.moments.append(self.progress())


def _one_race(cache: SimulationCache) -> Figure:
    from fairtrial.plots import race_over_time

    race, generator = free(20), np.random.default_rng([cache.seed, 0])
    policy = _Watched(race.problem, parallel=10)
    policy.moments = [policy.progress()]
    run_policy(policy, race.environment(generator.permutation(20)), generator, parallel=10)
    return race_over_time([*policy.moments, policy.progress()])
