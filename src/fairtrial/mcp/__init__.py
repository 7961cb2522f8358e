"""A server for the Model Context Protocol: studies as tools of a language model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairtrial.core.lazy import lazy_names

if TYPE_CHECKING:
    from fairtrial.mcp.server import mcp_server

__all__ = ["mcp_server"]

__getattr__, __dir__ = lazy_names(__name__, ["server"], extra=("fairtrial mcp", "mcp"))
