"""Pulls and wrong answers of both proven rules for late results of known noise without readings."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import fairtrial as ft
from papers.delayed.instances import curves

RULES = ("BlockBetting", "InformationRacing")
MOST_PULLS = 50_000


def _race(means: Any, top: int = 1, noise_std: float = 1.0) -> ft.delayed.SimulatedEnvironment:
    problem = ft.delayed.Problem(len(means), top=top, noise_std=noise_std)
    return ft.delayed.SimulatedEnvironment(problem, means, delay=30.0)


def _bad_results_first() -> ft.delayed.SimulatedEnvironment:
    problem = ft.delayed.Problem(4, noise_std=0.3, delay_depends_on_outcome=True)
    delay = ft.delayed.OutcomeDelay(low=1.0, high=40.0)
    return ft.delayed.SimulatedEnvironment(problem, [0.7, 0.5, 0.5, 0.4], delay=delay)


CASES: dict[str, tuple[Callable[[], Any], int]] = {
    "3 arms: 0, .5 and 2": (lambda: _race([0.0, 0.5, 2.0]), 6),
    "10 arms, one ahead by 1": (lambda: _race([1.0] + [0.0] * 9), 10),
    "the best 5 of 50": (lambda: _race(np.linspace(5, 0, 50), 5, 0.3), 20),
    "3 arms, .2 apart": (lambda: _race([0.4, 0.2, 0.0]), 6),
    "the best of 30": (lambda: _race(np.linspace(3, 0, 30)), 20),
    "bad results come first": (_bad_results_first, 10),
    "20 classifiers, final errors only": (lambda: curves("mfeat-fourier").environment(), 10),
}
"""How each environment is made, and how many pulls are in flight."""


def run(*, quick: bool) -> None:
    """Print mean, standard error and 99th percentile of pulls, and wrong answers."""
    runs = 30 if quick else 300
    warnings.simplefilter("ignore")
    for delta in (0.1, 0.05):
        print(f"\npulls at delta {delta:g}, {runs} runs: mean (error), 99 %, wrong")
        for name, (make, parallel) in CASES.items():
            environment = make()
            cells = [_measured(rule, environment, delta, parallel, runs) for rule in RULES]
            print(f"{name:>36}{cells[0]:>32}{cells[1]:>32}", flush=True)


def _measured(rule: str, environment: Any, delta: float, parallel: int, runs: int) -> str:
    policy = getattr(ft.delayed, rule)(environment.problem, delta=delta)
    found = ft.simulate(
        policy,
        environment,
        runs,
        seed=1,
        horizon=MOST_PULLS,
        parallel=parallel,
        progress=False,
    ).summary(quantiles=[0.99])
    pulls = found.stopping_time
    largest = pulls.quantiles[0.99]
    return f"{pulls.mean:,.1f} ({pulls.standard_error:,.1f}) {largest:,.0f} {found.wrong}"
