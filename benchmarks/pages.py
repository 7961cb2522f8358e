"""Pages of a study with a long log: the first visit, every tab, and a page after more results."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable

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
    """Return a study of so many events, half of them results."""
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
    for tab in ("decision", "log"):
        add(study, 5)
        show(f"{tab}, after 10 new events", seconds(look(tab)))


def until_whole(client: httpx.Client) -> None:
    """Wait until the page no longer says that the history is being read."""
    while "being read" in client.get("/studies/long/health").raise_for_status().text:
        time.sleep(0.2)


def show(what: str, spent: float) -> None:
    print(f"{what:<46}{spent * 1e3:10,.0f} ms", flush=True)
