"""The contract: problem, pull, policy, environment, recommendation; seeds and validation."""

from fairtrial.core.environment import Environment, Reading, TopTruth, Trajectory, Truth
from fairtrial.core.parameters import Parametrized
from fairtrial.core.policy import Policy
from fairtrial.core.problem import Problem
from fairtrial.core.pull import UNSOLICITED, Pull
from fairtrial.core.recommendation import Effect, Estimate, Guarantee, Progress, Recommendation
from fairtrial.core.run import Run, run_policy

__all__ = [
    "UNSOLICITED",
    "Effect",
    "Environment",
    "Estimate",
    "Guarantee",
    "Parametrized",
    "Policy",
    "Problem",
    "Progress",
    "Pull",
    "Reading",
    "Recommendation",
    "Run",
    "TopTruth",
    "Trajectory",
    "Truth",
    "run_policy",
]
