"""Pulls in flight, in a heap of slots ordered by their next events."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.delayed._kernels.environments import (
    DELAY,
    NEXT_TIME,
    ROW,
    STARTED,
    CompiledEnvironment,
    begin,
    next_reading,
)
from fairtrial.delayed._kernels.state import Floats, inlined, kernel

Integers = NDArray[np.int64]


class Queue(NamedTuple):
    """The pulls in flight, and the counts of a run."""

    slots: Floats
    heap: Integers  # slots, ordered as a heap by their next events
    clock: Any  # a record with `now`, `in_flight` and `cancelled`


@inlined
def schedule(environment: CompiledEnvironment, slot: Floats, skip: bool) -> None:
    """Set the time of a pull's next event; with `skip`, ignore its readings."""
    elapsed = np.inf if skip else next_reading(environment, slot)
    slot[NEXT_TIME] = slot[STARTED] + min(elapsed, slot[DELAY])


@inlined
def _earlier(slots: Floats, one: int, other: int) -> bool:
    if slots[one, NEXT_TIME] != slots[other, NEXT_TIME]:
        return slots[one, NEXT_TIME] < slots[other, NEXT_TIME]
    return slots[one, ROW] < slots[other, ROW]


@kernel
def sink(slots: Floats, heap: Integers, size: int, at: int) -> None:
    """Move an entry down the heap to its place."""
    while True:
        child = 2 * at + 1
        if child >= size:
            return
        if child + 1 < size and _earlier(slots, heap[child + 1], heap[child]):
            child += 1
        if not _earlier(slots, heap[child], heap[at]):
            return
        heap[at], heap[child] = heap[child], heap[at]
        at = child


@kernel
def rise(slots: Floats, heap: Integers, at: int) -> None:
    """Move an entry up the heap to its place."""
    while at > 0:
        parent = (at - 1) // 2
        if not _earlier(slots, heap[at], heap[parent]):
            return
        heap[at], heap[parent] = heap[parent], heap[at]
        at = parent


@inlined
def enter(
    environment: CompiledEnvironment, queue: Queue, row: int, arm: int, number: int, skip: bool
) -> int:
    """Add a starting pull, the arm's `number`-th, to the heap; return its slot.

    With `skip`, its only event is its end.
    """
    slots, heap, clock = queue
    free = 0
    while slots[free, ROW] >= 0.0:
        free += 1
    slot, size = slots[free], clock[0].in_flight
    begin(environment, slot, arm, number)
    slot[ROW], slot[STARTED] = row, clock[0].now
    schedule(environment, slot, skip)
    heap[size] = free
    clock[0].in_flight += 1
    rise(slots, heap, size)
    return free


@inlined
def is_due(queue: Queue) -> bool:
    """Return whether the first event is due now."""
    slots, heap, clock = queue
    return clock[0].in_flight > 0 and slots[heap[0], NEXT_TIME] == clock[0].now


@inlined
def leave_first(queue: Queue) -> None:
    """Remove the first entry and free its slot."""
    slots, heap, clock = queue
    slots[heap[0], ROW] = -1.0
    clock[0].in_flight -= 1
    heap[0] = heap[clock[0].in_flight]
    sink(slots, heap, clock[0].in_flight, 0)


@kernel
def drop_freed(queue: Queue) -> None:
    """Remove the entries of cancelled pulls, whose slots are free."""
    slots, heap, clock = queue
    size = 0
    for place in range(clock[0].in_flight):
        if slots[heap[place], ROW] >= 0.0:
            heap[size] = heap[place]
            size += 1
    clock[0].cancelled += clock[0].in_flight - size
    clock[0].in_flight = size
    for at in range(size // 2 - 1, -1, -1):
        sink(slots, heap, size, at)
