"""Requests and answers get lost, and services end: every call still counts exactly once."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest

import fairtrial as ft
from fairtrial.client import work
from fairtrial.study import Study, Tokens
from fairtrial.study.memory import MemoryStore
from tests.client.flaky import flaky
from tests.client.served import served
from tests.effort import runs

PROBLEM = ft.subpopulations.Problem(["a", "b"], ["x", "y"], reward_range=(0, 1))


@pytest.fixture
def quick(monkeypatch):
    """Make the pauses between attempts short."""
    monkeypatch.setattr("fairtrial.client.transport._FIRST_PAUSE", 0.001)
    monkeypatch.setattr("fairtrial.client.transport._LONGEST_PAUSE", 0.01)


def make_study(storage):
    policy = ft.subpopulations.BlockBetting(PROBLEM)
    return Study.create(PROBLEM, policy, storage=storage, name="trial", seed=1)


@pytest.mark.parametrize("seed", range(runs(2, whole=20)))
def test_every_call_counts_once_whatever_gets_lost(seed, quick):
    store = MemoryStore()
    local = make_study(store)
    calls = Counter()
    with served(store) as service, flaky(service.url, seed) as (url, lost):
        token = service.token("worker", "run", "read")
        with ft.connect(url, token) as connection:
            remote = connection.study("trial")
            for _ in range(6):
                pulls = remote.ask(4)
                calls["ask"] += 4
                assert len({pull.id for pull in pulls}) == 4
                remote.tell_many([(pulls[0], 0.25), (PROBLEM.pull(arm="a", group="x"), 0.5)])
                remote.tell(PROBLEM.pull(arm="b", group="y"), 0.75)
                calls["unsolicited"] += 2
                remote.tell(pulls[1], 1.0)
                calls["tell"] += 2
                following = remote.tell_and_ask(pulls[2], 0.0)
                calls["tell"] += 1
                calls["ask"] += 1
                remote.fail(pulls[3], "spoilt")
                remote.fail(following, "spoilt")
                calls["fail"] += 2
            seen = Counter(event.kind for event in remote.events())
    assert lost
    assert Counter(event.kind for event in local.events()) == seen == calls
    assert local.verify().ok


def test_a_worker_behind_a_bad_line_measures_every_pull_once(quick):
    store = MemoryStore()
    local = make_study(store)
    measured = Counter()

    def measure(arm, report, group):
        measured[report.pull.id] += 1
        return 0.9 if arm == "a" else 0.1

    with (
        served(store) as service,
        flaky(service.url, 5) as (url, lost),
        ft.connect(url, service.token("worker", "run")) as connection,
    ):
        assert work(connection.study("trial"), measure, parallel=3) == "stopped"
    assert lost
    told = [event.pull_id for event in local.events() if event.kind == "tell"]
    assert measured == Counter(told)
    assert local.recommend().arm == "a"
    assert local.verify().ok


class Process:
    """The service as a process on its own port, which can be killed and started again."""

    def __init__(self, storage):
        with socket.create_server(("127.0.0.1", 0)) as place:
            self.port = place.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._storage = storage
        self.start()

    def start(self):
        command = [sys.executable, "-m", "fairtrial", "serve", "--storage", self._storage]
        self._process = subprocess.Popen(
            [*command, "--port", str(self.port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ.copy(),
        )
        assert re.match("The page: ", self._process.stdout.readline())

    def kill(self):
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._process.stdout.close()


def test_workers_wait_for_a_service_that_was_killed_and_no_result_is_lost(tmp_path):
    storage = f"sqlite:///{tmp_path}/trial.db"
    local = make_study(storage)
    with Tokens(storage) as tokens:
        _, token = tokens.create("worker", ["run"])
    measured, lock = Counter(), threading.Lock()

    def measure(arm, report, group):
        with lock:
            measured[report.pull.id] += 1
        time.sleep(0.01)
        return 0.9 if arm == "a" else 0.1

    service = Process(storage)
    result = {}

    def run():
        with ft.connect(service.url, token, patience=5) as connection:
            result["ending"] = work(connection.study("trial"), measure, parallel=2)

    worker = threading.Thread(target=run)
    worker.start()
    try:
        for least in range(10, 10 + 15 * runs(1, whole=5), 15):
            deadline = time.monotonic() + 60
            while local.n_events < least:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            service.kill()
            service.start()
        worker.join(120)
    finally:
        service.kill()
    assert result == {"ending": "stopped"}
    told = Counter(event.pull_id for event in local.events() if event.kind == "tell")
    assert set(told.values()) == {1}
    assert measured == told
    assert local.verify().ok
    local.close()
