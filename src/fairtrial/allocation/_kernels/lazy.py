"""The lazy scheduler: it forces no arm while a round can still be spared."""

from fairtrial.allocation._kernels.credits import credit, due_round
from fairtrial.allocation._kernels.model import (
    CONFINED,
    FREE,
    NEVER,
    State,
    kernel,
)

_MARGIN = 0.01  # in pulls; covers rounding errors where sums are floats


@kernel
def _sooner(state: State, left: int, right: int) -> bool:
    date, other = state.nodes[left].next_due, state.nodes[right].next_due
    return date < other or (date == other and left < right)


@kernel
def _sink_order(state: State, size: int, place: int) -> None:
    node = state.nodes[place].order
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        if below + 1 < size and _sooner(
            state, state.nodes[below + 1].order, state.nodes[below].order
        ):
            below += 1
        if not _sooner(state, state.nodes[below].order, node):
            break
        state.nodes[place].order = state.nodes[below].order
        place = below
    state.nodes[place].order = node


@kernel
def _order_due_dates(state: State) -> int:
    size = 0
    for node in range(state.control[0].arms):
        if state.nodes[node].quota > 0:
            state.nodes[node].next_due = due_round(state, node, 1)
            state.nodes[node].owed = 1
            state.nodes[size].order = node
            size += 1
    for place in range(size // 2 - 1, -1, -1):
        _sink_order(state, size, place)
    return size


@kernel
def _last_date(state: State) -> int:
    """Return the last round whose due dates have to be checked.

    In each period of q rounds an arm owes p pulls; together the arms owe at most one pull per
    round. Pulls that were due long ago, because pulls failed or arms slept, are due in the next
    round.
    """
    control = state.control[0]
    latest = control.rounds + 1
    for arm in range(control.arms):
        if state.nodes[arm].quota > 0:
            latest = max(latest, state.nodes[arm].next_due)
    return min(latest + control.period, control.limit)


@kernel
def spare_rounds(state: State) -> tuple[int, int]:
    """Return how many rounds can be spared now, and the due round that sets this limit.

    The number is the minimum of ``(d - t) - (pulls owed by d)`` over all future rounds d. Due
    rounds are visited in order. Without rounding down, this difference is concave in d and its
    final slope is at least zero, so it never decreases. The search can therefore stop once it
    reaches the minimum found so far. An arm owes less than one pull before its first due round.
    """
    control = state.control[0]
    waiting = _order_due_dates(state)
    size, last = waiting, _last_date(state)
    done, unit = control.rounds, float(control.unit)
    limit = control.tolerance * control.unit
    quotas, credits_ = 0.0, 0.0
    best, tight, owed = NEVER, NEVER, 0
    while size > 0:
        node = state.nodes[0].order
        date = max(state.nodes[node].next_due, done + 1)
        room = (date - done) * (unit - quotas) - credits_ - waiting * unit
        if date > last or (best < NEVER and room >= unit * (best + _MARGIN)):
            break
        owed += 1
        if date - done - owed < best:
            best, tight = date - done - owed, date
        if best <= 0:
            return 0, tight
        if state.nodes[node].owed == 1:
            waiting -= 1
            quotas += state.nodes[node].quota
            credits_ += float(credit(state, node) - limit)
        state.nodes[node].owed += 1
        state.nodes[node].next_due = due_round(state, node, state.nodes[node].owed)
        _sink_order(state, size, 0)
    return best, tight


@kernel
def lazy(state: State) -> int:
    """Return the arm due first, or CONFINED, if no round can be spared; else FREE."""
    control = state.control[0]
    done = control.rounds
    if done < control.free_until:
        return FREE
    if done < control.tight_until:
        return state.ready[0]
    room, date = spare_rounds(state)
    if room > 0:
        control.free_until = done + room
        return FREE
    if not control.confines:
        control.tight_until = date
        return state.ready[0]
    for arm in range(control.arms):
        due = state.nodes[arm].quota > 0 and due_round(state, arm, 1) <= date
        state.allowed[arm] = 1 if due else 0
    return CONFINED
