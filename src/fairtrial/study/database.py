"""One SQLite file: opened, guarded against losses that SQLite does not notice, written in turns."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from fairtrial.core.files import create_private, sync_folder
from fairtrial.core.validation import check_choice
from fairtrial.errors import CorruptLog, StorageBusy, StorageError, StorageFull
from fairtrial.study.head_file import Head, HeadFile
from fairtrial.study.schema import prepare
from fairtrial.study.statements import Change, is_in_no_row
from fairtrial.study.tables import TableStore
from fairtrial.study.turns import Turns
from fairtrial.study.wal_frames import commits_left_behind
from fairtrial.version import __version__

__all__ = ["Database"]

_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_ROOM = 65_536
"""Bytes that SQLite may need at once, for its index of the write-ahead log."""
_READ_ONLY = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR)
_REASONS = {
    sqlite3.SQLITE_READONLY: "it is read-only",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened: is its folder readable and writable?",
    sqlite3.SQLITE_CORRUPT: "the file is damaged",
    sqlite3.SQLITE_NOTADB: "it is not an SQLite database",
    sqlite3.SQLITE_IOERR: "reading or writing failed; nothing of this write was kept",
}
_SYNCHRONOUS = {"full": "FULL", "process": "NORMAL"}

_Answer = TypeVar("_Answer")


class Database(TableStore):
    """Tables in an SQLite file or in memory.

    This class closes three gaps that SQLite leaves open.

    - Versions before 3.51.3 can lose commits if one connection moves the write-ahead log into
      the file while another one commits ("WAL-reset bug"). Here only the process whose turn it is
      to write moves the log: after its own commit and before the next process's.
    - If the write-ahead log is damaged, cut short or missing, the database silently falls back to
      an earlier state. A `HeadFile` beside the database detects this.
    - SQLite's lock is not fair and does not say who holds it. `Turns` do both.

    Parameters
    ----------
    path : Path or None
        The file; None keeps everything in memory.
    durability : {"full", "process"}
        ``"full"``: a commit survives a power failure, as far as the disk honours flushes.
        ``"process"``: several times faster; commits survive the end of the process, but a power
        failure can lose the last ones.
    create : bool
        Whether to create the file if it is missing; only its owner can read the new file.
    busy_timeout : float
        Seconds to wait for another process before raising `StorageBusy`.
    accept_loss : bool
        Whether to accept logs that are shorter than the head file says, and to update it.
    clock : callable
        Returns seconds since 1970.
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
        check_choice("durability", durability, list(_SYNCHRONOUS))
        super().__init__()
        self._clock = clock
        self._path = None if path is None else path.absolute()
        # The write-ahead log.
        self._log_path = None if path is None else Path(f"{self._path}-wal")
        self._durability = durability
        self._busy_timeout = busy_timeout
        self._accepts_loss = accept_loss
        self._turns: Turns | None = None
        self._head_file = None if self._path is None else HeadFile(self._path)
        self._is_noted = False
        self._synchronous: str | None = None
        self._doubt: str | None = None
        self._is_long = False
        self._log_identity: tuple[int, int] | None = None
        self._stamp: tuple[int, ...] | None = None
        self._connection = self._opened(create)
        self._identity = _identity(self._path)

    @property
    def _where(self) -> str:
        return "the store in memory" if self._path is None else str(self._path)

    def close(self) -> None:
        """Close the connection; closing it twice has no effect."""
        with self._lock:
            with suppress(sqlite3.Error):
                self._connection.close()
            if self._turns is not None:
                self._turns.close()
            if self._head_file is not None:
                self._head_file.close()

    # -------------------------------------------------------------------- opening

    def _opened(self, create: bool) -> sqlite3.Connection:
        # Read the head file before the database: what it says now must be in the logs by then.
        noted = self._noted()
        if create and self._path is not None:
            self._make_file(self._path)
        mode = "rwc" if create else "rw"
        self._stamp = None
        with self._translated():
            try:
                connection = self._connected(f"mode={mode}")
                self._patiently(lambda: self._prepared(connection, noted))
            except sqlite3.OperationalError as error:
                if _code(error) not in _READ_ONLY or not self._is_at_rest():
                    raise
                # If no write-ahead log can be created here, nobody can write, so reading is safe.
                self._stamp = self._stamp_now()
                connection = self._prepared(self._connected("mode=ro&immutable=1"), noted)
        return connection

    def _make_file(self, path: Path) -> None:
        """Create the file so that its name also survives a power failure."""
        try:
            if create_private(path) and self._durability == "full":
                sync_folder(path.parent)
        except OSError as error:
            reason = _REASONS[sqlite3.SQLITE_CANTOPEN]
            raise StorageError(f"{path}: {reason} ({error.strerror})") from error

    def _connected(self, options: str) -> sqlite3.Connection:
        name = ":memory:" if self._path is None else f"file:{quote(str(self._path))}?{options}"
        return sqlite3.connect(
            name, uri=True, timeout=0.1, isolation_level=None, check_same_thread=False
        )

    def _prepared(
        self, connection: sqlite3.Connection, noted: Mapping[int, Head] | None
    ) -> sqlite3.Connection:
        """Set up a connection. All steps read the file, which others may lock for a while."""
        self._synchronous = _SYNCHRONOUS[self._durability]
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        connection.execute(f"PRAGMA fullfsync = {int(self._durability == 'full')}")
        connection.execute("PRAGMA cache_size = -16000")
        # Only `_move_log` does this: see the class.
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        self._compare(connection, noted or {})
        prepare(connection, self._path, __version__)
        return connection

    def _is_at_rest(self) -> bool:
        """Return whether the file is complete: there is no write-ahead log beside it."""
        if self._path is None or self._log_path is None or not self._path.exists():
            return False
        return not self._log_path.exists() or self._log_path.stat().st_size == 0

    # ---------------------------------------------------------------- the head file

    def _noted(self) -> Mapping[int, Head] | None:
        """Return what the head file says; without one, look for commits recovery would miss."""
        if self._head_file is None or self._log_path is None or self._accepts_loss:
            return None
        noted = self._head_file.read()
        self._is_noted = noted is not None
        if noted is None:
            with suppress(PermissionError):
                lost = commits_left_behind(self._log_path)
                if lost:
                    raise self._shortened(
                        f"its write-ahead log {self._log_path.name} is damaged, and "
                        f"{lost:,} of the last writes are behind the damage and cannot be read"
                    )
        return noted

    def _compare(self, connection: sqlite3.Connection, noted: Mapping[int, Head]) -> None:
        """Raise if a log is shorter than the head file says; remember if it is a different log."""
        self._doubt = None
        studies = _studies(connection) if noted else {}
        for study_id, head in noted.items():
            name, seq = studies.get(study_id, (None, -1))
            if seq < head.seq:
                what = "a study is missing" if name is None else f"study {name!r} ends with {seq:,}"
                raise self._shortened(
                    f"{what}, but event {head.seq:,} was acknowledged (according to "
                    f"{self._head_file_name}): its write-ahead log is damaged or was removed, or "
                    "the file was replaced by an older one"
                )
            if head.seq and _hash_of(connection, study_id, head.seq) != head.hash:
                # The study can be read and audited, but no longer written.
                self._doubt = (
                    f"{self._where}: event {head.seq:,} of study {name!r} is not the one that was "
                    f"acknowledged (according to {self._head_file_name}): the log was altered or "
                    "replaced"
                )

    @property
    def _head_file_name(self) -> str:
        return "" if self._head_file is None else self._head_file.path.name

    def _shortened(self, what: str) -> CorruptLog:
        return CorruptLog(
            f"{self._where}: {what}. Nothing was changed. Keep a copy of the file and of those "
            f"beside it ({self._path.name if self._path else ''}-*); then restore a backup, or "
            "continue with what is left: `fairtrial study accept-loss`"
        )

    def _note(self) -> None:
        """Record the committed heads in the head file."""
        assert self._head_file is not None
        # The commit is safe whatever happens here; an outdated head file only detects less.
        with suppress(OSError, sqlite3.Error):
            if not self._is_noted:
                # A new head file must record all studies.
                heads = "SELECT id, head_seq, head_hash FROM study"
                rows = self._connection.execute(heads).fetchall()
                moved = {study_id: Head(seq, digest) for study_id, seq, digest in rows}
            else:
                moved = {row.id: Head(row.head_seq, row.head_hash) for row in self._moved.values()}
            self._head_file.note(moved)
            if not self._is_noted and self._durability == "full":
                self._head_file.flush()
                sync_folder(self._head_file.path.parent)
            self._is_noted = True

    def accept_loss(self) -> None:
        """Make the head file record what the logs hold now, and forget what they once held."""
        if self._head_file is not None:
            self._head_file.remove()
        self._is_noted = False
        self.transact(lambda: None)

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
            holder = "" if self._turns is None else f" (the last to write was {self._turns.holder})"
            return StorageBusy(
                f"{self._where} was locked by another process for {self._busy_timeout:g} s"
                f"{holder}; nothing of this call was kept: try again"
            )
        if isinstance(error, sqlite3.ProgrammingError):
            return StorageError(f"{self._where} cannot be used: {error}")
        if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and self._has_no_room):
            return StorageFull(
                f"{self._where}: the disk is full; nothing of this call was kept ({error})"
            )
        return StorageError(f"{self._where}: {_REASONS.get(code, 'SQLite refused')} ({error})")

    @property
    def _has_no_room(self) -> bool:
        """Whether the disk is full: then SQLite reports some failures as those of the disk."""
        if self._path is None:
            return False
        with suppress(OSError):
            return shutil.disk_usage(self._path.parent).free < _ROOM
        return False

    def _patiently(self, action: Callable[[], _Answer]) -> _Answer:
        """Return the result of an action, retried while another program holds the lock."""
        deadline = None
        while True:
            try:
                return action()
            except sqlite3.OperationalError as error:
                deadline = deadline or time.monotonic() + self._busy_timeout
                if _code(error) not in _BUSY or time.monotonic() >= deadline:
                    raise
            time.sleep(random.uniform(0.001, 0.02))  # noqa: S311

    def _require_no_doubt(self) -> None:
        if self._doubt is not None:
            raise CorruptLog(f"{self._doubt}; nothing more is written to it")

    def _require_same_file(self) -> None:
        if _identity(self._path) != self._identity:
            raise StorageError(f"{self._where} was removed or replaced while it was open")
        if self._log_identity is not None and _identity(self._log_path) != self._log_identity:
            raise StorageError(
                f"{self._log_path} was removed or replaced while it was open; the last writes "
                "may be lost"
            )

    # --------------------------------------------------------------- transactions

    @property
    def _is_writing(self) -> bool:
        return self._connection.in_transaction

    def _begin(self) -> None:
        self._require_same_file()
        self._require_no_doubt()
        if self._path is not None:
            self._taken_turns(self._path).take()
        try:
            self._synchronize()
            self._patiently(partial(self._connection.execute, "BEGIN IMMEDIATE"))
            [schema] = self._connection.execute("PRAGMA user_version").fetchone()
        except sqlite3.Error as error:
            raise self._error(error) from error
        self._require_schema(schema)

    def _synchronize(self) -> None:
        """Let the next commit be flushed, if it has to be.

        A commit that is not flushed is in the write-ahead log before all later ones, and the flush
        of any of these covers it.
        """
        wanted = _SYNCHRONOUS[self._durability if self._flushes else "process"]
        if wanted != self._synchronous:
            # Unknown meanwhile, in case of an interrupt.
            self._synchronous = None
            self._connection.execute(f"PRAGMA synchronous = {wanted}")
            self._synchronous = wanted

    def _taken_turns(self, path: Path) -> Turns:
        if self._turns is None:
            if self._stamp is not None or not os.access(path, os.W_OK):
                raise StorageError(f"{self._where}: {_REASONS[sqlite3.SQLITE_READONLY]}")
            self._turns = Turns(path, self._busy_timeout)
        return self._turns

    def _commit(self) -> None:
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._error(error) from error
        if self._path is not None:
            if self._log_identity is None:
                self._log_identity = _identity(self._log_path)
            if self._moved or not self._is_noted:
                self._note()
            if self._is_long:
                self._move_log()

    def _move_log(self) -> None:
        """Move the write-ahead log into the file; its space is then reused from the beginning.

        This process still has its turn, so no other process of ours commits meanwhile. If a reader
        is in the way, the log grows until the next attempt.
        """
        with suppress(sqlite3.Error):
            self._connection.execute("PRAGMA wal_checkpoint(FULL)").fetchall()
        if self._durability == "full" and self._head_file is not None:
            with suppress(OSError):
                self._head_file.flush()

    def _end(self) -> None:
        """Undo what is not committed, and give the turn back; calling it twice has no effect."""
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            # The connection is unusable; SQLite undoes its write when the file is next opened.
            pass
        finally:
            self._moved = {}
            self._is_long = False
            if self._turns is not None:
                self._turns.give_back()

    # -------------------------------------------------------------------- reading

    def _all(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        self._require_own_process()
        if is_in_no_row(parameters):
            return []
        with self._lock:
            while True:
                if self._stamp is not None:
                    self._look_again()
                try:
                    # A read may also have to wait while another process recovers after a crash.
                    found = self._patiently(partial(self._fetched, statement, parameters))
                except sqlite3.Error as error:
                    raise self._error(error) from error
                if self._stamp is None or self._stamp == self._stamp_now():
                    return found

    def _fetched(self, statement: str, parameters: Sequence[Any]) -> list[Any]:
        return self._connection.execute(statement, parameters).fetchall()

    def _change(self, *changes: Change) -> int:
        changed = 0
        with self._translated():
            for statement, rows in changes:
                if rows:
                    changed = self._connection.executemany(statement, rows).rowcount
        return changed

    @staticmethod
    def _is_damage(error: BaseException | None) -> bool:
        return isinstance(error, sqlite3.Error) and _code(error) in _DAMAGED

    def _look_again(self) -> None:
        """Reopen a file that was opened as unchanging, if it has been written since."""
        if self._stamp != self._stamp_now():
            self._connection.close()
            self._connection = self._opened(create=False)

    def _stamp_now(self) -> tuple[int, ...] | None:
        """Return values that change whenever a file that is read without a lock is written."""
        if self._path is None or self._log_path is None:
            return None
        found = self._path.stat()
        log = self._log_path.stat().st_size if self._log_path.exists() else 0
        return found.st_ino, found.st_size, found.st_mtime_ns, log


def _studies(connection: sqlite3.Connection) -> dict[int, tuple[str, int]]:
    """Return name and last event by study id; empty if the database is new."""
    tables = "SELECT count(*) FROM sqlite_master WHERE name = 'study'"
    if not connection.execute(tables).fetchone()[0]:
        return {}
    rows = connection.execute("SELECT id, name, head_seq FROM study").fetchall()
    return {study_id: (name, seq) for study_id, name, seq in rows}


def _hash_of(connection: sqlite3.Connection, study_id: int, seq: int) -> str | None:
    statement = "SELECT hash FROM event WHERE study_id = ? AND seq = ?"
    row = connection.execute(statement, (study_id, seq)).fetchone()
    return None if row is None else str(row[0])


def _code(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _identity(path: Path | None) -> tuple[int, int] | None:
    if path is None:
        return None
    try:
        found = os.stat(path)  # noqa: PTH116 - in every write, and three times as fast
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
