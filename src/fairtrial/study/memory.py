"""Studies in memory: fast, and lost when the process ends."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from fairtrial.errors import StorageError
from fairtrial.study.access_memory import AccessMemory
from fairtrial.study.clock import microseconds
from fairtrial.study.log import PullRow, Record, Step
from fairtrial.study.long_reads import keep_going
from fairtrial.study.store import Addition, NewStudy, Snapshot, StudyRow
from fairtrial.study.waiting import Waiting

__all__ = ["MemoryStore"]

_Answer = TypeVar("_Answer")

_SNAPSHOTS_KEPT = 2
_BETWEEN_LOOKS = 250
"""Number of events after which a long read sees whether it should go on."""
_COMMON = frozenset({"ask", "report", "tell"})


class _Log:
    """One study: its row, its events and the state of its pulls."""

    def __init__(self, row: StudyRow) -> None:
        self.row = row
        self.records: list[Record] = []
        self.pulls: dict[str, PullRow] = {}
        self.open: dict[str, PullRow] = {}
        self.requests: dict[str, Record] = {}
        self.counts: Counter[str] = Counter()
        self.snapshots: list[Snapshot] = []
        self.statistics: dict[str, str] = {}

    def put(self, pull: PullRow) -> None:
        """Insert or replace a pull's row."""
        self.pulls[pull.pull_id] = pull
        if pull.state == "open":
            self.open[pull.pull_id] = pull
        else:
            self.open.pop(pull.pull_id, None)

    def add(self, record: Record) -> None:
        """Add an event."""
        self.records.append(record)
        if record.kind not in _COMMON:
            self.counts[record.kind] += 1
        if record.request_id is not None:
            if record.request_id in self.requests:
                raise StorageError(f"the store in memory has request {record.request_id!r}")
            self.requests[record.request_id] = record

    def take_back(self, row: StudyRow, pulls: Mapping[str, PullRow | None]) -> None:
        """Undo everything after `row`; `pulls` are the states of pulls at that time."""
        for record in self.records[row.head_seq :]:
            if record.kind not in _COMMON:
                self.counts[record.kind] -= 1
            if record.request_id is not None and self.requests.get(record.request_id) is record:
                del self.requests[record.request_id]
        del self.records[row.head_seq :]
        for pull_id, pull in pulls.items():
            if pull is not None:
                self.put(pull)
            else:
                self.pulls.pop(pull_id, None)
                self.open.pop(pull_id, None)
        self.row = row


class MemoryStore(AccessMemory, Waiting):
    """A `Store` in the memory of one process.

    Parameters
    ----------
    clock : callable
        Seconds since 1970.
    """

    url = "memory://"
    """The address of every in-memory store; opening it gives a new, empty store."""

    software = "memory"
    """The software that keeps the studies."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__()
        self._clock = clock
        self._process = os.getpid()
        self._logs: list[_Log] = []
        self._commits = 0
        self._has_changed = threading.Condition(self._lock)
        self._is_closed = False

    def now(self) -> int:
        """Return the clock: microseconds since 1970 (UTC)."""
        return microseconds(self._clock())

    def close(self) -> None:
        """Release everything in the store."""
        with self._lock:
            self._is_closed = True
            self._logs.clear()

    def _usable(self) -> None:
        if self._is_closed:
            raise StorageError("the store in memory is closed, and what was in it is gone")
        if os.getpid() != self._process:
            raise StorageError(
                "the store in memory belongs to another process (this one is its fork): "
                "for several processes, keep the study in a file"
            )

    def transact(self, operation: Callable[[], _Answer], *, flush: bool = True) -> _Answer:
        """Carry out an operation while only this thread writes; keep all of it or nothing.

        `flush` changes nothing: no write survives a power failure.
        """
        with self._lock:
            self._usable()
            if self._undo is not None:
                raise StorageError("the store in memory: a write cannot begin within another")
            undo: list[Callable[[], object]] = []
            self._undo = undo
            try:
                answer = operation()
                undo.clear()
                self._commits += 1
                self._has_changed.notify_all()
            finally:
                self._undo = None
                while undo:
                    undo.pop()()
            return answer

    def require_flush(self) -> None:
        """Do nothing: nothing in memory survives a power failure."""

    def _log(self, study_id: int) -> _Log:
        if self._undo is None:
            # Within a transaction this has been checked already.
            self._usable()
        return self._logs[study_id - 1]

    def wait_for_locks(self, seconds: float | None) -> None:
        """Do nothing: no study is locked by itself."""

    # -------------------------------------------------------------------- studies

    def insert_study(self, new: NewStudy) -> StudyRow:
        """Record a study with an empty log, within a transaction."""
        undo = self._writing()
        if self.find_study(new.name) is not None:
            raise StorageError(f"the store in memory has a study {new.name!r} already")
        row = StudyRow(len(self._logs) + 1, *new, "running", 0, new.origin, 0)
        self._logs.append(_Log(row))
        undo.append(self._logs.pop)
        return row

    def find_study(self, name: str) -> StudyRow | None:
        """Return the study of that name, or None."""
        return next((row for row in self.studies() if row.name == name), None)

    def read_study(self, study_id: int) -> StudyRow:
        """Return the current row of a study; within a transaction no one else changes it."""
        with self._lock:
            return self._log(study_id).row

    def studies(self) -> list[StudyRow]:
        """Return all studies, the oldest first."""
        with self._lock:
            self._usable()
            return [log.row for log in self._logs]

    def studies_named(self, names: Sequence[str]) -> list[StudyRow]:
        """Return the studies with these names, in the same order; leave out those that are none."""
        found = {row.name: row for row in self.studies()}
        return [found[name] for name in names if name in found]

    def study_names(self, after: str, limit: int) -> list[str]:
        """Return the next names of studies after that one, by code points."""
        return sorted(row.name for row in self.studies() if row.name > after)[:limit]

    def newest_names(self, before: int, limit: int) -> list[tuple[int, str]]:
        """Return ids and names of the newest studies with an id below `before`."""
        found = [(row.id, row.name) for row in reversed(self.studies()) if row.id < before]
        return found[:limit]

    def heads(self) -> Mapping[str, int]:
        """Return the number of events of every study, by its name."""
        return {row.name: row.head_seq for row in self.studies()}

    def statuses(self) -> Mapping[str, int]:
        """Return the number of studies by status."""
        return Counter(row.status for row in self.studies())

    # ------------------------------------------------------------------------ log

    def append(self, study: StudyRow, added: Addition) -> StudyRow:
        """Add events and their pulls' rows, within a transaction; return the study after them."""
        undo, log = self._writing(), self._log(study.id)
        before = log.row
        if (before.head_seq, before.head_hash) != (study.head_seq, study.head_hash):
            raise StorageError(
                f"the store in memory: the head of study {study.name!r} moved during a write; "
                "nothing of it was kept"
            )
        _require_following(study, added.records)
        known = {pull.pull_id: log.pulls.get(pull.pull_id) for pull in added.pulls}
        undo.append(lambda: log.take_back(before, known))
        for record in added.records:
            log.add(record)
        for pull in added.pulls:
            log.put(pull)
        log.row = study.after(added)
        return log.row

    def set_lease(self, study: StudyRow, pull: PullRow) -> StudyRow:
        """Set the end of an open pull's lease, within a transaction; return the study after it."""
        undo, log = self._writing(), self._log(study.id)
        before, known = log.row, log.pulls[pull.pull_id]
        undo.append(lambda: log.take_back(before, {pull.pull_id: known}))
        log.put(pull)
        log.row = study.after_lease()
        return log.row

    def records(self, study_id: int, after: int = 0, until: int | None = None) -> Iterator[Record]:
        """Yield the events ``after < seq <= until`` in order, without blocking other callers."""
        with self._lock:
            log = self._log(study_id)
            end = len(log.records) if until is None else min(until, len(log.records))
        # Events never change, so it does no harm if more are added meanwhile.
        return _interruptible(log.records, after, end)

    def steps(self, study_id: int, after: int = 0, until: int | None = None) -> Iterator[Step]:
        """Yield the same events, reduced to what a replay needs."""
        return (record.step for record in self.records(study_id, after, until))

    def request(self, study_id: int, request_id: str) -> Record | None:
        """Return the event with this request key, or None."""
        with self._lock:
            return self._log(study_id).requests.get(request_id)

    def reports(self, study_id: int, pulls: Sequence[PullRow]) -> list[Record]:
        """Return the readings of some pulls, and measures that were reported before the others."""
        names = {pull.pull_id for pull in pulls}
        after = min((pull.asked_seq for pull in pulls), default=0)
        return [
            record
            for record in (self.records(study_id, after) if pulls else ())
            if record.kind == "report" and record.pull_id in names
        ]

    def first(self, study_id: int, kind: str) -> Record | None:
        """Return the first event of a rare kind: any but ask, report and tell."""
        if not self.counts(study_id).get(kind):
            return None
        return next(record for record in self.records(study_id) if record.kind == kind)

    def all_of(self, study_id: int, kind: str, after: int = 0) -> list[Record]:
        """Return the events ``after < seq`` of a rare kind: any but ask, report and tell."""
        if not self.counts(study_id).get(kind):
            return []
        return [record for record in self.records(study_id, after) if record.kind == kind]

    def counts(self, study_id: int) -> Mapping[str, int]:
        """Return the numbers of events by kind, for all kinds except ask, report and tell."""
        with self._lock:
            return {kind: count for kind, count in self._log(study_id).counts.items() if count}

    # ---------------------------------------------------------------------- pulls

    def pull(self, study_id: int, pull_id: str) -> PullRow | None:
        """Return one pull, or None."""
        with self._lock:
            return self._log(study_id).pulls.get(pull_id)

    def pulls(self, study_id: int) -> Iterator[PullRow]:
        """Yield every pull, in the order in which they entered the log."""
        with self._lock:
            return iter(list(self._log(study_id).pulls.values()))

    def open_pulls(self, study_id: int, due_by: int | None = None) -> list[PullRow]:
        """Return the open pulls by number; with `due_by`, those whose lease ends by then."""
        with self._lock:
            rows = list(self._log(study_id).open.values())
        if due_by is not None:
            rows = [
                row for row in rows if row.lease_until is not None and row.lease_until <= due_by
            ]
        rows.sort(key=_by_number)
        return rows

    def some_pulls(
        self, study_id: int, state: str | None, worker: str | None, after: int, limit: int
    ) -> list[PullRow]:
        """Return pulls by number, after that number: those in a state, or of a worker, or all."""
        rows = self.open_pulls(study_id) if state == "open" else list(self.pulls(study_id))
        found = [
            row
            for row in rows
            if row.number > after and state in (None, row.state) and worker in (None, row.worker)
        ]
        return sorted(found, key=_by_number)[:limit]

    def count_open(self, study_id: int, worker: str | None = None) -> int:
        """Return the number of open pulls, of one worker or of all."""
        return sum(worker in (None, row.worker) for row in self.open_pulls(study_id))

    # ------------------------------------------------------------------ snapshots

    def save_snapshot(self, study_id: int, snapshot: Snapshot) -> None:
        """Save a snapshot in a transaction of its own, and delete all but the newest two."""

        def save() -> None:
            log = self._log(study_id)
            others = [kept for kept in log.snapshots if kept.seq != snapshot.seq]
            newest = sorted([snapshot, *others], key=lambda kept: -kept.seq)
            log.snapshots = newest[:_SNAPSHOTS_KEPT]

        self.transact(save)

    def snapshots(self, study_id: int) -> Iterator[Snapshot]:
        """Yield the snapshots, the newest first."""
        with self._lock:
            return iter(list(self._log(study_id).snapshots))

    # ----------------------------------------------------------------- statistics

    def publish_statistic(self, study_id: int, process: str, body: str) -> None:
        """Replace the statistics of a process, in a transaction of its own."""
        self.transact(lambda: self._log(study_id).statistics.update({process: body}))

    def statistics(self, study_id: int) -> Mapping[str, str]:
        """Return the latest statistics of every process, by its name."""
        with self._lock:
            return dict(self._log(study_id).statistics)

    # -------------------------------------------------------------------- waiting

    def changes(self) -> object:
        """Return a value that differs after any write to the storage."""
        return self._commits

    def await_change(self, seen: object, seconds: float) -> None:
        """Wait until `changes` no longer equals `seen`, for at most that many seconds."""
        with self._has_changed:
            self._has_changed.wait_for(lambda: self._commits != seen, seconds)

    def damage(self) -> str | None:
        """Return None: no other process can change this store."""
        return None


def _interruptible(records: Sequence[Record], after: int, end: int) -> Iterator[Record]:
    for index in range(after, end):
        if not index % _BETWEEN_LOOKS:
            keep_going()
        yield records[index]


def _by_number(row: PullRow) -> int:
    return row.number


def _require_following(study: StudyRow, records: Sequence[Record]) -> None:
    for seq, record in enumerate(records, start=study.head_seq + 1):
        if record.seq != seq:
            raise StorageError(f"the store in memory: event {record.seq} comes where {seq} should")
