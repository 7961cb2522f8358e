"""Keep Python's garbage collector from running while millions of objects are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["without_collection"]


@contextmanager
def without_collection() -> Iterator[None]:
    """Within this context nothing looks for unused objects that refer to each other.

    The collector looks at all objects again and again while their number grows. For the rows of a
    large table, which refer to nothing, that takes a quarter of the time and finds nothing. All
    other unused objects are freed at once, as always.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
