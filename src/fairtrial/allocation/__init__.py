"""Maximise rewards while every arm is guaranteed its share of the pulls at every moment."""

from typing import TYPE_CHECKING

from fairtrial.allocation.covering import cover_groups
from fairtrial.allocation.fair_schedules import fair_value
from fairtrial.allocation.learners import (
    KLUCB,
    UCB1,
    EpsilonGreedy,
    Greedy,
    Learner,
    Random,
    RoundRobin,
    SlidingWindowUCB,
    Thompson,
)
from fairtrial.allocation.problem import Problem, round_shares
from fairtrial.core.lazy import lazy_names

if TYPE_CHECKING:
    from fairtrial.allocation.environments import (
        BernoulliEnvironment,
        BetaEnvironment,
        ContextualEnvironment,
        DriftingEnvironment,
        ReplayEnvironment,
        SleepingEnvironment,
    )
    from fairtrial.allocation.local import LocalAllocator, OverallShares
    from fairtrial.allocation.planning import Complexity, complexity
    from fairtrial.allocation.policies import (
        FairLearn,
        FairUCB,
        HorizonFairUCB,
        LearningWithFairness,
        ThompsonWithFairness,
        UnconstrainedLearner,
    )

__all__ = [
    "KLUCB",
    "UCB1",
    "BernoulliEnvironment",
    "BetaEnvironment",
    "Complexity",
    "ContextualEnvironment",
    "DriftingEnvironment",
    "EpsilonGreedy",
    "FairLearn",
    "FairUCB",
    "Greedy",
    "HorizonFairUCB",
    "Learner",
    "LearningWithFairness",
    "LocalAllocator",
    "OverallShares",
    "Problem",
    "Random",
    "ReplayEnvironment",
    "RoundRobin",
    "SleepingEnvironment",
    "SlidingWindowUCB",
    "Thompson",
    "ThompsonWithFairness",
    "UnconstrainedLearner",
    "complexity",
    "cover_groups",
    "fair_value",
    "round_shares",
]

# These import compiled code.
__getattr__, __dir__ = lazy_names(__name__, ["environments", "planning", "policies", "local"])
