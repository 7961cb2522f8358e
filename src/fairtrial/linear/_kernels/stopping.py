"""One pull at a time: the test whether there is enough evidence.

Gaps are compared with ``level * ||z - z'||^2`` in the metric of the inverse Gram matrix. The noise
has unit scale, or an estimated one.
"""

import math

import numpy as np

from fairtrial.core.arithmetic import square
from fairtrial.core.compilation import kernel
from fairtrial.linear._kernels.estimates import (
    LEAST_FREEDOM,
    estimate,
    freedom_of,
    noise_of,
    refresh,
)
from fairtrial.linear._kernels.matrices import (
    Floats,
    Integers,
    dot,
    log_determinant,
    multiply,
    quadratic,
)
from fairtrial.linear._kernels.model import Model, difference, resolution
from fairtrial.linear._kernels.track import (
    AGE,
    CHECKS,
    EVIDENCE,
    FINISHED,
    GAP_INDEX,
    GREEDY,
    HOPELESS,
    LEVEL,
    LOOK,
    MIXTURE,
    NOISE,
    PHASE,
    READY,
    REFRESH,
    RIDGE,
    RIVAL,
    SHORTFALL,
    SOARE,
    STARTED,
    STATIC,
    TOLD,
    WINNER,
    Test,
    Track,
)

LOOK_GROWTH = 1.1


@kernel
def level_of(test: Test, track: Track, noise: float) -> float:
    """Return the level for squared gaps, per unit of ||z - z'||^2, for the data so far."""
    told = float(track.control[TOLD])
    if test.kind == SOARE:
        inside = 6.0 / square(math.pi) * square(told) * square(test.candidates)
        return noise * 8.0 * math.log(inside / test.delta)
    if test.kind == STATIC:
        return (
            noise * 2.0 * math.log(square(math.pi) / 6.0 * square(told) * test.errors / test.delta)
        )
    if test.kind == CHECKS or test.kind == PHASE:
        look = float(track.control[LOOK])
        return noise * 2.0 * math.log(test.errors * look * (look + 1.0) / test.delta)
    if test.kind == MIXTURE:
        rank = track.theta.size
        joint = np.empty((rank, rank))
        work = np.empty((rank, rank))
        for i in range(rank):
            for j in range(rank):
                joint[i, j] = track.prior[i, j] + track.matrix[i, j]
        log_det = log_determinant(joint, work) - test.prior_log_det
        return noise * 2.0 * (1.0 + test.spread) * (0.5 * log_det - math.log(test.delta))
    if test.kind == RIDGE:
        rank = track.theta.size
        # In one dimension, the published formula has only half of the ln(1/delta) that is needed.
        inside = rank * math.log(1.0 + told * test.reach) - max(rank, 2) * math.log(test.delta)
        return square(math.sqrt(noise * inside) + test.radius)
    return noise * test.constant


@kernel
def may_test(test: Test, track: Track) -> bool:
    """Return whether the level is valid at this time."""
    if test.kind == CHECKS:
        due = False
        while math.ceil(LOOK_GROWTH ** float(track.control[LOOK] + 1)) <= track.control[TOLD]:
            track.control[LOOK] += 1
            due = True
        return due and track.control[STARTED] == 1
    return track.control[STARTED] == 1


@kernel
def next_look(track: Track) -> int:
    """Return the number of results at the next look, which is fixed in advance."""
    look = track.control[LOOK] + 1
    while math.ceil(LOOK_GROWTH ** float(look)) <= track.control[TOLD]:
        look += 1
    return math.ceil(LOOK_GROWTH ** float(look))


@kernel
def mark_leaders(model: Model, test: Test, track: Track) -> None:
    """Mark the best `top` candidates that are not ruled out; ties go to the first."""
    candidates = track.chosen.size
    if test.top == 1:
        best = -1
        most = -math.inf
        for k in range(candidates):
            track.chosen[k] = 0
            if not track.ruled_out[k]:
                score = dot(model.candidates[k], track.theta)
                if best < 0 or score > most:
                    best = k
                    most = score
        track.chosen[best] = 1
        return
    scores = np.empty(candidates)
    for k in range(candidates):
        track.chosen[k] = 0
        scores[k] = -dot(model.candidates[k], track.theta)
    order = np.argsort(scores, kind="mergesort")
    for k in range(test.top):
        track.chosen[order[k]] = 1


@kernel
def examine(model: Model, test: Test, rule: int, track: Track, testable: bool) -> None:
    """Find the leaders, the evidence for them, and the rule's most important pair.

    A stop is confirmed with recomputed inverses.
    """
    if test.estimated and freedom_of(track) < LEAST_FREEDOM:
        testable = False
    _weigh(model, test, rule, track, testable)
    if testable and _would_stop(track) and track.control[AGE] > 0:
        refresh(model, test, track)
        _weigh(model, test, rule, track, testable)
    if testable:
        if track.evidence[EVIDENCE] >= track.evidence[LEVEL]:
            track.control[FINISHED] = 1
        elif track.evidence[SHORTFALL] > 0.0:
            track.control[HOPELESS] = 1


@kernel
def _would_stop(track: Track) -> bool:
    enough = track.evidence[EVIDENCE] >= track.evidence[LEVEL]
    return enough or track.evidence[SHORTFALL] > 0.0


@kernel
def _weigh(model: Model, test: Test, rule: int, track: Track, testable: bool) -> None:
    estimate(model, test, track)
    noise = noise_of(model, test, track)
    level = level_of(test, track, noise)
    if rule == GREEDY and testable:
        _rule_out(model, test, level, track)
    mark_leaders(model, test, track)
    least = scan(model, test, rule, track, track.inverse, level)
    track.evidence[EVIDENCE] = 0.5 * least / noise
    track.evidence[LEVEL] = 0.5 * level / noise
    track.evidence[NOISE] = noise


@kernel
def height_of(track: Track) -> float:
    """Return the level at the last look at the data."""
    return 2.0 * track.evidence[LEVEL] * track.evidence[NOISE]


@kernel
def scan(model: Model, test: Test, rule: int, track: Track, inverse: Floats, level: float) -> float:
    """Return the smallest ratio of squared gap to variance, from leaders to others.

    The possible bias due to misspecification is subtracted from each gap. Store the pair with the
    largest gap index, ``-gap + sqrt(level) width``, or, for other rules, the pair with the least
    evidence, ignoring bias; and store the largest shortfall.
    """
    rank = track.theta.size
    target = np.empty(rank)
    root_level = math.sqrt(max(level, 0.0))
    least = math.inf
    most = -math.inf
    direction = np.empty(rank)
    track.evidence[SHORTFALL] = -math.inf
    for i in range(track.chosen.size):
        if not track.chosen[i]:
            continue
        for j in range(track.chosen.size):
            if track.chosen[j] or track.ruled_out[j]:
                continue
            difference(model, i, j, target)
            gap = dot(target, track.theta)
            variance = quadratic(inverse, target)
            if variance <= 0.0:
                # Rounding has spoilt the inverse; it is recomputed with the next result.
                track.control[AGE] = REFRESH
                least = 0.0
                continue
            width = root_level * math.sqrt(variance)
            excess = max(0.0, gap + test.tolerance)
            ratio = excess * excess / variance
            index = width - gap if rule == GAP_INDEX else -ratio
            if test.misspecification > 0.0:
                multiply(inverse, target, direction)
                bias = resolution(model, test.misspecification, track.counts, direction)
                shortfall = bias - gap - test.tolerance - width
                track.evidence[SHORTFALL] = max(track.evidence[SHORTFALL], shortfall)
                excess = max(0.0, excess - bias)
                ratio = excess * excess / variance
            least = min(least, ratio)
            if index > most:
                most = index
                track.control[WINNER] = i
                track.control[RIVAL] = j
    return least


@kernel
def _rule_out(model: Model, test: Test, level: float, track: Track) -> None:
    """Rule out every beaten candidate; if a set is wanted, the remaining ones are the best."""
    candidates = track.chosen.size
    target = np.empty(track.theta.size)
    direction = np.empty(track.theta.size)
    beaten = np.zeros(candidates, dtype=np.bool_)
    for i in range(candidates):
        for j in range(candidates):
            if i == j or track.ruled_out[i] or track.ruled_out[j]:
                continue
            difference(model, i, j, target)
            gap = dot(target, track.theta)
            if test.misspecification > 0.0:
                multiply(track.inverse, target, direction)
                gap -= resolution(model, test.misspecification, track.counts, direction)
            if gap > 0.0 and gap * gap >= level * quadratic(track.inverse, target):
                beaten[j] = True
    for j in range(candidates):
        if beaten[j]:
            track.ruled_out[j] = 1


@kernel
def mark_live(model: Model, test: Test, track: Track, live: Integers) -> None:
    """Mark the leaders, and the candidates that at least one leader does not beat yet."""
    target = np.empty(track.theta.size)
    direction = np.empty(track.theta.size)
    level = height_of(track)
    for j in range(live.size):
        live[j] = 1 - track.ruled_out[j]
        if track.chosen[j] or track.ruled_out[j] or not track.control[READY]:
            continue
        live[j] = 0
        for i in range(live.size):
            if track.chosen[i]:
                difference(model, i, j, target)
                excess = dot(target, track.theta) + test.tolerance
                if test.misspecification > 0.0:
                    multiply(track.inverse, target, direction)
                    excess -= resolution(model, test.misspecification, track.counts, direction)
                excess = max(0.0, excess)
                if excess * excess < level * quadratic(track.inverse, target):
                    live[j] = 1
                    break
