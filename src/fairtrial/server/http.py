"""The HTTP server: uvicorn with parsers in C and with time limits for slow clients."""

from __future__ import annotations

from typing import Any

import uvicorn

from fairtrial.server.security.connections import TimeLimitedProtocol
from fairtrial.server.security.guard import KEEP_ALIVE

__all__ = ["configured"]

_MARGIN = 15
"""Seconds by which a connection stays open longer than announced, so that no client is late."""


def configured(app: Any, host: str, port: int, **options: Any) -> uvicorn.Config:
    """Return uvicorn's configuration for the service.

    Parameters
    ----------
    app : ASGI application
        The service.
    host, port
        Address and port to listen on; port 0 selects any free port.
    **options
        Further settings of `uvicorn.Config`.
    """
    # uvicorn uses uvloop if it is installed; uvloop does not exist for Windows.
    return uvicorn.Config(
        app,
        host,
        port,
        http=TimeLimitedProtocol,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE + _MARGIN,
        **options,
    )
