"""What notebooks show: objects instead of their text, and output that changes in place."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any
from uuid import uuid4

__all__ = ["CellOutput", "ShownInNotebooks", "in_notebook", "started_by_notebook"]

_RENDERER = "fairtrial.report.notebook"
"""The module that makes the HTML. It is imported by its name when a notebook asks: what is shown
lies above everything that is shown."""

_CHILDREN = {"TERM": "xterm-color", "GIT_PAGER": "cat"}
"""What Jupyter's Python kernel sets in the environment of the commands that a cell starts."""


class ShownInNotebooks:
    """Base of objects that notebooks show as a part of the report."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        html: str = importlib.import_module(_RENDERER).html_of(self)
        return html


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    return hasattr(_shell(), "kernel")


def started_by_notebook() -> bool:
    """Return whether a cell of a notebook has started this process, such as ``!fairtrial plan``.

    It then seems to write to a terminal, but a notebook keeps what a terminal would erase.
    """
    return not in_notebook() and all(os.environ.get(key) == of for key, of in _CHILDREN.items())


def _shell() -> Any:
    """Return the shell of IPython; nobody who uses it has not imported it."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return None if shell is None else shell()


class CellOutput:
    """A part of the output of the cell that runs now: each call of `show` replaces it."""

    def __init__(self) -> None:
        self._name = uuid4().hex
        self._shown = False

    def show(self, text: str, html: str | None = None) -> None:
        """Show a text, or HTML where it can be drawn."""
        display = importlib.import_module("IPython.display")
        data = {"text/plain": text} if html is None else {"text/plain": text, "text/html": html}
        display.display(data, raw=True, display_id=self._name, update=self._shown)
        self._shown = True

    def clear(self) -> None:
        """Leave nothing."""
        if self._shown:
            self.show("")
