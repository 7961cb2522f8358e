"""What every node is owed, in exact integers, and when that is owed.

A node is *released* when its credit exceeds the tolerance; its next owed pull is *due* in the
round whose end would see the quota broken. Documentation: docs/explanation/fair-shares.md.
"""

from fairtrial.allocation._kernels.model import (
    ASLEEP,
    BASE,
    COUNT,
    INITIAL,
    LAZY,
    PLAYS,
    QUOTA,
    ROUND,
    SCHEDULER,
    TOLERANCE,
    UNIT,
    Integers,
    inlined,
)


@inlined
def credit(control: Integers, book: Integers, node: int) -> int:
    """Return what a node is owed after the rounds done, in units of 1/q pulls."""
    return book[QUOTA, node] * control[ROUND] - book[BASE, node]


@inlined
def true_credit(control: Integers, book: Integers, node: int) -> int:
    """Return the same without what `carry` forgave: for reports."""
    rounds = control[ROUND] - book[ASLEEP, node]
    return book[INITIAL, node] + book[QUOTA, node] * rounds - control[UNIT] * book[COUNT, node]


@inlined
def is_released(control: Integers, book: Integers, node: int) -> bool:
    """Return whether a node may be forced in the round to come."""
    owed = credit(control, book, node)
    if control[PLAYS] > 1:
        # With several plays a round the credit of the round itself counts already.
        owed += book[QUOTA, node]
    return owed > control[TOLERANCE] * control[UNIT]


@inlined
def release_round(control: Integers, book: Integers, node: int) -> int:
    """Return the first round in which a node may be forced."""
    release = 0
    if control[SCHEDULER] != LAZY:
        lead = 2 if control[PLAYS] == 1 else 1
        slack = control[TOLERANCE] * control[UNIT] + book[BASE, node]
        release = slack // book[QUOTA, node] + lead
    return release


@inlined
def due_round(control: Integers, book: Integers, node: int, owed: int) -> int:
    """Return the round by which `owed` further pulls of a node must have been made."""
    needed = (control[TOLERANCE] + owed) * control[UNIT] + book[BASE, node]
    return -(-needed // book[QUOTA, node])
