"""What rules with a budget call: one event, or a whole simulated run, by the same functions."""

import numpy as np

from fairtrial.delayed._kernels.budgets import (
    READ,
    STOP,
    TELL,
    happen,
    is_unwanted,
    set_out,
    start,
)
from fairtrial.delayed._kernels.ledger import (
    ARM,
    ASKED,
    BUSY,
    ISSUED,
    KEPT,
    KEY,
    OPEN,
    OVER,
    READINGS,
    ROWS,
    STALE,
    STATE,
    Ledger,
    average,
    forecast,
    has_room,
)
from fairtrial.delayed._kernels.queue import Integers, build, drop_first, rise, schedule, sink
from fairtrial.delayed._kernels.state import Floats, inlined, kernel
from fairtrial.delayed._kernels.worlds import (
    LOST,
    NEXT_TIME,
    ROW,
    STARTED,
    VALUE,
    World,
    begin,
    next_reading,
    outcome_of,
    read,
)
from fairtrial.delayed._kernels.worlds import READ as READINGS_READ


@kernel
def prepare(
    rules: Floats, plan: Floats, pulls: Floats, values: Floats, aged: Floats, arms: Floats,
    control: Floats,
) -> None:  # fmt: skip
    """Bring an empty ledger to its first rung or round."""
    set_out(Ledger(rules, plan, pulls, values, aged, arms, control))


@kernel
def ask(
    rules: Floats, plan: Floats, pulls: Floats, values: Floats, aged: Floats, arms: Floats,
    control: Floats,
) -> int:  # fmt: skip
    """Start the next pull; return its row, -1 if there is none now."""
    return start(Ledger(rules, plan, pulls, values, aged, arms, control))


@kernel
def act(
    rules: Floats, plan: Floats, pulls: Floats, values: Floats, aged: Floats, arms: Floats,
    control: Floats,
    kind: int, at: int, place: int, value: float,
) -> None:  # fmt: skip
    """Let one event happen; see `budgets.happen`."""
    ledger = Ledger(rules, plan, pulls, values, aged, arms, control)
    happen(ledger, kind, at, place, value)


@kernel
def keep_unwanted(
    rules: Floats, plan: Floats, pulls: Floats, values: Floats, aged: Floats, arms: Floats,
    control: Floats,
    rows: Integers,
) -> int:  # fmt: skip
    """Move those of the rows in flight that are unwanted to the front; return how many."""
    ledger = Ledger(rules, plan, pulls, values, aged, arms, control)
    size = 0
    for row in rows:
        if control[OVER] > 0.0 or is_unwanted(ledger, row):
            rows[size] = row
            size += 1
    return size


@kernel
def sum_up(
    rules: Floats, plan: Floats, pulls: Floats, values: Floats, aged: Floats, arms: Floats,
    control: Floats,
) -> None:  # fmt: skip
    """Set the arms' means and, if all readings are kept, as keys the best forecasts of pulls."""
    ledger = Ledger(rules, plan, pulls, values, aged, arms, control)
    average(ledger)
    if rules[KEPT] < np.inf:
        return
    for arm in range(arms.shape[1]):
        arms[KEY, arm] = -np.inf
    for row in range(int(control[ROWS])):
        value = forecast(ledger, row, np.inf)
        if value > arms[KEY, int(pulls[row, ARM])]:
            arms[KEY, int(pulls[row, ARM])] = value


# --------------------------------------------------------------------- whole runs

# What a run remembers when it comes back for more room.
NOW, IN_MOMENT, HEAP, CANCELLED, CLOCKS = range(5)

# What limits a run, and the sign of outcomes.
MOST_PULLS, SIGN, LIMITS = range(3)


@kernel
def _fill(
    ledger: Ledger, world: World, slots: Floats, heap: Integers, clock: Floats, limits: Floats
) -> bool:
    """Start pulls up to the limits; return whether there was room to write them down."""
    control = ledger.control
    while (
        control[OVER] == 0.0
        and control[BUSY] < slots.shape[0]
        and control[ASKED] < limits[MOST_PULLS]
    ):
        if not has_room(ledger):
            return False
        row = start(ledger)
        if row < 0:
            return True
        free = 0
        while slots[free, ROW] >= 0.0:
            free += 1
        slot, arm = slots[free], int(ledger.pulls[row, ARM])
        begin(world, slot, arm, int(ledger.arms[ISSUED, arm]) - 1)
        slot[ROW], slot[STARTED] = row, clock[NOW]
        schedule(world, slot, ledger.rules[KEPT] == 0.0)
        size = int(clock[HEAP])
        heap[size] = free
        clock[HEAP] += 1.0
        rise(slots, heap, size)
    return True


@inlined
def _advance(
    ledger: Ledger, world: World, slots: Floats, heap: Integers, clock: Floats, limits: Floats
) -> None:
    """Let the first event of the heap happen."""
    slot, size = slots[heap[0]], int(clock[HEAP])
    row, place = int(slot[ROW]), int(slot[READINGS_READ])
    if ledger.rules[KEPT] > 0.0 and next_reading(world, slot) < np.inf:
        read(world, slot)
        kind, value = READ, limits[SIGN] * slot[VALUE]
        schedule(world, slot, False)
        sink(slots, heap, size, 0)
    else:
        if ledger.rules[KEPT] == 0.0:
            ledger.control[READINGS] += _readings_until_end(world, slot)
        kind, value = TELL, limits[SIGN] * outcome_of(world, slot)
        if slot[LOST] > 0.0:
            kind = STOP
        drop_first(slots, heap, size)
        clock[HEAP] -= 1.0
    happen(ledger, kind, row, place, value)


@inlined
def _readings_until_end(world: World, slot: Floats) -> float:
    """Return how many readings a pull has, none of which was drawn as none matters."""
    while next_reading(world, slot) < np.inf:
        slot[READINGS_READ] += 1.0
    number = slot[READINGS_READ]
    slot[READINGS_READ] = 0.0
    return number


@kernel
def _call_back(ledger: Ledger, slots: Floats, heap: Integers, clock: Floats, touched: int) -> None:
    """Stop what is not wanted any more after an event of a pull; rebuild the heap."""
    pulls, control = ledger.pulls, ledger.control
    over = control[OVER] > 0.0
    own = pulls[touched, STATE] == OPEN and is_unwanted(ledger, touched)
    if not (over or own or control[STALE] > 0.0):
        return
    control[STALE] = 0.0
    size = 0
    for place in range(int(clock[HEAP])):
        at = heap[place]
        row = int(slots[at, ROW])
        if over or is_unwanted(ledger, row):
            happen(ledger, STOP, row, 0, 0.0)
            slots[at, ROW] = -1.0
            clock[CANCELLED] += 1.0
        else:
            heap[size] = at
            size += 1
    clock[HEAP] = size
    build(slots, heap, size)


@kernel
def run(
    rules: Floats, plan: Floats, pulls: Floats, values: Floats, aged: Floats, arms: Floats,
    control: Floats,
    world: World, slots: Floats, heap: Integers, clock: Floats, limits: Floats,
) -> bool:  # fmt: skip
    """Run a rule in a world until it ends; return False if it needs larger arrays to go on."""
    ledger = Ledger(rules, plan, pulls, values, aged, arms, control)
    while True:
        if clock[IN_MOMENT] == 0.0:
            if not _fill(ledger, world, slots, heap, clock, limits):
                return False
            if clock[HEAP] == 0.0 or control[OVER] > 0.0:
                return True
            clock[NOW] = slots[heap[0], NEXT_TIME]
            clock[IN_MOMENT] = 1.0
        while (
            clock[HEAP] > 0.0 and slots[heap[0], NEXT_TIME] == clock[NOW] and control[OVER] == 0.0
        ):
            if not has_room(ledger):
                return False
            row = int(slots[heap[0], ROW])
            _advance(ledger, world, slots, heap, clock, limits)
            _call_back(ledger, slots, heap, clock, row)
        clock[IN_MOMENT] = 0.0
