"""The contract: problem, pull, policy, environment, recommendation; seeds and validation."""

from typing import TYPE_CHECKING

from fairtrial.core.lazy import lazy_names

if TYPE_CHECKING:
    from fairtrial.core.environment import Environment, Reading, TopTruth, Trajectory, Truth
    from fairtrial.core.parameters import Parametrized
    from fairtrial.core.policy import Policy
    from fairtrial.core.problem import Problem
    from fairtrial.core.progress_parts import (
        AnswerStatus,
        ArmStatus,
        GroupPredictions,
        Losses,
        MeasureLimit,
        MeasureValues,
        Predictions,
        ShareOfPulls,
        ValueLimit,
    )
    from fairtrial.core.pull import UNSOLICITED, Pull
    from fairtrial.core.recommendation import (
        Decision,
        Effect,
        Estimate,
        Guarantee,
        Progress,
        Recommendation,
    )
    from fairtrial.core.run import Run, run_policy

__all__ = [
    "UNSOLICITED",
    "AnswerStatus",
    "ArmStatus",
    "Decision",
    "Effect",
    "Environment",
    "Estimate",
    "GroupPredictions",
    "Guarantee",
    "Losses",
    "MeasureLimit",
    "MeasureValues",
    "Parametrized",
    "Policy",
    "Predictions",
    "Problem",
    "Progress",
    "Pull",
    "Reading",
    "Recommendation",
    "Run",
    "ShareOfPulls",
    "TopTruth",
    "Trajectory",
    "Truth",
    "ValueLimit",
    "run_policy",
]

# These import NumPy.
__getattr__, __dir__ = lazy_names(
    __name__,
    [
        "environment",
        "parameters",
        "policy",
        "problem",
        "progress_parts",
        "pull",
        "recommendation",
        "run",
    ],
)
