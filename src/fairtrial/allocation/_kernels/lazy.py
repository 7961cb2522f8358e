"""The lazy scheduler: no arm is forced while a round can still be wasted."""

from fairtrial.allocation._kernels.credits import credit, due_round
from fairtrial.allocation._kernels.model import (
    ALLOWED,
    ARMS,
    CONFINED,
    FREE,
    FREE_UNTIL,
    LIMIT,
    MASKS,
    NEVER,
    NEXT,
    ORDER,
    OWED,
    PERIOD,
    QUOTA,
    READY,
    ROUND,
    TIGHT_UNTIL,
    TOLERANCE,
    UNIT,
    Integers,
    kernel,
)

_MARGIN = 0.01  # of a pull, for rounding where sums are floats


@kernel
def _sooner(book: Integers, left: int, right: int) -> bool:
    date, other = book[NEXT, left], book[NEXT, right]
    return date < other or (date == other and left < right)


@kernel
def _sink_order(book: Integers, size: int, place: int) -> None:
    node = book[ORDER, place]
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        if below + 1 < size and _sooner(book, book[ORDER, below + 1], book[ORDER, below]):
            below += 1
        if not _sooner(book, book[ORDER, below], node):
            break
        book[ORDER, place] = book[ORDER, below]
        place = below
    book[ORDER, place] = node


@kernel
def _order_due_dates(control: Integers, book: Integers) -> int:
    size = 0
    for node in range(control[ARMS]):
        if book[QUOTA, node] > 0:
            book[NEXT, node] = due_round(control, book, node, 1)
            book[OWED, node] = 1
            book[ORDER, size] = node
            size += 1
    for place in range(size // 2 - 1, -1, -1):
        _sink_order(book, size, place)
    return size


@kernel
def _last_date(control: Integers, book: Integers) -> int:
    """Return the round after which due dates need no look.

    In every period of q rounds an arm owes p pulls: all together no more than there are rounds.
    What was due long ago, since pulls have failed or arms slept, is due in the round to come.
    """
    latest = control[ROUND] + 1
    for arm in range(control[ARMS]):
        if book[QUOTA, arm] > 0:
            latest = max(latest, book[NEXT, arm])
    return min(latest + control[PERIOD], control[LIMIT])


@kernel
def slack(control: Integers, book: Integers) -> tuple[int, int]:
    """Return how many rounds may be wasted now, and the due round that allows no more.

    It is the least of ``(d - t) - (pulls owed by d)`` over all rounds d to come. Due rounds are
    visited in order. Without its floors that difference is concave in d and ends with a slope
    of at least zero, so it never falls: once it reaches the least found, the search is over. An
    arm before its first due round owes less than one pull.
    """
    waiting = _order_due_dates(control, book)
    size, last = waiting, _last_date(control, book)
    done, unit = control[ROUND], float(control[UNIT])
    limit = control[TOLERANCE] * control[UNIT]
    quotas, credits_ = 0.0, 0.0
    best, tight, owed = NEVER, NEVER, 0
    while size > 0:
        node = book[ORDER, 0]
        date = max(book[NEXT, node], done + 1)
        room = (date - done) * (unit - quotas) - credits_ - waiting * unit
        if date > last or (best < NEVER and room >= unit * (best + _MARGIN)):
            break
        owed += 1
        if date - done - owed < best:
            best, tight = date - done - owed, date
        if best <= 0:
            return 0, tight
        if book[OWED, node] == 1:
            waiting -= 1
            quotas += book[QUOTA, node]
            credits_ += float(credit(control, book, node) - limit)
        book[OWED, node] += 1
        book[NEXT, node] = due_round(control, book, node, book[OWED, node])
        _sink_order(book, size, 0)
    return best, tight


@kernel
def lazy(control: Integers, book: Integers) -> int:
    """Return the arm due first if no round can be wasted any more, else FREE; or CONFINED."""
    done = control[ROUND]
    if done < control[FREE_UNTIL]:
        return FREE
    if done < control[TIGHT_UNTIL]:
        return book[READY, 0]
    room, date = slack(control, book)
    if room > 0:
        control[FREE_UNTIL] = done + room
        return FREE
    if not control[MASKS]:
        control[TIGHT_UNTIL] = date
        return book[READY, 0]
    for arm in range(control[ARMS]):
        due = book[QUOTA, arm] > 0 and due_round(control, book, arm, 1) <= date
        book[ALLOWED, arm] = 1 if due else 0
    return CONFINED
