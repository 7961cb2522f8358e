"""Policies that keep every arm's share at every moment, and what they are compared with."""

from fairtrial.allocation.policies.bare import BareLearner
from fairtrial.allocation.policies.fair_learn import FairLearn, FairUCB
from fairtrial.allocation.policies.horizon import HorizonFairUCB
from fairtrial.allocation.policies.queues import LearningWithFairness, ThompsonWithFairness

__all__ = [
    "BareLearner",
    "FairLearn",
    "FairUCB",
    "HorizonFairUCB",
    "LearningWithFairness",
    "ThompsonWithFairness",
]
