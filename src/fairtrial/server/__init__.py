"""The service: studies over HTTP, for many users and machines at once (extra ``server``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairtrial.errors import MissingExtra

if TYPE_CHECKING:
    from fairtrial.server.app import create_app
    from fairtrial.server.settings import Settings

__all__ = ["Settings", "create_app"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'fairtrial.server' has no attribute {name!r}")
    try:
        from fairtrial.server.app import create_app
        from fairtrial.server.settings import Settings
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] == "fairtrial":
            raise
        raise MissingExtra("the service", "server") from None
    globals().update(create_app=create_app, Settings=Settings)
    return globals()[name]
