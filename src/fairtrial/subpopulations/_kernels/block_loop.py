"""The steps of asking and telling that are the same for one measure per pull and for several.

They are inlined in the kernels that call them; this is why they can take kernels as arguments.
"""

from typing import Any

import numpy as np

from fairtrial.confidence.block_betting.blocks import (
    NO_ROOM,
    NONE_LEFT,
    OUTSIDE,
    has_place_for_another,
    next_pull,
    next_slot,
    open_block,
)
from fairtrial.confidence.block_betting.book import begin
from fairtrial.confidence.block_betting.planned_end import pulls_until_end
from fairtrial.core.compilation import kernel
from fairtrial.subpopulations._kernels.block_plans import extra_cell, initial_block
from fairtrial.subpopulations._kernels.indices import ANY_GROUP
from fairtrial.subpopulations._kernels.model import Floats, fill

_MOST_UNFILLED = 3
"""The open blocks that may wait for people of other groups before a pull is made outside of blocks.

With one, most of what people bring is in no bet when many results are on their way. With many, bets
would be frozen long before their results come, and a group from which nobody arrives any more would
hold back the results of the others in ever more blocks.
"""


@kernel(inline="always")
def start_blocks(model: Any, rules: Any, state: Any, begin_block: Any) -> None:
    """Open the first block: the initial pulls, on which nothing is bet.

    The book must already state the limits.
    """
    arms, groups = model.active.shape
    fill(state.shares, 1.0 / (arms * groups))
    begin(rules, state)
    if not state.finished[0]:
        begin_block(state, next_slot(state.blocks))
        open_block(state.blocks, initial_block(model.active, rules))


@kernel(inline="always")
def next_cell(
    model: Any,
    rules: Any,
    state: Any,
    pulls: Floats,
    group: int,
    batch: float,
    can_plan: Any,
    plan_block: Any,
) -> tuple[int, int]:
    """Return a cell and the serial of its block; plan a block when none has such a pull.

    If another block would not help the group that arrived, the pull is in no block.
    `pulls`: pulls of every cell so far. The cell is `NO_ROOM` if another block needs more room, and
    `NONE_LEFT` if all pulls until a planned end are planned, without any for the group.
    """
    while True:
        groups = model.weights.size
        cell, serial = next_pull(state.blocks, group, groups)
        if cell >= 0:
            return cell, serial
        helps = has_place_for_another(state.blocks, group, groups, _MOST_UNFILLED)
        if not helps or not can_plan(model, state):
            if pulls_until_end(rules, state.blocks) <= 0.0:
                return NONE_LEFT, OUTSIDE
            state.blocks.pulls[0] += 1
            book, matters = state.book, model.active
            return extra_cell(state.blocks, book, matters, pulls, state.shares, group), OUTSIDE
        if next_slot(state.blocks) == OUTSIDE:
            return NO_ROOM, OUTSIDE
        plan_block(model, rules, state, batch, np.empty(0), group)


@kernel(inline="always")
def open_assigned_block(
    model: Any,
    rules: Any,
    state: Any,
    assigned: Floats,
    can_plan: Any,
    plan_block: Any,
    begin_block: Any,
) -> None:
    """Open a block of externally assigned pulls, by cell; freeze its bets if it can be planned."""
    if can_plan(model, state):
        plan_block(model, rules, state, 0.0, assigned, ANY_GROUP)
    else:
        begin_block(state, next_slot(state.blocks))
        open_block(state.blocks, assigned)
