"""Run each simulation once, and compute statistics from them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fairtrial.allocation import BernoulliEnvironment, Problem
from fairtrial.core import Policy
from fairtrial.simulation import Simulation, simulate
from papers.fair_mab.instances import Instance
from papers.report import Measured

__all__ = ["Floats", "SimulationCache", "agrees", "behind", "half_width"]

Floats = NDArray[np.float64]


class SimulationCache:
    """Run each simulation once, even if several tables and figures show it.

    Parameters
    ----------
    quick : bool
        Whether to use few replications, and short horizons where these are enough.
    seed : int
        Source of all randomness: every simulation starts from it.
    """

    def __init__(self, quick: bool, seed: int) -> None:
        self.quick = quick
        self.seed = seed
        self._made: dict[tuple[str, str, int, int], Simulation] = {}

    def simulate(
        self,
        policy: Policy,
        environment: BernoulliEnvironment,
        runs: tuple[int, int],
        horizon: int,
    ) -> Simulation:
        """Return replications of a policy; `runs` are their numbers, full and quick."""
        number = runs[self.quick]
        key = (repr(policy), repr(environment), number, horizon)
        if key not in self._made:
            self._made[key] = simulate(
                policy, environment, number, seed=self.seed, horizon=horizon, progress=False
            )
        return self._made[key]

    def curve(
        self,
        policy: Policy,
        instance: Instance,
        runs: tuple[int, int],
        horizons: Sequence[int],
    ) -> list[Simulation]:
        """Return simulations of growing length; each one continues the runs of the one before."""
        return [
            self.simulate(policy, instance.environment(), runs, horizon) for horizon in horizons
        ]


def behind(simulation: Simulation) -> Floats:
    """Return by run the largest number of pulls by which an arm is behind its share at the end."""
    assert isinstance(simulation.problem, Problem)
    shares = np.array([float(share) for share in simulation.problem.shares])
    lacking = (shares * simulation.horizon - simulation.pulls).max(axis=1)
    return np.asarray(lacking, dtype=np.float64)


def half_width(mean: float, width: float) -> Measured:
    """Return a reference's mean and standard error, from the half-width of a 95 % interval."""
    return Measured(mean, width / 1.96)


def agrees(ours: Floats, reference: Measured, reference_runs: int) -> bool:
    """Return whether our mean and the reference's differ by at most four standard errors.

    A few runs estimate their own spread badly; then the reference's spread is used.

    Examples
    --------
    >>> agrees(np.array([1.0, 1.2]), Measured(1.3, 0.1), 50)
    True
    """
    own = Measured.of(ours)
    expected = (reference.error or 0.0) * math.sqrt(reference_runs / ours.size)
    spread = max(own.error or 0.0, expected)
    return Measured(own.mean, spread).agrees_with(reference)
