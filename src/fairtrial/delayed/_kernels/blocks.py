"""Block betting on the best k arms, one pull at a time, for live policies and simulations.

Each block of pulls is planned from all results before it. Only a block's own results pay its bets,
once it and all earlier blocks are complete. Proof: docs/explanation/delayed.md.
"""

import math

import numpy as np

from fairtrial.confidence.block_betting.bets import LOST
from fairtrial.confidence.block_betting.blocks import (
    FIXED,
    NONE_LEFT,
    OUTSIDE,
    Arrays,
    close_oldest,
    complete_slot,
    draw_action,
    issue_assigned,
    next_pull,
    next_slot,
    note_loss,
    open_block,
    receive,
    replace_in_block,
    serial_of,
    slot_of,
    slot_of_tag,
    tag_of,
    undo_loss,
)
from fairtrial.confidence.block_betting.planned_end import pulls_until_end
from fairtrial.confidence.noise_kernels import record_as_issued, replace_numbered, settle_record
from fairtrial.core.compilation import apart, inlined, interpreted, kernel, uncounted
from fairtrial.delayed._kernels.block_bets import (
    correct_bets,
    multiply_bets,
    pay_bets,
    place_bets,
)
from fairtrial.delayed._kernels.block_plans import plan_block
from fairtrial.delayed._kernels.block_state import (
    STATE,
    Floats,
    Rules,
    State,
    opened,
)
from fairtrial.delayed._kernels.top_sets import NO_TARGET, mark_live_arms

__all__ = [
    "STATE",
    "ask",
    "ask_assigned",
    "correct",
    "end",
    "end_pull",
    "find_live_arms",
    "lose",
    "open_assigned",
    "settle",
    "start",
    "tell",
    "tell_late",
]


@interpreted
def start(arrays: Arrays) -> None:
    """Open the block of initial pulls, with no bets on it; finish if there is nothing to find."""
    (_, rules), state = opened(arrays)
    arms = state.counts.size
    planned = np.empty(arms)
    for arm in range(arms):
        state.wealth.target[arm] = NO_TARGET
        state.shares[arm] = 1.0 / arms
        planned[arm] = rules.initial_pulls
    state.forecast[0] = math.inf
    if rules.top == arms:
        state.finished[0] = 1
    else:
        state.bets.number[0] = 0
        open_block(state.blocks, planned)


# ------------------------------------------------------------------------ one pull at a time


@kernel
def ask(arrays: Arrays, batch: float) -> tuple[int, int]:
    """Return the next arm and its tag; the arm is negative as in `next_arm`."""
    (variances, rules), state = opened(arrays)
    arm, serial = next_arm(variances, rules, state, batch)
    return arm, tag_of(serial, serial > 0)


@kernel(inline="always")
def next_arm(variances: Floats, rules: Rules, state: State, batch: float) -> tuple[int, int]:
    """Return an arm and the serial of its block; plan a block when none has pulls left.

    The arm is `NO_ROOM` if another block needs more room, and `NONE_LEFT` at a planned end.
    """
    arm, serial = next_pull(state.blocks, -1, 1)
    if arm < 0 and pulls_until_end(rules, state.blocks) <= 0.0:
        return NONE_LEFT, OUTSIDE
    if arm < 0 and state.counts.min() == 0.0:
        # A plan needs a result of every arm. Until then, extra pulls inform plans but are in no
        # bet.
        arm = _extra_arm(state)
        state.blocks.pulls[0] += 1
    elif arm < 0 and next_slot(state.blocks) != OUTSIDE:
        _plan(variances, rules, state, batch, np.empty(0))
        arm, serial = next_pull(state.blocks, -1, 1)
    if arm >= 0:
        state.pending[arm] += 1.0
    return arm, serial


@kernel
def _extra_arm(state: State) -> int:
    """Return the arm of a pull outside of blocks: the least pulled arm, or a drawn one."""
    if state.blocks.order[0] != FIXED:
        return draw_action(state.blocks, np.ones(state.counts.size), 1)
    best = 0
    for arm in range(1, state.counts.size):
        if state.counts[arm] + state.pending[arm] < state.counts[best] + state.pending[best]:
            best = arm
    return best


@kernel
def open_assigned(arrays: Arrays, assigned: Floats) -> None:
    """Open a block of externally assigned pulls, counted by arm, and freeze its bets.

    A plan needs a result of every arm. Until then, the pulls inform plans but belong to no block.
    """
    (variances, rules), state = opened(arrays)
    if state.counts.min() > 0.0:
        _plan(variances, rules, state, 0.0, assigned)


@apart
def _plan(variances: Floats, rules: Rules, state: State, batch: float, assigned: Floats) -> None:
    """Plan the next block and freeze its bets."""
    slot = plan_block(variances, rules, state, batch, assigned)
    place_bets(rules, state, slot)


@kernel
def ask_assigned(arrays: Arrays, arm: int) -> int:
    """Issue a pull of the only open block, if one is open; return its tag."""
    _, state = opened(arrays)
    state.pending[arm] += 1.0
    serial = issue_assigned(state.blocks, arm)
    return tag_of(serial, serial > 0)


def tell(arrays: Arrays, arm: int, tag: int, outcome: float, number: int) -> None:
    """Record an outcome; its number is negative if it is unsolicited."""
    end(arrays, arm, tag, outcome, number, False)


def lose(arrays: Arrays, arm: int, tag: int, is_wanted: bool) -> None:
    """Record that a pull will have no outcome; it is not a loss if no bet needs the pull."""
    end(arrays, arm, tag, LOST, 0, is_wanted)


@kernel
def end(arrays: Arrays, arm: int, tag: int, outcome: float, number: int, is_loss: bool) -> None:
    """Record an outcome or `LOST`, and settle the complete blocks."""
    (variances, rules), state = opened(arrays)
    end_pull(variances, rules, state, arm, tag, outcome, number, is_loss)


@uncounted
def end_pull(
    variances: Floats,
    rules: Rules,
    state: State,
    arm: int,
    tag: int,
    outcome: float,
    number: int,
    is_loss: bool,
) -> None:
    """Do the same with an opened state."""
    if number >= 0:
        state.pending[arm] -= 1.0
    value = counted(rules, outcome)
    if not math.isnan(value):
        _add_value(state.counts, state.means, state.squares, arm, value)
    if is_loss:
        state.losses[arm] += 1.0
    slot = slot_of_tag(state.blocks, tag)
    if slot == OUTSIDE:
        return
    if math.isnan(value):
        note_loss(state.blocks, slot, arm, False)
    else:
        _take_in_block(variances, state, slot, arm, value, number)
    if rules.bounded:
        planned = state.blocks.planned[slot]
        multiply_bets(rules, state.plans, planned, state.bets, slot, arm, value)
    if state.blocks.waiting[slot] == 0:
        _settle(rules, state)


@inlined
def counted(rules: Rules, outcome: float) -> float:
    """Return an outcome in internal units, where larger is better."""
    value = (outcome - rules.origin) / rules.unit
    if rules.bounded and not math.isnan(value):
        return min(max(value, 0.0), 1.0)
    return value


@inlined
def _add_value(counts: Floats, means: Floats, squares: Floats, arm: int, value: float) -> None:
    """Add an outcome to the data."""
    counts[arm] += 1.0
    gap = value - means[arm]
    means[arm] += gap / counts[arm]
    squares[arm] += gap * (value - means[arm])


@inlined
def _take_in_block(
    variances: Floats, state: State, slot: int, arm: int, value: float, number: int
) -> None:
    receive(state.blocks, slot, arm, value)
    if state.settled_noise.size:
        own = value / math.sqrt(variances[arm])
        record_as_issued(state.noise[slot], arm, float(number), own)


@kernel
def tell_late(arrays: Arrays, arm: int, tag: int, outcome: float, number: int) -> bool:
    """Record the outcome of a pull reported lost; return whether its block still counts it.

    The block counts it while it is open. This is valid because every bet had used the worst
    possible value for the lost pull.
    """
    (variances, rules), state = opened(arrays)
    value = counted(rules, outcome)
    _add_value(state.counts, state.means, state.squares, arm, value)
    slot = slot_of_tag(state.blocks, tag)
    if slot == OUTSIDE:
        if state.settled_noise.size and serial_of(tag) >= 0:
            own = value / math.sqrt(variances[arm])
            record_as_issued(state.settled_noise, arm, float(number), own)
        return False
    undo_loss(state.blocks, slot, arm, False)
    _take_in_block(variances, state, slot, arm, value, number)
    if rules.bounded:
        planned = state.blocks.planned[slot]
        correct_bets(rules, state.plans, planned, state.bets, slot, arm, LOST, value)
    return True


@kernel
def correct(arrays: Arrays, arm: int, tag: int, old: float, new: float, number: int) -> None:
    """Replace an outcome in the data, and in its block's bets if they are not paid yet.

    The tag is -1 for an outcome that is in no bet.
    """
    (variances, rules), state = opened(arrays)
    before = counted(rules, old)
    after = counted(rules, new)
    mean = state.means[arm] + (after - before) / state.counts[arm]
    change = (after - before) * (after - mean + before - state.means[arm])
    state.squares[arm] = max(0.0, state.squares[arm] + change)
    state.means[arm] = mean
    serial = serial_of(tag)
    slot = slot_of(state.blocks, serial)
    if slot != OUTSIDE:
        replace_in_block(state.blocks, slot, arm, before, after)
        if rules.bounded:
            planned = state.blocks.planned[slot]
            correct_bets(rules, state.plans, planned, state.bets, slot, arm, before, after)
    if state.settled_noise.size and serial >= 0:
        record = state.noise[slot] if slot != OUTSIDE else state.settled_noise
        scale = math.sqrt(variances[arm])
        replace_numbered(record, arm, float(number), before / scale, after / scale)


@kernel
def settle(arrays: Arrays) -> None:
    """Pay the bets of every complete block."""
    (_, rules), state = opened(arrays)
    _settle(rules, state)


@apart
def _settle(rules: Rules, state: State) -> None:
    """Pay the bets of every complete block, in the order in which the blocks were issued."""
    blocks = state.blocks
    slot = complete_slot(blocks)
    while slot != OUTSIDE and not state.finished[0]:
        last = blocks.first[0] + blocks.number[0]
        mark_live_arms(state.wealth, state.plans, blocks.first[0], last, state.live[slot])
        if blocks.first[0] > 0 and pay_bets(
            rules, state.wealth, state.plans, blocks, state.bets, slot, state.means
        ):
            state.finished[0] = 1
        if state.settled_noise.size:
            settle_record(state.settled_noise, state.noise[slot])
        _count_losses(state, slot)
        close_oldest(blocks)
        slot = complete_slot(blocks)


@inlined
def _count_losses(state: State, slot: int) -> None:
    """Count a block in the comparison of losses, except arms whose pulls could be cancelled.

    Pulls of an arm that no bet needs any more are cancelled while they take long, so a comparison
    would find fast losses instead of frequent ones.
    """
    for arm in range(state.live_came.size):
        state.live_came[arm] += state.live[slot, arm] * state.blocks.results[slot, arm]
        state.live_lost[arm] += state.live[slot, arm] * state.blocks.losses[slot, arm]


@kernel
def find_live_arms(arrays: Arrays, live: Floats) -> bool:
    """Mark the arms whose results a bet can still need; return whether these are all arms."""
    _, state = opened(arrays)
    first = state.blocks.first[0]
    last = first + state.blocks.number[0]
    return mark_live_arms(state.wealth, state.plans, first, last, live)
