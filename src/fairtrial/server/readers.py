"""Read studies through separate handles, so that reads never delay writes."""

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
        Handles of the storage; each study is read through one of them.
    own : tuple of sequences
        The caller's own classes of policies and problems.
    most_open : int
        Largest number of studies kept open.
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
        # Separate threads, so that reading studies delays neither authentication nor writes.
        self._looks = ThreadPoolExecutor(_THREADS_OF_LOOKS, "fairtrial-look")
        self._openings = ThreadPoolExecutor(1, "fairtrial-open")
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def run(self, study: str, operation: Callable[[Study], _Answer]) -> _Answer:
        """Run an operation that reads a study, and return its result.

        Raises
        ------
        StudyNotFound
            If there is no such study.
        """
        return await self._in(self._threads, lambda: operation(Study(self.session(study))))

    async def run_long(
        self, study: str, operation: Callable[[Study], _Answer], who: str = ""
    ) -> _Answer:
        """Run an operation that can take seconds; only one at a time for each `who`.

        A caller who sends many such requests therefore does not block the others.
        """
        return await self._in_turn(self._long, study, operation, who)

    async def run_page(
        self, study: str, operation: Callable[[Study], _Answer], who: str
    ) -> _Answer:
        """Run an operation that reads a page of a stream; only one at a time for each `who`.

        A slow reader of a stream only occupies a thread while a page is made, and no page waits
        for a long read.
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
        # Released when the operation ends, even if its caller has gone, as it uses a thread.
        future.add_done_callback(lambda _: _in_loop(loop, turn.release))
        return await asyncio.wrap_future(future)

    async def run_opening(self, study: str, operation: Callable[[Study], _Answer]) -> _Answer:
        """Run an operation that a write is waiting for."""
        return await self._in(self._openings, lambda: operation(Study(self.session(study))))

    async def run_apart(self, operation: Callable[[], _Answer]) -> _Answer:
        """Run an operation that may load and compile what a study needs."""
        return await self._in(self._openings, operation)

    async def run_on_store(self, operation: Callable[[Store], _Answer]) -> _Answer:
        """Run an operation that reads the storage, and return its result."""
        return await self._in(self._looks, lambda: operation(self._stores[0]))

    @staticmethod
    async def _in(threads: ThreadPoolExecutor, operation: Callable[[], _Answer]) -> _Answer:
        return await asyncio.get_running_loop().run_in_executor(threads, operation)

    def session(self, name: str) -> Session:
        """Return a session of a study, to read from any thread; the caller must not close it.

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
        """End the threads once their current operations are done."""
        self._threads.shutdown(cancel_futures=True)
        self._long.shutdown(cancel_futures=True)
        self._pages.shutdown(cancel_futures=True)
        self._looks.shutdown(cancel_futures=True)
        self._openings.shutdown(cancel_futures=True)
        self._sessions.clear()


def _in_loop(loop: asyncio.AbstractEventLoop, action: Callable[[], object]) -> None:
    """Schedule an action in a loop; do nothing if the loop has ended."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(action)
