"""Block betting on linear arms: one wealth per candidate, or per pair of candidates.

Counts and bets of a block are frozen when it is planned, from what is known then; the block
alone pays or loses. Proofs: docs/explanation/block-betting.md (noise of known scale) and
docs/explanation/bounded-rewards.md (rewards in a known range).
"""

import math

import numpy as np

from fairtrial.confidence._betting import (
    DRAWS_PER_LOG,
    GRID,
    flush_products,
    log_bet,
    log_mixture,
    multiply_factor,
)
from fairtrial.confidence.noise_kernels import record_result, replace_result
from fairtrial.core.compilation import kernel
from fairtrial.linear._kernels.book import (
    BLOCKS,
    FINISHED,
    FIRST,
    HOPELESS,
    OPEN,
    WATCHED,
    Book,
    Rules,
    wealth_of,
)
from fairtrial.linear._kernels.matrices import (
    Integers,
    add_outer,
    copy_into,
    dot,
    gram,
    invert,
    is_seen,
    log_determinant,
    multiply,
    whiten_twice,
)
from fairtrial.linear._kernels.model import Model, difference, resolution
from fairtrial.linear._kernels.planning import (
    can_plan,
    choose_leaders,
    clipped,
    fit,
    leaders_now,
    plan_block,
)

LEAST_SPREAD = 0.2


# --------------------------------------------------------------------- issuing and telling


@kernel(inline="always")
def next_draw(model: Model, rules: Rules, book: Book, batch: float) -> tuple[int, int]:
    """Return an arm to draw and the serial of its block; plan a block when none has draws left.

    Before theta can be estimated, draws beyond the first block inform plans and pay into
    nothing: their serial is -1. The arm is -1 when there is no room for another open block.
    """
    slots = book.waiting.size
    newest = (book.control[BLOCKS] - 1) % slots
    if book.control[OPEN] == 0 or book.unissued[newest] == 0:
        if not can_plan(model, book):
            extra = _least_drawn(model, book)
            book.pending[extra] += 1.0
            return extra, -1
        if book.control[OPEN] == slots:
            return -1, -1
        plan_block(model, rules, book, batch)
        newest = (book.control[BLOCKS] - 1) % slots
    arm = -1
    most = 0.0
    for index in range(book.touched[newest]):
        k = book.support[newest, index]
        if book.to_issue[newest, k] > most:
            most = book.to_issue[newest, k]
            arm = k
    book.to_issue[newest, arm] -= 1.0
    book.unissued[newest] -= 1
    book.pending[arm] += 1.0
    return arm, book.control[BLOCKS] - 1


@kernel
def _least_drawn(model: Model, book: Book) -> int:
    best = int(model.start[0])
    for i in range(model.start.size):
        k = int(model.start[i])
        if book.counts[k] + book.pending[k] < book.counts[best] + book.pending[best]:
            best = k
    return best


@kernel(inline="always")
def record_reward(
    model: Model, rules: Rules, book: Book, arm: int, serial: int, reward: float
) -> None:
    """Take one reward (serial -1: outside every block) and settle what is complete."""
    book.counts[arm] += 1.0
    book.sums[arm] += reward
    book.squares[arm] += reward * reward
    record_result(book.record, arm, reward)
    if not book.control[WATCHED] and can_plan(model, book):
        book.control[WATCHED] = 1
        copy_into(book.early, book.record)
    if serial >= book.control[FIRST]:
        slot = serial % book.waiting.size
        book.got[slot, arm] += 1.0
        book.block_sums[slot, arm] += reward - dot(model.arms[arm], book.prediction[slot])
        if rules.bounded:
            _multiply_bets(model, rules, book, slot, arm, reward, False)
        book.waiting[slot] -= 1
        if book.waiting[slot] == 0:
            settle(model, rules, book)


@kernel
def record_loss(model: Model, rules: Rules, book: Book, arm: int, serial: int) -> None:
    """Close the books on a draw that will have no reward."""
    book.pending[arm] -= 1.0
    if serial >= book.control[FIRST]:
        slot = serial % book.waiting.size
        if rules.bounded:
            _multiply_bets(model, rules, book, slot, arm, 0.0, True)
        book.waiting[slot] -= 1
        settle(model, rules, book)


@kernel
def correct_reward(
    model: Model, rules: Rules, book: Book, arm: int, serial: int, old: float, new: float
) -> None:
    """Replace a reward in the data, and in the bets of its block if they are not paid yet.

    A negative serial says that nothing was bet on it.
    """
    book.sums[arm] += new - old
    book.squares[arm] += new * new - old * old
    # The test of the noise begins again: its first results may have been others.
    replace_result(book.record, arm, old, new)
    copy_into(book.early, book.record)
    if serial < book.control[FIRST]:
        return
    slot = serial % book.waiting.size
    book.block_sums[slot, arm] += new - old
    if rules.bounded:
        _correct_bets(model, rules, book, slot, arm, old, new)


@kernel
def _correct_bets(
    model: Model, rules: Rules, book: Book, slot: int, arm: int, old: float, new: float
) -> None:
    """Replace one draw's factor in every bet of its block."""
    row = model.arms[arm]
    for bet in range(book.number[slot]):
        if book.variance[slot, bet] == 0.0:
            continue
        weight = dot(row, book.coefficients[slot, bet])
        middle = clipped(rules, dot(row, book.centres[slot, bet]))
        for point in range(GRID):
            theta = book.thetas[slot, bet, point] * weight
            change = (1.0 + theta * (new - middle)) / (1.0 + theta * (old - middle))
            book.logs[slot, bet, point] += math.log(change)


@kernel
def _multiply_bets(
    model: Model, rules: Rules, book: Book, slot: int, arm: int, reward: float, lost: bool
) -> None:
    """Multiply one draw's factor into every bet of its block.

    A lost draw counts as the worst value for each bet: whatever made it get lost.
    """
    row = model.arms[arm]
    for bet in range(book.number[slot]):
        if book.variance[slot, bet] == 0.0:
            continue
        weight = dot(row, book.coefficients[slot, bet])
        if weight == 0.0:
            continue
        value = reward
        if lost:
            value = rules.low if weight > 0.0 else rules.high
        step = weight * (value - clipped(rules, dot(row, book.centres[slot, bet])))
        multiply_factor(book.thetas[slot, bet], book.products[slot, bet], step)
        book.drawn[slot, bet] += 1
        if book.drawn[slot, bet] == DRAWS_PER_LOG:
            flush_products(book.products[slot, bet], book.logs[slot, bet])
            book.drawn[slot, bet] = 0


# ------------------------------------------------------------------- paying and concluding


@kernel
def settle(model: Model, rules: Rules, book: Book) -> None:
    """Pay the bets of every block that is complete, in the order in which they were issued."""
    while book.control[OPEN] > 0 and not is_over(book):
        slot = book.control[FIRST] % book.waiting.size
        if book.waiting[slot] > 0:
            return
        if rules.bounded:
            _pay_bounded(book, slot)
        else:
            _pay_gaussian(model, rules, book, slot)
        book.control[FIRST] += 1
        book.control[OPEN] -= 1
        conclude(model, rules, book)
        if rules.misspecification > 0.0 and not book.control[FINISHED]:
            book.control[HOPELESS] = _is_hopeless(model, rules, book)


@kernel
def is_over(book: Book) -> bool:
    """Return whether there is an answer, or there will be none."""
    return book.control[FINISHED] == 1 or book.control[HOPELESS] == 1


@kernel
def _gain(book: Book, slot: int, bet: int, gain: float) -> None:
    row = book.winner[slot, bet] if book.wealth.shape[0] > 1 else 0
    book.wealth[row, book.rival[slot, bet]] += gain


@kernel
def _pay_bounded(book: Book, slot: int) -> None:
    for bet in range(book.number[slot]):
        if book.variance[slot, bet] > 0.0:
            flush_products(book.products[slot, bet], book.logs[slot, bet])
            logs = book.logs[slot, bet]
            _gain(book, slot, bet, log_mixture(book.cash[slot, bet], book.stakes[slot, bet], logs))


@kernel
def _pay_gaussian(model: Model, rules: Rules, book: Book, slot: int) -> None:
    """Pay on noise of known scale, from the draws of the block that did arrive."""
    if book.number[slot] == 0:
        return
    rank = model.arms.shape[1]
    matrix = np.zeros((rank, rank))
    inverse = np.empty((rank, rank))
    kernel = np.empty((rank, rank))
    right = np.zeros(rank)
    for index in range(book.touched[slot]):
        k = book.support[slot, index]
        add_outer(matrix, model.arms[k], book.got[slot, k])
        for i in range(rank):
            right[i] += book.block_sums[slot, k] * model.arms[k, i]
    seen = invert(matrix, inverse, kernel)
    theta = np.empty(rank)
    target = np.empty(rank)
    direction = np.empty(rank)
    # The block's rewards are told apart from the prediction: where they are far larger than the
    # noise, what rounding leaves of a direction that was not drawn would count otherwise.
    multiply(inverse, right, theta)
    for i in range(rank):
        theta[i] += book.prediction[slot, i]
    for bet in range(book.number[slot]):
        if book.variance[slot, bet] <= 0.0:
            continue
        difference(model, book.winner[slot, bet], book.rival[slot, bet], target)
        if not is_seen(kernel, seen, target):
            continue
        multiply(inverse, target, direction)
        variance = dot(target, direction)
        earlier = book.variance[slot, bet]
        slack = rules.tolerance - resolution(
            model, rules.misspecification, book.got[slot], direction
        )
        effect = (dot(target, theta) + slack) / math.sqrt(earlier)
        gain = log_bet(book.estimate[slot, bet], earlier / variance, effect)
        _gain(book, slot, bet, gain)


@kernel
def weakest_evidence(rules: Rules, book: Book, chosen: Integers) -> float:
    """Return the least log wealth that still separates the leaders from the others."""
    least = math.inf
    for i in range(chosen.size):
        if chosen[i]:
            for k in range(chosen.size):
                if not chosen[k] and (rules.pairwise or not book.rejected[k]):
                    least = min(least, wealth_of(book, i, k))
    return least


@kernel
def conclude(model: Model, rules: Rules, book: Book) -> None:
    """Reject for good what has lost, and finish when one answer is left."""
    if rules.pairwise:
        chosen = np.empty(book.chosen.size, dtype=np.int64)
        known = leaders_now(model, rules, book, chosen)
        if known and weakest_evidence(rules, book, chosen) >= rules.threshold:
            book.control[FINISHED] = 1
            for k in range(chosen.size):
                book.chosen[k] = chosen[k]
        return
    left = 0
    last = -1
    for k in range(book.rejected.size):
        if not book.rejected[k] and book.wealth[0, k] >= rules.threshold:
            book.rejected[k] = 1
        if not book.rejected[k]:
            left += 1
            last = k
    if left <= 1:
        # Should the last two fall together, the leader stays.
        book.control[FINISHED] = 1
        if last >= 0:
            for k in range(book.chosen.size):
                book.chosen[k] = 1 if k == last else 0


@kernel
def _is_hopeless(model: Model, rules: Rules, book: Book) -> int:
    """Return whether some gap of a leader is smaller than what misspecified means can hide.

    Judged by an interval that holds at all times; no answer rests on it.
    """
    rank = model.arms.shape[1]
    root = np.empty((rank, rank))
    theta = np.empty(rank)
    work = np.empty(rank)
    direction = np.empty(rank)
    target = np.empty(rank)
    noise = fit(model, rules, book, root, theta)
    height = noise * _interval_height(model, rules, book)
    chosen = np.empty(book.chosen.size, dtype=np.int64)
    choose_leaders(model, rules, book, theta, chosen)
    for i in range(chosen.size):
        for k in range(chosen.size):
            if not chosen[i] or chosen[k] or book.rejected[k]:
                continue
            if rules.pairwise and book.wealth[i, k] >= rules.threshold:
                continue
            difference(model, i, k, target)
            width = math.sqrt(height * whiten_twice(root, target, work, direction))
            most = dot(target, theta) + rules.tolerance + width
            if most < resolution(model, rules.misspecification, book.counts, direction):
                return 1
    return 0


@kernel
def _interval_height(model: Model, rules: Rules, book: Book) -> float:
    """Return the level of the method of mixtures, its prior a part of the initial draws."""
    rank = model.arms.shape[1]
    spread = max(LEAST_SPREAD, 1.0 / rules.start)
    prior = np.zeros((rank, rank))
    joint = np.empty((rank, rank))
    work = np.empty((rank, rank))
    for i in range(model.start.size):
        add_outer(prior, model.arms[int(model.start[i])], spread * rules.start)
    gram(model.arms, book.counts, joint)
    for i in range(rank):
        for j in range(rank):
            joint[i, j] += prior[i, j]
    log_det = log_determinant(joint, work) - log_determinant(prior, work)
    return 2.0 * (1.0 + spread) * (rules.threshold + 0.5 * log_det)
