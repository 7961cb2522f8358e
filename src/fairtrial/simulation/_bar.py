"""Progress of many runs: a bar on a terminal, otherwise a line from time to time."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fairtrial.core.wording import plural

__all__ = ["bar"]

_LINE_SECONDS = 10.0


@contextmanager
def bar(total: int, *, shown: bool | str) -> Iterator[Callable[[int], object]]:
    """Yield a function that counts finished runs, and shows their number on standard error.

    A text in `shown` names the runs.
    """
    if not shown:
        yield _ignore
        return

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines(total, shown if isinstance(shown, str) else "").advance
        return

    name = shown if isinstance(shown, str) else "replications"
    named = TextColumn("{task.description}", markup=False)
    columns = (named, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as display:
        task = display.add_task(name, total=total)
        yield lambda number: display.advance(task, number)


def _ignore(number: int) -> None:
    """Do nothing, because nothing is shown."""


class _Lines:
    """Writes a line from time to time; at the end, too, if the runs have a name."""

    def __init__(self, total: int, name: str) -> None:
        self._total = total
        self._name = name
        self._done = 0
        self._next = time.monotonic() + _LINE_SECONDS

    def advance(self, number: int) -> None:
        self._done += number
        ended = bool(self._name) and self._done == self._total
        if ended or time.monotonic() >= self._next:
            name = f"{self._name}: " if self._name else ""
            sys.stderr.write(f"{name}{self._done:,} of {plural(self._total, 'replication')}\n")
            self._next = time.monotonic() + _LINE_SECONDS
