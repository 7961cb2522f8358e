"""The service: studies over HTTP, for many users and machines at once (extra ``server``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairtrial.core.lazy import lazy_names

if TYPE_CHECKING:
    from fairtrial.server.app import create_app
    from fairtrial.server.process import serve
    from fairtrial.server.settings import Settings
    from fairtrial.server.webhooks import check_webhook

__all__ = ["Settings", "check_webhook", "create_app", "serve"]

__getattr__, __dir__ = lazy_names(
    __name__, ["settings", "app", "webhooks", "process"], extra=("the service", "server")
)
