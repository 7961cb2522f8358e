"""Several plays a round: released arms in the order of the rule PD2."""

from fairtrial.allocation._kernels.credits import due_round, is_released
from fairtrial.allocation._kernels.model import (
    ALLOWED,
    ARMS,
    ASLEEP,
    BASE,
    DUE,
    EXHAUSTED,
    INITIAL,
    MASKED,
    N_READY,
    NOWHERE,
    QUOTA,
    READY,
    ROUND,
    SCHEDULER,
    TAKEN,
    TOLERANCE,
    UNIT,
    Integers,
    kernel,
)


@kernel
def _group_deadline(control: Integers, book: Integers, arm: int, due: int) -> int:
    """Return the end of the run of tight windows that a heavy arm is in; 0 for a light one."""
    quota, unit = book[QUOTA, arm], control[UNIT]
    rest = unit - quota
    if 2 * quota < unit or rest == 0:
        return 0
    # An arm that starts with a credit, or has missed rounds, has the windows of one that began at
    # another round.
    start = -book[INITIAL, arm] // quota + book[ASLEEP, arm]
    idle = -(-((due - start) * rest) // unit)
    return start - (-(idle * unit) // rest)


@kernel
def _more_pressing(control: Integers, book: Integers, left: int, right: int) -> bool:
    """Compare two released arms as PD2 does: due round, successor bit, group deadline."""
    # A share of 1 is due in every round, and would never catch up with arms that are overdue.
    whole = book[QUOTA, left] == control[UNIT]
    if whole != (book[QUOTA, right] == control[UNIT]):
        return whole
    due = due_round(control, book, left, 1)
    other = due_round(control, book, right, 1)
    if due != other:
        return due < other
    owed = (control[TOLERANCE] + 1) * control[UNIT]
    bit = (book[BASE, left] + owed) % book[QUOTA, left] != 0
    other_bit = (book[BASE, right] + owed) % book[QUOTA, right] != 0
    if bit != other_bit:
        return bit
    if bit:
        deadline = _group_deadline(control, book, left, due)
        other_deadline = _group_deadline(control, book, right, other)
        if deadline != other_deadline:
            return deadline > other_deadline
    return left < right


@kernel
def several(control: Integers, book: Integers) -> int:
    """Return the released arm that PD2 serves next, or MASKED: free among the arms left."""
    coming = control[ROUND] + 1
    best = NOWHERE
    if control[SCHEDULER] == DUE:
        for place in range(control[N_READY]):
            arm = book[READY, place]
            if (
                is_released(control, book, arm)
                and book[TAKEN, arm] != coming
                and (best == NOWHERE or _more_pressing(control, book, arm, best))
            ):
                best = arm
    if best != NOWHERE:
        return best
    for arm in range(control[ARMS]):
        closed = control[EXHAUSTED] and book[QUOTA, arm] == 0
        book[ALLOWED, arm] = 0 if closed or book[TAKEN, arm] == coming else 1
    return MASKED
