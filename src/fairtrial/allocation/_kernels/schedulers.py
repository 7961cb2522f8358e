"""Who is forced: the schedulers that keep every quota."""

from fairtrial.allocation._kernels.credits import credit, due_round, is_released, release_round
from fairtrial.allocation._kernels.lazy import lazy
from fairtrial.allocation._kernels.model import (
    ALLOWED,
    ARMS,
    BEGIN,
    CONFINED,
    COUNT,
    DUE,
    END,
    EXHAUSTED,
    FREE,
    GROUP,
    IDLE_IF_NONE_READY,
    LARGEST,
    LAZY,
    MASKED,
    MEMBER,
    N_READY,
    NEVER,
    NOWHERE,
    OPENING,
    OPENING_FIRST,
    PHASE,
    PLAYS,
    QUOTA,
    READY,
    SCHEDULER,
    TOLERANCE,
    UNIT,
    Integers,
    inlined,
    kernel,
)
from fairtrial.allocation._kernels.plays import several
from fairtrial.allocation._kernels.waiting import unready


@kernel
def _free(control: Integers, book: Integers) -> int:
    """Leave the round to the learner; shares of 1 together leave nothing for other arms."""
    ruling = FREE
    if control[EXHAUSTED]:
        ruling = MASKED
        for arm in range(control[ARMS]):
            book[ALLOWED, arm] = 1 if book[QUOTA, arm] > 0 else 0
    return ruling


@kernel
def _serve_group(control: Integers, book: Integers, node: int) -> int:
    """Return the member of a group that is due first; without any, confine the learner to it."""
    best = NOWHERE
    earliest = NEVER
    for position in range(book[BEGIN, node], book[END, node]):
        arm = book[MEMBER, position]
        if book[QUOTA, arm] > 0:
            due = due_round(control, book, arm, 1)
            if best == NOWHERE or due < earliest:
                best, earliest = arm, due
    if best == NOWHERE:
        best = CONFINED
        for arm in range(control[ARMS]):
            book[ALLOWED, arm] = 1 if book[GROUP, arm] == node else 0
    return best


@kernel
def _earliest_due(control: Integers, book: Integers) -> int:
    found = NOWHERE
    while found == NOWHERE and control[N_READY] > 0:
        node = book[READY, 0]
        if is_released(control, book, node):
            found = node
        else:
            # A voided round took back the credit that had released it.
            unready(control, book, node, release_round(control, book, node))
    if found == NOWHERE:
        found = _free(control, book)
    elif found >= control[ARMS]:
        found = _serve_group(control, book, found)
    return found


@kernel
def _largest_credit(control: Integers, book: Integers) -> int:
    most = control[TOLERANCE] * control[UNIT]
    best = NOWHERE
    for place in range(control[N_READY]):
        node = book[READY, place]
        owed = credit(control, book, node)
        if owed > most or (owed == most and best != NOWHERE and node < best):
            best, most = node, owed
    if best == NOWHERE:
        best = _free(control, book)
    return best


@kernel
def largest_awake(control: Integers, book: Integers) -> int:
    """Return the awake arm of the largest credit above the tolerance, else leave it free."""
    most = control[TOLERANCE] * control[UNIT]
    best = MASKED
    for arm in range(control[ARMS]):
        if book[ALLOWED, arm] and book[QUOTA, arm] > 0:
            owed = credit(control, book, arm)
            if owed > most:
                best, most = arm, owed
    return best


@kernel
def _opening(control: Integers, book: Integers) -> int:
    while control[PHASE] < control[ARMS]:
        arm = control[PHASE]
        if book[COUNT, arm] < book[OPENING, arm]:
            return arm
        control[PHASE] += 1
    return FREE


@kernel
def _scheduled(control: Integers, book: Integers) -> int:
    scheduler = control[SCHEDULER]
    ruling = FREE
    if control[PLAYS] > 1:
        ruling = several(control, book)
    elif scheduler == DUE:
        ruling = _earliest_due(control, book)
    elif scheduler == LARGEST:
        ruling = _largest_credit(control, book)
    elif scheduler == LAZY:
        ruling = lazy(control, book)
        if ruling == FREE:
            ruling = _free(control, book)
    elif scheduler == OPENING_FIRST:
        ruling = _opening(control, book)
    return ruling


@inlined
def forced_arm(control: Integers, book: Integers) -> int:
    """Return the arm that the quotas force now, or FREE, MASKED or CONFINED."""
    ruling = FREE
    if control[N_READY] > 0 or not control[IDLE_IF_NONE_READY]:
        ruling = _scheduled(control, book)
    return ruling
