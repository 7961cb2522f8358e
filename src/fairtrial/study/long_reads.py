"""Let whoever runs a long read see how far it is, and abandon it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from fairtrial.errors import StorageBusy

__all__ = ["LongRead", "interruptible", "keep_going"]

_LONGEST_REST = 0.1
"""Seconds: the first piece of work may follow a wait."""


class LongRead:
    """Whether a read is abandoned, and how many events an audit has checked until then.

    Parameters
    ----------
    gives_way : bool
        Whether the read works at most half of the time, so that other threads get their turn.

    Examples
    --------
    >>> long_read = LongRead()
    >>> with interruptible(long_read):
    ...     keep_going(events=2)
    >>> long_read.events
    2
    """

    def __init__(self, *, gives_way: bool = False) -> None:
        self.is_abandoned = False
        self.events = 0
        self._gives_way = gives_way
        self._worked_since = time.monotonic()

    def rest(self) -> None:
        """Sleep for as long as the read has worked since it last slept, if it gives way."""
        if self._gives_way:
            time.sleep(min(time.monotonic() - self._worked_since, _LONGEST_REST))
            self._worked_since = time.monotonic()


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
    current.rest()
    if current.is_abandoned:
        raise StorageBusy("the read was abandoned, because nobody waits for it any more")
