"""How one evaluation is carried out, with its attempts and its failures; or scores from a table."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Executor
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.frames import plain_data
from fairtrial.errors import InvalidArgument, InvalidOutcome, SourceError
from fairtrial.races.calling import CannotEvaluate, ScoreCalls
from fairtrial.study.reporting import Report

__all__ = ["LIMIT_REACHED", "Evaluation", "OnError", "table_of"]

OnError = Literal["ask", "worst", "leave"]

LIMIT_REACHED = "another attempt would exceed a limit of the race"
"""The error that ends a race with an evaluation open."""
_FIRST_PAUSE, _GROWTH, _LONGEST_PAUSE = 1.0, 3.0, 60.0
_BETWEEN_LOOKS = 0.1
"""Seconds of a pause after which an evaluation looks whether the race has ended."""


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
    executor : concurrent.futures.Executor or callable, optional
        Where the score function is called; by default in the driver's threads.
    may_repeat : callable
        Returns whether another attempt at a candidate is within the limits of the race.
    known : ndarray of shape (items, candidates), optional
        Scores that need no evaluation; NaN for the others.
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
        *,
        executor: Executor | Callable[[], Executor] | None = None,
        may_repeat: Callable[[str], bool] = lambda _: True,
        known: NDArray[np.float64] | None = None,
    ) -> None:
        self.candidates = candidates
        self.items = items
        self.reward_range = reward_range
        self.worst = worst
        self.attempts = attempts
        self.on_error = on_error
        self.pause = pause
        self._may_repeat = may_repeat
        self._known = known
        self._calls = ScoreCalls(score, executor)

    def __call__(self, arm: str, report: Report) -> float:
        """Return the score of an arm on the item of a pull.

        Raises
        ------
        SourceError
            If nothing can be evaluated, or the user must decide: the driver ends, and the pull
            stays open.
        CandidateFailed
            If the evaluation failed, with ``on_error="leave"``.
        """
        item = report.pull.tag
        if self._known is not None and math.isfinite(self._known[item, report.pull.action]):
            return float(self._known[item, report.pull.action])
        try:
            value = self._attempted(arm, item)
        except CannotEvaluate as error:
            raise SourceError(f"no candidate can be evaluated: {error}") from error
        except _LimitReached:
            raise SourceError(LIMIT_REACHED) from None
        except Exception as error:  # noqa: BLE001 - any failure of the user's function
            return self._failed(arm, item, error)
        try:
            return checked(value, self.reward_range)
        except InvalidOutcome as error:
            raise SourceError(_mistaken(arm, item, error)) from error

    def _attempted(self, arm: str, item: int) -> Any:
        pause = self.pause
        for _ in range(self.attempts - 1):
            try:
                return self._calls(self.candidates[arm], self.items[item])
            except CannotEvaluate:
                raise
            except Exception:  # noqa: BLE001 - any failure of the user's function
                self._rest(pause)
            if not self._may_repeat(arm):
                raise _LimitReached
            pause = min(_LONGEST_PAUSE, _GROWTH * pause)
        return self._calls(self.candidates[arm], self.items[item])

    def _failed(self, arm: str, item: int, error: Exception) -> float:
        is_over = isinstance(error, CancelledError) and self._calls.is_closed
        about = f"{type(error).__name__}: {error}"
        if self.on_error == "leave" and not is_over:
            raise CandidateFailed(f"{arm!r} failed on item {item}: {about}") from error
        if self.on_error == "worst" and self.worst is not None and not is_over:
            return self.worst
        raise SourceError(_question(arm, item, self.attempts, about)) from error

    def _rest(self, seconds: float) -> None:
        """Wait before the next attempt, but not after the end of the race."""
        end = time.monotonic() + seconds
        while not self._calls.is_closed and (left := end - time.monotonic()) > 0.0:
            time.sleep(min(left, _BETWEEN_LOOKS))

    def close(self) -> None:
        """Cancel the evaluations that are still running; start no others."""
        self._calls.close()


class CandidateFailed(Exception):
    """An evaluation failed, whatever the function raised; the candidate leaves the race."""


class _LimitReached(Exception):
    """Another attempt is not within the limits of the race."""


def checked(value: Any, reward_range: tuple[float, float] | None) -> float:
    """Return a score as a float.

    Raises
    ------
    InvalidOutcome
        If it is no finite number, or is not in the range.

    Examples
    --------
    >>> checked(True, (0, 1))
    1.0
    """
    if not isinstance(value, Real | np.bool_) or not math.isfinite(float(value)):
        raise InvalidOutcome("the score", "must be a finite number", value)
    number = float(value)
    if reward_range is not None and not reward_range[0] <= number <= reward_range[1]:
        low, high = reward_range
        accepted = f"must lie in reward_range, [{low:g}, {high:g}]"
        raise InvalidOutcome("the score", accepted, number)
    return number


def _question(arm: str, item: int, attempts: int, about: str) -> str:
    return (
        f"{arm!r} failed on item {item}, {attempts} times: {about}. "
        "All scores so far are kept, and the same call continues. To go on without asking, set "
        "on_error='worst' (counts as the worst score) or 'leave' (the candidate leaves the race)"
    )


def _mistaken(arm: str, item: int, error: InvalidOutcome) -> str:
    return (
        f"{arm!r} on item {item}: {error}. It was not evaluated again. All scores so far are kept: "
        "correct the score function, and the same call continues. Another reward_range is another "
        "race, which needs another name"
    )


def table_of(
    score: Any,
    labels: Sequence[str],
    n_items: int,
    reward_range: tuple[float, float] | None,
    name: str = "score",
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
    score = plain_data(score)
    try:
        if hasattr(score, "columns") or isinstance(score, Mapping):
            score = np.column_stack([np.asarray(score[label], dtype=float) for label in labels])
        table = np.array(score, dtype=np.float64)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidArgument(
            name, f"must be a function, or a table with a column for each candidate ({error})"
        ) from None
    if table.shape != (n_items, len(labels)):
        raise InvalidArgument(
            name, f"must have {n_items} rows and {len(labels)} columns", table.shape
        )
    low, high = reward_range or (-np.finfo(float).max, np.finfo(float).max)
    refused = np.argwhere(~((low <= table) & (table <= high)))
    if len(refused):
        row, column = refused[0].tolist()
        raise InvalidArgument(
            name,
            f"must hold numbers from {low:g} to {high:g}; that of {labels[column]!r} on item "
            f"{row} is none",
            table[row, column],
        )
    return table
