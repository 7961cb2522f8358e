"""What one event does to the books: a start, a reading, an outcome, a stop.

Everything goes through one function: so its parts are compiled into one place.
"""

from fairtrial.delayed._kernels.books import (
    ARM,
    BEHIND,
    BIAS,
    BOX,
    COMPLETED,
    COUNT,
    DESIGNATED,
    DONE,
    EXPECTED,
    FIRST,
    FOLDED,
    FRONT,
    HALTED,
    HAS_BIAS,
    HOPED,
    IN_WALK,
    LOWER,
    NEXT,
    OPEN,
    OUTCOME,
    PREFIX,
    READINGS,
    RESULTS,
    RULE,
    STATE,
    STATUS,
    STOPPED,
    STUDENT,
    SUM,
    SUMS,
    SURVIVES,
    TOTAL,
    UPPER,
    Book,
    add_reading,
    forget_readings,
    inlined,
    kernel,
    open_pull,
    release,
    sigma_of,
)
from fairtrial.delayed._kernels.deciding import decide, finish_if_settled
from fairtrial.delayed._kernels.information import add_information, estimate_from_information
from fairtrial.delayed._kernels.racing import add_to_race, designate, estimate_in_race
from fairtrial.delayed._kernels.student import add_outcome, estimate_by_student


@inlined
def _add_to(book: Book, row: int, place: int) -> None:
    if book.rules[STUDENT] > 0.0:
        add_outcome(book, row, place)
    elif book.rules[RULE] <= BOX:
        add_information(book, row, place)
    else:
        add_to_race(book, row, place)


@kernel
def _fold(book: Book, arm: int) -> None:
    """Fold pulls into the running sums until one that may still change."""
    arms = book.arms
    row = int(arms[arm, FRONT])
    while row >= 0:
        state = book.pulls[row, STATE]
        if state == OPEN or (book.rules[PREFIX] > 0.0 and state != DONE):
            break
        _add_to(book, row, FOLDED)
        row = int(book.pulls[row, NEXT])
    arms[arm, FRONT] = row


@kernel
def _fold_anew(book: Book, arm: int) -> None:
    """Take the running sums anew, after a pull has changed that was folded before."""
    arms = book.arms
    for column in range(FOLDED, TOTAL):
        book.sums[arm, column] = 0.0
    arms[arm, FRONT] = arms[arm, FIRST]
    _fold(book, arm)


@inlined
def _add_up(book: Book, arm: int) -> None:
    """Set an arm's sums: the running ones, and what is still in flight."""
    arms = book.arms
    for column in range(SUMS):
        book.sums[arm, TOTAL + column] = book.sums[arm, FOLDED + column]
    row = int(arms[arm, FRONT])
    while row >= 0:
        if book.rules[PREFIX] == 0.0:
            _add_to(book, row, TOTAL)
        elif book.rules[STUDENT] > 0.0:
            book.sums[arm, TOTAL + EXPECTED] += 1.0
        elif book.rules[RULE] <= BOX:
            book.sums[arm, TOTAL + HOPED] += 1.0 / sigma_of(book, arm) ** 2
        row = int(book.pulls[row, NEXT])


@kernel
def _refresh(book: Book, arm: int) -> None:
    """Estimate an arm anew, and decide what follows from it."""
    arms = book.arms
    before_lower, before_upper = arms[arm, LOWER], arms[arm, UPPER]
    _add_up(book, arm)
    if book.rules[STUDENT] > 0.0:
        estimate_by_student(book, arm)
    elif book.rules[RULE] <= BOX:
        estimate_from_information(book, arm)
    else:
        designate(book, arm)
        estimate_in_race(book, arm)
    if arms[arm, STATUS] == SURVIVES and book.control[HALTED] == 0.0:
        decide(book, arm, before_lower, before_upper)


START, READ, READ_ONLY, FORGET, CHANGED, TELL, CORRECT, STOP, SETTLE, REVIEW = range(10)


@kernel
def happen(book: Book, kind: int, at: int, first: float, second: float, third: float) -> int:
    """Let an event happen; return the row of its pull.

    ======== ======= ==================== =============================================
    kind     `at`    numbers              what happens
    ======== ======= ==================== =============================================
    START    arm     number, duration     a pull starts
    READ     row     stage, value, std    a reading comes that is the newest of its pull
    FORGET   row                          the readings of a pull are to be taken again
    READ_ONLY row    stage, value, std    a reading is taken, and nothing follows yet
    CHANGED  row                          the readings have been taken again
    TELL     row     value                the outcome comes, in time or after a stop
    CORRECT  row     value                the outcome was another
    STOP     row                          no outcome is waited for; the readings stay
    SETTLE                                all are accepted if there is a place for each
    REVIEW   arm                          what was left undecided is decided
    ======== ======= ==================== =============================================
    """
    if kind == SETTLE:
        finish_if_settled(book)
        return -1
    if kind == REVIEW:
        _refresh(book, at)
        return -1
    if kind == START:
        row = open_pull(book, at, first, second)
        _refresh(book, at)
        return row
    folded = book.pulls[at, STATE] != OPEN
    arm = int(book.pulls[at, ARM])
    if kind == FORGET:
        forget_readings(book, at)
        return at
    if kind == READ_ONLY:
        add_reading(book, at, first, second, third)
        return at
    if kind == READ:
        book.control[READINGS] += 1.0
        if not add_reading(book, at, first, second, third):
            return at
    elif kind == CHANGED:
        book.control[READINGS] += 1.0
    elif kind == TELL:
        _complete(book, at, first)
    elif kind == CORRECT:
        _replace(book, at, first)
    elif kind == STOP:
        _stop(book, at)
    if folded:
        _fold_anew(book, arm)
    elif kind != READ:
        _fold(book, arm)
    _refresh(book, arm)
    return at


@kernel
def _complete(book: Book, row: int, value: float) -> None:
    pulls = book.pulls
    arms, arm = book.arms, int(book.pulls[row, ARM])
    if pulls[row, STATE] == OPEN:
        release(book, row)
    pulls[row, STATE], pulls[row, OUTCOME] = DONE, value
    if pulls[row, COUNT] > 0.0:
        pulls[row, BIAS], pulls[row, HAS_BIAS] = pulls[row, SUM] / pulls[row, COUNT] - value, 1.0
    arms[arm, COMPLETED] += 1.0
    book.control[RESULTS] += 1.0
    if arms[arm, DESIGNATED] == row:
        arms[arm, DESIGNATED] = -1.0
    elif pulls[row, IN_WALK] == 0.0 and arms[arm, DESIGNATED] >= 0.0:
        arms[arm, BEHIND] = 1.0
    pulls[row, IN_WALK] = 1.0


@kernel
def _replace(book: Book, row: int, value: float) -> None:
    pulls = book.pulls
    pulls[row, BIAS] += pulls[row, OUTCOME] - value
    pulls[row, OUTCOME] = value


@kernel
def _stop(book: Book, row: int) -> None:
    arms, arm = book.arms, int(book.pulls[row, ARM])
    release(book, row)
    book.pulls[row, STATE] = STOPPED
    if arms[arm, DESIGNATED] == row:
        arms[arm, DESIGNATED] = -1.0
