"""Block betting on subpopulations with floors and ceilings: one wealth per answer.

The counts, directions and bets of a block are frozen when it is planned, from what is known at that
time. Only the results of that block pay the bets. Proofs: docs/explanation/block-betting.md
(rewards with known noise) and docs/explanation/bounded-rewards.md (rewards in a known range).
"""

import math
from typing import NamedTuple

import numpy as np

from fairtrial.confidence.block_betting.bets import LOST
from fairtrial.confidence.block_betting.blocks import (
    OUTSIDE,
    Arrays,
    issue_assigned,
    next_slot,
    note_loss,
    open_block,
    open_planned_block,
    receive,
    replace_in_block,
    serial_of,
    settle_blocks,
    slot_of,
    slot_of_tag,
    tag_of,
    undo_loss,
)
from fairtrial.confidence.block_betting.book import fill_needs
from fairtrial.confidence.block_betting.hidden import is_any_hidden
from fairtrial.confidence.block_betting.planned_end import NOBODY, end_after
from fairtrial.confidence.noise_kernels import record_as_issued, replace_numbered, settle_record
from fairtrial.core.arithmetic import copy_into
from fairtrial.core.compilation import apart, inlined, interpreted, kernel, uncounted
from fairtrial.core.draws import Source
from fairtrial.core.replications import UNDECIDED, Replications, seed_generator
from fairtrial.subpopulations._kernels.block_bets import (
    correct_bets,
    is_bet_on,
    multiply_bets,
    pay_bets,
    place_bets,
    place_exact_bets,
    result_moves_bets,
)
from fairtrial.subpopulations._kernels.block_draws import SUMMARY, draw_block, reward_from
from fairtrial.subpopulations._kernels.block_loop import (
    next_cell,
    open_assigned_block,
    start_blocks,
)
from fairtrial.subpopulations._kernels.block_losses import fill_losses, losses_of
from fairtrial.subpopulations._kernels.block_plans import (
    can_plan,
    close_support,
    doubt_means,
    fill_block_counts,
    fill_present,
    find_leader,
    find_runner_up,
    find_shares,
    hide_silent,
    is_worth_a_bet,
    keep_open,
    leader_now,
    list_items,
    mark_silent,
    mark_support,
    shares_of_pulls,
    summarise,
    take_equally,
    try_silent_again,
    weakest_open,
)
from fairtrial.subpopulations._kernels.block_state import (
    STATE,
    Estimates,
    Rules,
    State,
    View,
    opened,
)
from fairtrial.subpopulations._kernels.block_targets import fill_view, find_target
from fairtrial.subpopulations._kernels.control_limits import (
    ROLES,
    alternative_at,
    fill_control_means,
)
from fairtrial.subpopulations._kernels.indices import ANY_GROUP
from fairtrial.subpopulations._kernels.model import (
    Booleans,
    Floats,
    Integers,
    Limits,
    Model,
    divide,
    in_units,
    multiply,
)
from fairtrial.subpopulations._kernels.plans_without_limits import Items

__all__ = [
    "STATE",
    "answer_now",
    "ask",
    "ask_assigned",
    "correct",
    "lose",
    "open_assigned",
    "run",
    "settle",
    "start",
    "tell",
    "tell_late",
]


@interpreted
def start(arrays: Arrays) -> None:
    """Open the first block: the initial pulls, with no bets on them."""
    (model, rules), state = opened(arrays)
    groups = model.weights.size
    for k in range(state.book.stated.shape[0]):
        for r in range(state.book.stated.shape[1]):
            state.book.stated[k, r] = abs(model.limits[r // groups, k, r % groups]) < math.inf
    start_blocks(model, rules, state, _aim_at_leader)
    if rules.exact and not state.finished[0]:
        _bet_from_the_start(rules, state)


@kernel
def _bet_from_the_start(rules: Rules, state: State) -> None:
    """Freeze bets on the initial pulls: exact ones need no estimates."""
    leader, needs = state.leader[0], np.empty(state.rival.shape[1])
    state.runner_up[0] = 1 - leader
    fill_needs(state.book, rules.threshold, rules.separately, leader, needs)
    end = end_after(rules, state, 0, leader, state.runner_up[0], needs)
    place_exact_bets(rules, state, 0, end)


class _Work(NamedTuple):
    """Work space of a plan; the rows of the first three arrays have names."""

    cells: Floats  # by cell
    control_means: Floats  # by group
    items: Floats  # by item
    lam: Floats  # by item, shape (items, ROLES, L)
    limits: Limits
    live: Integers  # by item
    silent: Booleans  # by arm; on entry, False
    passed: Booleans  # by arm; on entry, False
    support: Booleans  # by cell


_MEANS, _VARIANCES, _PRECISIONS, _ISSUED, _PER_RESULT = range(5)
_SEEN_MEANS, _SEEN_VARIANCES, _SEEN_PRECISIONS, _DOUBTED_MEANS = range(5, 9)
_SHARES, _COSTS, _PLANNED, _SPARE = range(9, 13)
_CELLS = _SPARE + 2
"""Rows of `cells`; the last two are spare, for what is needed for a moment only."""

_BY_DATA, _SEEN, _DOUBTED, _VIEWS = range(4)
"""Rows of `control_means`."""

_NEEDS, _PRESENT, _URGENCY, _SPARE_BY_ITEM = range(4)
_ITEMS = _SPARE_BY_ITEM + 3
"""Rows of `items`; the last three are spare."""


@apart
def _plan_block(
    model: Model, rules: Rules, state: State, batch: float, assigned: Floats, arrived: int
) -> None:
    """Plan the next block and freeze its counts and bets.

    `batch`: requested pulls of the block; 0 leaves the size to the method. `assigned`: pulls of
    every cell if an outside experiment assigned them; empty if the method plans them. `arrived`:
    the group that has arrived; `ANY_GROUP` if groups are chosen.
    """
    arms, groups = model.active.shape
    items = state.rival.shape[1]
    # What a plan needs is allocated here, so that nothing below counts references.
    work = _Work(
        np.empty((_CELLS, arms, groups)),
        np.empty((_VIEWS, groups)),
        np.empty((_ITEMS, items)),
        np.empty((items, ROLES, groups)),
        np.empty(model.limits.shape),
        np.empty(items, dtype=np.int64),
        np.zeros(arms, dtype=np.bool_),
        np.zeros(arms, dtype=np.bool_),
        np.empty((arms, groups), dtype=np.bool_),
    )
    _plan_within(model, rules, state, batch, assigned, arrived, work)


@uncounted
def _plan_within(
    model: Model,
    rules: Rules,
    state: State,
    batch: float,
    assigned: Floats,
    arrived: int,
    work: _Work,
) -> None:
    cells, lam = work.cells, work.lam
    needs, present, urgency = work.items[_NEEDS], work.items[_PRESENT], work.items[_URGENCY]
    losses_are_any, leader, runner_up = _aim(model, rules, state, work)
    losses = losses_of(rules, losses_are_any, cells[_ISSUED], cells[_PER_RESULT])
    fill_needs(state.book, rules.threshold, rules.separately, leader, needs)
    hide_silent(work.silent, needs)
    seen = Estimates(cells[_SEEN_MEANS], work.control_means[_SEEN], cells[_SEEN_VARIANCES])
    alternative = alternative_at(model, work.limits, seen.control_means)
    view = View(alternative, seen, cells[_SEEN_PRECISIONS])
    fill_view(model, rules, state, leader, losses, cells[_MEANS], cells[_VARIANCES], view)
    weakest = fill_present(leader, view, losses, needs, lam, present)
    clear = weakest_open(weakest, losses.are_any, needs, present)
    doubted = Estimates(cells[_DOUBTED_MEANS], work.control_means[_DOUBTED], seen.variances)
    doubts = doubt_means(model.active, rules, state, leader, view, doubted)
    wanted = View(
        alternative_at(model, work.limits, doubted.control_means), doubted, view.precisions
    )
    if doubts:
        fill_present(leader, wanted, losses, needs, lam, present)
    number = list_items(rules, needs, present, urgency, work.live)
    items = Items(needs, urgency, work.live, number)
    shares, costs = cells[_SHARES], cells[_COSTS]
    copy_into(shares, state.shares)
    multiply(costs, model.costs, losses.per_result)
    forecast = find_shares(costs, leader, wanted, items, shares, work.items[_SPARE_BY_ITEM:])
    state.forecast[0] = forecast if weakest > 0.0 and not is_any_hidden(needs) else math.inf
    if not doubts:
        copy_into(state.shares, shares)
    slot = next_slot(state.blocks)
    if assigned.size:
        open_block(state.blocks, assigned)
    else:
        mark_support(leader, wanted, needs, shares, lam, cells[_SPARE:], work.support)
        _open_planned(model, rules, state, leader, shares, batch, arrived, work)
    _aim_at_leader(state, slot)
    state.runner_up[slot] = runner_up
    end = end_after(rules, state, slot, leader, runner_up, needs)
    if not is_worth_a_bet(clear, rules, leader == model.active.shape[0], end):
        return
    if rules.exact:
        place_exact_bets(rules, state, slot, end)
    else:
        place_bets(model, rules, state, slot, seen, end, cells[_SPARE], lam)


@kernel(inline="always")
def _aim(model: Model, rules: Rules, state: State, work: _Work) -> tuple[bool, int, int]:
    """Choose the next block's target and runner-up; fill means, variances and losses.

    Return whether there are losses, the target and the runner-up.
    """
    cells, passed, control_means = work.cells, work.passed, work.control_means[_BY_DATA]
    means, variances, precisions = cells[_MEANS], cells[_VARIANCES], cells[_PRECISIONS]
    issued, per_result = cells[_ISSUED], cells[_PER_RESULT]
    summarise(model, rules, state, means, variances)
    divide(precisions, state.counts, variances)
    fill_control_means(model, means, control_means)
    alternative = alternative_at(model, model.limits, control_means)
    mark_silent(model.active, state.counts, state.book, rules.bounded, work.silent)
    for k in range(passed.size):
        passed[k] = work.silent[k]
    target = find_leader(state, means, precisions, alternative, passed)
    are_any = fill_losses(rules, state, precisions, issued, per_result)
    if are_any and target < means.shape[0]:
        losses = losses_of(rules, are_any, issued, per_result)
        target = find_target(model, rules, state, target, losses, means, variances, passed)
    state.leader[0] = target
    runner_up = find_runner_up(rules, state, target, means, precisions, alternative, passed)
    return are_any, target, runner_up


@kernel(inline="always")
def _open_planned(
    model: Model,
    rules: Rules,
    state: State,
    leader: int,
    shares: Floats,
    batch: float,
    arrived: int,
    work: _Work,
) -> None:
    """Open the next block by the planned shares, in the cells of the support."""
    planned, support = work.cells[_PLANNED], work.support
    number = close_support(model.active, leader, shares, support)
    if rules.exact:
        number = take_equally(shares, support)
    needs = work.items[_NEEDS]
    number = try_silent_again(model.active, state.counts, leader, needs, shares, support, number)
    number = keep_open(model.active, state.book, support, number)
    shares_of_pulls(model.costs, shares, support, planned)
    fill_block_counts(rules, state.blocks, state.counts, support, number, batch, arrived, planned)
    open_planned_block(state.blocks, planned.reshape(planned.size))


@inlined
def _aim_at_leader(state: State, slot: int) -> None:
    """Set the leader as a block's target, without bets yet."""
    state.target[slot] = state.leader[0]
    state.runner_up[slot] = NOBODY
    state.bets.number[slot] = 0


# ------------------------------------------------------------------------ one pull at a time


@kernel
def ask(arrays: Arrays, group: int, batch: float) -> tuple[int, int]:
    """Return the next cell and its tag; the cell is negative as in `next_cell`.

    `group`: the group that arrived by itself, which the cell must belong to. The tag is -1 if no
    open block wants such a pull; the pull then informs plans but is in no bet.
    """
    (model, rules), state = opened(arrays)
    cell, serial = _next_cell(model, rules, state, group, batch)
    slot = slot_of(state.blocks, serial)
    return cell, tag_of(serial, slot != OUTSIDE and is_bet_on(model, state, slot, cell))


@kernel
def open_assigned(arrays: Arrays, assigned: Floats) -> None:
    """Open a block of externally assigned pulls, counted by cell, and freeze its bets."""
    (model, rules), state = opened(arrays)
    open_assigned_block(model, rules, state, assigned, can_plan, _plan_block, _aim_at_leader)


@kernel(inline="always")
def _next_cell(
    model: Model, rules: Rules, state: State, group: int, batch: float
) -> tuple[int, int]:
    return next_cell(model, rules, state, state.counts, group, batch, can_plan, _plan_block)


@kernel
def ask_assigned(arrays: Arrays, cell: int) -> int:
    """Issue a pull of the only open block, if one is open; return its tag."""
    (model, _), state = opened(arrays)
    serial = issue_assigned(state.blocks, cell)
    slot = slot_of(state.blocks, serial)
    return tag_of(serial, slot != OUTSIDE and is_bet_on(model, state, slot, cell))


@kernel
def tell(arrays: Arrays, cell: int, tag: int, reward: float, number: int) -> None:
    """Record a reward and settle the complete blocks."""
    (model, rules), state = opened(arrays)
    _take(model, rules, state, cell, slot_of_tag(state.blocks, tag), reward, number)


@kernel(inline="always")
def _take(
    model: Model, rules: Rules, state: State, cell: int, slot: int, reward: float, number: int
) -> None:
    """Record a reward, in an open block or outside of all blocks; settle the complete blocks."""
    _take_data(rules, state, cell, reward)
    if slot == OUTSIDE:
        return
    _take_in_block(model, rules, state, cell, slot, reward, number)
    if result_moves_bets(rules):
        multiply_bets(model, rules, state, slot, cell, reward - rules.shift)
    # Passing the state costs more than all of the above, so call only if there is something to pay.
    if state.blocks.waiting[slot] == 0:
        _settle(model, rules, state)


@apart
def _settle(model: Model, rules: Rules, state: State) -> None:
    """Pay the bets of every complete block, in the order in which the blocks were issued."""
    settle_blocks(model, rules, state, _pay)


@uncounted
def _pay(model: Model, rules: Rules, state: State, slot: int) -> None:
    """Pay the bets of a block, and add its record to the test of the noise."""
    pay_bets(model, rules, state, slot)
    if state.settled_noise.size:
        settle_record(state.settled_noise, state.noise[slot])


@inlined
def _take_data(rules: Rules, state: State, cell: int, reward: float) -> None:
    groups = state.counts.shape[1]
    k, group = cell // groups, cell % groups
    value = reward - rules.shift
    state.counts[k, group] += 1.0
    state.sums[k, group] += value
    state.squares[k, group] += value * value


@inlined
def _take_in_block(
    model: Model, rules: Rules, state: State, cell: int, slot: int, reward: float, number: int
) -> None:
    receive(state.blocks, slot, cell, reward - rules.shift)
    if state.settled_noise.size:
        record_as_issued(state.noise[slot], cell, float(number), in_units(model, cell, reward))


@kernel
def tell_late(arrays: Arrays, cell: int, tag: int, reward: float, number: int) -> bool:
    """Record the reward of a pull reported lost; return whether its block still counts it.

    The block counts it while it is open, unless a replacement of the pull has been issued. This is
    valid because every bet had used the worst possible value for the lost pull.
    """
    (model, rules), state = opened(arrays)
    slot = slot_of_tag(state.blocks, tag)
    if slot == OUTSIDE or not undo_loss(state.blocks, slot, cell, rules.pulls_again):
        _take_data(rules, state, cell, reward)
        if state.settled_noise.size and slot == OUTSIDE and serial_of(tag) >= 0:
            value = in_units(model, cell, reward)
            record_as_issued(state.settled_noise, cell, float(number), value)
        return False
    if rules.pulls_again:
        _take(model, rules, state, cell, slot, reward, number)
        return True
    _take_data(rules, state, cell, reward)
    _take_in_block(model, rules, state, cell, slot, reward, number)
    if result_moves_bets(rules):
        correct_bets(model, rules, state, slot, cell, LOST, reward - rules.shift)
    return True


@kernel
def lose(arrays: Arrays, cell: int, tag: int) -> None:
    """Record that a pull will have no reward, or put it back to be made again."""
    (model, rules), state = opened(arrays)
    slot = slot_of_tag(state.blocks, tag)
    if slot == OUTSIDE:
        return
    note_loss(state.blocks, slot, cell, rules.pulls_again)
    if rules.pulls_again:
        return
    if result_moves_bets(rules):
        multiply_bets(model, rules, state, slot, cell, LOST)
    _settle(model, rules, state)


@kernel
def correct(arrays: Arrays, cell: int, tag: int, old: float, new: float, number: int) -> None:
    """Replace a reward in the data, and in its block's bets if they are not paid yet.

    The tag is -1 for a reward that is in no bet.
    """
    (model, rules), state = opened(arrays)
    groups = model.weights.size
    k, group = cell // groups, cell % groups
    before, after = old - rules.shift, new - rules.shift
    state.sums[k, group] += after - before
    state.squares[k, group] += after * after - before * before
    serial = serial_of(tag)
    slot = slot_of(state.blocks, serial)
    if slot != OUTSIDE:
        replace_in_block(state.blocks, slot, cell, before, after)
        if result_moves_bets(rules):
            correct_bets(model, rules, state, slot, cell, before, after)
    if state.settled_noise.size and serial >= 0:
        record = state.noise[slot] if slot != OUTSIDE else state.settled_noise
        values = in_units(model, cell, old), in_units(model, cell, new)
        replace_numbered(record, cell, float(number), values[0], values[1])


@kernel
def settle(arrays: Arrays) -> None:
    """Pay the bets of every complete block."""
    (model, rules), state = opened(arrays)
    _settle(model, rules, state)


# ------------------------------------------------------------------------- results and runs


@kernel
def answer_now(arrays: Arrays) -> int:
    """Return the leader by all data so far; K means "none", -1 that there is not enough data."""
    (model, rules), state = opened(arrays)
    return leader_now(model, rules, state)


@kernel
def run(
    arrays: Arrays,
    batch: float,
    source: Source,
    sign: float,
    generator: np.random.Generator,
    max_pulls: int,
    block_draws: bool,
    replications: Replications,
) -> None:
    """Make runs, each until its stop or `max_pulls`, and fill their results.

    The first begins with the state as it is, the others with a copy of it. Afterwards the state is
    that of the last run.
    """
    floats, integers = arrays[1].copy(), arrays[2].copy()
    for index in range(replications.stopping_time.size):
        for i in range(floats.size):
            arrays[1][i] = floats[i]
        for i in range(integers.size):
            arrays[2][i] = integers[i]
        (model, rules), state = opened(arrays)
        seed_generator(replications, index)
        for i in range(2):
            state.blocks.key[i] = replications.keys[index, i]
        pulls = 0
        if block_draws:
            pulls = _run_by_blocks(model, rules, state, batch, source, sign, generator, max_pulls)
        replications.in_blocks[index] = pulls
        while pulls < max_pulls and not state.finished[0]:
            cell, serial = _next_cell(model, rules, state, ANY_GROUP, batch)
            reward = reward_from(source, sign, cell, generator)
            _take(model, rules, state, cell, slot_of(state.blocks, serial), reward, pulls)
            pulls += 1
        replications.stopping_time[index] = pulls
        replications.answers[index] = state.answer[0] if state.finished[0] else UNDECIDED
        groups = model.weights.size
        for cell in range(state.counts.size):
            replications.pulls[index, cell] = int(state.counts[cell // groups, cell % groups])


@kernel
def _run_by_blocks(
    model: Model,
    rules: Rules,
    state: State,
    batch: float,
    source: Source,
    sign: float,
    generator: np.random.Generator,
    max_pulls: int,
) -> int:
    """Run from block to block until the stop; return the number of pulls.

    Leave a block that would exceed `max_pulls` to be made pull by pull.
    """
    blocks = state.blocks
    summary, not_assigned = np.empty(SUMMARY), np.empty(0)
    pulls = 0
    while pulls < max_pulls and not state.finished[0]:
        if blocks.number[0] == 0:
            _plan_block(model, rules, state, batch, not_assigned, ANY_GROUP)
        wanted = blocks.unissued[blocks.first[0] % blocks.unissued.size]
        if pulls + wanted > max_pulls:
            break
        draw_block(model, rules, state, source, sign, generator, pulls, summary)
        pulls += wanted
        _settle(model, rules, state)
    return pulls
