"""``./dev evidence [PART ...]``: measure what `docs/evidence` shows, and write its pages."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed

import click

from evidence.pages import write_pages
from evidence.parts import PARTS
from evidence.records import commit, sources
from evidence.running import is_done, measure_part


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
@click.option("--list", "listed", is_flag=True, help="Only list the parts.")
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
    """
    try:
        chosen = list(_chosen(parts))
    except LookupError as error:
        raise click.UsageError(str(error)) from None
    if listed:
        click.echo("\n".join(chosen))
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


def _measure(due: list[str], effort: float, seed: int, processes: int) -> None:
    started = time.monotonic()
    with ThreadPoolExecutor(processes) as pool:
        futures = {pool.submit(measure_part, part, effort, seed): part for part in due}
        for done, future in enumerate(as_completed(futures), 1):
            record = future.result()
            figures = sum("missing" not in case for case in record.cases)
            spent = time.monotonic() - started
            click.echo(
                f"[{done}/{len(due)}, {spent:.0f} s] {record.part}: {figures} of "
                f"{len(record.cases)} cases"
            )


if __name__ == "__main__":
    main(prog_name="./dev evidence")
