"""Run the simulations, and map the names in the tables to policies."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from fairtrial.confidence import Threshold
from fairtrial.core import Policy, Run
from fairtrial.simulation import Simulation, simulate
from fairtrial.subpopulations import (
    BalancedTracking,
    BlockBetting,
    ExactTracking,
    PlainTrackAndStop,
    RoundRobin,
    TrackAndStop,
    UniformSampling,
)
from papers.baics.instances import Instance

__all__ = [
    "SimulationCache",
    "Stopping",
    "WatchedBlockBetting",
    "right_answers",
    "same_share",
    "tracker",
]

Stopping = str | Threshold

_TRACKERS: dict[str, Callable[..., Policy]] = {
    "balanced": BalancedTracking,
    "balanced, forced exploration": partial(BalancedTracking, exploration=0.5),
    "T-a-SCS": TrackAndStop,
    "track": ExactTracking,
    "T-a-S": PlainTrackAndStop,
    "uniform": UniformSampling,
    "round robin": RoundRobin,
}


def tracker(sampling: str, instance: Instance, delta: float, stopping: Stopping) -> Policy:
    """Return a one-draw-at-a-time policy by its sampling rule's name in the tables."""
    if sampling == "static w*":
        weights = instance.complexity().allocation
        return ExactTracking(instance.problem, delta, stopping, shares=weights)
    return _TRACKERS[sampling](instance.problem, delta=delta, stopping=stopping)


class WatchedBlockBetting(BlockBetting):
    """Block betting that reports after a simulated run whether the true answer was rejected.

    The proof bounds the probability of this event, which includes wrong answers. If there are
    several right answers, the first one is watched.
    """

    def _run(
        self, environment: Any, generator: np.random.Generator, horizon: int | None, parallel: int
    ) -> Run:
        """Return a complete run, with ``true_answer_rejected`` (0 or 1) among its metrics."""
        run = super()._run(environment, generator, horizon, parallel)
        best = environment.truth.best
        answers = self.progress().answers
        rejected = next(answer.rejected for answer in answers if answer.answer == best)
        return replace(run, metrics={**run.metrics, "true_answer_rejected": float(rejected)})


class SimulationCache:
    """Run each simulation once, even if several tables show it.

    Parameters
    ----------
    quick : bool
        Whether to use few replications.
    seed : int
        Source of all randomness: every simulation starts from it.
    most_runs : int, optional
        Maximum number of replications of a simulation.
    """

    def __init__(self, quick: bool, seed: int, most_runs: int | None = None) -> None:
        self.quick = quick
        self.seed = seed
        self.most_runs = most_runs
        self._made: dict[tuple[Instance, str, int, int | None], Simulation] = {}

    def simulate(
        self,
        instance: Instance,
        policy: Policy,
        runs: tuple[int, int],
        horizon: int | None = None,
    ) -> Simulation:
        """Return replications of a policy; `runs` are their numbers, full and quick."""
        number = min(runs[self.quick], self.most_runs or runs[self.quick])
        key = (instance, repr(policy), number, horizon)
        if key not in self._made:
            self._made[key] = simulate(
                policy, instance.environment, number, seed=self.seed, horizon=horizon, progress=True
            )
        return self._made[key]


# ---------------------------------------------------------------------------- comparisons


def right_answers(simulation: Simulation) -> int:
    """Return the number of runs that ended with a right answer."""
    assert simulation.correct is not None
    return int(simulation.correct.sum())


def same_share(ours: int, runs: int, reference: float, reference_runs: int) -> bool:
    """Return whether two shares differ by at most four pooled standard errors.

    Examples
    --------
    >>> same_share(310, 1000, 0.29, 1000), same_share(100, 1000, 0.29, 1000)
    (True, False)
    """
    pooled = (ours + reference * reference_runs) / (runs + reference_runs)
    variance = pooled * (1.0 - pooled) * (1.0 / runs + 1.0 / reference_runs)
    # The reference is printed to two or three digits.
    return abs(ours / runs - reference) <= 4.0 * math.sqrt(variance) + 0.005
