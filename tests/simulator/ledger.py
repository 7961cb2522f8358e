"""The calls that callers made and their answers: recorded as they happen, judged at the end."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fairtrial.errors import (
    AlreadyTold,
    ExperimentFinished,
    FairtrialError,
    InvalidOutcome,
    NotSupported,
    StorageError,
    StorageUnreachable,
    UnknownPull,
)
from tests.simulator.scheduler import Scheduler

_REFUSALS = (AlreadyTold, ExperimentFinished, InvalidOutcome, NotSupported, UnknownPull)
"""Errors of calls that make no sense or come too late."""


@dataclass
class Call:
    """One call of a study's method, with all its repetitions under the same key.

    `state` is "answered", "refused" (it makes no sense, or contradicts what is known), "nothing"
    (it failed, and nothing of it was kept) or "unknown".
    """

    by: str
    what: str
    content: Mapping[str, Any]
    key: str
    called: int
    returned: float = math.inf
    state: str = "unknown"
    answer: Any = None
    error: BaseException | None = None
    attempts: int = 0

    @property
    def said(self) -> str:
        about = ", ".join(f"{name}={_brief(value)}" for name, value in self.content.items())
        return f"{self.what}({about}) [{self.key}]"


@dataclass
class Ledger:
    """All calls, and the states in which handles were found.

    `pulls` are the identities of all issued pulls; `results` are the workers' measurements.
    """

    scheduler: Scheduler
    calls: list[Call] = field(default_factory=list)
    states: list[tuple[int, Mapping[str, Any], Any, str]] = field(default_factory=list)
    pulls: list[str] = field(default_factory=list)
    results: dict[str, set[float]] = field(default_factory=dict)
    moments: int = 0

    def moment(self) -> int:
        """Return the next number of a moment; later moments have greater numbers."""
        self.moments += 1
        return self.moments

    def begin(self, by: str, what: str, content: Mapping[str, Any]) -> Call:
        """Record a new call."""
        call = Call(by, what, content, f"{by}-{len(self.calls)}", self.moment())
        self.calls.append(call)
        return call

    def answered(self, call: Call, answer: Any) -> None:
        """Record the answer to a call."""
        call.state, call.answer, call.returned = "answered", answer, self.moment()
        self.scheduler.note(f"{call.said} -> {_short(answer)}")

    def failed(
        self, call: Call, error: BaseException, *, is_remote: bool, is_well: bool = False
    ) -> None:
        """Record how a call failed; whether it was kept may stay unknown.

        Raises
        ------
        AssertionError
            If it must not fail like this: when nothing goes wrong, the storage does not fail.
        """
        expected = isinstance(error, (*_REFUSALS, StorageError, KeyboardInterrupt))
        assert expected, f"{call.said} -> {type(error).__name__}: {error}"
        is_storage_to_blame = isinstance(error, StorageError) and not is_remote
        assert not (is_well and is_storage_to_blame), f"{call.said}: all is well, and yet: {error}"
        call.error, call.returned = error, self.moment()
        was_in_doubt = call.attempts > 1 and call.state == "unknown"
        if not was_in_doubt and isinstance(error, FairtrialError):
            call.state = "refused"
            if isinstance(error, StorageError):
                call.state = "nothing" if _kept_nothing(error, is_remote) else "unknown"
        if call.state == "unknown":
            call.returned = math.inf
        self.scheduler.note(f"{call.said} -> {call.state}: {type(error).__name__}: {error}")


def _kept_nothing(error: StorageError, is_remote: bool) -> bool:
    if "nothing of" in str(error):
        return True
    return not is_remote and not isinstance(error, StorageUnreachable)


def _brief(value: Any) -> str:
    return value.key if isinstance(value, Call) else str(value)


def _short(answer: Any) -> str:
    if isinstance(answer, list):
        return f"[{', '.join(map(_short, answer))}]"
    kind, seq = getattr(answer, "kind", None), getattr(answer, "seq", None)
    if kind is not None:
        return f"{kind} {seq}"
    number = getattr(answer, "number", None)
    return str(answer) if number is None else f"pull {number}"
