"""Intervals and claims that hold at every moment: those of other packages beside ours."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fairtrial as ft
from fairtrial.simulation.summary import error_interval

__all__ = [
    "analysis",
    "claim_of_batches",
    "claim_of_floor",
    "claims",
    "confidence_sequence",
    "intervals",
    "normal_interval",
]

_LEVEL = 0.05
_RESULTS = 1_000
"""Results of one mean."""
_FEWEST_RUNS, _MOST_RUNS = 5, 300

Floats = NDArray[np.float64]
Rule = Callable[[Floats], tuple[float, float]]
"""Returns the interval of the mean of the even places of a table of results in [0, 1]."""


# ------------------------------------------------------------------------- intervals of a mean


def _bernoulli(rate: float, generator: np.random.Generator, number: int) -> Floats:
    return (generator.random(number) < rate).astype(float)


def _beta(generator: np.random.Generator, number: int) -> Floats:
    return generator.beta(10, 30, number)


_TABLES: dict[str, tuple[float, Callable[[np.random.Generator, int], Floats]]] = {
    "half": (0.5, partial(_bernoulli, 0.5)),
    "rare": (0.05, partial(_bernoulli, 0.05)),
    "narrow": (0.25, _beta),
}
"""The true mean, and what draws results."""


def analysis(results: Floats) -> tuple[float, float]:
    """Return our interval of an arm's mean, from the analysis of a table of two arms."""
    problem = ft.subpopulations.Problem(["even", "odd"], 1, floors=None, reward_range=(0, 1))
    arms = ["even", "odd"] * (len(results) // 2)
    table = {"arm": arms, "outcome": results.tolist()}
    with ft.analyse(problem, table, _LEVEL, order="as given", progress=False) as study:
        even = study.progress().arms[0]
    return float(even.lower or 0.0), 1.0 if even.upper is None else float(even.upper)


def normal_interval(results: Floats) -> tuple[float, float]:
    """Return the usual interval, which is made for one look."""
    even = results[::2]
    half = 1.96 * even.std(ddof=1) / np.sqrt(len(even))
    return float(even.mean() - half), float(even.mean() + half)


def confidence_sequence(module: str, name: str, results: Floats) -> tuple[float, float]:
    """Return the last interval of a confidence sequence of confseq."""
    # confseq 0.0.11 uses a name that NumPy 2 has removed.
    vars(np).setdefault("float_", np.float64)
    sequence = getattr(import_module(f"confseq.{module}"), name)
    lower, upper = sequence(results[::2], alpha=_LEVEL, running_intersection=True)
    return float(lower[-1]), float(upper[-1])


def intervals(rule: Rule, effort: float, seed: int) -> dict[str, Any]:
    """Return mean widths after 1,000 results, how often the mean was missed, and the time."""
    generator = np.random.default_rng(seed)
    rule(_bernoulli(0.5, generator, 2 * _RESULTS))
    started = time.process_time()
    rule(_bernoulli(0.5, generator, 2 * _RESULTS))
    each = time.process_time() - started
    runs = _number_of_runs(effort / len(_TABLES), each)
    widths, missed, seconds = {}, 0, 0.0
    for name, (mean, draw) in _TABLES.items():
        width = 0.0
        for run in range(runs):
            # The same results for every rule, however many runs it makes.
            results = draw(np.random.default_rng([seed, run]), 2 * _RESULTS)
            started = time.process_time()
            lower, upper = rule(results)
            seconds += time.process_time() - started
            width += upper - lower
            missed += not lower <= mean <= upper
        widths[name] = width / runs
    number = runs * len(_TABLES)
    return {
        "replications": number,
        **widths,
        "missed": missed,
        "interval": error_interval(missed, number, 0.95),
        "milliseconds": 1e3 * seconds / number,
    }


# ------------------------------------------------------------------------------- claims

_FLOOR, _ABOVE = 0.3, 0.4
_BATCH = 20

Play = Callable[[float, int], int | None]
"""``play(rate, seed)`` returns the results until it claims that the rate is above the floor."""


def claim_of_floor(rate: float, seed: int, **options: Any) -> int | None:
    """Let block betting decide whether an arm keeps its floor."""
    problem = ft.subpopulations.Problem(["new"], 1, floors=_FLOOR, reward_range=(0, 1))
    environment = ft.subpopulations.BernoulliEnvironment(problem, [[rate]])
    policy = ft.subpopulations.BlockBetting(problem, _LEVEL, max_pulls=_RESULTS, **options)
    runs = ft.simulate(policy, environment, 1, seed=seed, workers=1, progress=False)
    return None if runs.answer[0] is None else int(runs.stopping_time[0])


def claim_of_batches(kind: str, rate: float, seed: int) -> int | None:
    """Let a test of expectation look after every batch."""
    tests: Any = import_module("expectation.seqtest.sequential_e_testing")
    test = tests.SequentialTesting(test_type=kind, null_value=_FLOOR, alternative="greater")
    generator = np.random.default_rng(seed)
    for seen in range(_BATCH, _RESULTS + 1, _BATCH):
        if test.update(_bernoulli(rate, generator, _BATCH)).reject_null:
            return seen
    return None


def claims(play: Play, effort: float, seed: int) -> dict[str, Any]:
    """Return how often a rule claims a rate above the floor: if it is the floor, or above it."""
    play(_FLOOR, seed)
    started = time.process_time()
    play(_FLOOR, seed)
    runs = _number_of_runs(effort, time.process_time() - started)
    seeds = range(seed + 1, seed + 1 + runs)
    started = time.process_time()
    wrong = sum(play(_FLOOR, each) is not None for each in seeds)
    seconds = time.process_time() - started
    found = [play(_ABOVE, each) for each in seeds]
    return {
        "replications": runs,
        "wrong": wrong,
        "interval": error_interval(wrong, runs, 0.95),
        "found": sum(number is not None for number in found) / runs,
        "results": float(np.mean([_RESULTS if number is None else number for number in found])),
        "milliseconds": 1e3 * seconds / runs,
    }


def _number_of_runs(effort: float, each: float) -> int:
    return int(min(max(effort / max(each, 1e-9), _FEWEST_RUNS), _MOST_RUNS))
