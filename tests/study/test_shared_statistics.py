"""Servers that decide alone, as real processes: killed, started again, cut off from the store."""

import subprocess
import sys
import threading
from math import floor

import pytest

from fairtrial.allocation import FairLearn, LocalAllocator, Problem
from fairtrial.errors import InvalidArgument
from fairtrial.study import SharedStatistics, Study
from tests.messages import raises
from tests.study import serving
from tests.study.tools import wait_until


class Server:
    """A process that serves visitors, and what it has reported about them."""

    def __init__(self, storage, name):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.study.serving", storage, name],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.served = [0, 0, 0]
        self.all_kept = True
        self.name = ""
        self.thread = threading.Thread(target=self._listen, daemon=True)
        self.thread.start()

    def _listen(self):
        for line in self.process.stdout:
            if line.startswith("ready"):
                self.name = line.split()[1]
                continue
            if not line.endswith("\n"):
                return
            self.served = [int(number) for number in line.split()]
            a, b, _ = self.served
            self.all_kept &= min(a, b) >= floor(9 * sum(self.served) / 20)

    def serves(self, visitors):
        """Wait until it has served that many."""
        wait_until(lambda: sum(self.served) >= visitors or not self.thread.is_alive())
        assert self.process.poll() is None

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.thread.join()


@pytest.fixture
def server_of():
    """Return a function that starts a server, which is gone when the test is over."""
    started = []

    def start(storage, name):
        started.append(Server(storage, name))
        return started[-1]

    yield start
    for server in started:
        server.kill()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_servers_that_are_killed_and_cut_off_keep_the_shares_together(kind, request, server_of):
    server = request.getfixturevalue("postgresql_server") if kind == "postgresql" else None
    if kind == "postgresql":
        storage = request.getfixturevalue("postgresql_url")
    else:
        storage = f"sqlite:///{request.getfixturevalue('tmp_path')}/shop.db"
    problem = Problem(serving.ARMS, serving.SHARES)
    Study.create(problem, FairLearn(problem), storage=storage, name="shop", seed=1).close()
    first, second = (server_of(storage, "shop") for _ in range(2))
    for each in (first, second):
        each.serves(40)
    first.kill()
    if server is not None:
        server.stop("immediate")
    second.serves(sum(second.served) + 100)
    if server is not None:
        server.start()
    third = server_of(storage, "shop")
    third.serves(40)
    lives = [first, second, third]
    with Study.open(storage, "shop") as study:
        shared = SharedStatistics(study)
        wait_until(lambda: {each.name for each in lives} <= set(shared.published()))
        watcher = LocalAllocator(serving.template(), shared, interval=None)
        assert watcher.exchange() == 3
        overall = watcher.overall()
        known = watcher._policy.rewards[0]
    for each in lives:
        each.kill()
        assert each.all_kept
    assert max(overall.behind.values()) <= len(lives)
    assert overall.pulls["a"] > 0
    assert known[1].tolist() == [0, known[0][1], 0]
    together = [sum(arms) for arms in zip(*(each.served for each in lives), strict=True)]
    assert floor(9 * sum(together) / 20) - min(together[:2]) <= len(lives) - 1


def test_what_a_process_publishes_replaces_what_it_said_before(make_study, store):
    shared = SharedStatistics(make_study())
    other = SharedStatistics(make_study(name="another"))
    shared.publish("one", "first")
    shared.publish("two", "\N{SNOWMAN}" * 1_000)
    shared.publish("one", "second")
    assert shared.published() == {"one": "second", "two": "\N{SNOWMAN}" * 1_000}
    assert other.published() == {}


def test_what_is_published_is_no_part_of_the_log(make_study):
    study = make_study()
    SharedStatistics(study).publish("one", "{}")
    study.tell(study.ask(), 1.0)
    assert [event.kind for event in study.events()] == ["ask", "tell"]
    assert study.verify().ok


def test_only_a_study_has_such_a_place():
    with raises(InvalidArgument, "study"):
        SharedStatistics("shop")
