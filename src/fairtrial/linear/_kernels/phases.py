"""Phases of pulls that are fixed in advance; each is judged by its own data."""

import math

import numpy as np

from fairtrial.confidence.noise_kernels import record_result
from fairtrial.core.compilation import kernel
from fairtrial.core.draw_kernels import draw
from fairtrial.core.draws import Source
from fairtrial.linear._kernels.matrices import (
    Floats,
    Integers,
    combine,
    dot,
    gram,
    invert,
    is_seen,
    multiply,
    quadratic,
    whiten_twice,
    whitener_of_rows,
)
from fairtrial.linear._kernels.model import Model, difference, resolution

OPEN, ENOUGH, HOPELESS = range(3)
"""Status after a phase."""


@kernel
def next_of(to_issue: Floats, leading: Floats, support: Integers) -> int:
    """Take a pull of a leading arm, once each, or else of the arm with the most pulls left.

    Ties go to the first.
    """
    best = support[0]
    for k in support:
        if leading[k] > 0.0:
            leading[k] = 0.0
            to_issue[k] -= 1.0
            return k
        if to_issue[k] > to_issue[best]:
            best = k
    to_issue[best] -= 1.0
    return best


@kernel
def run_phase(
    results: Floats,
    record: Floats,
    support: Integers,
    source: Source,
    factors: Floats,
    generator: np.random.Generator,
    most: int,
) -> int:
    """Make the remaining pulls of a phase, at most `most`; return their number.

    The rows of `results` are the counts and sums of all data, the pulls to issue, the counts and
    sums of the phase, and the arms that are pulled before all others.
    """
    counts, sums, to_issue, got, own = results[0], results[1], results[2], results[3], results[4]
    leading = results[5]
    left = 0.0
    for k in support:
        left += to_issue[k]
    pulls = min(int(left), most)
    for _ in range(pulls):
        arm = next_of(to_issue, leading, support)
        reward = factors[arm] * draw(
            source.kind, source.first, source.second, source.starts, arm, generator
        )
        counts[arm] += 1.0
        sums[arm] += reward
        got[arm] += 1.0
        own[arm] += reward
        record_result(record, arm, reward)
    return pulls


@kernel
def judge(
    model: Model,
    results: Floats,
    level: float,
    tolerance: float,
    misspecification: float,
    alive: Integers,
) -> int:
    """Remove from `alive` the candidates beaten in this phase; return the status.

    ENOUGH if one candidate is left, or one that is at most `tolerance` worse than any other left;
    HOPELESS if a gap of the leader is smaller than what misspecified means can hide; else OPEN.
    """
    arms, candidates = model.arms, model.candidates
    rank = arms.shape[1]
    seen, inverse, null_space, theta = _fit(arms, results)
    live = np.flatnonzero(alive)
    target = np.empty(rank)
    direction = np.empty(rank)
    leader = live[0]
    for j in live:
        if dot(candidates[j], theta) > dot(candidates[leader], theta):
            leader = j
    for j in live:
        for i in live:
            difference(model, i, j, target)
            multiply(inverse, target, direction)
            gap = dot(target, theta) - resolution(model, misspecification, results[3], direction)
            if gap <= 0.0 or not is_seen(null_space, seen, target):
                continue
            if gap * gap >= level * quadratic(inverse, target):
                alive[j] = 0
                break
    standing = ENOUGH
    for j in live:
        if j == leader or not alive[j]:
            continue
        difference(model, leader, j, target)
        if not is_seen(null_space, seen, target):
            return OPEN
        multiply(inverse, target, direction)
        bias = resolution(model, misspecification, results[3], direction)
        excess = dot(target, theta) + tolerance
        width = math.sqrt(level * dot(target, direction))
        if excess + width < bias:
            return HOPELESS
        if tolerance == 0.0 or excess - bias < width:
            standing = OPEN
    if standing == ENOUGH:
        for j in live:
            alive[j] = 1 if j == leader else 0
    return standing


@kernel
def _estimate(arms: Floats, results: Floats, inverse: Floats, theta: Floats) -> None:
    """Fill theta from the phase's data, as a correction to a prediction from all earlier data.

    Rewards can be far larger than the noise. With the prediction, errors of the inverse and
    components of differences that the phase does not measure only matter by the prediction's error.
    """
    rank = theta.size
    work = np.empty(rank)
    step = np.empty(rank)
    residual = np.empty(rank)
    left = np.empty(arms.shape[0])
    before = np.empty(arms.shape[0])
    for k in range(arms.shape[0]):
        before[k] = results[0, k] - results[3, k]
        left[k] = results[1, k] - results[4, k]
    for i in range(rank):
        theta[i] = 0.0
    root = np.empty((rank, rank))
    if whitener_of_rows(arms, before, root):
        combine(arms, left, residual)
        whiten_twice(root, residual, work, theta)
    for _ in range(2):
        for k in range(arms.shape[0]):
            left[k] = results[4, k] - results[3, k] * dot(arms[k], theta)
        combine(arms, left, residual)
        multiply(inverse, residual, step)
        for i in range(rank):
            theta[i] += step[i]


@kernel
def _fit(arms: Floats, results: Floats) -> tuple[int, Floats, Floats, Floats]:
    """Return the rank of the phase's data, the inverse, the null space, and the estimate."""
    rank = arms.shape[1]
    matrix = np.empty((rank, rank))
    inverse = np.empty((rank, rank))
    null_space = np.empty((rank, rank))
    theta = np.empty(rank)
    gram(arms, results[3], matrix)
    seen = invert(matrix, inverse, null_space)
    _estimate(arms, results, inverse, theta)
    return seen, inverse, null_space, theta


@kernel
def phase_values(arms: Floats, candidates: Floats, results: Floats) -> Floats:
    """Return every candidate's value by this phase alone."""
    _, _, _, theta = _fit(arms, results)
    values = np.empty(candidates.shape[0])
    for k in range(values.size):
        values[k] = dot(candidates[k], theta)
    return values
