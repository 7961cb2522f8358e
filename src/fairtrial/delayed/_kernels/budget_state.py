"""The state of a rule with a budget: the data of every pull and every arm.

`budgets` makes all decisions from it. Sums follow the order in which pulls started, so the order of
results does not change them.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from fairtrial.core.records import Records
from fairtrial.delayed._kernels.state import INCREMENTAL, UNBIASED, Floats, inlined, kernel

RUNGS, PROMOTION, MEDIAN, ROUNDS, REJECTS = range(5)

# The status of a pull, and of an arm.
OPEN, DONE, STOPPED = range(3)
OUT, ALIVE, ACCEPTED = range(3)
NOWHERE = -1

PARTIALS = 64
_BLOCK = 128


class Rules(NamedTuple):
    """Constants of a policy. `kept`: number of a pull's readings that can be used."""

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

    `current`: the current rung or round; `missing`: pulls that the rung lacks; `unreached`: pulls
    on their way to it; `waited_for`: arms that are untried or on their way to a rung; `stale`:
    whether pulls other than the one with the latest event may have become unwanted.
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
    """The data of a pull; the stage is the rung or round that it was started for."""

    arm: int
    stage: int
    state: int
    outcome: float
    readings: int
    largest: float
    reached: int


class Arm(NamedTuple):
    """The data of an arm.

    `issued`: all pulls started so far; `started`: those for this rung; `order`: the arm at this
    place, whatever the row's own arm.
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

    `plan`: one row per bracket of rungs (number of rungs, readings at each, then the bracket's
    arms), or one row per round (pulls of each remaining arm at its end, number of arms it keeps).
    `values`: the first readings of every pull in the order of their stages, as many as can be used.
    `aged`: for every age, the number of completed pulls that reached it, then the sorted means of
    their readings up to that age. `seen`: the values of arms at each rung. `partial`: work space
    for `total`.
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
    """Add a new pull; return its row."""
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
    """Record that a pull is done or stopped."""
    pulls = state.pulls
    if pulls[row].state == OPEN:
        state.control[0].in_flight -= 1
        state.arms[pulls[row].arm].in_flight -= 1
    pulls[row].state = status


@inlined
def add_reading(state: Budget, row: int, at: int, value: float) -> None:
    """Insert a reading at a position, counted from 0, among those of its pull."""
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
    """Return whether the arrays have room for one more pull and one more reading of any pull."""
    width = state.values.shape[1]
    fits = state.control[0].max_readings < width or width >= state.rules[0].kept
    return fits and state.control[0].rows < state.pulls.shape[0]


# ----------------------------------------------------------------------------- values


@kernel
def total(values: Floats, row: int, number: int, partial: Floats) -> float:
    """Return the sum of a row's first values, in NumPy's order of summation.

    This keeps ties at a rung identical to those of NumPy sums, which the rules used before. Blocks
    of at most 128 values are summed by repeated halving; `partial` holds sums that wait for their
    other half. The function is not recursive because numba loads recursive functions incorrectly
    from its cache.
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
    """Return the forecast of a pull's outcome from its first readings; NaN if it has none.

    An outcome that came before the reading replaces it.
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
    """Set the mean outcome of every arm (minus infinity without outcomes) and their number."""
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
    """Sort the remaining arms by their keys, largest first; return their number."""
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
    """Move an arm down a heap whose root comes last in the order."""
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
