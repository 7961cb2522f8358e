"""Read studies through separate handles, so that reads never delay writes."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from fairtrial.errors import ServiceBusy, StudyNotFound
from fairtrial.study import Store, Study
from fairtrial.study.long_reads import LongRead, interruptible, keep_going
from fairtrial.study.opening import Classes, open_study
from fairtrial.study.session import Session

__all__ = ["Readers"]

_Answer = TypeVar("_Answer")

_THREADS = 4
_THREADS_OF_LONG_READS = 2
_THREADS_OF_PAGES = 2
_THREADS_OF_TOKENS = 2
_LAST_SECONDS = 5.0
"""How long reads that were told to end may take for it; they see it every few milliseconds."""
_AT_ONCE = 2
"""Number of short reads that run at a time for each caller."""


class Readers:
    """Reads studies of one storage, in threads of their own.

    Every caller has few reads at a time, so nobody makes the others wait by sending many. Whoever
    is looked up, and whether the storage answers, waits for no read of a study.

    Parameters
    ----------
    stores : sequence of Store
        Handles of the storage; each study is read through one of them.
    own : tuple of sequences
        The caller's own classes of policies and problems.
    most_open : int
        Largest number of studies kept open.
    access : Store, optional
        A handle for tokens and for the state of the storage; by default the first of `stores`.
    """

    def __init__(
        self,
        stores: Sequence[Store],
        own: Classes = ((), ()),
        most_open: int = 1_000,
        access: Store | None = None,
    ) -> None:
        self._stores = tuple(stores)
        self._access = access or self._stores[0]
        self._own = own
        self._most_open = most_open
        self._lock = threading.Lock()
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._threads = ThreadPoolExecutor(_THREADS, "fairtrial-read")
        self._long = ThreadPoolExecutor(_THREADS_OF_LONG_READS, "fairtrial-long-read")
        self._audits = ThreadPoolExecutor(1, "fairtrial-audit")
        self._pages = ThreadPoolExecutor(_THREADS_OF_PAGES, "fairtrial-page")
        self._tokens = ThreadPoolExecutor(_THREADS_OF_TOKENS, "fairtrial-token")
        self._health = ThreadPoolExecutor(1, "fairtrial-health")
        self._openings = ThreadPoolExecutor(1, "fairtrial-open")
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._running: dict[LongRead, ThreadPoolExecutor] = {}
        self._is_ending = False

    async def run(
        self, study: str, operation: Callable[[Study], _Answer], who: str = ""
    ) -> _Answer:
        """Run an operation that reads a study, and return its result.

        Only a few of them run at a time for each `who`.

        Raises
        ------
        StudyNotFound
            If there is no such study.
        """
        return await self._in_turn(
            self._threads, lambda: operation(Study(self.session(study))), f"read {who}", _AT_ONCE
        )

    async def run_listing(self, operation: Callable[[Store], _Answer], who: str) -> _Answer:
        """Run an operation that lists studies, in the turn of `run`."""
        return await self._in_turn(
            self._threads, lambda: operation(self._stores[0]), f"read {who}", _AT_ONCE
        )

    async def run_long(
        self,
        study: str,
        operation: Callable[[Study], _Answer],
        who: str = "",
        long_read: LongRead | None = None,
    ) -> _Answer:
        """Run an operation that can take seconds; only one at a time for each `who`.

        A caller who sends many such requests therefore does not block the others. It ends early
        if nobody waits for it any more, or when the long read is abandoned.
        """
        return await self._in_turn(
            self._long,
            lambda: operation(Study(self.session(study))),
            f"long {who}",
            long_read=long_read,
        )

    async def run_audit(
        self, study: str, operation: Callable[[Study], _Answer], long_read: LongRead
    ) -> _Answer:
        """Run an audit of a log; only one at a time, in a thread of its own."""
        return await self._in(
            self._audits, lambda: operation(Study(self.session(study))), long_read
        )

    async def run_page(
        self, study: str, operation: Callable[[Study], _Answer], who: str
    ) -> _Answer:
        """Run an operation that reads a page of a stream; only one at a time for each `who`.

        A slow reader of a stream only occupies a thread while a page is made, and no page waits
        for a long read.
        """
        return await self._in_turn(
            self._pages, lambda: operation(Study(self.session(study))), f"page {who}"
        )

    async def _in_turn(
        self,
        threads: ThreadPoolExecutor,
        operation: Callable[[], _Answer],
        who: str,
        most: int = 1,
        long_read: LongRead | None = None,
    ) -> _Answer:
        turn = self._turns.get(who)
        if turn is None:
            turn = self._turns[who] = asyncio.Semaphore(most)
        await turn.acquire()
        return await self._in(threads, operation, long_read, turn.release)

    async def _in(
        self,
        threads: ThreadPoolExecutor,
        operation: Callable[[], _Answer],
        long_read: LongRead | None = None,
        ended: Callable[[], object] = lambda: None,
    ) -> _Answer:
        """Run an operation in a thread; call `ended` in the loop once it has left the thread."""
        long_read, loop = long_read or LongRead(), asyncio.get_running_loop()

        def work() -> _Answer:
            self._running[long_read] = threads
            try:
                if self._is_ending and self._takes_long(threads):
                    raise ServiceBusy("the service is shutting down; try again soon")
                with interruptible(long_read):
                    keep_going()
                    return operation()
            finally:
                self._running.pop(long_read, None)
                _in_loop(loop, ended)

        try:
            future = loop.run_in_executor(threads, work)
        except BaseException:
            ended()
            raise
        try:
            # It always runs, so that it gives its turn to others, but then it ends soon.
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            long_read.is_abandoned = True
            # Nobody is left to receive an error, and asyncio would log it as one never looked at.
            future.add_done_callback(_look_at_error)
            raise

    def _takes_long(self, threads: ThreadPoolExecutor) -> bool:
        return threads in (self._long, self._audits, self._pages)

    async def run_opening(self, study: str, operation: Callable[[Study], _Answer]) -> _Answer:
        """Run an operation that a write is waiting for."""
        return await self._in(self._openings, lambda: operation(Study(self.session(study))))

    async def run_apart(self, operation: Callable[[], _Answer]) -> _Answer:
        """Run an operation that may load and compile what a study needs."""
        return await self._in(self._openings, operation)

    async def run_on_store(self, operation: Callable[[Store], _Answer]) -> _Answer:
        """Run an operation that looks up a token; it waits for no other read."""
        return await self._in(self._tokens, lambda: operation(self._access))

    async def run_on_health(self, operation: Callable[[Store], _Answer]) -> _Answer:
        """Run an operation that tries whether the storage answers; it waits for no other read."""
        return await self._in(self._health, lambda: operation(self._access))

    def session(self, name: str) -> Session:
        """Return a session of a study, to read from any thread; the caller must not close it.

        Raises
        ------
        StudyNotFound
            If there is no such study.
        """
        with self._lock:
            session = self._sessions.get(name)
            if session is not None:
                self._sessions.move_to_end(name)
                return session
        # Not under the lock: opening takes a while, and nobody else has to wait for it.
        opened = self._opened(name)
        with self._lock:
            session = self._sessions.setdefault(name, opened)
            if len(self._sessions) > self._most_open:
                self._sessions.popitem(last=False)
            return session

    def _opened(self, name: str) -> Session:
        store = self._stores[hash(name) % len(self._stores)]
        if store.find_study(name) is None:
            raise StudyNotFound(f"there is no study {name!r}")
        return open_study(store, name, self._own, "full")

    def end(self) -> None:
        """Accept no more long reads, and let those that run end soon."""
        self._is_ending = True
        for long_read, threads in list(self._running.items()):
            long_read.is_abandoned = long_read.is_abandoned or self._takes_long(threads)

    @property
    def is_busy(self) -> bool:
        """Whether any read still runs."""
        return bool(self._running)

    def close(self) -> None:
        """End the threads, once the reads that run have ended or a few seconds are over."""
        self.end()
        for long_read in list(self._running):
            long_read.is_abandoned = True
        pools = (
            *(self._threads, self._long, self._audits, self._pages),
            *(self._tokens, self._health, self._openings),
        )
        for threads in pools:
            threads.shutdown(wait=False, cancel_futures=True)
        deadline = time.monotonic() + _LAST_SECONDS
        while self.is_busy and time.monotonic() < deadline:
            time.sleep(0.01)
        self._sessions.clear()


def _look_at_error(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()


def _in_loop(loop: asyncio.AbstractEventLoop, action: Callable[[], object]) -> None:
    """Schedule an action in a loop; do nothing if the loop has ended."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(action)
