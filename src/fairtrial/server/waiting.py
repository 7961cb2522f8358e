"""Requests that wait for an event, woken by the storage."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence

from fairtrial.errors import StudyError
from fairtrial.study import Store
from fairtrial.study.store import StudyRow

__all__ = ["Heads"]

_LOOK_EVERY = 1.0
"""Seconds after which the thread that waits looks whether anybody still does."""


class Heads:
    """Wakes requests when a study has events that they have not seen.

    Writes of this process are told by its writer. Those of others are found by a thread that
    waits for the storage, as long as there is anybody to be woken.

    Parameters
    ----------
    store : Store
        A handle to wait by.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Condition(threading.RLock())
        self._waiters: dict[str, set[tuple[asyncio.AbstractEventLoop, asyncio.Event]]] = {}
        self._seen: object = None
        self._heads: dict[str, StudyRow | None] = {}
        self._is_closed = False
        self._thread: threading.Thread | None = None

    async def wait(self, study: str, head: int, seconds: float) -> None:
        """Wait until a study has more events than `head`, or for so many seconds."""
        loop, event = asyncio.get_running_loop(), asyncio.Event()
        waiter = loop, event
        with self._lock:
            self._waiters.setdefault(study, set()).add(waiter)
            self._start()
            self._lock.notify()
        try:
            async with asyncio.timeout(seconds):
                while not self._is_closed and await self._head(study) <= head:
                    await event.wait()
                    event.clear()
        except TimeoutError:
            pass
        finally:
            with self._lock:
                waiters = self._waiters[study]
                waiters.discard(waiter)
                if not waiters:
                    del self._waiters[study]

    async def _head(self, study: str) -> int:
        found = await asyncio.to_thread(self._store.find_study, study)
        return 0 if found is None else found.head_seq

    def changed(self, studies: Sequence[str]) -> None:
        """Take note that these studies were written."""
        with self._lock:
            for study in studies:
                for loop, event in self._waiters.get(study, ()):
                    loop.call_soon_threadsafe(event.set)

    def close(self) -> None:
        """Wake everybody for good."""
        with self._lock:
            self._is_closed = True
            self.changed(list(self._waiters))
            self._lock.notify()
        if self._thread is not None:
            self._thread.join()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="fairtrial-watch", daemon=True)
            self._thread.start()

    def _watch(self) -> None:
        """Wake all who wait whenever the storage may have changed."""
        while True:
            with self._lock:
                while not self._waiters and not self._is_closed:
                    self._lock.wait()
                if self._is_closed:
                    return
            self._look()

    def _moved(self) -> list[str]:
        """Return the studies that were written since the last look: others wake nobody."""
        heads = {study: self._store.find_study(study) for study in list(self._waiters)}
        moved = [study for study, head in heads.items() if head != self._heads.get(study)]
        self._heads = heads
        return moved

    def _look(self) -> None:
        try:
            now = self._store.changes()
            if now == self._seen:
                self._store.await_change(now, _LOOK_EVERY)
                return
            moved = self._moved()
        except StudyError:
            # The storage is not reached; whoever waits hears of it when they look.
            time.sleep(_LOOK_EVERY)
            return
        self._seen = now
        self.changed(moved)
