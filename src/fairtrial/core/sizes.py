"""Limits on the size of problems, checked before anything is computed from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from fairtrial.errors import InvalidArgument

__all__ = ["check_size", "limited_sizes"]

_ALWAYS: Mapping[str, int] = {"actions": 1_000_000}
"""Largest number of actions of any problem: what a pull can choose from."""

_LIMITS: ContextVar[Mapping[str, int]] = ContextVar("limits of sizes", default=_ALWAYS)


def check_size(name: str, what: str, size: int) -> None:
    """Raise if a problem is larger than allowed here.

    Parameters
    ----------
    name : str
        The argument that makes it so large.
    what : str
        What is counted: "actions", "comparisons", "features", "measures" or "states".
    size : int
        Their number.

    Raises
    ------
    InvalidArgument
        If there are too many.

    Examples
    --------
    >>> check_size("arms", "actions", 3)
    """
    most = _LIMITS.get().get(what)
    if most is not None and size > most:
        raise InvalidArgument(name, f"must lead to at most {most:,} {what} here", size)


@contextmanager
def limited_sizes(**limits: int) -> Iterator[None]:
    """Refuse larger problems, by what is counted, while the context lasts.

    Examples
    --------
    >>> with limited_sizes(actions=2):
    ...     check_size("arms", "actions", 3)
    Traceback (most recent call last):
    fairtrial.errors.InvalidArgument: arms must lead to at most 2 actions here; got 3
    """
    token = _LIMITS.set({**_ALWAYS, **limits})
    try:
        yield
    finally:
        _LIMITS.reset(token)
