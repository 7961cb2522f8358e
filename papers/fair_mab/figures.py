"""The paper's Figures 2, 3 and 4, and a figure of the headline tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fairtrial.allocation import (
    UCB1,
    FairLearn,
    FairUCB,
    LearningWithFairness,
    Thompson,
    UnconstrainedLearner,
    complexity,
)
from fairtrial.core import Policy
from papers.fair_mab.cache import SimulationCache
from papers.fair_mab.cost import cost_curve
from papers.fair_mab.instances import ONE_A, TWO
from papers.fair_mab.instances import headlines as all_tests
from papers.fair_mab.regret import contenders
from papers.report import save_figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["write_figures"]

_STRONG = "51c8cece234062bbdd003366"


def write_figures(cache: SimulationCache, folder: Path) -> list[Path]:
    """Write all figures into a folder; return their paths."""
    drawings: dict[str, Callable[[SimulationCache], Figure]] = {
        "figure-2": _cost,
        "figure-3": _regret,
        "figure-4": _violation,
        "headline-test": _headline_test,
    }
    figures = ((name, draw(cache)) for name, draw in drawings.items())
    return save_figures(figures, folder)


def _cost(cache: SimulationCache) -> Figure:
    from fairtrial.plots import cost_of_fairness

    def bound(form: str) -> Callable[[float], float]:
        return lambda unfairness_tolerance: float(
            getattr(complexity(ONE_A.environment(int(unfairness_tolerance)), ONE_A.horizon), form)
        )

    return cost_of_fairness(
        cost_curve(cache, ONE_A),
        {
            "Theorem 4, appendix": bound("theorem4"),
            "Theorem 4, main text (false)": bound("theorem4_main_text"),
        },
    )


def _regret(cache: SimulationCache) -> Figure:
    from fairtrial.plots import regret_over_time

    last = 5.0 if cache.quick else 6.0
    rounds = np.geomspace(100, 10**last, 13 if cache.quick else 21).round().astype(int).tolist()
    environment = ONE_A.environment()
    return regret_over_time(
        {
            name: cache.curve(policy, ONE_A, (20, 6), rounds)
            for name, policy in contenders().items()
        },
        {"Theorem 2": lambda t: float(complexity(environment, int(t)).theorem2)},
    )


def _violation(cache: SimulationCache) -> Figure:
    from fairtrial.plots import violation_over_time

    problem = TWO.problem()
    policies: dict[str, Policy] = {
        "Fair-UCB": FairUCB(problem),
        **{f"LFG, eta {eta}": LearningWithFairness(problem, eta) for eta in (10, 100)},
        "UCB1, no quotas": UnconstrainedLearner(problem, UCB1()),
    }
    step = 20 if cache.quick else 1
    rounds = range(step, TWO.horizon + 1, step)
    curves = {
        name: cache.curve(policy, TWO, (100, 20), rounds) for name, policy in policies.items()
    }
    return violation_over_time(curves)


def _headline_test(cache: SimulationCache) -> Figure:
    from fairtrial.plots import shares_against_quotas

    test = next(test for test in all_tests() if test.name == _STRONG)
    policy = FairLearn(test.problem, Thompson())
    runs = cache.simulate(policy, test.environment(), (100, 10), test.impressions)
    return shares_against_quotas(runs)
