"""A separate file that records the head of a study's log after every write.

Anyone who can write a study's database can replace the whole log with another one whose hashes
are consistent. A file that the same person cannot write (on another machine, for example)
reveals this.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from fairtrial.core.files import create_private
from fairtrial.core.warning import warn_caller
from fairtrial.errors import CorruptLog, StorageError
from fairtrial.study.store import Store, StudyRow

__all__ = ["Witness"]

_LINE = re.compile(r"(\d{1,18}) ([0-9a-f]{64})")


class Witness:
    """A file with one line for each write: number and hash of the last event.

    Parameters
    ----------
    path : Path
        The file, for one study only. If missing, it is created, readable by its owner only.

    Raises
    ------
    StorageError
        If it cannot be created or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            create_private(path)
            with path.open("ab"):
                pass
        except OSError as error:
            reason = error.strerror or str(error)
            raise StorageError(f"the witness {path} cannot be written: {reason}") from error

    def note(self, study: StudyRow) -> None:
        """Add the head of a study's log, after the write was committed."""
        line = f"{study.head_seq} {study.head_hash}\n".encode()
        try:
            # A single write at the end of the file: lines of several processes never mix.
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
            try:
                os.write(descriptor, line)
            finally:
                os.close(descriptor)
        except OSError as error:
            warn_caller(
                f"event {study.head_seq:,} of study {study.name!r} was kept, but not recorded in "
                f"the witness {self.path}: {error.strerror or error}",
                RuntimeWarning,
            )

    def hashes(self) -> list[str]:
        """Return the hashes in the file, without an incomplete last line.

        Raises
        ------
        StorageError
            If the file cannot be read, or contains anything else.
        """
        return [digest for _, digest in self._heads()]

    def require_in(self, store: Store, study: StudyRow) -> None:
        """Raise if the log does not contain the last recorded head.

        Raises
        ------
        CorruptLog
            If the log was replaced or altered, or has lost its end.
        """
        heads = self._heads()
        if not heads:
            return
        seq, digest = max(heads)
        found = [record.hash for record in store.records(study.id, after=seq - 1, until=seq)]
        if found != [digest]:
            raise CorruptLog(
                f"the log of study {study.name!r} does not contain event {seq:,} as the witness "
                f"{self.path} recorded it: the log was replaced or altered, or has lost its end"
            )

    def _heads(self) -> list[tuple[int, str]]:
        try:
            text = self.path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            reason = error.strerror or str(error)
            raise StorageError(f"the witness {self.path} cannot be read: {reason}") from error
        heads = []
        for number, line in enumerate(text.split("\n")[:-1], start=1):
            found = _LINE.fullmatch(line)
            if found is None:
                raise StorageError(f"line {number} of the witness {self.path} is not a head")
            heads.append((int(found[1]), found[2]))
        return heads
