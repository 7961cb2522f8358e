"""Several plays per round: released arms in the order of the rule PD2."""

from fairtrial.allocation._kernels.credits import due_round, is_released
from fairtrial.allocation._kernels.model import (
    DUE,
    MASKED,
    NOWHERE,
    State,
    kernel,
)


@kernel
def _group_deadline(state: State, arm: int, due: int) -> int:
    """Return the end of a heavy arm's run of tight windows; 0 for a light arm."""
    quota, unit = state.nodes[arm].quota, state.control[0].unit
    rest = unit - quota
    if 2 * quota < unit or rest == 0:
        return 0
    # An arm with an initial credit or missed rounds has the windows of an arm that started in
    # another round.
    start = -state.nodes[arm].initial // quota + state.nodes[arm].asleep
    idle = -(-((due - start) * rest) // unit)
    return start - (-(idle * unit) // rest)


@kernel
def _more_pressing(state: State, left: int, right: int) -> bool:
    """Return whether `left` precedes `right` in PD2: due round, successor bit, group deadline."""
    # An arm with a share of 1 is due in every round and could never catch up with overdue arms.
    control = state.control[0]
    whole = state.nodes[left].quota == control.unit
    if whole != (state.nodes[right].quota == control.unit):
        return whole
    due = due_round(state, left, 1)
    other = due_round(state, right, 1)
    if due != other:
        return due < other
    owed = (control.tolerance + 1) * control.unit
    bit = (state.nodes[left].offset + owed) % state.nodes[left].quota != 0
    other_bit = (state.nodes[right].offset + owed) % state.nodes[right].quota != 0
    if bit != other_bit:
        return bit
    if bit:
        deadline = _group_deadline(state, left, due)
        other_deadline = _group_deadline(state, right, other)
        if deadline != other_deadline:
            return deadline > other_deadline
    return left < right


@kernel
def several(state: State) -> int:
    """Return the released arm that PD2 serves next, or MASKED to choose freely among the rest."""
    control = state.control[0]
    coming = control.rounds + 1
    best = NOWHERE
    if control.scheduler == DUE:
        for place in range(control.due):
            arm = state.ready[place]
            if (
                is_released(state, arm)
                and state.nodes[arm].taken_in != coming
                and (best == NOWHERE or _more_pressing(state, arm, best))
            ):
                best = arm
    if best != NOWHERE:
        return best
    for arm in range(control.arms):
        closed = control.is_exhausted and state.nodes[arm].quota == 0
        state.allowed[arm] = 0 if closed or state.nodes[arm].taken_in == coming else 1
    return MASKED
