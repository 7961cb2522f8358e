"""Speed of writing and opening studies: pairs of ask and tell per second, seconds to open.

    python benchmarks/study_throughput.py [--pairs N] [--events N] [--folder PATH]

It also measures the CPU time and peak memory of looking at a long study.

Targets on the reference machine (2 cores; a flush of its disk takes 5 to 6 ms):
fused tell + ask with durability "full" as fast as the disk flushes; durability "process" at least
1,500 pairs a second; a study of 1,000,000 events opened within 5 s without and within 0.1 s with a
snapshot.
"""

# ruff: noqa: D102 - the toy policy's methods are documented where they are declared

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

import numpy as np

from fairtrial.core import Policy, Problem, Pull, Recommendation
from fairtrial.report import write_report
from fairtrial.study import Study
from fairtrial.study.log import PullRow, Record, project, seal
from fairtrial.study.sqlite import SQLiteStore


class Arms(Problem):
    """Ten arms and nothing else."""

    family = "benchmark"

    def __init__(self, arms: int = 10) -> None:
        self.arms = arms
        self._rows = tuple({"arm": str(index)} for index in range(arms))
        self._freeze()

    @property
    def action_labels(self) -> tuple[dict[str, str], ...]:
        return self._rows


class Turns(Policy):
    """Pull the arms in turn and sum their results, as cheaply as possible."""

    state_fields = ("sums",)

    def __init__(self, problem: Problem, seed: Any = None) -> None:
        super().__init__(problem, seed)
        self.sums = [0.0] * problem.n_actions

    def choose(self, **context: Any) -> int:
        return self.asked % self.problem.n_actions

    def learn(self, pull: Pull, outcome: float) -> None:
        self.sums[pull.action] += outcome

    @property
    def stopped(self) -> bool:
        return False

    def recommend(self) -> Recommendation:
        return Recommendation(None, "running", leader=str(int(np.argmax(self.sums))))


OWN: dict[str, Any] = {"policies": [Turns], "problems": [Arms]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=2_000, help="pairs written per case")
    parser.add_argument("--events", type=int, default=1_000_000, help="length of the long log")
    parser.add_argument("--folder", type=Path, default=None, help="where to write (a temporary)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        writing(folder, options.pairs)
        opening(folder, options.events)
        looking(folder / "long.db")


# ---------------------------------------------------------------------------- writing


def writing(folder: Path, pairs: int) -> None:
    few = max(pairs // 10, 10)
    show("flush of 4 KiB", few, "flushes", flushes(folder, few))
    cases: list[tuple[str, str, Callable[[Study, int], None], int]] = [
        ("full, ask + tell", "full", ask_and_tell, few),
        ("full, fused tell_and_ask", "full", fused, few),
        ("full, ask(100) + tell_many", "full", batches, pairs),
        ("process, ask + tell", "process", ask_and_tell, pairs),
        ("process, fused tell_and_ask", "process", fused, pairs),
        ("process, ask(100) + tell_many", "process", batches, pairs),
    ]
    for number, (title, durability, work, count) in enumerate(cases):
        with create(folder / f"{number}.db", durability) as study:
            work(study, 10)
            show(title, count, "pairs", seconds(partial(work, study, count)))
    with create("memory://", "process") as study:
        show("memory, fused tell_and_ask", pairs, "pairs", seconds(lambda: fused(study, pairs)))


def create(storage: Path | str, durability: Any) -> Study:
    problem = Arms()
    return Study.create(
        problem, Turns(problem), storage=storage, name="benchmark", seed=1, durability=durability
    )


def ask_and_tell(study: Study, pairs: int) -> None:
    for _ in range(pairs):
        study.tell(study.ask(), 0.5)


def fused(study: Study, pairs: int) -> None:
    pull = study.ask()
    for _ in range(pairs):
        pull = study.tell_and_ask(pull, 0.5)


def batches(study: Study, pairs: int) -> None:
    for _ in range(max(pairs // 100, 1)):
        study.tell_many([(pull, 0.5) for pull in study.ask(100)])


def flushes(folder: Path, number: int) -> float:
    with (folder / "flush").open("wb", buffering=0) as stream:
        return seconds(
            lambda: [(stream.write(b"x" * 4096), os.fsync(stream)) for _ in range(number)]
        )


# ---------------------------------------------------------------------------- opening


def opening(folder: Path, events: int) -> None:
    path = folder / "long.db"
    make_long_study(path, events)
    size = path.stat().st_size / 1e6
    print(f"a study of {events:,} events takes {size:,.0f} MB")
    show_opening("open without a snapshot", path)
    show_opening("open with a snapshot", path)


def show_opening(title: str, path: Path) -> None:
    start = time.perf_counter()
    study = Study.open(path, "benchmark", **OWN)
    told = study.policy.told
    spent = time.perf_counter() - start
    print(f"{title:<34}{spent:10.3f} s   ({told:,} outcomes)")
    study.close()


def make_long_study(path: Path, events: int) -> None:
    """Write the log of alternating asks and tells with N events, a thousand at a time."""
    create(path, "process").close()
    store = SQLiteStore(path, "process")
    study = store.studies()[0]
    records, rows = alternating(study.head_hash, events), 1_000
    bounds = [*range(0, events, rows), events]
    for first, last in pairwise(bounds):
        batch = [next(records) for _ in range(last - first)]
        pulls: dict[str, PullRow] = {}
        for record in batch:
            row = project(record, pulls.get(str(record.pull_id)))
            assert row is not None
            pulls[row.pull_id] = row
        study = store.transact(partial(store.append, study, batch, list(pulls.values()), "running"))
    store.close()


def alternating(previous: str, events: int) -> Any:
    blank = Record(0, "", None, None, None, 0, None, None, None, 0, None, None, None, "")
    for seq in range(1, events + 1):
        number = (seq - 1) // 2
        kind, value = ("ask", None) if seq % 2 else ("tell", 0.5)
        record = blank._replace(
            seq=seq,
            kind=kind,
            pull_id=f"{number * 0x9E3779B97F4A7C15 % 2**64:032x}",
            number=number,
            action=number % 10,
            value=value,
            at=1_800_000_000_000_000 + seq,
        )
        previous = seal(previous, record)
        yield record._replace(hash=previous)


# ---------------------------------------------------------------------------- looking


def looking(path: Path) -> None:
    """Run each look in its own process, because peak memory never decreases within one."""
    looks = {
        "verify": Study.verify,
        "study show: the last 100,000": shown,
        "history": Study.history,
        "report": partial(write_report, path=path.with_name("report.html")),
    }
    for title, look in looks.items():
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            spent, peak = process.submit(look_at, path, look).result()
        print(f"{title:<34}{spent:10.3f} s of CPU {peak:10,.0f} MB")


def look_at(path: Path, look: Callable[[Study], object]) -> tuple[float, float]:
    start = time.process_time()
    with Study.open(path, "benchmark", **OWN) as study:
        look(study)
    return time.process_time() - start, getrusage(RUSAGE_SELF).ru_maxrss / 1e3


def shown(study: Study) -> None:
    study.verify_last(100_000)
    study.progress()
    study.health()


# ---------------------------------------------------------------------------- figures


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def show(title: str, number: int, what: str, spent: float) -> None:
    print(f"{title:<46}{number / spent:10,.0f} {what} a second")


if __name__ == "__main__":
    main()
