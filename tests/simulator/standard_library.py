"""Replacements for threads, clocks, queues and random bytes, all controlled by the scheduler.

They replace those of the standard library in the modules of the package (`in_place`), which
otherwise run unchanged.
"""

from __future__ import annotations

import asyncio
import base64
import queue
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from tests.simulator.scheduler import Process, Scheduler, Task

_THREADING = (
    *("study.tables", "study.memory", "study.access_memory", "study.session"),
    *("study.worker_server", "study.changes", "server.writer", "server.readers"),
    *("server.waiting", "client.worker"),
)
_TIME = (
    *("study.driver", "study.changes", "study.database", "study.waiting", "study.sqlite"),
    *("study.worker_server", "server.writer", "server.waiting", "server.security.access"),
    *("server.security.rate", "client.transport", "client.worker"),
    *("server.readers", "server.readiness", "server.audits", "client.remote_study"),
)
_RANDOM = ("study.database", "study.worker_server", "client.transport")
_SECRETS = (
    *("study.writer", "study.reporting", "study.worker_server", "study.tokens"),
    *("client.transport", "client.worker", "server.telemetry", "server.readiness"),
)
_QUEUE = ("study.worker_server", "client.worker")


class StandardLibrary:
    """Modules of the standard library, for one simulation."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.threading = SimpleNamespace(
            Lock=lambda: Lock(scheduler),
            RLock=lambda: RLock(scheduler),
            Condition=lambda lock=None: Condition(scheduler, lock),
            Event=lambda: Event(scheduler),
            Thread=lambda **about: Thread(scheduler, **about),
        )
        self.time = SimpleNamespace(
            monotonic=lambda: scheduler.seconds,
            perf_counter=lambda: scheduler.seconds,
            sleep=scheduler.sleep,
            time=lambda: 1_800_000_000.0 + scheduler.seconds,
        )
        self.random = SimpleNamespace(uniform=lambda low, high: scheduler.chance.uniform(low, high))
        self.secrets = SimpleNamespace(
            token_hex=lambda n: scheduler.chance.randbytes(n).hex(),
            token_bytes=lambda n: scheduler.chance.randbytes(n),
            token_urlsafe=lambda n: _as_text(scheduler.chance.randbytes(n)),
        )
        self.queue = SimpleNamespace(SimpleQueue=lambda: Queue(scheduler), Empty=queue.Empty)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Let the package use these replacements."""
        named = {
            "threading": _THREADING,
            "time": _TIME,
            "random": _RANDOM,
            "secrets": _SECRETS,
            "queue": _QUEUE,
        }
        with ExitStack() as stack:
            for name, modules in named.items():
                for module in modules:
                    target = f"fairtrial.{module}.{name}"
                    stack.enter_context(patch(target, getattr(self, name)))
            # One lock for a whole process, and one flag for each of its threads.
            stack.enter_context(patch("fairtrial.study.runners._DOOR", Lock(self._scheduler)))
            stack.enter_context(patch("fairtrial.core.loading._THREAD", _Loading(self._scheduler)))
            yield


def _as_text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


class _Loading:
    """The state that `core.loading` keeps for each thread."""

    def __init__(self, scheduler: Scheduler) -> None:
        object.__setattr__(self, "_scheduler", scheduler)
        object.__setattr__(self, "_of_task", {})

    @property
    def may_load(self) -> bool:
        return self._of_task.get(self._scheduler.current, True)

    def __setattr__(self, name: str, value: bool) -> None:
        if value:
            self._of_task.pop(self._scheduler.current, None)
        else:
            self._of_task[self._scheduler.current] = value


class Lock:
    """A lock for tasks; code outside of all tasks counts as one task, too."""

    reentrant = False

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._owner: Task | None = None
        self._count = 0
        self._waiting: deque[Task] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        task = self._scheduler.current
        if self._count and self.reentrant and self._owner is task:
            self._count += 1
            return True
        while self._count:
            if not blocking:
                return False
            self._waiting.append(task)
            try:
                if not self._scheduler.block(None if timeout < 0 else timeout):
                    return False
            except BaseException:
                # It was killed, perhaps just when its turn came.
                self._wake_next()
                raise
            finally:
                if task in self._waiting:
                    self._waiting.remove(task)
        self._owner, self._count = task, 1
        return True

    def release(self) -> None:
        assert self._count > 0, "the lock is released by somebody who does not hold it"
        self._count -= 1
        if not self._count:
            self._owner = None
            self._wake_next()

    def _wake_next(self) -> None:
        if not self._count and self._waiting:
            self._scheduler.wake(self._waiting.popleft())

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def let_go(self) -> int:
        """Release it for a wait; return how often it was held."""
        count, self._count = self._count, 1
        self.release()
        return count

    def take_again(self, count: int) -> None:
        """Hold it as often as before, even if the process is killed meanwhile."""
        try:
            self.acquire()
        except BaseException:
            self.acquire()
            self._count = count
            raise
        self._count = count


class RLock(Lock):
    """A lock that its holder may take again."""

    reentrant = True


class Condition:
    """Tasks that wait for a possible change."""

    def __init__(self, scheduler: Scheduler, lock: Lock | None = None) -> None:
        self._scheduler = scheduler
        self._lock = RLock(scheduler) if lock is None else lock
        self._waiting: list[Task] = []

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        task = self._scheduler.current
        self._waiting.append(task)
        count = self._lock.let_go()
        try:
            return self._scheduler.block(timeout)
        finally:
            if task in self._waiting:
                self._waiting.remove(task)
            self._lock.take_again(count)

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        deadline = None if timeout is None else self._scheduler.seconds + timeout
        while not (found := predicate()):
            left = None if deadline is None else deadline - self._scheduler.seconds
            if left is not None and left <= 0:
                break
            self.wait(left)
        return found

    def notify(self, n: int = 1) -> None:
        for _ in range(min(n, len(self._waiting))):
            self._scheduler.wake(self._waiting.pop(0))

    def notify_all(self) -> None:
        self.notify(len(self._waiting))


class Event:
    """An event that tasks wait for."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._is_set = False
        self._waiting: list[Task] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        while self._waiting:
            self._scheduler.wake(self._waiting.pop(0))

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        if not self._is_set:
            task = self._scheduler.current
            self._waiting.append(task)
            try:
                self._scheduler.block(timeout)
            finally:
                if task in self._waiting:
                    self._waiting.remove(task)
        return self._is_set


class Queue:
    """First in, first out."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._items: deque[Any] = deque()
        self._has_items = Condition(scheduler)

    def put(self, item: Any) -> None:
        self._items.append(item)
        self._has_items.notify()

    def get(self, timeout: float | None = None) -> Any:
        with self._has_items:
            if not self._has_items.wait_for(lambda: bool(self._items), timeout):
                raise queue.Empty
            return self._items.popleft()

    def qsize(self) -> int:
        return len(self._items)


class Thread:
    """A task of the process that starts it."""

    def __init__(
        self,
        scheduler: Scheduler,
        target: Callable[..., object],
        args: tuple[object, ...] = (),
        name: str = "thread",
        daemon: bool = False,
    ) -> None:
        self._scheduler = scheduler
        self._target = target
        self._args = args
        self._name = name
        self._has_ended = Event(scheduler)

    def start(self) -> None:
        starter = self._scheduler.current
        assert starter is not None
        self._process = starter.process
        self._scheduler.spawn(starter.process, self._name, self._run)

    def _run(self) -> None:
        try:
            self._target(*self._args)
        finally:
            self._has_ended.set()

    def join(self, timeout: float | None = None) -> None:
        # A thread that was to start when its process was killed never will.
        if not self._process.is_dead:
            self._has_ended.wait(timeout)


class Loop(asyncio.BaseEventLoop):
    """An asyncio loop that is a task: the scheduler makes it wait, and its threads are tasks."""

    def __init__(self, scheduler: Scheduler, process: Process) -> None:
        super().__init__()
        self._scheduler = scheduler
        self._process = process
        self._has_work = Event(scheduler)
        self._selector = self

    def time(self) -> float:
        return self._scheduler.seconds

    def select(self, timeout: float | None) -> list[Any]:
        """Wait for work; `BaseEventLoop` calls its selector like this."""
        if timeout is None or timeout > 0:
            self._has_work.wait(timeout)
        self._has_work.clear()
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        """Do nothing: only tasks bring work."""

    def _write_to_self(self) -> None:
        self._has_work.set()

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        future = self.create_future()

        def settle(answer: Any, error: BaseException | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(answer)
            else:
                future.set_exception(error)

        def work() -> None:
            try:
                answer, error = func(*args), None
            except Exception as caught:  # noqa: BLE001 - whoever waits gets it
                answer, error = None, caught
            if not self.is_closed():
                self.call_soon_threadsafe(settle, answer, error)

        self._scheduler.spawn(self._process, "reads", work)
        return future

    def drop(self) -> None:
        """Forget all unfinished work, as the end of a process does."""
        for task in sorted(asyncio.all_tasks(self), key=lambda task: task.get_name()):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            try:
                task.get_coro().close()  # type: ignore[union-attr]
            except BaseException:  # noqa: BLE001 - it is gone, whatever it says
                continue
        self._ready.clear()  # type: ignore[attr-defined]
        self._scheduled.clear()  # type: ignore[attr-defined]
        self.close()
