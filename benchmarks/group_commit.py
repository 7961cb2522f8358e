"""Many clients at once: writes per second, each safe on disk before it is answered.

The service's writer commits all waiting writes together. Clients tell an outcome and ask for the
next pull in one call, on one study or each on its own. Optuna's storages do the same as an ask and
a tell, with the same number of threads.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import optuna

from benchmarks.study_throughput import OWN, Arms, Turns, flushes, seconds, show
from fairtrial.server.writer import StudyWriter
from fairtrial.study import Store, Study
from fairtrial.study.location import open_store
from tests import postgresql

CLIENTS = (1, 8, 32, 128)
CLASSES = (OWN["policies"], OWN["problems"])


def run(*, quick: bool) -> None:
    print("\nmany clients at once; each write is on the disk before its answer")
    pairs = 10 if quick else 100
    with tempfile.TemporaryDirectory() as name, postgresql.running(fsync="on") as server:
        folder = Path(name)
        show("flush of 4 KiB", 10 * pairs, "flushes", flushes(folder, 10 * pairs))
        for clients in CLIENTS:
            for studies in sorted({1, min(clients, 8)}):
                where = f"{clients} clients, {studies} studies"
                file = f"sqlite:///{folder}/{clients}-{studies}.db"
                show_writer(f"SQLite, {where}", file, clients, studies, pairs)
                with server.database() as url:
                    show_writer(f"PostgreSQL, {where}", url, clients, studies, pairs)
        with server.database() as url:
            show_optuna(folder, 32, pairs, url.replace("postgresql://", "postgresql+psycopg://"))


def show_writer(title: str, storage: str, clients: int, studies: int, pairs: int) -> None:
    store = open_store(storage)
    make(store, studies)
    writer = StudyWriter(store, CLASSES)

    async def client(number: int) -> None:
        study = str(number % studies)
        pull = await writer.run(study, lambda opened: opened.ask())
        for _ in range(pairs):
            pull = await writer.run(study, told_and_asked(pull.id))

    async def all_clients() -> None:
        await asyncio.gather(*map(client, range(clients)))

    spent = seconds(lambda: asyncio.run(all_clients()))
    show(title, clients * pairs, "pairs", spent)
    writer.close()
    store.close()


def told_and_asked(pull: str) -> Callable[[Study], Any]:
    return lambda study: study.tell_and_ask(pull, 0.5)


def make(store: Store, studies: int) -> None:
    problem = Arms()
    for number in range(studies):
        Study.create(problem, Turns(problem), storage=store, name=str(number), seed=1)


# ----------------------------------------------------------------------------- Optuna


def show_optuna(folder: Path, clients: int, pairs: int, postgresql_url: str) -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    journal = optuna.storages.journal.JournalFileBackend(str(folder / "optuna.log"))
    storages = {
        "SQLite": f"sqlite:///{folder}/optuna.db",
        "journal file": optuna.storages.JournalStorage(journal),
        "PostgreSQL": postgresql_url,
    }
    number = max(2, pairs // 20)
    for title, storage in storages.items():
        study = optuna.create_study(storage=storage, sampler=optuna.samplers.RandomSampler(1))

        def client(_: int, study: optuna.Study = study) -> None:
            for _ in range(number):
                trial = study.ask()
                study.tell(trial, 0.5)

        with ThreadPoolExecutor(clients) as threads:
            spent = seconds(
                lambda threads=threads, client=client: list(threads.map(client, range(clients)))
            )
        show(f"Optuna, {title}, {clients} threads", clients * number, "pairs", spent)
