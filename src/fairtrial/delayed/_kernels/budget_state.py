"""The state of a rule with a budget: what is known of every pull and every arm.

All decisions are made from it (`budgets`). Sums are taken in the order of starts, so
that they do not depend on the order in which results come.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from fairtrial.core.records import Records
from fairtrial.delayed._kernels.state import INCREMENTAL, UNBIASED, Floats, inlined, kernel

RUNGS, PROMOTION, MEDIAN, ROUNDS, REJECTS = range(5)

# What has become of a pull, and of an arm.
OPEN, DONE, STOPPED = range(3)
OUT, ALIVE, ACCEPTED = range(3)
NOWHERE = -1

PARTIALS = 64
_BLOCK = 128


class Rules(NamedTuple):
    """Constants of a policy. `kept`: how many readings of a pull matter for anything."""

    rule: int
    feedback: int
    top: int
    eta: float
    pulls_each: int
    budget: float
    min_readings: int
    min_completed: int
    kept: float


class Control(NamedTuple):
    """Totals.

    `current`: the rung or round at hand. `missing`: pulls that the rung lacks; `unreached`: those
    on their way to it; `waited_for`: arms that are untried, or on their way to a rung; `stale`:
    whether pulls may have become unwanted beside the one that something has happened to.
    """

    rows: int
    asked: int
    told: int
    in_flight: int
    readings: int
    max_readings: int
    bracket: int
    current: int
    left: int
    places: int
    missing: int
    unreached: int
    waited_for: int
    stale: int
    over: int


class Pull(NamedTuple):
    """What is known of a pull; the stage is the rung, or the round, that it is for."""

    arm: int
    stage: int
    state: int
    outcome: float
    readings: int
    largest: float
    reached: int


class Arm(NamedTuple):
    """What is known of an arm.

    `issued` counts all pulls that were asked for, `started` those for this rung. `order`: the arm
    that stands at this place.
    """

    duration: float
    status: int
    issued: int
    started: int
    in_flight: int
    rung: int
    place: float
    estimate: float
    completed: int
    key: float
    order: int


class Budget(NamedTuple):
    """All that the kernels work on.

    `plan`: a row for every bracket of rungs (how many, the readings at each, then which arms are in
    it), or for every round (pulls of each arm left at its end, how many arms it leaves). `values`:
    the first readings of every pull in the order of their stages, as many as matter. `aged`: for
    every age how many completed pulls had it, then the means of their readings up to it in order.
    `seen`: the values of arms at each rung. `partial`: room for `total`.
    """

    rules: Annotated[Any, Rules]
    control: Annotated[Any, Control]
    arms: Annotated[Any, Arm, "arms"]
    pulls: Annotated[Any, Pull, "rows"]
    plan: Annotated[Any, float, "steps entries"]
    values: Annotated[Any, float, "rows width"]
    aged: Annotated[Any, float, "ages columns"]
    seen: Annotated[Any, float, "rungs arms"]
    partial: Annotated[Any, float, "partials"]


BUDGET = Records(Budget, kernel)
open_budget = BUDGET.open


@kernel
def open_pull(state: Budget, arm: int, stage: float) -> int:
    """Write a new pull down; return its row."""
    pulls, control = state.pulls, state.control
    row = control[0].rows
    pulls[row].arm, pulls[row].stage, pulls[row].state = arm, stage, OPEN
    pulls[row].outcome, pulls[row].readings = np.nan, 0.0
    pulls[row].largest, pulls[row].reached = -np.inf, 0.0
    control[0].rows += 1
    control[0].in_flight += 1
    state.arms[arm].in_flight += 1
    return row


@kernel
def close_pull(state: Budget, row: int, status: int) -> None:
    """Write down that a pull is done, or has stopped."""
    pulls = state.pulls
    if pulls[row].state == OPEN:
        state.control[0].in_flight -= 1
        state.arms[pulls[row].arm].in_flight -= 1
    pulls[row].state = status


@inlined
def add_reading(state: Budget, row: int, at: int, value: float) -> None:
    """Put a reading at its place among those of its pull, from 0 on."""
    pulls, values, control = state.pulls, state.values, state.control
    count = pulls[row].readings
    if at < state.rules[0].kept:
        last = min(count, int(min(state.rules[0].kept, values.shape[1])) - 1)
        for place in range(last, at, -1):
            values[row, place] = values[row, place - 1]
        values[row, at] = value
    pulls[row].readings += 1
    pulls[row].largest = max(pulls[row].largest, value)
    control[0].readings += 1
    control[0].max_readings = max(control[0].max_readings, pulls[row].readings)


@inlined
def has_room(state: Budget) -> bool:
    """Return whether one more pull, and one more reading of any, fit into the arrays."""
    width = state.values.shape[1]
    fits = state.control[0].max_readings < width or width >= state.rules[0].kept
    return fits and state.control[0].rows < state.pulls.shape[0]


# ----------------------------------------------------------------------------- values


@kernel
def total(values: Floats, row: int, number: int, partial: Floats) -> float:
    """Return the sum of a row's first values in the order in which NumPy takes it.

    The rules had it from there first: what was a tie at a rung is one still. Blocks of at most 128
    are summed by halves of halves; `partial` is room for sums that wait for their other half.
    No function calls itself: numba loads such a one from its cache wrongly.
    """
    start = 0
    while True:
        first, size, level, path = 0, number, 0, 0
        while size > _BLOCK:
            half = size // 2
            half -= half % 8
            level += 1
            if start < first + half:
                size = half
            else:
                first, size, path = first + half, size - half, path | (1 << level)
        result = _sum_of_block(values, row, first, size)
        while (path >> level) & 1:
            result = partial[level] + result
            level -= 1
        if level == 0:
            return result
        partial[level] = result
        start = first + size


@kernel
def _sum_of_block(values: Floats, row: int, first: int, number: int) -> float:
    if number >= 8:
        return _eightfold(values, row, first, number)
    result = 0.0
    for place in range(first, first + number):
        result += values[row, place]
    return result


@kernel
def _eightfold(values: Floats, row: int, first: int, number: int) -> float:
    a, b = values[row, first], values[row, first + 1]
    c, d = values[row, first + 2], values[row, first + 3]
    e, f = values[row, first + 4], values[row, first + 5]
    g, h = values[row, first + 6], values[row, first + 7]
    whole = first + number - number % 8
    for place in range(first + 8, whole, 8):
        a += values[row, place]
        b += values[row, place + 1]
        c += values[row, place + 2]
        d += values[row, place + 3]
        e += values[row, place + 4]
        f += values[row, place + 5]
        g += values[row, place + 6]
        h += values[row, place + 7]
    result = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for place in range(whole, first + number):
        result += values[row, place]
    return result


@kernel
def forecast(state: Budget, row: int, readings: float) -> float:
    """Return the forecast of a pull's outcome from that many readings, NaN without any.

    An outcome that came before the reading takes its place.
    """
    rules, pulls = state.rules, state.pulls
    count = pulls[row].readings
    if count < readings and pulls[row].state == DONE:
        return pulls[row].outcome
    if count == 0.0:
        return np.nan
    number, partial = int(min(readings, count)), state.partial
    if rules[0].feedback == UNBIASED:
        return total(state.values, row, number, partial) / number
    duration = state.arms[pulls[row].arm].duration
    if rules[0].feedback == INCREMENTAL and duration > 0.0:
        return total(state.values, row, number, partial) / number * duration
    return state.values[row, number - 1]


@kernel
def average(state: Budget) -> None:
    """Set the mean outcome of every arm, minus infinity where there is none, and their number."""
    pulls, arms = state.pulls, state.arms
    for arm in range(arms.shape[0]):
        arms[arm].estimate, arms[arm].completed = 0, 0.0
    for row in range(state.control[0].rows):
        if pulls[row].state == DONE:
            arm = pulls[row].arm
            arms[arm].estimate += pulls[row].outcome
            arms[arm].completed += 1
    for arm in range(arms.shape[0]):
        number = arms[arm].completed
        arms[arm].estimate = arms[arm].estimate / number if number > 0.0 else -np.inf


# -------------------------------------------------------------------------------- order


@kernel
def order_alive(state: Budget) -> int:
    """Put the arms that are left in the order of their keys, largest first; return how many."""
    arms = state.arms
    size = 0
    for arm in range(arms.shape[0]):
        if arms[arm].status == ALIVE:
            arms[size].order = arm
            size += 1
    for at in range(size // 2 - 1, -1, -1):
        _sift(arms, size, at)
    for end in range(size - 1, 0, -1):
        arms[0].order, arms[end].order = arms[end].order, arms[0].order
        _sift(arms, end, 0)
    return size


@inlined
def _behind(arms: Floats, one: int, other: int) -> bool:
    if arms[one].key != arms[other].key:
        return arms[one].key < arms[other].key
    return one > other


@kernel
def _sift(arms: Floats, size: int, at: int) -> None:
    """Let an arm go down a heap whose root is the last in the order."""
    while True:
        child = 2 * at + 1
        if child >= size:
            return
        if child + 1 < size and _behind(arms, arms[child + 1].order, arms[child].order):
            child += 1
        if not _behind(arms, arms[child].order, arms[at].order):
            return
        arms[at].order, arms[child].order = arms[child].order, arms[at].order
        at = child
