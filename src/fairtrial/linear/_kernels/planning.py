"""Block betting: the leaders, and the next block with everything that is frozen in it."""

import math

import numpy as np

from fairtrial.confidence.block_betting.bets import NO_BET, freeze_stakes
from fairtrial.confidence.block_betting.blocks import (
    next_slot,
    open_block,
    open_planned_block,
)
from fairtrial.confidence.block_betting.planned_end import (
    End,
    aim_bet,
    end_with,
    fit_to_end,
    is_lacking,
    no_end,
    pulls_until_end,
    size_until_end,
)
from fairtrial.core.arithmetic import square, sum_of
from fairtrial.core.compilation import apart, inlined, kernel, uncounted
from fairtrial.linear._kernels.matrices import (
    Floats,
    Integers,
    add_outer,
    combine,
    dot,
    gram,
    invert,
    is_seen,
    multiply,
    whiten_twice,
    whitened_square,
    whitener,
    whitener_of_rows,
)
from fairtrial.linear._kernels.model import Model, difference, is_zero, resolution
from fairtrial.linear._kernels.state import Rules, State, ledger_of, wealth_of

MOST_ESTIMATE = 1e6
"""An effect is planned for as at most this many standard errors; any plan is valid."""

PRIOR_PULLS = 2.0
RIDGE = 1e-10

MANY, FEW = 500, 16
"""With MANY arms and targets or more, a plan uses only the FEW times rank that matter most."""

_LARGE = 20.0
"""In a block with that many pulls, one more that counts as its worst value costs little."""

LIVE_PER_PULL = 400
"""Live candidates per pull of a block: each of them costs a bet in every block."""


# ------------------------------------------------------------------------- estimates


@kernel
def measures_start(model: Model, counts: Floats) -> bool:
    """Return whether each start arm has a result or is predicted as well by the others."""
    missing = 0
    for i in range(model.start.size):
        missing += counts[int(model.start[i])] < 1.0
    if missing == 0:
        return True
    if counts.sum() < model.start.size:
        return False
    rank = model.arms.shape[1]
    matrix = np.empty((rank, rank))
    root = np.empty((rank, rank))
    gram(model.arms, counts, matrix)
    if not whitener(matrix, root):
        return False
    for i in range(model.start.size):
        k = int(model.start[i])
        if counts[k] < 1.0 and whitened_square(root, model.arms[k]) > 1.0:
            return False
    return True


@kernel
def measures_all(model: Model, counts: Floats) -> bool:
    """Return whether pulls of every arm measure all directions, however roughly."""
    rank = model.arms.shape[1]
    root = np.empty((rank, rank))
    return whitener_of_rows(model.arms, counts, root)


@kernel
def fit(model: Model, rules: Rules, state: State, root: Floats, theta: Floats) -> float:
    """Fill the whitener of all data and the least-squares estimate; return the noise's variance.

    For bounded rewards it comes from the residuals, with two tosses of a fair coin as prior.
    """
    rank = theta.size
    matrix = np.empty((rank, rank))
    right = np.empty(rank)
    work = np.empty(rank)
    gram(model.arms, state.counts, matrix)
    combine(model.arms, state.sums, right)
    if not whitener(matrix, root):
        whitener_of_rows(model.arms, state.counts, root)
    whiten_twice(root, right, work, theta)
    if not rules.bounded:
        return 1.0
    total = 0.0
    residual = PRIOR_PULLS * square(rules.high - rules.low) / 4.0
    for k in range(state.counts.size):
        count = state.counts[k]
        if count > 0.0:
            mean = state.sums[k] / count
            residual += max(0.0, state.squares[k] - count * mean * mean)
            residual += count * square(mean - dot(model.arms[k], theta))
            total += count
    return residual / (total - rank + PRIOR_PULLS)


@kernel
def choose_leaders(
    model: Model, rules: Rules, state: State, theta: Floats, chosen: Integers
) -> None:
    """Mark the best `top` candidates that are not rejected; ties go to the first."""
    scores = np.empty(chosen.size)
    for k in range(chosen.size):
        chosen[k] = 0
        scores[k] = -math.inf if state.book.rejected[k] else dot(model.candidates[k], theta)
    for _ in range(rules.top):
        best = -1
        for k in range(chosen.size):
            if (
                not chosen[k]
                and not state.book.rejected[k]
                and (best < 0 or scores[k] > scores[best])
            ):
                best = k
        if best >= 0:
            chosen[best] = 1


@kernel
def leaders_now(model: Model, rules: Rules, state: State, chosen: Integers) -> bool:
    """Mark the leaders by all data so far; return False until the data measure all directions."""
    if state.finished[0]:
        for k in range(chosen.size):
            chosen[k] = state.chosen[k]
        return True
    if not state.estimable[0] and not measures_all(model, state.counts):
        return False
    rank = model.arms.shape[1]
    theta = np.empty(rank)
    fit(model, rules, state, np.empty((rank, rank)), theta)
    choose_leaders(model, rules, state, theta, chosen)
    return True


# ------------------------------------------------------------------------------ planning


@uncounted
def _list_bets(rules: Rules, state: State, slot: int) -> int:
    """List the bets of the next block; return the number of live candidates."""
    number = _list_pairs(rules, state, slot, rules.threshold)
    if number == 0:
        # Data in flight have restored leaders that had already won all their pairs.
        number = _list_pairs(rules, state, slot, math.inf)
    state.bets.number[slot] = number
    return number + 1


@uncounted
def _list_pairs(rules: Rules, state: State, slot: int, threshold: float) -> int:
    """List the pairs of a leader and a rival whose wealth is below the threshold."""
    candidates = state.chosen.size
    number = 0
    for i in range(candidates):
        if not state.chosen[i]:
            continue
        for k in range(candidates):
            if state.chosen[k] or state.book.rejected[k]:
                continue
            if rules.pairwise and wealth_of(state, i, k) >= threshold:
                continue
            _list_pair(state, slot, number, i, k)
            number += 1
    return number


@inlined
def _list_pair(state: State, slot: int, bet: int, winner: int, rival: int) -> None:
    state.winner[slot, bet] = winner
    state.rival[slot, bet] = rival
    state.bets.ledger[slot, bet] = ledger_of(state, winner, rival)
    state.bets.aim[slot, bet] = 0.0


@uncounted
def _list_leaders(model: Model, rules: Rules, state: State, slot: int, theta: Floats) -> None:
    """List a bet on every leader, too, as the rival of the best other candidate."""
    best = -1
    most = -math.inf
    for k in range(state.chosen.size):
        value = dot(model.candidates[k], theta)
        if not state.chosen[k] and not state.book.rejected[k] and value > most:
            best = k
            most = value
    if best < 0:
        return
    for i in range(state.chosen.size):
        if state.chosen[i] and wealth_of(state, best, i) < rules.threshold:
            _list_pair(state, slot, state.bets.number[slot], best, i)
            state.bets.number[slot] += 1


@kernel
def _end_of(rules: Rules, state: State, slot: int) -> End:
    """Return what the bets of the newest block know about the planned end."""
    if rules.max_pulls == math.inf:
        return no_end()
    lacking = np.empty(state.bets.number[slot])
    for bet in range(lacking.size):
        won = wealth_of(state, state.winner[slot, bet], state.rival[slot, bet])
        lacking[bet] = rules.threshold - won
    return end_with(rules, state.blocks, slot, lacking)


@kernel
def find_design(model: Model, steps: int, targets: Floats, shares: Floats, found: Floats) -> float:
    """Improve the shares of the pulls; return the largest target's variance after one pull.

    Each multiplicative step favours the weakest targets. Only the size of a plan depends on it.
    """
    arms, rank = model.arms.shape
    trial = np.empty(arms)
    mix(model, shares, trial)
    matrix = np.empty((rank, rank))
    root = np.empty((rank, rank))
    work = np.empty(rank)
    direction = np.empty(rank)
    return _improve(model, steps, targets, trial, found, (matrix, root), (work, direction))


@uncounted
def _improve(
    model: Model,
    steps: int,
    targets: Floats,
    trial: Floats,
    found: Floats,
    matrices: tuple[Floats, Floats],
    vectors: tuple[Floats, Floats],
) -> float:
    matrix, root = matrices
    work, direction = vectors
    arms = trial.size
    best = math.inf
    for step in range(steps):
        gram(model.arms, trial, matrix)
        if not whitener(matrix, root):
            break
        value, weakest = _weakest(root, targets)
        if value < best:
            best = value
            for k in range(arms):
                found[k] = trial[k]
        whiten_twice(root, targets[weakest], work, direction)
        gain = 1.0 / (8.0 + step)
        total = 0.0
        for k in range(arms):
            trial[k] *= 1.0 - gain + gain * square(dot(model.arms[k], direction)) / value
            total += trial[k]
        for k in range(arms):
            trial[k] /= total
    return best


@uncounted
def _weakest(root: Floats, targets: Floats) -> tuple[float, int]:
    most = -1.0
    weakest = 0
    for i in range(targets.shape[0]):
        value = whitened_square(root, targets[i])
        if value > most:
            most = value
            weakest = i
    return most, weakest


@kernel
def block_counts(
    model: Model, shares: Floats, targets: Floats, size: float, enough: float, planned: Floats
) -> None:
    """Fill the pulls of a block: whole parts first, then single pulls that help the weakest most.

    The block has `size` pulls, or more until no target's variance exceeds `enough`.
    """
    rank = model.arms.shape[1]
    matrix = np.empty((rank, rank))
    root = np.empty((rank, rank))
    work = np.empty(rank)
    direction = np.empty(rank)
    _fill_counts(model, shares, targets, size, enough, planned, (matrix, root), (work, direction))


@uncounted
def _fill_counts(
    model: Model,
    shares: Floats,
    targets: Floats,
    size: float,
    enough: float,
    planned: Floats,
    matrices: tuple[Floats, Floats],
    vectors: tuple[Floats, Floats],
) -> None:
    matrix, root = matrices
    work, direction = vectors
    arms, rank = model.arms.shape
    gram(model.arms, shares, matrix)
    ridge = 0.0
    for i in range(rank):
        ridge += RIDGE * size * matrix[i, i]
    placed = 0.0
    for k in range(arms):
        planned[k] = math.floor(size * shares[k])
        placed += planned[k]
    gram(model.arms, planned, matrix)
    for i in range(rank):
        matrix[i, i] += ridge
    most = 4.0 * size + 20.0 * rank
    while placed < most:
        if not whitener(matrix, root):
            return
        value, weakest = _weakest(root, targets)
        if placed >= size and value <= enough:
            return
        whiten_twice(root, targets[weakest], work, direction)
        best = -1
        gain = 0.0
        for k in range(arms):
            gap = square(dot(model.arms[k], direction))
            if gap > gain:
                gap /= 1.0 + whitened_square(root, model.arms[k])
                if gap > gain:
                    gain = gap
                    best = k
        if best < 0:
            return
        planned[best] += 1.0
        placed += 1.0
        add_outer(matrix, model.arms[best], 1.0)


@uncounted
def natural_size(rules: Rules, state: State, rank: int, live: int) -> float:
    """Return the pulls of a block: a fraction of those so far, and enough to be worth planning."""
    total = 0.0
    for k in range(state.counts.size):
        total += state.counts[k]
    least = max(math.ceil(rules.touch * min(rank, live)), live // LIVE_PER_PULL)
    return max(math.ceil(rules.growth * total), float(least))


@kernel
def plan_large(
    model: Model, rules: Rules, targets: Floats, size: float, shares: Floats, planned: Floats
) -> float:
    """Plan a block like `find_design` and `block_counts`, with the arms and targets that matter.

    These are found twice: for the given shares, and for the shares that result from them. What is
    left out only affects the size of the plan. Update the shares; return the largest target's
    variance after one pull.
    """
    arms, rank = model.arms.shape
    few = FEW * (rank + 4)
    trial = np.empty(arms)
    mix(model, shares, trial)
    value = math.inf
    for k in range(arms):
        planned[k] = 0.0
    for last in (False, True):
        hardest, useful = _what_matters(model, targets, trial, few)
        part = Model(
            model.arms[useful],
            model.candidates[:1],
            model.rest[:1],
            model.start,
            model.opening[:1],
            model.deviations[:1],
        )
        few_targets = targets[hardest]
        before = trial[useful]
        before /= sum_of(before)
        found = np.zeros(useful.size)
        value = find_design(part, rules.steps, few_targets, before, found)
        for k in range(arms):
            shares[k] = 0.0
        for index in range(useful.size):
            shares[useful[index]] = found[index]
        if last:
            counts = np.empty(useful.size)
            block_counts(part, found, few_targets, size, rules.excess * value / size, counts)
            for index in range(useful.size):
                planned[useful[index]] = counts[index]
        mix(model, shares, trial)
    return value


@uncounted
def mix(model: Model, shares: Floats, trial: Floats) -> None:
    """Fill start shares: old shares mixed with equal ones of all arms that measure anything."""
    useful = 0
    for k in range(trial.size):
        useful += not is_zero(model, k)
    for k in range(trial.size):
        trial[k] = 0.0 if is_zero(model, k) else 0.8 * shares[k] + 0.2 / useful


@kernel
def _what_matters(
    model: Model, targets: Floats, shares: Floats, few: int
) -> tuple[Integers, Integers]:
    """Return the targets that the shares measure worst, and the arms most useful for them."""
    arms, rank = model.arms.shape
    matrix = np.empty((rank, rank))
    root = np.empty((rank, rank))
    work = np.empty(rank)
    direction = np.empty(rank)
    gram(model.arms, shares, matrix)
    if not whitener(matrix, root):
        whitener_of_rows(model.arms, shares, root)
    variances = np.empty(targets.shape[0])
    for i in range(targets.shape[0]):
        variances[i] = -whitened_square(root, targets[i])
    hardest = np.argsort(variances, kind="mergesort")[:few]
    scores = np.zeros(arms)
    for i in range(min(rank, hardest.size)):
        value = whiten_twice(root, targets[hardest[i]], work, direction)
        for k in range(arms):
            scores[k] = min(scores[k], -(square(dot(model.arms[k], direction))) / value)
    for i in range(model.start.size):
        scores[int(model.start[i])] = -math.inf
    return hardest, np.argsort(scores, kind="mergesort")[:few]


@kernel
def _without_silent(model: Model, state: State) -> Model:
    """Return the model to plan with: an arm of which all pulls got lost measures nothing.

    The others measure all directions, or nothing could be planned.
    """
    arms = model.arms.copy()
    for k in range(state.counts.size):
        for i in range(arms.shape[1] if _is_silent(state, k) else 0):
            arms[k, i] = 0.0
    return Model(arms, model.candidates, model.rest, model.start, model.opening, model.deviations)


@inlined
def _is_silent(state: State, k: int) -> bool:
    return state.counts[k] == 0.0 and state.lost[k] > 0.0


@uncounted
def _try_silent_again(rules: Rules, state: State, size: float, planned: Floats) -> None:
    """Give a block one pull of each silent arm, unless it costs much that it may be lost."""
    for k in range(planned.size):
        if _is_silent(state, k) and (size >= _LARGE or not rules.bounded):
            planned[k] += 1.0


@apart
def plan_block(model: Model, rules: Rules, state: State, batch: float, assigned: Floats) -> None:
    """Plan the next block and freeze its counts and bets.

    `batch`: requested pulls of the block; 0 leaves the size to the method. `assigned`: pulls of
    every arm if an outside experiment assigned them; empty if the method plans them.
    """
    arms, rank = model.arms.shape
    root = np.empty((rank, rank))
    theta = np.empty(rank)
    noise = fit(model, rules, state, root, theta)
    choose_leaders(model, rules, state, theta, state.chosen)
    work = np.empty(rank)
    direction = np.empty(rank)
    slot, bets = next_slot(state.blocks), state.bets
    for i in range(rank):
        state.prediction[slot, i] = theta[i]
    live = _list_bets(rules, state, slot)
    pairs = bets.number[slot]
    if rules.max_pulls < math.inf:
        _list_leaders(model, rules, state, slot, theta)
    targets = np.empty((bets.number[slot], rank))
    for bet in range(bets.number[slot]):
        winner, rival = state.winner[slot, bet], state.rival[slot, bet]
        difference(model, winner, rival, targets[bet])
        variance = noise * whiten_twice(root, targets[bet], work, direction)
        effect = dot(targets[bet], theta) + rules.tolerance
        effect -= resolution(model, rules.misspecification, state.counts, direction)
        estimate = effect / math.sqrt(variance)
        bets.estimate[slot, bet] = min(max(estimate, -MOST_ESTIMATE), MOST_ESTIMATE)
        bets.variance[slot, bet] = variance
        if variance <= 0.0:
            bets.ledger[slot, bet] = NO_BET
        need = max(0.0, rules.threshold - wealth_of(state, winner, rival)) + rules.cost
        effect = max(effect, 0.0)
        scale = math.sqrt(need / (square(effect) + rules.kappa * variance))
        for i in range(rank):
            targets[bet, i] *= scale
    # The bets on leaders measure what others do.
    targets = targets[:pairs]
    size = batch
    if size <= 0.0:
        size = natural_size(rules, state, rank, live)
    left = pulls_until_end(rules, state.blocks)
    size = size_until_end(size, left)
    planned = np.empty(arms)
    known = _without_silent(model, state)
    if arms + targets.shape[0] > MANY:
        value = plan_large(known, rules, targets, size, state.shares, planned)
    else:
        shares = np.zeros(arms)
        value = find_design(known, rules.steps, targets, state.shares, shares)
        block_counts(known, shares, targets, size, rules.excess * value / size, planned)
        for k in range(arms):
            state.shares[k] = shares[k]
    state.forecast[0] = 2.0 * noise * value
    _try_silent_again(rules, state, size, planned)
    if left < math.inf:
        fit_to_end(planned, size, left)
    if assigned.size:
        open_block(state.blocks, assigned)
    else:
        open_planned_block(state.blocks, planned)
    freeze_bets(model, rules, state, slot, root, theta, noise, _end_of(rules, state, slot))


# Passing a state costs more than the work, so the function is compiled into its callers.
@kernel(inline="always")
def fill_direction(
    model: Model, rules: Rules, state: State, slot: int, bet: int, out: Floats
) -> float:
    """Fill the direction of a bet's effect; return its constant."""
    constant = rules.tolerance
    if state.constant.shape[1] == 0:
        difference(model, state.winner[slot, bet], state.rival[slot, bet], out)
    else:
        for i in range(out.size):
            out[i] = state.directions[slot, bet, i]
        constant = state.constant[slot, bet]
    return constant


@kernel
def freeze_bets(
    model: Model,
    rules: Rules,
    state: State,
    slot: int,
    root: Floats,
    theta: Floats,
    noise: float,
    end: End,
) -> None:
    """Freeze what bets need besides their effects, estimates and ledgers."""
    for bet in range(state.bets.number[slot]):
        if not is_lacking(end, bet):
            state.bets.ledger[slot, bet] = NO_BET
    if rules.bounded:
        _freeze_bounded(model, rules, state, slot, root, theta, noise, end)
    elif end.is_planned:
        _aim_known_noise(model, rules, state, slot, end)


@kernel
def _aim_known_noise(model: Model, rules: Rules, state: State, slot: int, end: End) -> None:
    """Aim the bets under noise of known scale at the planned end."""
    rank = model.arms.shape[1]
    matrix = np.empty((rank, rank))
    inverse = np.empty((rank, rank))
    null_space = np.empty((rank, rank))
    gram(model.arms, state.blocks.planned[slot], matrix)
    seen = invert(matrix, inverse, null_space)
    target = np.empty(rank)
    direction = np.empty(rank)
    for bet in range(state.bets.number[slot]):
        if state.bets.ledger[slot, bet] == NO_BET:
            continue
        fill_direction(model, rules, state, slot, bet, target)
        if is_seen(null_space, seen, target):
            multiply(inverse, target, direction)
            aim_bet(state.bets, slot, bet, dot(target, direction), end)


@kernel
def _freeze_bounded(
    model: Model,
    rules: Rules,
    state: State,
    slot: int,
    root: Floats,
    theta: Floats,
    noise: float,
    end: End,
) -> None:
    """Freeze coefficients, centres and stakes of the bets on rewards in a known range."""
    rank = theta.size
    blocks, bets = state.blocks, state.bets
    matrix = np.empty((rank, rank))
    inverse = np.empty((rank, rank))
    null_space = np.empty((rank, rank))
    gram(model.arms, blocks.planned[slot], matrix)
    seen = invert(matrix, inverse, null_space)
    target = np.empty(rank)
    direction = np.empty(rank)
    work = np.empty(rank)
    for bet in range(bets.number[slot]):
        if bets.ledger[slot, bet] == NO_BET:
            continue
        constant = fill_direction(model, rules, state, slot, bet, target)
        if not is_seen(null_space, seen, target):
            bets.ledger[slot, bet] = NO_BET
            continue
        weights = state.coefficients[slot, bet]
        centre = state.centres[slot, bet]
        multiply(inverse, target, weights)
        length = whiten_twice(root, target, work, direction)
        constant -= resolution(model, rules.misspecification, blocks.planned[slot], weights)
        effect = dot(target, theta) + constant
        for i in range(rank):
            centre[i] = theta[i] - direction[i] * effect / length
        at_centre = constant - _left_out(model, rules, blocks.planned[slot], weights, target)
        inside = 0.0
        ruin = 0.0
        for index in range(blocks.width[slot]):
            k = blocks.support[slot, index]
            count = blocks.planned[slot, k]
            weight = dot(model.arms[k], weights)
            middle = clipped(rules, dot(model.arms[k], centre))
            at_centre += count * weight * middle
            deviation = dot(model.arms[k], theta) - middle
            inside += count * square(weight) * (noise + square(deviation))
            loss = middle - rules.low if weight > 0.0 else middle - rules.high
            ruin = max(ruin, weight * loss)
        if inside <= 0.0:
            bets.ledger[slot, bet] = NO_BET
            continue
        aim_bet(bets, slot, bet, inside, end)
        freeze_stakes(bets, slot, bet, at_centre, inside, ruin)


@kernel
def _left_out(
    model: Model, rules: Rules, planned: Floats, weights: Floats, target: Floats
) -> float:
    """Return the most by which the pulls' effect can exceed the gap, due to rounding.

    The pulls measure the direction `target` except for a remainder. The average outer product of
    the arms' rows is the identity, so theta is no longer than the largest mean, which the range
    bounds.
    """
    rest = np.empty(target.size)
    for i in range(target.size):
        rest[i] = target[i]
    for k in range(planned.size):
        if planned[k] > 0.0:
            share = planned[k] * dot(model.arms[k], weights)
            for i in range(target.size):
                rest[i] -= share * model.arms[k, i]
    return math.sqrt(dot(rest, rest)) * max(abs(rules.low), abs(rules.high))


@kernel(inline="always")
def clipped(rules: Rules, value: float) -> float:
    return min(max(value, rules.low), rules.high)
