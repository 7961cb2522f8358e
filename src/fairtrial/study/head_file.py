"""The head file of a database: a small file beside it that records the head of each log.

SQLite silently ends the recovery of its write-ahead log at the first damaged frame: a flipped bit,
or a cut or lost file, returns every log to a shorter state that was once right. The head file
reveals such a loss.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from fairtrial.core.files import companion

__all__ = ["Head", "HeadFile"]

_SLOT = 128
_TITLE = "fairtrial heads 1: study, last event, its hash, checksum"


class Head(NamedTuple):
    """The end of a log."""

    seq: int
    hash: str


class HeadFile:
    """The head file, with one line at a fixed position for each study.

    A line is written right after a commit but not flushed, so it survives the end of the process.
    After a power failure it may be older than the log, which is harmless.

    Parameters
    ----------
    database : Path
        The database file; the head file lies beside it.
    """

    def __init__(self, database: Path) -> None:
        self.path = database.with_name(f"{database.name}-head")
        self._database = database
        self._descriptor: int | None = None

    def read(self) -> dict[int, Head] | None:
        """Return the heads by study; None if there is no head file, or it is unreliable."""
        try:
            content = self.path.read_bytes()
        except OSError:
            return None
        slots = [content[start : start + _SLOT] for start in range(_SLOT, len(content), _SLOT)]
        heads = [_parsed(slot) for slot in slots if slot.strip(b" \n\0")]
        if not heads or None in heads:
            # Damaged, or incomplete after a power failure.
            return None
        return {study_id: head for found in heads if found for study_id, head in found.items()}

    def note(self, heads: Mapping[int, Head]) -> None:
        """Record heads; the caller must have its turn at writing the database.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        if self._descriptor is None:
            self._descriptor = companion(self.path, self._database)
            if os.fstat(self._descriptor).st_size == 0:
                self._put(0, _TITLE)
        for study_id, head in heads.items():
            text = f"{study_id} {head.seq} {head.hash}"
            self._put(study_id, f"{text} {zlib.crc32(text.encode()):08x}")

    def _put(self, place: int, text: str) -> None:
        assert self._descriptor is not None
        line = text.encode().ljust(_SLOT - 1) + b"\n"
        if hasattr(os, "pwrite"):
            os.pwrite(self._descriptor, line, place * _SLOT)
        else:
            os.lseek(self._descriptor, place * _SLOT, os.SEEK_SET)
            os.write(self._descriptor, line)

    def flush(self) -> None:
        """Wait until the disk has stored what was written."""
        if self._descriptor is not None:
            os.fsync(self._descriptor)

    def remove(self) -> None:
        """Remove the file."""
        self.close()
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _parsed(slot: bytes) -> dict[int, Head] | None:
    """Return the head in a line; None if the line is damaged."""
    text, _, checksum = slot.decode("utf-8", errors="replace").strip(" \n\0").rpartition(" ")
    parts = text.split(" ")
    if len(parts) != 3 or checksum != f"{zlib.crc32(text.encode()):08x}":
        return None
    return {int(parts[0]): Head(int(parts[1]), parts[2])}
