"""Pulls in flight in the order of their next events: a heap of slots."""

import numpy as np
from numpy.typing import NDArray

from fairtrial.delayed._kernels.environments import (
    DELAY,
    NEXT_TIME,
    ROW,
    STARTED,
    CompiledEnvironment,
    next_reading,
)
from fairtrial.delayed._kernels.state import Floats, inlined, kernel

Integers = NDArray[np.int64]


@inlined
def schedule(environment: CompiledEnvironment, slot: Floats, skip: bool) -> None:
    """Set when the next event of a pull comes; with `skip` its readings are none."""
    elapsed = np.inf if skip else next_reading(environment, slot)
    slot[NEXT_TIME] = slot[STARTED] + min(elapsed, slot[DELAY])


@inlined
def _earlier(slots: Floats, one: int, other: int) -> bool:
    if slots[one, NEXT_TIME] != slots[other, NEXT_TIME]:
        return slots[one, NEXT_TIME] < slots[other, NEXT_TIME]
    return slots[one, ROW] < slots[other, ROW]


@kernel
def sink(slots: Floats, heap: Integers, size: int, at: int) -> None:
    """Let an entry go down to its place among those below it."""
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
def build(slots: Floats, heap: Integers, size: int) -> None:
    """Bring the entries of a heap into its order."""
    for at in range(size // 2 - 1, -1, -1):
        sink(slots, heap, size, at)


@kernel
def rise(slots: Floats, heap: Integers, at: int) -> None:
    """Let an entry go up to its place among those above it."""
    while at > 0:
        parent = (at - 1) // 2
        if not _earlier(slots, heap[at], heap[parent]):
            return
        heap[at], heap[parent] = heap[parent], heap[at]
        at = parent


@kernel
def drop_first(slots: Floats, heap: Integers, size: int) -> None:
    """Free the slot of the first of `size` entries, and take it out."""
    slots[heap[0], ROW] = -1.0
    heap[0] = heap[size - 1]
    sink(slots, heap, size - 1, 0)
