"""Run each race once, and compute statistics from the runs."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.core import Environment, Policy, Run, Truth
from fairtrial.delayed import InformationRacing, Problem, Racing
from papers.delayed import _public_code as public
from papers.delayed.instances import Race
from papers.report import Measured

__all__ = ["RULES", "Ratio", "Runs", "SimulationCache", "most_wrong"]

Floats = NDArray[np.float64]
T = TypeVar("T")

RULES: dict[str, Callable[[Problem], Policy]] = {
    "race, outcomes only": lambda problem: Racing(problem, variant="full"),
    "race, published": lambda problem: Racing(problem, variant="partial"),
    "race, proven": Racing,
    "information, boxes": lambda problem: InformationRacing(
        problem, test="box", sampling="uniform"
    ),
    "information, pairs": lambda problem: InformationRacing(problem, sampling="uniform"),
    "information": InformationRacing,
}
"""The rules of the tables; the last one is the default rule."""

_DELTA = 0.05

_NORMAL_95 = 1.96


@dataclass(frozen=True, eq=False)
class Runs:
    """Results of many races, one entry per run.

    Parameters
    ----------
    elapsed : ndarray of float
        Time until the end.
    decided, wrong : ndarray of bool
        Whether there was an answer, and whether it was wrong.
    pulls : ndarray of float
        Number of started pulls.
    """

    elapsed: Floats
    decided: NDArray[np.bool_]
    wrong: NDArray[np.bool_]
    pulls: Floats

    @classmethod
    def of(cls, runs: list[tuple[Run, Truth]]) -> Self:
        """Return the results of runs, each judged by its environment's truth."""
        decided = np.array([run.status == "decided" for run, _ in runs])
        right = np.array([truth.accepts(run.answer) for run, truth in runs])
        return cls(
            elapsed=np.array([run.elapsed for run, _ in runs]),
            decided=decided,
            wrong=decided & ~right,
            pulls=np.array([run.pulls.sum() for run, _ in runs], dtype=np.float64),
        )

    @property
    def number(self) -> int:
        """Number of runs."""
        return self.decided.size


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio of two mean times on the same noise, with its standard error.

    Examples
    --------
    >>> ratio = Ratio.of([1.0, 2.0, 3.0], [2.0, 4.0, 6.0])
    >>> ratio.mean, ratio.error
    (0.5, 0.0)
    """

    mean: float
    error: float

    @classmethod
    def of(cls, times: ArrayLike, baseline: ArrayLike) -> Self:
        """Return the ratio of the means of paired runs; its error by the delta method."""
        own, other = np.asarray(times, dtype=np.float64), np.asarray(baseline, dtype=np.float64)
        mean = float(own.mean() / other.mean())
        residual = float((own - mean * other).std(ddof=1))
        return cls(mean, residual / (math.sqrt(own.size) * float(other.mean())))

    @property
    def measured(self) -> Measured:
        """The ratio as a cell of a table."""
        return Measured(self.mean, self.error)

    @property
    def interval(self) -> tuple[float, float]:
        """The ends of the 95 % interval."""
        return self.mean - _NORMAL_95 * self.error, self.mean + _NORMAL_95 * self.error

    @property
    def text(self) -> str:
        """The ratio with its 95 % interval.

        Examples
        --------
        >>> Ratio(0.5, 0.01).text
        '0.50 [0.48, 0.52]'
        """
        low, high = self.interval
        return f"{self.mean:.2f} [{low:.2f}, {high:.2f}]"


class SimulationCache:
    """Run each race once, even if several tables and figures show it.

    Run i of every rule sees the same arms in the same order and, pull by pull, the same outcomes
    and readings, so that ratios compare like with like.

    Parameters
    ----------
    quick : bool
        Whether to use few replications and fewer points of the curves.
    seed : int
        Source of all randomness.
    share : float
        Fraction of the replications to run, for a first look.
    """

    def __init__(self, quick: bool, seed: int, share: float = 1.0) -> None:
        self.quick = quick
        self.seed = seed
        self.share = share
        self._made: dict[Hashable, Any] = {}

    def number(self, full: int, quick: int) -> int:
        """Return the number of replications to run, given the full and the quick number."""
        return max(4, round(self.share * (quick if self.quick else full)))

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the result of `make`, which is only called the first time."""
        if key not in self._made:
            self._made[key] = make()
        made: T = self._made[key]
        return made

    def race(self, race: Race, rule: str, parallel: int, runs: int) -> Runs:
        """Return `runs` races of a rule with at most `parallel` pulls in flight."""
        make = RULES[rule]

        def one(generator: np.random.Generator) -> tuple[Run, Truth]:
            environment = race.environment(generator.permutation(len(race.means)))
            return play(make(race.problem), environment, generator, parallel)

        return self.once((race, rule, parallel, runs), lambda: Runs.of(self.each(one, runs)))

    def race_by_public_code(self, race: Race, mode: int, parallel: int, runs: int) -> Runs:
        """Return `runs` races as the public code runs them, in one of its modes."""

        def one(generator: np.random.Generator) -> tuple[Run, Truth]:
            return _play_public_code(race, mode, parallel, generator)

        return self.once((race, mode, parallel, runs), lambda: Runs.of(self.each(one, runs)))

    def ratio(self, race: Race, rule: str, baseline: str, parallel: int, runs: int) -> Ratio:
        """Return the ratio of the mean times of two rules on the same noise."""
        own, other = (self.race(race, name, parallel, runs) for name in (rule, baseline))
        return Ratio.of(own.elapsed, other.elapsed)

    def simulate(
        self,
        policy: Policy,
        environment: Environment,
        runs: int,
        parallel: int = 1,
        horizon: int | None = None,
    ) -> Runs:
        """Return `runs` runs of a policy in one environment."""

        def one(generator: np.random.Generator) -> tuple[Run, Truth]:
            return play(policy.clone(), environment, generator, parallel, horizon)

        return Runs.of(self.each(one, runs))

    def each(
        self, one: Callable[[np.random.Generator], tuple[Run, Truth]], runs: int
    ) -> list[tuple[Run, Truth]]:
        """Call a function with every run's own generator; return the results in order."""
        generators = [np.random.default_rng([self.seed, run]) for run in range(runs)]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(one, generators))


def play(
    policy: Policy,
    environment: Environment,
    generator: np.random.Generator,
    parallel: int,
    horizon: int | None = None,
) -> tuple[Run, Truth]:
    """Return one run of a fresh policy, and the truth that judges it."""
    run = policy.compiled_run(environment, generator, horizon, parallel)
    assert run is not None
    return run, environment.truth


def _play_public_code(
    race: Race, mode: int, parallel: int, generator: np.random.Generator
) -> tuple[Run, Truth]:
    environment = race.environment(generator.permutation(len(race.means)))
    delay = environment.delay
    steps, pulls, chosen = public.run(
        environment.means,
        race.std,
        race.reading_std,
        delay,
        race.top,
        _DELTA,
        parallel,
        mode,
        generator,
    )
    answer = tuple(environment.problem.arms[arm] for arm in np.flatnonzero(chosen))
    started = pulls.astype(np.int64)
    return Run(answer, "decided", int(started.sum()), started, float(steps)), environment.truth


def most_wrong(runs: int, delta: float) -> float:
    """Return the number of wrong runs that a rule with error `delta` exceeds once in 700 times.

    Examples
    --------
    >>> round(most_wrong(2000, 0.05), 1)
    129.2
    """
    return runs * delta + 3.0 * math.sqrt(runs * delta * (1.0 - delta))
