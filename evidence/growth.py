"""How time and memory grow with the size of a question: one process for each size."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

import numpy as np

import fairtrial as ft

__all__ = ["GROWTHS", "Growth", "exponent", "measure_growth"]

ROOT = Path(__file__).parent.parent

_PULLS = 2_000
"""Pulls of a run whose number of pulls is not what grows."""
_SECONDS = 30.0
"""Seconds for each second of effort: a size that takes longer is left out, and all larger ones."""
_MEGABYTES = 5_000.0
"""The same for memory beyond that of the smallest size, whatever the effort."""
_STARTING = 600.0
"""Seconds that a process may take to compile kernels."""
_NOISE = 10.0
"""Megabytes that a run may take without any growth."""


@dataclass(frozen=True)
class Growth:
    """One quantity that grows.

    Parameters
    ----------
    name, policy : str
        What grows, and what is run.
    sizes : tuple of int
        The sizes, ascending.
    work : callable
        ``work(size)`` prepares a run, and returns a function that makes it and returns the number
        of units (pulls, runs or events) that its time is divided by.
    unit : str
        The name of a unit.
    """

    name: str
    policy: str
    sizes: tuple[int, ...]
    work: Callable[[int], Callable[[], int]]
    unit: str = "pull"


def _simulation(
    policy: ft.Policy, environment: ft.Environment, replications: int = 1, **options: Any
) -> Callable[[], int]:
    def run() -> int:
        runs = ft.simulate(policy, environment, replications, workers=1, progress=False, **options)
        return int(runs.pulls.sum())

    return run


def _plain_arms(arms: int) -> Callable[[], int]:
    problem = ft.subpopulations.Problem(arms, 1, floors=None, noise_std=1.0)
    means = np.zeros((arms, 1))
    means[0] = 0.1
    policy = ft.subpopulations.BlockBetting(problem, delta=0.1)
    environment = ft.subpopulations.GaussianEnvironment(problem, means)
    return _simulation(policy, environment, horizon=max(_PULLS, 2 * arms))


def _described_arms(arms: int) -> Callable[[], int]:
    features = np.random.default_rng(1).standard_normal((arms, 10))
    problem = ft.linear.Problem(features, noise_std=1.0)
    environment = ft.linear.GaussianEnvironment(problem, 0.001 * features[0])
    return _simulation(ft.linear.BlockBetting(problem, delta=0.1), environment, horizon=_PULLS)


def _offers(arms: int) -> Callable[[], int]:
    problem = ft.allocation.Problem(arms, f"1/{2 * arms}")
    environment = ft.allocation.BernoulliEnvironment(problem, np.linspace(0.2, 0.8, arms))
    policy = ft.allocation.FairLearn(problem, ft.allocation.RoundRobin())
    return _simulation(policy, environment, horizon=100_000)


def _groups(groups: int) -> Callable[[], int]:
    problem = ft.subpopulations.Problem(3, groups, floors=-1.0, noise_std=1.0)
    means = np.zeros((3, groups))
    means[0] = 0.05
    environment = ft.subpopulations.GaussianEnvironment(problem, means)
    policy = ft.subpopulations.BlockBetting(problem, delta=0.1)
    return _simulation(policy, environment, horizon=_PULLS)


def _dimensions(dimension: int) -> Callable[[], int]:
    arms = np.random.default_rng(1).standard_normal((2 * dimension, dimension))
    problem = ft.linear.Problem(arms, noise_std=1.0)
    environment = ft.linear.GaussianEnvironment(problem, 0.001 * arms[0])
    return _simulation(ft.linear.BlockBetting(problem, delta=0.1), environment, horizon=_PULLS)


def _in_flight(parallel: int) -> Callable[[], int]:
    problem = ft.delayed.Problem(10, noise_std=1.0)
    environment = ft.delayed.SimulatedEnvironment(problem, [0.01] + [0.0] * 9, delay=30.0)
    policy = ft.delayed.InformationRacing(problem, delta=0.1)
    return _simulation(policy, environment, horizon=_PULLS, parallel=parallel)


def _replications(number: int) -> Callable[[], int]:
    from papers.baics.instances import NONE_FEASIBLE

    policy = ft.subpopulations.BlockBetting(NONE_FEASIBLE.problem, delta=0.1)
    run = _simulation(policy, NONE_FEASIBLE.environment, number, horizon=10_000)

    def counted() -> int:
        run()
        return number

    return counted


def _short_runs(number: int) -> Callable[[], int]:
    problem = ft.allocation.Problem(3, "1/6")
    environment = ft.allocation.BernoulliEnvironment(problem, [0.7, 0.5, 0.4])
    policy = ft.allocation.FairLearn(problem, ft.allocation.UCB1())
    run = _simulation(policy, environment, number, horizon=100)

    def counted() -> int:
        run()
        return number

    return counted


def _rounds(horizon: int) -> Callable[[], int]:
    problem = ft.allocation.Problem(3, "1/6")
    environment = ft.allocation.BernoulliEnvironment(problem, [0.7, 0.5, 0.4])
    policy = ft.allocation.FairLearn(problem, ft.allocation.UCB1())
    return _simulation(policy, environment, horizon=horizon)


def _events(number: int) -> Callable[[], int]:
    problem = ft.allocation.Problem(3, "1/6")
    policy = ft.allocation.FairLearn(problem, ft.allocation.RoundRobin())

    def run() -> int:
        with (
            tempfile.TemporaryDirectory() as folder,
            ft.Study.create(
                problem,
                policy,
                storage=f"sqlite:///{folder}/study.db",
                name="growth",
                seed=1,
                durability="process",
            ) as study,
        ):
            while study.n_events < number:
                study.tell_many([(pull, 0.5) for pull in study.ask(min(250, number // 2))])
            return study.n_events

    return run


GROWTHS: dict[str, Growth] = {
    "arms": Growth(
        "arms", "subpopulations.BlockBetting", (10, 100, 1_000, 10_000, 100_000), _plain_arms
    ),
    "arms-with-features": Growth(
        "arms",
        "linear.BlockBetting in 10 dimensions",
        (20, 100, 1_000, 10_000, 100_000),
        _described_arms,
    ),
    "arms-with-shares": Growth(
        "arms", "allocation.FairLearn, round robin", (10, 100, 1_000, 10_000, 100_000), _offers
    ),
    "groups": Growth("groups", "subpopulations.BlockBetting", (2, 5, 10, 30, 100), _groups),
    "dimension": Growth("dimension", "linear.BlockBetting", (2, 5, 10, 30, 100), _dimensions),
    "parallel": Growth(
        "pulls in flight", "delayed.InformationRacing", (1, 10, 100, 1_000), _in_flight
    ),
    "replications": Growth(
        "replications",
        "subpopulations.BlockBetting until it decides",
        (100, 1_000, 10_000, 100_000, 1_000_000),
        _replications,
        "replication",
    ),
    "replications-of-short-runs": Growth(
        "replications",
        "allocation.FairLearn, UCB1, 100 rounds",
        (100, 1_000, 10_000, 100_000, 1_000_000),
        _short_runs,
        "replication",
    ),
    "horizon": Growth(
        "rounds",
        "allocation.FairLearn, UCB1",
        (10_000, 100_000, 1_000_000, 10_000_000, 100_000_000),
        _rounds,
    ),
    "events": Growth(
        "events of a study in SQLite",
        "allocation.FairLearn, round robin",
        (1_000, 10_000, 100_000, 1_000_000, 10_000_000),
        _events,
        "event",
    ),
}
"""What grows, by name."""


def measure_growth(name: str, skip: set[str], effort: float, seed: int) -> Iterator[dict[str, Any]]:
    """Yield time and memory at each size, until one would take more than the limit of either.

    A size is left out if the previous ones took so much that it is beyond a limit, with the time
    proportional to the size, and the memory to the power of the size that the previous two show.
    """
    growth, limit = GROWTHS[name], _SECONDS * effort
    seconds = megabytes = 0.0
    power, previous = 1.0, growth.sizes[0]
    for size in growth.sizes:
        times, previous = size / previous, size
        before, seconds, megabytes = megabytes, seconds * times, megabytes * times**power
        if str(size) in skip:
            continue
        if seconds > limit or megabytes > _MEGABYTES:
            expected = _expected(seconds, megabytes)
            yield {"case": str(size), "missing": f"left out: {expected}", "is_untried": True}
            continue
        found = _in_own_process(name, size, 10.0 * limit + _STARTING)
        yield {"case": str(size), **found}
        seconds = found.get("total_seconds", math.inf)
        megabytes = max(found.get("growth_megabytes", 0.0) - _NOISE, 0.0)
        if before and megabytes:
            power = min(max(math.log(megabytes / before) / math.log(times), 1.0), 2.0)


def _expected(seconds: float, megabytes: float) -> str:
    if megabytes > _MEGABYTES:
        return f"up to {megabytes / 1e3:.0f} GB of memory expected"
    return f"about {seconds:.0f} s expected" if seconds < math.inf else "a smaller one failed"


def _in_own_process(name: str, size: int, patience: float) -> dict[str, Any]:
    """Measure one size in a new process, because peak memory never decreases within one."""
    command = [sys.executable, "-m", "evidence.growth", name, str(size)]
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=patience
        )
    except subprocess.TimeoutExpired:
        return {"missing": f"no result within {patience:.0f} s"}
    if done.returncode:
        return {"missing": (done.stderr.strip().splitlines() or ["failed"])[-1]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _measured(name: str, size: int) -> dict[str, Any]:
    """Return the second run's time: the first one loads or compiles machine code.

    What grows with the size is not the code, so the first run uses the smallest size.
    """
    growth = GROWTHS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        growth.work(growth.sizes[0])()
        before = getrusage(RUSAGE_SELF).ru_maxrss
        started = time.process_time()
        units = growth.work(size)()
        seconds = time.process_time() - started
    peak = getrusage(RUSAGE_SELF).ru_maxrss
    return {
        "total_seconds": seconds,
        "units": units,
        "microseconds": 1e6 * seconds / max(units, 1),
        "megabytes": peak / 1e3,
        "growth_megabytes": (peak - before) / 1e3,
    }


def exponent(sizes: list[float], costs: list[float]) -> float | None:
    """Return the power of the size with which costs grow, fitted to their logarithms.

    Examples
    --------
    >>> exponent([1, 10, 100], [2.0, 20.0, 200.0])
    1.0
    """
    if len(sizes) < 2 or min(costs) <= 0:
        return None
    slope = np.polyfit(np.log(sizes), np.log(costs), 1)[0]
    return round(float(slope), 2) + 0.0  # never -0


if __name__ == "__main__":
    print(json.dumps(_measured(sys.argv[1], int(sys.argv[2]))))  # noqa: T201 - read by the parent
