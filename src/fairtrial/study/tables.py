"""Studies in the tables of a database: everything that all databases share."""

# ruff: noqa: S608 - only the names of our own columns are written into statements

from __future__ import annotations

import os
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from fairtrial.errors import CorruptLog, StorageError
from fairtrial.study import schema
from fairtrial.study.access_tables import AccessTables
from fairtrial.study.log import PullRow, Record, Step
from fairtrial.study.long_reads import keep_going
from fairtrial.study.machine import boot
from fairtrial.study.pending_writes import PendingWrites, replacing
from fairtrial.study.recent_pulls import RecentPulls
from fairtrial.study.statements import columns, places
from fairtrial.study.store import (
    Addition,
    AnswerRow,
    NewStudy,
    Snapshot,
    StudyRow,
    Unflushed,
)
from fairtrial.study.waiting import Waiting

__all__ = ["TableStore"]

_Answer = TypeVar("_Answer")

_SNAPSHOTS_KEPT = 2
_PAGE = 5_000
"""Number of events fetched at a time, so that long reads hold no lock that lets a log grow."""
_BETWEEN_LOOKS = 250
"""Number of events after which a long read sees whether it should go on."""

_SELECT_STUDY = f"SELECT {columns(StudyRow)} FROM study"
_INSERT_STUDY = (
    f"INSERT INTO study ({columns(NewStudy)}, status, head_seq, head_hash, duplicates) "
    f"VALUES ({places(NewStudy)}, 'running', 0, ?, 0)"
)
_SELECT_PULL = f"SELECT {columns(PullRow)} FROM pull WHERE study_id = ?"
_REPLACE_SNAPSHOT = replacing("snapshot", Snapshot, "seq")
_DROP_SNAPSHOTS = (
    "DELETE FROM snapshot WHERE study_id = ? AND seq NOT IN "
    "(SELECT seq FROM snapshot WHERE study_id = ? ORDER BY seq DESC LIMIT ?)"
)
_PUBLISH = (
    "INSERT INTO statistic (study_id, process, body, at) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (study_id, process) DO UPDATE SET body = excluded.body, at = excluded.at"
)


class TableStore(AccessTables, Waiting):
    """A `Store` in the tables of `schema`; subclasses connect to a particular database.

    Statements use the SQL that SQLite and PostgreSQL share, with question marks for values. What a
    transaction adds to logs is collected, and written before it is next read or when the
    transaction is committed.
    """

    _by_name = "name"
    """How names are compared by their code points."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._machine = boot()
        self._commits = 0
        self._flushes = True
        self._moved: dict[int, StudyRow] = {}
        """Studies to whose logs the transaction has added, as they are after it."""
        self._after: dict[int, StudyRow] = {}
        """Studies of which the transaction has changed a log or pulls, as they are after it."""
        self._pending_writes = PendingWrites()
        self._recent = RecentPulls()
        self._locked: dict[int, StudyRow] = {}
        """Studies as they were when the transaction locked them."""
        self._changed: dict[int, dict[str, PullRow]] | None = {}
        """Pulls that the transaction has changed, by study; None if there are too many."""
        self._last: dict[int, int] = {}
        """The last event of each study that this store has written."""

    @property
    @abstractmethod
    def _where(self) -> str:
        """The name of the store in messages."""

    # --------------------------------------------------------------- the database

    @abstractmethod
    def now(self) -> int:
        """Return the store's clock: microseconds since 1970 (UTC); it can run backwards."""

    @property
    @abstractmethod
    def _is_writing(self) -> bool:
        """Whether a transaction has begun."""

    @abstractmethod
    def _begin(self) -> None:
        """Begin a transaction."""

    @abstractmethod
    def _commit(self) -> None:
        """Commit the transaction; once this returns, it is durable."""

    @abstractmethod
    def _end(self) -> None:
        """Undo what is not committed; calling it twice has no effect."""

    def _require_schema(self, found: int) -> None:
        """Raise if another program has upgraded the tables since they were opened."""
        known = len(schema.STEPS)
        if found != known:
            raise StorageError(
                f"{self._where} now has schema {found}, and this process writes schema "
                f"{known}: a newer version of fairtrial upgraded it meanwhile. Nothing was "
                "written; start this process again with that version"
            )

    def wait_for_locks(self, seconds: float | None) -> None:
        """Set how long later writes wait for a lock on one study; None: as long as for the rest.

        Only databases that lock studies separately need it.
        """

    def _require_own_process(self) -> None:
        if os.getpid() != self._process:
            raise StorageError(
                f"{self._where} was opened by another process (this one is its fork): "
                "open the study again in every process"
            )

    # --------------------------------------------------------------- transactions

    def transact(self, operation: Callable[[], _Answer], *, flush: bool = True) -> _Answer:
        """Carry out an operation while only this process writes; keep all of it or nothing.

        Without `flush`, a power failure may undo it, but nothing that was written with a flush.
        """
        with self._lock:
            self._require_own_process()
            if self._is_writing:
                raise StorageError(f"{self._where}: a write cannot begin within another")
            try:
                self._flushes = flush
                self._begin()
                answer = operation()
                self._write_down()
                moved, after = dict(self._moved), dict(self._after)
                self._commit()
                self._commits += 1
                for study_id, study in moved.items():
                    self._last[study_id] = study.head_seq
                self._remember(after)
            finally:
                # An interrupt at this point can cut one of the two short, but not both.
                try:
                    self._forget_transaction()
                    self._end()
                finally:
                    self._forget_transaction()
                    self._end()
            return answer

    def require_flush(self) -> None:
        """Raise `Unflushed` if the present transaction is carried out without a flush."""
        if not self._flushes:
            raise Unflushed("this must be written with a flush")

    def _write_down(self) -> None:
        """Write the collected changes to the tables."""
        if not self._pending_writes:
            return
        studies = self._pending_writes.studies
        changed = self._change(*self._pending_writes.changes())
        if studies and changed != len(studies):
            raise self._moved_by_others(studies)
        self._pending_writes = PendingWrites()

    def _moved_by_others(self, studies: Sequence[StudyRow]) -> StorageError:
        names = " or ".join(repr(study.name) for study in studies)
        return StorageError(
            f"{self._where}: the head of study {names} moved during a write; nothing of it was kept"
        )

    def _remember(self, after: Mapping[int, StudyRow]) -> None:
        """Remember the pulls that a transaction has changed."""
        for study_id, study in after.items():
            before = self._locked.get(study_id)
            if before is not None and self._changed is not None:
                pulls = self._changed.get(study_id, {}).values()
                self._recent.keep(before, study, pulls)

    def _forget_transaction(self) -> None:
        # Each assignment is a single step, so an interrupt leaves none of them half done.
        self._pending_writes = PendingWrites()
        self._changed = {}
        self._locked = {}
        self._after = {}
        self._flushes = True

    def _read(
        self, study_id: int | None, statement: str, parameters: Sequence[Any] = ()
    ) -> list[Any]:
        """Return all rows of a statement about one study, or about all of them.

        Changes that the transaction has collected for them are written first.
        """
        with self._lock:
            if self._pending_writes and (
                study_id is None or self._pending_writes.touches(study_id)
            ):
                self._write_down()
            return self._all(statement, parameters)

    def _read_one(
        self, study_id: int | None, statement: str, parameters: Sequence[Any] = ()
    ) -> Any:
        return next(iter(self._read(study_id, statement, parameters)), None)

    # -------------------------------------------------------------------- studies

    def insert_study(self, new: NewStudy) -> StudyRow:
        """Record a study with an empty log, within a transaction."""
        self._change((_INSERT_STUDY, [(*new, new.origin)]))
        study = self.find_study(new.name)
        assert study is not None
        self._moved[study.id] = study
        return study

    def find_study(self, name: str) -> StudyRow | None:
        """Return the study of that name, or None."""
        row = self._read_one(None, f"{_SELECT_STUDY} WHERE name = ?", (name,))
        return None if row is None else StudyRow(*row)

    def read_study(self, study_id: int) -> StudyRow:
        """Return the current row of a study; within a transaction no one else changes it."""
        row = self._study_row(study_id)
        if row is None:
            raise CorruptLog(f"{self._where}: the study that was opened is no longer there")
        study = StudyRow(*row)
        if study.head_seq < self._last.get(study_id, 0):
            raise CorruptLog(
                f"{self._where}: the log of study {study.name!r} ends with event "
                f"{study.head_seq:,}, but event {self._last[study_id]:,} was there before"
            )
        with self._lock:
            if self._is_writing:
                self._locked.setdefault(study_id, study)
        return study

    def _study_row(self, study_id: int) -> Any:
        """Return the row of a study; within a transaction, lock it."""
        return self._read_one(study_id, f"{_SELECT_STUDY} WHERE id = ?", (study_id,))

    def studies(self) -> list[StudyRow]:
        """Return all studies, the oldest first."""
        return [StudyRow(*row) for row in self._read(None, f"{_SELECT_STUDY} ORDER BY id")]

    def studies_named(self, names: Sequence[str]) -> list[StudyRow]:
        """Return the studies with these names, in the same order; leave out those that are none."""
        if not names:
            return []
        marks = ", ".join("?" * len(names))
        rows = self._read(None, f"{_SELECT_STUDY} WHERE name IN ({marks})", tuple(names))
        found = {row.name: row for row in map(StudyRow._make, rows)}
        return [found[name] for name in names if name in found]

    def study_names(self, after: str, limit: int) -> list[str]:
        """Return the next names of studies after that one, by code points."""
        statement = f"SELECT name FROM study WHERE {self._by_name} > ? "
        statement += f"ORDER BY {self._by_name} LIMIT ?"
        return [name for (name,) in self._read(None, statement, (after, limit))]

    def newest_names(self, before: int, limit: int) -> list[tuple[int, str]]:
        """Return ids and names of the newest studies with an id below `before`."""
        statement = "SELECT id, name FROM study WHERE id < ? ORDER BY id DESC LIMIT ?"
        return [(number, name) for number, name in self._read(None, statement, (before, limit))]

    def heads(self) -> Mapping[str, int]:
        """Return the number of events of every study, by its name."""
        return dict(self._read(None, "SELECT name, head_seq FROM study"))

    def statuses(self) -> Mapping[str, int]:
        """Return the number of studies by status."""
        return dict(self._read(None, "SELECT status, count(*) FROM study GROUP BY status"))

    # ------------------------------------------------------------------------ log

    def append(self, study: StudyRow, added: Addition) -> StudyRow:
        """Add events and their pulls' rows, within a transaction; return the study after them."""
        self.require_flush()
        if not self._pending_writes.follows(study):
            raise self._moved_by_others([study])
        moved = study.after(added, self._machine)
        self._pending_writes.add(study, added, moved)
        self._note_changed(study, added.pulls)
        if self._pending_writes.is_long:
            self._write_down()
            self._changed = None
        self._moved[study.id] = self._after[study.id] = moved
        return moved

    def set_lease(self, study: StudyRow, pull: PullRow) -> StudyRow:
        """Set the end of an open pull's lease, within a transaction; return the study after it."""
        self._pending_writes.set_lease(study.id, pull)
        self._note_changed(study, [pull])
        after = self._after[study.id] = study.after_lease()
        return after

    def _note_changed(self, study: StudyRow, pulls: Sequence[PullRow]) -> None:
        if self._changed is not None:
            changed = self._changed.setdefault(study.id, {})
            changed.update((pull.pull_id, pull) for pull in pulls)

    def records(self, study_id: int, after: int = 0, until: int | None = None) -> Iterator[Record]:
        """Yield the events ``after < seq <= until`` in order, without blocking other callers."""
        return map(Record._make, self._pages(Record, study_id, after, until))

    def steps(self, study_id: int, after: int = 0, until: int | None = None) -> Iterator[Step]:
        """Yield the same events, reduced to what a replay needs."""
        # Plain tuples in the order of `Step`'s fields are faster: a long log has millions.
        return self._pages(Step, study_id, after, until)

    def _pages(self, kind: Any, study_id: int, after: int, until: int | None) -> Iterator[Any]:
        statement = (
            f"SELECT {columns(kind)} FROM event "
            "WHERE study_id = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?"
        )
        last = 2**63 - 1 if until is None else until
        while True:
            page = self._read(study_id, statement, (study_id, after, last, _PAGE))
            for begin in range(0, len(page), _BETWEEN_LOOKS):
                keep_going()
                yield from page[begin : begin + _BETWEEN_LOOKS]
            if len(page) < _PAGE:
                return
            after = page[-1][0]

    def request(self, study_id: int, request_id: str) -> Record | None:
        """Return the event with this request key, or None."""
        statement = f"SELECT {columns(Record)} FROM event WHERE study_id = ? AND request_id = ?"
        with self._lock:
            added = self._pending_writes.request(study_id, request_id)
            row = added or self._one(statement, (study_id, request_id))
        return None if row is None else Record(*row)

    def reports(self, study_id: int, pulls: Sequence[PullRow]) -> list[Record]:
        """Return the readings of some pulls, and measures that were reported before the others."""
        if not pulls:
            return []
        statement = (
            f"SELECT {columns(Record)} FROM event WHERE study_id = ? AND seq > ? "
            f"AND kind = 'report' AND pull_id IN ({', '.join('?' * len(pulls))}) ORDER BY seq"
        )
        after = min(pull.asked_seq for pull in pulls)
        rows = self._read(study_id, statement, (study_id, after, *(pull.pull_id for pull in pulls)))
        return [Record(*row) for row in rows]

    def first(self, study_id: int, kind: str) -> Record | None:
        """Return the first event of a rare kind: any but ask, report and tell."""
        row = self._read_one(
            study_id,
            f"SELECT {columns(Record)} FROM event WHERE study_id = ? AND kind = ? "
            "AND kind NOT IN ('ask', 'report', 'tell') ORDER BY seq LIMIT 1",
            (study_id, kind),
        )
        return None if row is None else Record(*row)

    def all_of(self, study_id: int, kind: str, after: int = 0) -> list[Record]:
        """Return the events ``after < seq`` of a rare kind: any but ask, report and tell."""
        rows = self._read(
            study_id,
            f"SELECT {columns(Record)} FROM event WHERE study_id = ? AND kind = ? "
            "AND kind NOT IN ('ask', 'report', 'tell') AND seq > ? ORDER BY seq",
            (study_id, kind, after),
        )
        return [Record(*row) for row in rows]

    def counts(self, study_id: int) -> Mapping[str, int]:
        """Return the numbers of events by kind, for all kinds except ask, report and tell."""
        return dict(
            self._read(
                study_id,
                "SELECT kind, count(*) FROM event WHERE study_id = ? "
                "AND kind NOT IN ('ask', 'report', 'tell') GROUP BY kind",
                (study_id,),
            )
        )

    # ---------------------------------------------------------------------- pulls

    def pull(self, study_id: int, pull_id: str) -> PullRow | None:
        """Return one pull, or None."""
        with self._lock:
            known = self._known_pull(study_id, pull_id)
            row = known or self._read_one(
                study_id, f"{_SELECT_PULL} AND pull_id = ?", (study_id, pull_id)
            )
        return None if row is None else PullRow(*row)

    def _known_pull(self, study_id: int, pull_id: str) -> PullRow | None:
        """Return a pull that this or an earlier transaction changed; None if it must be read."""
        study = self._locked.get(study_id)
        if study is None or self._changed is None:
            return None
        changed = self._changed.get(study_id, {}).get(pull_id)
        return changed or self._recent.find(study, pull_id)

    def pulls(self, study_id: int) -> Iterator[PullRow]:
        """Yield every pull, in the order in which they entered the log."""
        rows = self._read(study_id, f"{_SELECT_PULL} ORDER BY asked_seq", (study_id,))
        return map(PullRow._make, rows)

    def open_pulls(self, study_id: int, due_by: int | None = None) -> list[PullRow]:
        """Return the open pulls by number; with `due_by`, those whose lease ends by then."""
        statement, parameters = f"{_SELECT_PULL} AND state = 'open'", [study_id]
        if due_by is not None:
            statement += " AND lease_until IS NOT NULL AND lease_until <= ?"
            parameters.append(due_by)
        rows = self._read(study_id, f"{statement} ORDER BY number", parameters)
        return [PullRow(*row) for row in rows]

    def some_pulls(
        self, study_id: int, state: str | None, worker: str | None, after: int, limit: int
    ) -> list[PullRow]:
        """Return pulls by number, after that number: those in a state, or of a worker, or all."""
        statement, parameters = self._those(_SELECT_PULL, study_id, state, worker)
        statement += " AND number > ? ORDER BY number LIMIT ?"
        rows = self._read(study_id, statement, (*parameters, after, limit))
        return [PullRow(*row) for row in rows]

    def count_open(self, study_id: int, worker: str | None = None) -> int:
        """Return the number of open pulls, of one worker or of all."""
        counting = "SELECT count(*) FROM pull WHERE study_id = ?"
        [number] = self._read_one(study_id, *self._those(counting, study_id, "open", worker))
        return int(number)

    @staticmethod
    def _those(
        statement: str, study_id: int, state: str | None, worker: str | None
    ) -> tuple[str, list[Any]]:
        parameters: list[Any] = [study_id]
        if state == "open":
            # Spelled out, because there is an index of open pulls.
            statement += " AND state = 'open'"
        elif state is not None:
            statement, parameters = f"{statement} AND state = ?", [study_id, state]
        if worker is not None:
            statement, parameters = f"{statement} AND worker = ?", [*parameters, worker]
        return statement, parameters

    # ------------------------------------------------------------------ snapshots

    def save_snapshot(self, study_id: int, snapshot: Snapshot) -> None:
        """Save a snapshot in a transaction of its own, and delete all but the newest two."""

        def save() -> None:
            self._change(
                (_REPLACE_SNAPSHOT, [(study_id, *snapshot)]),
                (_DROP_SNAPSHOTS, [(study_id, study_id, _SNAPSHOTS_KEPT)]),
            )

        self.transact(save)

    def snapshots(self, study_id: int) -> Iterator[Snapshot]:
        """Yield the readable snapshots, the newest first."""
        statement = (
            f"SELECT {columns(Snapshot)} FROM snapshot WHERE study_id = ? AND seq < ? "
            "ORDER BY seq DESC LIMIT 1"
        )
        before = 2**63 - 1
        while before > 0:
            try:
                row = self._one(statement, (study_id, before))
            except StorageError as error:
                if not self._is_damage(error.__cause__):
                    raise
                before = self._readable_before(study_id, before)
                continue
            if row is None:
                return
            before = row[0]
            yield Snapshot(*row)

    def _readable_before(self, study_id: int, before: int) -> int:
        """Return the number of a snapshot whose state is damaged; 0 if it cannot be read."""
        statement = "SELECT max(seq) FROM snapshot WHERE study_id = ? AND seq < ?"
        try:
            return int(self._one(statement, (study_id, before))[0] or 0)
        except StorageError as error:
            if not self._is_damage(error.__cause__):
                raise
            return 0

    # -------------------------------------------------------------------- answers

    def answer(self, actor: str, key: str) -> AnswerRow | None:
        """Return the answer to the first request with this key, or None."""
        with self._lock:
            return self._pending_writes.answer(actor, key) or super().answer(actor, key)

    def save_answer(self, answer: AnswerRow) -> None:
        """Keep an answer for requests with the same key, within a transaction."""
        self._pending_writes.add_answer(answer)

    # ----------------------------------------------------------------- statistics

    def publish_statistic(self, study_id: int, process: str, body: str) -> None:
        """Replace the statistics of a process, in a transaction of its own."""
        row = (study_id, process, body, self.now())
        self.transact(lambda: self._change((_PUBLISH, [row])))

    def statistics(self, study_id: int) -> Mapping[str, str]:
        """Return the latest statistics of every process, by its name."""
        return dict(
            self._all("SELECT process, body FROM statistic WHERE study_id = ?", (study_id,))
        )

    @staticmethod
    @abstractmethod
    def _is_damage(error: BaseException | None) -> bool:
        """Return whether an error of the database means that stored data are damaged."""
