"""Entry points of rules with a budget: one event, or a whole simulated run."""

from typing import NamedTuple

import numpy as np

from fairtrial.core.records import Words, record_type
from fairtrial.delayed._kernels.budget_state import (
    OPEN,
    Budget,
    average,
    forecast,
    has_room,
    open_budget,
)
from fairtrial.delayed._kernels.budgets import (
    READ,
    STOP,
    TELL,
    happen,
    is_unwanted,
    set_out,
    start,
)
from fairtrial.delayed._kernels.environments import (
    LOST,
    NEXT_TIME,
    ROW,
    VALUE,
    CompiledEnvironment,
    next_reading,
    outcome_of,
    read,
)
from fairtrial.delayed._kernels.environments import READ as READINGS_READ
from fairtrial.delayed._kernels.queue import (
    Integers,
    Queue,
    drop_freed,
    enter,
    is_due,
    leave_first,
    schedule,
    sink,
)
from fairtrial.delayed._kernels.state import Floats, inlined, kernel


@kernel
def prepare(words: Words) -> None:
    """Move an empty state to its first rung or round."""
    set_out(open_budget(words))


@kernel
def ask(words: Words) -> int:
    """Start the next pull; return its row, or -1 if none can start now."""
    return start(open_budget(words))


@kernel
def act(words: Words, kind: int, at: int, place: int, value: float) -> None:
    """Process one event; see `budgets.happen`."""
    happen(open_budget(words), kind, at, place, value)


@kernel
def keep_unwanted(words: Words, rows: Integers) -> int:
    """Move the rows of unwanted pulls in flight to the front; return their number."""
    state, size = open_budget(words), 0
    for row in rows:
        if state.control[0].over > 0 or is_unwanted(state, row):
            rows[size] = row
            size += 1
    return size


@kernel
def sum_up(words: Words) -> None:
    """Set the arms' means and, if all readings are kept, their keys to the best forecasts."""
    state = open_budget(words)
    average(state)
    if state.rules[0].kept < np.inf:
        return
    arms, pulls = state.arms, state.pulls
    for arm in range(arms.shape[0]):
        arms[arm].key = -np.inf
    for row in range(state.control[0].rows):
        value = forecast(state, row, np.inf)
        if value > arms[pulls[row].arm].key:
            arms[pulls[row].arm].key = value


# --------------------------------------------------------------------- whole runs


class Limits(NamedTuple):
    """The limits of a run, and the sign of outcomes."""

    max_pulls: float
    sign: float


class Clock(NamedTuple):
    """What a run keeps when it returns for more room."""

    now: float
    in_moment: int
    in_flight: int
    cancelled: int


CLOCK = record_type(Clock)


@kernel
def _fill(state: Budget, environment: CompiledEnvironment, queue: Queue, limits: Limits) -> bool:
    """Start pulls up to the limits; return whether the arrays had room for them."""
    control = state.control
    while (
        control[0].over == 0
        and control[0].in_flight < queue.slots.shape[0]
        and control[0].asked < limits.max_pulls
    ):
        if not has_room(state):
            return False
        row = start(state)
        if row < 0:
            return True
        arm, skip = state.pulls[row].arm, state.rules[0].kept == 0.0
        number = state.arms[arm].issued - 1
        enter(environment, queue, row, arm, number, skip)
    return True


@inlined
def _advance(state: Budget, environment: CompiledEnvironment, queue: Queue, limits: Limits) -> None:
    """Process the first event of the heap."""
    slots, heap, clock = queue
    slot, size = slots[heap[0]], clock[0].in_flight
    row, place = int(slot[ROW]), int(slot[READINGS_READ])
    if state.rules[0].kept > 0.0 and next_reading(environment, slot) < np.inf:
        read(environment, slot)
        kind, value = READ, limits.sign * slot[VALUE]
        schedule(environment, slot, False)
        sink(slots, heap, size, 0)
    else:
        if state.rules[0].kept == 0.0:
            state.control[0].readings += _readings_until_end(environment, slot)
        kind, value = TELL, limits.sign * outcome_of(environment, slot)
        if slot[LOST] > 0.0:
            kind = STOP
        leave_first(queue)
    happen(state, kind, row, place, value)


@inlined
def _readings_until_end(environment: CompiledEnvironment, slot: Floats) -> float:
    """Return the number of a pull's readings when none was drawn because none is used."""
    while next_reading(environment, slot) < np.inf:
        slot[READINGS_READ] += 1.0
    number = slot[READINGS_READ]
    slot[READINGS_READ] = 0.0
    return number


@kernel
def _call_back(state: Budget, queue: Queue, touched: int) -> None:
    """Stop the pulls that are no longer wanted after an event of a pull."""
    slots, heap, clock = queue
    pulls, control = state.pulls, state.control
    over = control[0].over > 0
    own = pulls[touched].state == OPEN and is_unwanted(state, touched)
    if not (over or own or control[0].stale > 0):
        return
    control[0].stale = 0
    for at in heap[: clock[0].in_flight]:
        row = int(slots[at, ROW])
        if over or is_unwanted(state, row):
            happen(state, STOP, row, 0, 0.0)
            slots[at, ROW] = -1.0
    drop_freed(queue)


@kernel
def run(words: Words, environment: CompiledEnvironment, queue: Queue, limits: Limits) -> bool:
    """Run a rule in an environment until it ends; return False if it needs larger arrays."""
    slots, heap, clock = queue
    state = open_budget(words)
    control = state.control
    while True:
        if clock[0].in_moment == 0:
            if not _fill(state, environment, queue, limits):
                return False
            if clock[0].in_flight == 0 or control[0].over > 0:
                return True
            clock[0].now = slots[heap[0], NEXT_TIME]
            clock[0].in_moment = 1
        while is_due(queue) and control[0].over == 0:
            if not has_room(state):
                return False
            row = int(slots[heap[0], ROW])
            _advance(state, environment, queue, limits)
            _call_back(state, queue, row)
        clock[0].in_moment = 0
