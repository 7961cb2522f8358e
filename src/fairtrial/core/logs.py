"""The loggers of the package, below ``fairtrial``."""

from __future__ import annotations

import logging

__all__ = ["logger"]


def logger(name: str) -> logging.Logger:
    """Return the logger ``fairtrial.<name>``; the program decides whether anything is shown.

    Examples
    --------
    >>> logger("allocation").name
    'fairtrial.allocation'
    """
    top = logging.getLogger("fairtrial")
    if not any(isinstance(handler, logging.NullHandler) for handler in top.handlers):
        # Otherwise Python writes warnings to the standard error of programs that asked for none.
        top.addHandler(logging.NullHandler())
    return top.getChild(name)
