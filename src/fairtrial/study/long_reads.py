"""Let whoever runs a long read see how far it is, and abandon it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from fairtrial.errors import StorageBusy

__all__ = ["LongRead", "interruptible", "keep_going"]


class LongRead:
    """Whether a read is abandoned, and how many events an audit has checked until then.

    Examples
    --------
    >>> long_read = LongRead()
    >>> with interruptible(long_read):
    ...     keep_going(events=2)
    >>> long_read.events
    2
    """

    def __init__(self) -> None:
        self.is_abandoned = False
        self.events = 0


_CURRENT: ContextVar[LongRead | None] = ContextVar("long read", default=None)


@contextmanager
def interruptible(long_read: LongRead) -> Iterator[None]:
    """Let reads within this context end when the long read is abandoned."""
    before = _CURRENT.set(long_read)
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
    if current.is_abandoned:
        raise StorageBusy("the read was abandoned, because nobody waits for it any more")
