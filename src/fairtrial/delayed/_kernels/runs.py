"""What policies call: one event, or a whole simulated run, through the same functions."""

import numpy as np

from fairtrial.delayed._kernels.books import (
    ARM,
    BOX,
    BUSY,
    CONSTANTS,
    COUNT,
    DOOMED,
    LONGEST,
    MOST_READINGS,
    READINGS,
    RESULTS,
    ROWS,
    RULE,
    STARTED,
    STATUS,
    STEPS,
    SURVIVES,
    SURVIVORS,
    Bits,
    Book,
    Floats,
    inlined,
    kernel,
)
from fairtrial.delayed._kernels.events import READ as READING
from fairtrial.delayed._kernels.events import START, STOP, TELL, happen
from fairtrial.delayed._kernels.queue import Integers, build, drop_first, rise, schedule, sink
from fairtrial.delayed._kernels.sampling import choose
from fairtrial.delayed._kernels.worlds import (
    LOST,
    NEXT_TIME,
    READ,
    ROW,
    VALUE,
    VALUE_STD,
    Words,
    World,
    begin,
    next_reading,
    outcome_of,
    read,
)
from fairtrial.delayed._kernels.worlds import STARTED as STARTED_AT


@kernel
def ask(
    rules: Floats,
    table: Floats,
    pulls: Floats,
    arms: Floats,
    sums: Floats,
    control: Floats,
    declared: Bits,
    lists: Floats,
) -> int:
    """Return the arm of the next pull, -1 if none can be started now."""
    return choose(Book(rules, table, pulls, arms.T, sums, control, declared, lists))


@kernel
def act(
    rules: Floats, table: Floats, pulls: Floats, arms: Floats, sums: Floats, control: Floats,
    declared: Bits, lists: Floats,
    kind: int, at: int, first: float, second: float, third: float,
) -> int:  # fmt: skip
    """Let one event happen; see `events.happen`."""
    book = Book(rules, table, pulls, arms.T, sums, control, declared, lists)
    return happen(book, kind, at, first, second, third)


# --------------------------------------------------------------------- whole runs

# What a run remembers when it comes back for more room.
NOW, IN_MOMENT, HEAP, CANCELLED, LOSSES, CLOCKS = range(6)

FINISHED, NEEDS_ROOM, OUT_OF_TIME = range(3)

# What may end a run, and what a policy does with a pull that is lost.
(
    SLOTS,
    MOST_PULLS,
    MOST_RESULTS,
    MOST_READ,
    SIGN,
    SKIP,
    FAILURE,
    FAILURE_VALUE,
    CUT,
    MOST_TIME,
    LIMITS,
) = range(11)
STOP_IT, COUNT_IT, STUCK = range(3)


@inlined
def _stopped(book: Book, limits: Floats, clock: Floats) -> bool:
    control = book.control
    return (
        control[SURVIVORS] == 0.0
        or control[RESULTS] >= limits[MOST_RESULTS]
        or control[READINGS] >= limits[MOST_READ]
        or (limits[FAILURE] == STUCK and clock[LOSSES] > 0.0)
    )


@inlined
def _has_room(book: Book) -> bool:
    """Return whether one more event fits into the arrays."""
    if book.control[ROWS] >= book.pulls.shape[0]:
        return False
    if book.rules[RULE] <= BOX:
        return True
    longest = book.rules[LONGEST]
    needed = book.control[STEPS] + book.control[MOST_READINGS] + longest + 3.0
    return needed < book.table.shape[1]


@kernel
def _fill(
    book: Book, world: World, slots: Floats, heap: Integers, clock: Floats, limits: Floats
) -> bool:
    """Start pulls up to the limits; return whether there was room to write them down."""
    while (
        not _stopped(book, limits, clock)
        and book.control[BUSY] < limits[SLOTS]
        and book.control[ROWS] < limits[MOST_PULLS]
        and book.control[RESULTS] + book.control[BUSY] < limits[MOST_RESULTS]
    ):
        if not _has_room(book):
            return False
        arm = choose(book)
        if arm < 0:
            return True
        free = 0
        while slots[free, ROW] >= 0.0:
            free += 1
        slot = slots[free]
        begin(world, slot, arm, int(book.arms[arm, STARTED]))
        duration = book.rules[CONSTANTS + 2 * book.arms.shape[0] + arm]
        slot[ROW] = happen(book, START, arm, book.control[ROWS], duration, 0.0)
        slot[STARTED_AT] = clock[NOW]
        schedule(world, slot, limits[SKIP] > 0.0)
        size = int(clock[HEAP])
        heap[size] = free
        clock[HEAP] += 1.0
        rise(slots, heap, size)
    return True


@inlined
def _advance(
    book: Book, world: World, slots: Floats, heap: Integers, clock: Floats, limits: Floats
) -> None:
    """Let the first event of the heap happen."""
    slot = slots[heap[0]]
    row, sign = int(slot[ROW]), limits[SIGN]
    if limits[SKIP] == 0.0 and next_reading(world, slot) < np.inf:
        read(world, slot)
        kind, first, second, third = READING, slot[READ], sign * slot[VALUE], slot[VALUE_STD]
        schedule(world, slot, False)
        sink(slots, heap, int(clock[HEAP]), 0)
    else:
        kind, first, second, third = TELL, sign * outcome_of(world, slot), 0.0, 0.0
        if slot[LOST] > 0.0 and limits[FAILURE] == COUNT_IT:
            first = limits[FAILURE_VALUE]
            book.control[RESULTS] -= 1.0
        elif slot[LOST] > 0.0:
            kind = STOP
            clock[LOSSES] += 1.0
        drop_first(slots, heap, int(clock[HEAP]))
        clock[HEAP] -= 1.0
    happen(book, kind, row, first, second, third)


@inlined
def _unwanted(book: Book, row: int, limits: Floats) -> bool:
    """Return whether a pull is on a decided arm, or has had all readings that it may have."""
    decided = book.arms[int(book.pulls[row, ARM]), STATUS] != SURVIVES
    return decided or book.pulls[row, COUNT] >= limits[CUT]


@kernel
def _cancel(
    book: Book, slots: Floats, heap: Integers, clock: Floats, limits: Floats, everything: bool
) -> None:
    """Call back what is not wanted any more, or everything; rebuild the heap."""
    size = 0
    for place in range(int(clock[HEAP])):
        at = heap[place]
        row = int(slots[at, ROW])
        if everything or _unwanted(book, row, limits):
            happen(book, STOP, row, 0.0, 0.0, 0.0)
            slots[at, ROW] = -1.0
            clock[CANCELLED] += 1.0
        else:
            heap[size] = at
            size += 1
    clock[HEAP] = size
    build(slots, heap, size)


@kernel
def run(
    rules: Floats, table: Floats, pulls: Floats, arms: Floats, sums: Floats, control: Floats,
    declared: Bits, lists: Floats,
    settings: Floats, world_arms: Floats, rows: Floats, starts: Integers, key: Integers,
    words: Words,
    slots: Floats, heap: Integers, clock: Floats, limits: Floats,
) -> int:  # fmt: skip
    """Run a policy in a world until it ends, or needs larger arrays to go on."""
    book = Book(rules, table, pulls, arms.T, sums, control, declared, lists)
    world = World(settings, world_arms, rows, starts, key, words)
    while True:
        if clock[IN_MOMENT] == 0.0:
            if not _fill(book, world, slots, heap, clock, limits):
                return NEEDS_ROOM
            if clock[HEAP] == 0.0 or _stopped(book, limits, clock):
                return FINISHED
            if slots[heap[0], NEXT_TIME] >= limits[MOST_TIME]:
                clock[NOW] = limits[MOST_TIME]
                _cancel(book, slots, heap, clock, limits, True)
                return OUT_OF_TIME
            clock[NOW] = slots[heap[0], NEXT_TIME]
            clock[IN_MOMENT] = 1.0
        while (
            clock[HEAP] > 0.0
            and slots[heap[0], NEXT_TIME] == clock[NOW]
            and not _stopped(book, limits, clock)
        ):
            if not _has_room(book):
                return NEEDS_ROOM
            row = int(slots[heap[0], ROW])
            _advance(book, world, slots, heap, clock, limits)
            stopped = _stopped(book, limits, clock)
            if stopped or control[DOOMED] > 0.0 or pulls[row, COUNT] >= limits[CUT]:
                _cancel(book, slots, heap, clock, limits, stopped)
        clock[IN_MOMENT] = 0.0
