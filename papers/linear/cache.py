"""Where the simulations are made, and the rules by the names that the tables use."""

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
"""The paper's."""

BLOCK_BETTING = "BlockBetting"
"""The rule that is recommended here."""

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
    """Return a rule by the name that the tables give it."""
    if name in _LOOKS:
        more = {"theta": instance.theta} if name == "XY-oracle" else {}
        return _LOOKS[name](instance.problem, delta=delta, block_draws=True, **more)
    if name == "XYOracle":
        return XYOracle(instance.problem, theta=instance.theta, delta=delta, stopping="mixture")
    return _RULES[name](instance.problem, delta=delta)


class WatchedBlockBetting(BlockBetting):
    """Block betting that tells, after a simulated run, whether an answer was rejected.

    Of the true answer this is the event whose probability the proof bounds; a wrong stop is
    part of it.

    Parameters
    ----------
    problem : Problem
        The problem.
    watched : str
        Label of the answer.
    delta : float
        Probability of a wrong answer that is accepted.
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
        """Return ``watched_rejected``: 1 if the answer is rejected, else 0."""
        answers = self.progress().details["answers"]
        rejected = next(row["rejected"] for row in answers if row["answer"] == self.watched)
        return {**super().metrics(), "watched_rejected": float(rejected)}


class SimulationCache:
    """Makes simulations, each of them once, however many tables and figures show it.

    Parameters
    ----------
    quick : bool
        With few replications.
    seed : int
        Source of all randomness: every simulation starts from it.
    most_runs : int, optional
        Most replications of a simulation.
    environments : sequence of Instance
        Where all rules are compared.
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
        """Return replications of a policy; `runs` are their numbers, in full and quick."""
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
    """Return by how many standard errors of the difference our mean is off the reference's.

    Few runs tell their own spread badly: then the reference's tells it.

    Examples
    --------
    >>> difference(np.array([2.2, 2.2]), Measured(1.0, 0.3), 30)
    1.0
    """
    error = reference.error or 0.0
    own = max(Measured.of(ours).error or 0.0, error * math.sqrt(reference_runs / ours.size))
    return round(abs(float(ours.mean()) - reference.mean) / math.hypot(own, error), 9)
