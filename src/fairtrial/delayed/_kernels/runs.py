"""Entry points for policies: one event, or a whole simulated run, through the same functions."""

from typing import Any, NamedTuple

import numpy as np

from fairtrial.core.records import Words, record_type
from fairtrial.delayed._kernels.environments import (
    LOST,
    NEXT_TIME,
    READ,
    ROW,
    VALUE,
    VALUE_STD,
    CompiledEnvironment,
    next_reading,
    outcome_of,
    read,
)
from fairtrial.delayed._kernels.events import READ as READING
from fairtrial.delayed._kernels.events import START, STOP, TELL, happen
from fairtrial.delayed._kernels.queue import (
    Queue,
    drop_freed,
    enter,
    is_due,
    leave_first,
    schedule,
    sink,
)
from fairtrial.delayed._kernels.sampling import choose
from fairtrial.delayed._kernels.state import (
    INFORMATION_BOX,
    SURVIVES,
    Floats,
    Race,
    inlined,
    kernel,
    open_race,
)


@kernel
def ask(words: Words, radii: Floats) -> int:
    """Return the arm of the next pull; -1 if none can start now."""
    return choose(open_race(words, radii))


@kernel
def act(
    words: Words, radii: Floats, kind: int, at: int, first: float, second: float, third: float
) -> int:
    """Process one event; see `events.happen`."""
    return happen(open_race(words, radii), kind, at, first, second, third)


# --------------------------------------------------------------------- whole runs

FINISHED, NEEDS_ROOM, OUT_OF_TIME = range(3)
STOP_IT, COUNT_IT, STUCK = range(3)


class Limits(NamedTuple):
    """What can end a run, and what a policy does with a lost pull."""

    slots: float
    max_pulls: float
    max_results: float
    max_readings: float
    max_time: float
    sign: float
    ignores_readings: bool
    truncate: float
    failure: int
    failure_value: float


class Clock(NamedTuple):
    """What a run keeps when it returns for more room."""

    now: float
    in_moment: int
    in_flight: int
    cancelled: int
    losses: int


CLOCK = record_type(Clock)


@inlined
def _stopped(race: Race, limits: Limits, clock: Any) -> bool:
    control = race.control
    return (
        control[0].survivors == 0
        or control[0].results >= limits.max_results
        or control[0].readings >= limits.max_readings
        or (limits.failure == STUCK and clock[0].losses > 0)
    )


@inlined
def _has_room(race: Race) -> bool:
    """Return whether the arrays have room for one more event."""
    if race.control[0].rows >= race.pulls.shape[0]:
        return False
    if race.rules[0].rule <= INFORMATION_BOX:
        return True
    longest = race.rules[0].longest
    needed = race.control[0].steps + race.control[0].max_readings + longest + 3.0
    return needed < race.radii.shape[1]


@kernel
def _fill(race: Race, environment: CompiledEnvironment, queue: Queue, limits: Limits) -> bool:
    """Start pulls up to the limits; return whether the arrays had room for them."""
    while (
        not _stopped(race, limits, queue.clock)
        and race.control[0].in_flight < limits.slots
        and race.control[0].rows < limits.max_pulls
        and race.control[0].results + race.control[0].in_flight < limits.max_results
    ):
        if not _has_room(race):
            return False
        arm = choose(race)
        if arm < 0:
            return True
        number, duration = race.arms[arm].started, race.arms[arm].duration
        # As a float, or numba would compile all of `happen` once more for an integer.
        row = happen(race, START, arm, float(race.control[0].rows), duration, 0.0)
        skip = limits.ignores_readings
        enter(environment, queue, row, arm, number, skip)
    return True


@inlined
def _advance(race: Race, environment: CompiledEnvironment, queue: Queue, limits: Limits) -> None:
    """Process the first event of the heap."""
    slots, heap, clock = queue
    slot = slots[heap[0]]
    row, sign = int(slot[ROW]), limits.sign
    if not limits.ignores_readings and next_reading(environment, slot) < np.inf:
        read(environment, slot)
        kind, first, second, third = READING, slot[READ], sign * slot[VALUE], slot[VALUE_STD]
        schedule(environment, slot, False)
        sink(slots, heap, clock[0].in_flight, 0)
    else:
        kind, first, second, third = TELL, sign * outcome_of(environment, slot), 0.0, 0.0
        if slot[LOST] > 0.0 and limits.failure == COUNT_IT:
            first = limits.failure_value
            race.control[0].results -= 1
        elif slot[LOST] > 0.0:
            kind = STOP
            clock[0].losses += 1
        leave_first(queue)
    happen(race, kind, row, first, second, third)


@inlined
def _unwanted(race: Race, row: int, limits: Limits) -> bool:
    """Return whether a pull's arm is decided, or the pull has all readings that it may have."""
    decided = race.arms[race.pulls[row].arm].status != SURVIVES
    return decided or race.pulls[row].readings >= limits.truncate


@kernel
def _cancel(race: Race, queue: Queue, limits: Limits, everything: bool) -> None:
    """Cancel the pulls that are no longer wanted, or all pulls."""
    slots, heap, clock = queue
    for at in heap[: clock[0].in_flight]:
        row = int(slots[at, ROW])
        if everything or _unwanted(race, row, limits):
            happen(race, STOP, row, 0.0, 0.0, 0.0)
            slots[at, ROW] = -1.0
    drop_freed(queue)


@kernel
def run(
    words: Words, radii: Floats, environment: CompiledEnvironment, queue: Queue, limits: Limits
) -> int:
    """Run a policy in an environment until it ends or needs larger arrays."""
    slots, heap, clock = queue
    race = open_race(words, radii)
    while True:
        if clock[0].in_moment == 0:
            if not _fill(race, environment, queue, limits):
                return NEEDS_ROOM
            if clock[0].in_flight == 0 or _stopped(race, limits, clock):
                return FINISHED
            if slots[heap[0], NEXT_TIME] >= limits.max_time:
                clock[0].now = limits.max_time
                _cancel(race, queue, limits, True)
                return OUT_OF_TIME
            clock[0].now = slots[heap[0], NEXT_TIME]
            clock[0].in_moment = 1
        while is_due(queue) and not _stopped(race, limits, clock):
            if not _has_room(race):
                return NEEDS_ROOM
            row = int(slots[heap[0], ROW])
            _advance(race, environment, queue, limits)
            stopped = _stopped(race, limits, clock)
            if (
                stopped
                or race.control[0].unwanted > 0
                or race.pulls[row].readings >= limits.truncate
            ):
                _cancel(race, queue, limits, stopped)
        clock[0].in_moment = 0
