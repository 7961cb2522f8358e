"""Block betting on interventions: one wealth per answer; every row informs about every arm.

The counts and bets of a block are frozen when it is planned, from what is known at that time. Only
the results of that block pay the bets. Proof: docs/explanation/fair-interventions.md.
"""

import numpy as np

from fairtrial.causal._kernels.betting_bets import (
    correct_bets,
    is_bet_on,
    multiply_bets,
    place_bets,
    take_late_row,
    take_lost_row,
)
from fairtrial.causal._kernels.betting_plans import (
    believe,
    block_counts,
    estimates,
    find_leader,
    find_shares,
    find_target,
    initial_counts,
    shares_lost,
    weakest_value,
)
from fairtrial.causal._kernels.betting_state import (
    STATE,
    Booleans,
    Floats,
    Integers,
    Model,
    Rules,
    State,
    opened,
)
from fairtrial.causal._kernels.rows import draw_row, index_of
from fairtrial.causal._row_source import RowSource
from fairtrial.confidence.block_betting.bets import pay_bounded
from fairtrial.confidence.block_betting.blocks import (
    OUTSIDE,
    Arrays,
    issue_assigned,
    next_pull,
    next_slot,
    note_loss,
    open_block,
    open_planned_block,
    receive,
    replace_in_block,
    settle_blocks,
    slot_of,
    slot_of_tag,
    tag_of,
    undo_loss,
)
from fairtrial.confidence.block_betting.book import begin
from fairtrial.core.arithmetic import square
from fairtrial.core.compilation import apart, inlined, interpreted, kernel

__all__ = [
    "STATE",
    "answer_now",
    "ask",
    "ask_assigned",
    "ask_rows",
    "correct",
    "estimates_now",
    "lose",
    "open_assigned",
    "run",
    "settle",
    "start",
    "take_rows",
    "tell",
    "tell_late",
]

Row = tuple[int, float]
"""The cell of a row and its outcome."""


@interpreted
def start(arrays: Arrays) -> None:
    """Open the first block: the initial rows, with no bets on them."""
    (model, rules), state = opened(arrays)
    arms = model.means.shape[0]
    state.shares[:] = 1.0 / state.shares.size
    for k in range(arms):
        for limit in range(model.breakable.shape[1]):
            state.book.stated[k, limit] = model.breakable[k, limit] > 0.0
    begin(rules, state)
    if not state.finished[0]:
        slot = next_slot(state.blocks)
        state.target[slot] = state.leader[0]
        state.bets.number[slot] = 0
        open_block(state.blocks, initial_counts(model, rules, state))


@apart
def _plan_block(model: Model, rules: Rules, state: State, batch: float, assigned: Floats) -> None:
    """Plan the next block and freeze its counts and bets.

    `batch`: requested rows of the block; 0 leaves the size to the method. `assigned`: rows of each
    action if an outside experiment assigned them; empty if the method plans them.
    """
    beliefs = believe(model, rules, state)
    means, gaps = estimates(model, rules, beliefs)
    lost = shares_lost(rules, state)
    leader, items, values = find_target(model, rules, state, beliefs, means, gaps, lost)
    state.leader[0] = leader
    state.forecast[0] = find_shares(model, rules, beliefs, items, values, lost, state.shares)
    slot = next_slot(state.blocks)
    state.target[slot] = leader
    state.bets.number[slot] = 0
    if assigned.size:
        open_block(state.blocks, assigned)
    else:
        open_planned_block(state.blocks, block_counts(model, rules, state, batch))
    if weakest_value(items, values) >= square(rules.pause):
        place_bets(model, rules, state, slot, beliefs, items, lost)


# ------------------------------------------------------------------------- one pull at a time


@kernel
def ask(arrays: Arrays, batch: float) -> tuple[int, int]:
    """Return the next action and its tag; the action is -1 if another block needs more room."""
    (model, rules), state = opened(arrays)
    action, serial = _next_action(model, rules, state, batch)
    return action, _tag(state, serial)


@kernel
def open_assigned(arrays: Arrays, assigned: Floats) -> None:
    """Open a block of externally assigned rows, counted by action, and freeze its bets."""
    (model, rules), state = opened(arrays)
    _plan_block(model, rules, state, 0.0, assigned)


@kernel(inline="always")
def _next_action(model: Model, rules: Rules, state: State, batch: float) -> tuple[int, int]:
    """Return an action and the serial of its block; plan a block when none has pulls left."""
    action, serial = next_pull(state.blocks, -1, rules.modes)
    if action < 0 and next_slot(state.blocks) != OUTSIDE:
        _plan_block(model, rules, state, batch, np.empty(0))
        action, serial = next_pull(state.blocks, -1, rules.modes)
    return action, serial


@kernel
def ask_rows(arrays: Arrays, batch: float, actions: Integers, tags: Integers) -> int:
    """Fill the actions and tags of the next pulls, all from one block; return their number."""
    (_, rules), state = opened(arrays)
    action, tag = ask(arrays, batch)
    number = 0
    while action >= 0:
        actions[number] = action
        tags[number] = tag
        number += 1
        if number == actions.size:
            break
        action, _ = next_pull(state.blocks, -1, rules.modes)
    return number


@kernel
def _tag(state: State, serial: int) -> int:
    slot = slot_of(state.blocks, serial)
    return tag_of(serial, slot != OUTSIDE and is_bet_on(state, slot))


@kernel
def ask_assigned(arrays: Arrays, action: int) -> int:
    """Issue a row of the only open block, if one is open; return its tag."""
    _, state = opened(arrays)
    return _tag(state, issue_assigned(state.blocks, action))


@kernel
def tell(arrays: Arrays, action: int, tag: int, row: Row, number: int) -> None:
    """Record a row and settle the complete blocks."""
    (model, rules), state = opened(arrays)
    _take(model, rules, state, action, slot_of_tag(state.blocks, tag), row, number)


@kernel(inline="always")
def _take(
    model: Model, rules: Rules, state: State, action: int, slot: int, row: Row, number: int
) -> None:
    """Record a row, in an open block or outside of all blocks, and settle the complete blocks."""
    cell, outcome = row
    _add_data(state, action, row, 1.0)
    if slot != OUTSIDE:
        receive(state.blocks, slot, action, outcome)
        multiply_bets(model, state, slot, cell, outcome, number)
        if state.blocks.waiting[slot] == 0:
            _settle(model, rules, state)


@apart
def _settle(model: Model, rules: Rules, state: State) -> None:
    """Pay the bets of every complete block, in the order in which the blocks were issued."""
    settle_blocks(model, rules, state, _pay)


@kernel
def _pay(_model: Model, _rules: Rules, state: State, slot: int) -> None:
    """Pay the bets of a block; if the last two answers are rejected together, its target stays."""
    pay_bounded(state.bets, slot, state.book.ledgers)
    state.leader[0] = state.target[slot]


@inlined
def _add_data(state: State, action: int, row: Row, number: float) -> None:
    """Add a row to the data, if `number` is 1, or remove it, if -1."""
    cell, outcome = row
    state.counts[action] += number
    state.totals[action] += number * outcome
    state.rows[cell] += number
    state.sums[cell] += number * outcome
    state.squares[cell] += number * outcome * outcome


@kernel
def take_rows(
    arrays: Arrays, actions: Integers, tags: Integers, cells: Integers, outcomes: Floats
) -> None:
    """Record many rows in order."""
    (model, rules), state = opened(arrays)
    for row in range(actions.size):
        slot = slot_of_tag(state.blocks, tags[row])
        told = cells[row], outcomes[row]
        _take(model, rules, state, actions[row], slot, told, OUTSIDE)


@kernel
def tell_late(arrays: Arrays, action: int, tag: int, row: Row, number: int) -> bool:
    """Record the row of a pull that was reported lost; return whether its block still counts it.

    The block counts it while it is open, unless another row was drawn as a replacement. This is
    valid because every bet had used the worst possible score for the lost row.
    """
    (model, rules), state = opened(arrays)
    _add_data(state, action, row, 1.0)
    slot = slot_of_tag(state.blocks, tag)
    if slot == OUTSIDE or not undo_loss(state.blocks, slot, action, rules.pulls_again):
        return False
    receive(state.blocks, slot, action, row[1])
    if rules.pulls_again:
        multiply_bets(model, state, slot, row[0], row[1], number)
        _settle(model, rules, state)
    else:
        take_late_row(model, state, slot, action, row[0], row[1], number)
    return True


@kernel
def lose(arrays: Arrays, action: int, tag: int) -> None:
    """Record that a pull will have no outcome.

    Every bet counts the worst score that a row of its action can have. If losses are independent of
    rows, a replacement is drawn instead.
    """
    (model, rules), state = opened(arrays)
    slot = slot_of_tag(state.blocks, tag)
    if slot == OUTSIDE:
        return
    note_loss(state.blocks, slot, action, rules.pulls_again)
    if not rules.pulls_again:
        take_lost_row(model, state, slot, action)
        _settle(model, rules, state)


@kernel
def correct(arrays: Arrays, action: int, tag: int, old: Row, new: Row, number: int) -> None:
    """Replace a row in the data, and in its block's bets if they are not paid yet."""
    (model, _), state = opened(arrays)
    _add_data(state, action, old, -1.0)
    _add_data(state, action, new, 1.0)
    slot = slot_of_tag(state.blocks, tag)
    if slot != OUTSIDE:
        replace_in_block(state.blocks, slot, action, old[1], new[1])
        correct_bets(model, state, slot, old[0], old[1], new[0], new[1], number)


# -------------------------------------------------------------------------------- whole runs


@kernel
def run(
    arrays: Arrays,
    batch: float,
    source: RowSource,
    possible: Booleans,
    place_of: Integers,
    generator: np.random.Generator,
    max_pulls: int,
) -> tuple[int, int]:
    """Run until the stop or `max_pulls`; return the number of pulls and an action.

    The action is that of an impossible row, or -1 if there was none. `possible`: by arm, value and
    cell. `place_of`: the place of every cell, by group; -1 for a cell that cannot occur.
    """
    (model, rules), state = opened(arrays)
    row = np.empty(source.start.size, dtype=np.int64)
    pulls = 0
    while pulls < max_pulls and not state.finished[0]:
        action, serial = _next_action(model, rules, state, batch)
        arm, mode = action // rules.modes, action % rules.modes
        draw_row(source, arm, mode - 1, generator, row)
        value, cell = index_of(row, source.value_step), index_of(row, source.cell_step)
        place = place_of[value if place_of.shape[0] > 1 else 0, cell]
        if place < 0 or not possible[arm, value, cell]:
            return pulls, action
        told = place, source.numbers[row[source.outcome]]
        _take(model, rules, state, action, slot_of(state.blocks, serial), told, OUTSIDE)
        pulls += 1
    return pulls, -1


# ------------------------------------------------------------------------ paying, and reports


@kernel
def settle(arrays: Arrays) -> None:
    """Pay the bets of every complete block."""
    (model, rules), state = opened(arrays)
    _settle(model, rules, state)


@kernel
def estimates_now(arrays: Arrays) -> tuple[Floats, Floats]:
    """Return the estimates of all means, shape (K,), and of all gaps, shape (K, L)."""
    (model, rules), state = opened(arrays)
    return estimates(model, rules, believe(model, rules, state))


@kernel
def answer_now(arrays: Arrays) -> int:
    """Return the leading answer by all data so far: an arm, K for "none", or -1 before any data."""
    (model, rules), state = opened(arrays)
    if state.rows.sum() == 0.0:
        return -1
    means, gaps = estimates(model, rules, believe(model, rules, state))
    return find_leader(rules, state, means, gaps)
