"""What this family provides to the command and a service."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fairtrial.confidence.fixed_sample import FixedDesign
from fairtrial.core import Environment
from fairtrial.core.assumed import two_points
from fairtrial.core.drifting import DriftingEnvironment
from fairtrial.core.family import Family
from fairtrial.core.lossy import LossyEnvironment
from fairtrial.core.mistakes import Mistakes
from fairtrial.core.scenario import Scenario
from fairtrial.linear import scenarios
from fairtrial.linear.environments import (
    ArmEnvironment,
    BernoulliEnvironment,
    GaussianEnvironment,
    ReplayEnvironment,
)
from fairtrial.linear.fixed_design import fixed_design
from fairtrial.linear.planning import Complexity, complexity
from fairtrial.linear.policies.blocks import BlockBetting
from fairtrial.linear.problem import NO_INTERCEPT, Problem

__all__ = ["FAMILY"]


class Linear(Family):
    """Find the best of many options that are described by features, with few pulls."""

    environment_keys: ClassVar[Mapping[str, Any]] = {"theta": list[float], "std": Any}
    means_key = "theta"
    replay_keys = frozenset({"noise_std"})
    feature_arguments: ClassVar[Mapping[str, str]] = {"features": "arms", "candidates": "answers"}
    stand_ins: ClassVar[Mapping[str, Callable[[int], Any]]] = {"features": np.eye}

    def environment(
        self, problem: Problem, given: Mapping[str, Any], mistakes: Mistakes
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

    def replay(self, problem: Problem, table: Mapping[str, Any], **columns: Any) -> Environment:
        """Return the environment that draws rows of a table."""
        return ReplayEnvironment(problem, table, **columns)

    def at_effect(
        self, environment: ArmEnvironment, effect: float, control: str | None
    ) -> Environment:
        """Return the environment with all differences from the control multiplied by `effect`."""
        return scenarios.at_effect(environment, effect, control)

    def with_losses(
        self, environment: ArmEnvironment, rate: float, depends_on_outcome: bool
    ) -> Environment:
        """Return the environment in which that share of the results is lost."""
        return LossyEnvironment(environment, rate, depends_on_outcome)

    def with_drift(self, environment: Environment, drift: float) -> Environment:
        """Return the environment whose means move by `drift` from pull to pull."""
        return DriftingEnvironment(environment, drift)

    def harms(self, environment: ArmEnvironment) -> Iterable[Scenario]:
        """Return the scenario in which the assumed answer is just beyond its closest limit."""
        return scenarios.harms(environment)

    def values(self, environment: Environment) -> Mapping[str, float]:
        """Return the true value of every candidate."""
        return scenarios.values(environment)

    def doubts_of_table(self, problem: Problem) -> Sequence[str]:
        """Return a warning if no parameter gives all arms the same mean."""
        return () if problem.has_intercept else (NO_INTERCEPT,)

    def complexity(self, environment: ArmEnvironment) -> Complexity:
        """Return the lower bound that no rule beats."""
        return complexity(environment)

    def stds(self, environment: ArmEnvironment) -> ArrayLike:
        """Return the standard deviation of a reward by arm."""
        return environment.arm_stds

    def fixed_design(self, environment: ArmEnvironment) -> FixedDesign | None:
        """Return the experiment with equal numbers of all arms; None if no answer is right."""
        return fixed_design(environment)

    def analysis(self, problem: Problem, actions: Sequence[int], delta: float) -> BlockBetting:
        """Return block betting for units whose arms were assigned by others."""
        return BlockBetting(problem, delta, assigned=list(actions))


FAMILY = Linear()
