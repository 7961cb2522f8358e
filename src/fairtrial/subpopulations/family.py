"""What this family provides to the command and a service."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from fairtrial.confidence.fixed_sample import FixedDesign
from fairtrial.confidence.intersection_union import Contrasts
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
from fairtrial.core.scenario import Scenario
from fairtrial.subpopulations import scenarios
from fairtrial.subpopulations.contrasts import contrasts
from fairtrial.subpopulations.environments import (
    BernoulliEnvironment,
    CellEnvironment,
    GaussianEnvironment,
    ReplayEnvironment,
)
from fairtrial.subpopulations.fixed_design import fixed_design
from fairtrial.subpopulations.planning import Complexity, complexity
from fairtrial.subpopulations.policies import BlockBetting
from fairtrial.subpopulations.predicted_environment import (
    GaussianPredictedEnvironment,
    PredictedEnvironment,
)
from fairtrial.subpopulations.problem import Problem

__all__ = ["FAMILY"]


class Subpopulations(Family):
    """Find the variant that is best overall without failing any group."""

    arms_are_separate = True
    environment_keys: ClassVar[Mapping[str, Any]] = {
        **Family.environment_keys,
        "correlation": Any,
        "cov": Any,
        "r_squared": Any,
    }

    def environment(
        self, problem: Problem, given: Mapping[str, Any], mistakes: Mistakes
    ) -> Environment | None:
        """Return an environment of normal rewards, or of bounded ones."""
        if problem.predictions:
            return _predicted_environment(problem, given, mistakes)
        if "r_squared" in given:
            mistakes.add("r_squared", "must be left out unless the problem has a prediction")
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

    def replay(self, problem: Problem, table: Mapping[str, Any], **columns: Any) -> Environment:
        """Return the environment that draws rows of a table."""
        return ReplayEnvironment(problem, table, **columns)

    def at_effect(
        self, environment: CellEnvironment, effect: float, control: str | None
    ) -> Environment:
        """Return the environment with all differences from the control multiplied by `effect`."""
        return scenarios.at_effect(environment, effect, control)

    def with_means(self, environment: CellEnvironment, means: Any) -> Environment:
        """Return the environment with other means; the rows of a table are shifted."""
        return scenarios.with_means(environment, means)

    def with_arrivals(self, environment: CellEnvironment, arrivals: Any) -> Environment:
        """Return the environment in which groups arrive by themselves, in these proportions."""
        return environment.clone(arrivals=arrivals)

    def with_losses(
        self, environment: CellEnvironment, rate: float, depends_on_outcome: bool
    ) -> Environment:
        """Return the environment in which that share of the results is lost."""
        return LossyEnvironment(environment, rate, depends_on_outcome)

    def with_drift(self, environment: Environment, drift: float) -> Environment:
        """Return the environment whose means move by `drift` from pull to pull."""
        return DriftingEnvironment(environment, drift)

    def harms(self, environment: CellEnvironment) -> Iterable[Scenario]:
        """Return the scenarios in which the assumed answer would do harm."""
        return scenarios.harms(environment)

    def values(self, environment: Environment) -> Mapping[str, float]:
        """Return the true quality of every arm."""
        return scenarios.values(environment)

    def complexity(self, environment: CellEnvironment) -> Complexity:
        """Return the lower bound that no rule beats."""
        return complexity(environment)

    def stds(self, environment: CellEnvironment) -> ArrayLike:
        """Return the standard deviation of a reward by cell."""
        return environment.cell_stds

    def fixed_design(self, environment: CellEnvironment) -> FixedDesign | None:
        """Return the experiment with equal numbers in all cells; None if no answer is right."""
        return fixed_design(environment)

    def acceptable(self, environment: Environment) -> Mapping[str, bool]:
        """Return by arm whether it keeps all its limits."""
        problem: Any = environment.problem
        kept = problem.feasible(environment.truth.means).tolist()
        return dict(zip(problem.arms, kept, strict=True))

    def contrasts(self, environment: CellEnvironment, control: str | None) -> Contrasts:
        """Return what the usual designs test of each arm, and what is true of it."""
        return contrasts(environment, control)

    def analysis(self, problem: Problem, actions: Sequence[int], delta: float) -> BlockBetting:
        """Return block betting for units whose arms were assigned by others."""
        return BlockBetting(problem, delta, assigned=list(actions))


FAMILY = Subpopulations()


def _predicted_environment(
    problem: Problem, given: Mapping[str, Any], mistakes: Mistakes
) -> Environment | None:
    """Return an environment whose units have predictions: normal outcomes, or ends of ranges."""
    is_normal = problem.noise_std is not None
    noise = "gaussian" if is_normal else "bernoulli"
    if given.get("noise", noise) != noise:
        mistakes.add("noise", f"must be {noise!r} with this prediction, or left out")
    for key in ("std", "correlation", "cov"):
        if key in given:
            mistakes.add(key, "must be left out with a prediction")
    if is_normal and "r_squared" in given:
        accepted = "must be left out: noise_std and residual_std say what predictions explain"
        mistakes.add("r_squared", accepted)
    if not (is_normal or "r_squared" in given):
        accepted = "must be given: the share of the variance of rewards that predictions explain"
        mistakes.add("r_squared", accepted)
    in_order = measured_means_in_order if problem.measures else means_in_order
    means: Any = in_order(problem, given, mistakes)
    if mistakes:
        return None
    if is_normal:
        return mistakes.build(GaussianPredictedEnvironment, problem, means)
    return mistakes.build(PredictedEnvironment, problem, means, r_squared=given["r_squared"])


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
