"""Heaps of nodes: one waits by release round, the other is ready and ordered by due round.

A stored release round can be too early, but never too late. It is corrected when it reaches the top
of the heap, so free pulls need no update. Stored due rounds are exact.
"""

from fairtrial.allocation._kernels.credits import due_round, is_released, release_round
from fairtrial.allocation._kernels.model import (
    LAZY,
    NOWHERE,
    Integers,
    State,
    inlined,
    kernel,
)


@kernel
def _before(state: State, left: int, right: int) -> bool:
    key, other = state.nodes[left].key, state.nodes[right].key
    return key < other or (key == other and left < right)


@kernel
def _rise(state: State, heap: Integers, shift: int, place: int) -> None:
    node = heap[place]
    while place > 0:
        above = (place - 1) >> 1
        other = heap[above]
        if not _before(state, node, other):
            break
        heap[place] = other
        state.nodes[other].place = place + shift
        place = above
    heap[place] = node
    state.nodes[node].place = place + shift


@kernel
def _sink(state: State, heap: Integers, shift: int, size: int, place: int) -> None:
    node = heap[place]
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        if below + 1 < size and _before(state, heap[below + 1], heap[below]):
            below += 1
        other = heap[below]
        if not _before(state, other, node):
            break
        heap[place] = other
        state.nodes[other].place = place + shift
        place = below
    heap[place] = node
    state.nodes[node].place = place + shift


@kernel
def _push_release(state: State, node: int, release: int) -> None:
    control = state.control[0]
    state.nodes[node].key = release
    place = control.waiting
    control.waiting += 1
    state.release[place] = node
    _rise(state, state.release, 0, place)


@kernel
def _push_ready(state: State, node: int) -> None:
    control = state.control[0]
    state.nodes[node].key = due_round(state, node, 1)
    place = control.due
    control.due += 1
    state.ready[place] = node
    _rise(state, state.ready, control.nodes, place)


@kernel
def _remove(state: State, heap: Integers, shift: int, size: int, place: int) -> None:
    """Remove the entry at a place of a heap that has `size` entries."""
    last = heap[size - 1]
    state.nodes[heap[place]].place = NOWHERE
    if place < size - 1:
        heap[place] = last
        state.nodes[last].place = place + shift
        _sink(state, heap, shift, size - 1, place)
        _rise(state, heap, shift, state.nodes[last].place - shift)


@kernel
def unready(state: State, node: int, release: int) -> None:
    """Move a node from the ready nodes back to those that wait for their release round."""
    control = state.control[0]
    shift = control.nodes
    _remove(state, state.ready, shift, control.due, state.nodes[node].place - shift)
    control.due -= 1
    _push_release(state, node, release)


@kernel
def _release_all(state: State) -> None:
    control = state.control[0]
    coming = control.rounds + 1
    while control.waiting > 0:
        node = state.release[0]
        if state.nodes[node].key > coming:
            break
        # This comparison uses a product, which is faster than the division for the release round.
        if control.scheduler == LAZY or is_released(state, node):
            _remove(state, state.release, 0, control.waiting, 0)
            control.waiting -= 1
            _push_ready(state, node)
        else:
            state.nodes[node].key = release_round(state, node)
            _sink(state, state.release, 0, control.waiting, 0)


@inlined
def advance(state: State) -> None:
    """Move the nodes that are released in the next round to the ready nodes."""
    control = state.control[0]
    if control.waiting > 0 and state.nodes[state.release[0]].key <= control.rounds + 1:
        _release_all(state)


@kernel
def _settle_ready(state: State, node: int) -> None:
    control = state.control[0]
    release = release_round(state, node)
    if release > control.rounds + 1:
        unready(state, node, release)
    else:
        shift = control.nodes
        state.nodes[node].key = due_round(state, node, 1)
        _sink(state, state.ready, shift, control.due, state.nodes[node].place - shift)
        _rise(state, state.ready, shift, state.nodes[node].place - shift)


@inlined
def settle_later(state: State, node: int) -> None:
    """Restore a node's heap position after its base has grown."""
    if state.nodes[node].place >= state.control[0].nodes:
        _settle_ready(state, node)


@kernel
def settle_earlier(state: State, node: int) -> None:
    """Restore a node's heap position after its base has shrunk."""
    control = state.control[0]
    place = state.nodes[node].place
    if place >= control.nodes:
        _settle_ready(state, node)
    elif place != NOWHERE:
        state.nodes[node].key = release_round(state, node)
        _rise(state, state.release, 0, place)
        _sink(state, state.release, 0, control.waiting, state.nodes[node].place)


@kernel
def rebuild(state: State) -> None:
    """Rebuild the heaps from the credits."""
    control = state.control[0]
    control.waiting = 0
    control.due = 0
    for node in range(control.nodes):
        state.nodes[node].place = NOWHERE
        if state.nodes[node].quota > 0:
            _push_release(state, node, release_round(state, node))
    advance(state)
