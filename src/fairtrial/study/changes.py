"""Notify about writes to a store without polling by each caller."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fairtrial.errors import StudyError
from fairtrial.study.store import Store

__all__ = ["told_of_changes"]

_LONGEST_WAIT = 1.0
"""Seconds after which the thread checks whether it is still needed."""


@contextmanager
def told_of_changes(store: Store, changed: Callable[[], None]) -> Iterator[None]:
    """Call a function, in a thread of its own, after any process has written to the store.

    One call can stand for several writes in quick succession. While the store is unreachable there
    are no calls; afterwards there is one, because something may have changed.

    Parameters
    ----------
    store : Store
        The store, watched as long as the context lasts.
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
        # The thread is not joined: it uses the store a moment longer and handles its own errors.
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
