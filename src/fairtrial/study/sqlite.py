"""Studies in an SQLite file, or in memory."""

from __future__ import annotations

import time

from fairtrial.errors import StorageError
from fairtrial.study.clock import microseconds
from fairtrial.study.database import Database
from fairtrial.study.log import PullRow
from fairtrial.study.schema import missing_triggers
from fairtrial.study.store import Addition, StudyRow

__all__ = ["SQLiteStore"]

_MOVE_EVERY = 400
"""Number of events, or of extended leases, after which the write-ahead log (about 4 MB by then) is
moved to the file."""

# A check takes about ten microseconds: it only reads the number of the last write.
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.002, 0.05


class SQLiteStore(Database):
    """A `Store` in one SQLite file.

    Parameters
    ----------
    path, durability, create, busy_timeout, accept_loss, clock
        As for `Database`.
    """

    @property
    def url(self) -> str:
        """The address of the store."""
        return "memory://" if self._path is None else f"sqlite:///{self._path}"

    @property
    def software(self) -> str:
        """The software that keeps the studies, with its version."""
        return f"SQLite {self._one('SELECT sqlite_version()')[0]}"

    def now(self) -> int:
        """Return the clock: microseconds since 1970 (UTC)."""
        return microseconds(self._clock())

    def read_study(self, study_id: int) -> StudyRow:
        """Return the current row of a study; a transaction has locked the whole file."""
        study = super().read_study(study_id)
        self._require_one_machine(study)
        return study

    def _require_one_machine(self, study: StudyRow) -> None:
        """Raise if another machine writes the same file, because locks work within one machine."""
        if study.id not in self._last or study.machine is None:
            return
        if study.machine.split()[0] != self._machine.split()[0]:
            host = study.machine.split()[-1]
            raise StorageError(
                f"{self._where} is written by another machine ({host}) at the same time, where "
                "SQLite's locks do not hold and events get lost: use it from one machine only, "
                "then open the study again and verify it"
            )

    def append(self, study: StudyRow, added: Addition) -> StudyRow:
        """Add events and their pulls' rows, within a transaction; return the study after them."""
        moved = super().append(study, added)
        self._is_long |= moved.head_seq // _MOVE_EVERY != study.head_seq // _MOVE_EVERY
        return moved

    def set_lease(self, study: StudyRow, pull: PullRow) -> StudyRow:
        """Set the end of an open pull's lease, within a transaction; return the study after it."""
        after = super().set_lease(study, pull)
        self._is_long |= after.lease_changes % _MOVE_EVERY == 0
        return after

    def changes(self) -> object:
        """Return a value that differs after any write to the storage."""
        # SQLite's number only counts writes of other connections.
        [(version,)] = self._all("PRAGMA data_version")
        return version, self._commits

    def await_change(self, seen: object, seconds: float) -> None:
        """Wait until `changes` no longer equals `seen`, for at most that many seconds."""
        deadline, pause = time.monotonic() + seconds, _SHORTEST_PAUSE
        while self.changes() == seen and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(pause, left))
            pause = min(1.2 * pause, _LONGEST_PAUSE)

    def damage(self) -> str | None:
        """Return what is wrong with the file (damage, or missing triggers), or None."""
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
