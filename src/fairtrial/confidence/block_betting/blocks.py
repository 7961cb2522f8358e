"""Compiled state of the open blocks: their pulls, results, losses and order.

Everything about a block is frozen when it is opened. Several blocks can be open at once; they are
settled in the order in which they were issued, each after all of its pulls have a result or are
lost. A block is stored in the slot "serial number modulo number of slots".

No bet depends on the order of a block's pulls, so that order can be random. Coin number n depends
only on a key and n (`core.philox`), so a resumed study makes the same draws as one that never
paused.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.block_betting.book import decide
from fairtrial.core.arithmetic import sum_of
from fairtrial.core.compilation import counted, inlined, kernel, uncounted
from fairtrial.core.philox import philox_uniform

_FEW = 0.1
"""The share of a block's pulls that may be open when a complete later block overtakes it."""

_STRAGGLERS = 4.0
"""Results of later blocks per open pull of later blocks: delays hardly explain what is missing."""

_TWICE = 2.0
"""Results of later blocks, compared with all settled ones: evidence must not wait any longer."""

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

Arrays = tuple[Floats, Floats, Integers]
"""What policies pass to a family's kernels: packed constants and the two buffers of the state."""

OUTSIDE = -1
"""The serial number of a pull outside of blocks, and the slot of a block that is not open."""

NO_ROOM, NONE_LEFT = -1, -2
"""What is returned in place of an action if the next block needs another slot, or none is left."""

FIXED, DRAWN, TOSSED = 0, 1, 2
"""The order of a block's pulls.

`FIXED`: the most numerous action first; `DRAWN`: each pull drawn from those left; `TOSSED`: each
arm drawn with the planned shares when the block is planned.
"""


class Blocks(NamedTuple):
    """The open blocks; an action is what one pull can choose."""

    first: Annotated[Integers, "1"]  # serial number of the oldest open block
    number: Annotated[Integers, "1"]  # of open blocks
    pulls: Annotated[Integers, "1"]  # planned in all blocks so far, or issued outside of them
    waiting: Annotated[Integers, "slots"]  # pulls without a result
    unissued: Annotated[Integers, "slots"]  # pulls still to be issued
    width: Annotated[Integers, "slots"]  # actions with pulls
    support: Annotated[Integers, "slots actions"]  # those actions
    planned: Annotated[Floats, "slots actions"]  # pulls of the block
    to_issue: Annotated[Floats, "slots actions"]
    results: Annotated[Floats, "slots actions"]
    sums: Annotated[Floats, "slots actions"]  # of results
    losses: Annotated[Floats, "slots actions"]
    squares: Annotated[Floats, "slots actions"]  # sums of squares of the values in `sums`
    came: Annotated[Floats, "actions"]  # results of settled blocks
    lost: Annotated[Floats, "actions"]  # lost pulls of settled blocks
    settled_sums: Annotated[Floats, "actions"]  # sums of the results of settled blocks
    settled_squares: Annotated[Floats, "actions"]  # sums of `squares`, over settled blocks
    known: Annotated[Floats, "slots actions 3"]  # number, sums and squares when opened
    order: Annotated[Integers, "1"]  # `FIXED`, `DRAWN` or `TOSSED`
    key: Annotated[Integers, "2"]  # of the coins
    coins: Annotated[Integers, "1"]  # number tossed so far
    shares: Annotated[Floats, "slots actions"]  # planned, if the block was tossed for; else 0
    propensity: Annotated[Floats, "1"]  # of the pull issued last; NaN without coins


@inlined
def next_slot(blocks: Blocks) -> int:
    """Return the slot of the next block, or `OUTSIDE` if no slot is free."""
    slots = blocks.waiting.size
    if blocks.number[0] == slots:
        return OUTSIDE
    return (blocks.first[0] + blocks.number[0]) % slots


@uncounted
def open_block(blocks: Blocks, planned: Floats) -> None:
    """Open a block with the planned pulls of every action, in the next slot."""
    slot = next_slot(blocks)
    width = 0
    pulls = 0
    for action in range(planned.size):
        blocks.planned[slot, action] = planned[action]
        blocks.to_issue[slot, action] = planned[action]
        blocks.results[slot, action] = 0.0
        blocks.sums[slot, action] = 0.0
        blocks.squares[slot, action] = 0.0
        blocks.losses[slot, action] = 0.0
        blocks.shares[slot, action] = 0.0
        blocks.known[slot, action, 0] = blocks.came[action]
        blocks.known[slot, action, 1] = blocks.settled_sums[action]
        blocks.known[slot, action, 2] = blocks.settled_squares[action]
        if planned[action] > 0.0:
            blocks.support[slot, width] = action
            width += 1
            pulls += int(planned[action])
    blocks.width[slot] = width
    blocks.unissued[slot] = pulls
    blocks.waiting[slot] = pulls
    blocks.pulls[0] += pulls
    blocks.number[0] += 1


@uncounted
def open_planned_block(blocks: Blocks, planned: Floats) -> None:
    """Open the next block; if its arms are tossed for, coins decide its pulls.

    The coins are tossed before any bet on the block is placed and before any of its results.
    """
    if blocks.order[0] == TOSSED:
        _open_tossed_block(blocks, planned)
    else:
        open_block(blocks, planned)


@counted
def _open_tossed_block(blocks: Blocks, planned: Floats) -> None:
    pulls = planned.sum()
    tossed = np.zeros(planned.size)
    for _ in range(int(pulls)):
        tossed[_place_in(planned, next_coin(blocks) * pulls)] += 1.0
    slot = next_slot(blocks)
    open_block(blocks, tossed)
    for action in range(planned.size):
        blocks.shares[slot, action] = planned[action] / pulls


@inlined
def _place_in(weights: Floats, height: float) -> int:
    """Return the first entry whose cumulative weight exceeds a height below the total."""
    found = -1
    for action in range(weights.size):
        if weights[action] > 0.0:
            found = action
            height -= weights[action]
            if height < 0.0:
                break
    return found


@uncounted
def next_coin(blocks: Blocks) -> float:
    """Toss the next coin: a number uniform on [0, 1)."""
    coin = philox_uniform(blocks.key[0], blocks.key[1], blocks.coins[0], 0)
    blocks.coins[0] += 1
    return coin


@inlined
def next_pull(blocks: Blocks, column: int, columns: int) -> tuple[int, int]:
    """Issue a pull of the oldest block that has one left; return its action and the block's serial.

    If an action is a row and a column, `column` restricts the choice; -1 allows every column. The
    action is -1 if no open block has such a pull.
    """
    slots = blocks.waiting.size
    found = -1
    serial = blocks.first[0] - 1
    newest = serial + blocks.number[0]
    while found < 0 and serial < newest:
        serial += 1
        slot = serial % slots
        if blocks.unissued[slot] == 0:
            continue
        if blocks.order[0] == FIXED:
            found = _most_numerous(blocks, slot, column, columns)
        else:
            found = _drawn(blocks, slot, column, columns)
        if found >= 0:
            blocks.to_issue[slot, found] -= 1.0
            blocks.unissued[slot] -= 1
    return found, serial if found >= 0 else OUTSIDE


@inlined
def has_place_for_another(blocks: Blocks, column: int, columns: int, most: int) -> bool:
    """Return whether another block may be opened for a pull of a column that no open block lacks.

    At most `most` blocks wait for pulls of other columns. Another one would not help as long as the
    newest waits and was planned without this column.
    """
    slots = blocks.waiting.size
    first, number = blocks.first[0], blocks.number[0]
    unfilled = 0
    for serial in range(first, first + number):
        if blocks.unissued[serial % slots] > 0:
            unfilled += 1
    newest = (first + number - 1) % slots
    if column >= 0 and number > 0 and blocks.unissued[newest] > 0:
        return unfilled < most and _sum_of_column(blocks.planned, newest, column, columns) > 0.0
    return unfilled < most


@inlined
def _most_numerous(blocks: Blocks, slot: int, column: int, columns: int) -> int:
    """Return the action with the most pulls left; -1 if the column has none."""
    found = -1
    most = 0.0
    for index in range(blocks.width[slot]):
        action = blocks.support[slot, index]
        if blocks.to_issue[slot, action] > most and (column < 0 or action % columns == column):
            most = blocks.to_issue[slot, action]
            found = action
    return found


@inlined
def _drawn(blocks: Blocks, slot: int, column: int, columns: int) -> int:
    """Draw one of the pulls left, each with the same probability; -1 if the column has none.

    The propensity is the conditional probability that this row was drawn among the pulls of its
    column. For an arm that was tossed for, it is the planned share.
    """
    left = float(blocks.unissued[slot])
    if column >= 0:
        left = _sum_of_column(blocks.to_issue, slot, column, columns)
    if left == 0.0:
        return -1
    height = next_coin(blocks) * left
    found = -1
    for index in range(blocks.width[slot]):
        action = blocks.support[slot, index]
        number = blocks.to_issue[slot, action]
        if number > 0.0 and (column < 0 or action % columns == column):
            found = action
            height -= number
            if height < 0.0:
                break
    weights = blocks.shares if blocks.shares[slot, found] > 0.0 else blocks.to_issue
    total = left
    if columns > 1 or blocks.order[0] == TOSSED:
        total = _sum_of_column(weights, slot, found % columns, columns)
    blocks.propensity[0] = weights[slot, found] / total
    return found


@inlined
def _sum_of_column(weights: Floats, slot: int, column: int, columns: int) -> float:
    total = 0.0
    for action in range(column, weights.shape[1], columns):
        total += weights[slot, action]
    return total


@uncounted
def draw_action(blocks: Blocks, weights: Floats, columns: int) -> int:
    """Draw an action with these weights, for a pull outside of blocks."""
    found = _place_in(weights, next_coin(blocks) * sum_of(weights))
    total = 0.0
    for action in range(found % columns, weights.size, columns):
        total += weights[action]
    blocks.propensity[0] = weights[found] / total
    return found


@inlined
def issue_assigned(blocks: Blocks, action: int) -> int:
    """Issue an externally assigned pull of the only open block; return the block's serial.

    Return `OUTSIDE` if no block is open.
    """
    if blocks.number[0] == 0:
        return OUTSIDE
    serial = blocks.first[0]
    slot = serial % blocks.waiting.size
    blocks.to_issue[slot, action] -= 1.0
    blocks.unissued[slot] -= 1
    return serial


@inlined
def slot_of(blocks: Blocks, serial: int) -> int:
    """Return the slot of a pull's block; `OUTSIDE` if it is settled or there is none."""
    return serial % blocks.waiting.size if serial >= blocks.first[0] else OUTSIDE


@inlined
def slot_of_tag(blocks: Blocks, tag: int) -> int:
    """Return the slot of a tagged pull's block; `OUTSIDE` if it is settled or there is none."""
    return slot_of(blocks, serial_of(tag))


@inlined
def serial_in(blocks: Blocks, slot: int) -> int:
    """Return the serial number of the open block in a slot."""
    slots = blocks.waiting.size
    return blocks.first[0] + (slot - blocks.first[0]) % slots


@inlined
def receive(blocks: Blocks, slot: int, action: int, value: float) -> None:
    """Add a result to an open block."""
    blocks.results[slot, action] += 1.0
    blocks.sums[slot, action] += value
    blocks.squares[slot, action] += value * value
    blocks.waiting[slot] -= 1


@inlined
def replace_in_block(blocks: Blocks, slot: int, action: int, before: float, after: float) -> None:
    """Replace a result of an open block."""
    blocks.sums[slot, action] += after - before
    blocks.squares[slot, action] += after * after - before * before


@inlined
def note_loss(blocks: Blocks, slot: int, action: int, issue_again: bool) -> None:
    """Record the loss of a pull of an open block; issue a replacement if `issue_again` is set."""
    blocks.losses[slot, action] += 1.0
    if issue_again:
        blocks.to_issue[slot, action] += 1.0
        blocks.unissued[slot] += 1
    else:
        blocks.waiting[slot] -= 1


@inlined
def undo_loss(blocks: Blocks, slot: int, action: int, issued_again: bool) -> bool:
    """Undo the loss of a pull of an open block; return whether this was possible.

    It is impossible after a replacement has been issued.
    """
    if issued_again:
        if blocks.to_issue[slot, action] <= 0.0:
            return False
        blocks.to_issue[slot, action] -= 1.0
        blocks.unissued[slot] -= 1
    else:
        blocks.waiting[slot] += 1
    blocks.losses[slot, action] -= 1.0
    return True


@inlined
def complete_slot(blocks: Blocks) -> int:
    """Return the slot of the oldest open block if it is complete, else `OUTSIDE`."""
    slot = blocks.first[0] % blocks.waiting.size
    return slot if blocks.number[0] > 0 and blocks.waiting[slot] == 0 else OUTSIDE


@inlined
def is_overtaken(blocks: Blocks, kept: bool) -> bool:
    """Return whether the oldest block need not wait any longer for its open pulls.

    These then count as their worst, which is valid at any time: no guarantee depends on this rule.
    It is meant to hold where delays do not explain what is missing, and in the end always. All
    pulls of the block must be issued.

    `kept`: whether results that come later can replace the worst values.
    """
    number, slots = blocks.number[0], blocks.waiting.size
    oldest = blocks.first[0] % slots
    if number < 2 or blocks.unissued[oldest] > 0:
        return False
    results = still_open = 0.0
    is_any_complete = False
    for serial in range(blocks.first[0] + 1, blocks.first[0] + number):
        slot = serial % slots
        results += sum_of(blocks.results[slot])
        still_open += blocks.waiting[slot] - blocks.unissued[slot]
        is_any_complete = is_any_complete or blocks.waiting[slot] == 0
    pulls = sum_of(blocks.planned[oldest])
    settled = sum_of(blocks.came) + sum_of(blocks.lost)
    if results >= _TWICE * max(pulls, settled):
        return True
    if not kept:
        return False
    if is_any_complete and blocks.waiting[oldest] <= max(1.0, _FEW * pulls):
        return True
    return bool(results >= max(pulls, _STRAGGLERS * still_open))


@uncounted
def close_oldest(blocks: Blocks) -> None:
    """Close the oldest open block after its bets are paid."""
    slot = blocks.first[0] % blocks.waiting.size
    for index in range(blocks.width[slot]):
        action = blocks.support[slot, index]
        blocks.came[action] += blocks.results[slot, action]
        blocks.lost[action] += blocks.losses[slot, action]
        blocks.settled_sums[action] += blocks.sums[slot, action]
        blocks.settled_squares[action] += blocks.squares[slot, action]
    blocks.first[0] += 1
    blocks.number[0] -= 1


@kernel(inline="always")
def settle_blocks(model: Any, rules: Any, state: Any, pay: Any) -> None:
    """Pay the bets of every complete block, in the order in which the blocks were issued.

    Parameters
    ----------
    model, rules, state : NamedTuple
        Of the family. The rules have `threshold` and `separately`; the state has `blocks`, `book`,
        `leader`, `finished` and `answer`.
    pay : kernel
        Pays the bets of a block: ``pay(model, rules, state, slot)``.
    """
    slot = complete_slot(state.blocks)
    while slot != OUTSIDE and not state.finished[0]:
        pay(model, rules, state, slot)
        close_oldest(state.blocks)
        decide(rules, state)
        slot = complete_slot(state.blocks)


@inlined
def tag_of(serial: int, is_bet_on: bool) -> int:
    """Return a pull's tag: the serial of its block, or -2 minus it if no bet is placed on it."""
    return serial if serial == OUTSIDE or is_bet_on else -2 - serial


@inlined
def serial_of(tag: int) -> int:
    """Return the serial number of a tagged pull's block; `OUTSIDE` for none."""
    return tag if tag >= OUTSIDE else -2 - tag
