"""The service in a separate process: decisions per second, durations, many studies.

Clients in another process tell an outcome and ask for the next pull, in one request unless the
title says two. Each answer is safe on disk. Optuna's storages do the same as an ask and a tell,
with the same number of threads.

A `LocalAllocator` decides in the process that serves visitors, without a request.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from benchmarks import clients
from benchmarks.group_commit import make, show_optuna
from benchmarks.study_throughput import OWN, flushes, seconds, show
from fairtrial.allocation import FairLearn, LocalAllocator, Problem
from fairtrial.study import Study, Tokens
from fairtrial.study.location import open_store
from fairtrial.study.tokens import Scope
from tests import postgresql

_HOST = "127.0.0.1"


def run(*, quick: bool) -> None:
    print("\nthe service as a process; each write is on the disk before its answer")
    spell = 1.0 if quick else 8.0
    with tempfile.TemporaryDirectory() as name, postgresql.running(fsync="on") as server:
        folder = Path(name)
        show("flush of 4 KiB", 300, "flushes", flushes(folder, 300))
        with server.database() as url:
            cases = {"SQLite": f"sqlite:///{folder}/service.db", "PostgreSQL": url}
            for title, storage in cases.items():
                with served(storage, 16) as service:
                    for number, studies in ((1, 1), (8, 1), (32, 1), (32, 16)):
                        where = f"{title}, {number} clients, {studies} studies"
                        show_press(where, service, number, studies, spell)
                    where = f"{title}, 32 clients, 1 study, two requests"
                    show_press(where, service, 32, 1, spell, fused=False)
        with server.database() as url:
            by_psycopg = url.replace("postgresql://", "postgresql+psycopg://")
            show_optuna(folder, 32, 20 if quick else 100, by_psycopg)
        for number in (20, 50) if quick else (300, 1_000, 2_000):
            many_studies(folder, number, spell)
        long_log(folder, 20_000 if quick else 1_000_000)
    local_decisions(20_000 if quick else 500_000)


class Service(NamedTuple):
    """A running service: how to reach it, and its process."""

    port: int
    secret: str
    process: int

    def processor_seconds(self) -> float:
        """Return the processor time of the service."""
        fields = Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def served(storage: str, studies: int, scopes: Sequence[Scope] = ("run",)) -> Iterator[Service]:
    """Serve studies in a separate process."""
    store = open_store(storage)
    make(store, studies)
    with Tokens(store) as tokens:
        _, secret = tokens.create("benchmark", scopes)
    store.close()
    process = start(storage)
    try:
        yield Service(port_of(process), secret, process.pid)
        if process.poll() is not None:
            raise RuntimeError("the service has ended")
        print(f"{'':<46}{_resident(process.pid):10,.0f} MB of memory")
    finally:
        process.terminate()
        process.wait()


def start(storage: str) -> subprocess.Popen[str]:
    """Start a service in a process of its own, whose log nobody reads."""
    command = [sys.executable, "-m", "benchmarks.service", storage]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def port_of(process: subprocess.Popen[str]) -> int:
    """Return where a service that was started listens, as soon as it does."""
    assert process.stdout is not None
    return int(process.stdout.readline())


def _resident(process: int) -> float:
    status = Path(f"/proc/{process}/status").read_text()
    return float(status.partition("VmRSS:")[2].split()[0]) / 1e3


def show_press(
    title: str, service: Service, number: int, studies: int, spell: float, *, fused: bool = True
) -> None:
    """Run clients for some seconds; show pairs per second and the durations of requests."""
    before = service.processor_seconds()
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        where = service.port, service.secret, number, studies, spell
        pressed = pool.submit(clients.press, *where, fused=fused).result()
    # Clients begin with one pull of each study, which is not timed.
    worked = (service.processor_seconds() - before) / (pressed.pairs + max(number, studies))
    show(title, pressed.pairs, "pairs", spell)
    for kind, took in pressed.seconds.items():
        took.sort()
        middle, last = took[len(took) // 2], took[int(len(took) * 0.99)]
        name = "" if kind == "both" else f" for a request to {kind}"
        figures = f"{middle * 1e3:10,.1f} ms median, {last * 1e3:,.1f} ms at the 99th percentile"
        print(f"{'':<46}{figures}{name}")
    print(
        f"{'':<46}{worked * 1e3:10,.2f} ms of CPU time per pair in the service, "
        f"{pressed.processor_seconds * 1e3:,.2f} ms in the clients",
        flush=True,
    )


def long_log(folder: Path, events: int) -> None:
    """Stream and export a long log; show the peak memory of the service's process."""
    storage = f"sqlite:///{folder}/long.db"
    with served(storage, 1, ("run", "read")) as service:
        with Study.open(storage, "0", durability="process", **OWN) as study:
            for _ in range(events // 2_000):
                study.tell_many([(pull, 0.5) for pull in study.ask(1_000)])
        lines = {"Accept": "application/x-ndjson"}
        for what, path, headers in (
            ("NDJSON", "events", lines),
            ("export as JSON lines", "export?format=jsonl", {}),
            ("export as CSV", "export?format=csv", {}),
        ):
            before = _most_resident(service.process, begin=True)
            began = time.perf_counter()
            size = _download(service, f"/v1/studies/0/{path}", headers)
            spent = time.perf_counter() - began
            most = _most_resident(service.process)
            print(
                f"{f'{events:,} events, {what}':<46}{size / 1e6:10,.0f} MB in {spent:,.1f} s; the "
                f"process took {before:,.0f} MB before and at most {most:,.0f} MB",
                flush=True,
            )


def _download(service: Service, path: str, headers: dict[str, str]) -> int:
    """Return the size of an answer, reading it in parts."""
    connection = HTTPConnection(_HOST, service.port)
    connection.request("GET", path, headers={"Authorization": f"Bearer {service.secret}"} | headers)
    answer = connection.getresponse()
    if answer.status != 200:
        raise RuntimeError(answer.read().decode())
    size = 0
    while part := answer.read(1 << 16):
        size += len(part)
    connection.close()
    return size


def _most_resident(process: int, *, begin: bool = False) -> float:
    """Return the peak memory of a process in megabytes since the call with `begin`."""
    if begin:
        # This resets the peak to the current memory of the process.
        Path(f"/proc/{process}/clear_refs").write_text("5")
    status = Path(f"/proc/{process}/status").read_text()
    return float(status.partition("VmHWM:")[2].split()[0]) / 1e3


def many_studies(folder: Path, number: int, spell: float) -> None:
    """Use many studies of one server in turn, more than it keeps open."""
    storage = f"sqlite:///{folder}/many-{number}.db"
    with served(storage, number) as service:
        where = f"SQLite, 32 clients, {number:,} studies in turn"
        show_press(where, service, 32, number, spell)


def local_decisions(number: int) -> None:
    """Decide and tell results within this process."""
    policy = FairLearn(Problem(10, "1/20"), seed=1)
    local = LocalAllocator(policy, _Nowhere(), interval=0.5)
    local.tell(local.ask(), 1.0)

    def work() -> None:
        for _ in range(number):
            local.tell(local.ask(), 1.0)

    show("LocalAllocator, 10 arms, one process", number, "pairs", seconds(work))
    local.close()


class _Nowhere:
    """A shared place for statistics that discards them."""

    def publish(self, process: str, body: str) -> None:
        return

    def published(self) -> dict[str, str]:
        return {}


def serve(storage: str) -> None:
    """Serve a storage on a free port, which is printed when the server is ready."""
    from fairtrial import server

    app = server.create_app(storage, settings=server.Settings(rate=1e9), **OWN)
    server.serve(app, _HOST, 0, lambda url: print(url.rpartition(":")[2], flush=True))


if __name__ == "__main__":
    serve(sys.argv[1])
