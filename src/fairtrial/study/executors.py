"""Executors that a driver can use, and callables that make them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from fairtrial.errors import InvalidArgument

__all__ = ["end_workers", "is_executor", "maker_of"]


def is_executor(executor: Any) -> bool:
    """Return whether `executor` is an executor, and not a class."""
    return not isinstance(executor, type) and callable(getattr(executor, "submit", None))


def maker_of(executor: Any) -> Callable[[], Executor]:
    """Return a function that provides the executor: always the same one, if the caller owns it."""
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
    """Kill the processes of an executor; return whether it has any."""
    # Python 3.14 has a method for this.
    processes = getattr(executor, "_processes", None)
    if not isinstance(processes, dict):
        return False
    for process in list(processes.values()):
        process.kill()
    return True


def _no_executor(given: object) -> InvalidArgument:
    accepted = "must be a concurrent.futures.Executor, or a callable that makes one"
    return InvalidArgument("executor", accepted, given)
