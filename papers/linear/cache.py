"""Run the simulations, and map the names in the tables to rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from fairtrial.core import Policy
from fairtrial.linear import (
    BlockBetting,
    FrankWolfeSampling,
    GAllocation,
    LazyTrackAndStop,
    LinGame,
    LinGapE,
    Problem,
    Rage,
    XYAdaptive,
    XYAllocation,
    XYOracle,
)
from fairtrial.simulation import Simulation, simulate
from papers.linear.instances import COMMON, Floats, Instance
from papers.report import Measured

__all__ = [
    "BLOCK_BETTING",
    "DELTA",
    "SimulationCache",
    "WatchedBlockBetting",
    "difference",
    "policy",
]

DELTA = 0.05
"""The paper's error probability."""

BLOCK_BETTING = "BlockBetting"
"""The recommended rule."""

_RULES: dict[str, Callable[..., Policy]] = {
    BLOCK_BETTING: BlockBetting,
    "LinGapE": LinGapE,
    "FrankWolfeSampling": FrankWolfeSampling,
    "LazyTrackAndStop": LazyTrackAndStop,
    "LinGame": LinGame,
    "Rage": Rage,
    "XYAdaptive": XYAdaptive,
    "XYAllocation": partial(XYAllocation, stopping="mixture"),
    "GAllocation": partial(GAllocation, stopping="mixture"),
}

_LOOKS: dict[str, Callable[..., Policy]] = {
    "XY-oracle": XYOracle,
    "XY": XYAllocation,
    "G": GAllocation,
}
"""The paper's static rules, as they are used best: the sums of many pulls drawn at once."""


def policy(name: str, instance: Instance, delta: float = DELTA) -> Policy:
    """Return a rule by its name in the tables."""
    if name in _LOOKS:
        more = {"theta": instance.theta} if name == "XY-oracle" else {}
        return _LOOKS[name](instance.problem, delta=delta, block_draws=True, **more)
    if name == "XYOracle":
        return XYOracle(instance.problem, theta=instance.theta, delta=delta, stopping="mixture")
    return _RULES[name](instance.problem, delta=delta)


class WatchedBlockBetting(BlockBetting):
    """Block betting that reports after a simulated run whether an answer was rejected.

    The proof bounds the probability of this event for the true answer; it includes wrong answers.

    Parameters
    ----------
    problem : Problem
        The problem.
    watched : str
        Label of the answer to watch.
    delta : float
        Accepted probability of a wrong answer.
    seed : None, int or numpy.random.Generator
        Ignored; the policy is deterministic.
    """

    def __init__(
        self,
        problem: Problem,
        watched: str,
        delta: float = DELTA,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(problem, delta=delta, seed=seed)
        self.watched = watched

    def metrics(self) -> dict[str, float]:
        """Return ``watched_rejected``: 1 if the answer is rejected, otherwise 0."""
        answers = self.progress().answers
        rejected = next(one.rejected for one in answers if one.answer == self.watched)
        return {**super().metrics(), "watched_rejected": float(rejected)}


class SimulationCache:
    """Run each simulation once, even if several tables and figures show it.

    Parameters
    ----------
    quick : bool
        Whether to use few replications.
    seed : int
        Source of all randomness: every simulation starts from it.
    most_runs : int, optional
        Maximum number of replications of a simulation.
    environments : sequence of Instance
        Environments in which all rules are compared.
    """

    def __init__(
        self,
        quick: bool,
        seed: int,
        most_runs: int | None = None,
        environments: Sequence[Instance] = COMMON,
    ) -> None:
        self.quick = quick
        self.seed = seed
        self.most_runs = most_runs
        self.environments = environments
        self._made: dict[tuple[Instance, str, int, int | None], Simulation] = {}

    def simulate(
        self,
        instance: Instance,
        rule: Policy,
        runs: tuple[int, int],
        horizon: int | None = None,
    ) -> Simulation:
        """Return replications of a policy; `runs` are their numbers, full and quick."""
        number = min(runs[self.quick], self.most_runs or runs[self.quick])
        key = (instance, repr(rule), number, horizon)
        if key not in self._made:
            self._made[key] = simulate(
                rule,
                instance.environment,
                number,
                seed=self.seed,
                horizon=horizon,
                progress=True,
                lower_bound=self._bound(instance, rule),
            )
        return self._made[key]

    @staticmethod
    def _bound(instance: Instance, rule: Policy) -> float | None:
        delta = float(getattr(rule, "delta", DELTA))
        return instance.complexity.lower_bound(delta) or None


# ---------------------------------------------------------------------------- comparisons


def difference(ours: Floats, reference: Measured, reference_runs: int) -> float:
    """Return the difference of our mean to the reference's, in standard errors.

    A few runs estimate their own spread badly; then the reference's spread is used.

    Examples
    --------
    >>> difference(np.array([2.2, 2.2]), Measured(1.0, 0.3), 30)
    1.0
    """
    error = reference.error or 0.0
    own = max(Measured.of(ours).error or 0.0, error * math.sqrt(reference_runs / ours.size))
    return round(abs(float(ours.mean()) - reference.mean) / math.hypot(own, error), 9)
