"""Studies in an SQLite file, or in memory."""

# ruff: noqa: S608 - only the names of our own columns are written into statements

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from fairtrial.core.validation import check_choice
from fairtrial.errors import StorageBusy, StorageError
from fairtrial.study.log import PullRow, Record, Step
from fairtrial.study.schema import prepare
from fairtrial.study.store import NewStudy, Snapshot, StudyRow

__all__ = ["SQLiteStore"]

_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_READ_ONLY = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)
_REASONS = {
    sqlite3.SQLITE_FULL: "the disk is full; nothing of this write was kept",
    sqlite3.SQLITE_READONLY: "it is read-only",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened: is its folder readable and writable?",
    sqlite3.SQLITE_CORRUPT: "the file is damaged",
    sqlite3.SQLITE_NOTADB: "it is not an SQLite database",
    sqlite3.SQLITE_IOERR: "reading or writing failed; nothing of this write was kept",
}

_Answer = TypeVar("_Answer")

_SYNCHRONOUS = {"full": "FULL", "process": "NORMAL"}
_SNAPSHOTS_KEPT = 2
_PAGE = 5_000
"""Events fetched at a time: long reads never hold a lock that would let the log grow."""


def _columns(row_type: Any) -> str:
    return ", ".join(row_type._fields)


def _places(row_type: Any) -> str:
    return ", ".join("?" for _ in row_type._fields)


_SELECT_STUDY = f"SELECT {_columns(StudyRow)} FROM study"
_SELECT_PULL = f"SELECT {_columns(PullRow)} FROM pull WHERE study_id = ?"
_INSERT_EVENT = f"INSERT INTO event (study_id, {_columns(Record)}) VALUES (?, {_places(Record)})"
_REPLACE_PULL = (
    f"INSERT OR REPLACE INTO pull (study_id, {_columns(PullRow)}) VALUES (?, {_places(PullRow)})"
)


class SQLiteStore:
    """A `Store` in one SQLite file.

    Parameters
    ----------
    path : Path or None
        The file; None keeps everything in memory.
    durability : {"full", "process"}
        ``"full"``: an acknowledged event survives a loss of power, as far as the disk
        honours flushes. ``"process"``: about twenty times faster; events survive the end
        of the process, but a loss of power may take the last ones.
    create : bool
        Whether the file may be a new one.
    busy_timeout : float
        Seconds to wait for another process before `StorageBusy`.
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
        clock: Callable[[], float] = time.time,
    ) -> None:
        check_choice("durability", durability, list(_SYNCHRONOUS))
        self._path = None if path is None else path.absolute()
        self._durability = durability
        self._busy_timeout = busy_timeout
        self._clock = clock
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._connection = self._opened(create)
        self._identity = self._file_identity()

    @property
    def url(self) -> str:
        """The address that opens it again."""
        return "memory://" if self._path is None else f"sqlite:///{self._path}"

    @property
    def _where(self) -> str:
        return "the store in memory" if self._path is None else str(self._path)

    def now(self) -> int:
        """Return the clock: microseconds since 1970 (UTC)."""
        return round(self._clock() * 1e6)

    # ----------------------------------------------------------------- connection

    def _opened(self, create: bool) -> sqlite3.Connection:
        mode = "rwc" if create else "rw"
        with self._translated():
            try:
                connection = self._connected(f"mode={mode}")
                self._patiently(lambda: self._prepared(connection))
            except sqlite3.OperationalError as error:
                if _code(error) not in _READ_ONLY or not self._is_at_rest():
                    raise
                # Nobody can write where no log can be made: reading it as it is, is safe.
                connection = self._prepared(self._connected("mode=ro&immutable=1"))
        return connection

    def _connected(self, options: str) -> sqlite3.Connection:
        name = ":memory:" if self._path is None else f"file:{quote(str(self._path))}?{options}"
        return sqlite3.connect(
            name, uri=True, timeout=0.1, isolation_level=None, check_same_thread=False
        )

    def _prepared(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        """Set up a connection: all of this reads the file, which others may hold for a while."""
        from fairtrial import __version__

        connection.execute(f"PRAGMA synchronous = {_SYNCHRONOUS[self._durability]}")
        connection.execute(f"PRAGMA fullfsync = {int(self._durability == 'full')}")
        connection.execute("PRAGMA cache_size = -16000")
        prepare(connection, self._path, __version__)
        return connection

    def _is_at_rest(self) -> bool:
        """Return whether the file holds all: no write-ahead log lies beside it."""
        if self._path is None or not self._path.exists():
            return False
        log = self._path.with_name(self._path.name + "-wal")
        return not log.exists() or log.stat().st_size == 0

    def _file_identity(self) -> tuple[int, int] | None:
        if self._path is None:
            return None
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def close(self) -> None:
        """Close the connection; a second time does nothing."""
        with self._lock, suppress(sqlite3.Error):
            self._connection.close()

    # --------------------------------------------------------------------- errors

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._error(error) from error

    def _error(self, error: sqlite3.Error) -> StorageError:
        code = _code(error)
        if code in _BUSY:
            return StorageBusy(
                f"{self._where} was locked by another process for {self._busy_timeout:g} s; "
                "nothing of this call was kept: try again"
            )
        if isinstance(error, sqlite3.ProgrammingError):
            return StorageError(f"{self._where} cannot be used: {error}")
        return StorageError(f"{self._where}: {_REASONS.get(code, 'SQLite refused')} ({error})")

    def _patiently(self, action: Callable[[], _Answer]) -> _Answer:
        """Return what an action gives, tried again while another process holds the lock.

        SQLite's own waiting takes longer and longer steps, so that one process could keep
        another out; short random ones are fair.
        """
        deadline = time.monotonic() + self._busy_timeout
        while True:
            try:
                return action()
            except sqlite3.OperationalError as error:
                if _code(error) not in _BUSY or time.monotonic() >= deadline:
                    raise
            time.sleep(random.uniform(0.001, 0.02))  # noqa: S311

    def _require_own_process(self) -> None:
        if os.getpid() != self._process:
            raise StorageError(
                f"{self._where} was opened by another process (this one is its fork): "
                "open the study anew in every process"
            )

    def _require_no_write(self) -> None:
        if self._connection.in_transaction:
            raise StorageError(f"{self._where}: a write cannot begin within another")

    def _require_same_file(self) -> None:
        if self._file_identity() != self._identity:
            raise StorageError(f"{self._where} was removed or replaced while it was open")

    # --------------------------------------------------------------- transactions

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Return a context in which this process alone writes; all or nothing is kept."""
        with self._lock:
            self._require_own_process()
            self._require_same_file()
            self._require_no_write()
            # Within `try`: an interrupt right after BEGIN must not leave the file locked.
            try:
                with self._translated():
                    self._patiently(lambda: self._connection.execute("BEGIN IMMEDIATE"))
                yield
                with self._translated():
                    self._connection.execute("COMMIT")
            finally:
                # Not after a commit: then there is none left.
                with suppress(sqlite3.Error):
                    if self._connection.in_transaction:
                        self._connection.execute("ROLLBACK")

    def _all(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        self._require_own_process()
        with self._lock, self._translated():
            # Reading waits too: while another process recovers the log after a crash.
            run = self._connection.execute
            return self._patiently(lambda: run(statement, parameters).fetchall())

    def _one(self, statement: str, parameters: Sequence[Any] = ()) -> Any:
        return next(iter(self._all(statement, parameters)), None)

    # -------------------------------------------------------------------- studies

    def insert_study(self, new: NewStudy) -> StudyRow:
        """Write a study down, within a transaction; its log is empty."""
        self._one(
            f"INSERT INTO study ({_columns(NewStudy)}, status, head_seq, head_hash, duplicates) "
            f"VALUES ({_places(NewStudy)}, 'running', 0, ?, 0)",
            (*new, new.spec_sha256),
        )
        study = self.find_study(new.name)
        assert study is not None
        return study

    def find_study(self, name: str) -> StudyRow | None:
        """Return the study of that name."""
        row = self._one(f"{_SELECT_STUDY} WHERE name = ?", (name,))
        return None if row is None else StudyRow(*row)

    def read_study(self, study_id: int) -> StudyRow:
        """Return the study as it is now; `transaction` has locked the whole file."""
        return StudyRow(*self._one(f"{_SELECT_STUDY} WHERE id = ?", (study_id,)))

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
    ) -> StudyRow:
        """Add events and their projection, within a transaction; return the study after them."""
        seq, digest = study.head_seq, study.head_hash
        if records:
            seq, digest = records[-1].seq, records[-1].hash
        with self._translated():
            run = self._connection
            run.executemany(_INSERT_EVENT, [(study.id, *record) for record in records])
            run.executemany(_REPLACE_PULL, [(study.id, *pull) for pull in pulls])
            changed = run.execute(
                "UPDATE study SET status = ?, head_seq = ?, head_hash = ?, "
                "duplicates = duplicates + ? WHERE id = ? AND head_seq = ? AND head_hash = ?",
                (status, seq, digest, duplicates, study.id, study.head_seq, study.head_hash),
            ).rowcount
        if changed != 1:
            raise StorageError(
                f"{self._where}: the head of study {study.name!r} moved during a write, "
                "of which nothing was kept"
            )
        return study._replace(
            status=status,
            head_seq=seq,
            head_hash=digest,
            duplicates=study.duplicates + duplicates,
        )

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
        with self.transaction():
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

    def snapshots(self, study_id: int) -> Iterator[Snapshot]:
        """Yield the snapshots, the newest first."""
        statement = (
            f"SELECT {_columns(Snapshot)} FROM snapshot WHERE study_id = ? ORDER BY seq DESC"
        )
        return map(Snapshot._make, self._all(statement, (study_id,)))


def _code(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
