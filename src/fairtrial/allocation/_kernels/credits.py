"""The number of pulls owed to every node, in exact integers, and when they are due.

A node is *released* when its credit exceeds the tolerance. Its next owed pull is *due* in a round
if the quota would be broken at the end of that round. Documentation:
docs/explanation/fair-shares.md.
"""

from fairtrial.allocation._kernels.model import (
    LAZY,
    State,
    inlined,
)


@inlined
def credit(state: State, node: int) -> int:
    """Return what is owed to a node after the finished rounds, in units of 1/q pulls."""
    return state.nodes[node].quota * state.control[0].rounds - state.nodes[node].offset


@inlined
def true_credit(state: State, node: int) -> int:
    """Return the credit including what `carry` forgave, for reports."""
    control = state.control[0]
    rounds = control.rounds - state.nodes[node].asleep
    return (
        state.nodes[node].initial
        + state.nodes[node].quota * rounds
        - control.unit * state.nodes[node].pulls
    )


@inlined
def is_released(state: State, node: int) -> bool:
    """Return whether a node may be forced in the next round."""
    control = state.control[0]
    owed = credit(state, node)
    if control.plays > 1:
        # With several plays per round, the quota of the current round already counts.
        owed += state.nodes[node].quota
    return owed > control.tolerance * control.unit


@inlined
def release_round(state: State, node: int) -> int:
    """Return the first round in which a node may be forced."""
    control = state.control[0]
    release = 0
    if control.scheduler != LAZY:
        lead = 2 if control.plays == 1 else 1
        allowed = control.tolerance * control.unit + state.nodes[node].offset
        release = allowed // state.nodes[node].quota + lead
    return release


@inlined
def due_round(state: State, node: int, owed: int) -> int:
    """Return the round by which `owed` further pulls of a node must have been made."""
    control = state.control[0]
    needed = (control.tolerance + owed) * control.unit + state.nodes[node].offset
    return -(-needed // state.nodes[node].quota)
