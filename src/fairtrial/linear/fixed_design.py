"""The usual experiment of fixed size, for this family's question."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.complexity import positive_spread
from fairtrial.confidence.fixed_sample import FixedDesign
from fairtrial.linear.environments import ArmEnvironment

__all__ = ["fixed_design"]

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]


def fixed_design(environment: ArmEnvironment) -> FixedDesign | None:
    """Return the experiment with equal numbers of all arms, and a weighted least squares fit.

    Each of the best candidates is compared with each of the others. If candidates have limits, each
    rival must be shown to be worse or beyond one of its limits, and the best to be within all of
    its limits. None if no answer is right.
    """
    problem, truth = environment.problem, environment.truth
    if truth.tied:
        return None
    if problem.has_limits:
        return _with_limits(environment)
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


def _with_limits(environment: ArmEnvironment) -> FixedDesign:
    problem, truth = environment.problem, environment.truth
    scaled = problem.features / positive_spread(environment.arm_stds)[:, np.newaxis]
    root = np.linalg.pinv(scaled) * np.sqrt(len(problem.arms))
    apart, limited = _limit_signals(environment, root)
    first = [group[0] for group in problem.answer_groups]
    limits = int(limited[first].sum(axis=1).max())
    tests = max(1, len(first) - 1 + limits)
    # A candidate is most easily excluded by the limit that it exceeds most clearly.
    excluded = np.where(limited, -apart[0], -np.inf).max(axis=1)
    if truth.best is None:
        return FixedDesign(excluded[first], tests, len(problem.arms))
    best = problem.answers.index(truth.best)
    values, rows = problem.sign * environment.values, problem.candidate_features
    errors = np.linalg.norm((rows[best] - rows) @ root, axis=1)
    gaps = values[best] - values + problem.tolerance
    worse = np.divide(gaps, errors, out=np.full(len(gaps), -np.inf), where=errors > 0.0)
    others = [index for index in first if problem.group_of[index] != problem.group_of[best]]
    own = apart[1][best][limited[best]]
    return FixedDesign(
        np.append(np.maximum(excluded, worse)[others], own), tests, len(problem.arms)
    )


def _limit_signals(environment: ArmEnvironment, root: Floats) -> tuple[Floats, Booleans]:
    """Return how clearly each limit is kept, and which limits exist, by candidate and limit.

    The first of two arrays has the limits that rivals must keep, the second those of the answer.
    """
    problem = environment.problem
    found, limited = [], []
    for one, means in zip(problem.requirements, environment.limited_means, strict=True):
        rows = one.features - (one.features[one.control] if one.control >= 0 else 0.0)
        errors = np.linalg.norm(rows @ root, axis=1)
        distance = one.distance(problem.sign * means)
        spare = problem.floor_tolerance
        signals = [distance - spare, distance + spare]
        with np.errstate(divide="ignore", invalid="ignore"):
            found.append([np.where(errors > 0.0, each / errors, each * np.inf) for each in signals])
        limited.append(one.limited)
    return np.array(found).transpose(1, 2, 0), np.array(limited).T
