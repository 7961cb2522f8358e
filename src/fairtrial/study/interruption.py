"""Let whoever runs a long read see how far it is, and abandon it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from fairtrial.errors import StorageBusy

__all__ = ["Interruption", "interruptible", "keep_going"]


class Interruption:
    """A wish that a read ends early, and how many events an audit has checked until then.

    Examples
    --------
    >>> wish = Interruption()
    >>> with interruptible(wish):
    ...     keep_going(events=2)
    >>> wish.events
    2
    """

    def __init__(self) -> None:
        self.is_wanted = False
        self.events = 0


_CURRENT: ContextVar[Interruption | None] = ContextVar("interruption", default=None)


@contextmanager
def interruptible(interruption: Interruption) -> Iterator[None]:
    """Let reads within this context end when the interruption is wanted."""
    before = _CURRENT.set(interruption)
    try:
        yield
    finally:
        _CURRENT.reset(before)


def keep_going(events: int | None = None) -> None:
    """Raise if the read that calls this should end; long reads call it every few milliseconds.

    Parameters
    ----------
    events : int, optional
        Number of events checked so far.

    Raises
    ------
    StorageBusy
        If the read is to be abandoned. It can be repeated later.
    """
    current = _CURRENT.get()
    if current is None:
        return
    if events is not None:
        current.events = events
    if current.is_wanted:
        raise StorageBusy("the read was abandoned, because nobody waits for it any more")
