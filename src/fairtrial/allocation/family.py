"""Register this family for the callers that serve every family: the command and the service."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

from fairtrial.allocation import learners
from fairtrial.allocation.environments import BernoulliEnvironment, ReplayEnvironment
from fairtrial.allocation.problem import Problem
from fairtrial.core import Environment
from fairtrial.core.assumed import bernoulli_or_two_points
from fairtrial.core.family import Family
from fairtrial.core.mistakes import Mistakes

__all__ = ["FAMILY"]

_LEARNERS = tuple(
    name
    for name in learners.__all__
    if inspect.isclass(cls := vars(learners)[name])
    and issubclass(cls, learners.Learner)
    and cls is not learners.Learner
)


class Allocation(Family):
    """Serve traffic well while every option is guaranteed its share."""

    environment_keys: ClassVar[Mapping[str, Any]] = {
        "means": Any,
        "std": Any,
        "noise": Literal["bernoulli"],
    }
    # No arm has a guaranteed share.
    stand_ins: ClassVar[Mapping[str, Callable[[int], Any]]] = {"shares": lambda size: 0}  # noqa: ARG005
    learners = _LEARNERS

    def environment(
        self, problem: Problem, given: Mapping[str, Any], mistakes: Mistakes
    ) -> Environment | None:
        """Return an environment of rewards that are 0 or 1, or the mean plus or minus `std`."""
        return bernoulli_or_two_points(
            BernoulliEnvironment, ReplayEnvironment, problem, given, mistakes
        )

    def replay(self, problem: Problem, table: Mapping[str, Any], **columns: Any) -> Environment:
        """Return the environment that draws rows of a table."""
        return ReplayEnvironment(problem, table, **columns)


FAMILY = Allocation()
