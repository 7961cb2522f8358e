"""Block betting if one pull gives several measures: entry points to ask and tell.

The counts, directions and bets of a block are frozen when it is planned. Only the results of that
block pay the bets. Proof: docs/explanation/guardrails.md. A pull's values are an array by measure,
with NaN for missing ones.
"""

import math
from typing import NamedTuple

import numpy as np

from fairtrial.confidence.block_betting.blocks import (
    OUTSIDE,
    Arrays,
    issue_assigned,
    next_slot,
    note_loss,
    open_block,
    open_planned_block,
    receive,
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
from fairtrial.core.arithmetic import copy_into, square
from fairtrial.core.compilation import apart, interpreted, kernel, uncounted
from fairtrial.core.draw_kernels import draw_vector
from fairtrial.core.draws import VectorSource
from fairtrial.subpopulations._kernels.block_loop import (
    next_cell,
    open_assigned_block,
    start_blocks,
)
from fairtrial.subpopulations._kernels.block_plans import (
    fill_block_counts,
    hide_silent,
    is_worth_a_bet,
    keep_open,
    list_items,
    mark_silent,
    shares_of_pulls,
    try_silent_again,
    weakest_open,
)
from fairtrial.subpopulations._kernels.block_state import Rules
from fairtrial.subpopulations._kernels.indices import ANY_GROUP
from fairtrial.subpopulations._kernels.measures.bets import (
    correct_bets,
    divide_bets,
    is_bet_on,
    is_used,
    multiply_bets,
    pay_bets,
    place_bets,
)
from fairtrial.subpopulations._kernels.measures.items import (
    Programmes,
    Work,
    fill_programmes,
    new_programmes,
    new_work,
)
from fairtrial.subpopulations._kernels.measures.model import (
    BOUNDED,
    Floats,
    Model,
    Seen,
    has_limit,
    measure_of,
    new_view,
    outcomes_of,
)
from fairtrial.subpopulations._kernels.measures.noise import (
    correct_noise,
    correct_settled_noise,
    record_noise,
    settle_noise,
)
from fairtrial.subpopulations._kernels.measures.plans import (
    fill_present,
    find_shares,
    find_support,
)
from fairtrial.subpopulations._kernels.measures.predictions import (
    add_adjusted,
    fit_predictions,
    freeze_fit,
    guess_without_results,
    note_reach,
    objective_of,
)
from fairtrial.subpopulations._kernels.measures.state import (
    OFF_SQUARED,
    STATE,
    State,
    opened,
)
from fairtrial.subpopulations._kernels.measures.targets import find_target, losses_so_far
from fairtrial.subpopulations._kernels.measures.views import (
    can_plan,
    count_wanted,
    doubt,
    find_leader,
    find_runner_up,
    summarise,
)
from fairtrial.subpopulations._kernels.model import multiply
from fairtrial.subpopulations._kernels.plans_without_limits import Items

__all__ = [
    "STATE",
    "answer_now",
    "ask",
    "ask_assigned",
    "check_late_values",
    "complete",
    "correct",
    "fit_now",
    "is_counted",
    "lose",
    "open_assigned",
    "read",
    "run",
    "settle",
    "start",
    "tell",
    "tell_late",
    "told_in_full",
    "uncount",
]


class Result(NamedTuple):
    """News of a pull: its values as known before, and as known now."""

    cell: int
    before: Floats
    now: Floats
    is_final: bool  # whether no more values will come
    number: int  # of the pull


@interpreted
def start(arrays: Arrays) -> None:
    """Open the first block: the initial pulls, with no bets on them."""
    (model, rules), state = opened(arrays)
    for k in range(state.book.stated.shape[0]):
        for r in range(state.book.stated.shape[1]):
            state.book.stated[k, r] = has_limit(model, k, r)
    for p in range(model.predicted):
        state.reach[p, 0], state.reach[p, 1] = math.inf, -math.inf
    start_blocks(model, rules, state, _begin_block)
    if model.predicted:
        guess_without_results(model, state)


@kernel
def _begin_block(state: State, slot: int) -> None:
    """Set the leader as a block's target, without bets or values yet."""
    state.target[slot] = state.leader[0]
    state.runner_up[slot] = NOBODY
    state.bets.number[slot] = 0
    state.values[slot] = 0.0
    state.squares[slot] = 0.0
    state.pairs[slot] = 0.0
    state.complete[slot] = 0.0
    state.absent[slot] = 0.0
    state.present[slot] = 0.0
    state.awaited[slot] = 0.0
    state.noise[slot] = 0.0
    state.clip[slot] = 0.0
    state.fits[slot] = 0.0
    state.guess[slot] = 0.0
    state.adjusted[slot] = 0.0
    for cell in range(state.was_complete.size):
        state.known_complete[slot, cell] = state.was_complete[cell]
        for m in range(state.settled_values.shape[1]):
            state.known[slot, cell, m, 0] = state.settled_pairs[cell, m, m]
            state.known[slot, cell, m, 1] = state.settled_values[cell, m]
            state.known[slot, cell, m, 2] = state.settled_squares[cell, m]
    for cell in range(state.settled_adjusted.shape[0]):
        state.known_adjusted[slot, cell] = state.settled_adjusted[cell, OFF_SQUARED]


@kernel
def _view(model: Model, state: State) -> tuple[Seen, Programmes, Work]:
    """Return the estimates from all data, and work space to evaluate items."""
    seen = new_view(model)
    summarise(model, state, seen)
    return seen, new_programmes(model), new_work(model)


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
    seen, programmes, work = _view(model, state)
    counts = count_wanted(model, state)
    silent = np.zeros(arms, dtype=np.bool_)
    mark_silent(model.active, counts, state.book, model.noise == BOUNDED, silent)
    passed = silent.copy()
    losses = losses_so_far(model, rules, state)
    leader = find_leader(model, state, seen, programmes, work, passed)
    leader = find_target(model, rules, state, seen, leader, losses, work, passed)
    state.leader[0] = leader
    runner_up = find_runner_up(rules, state, seen, leader, passed)
    fill_programmes(model, seen, leader, seen.saved, programmes)
    needs = np.empty(arms + model.signs.size)
    fill_needs(state.book, rules.threshold, rules.separately, leader, needs)
    hide_silent(silent, needs)
    present = np.empty(needs.size)
    weakest = fill_present(programmes, leader, state.pulls, losses, needs, work, present)
    clear = weakest_open(weakest, losses.are_any, needs, present)
    at, planned_at = seen, programmes
    doubted = new_view(model)
    doubts = rules.doubts and doubt(model, state, leader, seen, doubted)
    if doubts:
        at, planned_at = doubted, new_programmes(model)
        fill_programmes(model, at, leader, at.saved, planned_at)
        fill_present(planned_at, leader, state.pulls, losses, needs, work, present)
    urgency, live = np.empty(needs.size), np.empty(needs.size, dtype=np.int64)
    number = list_items(rules, needs, present, urgency, live)
    items = Items(needs, urgency, live, number)
    shares = state.shares.copy()
    costs = np.empty((arms, groups))
    multiply(costs, model.costs, losses.per_result)
    forecast = find_shares(model, costs, leader, at, planned_at, items, work, shares)
    state.forecast[0] = forecast if weakest > 0.0 and not is_any_hidden(needs) else math.inf
    if not doubts:
        copy_into(state.shares, shares)
    slot = next_slot(state.blocks)
    if assigned.size:
        open_block(state.blocks, assigned)
    else:
        support = np.zeros((arms, groups), dtype=np.bool_)
        number = find_support(model, leader, planned_at, needs, shares, work, support)
        number = try_silent_again(model.active, counts, leader, needs, shares, support, number)
        number = keep_open(model.active, state.book, support, number)
        planned = np.empty((arms, groups))
        shares_of_pulls(model.costs, shares, support, planned)
        fill_block_counts(
            rules, state.blocks, state.pulls, support, number, batch, arrived, planned
        )
        open_planned_block(state.blocks, planned.reshape(planned.size))
    _begin_block(state, slot)
    if model.predicted:
        freeze_fit(model, state, slot, seen)
    state.runner_up[slot] = runner_up
    end = end_after(rules, state, slot, leader, runner_up, needs)
    if is_worth_a_bet(clear, rules, leader == arms, end):
        place_bets(model, rules, state, slot, seen, programmes, work, end)


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
    open_assigned_block(model, rules, state, assigned, can_plan, _plan_block, _begin_block)


@kernel(inline="always")
def _next_cell(
    model: Model, rules: Rules, state: State, group: int, batch: float
) -> tuple[int, int]:
    return next_cell(model, rules, state, state.pulls, group, batch, can_plan, _plan_block)


@kernel
def ask_assigned(arrays: Arrays, cell: int) -> int:
    """Issue a pull of the only open block, if one is open; return its tag."""
    (model, _), state = opened(arrays)
    serial = issue_assigned(state.blocks, cell)
    slot = slot_of(state.blocks, serial)
    return tag_of(serial, slot != OUTSIDE and is_bet_on(model, state, slot, cell))


def read(arrays: Arrays, cell: int, tag: int, values: tuple[Floats, Floats], number: int) -> None:
    """Record early values of a pull: those known before this call, and those known now."""
    take(arrays, cell, tag, values, number, False)


def tell(arrays: Arrays, cell: int, tag: int, values: tuple[Floats, Floats], number: int) -> None:
    """Record the final values of a pull: those known before, and all; NaN stays missing."""
    take(arrays, cell, tag, values, number, True)


def lose(arrays: Arrays, cell: int, tag: int, known: Floats, number: int) -> None:
    """Record that a pull will have no values except the known ones."""
    take(arrays, cell, tag, (known, known), number, True)


@kernel
def take(
    arrays: Arrays,
    cell: int,
    tag: int,
    values: tuple[Floats, Floats],
    number: int,
    is_final: bool,
) -> None:
    """Record the values of a pull that were known before this call, and those known now."""
    (model, rules), state = opened(arrays)
    result = Result(cell, values[0], values[1], is_final, number)
    _take(model, rules, state, slot_of_tag(state.blocks, tag), result)


@kernel(inline="always")
def _take(model: Model, rules: Rules, state: State, slot: int, result: Result) -> None:
    """Record the new values of a pull, and settle the complete blocks."""
    _take_values(model, rules, state, slot, result)
    if slot != OUTSIDE and state.blocks.waiting[slot] == 0:
        _settle(model, rules, state)


@apart
def _settle(model: Model, rules: Rules, state: State) -> None:
    """Pay the bets of every complete block, in the order in which the blocks were issued."""
    settle_blocks(model, rules, state, _pay)


@kernel
def _pay(model: Model, _rules: Rules, state: State, slot: int) -> None:
    """Pay the bets of a block; count its measures that came and those that never will."""
    pay_bets(model, state, slot)
    for cell in range(state.was_absent.shape[0]):
        state.was_complete[cell] += state.complete[slot, cell]
        if model.predicted:
            for part in range(state.adjusted.shape[2]):
                state.settled_adjusted[cell, part] += state.adjusted[slot, cell, part]
        for m in range(state.was_absent.shape[1]):
            state.was_absent[cell, m] += state.absent[slot, cell, m]
            state.was_present[cell, m] += state.present[slot, cell, m]
            state.settled_values[cell, m] += state.values[slot, cell, m]
            state.settled_squares[cell, m] += state.squares[slot, cell, m]
            for other in range(state.was_absent.shape[1]):
                state.settled_pairs[cell, m, other] += state.pairs[slot, cell, m, other]
    for m in range(state.awaited.shape[1]):
        if state.awaited[slot, m] > 0.0:
            state.is_late[0] = 1
    if state.in_noise.size:
        serial = state.blocks.first[0]
        settle_noise(model, state, serial, state.noise[slot], state.awaited[slot])


@uncounted
def _take_values(model: Model, rules: Rules, state: State, slot: int, result: Result) -> None:
    """Record the new values of a pull in the data, and in its block when that can count them."""
    _take_data(model, state, result.cell, result.before, result.now)
    if slot != OUTSIDE:
        _take_in_block(model, rules, state, slot, result)


@uncounted
def _take_in_block(model: Model, rules: Rules, state: State, slot: int, result: Result) -> None:
    cell, before, now, is_final, number = result
    lacks = _lacks(model, state, slot, cell, now)
    is_lost = not _is_known(model, now) or (rules.pulls_again and lacks)
    if is_final and not (is_lost and rules.pulls_again):
        _count_presence(rules, state, slot, cell, now, 1.0)
    if _is_complete(model, state, slot, cell, before):
        _add_news(model, state, slot, cell, before, now)
        _await(state, slot, before, -1.0)
        if not is_final:
            _await(state, slot, now, 1.0)
        correct_noise(model, state, slot, cell, before, now, number)
        return
    if not is_final and not _is_complete(model, state, slot, cell, now):
        return
    if is_lost:
        note_loss(state.blocks, slot, cell, rules.pulls_again)
        if rules.pulls_again:
            return
        if model.predicted:
            add_adjusted(model, state, slot, cell, now, 1.0)
    else:
        receive(state.blocks, slot, cell, 0.0)
        _add_to_block(model, state, slot, cell, now, 1.0)
        if not is_final:
            _await(state, slot, now, 1.0)
        record_noise(model, state.noise[slot], cell, now, number)
    if model.noise == BOUNDED:
        multiply_bets(model, state, slot, cell, now)


@uncounted
def _is_known(model: Model, values: Floats) -> bool:
    """Return whether a pull gave any value; its prediction is none."""
    found = False
    for m in range(outcomes_of(model)):
        found = found or not math.isnan(values[m])
    return found


@uncounted
def _lacks(model: Model, state: State, slot: int, cell: int, values: Floats) -> bool:
    """Return whether a value that a bet of the block uses is missing."""
    found = False
    for m in range(outcomes_of(model)):
        found = found or (math.isnan(values[m]) and is_used(model, state, slot, cell, m))
    return found


@uncounted
def _is_complete(model: Model, state: State, slot: int, cell: int, values: Floats) -> bool:
    """Return whether a pull gave at least one value and all that its block uses."""
    return _is_known(model, values) and not _lacks(model, state, slot, cell, values)


@uncounted
def _take_data(model: Model, state: State, cell: int, before: Floats, now: Floats) -> None:
    """Add the new values, and the pairs in which at least one value is new."""
    groups = state.pulls.shape[1]
    k, group = cell // groups, cell % groups
    if _is_known(model, now) and not _is_known(model, before):
        state.pulls[k, group] += 1.0
    for m in range(now.size):
        if not _is_datum(model, now, m):
            continue
        is_new = not _is_datum(model, before, m)
        if is_new:
            state.sums[k, group, m] += now[m]
            if m >= outcomes_of(model):
                note_reach(state, m - outcomes_of(model), now[m])
        for other in range(now.size):
            if _is_datum(model, now, other) and (is_new or not _is_datum(model, before, other)):
                state.counts[k, group, m, other] += 1.0
                state.products[k, group, m, other] += now[m] * now[other]


@uncounted
def _is_datum(model: Model, values: Floats, m: int) -> bool:
    """Return whether the data have a value: a prediction joins them with its measure."""
    p = m - outcomes_of(model)
    if p < 0:
        return not math.isnan(values[m])
    return math.isfinite(values[m]) and not math.isnan(values[measure_of(model, p)])


@uncounted
def _count_presence(
    rules: Rules, state: State, slot: int, cell: int, values: Floats, sign: float
) -> None:
    """Count the measures that a pull of a block has given, and those that it never will.

    If pulls are made again, the latter do not count as their worst, and are not counted.
    """
    for m in range(values.size):
        if not math.isnan(values[m]):
            state.present[slot, cell, m] += sign
        elif not rules.pulls_again:
            state.absent[slot, cell, m] += sign


@uncounted
def _await(state: State, slot: int, values: Floats, sign: float) -> None:
    """Count the measures that a received pull of a block may still give."""
    for m in range(values.size):
        if math.isnan(values[m]):
            state.awaited[slot, m] += sign


@uncounted
def _add_to_block(
    model: Model, state: State, slot: int, cell: int, values: Floats, sign: float
) -> None:
    """Add a pull's values to its block's sums, and its objective if that is known."""
    for m in range(outcomes_of(model)):
        if math.isnan(values[m]):
            continue
        state.values[slot, cell, m] += sign * values[m]
        state.squares[slot, cell, m] += sign * square(values[m])
        for other in range(outcomes_of(model)):
            if not math.isnan(values[other]):
                state.pairs[slot, cell, m, other] += sign
    _add_objective(model, state, slot, cell, values, sign)
    if model.predicted:
        add_adjusted(model, state, slot, cell, values, sign)


@uncounted
def _add_news(
    model: Model, state: State, slot: int, cell: int, before: Floats, now: Floats
) -> None:
    """Add the new values of a pull that its block has received; no bet of the block uses them."""
    for m in range(outcomes_of(model)):
        if math.isnan(now[m]):
            continue
        is_new = math.isnan(before[m])
        if is_new:
            state.values[slot, cell, m] += now[m]
            state.squares[slot, cell, m] += square(now[m])
        for other in range(outcomes_of(model)):
            if not math.isnan(now[other]) and (is_new or math.isnan(before[other])):
                state.pairs[slot, cell, m, other] += 1.0
    if math.isnan(objective_of(model, before)):
        _add_objective(model, state, slot, cell, now, 1.0)
        if model.predicted:
            add_adjusted(model, state, slot, cell, before, -1.0)
            add_adjusted(model, state, slot, cell, now, 1.0)


@uncounted
def _add_objective(
    model: Model, state: State, slot: int, cell: int, values: Floats, sign: float
) -> None:
    score = objective_of(model, values)
    if not math.isnan(score):
        state.complete[slot, cell] += sign
        state.blocks.sums[slot, cell] += sign * score
        state.blocks.squares[slot, cell] += sign * square(score)


@kernel
def is_counted(arrays: Arrays, cell: int, tag: int, values: Floats) -> bool:
    """Return whether an open block has received a pull of which these values are known."""
    (model, _), state = opened(arrays)
    slot = slot_of_tag(state.blocks, tag)
    return slot != OUTSIDE and _is_complete(model, state, slot, cell, values)


@kernel
def complete(arrays: Arrays, cell: int, tag: int, values: tuple[Floats, Floats, bool, int]) -> None:
    """Record in a settled block what more is known of a received pull; its bets stay paid.

    `values`: those known before, those known now, whether no more will come, the pull's number.
    """
    (model, rules), state = opened(arrays)
    before, now, is_final, number = values
    slot = slot_of_tag(state.blocks, tag)
    _take_in_block(model, rules, state, slot, Result(cell, before, now, is_final, number))


@kernel
def uncount(arrays: Arrays, cell: int, tag: int, values: tuple[Floats, bool, int]) -> None:
    """Take a pull out of the block that has counted it, which then waits for it.

    `values`: those that the block has counted, whether it counts no more of the pull, and the
    pull's number. `complete` counts the pull again.
    """
    (model, rules), state = opened(arrays)
    known, is_final, number = values
    slot = slot_of_tag(state.blocks, tag)
    if is_final:
        _count_presence(rules, state, slot, cell, known, -1.0)
    else:
        _await(state, slot, known, -1.0)
    if model.noise == BOUNDED:
        divide_bets(model, state, slot, cell, known)
    if not _is_known(model, known):
        undo_loss(state.blocks, slot, cell, False)
        if model.predicted:
            add_adjusted(model, state, slot, cell, known, -1.0)
        return
    _add_to_block(model, state, slot, cell, known, -1.0)
    state.blocks.results[slot, cell] -= 1.0
    state.blocks.waiting[slot] += 1
    correct_noise(model, state, slot, cell, known, np.full(known.size, math.nan), number)


@kernel
def check_late_values(arrays: Arrays, serial: int, noise: Floats, awaited: Floats) -> bool:
    """Add a settled block to the test of the noise; return whether any part of it was added."""
    (model, _), state = opened(arrays)
    return settle_noise(model, state, serial, noise, awaited)


@kernel
def tell_late(
    arrays: Arrays, cell: int, tag: int, values: tuple[Floats, Floats], number: int
) -> bool:
    """Record the values of a pull reported lost; return whether its block still counts them.

    The block counts them while it is open, unless a replacement of the pull has been issued. This
    is valid because every bet had used the worst possible values for the lost pull.
    """
    (model, rules), state = opened(arrays)
    before, now = values
    slot = slot_of_tag(state.blocks, tag)
    if slot == OUTSIDE:
        _take_data(model, state, cell, before, now)
        correct_settled_noise(model, state, serial_of(tag), cell, before, now, number)
        return False
    if _is_complete(model, state, slot, cell, before):
        _take_data(model, state, cell, before, now)
        _recount(rules, state, slot, cell, before, now)
        _add_news(model, state, slot, cell, before, now)
        correct_noise(model, state, slot, cell, before, now, number)
        return True
    if _was_loss(model, rules, state, slot, cell, before):
        if not undo_loss(state.blocks, slot, cell, rules.pulls_again):
            _take_data(model, state, cell, before, now)
            return False
        if rules.pulls_again:
            _take(model, rules, state, slot, Result(cell, before, now, True, number))
            return True
        receive(state.blocks, slot, cell, 0.0)
    _take_data(model, state, cell, before, now)
    _replace_in_block(model, rules, state, slot, cell, before, now)
    correct_noise(model, state, slot, cell, before, now, number)
    return True


@kernel
def _was_loss(
    model: Model, rules: Rules, state: State, slot: int, cell: int, values: Floats
) -> bool:
    """Return whether a pull that ended with these values counted as lost."""
    return not _is_known(model, values) or (
        rules.pulls_again and _lacks(model, state, slot, cell, values)
    )


@kernel
def _recount(rules: Rules, state: State, slot: int, cell: int, old: Floats, new: Floats) -> None:
    _count_presence(rules, state, slot, cell, old, -1.0)
    _count_presence(rules, state, slot, cell, new, 1.0)


@kernel
def _replace_in_block(
    model: Model, rules: Rules, state: State, slot: int, cell: int, old: Floats, new: Floats
) -> None:
    """Replace the values of a pull that a block has counted."""
    _recount(rules, state, slot, cell, old, new)
    _add_to_block(model, state, slot, cell, old, -1.0)
    _add_to_block(model, state, slot, cell, new, 1.0)
    if model.noise == BOUNDED:
        correct_bets(model, state, slot, cell, old, new)


@kernel
def correct(arrays: Arrays, cell: int, tag: int, old: Floats, new: Floats, number: int) -> None:
    """Replace a pull's values in the data, and in its block's bets if they are not paid yet.

    The tag is -1 for values that are in no bet.
    """
    (model, rules), state = opened(arrays)
    nothing = np.full(old.size, math.nan)
    _remove_data(model, state, cell, old)
    _take_data(model, state, cell, nothing, new)
    serial = serial_of(tag)
    slot = slot_of(state.blocks, serial)
    if slot == OUTSIDE:
        correct_settled_noise(model, state, serial, cell, old, new, number)
        return
    if _was_loss(model, rules, state, slot, cell, old):
        if rules.pulls_again or not _is_known(model, new):
            return
        undo_loss(state.blocks, slot, cell, False)
        receive(state.blocks, slot, cell, 0.0)
    _replace_in_block(model, rules, state, slot, cell, old, new)
    correct_noise(model, state, slot, cell, old, new, number)


@kernel
def _remove_data(model: Model, state: State, cell: int, values: Floats) -> None:
    """Remove the values of a pull from the data."""
    groups = state.pulls.shape[1]
    k, group = cell // groups, cell % groups
    if _is_known(model, values):
        state.pulls[k, group] -= 1.0
    for m in range(values.size):
        if not _is_datum(model, values, m):
            continue
        state.sums[k, group, m] -= values[m]
        for other in range(values.size):
            if _is_datum(model, values, other):
                state.counts[k, group, m, other] -= 1.0
                state.products[k, group, m, other] -= values[m] * values[other]


@kernel
def settle(arrays: Arrays) -> None:
    """Pay the bets of every complete block."""
    (model, rules), state = opened(arrays)
    _settle(model, rules, state)


# ------------------------------------------------------------------------- results and runs


@interpreted
def told_in_full(arrays: Arrays) -> Floats:
    """Return how often each cell gave its rarest measure that matters."""
    (model, _), state = opened(arrays)
    return count_wanted(model, state)


@kernel
def answer_now(arrays: Arrays) -> int:
    """Return the leader by all data so far; K means "none", -1 that there is not enough data."""
    (model, _), state = opened(arrays)
    if not can_plan(model, state):
        return -1
    seen, programmes, work = _view(model, state)
    counts = count_wanted(model, state)
    silent = np.zeros(seen.quality.size, dtype=np.bool_)
    mark_silent(model.active, counts, state.book, model.noise == BOUNDED, silent)
    return find_leader(model, state, seen, programmes, work, silent)


@kernel
def fit_now(arrays: Arrays) -> Floats:
    """Return slope, mean and explained variance of each prediction so far, shape (3, P, L)."""
    (model, _), state = opened(arrays)
    seen = new_view(model)
    fit_predictions(model, state, seen)
    found = np.empty((3, model.predicted, model.weights.size))
    found[0], found[1] = seen.slopes, seen.expected
    for p in range(model.predicted):
        found[2, p] = seen.explained[:, p, p]
    return found


@kernel
def run(
    arrays: Arrays,
    batch: float,
    source: VectorSource,
    low: Floats,
    unit: Floats,
    generator: np.random.Generator,
    max_pulls: int,
) -> int:
    """Run until the stop or `max_pulls`; return the number of pulls.

    The kernels get measures minus `low`, in units of `unit`.
    """
    (model, rules), state = opened(arrays)
    measures = model.objective.size
    nothing = np.full(measures, math.nan)
    values = np.empty(measures)
    pulls = 0
    while pulls < max_pulls and not state.finished[0]:
        cell, serial = _next_cell(model, rules, state, ANY_GROUP, batch)
        draw_vector(
            source.kind, source.first, source.second, source.starts, cell, generator, values
        )
        for m in range(measures):
            values[m] = (values[m] - low[m]) / unit[m]
        result = Result(cell, nothing, values, True, pulls)
        _take(model, rules, state, slot_of(state.blocks, serial), result)
        pulls += 1
    return pulls
