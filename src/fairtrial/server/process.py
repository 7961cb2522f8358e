"""The service as a process: it listens, until a signal asks it to end."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import uvicorn

from fairtrial.server.http import configured
from fairtrial.server.telemetry import configure_logs

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["serve"]

_LOG = logging.getLogger("fairtrial.server")
_GRACE_SECONDS = 10
"""How long requests may still take once the service is told to end."""


def serve(
    app: FastAPI,
    host: str,
    port: int,
    announce: Callable[[str], object],
    trusted_proxies: Sequence[str] = (),
) -> None:
    """Serve until a signal requests the end; first write everything that was accepted.

    Parameters
    ----------
    app : FastAPI
        What `create_app` returned.
    host, port
        Where to listen; port 0 is any that is free.
    announce : callable
        Called with the address of the service once it listens.
    trusted_proxies : sequence of str
        Addresses or networks of proxies that may state the client's address and protocol.

    Raises
    ------
    SystemExit
        If it cannot listen there; the log says why.
    """

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            if self.started:
                announce(
                    _url_of(host, self.servers[0].sockets[0].getsockname()[1])
                    + app.state.service.settings.root_path
                )

        async def shutdown(self, sockets: Any = None) -> None:
            # Otherwise the shutdown would wait for requests that wait for news or read long logs.
            app.state.service.end()
            await super().shutdown(sockets)

    configure_logs()
    config = configured(
        *(app, host, port),
        trusted_proxies=trusted_proxies,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    server = Server(config)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        # uvicorn raises the signal again after it has ended, for the handlers from before.
        signal.signal(number, lambda *_: None)
    try:
        server.run()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if app.state.service.readers.is_busy:
        # Everything is written. Python would wait for threads that still read.
        _LOG.warning("a read does not end; the process ends without it")
        logging.shutdown()
        os._exit(0)


def _url_of(host: str, port: int) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}"
