"""Block betting on linear arms: one wealth per candidate, or per pair of candidates.

Counts and bets of a block are frozen when it is planned, from what is known then; the block
alone pays or loses. Proofs: docs/explanation/block-betting.md (noise of known scale) and
docs/explanation/bounded-rewards.md (rewards in a known range).
"""

import math
from typing import NamedTuple

import numba as nb
import numpy as np

from fairtrial.confidence._betting import (
    DRAWS_PER_LOG,
    GRID,
    bounded_stakes,
    flush_products,
    log_bet,
    log_mixture,
    multiply_factor,
)
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
    quadratic,
    whiten_twice,
    whitened_square,
    whitener,
)
from fairtrial.linear._kernels.model import Model, difference, is_zero

PRIOR_DRAWS = 2.0
RIDGE = 1e-10


class Rules(NamedTuple):
    """The constants of the method; `low` and `high` are the reward's range if it has one.

    With `pairwise` there is a wealth against every ordered pair, else against every candidate.
    """

    bounded: bool
    low: float
    high: float
    threshold: float
    start: float
    growth: float
    kappa: float
    cost: float
    touch: float
    steps: int
    slack: float
    epsilon: float
    top: int
    pairwise: bool


NUMBER_OF_RULES = 14


@nb.njit(cache=True, nogil=True)
def open_rules(packed: Floats) -> Rules:
    """Return the constants by name; they are the last numbers of a packed problem."""
    at = packed.size - NUMBER_OF_RULES
    return Rules(
        packed[at] > 0.0,
        packed[at + 1],
        packed[at + 2],
        packed[at + 3],
        packed[at + 4],
        packed[at + 5],
        packed[at + 6],
        packed[at + 7],
        packed[at + 8],
        int(packed[at + 9]),
        packed[at + 10],
        packed[at + 11],
        int(packed[at + 12]),
        packed[at + 13] > 0.0,
    )


class Book(NamedTuple):
    """Everything that changes: data, wealth, and the open blocks in issue order.

    Shapes: K arms, M candidates, r coordinates, R blocks that can be open at once, B bets in a
    block. The wealth of candidate k is ``wealth[0, k]``; pairwise, ``wealth[i, k]`` is evidence
    that i is better than k.
    """

    counts: Floats  # (K,), as are the next four
    sums: Floats
    squares: Floats
    pending: Floats
    shares: Floats  # the plan that the next one starts from
    wealth: Floats  # (1, M) or (M, M)
    forecast: Floats  # (1,), draws still needed when the last block was planned
    planned: Floats  # (R, K), as are the next three
    to_issue: Floats
    got: Floats
    block_sums: Floats
    estimate: Floats  # (R, B), in its own standard errors; as are the next two
    variance: Floats  # of the estimate; 0 for no bet
    cash: Floats
    coefficients: Floats  # (R, B, r) for bounded rewards, as is the next: x'h per draw
    centres: Floats
    thetas: Floats  # (R, B, GRID) for bounded rewards, as are the next three
    stakes: Floats
    products: Floats
    logs: Floats
    rejected: Integers  # (M,)
    chosen: Integers  # (M,), the present leaders, or the answer
    control: Integers  # see the indices below
    waiting: Integers  # (R,), results outstanding
    unissued: Integers  # (R,), draws not yet issued
    number: Integers  # (R,), bets
    touched: Integers  # (R,), arms with draws
    support: Integers  # (R, K), those arms
    winner: Integers  # (R, B)
    rival: Integers  # (R, B)
    drawn: Integers  # (R, B), draws since the products were last turned into logs


FIRST, OPEN, FINISHED, BLOCKS = range(4)
"""Entries of `control`: serial number of the oldest open block, number of open ones, whether
the race is over, and blocks planned so far. A block lives in the slot of its serial number
modulo the number of slots."""


@nb.njit(cache=True, nogil=True)
def _bets(candidates: int, rules: Rules) -> int:
    return max(1, rules.top * (candidates - rules.top))


@nb.njit(cache=True, nogil=True)
def sizes(packed: Floats, arms: int, candidates: int, rank: int, slots: int) -> tuple[int, int]:
    """Return the lengths of the two buffers that a book lives in."""
    rules = open_rules(packed)
    bets = _bets(candidates, rules)
    ledgers = candidates * candidates if rules.pairwise else candidates
    floats = 5 * arms + ledgers + 1 + slots * (4 * arms + 3 * bets)
    if rules.bounded:
        floats += slots * bets * (2 * rank + 4 * GRID)
    return floats, 2 * candidates + 4 + slots * (4 + arms + 3 * bets)


@nb.njit(cache=True, nogil=True)
def open_book(
    packed: Floats, floats: Floats, integers: Integers,
    arms: int, candidates: int, rank: int, slots: int,
) -> Book:  # fmt: skip
    """Return the named views of the two buffers."""
    rules = open_rules(packed)
    bets = _bets(candidates, rules)
    rows = candidates if rules.pairwise else 1
    data = floats[: 5 * arms].reshape((5, arms))
    at = 5 * arms
    wealth = floats[at : at + rows * candidates].reshape((rows, candidates))
    at += rows * candidates
    forecast = floats[at : at + 1]
    at += 1
    size = slots * arms
    blocks = floats[at : at + 4 * size].reshape((4, slots, arms))
    at += 4 * size
    size = slots * bets
    scalars = floats[at : at + 3 * size].reshape((3, slots, bets))
    at += 3 * size
    width = rank if rules.bounded else 0
    size = slots * bets * width
    directions = floats[at : at + 2 * size].reshape((2, slots, bets, width))
    at += 2 * size
    width = GRID if rules.bounded else 0
    size = slots * bets * width
    points = floats[at : at + 4 * size].reshape((4, slots, bets, width))
    flags = integers[: 2 * candidates].reshape((2, candidates))
    at = 2 * candidates
    control = integers[at : at + 4]
    at += 4
    per_block = integers[at : at + 4 * slots].reshape((4, slots))
    at += 4 * slots
    support = integers[at : at + slots * arms].reshape((slots, arms))
    at += slots * arms
    per_bet = integers[at : at + 3 * slots * bets].reshape((3, slots, bets))
    return Book(
        data[0], data[1], data[2], data[3], data[4], wealth, forecast,
        blocks[0], blocks[1], blocks[2], blocks[3],
        scalars[0], scalars[1], scalars[2], directions[0], directions[1],
        points[0], points[1], points[2], points[3],
        flags[0], flags[1], control,
        per_block[0], per_block[1], per_block[2], per_block[3], support,
        per_bet[0], per_bet[1], per_bet[2],
    )  # fmt: skip


# ------------------------------------------------------------------------- what is known


@nb.njit(cache=True, nogil=True)
def can_plan(model: Model, book: Book) -> bool:
    """Return whether every arm of the basis has a result: theta can then be estimated."""
    least = math.inf
    for i in range(model.basis.size):
        least = min(least, book.counts[int(model.basis[i])])
    return least >= 1.0


@nb.njit(cache=True, nogil=True)
def fit(model: Model, rules: Rules, book: Book, root: Floats, theta: Floats) -> float:
    """Fill the whitener of all data and the least-squares estimate; return the noise's variance.

    Bounded rewards take it from the residuals, with two draws of a fair coin for a prior.
    """
    rank = theta.size
    matrix = np.empty((rank, rank))
    right = np.empty(rank)
    work = np.empty(rank)
    gram(model.arms, book.counts, matrix)
    combine(model.arms, book.sums, right)
    whitener(matrix, root)
    whiten_twice(root, right, work, theta)
    if not rules.bounded:
        return 1.0
    total = 0.0
    residual = PRIOR_DRAWS * (rules.high - rules.low) ** 2 / 4.0
    for k in range(book.counts.size):
        count = book.counts[k]
        if count > 0.0:
            mean = book.sums[k] / count
            residual += max(0.0, book.squares[k] - count * mean * mean)
            residual += count * (mean - dot(model.arms[k], theta)) ** 2
            total += count
    return residual / (total - rank + PRIOR_DRAWS)


@nb.njit(cache=True, nogil=True)
def choose_leaders(model: Model, rules: Rules, book: Book, theta: Floats, chosen: Integers) -> None:
    """Mark the best `top` of the candidates that are not rejected; ties go to the first."""
    scores = np.empty(chosen.size)
    for k in range(chosen.size):
        chosen[k] = 0
        scores[k] = -math.inf if book.rejected[k] else dot(model.candidates[k], theta)
    for _ in range(rules.top):
        best = -1
        for k in range(chosen.size):
            if not chosen[k] and not book.rejected[k] and (best < 0 or scores[k] > scores[best]):
                best = k
        if best >= 0:
            chosen[best] = 1


@nb.njit(cache=True, nogil=True)
def leaders_now(model: Model, rules: Rules, book: Book, chosen: Integers) -> bool:
    """Mark the leaders by all data so far; False before theta can be estimated."""
    if book.control[FINISHED]:
        for k in range(chosen.size):
            chosen[k] = book.chosen[k]
        return True
    if not can_plan(model, book):
        return False
    rank = model.arms.shape[1]
    theta = np.empty(rank)
    fit(model, rules, book, np.empty((rank, rank)), theta)
    choose_leaders(model, rules, book, theta, chosen)
    return True


@nb.njit(cache=True, nogil=True)
def wealth_of(book: Book, winner: int, rival: int) -> float:
    """Return the log wealth against "the rival is (also) right", as far as the winner tells."""
    row = winner if book.wealth.shape[0] > 1 else 0
    return book.wealth[row, rival]


@nb.njit(cache=True, nogil=True)
def weakest_evidence(rules: Rules, book: Book, chosen: Integers) -> float:
    """Return the least log wealth that still separates the leaders from the others."""
    least = math.inf
    for i in range(chosen.size):
        if chosen[i]:
            for k in range(chosen.size):
                if not chosen[k] and (rules.pairwise or not book.rejected[k]):
                    least = min(least, wealth_of(book, i, k))
    return least


@nb.njit(cache=True, nogil=True)
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


# ------------------------------------------------------------------------------ planning


@nb.njit(cache=True, nogil=True)
def start_book(model: Model, rules: Rules, book: Book) -> None:
    """Open the first block: the initial draws of a basis, on which nothing is betted."""
    arms = model.arms.shape[0]
    for k in range(arms):
        book.shares[k] = 1.0 / arms
    book.forecast[0] = math.inf
    if rules.top >= model.candidates.shape[0]:
        book.control[FINISHED] = 1
        for k in range(book.chosen.size):
            book.chosen[k] = 1
        return
    planned = np.zeros(arms)
    for i in range(model.basis.size):
        planned[int(model.basis[i])] = max(1.0, rules.start)
    _open_block(book, planned)


@nb.njit(cache=True, nogil=True)
def _open_block(book: Book, planned: Floats) -> None:
    slot = book.control[BLOCKS] % book.waiting.size
    book.control[OPEN] += 1
    book.control[BLOCKS] += 1
    touched = 0
    draws = 0
    for k in range(planned.size):
        book.planned[slot, k] = planned[k]
        book.to_issue[slot, k] = planned[k]
        book.got[slot, k] = 0.0
        book.block_sums[slot, k] = 0.0
        if planned[k] > 0.0:
            book.support[slot, touched] = k
            touched += 1
            draws += int(planned[k])
    book.touched[slot] = touched
    book.unissued[slot] = draws
    book.waiting[slot] = draws


@nb.njit(cache=True, nogil=True)
def _list_bets(rules: Rules, book: Book, slot: int) -> int:
    """Write down what the next block bets on; return how many candidates are still live."""
    candidates = book.chosen.size
    number = 0
    for i in range(candidates):
        if not book.chosen[i]:
            continue
        for k in range(candidates):
            if book.chosen[k] or book.rejected[k]:
                continue
            if rules.pairwise and book.wealth[i, k] >= rules.threshold:
                continue
            book.winner[slot, number] = i
            book.rival[slot, number] = k
            number += 1
    book.number[slot] = number
    return number + 1


@nb.njit(cache=True, nogil=True)
def find_design(model: Model, steps: int, targets: Floats, shares: Floats, found: Floats) -> float:
    """Improve the shares of the draws; return the largest target's variance at one draw.

    Multiplicative steps on the weakest of the targets. Only the size of a plan rests on it.
    """
    arms, rank = model.arms.shape
    trial = np.empty(arms)
    useful = 0
    for k in range(arms):
        useful += not is_zero(model, k)
    for k in range(arms):
        trial[k] = 0.0 if is_zero(model, k) else 0.8 * shares[k] + 0.2 / useful
    matrix = np.empty((rank, rank))
    root = np.empty((rank, rank))
    work = np.empty(rank)
    direction = np.empty(rank)
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
            trial[k] *= 1.0 - gain + gain * dot(model.arms[k], direction) ** 2 / value
            total += trial[k]
        for k in range(arms):
            trial[k] /= total
    return best


@nb.njit(cache=True, nogil=True)
def _weakest(root: Floats, targets: Floats) -> tuple[float, int]:
    most = -1.0
    weakest = 0
    for i in range(targets.shape[0]):
        value = whitened_square(root, targets[i])
        if value > most:
            most = value
            weakest = i
    return most, weakest


@nb.njit(cache=True, nogil=True)
def block_counts(
    model: Model, shares: Floats, targets: Floats, size: float, enough: float, planned: Floats
) -> None:
    """Fill the draws of a block: whole parts first, then one by one where they help the weakest.

    It has `size` draws, or more until no target's variance exceeds `enough`.
    """
    arms, rank = model.arms.shape
    matrix = np.empty((rank, rank))
    root = np.empty((rank, rank))
    work = np.empty(rank)
    direction = np.empty(rank)
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
            gap = dot(model.arms[k], direction) ** 2
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


@nb.njit(cache=True, nogil=True)
def plan_block(model: Model, rules: Rules, book: Book, batch: float) -> None:
    """Plan the next block and freeze its counts and bets.

    `batch`: draws wanted in the block; 0 leaves it to the method.
    """
    arms, rank = model.arms.shape
    root = np.empty((rank, rank))
    theta = np.empty(rank)
    noise = fit(model, rules, book, root, theta)
    choose_leaders(model, rules, book, theta, book.chosen)
    slot = book.control[BLOCKS] % book.waiting.size
    live = _list_bets(rules, book, slot)
    targets = np.empty((book.number[slot], rank))
    for bet in range(book.number[slot]):
        winner, rival = book.winner[slot, bet], book.rival[slot, bet]
        difference(model, winner, rival, targets[bet])
        effect = dot(targets[bet], theta) + rules.epsilon
        variance = noise * whitened_square(root, targets[bet])
        book.estimate[slot, bet] = effect / math.sqrt(variance)
        book.variance[slot, bet] = variance
        need = max(0.0, rules.threshold - wealth_of(book, winner, rival)) + rules.cost
        scale = math.sqrt(need / (effect**2 + rules.kappa * variance))
        for i in range(rank):
            targets[bet, i] *= scale
    shares = np.zeros(arms)
    value = find_design(model, rules.steps, targets, book.shares, shares)
    book.forecast[0] = 2.0 * noise * value
    total = 0.0
    for k in range(arms):
        book.shares[k] = shares[k]
        total += book.counts[k]
    size = batch
    if size <= 0.0:
        size = max(math.ceil(rules.growth * total), math.ceil(rules.touch * min(rank, live)))
    planned = np.empty(arms)
    block_counts(model, shares, targets, size, rules.slack * value / size, planned)
    _open_block(book, planned)
    if rules.bounded:
        _freeze_bounded(model, rules, book, slot, root, theta, noise)


@nb.njit(cache=True, nogil=True)
def _freeze_bounded(
    model: Model, rules: Rules, book: Book, slot: int, root: Floats, theta: Floats, noise: float
) -> None:
    """Freeze coefficients, centres and stakes of the bets on rewards in a known range."""
    rank = theta.size
    matrix = np.empty((rank, rank))
    inverse = np.empty((rank, rank))
    kernel = np.empty((rank, rank))
    gram(model.arms, book.planned[slot], matrix)
    seen = invert(matrix, inverse, kernel)
    target = np.empty(rank)
    direction = np.empty(rank)
    work = np.empty(rank)
    for bet in range(book.number[slot]):
        difference(model, book.winner[slot, bet], book.rival[slot, bet], target)
        if not is_seen(kernel, seen, target):
            book.variance[slot, bet] = 0.0
            continue
        weights = book.coefficients[slot, bet]
        centre = book.centres[slot, bet]
        multiply(inverse, target, weights)
        square = whiten_twice(root, target, work, direction)
        effect = dot(target, theta) + rules.epsilon
        for i in range(rank):
            centre[i] = theta[i] - direction[i] * effect / square
        at_centre = rules.epsilon
        inside = 0.0
        ruin = 0.0
        for index in range(book.touched[slot]):
            k = book.support[slot, index]
            count = book.planned[slot, k]
            weight = dot(model.arms[k], weights)
            middle = _clipped(rules, dot(model.arms[k], centre))
            at_centre += count * weight * middle
            deviation = dot(model.arms[k], theta) - middle
            inside += count * weight**2 * (noise + deviation**2)
            loss = middle - rules.low if weight > 0.0 else middle - rules.high
            ruin = max(ruin, weight * loss)
        if inside <= 0.0:
            book.variance[slot, bet] = 0.0
            continue
        book.cash[slot, bet] = bounded_stakes(
            book.estimate[slot, bet], math.sqrt(book.variance[slot, bet]), inside, ruin,
            book.thetas[slot, bet], book.stakes[slot, bet],
        )  # fmt: skip
        book.drawn[slot, bet] = 0
        for point in range(GRID):
            book.products[slot, bet, point] = 1.0
            book.logs[slot, bet, point] = book.thetas[slot, bet, point] * at_centre


@nb.njit(cache=True, nogil=True, inline="always")
def _clipped(rules: Rules, value: float) -> float:
    return min(max(value, rules.low), rules.high)


# --------------------------------------------------------------------- issuing and telling


@nb.njit(cache=True, nogil=True, inline="always")
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


@nb.njit(cache=True, nogil=True)
def _least_drawn(model: Model, book: Book) -> int:
    best = int(model.basis[0])
    for i in range(model.basis.size):
        k = int(model.basis[i])
        if book.counts[k] + book.pending[k] < book.counts[best] + book.pending[best]:
            best = k
    return best


@nb.njit(cache=True, nogil=True, inline="always")
def record_reward(
    model: Model, rules: Rules, book: Book, arm: int, serial: int, reward: float
) -> None:
    """Take one reward (serial -1: outside every block) and settle what is complete."""
    book.counts[arm] += 1.0
    book.sums[arm] += reward
    book.squares[arm] += reward * reward
    if serial >= book.control[FIRST]:
        slot = serial % book.waiting.size
        book.got[slot, arm] += 1.0
        book.block_sums[slot, arm] += reward
        if rules.bounded:
            _multiply_bets(model, rules, book, slot, arm, reward, False)
        book.waiting[slot] -= 1
        if book.waiting[slot] == 0:
            settle(model, rules, book)


@nb.njit(cache=True, nogil=True)
def record_loss(model: Model, rules: Rules, book: Book, arm: int, serial: int) -> None:
    """Close the books on a draw that will have no reward."""
    book.pending[arm] -= 1.0
    if serial >= book.control[FIRST]:
        slot = serial % book.waiting.size
        if rules.bounded:
            _multiply_bets(model, rules, book, slot, arm, 0.0, True)
        book.waiting[slot] -= 1
        settle(model, rules, book)


@nb.njit(cache=True, nogil=True)
def correct_reward(book: Book, arm: int, old: float, new: float) -> None:
    """Replace a reward in the data that plans are made from; what was betted stays."""
    book.sums[arm] += new - old
    book.squares[arm] += new * new - old * old


@nb.njit(cache=True, nogil=True)
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
        step = weight * (value - _clipped(rules, dot(row, book.centres[slot, bet])))
        multiply_factor(book.thetas[slot, bet], book.products[slot, bet], step)
        book.drawn[slot, bet] += 1
        if book.drawn[slot, bet] == DRAWS_PER_LOG:
            flush_products(book.products[slot, bet], book.logs[slot, bet])
            book.drawn[slot, bet] = 0


@nb.njit(cache=True, nogil=True)
def settle(model: Model, rules: Rules, book: Book) -> None:
    """Pay the bets of every block that is complete, in the order in which they were issued."""
    while book.control[OPEN] > 0 and not book.control[FINISHED]:
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


@nb.njit(cache=True, nogil=True)
def _gain(book: Book, slot: int, bet: int, gain: float) -> None:
    row = book.winner[slot, bet] if book.wealth.shape[0] > 1 else 0
    book.wealth[row, book.rival[slot, bet]] += gain


@nb.njit(cache=True, nogil=True)
def _pay_bounded(book: Book, slot: int) -> None:
    for bet in range(book.number[slot]):
        if book.variance[slot, bet] > 0.0:
            flush_products(book.products[slot, bet], book.logs[slot, bet])
            logs = book.logs[slot, bet]
            _gain(book, slot, bet, log_mixture(book.cash[slot, bet], book.stakes[slot, bet], logs))


@nb.njit(cache=True, nogil=True)
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
    multiply(inverse, right, theta)
    for bet in range(book.number[slot]):
        difference(model, book.winner[slot, bet], book.rival[slot, bet], target)
        if not is_seen(kernel, seen, target):
            continue
        variance = quadratic(inverse, target)
        earlier = book.variance[slot, bet]
        effect = (dot(target, theta) + rules.epsilon) / math.sqrt(earlier)
        gain = log_bet(book.estimate[slot, bet], earlier / variance, effect)
        _gain(book, slot, bet, gain)
