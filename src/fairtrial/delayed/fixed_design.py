"""The usual experiment of fixed size for this family's problem."""

from __future__ import annotations

import numpy as np

from fairtrial.confidence.complexity import positive_spread
from fairtrial.confidence.fixed_sample import FixedDesign
from fairtrial.delayed._timed import TimedEnvironment

__all__ = ["fixed_design"]


def fixed_design(environment: TimedEnvironment) -> FixedDesign | None:
    """Return the experiment with equal numbers of all arms, which waits for all outcomes.

    Each of the best arms is compared with each of the others. None if there is no right answer.
    """
    problem = environment.problem
    if environment.truth.tied:
        return None
    means, number = problem.sign * environment.arm_means, len(problem.arms)
    order = np.argsort(-means, kind="stable")
    inside, outside = np.split(order, [problem.top])
    variances = number * positive_spread(environment.arm_stds) ** 2
    gaps = means[inside][:, np.newaxis] - means[outside] + problem.tolerance
    signals = gaps / np.sqrt(variances[inside][:, np.newaxis] + variances[outside])
    return FixedDesign(signals.ravel(), max(1, signals.size), number)
