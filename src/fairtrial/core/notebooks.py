"""What notebooks show of an object instead of its text."""

from __future__ import annotations

import importlib

__all__ = ["ShownInNotebooks"]

_RENDERER = "fairtrial.report.notebook"
"""The module that makes the HTML. It is imported by its name when a notebook asks: what is shown
lies above everything that is shown."""


class ShownInNotebooks:
    """Base of objects that notebooks show as a part of the report."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        html: str = importlib.import_module(_RENDERER).html_of(self)
        return html
