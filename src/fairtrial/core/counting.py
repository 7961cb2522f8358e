"""How far long work is: a bar on a terminal or in a notebook, otherwise a line now and then."""

from __future__ import annotations

import contextvars
import html
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fairtrial.core.compilation import is_compiling
from fairtrial.core.notebooks import CellOutput, in_notebook, started_by_notebook
from fairtrial.core.printing import printable
from fairtrial.core.wording import plural

__all__ = ["Count", "counting", "erases"]

Count = Callable[[int, int], object]
"""``count(done, total)`` is called when so much is done."""

_LINE_SECONDS = 10.0
_SHOWN_AFTER = 1.0
"""Seconds after which a notebook shows a bar: what is faster leaves no trace in it."""
_REFRESH_SECONDS = 0.5
_COMPILING = "compiling (only once on this machine; it takes up to a minute)"
_BAR = (
    "<div style='font-family: monospace'>{text} <span style='display: inline-block; width: 20em; "
    "max-width: 40%; height: .6em; background: rgba(128, 128, 128, .35)'><span style='display: "
    "block; width: {percent:.1f}%; height: 100%; background: #3b82c4'></span></span> {rest}</div>"
)
"""In colours that can be seen on white and on black: a notebook's theme is not known here."""


@contextmanager
def counting(name: str, unit: str, *, last: bool = False) -> Iterator[Count]:
    """Yield a function that shows how many units are done.

    On a terminal and in a notebook, a bar; it is gone at the end. Elsewhere lines on standard
    error, which short work does not show.

    Parameters
    ----------
    name : str
        What is done; it may be empty.
    unit : str
        What is counted, such as ``"replication"``.
    last : bool
        Whether to write the last line, however short the work is.
    """
    console = Console(stderr=True)
    if in_notebook():
        with _CellBar(name or f"{unit}s") as bar:
            yield bar.count
    elif erases(console):
        with _terminal_bar(name or f"{unit}s", console) as count:
            yield count
    else:
        yield _Lines(name, unit, last).count


def erases(console: Console) -> bool:
    """Return whether what was written on a console can be replaced."""
    return console.is_terminal and not console.is_dumb_terminal and not started_by_notebook()


@contextmanager
def _terminal_bar(name: str, console: Console) -> Iterator[Count]:
    named = TextColumn("{task.description}", markup=False)
    columns = (named, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as display:
        task = display.add_task(printable(name), total=None)
        yield lambda done, total: display.update(task, completed=done, total=total)


class _Lines:
    """Writes a line from time to time."""

    def __init__(self, name: str, unit: str, last: bool) -> None:
        self._name = f"{printable(name)}: " if name else ""
        self._unit = unit
        self._last = last
        self._next = time.monotonic() + _LINE_SECONDS

    def count(self, done: int, total: int) -> None:
        if time.monotonic() >= self._next or (self._last and done == total):
            sys.stderr.write(f"{self._name}{done:,} of {plural(total, self._unit)}\n")
            self._next = time.monotonic() + _LINE_SECONDS


class _CellBar:
    """A bar below the cell of a notebook, drawn by a thread of its own.

    So it also shows that work goes on that has not finished its first unit.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._done, self._total = 0, 0
        self._first: tuple[float, int] | None = None
        self._output = CellOutput()
        self._ended = threading.Event()
        # The kernel knows by the context to which cell an output belongs.
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._draw,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._output.clear()

    def count(self, done: int, total: int) -> None:
        self._done, self._total = done, total
        if done and self._first is None:
            self._first = time.monotonic(), done

    def _draw(self) -> None:
        pause = _SHOWN_AFTER
        while not self._ended.wait(pause):
            self._output.show(*self._drawn())
            pause = _REFRESH_SECONDS

    def _drawn(self) -> tuple[str, str]:
        done, total = self._done, self._total
        counted = f"{done:,} of {total:,}{self._time_left()}" if total else "starting"
        if not done and is_compiling():
            counted = f"{counted}; {_COMPILING}"
        bar = _BAR.format(
            text=html.escape(self._name), percent=100 * done / max(total, 1), rest=counted
        )
        return f"{self._name}: {counted}", bar

    def _time_left(self) -> str:
        """Return about how long it takes, from the first units on: before, kernels may compile."""
        if self._first is None:
            return ""
        since, before = self._first
        counted, left = self._done - before, self._total - self._done
        if counted <= 0:
            return ""
        return f", about {_duration((time.monotonic() - since) / counted * left)} left"


def _duration(seconds: float) -> str:
    """Return a duration in words.

    Examples
    --------
    >>> _duration(0.2), _duration(59), _duration(200), _duration(20_000)
    ('1 s', '59 s', '3 min', '5.6 h')
    """
    if seconds < 60:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5_400 else f"{seconds / 3_600:.1f} h"
