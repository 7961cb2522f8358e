"""Write in a single thread, with a fair, bounded queue and many writes in each commit."""

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
from fairtrial.study.store import RowLocked

__all__ = ["StudyWriter"]

_LOG = logging.getLogger("fairtrial.server")

_Answer = TypeVar("_Answer")

MOST_IN_COMMIT = 256
"""Most writes that are committed together."""

_LOCK_PATIENCE = 0.1
"""Seconds that all studies wait when another process has locked one of them."""
_BETWEEN_TRIES = 0.05
"""Seconds after which a study that was locked is tried again, without waiting for its lock."""
_NO_PATIENCE = 0.001


class _Item(NamedTuple):
    study: str | None
    operation: Callable[..., Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    since: float
    needs_flush: bool


class StudyWriter:
    """Writes to the studies of one storage, in a thread of its own.

    Parameters
    ----------
    store : Store
        A handle that nothing else uses for writing.
    own : tuple of sequences
        The caller's own classes of policies and problems.
    capacity : int
        Largest number of queued writes; one study can use half of it.
    on_commit : callable, optional
        Called in the writer's thread after every commit, with the names of the studies, the
        number of writes, and the duration in seconds.
    most_open : int
        Number of studies kept open, with their policies.
    patience : float
        Seconds that a write waits for a study that another process has locked. Writes to other
        studies go on meanwhile.
    """

    def __init__(
        self,
        store: Store,
        own: Classes = ((), ()),
        capacity: int = 2_000,
        on_commit: Callable[[Sequence[str], int, float], object] | None = None,
        most_open: int = 1_000,
        patience: float = 30.0,
    ) -> None:
        self._store = store
        self._own = own
        self._capacity = capacity
        self._on_commit = on_commit
        self._most_open = most_open
        self._group = Group(store)
        self._studies: OrderedDict[str, Study] = OrderedDict()
        self._patience = patience
        self._locked: dict[str, float] = {}
        """Studies that another process has locked, and when to try each again."""
        self._queues: OrderedDict[str, deque[_Item]] = OrderedDict()
        self._waiting = 0
        self._is_closing = False
        self._has_work = threading.Condition()
        self._thread: threading.Thread | None = None

    @property
    def waiting(self) -> int:
        """The number of queued writes."""
        return self._waiting

    @property
    def accepts(self) -> bool:
        """Whether the queue accepts more writes."""
        return not self._is_closing and self._waiting < self._capacity

    def has_open(self, study: str) -> bool:
        """Return whether a study is open, so that writing to it can begin at once."""
        return study in self._studies

    # ------------------------------------------------------------------------- callers

    async def run(
        self, study: str, operation: Callable[[Study], _Answer], *, needs_flush: bool = True
    ) -> _Answer:
        """Run an operation on a study; return its result once it is committed.

        `needs_flush` says whether the result must survive a power failure.

        Raises
        ------
        ServiceBusy
            If the queue is full, or the service is shutting down.
        StudyNotFound
            If there is no such study.
        FairtrialError
            Any error of the operation; nothing of it is kept then.
        """
        answer: _Answer = await self._put(study, operation, needs_flush=needs_flush)
        return answer

    async def run_on_store(self, operation: Callable[[Store], _Answer]) -> _Answer:
        """Run an operation on the storage in a transaction; return its result once committed."""
        answer: _Answer = await self._put(None, operation)
        return answer

    async def _put(
        self, study: str | None, operation: Callable[..., Any], *, needs_flush: bool = True
    ) -> Any:
        loop = asyncio.get_running_loop()
        now = time.monotonic()
        item = _Item(study, operation, loop, loop.create_future(), now, needs_flush)
        key = _key_of(item)
        with self._has_work:
            queue = self._queues.setdefault(key, deque())
            if self._is_closing:
                raise ServiceBusy("the service is shutting down; try again soon")
            if self._waiting >= self._capacity or len(queue) >= max(self._capacity // 2, 1):
                raise ServiceBusy(f"{self._waiting:,} writes wait already; try again soon")
            # Start the thread first: if this fails, nothing must wait in the queue.
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
        """Write everything queued, then stop; accept nothing more."""
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
        """Return whether the storage can be reached; otherwise each snapshot would time out."""
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
        """Wait for work; return items of the studies in turn, up to the limit of a commit."""
        with self._has_work:
            while True:
                while not self._waiting and not self._is_closing:
                    self._has_work.wait()
                taken = self._taken()
                if taken or not self._waiting:
                    return taken
                # Only studies that are locked have work.
                self._has_work.wait(_BETWEEN_TRIES)

    def _taken(self) -> list[_Item]:
        """Take items of the studies in turn, but none of a study that is to be tried later."""
        now = time.monotonic()
        later = {key for key, due in self._locked.items() if due > now}
        taken: list[_Item] = []
        while len(taken) < MOST_IN_COMMIT:
            key = next((key for key in self._queues if key not in later), None)
            if key is None:
                break
            queue = self._queues.pop(key)
            if queue:
                taken.append(queue.popleft())
                self._waiting -= 1
            if queue:
                # Go to the end, so that no study makes the others wait.
                self._queues[key] = queue
        return taken

    def _put_back(self, items: Sequence[_Item]) -> None:
        """Put items of locked studies back to the front of their queues, to be tried again."""
        due = time.monotonic() + _BETWEEN_TRIES
        with self._has_work:
            for item in reversed(items):
                self._queues.setdefault(_key_of(item), deque()).appendleft(item)
                self._waiting += 1
                self._locked[_key_of(item)] = due

    def _carry_out(self, items: Sequence[_Item]) -> None:
        # Skip the writes of callers who have gone away.
        wanted = [item for item in items if not item.future.cancelled()]
        begin = time.perf_counter()
        answers = self._answers_with_patience(wanted)
        seconds = time.perf_counter() - begin
        wanted, answers = self._without_locked(wanted, answers)
        for loop in {item.loop for item in wanted}:
            told = [
                (item.future, outcome)
                for item, outcome in zip(wanted, answers, strict=True)
                if item.loop is loop
            ]
            # If the loop is closed, nothing waits any more.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_settle, told)
        self._tidy(wanted, seconds)

    def _tidy(self, wanted: Sequence[_Item], seconds: float) -> None:
        """Do the work after a commit that no caller waits for; log errors and continue."""
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
        """Close the studies that have not been written for the longest time."""
        while len(self._studies) > self._most_open:
            _, study = self._studies.popitem(last=False)
            study.close()

    def _answers_with_patience(self, items: Sequence[_Item]) -> list[Outcome]:
        """Carry out items; wait a little for locks, but not for those that were held before."""
        known = [item for item in items if _key_of(item) in self._locked]
        others = [item for item in items if _key_of(item) not in self._locked]
        answers: dict[int, Outcome] = {}
        for part, patience in ((others, _LOCK_PATIENCE), (known, _NO_PATIENCE)):
            if part:
                self._store.wait_for_locks(patience)
                answers |= zip(map(id, part), self._answers(part), strict=True)
        self._store.wait_for_locks(None)
        return [answers[id(item)] for item in items]

    def _without_locked(
        self, items: Sequence[_Item], answers: Sequence[Outcome]
    ) -> tuple[list[_Item], list[Outcome]]:
        """Put back what met a lock, unless it has waited for too long; return the rest."""
        oldest = time.monotonic() - self._patience
        pairs = list(zip(items, answers, strict=True))
        for item, answer in pairs:
            if not isinstance(answer.error, RowLocked):
                self._locked.pop(_key_of(item), None)
        again = [
            item
            for item, answer in pairs
            if isinstance(answer.error, RowLocked) and item.since > oldest
        ]
        self._put_back(again)
        put_back = set(map(id, again))
        kept = [pair for pair in pairs if id(pair[0]) not in put_back]
        return [item for item, _ in kept], [answer for _, answer in kept]

    def _answers(self, items: Sequence[_Item]) -> list[Outcome]:
        found: dict[int, Outcome] = {}
        actions: dict[int, Action] = {}
        lost: StorageUnreachable | None = None
        for place, item in enumerate(items):
            if lost is not None:
                # One wait for an unreachable storage is enough for all items.
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
        return Action(session, lambda: item.operation(study), item.needs_flush)

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


def _key_of(item: _Item) -> str:
    return "" if item.study is None else item.study


def _settle(told: Sequence[tuple[asyncio.Future[Any], Outcome]]) -> None:
    for future, outcome in told:
        if future.done():
            continue
        if outcome.error is None:
            future.set_result(outcome.answer)
        else:
            future.set_exception(outcome.error)
