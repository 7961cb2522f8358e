"""Reports of block betting if a pull gives several measures."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.block_betting import promise
from fairtrial.confidence.bounds import NormalMixture
from fairtrial.core.recommendation import Estimate, Guarantee
from fairtrial.subpopulations.policies.measured_blocks import MeasuredBlocks
from fairtrial.subpopulations.problem import LimitRow, Problem

__all__ = [
    "arm_estimates",
    "cell_estimates",
    "describe_limits",
    "describe_measures",
    "promise_on_measures",
]

Floats = NDArray[np.float64]


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


def cell_estimates(blocks: MeasuredBlocks, problem: Problem, delta: float) -> tuple[Estimate, ...]:
    """Return an estimate of every measure of every cell."""
    values, means, radius = blocks.values, blocks.means, _radius(blocks, problem, delta)
    found = []
    for k, group, m in np.ndindex(values.shape):
        labels = {
            "arm": problem.arms[k],
            "group": problem.groups[group],
            "measure": problem.measures[m],
        }
        floor, ceiling = _ends(problem, k, group, m)
        known = values[k, group, m] > 0
        mean, reach = float(means[k, group, m]), float(radius[k, group, m])
        low, high = _range(problem, m)
        found.append(
            Estimate(
                labels=labels,
                pulls=int(values[k, group, m]),
                mean=mean if known else None,
                lower=max(mean - reach, low) if known else None,
                upper=min(mean + reach, high) if known else None,
                lower_limit=floor,
                upper_limit=ceiling,
            )
        )
    return tuple(found)


def arm_estimates(blocks: MeasuredBlocks, problem: Problem, delta: float) -> tuple[Estimate, ...]:
    """Return an estimate of the quality of every arm, in the units of the objective."""
    weights = problem.shares[:, np.newaxis] * np.asarray(problem.objective_weights)
    used = weights != 0.0
    radius = _radius(blocks, problem, delta / used.sum())
    spread = blocks.objective_spread.reward_range or (-math.inf, math.inf)
    found = []
    for k, arm in enumerate(problem.arms):
        pulls = int(blocks.pulls[k].sum())
        if not (blocks.values[k][used] > 0).all():
            found.append(Estimate(labels={"arm": arm}, pulls=pulls))
            continue
        mean = float(weights[used] @ blocks.means[k][used])
        reach = float(np.abs(weights[used]) @ radius[k][used])
        lower, upper = max(mean - reach, spread[0]), min(mean + reach, spread[1])
        found.append(Estimate({"arm": arm}, pulls, mean=mean, lower=lower, upper=upper))
    return tuple(found)


def _radius(blocks: MeasuredBlocks, problem: Problem, level: float) -> Floats:
    return NormalMixture().radius(blocks.values, level, _scales(problem))


def _scales(problem: Problem) -> Floats:
    """Return the sub-Gaussian scale of every measure, shape (K, L, M)."""
    if problem.measure_ranges is not None:
        half = 0.5 * np.ptp(problem.measure_ranges, axis=1)
        return np.broadcast_to(half, (*problem.shape, half.size))
    if problem.noise_covariance is not None:
        return np.sqrt(np.diagonal(problem.noise_covariance, axis1=2, axis2=3))
    return np.asarray(problem.measure_noise_std)


def _range(problem: Problem, m: int) -> tuple[float, float]:
    ranges = problem.measure_ranges
    return (-math.inf, math.inf) if ranges is None else (float(ranges[m, 0]), float(ranges[m, 1]))


def _ends(problem: Problem, k: int, group: int, m: int) -> tuple[float | None, float | None]:
    """Return floor and ceiling of a measure of a cell."""
    floor = ceiling = None
    for row in problem.limit_rows:
        if (row.measure, row.group) == (m, group) and math.isfinite(row.bounds[k]):
            if row.is_floor:
                floor = float(row.bounds[k])
            else:
                ceiling = float(row.bounds[k])
    return floor, ceiling


# ------------------------------------------------------------------ limits and measures


def describe_limits(
    blocks: MeasuredBlocks, problem: Problem, answer: int | None, threshold: float
) -> list[dict[str, Any]]:
    """Return every limit of every arm: its bound, its mean, its evidence, and its status.

    Parameters
    ----------
    blocks : MeasuredBlocks
        The current data.
    problem : Problem
        The problem with the limits.
    answer : int or None
        The arm that was given as the answer; all its limits are kept.
    threshold : float
        The log evidence that settles a limit on its own.
    """
    evidence, means = blocks.limit_evidence(), blocks.means
    # A group without weight may have no values, and does not count in overall limits.
    weighted = np.where(problem.shares[:, np.newaxis] > 0.0, means, 0.0)
    found = []
    for k, r, row in _limits_of_arms(problem):
        strength = float(evidence[k, r])
        own = row.own_means(weighted if row.group is None else means, problem.shares)
        kept = k == answer or strength >= threshold
        found.append(
            {
                "arm": problem.arms[k],
                "measure": problem.measures[row.measure],
                "group": None if row.group is None else problem.groups[row.group],
                "kind": "floor" if row.is_floor else "ceiling",
                "bound": float(row.bounds[k]),
                "estimate": float(own[k]) if math.isfinite(own[k]) else None,
                "log_evidence": strength if math.isfinite(strength) else None,
                "standing": "kept" if kept else "not settled",
            }
        )
    return found


def _limits_of_arms(problem: Problem) -> Iterator[tuple[int, int, LimitRow]]:
    for k in range(len(problem.arms)):
        for r, row in enumerate(problem.limit_rows):
            if math.isfinite(row.bounds[k]):
                yield k, r, row


def describe_measures(blocks: MeasuredBlocks, problem: Problem) -> list[dict[str, Any]]:
    """Return for every measure of a cell the numbers of known and missing values, and the mean.

    Missing values are those in settled blocks that will never be known.
    """
    values, missing, means = blocks.values, blocks.missing, blocks.means
    return [
        {
            "arm": problem.arms[k],
            "group": problem.groups[group],
            "measure": problem.measures[m],
            "values": int(values[k, group, m]),
            "missing": int(missing[k, group, m]),
            "mean": float(means[k, group, m]) if values[k, group, m] else None,
        }
        for k, group, m in np.ndindex(values.shape)
    ]
