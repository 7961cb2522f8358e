"""Places for studies, with bad luck: a real SQLite file, and a server of a database."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from fairtrial.errors import ConnectionLost, StorageError, StorageUnreachable
from fairtrial.study.memory import MemoryStore
from fairtrial.study.sqlite import SQLiteStore
from fairtrial.study.store import Store
from tests.simulator.luck import Luck
from tests.simulator.scheduler import Killed, Process, Scheduler
from tests.simulator.standard_library import Lock

_KINDS = {"S": "read", "I": "change", "U": "change", "D": "change", "B": "begin", "C": "commit"}


class Place(Protocol):
    """The place of a simulation's studies; `address` is how one would open it."""

    address: str

    def open(self, process: Process) -> Store:
        """Return a handle of a process."""

    def look(self) -> Store:
        """Return a handle without bad luck, for the judge."""

    def damage_snapshots(self, how: str) -> None:
        """Damage the snapshots: "cut" or "dropped"."""


# ------------------------------------------------------------------------------ SQLite


class File:
    """A file of SQLite, which processes write one after the other."""

    def __init__(self, path: Path, luck: Luck, scheduler: Scheduler) -> None:
        self.path = path
        self.address = f"sqlite:///{path}"
        self.luck = luck
        self.scheduler = scheduler
        self.turn = Lock(scheduler)
        self.holder: object = None

    def open(self, process: Process) -> Store:
        return _FileStore(self, process)

    def look(self) -> Store:
        return SQLiteStore(self.path, "process", clock=self.luck.clock)

    def damage_snapshots(self, how: str) -> None:
        if self.holder is not None:
            return
        connection = sqlite3.connect(self.path, timeout=0.0, isolation_level=None)
        try:
            if how == "cut":
                cut = "substr(state, 1, length(state) / 2)"
                connection.execute(f"UPDATE snapshot SET state = {cut}")
            else:
                connection.execute("DELETE FROM snapshot")
        finally:
            connection.close()


class _FileStore(SQLiteStore):
    """The real store, on a connection that sometimes fails."""

    def __init__(self, file: File, process: Process) -> None:
        self._file = file
        self._of = process
        super().__init__(
            *(file.path, "process"), create=False, busy_timeout=0.2, clock=file.luck.clock
        )

    def _connected(self, options: str) -> Any:
        real = super()._connected(options)
        # All waiting is done by the scheduler.
        real.execute("PRAGMA busy_timeout = 0")
        return _Connection(real, self._file, self._of)

    def _begin(self) -> None:
        # Here tasks of one real process take turns. The store's own `Turns` cannot tell them apart,
        # and they would wait for themselves.
        self._file.turn.acquire()
        self._file.holder = self
        super()._begin()

    def _end(self) -> None:
        try:
            super()._end()
        finally:
            if self._file.holder is self:
                self._file.holder = None
                self._file.turn.release()


class _Connection:
    """A connection whose statements may fail, before or after they were carried out."""

    def __init__(self, real: sqlite3.Connection, file: File, process: Process) -> None:
        self._real = real
        self._luck = file.luck
        self._scheduler = file.scheduler
        self._process = process

    def execute(self, statement: str, parameters: Any = ()) -> Any:
        return self._carried_out(self._real.execute, statement, parameters)

    def executemany(self, statement: str, rows: Any) -> Any:
        return self._carried_out(self._real.executemany, statement, rows)

    def _carried_out(self, how: Callable[..., Any], statement: str, values: Any) -> Any:
        kind = _KINDS.get(statement.lstrip()[0])
        if kind is None:
            # A rollback and similar statements; a PRAGMA.
            return how(statement, values)
        self._before(kind)
        answer = how(statement, values)
        if kind == "commit":
            self._after_commit()
        return answer

    def _before(self, kind: str) -> None:
        self._require_alive()
        if self._luck.has("switch"):
            self._scheduler.pause()
            self._require_alive()
        if kind == "begin" and (self._luck.is_file_busy or self._luck.has("busy")):
            raise _error("database is locked", sqlite3.SQLITE_BUSY)
        if kind in ("change", "commit"):
            is_bad = kind == "commit" and self._luck.has("commit fails")
            if is_bad or self._luck.is_disk_full or self._luck.has("disk error"):
                full = self._luck.is_disk_full
                if self._luck.has("undone by the database"):
                    self._real.execute("ROLLBACK")
                self._scheduler.note(f"the disk {'is full' if full else 'fails'} in a {kind}")
                code = sqlite3.SQLITE_FULL if full else sqlite3.SQLITE_IOERR
                raise _error("the disk", code)
            if self._luck.has("interrupt"):
                self._scheduler.note(f"an interrupt before a {kind}")
                raise KeyboardInterrupt

    def _after_commit(self) -> None:
        if self._luck.has("switch"):
            self._scheduler.pause()
        self._require_alive()
        if self._luck.has("interrupt"):
            self._scheduler.note("an interrupt after a commit")
            raise KeyboardInterrupt

    def _require_alive(self) -> None:
        if self._process.is_dead:
            raise Killed(f"{self._process} was killed")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def _error(text: str, code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    return error


# ---------------------------------------------------------------------------- a server


class Server:
    """A server of a database that processes reach by connections.

    The data are in the real store in memory; the failures that a client of PostgreSQL may see are
    added: lost connections, commits with an unknown outcome, times without an answer.
    """

    address = "postgresql://server/studies"

    def __init__(self, luck: Luck, scheduler: Scheduler) -> None:
        self.luck = luck
        self.scheduler = scheduler
        self.kept = MemoryStore(clock=luck.clock)
        self.running: dict[Process, list[str]] = {}

    def open(self, process: Process) -> Store:
        return _ServerStore(self, process)  # type: ignore[return-value]

    def look(self) -> Store:
        return self.kept

    def damage_snapshots(self, how: str) -> None:
        for log in self.kept._logs:
            if how == "cut":
                halves = [kept._replace(state=kept.state[:9]) for kept in log.snapshots]
                log.snapshots = halves
            else:
                log.snapshots = []


class _ServerStore:
    """A handle of one process."""

    def __init__(self, server: Server, process: Process) -> None:
        self._server = server
        self._of = process
        self._is_writing = False
        self._is_closed = False

    url = Server.address
    software = "a simulated server"

    def close(self) -> None:
        self._is_closed = True

    def __getattr__(self, name: str) -> Any:
        kept = getattr(self._server.kept, name)
        if name.startswith("_") or not callable(kept):
            return kept

        def call(*args: Any, **options: Any) -> Any:
            self._reach(may_fail=not self._is_writing)
            return kept(*args, **options)

        return call

    def now(self) -> int:
        return self._server.kept.now()

    def wait_for_locks(self, seconds: float | None) -> None:
        """Do nothing: a handle notes this by itself, and nothing locks single studies here."""

    def _reach(self, *, may_fail: bool = True) -> None:
        """Raise if the server cannot be reached; other tasks may continue meanwhile."""
        self._require_alive()
        if self._server.luck.has("switch"):
            self._server.scheduler.pause()
            self._require_alive()
        if self._server.luck.is_cut_off and may_fail:
            raise StorageUnreachable("the server cannot be reached; nothing of the call was kept")

    def _require_alive(self) -> None:
        if self._of.is_dead:
            raise Killed(f"{self._of} was killed")

    def transact(self, operation: Callable[[], Any], *, flush: bool = True) -> Any:
        luck, scheduler = self._server.luck, self._server.scheduler
        self._reach()
        if luck.has("disk error"):
            scheduler.note("the connection is lost before a write")
            raise ConnectionLost("the connection was lost; nothing of the call was kept")

        def carried_out() -> Any:
            self._is_writing = True
            try:
                answer = operation()
                self._reach(may_fail=False)
                if luck.has("disk error"):
                    scheduler.note("the connection is lost before a commit")
                    raise ConnectionLost("the connection was lost; nothing of the call was kept")
                if luck.has("commit fails"):
                    scheduler.note("the server refuses a commit")
                    raise StorageError("the server refused; nothing of the call was kept")
                if luck.has("interrupt"):
                    scheduler.note("an interrupt before a commit")
                    raise KeyboardInterrupt
            finally:
                self._is_writing = False
            return answer

        answer = self._server.kept.transact(carried_out, flush=flush)
        if luck.has("switch"):
            scheduler.pause()
        self._require_alive()
        if luck.has("unknown commit"):
            scheduler.note("the connection is lost during a commit, which was kept")
            raise StorageUnreachable(
                "the connection was lost during a commit, so it is not known whether this call "
                "was kept"
            )
        if luck.has("interrupt"):
            scheduler.note("an interrupt after a commit")
            raise KeyboardInterrupt
        return answer

    def save_snapshot(self, study_id: int, snapshot: Any) -> None:
        self._reach()
        self._server.kept.save_snapshot(study_id, snapshot)

    # ------------------------------------------------------------- who runs a study

    def enter(self, name: str) -> None:
        self._reach()
        self._server.running.setdefault(self._of, []).append(name)

    def leave(self, name: str) -> None:
        if not self._of.is_dead:
            self._server.running[self._of].remove(name)

    @contextmanager
    def alone(self, name: str) -> Iterator[bool]:
        self._reach()
        others = [
            process
            for process, names in self._server.running.items()
            if process is not self._of and not process.is_dead and name in names
        ]
        yield not others


# From Python 3.12 on, `isinstance` does not see methods that `__getattr__` finds.
Store.register(_ServerStore)
