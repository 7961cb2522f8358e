"""Pulls until the stop with a tolerance: block betting, and tracking with its certified stop.

Then the error rate of block betting if answers are a millionth beyond the tolerance.
"""

from __future__ import annotations

import numpy as np

from fairtrial import simulate
from fairtrial.core import Policy
from fairtrial.subpopulations import (
    BalancedTracking,
    BernoulliEnvironment,
    BlockBetting,
    GaussianEnvironment,
    Problem,
)

DELTA = 0.05
MOST_PULLS = 200_000
E1 = ([[0.2, 0.6, 0.8], [0.4, 0.4, 0.3], [-0.2, 1.0, 1.5]], [0.2, 0.3, 0.5])

CASES: dict[str, tuple[list[list[float]], list[float], float, float]] = {
    "E1": (*E1, 0.1, 0.1),
    "three equal arms": ([[0.5, 0.5]] * 3, [0.5, 0.5], 0.3, 0.2),
    "best arm on its floor": ([[0.0, 1.0], [0.2, 0.3]], [0.5, 0.5], 0.2, 0.2),
    "no arm, by little": ([[-0.1, 0.5], [0.5, -0.1]], [0.5, 0.5], 0.2, 0.3),
}

TINY = 1e-6
BEYOND: dict[str, tuple[list[list[float]], float | None, float, float]] = {
    "second worse by too much": ([[0.5], [0.3 - TINY]], None, 0.2, 0.0),
    "five worse by too much": ([[0.6], *[[0.5 - TINY]] * 5], None, 0.1, 0.0),
    "better arm infeasible by too much": ([[0.8, 0.2 - TINY], [0.5, 0.5]], 0.3, 0.05, 0.1),
    "an arm is feasible by all it needs": ([[0.4, 0.4], [0.1, 0.5]], 0.3, 0.05, 0.1),
    "both wrong in their own way": (
        [[0.5, 0.5], [0.9, 0.2 - TINY], [0.4, 0.4 - TINY]],
        *(0.3, 0.1, 0.1),
    ),
}
"""Means, floor, tolerance and floor_tolerance."""


def run(*, quick: bool) -> None:
    """Print pulls and wrong answers on problems with and without ties, and on hard ones."""
    _compare(quick=quick)
    runs = 20 if quick else 2_000
    print(f"\nwrong answers of block betting at delta .1, {runs} runs of at most 1,000 pulls")
    for name, case in BEYOND.items():
        for kind in ("normal", "0 or 1"):
            print(f"{name:>36}{kind:>8}{_share_wrong(case, kind, runs):>9.2%}", flush=True)


def _share_wrong(
    case: tuple[list[list[float]], float | None, float, float], kind: str, runs: int
) -> float:
    means, floors, tolerance, floor_tolerance = case
    is_normal = kind == "normal"
    problem = Problem(
        len(means),
        len(means[0]),
        floors=floors,
        noise_std=0.5 if is_normal else None,
        reward_range=None if is_normal else (0, 1),
        tolerance=tolerance,
        floor_tolerance=floor_tolerance,
    )
    make = GaussianEnvironment if is_normal else BernoulliEnvironment
    policy = BlockBetting(problem, delta=0.1)
    found = simulate(policy, make(problem, means), runs, seed=9, horizon=1_000, progress=False)
    return float(found.error_rate)


def _compare(*, quick: bool) -> None:
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
