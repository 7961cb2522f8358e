"""Who is owed a pull: exact integer credits, and the schedulers that keep every quota.

An arm is *released* when its credit exceeds the tolerance; its next owed pull is *due* in the
round whose end would see the quota broken. Nodes wait in a heap by release round and then in a
heap by due round. A stored release round may be too early, never too late: it is repaired when
it surfaces, so that a free pull costs nothing. Stored due rounds are exact.
Documentation: docs/explanation/fair-shares.md.
"""

from fairtrial.allocation._kernels.model import (
    ALLOWED,
    ARMS,
    ASLEEP,
    BASE,
    BEGIN,
    CARRY,
    CONFINED,
    COUNT,
    DUE,
    END,
    EXHAUSTED,
    FORCED,
    FREE,
    FREE_UNTIL,
    GAP,
    GROUP,
    IDLE_IF_NONE_READY,
    ISSUED,
    KEY,
    LARGEST,
    LAST,
    LAZY,
    LIMIT,
    MASKED,
    MASKS,
    MEMBER,
    N_READY,
    N_RELEASE,
    NEVER,
    NEXT,
    NODES,
    NOWHERE,
    OPENING,
    OPENING_FIRST,
    ORDER,
    OVERDUE,
    OWED,
    PHASE,
    PLACE,
    PLAYS,
    QUEUE,
    QUEUES,
    QUOTA,
    READY,
    RELEASE,
    ROUND,
    SCHEDULER,
    SLEPT,
    SLOT,
    TAKEN,
    TIGHT_UNTIL,
    TOLERANCE,
    TOTAL,
    UNIT,
    WORST,
    Integers,
    inlined,
    kernel,
)

_MARGIN = 0.01  # of a pull, for rounding where sums are floats

# ------------------------------------------------------------------------ credits


@inlined
def credit(control: Integers, book: Integers, node: int) -> int:
    """Return what a node is owed after the rounds done, in units of 1/q pulls."""
    return book[QUOTA, node] * control[ROUND] - book[BASE, node]


@inlined
def true_credit(control: Integers, book: Integers, node: int) -> int:
    """Return the same without what `carry` forgave: share of its rounds minus pulls."""
    rounds = control[ROUND] - book[ASLEEP, node]
    return book[QUOTA, node] * rounds - control[UNIT] * book[COUNT, node]


@inlined
def release_round(control: Integers, book: Integers, node: int) -> int:
    """Return the first round in which a node may be forced."""
    release = 0
    if control[SCHEDULER] != LAZY:
        # With several plays a round the credit of the round itself counts already.
        lead = 2 if control[PLAYS] == 1 else 1
        slack = control[TOLERANCE] * control[UNIT] + book[BASE, node]
        release = slack // book[QUOTA, node] + lead
    return release


@inlined
def due_round(control: Integers, book: Integers, node: int, owed: int) -> int:
    """Return the round by which `owed` further pulls of a node must have been made."""
    needed = (control[TOLERANCE] + owed) * control[UNIT] + book[BASE, node]
    return -(-needed // book[QUOTA, node])


# -------------------------------------------------------------------------- heaps


@kernel
def _before(book: Integers, left: int, right: int) -> bool:
    key, other = book[KEY, left], book[KEY, right]
    return key < other or (key == other and left < right)


@kernel
def _rise(book: Integers, heap: int, shift: int, place: int) -> None:
    node = book[heap, place]
    while place > 0:
        above = (place - 1) >> 1
        other = book[heap, above]
        if not _before(book, node, other):
            break
        book[heap, place] = other
        book[PLACE, other] = place + shift
        place = above
    book[heap, place] = node
    book[PLACE, node] = place + shift


@kernel
def _sink(book: Integers, heap: int, shift: int, size: int, place: int) -> None:
    node = book[heap, place]
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        if below + 1 < size and _before(book, book[heap, below + 1], book[heap, below]):
            below += 1
        other = book[heap, below]
        if not _before(book, other, node):
            break
        book[heap, place] = other
        book[PLACE, other] = place + shift
        place = below
    book[heap, place] = node
    book[PLACE, node] = place + shift


@kernel
def _push_release(control: Integers, book: Integers, node: int) -> None:
    book[KEY, node] = release_round(control, book, node)
    place = control[N_RELEASE]
    control[N_RELEASE] += 1
    book[RELEASE, place] = node
    _rise(book, RELEASE, 0, place)


@kernel
def _push_ready(control: Integers, book: Integers, node: int) -> None:
    book[KEY, node] = due_round(control, book, node, 1)
    place = control[N_READY]
    control[N_READY] += 1
    book[READY, place] = node
    _rise(book, READY, control[NODES], place)


@kernel
def _remove(book: Integers, heap: int, shift: int, size: int, place: int) -> None:
    """Take out what stands at a place of a heap of `size`, which then has one less."""
    last = book[heap, size - 1]
    book[PLACE, book[heap, place]] = NOWHERE
    if place < size - 1:
        book[heap, place] = last
        book[PLACE, last] = place + shift
        _sink(book, heap, shift, size - 1, place)
        _rise(book, heap, shift, book[PLACE, last] - shift)


@kernel
def _unready(control: Integers, book: Integers, node: int) -> None:
    shift = control[NODES]
    _remove(book, READY, shift, control[N_READY], book[PLACE, node] - shift)
    control[N_READY] -= 1
    _push_release(control, book, node)


@kernel
def _release_all(control: Integers, book: Integers) -> None:
    coming = control[ROUND] + 1
    while control[N_RELEASE] > 0:
        node = book[RELEASE, 0]
        if book[KEY, node] > coming:
            break
        release = release_round(control, book, node)
        if release > coming:
            book[KEY, node] = release
            _sink(book, RELEASE, 0, control[N_RELEASE], 0)
        else:
            _remove(book, RELEASE, 0, control[N_RELEASE], 0)
            control[N_RELEASE] -= 1
            _push_ready(control, book, node)


@inlined
def advance(control: Integers, book: Integers) -> None:
    """Move to the ready nodes what is released in the next round."""
    if control[N_RELEASE] > 0 and book[KEY, book[RELEASE, 0]] <= control[ROUND] + 1:
        _release_all(control, book)


@kernel
def _settle_ready(control: Integers, book: Integers, node: int) -> None:
    if release_round(control, book, node) > control[ROUND] + 1:
        _unready(control, book, node)
    else:
        shift = control[NODES]
        book[KEY, node] = due_round(control, book, node, 1)
        _sink(book, READY, shift, control[N_READY], book[PLACE, node] - shift)
        _rise(book, READY, shift, book[PLACE, node] - shift)


@inlined
def settle_later(control: Integers, book: Integers, node: int) -> None:
    """Put a node where it belongs after its base has grown."""
    if book[PLACE, node] >= control[NODES]:
        _settle_ready(control, book, node)


@kernel
def settle_earlier(control: Integers, book: Integers, node: int) -> None:
    """Put a node where it belongs after its base has shrunk."""
    place = book[PLACE, node]
    if place >= control[NODES]:
        _settle_ready(control, book, node)
    elif place != NOWHERE:
        book[KEY, node] = release_round(control, book, node)
        _rise(book, RELEASE, 0, place)
        _sink(book, RELEASE, 0, control[N_RELEASE], book[PLACE, node])


@kernel
def rebuild(control: Integers, book: Integers) -> None:
    """Build the heaps anew from the credits."""
    control[N_RELEASE] = 0
    control[N_READY] = 0
    for node in range(control[NODES]):
        book[PLACE, node] = NOWHERE
        if book[QUOTA, node] > 0:
            _push_release(control, book, node)
    advance(control, book)


# --------------------------------------------------------------------- schedulers


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
    limit = control[TOLERANCE] * control[UNIT]
    found = NOWHERE
    while found == NOWHERE and control[N_READY] > 0:
        node = book[READY, 0]
        if credit(control, book, node) > limit:
            found = node
        else:
            # A voided round took back the credit that had released it.
            _unready(control, book, node)
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


# ----------------------------------------------------------- the lazy scheduler


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
    """Return the round after which due dates need no look: demand only repeats, or never binds."""
    if control[TOTAL] < control[UNIT]:
        return control[LIMIT]
    latest = 0
    for arm in range(control[ARMS]):
        if book[QUOTA, arm] > 0:
            latest = max(latest, book[NEXT, arm])
    return min(latest + control[UNIT], control[LIMIT])


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
def _lazy(control: Integers, book: Integers) -> int:
    done = control[ROUND]
    if done < control[FREE_UNTIL]:
        return _free(control, book)
    if done < control[TIGHT_UNTIL]:
        return book[READY, 0]
    room, date = slack(control, book)
    if room > 0:
        control[FREE_UNTIL] = done + room
        return _free(control, book)
    if not control[MASKS]:
        control[TIGHT_UNTIL] = date
        return book[READY, 0]
    for arm in range(control[ARMS]):
        due = book[QUOTA, arm] > 0 and due_round(control, book, arm, 1) <= date
        book[ALLOWED, arm] = 1 if due else 0
    return CONFINED


# ------------------------------------------------------------- several plays a round


@kernel
def _group_deadline(control: Integers, book: Integers, arm: int, due: int) -> int:
    """Return the end of the run of tight windows that a heavy arm is in; 0 for a light one."""
    quota, unit = book[QUOTA, arm], control[UNIT]
    rest = unit - quota
    if 2 * quota < unit or rest == 0:
        return 0
    idle = -(-(due * rest) // unit)
    return -(-(idle * unit) // rest)


@kernel
def _more_pressing(control: Integers, book: Integers, left: int, right: int) -> bool:
    """Compare two released arms as PD2 does: due round, successor bit, group deadline."""
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
def _several(control: Integers, book: Integers) -> int:
    coming = control[ROUND] + 1
    limit = control[TOLERANCE] * control[UNIT]
    best = NOWHERE
    if control[SCHEDULER] == DUE:
        for place in range(control[N_READY]):
            arm = book[READY, place]
            released = credit(control, book, arm) + book[QUOTA, arm] > limit
            if (
                released
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


# ------------------------------------------------------------------- what is called


@kernel
def _scheduled(control: Integers, book: Integers) -> int:
    scheduler = control[SCHEDULER]
    ruling = FREE
    if control[PLAYS] > 1:
        ruling = _several(control, book)
    elif scheduler == DUE:
        ruling = _earliest_due(control, book)
    elif scheduler == LARGEST:
        ruling = _largest_credit(control, book)
    elif scheduler == LAZY:
        ruling = _lazy(control, book)
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
