"""The one thread that writes: a fair, bounded queue, and many writes in each commit."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from fairtrial.errors import ServiceBusy, StorageUnreachable, StudyError, StudyNotFound
from fairtrial.study import Store, Study
from fairtrial.study.group import Action, Group, Outcome
from fairtrial.study.opening import Classes, open_study

__all__ = ["StudyWriter"]

_LOG = logging.getLogger("fairtrial.server")

_Answer = TypeVar("_Answer")

MOST_AT_ONCE = 256


class _Item(NamedTuple):
    study: str | None
    operation: Callable[..., Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]


class StudyWriter:
    """Writes to the studies of one storage, in a thread of its own.

    Parameters
    ----------
    store : Store
        A handle that nobody else writes by.
    own : tuple of sequences
        Classes of policies and problems of the caller's own.
    capacity : int
        Writes that may wait; one study may fill half of it.
    on_commit : callable, optional
        Called in the writer's thread after every commit, with the names of the studies, the
        number of writes, and the seconds that it took.
    most_open : int
        Studies that are kept open, with their policies.
    """

    def __init__(
        self,
        store: Store,
        own: Classes = ((), ()),
        capacity: int = 2_000,
        on_commit: Callable[[Sequence[str], int, float], object] | None = None,
        most_open: int = 1_000,
    ) -> None:
        self._store = store
        self._own = own
        self._capacity = capacity
        self._on_commit = on_commit
        self._most_open = most_open
        self._group = Group(store)
        self._studies: OrderedDict[str, Study] = OrderedDict()
        self._queues: OrderedDict[str, deque[_Item]] = OrderedDict()
        self._waiting = 0
        self._is_closing = False
        self._has_work = threading.Condition()
        self._thread: threading.Thread | None = None

    @property
    def waiting(self) -> int:
        """Number of writes that wait."""
        return self._waiting

    @property
    def accepts(self) -> bool:
        """Whether more writes are taken."""
        return not self._is_closing and self._waiting < self._capacity

    def has_open(self, study: str) -> bool:
        """Return whether a study is open, so that a write to it begins at once."""
        return study in self._studies

    # ------------------------------------------------------------------------- callers

    async def run(self, study: str, operation: Callable[[Study], _Answer]) -> _Answer:
        """Return what an operation on a study gives, once it is committed.

        Raises
        ------
        ServiceBusy
            If the queue is full, or the service is about to end.
        StudyNotFound
            If there is no such study.
        FairtrialError
            What the operation raises; nothing of it is kept then.
        """
        answer: _Answer = await self._put(study, operation)
        return answer

    async def run_on_store(self, operation: Callable[[Store], _Answer]) -> _Answer:
        """Return what an operation on the storage gives, within a transaction, once committed."""
        answer: _Answer = await self._put(None, operation)
        return answer

    async def _put(self, study: str | None, operation: Callable[..., Any]) -> Any:
        loop = asyncio.get_running_loop()
        item = _Item(study, operation, loop, loop.create_future())
        key = "" if study is None else study
        with self._has_work:
            queue = self._queues.setdefault(key, deque())
            if self._is_closing:
                raise ServiceBusy("the service is about to end; try again soon")
            if self._waiting >= self._capacity or len(queue) >= max(self._capacity // 2, 1):
                raise ServiceBusy(f"{self._waiting:,} writes wait already; try again soon")
            # First: where no thread can be started, nothing waits for one.
            self._start()
            queue.append(item)
            self._waiting += 1
            self._has_work.notify()
        return await item.future

    def _start(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._work, name="fairtrial-writer")
            thread.start()
            self._thread = thread

    def close(self) -> None:
        """Write all that waits, then end; nothing more is accepted."""
        with self._has_work:
            self._is_closing = True
            self._has_work.notify()
            thread = self._thread
        if thread is not None:
            thread.join()
        if self._is_reachable():
            for study in self._studies.values():
                study.close()
        self._studies.clear()

    def _is_reachable(self) -> bool:
        """Return whether the storage can be used: each snapshot would be waited for in vain."""
        try:
            self._store.find_study("")
        except StudyError:
            return False
        return True

    # --------------------------------------------------------------------- the thread

    def _work(self) -> None:
        while items := self._next():
            self._carry_out(items)

    def _next(self) -> list[_Item]:
        """Wait for work; return one item of every study in turn, until there are enough."""
        with self._has_work:
            while not self._waiting and not self._is_closing:
                self._has_work.wait()
            taken: list[_Item] = []
            while self._queues and len(taken) < MOST_AT_ONCE:
                key, queue = self._queues.popitem(last=False)
                if queue:
                    taken.append(queue.popleft())
                    self._waiting -= 1
                if queue:
                    # Behind all others: no study keeps another one waiting.
                    self._queues[key] = queue
            return taken

    def _carry_out(self, items: Sequence[_Item]) -> None:
        # Whoever has gone away before their turn wants nothing written.
        wanted = [item for item in items if not item.future.cancelled()]
        begin = time.perf_counter()
        answers = self._answers(wanted)
        seconds = time.perf_counter() - begin
        for loop in {item.loop for item in wanted}:
            told = [
                (item.future, outcome)
                for item, outcome in zip(wanted, answers, strict=True)
                if item.loop is loop
            ]
            # Nobody waits any more where the loop is closed.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_settle, told)
        self._tidy(wanted, seconds)

    def _tidy(self, wanted: Sequence[_Item], seconds: float) -> None:
        """Do what nobody waits for; whatever happens here, the thread goes on."""
        try:
            self._group.save_snapshots()
            self._forget()
            self._tell_others(wanted, seconds)
        except Exception:  # noqa: BLE001 - it is logged
            _LOG.exception("the writer could not tidy up after a commit")

    def _tell_others(self, wanted: Sequence[_Item], seconds: float) -> None:
        if self._on_commit is not None and wanted:
            names = list({item.study for item in wanted if item.study is not None})
            self._on_commit(names, len(wanted), seconds)

    def _forget(self) -> None:
        """Close studies that were not written for long."""
        while len(self._studies) > self._most_open:
            _, study = self._studies.popitem(last=False)
            study.close()

    def _answers(self, items: Sequence[_Item]) -> list[Outcome]:
        found: dict[int, Outcome] = {}
        actions: dict[int, Action] = {}
        lost: StorageUnreachable | None = None
        for place, item in enumerate(items):
            if lost is not None:
                # One has waited for the storage in vain, on behalf of all.
                found[place] = Outcome(error=lost)
                continue
            try:
                actions[place] = self._action(item)
            except StorageUnreachable as error:
                lost = error
                found[place] = Outcome(error=error)
            except Exception as error:  # noqa: BLE001 - it is the answer
                found[place] = Outcome(error=error)
        if actions:
            found |= zip(actions, self._group.carry_out(list(actions.values())), strict=True)
        return [found[place] for place in range(len(items))]

    def _action(self, item: _Item) -> Action:
        if item.study is None:
            return Action(None, lambda: item.operation(self._store))
        study, session = self._opened(item.study)
        return Action(session, lambda: item.operation(study))

    def _opened(self, name: str) -> tuple[Study, Any]:
        study = self._studies.get(name)
        if study is None:
            if self._store.find_study(name) is None:
                raise StudyNotFound(f"there is no study {name!r}")
            session = open_study(self._store, name, self._own, "full")
            session.committer = self._group
            session.catch_up()
            study = self._studies[name] = Study(session)
        self._studies.move_to_end(name)
        return study, study.session


def _settle(told: Sequence[tuple[asyncio.Future[Any], Outcome]]) -> None:
    for future, outcome in told:
        if future.done():
            continue
        if outcome.error is None:
            future.set_result(outcome.answer)
        else:
            future.set_exception(outcome.error)
