"""How one evaluation is carried out: a function or a coroutine, with attempts, or a table."""

from __future__ import annotations

import asyncio
import inspect
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairtrial.errors import InvalidArgument, SourceError
from fairtrial.study.reporting import Report

__all__ = ["Evaluation", "OnError", "table_of"]

OnError = Literal["ask", "worst", "leave"]

_FIRST_PAUSE, _GROWTH, _LONGEST_PAUSE = 1.0, 3.0, 60.0
_BETWEEN_LOOKS = 0.1
"""Seconds of a pause after which an evaluation looks whether the race has ended."""
_UNTIL_CANCELLED = 5.0
"""Seconds that coroutines have to end after the race."""
_STARTING = threading.Lock()


class Evaluation:
    """Evaluates a candidate on an item; called by a driver for each pull.

    Parameters
    ----------
    candidates : mapping
        What the score function gets, by label.
    items : sequence
        The items, by the number of a block.
    score : callable
        ``score(candidate, item)`` returns a number; it may be a coroutine function.
    reward_range : (float, float) or None
        Where scores must lie.
    worst : float or None
        The score of an evaluation that fails, for ``on_error="worst"``.
    attempts : int
        Number of attempts before an evaluation fails.
    on_error : {"ask", "worst", "leave"}
        What happens if an evaluation fails.
    pause : float
        Seconds before the second attempt; later pauses are three times as long, up to a minute.
    """

    def __init__(
        self,
        candidates: Mapping[str, Any],
        items: Sequence[Any],
        score: Callable[[Any, Any], Any],
        reward_range: tuple[float, float] | None,
        worst: float | None,
        attempts: int,
        on_error: OnError,
        pause: float = _FIRST_PAUSE,
    ) -> None:
        self.candidates = candidates
        self.items = items
        self.score = score
        self.reward_range = reward_range
        self.worst = worst
        self.attempts = attempts
        self.on_error = on_error
        self.pause = pause
        self._is_closed = False
        self._loop: EventLoop | None = None

    def __call__(self, arm: str, report: Report) -> float:
        """Return the score of an arm on the item of a pull."""
        item = report.pull.tag
        try:
            return self._attempted(arm, item)
        except Exception as error:
            if self.on_error == "leave":
                raise
            if self.on_error == "worst" and self.worst is not None:
                return self.worst
            raise SourceError(_question(arm, item, self.attempts, error)) from error

    def _attempted(self, arm: str, item: int) -> float:
        pause = self.pause
        for _ in range(self.attempts - 1):
            try:
                return self._value(arm, item)
            except Exception:  # noqa: BLE001 - any failure of the user's function
                self._rest(pause)
            pause = min(_LONGEST_PAUSE, _GROWTH * pause)
        return self._value(arm, item)

    def _rest(self, seconds: float) -> None:
        """Wait before the next attempt, but not after the end of the race."""
        end = time.monotonic() + seconds
        while not self._is_closed and (left := end - time.monotonic()) > 0.0:
            time.sleep(min(left, _BETWEEN_LOOKS))

    def _value(self, arm: str, item: int) -> float:
        if self._is_closed:
            raise CancelledError
        value = self.score(self.candidates[arm], self.items[item])
        if inspect.isawaitable(value):
            value = self._running_loop().result_of(value)
        return checked(value, self.reward_range)

    def _running_loop(self) -> EventLoop:
        with _STARTING:
            if self._loop is None:
                self._loop = EventLoop()
            return self._loop

    def close(self) -> None:
        """Cancel the evaluations that are still running; start no others."""
        with _STARTING:
            self._is_closed, loop, self._loop = True, self._loop, None
        if loop is not None:
            loop.close()


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


def checked(value: Any, reward_range: tuple[float, float] | None) -> float:
    """Return a score as a float, or raise ValueError if it is none.

    Examples
    --------
    >>> checked(True, (0, 1))
    1.0
    """
    if not isinstance(value, Real | np.bool_) or not math.isfinite(float(value)):
        raise ValueError(f"the score must be a finite number; got {value!r}")
    number = float(value)
    if reward_range is not None and not reward_range[0] <= number <= reward_range[1]:
        low, high = reward_range
        raise ValueError(f"the score must lie in reward_range, [{low:g}, {high:g}]; got {number:g}")
    return number


def _question(arm: str, item: int, attempts: int, error: Exception) -> str:
    return (
        f"{arm!r} failed on item {item}, {attempts} times: {type(error).__name__}: {error}. "
        "All scores so far are kept, and the same call continues. To go on without asking, set "
        "on_error='worst' (counts as the worst score) or 'leave' (the candidate leaves the race)"
    )


def table_of(
    score: Any, labels: Sequence[str], n_items: int, reward_range: tuple[float, float] | None
) -> NDArray[np.float64] | None:
    """Return scores that are known already, by item and candidate; None if `score` is a function.

    Raises
    ------
    InvalidArgument
        If a table lacks a candidate or an item, or has a score that is no number in the range.

    Examples
    --------
    >>> table_of({"a": [1, 0], "b": [1, 1]}, ["a", "b"], 2, None)
    array([[1., 1.],
           [0., 1.]])
    """
    if callable(score):
        return None
    try:
        if hasattr(score, "columns") or isinstance(score, Mapping):
            score = np.column_stack([np.asarray(score[label], dtype=float) for label in labels])
        table = np.array(score, dtype=np.float64)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidArgument(
            "score", f"must be a function, or a table with a column for each candidate ({error})"
        ) from None
    if table.shape != (n_items, len(labels)):
        raise InvalidArgument(
            "score", f"must have {n_items} rows and {len(labels)} columns", table.shape
        )
    low, high = reward_range or (-np.finfo(float).max, np.finfo(float).max)
    refused = np.argwhere(~((low <= table) & (table <= high)))
    if len(refused):
        row, column = refused[0].tolist()
        raise InvalidArgument(
            "score",
            f"must hold numbers from {low:g} to {high:g}; that of {labels[column]!r} on item "
            f"{row} is none",
            table[row, column],
        )
    return table
