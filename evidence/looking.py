"""Two variants, looked at ten times: how often a rule names one, and how often wrongly."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

import fairtrial as ft
from fairtrial.simulation.summary import error_interval

__all__ = ["betting", "looks", "significance"]

_LEVEL = 0.05
"""Probability that one of two equal variants is named: half of it for each."""
_MOST = 2_000
"""Visitors of both variants together."""
_EQUAL, _BETTER = (0.3, 0.3), (0.3, 0.38)
_FEWEST_RUNS, _MOST_RUNS = 20, 1_000

Play = Callable[[tuple[float, float], int], tuple[int | None, int]]
"""``play(rates, seed)`` returns the variant that was named, if any, and the visitors until then."""


def betting(rates: tuple[float, float], seed: int, **options: Any) -> tuple[int | None, int]:
    """Let block betting run until it decides."""
    problem = ft.subpopulations.Problem(2, 1, floors=None, reward_range=(0, 1))
    environment = ft.subpopulations.BernoulliEnvironment(problem, np.reshape(rates, (2, 1)))
    policy = ft.subpopulations.BlockBetting(problem, delta=_LEVEL / 2, max_pulls=_MOST, **options)
    runs = ft.simulate(policy, environment, 1, seed=seed, workers=1, progress=False)
    answer = runs.answer[0]
    return None if answer is None else int(answer), int(runs.stopping_time[0])


def significance(rates: tuple[float, float], seed: int, looks: int = 10) -> tuple[int | None, int]:
    """Let tea-tasting analyse what there is at each look, and stop at a small p-value."""
    tea_tasting: Any = import_module("tea_tasting")
    tables: Any = import_module("pyarrow")
    generator = np.random.default_rng(seed)
    variants = np.arange(_MOST) % 2
    bought = (generator.random(_MOST) < np.array(rates)[variants]).astype(float)
    experiment = tea_tasting.Experiment(bought=tea_tasting.Mean("bought"))
    for look in range(1, looks + 1):
        seen = _MOST * look // looks
        table = tables.table({"variant": variants[:seen], "bought": bought[:seen]})
        found = experiment.analyze(table)["bought"]
        if found.pvalue < _LEVEL:
            return int(found.effect_size > 0), seen
    return None, _MOST


def looks(play: Play, effort: float, seed: int) -> dict[str, Any]:
    """Return how often a rule names a variant if both are equal, and if the second is better."""
    play(_EQUAL, seed)
    started = time.process_time()
    play(_EQUAL, seed)
    each = time.process_time() - started
    number = int(min(max(2.0 * effort / max(each, 1e-9), _FEWEST_RUNS), _MOST_RUNS))
    seeds = range(seed + 1, seed + 1 + number)
    equal, better = (list(map(partial(play, rates), seeds)) for rates in (_EQUAL, _BETTER))
    wrong = sum(answer is not None for answer, _ in equal)
    return {
        "replications": number,
        "wrong": wrong,
        "interval": error_interval(wrong, number, 0.95),
        "found": sum(answer == 1 for answer, _ in better) / number,
        "visitors": float(np.mean([visitors for _, visitors in better])),
    }
