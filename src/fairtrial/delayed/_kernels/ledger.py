"""The ledger of a rule with a budget: what is known of every pull and every arm.

All decisions are made of it (`budgets`). Sums are taken in the order of starts, so
that they do not depend on the order in which results come.
"""

from typing import NamedTuple

import numpy as np

from fairtrial.delayed._kernels.state import INCREMENTAL, UNBIASED, Floats, inlined, kernel


class Ledger(NamedTuple):
    """All that the kernels work on.

    `rules`: the constants named below, then the duration by arm, 0 if it is not known. `plan`: a
    row for every bracket of rungs (how many, the readings at each, then which arms are in it), or
    for every round (pulls of each arm left at its end, how many arms it leaves). `pulls`: a row
    for every pull. `values`: its first readings in the order of their stages, as many as matter.
    `aged`: for every age how many completed pulls had it, then the means of their readings up to
    it in order. `arms`: the rows named below, then a row for the values at each rung.
    """

    rules: Floats
    plan: Floats
    pulls: Floats
    values: Floats
    aged: Floats
    arms: Floats
    control: Floats


# Constants of a policy. KEPT: how many readings of a pull matter for anything.
RULE, FEEDBACK, TOP, ETA, EACH, BUDGET, GRACE, LEAST, KEPT, CONSTANTS = range(10)

RUNGS, PROMOTION, MEDIAN, ROUNDS, REJECTS = range(5)

# Columns of a pull. The stage is the rung, or the round, that it is for.
ARM, STAGE, STATE, OUTCOME, COUNT, LARGEST, REACHED, PULL_COLUMNS = range(8)

OPEN, DONE, STOPPED = range(3)
NOWHERE = -1.0

# Rows of the arms. ISSUED counts all pulls that were asked for, STARTED those for this rung.
(
    STATUS, ISSUED, STARTED, IN_FLIGHT, GOES_TO, PLACE, MEAN, COMPLETED, KEY, ORDER, SEEN,
) = range(11)  # fmt: skip

OUT, ALIVE, ACCEPTED = range(3)

# Entries of `control`. MISSING: pulls that the rung lacks; UNREACHED: those on their way to it;
# WAITED: arms that are untried, or on their way to a rung; STALE: whether pulls may have become
# unwanted beside the one that something has happened to. From PARTIALS on: room for `total`.
(
    ROWS, ASKED, TOLD, BUSY, READINGS, MOST_READINGS, BRACKET, ROUND, LEFT, PLACES, MISSING,
    UNREACHED, WAITED, STALE, OVER, PARTIALS,
) = range(16)  # fmt: skip

CONTROLS = PARTIALS + 64
_BLOCK = 128


@kernel
def open_pull(ledger: Ledger, arm: int, stage: float) -> int:
    """Write a new pull down; return its row."""
    pulls, control = ledger.pulls, ledger.control
    row = int(control[ROWS])
    pulls[row, ARM], pulls[row, STAGE], pulls[row, STATE] = arm, stage, OPEN
    pulls[row, OUTCOME], pulls[row, COUNT] = np.nan, 0.0
    pulls[row, LARGEST], pulls[row, REACHED] = -np.inf, 0.0
    control[ROWS] += 1.0
    control[BUSY] += 1.0
    ledger.arms[IN_FLIGHT, arm] += 1.0
    return row


@kernel
def close_pull(ledger: Ledger, row: int, state: float) -> None:
    """Write down that a pull is done, or has stopped."""
    pulls = ledger.pulls
    if pulls[row, STATE] == OPEN:
        ledger.control[BUSY] -= 1.0
        ledger.arms[IN_FLIGHT, int(pulls[row, ARM])] -= 1.0
    pulls[row, STATE] = state


@inlined
def add_reading(ledger: Ledger, row: int, at: int, value: float) -> None:
    """Put a reading at its place among those of its pull, from 0 on."""
    pulls, values, control = ledger.pulls, ledger.values, ledger.control
    count = int(pulls[row, COUNT])
    if at < ledger.rules[KEPT]:
        last = min(count, int(min(ledger.rules[KEPT], values.shape[1])) - 1)
        for place in range(last, at, -1):
            values[row, place] = values[row, place - 1]
        values[row, at] = value
    pulls[row, COUNT] += 1.0
    pulls[row, LARGEST] = max(pulls[row, LARGEST], value)
    control[READINGS] += 1.0
    control[MOST_READINGS] = max(control[MOST_READINGS], pulls[row, COUNT])


@inlined
def has_room(ledger: Ledger) -> bool:
    """Return whether one more pull, and one more reading of any, fit into the arrays."""
    width = ledger.values.shape[1]
    fits = ledger.control[MOST_READINGS] < width or width >= ledger.rules[KEPT]
    return fits and ledger.control[ROWS] < ledger.pulls.shape[0]


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
def forecast(ledger: Ledger, row: int, readings: float) -> float:
    """Return the forecast of a pull's outcome from that many readings, NaN without any.

    An outcome that came before the reading takes its place.
    """
    rules, pulls = ledger.rules, ledger.pulls
    count = pulls[row, COUNT]
    if count < readings and pulls[row, STATE] == DONE:
        return pulls[row, OUTCOME]
    if count == 0.0:
        return np.nan
    number, partial = int(min(readings, count)), ledger.control[PARTIALS:]
    if rules[FEEDBACK] == UNBIASED:
        return total(ledger.values, row, number, partial) / number
    duration = rules[CONSTANTS + int(pulls[row, ARM])]
    if rules[FEEDBACK] == INCREMENTAL and duration > 0.0:
        return total(ledger.values, row, number, partial) / number * duration
    return ledger.values[row, number - 1]


@kernel
def average(ledger: Ledger) -> None:
    """Set the mean outcome of every arm, minus infinity where there is none, and their number."""
    pulls, arms = ledger.pulls, ledger.arms
    for arm in range(arms.shape[1]):
        arms[MEAN, arm], arms[COMPLETED, arm] = 0.0, 0.0
    for row in range(int(ledger.control[ROWS])):
        if pulls[row, STATE] == DONE:
            arm = int(pulls[row, ARM])
            arms[MEAN, arm] += pulls[row, OUTCOME]
            arms[COMPLETED, arm] += 1.0
    for arm in range(arms.shape[1]):
        number = arms[COMPLETED, arm]
        arms[MEAN, arm] = arms[MEAN, arm] / number if number > 0.0 else -np.inf


# -------------------------------------------------------------------------------- order


@kernel
def order_alive(ledger: Ledger) -> int:
    """Put the arms that are left in the order of their keys, largest first; return how many."""
    arms = ledger.arms
    size = 0
    for arm in range(arms.shape[1]):
        if arms[STATUS, arm] == ALIVE:
            arms[ORDER, size] = arm
            size += 1
    for at in range(size // 2 - 1, -1, -1):
        _sift(arms, size, at)
    for end in range(size - 1, 0, -1):
        arms[ORDER, 0], arms[ORDER, end] = arms[ORDER, end], arms[ORDER, 0]
        _sift(arms, end, 0)
    return size


@inlined
def _behind(arms: Floats, one: int, other: int) -> bool:
    if arms[KEY, one] != arms[KEY, other]:
        return arms[KEY, one] < arms[KEY, other]
    return one > other


@kernel
def _sift(arms: Floats, size: int, at: int) -> None:
    """Let an arm go down a heap whose root is the last in the order."""
    while True:
        child = 2 * at + 1
        if child >= size:
            return
        if child + 1 < size and _behind(arms, int(arms[ORDER, child + 1]), int(arms[ORDER, child])):
            child += 1
        if not _behind(arms, int(arms[ORDER, child]), int(arms[ORDER, at])):
            return
        arms[ORDER, at], arms[ORDER, child] = arms[ORDER, child], arms[ORDER, at]
        at = child
