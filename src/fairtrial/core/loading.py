"""When code is loaded: never in the middle of a write, and never cut short by Ctrl-C.

To load a kernel is to run numba and LLVM; to import a package runs its start-up code once and for
all. Neither is made to be interrupted: what is half loaded crashes, hangs or gives wrong answers
later. And to compile a kernel may take a minute, for which nobody else must be kept waiting.
"""

from __future__ import annotations

import signal
import threading

# What the functions of `signal` wrap: to turn numbers into names takes longer than the rest.
from _signal import getsignal  # type: ignore[import-not-found]
from _signal import signal as set_handler
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, TypeVar

__all__ = ["NotLoaded", "load", "loaded_only", "uninterrupted"]

_Loaded = TypeVar("_Loaded")

_SIGINT = int(signal.SIGINT)


class _Thread(threading.local):
    may_load = True


_THREAD = _Thread()


class NotLoaded(BaseException):
    """A kernel is needed where none may be loaded; no `Exception`, so that no policy catches it.

    Parameters
    ----------
    load : callable
        Loads it, once that may be.
    """

    def __init__(self, load: Callable[[], object]) -> None:
        super().__init__("a kernel has to be loaded first")
        self.load = load


class loaded_only:  # noqa: N801 - read as a statement
    """Within this context a kernel that is not loaded yet raises `NotLoaded` in this thread."""

    def __enter__(self) -> None:
        self._before = _THREAD.may_load
        _THREAD.may_load = False

    def __exit__(self, *_: object) -> None:
        _THREAD.may_load = self._before


def load(action: Callable[[], _Loaded]) -> _Loaded:
    """Load something that must not be cut short.

    Raises
    ------
    NotLoaded
        If nothing may be loaded now; `NotLoaded.load` does it later.
    """
    if not _THREAD.may_load:
        raise NotLoaded(lambda: load(action))
    with uninterrupted():
        return action()


class uninterrupted:  # noqa: N801 - read as a statement
    """Within this context one Ctrl-C waits for the end of the context; a second one does not.

    Only the main thread is interrupted by Ctrl-C; elsewhere this does nothing.

    Examples
    --------
    >>> try:
    ...     with uninterrupted():
    ...         signal.raise_signal(signal.SIGINT)
    ...         print("goes on")
    ... except KeyboardInterrupt:
    ...     print("and is interrupted now")
    goes on
    and is interrupted now
    """

    def __enter__(self) -> None:
        self._pending = False
        self._handler: Any = None
        if threading.get_ident() == threading.main_thread().ident:
            handler = getsignal(_SIGINT)
            # Neither one of C, nor one that was put there by a context around this one.
            if callable(handler) and not isinstance(getattr(handler, "__self__", None), type(self)):
                self._handler = handler
                set_handler(_SIGINT, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._pending:
            self._handler(number, frame)
        self._pending = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._handler is None:
            return
        set_handler(_SIGINT, self._handler)
        if self._pending:
            self._handler(_SIGINT, None)
