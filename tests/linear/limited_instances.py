"""The hardest questions with limits on linear arms."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fairtrial.linear import BernoulliEnvironment, BlockBetting, GaussianEnvironment, Problem
from tests.block_betting import share_ruling_out

TINY = 1e-6

TRIED = [[1.0, dose, heat, dose * heat] for dose in (0.0, 0.5, 1.0) for heat in (0.0, 1.0)]
WARM = [[1.0, dose, 1.0, dose] for dose in (0.0, 0.5, 1.0)]
COLD = [[1.0, dose, 0.0, 0.0] for dose in (0.0, 0.5, 1.0)]
RISING, CROSSED = [0.3, 0.2, 0.1, 0.0], [0.5, -0.1, 0.0, 0.3]
"""Warm and cold means by dose: .4 .5 .6 and .3 .4 .5; .5 .6 .7 and .5 .45 .4."""

DOSES = {"features": TRIED, "candidates": WARM, "answers": ["none", "half", "full"]}
PLAIN = {"features": np.eye(3), "answers": ["0", "1", "2"]}


def cold(**bounds: Any) -> dict[str, Any]:
    """Return a limit on the prediction for the cold."""
    return {"limits": {"cold": {"features": COLD, **bounds}}}


HARD: dict[str, tuple[Mapping[str, Any], list[float], str | None]] = {
    "answer on a limit": (DOSES | cold(floors={"full": 0.5}), RISING, "full"),
    "better arm short by little": (DOSES | cold(floors={"full": 0.5 + TINY}), RISING, "half"),
    "answer on two limits": (
        DOSES | cold(floors={"full": 0.5}) | {"ceilings": {"full": 0.6}},
        RISING,
        "full",
    ),
    "answer on its margin, control in all": (
        DOSES | cold(margin=0.1) | {"control": "none", "floors": {"none": 0.5 + TINY}},
        CROSSED,
        "full",
    ),
    "better arm just beyond its margin": (
        DOSES | cold(margin=0.1 - TINY) | {"control": "none"},
        CROSSED,
        "half",
    ),
    "better by exactly enough": (DOSES | {"control": "none", "superiority": 0.2}, CROSSED, "full"),
    "better by not quite enough": (
        DOSES | {"control": "none", "superiority": 0.2 + TINY},
        CROSSED,
        "none",
    ),
    "two best tie on their limits": (PLAIN | {"floors": [0.5, 0.5, None]}, [0.5, 0.5, 0.3], "0"),
    "one of two equal rows is short": (
        {"features": [[1, 0], [1, 1], [1, 1]], "floors": [None, 0.6 + TINY, None]},
        [0.4, 0.2],
        "2",
    ),
    "none, each in its own way": (
        DOSES
        | cold(floors={"half": 0.45 + TINY})
        | {"floors": {"none": 0.5 + TINY}, "ceilings": {"full": 0.7 - TINY}},
        CROSSED,
        None,
    ),
    "none, all short by little": (PLAIN | {"floors": 0.5 + TINY}, [0.5, 0.5, 0.5], None),
}
"""The question, the true parameter, and a right answer."""


def share_rejected(name: str, runs: int, *, known_noise: bool, horizon: int = 2_000) -> float:
    """Return the share of runs that ever rule out a right answer of a hard question."""
    asked, theta, answer = HARD[name]
    noise: dict[str, Any] = {"noise_std": 0.5} if known_noise else {"reward_range": (0, 1)}
    problem = Problem(**asked, **noise)
    environment = (GaussianEnvironment if known_noise else BernoulliEnvironment)(problem, theta)
    return share_ruling_out(answer, BlockBetting, environment, runs, horizon)
