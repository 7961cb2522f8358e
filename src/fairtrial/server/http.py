"""How the service speaks HTTP: by uvicorn with parsers in C, and with a bound on what it keeps."""

from __future__ import annotations

import asyncio
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["configured"]

_MOST_UNREAD = 64 * 1024
"""Bytes of a request's head, or between two parts of its body."""


def configured(app: Any, host: str, port: int, **options: Any) -> uvicorn.Config:
    """Return uvicorn's settings for the service.

    Parameters
    ----------
    app : ASGI application
        The service.
    host, port
        Where to listen; port 0 is any that is free.
    **options
        Further settings of `uvicorn.Config`.
    """
    # uvloop serves where it is installed; there is none for Windows.
    return uvicorn.Config(
        app,
        host,
        port,
        http=_BoundedHttp,
        log_config=None,
        access_log=False,
        server_header=False,
        **options,
    )


class _BoundedHttp(HttpToolsProtocol):
    """Closes a connection whose head has no end, or whose body is more about than of something.

    The parser keeps headers, and trailers after a body, without a limit of its own.
    """

    _unread = 0

    def data_received(self, data: bytes) -> None:
        """Take a part of a request."""
        self._unread += len(data)
        super().data_received(data)
        if self._unread > _MOST_UNREAD and not _is_closing(self.transport):
            self.send_400_response("The head of the request is too large.")

    def on_headers_complete(self) -> None:
        """Take note that a head has ended."""
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


def _is_closing(transport: asyncio.Transport | None) -> bool:
    return transport is None or transport.is_closing()
