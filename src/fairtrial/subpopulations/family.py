"""What this family provides to the command and a service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, Literal

from fairtrial.core import Environment
from fairtrial.core.assumed import (
    bernoulli_or_two_points,
    means_in_order,
    measured_means_in_order,
)
from fairtrial.core.drifting import DriftingEnvironment
from fairtrial.core.family import Family
from fairtrial.core.lossy import LossyEnvironment
from fairtrial.core.mistakes import Mistakes
from fairtrial.subpopulations.environments import (
    BernoulliEnvironment,
    GaussianEnvironment,
    ReplayEnvironment,
)
from fairtrial.subpopulations.fixed_design import fixed_design
from fairtrial.subpopulations.planning import complexity
from fairtrial.subpopulations.policies import BlockBetting
from fairtrial.subpopulations.problem import Problem
from fairtrial.subpopulations.scenarios import at_effect, harms, values, with_arrivals, with_means

__all__ = ["FAMILY"]


def _environment(
    problem: Problem, given: Mapping[str, Any], mistakes: Mistakes
) -> Environment | None:
    """Return an environment of normal rewards, or of bounded ones."""
    if problem.measured is not None:
        return _measured_environment(problem, given, mistakes)
    for key in ("correlation", "cov"):
        if key in given:
            mistakes.add(key, "must be left out unless the problem has measures")
    noise = "gaussian" if problem.reward_range is None else "bernoulli"
    if given.get("noise", noise) == "bernoulli":
        return bernoulli_or_two_points(
            BernoulliEnvironment, ReplayEnvironment, problem, given, mistakes
        )
    means = means_in_order(problem, given, mistakes)
    if mistakes:
        return None
    return mistakes.build(GaussianEnvironment, problem, means, std=given.get("std"))


def _measured_environment(
    problem: Problem, given: Mapping[str, Any], mistakes: Mistakes
) -> Environment | None:
    """Return an environment of normal measures, or of measures at the ends of their ranges."""
    bounded = problem.measure_ranges is not None
    taken, other = ("correlation", "cov") if bounded else ("cov", "correlation")
    noise = "bernoulli" if bounded else "gaussian"
    if given.get("noise", noise) != noise:
        mistakes.add("noise", f"must be {noise!r} with these measures, or left out")
    for key in ("std", other):
        if key in given:
            mistakes.add(key, "must be left out with these measures")
    means = measured_means_in_order(problem, given, mistakes)
    if mistakes:
        return None
    environment = BernoulliEnvironment if bounded else GaussianEnvironment
    options: dict[str, Any] = {taken: given.get(taken)}
    return mistakes.build(environment, problem, means, **options)


def _analysis(problem: Problem, actions: Sequence[int], delta: float) -> BlockBetting:
    """Return block betting for units whose arms were assigned by others."""
    return BlockBetting(problem, delta, assigned=list(actions))


FAMILY = Family(
    environment=_environment,
    environment_keys={
        "means": Any,
        "std": Any,
        "noise": Literal["gaussian", "bernoulli"],
        "correlation": Any,
        "cov": Any,
    },
    replay=ReplayEnvironment,
    complexity=complexity,
    stds=attrgetter("cell_stds"),
    analysis=_analysis,
    at_effect=at_effect,
    with_means=with_means,
    with_arrivals=with_arrivals,
    harms=harms,
    with_losses=LossyEnvironment,
    with_drift=DriftingEnvironment,
    values=values,
    fixed_design=fixed_design,
)
