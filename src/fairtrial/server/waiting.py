"""Let requests wait for events, and wake them when the storage changes."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Sequence

from fairtrial.errors import StudyError
from fairtrial.server.problems import Refusal
from fairtrial.study import Store
from fairtrial.study.store import StudyRow

__all__ = ["EventWaiters"]

_LOOK_EVERY = 1.0
"""Seconds after which the watching thread checks whether any request still waits."""


_MOST_WAITS = 200
"""Largest number of waiting requests for each token."""

_StudyOfLoop = tuple[asyncio.AbstractEventLoop, str]
_Look = asyncio.Future[StudyRow | None]


class EventWaiters:
    """Wakes requests when a study has events that they have not seen.

    The writer reports writes of this process. A thread watches the storage for writes of other
    processes, as long as any request waits.

    Parameters
    ----------
    store : Store
        A handle of the storage, used only for waiting.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Condition(threading.RLock())
        self._waiters: dict[str, set[tuple[asyncio.AbstractEventLoop, asyncio.Event]]] = {}
        self._waits: Counter[str] = Counter()
        self._looks: dict[_StudyOfLoop, _Look] = {}
        self._seen: object = None
        self._heads: dict[str, StudyRow | None] = {}
        self._is_closed = False
        self._thread: threading.Thread | None = None

    async def wait(self, study: str, head: int, seconds: float, who: str) -> None:
        """Wait until a study has more events than `head`, for at most that many seconds.

        Raises
        ------
        Refusal
            429 if too many requests of the caller wait already, because each event wakes them all.
        """
        if self._waits[who] >= _MOST_WAITS:
            text = f"{_MOST_WAITS} requests of this token wait already"
            raise Refusal(429, "service-busy", text, headers={"Retry-After": "5"}, reason="rate")
        self._waits[who] += 1
        try:
            await self._wait(study, head, seconds)
        finally:
            self._waits[who] -= 1
            if not self._waits[who]:
                del self._waits[who]

    async def _wait(self, study: str, head: int, seconds: float) -> None:
        loop, event = asyncio.get_running_loop(), asyncio.Event()
        waiter = loop, event
        with self._lock:
            self._waiters.setdefault(study, set()).add(waiter)
            self._start()
            self._lock.notify()
        # A look that began earlier may have missed the latest events.
        self._looks.pop((loop, study), None)
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
        """Return the present number of events; requests woken together share one look."""
        place = asyncio.get_running_loop(), study
        look = self._looks.get(place)
        if look is None:
            look = asyncio.ensure_future(asyncio.to_thread(self._store.find_study, study))
            self._looks[place] = look
            look.add_done_callback(lambda _: self._forget_look(place, look))
        found = await asyncio.shield(look)
        return 0 if found is None else found.head_seq

    def _forget_look(self, place: _StudyOfLoop, look: _Look) -> None:
        if not look.cancelled():
            look.exception()  # Otherwise asyncio logs an error if all who waited have left.
        if self._looks.get(place) is look:
            del self._looks[place]

    def changed(self, studies: Sequence[str]) -> None:
        """Wake the requests that wait for these studies, which have been written."""
        with self._lock:
            for study in studies:
                woken: dict[asyncio.AbstractEventLoop, list[asyncio.Event]] = {}
                for loop, event in self._waiters.get(study, ()):
                    woken.setdefault(loop, []).append(event)
                for loop, events in woken.items():
                    loop.call_soon_threadsafe(self._wake, (loop, study), events)

    def _wake(self, place: _StudyOfLoop, events: Sequence[asyncio.Event]) -> None:
        # A look that has already begun may have missed this change.
        self._looks.pop(place, None)
        for event in events:
            event.set()

    def close(self) -> None:
        """Wake all requests for good."""
        with self._lock:
            self._is_closed = True
            self.changed(list(self._waiters))
            self._lock.notify()
        if self._thread is not None:
            self._thread.join()

    def _start(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._watch, name="fairtrial-watch", daemon=True)
            thread.start()
            self._thread = thread

    def _watch(self) -> None:
        """Wake waiting requests whenever the storage may have changed."""
        while True:
            with self._lock:
                while not self._waiters and not self._is_closed:
                    self._lock.wait()
                if self._is_closed:
                    return
            self._look()

    def _moved(self) -> list[str]:
        """Return the awaited studies that were written since the last look."""
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
            # The storage cannot be reached; the waiting requests find out when they look.
            time.sleep(_LOOK_EVERY)
            return
        self._seen = now
        self.changed(moved)
