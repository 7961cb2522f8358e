"""Close connections that are too slow to send a request or read an answer; limit their number."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["TimeLimitedProtocol", "most_connections"]

_MOST_FILES = 65_536
_RESERVED = 256
"""Number of files reserved for the storage and for downloads."""
_MOST_UNREAD = 64 * 1024
"""Largest number of bytes in a request's head, or between two parts of its body."""


def most_connections() -> int:
    """Return the largest number of open connections, from the process's limit of open files."""
    try:
        import resource  # noqa: PLC0415 - optional
    except ImportError:
        # Windows has no such limit.
        return _MOST_FILES - _RESERVED
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = _MOST_FILES if limit == resource.RLIM_INFINITY else min(limit, _MOST_FILES)
    return max(files - _RESERVED, files // 2)


class TimeLimitedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 protocol with limits of time and size for clients.

    uvicorn waits for ever for the head of a request, and for a client to read an answer. Its
    parser stores headers, and trailers after a body, without a limit.
    """

    patience = 20.0
    """Seconds from connecting, or from a request's first byte, until its head is complete."""
    taking = 60.0
    """Seconds within which a client must read some of an answer that is ready."""
    most = most_connections()
    """Largest number of connections; further ones are closed immediately."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._deadline: asyncio.TimerHandle | None = None
        self._unread = 0
        self._taking: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Handle a new connection."""
        super().connection_made(transport)
        if len(self.connections) > self.most:
            transport.abort()
        else:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the connection."""
        self._expect_nothing()
        self._stop_watching()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Handle a full write buffer: the answer pauses until the client has read some of it."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """Handle a write buffer that the client has mostly read."""
        self._stop_watching()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Handle received bytes."""
        self._unread += len(data)
        super().data_received(data)
        if self._unread > _MOST_UNREAD and not _is_closing(self.transport):
            self.send_400_response("The head of the request is too large.")

    def on_message_begin(self) -> None:
        """Handle the beginning of a request."""
        self._expect_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Handle the end of a request's head."""
        self._expect_nothing()
        self._unread = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Handle a part of a body."""
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Handle the end of a request."""
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
