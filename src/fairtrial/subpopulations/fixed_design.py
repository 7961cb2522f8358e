"""The usual experiment of fixed size, for this family's question."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.complexity import positive_spread
from fairtrial.confidence.fixed_sample import FixedDesign
from fairtrial.subpopulations.environments import CellEnvironment, arrival_shares
from fairtrial.subpopulations.problem import Problem

__all__ = ["fixed_design"]

Floats = NDArray[np.float64]


def fixed_design(environment: CellEnvironment) -> FixedDesign | None:
    """Return the experiment with equal numbers in all cells; None if no answer is right.

    If groups arrive by themselves, each arm gets an equal part of every group.

    The tests can show that an arm is worse overall than another, and that it is within or beyond
    each of its limits, including limits against the control.
    """
    problem, truth = environment.problem, environment.truth
    if truth.tied:
        return None
    within, beyond = _limit_signals(environment)
    limits = np.isfinite(within).reshape(within.shape[0], -1).sum(axis=1)
    tests = len(problem.arms) - 1 + int(limits.max())
    # An arm is most easily excluded by the limit that it exceeds most clearly.
    excluded = beyond.reshape(len(beyond), -1).max(axis=1)
    if truth.best is None:
        return FixedDesign(excluded, tests, problem.n_actions)
    best = problem.arms.index(truth.best)
    excluded = np.maximum(excluded, _overall_signals(environment, best))
    own = within[best][np.isfinite(within[best])]
    return FixedDesign(np.append(np.delete(excluded, best), own), tests, problem.n_actions)


def _limit_signals(environment: CellEnvironment) -> tuple[Floats, Floats]:
    """Return by arm, end and group how clearly a mean is within its limit, and beyond it.

    Infinite if there is no limit that a mean can miss: then the mean need not be shown to be
    within, and cannot be beyond.
    """
    problem = environment.problem
    if problem.measured is not None:
        return _signals_of_rows(environment)
    means = problem.sign * environment.cell_means
    with np.errstate(divide="ignore"):
        variances = positive_spread(environment.cell_stds) ** 2 / _shares_of_cells(environment)
    floors, ceilings = problem.limits_that_can_be_missed()
    distances, squares = [means - floors, ceilings - means], [variances, variances]
    if problem.control is not None and problem.refers_to_control:
        distances += list(problem.above_control(means) - problem.differences())
        squares += _variances_of_differences(problem, variances)
    apart, errors = np.stack(distances, axis=1), np.sqrt(np.stack(squares, axis=1))
    # A limit that does not exist stays infinitely far away, even in a group that never arrives.
    errors = np.where(np.isinf(apart), 1.0, errors)
    return (apart + problem.floor_tolerance) / errors, (problem.floor_tolerance - apart) / errors


def _signals_of_rows(environment: CellEnvironment) -> tuple[Floats, Floats]:
    """Return by arm and limit of a measure how clearly the limit is kept, and broken."""
    problem = environment.problem
    parts, weighty = _shares_of_cells(environment), problem.shares > 0.0
    found = [np.full(len(problem.arms), np.inf)]
    for row in problem.limit_rows:
        stds = positive_spread(np.sqrt(row.variances(environment.cell_covariances)))
        with np.errstate(divide="ignore"):
            squares = stds**2 / parts
        if row.group is None:
            own = squares[:, weighty] @ problem.shares[weighty] ** 2
        else:
            own = squares[:, row.group]
        if row.control is not None:
            own = own + own[row.control]
        apart = row.distances(environment.cell_means, problem.shares)
        held = [problem.can_be_missed(row, arm) for arm in range(len(problem.arms))]
        apart = np.where(held, apart, np.inf)
        found.append(apart / np.where(np.isinf(apart), 1.0, np.sqrt(own)))
    signals = np.stack(found, axis=1)[:, np.newaxis]
    return signals, -signals


def _variances_of_differences(problem: Problem, variances: Floats) -> list[Floats]:
    """Return the variances of differences from the control: by group, and overall."""
    weighty = problem.shares > 0.0
    control = problem.arms.index(str(problem.control))
    overall = variances[:, weighty] @ problem.shares[weighty] ** 2
    whole = np.repeat((overall + overall[control])[:, np.newaxis], problem.shape[1], axis=1)
    return [variances + variances[control], whole]


def _overall_signals(environment: CellEnvironment, best: int) -> Floats:
    """Return by arm how clearly its quality is below that of the best arm."""
    problem, shares = environment.problem, environment.problem.shares
    quality = problem.sign * problem.quality(environment.cell_means)
    # A group without weight need not arrive; one with weight that never arrives leaves all open.
    weighty, parts = shares > 0.0, _shares_of_cells(environment)
    squares = positive_spread(environment.cell_stds)[:, weighty] ** 2 * shares[weighty] ** 2
    with np.errstate(divide="ignore"):
        variances = (squares / parts[weighty]).sum(axis=1)
    gaps = quality[best] - quality + problem.tolerance
    return np.asarray(gaps / np.sqrt(variances + variances[best]))


def _shares_of_cells(environment: CellEnvironment) -> Floats:
    """Return by group the share of all pulls that each of its cells gets."""
    problem = environment.problem
    arms, groups = problem.shape
    if environment.arrivals is None:
        return np.full(groups, 1.0 / problem.n_actions)
    return arrival_shares(problem, environment.arrivals) / arms
