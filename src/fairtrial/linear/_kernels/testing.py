"""The results that test the noise and the linear function, in an order that no value influences.

Results arrive in an order that may depend on their values. So the test counts a set of pulls only
when none of them is in flight any more: first those issued before the first block, then one settled
block after the other. Results that come before it is their turn are held back. Unsolicited results
have no delay, and count at once.
"""

import math

import numpy as np

from fairtrial.confidence.block_betting.blocks import OUTSIDE
from fairtrial.confidence.noise_kernels import (
    COUNT,
    FIRST,
    MEAN,
    NUMBER,
    record_as_issued,
    replace_numbered,
    settle_record,
)
from fairtrial.core.arithmetic import copy_into
from fairtrial.core.compilation import inlined, kernel
from fairtrial.linear._kernels.matrices import Floats, Integers
from fairtrial.linear._kernels.model import Model
from fairtrial.linear._kernels.planning import measures_start
from fairtrial.linear._kernels.state import State


@inlined
def note_issue(state: State, serial: int) -> None:
    """Count an issued pull if it is one of those before the first block."""
    if serial == OUTSIDE and state.blocks.first[0] + state.blocks.number[0] == 0:
        state.initial[0] += 1
        state.initial_open[0] += 1


@inlined
def is_initial(state: State, serial: int, number: int) -> bool:
    """Return whether a pull was issued before the first block; these have the first numbers."""
    return serial == OUTSIDE and 0 <= number < state.initial[0]


@kernel
def add_unsolicited(model: Model, state: State, arm: int, reward: float) -> None:
    """Add a result that nobody asked for."""
    record_as_issued(state.record, arm, -1.0, reward)
    _begin_test(model, state)


@kernel
def end_initial(model: Model, state: State, arm: int, number: int, reward: float) -> None:
    """End an initial pull, with its reward; NaN if it is lost."""
    state.initial_open[0] -= 1
    if not math.isnan(reward):
        record_as_issued(state.held, arm, float(number), reward)
    if state.initial_open[0] == 0:
        settle_record(state.record, state.held)
        state.initial_tested[0] = state.initial[0]
        state.blocks_tested[0] = state.blocks.first[0]
        _begin_test(model, state)


@kernel
def add_block(model: Model, state: State, slot: int) -> None:
    """Add the results of a block that is settled now."""
    if state.initial_open[0] > 0:
        settle_record(state.held, state.noise[slot])
        return
    settle_record(state.record, state.noise[slot])
    state.blocks_tested[0] = state.blocks.first[0] + 1
    _begin_test(model, state)


@kernel
def _begin_test(model: Model, state: State) -> None:
    """Once the tested results determine theta, choose those that come first.

    They are the first results of as few arms as needed, in the order of issue.
    """
    if state.has_early[0] or not state.estimable[0]:
        return
    counts = state.record[:, COUNT].copy()
    if not measures_start(model, counts):
        return
    state.has_early[0] = 1
    issued = state.record[:, NUMBER].copy()
    for k in range(counts.size):
        if counts[k] == 0.0:
            issued[k] = math.inf
    order = np.argsort(issued, kind="mergesort")
    shortest, longest = 1, int((counts > 0.0).sum())
    while shortest < longest:
        middle = (shortest + longest) // 2
        if measures_start(model, _one_of_each(order, middle)):
            longest = middle
        else:
            shortest = middle + 1
    if not measures_start(model, _one_of_each(order, longest)):
        copy_into(state.early, state.record)
        return
    for i in range(longest):
        k = order[i]
        state.early[k, COUNT] = 1.0
        state.early[k, MEAN] = state.early[k, FIRST] = state.record[k, FIRST]


@kernel
def _one_of_each(order: Integers, number: int) -> Floats:
    """Return counts with one result of each of the first arms in an order."""
    counts = np.zeros(order.size)
    for i in range(number):
        counts[order[i]] = 1.0
    return counts


@kernel
def add_late(state: State, serial: int, arm: int, number: int, reward: float) -> None:
    """Add the result of a pull that was lost, in place of which others may have been tested."""
    if _is_tested(state, serial, number):
        record_as_issued(state.record, arm, float(number), reward)
    elif serial != OUTSIDE or is_initial(state, serial, number):
        record_as_issued(state.held, arm, float(number), reward)


@kernel
def correct_tested(
    state: State, serial: int, arm: int, number: int, before: float, after: float
) -> None:
    """Replace the result of a pull of no open block."""
    if _is_tested(state, serial, number):
        replace_numbered(state.record, arm, float(number), before, after)
        # Begin the test again, because its first results may have changed.
        if state.has_early[0]:
            copy_into(state.early, state.record)
    elif serial != OUTSIDE or is_initial(state, serial, number):
        replace_numbered(state.held, arm, float(number), before, after)


@inlined
def _is_tested(state: State, serial: int, number: int) -> bool:
    if serial == OUTSIDE:
        return number < 0 or number < state.initial_tested[0]
    return serial < state.blocks_tested[0]
