"""One pull at a time: the data, the estimates, and the noise."""

import math

import numpy as np

from fairtrial.confidence.noise_kernels import record_result
from fairtrial.core.arithmetic import copy_into, cube, square
from fairtrial.core.compilation import kernel
from fairtrial.linear._kernels.matrices import (
    Floats,
    add_outer,
    add_row,
    dot,
    gram,
    multiply,
    square_of,
    whitener,
    whitener_of_rows,
)
from fairtrial.linear._kernels.model import Model
from fairtrial.linear._kernels.track import AGE, AWAY, READY, REFRESH, RIDGE, TOLD, Test, Track

LEAST_FREEDOM = 5
"""Degrees of freedom that an estimated noise must have before any test."""

QUANTILE = 1.2816
"""An estimated variance is its upper 90 % confidence bound for normal noise."""

LEAST_NOISE = 1e-12
"""Smallest estimate of a variance, relative to the mean square of the rewards."""


@kernel
def refresh(model: Model, test: Test, track: Track) -> None:
    """Recompute the inverses from the counts; do nothing while they do not exist."""
    rank = track.theta.size
    root = np.empty((rank, rank))
    joint = np.empty((rank, rank))
    track.control[AGE] = 0
    gram(model.arms, track.counts, track.matrix)
    for i in range(rank):
        for j in range(rank):
            joint[i, j] = track.matrix[i, j]
            if test.kind == RIDGE:
                joint[i, j] += track.prior[i, j]
    if not (whitener(joint, root) or _whitener_of_data(model, test, track, root)):
        return
    square_of(root, track.inverse)
    if not track.control[READY]:
        copy_into(track.early, track.record)
    track.control[READY] = 1
    if track.control[AWAY] == 0:
        copy_into(track.ahead, track.inverse)
        return
    for k in range(track.pending.size):
        if track.pending[k] != 0.0:
            add_outer(joint, model.arms[k], track.pending[k])
    if whitener(joint, root):
        square_of(root, track.ahead)


@kernel
def _whitener_of_data(model: Model, test: Test, track: Track, root: Floats) -> bool:
    """Fill the whitener from the rows if the Gram matrix is too ill-conditioned."""
    return test.kind != RIDGE and whitener_of_rows(model.arms, track.counts, root)


@kernel
def issue(model: Model, track: Track, arm: int) -> None:
    """Count a pull as in flight; later choices assume that its result will come."""
    track.pending[arm] += 1.0
    track.control[AWAY] += 1
    if track.control[READY]:
        work = np.empty(track.theta.size)
        add_row(track.ahead, model.arms[arm], work)


@kernel
def give_up(model: Model, test: Test, track: Track, arm: int) -> None:
    """Remove a pull from those in flight."""
    track.pending[arm] -= 1.0
    track.control[AWAY] -= 1
    if track.control[READY]:
        refresh(model, test, track)


@kernel
def add_reward(
    model: Model, test: Test, track: Track, arm: int, reward: float, in_flight: bool
) -> None:
    """Add a reward to the sums of the estimates; callers that need theta compute it."""
    row = model.arms[arm]
    rank = row.size
    track.counts[arm] += 1.0
    track.sums[arm] += reward
    track.squares[arm] += reward * reward
    record_result(track.record, arm, reward)
    track.control[TOLD] += 1
    track.control[AGE] += 1
    if in_flight:
        track.pending[arm] -= 1.0
        track.control[AWAY] -= 1
    for i in range(rank):
        track.right[i] += reward * row[i]
    add_outer(track.matrix, row, 1.0)
    if not track.control[READY]:
        if track.control[TOLD] >= rank:
            refresh(model, test, track)
    elif track.control[AGE] >= REFRESH:
        refresh(model, test, track)
    else:
        work = np.empty(rank)
        add_row(track.inverse, row, work)
        if track.control[AWAY] == 0:
            copy_into(track.ahead, track.inverse)
        elif not in_flight:
            add_row(track.ahead, row, work)


@kernel
def estimate(model: Model, test: Test, track: Track) -> None:
    """Compute theta; with a new inverse, add a step that recovers the lost digits.

    If means are about 1e9 times the noise, those digits decide.
    """
    rank = track.theta.size
    multiply(track.inverse, track.right, track.theta)
    if track.control[AGE] > 0:
        return
    residual = np.zeros(rank)
    for k in range(track.counts.size):
        if track.counts[k] > 0.0:
            left = track.sums[k] - track.counts[k] * dot(model.arms[k], track.theta)
            for i in range(rank):
                residual[i] += left * model.arms[k, i]
    step = np.empty(rank)
    if test.kind == RIDGE:
        multiply(track.prior, track.theta, step)
        for i in range(rank):
            residual[i] -= step[i]
    multiply(track.inverse, residual, step)
    for i in range(rank):
        track.theta[i] += step[i]


@kernel
def noise_of(model: Model, test: Test, track: Track) -> float:
    """Return the variance of the noise: one, or an upper confidence bound from the residuals."""
    if not test.estimated:
        return 1.0
    freedom = freedom_of(track)
    if freedom < 1.0:
        return 1.0
    residual = 0.0
    total = 0.0
    for k in range(track.counts.size):
        count = track.counts[k]
        if count > 0.0:
            mean = track.sums[k] / count
            residual += max(0.0, track.squares[k] - count * mean * mean)
            residual += count * square(mean - dot(model.arms[k], track.theta))
            total += track.squares[k]
    # Wilson and Hilferty's approximation of a chi-squared quantile.
    spread = 2.0 / (9.0 * freedom)
    quantile = freedom * cube(1.0 - spread - QUANTILE * math.sqrt(spread))
    least = LEAST_NOISE * total / track.control[TOLD]
    return max(residual / quantile, least, 1e-300)


@kernel
def freedom_of(track: Track) -> float:
    """Return the degrees of freedom of the residuals."""
    return float(track.control[TOLD] - track.theta.size)
