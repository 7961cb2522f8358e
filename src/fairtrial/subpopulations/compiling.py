"""Compile every kernel of this family by using each path once."""

from __future__ import annotations

import numpy as np

from fairtrial.confidence.drift_test import log_evidence_of_drift
from fairtrial.core.compiling import use_once
from fairtrial.subpopulations.environments import BernoulliEnvironment, GaussianEnvironment
from fairtrial.subpopulations.planning import complexity
from fairtrial.subpopulations.policies import BalancedTracking, BlockBetting
from fairtrial.subpopulations.problem import Problem

__all__ = ["compile_kernels"]


def compile_kernels() -> None:
    """Use and simulate one policy of each compiled path."""
    log_evidence_of_drift([0.0, 1.0])
    means = [[0.5, 0.4], [0.2, 0.3]]
    known = Problem(2, 2, noise_std=1.0)
    environment = GaussianEnvironment(known, means)
    for cls in (BlockBetting, BalancedTracking):
        use_once(cls(known, seed=0), lambda _: 0.5)
        cls(known, seed=0).compiled_run(environment, np.random.default_rng(0), 50)
    complexity(environment)
    _compile_measures()


def _compile_measures() -> None:
    """Use and simulate a policy whose pulls give several measures."""
    problem = Problem(2, 1, measures={"y": (0, 1), "z": (0, 1)}, objective="y", ceilings={"z": 0.5})
    environment = BernoulliEnvironment(problem, [[[0.6, 0.2]], [[0.4, 0.2]]], correlation=0.0)
    use_once(BlockBetting(problem, seed=0), lambda _: {"y": 1.0, "z": 0.0})
    run = BlockBetting(problem, seed=0)
    run.compiled_run(environment, np.random.default_rng(0), 50)
    complexity(environment)
