"""Pulls to the stop with a tolerance: block betting against tracking with its certified stop."""

from __future__ import annotations

import numpy as np

from fairtrial import simulate
from fairtrial.core import Policy
from fairtrial.subpopulations import BalancedTracking, BlockBetting, GaussianEnvironment, Problem

DELTA = 0.05
MOST_PULLS = 200_000
E1 = ([[0.2, 0.6, 0.8], [0.4, 0.4, 0.3], [-0.2, 1.0, 1.5]], [0.2, 0.3, 0.5])

CASES: dict[str, tuple[list[list[float]], list[float], float, float]] = {
    "E1": (*E1, 0.1, 0.1),
    "three equal arms": ([[0.5, 0.5]] * 3, [0.5, 0.5], 0.3, 0.2),
    "best arm on its floor": ([[0.0, 1.0], [0.2, 0.3]], [0.5, 0.5], 0.2, 0.2),
    "no arm, by little": ([[-0.1, 0.5], [0.5, -0.1]], [0.5, 0.5], 0.2, 0.3),
}


def run(*, quick: bool) -> None:
    """Print pulls and wrong answers of both rules on questions with and without ties."""
    runs = 4 if quick else 200
    print(f"\npulls at delta {DELTA}, {runs} runs: mean (standard error), wrong answers")
    for name, (means, weights, tolerance, floor_tolerance) in CASES.items():
        problem = Problem(
            len(means),
            len(weights),
            weights,
            0.0,
            1.0,
            tolerance=tolerance,
            floor_tolerance=floor_tolerance,
        )
        environment = GaussianEnvironment(problem, means)
        policies: tuple[Policy, ...] = (
            BlockBetting(problem, delta=DELTA),
            BalancedTracking(problem, delta=DELTA),
        )
        for policy in policies:
            found = simulate(policy, environment, runs, seed=1, horizon=MOST_PULLS, progress=False)
            times = found.stopping_time
            error = times.std() / np.sqrt(runs)
            wrong = f"{found.error_rate:.1%} wrong, {found.undecided_rate:.0%} undecided"
            label = type(policy).__name__
            print(f"{name:>24}{label:>20}{times.mean():>10,.0f} ({error:.0f})  {wrong}", flush=True)
