"""Studies in an SQLite file, or in memory."""

# ruff: noqa: S608 - only the names of our own columns are written into statements

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fairtrial.errors import CorruptLog, StorageError
from fairtrial.study.clock import microseconds
from fairtrial.study.database import Database, is_damage
from fairtrial.study.log import PullRow, Record, Step
from fairtrial.study.machine import boot
from fairtrial.study.schema import missing_triggers
from fairtrial.study.store import NewStudy, Snapshot, StudyRow
from fairtrial.study.witness import Head

__all__ = ["SQLiteStore"]

_SNAPSHOTS_KEPT = 2
_MOVE_EVERY = 400
"""Events after which the write-ahead log, of some four megabytes then, is moved to the file."""
_PAGE = 5_000
"""Events fetched at a time: long reads never hold a lock that would let the log grow."""


def _columns(row_type: Any) -> str:
    return ", ".join(row_type._fields)


def _places(row_type: Any) -> str:
    return ", ".join("?" for _ in row_type._fields)


_SELECT_STUDY = f"SELECT {_columns(StudyRow)} FROM study"
_SELECT_ONE = f"{_SELECT_STUDY} WHERE id = ?"
_SELECT_PULL = f"SELECT {_columns(PullRow)} FROM pull WHERE study_id = ?"
_INSERT_EVENT = f"INSERT INTO event (study_id, {_columns(Record)}) VALUES (?, {_places(Record)})"
_REPLACE_PULL = (
    f"INSERT OR REPLACE INTO pull (study_id, {_columns(PullRow)}) VALUES (?, {_places(PullRow)})"
)
_MOVE_HEAD = (
    "UPDATE study SET status = ?, head_seq = ?, head_hash = ?, duplicates = duplicates + ?, "
    "machine = ?, environment = coalesce(?, environment) "
    "WHERE id = ? AND head_seq = ? AND head_hash = ?"
)


class SQLiteStore(Database):
    """A `Store` in one SQLite file.

    Parameters
    ----------
    path, durability, create, busy_timeout, accept_loss
        As in `Database`.
    clock : callable
        Seconds since 1970.
    """

    def __init__(
        self,
        path: Path | None = None,
        durability: str = "full",
        *,
        create: bool = True,
        busy_timeout: float = 30.0,
        accept_loss: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self._machine = boot()
        self._last: dict[int, int] = {}
        super().__init__(
            path,
            durability,
            create=create,
            busy_timeout=busy_timeout,
            accept_loss=accept_loss,
        )

    @property
    def url(self) -> str:
        """The address that opens it again."""
        return "memory://" if self._path is None else f"sqlite:///{self._path}"

    def now(self) -> int:
        """Return the clock: microseconds since 1970 (UTC)."""
        return microseconds(self._clock())

    # -------------------------------------------------------------------- studies

    def insert_study(self, new: NewStudy) -> StudyRow:
        """Write a study down, within a transaction; its log is empty."""
        self._one(
            f"INSERT INTO study ({_columns(NewStudy)}, status, head_seq, head_hash, duplicates) "
            f"VALUES ({_places(NewStudy)}, 'running', 0, ?, 0)",
            (*new, new.origin),
        )
        study = self.find_study(new.name)
        assert study is not None
        self._moved[study.id] = Head(0, study.head_hash)
        return study

    def find_study(self, name: str) -> StudyRow | None:
        """Return the study of that name."""
        row = self._one(f"{_SELECT_STUDY} WHERE name = ?", (name,))
        return None if row is None else StudyRow(*row)

    def read_study(self, study_id: int) -> StudyRow:
        """Return the study as it is now; `transaction` has locked the whole file."""
        study = StudyRow(*self._one(_SELECT_ONE, (study_id,)))
        if study.head_seq < self._last.get(study_id, 0):
            raise CorruptLog(
                f"{self._where}: the log of study {study.name!r} ends with event "
                f"{study.head_seq:,}, and event {self._last[study_id]:,} was there before"
            )
        self._require_one_machine(study)
        return study

    def _require_one_machine(self, study: StudyRow) -> None:
        """Raise if another machine writes the same file: locks hold within one machine only."""
        if study.id not in self._last or study.machine is None:
            return
        if study.machine.split()[0] != self._machine.split()[0]:
            host = study.machine.split()[-1]
            raise StorageError(
                f"{self._where} is written by another machine ({host}) at the same time, where "
                "SQLite's locks do not hold and events get lost: use it from one machine only, "
                "then open the study again and verify it"
            )

    def studies(self) -> list[StudyRow]:
        """Return all studies, the oldest first."""
        return [StudyRow(*row) for row in self._all(f"{_SELECT_STUDY} ORDER BY id")]

    # ------------------------------------------------------------------------ log

    def append(
        self,
        study: StudyRow,
        records: Sequence[Record],
        pulls: Sequence[PullRow],
        status: str,
        duplicates: int = 0,
        environment: str | None = None,
    ) -> StudyRow:
        """Add events and their projection, within a transaction; return the study after them."""
        moved = study.after(records, status, duplicates, environment, self._machine)
        with self._translated():
            run = self._connection
            run.executemany(_INSERT_EVENT, [(study.id, *record) for record in records])
            run.executemany(_REPLACE_PULL, [(study.id, *pull) for pull in pulls])
            changed = run.execute(
                _MOVE_HEAD,
                (
                    *(status, moved.head_seq, moved.head_hash, duplicates),
                    *(self._machine, environment),
                    *(study.id, study.head_seq, study.head_hash),
                ),
            ).rowcount
        if changed != 1:
            raise StorageError(
                f"{self._where}: the head of study {study.name!r} moved during a write, "
                "of which nothing was kept"
            )
        self._moved[study.id] = Head(moved.head_seq, moved.head_hash)
        self._is_long |= moved.head_seq // _MOVE_EVERY != study.head_seq // _MOVE_EVERY
        return moved

    def _commit(self) -> None:
        super()._commit()
        for study_id, head in self._moved.items():
            self._last[study_id] = head.seq

    def records(self, study_id: int, after: int = 0, until: int | None = None) -> Iterator[Record]:
        """Yield events ``after < seq <= until`` in order, without holding anybody up."""
        return map(Record._make, self._pages(Record, study_id, after, until))

    def steps(self, study_id: int, after: int = 0, until: int | None = None) -> Iterator[Step]:
        """Yield the same events, of each only what a replay needs."""
        # Plain tuples in the order of `Step`'s fields: a long log has millions.
        return self._pages(Step, study_id, after, until)

    def _pages(self, kind: Any, study_id: int, after: int, until: int | None) -> Iterator[Any]:
        statement = (
            f"SELECT {_columns(kind)} FROM event "
            "WHERE study_id = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?"
        )
        last = 2**63 - 1 if until is None else until
        while True:
            page = self._all(statement, (study_id, after, last, _PAGE))
            yield from page
            if len(page) < _PAGE:
                return
            after = page[-1][0]

    def request(self, study_id: int, request_id: str) -> Record | None:
        """Return the event that carries the request's key."""
        row = self._one(
            f"SELECT {_columns(Record)} FROM event WHERE study_id = ? AND request_id = ?",
            (study_id, request_id),
        )
        return None if row is None else Record(*row)

    def counts(self, study_id: int) -> Mapping[str, int]:
        """Return the numbers of events by kind, of all kinds but ask, report and tell."""
        return dict(
            self._all(
                "SELECT kind, count(*) FROM event WHERE study_id = ? "
                "AND kind NOT IN ('ask', 'report', 'tell') GROUP BY kind",
                (study_id,),
            )
        )

    # ---------------------------------------------------------------------- pulls

    def pull(self, study_id: int, pull_id: str) -> PullRow | None:
        """Return one pull."""
        row = self._one(f"{_SELECT_PULL} AND pull_id = ?", (study_id, pull_id))
        return None if row is None else PullRow(*row)

    def pulls(self, study_id: int) -> Iterator[PullRow]:
        """Yield every pull, in the order in which they entered the log."""
        return map(PullRow._make, self._all(f"{_SELECT_PULL} ORDER BY asked_seq", (study_id,)))

    def open_pulls(self, study_id: int, due_by: int | None = None) -> list[PullRow]:
        """Return the open pulls by number; with `due_by` those whose lease ends by then."""
        statement, parameters = f"{_SELECT_PULL} AND state = 'open'", [study_id]
        if due_by is not None:
            statement += " AND lease_until IS NOT NULL AND lease_until <= ?"
            parameters.append(due_by)
        return [PullRow(*row) for row in self._all(f"{statement} ORDER BY number", parameters)]

    # ------------------------------------------------------------------ snapshots

    def save_snapshot(self, study_id: int, snapshot: Snapshot) -> None:
        """Keep a snapshot, in a transaction of its own; drop all but the newest two."""

        def save() -> None:
            self._one(
                f"INSERT OR REPLACE INTO snapshot (study_id, {_columns(Snapshot)}) "
                f"VALUES (?, {_places(Snapshot)})",
                (study_id, *snapshot),
            )
            self._one(
                "DELETE FROM snapshot WHERE study_id = ? AND seq NOT IN (SELECT seq FROM "
                "snapshot WHERE study_id = ? ORDER BY seq DESC LIMIT ?)",
                (study_id, study_id, _SNAPSHOTS_KEPT),
            )

        self.transact(save)

    def snapshots(self, study_id: int) -> Iterator[Snapshot]:
        """Yield the snapshots, the newest first, without those that cannot be read."""
        before = 2**63 - 1
        statement = (
            f"SELECT {_columns(Snapshot)} FROM snapshot WHERE study_id = ? AND seq < ? "
            "ORDER BY seq DESC LIMIT 1"
        )
        while before > 0:
            try:
                row = self._one(statement, (study_id, before))
            except StorageError as error:
                if not is_damage(error.__cause__):
                    raise
                before = self._readable_before(study_id, before)
                continue
            if row is None:
                return
            before = row[0]
            yield Snapshot(*row)

    def _readable_before(self, study_id: int, before: int) -> int:
        """Return the number of a snapshot whose state is damaged; 0 if no number can be read."""
        statement = "SELECT max(seq) FROM snapshot WHERE study_id = ? AND seq < ?"
        try:
            return int(self._one(statement, (study_id, before))[0] or 0)
        except StorageError as error:
            if not is_damage(error.__cause__):
                raise
            return 0

    # --------------------------------------------------------------------- damage

    def damage(self) -> str | None:
        """Return what is wrong with the file: damaged pages, or guards that were removed."""
        try:
            [(found,)] = self._all("PRAGMA quick_check(1)")
        except StorageError as error:
            return str(error)
        if found != "ok":
            return f"{self._where}: the file is damaged ({' '.join(str(found).split())})"
        if self._doubt is not None:
            return self._doubt
        missing = missing_triggers(self._connection)
        if missing:
            return (
                f"{self._where}: the guards that keep a log from being changed were removed or "
                f"altered ({', '.join(missing)})"
            )
        return None
