"""Studies that a service keeps, used from any machine as if they were local."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairtrial.client.connection import Connection, connect
    from fairtrial.client.remote_study import RemoteStudy
    from fairtrial.client.worker import work

__all__ = ["Connection", "RemoteStudy", "connect", "work"]

_HOMES = {
    "Connection": "connection",
    "RemoteStudy": "remote_study",
    "connect": "connection",
    "work": "worker",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
