"""Find out whether the service can do its work: read its storage, and write to it."""

from __future__ import annotations

import asyncio
import secrets
import time

from fairtrial.errors import StudyError
from fairtrial.server.readers import Readers
from fairtrial.server.writer import StudyWriter
from fairtrial.study import Store
from fairtrial.study.store import AnswerRow

__all__ = ["Readiness"]

_SIZE = 64 * 1024
"""Number of bytes to write: as many as a request with many results."""
_OLDEST = 0
"""The time of the row, so that housekeeping deletes it too."""


class Readiness:
    """Tries whether the storage can be used, however often somebody asks.

    Parameters
    ----------
    readers, writer : Readers, StudyWriter
        Read and write the storage.
    """

    patience = 2.0
    """Seconds within which a read, or a write, must succeed."""
    pause = 5.0
    """Seconds for which a write that has succeeded is not tried again."""

    def __init__(self, readers: Readers, writer: StudyWriter) -> None:
        self._readers = readers
        self._writer = writer
        self._turn = asyncio.Lock()
        self._written_at = float("-inf")

    async def problem(self) -> str | None:
        """Return why the service is not ready; None if it is."""
        try:
            async with asyncio.timeout(self.patience):
                await self._readers.run_on_health(_read_something)
        except (StudyError, TimeoutError):
            return "the storage cannot be used"
        if not self._writer.accepts:
            return "no more writes are accepted"
        try:
            async with asyncio.timeout(self.patience), self._turn:
                await self._write()
        except (StudyError, TimeoutError):
            return "the storage cannot be written"
        return None

    async def _write(self) -> None:
        if time.monotonic() - self._written_at > self.pause:
            await self._writer.run_on_store(_write_something)
            self._written_at = time.monotonic()


def _read_something(store: Store) -> None:
    # No study has this name, but the database still searches for it.
    store.find_study("")


def _write_something(store: Store) -> None:
    """Replace a row that no request can ask for: nobody has an empty name."""
    store.drop_answers(_OLDEST + 1, _OLDEST)
    key, body = secrets.token_hex(16), secrets.token_hex(_SIZE // 2)
    store.save_answer(AnswerRow("", key, "", 200, body, _OLDEST))
