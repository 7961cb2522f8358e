"""A progress bar where somebody can see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["bar"]


@contextmanager
def bar(total: int, *, shown: bool) -> Iterator[Callable[[int], object]]:
    """Give a function that moves the bar on; the bar is seen only on a terminal."""
    if shown:
        from rich.console import Console

        console = Console(stderr=True)
    if not shown or not console.is_terminal:
        yield _ignore
        return

    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = ("replications", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as display:
        task = display.add_task("replications", total=total)
        yield lambda number: display.advance(task, number)


def _ignore(number: int) -> None:
    """Do nothing: there is no bar to move."""
