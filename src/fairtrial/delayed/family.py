"""Register this family for the callers that serve every family: the command and the service."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fairtrial.confidence.fixed_sample import FixedDesign
from fairtrial.core import Environment
from fairtrial.core.assumed import (
    either_side_of_means,
    means_in_order,
    rows_at_the_ends,
    takes,
)
from fairtrial.core.family import Family
from fairtrial.core.mistakes import REFUSALS, Mistakes
from fairtrial.core.parameters import build
from fairtrial.delayed import delays, scenarios
from fairtrial.delayed._timed import TimedEnvironment
from fairtrial.delayed.environments import CurveEnvironment, SimulatedEnvironment
from fairtrial.delayed.fixed_design import fixed_design
from fairtrial.delayed.planning import Complexity, complexity
from fairtrial.delayed.policies.blocks import BlockBetting
from fairtrial.delayed.problem import Problem

__all__ = ["FAMILY"]


class Delayed(Family):
    """Find the best arms although results arrive late, and early readings are noisy."""

    arms_are_separate = True
    environment_keys: ClassVar[Mapping[str, Any]] = {
        "means": Any,
        "std": Any,
        "delay": Any,
        "bias": Any,
        "every": float,
    }

    def environment(
        self, problem: Problem, given: Mapping[str, Any], mistakes: Mistakes
    ) -> Environment | None:
        """Return an environment with late results; `delay` is a number or a named distribution."""
        means = means_in_order(problem, given, mistakes)
        if mistakes:
            return None
        if problem.reward_range is not None:
            return _bounded(problem, means, given, mistakes)
        options = {key: given[key] for key in ("bias", "std", "every") if key in given}
        delay = given.get("delay")
        if isinstance(delay, Mapping):
            delay = _delay_by_name(delay, mistakes)
            if delay is None:
                return None
        return mistakes.build(SimulatedEnvironment, problem, means, delay=delay, **options)

    def at_effect(
        self, environment: TimedEnvironment, effect: float, control: str | None
    ) -> Environment:
        """Return the environment with all differences from the control multiplied by `effect`."""
        return scenarios.at_effect(environment, effect, control)

    def with_losses(
        self, environment: TimedEnvironment, rate: float, depends_on_outcome: bool
    ) -> Environment:
        """Return the environment in which that share of the pulls is lost by chance."""
        return scenarios.with_losses(environment, rate, depends_on_outcome)

    def values(self, environment: TimedEnvironment) -> Mapping[str, float]:
        """Return the true mean of every arm."""
        return scenarios.values(environment)

    def doubts(self, environment: Any) -> Sequence[str]:
        """Return a warning if every result arrives before its first reading."""
        if environment.problem.feedback in ("full", "incremental"):
            return ()
        every, longest = environment.every, _longest(environment.delay)
        if longest > every:
            return ()
        text = (
            f"No reading comes before its result: readings come every {every:g}, results after "
            f"{longest:g} at the latest. Use a smaller every or a longer delay"
        )
        return (text,)

    def complexity(self, environment: TimedEnvironment) -> Complexity:
        """Return the lower bound that no rule beats, if `has_bound`."""
        return complexity(environment)

    def has_bound(self, environment: Environment) -> bool:
        """Return whether only results count: with readings, a rule can answer before outcomes."""
        problem = environment.problem
        return isinstance(problem, Problem) and not problem.readings_used

    def stds(self, environment: TimedEnvironment) -> ArrayLike:
        """Return the standard deviation of an outcome by arm."""
        return environment.arm_stds

    def fixed_design(self, environment: TimedEnvironment) -> FixedDesign | None:
        """Return the experiment with equal numbers of all arms, which waits for all outcomes."""
        return fixed_design(environment)

    def analysis(self, problem: Problem, actions: Sequence[int], delta: float) -> BlockBetting:
        """Return block betting for units that were assigned in a finished experiment."""
        return BlockBetting(problem, delta, assigned=list(actions))


FAMILY = Delayed()


def _delay_by_name(given: Mapping[str, Any], mistakes: Mistakes) -> delays.Delay | None:
    arguments = dict(given)
    name = str(arguments.pop("name", ""))
    cls = vars(delays).get(name)
    if not (name in delays.__all__ and inspect.isclass(cls) and cls is not delays.Delay):
        mistakes.add("delay.name", f"must be a delay of the family; got {name!r}")
        return None
    return mistakes.build(build, cls, arguments, key="delay")


def _longest(delay: Any) -> float:
    """Return the longest possible delay, infinite if it is not known without drawing."""
    match delay:
        case None:
            return 1.0
        case delays.UniformDelay():
            return float(np.max(np.asarray(delay.high)))
        case delays.ConstantDelay():
            return float(np.max(np.asarray(delay.time)))
        case delays.Delay():
            return math.inf
    return float(np.max(delay))


def _bounded(
    problem: Problem, means: Any, given: Mapping[str, Any], mistakes: Mistakes
) -> Environment | None:
    """Return an environment whose late outcomes are 0 or 1, or the mean plus or minus `std`.

    Each is represented by a curve that consists only of its outcome, so there are no readings.
    """
    if problem.feedback != "full":
        mistakes.add(
            "",
            "outcomes in problem.reward_range are simulated without readings only: "
            "problem.feedback must be 'full'",
        )
    outcomes = _outcomes(problem, means, given.get("std"), mistakes)
    times = _times(problem, given.get("delay"), mistakes)
    if mistakes or outcomes is None:
        return None
    rows = [
        (arm, number, time, value)
        for arm, time, values in zip(problem.arms, times, outcomes, strict=True)
        for number, value in enumerate(values)
    ]
    columns = zip(*rows, strict=True)
    table = dict(zip(("arm", "curve", "elapsed", "value"), map(list, columns), strict=True))
    return mistakes.build(CurveEnvironment, problem, table)


def _outcomes(
    problem: Problem, means: Any, std: Any, mistakes: Mistakes
) -> list[list[float]] | None:
    """Return the outcomes to draw from, by arm, or None after adding a mistake."""
    if std is not None:
        either = either_side_of_means(problem, means, std, mistakes)
        return None if either is None else either.T.tolist()
    try:
        centre = np.asarray(means, dtype=np.float64)
    except REFUSALS:
        mistakes.add("means", f"must be numbers; got {means!r}")
        return None
    within = ((centre >= 0.0) & (centre <= 1.0)).all()
    if not (within and takes(problem, 0.0) and takes(problem, 1.0)):
        mistakes.add(
            "means",
            "must be probabilities in [0, 1], and problem.reward_range must hold 0 and 1; "
            "else give std",
        )
        return None
    return [rows_at_the_ends(mean, 0.0, 1.0).tolist() for mean in centre.tolist()]


def _times(problem: Problem, delay: Any, mistakes: Mistakes) -> list[float]:
    """Return the delay of each arm; by default that of the problem, or 1."""
    default = 1.0 if problem.duration is None else problem.duration
    try:
        times = np.asarray(default if delay is None else delay, dtype=np.float64)
        found: list[float] = np.broadcast_to(times, (len(problem.arms),)).tolist()
    except REFUSALS:
        text = "must be a number, or one per arm, where outcomes have a range"
        mistakes.add("delay", f"{text}; got {delay!r}")
        return []
    return found
