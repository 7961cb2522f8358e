"""Compile all kernels of this family by using each path once."""

from __future__ import annotations

import numpy as np

from fairtrial.causal.environments import chain
from fairtrial.causal.policies.block_betting import BlockBetting
from fairtrial.confidence.drift_test import log_evidence_of_drift
from fairtrial.core.compiling import use_once

__all__ = ["compile_kernels"]


def compile_kernels() -> None:
    """Run and simulate block betting once."""
    log_evidence_of_drift([0.0, 1.0])
    arms = {"a": [[0.5, 0.5], [0.4, 0.6]], "b": [[0.2, 0.8], [0.1, 0.9]]}
    problem, environment = chain(0.4, arms, [0.1, 0.9], 0.2)
    policy = BlockBetting(problem, seed=0)
    generator = np.random.default_rng(0)
    use_once(policy, lambda pull: environment.sample(pull, generator))
    policy.clone().compiled_run(environment, generator, 50)
