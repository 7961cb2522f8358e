"""How a score function is called: in the thread that needs it, on an event loop, in an executor."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, wait
from contextlib import suppress
from typing import Any, NamedTuple

from fairtrial.errors import InvalidArgument
from fairtrial.study.driver import is_executor, maker_of

__all__ = ["CannotEvaluate", "ScoreCalls"]

_UNTIL_CANCELLED = 5.0
"""Seconds that coroutines have to end after the race."""
_BETWEEN_LOOKS = 0.1
"""Seconds after which whoever waits for an executor looks whether the race has ended."""
_MOST_BROKEN = 3
"""Executors in a row that one evaluation may break."""


class CannotEvaluate(Exception):
    """The function cannot be called; this says nothing about the candidate."""


class ScoreCalls:
    """Calls a score function, from any number of threads, until it is closed.

    Parameters
    ----------
    score : callable
        ``score(candidate, item)``; it may be a coroutine function.
    executor : concurrent.futures.Executor or callable, optional
        Where the function is called; by default in the thread that calls this object. It gets the
        function, a candidate and an item.

    Raises
    ------
    InvalidArgument
        If the executor is none, or the score function is a coroutine function, which needs none.
    """

    def __init__(
        self,
        score: Callable[[Any, Any], Any],
        executor: Executor | Callable[[], Executor] | None = None,
    ) -> None:
        if executor is not None and _is_coroutine_function(score):
            raise InvalidArgument(
                "executor",
                "is for functions: the calls of a coroutine function run at the same time without",
                executor,
            )
        self._score = score
        self._workers = None if executor is None else _Workers(executor)
        self._lock = threading.Lock()
        self._loop: EventLoop | None = None
        self.is_closed = False

    def __call__(self, candidate: Any, item: Any) -> Any:
        """Return the score of a candidate on an item.

        Raises
        ------
        concurrent.futures.CancelledError
            If the calls are closed, or are closed before this one has ended.
        CannotEvaluate
            If the executor cannot call the function.
        Exception
            Whatever the function raises.
        """
        if self.is_closed:
            raise CancelledError
        if self._workers is not None:
            return self._workers.result_of(self._score, candidate, item)
        value = self._score(candidate, item)
        return self._running_loop().result_of(value) if inspect.isawaitable(value) else value

    def _running_loop(self) -> EventLoop:
        with self._lock:
            if self.is_closed:
                raise CancelledError
            if self._loop is None:
                self._loop = EventLoop()
            return self._loop

    def close(self) -> None:
        """Cancel the calls that are still running; start no others."""
        with self._lock:
            self.is_closed, loop, self._loop = True, self._loop, None
        if loop is not None:
            loop.close()
        if self._workers is not None:
            self._workers.close()


def _is_coroutine_function(score: Any) -> bool:
    call = getattr(score, "__call__", None)  # noqa: B004 - an object may have a coroutine for it
    return inspect.iscoroutinefunction(score) or inspect.iscoroutinefunction(call)


class _Ended(NamedTuple):
    """How a call in a worker ended; not every exception can be sent to another process."""

    value: Any = None
    error: str | None = None


def _call(score: Callable[[Any, Any], Any], candidate: Any, item: Any) -> _Ended:
    try:
        return _Ended(score(candidate, item))
    except Exception as error:  # noqa: BLE001 - any failure of the user's function
        return _Ended(error=f"{type(error).__name__}: {error}")


class _Workers:
    """Calls functions in an executor, and replaces it if it breaks and is our own."""

    def __init__(self, executor: Executor | Callable[[], Executor]) -> None:
        self._make = maker_of(executor)
        self._is_own = not is_executor(executor)
        self._lock = threading.Lock()
        self._executor: Executor | None = None
        self._is_closed = False

    def result_of(self, score: Callable[[Any, Any], Any], candidate: Any, item: Any) -> Any:
        """Return the result of a call in the executor; raise what the call raised."""
        for _ in range(_MOST_BROKEN):
            executor = self._ready()
            try:
                ended = self._awaited(executor.submit(_call, score, candidate, item))
            except CancelledError:
                if self._is_closed:
                    raise
                broken: Exception = RuntimeError("it cancelled the call")
            except BrokenExecutor as error:
                broken = error
            except Exception as error:
                raise CannotEvaluate(f"the executor: {type(error).__name__}: {error}") from error
            else:
                if ended.error is not None:
                    raise RuntimeError(ended.error)
                return ended.value
            if not self._is_own:
                about = "Pass a callable that makes one, so that it can be replaced"
                raise CannotEvaluate(f"the executor broke: {broken} {about}") from broken
            self._drop(executor)
        raise CannotEvaluate(
            f"the executor broke, {_MOST_BROKEN} times in a row: {broken}"
        ) from broken

    def _awaited(self, future: Future[_Ended]) -> _Ended:
        while not wait([future], _BETWEEN_LOOKS).done:
            if self._is_closed:
                future.cancel()
                raise CancelledError
        return future.result()

    def _ready(self) -> Executor:
        with self._lock:
            if self._is_closed:
                raise CancelledError
            if self._executor is None:
                self._executor = self._make()
            return self._executor

    def _drop(self, executor: Executor) -> None:
        with self._lock:
            if self._executor is executor:
                self._executor = None
        executor.shutdown(wait=False, cancel_futures=True)

    def close(self) -> None:
        with self._lock:
            self._is_closed, executor = True, self._executor
        if executor is not None and self._is_own:
            executor.shutdown(wait=False, cancel_futures=True)


class EventLoop:
    """One event loop in a thread of its own: works in notebooks, which have a loop already."""

    def __init__(self) -> None:
        self._submitting = threading.Lock()
        self._is_closed = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def result_of(self, awaitable: Any) -> Any:
        """Return what an awaitable returns.

        Raises
        ------
        concurrent.futures.CancelledError
            If the loop is closed, or is closed before the awaitable has ended.
        """

        async def wait() -> Any:
            return await awaitable

        with self._submitting:
            if self._is_closed:
                raise CancelledError
            waiting = asyncio.run_coroutine_threadsafe(wait(), self._loop)
        return waiting.result()

    def close(self) -> None:
        """Cancel what still runs, so that nobody waits for it, and stop the loop."""
        with self._submitting:
            self._is_closed = True
        ending = asyncio.run_coroutine_threadsafe(_cancel_others(), self._loop)
        with suppress(TimeoutError):
            ending.result(_UNTIL_CANCELLED)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _cancel_others() -> None:
    """Cancel all other tasks of the loop, and wait for their end."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
