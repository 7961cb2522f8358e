"""When code may be loaded: never in the middle of a write, and never interrupted by Ctrl-C.

Loading a kernel runs numba and LLVM; importing a package runs its start-up code, only once. Neither
can be interrupted safely: half-loaded code crashes, hangs or gives wrong answers later. And
compiling a kernel may take a minute, while nobody else should have to wait.
"""

from __future__ import annotations

import signal
import threading

# What the functions of `signal` wrap: converting numbers to names takes longer than the rest.
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
    """A kernel is needed where loading is not allowed; no `Exception`, so no policy catches it.

    Parameters
    ----------
    load : callable
        Loads the kernel; to be called when loading is allowed again.
    """

    def __init__(self, load: Callable[[], object]) -> None:
        super().__init__("a kernel has to be loaded first")
        self.load = load


class loaded_only:  # noqa: N801 - read as a statement
    """Within this context, this thread raises `NotLoaded` if a kernel is not loaded yet."""

    def __init__(self) -> None:
        self._before = True

    def __enter__(self) -> None:
        self._before = _THREAD.may_load
        _THREAD.may_load = False

    def __exit__(self, *_: object) -> None:
        _THREAD.may_load = self._before


def load(action: Callable[[], _Loaded]) -> _Loaded:
    """Load something without being interrupted.

    Raises
    ------
    NotLoaded
        If loading is not allowed now; `NotLoaded.load` does it later.
    """
    if not _THREAD.may_load:
        raise NotLoaded(lambda: load(action))
    with uninterrupted():
        return action()


class uninterrupted:  # noqa: N801 - read as a statement
    """Within this context the first Ctrl-C waits for the end of the context; a second does not.

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

    def __init__(self) -> None:
        self._pending = False
        self._handler: Any = None

    def __enter__(self) -> None:
        if threading.get_ident() == threading.main_thread().ident:
            handler = getsignal(_SIGINT)
            # Skip a handler written in C, and one that an outer `uninterrupted` has set.
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
