"""A problem with a reward and a prediction, stated in two measures of known scales."""

import math

import numpy as np

from fairtrial.subpopulations import Problem


def as_residuals(problem):
    """Return the problem with rewards, and rewards minus predictions, as measures.

    Arms are compared by the latter. Floors and ceilings are on rewards, except in groups whose mean
    prediction is known.
    """
    known = np.array(problem.prediction.means_of(problem.groups))
    measures = ["reward" if math.isnan(mean) else "residual" for mean in known]
    lower, upper = problem.floors, problem.ceilings
    if problem.sign < 0.0:
        lower, upper = upper, lower
    margin = None
    if problem.margin is not None:
        margin = limits_by_cell(problem, problem.margin, ["residual"] * len(problem.groups))
        for own in margin.values():
            del own[problem.control]
    return Problem(
        problem.arms,
        problem.groups,
        problem.shares,
        floors=limits_by_cell(problem, lower - np.nan_to_num(known), measures),
        ceilings=limits_by_cell(problem, upper - np.nan_to_num(known), measures),
        objective="residual",
        direction=problem.direction,
        costs=problem.costs,
        tolerance=problem.tolerance,
        control=problem.control if problem.refers_to_control else None,
        margin=margin,
        superiority=problem.superiority,
        measures=["reward", "residual"],
        noise_std={"reward": problem.noise_std, "residual": problem.prediction.residual_std},
    )


def limits_by_cell(problem, limits, measures):
    """Return limits of all cells in the form that measures take; `measures`: by group."""
    found = {}
    for column, (group, measure) in enumerate(zip(problem.groups, measures, strict=True)):
        own = zip(problem.arms, limits[:, column].tolist(), strict=True)
        found[measure, group] = {arm: end if math.isfinite(end) else None for arm, end in own}
    return found
