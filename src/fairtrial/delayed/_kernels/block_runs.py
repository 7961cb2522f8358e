"""A whole simulated run of block betting, with the functions that live policies call."""

import math
from typing import Any, NamedTuple

import numpy as np

from fairtrial.confidence.block_betting.bets import LOST as NO_OUTCOME
from fairtrial.confidence.block_betting.blocks import (
    NONE_LEFT,
    Arrays,
    Blocks,
    is_overtaken,
    serial_of,
    tag_of,
)
from fairtrial.core.compilation import kernel, uncounted
from fairtrial.core.records import record_type
from fairtrial.delayed._kernels.block_state import (
    Floats,
    Integers,
    Rules,
    State,
    opened,
)
from fairtrial.delayed._kernels.blocks import end_pull, next_arm
from fairtrial.delayed._kernels.environments import (
    ARM,
    LOST,
    NEXT_TIME,
    ROW,
    CompiledEnvironment,
    outcome_of,
)
from fairtrial.delayed._kernels.queue import Queue, drop_freed, enter, is_due, leave_first
from fairtrial.delayed._kernels.top_sets import mark_live_arms

FINISHED, NO_ROOM, NEWS = -1, 0, 1
"""Why a run returns: it has ended; it needs room for a block; see `Limits.has_news`."""

_STARTING, _DUE, _ENDED, _CANCELLING = 0, 1, 2, 3
"""Where a run continues: with new pulls; with those that end now; after the end of one; with those
of arms that no bet needs any more."""


class Limits(NamedTuple):
    """The limits of a run, and the value of a lost pull: NaN if there is none.

    If `has_news` is set, a run returns whenever a block was settled or overtaken, or a pull of a
    settled block ends: these events are for the live part of the policy.
    """

    max_pulls: float
    max_results: float
    failure_value: float
    has_news: bool


class Clock(NamedTuple):
    """The progress of a run; blocks settled and planned when live arms were last marked."""

    now: float
    in_flight: int
    cancelled: int
    asked: int
    told: int
    settled: int
    planned: int
    stage: int  # where it continues
    number: int  # the pull that ended last
    arm: int
    tag: int
    outcome: float
    is_wanted: int
    is_overdue: int  # whether its block was settled before
    cancelling: int  # number of pulls in `Flight.leaving`
    place: int  # the next one of them
    kept_from: int  # the oldest block when settled ones were last kept
    kept: int  # whether all settled blocks are kept


CLOCK = record_type(Clock)


class Flight(NamedTuple):
    """The pulls in flight, and what a run keeps when it returns for more room."""

    queue: Queue
    tags: Integers  # of the pull in each slot
    pulls: Integers  # issued, by arm
    live: Floats  # whether bets can still need the arm's results
    leaving: Integers  # slots of the pulls that are being cancelled, the oldest first


def new_flight(slots: Floats, heap: Integers, arms: int) -> Flight:
    """Return the start of a run: all slots free and no pulls in flight."""
    clock = np.zeros(1, CLOCK).view(np.recarray)
    clock.kept = 1
    return Flight(
        Queue(slots, heap, clock),
        np.zeros_like(heap),
        np.zeros(arms, np.int64),
        np.ones(arms),
        np.zeros_like(heap),
    )


def open_pulls(blocks: Blocks, flight: Flight) -> list[tuple[int, int, int]]:
    """Return number, arm and tag of every pull in flight of the oldest block, the oldest first."""
    (slots, heap, clock), tags, _, _, leaving = flight
    flying = heap[: clock[0].in_flight].tolist()
    flying += leaving[clock[0].place : clock[0].cancelling].tolist()
    found = []
    for at in flying:
        number, tag = int(slots[at, ROW]), int(tags[at])
        if (tag if tag >= 0 else -2 - tag) == blocks.first[0]:
            found.append((number if number >= 0 else -1 - number, int(slots[at, ARM]), tag))
    return sorted(found)


@kernel
def run(
    arrays: Arrays, batch: float, environment: CompiledEnvironment, flight: Flight, limits: Limits
) -> int:
    """Run a policy in an environment until it ends; return `FINISHED`, or why it returns earlier.

    The next call continues where it returned.
    """
    (variances, rules), state = opened(arrays)
    queue, tags, pulls, live, leaving = flight
    slots, heap, clock = queue
    blocks, finished = state.blocks, state.finished
    now_live = live.copy()
    while True:
        if clock[0].stage == _STARTING:
            while _may_start(finished, heap, clock, limits):
                arm, serial = next_arm(variances, rules, state, batch)
                if arm == NONE_LEFT:
                    break
                if arm < 0:
                    return NO_ROOM
                at = enter(environment, queue, clock[0].asked, arm, pulls[arm], True)
                tags[at] = tag_of(serial, serial > 0)
                pulls[arm] += 1
                clock[0].asked += 1
            if clock[0].in_flight == 0 or _has_stopped(finished, clock, limits):
                return FINISHED
            clock[0].now = slots[heap[0], NEXT_TIME]
            clock[0].stage = _DUE
        if clock[0].stage == _DUE:
            if not is_due(queue) or _has_stopped(finished, clock, limits):
                clock[0].stage = _STARTING
                continue
            at = heap[0]
            clock[0].number = int(slots[at, ROW])
            clock[0].arm = int(slots[at, ARM])
            clock[0].tag = tags[at]
            clock[0].outcome = limits.failure_value
            clock[0].is_wanted = 1
            if slots[at, LOST] == 0.0:
                clock[0].outcome = outcome_of(environment, slots[at])
                clock[0].told += 1
            leave_first(queue)
            clock[0].stage = _ENDED
            if _end(variances, rules, state, clock, limits):
                return NEWS
        if clock[0].stage == _ENDED:
            if _has_stopped(finished, clock, limits):
                clock[0].cancelled += clock[0].in_flight
                return FINISHED
            first, last = blocks.first[0], blocks.first[0] + blocks.number[0]
            if clock[0].settled != first or clock[0].planned != last:
                clock[0].settled, clock[0].planned = first, last
                mark_live_arms(state.wealth, state.plans, first, last, live)
            clock[0].cancelling, clock[0].place = 0, 0
            if _has_unwanted(queue, live):
                unwanted = _unwanted(queue, live)
                for place in range(unwanted.size):
                    leaving[place] = unwanted[place]
                clock[0].cancelling = unwanted.size
            clock[0].stage = _CANCELLING
        while clock[0].place < clock[0].cancelling and not _has_stopped(finished, clock, limits):
            at = leaving[clock[0].place]
            clock[0].place += 1
            # A block that was just settled may need the arm again.
            first, last = blocks.first[0], blocks.first[0] + blocks.number[0]
            mark_live_arms(state.wealth, state.plans, first, last, now_live)
            arm = int(slots[at, ARM])
            clock[0].number = int(-1.0 - slots[at, ROW])
            clock[0].arm = arm
            clock[0].tag = tags[at]
            clock[0].is_wanted = 1 if now_live[arm] > 0.0 else 0
            clock[0].outcome = limits.failure_value if now_live[arm] > 0.0 else NO_OUTCOME
            if _end(variances, rules, state, clock, limits):
                return NEWS
        clock[0].stage = _DUE


@uncounted
def _end(variances: Floats, rules: Rules, state: State, clock: Any, limits: Limits) -> bool:
    """Record the end of the pull that ended last; return whether there is news."""
    blocks = state.blocks
    first = blocks.first[0]
    clock[0].is_overdue = 0
    if limits.has_news and 0 <= serial_of(clock[0].tag) < first:
        clock[0].is_overdue = 1
        return True
    outcome = clock[0].outcome
    is_loss = clock[0].is_wanted == 1 and math.isnan(outcome)
    arm, tag, number = clock[0].arm, clock[0].tag, clock[0].number
    end_pull(variances, rules, state, arm, tag, outcome, number, is_loss)
    if not limits.has_news or state.finished[0] == 1:
        return False
    return blocks.first[0] != first or is_overtaken(blocks, clock[0].kept == 1)


@uncounted
def _has_stopped(finished: Integers, clock: Any, limits: Limits) -> bool:
    return finished[0] == 1 or clock[0].told >= limits.max_results


@uncounted
def _may_start(finished: Integers, heap: Integers, clock: Any, limits: Limits) -> bool:
    """Return whether another pull may be started."""
    return (
        not _has_stopped(finished, clock, limits)
        and clock[0].in_flight < heap.size
        and clock[0].asked < limits.max_pulls
        and clock[0].told + clock[0].in_flight < limits.max_results
    )


@uncounted
def _has_unwanted(queue: Queue, live: Floats) -> bool:
    """Return whether a pull in flight is of an arm that no bet needs."""
    slots, heap, clock = queue
    found = False
    for place in range(clock[0].in_flight):
        found = found or live[int(slots[heap[place], ARM])] == 0.0
    return found


@kernel
def _unwanted(queue: Queue, live: Floats) -> Integers:
    """Free the slots of pulls of arms that no bet needs; return these slots, the oldest first.

    Each slot then holds -1 minus the number of its pull.
    """
    slots, heap, clock = queue
    found = heap[: clock[0].in_flight].copy()
    size = 0
    for at in heap[: clock[0].in_flight]:
        if live[int(slots[at, ARM])] == 0.0:
            found[size] = at
            size += 1
    found = found[:size]
    if size > 0:
        found = found[np.argsort(slots[found, ROW])]
        for at in found:
            slots[at, ROW] = -1.0 - slots[at, ROW]
        drop_freed(queue)
    return found
