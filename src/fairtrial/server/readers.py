"""Reads, by handles of their own: nothing that is read ever keeps a write waiting."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar
from weakref import WeakValueDictionary

from fairtrial.errors import StudyNotFound
from fairtrial.study import Store, Study
from fairtrial.study.opening import Classes, open_study
from fairtrial.study.session import Session

__all__ = ["Readers"]

_Answer = TypeVar("_Answer")

_THREADS = 4
_THREADS_OF_LONG_READS = 2
_THREADS_OF_PAGES = 2
_THREADS_OF_LOOKS = 2


class Readers:
    """Reads studies of one storage, in threads of their own.

    Parameters
    ----------
    stores : sequence of Store
        Handles; each study is read by one of them. The last one is for reads that take long.
    own : tuple of sequences
        Classes of policies and problems of the caller's own.
    most_open : int
        Studies that are kept open.
    """

    def __init__(
        self, stores: Sequence[Store], own: Classes = ((), ()), most_open: int = 1_000
    ) -> None:
        self._stores = tuple(stores)
        self._own = own
        self._most_open = most_open
        self._lock = threading.Lock()
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._threads = ThreadPoolExecutor(_THREADS, "fairtrial-read")
        self._long = ThreadPoolExecutor(_THREADS_OF_LONG_READS, "fairtrial-long-read")
        self._pages = ThreadPoolExecutor(_THREADS_OF_PAGES, "fairtrial-page")
        # Apart, so that no read of a study keeps others from being known, or from writing.
        self._looks = ThreadPoolExecutor(_THREADS_OF_LOOKS, "fairtrial-look")
        self._openings = ThreadPoolExecutor(1, "fairtrial-open")
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def run(self, study: str, operation: Callable[[Study], _Answer]) -> _Answer:
        """Return what an operation that reads a study gives.

        Raises
        ------
        StudyNotFound
            If there is no such study.
        """
        return await self._in(self._threads, lambda: operation(Study(self.session(study))))

    async def run_long(
        self, study: str, operation: Callable[[Study], _Answer], who: str = ""
    ) -> _Answer:
        """Return the same of an operation that may take seconds: one at a time for each `who`.

        Who wants many at once so keeps nobody else waiting for all of them.
        """
        return await self._in_turn(self._long, study, operation, who)

    async def run_page(
        self, study: str, operation: Callable[[Study], _Answer], who: str
    ) -> _Answer:
        """Return the same of one that reads a page of a stream: one at a time for each `who`.

        Whoever reads a stream slowly has a thread only while a page is made, and no page waits for
        a long read.
        """
        return await self._in_turn(self._pages, study, operation, f"page {who}")

    async def _in_turn(
        self,
        threads: ThreadPoolExecutor,
        study: str,
        operation: Callable[[Study], _Answer],
        who: str,
    ) -> _Answer:
        turn = self._turns.setdefault(who, asyncio.Lock())
        await turn.acquire()
        loop = asyncio.get_running_loop()
        try:
            future = threads.submit(lambda: operation(Study(self.session(study))))
        except RuntimeError:
            turn.release()
            raise
        # When it has ended, and not when its caller has gone away: until then a thread is busy.
        future.add_done_callback(lambda _: _in_loop(loop, turn.release))
        return await asyncio.wrap_future(future)

    async def run_opening(self, study: str, operation: Callable[[Study], _Answer]) -> _Answer:
        """Return the same of what a write has to wait for."""
        return await self._in(self._openings, lambda: operation(Study(self.session(study))))

    async def run_apart(self, operation: Callable[[], _Answer]) -> _Answer:
        """Return what an operation gives that may load and compile what a study needs."""
        return await self._in(self._openings, operation)

    async def run_on_store(self, operation: Callable[[Store], _Answer]) -> _Answer:
        """Return what an operation that reads the storage gives."""
        return await self._in(self._looks, lambda: operation(self._stores[0]))

    @staticmethod
    async def _in(threads: ThreadPoolExecutor, operation: Callable[[], _Answer]) -> _Answer:
        return await asyncio.get_running_loop().run_in_executor(threads, operation)

    def session(self, name: str) -> Session:
        """Return a session of a study, to be read by and not to be closed; for any thread.

        Raises
        ------
        StudyNotFound
            If there is no such study.
        """
        with self._lock:
            session = self._sessions.get(name)
            if session is None:
                session = self._sessions[name] = self._opened(name)
                if len(self._sessions) > self._most_open:
                    self._sessions.popitem(last=False)
            self._sessions.move_to_end(name)
            return session

    def _opened(self, name: str) -> Session:
        store = self._stores[hash(name) % len(self._stores)]
        if store.find_study(name) is None:
            raise StudyNotFound(f"there is no study {name!r}")
        return open_study(store, name, self._own, "full")

    def close(self) -> None:
        """End the threads once they are done."""
        self._threads.shutdown(cancel_futures=True)
        self._long.shutdown(cancel_futures=True)
        self._pages.shutdown(cancel_futures=True)
        self._looks.shutdown(cancel_futures=True)
        self._openings.shutdown(cancel_futures=True)
        self._sessions.clear()


def _in_loop(loop: asyncio.AbstractEventLoop, action: Callable[[], object]) -> None:
    """Let a loop do something soon; nothing if it has ended."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(action)
