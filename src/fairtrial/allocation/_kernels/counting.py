"""Counting of pulls when they are issued, and its reversal when they are voided."""

from fairtrial.allocation._kernels.credits import credit, true_credit
from fairtrial.allocation._kernels.model import (
    NOWHERE,
    State,
    inlined,
    kernel,
)
from fairtrial.allocation._kernels.waiting import advance, settle_earlier, settle_later


@kernel
def _forget_surplus(state: State, node: int) -> None:
    """Reduce a node's lead at the end of the round to what `carry` allows."""
    control = state.control[0]
    after = state.nodes[node].quota * (control.rounds + 1)
    beyond = state.nodes[node].offset - after - control.carry * control.unit
    if beyond > 0:
        state.nodes[node].offset -= beyond


@inlined
def _count_node(state: State, node: int, free: bool) -> None:
    # Only a pull lowers a credit, so a credit is largest just before a pull.
    control = state.control[0]
    control.worst = max(control.worst, true_credit(state, node))
    state.nodes[node].pulls += 1
    state.nodes[node].offset += control.unit
    if free and control.carry >= 0:
        _forget_surplus(state, node)


@inlined
def _count_gap(state: State, arm: int) -> None:
    control = state.control[0]
    now = control.issued + 1
    if control.plays > 1:
        now = control.issued // control.plays + 1
    state.nodes[arm].longest_gap = max(
        state.nodes[arm].longest_gap, now - state.nodes[arm].last_round
    )
    state.nodes[arm].last_round = now


@kernel
def _age_queues(state: State) -> None:
    for arm in range(state.control[0].arms):
        state.nodes[arm].queue = max(0, state.nodes[arm].queue + state.nodes[arm].quota)


@kernel
def _let_sleep(state: State) -> None:
    """Give sleeping arms no credit for the round."""
    control = state.control[0]
    for arm in range(control.arms):
        if not state.allowed[arm]:
            state.nodes[arm].asleep += 1
            if state.nodes[arm].quota > 0:
                state.nodes[arm].offset += state.nodes[arm].quota
                settle_later(state, arm)
    control.has_slept = 1
    control.free_until = control.rounds
    control.tight_until = control.rounds


@kernel
def _count_rest(state: State, arm: int, group: int, sleeping: bool) -> None:
    """Update groups, queues and sleeping arms, which only some problems and policies have."""
    control = state.control[0]
    if group != NOWHERE:
        settle_later(state, group)
    if control.has_queues:
        state.nodes[arm].queue -= control.unit
        if control.plays_done == 0:
            _age_queues(state)
    if sleeping:
        _let_sleep(state)


@kernel
def _note_overdue(state: State) -> None:
    """Count the round if a node is overdue; credit that `carry` forgave counts as owed."""
    control = state.control[0]
    limit = control.tolerance + 1
    overdue = control.carry < 0
    for node in range(control.nodes):
        overdue = overdue or true_credit(state, node) // control.unit >= limit
    control.overdue += 1 if overdue else 0


@inlined
def count_pull(state: State, arm: int, free: bool, sleeping: bool) -> None:
    """Count the pull of an arm; close the round if it was the round's last pull."""
    control = state.control[0]
    group = state.nodes[arm].group
    _count_node(state, arm, free)
    if group != NOWHERE:
        _count_node(state, group, free)
    _count_gap(state, arm)
    control.forced += 0 if free else 1
    control.issued += 1
    state.nodes[arm].taken_in = control.rounds + 1
    control.plays_done += 1
    closes = control.plays_done == control.plays
    if closes:
        control.plays_done = 0
        control.rounds += 1
    if free and control.carry >= 0:
        # Forgetting surplus also removes credit lost to failed rounds, so a base can shrink.
        settle_earlier(state, arm)
    else:
        settle_later(state, arm)
    if sleeping or control.has_queues or group != NOWHERE:
        _count_rest(state, arm, group, sleeping)
    if closes:
        advance(state)
        if control.due > 0 and state.nodes[state.ready[0]].key <= control.rounds:
            _note_overdue(state)


@kernel
def _take_back_round(state: State, arm: int) -> None:
    """Remove the round of a failed pull; only for its own arm if other arms share the round."""
    control = state.control[0]
    if control.plays == 1 and not control.has_slept:
        control.rounds -= 1
        if control.has_queues:
            for other in range(control.arms):
                state.nodes[other].queue = max(
                    0, state.nodes[other].queue - state.nodes[other].quota
                )
    else:
        state.nodes[arm].asleep += 1
        state.nodes[arm].offset += state.nodes[arm].quota


@kernel
def _forgive_once(state: State, arm: int) -> None:
    """Owe nothing for a failed pull if `carry` has already forgotten the lead it gave."""
    control = state.control[0]
    most = max(control.tolerance * control.unit, true_credit(state, arm))
    beyond = credit(state, arm) - most
    if beyond > 0:
        state.nodes[arm].offset += beyond


@kernel
def _settle_raised(state: State, arm: int) -> None:
    """Restore the heap positions of an arm and its group after their credits have risen."""
    control = state.control[0]
    group = state.nodes[arm].group
    # Keeping the queue at or above the credit preserves the share in the long run.
    state.nodes[arm].queue = max(state.nodes[arm].queue, true_credit(state, arm))
    if control.carry >= 0:
        _forgive_once(state, arm)
    control.free_until = control.rounds
    control.tight_until = control.rounds
    settle_earlier(state, arm)
    if group != NOWHERE:
        settle_earlier(state, group)
    advance(state)


@kernel
def void_pull(state: State, arm: int) -> None:
    """Take back the pull of an arm and its round."""
    # Removing the round lowers other credits; their recorded maximum is kept.
    control = state.control[0]
    control.worst = worst_credit(state)
    group = state.nodes[arm].group
    state.nodes[arm].pulls -= 1
    state.nodes[arm].offset -= control.unit
    if group != NOWHERE:
        state.nodes[group].pulls -= 1
        state.nodes[group].offset -= control.unit
    control.opening_arm = 0
    _take_back_round(state, arm)
    _settle_raised(state, arm)


@kernel
def _raise_initial(state: State, node: int) -> None:
    control = state.control[0]
    more = min(
        control.unit,
        control.tolerance * control.unit - state.nodes[node].initial,
    )
    if control.plays > 1:
        more -= more % max(1, state.nodes[node].quota)
    state.nodes[node].initial += more
    state.nodes[node].offset -= more


@kernel
def begin_with_one_more(state: State, arm: int) -> None:
    """Add a failed pull to the initial credit of an arm and its group.

    Initial credits never exceed the tolerance, so the guarantee of an epoch does not change.
    """
    _raise_initial(state, arm)
    if state.nodes[arm].group != NOWHERE:
        _raise_initial(state, state.nodes[arm].group)
    _settle_raised(state, arm)


@kernel
def worst_credit(state: State) -> int:
    """Return the largest credit that any node has had at the end of any round."""
    control = state.control[0]
    worst = control.worst
    for node in range(control.nodes):
        worst = max(worst, true_credit(state, node))
    return worst
