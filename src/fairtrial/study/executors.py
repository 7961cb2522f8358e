"""Where a driver's work is done: anybody's executor, or what makes one."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from fairtrial.errors import InvalidArgument

__all__ = ["end_workers", "is_executor", "maker_of"]


def is_executor(executor: Any) -> bool:
    """Return whether it is one, and not a class of them."""
    return not isinstance(executor, type) and callable(getattr(executor, "submit", None))


def maker_of(executor: Any) -> Callable[[], Executor]:
    """Return what gives the executor: always the same one, if it is the caller's."""
    if is_executor(executor):
        return lambda: executor
    if not callable(executor):
        raise _no_executor(executor)

    def make() -> Executor:
        made: Executor = executor()
        if not is_executor(made):
            raise _no_executor(made)
        return made

    return make


def end_workers(executor: Executor) -> bool:
    """Kill the processes that an executor works in; return whether there were any."""
    # What its own method does, which comes with Python 3.14.
    processes = getattr(executor, "_processes", None)
    if not isinstance(processes, dict):
        return False
    for process in list(processes.values()):
        process.kill()
    return True


def _no_executor(given: object) -> InvalidArgument:
    accepted = "must be a concurrent.futures.Executor, or a callable that makes one"
    return InvalidArgument("executor", accepted, given)
