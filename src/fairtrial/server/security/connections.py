"""Connections by which no request comes: closed after a while, and limited in number."""

from __future__ import annotations

import asyncio
import resource
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["PatientProtocol", "most_connections"]

_MOST_FILES = 65_536
_RESERVED = 256
"""Files that are left for the storage, and for what is downloaded."""


def most_connections() -> int:
    """Return how many connections may be open at once, by the files that the process may open."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = _MOST_FILES if limit == resource.RLIM_INFINITY else min(limit, _MOST_FILES)
    return max(files - _RESERVED, files // 2)


class PatientProtocol(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, to clients that begin within a time what they came for.

    uvicorn waits for ever for the head of a request.
    """

    patience = 20.0
    """Seconds from a connection, or from the first byte of another request, to its whole head."""
    most = most_connections()
    """Connections at once; any more are closed at once."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection."""
        super().connection_made(transport)
        if len(self.connections) > self.most:
            transport.abort()
        else:
            self._watch_for_head()

    def data_received(self, data: bytes) -> None:
        """Take some bytes."""
        super().data_received(data)
        self._watch_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Take note that the connection is over."""
        self._let_be()
        super().connection_lost(exc)

    def _watch_for_head(self) -> None:
        """Set the deadline when a head begins to come, and take it back once it is there."""
        if self.conn.their_state is not h11.IDLE:
            self._let_be()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self.patience, self._give_up)

    def _let_be(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.abort()
