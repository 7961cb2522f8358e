"""Faults that are put into the code on purpose: a simulator proves its worth by finding them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from fairtrial.errors import StorageError
from fairtrial.study import clock
from fairtrial.study.cache import Cache
from fairtrial.study.database import Database
from fairtrial.study.driver import Driver
from fairtrial.study.group import Group
from fairtrial.study.replica import Replica
from fairtrial.study.session import Session
from fairtrial.study.writer import Writer


def _is_prefix(self: Cache, study: Any) -> bool:
    """Forget that the policy may be ahead of the log."""
    return self._replica is not None and self._replica.seq <= study.head_seq


def _leases_over(store: Any, study_id: int, policy: Any, now: int) -> Any:
    """End leases half a second too early."""
    return clock.leases_over(store, study_id, policy, now + 500_000)


_kept = Group._kept


def _kept_early(self: Group, operation: Callable[[], Any], *, flush: bool) -> Any:
    """Give the answer to callers whether or not the commit succeeds."""
    answers: list[Any] = []

    def noted() -> Any:
        answers[:] = [operation()]
        return answers[0]

    try:
        return _kept(self, noted, flush=flush)
    except StorageError:
        if not answers:
            raise
        return answers[0]


_row = Session.row


def _stale_row(self: Session) -> Any:
    """Look at the log only once."""
    self.__dict__.setdefault("_first_look", _row(self))
    return self.__dict__["_first_look"]


_end = Database._end


def _end_by_a_commit(self: Database) -> None:
    """Keep the work of a write that failed."""
    if self._connection.in_transaction:
        self._connection._real.execute("COMMIT")
    _end(self)


def _one_further(policy: Any, seq: int = 0, *by_hand: Any) -> Replica:
    """Store a snapshot as the next event's."""
    return Replica(policy, seq and seq + 1, *by_hand)


_tell = Driver._tell


def _tell_the_last(self: Driver, work: Any, outcome: Any) -> None:
    """Tell the previous outcome instead of this one."""
    last = self.__dict__.get("_last_outcome", outcome)
    self.__dict__["_last_outcome"] = outcome
    _tell(self, work, last)


_take = Writer._take


def _never_late(self: Writer, kind: str, *rest: Any, **more: Any) -> Any:
    """Treat every result as if it came in time."""
    return _take(self, "tell" if kind == "late_tell" else kind, *rest, **more)


FAULTS: Mapping[str, Callable[[], AbstractContextManager[object]]] = {
    "keys of requests are not looked up": lambda: patch.object(Writer, "_earlier", lambda *_: None),
    "a policy ahead of the log is trusted": lambda: patch.object(Cache, "_is_prefix", _is_prefix),
    "leases end early": lambda: patch("fairtrial.study.writer.leases_over", _leases_over),
    "late results pass for timely ones": lambda: patch.object(Writer, "_take", _never_late),
    "a group is acknowledged before its commit": lambda: patch.object(Group, "_kept", _kept_early),
    "the head is looked at once": lambda: patch.object(Session, "row", _stale_row),
    "a failed write is kept": lambda: patch.object(Database, "_end", _end_by_a_commit),
    "a snapshot is taken for a later one": lambda: patch(
        "fairtrial.study.cache.Replica", _one_further
    ),
    "a driver mixes up results": lambda: patch.object(Driver, "_tell", _tell_the_last),
}
"""Faults by description; each is a context that puts the fault in place."""
