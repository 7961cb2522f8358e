"""The usual experiment of fixed size, for this family's question."""

from __future__ import annotations

import numpy as np

from fairtrial.confidence.complexity import positive_spread
from fairtrial.confidence.fixed_sample import FixedDesign
from fairtrial.linear.environments import ArmEnvironment

__all__ = ["fixed_design"]


def fixed_design(environment: ArmEnvironment) -> FixedDesign | None:
    """Return the experiment with equal numbers of all arms, and a weighted least squares fit.

    Each of the best candidates is held against each of the others. None where no answer is right.
    """
    problem, truth = environment.problem, environment.truth
    if truth.tied:
        return None
    named = {*truth.best} if isinstance(truth.best, tuple) else {truth.best}
    rows = problem.features if problem.candidates is None else problem.candidates
    first = [group[0] for group in problem.answer_groups]
    inside = [index for index in first if problem.answers[index] in named]
    outside = [index for index in first if problem.answers[index] not in named]
    values = problem.sign * environment.values
    scaled = problem.features / positive_spread(environment.arm_stds)[:, np.newaxis]
    root = np.linalg.pinv(scaled) * np.sqrt(len(problem.arms))
    signals = [
        (values[best] - values[outside] + problem.tolerance)
        / np.linalg.norm((rows[best] - rows[outside]) @ root, axis=1)
        for best in inside
    ]
    tests = max(1, len(inside) * len(outside))
    return FixedDesign(np.concatenate(signals), tests, len(problem.arms))
