"""Pairs of ask and tell per second for a study in memory, in SQLite and in PostgreSQL.

The PostgreSQL server runs on this machine with its defaults, so it flushes every commit to disk. A
remote server adds its network latency to each of the queries of a write.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from benchmarks.study_throughput import (
    OWN,
    Arms,
    Turns,
    ask_and_tell,
    batches,
    flushes,
    fused,
    seconds,
    show,
)
from fairtrial.study import Study
from tests import postgresql

WAYS: Mapping[str, Callable[[Study, int], None]] = {
    "ask + tell": ask_and_tell,
    "tell_and_ask": fused,
    "ask(100) + tell_many": batches,
}


def run(*, quick: bool) -> None:
    print("\nstudies in memory, in a file, in PostgreSQL")
    pairs = 100 if quick else 1_000
    with tempfile.TemporaryDirectory() as name, postgresql.running(fsync="on") as server:
        folder = Path(name)
        show("flush of 4 KiB", pairs, "flushes", flushes(folder, pairs))
        one_process("memory", "memory://", "process", pairs)
        for durability in ("process", "full"):
            file = f"sqlite:///{folder}/{durability}.db"
            one_process(f"SQLite, {durability}", file, durability, pairs)
            with server.database() as url:
                one_process(f"PostgreSQL, {durability}", url, durability, pairs)
        for processes in (2, 4):
            for studies in (1, processes):
                with server.database() as url:
                    several_processes(url, processes, studies, pairs)


def one_process(title: str, storage: str, durability: str, pairs: int) -> None:
    for way, work in WAYS.items():
        with made(storage, way, durability) as study:
            work(study, 10)
            show(f"{title}, {way}", pairs, "pairs", seconds(partial(work, study, pairs)))


def several_processes(url: str, processes: int, studies: int, pairs: int) -> None:
    """Run processes that tell and ask, all on one study or each on its own."""
    for number in range(studies):
        made(url, str(number), "full").close()
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        jobs = [(url, str(number % studies)) for number in range(processes)]
        list(pool.map(carry_out, *zip(*jobs, strict=True), [1] * processes))
        spent = seconds(
            lambda: list(pool.map(carry_out, *zip(*jobs, strict=True), [pairs] * processes))
        )
    what = "one study" if studies == 1 else f"{studies} studies"
    title = f"PostgreSQL, full, {processes} processes, {what}"
    show(title, processes * pairs, "pairs", spent)


def carry_out(url: str, name: str, pairs: int) -> None:
    with Study.open(url, name, **OWN) as study:
        fused(study, pairs)


def made(storage: str, name: str, durability: str) -> Study:
    problem = Arms()
    return Study.create(
        problem,
        Turns(problem),
        storage=storage,
        name=name,
        seed=1,
        durability=durability,  # type: ignore[arg-type]
    )
