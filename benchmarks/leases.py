"""What it costs to renew the leases of pulls in flight, in SQLite.

    python benchmarks/leases.py [--pulls N] [--minutes N] [--folder PATH]

First, how many leases one process renews in a second, by durability. Then an hour, with a clock
set by hand, in which every pull in flight is renewed every ten seconds: the processor time, the
events in the log, and the size of the files.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import fairtrial as ft
from fairtrial.study.sqlite import SQLiteStore

BETWEEN, LEASE = 10.0, 30.0
"""Seconds between two renewals of a lease, and its duration."""
RENEWALS = 2_000


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.seconds = 1_800_000_000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.seconds


def made(path: Path, durability: str, clock: Clock) -> ft.Study:
    problem = ft.subpopulations.Problem(["a", "b"], ["all"], reward_range=(0, 1))
    policy = ft.subpopulations.BlockBetting(problem, delta=0.05)
    store = SQLiteStore(path, durability, clock=clock)
    return ft.Study.create(problem, policy, storage=store, name="leases", seed=7)


def speed(folder: Path, durability: str) -> None:
    study = made(folder / f"{durability}.db", durability, Clock())
    pull = study.ask(lease=LEASE)
    study.extend(pull, LEASE)
    began, used = time.perf_counter(), time.process_time()
    for _ in range(RENEWALS):
        study.extend(pull, LEASE)
    seconds, used = time.perf_counter() - began, time.process_time() - used
    print(
        f"{durability:8} {RENEWALS / seconds:8,.0f} renewals/s "
        f"({used / RENEWALS * 1e6:,.0f} us of processor time each)"
    )


def an_hour(folder: Path, pulls: int, minutes: int) -> None:
    path, clock = folder / "hour.db", Clock()
    study = made(path, "full", clock)
    issued = study.ask(pulls, lease=LEASE)
    rounds = round(minutes * 60 / BETWEEN)
    used = time.process_time()
    for _ in range(rounds):
        clock.seconds += BETWEEN
        for pull in issued:
            study.extend(pull, LEASE)
    used = time.process_time() - used
    size = sum(file.stat().st_size for file in folder.glob("hour.db*"))
    exported = study.export(folder / "hour.jsonl").stat().st_size
    print(
        f"{minutes} minutes, {pulls} pulls, {rounds * pulls:,} renewals: {used:.1f} s of processor "
        f"time, {study.n_events:,} events, {size / 1e6:.1f} MB of files, "
        f"{exported / 1e6:.2f} MB exported"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pulls", type=int, default=100)
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        for durability in ("full", "process"):
            speed(Path(folder), durability)
        an_hour(Path(folder), given.pulls, given.minutes)


if __name__ == "__main__":
    main()
