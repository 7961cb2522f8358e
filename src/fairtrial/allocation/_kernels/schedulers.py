"""The schedulers, which force pulls so that every quota is kept."""

from fairtrial.allocation._kernels.credits import credit, due_round, is_released, release_round
from fairtrial.allocation._kernels.lazy import lazy
from fairtrial.allocation._kernels.model import (
    CONFINED,
    DUE,
    FREE,
    LARGEST,
    LAZY,
    MASKED,
    NEVER,
    NOWHERE,
    OPENING_FIRST,
    State,
    inlined,
    kernel,
)
from fairtrial.allocation._kernels.plays import several
from fairtrial.allocation._kernels.waiting import unready


@kernel
def _free(state: State) -> int:
    """Leave the round to the learner, except to arms that shares of 1 leave no room for."""
    control = state.control[0]
    ruling = FREE
    if control.is_exhausted:
        ruling = MASKED
        for arm in range(control.arms):
            state.allowed[arm] = 1 if state.nodes[arm].quota > 0 else 0
    return ruling


@kernel
def _serve_group(state: State, node: int) -> int:
    """Return the group member due first; if none is due, confine the learner to the group."""
    best = NOWHERE
    earliest = NEVER
    for position in range(state.nodes[node].first_member, state.nodes[node].end_of_members):
        arm = state.nodes[position].member
        if state.nodes[arm].quota > 0:
            due = due_round(state, arm, 1)
            if best == NOWHERE or due < earliest:
                best, earliest = arm, due
    if best == NOWHERE:
        best = CONFINED
        for arm in range(state.control[0].arms):
            state.allowed[arm] = 1 if state.nodes[arm].group == node else 0
    return best


@kernel
def _earliest_due(state: State) -> int:
    control = state.control[0]
    found = NOWHERE
    while found == NOWHERE and control.due > 0:
        node = state.ready[0]
        if is_released(state, node):
            found = node
        else:
            # A voided round has taken back the credit that released the node.
            unready(state, node, release_round(state, node))
    if found == NOWHERE:
        found = _free(state)
    elif found >= control.arms:
        found = _serve_group(state, found)
    return found


@kernel
def _largest_credit(state: State) -> int:
    control = state.control[0]
    most = control.tolerance * control.unit
    best = NOWHERE
    for place in range(control.due):
        node = state.ready[place]
        owed = credit(state, node)
        if owed > most or (owed == most and best != NOWHERE and node < best):
            best, most = node, owed
    if best == NOWHERE:
        best = _free(state)
    return best


@kernel
def largest_awake(state: State) -> int:
    """Return the awake arm with the largest credit above the tolerance, else MASKED."""
    control = state.control[0]
    most = control.tolerance * control.unit
    best = MASKED
    for arm in range(control.arms):
        if state.allowed[arm] and state.nodes[arm].quota > 0:
            owed = credit(state, arm)
            if owed > most:
                best, most = arm, owed
    return best


@kernel
def _opening(state: State) -> int:
    control = state.control[0]
    while control.opening_arm < control.arms:
        arm = control.opening_arm
        if state.nodes[arm].pulls < state.nodes[arm].opening:
            return arm
        control.opening_arm += 1
    return FREE


@kernel
def _scheduled(state: State) -> int:
    control = state.control[0]
    scheduler = control.scheduler
    ruling = FREE
    if control.plays > 1:
        ruling = several(state)
    elif scheduler == DUE:
        ruling = _earliest_due(state)
    elif scheduler == LARGEST:
        ruling = _largest_credit(state)
    elif scheduler == LAZY:
        ruling = lazy(state)
        if ruling == FREE:
            ruling = _free(state)
    elif scheduler == OPENING_FIRST:
        ruling = _opening(state)
    return ruling


@inlined
def forced_arm(state: State) -> int:
    """Return the arm that the quotas force now, or FREE, MASKED or CONFINED."""
    control = state.control[0]
    ruling = FREE
    if control.due > 0 or not control.idle_if_none_ready:
        ruling = _scheduled(state)
    return ruling
