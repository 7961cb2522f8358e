"""Block betting on subpopulations with floors and ceilings: one wealth per answer.

Counts, directions and bets of a block are frozen when it is planned, from what is known
then; the block alone pays or loses. Proofs: docs/explanation/block-betting.md (rewards
with known noise) and docs/explanation/bounded-rewards.md (rewards in a known range).
"""

import math

import numpy as np

from fairtrial.core.compilation import kernel
from fairtrial.subpopulations._kernels.block_bets import (
    correct_bets,
    multiply_bets,
    pay,
    place_bets,
    replace_worst,
)
from fairtrial.subpopulations._kernels.block_book import NO_BET, Book, Rules
from fairtrial.subpopulations._kernels.block_losses import discount_losses, lift_by_losses
from fairtrial.subpopulations._kernels.block_plans import (
    block_counts,
    can_plan,
    doubt_means,
    fill_present,
    find_leader,
    find_shares,
    find_support,
    needs_of,
    summarise,
)
from fairtrial.subpopulations._kernels.block_wealth import none_is_possible, reject_answers
from fairtrial.subpopulations._kernels.indices import (
    BLOCKS,
    FINISHED,
    FIRST,
    LEADER,
    OPEN,
)
from fairtrial.subpopulations._kernels.model import (
    CEILING,
    Floats,
    Model,
    copy_into,
    divide,
    fill,
    total,
)

LEADER_NONE_PAUSE = 1.0
"""What stands in for `rules.pause` when "none" leads and rewards are bounded."""


@kernel
def start_book(model: Model, rules: Rules, book: Book) -> None:
    """Open the first block: the initial draws, on which nothing is bet."""
    arms, groups = model.active.shape
    fill(book.shares, 1.0 / (arms * groups))
    book.control[LEADER] = arms
    if not none_is_possible(model):
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


@kernel
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
    limits = model.limits.copy()
    lossy = discount_losses(model, rules, book, leader, means, variances)
    if lossy:
        divide(precisions, book.counts, variances)
        if leader < arms:
            for group in range(groups):
                limits[CEILING, leader, group] -= lift_by_losses(rules, book, leader, group)
    seen = Model(
        model.weights, limits, model.own_limits, model.rival_limits,
        model.variances, model.costs, model.active, model.slack,
    )  # fmt: skip
    present = np.empty(needs.size)
    weakest = fill_present(seen, leader, means, precisions, lossy, needs, present)
    shares = np.empty((arms, groups))
    doubted = np.empty((arms, groups))
    doubts = doubt_means(seen, rules, book, leader, means, precisions, doubted)
    if doubts:
        fill_present(seen, leader, doubted, precisions, lossy, needs, present)
    forecast = find_shares(seen, rules, book, leader, doubted, variances, needs, present, shares)
    book.forecast[0] = forecast if weakest > 0.0 else math.inf
    if not doubts:
        copy_into(book.shares, shares)
    support = np.zeros((arms, groups), dtype=np.bool_)
    number = find_support(seen, leader, doubted, variances, needs, shares, support)
    planned = np.empty((arms, groups))
    block_counts(model, rules, book, shares, support, number, batch, planned)
    slot = _open_block(book, planned, leader)
    pause = rules.pause**2
    if leader == arms:
        pause = LEADER_NONE_PAUSE**2 if rules.bounded else 0.0
    if weakest >= pause:
        place_bets(model, rules, book, slot, leader, means, variances)


@kernel
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
            book.missed[slot, k, group] = 0.0
            book.block_sums[slot, k, group] = 0.0
            book.planned[slot, k, group] = planned[k, group]
            book.to_issue[slot, k, group] = planned[k, group]
    return slot


@kernel(inline="always")
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
        if not can_plan(model, book):
            return _best_extra(model, book, group), -1
        if book.control[OPEN] == slots:
            return -1, -1
        plan_block(model, rules, book, batch)


@kernel
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


@kernel(inline="always")
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
            multiply_bets(rules, book, slot, cell, reward, False)
        book.waiting[slot] -= 1
        # Passing a book costs more than all of the above: only where there is something to pay.
        if book.waiting[slot] == 0:
            settle(model, rules, book)


@kernel
def record_loss(model: Model, rules: Rules, book: Book, cell: int, serial: int) -> None:
    """Close the books on a draw that will have no reward, or put it back to be drawn again."""
    if serial >= book.control[FIRST]:
        groups = model.weights.size
        slot = serial % book.waiting.size
        book.missed[slot, cell // groups, cell % groups] += 1.0
        if rules.redraws:
            book.to_issue[slot, cell // groups, cell % groups] += 1.0
            return
        if rules.bounded:
            multiply_bets(rules, book, slot, cell, 0.0, True)
        book.waiting[slot] -= 1
        settle(model, rules, book)


@kernel
def record_late(
    model: Model, rules: Rules, book: Book, cell: int, serial: int, reward: float
) -> bool:
    """Take the reward of a draw given up as lost; return whether it still counts for its block.

    It does while the block is open: the worst value that a bet took was at most as good. Where
    the draw was put back, it does until another has been issued in its place.
    """
    groups = model.weights.size
    k, group = cell // groups, cell % groups
    slot = serial % book.waiting.size
    counts = serial >= book.control[FIRST]
    if rules.redraws:
        counts = counts and book.to_issue[slot, k, group] > 0.0
    if not counts:
        record_reward(model, rules, book, cell, -1, reward)
        return False
    book.missed[slot, k, group] -= 1.0
    if rules.redraws:
        book.to_issue[slot, k, group] -= 1.0
        record_reward(model, rules, book, cell, serial, reward)
        return True
    record_reward(model, rules, book, cell, -1, reward)
    book.got[slot, k, group] += 1.0
    book.block_sums[slot, k, group] += reward
    if rules.bounded:
        replace_worst(rules, book, slot, cell, reward)
    return True


@kernel
def correct_reward(
    rules: Rules, book: Book, cell: int, serial: int, old: float, new: float
) -> None:
    """Replace a reward in the data, and in the bets of its block if they are not paid yet.

    The serial is -1 for a reward that is in no bet.
    """
    groups = book.counts.shape[1]
    k, group = cell // groups, cell % groups
    book.sums[k, group] += new - old
    book.squares[k, group] += new * new - old * old
    if serial >= book.control[FIRST]:
        slot = serial % book.waiting.size
        book.block_sums[slot, k, group] += new - old
        if rules.bounded:
            correct_bets(book, slot, cell, old, new)


@kernel
def settle(model: Model, rules: Rules, book: Book) -> None:
    """Pay the bets of every block that is complete, in the order in which they were issued."""
    while book.control[OPEN] > 0 and not book.control[FINISHED]:
        slot = book.control[FIRST] % book.waiting.size
        if book.waiting[slot] > 0:
            return
        for bet in range(book.ledger.shape[1]):
            if book.ledger[slot, bet] != NO_BET:
                pay(model, rules, book, slot, bet)
        for k in range(book.came.shape[0]):
            for group in range(book.came.shape[1]):
                book.came[k, group] += book.got[slot, k, group]
                book.lost[k, group] += book.missed[slot, k, group]
        book.control[FIRST] += 1
        book.control[OPEN] -= 1
        reject_answers(model, rules, book)
