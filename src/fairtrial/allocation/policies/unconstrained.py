"""A learner without quotas, as a baseline."""

from __future__ import annotations

import numpy as np

from fairtrial.allocation.learners import Learner, PullFunction
from fairtrial.allocation.policies.base import AllocationPolicy, refuse_plays
from fairtrial.allocation.problem import Problem

__all__ = ["UnconstrainedLearner"]


class UnconstrainedLearner(AllocationPolicy):
    """A learner that ignores the quotas, as a baseline for the other policies.

    Parameters
    ----------
    problem : Problem
        Its shares are only used to measure violations.
    learner : Learner or function, optional
        `Thompson` by default.
    seed : None, int or numpy.random.Generator
        Source of the learner's randomness.

    Examples
    --------
    >>> policy = UnconstrainedLearner(Problem(2, "1/4"), lambda t, counts, sums, allowed: 0)
    >>> _ = policy.ask(8)
    >>> policy.metrics()["floored_violation"]
    2.0
    """

    version = 2

    def __init__(
        self,
        problem: Problem,
        learner: Learner | PullFunction | None = None,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        self.learner = learner
        refuse_plays(problem)
        super().__init__(problem, learner, seed)
