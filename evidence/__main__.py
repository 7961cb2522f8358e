"""``./dev evidence [PART ...]``: measure what `docs/evidence` shows, and write its pages."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import suppress

import click

from evidence.pages import write_pages
from evidence.parts import PARTS
from evidence.records import Record, commit, read_all, sources
from evidence.running import Stopped, is_done, measure_part


@click.command()
@click.argument("parts", nargs=-1, metavar="[PART]...")
@click.option(
    "--effort",
    type=click.FloatRange(min=0.01),
    default=3.0,
    show_default=True,
    help="Seconds of processor time for each case.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Source of all randomness.")
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    default=os.cpu_count() or 1,
    show_default="number of cores",
    help="Parts that are measured at the same time.",
)
@click.option("--again", is_flag=True, help="Measure also what these sources have measured.")
@click.option("--missing", is_flag=True, help="Measure only what no version has measured.")
@click.option("--pages", is_flag=True, help="Only write the pages, from the stored figures.")
@click.option(
    "--list", "listed", is_flag=True, help="Only list the parts, with the time that each took."
)
def main(
    parts: tuple[str, ...],
    effort: float,
    seed: int,
    processes: int,
    again: bool,
    missing: bool,
    pages: bool,
    listed: bool,
) -> None:
    """Measure the evidence and write the pages of docs/evidence.

    PART is the name of a part, or how such names begin, such as policies/linear. Parts that were
    measured with the present sources are left out, so that an interrupted run goes on where it was.
    Ctrl-C stops at once; what was measured until then is kept.
    """
    try:
        chosen = list(_chosen(parts))
    except LookupError as error:
        raise click.UsageError(str(error)) from None
    if listed:
        _list(chosen, processes)
        return
    if not pages:
        commit()  # the sources are loaded now; a later commit has not been measured
        known = None if missing else sources()
        due = [part for part in chosen if again or not is_done(part, effort, seed, known)]
        _measure(due, effort, seed, processes)
    for page in write_pages():
        click.echo(page)


def _chosen(beginnings: tuple[str, ...]) -> Iterator[str]:
    for beginning in beginnings:
        if not any(part.startswith(beginning) for part in PARTS):
            raise LookupError(f"no part begins with {beginning!r}; --list lists them")
    yield from (part for part in PARTS if part.startswith(beginnings or ("",)))


def _earlier() -> dict[str, float]:
    """Return the processor seconds of the last measurement of each part, if they are known."""
    times = {part: record.processor_seconds for part, record in read_all().items()}
    return {part: seconds for part, seconds in times.items() if seconds is not None}


def _list(chosen: list[str], processes: int) -> None:
    earlier = _earlier()
    for part in chosen:
        click.echo(f"{part:<60}{f'{earlier[part]:.0f} s' if part in earlier else '-':>10}")
    known = [earlier[part] for part in chosen if part in earlier]
    click.echo(
        f"{sum(known) / 60:.0f} minutes of processor time for {len(known)} of {len(chosen)} parts; "
        f"about {_left(chosen, earlier, processes) / 60:.0f} minutes with {processes} processes "
        "on idle cores"
    )


def _left(due: list[str], earlier: dict[str, float], processes: int) -> float:
    """Return about how many seconds parts take: together, or one after the other if alone."""
    times = {part: earlier.get(part, 0.0) for part in due}
    alone = sum(seconds for part, seconds in times.items() if PARTS[part].alone)
    return alone + (sum(times.values()) - alone) / processes


def _measure(due: list[str], effort: float, seed: int, processes: int) -> None:
    earlier = _earlier()
    # The longest first, so that no core is idle at the end; nobody knows what a new part takes.
    together = sorted(
        (part for part in due if not PARTS[part].alone),
        key=lambda part: -earlier.get(part, float("inf")),
    )
    alone = [part for part in due if PARTS[part].alone]
    progress, stop = _Progress(due, earlier, processes), threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)

    def measured(part: str) -> Record:
        if stop.is_set():
            raise Stopped
        try:
            return measure_part(part, effort, seed, stop=stop)
        except BaseException:
            # Before this thread takes the next part.
            stop.set()
            raise

    for parts, workers in ((together, processes), (alone, 1)):
        with ThreadPoolExecutor(workers) as pool:
            futures: list[Future[Record]] = [pool.submit(measured, part) for part in parts]
            try:
                for future in as_completed(futures):
                    # What made it stop is raised by another one.
                    with suppress(Stopped):
                        click.echo(progress.line(future.result()))
            except BaseException:
                stop.set()
                pool.shutdown(cancel_futures=True)
                raise


class _Progress:
    """Which parts are measured, and about how long the others will take."""

    def __init__(self, due: list[str], earlier: dict[str, float], processes: int) -> None:
        self._all, self._open = len(due), list(due)
        self._earlier, self._processes = earlier, processes
        self._started = time.monotonic()

    def line(self, record: Record) -> str:
        """Return what to show when a part is done."""
        self._open.remove(record.part)
        figures = sum("missing" not in case for case in record.cases)
        left = _left(self._open, self._earlier, self._processes)
        told = [
            f"[{self._all - len(self._open)}/{self._all}",
            f"{time.monotonic() - self._started:.0f} s",
            f"about {left:.0f} s left]",
        ]
        return f"{', '.join(told)} {record.part}: {figures} of {len(record.cases)} cases"


if __name__ == "__main__":
    main(prog_name="./dev evidence")
