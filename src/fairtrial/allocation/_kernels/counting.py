"""Pulls counted when they are issued, and taken back when they are voided."""

from fairtrial.allocation._kernels.credits import true_credit
from fairtrial.allocation._kernels.model import (
    ALLOWED,
    ARMS,
    ASLEEP,
    BASE,
    CARRY,
    COUNT,
    FORCED,
    FREE_UNTIL,
    GAP,
    GROUP,
    ISSUED,
    KEY,
    LAST,
    N_READY,
    NODES,
    NOWHERE,
    OVERDUE,
    PHASE,
    PLAYS,
    QUEUE,
    QUEUES,
    QUOTA,
    READY,
    ROUND,
    SLEPT,
    SLOT,
    TAKEN,
    TIGHT_UNTIL,
    UNIT,
    WORST,
    Integers,
    inlined,
    kernel,
)
from fairtrial.allocation._kernels.waiting import advance, settle_earlier, settle_later


@inlined
def _count_node(control: Integers, book: Integers, node: int, free: bool) -> None:
    # A credit only falls at a pull, so its largest values are those just before one.
    control[WORST] = max(control[WORST], true_credit(control, book, node))
    book[COUNT, node] += 1
    book[BASE, node] += control[UNIT]
    if free and control[CARRY] >= 0:
        after = book[QUOTA, node] * (control[ROUND] + 1)
        book[BASE, node] = min(book[BASE, node], after + control[CARRY] * control[UNIT])


@inlined
def _count_gap(control: Integers, book: Integers, arm: int) -> None:
    now = control[ISSUED] + 1
    if control[PLAYS] > 1:
        now = control[ISSUED] // control[PLAYS] + 1
    book[GAP, arm] = max(book[GAP, arm], now - book[LAST, arm])
    book[LAST, arm] = now


@kernel
def _age_queues(control: Integers, book: Integers, pulled: int) -> None:
    for arm in range(control[ARMS]):
        book[QUEUE, arm] = book[QUEUE, arm] + book[QUOTA, arm]
    book[QUEUE, pulled] = max(0, book[QUEUE, pulled] - control[UNIT])


@kernel
def _let_sleep(control: Integers, book: Integers) -> None:
    """Give no credit for a round that an arm slept through."""
    for arm in range(control[ARMS]):
        if not book[ALLOWED, arm]:
            book[ASLEEP, arm] += 1
            if book[QUOTA, arm] > 0:
                book[BASE, arm] += book[QUOTA, arm]
                settle_later(control, book, arm)
    control[SLEPT] = 1
    control[FREE_UNTIL] = control[ROUND]
    control[TIGHT_UNTIL] = control[ROUND]


@kernel
def _count_rest(control: Integers, book: Integers, arm: int, group: int, sleeping: bool) -> None:
    """Do what only some problems and policies need: groups, queues, sleep."""
    if group != NOWHERE:
        settle_later(control, book, group)
    if control[QUEUES]:
        _age_queues(control, book, arm)
    if sleeping:
        _let_sleep(control, book)


@inlined
def count_pull(control: Integers, book: Integers, arm: int, free: bool, sleeping: bool) -> None:
    """Count the pull of an arm, and close the round if it was the last one in it."""
    group = book[GROUP, arm]
    _count_node(control, book, arm, free)
    if group != NOWHERE:
        _count_node(control, book, group, free)
    _count_gap(control, book, arm)
    control[FORCED] += 0 if free else 1
    control[ISSUED] += 1
    book[TAKEN, arm] = control[ROUND] + 1
    control[SLOT] += 1
    closes = control[SLOT] == control[PLAYS]
    if closes:
        control[SLOT] = 0
        control[ROUND] += 1
    settle_later(control, book, arm)
    if sleeping or control[QUEUES] or group != NOWHERE:
        _count_rest(control, book, arm, group, sleeping)
    if closes:
        advance(control, book)
        if control[N_READY] > 0 and book[KEY, book[READY, 0]] <= control[ROUND]:
            control[OVERDUE] += 1


@kernel
def void_pull(control: Integers, book: Integers, arm: int) -> None:
    """Take back the pull of an arm, and its round if that was the same for all arms."""
    group = book[GROUP, arm]
    book[COUNT, arm] -= 1
    book[BASE, arm] -= control[UNIT]
    if group != NOWHERE:
        book[COUNT, group] -= 1
        book[BASE, group] -= control[UNIT]
    if control[PLAYS] == 1 and not control[SLEPT]:
        control[ROUND] -= 1
    control[FREE_UNTIL] = control[ROUND]
    control[TIGHT_UNTIL] = control[ROUND]
    control[PHASE] = 0
    settle_earlier(control, book, arm)
    if group != NOWHERE:
        settle_earlier(control, book, group)
    advance(control, book)


@kernel
def worst_credit(control: Integers, book: Integers) -> int:
    """Return the largest credit that any node has had at the end of any round."""
    worst = control[WORST]
    for node in range(control[NODES]):
        worst = max(worst, true_credit(control, book, node))
    return worst
