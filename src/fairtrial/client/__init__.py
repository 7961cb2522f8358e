"""Studies that a service keeps, used from any machine as if they were local."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairtrial.core.lazy import lazy_names

if TYPE_CHECKING:
    from fairtrial.client.async_study import AsyncConnection, AsyncStudy, connect_async
    from fairtrial.client.connection import Connection, connect
    from fairtrial.client.remote_study import RemoteStudy
    from fairtrial.client.worker import work

__all__ = [
    "AsyncConnection",
    "AsyncStudy",
    "Connection",
    "RemoteStudy",
    "connect",
    "connect_async",
    "work",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    ["connection", "remote_study", "worker", "async_study"],
    extra=("a study that a service keeps", "client"),
)
