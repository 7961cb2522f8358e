"""Compile all kernels of this family by using each path once."""

from __future__ import annotations

import numpy as np

from fairtrial.confidence.drift_test import log_evidence_of_drift
from fairtrial.core.compiling import use_once
from fairtrial.delayed.environments import SimulatedEnvironment
from fairtrial.delayed.policies import ASHA, BlockBetting, InformationRacing
from fairtrial.delayed.problem import Problem

__all__ = ["compile_kernels"]


def compile_kernels() -> None:
    """Ask, report, tell and simulate once with one policy of each compiled path."""
    log_evidence_of_drift([0.0, 1.0])
    problem = Problem(2, noise_std=1.0, feedback="unbiased", reading_std=0.5)
    environment = SimulatedEnvironment(problem, [0.5, 0.4], delay=3.0)
    policy = InformationRacing(problem)
    pull = policy.ask()
    policy.report(pull, 0.5)
    policy.tell(pull, 0.4)
    generator = np.random.default_rng(0)
    environment.trajectory(pull, generator)
    policy.clone().compiled_run(environment, generator, 20)
    blocks = BlockBetting(Problem(2, reward_range=(0, 1)), initial_pulls=1)
    for value in (0.0, 1.0, 0.0, 1.0, 0.0, 1.0):
        blocks.tell(blocks.ask(), value)
    use_once(BlockBetting(problem), lambda _: 0.5)
    BlockBetting(problem).compiled_run(environment, generator, 20)
    rule = ASHA(problem)
    pull = rule.ask()
    rule.report(pull, 0.5)
    rule.to_cancel()
    rule.progress()
    rule.clone().compiled_run(environment, generator, 20)
