"""How the service speaks HTTP: by uvicorn with parsers in C, patient with nobody for ever."""

from __future__ import annotations

from typing import Any

import uvicorn

from fairtrial.server.security.connections import PatientProtocol

__all__ = ["configured"]


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
        http=PatientProtocol,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        **options,
    )
