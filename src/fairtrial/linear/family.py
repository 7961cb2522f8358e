"""What this family provides to the command and a service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fairtrial.core import Environment
from fairtrial.core.assumed import two_points
from fairtrial.core.drifting import DriftingEnvironment
from fairtrial.core.family import Family
from fairtrial.core.lossy import LossyEnvironment
from fairtrial.core.mistakes import Mistakes
from fairtrial.linear.environments import (
    BernoulliEnvironment,
    GaussianEnvironment,
    ReplayEnvironment,
)
from fairtrial.linear.fixed_design import fixed_design
from fairtrial.linear.planning import complexity
from fairtrial.linear.policies.blocks import BlockBetting
from fairtrial.linear.problem import NO_INTERCEPT, Problem
from fairtrial.linear.scenarios import at_effect, harms, values

__all__ = ["FAMILY"]


def _environment(
    problem: Problem, given: Mapping[str, Any], mistakes: Mistakes
) -> Environment | None:
    """Return an environment whose mean rewards are linear in the features."""
    theta, std = given.get("theta"), given.get("std")
    if theta is None:
        mistakes.add("theta", "is required")
        return None
    if problem.reward_range is None:
        return mistakes.build(GaussianEnvironment, problem, theta, std=std)
    if std is None:
        return mistakes.build(BernoulliEnvironment, problem, theta)
    values = mistakes.build(problem.values, theta)
    if values is None:
        return None
    answers = zip(problem.answers, values.tolist(), strict=True)
    unpulled = {label: value for label, value in answers if label not in problem.arms}
    means = problem.features @ theta
    return two_points(ReplayEnvironment, problem, means, std, mistakes, unpulled)


def _doubts_of_table(problem: Problem) -> tuple[str, ...]:
    return () if problem.has_intercept else (NO_INTERCEPT,)


def _analysis(problem: Problem, actions: Sequence[int], delta: float) -> BlockBetting:
    """Return block betting for units whose arms were assigned by others."""
    return BlockBetting(problem, delta, assigned=list(actions))


FAMILY = Family(
    environment=_environment,
    environment_keys={"theta": list[float], "std": Any},
    means_key="theta",
    replay=ReplayEnvironment,
    replay_keys=frozenset({"noise_std"}),
    feature_arguments={"features": "arms", "candidates": "answers"},
    stand_ins={"features": np.eye},
    doubts_of_table=_doubts_of_table,
    complexity=complexity,
    analysis=_analysis,
    at_effect=at_effect,
    harms=harms,
    with_losses=LossyEnvironment,
    with_drift=DriftingEnvironment,
    values=values,
    fixed_design=fixed_design,
)
