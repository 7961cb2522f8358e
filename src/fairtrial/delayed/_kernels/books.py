"""The books: what is known of every pull and every arm, and how one event changes it.

Sums over an arm's pulls are taken in the order of their start, whatever the order of events:
so the same events leave the same books, bit for bit. What no longer changes is folded into
running sums, so that an event costs as much as the arm has pulls in flight.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.compilation import kernel as compiled

Floats = NDArray[np.float64]
Bits = NDArray[np.int8]

_OPTIONS: Any = {"error_model": "numpy", "_nrt": False}

kernel = compiled(**_OPTIONS)
"""Compiler of the family's kernels, which allocate nothing.

So they need no reference counts (`_nrt`): those are atomic, and cost more than most events.
"""

inlined = compiled(**_OPTIONS, forceinline=True)
"""The same for what most events call: handing on the arrays of a book costs more than the work."""


class Book(NamedTuple):
    """All that the kernels work on.

    `rules`: the constants named below, then sigma, sigma of the readings and duration by arm.
    `table`: two numbers by number of outcomes; see `racing.radius`. `declared[i, j]`: whether
    arm i was found better than j. `arms` is laid out by columns: a test of one arm against all
    others then reads what lies together. `lists`, shape (3, n), follows from the rest: the
    survivors in their order, room for values that are sorted, and marks of arms.
    """

    rules: Floats
    table: Floats
    pulls: Floats
    arms: Floats
    sums: Floats
    control: Floats
    declared: Bits
    lists: Floats


# Constants of a policy.
(
    RULE, FEEDBACK, PREFIX, LEVEL, TOP, TOLERANCE, PRIOR, SAMPLING, PER_ARM, DELTA,
    INTERSECT, REPORT_SHARE, BIAS_SHARE, FIRST_ONLY, TARGET, LONGEST, LOG_ALL, LOG_OUTCOME,
    LOG_REPORT, LOG_BIAS, STUDENT, CONSTANTS,
) = range(22)  # fmt: skip

# The first two go by information, the others are races.
PAIRWISE, BOX, RACE_FULL, RACE_PARTIAL, RACE_PROVEN = range(5)
FULL, INCREMENTAL, UNBIASED, BIASED, REFINING = range(5)
UNIFORM, LUCB = range(2)

# Columns of a pull.
(
    ARM, NEXT, STATE, OUTCOME, COUNT, SUM, PRECISION, WEIGHTED, NEWEST, DURATION,
    INDEX, NUMBER, IN_WALK, BIAS, HAS_BIAS, LOG_CHARGE, PULL_COLUMNS,
) = range(17)  # fmt: skip

OPEN, DONE, STOPPED = range(3)

# Columns of an arm.
(
    STARTED, IN_FLIGHT, COMPLETED, FIRST, LAST, FRONT, MEAN, VARIANCE, PENALTY, LOWER,
    UPPER, POTENTIAL, STATUS, BEATEN, BEATS, DESIGNATED, BEHIND, ARM_COLUMNS,
) = range(18)  # fmt: skip

# The sums over an arm's pulls: of those that no longer change, and of all.
SUMS = 8
FOLDED, TOTAL = 0, SUMS

SURVIVES, ACCEPTED, REJECTED = range(3)

# Rows of `lists`.
ALIVE, SORTED, LEADS = range(3)

# Entries of `control`. While something is in HALTED, nothing is decided.
(
    PLACES, SURVIVORS, STARTS, BUSY, DOOMED, ROWS, DIRTY, UPPER_CUT, LOWER_CUT, RESULTS,
    READINGS, STEPS, MOST_READINGS, HALTED, CONTROLS,
) = range(15)  # fmt: skip

# Sums for the information of an arm: V and S of the mean alone; V as if all had completed;
# what pulls without outcome say of mean + bias; what complete ones say of the bias.
INFORMATION, SCORE, HOPED, SHIFTED, SHIFTED_SCORE, ON_BIAS, BIAS_SCORE, WITH_BIAS = range(SUMS)

# Sums where deviations are estimated: outcomes, their mean, the squares about it, and how many
# outcomes there will be when the pulls in flight have completed.
NUMBER_SEEN, MEAN_SEEN, SQUARES, EXPECTED = range(4)

# Sums for a race: outcomes; pulls that tell of the bias, what they tell and its weight; stopped
# pulls that keep their place in the walk.
(
    NUMBER_DONE, SUM_DONE, NUMBER_BIAS, SUM_BIAS, BIAS_WEIGHT, NUMBER_KEPT, SUM_KEPT, KEPT_TERMS,
) = range(SUMS)  # fmt: skip

_SMALLEST_STD = 1e-6


@inlined
def sigma_of(book: Book, arm: int) -> float:
    """Return the scale of an arm's outcomes."""
    return book.rules[CONSTANTS + arm]


@inlined
def reading_std_of(book: Book, arm: int) -> float:
    """Return the scale of an arm's readings about their outcome."""
    return book.rules[CONSTANTS + book.arms.shape[0] + arm]


def empty_books(rules: Floats, arms: int, rows: int) -> Book:
    """Return books in which nothing has happened yet."""
    pairs = arms if rules[RULE] == PAIRWISE else 1
    book = Book(
        rules,
        np.full((2, 1), np.inf),
        np.zeros((rows, PULL_COLUMNS)),
        np.zeros((arms, ARM_COLUMNS), order="F"),
        np.zeros((arms, 2 * SUMS)),
        np.zeros(CONTROLS),
        np.zeros((pairs, pairs), dtype=np.int8),
        np.zeros((3, arms)),
    )
    book.arms[:, [FIRST, LAST, FRONT, DESIGNATED]] = -1.0
    book.arms[:, [VARIANCE, UPPER]] = np.inf
    book.arms[:, LOWER] = -np.inf
    book.control[PLACES] = rules[TOP]
    book.control[SURVIVORS] = arms
    book.control[DIRTY] = 1.0
    list_survivors(book)
    return book


@kernel
def list_survivors(book: Book) -> None:
    """Write down which arms survive."""
    arms, lists = book.arms, book.lists
    size = 0
    for arm in range(arms.shape[0]):
        if arms[arm, STATUS] == SURVIVES:
            lists[ALIVE, size] = arm
            size += 1


@kernel
def open_pull(book: Book, arm: int, number: float, duration: float) -> int:
    """Write down that a pull of an arm has started; return its row."""
    row = int(book.control[ROWS])
    pulls, arms = book.pulls, book.arms
    pulls[row, :] = 0.0
    pulls[row, ARM], pulls[row, NUMBER], pulls[row, INDEX] = arm, number, arms[arm, STARTED]
    pulls[row, NEXT], pulls[row, STATE], pulls[row, NEWEST] = -1.0, OPEN, -np.inf
    pulls[row, DURATION] = duration
    pulls[row, LOG_CHARGE] = math.log((arms[arm, STARTED] + 1.0) * (arms[arm, STARTED] + 2.0))
    if arms[arm, LAST] >= 0.0:
        book.pulls[int(arms[arm, LAST]), NEXT] = row
    else:
        arms[arm, FIRST] = row
    arms[arm, LAST] = row
    if arms[arm, FRONT] < 0.0:
        arms[arm, FRONT] = row
    arms[arm, STARTED] += 1.0
    arms[arm, IN_FLIGHT] += 1.0
    book.control[ROWS] += 1.0
    book.control[STARTS] += 1.0
    book.control[BUSY] += 1.0
    book.control[STEPS] += max(1.0, np.ceil(duration))
    if arms[arm, STATUS] != SURVIVES:
        book.control[DOOMED] += 1.0
    return row


@kernel
def release(book: Book, row: int) -> None:
    """Write down that a pull is no longer in flight."""
    arms, arm = book.arms, int(book.pulls[row, ARM])
    arms[arm, IN_FLIGHT] -= 1.0
    book.control[BUSY] -= 1.0
    if arms[arm, STATUS] != SURVIVES:
        book.control[DOOMED] -= 1.0


@kernel
def forget_readings(book: Book, row: int) -> None:
    """Empty the sums of a pull's readings, to take them again in their right order."""
    pulls = book.pulls
    pulls[row, COUNT], pulls[row, SUM], pulls[row, PRECISION], pulls[row, WEIGHTED] = (
        0.0,
        0.0,
        0.0,
        0.0,
    )
    pulls[row, NEWEST] = -np.inf


@inlined
def add_reading(book: Book, row: int, stage: float, value: float, std: float) -> bool:
    """Add a reading to its pull; return whether it counts. A negative `std` is the arm's own."""
    pulls = book.pulls
    arm = int(pulls[row, ARM])
    kind = book.rules[FEEDBACK]
    if kind == INCREMENTAL:
        pulls[row, COUNT] += 1.0
        pulls[row, SUM] += value
    else:
        own = reading_std_of(book, arm) if std < 0.0 else std
        precision = 1.0 / max(own, _SMALLEST_STD * sigma_of(book, arm)) ** 2
        if kind == REFINING:
            if stage < pulls[row, NEWEST]:
                return False
            if book.rules[FIRST_ONLY] > 0.0 and (
                pulls[row, COUNT] > 0.0 or own > book.rules[TARGET]
            ):
                return False
            pulls[row, SUM], pulls[row, PRECISION], pulls[row, WEIGHTED] = 0.0, 0.0, 0.0
        pulls[row, COUNT] += 1.0
        pulls[row, SUM] += value
        pulls[row, PRECISION] += precision
        pulls[row, WEIGHTED] += value * precision
    pulls[row, NEWEST] = max(pulls[row, NEWEST], stage)
    book.control[MOST_READINGS] = max(book.control[MOST_READINGS], pulls[row, COUNT])
    return True


@kernel
def kth_largest(lists: Floats, size: int, k: int) -> float:
    """Return the k-th largest of the first `size` values (k from 1); their order is lost."""
    low, high, wanted = 0, size - 1, k - 1
    while low < high:
        pivot = lists[SORTED, (low + high) // 2]
        i, j = low, high
        while i <= j:
            while lists[SORTED, i] > pivot:
                i += 1
            while lists[SORTED, j] < pivot:
                j -= 1
            if i <= j:
                value = lists[SORTED, i]
                lists[SORTED, i] = lists[SORTED, j]
                lists[SORTED, j] = value
                i += 1
                j -= 1
        if wanted <= j:
            high = j
        elif wanted >= i:
            low = i
        else:
            return lists[SORTED, wanted]
    return lists[SORTED, wanted]
