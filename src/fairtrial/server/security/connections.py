"""Connections by which no whole request comes, or no answer goes: closed, and limited in number."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["PatientProtocol", "most_connections"]

_MOST_FILES = 65_536
_RESERVED = 256
"""Files that are left for the storage, and for what is downloaded."""
_MOST_UNREAD = 64 * 1024
"""Bytes of a request's head, or between two parts of its body."""


def most_connections() -> int:
    """Return how many connections may be open at once, by the files that the process may open."""
    try:
        import resource
    except ImportError:
        # Windows has no such limit.
        return _MOST_FILES - _RESERVED
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = _MOST_FILES if limit == resource.RLIM_INFINITY else min(limit, _MOST_FILES)
    return max(files - _RESERVED, files // 2)


class PatientProtocol(HttpToolsProtocol):
    """HTTP/1.1 as uvicorn speaks it, to clients that say within a time and a size what they want.

    uvicorn waits for ever for the head of a request, and for an answer to be taken. Its parser
    keeps headers, and trailers after a body, without a limit.
    """

    patience = 20.0
    """Seconds from a connection, or from the first byte of another request, to its whole head."""
    taking = 60.0
    """Seconds in which a client has to take something of an answer that waits for it."""
    most = most_connections()
    """Connections at once; any more are closed at once."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._deadline: asyncio.TimerHandle | None = None
        self._unread = 0
        self._taking: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection."""
        super().connection_made(transport)
        if len(self.connections) > self.most:
            transport.abort()
        else:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Take note that the connection is over."""
        self._expect_nothing()
        self._stop_watching()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Take note that more of an answer waits than is kept: nothing more is made meanwhile."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """Take note that the client has taken most of it."""
        self._stop_watching()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Take some bytes."""
        self._unread += len(data)
        super().data_received(data)
        if self._unread > _MOST_UNREAD and not _is_closing(self.transport):
            self.send_400_response("The head of the request is too large.")

    def on_message_begin(self) -> None:
        """Take note that a request begins."""
        self._expect_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Take note that a head has ended."""
        self._expect_nothing()
        self._unread = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Take note that a request has ended."""
        self._unread = 0
        super().on_message_complete()

    def _expect_head(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(self.patience, self._give_up)

    def _expect_nothing(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        if not _is_closing(self.transport):
            self.transport.abort()

    def _watch(self) -> None:
        waiting = self.transport.get_write_buffer_size()
        self._taking = self.loop.call_later(self.taking, self._go_on_if_less_waits, waiting)

    def _stop_watching(self) -> None:
        if self._taking is not None:
            self._taking.cancel()
            self._taking = None

    def _go_on_if_less_waits(self, before: int) -> None:
        if self.transport.get_write_buffer_size() < before:
            self._watch()
        else:
            self.transport.abort()


def _is_closing(transport: asyncio.Transport | None) -> bool:
    return transport is None or transport.is_closing()
