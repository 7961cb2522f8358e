"""Pulls counted when they are issued, and taken back when they are voided."""

from fairtrial.allocation._kernels.credits import credit, true_credit
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
    INITIAL,
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
    TOLERANCE,
    UNIT,
    WORST,
    Integers,
    inlined,
    kernel,
    live,
)
from fairtrial.allocation._kernels.waiting import advance, settle_earlier, settle_later


@kernel
def _forget_surplus(control: Integers, book: Integers, node: int) -> None:
    """Let nothing be carried over that is beyond the carry when the round is over."""
    after = book[QUOTA, node] * (control[ROUND] + 1)
    beyond = book[BASE, node] - after - control[CARRY] * control[UNIT]
    if beyond > 0:
        book[BASE, node] -= beyond


@inlined
def _count_node(control: Integers, book: Integers, node: int, free: bool) -> None:
    # A credit only falls at a pull, so its largest values are those just before one.
    control[WORST] = max(control[WORST], true_credit(control, book, node))
    book[COUNT, node] += 1
    book[BASE, node] += control[UNIT]
    if free and control[CARRY] >= 0:
        _forget_surplus(control, book, node)


@inlined
def _count_gap(control: Integers, book: Integers, arm: int) -> None:
    now = control[ISSUED] + 1
    if control[PLAYS] > 1:
        now = control[ISSUED] // control[PLAYS] + 1
    book[GAP, arm] = max(book[GAP, arm], now - book[LAST, arm])
    book[LAST, arm] = now


@kernel
def _age_queues(control: Integers, book: Integers) -> None:
    for arm in range(control[ARMS]):
        book[QUEUE, arm] = max(0, book[QUEUE, arm] + book[QUOTA, arm])


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
        book[QUEUE, arm] -= control[UNIT]
        if control[SLOT] == 0:
            _age_queues(control, book)
    if sleeping:
        _let_sleep(control, book)


@kernel
def _note_overdue(control: Integers, book: Integers) -> None:
    """Count the round if a node is overdue, also without what `carry` forgave."""
    limit = control[TOLERANCE] + 1
    overdue = control[CARRY] < 0
    for node in range(control[NODES]):
        overdue = overdue or true_credit(control, book, node) // control[UNIT] >= limit
    control[OVERDUE] += 1 if overdue else 0


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
    if free and control[CARRY] >= 0:
        # What a round that failed took from a credit is forgotten as well: so a base may shrink.
        settle_earlier(control, book, arm)
    else:
        settle_later(control, book, arm)
    if sleeping or control[QUEUES] or group != NOWHERE:
        _count_rest(control, book, arm, group, sleeping)
    if closes:
        advance(control, book)
        if control[N_READY] > 0 and book[KEY, book[READY, 0]] <= control[ROUND]:
            _note_overdue(control, book)


@kernel
def _take_back_round(control: Integers, book: Integers, arm: int) -> None:
    """Take the round of a failed pull out of time; for its arm alone if others share it."""
    if control[PLAYS] == 1 and not control[SLEPT]:
        control[ROUND] -= 1
        if control[QUEUES]:
            for other in range(control[ARMS]):
                book[QUEUE, other] = max(0, book[QUEUE, other] - book[QUOTA, other])
    else:
        book[ASLEEP, arm] += 1
        book[BASE, arm] += book[QUOTA, arm]


@kernel
def _forgive_once(control: Integers, book: Integers, arm: int) -> None:
    """Owe nothing again for a failed pull of which the carry had forgotten that it was ahead."""
    most = max(control[TOLERANCE] * control[UNIT], true_credit(control, book, arm))
    beyond = credit(control, book, arm) - most
    if beyond > 0:
        book[BASE, arm] += beyond


@kernel
def _settle_raised(control: Integers, book: Integers, arm: int) -> None:
    """Put an arm and its group where they belong after their credits have risen."""
    group = book[GROUP, arm]
    # A queue that is never below the credit is what keeps a share in the long run.
    book[QUEUE, arm] = max(book[QUEUE, arm], true_credit(control, book, arm))
    if control[CARRY] >= 0:
        _forgive_once(control, book, arm)
    control[FREE_UNTIL] = control[ROUND]
    control[TIGHT_UNTIL] = control[ROUND]
    settle_earlier(control, book, arm)
    if group != NOWHERE:
        settle_earlier(control, book, group)
    advance(control, book)


@kernel
def void_pull(control: Integers, book: Integers, arm: int) -> None:
    """Take back the pull of an arm, and its round."""
    # Other credits fall with the round; how large they were is not taken back.
    control[WORST] = worst_credit(control, book)
    group = book[GROUP, arm]
    book[COUNT, arm] -= 1
    book[BASE, arm] -= control[UNIT]
    if group != NOWHERE:
        book[COUNT, group] -= 1
        book[BASE, group] -= control[UNIT]
    control[PHASE] = 0
    _take_back_round(control, book, arm)
    _settle_raised(control, book, arm)


@kernel
def _begin_with_one_more(control: Integers, book: Integers, node: int) -> None:
    more = min(control[UNIT], control[TOLERANCE] * control[UNIT] - book[INITIAL, node])
    if control[PLAYS] > 1:
        more -= more % max(1, book[QUOTA, node])
    book[INITIAL, node] += more
    book[BASE, node] -= more


@live
def make_up(control: Integers, book: Integers, arm: int) -> None:
    """Let an arm and its group have begun with one pull more to their credit, which failed.

    No credit begins above the tolerance: so the promise of an epoch stays as it is.
    """
    _begin_with_one_more(control, book, arm)
    if book[GROUP, arm] != NOWHERE:
        _begin_with_one_more(control, book, book[GROUP, arm])
    _settle_raised(control, book, arm)


@live
def worst_credit(control: Integers, book: Integers) -> int:
    """Return the largest credit that any node has had at the end of any round."""
    worst = control[WORST]
    for node in range(control[NODES]):
        worst = max(worst, true_credit(control, book, node))
    return worst
