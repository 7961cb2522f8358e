"""The rules that choose one pull at a time."""

import math

import numpy as np

from fairtrial.core.arithmetic import square
from fairtrial.core.compilation import kernel
from fairtrial.core.philox import philox_uniform
from fairtrial.linear._kernels.estimates import noise_of
from fairtrial.linear._kernels.matrices import (
    Floats,
    Integers,
    add_row,
    dot,
    gram,
    multiply,
    quadratic,
    square_of,
    whitener,
)
from fairtrial.linear._kernels.model import Model, difference, is_zero
from fairtrial.linear._kernels.stopping import height_of, scan
from fairtrial.linear._kernels.track import (
    AWAY,
    FRANK_WOLFE,
    GAME,
    GREEDY,
    READY,
    REFRESH,
    REGRET,
    RIVAL,
    SHARES,
    SUPPORT,
    TOLD,
    WINNER,
    Test,
    Track,
)

TIE = 1e-10


@kernel
def choose(model: Model, test: Test, rule: int, track: Track) -> int:
    """Return the rule's next arm."""
    basis = _least_of_basis(model, track)
    drawn = track.counts[basis] + track.pending[basis]
    if drawn < test.initial:
        return basis
    if rule == SHARES:
        return _behind(track)
    if not track.control[READY] or track.control[TOLD] == 0:
        return basis
    if rule == GREEDY:
        return _greedy_arm(model, test, track)
    if rule == GAME:
        return _game_arm(model, test, track)
    if rule == FRANK_WOLFE:
        issued = float(track.control[TOLD] + track.control[AWAY])
        if drawn < math.sqrt(issued / model.arms.shape[0]):
            return basis
        return _frank_wolfe_arm(model, test, track, issued)
    if track.control[AWAY] > 0:
        scan(model, test, rule, track, track.ahead, height_of(track))
    return _gap_arm(model, track)


@kernel
def _least_of_basis(model: Model, track: Track) -> int:
    best = int(model.start[0])
    for i in range(model.start.size):
        k = int(model.start[i])
        if track.counts[k] + track.pending[k] < track.counts[best] + track.pending[best]:
            best = k
    return best


@kernel
def _behind(track: Track) -> int:
    """Return the arm that is furthest behind its share."""
    best = track.support[0]
    least = math.inf
    for index in range(track.control[SUPPORT]):
        k = track.support[index]
        ratio = (track.counts[k] + track.pending[k]) / track.shares[k]
        if ratio < least:
            least = ratio
            best = k
    return best


@kernel
def skip_ahead(model: Model, test: Test, track: Track, look: int, draws: Floats) -> None:
    """Count at once most of the pulls of a rule with fixed shares until there are `look` results.

    The rule pulls the arm that is furthest behind its share, so at any time all arms have nearly
    the same ratio of pulls to share. This function uses a slightly smaller ratio and leaves the
    rest to `choose`; the pulls are the same as one by one.
    """
    basis = _least_of_basis(model, track)
    if track.counts[basis] < test.initial:
        return
    support = track.control[SUPPORT]
    ratio = float(look - 2 * support)
    while ratio > 0.0:
        total = 0.0
        for index in range(support):
            k = track.support[index]
            total += max(0.0, math.ceil(ratio * track.shares[k]) - track.counts[k])
        excess = total - (look - track.control[TOLD])
        if excess <= 0.0:
            break
        ratio -= max(1.0, excess)
    for index in range(support):
        k = track.support[index]
        more = max(0.0, math.ceil(ratio * track.shares[k]) - track.counts[k])
        track.counts[k] += more
        track.control[TOLD] += int(more)
        draws[k] += more


@kernel
def _gap_arm(model: Model, track: Track) -> int:
    """Return the arm that most reduces the variance of the most important gap."""
    rank = track.theta.size
    target = np.empty(rank)
    direction = np.empty(rank)
    difference(model, track.control[WINNER], track.control[RIVAL], target)
    multiply(track.ahead, target, direction)
    best = int(model.start[0])
    most = -1.0
    for k in range(model.arms.shape[0]):
        gain = square(dot(model.arms[k], direction))
        if gain > most:
            gain /= 1.0 + quadratic(track.ahead, model.arms[k])
            if gain > most:
                most = gain
                best = k
    return best


@kernel
def _greedy_arm(model: Model, test: Test, track: Track) -> int:
    """Return the arm whose pull minimises the largest variance of a difference of survivors."""
    live = np.empty(track.ruled_out.size, dtype=np.int64)
    number = 0
    for k in range(live.size):
        if not track.ruled_out[k]:
            live[number] = k
            number += 1
    targets = live_differences(model, live[:number])
    issued = track.control[TOLD] + track.control[AWAY]
    return greedy_step(model, targets, track.ahead, test.tie_key, issued)


@kernel
def live_differences(model: Model, live: Integers) -> Floats:
    """Return the differences of all pairs of the given candidates, one per row."""
    number = live.size
    targets = np.empty((max(1, number * (number - 1) // 2), model.arms.shape[1]))
    targets[0] = 0.0
    at = 0
    for i in range(number):
        for j in range(i):
            difference(model, live[i], live[j], targets[at])
            at += 1
    return targets


@kernel
def greedy_step(model: Model, targets: Floats, inverse: Floats, tie_key: int, number: int) -> int:
    """Return the arm whose pull minimises the largest variance, or, among ties, the sum.

    If several differences have the largest variance, no single pull reduces all of them; without
    the sum, the first arm would be pulled forever. Remaining ties go to the first arm, or, with a
    key, to a random one drawn for the pull of this number.
    """
    arms, rank = model.arms.shape
    variances = np.empty(targets.shape[0])
    for index in range(targets.shape[0]):
        variances[index] = quadratic(inverse, targets[index])
    column = np.empty(rank)
    worst = np.empty(arms)
    sums = np.empty(arms)
    best = 0
    least = math.inf
    for k in range(arms):
        multiply(inverse, model.arms[k], column)
        scale = 1.0 / (1.0 + dot(model.arms[k], column))
        worst[k] = 0.0
        sums[k] = 0.0
        for index in range(targets.shape[0]):
            left = variances[index] - scale * square(dot(targets[index], column))
            worst[k] = max(worst[k], left)
            sums[k] += left
            if worst[k] > least * (1.0 + TIE):
                break
        better = worst[k] < least * (1.0 - TIE)
        tied = worst[k] <= least * (1.0 + TIE)
        if better or (tied and sums[k] < sums[best] * (1.0 - TIE)):
            best = k
        least = min(worst[k], least)
    return best if tie_key < 0 else _one_of_equals(worst, sums, best, tie_key, number)


@kernel
def _one_of_equals(worst: Floats, sums: Floats, best: int, tie_key: int, number: int) -> int:
    """Return a random arm among those that tie with the best."""
    equal = np.empty(worst.size, dtype=np.int64)
    count = 0
    for k in range(worst.size):
        if worst[k] <= worst[best] * (1.0 + TIE) and sums[k] <= sums[best] * (1.0 + TIE):
            equal[count] = k
            count += 1
    return int(equal[int(count * philox_uniform(tie_key, 0, number, 0))])


@kernel
def greedy_phase(
    model: Model,
    live: Integers,
    enough: float,
    most: float,
    tie_key: int,
    phase: int,
    counts: Floats,
) -> float:
    """Add pulls to `counts` until all variances are at most `enough`; return the largest."""
    rank = model.arms.shape[1]
    matrix = np.empty((rank, rank))
    inverse = np.empty((rank, rank))
    root = np.empty((rank, rank))
    work = np.empty(rank)
    targets = live_differences(model, live)
    age = REFRESH
    total = 0
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
        k = greedy_step(model, targets, inverse, tie_key, (phase << 32) + total)
        counts[k] += 1.0
        add_row(inverse, model.arms[k], work)
        age += 1
        total += 1


@kernel
def _game_arm(model: Model, test: Test, track: Track) -> int:
    """Let AdaHedge play the arms against the closest alternative; return the arm most behind."""
    arms, rank = model.arms.shape
    weights = np.empty(arms)
    rate = _hedge(model, track, weights)
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
    scan(model, test, GAME, track, inverse, 0.0)
    target = np.empty(rank)
    direction = np.empty(rank)
    difference(model, track.control[WINNER], track.control[RIVAL], target)
    multiply(inverse, target, direction)
    gap = dot(target, track.theta)
    scale = 0.5 * square(gap / max(dot(target, direction), 1e-300))
    gains = np.empty(arms)
    expected = 0.0
    for k in range(arms):
        gains[k] = scale * square(dot(model.arms[k], direction))
        expected += weights[k] * gains[k]
    _learn_hedge(track, weights, gains, rate, expected)
    best = 0
    most = -math.inf
    for k in range(arms):
        track.shares[k] += weights[k]
        behind = track.shares[k] - track.counts[k] - track.pending[k]
        if behind > most and not is_zero(model, k):
            most = behind
            best = k
    return best


@kernel
def _hedge(model: Model, track: Track, weights: Floats) -> float:
    """Fill AdaHedge's weights, 0 for arms that measure nothing; return its learning rate.

    The rate is infinite before any regret.
    """
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
        if is_zero(model, k):
            weights[k] = 0.0
        total += weights[k]
    for k in range(arms):
        weights[k] /= total
    return rate


@kernel
def _learn_hedge(
    track: Track, weights: Floats, gains: Floats, rate: float, expected: float
) -> None:
    """Add the gains to the state, and the mixability gap to the regret."""
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


@kernel
def _frank_wolfe_arm(model: Model, test: Test, track: Track, issued: float) -> int:
    """Return the arm of steepest ascent, averaged over the nearest alternatives."""
    arms, rank = model.arms.shape
    near = scan(model, test, FRANK_WOLFE, track, track.ahead, 0.0) / (2.0 * issued)
    noise = noise_of(model, test, track)
    near += noise * issued**-0.9 / arms
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
            gap = max(0.0, dot(target, track.theta) + test.tolerance)
            if gap * gap / (2.0 * issued * variance) > near:
                continue
            # A tie has no slope, so use the direction of its variance.
            scale = square(gap / variance) if gap > 0.0 else noise / variance
            for k in range(arms):
                slope[k] += scale * square(dot(model.arms[k], direction))
    best = 0
    for k in range(arms):
        if slope[k] > slope[best]:
            best = k
    return best
