"""Being told that somebody has written to a store, without asking again and again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fairtrial.errors import StudyError
from fairtrial.study.store import Store

__all__ = ["told_of_changes"]

_LONGEST_WAIT = 1.0
"""Seconds after which the thread looks whether it is still wanted."""


@contextmanager
def told_of_changes(store: Store, changed: Callable[[], None]) -> Iterator[None]:
    """Have a function called, in a thread of its own, after writes of anybody to the store.

    Writes that come close together may be told of once. While the store is not reached nothing
    is told, and afterwards it is told that something may have changed.

    Parameters
    ----------
    store : Store
        What is watched as long as the context lasts.
    changed : callable
        Called without arguments.
    """
    over = threading.Event()
    thread = threading.Thread(
        target=_watch, args=(store, changed, over), name="fairtrial-changes", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        # Not waited for: it uses the store for a moment more, and its errors are its own.
        over.set()


def _watch(store: Store, changed: Callable[[], None], over: threading.Event) -> None:
    seen: object = None
    while not over.is_set():
        try:
            now = store.changes()
            if now == seen:
                store.await_change(seen, _LONGEST_WAIT)
                continue
        except StudyError:
            time.sleep(_LONGEST_WAIT)
            continue
        seen = now
        changed()
