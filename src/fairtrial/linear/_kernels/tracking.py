"""One pull at a time: estimates, the stopping test by level, and the rules that choose.

Gaps are held against ``level * ||z - z'||^2`` in the metric of the inverse Gram matrix; the
noise has unit scale.
"""

import math
from typing import NamedTuple

import numba as nb
import numpy as np

from fairtrial.linear._kernels.matrices import (
    Floats,
    Integers,
    add_outer,
    add_row,
    dot,
    gram,
    log_determinant,
    multiply,
    quadratic,
    square_of,
    whitener,
)
from fairtrial.linear._kernels.model import Model, difference

SOARE, STATIC, CHECKS, PHASE, MIXTURE, RIDGE, CONSTANT = range(7)
"""Levels: see `fairtrial.linear.policies.levels`."""

GAP_INDEX, SHARES, GREEDY, GAME, FRANK_WOLFE = range(5)
"""Sampling rules."""

LOOK_GROWTH = 1.1
REFRESH = 500
TIE = 1e-10


class Test(NamedTuple):
    """What the stopping test is made of."""

    kind: int
    delta: float
    errors: float  # ordered pairs of candidates whose confusion would be an error
    candidates: float
    spread: float  # of the mixture's prior, in start-up designs
    prior_log_det: float
    constant: float
    radius: float  # sqrt(eta) S of the ridge level, and largest squared row over eta
    reach: float
    initial: float  # pulls of every basis arm before anything else
    epsilon: float
    top: int


NUMBER_OF_TESTS = 12


@nb.njit(cache=True, nogil=True)
def open_test(packed: Floats) -> Test:
    """Return the test's numbers by name; they are the last of a packed problem."""
    at = packed.size - NUMBER_OF_TESTS
    return Test(
        int(packed[at]),
        packed[at + 1],
        packed[at + 2],
        packed[at + 3],
        packed[at + 4],
        packed[at + 5],
        packed[at + 6],
        packed[at + 7],
        packed[at + 8],
        packed[at + 9],
        packed[at + 10],
        int(packed[at + 11]),
    )


class Track(NamedTuple):
    """Everything that changes; K arms, M candidates, r coordinates."""

    counts: Floats  # (K,), as are the next four
    sums: Floats
    pending: Floats
    shares: Floats  # what is tracked
    gains: Floats  # of the arms in the game
    matrix: Floats  # (r, r), the Gram matrix of the results
    inverse: Floats  # (r, r), its inverse
    ahead: Floats  # (r, r), with the pulls in flight
    prior: Floats  # (r, r), of the mixture; of the ridge it is part of the inverses
    right: Floats  # (r,), sum of reward times row
    theta: Floats  # (r,)
    evidence: Floats  # (3,): EVIDENCE, LEVEL, REGRET
    chosen: Integers  # (M,), leaders, or the answer
    ruled_out: Integers  # (M,)
    support: Integers  # (K,), arms with shares
    control: Integers  # see the indices below


READY, STARTED, FINISHED, TOLD, LOOK, WINNER, RIVAL, AGE, AWAY, SUPPORT = range(10)
"""Entries of `control`: whether theta can be estimated and the start-up is told, whether the test
has stopped, results, looks so far, the pair that matters most, results since the inverse was made
anew, pulls in flight, and arms in the support."""

EVIDENCE, LEVEL, REGRET = range(3)


@nb.njit(cache=True, nogil=True)
def track_sizes(arms: int, candidates: int, rank: int) -> tuple[int, int]:
    """Return the lengths of the two buffers that a track lives in."""
    return 5 * arms + 4 * rank * rank + 2 * rank + 3, 2 * candidates + arms + 10


@nb.njit(cache=True, nogil=True)
def open_track(floats: Floats, integers: Integers, arms: int, candidates: int, rank: int) -> Track:
    """Return the named views of the two buffers."""
    data = floats[: 5 * arms].reshape((5, arms))
    at = 5 * arms
    matrices = floats[at : at + 4 * rank * rank].reshape((4, rank, rank))
    at += 4 * rank * rank
    flags = integers[: 2 * candidates].reshape((2, candidates))
    start = 2 * candidates
    return Track(
        data[0], data[1], data[2], data[3], data[4],
        matrices[0], matrices[1], matrices[2], matrices[3],
        floats[at : at + rank], floats[at + rank : at + 2 * rank],
        floats[at + 2 * rank : at + 2 * rank + 3],
        flags[0], flags[1], integers[start : start + arms],
        integers[start + arms : start + arms + 10],
    )  # fmt: skip


# ------------------------------------------------------------------------------ the level


@nb.njit(cache=True, nogil=True)
def level_of(test: Test, track: Track) -> float:
    """Return what squared gaps are held against, per unit of variance, at the data so far."""
    told = float(track.control[TOLD])
    if test.kind == SOARE:
        inside = 6.0 / math.pi**2 * told**2 * test.candidates**2
        return 8.0 * math.log(inside / test.delta)
    if test.kind == STATIC:
        return 2.0 * math.log(math.pi**2 / 6.0 * told**2 * test.errors / test.delta)
    if test.kind == CHECKS or test.kind == PHASE:
        look = float(track.control[LOOK])
        return 2.0 * math.log(test.errors * look * (look + 1.0) / test.delta)
    if test.kind == MIXTURE:
        rank = track.theta.size
        joint = np.empty((rank, rank))
        work = np.empty((rank, rank))
        for i in range(rank):
            for j in range(rank):
                joint[i, j] = track.prior[i, j] + track.matrix[i, j]
        log_det = log_determinant(joint, work) - test.prior_log_det
        return 2.0 * (1.0 + test.spread) * (0.5 * log_det - math.log(test.delta))
    if test.kind == RIDGE:
        inside = (1.0 + told * test.reach) / test.delta
        return (math.sqrt(track.theta.size * math.log(inside)) + test.radius) ** 2
    return test.constant


@nb.njit(cache=True, nogil=True)
def _may_test(test: Test, track: Track) -> bool:
    """Return whether this is a moment at which the level holds."""
    if test.kind == CHECKS:
        due = False
        while math.ceil(LOOK_GROWTH ** (track.control[LOOK] + 1)) <= track.control[TOLD]:
            track.control[LOOK] += 1
            due = True
        return due
    return track.control[STARTED] == 1


# ------------------------------------------------------------------------------- the data


@nb.njit(cache=True, nogil=True)
def start_track(model: Model, test: Test, track: Track) -> None:
    """Answer at once what needs no data."""
    if test.top >= model.candidates.shape[0]:
        track.control[FINISHED] = 1
        for k in range(track.chosen.size):
            track.chosen[k] = 1
    if test.kind == RIDGE:
        refresh(model, test, track)


@nb.njit(cache=True, nogil=True)
def refresh(model: Model, test: Test, track: Track) -> None:
    """Make the inverses anew from the counts; nothing happens where they do not exist yet."""
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
    if not whitener(joint, root):
        return
    square_of(root, track.inverse)
    track.control[READY] = 1
    if track.control[AWAY] == 0:
        _copy(track.ahead, track.inverse)
        return
    for k in range(track.pending.size):
        if track.pending[k] != 0.0:
            add_outer(joint, model.arms[k], track.pending[k])
    if whitener(joint, root):
        square_of(root, track.ahead)


@nb.njit(cache=True, nogil=True, inline="always")
def _copy(target: Floats, source: Floats) -> None:
    for i in range(source.shape[0]):
        for j in range(source.shape[1]):
            target[i, j] = source[i, j]


@nb.njit(cache=True, nogil=True)
def issue(model: Model, track: Track, arm: int) -> None:
    """Count a pull as in flight: later choices take it for granted."""
    track.pending[arm] += 1.0
    track.control[AWAY] += 1
    if track.control[READY]:
        work = np.empty(track.theta.size)
        add_row(track.ahead, model.arms[arm], work)


@nb.njit(cache=True, nogil=True)
def give_up(model: Model, test: Test, track: Track, arm: int) -> None:
    """Take a pull out of those in flight."""
    track.pending[arm] -= 1.0
    track.control[AWAY] -= 1
    if track.control[READY]:
        refresh(model, test, track)


@nb.njit(cache=True, nogil=True)
def record(
    model: Model, test: Test, rule: int, track: Track, arm: int, reward: float, in_flight: bool
) -> None:
    """Take one reward and test whether it is enough."""
    row = model.arms[arm]
    rank = row.size
    track.counts[arm] += 1.0
    track.sums[arm] += reward
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
        if not track.control[READY]:
            return
    elif track.control[AGE] >= REFRESH:
        refresh(model, test, track)
    else:
        work = np.empty(rank)
        add_row(track.inverse, row, work)
        if track.control[AWAY] == 0:
            _copy(track.ahead, track.inverse)
        elif not in_flight:
            add_row(track.ahead, row, work)
    if not track.control[STARTED]:
        track.control[STARTED] = _is_started(model, test, track)
    if track.control[FINISHED]:
        return
    testable = _may_test(test, track)
    if testable or rule != SHARES:
        multiply(track.inverse, track.right, track.theta)
        examine(model, test, rule, track, testable)


@nb.njit(cache=True, nogil=True)
def next_look(track: Track) -> int:
    """Return the number of results at the next look that is fixed in advance."""
    look = track.control[LOOK] + 1
    while math.ceil(LOOK_GROWTH**look) <= track.control[TOLD]:
        look += 1
    return math.ceil(LOOK_GROWTH**look)


@nb.njit(cache=True, nogil=True)
def record_blocks(model: Model, test: Test, track: Track, draws: Floats, sums: Floats) -> None:
    """Take so many rewards of every arm at once, and test as after the last of them."""
    for k in range(draws.size):
        track.sums[k] += sums[k]
        for i in range(track.right.size):
            track.right[i] += sums[k] * model.arms[k, i]
    refresh(model, test, track)
    if not track.control[READY]:
        return
    if not track.control[STARTED]:
        track.control[STARTED] = _is_started(model, test, track)
    if _may_test(test, track):
        multiply(track.inverse, track.right, track.theta)
        examine(model, test, SHARES, track, True)


@nb.njit(cache=True, nogil=True)
def correct(
    model: Model, test: Test, rule: int, track: Track, arm: int, old: float, new: float
) -> None:
    """Replace a reward; an answer that was given stays."""
    track.sums[arm] += new - old
    for i in range(track.right.size):
        track.right[i] += (new - old) * model.arms[arm, i]
    if track.control[READY] and not track.control[FINISHED]:
        multiply(track.inverse, track.right, track.theta)
        examine(model, test, rule, track, False)


@nb.njit(cache=True, nogil=True)
def _is_started(model: Model, test: Test, track: Track) -> int:
    for i in range(model.basis.size):
        if track.counts[int(model.basis[i])] < test.initial:
            return 0
    return 1


# ------------------------------------------------------------------------------- the test


@nb.njit(cache=True, nogil=True)
def mark_leaders(model: Model, test: Test, track: Track) -> None:
    """Mark the best `top` of the candidates that are not ruled out; ties go to the first."""
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


@nb.njit(cache=True, nogil=True)
def examine(model: Model, test: Test, rule: int, track: Track, testable: bool) -> None:
    """Find the leaders, the evidence for them, and the pair that matters most to the rule."""
    level = level_of(test, track)
    if rule == GREEDY and testable:
        _rule_out(model, level, track)
    mark_leaders(model, test, track)
    least = _scan(model, test, rule, track, track.inverse, level)
    track.evidence[EVIDENCE] = 0.5 * least
    track.evidence[LEVEL] = 0.5 * level
    if testable and least >= level:
        track.control[FINISHED] = 1


@nb.njit(cache=True, nogil=True)
def _scan(
    model: Model, test: Test, rule: int, track: Track, inverse: Floats, level: float
) -> float:
    """Return the least squared gap over its variance, from leaders to others.

    Keeps the pair of the largest gap index, ``-gap + sqrt(level) width``, or for other rules
    the pair of the least evidence.
    """
    rank = track.theta.size
    target = np.empty(rank)
    root_level = math.sqrt(max(level, 0.0))
    least = math.inf
    most = -math.inf
    for i in range(track.chosen.size):
        if not track.chosen[i]:
            continue
        for j in range(track.chosen.size):
            if track.chosen[j] or track.ruled_out[j]:
                continue
            gap = 0.0
            for c in range(rank):
                target[c] = model.candidates[i, c] - model.candidates[j, c]
                gap += target[c] * track.theta[c]
            variance = max(quadratic(inverse, target), 1e-300)
            excess = max(0.0, gap + test.epsilon)
            ratio = excess * excess / variance
            index = root_level * math.sqrt(variance) - gap if rule == GAP_INDEX else -ratio
            least = min(least, ratio)
            if index > most:
                most = index
                track.control[WINNER] = i
                track.control[RIVAL] = j
    return least


@nb.njit(cache=True, nogil=True)
def _rule_out(model: Model, level: float, track: Track) -> None:
    """Rule out for good every candidate that another one beats; of a set, what is left is best."""
    candidates = track.chosen.size
    target = np.empty(track.theta.size)
    beaten = np.zeros(candidates, dtype=np.bool_)
    for i in range(candidates):
        for j in range(candidates):
            if i == j or track.ruled_out[i] or track.ruled_out[j]:
                continue
            difference(model, i, j, target)
            gap = dot(target, track.theta)
            if gap > 0.0 and gap * gap >= level * quadratic(track.inverse, target):
                beaten[j] = True
    for j in range(candidates):
        if beaten[j]:
            track.ruled_out[j] = 1


@nb.njit(cache=True, nogil=True)
def mark_live(model: Model, test: Test, track: Track, live: Integers) -> None:
    """Mark the leaders, and the candidates that some leader does not beat yet."""
    target = np.empty(track.theta.size)
    level = 2.0 * track.evidence[LEVEL]
    for j in range(live.size):
        live[j] = 1 - track.ruled_out[j]
        if track.chosen[j] or track.ruled_out[j] or not track.control[READY]:
            continue
        live[j] = 0
        for i in range(live.size):
            if track.chosen[i]:
                difference(model, i, j, target)
                excess = max(0.0, dot(target, track.theta) + test.epsilon)
                if excess * excess < level * quadratic(track.inverse, target):
                    live[j] = 1
                    break


# ------------------------------------------------------------------------------- choosing


@nb.njit(cache=True, nogil=True)
def choose(model: Model, test: Test, rule: int, track: Track) -> int:
    """Return the arm that the rule wants next."""
    basis = _least_of_basis(model, track)
    drawn = track.counts[basis] + track.pending[basis]
    if drawn < test.initial:
        return basis
    if rule == SHARES:
        return _behind(track)
    if not track.control[READY] or track.control[TOLD] == 0:
        return basis
    if rule == GREEDY:
        return _greedy_arm(model, track)
    if rule == GAME:
        return _game_arm(model, test, track)
    if rule == FRANK_WOLFE:
        issued = float(track.control[TOLD] + track.control[AWAY])
        if drawn < math.sqrt(issued / model.arms.shape[0]):
            return basis
        return _frank_wolfe_arm(model, test, track, issued)
    if track.control[AWAY] > 0:
        _scan(model, test, rule, track, track.ahead, 2.0 * track.evidence[LEVEL])
    return _gap_arm(model, track)


@nb.njit(cache=True, nogil=True)
def _least_of_basis(model: Model, track: Track) -> int:
    best = int(model.basis[0])
    for i in range(model.basis.size):
        k = int(model.basis[i])
        if track.counts[k] + track.pending[k] < track.counts[best] + track.pending[best]:
            best = k
    return best


@nb.njit(cache=True, nogil=True)
def _behind(track: Track) -> int:
    """Return the arm that is farthest behind its share."""
    best = track.support[0]
    least = math.inf
    for index in range(track.control[SUPPORT]):
        k = track.support[index]
        ratio = (track.counts[k] + track.pending[k]) / track.shares[k]
        if ratio < least:
            least = ratio
            best = k
    return best


@nb.njit(cache=True, nogil=True)
def _gap_arm(model: Model, track: Track) -> int:
    """Return the arm that most reduces the variance of the gap that matters most."""
    rank = track.theta.size
    target = np.empty(rank)
    direction = np.empty(rank)
    difference(model, track.control[WINNER], track.control[RIVAL], target)
    multiply(track.ahead, target, direction)
    best = int(model.basis[0])
    most = -1.0
    for k in range(model.arms.shape[0]):
        gain = dot(model.arms[k], direction) ** 2
        if gain > most:
            gain /= 1.0 + quadratic(track.ahead, model.arms[k])
            if gain > most:
                most = gain
                best = k
    return best


@nb.njit(cache=True, nogil=True)
def _greedy_arm(model: Model, track: Track) -> int:
    """Return the arm after which the largest variance of a difference of survivors is least."""
    live = np.empty(track.ruled_out.size, dtype=np.int64)
    number = 0
    for k in range(live.size):
        if not track.ruled_out[k]:
            live[number] = k
            number += 1
    targets = live_differences(model, live[:number])
    return greedy_step(model, targets, track.ahead)


@nb.njit(cache=True, nogil=True)
def live_differences(model: Model, live: Integers) -> Floats:
    """Return the differences of all pairs of the candidates given, one row each."""
    number = live.size
    targets = np.empty((max(1, number * (number - 1) // 2), model.arms.shape[1]))
    targets[0] = 0.0
    at = 0
    for i in range(number):
        for j in range(i):
            difference(model, live[i], live[j], targets[at])
            at += 1
    return targets


@nb.njit(cache=True, nogil=True)
def greedy_step(model: Model, targets: Floats, inverse: Floats) -> int:
    """Return the arm that leaves the least largest variance; of equal ones, the least sum.

    While several differences are the worst at once, no single pull helps all of them: without
    the sum, the first arm would be pulled for ever.
    """
    arms, rank = model.arms.shape
    number = targets.shape[0]
    variances = np.empty(number)
    for index in range(number):
        variances[index] = quadratic(inverse, targets[index])
    column = np.empty(rank)
    best = 0
    least = math.inf
    least_sum = math.inf
    for k in range(arms):
        multiply(inverse, model.arms[k], column)
        scale = 1.0 / (1.0 + dot(model.arms[k], column))
        worst = 0.0
        total = 0.0
        for index in range(number):
            left = variances[index] - scale * dot(targets[index], column) ** 2
            worst = max(worst, left)
            total += left
            if worst > least * (1.0 + TIE):
                break
        better = worst < least * (1.0 - TIE)
        if better or (worst <= least * (1.0 + TIE) and total < least_sum * (1.0 - TIE)):
            least = min(worst, least)
            least_sum = total
            best = k
    return best


@nb.njit(cache=True, nogil=True)
def greedy_phase(model: Model, live: Integers, enough: float, most: float, counts: Floats) -> float:
    """Add pulls to `counts` until no difference's variance exceeds `enough`; return the largest."""
    rank = model.arms.shape[1]
    matrix = np.empty((rank, rank))
    inverse = np.empty((rank, rank))
    root = np.empty((rank, rank))
    work = np.empty(rank)
    targets = live_differences(model, live)
    age = REFRESH
    total = 0.0
    while True:
        if age >= REFRESH:
            gram(model.arms, counts, matrix)
            whitener(matrix, root)
            square_of(root, inverse)
            age = 0
        worst = 0.0
        for index in range(targets.shape[0]):
            worst = max(worst, quadratic(inverse, targets[index]))
        if worst <= enough or total >= most:
            return worst
        k = greedy_step(model, targets, inverse)
        counts[k] += 1.0
        add_row(inverse, model.arms[k], work)
        age += 1
        total += 1.0


@nb.njit(cache=True, nogil=True)
def _game_arm(model: Model, test: Test, track: Track) -> int:
    """Let AdaHedge play the arms against the closest alternative; return the arm behind most."""
    arms, rank = model.arms.shape
    weights = np.empty(arms)
    rate = _hedge(track, weights)
    matrix = np.empty((rank, rank))
    root = np.empty((rank, rank))
    inverse = np.empty((rank, rank))
    gram(model.arms, weights, matrix)
    size = 0.0
    for i in range(rank):
        size += matrix[i, i]
    for i in range(rank):
        matrix[i, i] += 1e-9 * size
    whitener(matrix, root)
    square_of(root, inverse)
    _scan(model, test, GAME, track, inverse, 0.0)
    target = np.empty(rank)
    direction = np.empty(rank)
    difference(model, track.control[WINNER], track.control[RIVAL], target)
    multiply(inverse, target, direction)
    gap = dot(target, track.theta)
    scale = 0.5 * (gap / max(dot(target, direction), 1e-300)) ** 2
    gains = np.empty(arms)
    expected = 0.0
    for k in range(arms):
        gains[k] = scale * dot(model.arms[k], direction) ** 2
        expected += weights[k] * gains[k]
    _learn_hedge(track, weights, gains, rate, expected)
    best = 0
    most = -math.inf
    for k in range(arms):
        track.shares[k] += weights[k]
        behind = track.shares[k] - track.counts[k] - track.pending[k]
        if behind > most:
            most = behind
            best = k
    return best


@nb.njit(cache=True, nogil=True)
def _hedge(track: Track, weights: Floats) -> float:
    """Fill AdaHedge's weights; return its rate, infinite before any regret."""
    arms = weights.size
    most = -math.inf
    for k in range(arms):
        most = max(most, track.gains[k])
    rate = math.inf
    if track.evidence[REGRET] > 0.0:
        rate = math.log(arms) / track.evidence[REGRET]
    total = 0.0
    for k in range(arms):
        if rate == math.inf:
            weights[k] = 1.0 if track.gains[k] == most else 0.0
        else:
            weights[k] = math.exp(rate * (track.gains[k] - most))
        total += weights[k]
    for k in range(arms):
        weights[k] /= total
    return rate


@nb.njit(cache=True, nogil=True)
def _learn_hedge(
    track: Track, weights: Floats, gains: Floats, rate: float, expected: float
) -> None:
    """Add the gains, and what mixing gained over the weights' own: the mixability gap."""
    arms = gains.size
    mixed = 0.0
    if rate == math.inf:
        before = -math.inf
        after = -math.inf
        for k in range(arms):
            before = max(before, track.gains[k])
            after = max(after, track.gains[k] + gains[k])
        mixed = after - before
    else:
        largest = -math.inf
        for k in range(arms):
            largest = max(largest, gains[k])
        total = 0.0
        for k in range(arms):
            total += weights[k] * math.exp(rate * (gains[k] - largest))
        mixed = largest + math.log(total) / rate
    track.evidence[REGRET] += max(0.0, mixed - expected)
    for k in range(arms):
        track.gains[k] += gains[k]


@nb.njit(cache=True, nogil=True)
def _frank_wolfe_arm(model: Model, test: Test, track: Track, issued: float) -> int:
    """Return the arm of the steepest ascent, averaged over the alternatives that are near."""
    arms, rank = model.arms.shape
    near = _scan(model, test, FRANK_WOLFE, track, track.ahead, 0.0) / (2.0 * issued)
    near += issued**-0.9 / arms
    slope = np.zeros(arms)
    target = np.empty(rank)
    direction = np.empty(rank)
    for i in range(track.chosen.size):
        if not track.chosen[i]:
            continue
        for j in range(track.chosen.size):
            if track.chosen[j]:
                continue
            difference(model, i, j, target)
            multiply(track.ahead, target, direction)
            variance = max(dot(target, direction), 1e-300)
            gap = max(0.0, dot(target, track.theta) + test.epsilon)
            if gap * gap / (2.0 * issued * variance) > near:
                continue
            # A tie has no slope; the direction of its variance is as good as any.
            scale = (gap / variance) ** 2 if gap > 0.0 else 1.0 / variance
            for k in range(arms):
                slope[k] += scale * dot(model.arms[k], direction) ** 2
    best = 0
    for k in range(arms):
        if slope[k] > slope[best]:
            best = k
    return best
