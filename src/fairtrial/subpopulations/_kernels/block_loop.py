"""The steps of asking and telling that are the same for one measure per pull and for several.

They are inlined in the kernels that call them; this is why they can take kernels as arguments.
"""

from typing import Any

import numpy as np

from fairtrial.confidence.block_betting.blocks import (
    OUTSIDE,
    has_unissued,
    next_pull,
    next_slot,
    open_block,
)
from fairtrial.confidence.block_betting.book import begin
from fairtrial.core.compilation import kernel
from fairtrial.subpopulations._kernels.block_plans import extra_cell, initial_block
from fairtrial.subpopulations._kernels.model import Floats, fill


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
    """Return a cell and the serial of its block; plan a block when none has pulls left.

    If only other groups than the one that arrived have pulls left, the pull is in no block.
    `pulls`: pulls of every cell so far. The cell is -1 if another block needs more room.
    """
    while True:
        cell, serial = next_pull(state.blocks, group, model.weights.size)
        if cell >= 0:
            return cell, serial
        arrived = group >= 0 and has_unissued(state.blocks)
        if arrived or not can_plan(model, state):
            state.blocks.pulls[0] += 1
            book, matters = state.book, model.active
            return extra_cell(state.blocks, book, matters, pulls, state.shares, group), OUTSIDE
        if next_slot(state.blocks) == OUTSIDE:
            return -1, OUTSIDE
        plan_block(model, rules, state, batch, np.empty(0))


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
        plan_block(model, rules, state, 0.0, assigned)
    else:
        begin_block(state, next_slot(state.blocks))
        open_block(state.blocks, assigned)
