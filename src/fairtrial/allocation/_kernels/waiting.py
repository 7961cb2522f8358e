"""Nodes waiting in a heap by release round, and then in a heap by due round.

A stored release round may be too early, never too late: it is repaired when it surfaces, so that
a free pull costs nothing. Stored due rounds are exact.
"""

from fairtrial.allocation._kernels.credits import due_round, is_released, release_round
from fairtrial.allocation._kernels.model import (
    KEY,
    LAZY,
    N_READY,
    N_RELEASE,
    NODES,
    NOWHERE,
    PLACE,
    QUOTA,
    READY,
    RELEASE,
    ROUND,
    SCHEDULER,
    Integers,
    inlined,
    kernel,
    live,
)


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
def _push_release(control: Integers, book: Integers, node: int, release: int) -> None:
    book[KEY, node] = release
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
def unready(control: Integers, book: Integers, node: int, release: int) -> None:
    """Let a node that was ready wait for its release round again."""
    shift = control[NODES]
    _remove(book, READY, shift, control[N_READY], book[PLACE, node] - shift)
    control[N_READY] -= 1
    _push_release(control, book, node, release)


@kernel
def _release_all(control: Integers, book: Integers) -> None:
    coming = control[ROUND] + 1
    while control[N_RELEASE] > 0:
        node = book[RELEASE, 0]
        if book[KEY, node] > coming:
            break
        # A product tells it sooner than the quotient that the release round is.
        if control[SCHEDULER] == LAZY or is_released(control, book, node):
            _remove(book, RELEASE, 0, control[N_RELEASE], 0)
            control[N_RELEASE] -= 1
            _push_ready(control, book, node)
        else:
            book[KEY, node] = release_round(control, book, node)
            _sink(book, RELEASE, 0, control[N_RELEASE], 0)


@inlined
def advance(control: Integers, book: Integers) -> None:
    """Move to the ready nodes what is released in the next round."""
    if control[N_RELEASE] > 0 and book[KEY, book[RELEASE, 0]] <= control[ROUND] + 1:
        _release_all(control, book)


@kernel
def _settle_ready(control: Integers, book: Integers, node: int) -> None:
    release = release_round(control, book, node)
    if release > control[ROUND] + 1:
        unready(control, book, node, release)
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


@live
def rebuild(control: Integers, book: Integers) -> None:
    """Rebuild the heaps from the credits."""
    control[N_RELEASE] = 0
    control[N_READY] = 0
    for node in range(control[NODES]):
        book[PLACE, node] = NOWHERE
        if book[QUOTA, node] > 0:
            _push_release(control, book, node, release_round(control, book, node))
    advance(control, book)
