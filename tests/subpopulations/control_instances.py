"""The hardest questions with limits against a control."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fairtrial.subpopulations import (
    BernoulliEnvironment,
    BlockBetting,
    GaussianEnvironment,
    Problem,
)
from tests.block_betting import share_ruling_out

TINY = 1e-6
HARD: dict[str, tuple[list[list[float]], Mapping[str, Any], str | None]] = {
    "on both margins, control infeasible": (
        [[0.5 - TINY, 0.9], [0.4 - TINY, 0.8], [0.3, 0.95]],
        {"margin": 0.1, "floors": [[0.5, 0.5], [None, None], [None, None]]},
        "1",
    ),
    "best arm on its margin": ([[0.5, 0.5], [0.4, 0.9], [0.5, 0.6]], {"margin": 0.1}, "1"),
    "better arm short by little": (
        [[0.5, 0.5], [0.4 - TINY, 0.9], [0.55, 0.55]],
        {"margin": 0.1},
        "2",
    ),
    "every rival short of the control": (
        [[0.5, 0.5], *[[0.4 - TINY, 0.9]] * 2, *[[0.9, 0.4 - TINY]] * 2],
        {"margin": 0.1},
        "0",
    ),
    "two best arms tie on their margins": (
        [[0.5, 0.5], [0.4, 0.8], [0.8, 0.4]],
        {"margin": 0.1},
        "1",
    ),
    "better by exactly enough": ([[0.5, 0.5], [0.6, 0.6], [0.5, 0.4]], {"superiority": 0.1}, "1"),
    "better by not quite enough": (
        [[0.5, 0.5], [0.6 - TINY, 0.6], [0.6, 0.6 - TINY]],
        {"superiority": 0.1},
        "0",
    ),
    "none, each in its own way": (
        [[0.5 - TINY, 0.7], [0.9, 0.6 - TINY], [0.5 - TINY, 0.9]],
        {"margin": 0.1, "floors": 0.5},
        None,
    ),
}
"""Means (the control's first), the question, and a right answer."""


BEYOND: dict[str, tuple[list[list[float]], Mapping[str, Any]]] = {
    "best arm misses its margin by more": (
        [[0.5, 0.5], [0.3 - TINY, 0.95], [0.5, 0.6]],
        {"margin": 0.1, "tolerance": 0.1, "floor_tolerance": 0.1},
    ),
    "control worse than the best by more": (
        [[0.5, 0.5], [0.6 + TINY, 0.6 + TINY]],
        {"margin": 0.1, "tolerance": 0.1, "floor_tolerance": 0.05},
    ),
    "arm better by less than is forgiven": (
        [[0.5, 0.5], [0.55 - TINY, 0.55 - TINY]],
        {"superiority": 0.1, "tolerance": 0.1, "floor_tolerance": 0.05},
    ),
    "no arm, though one keeps all with something to spare": (
        [[0.3, 0.3], [0.45 + TINY, 0.45 + TINY], [0.9, 0.2]],
        {"margin": 0.1, "floors": 0.4, "tolerance": 0.05, "floor_tolerance": 0.05},
    ),
}
"""Means (the control's first), and the question with a tolerance: some answer is just wrong."""


def share_wrong(name: str, runs: int, *, known_noise: bool, horizon: int = 2_000) -> float:
    """Return the share of runs whose answer is wrong by a millionth."""
    means, asked = BEYOND[name]
    noise = {"noise_std": 0.5} if known_noise else {"reward_range": (0, 1)}
    problem = Problem(len(means), 2, control="0", **noise, **asked)
    environment = (GaussianEnvironment if known_noise else BernoulliEnvironment)(problem, means)
    wrong = 0
    for seed in range(runs):
        policy = BlockBetting(problem, delta=0.1, seed=seed)
        policy.compiled_run(environment, np.random.default_rng([8, seed]), horizon, 1)
        found = policy.recommend()
        wrong += found.decided and found.arm not in environment.truth.acceptable
    return wrong / runs


def share_rejected(name: str, runs: int, *, known_noise: bool, horizon: int = 2_000) -> float:
    """Return the share of runs that ever rule out a right answer of a hard question."""
    means, asked, answer = HARD[name]
    noise = {"noise_std": 0.5} if known_noise else {"reward_range": (0, 1)}
    problem = Problem(len(means), 2, control="0", **noise, **asked)
    environment = (GaussianEnvironment if known_noise else BernoulliEnvironment)(problem, means)
    return share_ruling_out(answer, BlockBetting, environment, runs, horizon)
