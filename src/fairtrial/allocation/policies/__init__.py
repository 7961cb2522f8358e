"""Policies that keep every arm's share at every moment, and baselines to compare with."""

from fairtrial.allocation.policies.fair_learn import FairLearn, FairUCB
from fairtrial.allocation.policies.horizon import HorizonFairUCB
from fairtrial.allocation.policies.queues import LearningWithFairness, ThompsonWithFairness
from fairtrial.allocation.policies.unconstrained import UnconstrainedLearner

__all__ = [
    "FairLearn",
    "FairUCB",
    "HorizonFairUCB",
    "LearningWithFairness",
    "ThompsonWithFairness",
    "UnconstrainedLearner",
]
