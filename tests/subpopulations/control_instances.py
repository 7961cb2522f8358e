"""Questions that are as hard as can be, with limits against a control."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from fairtrial.subpopulations import (
    BernoulliEnvironment,
    BlockBetting,
    GaussianEnvironment,
    Problem,
)

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
"""Means (the control's first), what is asked, and a right answer."""


def share_rejected(name: str, runs: int, *, known_noise: bool, horizon: int = 2_000) -> float:
    """Return the share of runs that ever rule out a right answer of a hard question."""
    means, asked, answer = HARD[name]
    noise = {"noise_std": 0.5} if known_noise else {"reward_range": (0, 1)}
    problem = Problem(len(means), 2, control="0", **noise, **asked)
    environment = (GaussianEnvironment if known_noise else BernoulliEnvironment)(problem, means)
    assert answer in environment.truth.acceptable

    def is_ruled_out(seed: int) -> bool:
        policy = BlockBetting(problem, delta=0.1, seed=seed)
        policy.compiled_run(environment, np.random.default_rng([9, seed]), horizon, 1)
        return answer not in (policy.recommend().candidates or ())

    with ThreadPoolExecutor(2) as pool:
        return sum(pool.map(is_ruled_out, range(runs))) / runs
