"""Compile all kernels of this family by using each path once."""

from __future__ import annotations

import numpy as np

from fairtrial.allocation.environments import (
    BernoulliEnvironment,
    ContextualEnvironment,
    SleepingEnvironment,
)
from fairtrial.allocation.policies import FairLearn
from fairtrial.allocation.problem import Problem
from fairtrial.core.compiling import use_once

__all__ = ["compile_kernels"]


def compile_kernels() -> None:
    """Decide, learn, fail and simulate once with both kinds of learners."""
    problem = Problem(2, 0.25)
    FairLearn(problem, lambda *_: 0).ask()
    policy = FairLearn(problem, seed=0)
    pulls = policy.ask(2)
    policy.tell(pulls[0], 0.5)
    policy.fail(pulls[1])
    use_once(FairLearn(problem, seed=0), lambda _: 0.5)
    for environment in (
        BernoulliEnvironment(problem, [0.5, 0.4]),
        SleepingEnvironment(problem, [0.5, 0.4], 0.5),
        ContextualEnvironment(problem, [[0.5, 0.4], [0.4, 0.5]]),
    ):
        generator = np.random.default_rng(0)
        environment.sample(policy.ask(**environment.context(generator)), generator)
        policy.clone().compiled_run(environment, generator, 20)
