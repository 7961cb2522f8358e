"""Register this family for the callers that serve every family: the command and the service."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any, Literal

from fairtrial.allocation import learners
from fairtrial.allocation.environments import BernoulliEnvironment, ReplayEnvironment
from fairtrial.core.assumed import bernoulli_or_two_points
from fairtrial.core.family import Family

__all__ = ["FAMILY"]


FAMILY = Family(
    environment=partial(bernoulli_or_two_points, BernoulliEnvironment, ReplayEnvironment),
    environment_keys={"means": Any, "std": Any, "noise": Literal["bernoulli"]},
    replay=ReplayEnvironment,
    # No arm has a guaranteed share.
    stand_ins={"shares": lambda size: 0},  # noqa: ARG005
    learners=tuple(
        name
        for name in learners.__all__
        if inspect.isclass(cls := vars(learners)[name])
        and issubclass(cls, learners.Learner)
        and cls is not learners.Learner
    ),
)
