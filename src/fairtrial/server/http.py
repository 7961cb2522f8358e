"""The HTTP server: uvicorn with parsers in C and with time limits for slow clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import uvicorn

from fairtrial.server.security.connections import TimeLimitedProtocol
from fairtrial.server.security.guard import KEEP_ALIVE

__all__ = ["configured"]

_MARGIN = 15
"""Seconds by which a connection stays open longer than announced, so that no client is late."""


def configured(
    app: Any, host: str, port: int, *, trusted_proxies: Sequence[str] = (), **options: Any
) -> uvicorn.Config:
    """Return uvicorn's configuration for the service.

    Parameters
    ----------
    app : ASGI application
        The service.
    host, port
        Address and port to listen on; port 0 selects any free port.
    trusted_proxies : sequence of str
        Addresses or networks of proxies that are believed to state the client's address and
        protocol: ``"127.0.0.1"``, ``"10.0.0.0/8"``, or ``"*"`` for all. Nobody else is believed,
        not even this machine.
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
        proxy_headers=bool(trusted_proxies),
        forwarded_allow_ips=list(trusted_proxies),
        timeout_keep_alive=KEEP_ALIVE + _MARGIN,
        **options,
    )
