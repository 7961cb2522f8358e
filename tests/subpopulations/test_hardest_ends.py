"""The hardest questions for the bets of a planned end: aimed stakes, and bets for normal noise."""

import math

import numpy as np
import pytest

from fairtrial.subpopulations import BlockBetting, GaussianEnvironment, Problem
from tests import effort

DELTA = 0.1

EDGE = 1e-6
KNOWN = {"floors": None, "noise_std": 1.0}
MARGIN = {**KNOWN, "control": "0", "margin": 0.25}

HARDEST = {
    "two arms tied": (Problem(2, 1, **KNOWN), [[0.0], [0.0]], 0),
    "answer on its margin": (Problem(2, 2, **MARGIN), [[0.0, 0.0], [-0.25, 0.8]], 1),
    "rival beyond its margin": (Problem(2, 2, **MARGIN), [[0.0, 0.0], [-0.25 - EDGE, 0.8]], 0),
    "answer on a floor": (Problem(2, 2, floors=0.0, noise_std=1.0), [[0.0, 0.5], [0.1, 0.1]], 0),
    "rival below a floor": (
        Problem(2, 2, floors=0.0, noise_std=1.0), [[-EDGE, 0.5], [0.1, 0.1]], 1,
    ),
    "all below a floor": (
        Problem(2, 1, floors=0.0, noise_std=1.0), [[-EDGE], [-EDGE]], 2,
    ),
    "beyond the tolerance": (
        Problem(2, 1, **KNOWN, tolerance=0.2), [[0.2 + EDGE], [0.0]], 0,
    ),
}  # fmt: skip
"""Problem, means, and the right answer."""


def is_wrong(policy: BlockBetting, truth: int) -> bool:
    """Return whether the right answer was ever rejected, or another was given."""
    state = policy._blocks.state
    return bool(state.book.rejected[truth] or (state.finished[0] and state.answer[0] != truth))


@pytest.mark.statistical
@pytest.mark.parametrize("noise", ["sub-Gaussian", "normal"])
@pytest.mark.parametrize("name", HARDEST)
def test_the_hardest_questions_are_seldom_answered_wrongly(name: str, noise: str) -> None:
    problem, means, truth = HARDEST[name]
    runs, most = effort.runs(3, whole=2_000), effort.runs(150, whole=1_000)
    environment, wrong = GaussianEnvironment(problem, means), 0
    for seed in range(runs):
        options = {"noise": noise, "block_draws": True, "seed": 0}
        policy = BlockBetting(problem, DELTA, max_pulls=most, planned_end=True, **options)
        policy.compiled_run(environment, np.random.default_rng([12, seed]), None)
        wrong += is_wrong(policy, truth)
    assert wrong / runs <= DELTA + 3 * math.sqrt(DELTA / runs)
