"""A whole simulated run of block betting, with the functions that live policies call."""

import math
from typing import Any, NamedTuple

import numpy as np

from fairtrial.confidence.block_betting.bets import LOST as NO_OUTCOME
from fairtrial.confidence.block_betting.blocks import Arrays, tag_of
from fairtrial.core.compilation import kernel
from fairtrial.core.records import record_type
from fairtrial.delayed._kernels.block_state import (
    Floats,
    Integers,
    opened,
)
from fairtrial.delayed._kernels.blocks import end, next_arm
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


class Limits(NamedTuple):
    """The limits of a run, and the value of a lost pull: NaN if there is none."""

    max_pulls: float
    max_results: float
    failure_value: float


class Clock(NamedTuple):
    """The progress of a run; blocks settled and planned when live arms were last marked."""

    now: float
    in_flight: int
    cancelled: int
    asked: int
    told: int
    settled: int
    planned: int


CLOCK = record_type(Clock)


class Flight(NamedTuple):
    """The pulls in flight, and what a run keeps when it returns for more room."""

    queue: Queue
    tags: Integers  # of the pull in each slot
    pulls: Integers  # issued, by arm
    live: Floats  # whether bets can still need the arm's results


def new_flight(slots: Floats, heap: Integers, arms: int) -> Flight:
    """Return the start of a run: all slots free and no pulls in flight."""
    clock = np.zeros(1, CLOCK).view(np.recarray)
    return Flight(
        Queue(slots, heap, clock), np.zeros_like(heap), np.zeros(arms, np.int64), np.ones(arms)
    )


@kernel
def run(
    arrays: Arrays, batch: float, environment: CompiledEnvironment, flight: Flight, limits: Limits
) -> bool:
    """Run a policy in an environment until it ends; return False if it needs room for a block."""
    (variances, rules), state = opened(arrays)
    queue, tags, pulls, live = flight
    slots, heap, clock = queue
    blocks, finished = state.blocks, state.finished
    now_live = live.copy()
    while True:
        while _may_start(finished, heap, clock, limits):
            arm, serial = next_arm(variances, rules, state, batch)
            if arm < 0:
                return False
            at = enter(environment, queue, clock[0].asked, arm, pulls[arm], True)
            tags[at] = tag_of(serial, serial > 0)
            pulls[arm] += 1
            clock[0].asked += 1
        if clock[0].in_flight == 0 or _has_stopped(finished, clock, limits):
            return True
        clock[0].now = slots[heap[0], NEXT_TIME]
        while is_due(queue) and not _has_stopped(finished, clock, limits):
            at = heap[0]
            number = int(slots[at, ROW])
            outcome = limits.failure_value
            if slots[at, LOST] == 0.0:
                outcome = outcome_of(environment, slots[at])
                clock[0].told += 1
            leave_first(queue)
            arm = int(slots[at, ARM])
            end(arrays, arm, tags[at], outcome, number, math.isnan(outcome))
            if _has_stopped(finished, clock, limits):
                clock[0].cancelled += clock[0].in_flight
                return True
            first, last = blocks.first[0], blocks.first[0] + blocks.number[0]
            if clock[0].settled != first or clock[0].planned != last:
                clock[0].settled, clock[0].planned = first, last
                mark_live_arms(state.wealth, state.plans, first, last, live)
            for at in _unwanted(queue, live):
                if _has_stopped(finished, clock, limits):
                    break
                # A block that was just settled may need the arm again.
                first, last = blocks.first[0], blocks.first[0] + blocks.number[0]
                mark_live_arms(state.wealth, state.plans, first, last, now_live)
                arm = int(slots[at, ARM])
                is_wanted = now_live[arm] > 0.0
                outcome = limits.failure_value if is_wanted else NO_OUTCOME
                is_loss = is_wanted and math.isnan(outcome)
                number = int(-1.0 - slots[at, ROW])
                end(arrays, arm, tags[at], outcome, number, is_loss)


@kernel
def _has_stopped(finished: Integers, clock: Any, limits: Limits) -> bool:
    return finished[0] == 1 or clock[0].told >= limits.max_results


@kernel
def _may_start(finished: Integers, heap: Integers, clock: Any, limits: Limits) -> bool:
    """Return whether another pull may be started."""
    return (
        not _has_stopped(finished, clock, limits)
        and clock[0].in_flight < heap.size
        and clock[0].asked < limits.max_pulls
        and clock[0].told + clock[0].in_flight < limits.max_results
    )


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
