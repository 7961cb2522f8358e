"""Warnings that name the line of the user's program."""

from __future__ import annotations

import inspect
import warnings

__all__ = ["warn_caller"]

_PACKAGE = __name__.partition(".")[0]
_WRAPPERS = ("contextlib", "functools")
"""Modules of Python whose functions call the package on behalf of its own functions."""


def warn_caller(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Warn about what the user's program called, at the line of that call.

    Python shows a repeated warning of one line only once, so a line within this package would hide
    the warnings of all calls but the first.

    Parameters
    ----------
    message : str or Warning
        The text, or a warning.
    category : type, optional
        The class of the warning, if `message` is a text.

    Examples
    --------
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_caller("two arms are equal")
    >>> [str(one.message) for one in caught]
    ['two arms are equal']
    """
    level, frame = 1, inspect.currentframe()
    while frame is not None and _is_own(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)  # noqa: TID251 - here its level is found


def _is_own(module: str) -> bool:
    return module in _WRAPPERS or module.partition(".")[0] == _PACKAGE
