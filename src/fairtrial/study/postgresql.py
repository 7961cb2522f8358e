"""Studies in a PostgreSQL database, accessed through psycopg."""

# ruff: noqa: S608 - only the names of our own columns are written into statements

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from typing import Any, TypeVar

import psycopg
from psycopg import errors
from psycopg.pq import TransactionStatus

from fairtrial.core.validation import check_choice
from fairtrial.core.warning import warn_caller
from fairtrial.errors import (
    ConnectionLost,
    StorageBusy,
    StorageError,
    StorageFull,
    StorageUnreachable,
)
from fairtrial.study import postgresql_schema
from fairtrial.study.clock import microseconds
from fairtrial.study.postgresql_connection import connected
from fairtrial.study.postgresql_listener import NotificationListener
from fairtrial.study.postgresql_settings import SessionSettings
from fairtrial.study.schema import APPLICATION_ID
from fairtrial.study.server_address import ServerAddress
from fairtrial.study.statements import Change, columns, is_in_no_row
from fairtrial.study.store import RowLocked, StudyRow
from fairtrial.study.tables import TableStore
from fairtrial.version import __version__

__all__ = ["PostgreSQLStore"]

_DURABILITIES = ("full", "process")
_CONNECTING = {
    "application_name": "fairtrial",
    # A server that disappears without closing the connection is noticed after about 25 seconds.
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
}
# Whatever the address says: names may be in any script.
_ENCODING = {"client_encoding": "UTF8"}
_SCHEMA = f"SELECT value FROM {postgresql_schema.NAMESPACE}.meta WHERE key = 'schema'"
_CHANNEL = "fairtrial"
_COMMIT_AND_TELL = f"NOTIFY {_CHANNEL}; COMMIT"
_LONGEST_SILENCE = 5.0
"""Seconds without a notification, after which the server is asked whether anything was written."""
_NOW = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
# Reads the clock together with the locked row, which saves a round trip to the server.
_LOCK_STUDY = f"SELECT {_NOW}, {columns(StudyRow)} FROM study WHERE id = ? FOR UPDATE"
# PostgreSQL's application locks have two numbers; our first ones are for creating and running.
_MAKERS = f"{APPLICATION_ID}, hashtext(?)"
_RUNNERS = f"{APPLICATION_ID + 1}, hashtext(?)"
_ENTER = f"SELECT pg_advisory_lock_shared({_RUNNERS})"
SETTLING_SECONDS = 30
"""After a restart of the server, processes that run a study need some time to reconnect."""
_TRY_TO_BE_ALONE = (
    "SELECT CASE WHEN clock_timestamp() - pg_postmaster_start_time() >= ? * interval '1 second' "
    f"THEN pg_try_advisory_lock({_RUNNERS}) ELSE false END"
)
_BUSY = (errors.LockNotAvailable, errors.DeadlockDetected, errors.SerializationFailure)
_GONE = (
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.ConnectionException,
    errors.IdleInTransactionSessionTimeout,
)
_REASONS: dict[type[psycopg.Error], str] = {
    errors.InsufficientPrivilege: "permission is missing",
    errors.ReadOnlySqlTransaction: "it is read-only",
    errors.DataCorrupted: "the server's files are damaged",
    errors.IndexCorrupted: "the server's files are damaged",
    errors.UndefinedTable: "its tables are missing, or a pooler in between mixes sessions: let it "
    "pool sessions, not transactions",
}
_DAMAGED = (errors.DataCorrupted, errors.IndexCorrupted)

_Answer = TypeVar("_Answer")


class PostgreSQLStore(TableStore):
    """A `Store` in a PostgreSQL database, for any number of processes on any number of machines.

    A write locks the row of its study, so studies do not wait for each other. Lost connections are
    reopened. If a connection was lost during a commit, the log is read to find out whether the
    write was kept.

    Parameters
    ----------
    address : ServerAddress
        The database.
    durability : {"full", "process"}
        ``"full"``: a commit survives a power failure, as far as the server's disk honours
        flushes. ``"process"``: it survives the end of this process; if the server crashes, the
        last commits can be lost.
    create : bool
        Whether to create missing tables.
    busy_timeout : float
        Seconds to wait for another process before raising `StorageBusy`, and for a server that
        restarts or does not answer before raising `StorageUnreachable`.
    clock : callable, optional
        Returns seconds since 1970; the default is the server's clock, the same for all machines.

    Raises
    ------
    StorageUnreachable
        If no connection can be made.
    StorageError
        If the database cannot be used, or its tables have a newer schema.
    StudyNotFound
        If there are no tables and `create` is false.
    """

    _by_name = 'name COLLATE "C"'

    def __init__(
        self,
        address: ServerAddress,
        durability: str = "full",
        *,
        create: bool = True,
        busy_timeout: float = 30.0,
        clock: Callable[[], float] | None = None,
    ) -> None:
        check_choice("durability", durability, _DURABILITIES)
        super().__init__()
        self._address = address
        self._parameters = _CONNECTING | address.parameters() | _ENCODING
        self._settings = SessionSettings(self._where, durability, busy_timeout)
        self._busy_timeout = busy_timeout
        self._clock = clock
        self._is_closed = False
        self._locked_at: int | None = None
        self._lock_patience: float | None = None
        self._has_warned = False
        self._present: list[str] = []
        self._backend = 0
        self._listener = NotificationListener(
            self._parameters, _CHANNEL, self._patience, lambda: self._backend
        )
        self._connection = self._opened()
        try:
            self._prepare(create)
        except BaseException:
            self._connection.close()
            raise

    @property
    def url(self) -> str:
        """The address of the store, without the password."""
        return self._address.shown

    @property
    def software(self) -> str:
        """The software that keeps the studies, with its version."""
        return f"PostgreSQL {self._one('SHOW server_version')[0].split()[0]}"

    @property
    def _where(self) -> str:
        return self._address.shown

    @property
    def _patience(self) -> float:
        """Seconds that the server may be silent: longer than it waits for a lock."""
        return self._busy_timeout + 2.0

    def now(self) -> int:
        """Return the clock: microseconds since 1970 (UTC)."""
        if self._clock is not None:
            return microseconds(self._clock())
        if self._locked_at is not None:
            return self._locked_at
        return int(self._one(f"SELECT {_NOW}")[0])

    def close(self) -> None:
        """Close the connection; closing it twice has no effect."""
        with self._lock:
            self._is_closed = True
            self._listener.close()
            with suppress(psycopg.Error):
                self._connection.close()

    # ----------------------------------------------------------------- connecting

    def _opened(self) -> psycopg.Connection[Any]:
        connection = None
        try:
            connection = connected(self._parameters, self._patience)
            self._set_up(connection)
        except BaseException as error:
            if connection is not None:
                connection.close()
            if not isinstance(error, psycopg.Error):
                raise
            reason = (
                _said(error).removeprefix("connection failed: ").removeprefix("connection is bad: ")
            )
            text = f"{self._where}: no connection could be made: {reason}"
            raise StorageUnreachable(text) from error
        self._backend = connection.info.backend_pid
        return connection

    def _set_up(self, connection: psycopg.Connection[Any]) -> None:
        self._settings.apply(connection)
        for name in self._present:
            connection.execute(_in_psycopg(_ENTER), (name,))

    def _prepare(self, create: bool) -> None:
        try:
            begin = partial(self._run, self._settings.begin, binary=False)
            postgresql_schema.prepare(self._rows, begin, self._where, __version__, create=create)
        except psycopg.Error as error:
            raise self._error(error) from error

    def _connect_again(self) -> None:
        """Reconnect; wait for a server that restarts."""
        if self._is_closed:
            raise StorageError(f"{self._where} is closed; open the study again")
        self._connection.close()
        deadline = time.monotonic() + self._busy_timeout
        while True:
            try:
                self._connection = self._opened()
            except StorageUnreachable:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(random.uniform(0.05, 0.2))  # noqa: S311
            else:
                return

    # --------------------------------------------------------------------- errors

    def _error(self, error: psycopg.Error) -> StorageError:
        if isinstance(error, _BUSY):
            kind = RowLocked if isinstance(error, errors.LockNotAvailable) else StorageBusy
            return kind(
                f"{self._where} was locked by another process for {self._busy_timeout:g} s; "
                "nothing of this call was kept: try again"
            )
        if self._is_lost(error):
            return self._lost(error)
        if isinstance(error, errors.QueryCanceled):
            return StorageBusy(
                f"{self._where}: the server stopped a statement, perhaps one that waited for "
                f"another process ({_said(error)}); nothing of this call was kept: try again"
            )
        if isinstance(error, errors.DiskFull):
            return StorageFull(
                f"{self._where}: the server's disk is full; nothing of this call was kept "
                f"({_said(error)})"
            )
        reason = _REASONS.get(type(error), "PostgreSQL refused")
        return StorageError(f"{self._where}: {reason} ({_said(error)})")

    def _lost(self, error: psycopg.Error) -> ConnectionLost:
        return ConnectionLost(
            f"{self._where}: the connection was lost; nothing of this call was kept: try again "
            f"({_said(error)})"
        )

    def _is_lost(self, error: psycopg.Error) -> bool:
        return not self._is_closed and (self._connection.closed or isinstance(error, _GONE))

    @staticmethod
    def _is_damage(error: BaseException | None) -> bool:
        return isinstance(error, _DAMAGED)

    # --------------------------------------------------------------- transactions

    @property
    def _is_writing(self) -> bool:
        status = self._connection.info.transaction_status
        return status in (TransactionStatus.INTRANS, TransactionStatus.INERROR)

    def _close_if_interrupted(self) -> None:
        """Close the connection if an interrupt came before the answer that it waits for.

        The server then undoes a write, and the next use reconnects.
        """
        if self._connection.info.transaction_status == TransactionStatus.ACTIVE:
            self._connection.close()

    def _begin(self) -> None:
        if self._settings.not_flushed and not self._has_warned:
            self._has_warned = True
            settings = " and ".join(f"{name} = off" for name in self._settings.not_flushed)
            warn_caller(
                f"{self._where}: the server runs with {settings}, so what it acknowledges does "
                "not survive a loss of power",
                RuntimeWarning,
            )
        self._require_schema(self._patiently(self._begun))

    def _begun(self) -> int:
        """Begin a transaction, and return the schema of the tables in the same round trip."""
        statements = [self._settings.begin]
        if not self._flushes:
            statements.append("SET LOCAL synchronous_commit = 'off'")
        if self._lock_patience is not None:
            statements.append(f"SET LOCAL lock_timeout = '{round(self._lock_patience * 1000)}ms'")
        statements.append(_SCHEMA)
        cursor = self._run("; ".join(statements), binary=False)
        while cursor.nextset():
            pass
        [schema] = cursor.fetchone() or (0,)
        return int(schema)

    def wait_for_locks(self, seconds: float | None) -> None:
        """Set how long later writes wait for a lock on one study; None: as long as for the rest."""
        self._lock_patience = seconds

    def _commit(self) -> None:
        try:
            # A commit that moved a log also notifies the processes that wait.
            self._run(_COMMIT_AND_TELL if self._moved else "COMMIT", binary=False)
        except psycopg.Error as error:
            if not self._is_lost(error):
                raise self._error(error) from error
            if not self._was_kept():
                raise self._lost(error) from error

    def _end(self) -> None:
        self._moved, self._locked_at = {}, None
        self._close_if_interrupted()
        if not self._is_writing:
            return
        try:
            self._run("ROLLBACK")
        except psycopg.Error:
            # The connection is unusable; the server undoes the write when it is closed.
            self._connection.close()

    def _was_kept(self) -> bool:
        """Return whether a write was kept whose commit got no answer.

        Raises
        ------
        StorageUnreachable
            If this cannot be found out.
        """
        # Now it is worth waiting for the transaction in doubt.
        self._lock_patience = None
        try:
            self._connect_again()
            self._begin()
            try:
                return bool(self._moved) and all(map(self._keeps, self._moved.values()))
            finally:
                self._run("ROLLBACK")
        except (StorageError, psycopg.Error) as error:
            raise StorageUnreachable(
                f"{self._where}: the connection was lost during a commit, so it is not known "
                "whether this call was kept; repeat it with the same request_id, so that it counts "
                "only once"
            ) from error

    def _keeps(self, study: StudyRow) -> bool:
        # These wait until the server has ended the transaction in doubt: one that appended, or one
        # that created the study.
        self._study_row(study.id)
        found = self.find_study(study.name)
        if found is None or found.origin != study.origin or found.duplicates < study.duplicates:
            return False
        last = next(self.records(study.id, study.head_seq - 1, study.head_seq), None)
        return study.head_seq == 0 or (last is not None and last.hash == study.head_hash)

    def _study_row(self, study_id: int) -> Any:
        if not self._is_writing:
            return super()._study_row(study_id)
        now, *row = self._read_one(study_id, _LOCK_STUDY, (study_id,)) or (None,)
        self._locked_at = now
        return row or None

    def find_study(self, name: str) -> StudyRow | None:
        """Return the study of that name; within a transaction no one else can create it."""
        if self._is_writing:
            self._one(f"SELECT pg_advisory_xact_lock({_MAKERS})", (name,))
        return super().find_study(name)

    # ------------------------------------------------------------------ statements

    def _all(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        self._require_own_process()
        if is_in_no_row(parameters):
            return []
        with self._lock:
            return self._patiently(lambda: self._rows(statement, parameters))

    def _change(self, *changes: Change) -> int:
        handled = sys.exception()
        try:
            # All are sent at once. One cursor for several statements would add up their row counts.
            with self._connection.pipeline():
                for statement, rows in changes:
                    if rows:
                        cursor = self._connection.cursor()
                        cursor.executemany(_in_psycopg(statement), rows)
        except psycopg.Error as error:
            interrupt = _interrupt_before(error, handled)
            if interrupt is not None:
                raise interrupt from None
            raise self._error(error) from error
        return cursor.rowcount

    def _patiently(self, action: Callable[[], _Answer]) -> _Answer:
        """Return the result of an action; outside a transaction, reconnect once if needed."""
        self._close_if_interrupted()
        is_writing = self._is_writing
        try:
            return action()
        except psycopg.Error as error:
            if is_writing or not self._is_lost(error):
                raise self._error(error) from error
        self._connect_again()
        try:
            return action()
        except psycopg.Error as error:
            raise self._error(error) from error

    def _rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        cursor = self._run(statement, parameters)
        return cursor.fetchall() if cursor.description is not None else []

    def _run(
        self, statement: str, parameters: Sequence[Any] = (), *, binary: bool = True
    ) -> psycopg.Cursor[Any]:
        """Execute a statement, or several if their results are not `binary`.

        Binary results are exact, whatever the settings of the session say about texts.
        """
        # Several statements at once cannot be prepared, although interrupts can make psycopg
        # believe so.
        prepare = None if binary else False
        text = _in_psycopg(statement)
        return self._connection.execute(text, parameters or None, prepare=prepare, binary=binary)

    # -------------------------------------------------------------------- presence

    def enter(self, name: str) -> None:
        """Register this process as one that runs the study, as long as it is connected."""
        self._one(_ENTER, (name,))
        self._present.append(name)

    def leave(self, name: str) -> None:
        """Unregister this process as one that runs the study."""
        with self._lock, suppress(psycopg.Error):
            self._present.remove(name)
            # If the connection was lost, the server has released the lock.
            self._run(f"SELECT pg_advisory_unlock_shared({_RUNNERS})", (name,))

    @contextmanager
    def alone(self, name: str) -> Iterator[bool]:
        """Yield whether no other process runs the study; while the context lasts, none can join."""
        with self._lock:
            [is_alone] = self._one(_TRY_TO_BE_ALONE, (SETTLING_SECONDS, name))
            try:
                yield is_alone
            finally:
                if is_alone:
                    self._one(f"SELECT pg_advisory_unlock({_RUNNERS})", (name,))

    # --------------------------------------------------------------------- waiting

    def changes(self) -> object:
        """Return a value that differs after any write to the storage."""
        heard = self._listener.heard
        # Our own write ends the listening before it is counted, so wait until it is over.
        with self._lock:
            return heard, self._commits

    def await_change(self, seen: object, seconds: float) -> None:
        """Wait until `changes` no longer equals `seen`, for at most that many seconds."""
        deadline = time.monotonic() + min(seconds, _LONGEST_SILENCE)
        while self.changes() == seen and (left := deadline - time.monotonic()) > 0:
            self._listener.listen(left)

    # --------------------------------------------------------------------- damage

    def damage(self) -> str | None:
        """Return what is wrong with the database (triggers were removed or altered), or None."""
        missing = self._patiently(lambda: postgresql_schema.missing_guards(self._rows))
        if missing:
            return (
                f"{self._where}: the guards that keep a log from being changed were removed or "
                f"altered ({', '.join(missing)})"
            )
        return None


def _said(error: psycopg.Error) -> str:
    """Return an error's message, in one line."""
    return error.diag.message_primary or " ".join(str(error).split())


def _interrupt_before(
    error: BaseException | None, handled: BaseException | None
) -> BaseException | None:
    """Return the interrupt (such as Ctrl-C) that caused an error, or None.

    An exception that the caller was already handling does not count.
    """
    while error is not None and error is not handled:
        if not isinstance(error, Exception):
            return error
        error = error.__context__
    return None


@cache
def _in_psycopg(statement: str) -> str:
    """Return a statement with psycopg's placeholders."""
    return statement.replace("?", "%s")
