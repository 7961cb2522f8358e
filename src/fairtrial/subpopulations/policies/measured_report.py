"""Reports of block betting if a pull gives several measures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.block_betting import promise
from fairtrial.confidence.means import BlockMeans, Means, Settled, means_of
from fairtrial.core.progress_parts import MeasureLimit, MeasureValues
from fairtrial.core.recommendation import Estimate, Guarantee
from fairtrial.subpopulations.policies.cell_report import targets_of_arms
from fairtrial.subpopulations.policies.measured_blocks import MeasuredBlocks
from fairtrial.subpopulations.problem import LimitRow, Problem

__all__ = [
    "arm_estimates",
    "cell_estimates",
    "limits_of_measures",
    "overall_estimates",
    "promise_on_measures",
    "values_of_measures",
]

Floats = NDArray[np.float64]

InRange = Callable[[int | None], BlockMeans | None]


def promise_on_measures(problem: Problem, delta: float) -> Guarantee:
    """Return the guarantee of block betting for several measures, before losses and corrections."""
    if problem.measure_ranges is not None:
        noise = "every measure lies in its range"
    elif problem.noise_covariance is not None:
        noise = (
            "the noise of the measures of a pull is jointly sub-Gaussian with the stated covariance"
        )
    else:
        noise = "the noise of each measure is sub-Gaussian at its stated scale"
    scope = "whatever the true means are"
    if problem.noise_covariance is None:
        scope += " and however the measures of a pull depend on each other"
    stays = "the true mean of each measure of each arm in each group does not change in the study"
    return replace(
        promise(delta, None, scope, stays),
        name="block betting on several measures",
        assumptions=(noise, stays),
        source="docs/explanation/guardrails.md",
    )


# ------------------------------------------------------------------------- estimates


def cell_estimates(
    blocks: MeasuredBlocks,
    settled: Settled,
    problem: Problem,
    delta: float,
    in_range: InRange,
) -> tuple[Estimate, ...]:
    """Return an estimate of every measure of every cell.

    `in_range` finds means of a measure, or of the objective (None), if measures have ranges.
    """
    values = blocks.values
    so_far = Means.so_far(*_so_far(blocks))
    found = _means_of_cells(blocks, settled, problem, delta, in_range)
    estimates = []
    for place in np.ndindex(values.shape):
        k, group, m = place
        labels = {
            "arm": problem.arms[k],
            "group": problem.groups[group],
            "measure": problem.measures[m],
        }
        mean, lower, upper = found.at(place)
        floor, ceiling = _ends(problem, k, group, m)
        estimates.append(
            Estimate(
                labels=labels,
                pulls=int(values[place]),
                mean=mean,
                lower=lower,
                upper=upper,
                lower_limit=floor,
                upper_limit=ceiling,
                counted=int(settled.counts[place]),
                mean_of_all=so_far.at(place)[0],
            )
        )
    return tuple(estimates)


def arm_estimates(
    blocks: MeasuredBlocks,
    settled: Settled,
    problem: Problem,
    delta: float,
    in_range: InRange,
) -> tuple[Estimate, ...]:
    """Return an estimate of the quality of every arm, in the units of the objective.

    Its results are the pulls with all the values that the objective needs. `in_range`: as in
    `cell_estimates`.
    """
    weights = problem.shares[:, np.newaxis] * np.asarray(problem.objective_weights)
    found = _means_of_arms(blocks, settled, problem, delta, in_range(None), weights)
    found = found.within(blocks.objective_spread.reward_range)
    needed = np.asarray(problem.objective_weights) != 0.0
    counted = settled.counts[..., needed].min(axis=2).sum(axis=1)
    results = blocks.values[..., needed].min(axis=2).sum(axis=1)
    so_far = Means.so_far(*_so_far(blocks)).combined(weights)
    return tuple(
        Estimate(
            {"arm": arm},
            int(results[k]),
            *found.at(k),
            counted=int(counted[k]),
            mean_of_all=so_far.at(k)[0],
        )
        for k, arm in enumerate(problem.arms)
    )


def overall_estimates(
    blocks: MeasuredBlocks,
    settled: Settled,
    problem: Problem,
    delta: float,
    in_range: InRange,
) -> tuple[Estimate, ...]:
    """Return an estimate of every measure of every arm over all groups.

    Nothing with one group: `cell_estimates` has them. `in_range`: as in `cell_estimates`.

    Each interval ever fails with probability at most `delta`. It is not cut by the weighted
    intervals of the groups, although these can be narrower while there are few results: each of
    those can fail with the same probability. A valid cut would need a part of the error, and make
    nearly all intervals wider (docs/explanation/effects.md, "Means over several groups").
    """
    if len(problem.groups) == 1:
        return ()
    by_measure = [
        _means_of_arms(
            blocks, settled, problem, delta, in_range(m), _weights_of_measure(problem, m)
        )
        for m in range(len(problem.measures))
    ]
    found = Means(*(np.stack(values, axis=-1) for values in zip(*by_measure, strict=True)))
    plain = Means.so_far(*_so_far(blocks))
    return tuple(
        Estimate(
            {"arm": problem.arms[k], "measure": problem.measures[m]},
            int(blocks.values[k, :, m].sum()),
            *found.at((k, m)),
            counted=int(settled.counts[k, :, m].sum()),
            mean_of_all=plain.combined(_weights_of_measure(problem, m)).at(k)[0],
        )
        for k in range(len(problem.arms))
        for m in range(len(problem.measures))
    )


def _weights_of_measure(problem: Problem, m: int) -> Floats:
    """Return the weights of a measure's mean over all groups, shape (L, M)."""
    return np.outer(problem.shares, np.arange(len(problem.measures)) == m)


def _means_of_cells(
    blocks: MeasuredBlocks, settled: Settled, problem: Problem, delta: float, in_range: InRange
) -> Means:
    """Return the means of all measures, shape (K, L, M)."""
    if problem.measure_ranges is None:
        return _means(blocks, settled, problem, _level(delta))
    by_measure = []
    for m in range(len(problem.measures)):
        find = in_range(m)
        if find is not None:
            by_measure.append(find.of_each(delta).reshaped(problem.shape))
    found = Means(*(np.stack(values, axis=-1) for values in zip(*by_measure, strict=True)))
    return found.around(_plain_means(blocks, settled).mean)


def _means_of_arms(
    blocks: MeasuredBlocks,
    settled: Settled,
    problem: Problem,
    delta: float,
    in_range: BlockMeans | None,
    weights: Floats,
) -> Means:
    """Return a weighted mean of the measures in all groups by arm; `weights` by group, measure."""
    if in_range is not None:
        found = in_range.of(targets_of_arms(problem), delta)
        return found.around(_plain_means(blocks, settled).combined(weights).mean)
    used = weights != 0.0
    return _means(blocks, settled, problem, delta / used.sum()).combined(weights)


def _level(delta: float) -> float:
    """Return the level of intervals either end of which ever fails with probability <= delta / 2.

    An interval of level x ends where a mixture M of exp(s S - s^2 V / 2) over s reaches 1 / x; S is
    the sum of the deviations of results from their mean, and V their variance proxy. M is the mean
    of M+ (positive s) and M- (negative s), both supermartingales from 1. Where the lower end is
    above the mean, S is positive, so M- <= 1 and M+ = 2 M - M- >= 2 / x - 1. By Ville's inequality
    this ever happens with probability at most x / (2 - x), which is delta / 2 here; likewise for
    the upper end. A limit on n means uses n intervals of level x / n, whose ends fail with
    probability at most n (x / n) / (2 - x / n) <= x / (2 - x).
    """
    return 2.0 * delta / (2.0 + delta)


def _means(blocks: MeasuredBlocks, settled: Settled, problem: Problem, level: float) -> Means:
    """Return the means of all measures with known noise."""
    return means_of(settled, _scales(problem), level).or_so_far(*_so_far(blocks))


def _plain_means(blocks: MeasuredBlocks, settled: Settled) -> Means:
    """Return the means of all measures without intervals."""
    return Means.so_far(settled.counts, settled.sums).or_so_far(*_so_far(blocks))


def _so_far(blocks: MeasuredBlocks) -> tuple[Floats, Floats]:
    """Return the number of all values so far, and their sums."""
    return blocks.values, np.where(blocks.values > 0.0, blocks.means * blocks.values, 0.0)


def _scales(problem: Problem) -> Floats:
    """Return the sub-Gaussian scale of every measure with known noise, shape (K, L, M)."""
    if problem.noise_covariance is not None:
        return np.sqrt(np.diagonal(problem.noise_covariance, axis1=2, axis2=3))
    return np.asarray(problem.measure_noise_std)


def _ends(problem: Problem, k: int, group: int, m: int) -> tuple[float | None, float | None]:
    """Return floor and ceiling of a measure of a cell, as far as its mean can miss them."""
    floor = ceiling = None
    for row in problem.limit_rows:
        is_own = row.control is None and (row.measure, row.group) == (m, group)
        if is_own and problem.can_be_missed(row, k):
            if row.is_floor:
                floor = float(row.bounds[k])
            else:
                ceiling = float(row.bounds[k])
    return floor, ceiling


# ------------------------------------------------------------------ limits and measures


def limits_of_measures(
    blocks: MeasuredBlocks,
    settled: Settled,
    problem: Problem,
    delta: float,
    threshold: float,
    in_range: InRange,
    *,
    holds: bool,
) -> tuple[MeasureLimit, ...]:
    """Return every limit of every arm: its bound, its mean, and the evidence that it is kept.

    A limit is shown as met if its bets have gained 2 / delta, or if its interval is within the
    limit. If the limit is missed, the bets ever gain this with probability at most delta / 2, and
    the end of the interval is wrong with probability at most delta / 2 (see `_level`). So it is
    ever shown as met with probability at most delta, for each limit.

    Parameters
    ----------
    blocks : MeasuredBlocks
        The current data.
    settled : Settled
        The values that means count.
    problem : Problem
        The problem with the limits.
    delta : float
        The accepted probability of a wrong answer.
    threshold : float
        The log evidence at which the policy settles a ledger that it tests separately; the ledger
        is infinite from then on.
    in_range : callable
        As in `cell_estimates`.
    holds : bool
        Whether the guarantee holds; without it no limit counts as kept.
    """
    evidence, needed = blocks.limit_evidence(), math.log(2.0) - math.log(delta)

    @cache
    def means_at(level: float) -> Means:
        return _means(blocks, settled, problem, level)

    plain = _plain_means(blocks, settled)
    own = [
        _own_in_range(row, problem, delta, in_range, plain)
        or _own(row, problem, _level(delta), means_at)
        for row in problem.limit_rows
    ]
    found = []
    for k, r, row in _limits_of_arms(problem):
        strength = float(evidence[k, r])
        gained = threshold if strength == math.inf else strength
        mean, lower, upper = own[r].at(k)
        found.append(
            MeasureLimit(
                problem.arms[k],
                problem.name_of(row),
                None if row.group is None else problem.groups[row.group],
                "floor" if row.is_floor else "ceiling",
                float(row.bounds[k]),
                estimate=mean,
                lower=lower,
                upper=upper,
                log_evidence=strength if math.isfinite(strength) else None,
                met_by_bets=holds and gained >= needed,
                control=None if row.control is None else problem.arms[row.control],
                needed=needed,
            )
        )
    return tuple(found)


def _own(
    row: LimitRow, problem: Problem, level: float, means_at: Callable[[float], Means]
) -> Means:
    """Return the means of all arms, or their differences from the control's, that a limit is on.

    `means_at` returns the means of all measures with intervals of a level. The `level` is shared by
    the means that a limit consists of.
    """
    weights = _groups_of(row, problem)[:, np.newaxis] * row.weights
    arms = 1 if row.control is None else 2
    return _limited(means_at(level / (arms * np.count_nonzero(weights))), row, problem)


def _limited(means: Means, row: LimitRow, problem: Problem) -> Means:
    """Return what a limit is on, from the means of all measures."""
    own = means.combined(_groups_of(row, problem)[:, np.newaxis] * row.weights)
    return own if row.control is None else own.apart_from(row.control)


def _own_in_range(
    row: LimitRow, problem: Problem, delta: float, in_range: InRange, plain: Means
) -> Means | None:
    """Return the same if measures have ranges; NaN for arms that the limit is not on.

    `plain`: the means of all measures.
    """
    find = in_range(row.measure)
    if find is None:
        return None
    arms = np.eye(len(problem.arms))
    targets = np.kron(
        arms if row.control is None else arms - arms[row.control], _groups_of(row, problem)
    )
    limited = np.isfinite(row.bounds)
    found = np.full((3, len(arms)), np.nan)
    found[:, limited] = find.of(targets[limited], delta)
    return Means(*found).around(_limited(plain, row, problem).mean)


def _groups_of(row: LimitRow, problem: Problem) -> Floats:
    """Return the weight of every group in the limited mean, shape (L,)."""
    if row.group is None:
        # A group without weight may have no values, and does not count in overall limits.
        return np.asarray(problem.shares)
    return np.asarray(np.eye(len(problem.groups))[row.group])


def _limits_of_arms(problem: Problem) -> Iterator[tuple[int, int, LimitRow]]:
    for k in range(len(problem.arms)):
        for r, row in enumerate(problem.limit_rows):
            if problem.can_be_missed(row, k):
                yield k, r, row


def values_of_measures(
    blocks: MeasuredBlocks, settled: Settled, problem: Problem
) -> tuple[MeasureValues, ...]:
    """Return for every measure of a cell the numbers of known and missing values, and the mean.

    Known are also the early values of open pulls: a share of missing values must not look larger
    because pulls that were given up end sooner than the others.

    Parameters
    ----------
    blocks, settled, problem
        As in `limits_of_measures`.
    """
    values = blocks.values
    missing = blocks.never_known.reshape(values.shape)
    means = _plain_means(blocks, settled)
    return tuple(
        MeasureValues(
            problem.arms[k],
            problem.groups[group],
            problem.measures[m],
            values=int(values[k, group, m]),
            missing=int(missing[k, group, m]),
            mean=means.at((k, group, m))[0],
        )
        for k, group, m in np.ndindex(values.shape)
    )
