"""Pages of a study with a long log: first visit, every tab, zoom, a page after more results."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial

import httpx

from benchmarks.study_throughput import seconds
from fairtrial.allocation import FairLearn, Problem
from fairtrial.study import Study, Tokens
from tests.client.served import served

_TABS = ("decision", "arms", "fairness", "health", "log")
_AT_ONCE = 1_000
_VISITS = 20


def run(*, quick: bool) -> None:
    events = 20_000 if quick else 1_000_000
    print(f"\npages of a study of {events:,} events, over HTTP")
    with tempfile.TemporaryDirectory() as folder:
        storage = f"sqlite:///{folder}/pages.db"
        with make(storage, events) as study, Tokens(storage) as tokens:
            _, secret = tokens.create("benchmark", ["read"])
            with served(storage, durability="process") as service:
                headers = {"Authorization": f"Bearer {secret}"}
                with httpx.Client(base_url=service.url, headers=headers, timeout=120) as client:
                    visit(client, study)


def make(storage: str, events: int) -> Study:
    """Return a study with N events, half of them results."""
    problem = Problem(arms=["a", "b", "c"], shares=0.2)
    study = Study.create(
        problem, FairLearn(problem), storage=storage, name="long", seed=1, durability="process"
    )
    for _ in range(events // (2 * _AT_ONCE)):
        add(study, _AT_ONCE)
    return study


def add(study: Study, pulls: int) -> None:
    study.tell_many([(pull, float(pull.arm == "b")) for pull in study.ask(pulls)])


def visit(client: httpx.Client, study: Study) -> None:
    def look(tab: str) -> Callable[[], object]:
        return lambda: client.get(f"/studies/long/{tab}").raise_for_status()

    show("first visit", seconds(look("decision")))
    show("history read in the background", seconds(lambda: until_whole(client)))
    for tab in _TABS:
        show(tab, statistics.median(seconds(look(tab)) for _ in range(_VISITS)))
    zoom(client, study.n_events // 2)
    for tab in ("decision", "log"):
        add(study, 5)
        show(f"{tab}, after 10 new events", seconds(look(tab)))


def zoom(client: httpx.Client, results: int) -> None:
    """Zoom into parts of the history that were not shown before, and again into the same parts."""
    for part in (2, 8, 64, 1_024):
        spent = []
        for percent in range(30, 40, 2):
            begin = results * percent // 100 + 1
            address = f"/studies/long/fairness?from={begin}&to={begin + results // part}"
            spent.append(seconds(partial(look_at, client, address)))
        show(f"zoom into a part of 1/{part}, median", statistics.median(spent))
        show(f"zoom into a part of 1/{part}, slowest", max(spent))
        show("until all of its details are read", seconds(partial(until_detailed, client, address)))
        show("the same part again", seconds(partial(look_at, client, address)))


def look_at(client: httpx.Client, address: str) -> str:
    return client.get(address).raise_for_status().text


def until_detailed(client: httpx.Client, address: str) -> None:
    """Wait until the page no longer says that more detail is being read."""
    while "being read" in look_at(client, address):
        time.sleep(0.05)


def until_whole(client: httpx.Client) -> None:
    """Wait until the page no longer says that the history is being read."""
    while "being read" in client.get("/studies/long/health").raise_for_status().text:
        time.sleep(0.2)


def show(what: str, spent: float) -> None:
    print(f"{what:<46}{spent * 1e3:10,.0f} ms", flush=True)
