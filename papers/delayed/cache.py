"""Where races are run, each of them once, and what is read from them."""

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
"""The rules of the tables; the last one is the default."""

_DELTA = 0.05

_NORMAL_95 = 1.96


@dataclass(frozen=True, eq=False)
class Runs:
    """What many races came to, one entry per run.

    Parameters
    ----------
    elapsed : ndarray of float
        Time until the end.
    decided, wrong : ndarray of bool
        Whether there was an answer, and whether it was a wrong one.
    pulls : ndarray of float
        Pulls that were started.
    """

    elapsed: Floats
    decided: NDArray[np.bool_]
    wrong: NDArray[np.bool_]
    pulls: Floats

    @classmethod
    def of(cls, runs: list[tuple[Run, Truth]]) -> Self:
        """Return what these runs came to, each judged by its environment's truth."""
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
        """How many runs."""
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
        """As a cell of a table."""
        return Measured(self.mean, self.error)

    @property
    def interval(self) -> tuple[float, float]:
        """Ends of the 95 % interval."""
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
    """Runs races, each of them once, however many tables and figures show it.

    Run i of every rule sees the same arms in the same order and, pull by pull, the same
    outcomes and readings, so that ratios are of like with like.

    Parameters
    ----------
    quick : bool
        With few replications and fewer points of the curves.
    seed : int
        Source of all randomness.
    share : float
        Part of the replications to make, for a first look.
    """

    def __init__(self, quick: bool, seed: int, share: float = 1.0) -> None:
        self.quick = quick
        self.seed = seed
        self.share = share
        self._made: dict[Hashable, Any] = {}

    def number(self, full: int, quick: int) -> int:
        """Return how many replications to make of that many in full, and in quick."""
        return max(4, round(self.share * (quick if self.quick else full)))

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what `make` returns, made the first time that it is asked for."""
        if key not in self._made:
            self._made[key] = make()
        made: T = self._made[key]
        return made

    def race(self, race: Race, rule: str, parallel: int, runs: int) -> Runs:
        """Return that many races by a rule, with that many pulls in flight at most."""
        make = RULES[rule]

        def one(generator: np.random.Generator) -> tuple[Run, Truth]:
            environment = race.environment(generator.permutation(len(race.means)))
            return play(make(race.problem), environment, generator, parallel)

        return self.once((race, rule, parallel, runs), lambda: Runs.of(self.each(one, runs)))

    def race_by_public_code(self, race: Race, mode: int, parallel: int, runs: int) -> Runs:
        """Return that many races as the public code runs them, in one of its modes."""

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
        """Return that many runs of a policy in one environment."""

        def one(generator: np.random.Generator) -> tuple[Run, Truth]:
            return play(policy.clone(), environment, generator, parallel, horizon)

        return Runs.of(self.each(one, runs))

    def each(
        self, one: Callable[[np.random.Generator], tuple[Run, Truth]], runs: int
    ) -> list[tuple[Run, Truth]]:
        """Return what a function comes to for every run's own randomness, in their order."""
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
    """Return the number of wrong runs that a rule of error `delta` exceeds once in 700 times.

    Examples
    --------
    >>> round(most_wrong(2000, 0.05), 1)
    129.2
    """
    return runs * delta + 3.0 * math.sqrt(runs * delta * (1.0 - delta))
