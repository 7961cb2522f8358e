"""Block betting on subpopulations with floors and ceilings: one wealth per answer.

Counts, directions and bets of a block are frozen when it is planned, from what is known
then; the block alone pays or loses. Proofs: docs/explanation/block-betting.md (rewards
with known noise) and docs/explanation/bounded-rewards.md (rewards in a known range).
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
from fairtrial.subpopulations._kernels.model import (
    CEILING,
    FLOOR,
    Booleans,
    Floats,
    Integers,
    Limits,
    Model,
    copy_into,
    divide,
    fill,
    total,
)
from fairtrial.subpopulations._kernels.pitfalls import (
    is_limited,
    margin,
    nearest_allowed,
    none_value,
    pair_value,
)

NO_BET, LIMITS_OF_RIVAL, PAIR, CELL_OF_LEADER = range(4)
"""Ledgers a bet can pay into: D[k], P[k, b], C[e, b, l] for the end e of cell l of b."""

LEADER_NONE_PAUSE = 1.0
PRIOR_DRAWS = 2.0


class Rules(NamedTuple):
    """The constants of the method; `low` and `high` are the reward's range if it has one."""

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
    pause: float


NUMBER_OF_RULES = 11


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
    )


class Book(NamedTuple):
    """Everything that changes: data, ledgers, and the open blocks in issue order.

    Shapes: K arms, L groups, R blocks that can be open at once, B = K + L bets a block, or
    K + 2 L where cells have ceilings. Row 0 of a bet's last two axes is the leader's arm, row 1
    the rival's.
    """

    counts: Floats  # (K, L), as are the next two
    sums: Floats
    squares: Floats
    shares: Floats  # (K, L), the plan that the next one starts from
    limits_of: Floats  # (K,), ledger D
    pairs: Floats  # (K, K), ledger P[k, j]
    cells: Floats  # (2, K, L), ledger C[e, j, l]
    forecast: Floats  # (1,), draws still needed when the last block was planned
    planned: Floats  # (R, K, L), as are the next three
    to_issue: Floats
    got: Floats
    block_sums: Floats
    coefficients: Floats  # (R, B, 2, L), as is the next
    centres: Floats
    estimate: Floats  # (R, B), as are the next three
    variance: Floats
    constant: Floats
    cash: Floats
    thetas: Floats  # (R, B, GRID), as are the next three
    stakes: Floats
    products: Floats
    logs: Floats
    rejected: Integers  # (K + 1,), the last is the answer "none"
    control: Integers  # see the indices below
    waiting: Integers  # (R,), results outstanding
    target: Integers  # (R,), the leader that was betted on
    ledger: Integers  # (R, B)
    rival: Integers  # (R, B)
    drawn: Integers  # (R, B), draws since the products were last turned into logs


FIRST, OPEN, LEADER, FINISHED, ANSWER, BLOCKS = range(6)
"""Entries of `control`: serial number of the oldest open block, number of open ones, the
present leader, whether the race is over and with which answer, and blocks planned so far.
A block lives in the slot of its serial number modulo the number of slots."""


@nb.njit(cache=True, nogil=True)
def sizes(arms: int, groups: int, slots: int, bets: int) -> tuple[int, int]:
    """Return the lengths of the two buffers that a book lives in; `bets` are those of a block."""
    cells = arms * groups
    floats = 6 * cells + arms + arms * arms + 1 + 4 * slots * cells
    floats += slots * bets * (4 * groups + 4 + 4 * GRID)
    return floats, arms + 1 + 6 + slots * (2 + 3 * bets)


@nb.njit(cache=True, nogil=True)
def open_book(floats: Floats, integers: Integers, arms: int, groups: int, slots: int) -> Book:
    """Return the named views of the two buffers."""
    cells = arms * groups
    bets = ((integers.size - arms - 7) // slots - 2) // 3
    at = 0
    data = floats[at : at + 4 * cells].reshape((4, arms, groups))
    at += 4 * cells
    limits_of = floats[at : at + arms]
    at += arms
    pairs = floats[at : at + arms * arms].reshape((arms, arms))
    at += arms * arms
    cell_ledger = floats[at : at + 2 * cells].reshape((2, arms, groups))
    at += 2 * cells
    forecast = floats[at : at + 1]
    at += 1
    size = slots * cells
    blocks = floats[at : at + 4 * size].reshape((4, slots, arms, groups))
    at += 4 * size
    size = slots * bets * 2 * groups
    direction = floats[at : at + 2 * size].reshape((2, slots, bets, 2, groups))
    at += 2 * size
    size = slots * bets
    scalars = floats[at : at + 4 * size].reshape((4, slots, bets))
    at += 4 * size
    size = slots * bets * GRID
    points = floats[at : at + 4 * size].reshape((4, slots, bets, GRID))
    rejected = integers[: arms + 1]
    at = arms + 1
    control = integers[at : at + 6]
    at += 6
    per_block = integers[at : at + 2 * slots].reshape((2, slots))
    at += 2 * slots
    size = slots * bets
    per_bet = integers[at : at + 3 * size].reshape((3, slots, bets))
    return Book(
        data[0], data[1], data[2], data[3], limits_of, pairs, cell_ledger, forecast,
        blocks[0], blocks[1], blocks[2], blocks[3], direction[0], direction[1],
        scalars[0], scalars[1], scalars[2], scalars[3],
        points[0], points[1], points[2], points[3],
        rejected, control, per_block[0], per_block[1], per_bet[0], per_bet[1], per_bet[2],
    )  # fmt: skip


# ------------------------------------------------------------------------------ evidence


@nb.njit(cache=True, nogil=True)
def cells_ledger(model: Model, book: Book, j: int) -> float:
    """Return the least of arm j's cell ledgers: evidence that j fails none of its limits."""
    least = math.inf
    for end in range(2):
        for group in range(model.weights.size):
            if abs(model.limits[end, j, group]) < math.inf:
                least = min(least, book.cells[end, j, group])
    return least


@nb.njit(cache=True, nogil=True)
def log_wealth(model: Model, book: Book, answer: int, target: int, replacement: float) -> float:
    """Return the log wealth against an answer (K stands for "none").

    The term of arm `target`, if it is one, is replaced by `replacement`.
    """
    arms = model.active.shape[0]
    total = 0.0 if answer == arms else book.limits_of[answer]
    for j in range(arms):
        if j == answer:
            continue
        if j == target:
            total += replacement
        elif answer == arms:
            total += cells_ledger(model, book, j)
        else:
            total += min(book.pairs[answer, j], cells_ledger(model, book, j))
    return total


@nb.njit(cache=True, nogil=True)
def current_wealth(model: Model, book: Book, answer: int) -> float:
    """Return the log wealth against an answer as it stands."""
    return log_wealth(model, book, answer, answer, 0.0)


@nb.njit(cache=True, nogil=True)
def all_wealth(model: Model, book: Book) -> Floats:
    """Return the log wealth against every answer, "none" last."""
    arms = model.active.shape[0]
    wealth = np.empty(arms + 1)
    for answer in range(arms + 1):
        wealth[answer] = current_wealth(model, book, answer)
    return wealth


@nb.njit(cache=True, nogil=True)
def _none_is_possible(model: Model) -> bool:
    for k in range(model.active.shape[0]):
        limited = False
        for group in range(model.weights.size):
            limited = limited or is_limited(model.limits, k, group)
        if not limited:
            return False
    return True


@nb.njit(cache=True, nogil=True)
def reject_answers(model: Model, rules: Rules, book: Book) -> None:
    """Reject for good every answer whose wealth has reached 1/delta; finish when one is left."""
    arms = model.active.shape[0]
    for answer in range(arms + 1):
        if not book.rejected[answer] and current_wealth(model, book, answer) >= rules.threshold:
            book.rejected[answer] = 1
    left = 0
    last = book.control[LEADER]
    for answer in range(arms + 1):
        if not book.rejected[answer]:
            left += 1
            last = answer
    if left <= 1:
        book.control[FINISHED] = 1
        book.control[ANSWER] = last


# ------------------------------------------------------------------------------ planning


@nb.njit(cache=True, nogil=True)
def start_book(model: Model, rules: Rules, book: Book) -> None:
    """Open the first block: the initial draws, on which nothing is betted."""
    arms, groups = model.active.shape
    fill(book.shares, 1.0 / (arms * groups))
    book.control[LEADER] = arms
    if not _none_is_possible(model):
        book.rejected[arms] = 1
        book.control[LEADER] = 0
    book.forecast[0] = math.inf
    reject_answers(model, rules, book)
    if not book.control[FINISHED]:
        planned = np.zeros((arms, groups))
        for k in range(arms):
            for group in range(groups):
                if model.active[k, group] > 0.0:
                    planned[k, group] = max(1.0, rules.start)
        _open_block(book, planned, book.control[LEADER])


@nb.njit(cache=True, nogil=True)
def _open_block(book: Book, planned: Floats, target: int) -> int:
    slot = book.control[BLOCKS] % book.waiting.size
    book.control[OPEN] += 1
    book.control[BLOCKS] += 1
    book.target[slot] = target
    book.waiting[slot] = int(total(planned))
    for bet in range(book.ledger.shape[1]):
        book.ledger[slot, bet] = NO_BET
    for k in range(planned.shape[0]):
        for group in range(planned.shape[1]):
            book.got[slot, k, group] = 0.0
            book.block_sums[slot, k, group] = 0.0
            book.planned[slot, k, group] = planned[k, group]
            book.to_issue[slot, k, group] = planned[k, group]
    return slot


@nb.njit(cache=True, nogil=True)
def summarise(model: Model, rules: Rules, book: Book, means: Floats, variances: Floats) -> None:
    """Fill means and variances of a draw from all data; bounded rewards shrink to a fair coin."""
    for k in range(means.shape[0]):
        for group in range(means.shape[1]):
            count = max(book.counts[k, group], 1e-300)
            means[k, group] = book.sums[k, group] / count
            variances[k, group] = model.variances[k, group]
            if rules.bounded:
                spread = PRIOR_DRAWS * (rules.high - rules.low) ** 2 / 4.0
                squares = book.squares[k, group] - book.sums[k, group] ** 2 / count
                variances[k, group] = (squares + spread) / (book.counts[k, group] + PRIOR_DRAWS)


@nb.njit(cache=True, nogil=True)
def find_leader(model: Model, book: Book, means: Floats, precisions: Floats) -> int:
    """Return the best empirically feasible live answer; else none; else the least infeasible."""
    arms = means.shape[0]
    best = -1
    best_quality = -math.inf
    for k in range(arms):
        if book.rejected[k] or none_value(k, means, precisions, model.limits) > 0.0:
            continue
        quality = 0.0
        for group in range(means.shape[1]):
            quality += model.weights[group] * means[k, group]
        if quality > best_quality:
            best = k
            best_quality = quality
    if best >= 0:
        return best
    if not book.rejected[arms]:
        return arms
    least = math.inf
    for k in range(arms):
        if not book.rejected[k]:
            short = none_value(k, means, precisions, model.limits)
            if short < least:
                least = short
                best = k
    return best


@nb.njit(cache=True, nogil=True)
def leader_now(model: Model, rules: Rules, book: Book) -> int:
    """Return the leader by all data so far, -1 before every cell that matters has some."""
    if not _can_plan(model, book):
        return -1
    means = np.empty(model.active.shape)
    variances = np.empty(model.active.shape)
    summarise(model, rules, book, means, variances)
    precisions = np.empty(model.active.shape)
    divide(precisions, book.counts, variances)
    return find_leader(model, book, means, precisions)


@nb.njit(cache=True, nogil=True)
def needs_of(model: Model, rules: Rules, book: Book, leader: int, needs: Floats) -> None:
    """Fill what each item still needs in nats; negative where it is settled or absent.

    Items 0 .. K-1: the rival k. Items from K on: the limits of the leader, floors first.
    """
    arms, groups = model.active.shape
    for item in range(needs.size):
        needs[item] = -1.0
    for k in range(arms):
        if book.rejected[k] or k == leader:
            continue
        if leader == arms:
            needs[k] = max(0.0, rules.threshold - current_wealth(model, book, k))
        else:
            missing = rules.threshold - log_wealth(model, book, k, leader, book.pairs[k, leader])
            needs[k] = missing if missing > 0.0 else -1.0
    if leader == arms:
        return
    for item in range(arms, needs.size):
        end, group = (item - arms) // groups, (item - arms) % groups
        if abs(model.limits[end, leader, group]) == math.inf:
            continue
        largest = -math.inf
        for answer in range(arms + 1):
            if answer != leader and not book.rejected[answer]:
                missing = rules.threshold - log_wealth(
                    model, book, answer, leader, book.cells[end, leader, group]
                )
                largest = max(largest, missing)
        needs[item] = largest if largest > 0.0 else -1.0


@nb.njit(cache=True, nogil=True)
def item_value(
    item: int,
    leader: int,
    means: Floats,
    precisions: Floats,
    weights: Floats,
    limits: Limits,
    lam: Floats,
) -> float:
    """Return the information that precisions give on one item; a pair fills ``lam[item]``."""
    arms, groups = means.shape
    if item >= arms:
        end, group = (item - arms) // groups, (item - arms) % groups
        distance = means[leader, group] - limits[end, leader, group]
        return precisions[leader, group] * distance**2
    if leader == arms:
        return none_value(item, means, precisions, limits)
    value, _ = pair_value(
        leader, item, means, precisions, leader, item, weights, limits, 0.0, lam, item
    )
    return value


@nb.njit(cache=True, nogil=True)
def _item_gradient(
    item: int, leader: int, means: Floats, limits: Limits, lam: Floats, gradient: Floats
) -> None:
    """Fill an item's derivatives by the precisions, after `item_value` has filled `lam`."""
    arms, groups = means.shape
    fill(gradient, 0.0)
    if item >= arms:
        end, group = (item - arms) // groups, (item - arms) % groups
        gradient[leader, group] = (means[leader, group] - limits[end, leader, group]) ** 2
        return
    for group in range(groups):
        if leader == arms:
            gradient[item, group] = min(0.0, margin(means[item, group], limits, item, group)) ** 2
        else:
            gradient[leader, group] = (means[leader, group] - lam[item, 0, group]) ** 2
            gradient[item, group] = (means[item, group] - lam[item, 1, group]) ** 2


@nb.njit(cache=True, nogil=True, error_model="numpy")
def find_shares(
    model: Model,
    rules: Rules,
    book: Book,
    leader: int,
    means: Floats,
    variances: Floats,
    needs: Floats,
    present: Floats,
) -> float:
    """Set the shares of cost that finish the neediest item soonest; return what it will cost.

    `present`: each item's value at the data so far.
    """
    arms, groups = means.shape
    weights, limits = model.weights, model.limits
    per_cost = np.empty((arms, groups))
    shares = np.empty((arms, groups))
    for k in range(arms):
        for group in range(groups):
            per_cost[k, group] = 1.0 / (variances[k, group] * model.costs[k, group])
            shares[k, group] = 0.7 * book.shares[k, group] + 0.3 / (arms * groups)
    urgency = np.empty(needs.size)
    live = np.empty(needs.size, dtype=np.int64)
    number = 0
    for item in range(needs.size):
        if needs[item] >= 0.0 and present[item] > 0.0:
            urgency[item] = (1.0 + rules.kappa / present[item]) / (needs[item] + rules.cost)
            live[number] = item
            number += 1
    lam = np.empty((needs.size, 2, groups))
    values = np.empty(needs.size)
    precisions = np.empty((arms, groups))
    gradient = np.empty((arms, groups))
    best = -1.0
    forecast = math.inf
    for step in range(rules.steps if number > 0 else 0):
        for k in range(arms):
            for group in range(groups):
                precisions[k, group] = shares[k, group] * per_cost[k, group]
        weakest = 0
        least = math.inf
        for i in range(number):
            item = live[i]
            values[i] = item_value(item, leader, means, precisions, weights, limits, lam)
            if values[i] * urgency[item] < least:
                least = values[i] * urgency[item]
                weakest = i
        if least > best:
            best = least
            forecast = 0.0
            for i in range(number):
                forecast = max(forecast, 2.0 * needs[live[i]] / max(values[i], 1e-300))
            copy_into(book.shares, shares)
        if values[weakest] <= 0.0:
            break
        _item_gradient(live[weakest], leader, means, limits, lam, gradient)
        gain = 1.0 / (8.0 + step)
        scale = gain / values[weakest]
        for k in range(arms):
            for group in range(groups):
                pull = gradient[k, group] * per_cost[k, group]
                shares[k, group] *= 1.0 - gain + scale * pull
    return forecast


@nb.njit(cache=True, nogil=True)
def find_support(
    model: Model,
    book: Book,
    leader: int,
    means: Floats,
    variances: Floats,
    needs: Floats,
    support: Booleans,
) -> int:
    """Mark the cells that some live item can use; return how many there are."""
    arms, groups = means.shape
    for k in range(arms):
        for group in range(groups):
            support[k, group] = False
    lam = np.empty((needs.size, 2, groups))
    gradient = np.empty((arms, groups))
    precisions = np.empty((arms, groups))
    divide(precisions, book.shares, variances)
    for item in range(needs.size):
        if needs[item] < 0.0:
            continue
        item_value(item, leader, means, precisions, model.weights, model.limits, lam)
        _item_gradient(item, leader, means, model.limits, lam, gradient)
        touched = False
        for k in range(arms):
            for group in range(groups):
                if gradient[k, group] > 0.0:
                    support[k, group] = True
                    touched = True
        if not touched:
            _mark_cells_of(item, leader, model.weights, model.limits, support)
    number = 0
    for k in range(arms):
        for group in range(groups):
            if leader == arms and book.shares[k, group] <= 0.02 / (arms * groups):
                support[k, group] = False
            number += support[k, group]
    if number == 0:
        # An exact tie, or a mean exactly on its floor: nothing is known of where to look.
        for k in range(arms):
            for group in range(groups):
                support[k, group] = model.active[k, group] > 0.0
                number += support[k, group]
    return number


@nb.njit(cache=True, nogil=True)
def _mark_cells_of(
    item: int, leader: int, weights: Floats, limits: Limits, support: Booleans
) -> None:
    """Mark every cell that an item rests on: where a mean sits exactly on its border.

    No direction stands out there, and cells that were left alone would stay there for ever.
    """
    arms, groups = support.shape
    if item >= arms:
        support[leader, (item - arms) % groups] = True
        return
    for group in range(weights.size):
        if weights[group] > 0.0 or is_limited(limits, item, group):
            support[item, group] = True
        if weights[group] > 0.0 and leader < arms:
            support[leader, group] = True


@nb.njit(cache=True, nogil=True)
def block_counts(
    model: Model,
    rules: Rules,
    book: Book,
    support: Booleans,
    number: int,
    size: float,
    planned: Floats,
) -> None:
    """Fill the draws of the next block: at least one in every cell of the support."""
    share = 0.0
    for k in range(support.shape[0]):
        for group in range(support.shape[1]):
            planned[k, group] = 0.0
            if support[k, group]:
                planned[k, group] = book.shares[k, group] / model.costs[k, group]
                share += planned[k, group]
    if size <= 0.0:
        size = max(math.ceil(rules.growth * total(book.counts)), rules.touch * number)
    for k in range(support.shape[0]):
        for group in range(support.shape[1]):
            if support[k, group]:
                planned[k, group] = max(1.0, round(size * planned[k, group] / share))


@nb.njit(cache=True, nogil=True)
def plan_block(model: Model, rules: Rules, book: Book, batch: float) -> None:
    """Plan the next block and freeze its counts and bets.

    `batch`: draws wanted in the block; 0 leaves it to the method.
    """
    arms, groups = model.active.shape
    means = np.empty((arms, groups))
    variances = np.empty((arms, groups))
    summarise(model, rules, book, means, variances)
    precisions = np.empty((arms, groups))
    divide(precisions, book.counts, variances)
    leader = find_leader(model, book, means, precisions)
    book.control[LEADER] = leader
    needs = np.empty(book.ledger.shape[1])
    needs_of(model, rules, book, leader, needs)
    present = np.empty(needs.size)
    lam = np.empty((needs.size, 2, groups))
    weakest = math.inf
    for item in range(needs.size):
        present[item] = 0.0
        if needs[item] >= 0.0:
            present[item] = item_value(
                item, leader, means, precisions, model.weights, model.limits, lam
            )
            weakest = min(weakest, present[item])
    book.forecast[0] = find_shares(model, rules, book, leader, means, variances, needs, present)
    support = np.zeros((arms, groups), dtype=np.bool_)
    number = find_support(model, book, leader, means, variances, needs, support)
    planned = np.empty((arms, groups))
    block_counts(model, rules, book, support, number, batch, planned)
    slot = _open_block(book, planned, leader)
    pause = rules.pause**2
    if leader == arms:
        pause = LEADER_NONE_PAUSE**2 if rules.bounded else 0.0
    if weakest >= pause:
        _place_bets(model, rules, book, slot, leader, means, variances)


# ---------------------------------------------------------------------------------- bets


@nb.njit(cache=True, nogil=True)
def _place_bets(
    model: Model, rules: Rules, book: Book, slot: int, leader: int, means: Floats, variances: Floats
) -> None:
    arms, groups = means.shape
    for k in range(arms):
        if k != leader and not book.rejected[k]:
            _bet_on_rival(model, rules, book, slot, leader, k, means, variances)
    if leader == arms:
        return
    for bet in range(arms, book.ledger.shape[1]):
        end, group = (bet - arms) // groups, (bet - arms) % groups
        limited = abs(model.limits[end, leader, group]) < math.inf
        if limited and book.planned[slot, leader, group] > 0.0:
            _bet_on_cell(model, rules, book, slot, bet, leader, means, variances)


@nb.njit(cache=True, nogil=True)
def _bet_on_rival(
    model: Model,
    rules: Rules,
    book: Book,
    slot: int,
    leader: int,
    k: int,
    means: Floats,
    variances: Floats,
) -> None:
    """Freeze the bet against "k is feasible and at least as good as the leader".

    Coefficients are built from multiplier and limit terms exactly as the proof wants
    them: then the effect is at most 0 under the null however inexact the solver.
    """
    arms, groups = means.shape
    precisions = np.empty((arms, groups))
    divide(precisions, book.planned[slot], variances)
    # As many slots as arms: a constant slot would have all of this compiled once more.
    lam = np.zeros((arms, 2, groups))
    multiplier = 0.0
    if leader < arms:
        _, multiplier = pair_value(
            leader, k, means, precisions, leader, k, model.weights, model.limits, 0.0, lam, k
        )
    else:
        for group in range(groups):
            lam[k, 1, group] = nearest_allowed(means[k, group], model.limits, k, group)
    coefficients = book.coefficients[slot, k]
    centres = book.centres[slot, k]
    constant = 0.0
    for group in range(groups):
        pull = multiplier * model.weights[group]
        up = 0.0
        floor = model.limits[FLOOR, k, group]
        if lam[k, 1, group] <= floor:
            up = max(0.0, precisions[k, group] * (floor - means[k, group]) - pull)
            constant += up * floor if up > 0.0 else 0.0
        down = 0.0
        ceiling = model.limits[CEILING, k, group]
        if lam[k, 1, group] >= ceiling:
            down = max(0.0, precisions[k, group] * (means[k, group] - ceiling) + pull)
            constant -= down * ceiling if down > 0.0 else 0.0
        coefficients[0, group] = pull
        coefficients[1, group] = down - (pull + up)
        centres[0, group] = lam[k, 0, group]
        centres[1, group] = lam[k, 1, group]
    if leader < arms:
        book.ledger[slot, k] = PAIR if multiplier > 0.0 else LIMITS_OF_RIVAL
    else:
        book.ledger[slot, k] = LIMITS_OF_RIVAL
    _freeze(rules, book, slot, k, leader, k, constant, means, variances)


@nb.njit(cache=True, nogil=True)
def _bet_on_cell(
    model: Model,
    rules: Rules,
    book: Book,
    slot: int,
    bet: int,
    leader: int,
    means: Floats,
    variances: Floats,
) -> None:
    """Freeze the bet against "the leader is beyond this limit of this cell"."""
    arms, groups = means.shape
    end, group = (bet - arms) // groups, (bet - arms) % groups
    limit = model.limits[end, leader, group]
    fill(book.coefficients[slot, bet], 0.0)
    fill(book.centres[slot, bet], 0.0)
    weight = book.planned[slot, leader, group] / variances[leader, group]
    if end == CEILING:
        weight = -weight
    book.coefficients[slot, bet, 0, group] = weight
    book.centres[slot, bet, 0, group] = limit
    book.ledger[slot, bet] = CELL_OF_LEADER
    _freeze(rules, book, slot, bet, leader, leader, -weight * limit, means, variances)


@nb.njit(cache=True, nogil=True)
def _freeze(
    rules: Rules,
    book: Book,
    slot: int,
    bet: int,
    leader: int,
    rival: int,
    constant: float,
    means: Floats,
    variances: Floats,
) -> None:
    """Freeze a bet on sum of coefficients times means plus a constant.

    `coefficients` come as the weight of a cell's mean and stay so for known noise; for
    bounded rewards they are kept per draw.
    """
    groups = means.shape[1]
    counts = book.planned[slot]
    coefficients = book.coefficients[slot, bet]
    centres = book.centres[slot, bet]
    book.rival[slot, bet] = rival
    effect = constant
    at_centre = constant
    earlier = 0.0
    inside = 0.0
    ruin = 0.0
    for row in range(2):
        arm = leader if row == 0 else rival
        for group in range(groups):
            weight = coefficients[row, group]
            if weight == 0.0:
                continue
            count = counts[arm, group]
            if count == 0.0:
                book.ledger[slot, bet] = NO_BET
                return
            mean, variance = means[arm, group], variances[arm, group]
            effect += weight * mean
            earlier += weight**2 * variance / book.counts[arm, group]
            if rules.bounded:
                centre = centres[row, group]
                at_centre += weight * centre
                per_draw = weight / count
                inside += count * per_draw**2 * (variance + (mean - centre) ** 2)
                loss = centre - rules.low if per_draw > 0.0 else centre - rules.high
                ruin = max(ruin, per_draw * loss)
                coefficients[row, group] = per_draw
            else:
                inside += weight**2 * variance / count
    if earlier <= 0.0 or inside <= 0.0:
        book.ledger[slot, bet] = NO_BET
        return
    deviation = math.sqrt(earlier)
    book.estimate[slot, bet] = effect / deviation
    book.constant[slot, bet] = constant
    book.variance[slot, bet] = earlier
    if rules.bounded:
        book.cash[slot, bet] = bounded_stakes(
            effect / deviation, deviation, inside, ruin,
            book.thetas[slot, bet], book.stakes[slot, bet],
        )  # fmt: skip
        book.drawn[slot, bet] = 0
        for point in range(GRID):
            book.products[slot, bet, point] = 1.0
            book.logs[slot, bet, point] = book.thetas[slot, bet, point] * at_centre


# --------------------------------------------------------------------- issuing and telling


@nb.njit(cache=True, nogil=True, inline="always")
def next_draw(model: Model, rules: Rules, book: Book, group: int, batch: float) -> tuple[int, int]:
    """Return a cell to draw and the serial of its block; plan a block when none has draws left.

    With a group that arrived by itself, a cell of that group; the serial is -1 if no open
    block wants one (the draw then informs plans and pays into nothing). The cell is -1
    when there is no room for another open block.
    """
    slots = book.waiting.size
    groups = model.weights.size
    while True:
        for i in range(book.control[OPEN]):
            serial = book.control[FIRST] + i
            slot = serial % slots
            most = 0.0
            cell = -1
            for k in range(book.counts.shape[0]):
                for column in range(groups):
                    wanted = group < 0 or column == group
                    if wanted and book.to_issue[slot, k, column] > most:
                        most = book.to_issue[slot, k, column]
                        cell = k * groups + column
            if cell >= 0:
                book.to_issue[slot, cell // groups, cell % groups] -= 1.0
                return cell, serial
        if group >= 0 and book.control[OPEN] > 0:
            return _best_extra(model, book, group), -1
        if not _can_plan(model, book):
            return _best_extra(model, book, group), -1
        if book.control[OPEN] == slots:
            return -1, -1
        plan_block(model, rules, book, batch)


@nb.njit(cache=True, nogil=True)
def _can_plan(model: Model, book: Book) -> bool:
    """Return whether every cell that matters has a mean, which a plan needs."""
    for k in range(book.counts.shape[0]):
        for group in range(model.weights.size):
            if model.active[k, group] > 0.0 and book.counts[k, group] < 1.0:
                return False
    return True


@nb.njit(cache=True, nogil=True)
def _best_extra(model: Model, book: Book, group: int) -> int:
    """Return the cell in which a draw outside the plan is most useful: the least known one."""
    groups = model.weights.size
    least = math.inf
    best = max(group, 0)
    for k in range(book.counts.shape[0]):
        for column in range(groups):
            wanted = model.active[k, column] > 0.0 and (group < 0 or column == group)
            if wanted and book.counts[k, column] < least:
                least = book.counts[k, column]
                best = k * groups + column
    return best


@nb.njit(cache=True, nogil=True, inline="always")
def _multiply_bets(
    rules: Rules, book: Book, slot: int, cell: int, reward: float, lost: bool
) -> None:
    """Multiply one draw's factor into every bet that it takes part in.

    A lost draw counts as the worst value for each bet: whatever made it get lost.
    """
    groups = book.counts.shape[1]
    k, group = cell // groups, cell % groups
    for bet in range(book.ledger.shape[1]):
        if book.ledger[slot, bet] == NO_BET:
            continue
        for row in range(2):
            arm = book.target[slot] if row == 0 else book.rival[slot, bet]
            weight = book.coefficients[slot, bet, row, group]
            if arm != k or weight == 0.0:
                continue
            value = reward
            if lost:
                value = rules.low if weight > 0.0 else rules.high
            step = weight * (value - book.centres[slot, bet, row, group])
            multiply_factor(book.thetas[slot, bet], book.products[slot, bet], step)
            book.drawn[slot, bet] += 1
            if book.drawn[slot, bet] == DRAWS_PER_LOG:
                flush_products(book.products[slot, bet], book.logs[slot, bet])
                book.drawn[slot, bet] = 0


@nb.njit(cache=True, nogil=True, inline="always")
def record_reward(
    model: Model, rules: Rules, book: Book, cell: int, serial: int, reward: float
) -> None:
    """Take one reward (serial -1: outside every block) and settle what is complete."""
    groups = model.weights.size
    k, group = cell // groups, cell % groups
    book.counts[k, group] += 1.0
    book.sums[k, group] += reward
    book.squares[k, group] += reward * reward
    if serial >= book.control[FIRST]:
        slot = serial % book.waiting.size
        book.got[slot, k, group] += 1.0
        book.block_sums[slot, k, group] += reward
        if rules.bounded:
            _multiply_bets(rules, book, slot, cell, reward, False)
        book.waiting[slot] -= 1
        settle(model, rules, book)


@nb.njit(cache=True, nogil=True)
def record_loss(model: Model, rules: Rules, book: Book, cell: int, serial: int) -> None:
    """Close the books on a draw that will have no reward."""
    if serial >= book.control[FIRST]:
        slot = serial % book.waiting.size
        if rules.bounded:
            _multiply_bets(rules, book, slot, cell, 0.0, True)
        book.waiting[slot] -= 1
        settle(model, rules, book)


@nb.njit(cache=True, nogil=True)
def correct_reward(book: Book, cell: int, old: float, new: float) -> None:
    """Replace a reward in the data that plans are made from; what was betted stays."""
    groups = book.counts.shape[1]
    k, group = cell // groups, cell % groups
    book.sums[k, group] += new - old
    book.squares[k, group] += new * new - old * old


@nb.njit(cache=True, nogil=True)
def settle(model: Model, rules: Rules, book: Book) -> None:
    """Pay the bets of every block that is complete, in the order in which they were issued."""
    while book.control[OPEN] > 0 and not book.control[FINISHED]:
        slot = book.control[FIRST] % book.waiting.size
        if book.waiting[slot] > 0:
            return
        for bet in range(book.ledger.shape[1]):
            if book.ledger[slot, bet] != NO_BET:
                _pay(model, rules, book, slot, bet)
        book.control[FIRST] += 1
        book.control[OPEN] -= 1
        reject_answers(model, rules, book)


@nb.njit(cache=True, nogil=True)
def _pay(model: Model, rules: Rules, book: Book, slot: int, bet: int) -> None:
    gain = (
        _bounded_gain(book, slot, bet) if rules.bounded else _gaussian_gain(model, book, slot, bet)
    )
    rival, leader = book.rival[slot, bet], book.target[slot]
    kind = book.ledger[slot, bet]
    if kind == LIMITS_OF_RIVAL:
        book.limits_of[rival] += gain
    elif kind == PAIR:
        book.pairs[rival, leader] += gain
    else:
        arms, groups = model.active.shape
        book.cells[(bet - arms) // groups, leader, (bet - arms) % groups] += gain


@nb.njit(cache=True, nogil=True)
def _bounded_gain(book: Book, slot: int, bet: int) -> float:
    flush_products(book.products[slot, bet], book.logs[slot, bet])
    return log_mixture(book.cash[slot, bet], book.stakes[slot, bet], book.logs[slot, bet])


@nb.njit(cache=True, nogil=True)
def _gaussian_gain(model: Model, book: Book, slot: int, bet: int) -> float:
    """Return what a block pays on known noise, from the draws that did arrive."""
    effect = book.constant[slot, bet]
    variance = 0.0
    for row in range(2):
        arm = book.target[slot] if row == 0 else book.rival[slot, bet]
        for group in range(model.weights.size):
            weight = book.coefficients[slot, bet, row, group]
            if weight != 0.0:
                got = book.got[slot, arm, group]
                if got == 0.0:
                    return 0.0
                effect += weight * book.block_sums[slot, arm, group] / got
                variance += weight**2 * model.variances[arm, group] / got
    earlier = book.variance[slot, bet]
    return log_bet(book.estimate[slot, bet], earlier / variance, effect / math.sqrt(earlier))
