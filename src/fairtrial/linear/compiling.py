"""Compile every kernel of this family by using each path once."""

from __future__ import annotations

import numpy as np

from fairtrial.confidence.drift_test import log_evidence_of_drift
from fairtrial.core.compiling import use_once
from fairtrial.linear.designs import xy_optimal_design
from fairtrial.linear.environments import GaussianEnvironment
from fairtrial.linear.planning import complexity
from fairtrial.linear.policies import BlockBetting, LinGame, LinGapE, Rage
from fairtrial.linear.problem import Problem

__all__ = ["compile_kernels"]


def compile_kernels() -> None:
    """Plan, ask, tell and simulate with one policy of each compiled path."""
    log_evidence_of_drift([0.0, 1.0])
    features = [[1, 0], [0, 1], [0.7, 0.7]]
    problem = Problem(features, noise_std=1.0)
    environment = GaussianEnvironment(problem, [1.0, 0.2])
    complexity(environment)
    xy_optimal_design(problem)
    generator = np.random.default_rng(0)
    for cls in (BlockBetting, LinGapE, LinGame, Rage):
        policy = cls(problem, seed=0)
        pull = policy.ask()
        policy.tell(pull, 0.5)
        policy.fail(policy.ask())
        policy.progress()
        cls(problem, seed=0).compiled_run(environment, generator, 50)
    use_once(BlockBetting(problem, seed=0), lambda _: 0.5)
    limited = Problem(features, noise_std=1.0, floors=0.1)
    BlockBetting(limited, seed=0).compiled_run(
        GaussianEnvironment(limited, [1.0, 0.2]), generator, 50
    )
