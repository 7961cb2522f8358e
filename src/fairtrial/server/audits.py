"""Audits of logs that take longer than a request may: they go on between requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from fairtrial.server.problems import Refusal
from fairtrial.server.readers import Readers
from fairtrial.study.audit import Verification
from fairtrial.study.long_reads import LongRead

__all__ = ["Audits"]

_MOST = 4
"""Largest number of unfinished audits of one token."""
_BETWEEN_LOOKS = 5.0


@dataclass
class _Audit:
    """An audit that runs or waits for its turn, and when somebody last asked for it."""

    task: asyncio.Task[Verification]
    long_read: LongRead
    asked_at: float


class Audits:
    """Audits logs. A long audit goes on between the requests that ask for its result.

    Parameters
    ----------
    readers : Readers
        The readers of studies. They run one audit at a time.
    """

    patience = 5.0
    """Seconds after which a request is answered although its audit goes on."""
    forgotten_after = 60.0
    """Seconds after which an audit ends that nobody asks for any more."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers
        self._audits: dict[tuple[str, ...], _Audit] = {}

    async def result(
        self, study: str, heads: Sequence[str], who: str
    ) -> tuple[Verification | None, int]:
        """Return the result of an audit, or None if it goes on, and the number of checked events.

        Raises
        ------
        Refusal
            429 if the caller has too many unfinished audits.
        """
        key = who, study, *heads
        audit = self._audits.get(key) or self._begin(key, study, heads)
        audit.asked_at = time.monotonic()
        await asyncio.wait([audit.task], timeout=self.patience)
        if not audit.task.done():
            return None, audit.long_read.events
        # The next request begins another audit.
        self._audits.pop(key, None)
        found = audit.task.result()
        return found, found.events

    def _begin(self, key: tuple[str, ...], study: str, heads: Sequence[str]) -> _Audit:
        if sum(other[0] == key[0] for other in self._audits) >= _MOST:
            text = f"{_MOST} audits of this token are unfinished"
            raise Refusal(429, "service-busy", text, headers={"Retry-After": "5"}, reason="rate")
        # It takes minutes anyway, but requests beside it must not.
        long_read = LongRead(gives_way=True)
        task = asyncio.ensure_future(
            self._readers.run_audit(study, lambda opened: opened.verify(heads), long_read)
        )
        audit = self._audits[key] = _Audit(task, long_read, time.monotonic())
        self._watch(key, audit)
        return audit

    def _watch(self, key: tuple[str, ...], audit: _Audit) -> None:
        """End an audit that nobody asks for any more; look again and again until it is fetched."""
        if self._audits.get(key) is not audit:
            return
        if time.monotonic() - audit.asked_at > self.patience + self.forgotten_after:
            audit.long_read.is_abandoned = True
            audit.task.cancel()
            del self._audits[key]
            return
        asyncio.get_running_loop().call_later(_BETWEEN_LOOKS, self._watch, key, audit)
