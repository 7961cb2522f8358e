"""kill -9 at any moment: nothing acknowledged is lost or doubled, and the study continues."""

import itertools
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from fairtrial.study import Study
from tests import effort
from tests.study.killed import value_of
from tests.study.tools import chain_of, query, replayed, same_state, server_query
from tests.study.toys import OWN, Serving, ToyProblem

KILLS = effort.runs(8, whole=200)


class Acknowledged:
    """What children reported as done, before they were killed."""

    def __init__(self) -> None:
        self.asked: dict[str, int] = {}
        self.told: dict[str, float] = {}

    def listen(self, lines: list[str]) -> None:
        for line in lines:
            match line.split():
                case ["asked", pull_id, number]:
                    assert self.asked.setdefault(pull_id, int(number)) == int(number)
                case ["told", pull_id, value]:
                    assert pull_id not in self.told
                    self.told[pull_id] = float(value)


@pytest.fixture(params=["file", "postgresql"])
def place(request):
    """A place for a study that several processes may write, and a function that inspects it."""
    if request.param == "file":
        path = request.getfixturevalue("path")
        return path, lambda statement: query(path, statement)
    url = request.getfixturevalue("postgresql_url")
    return url, lambda statement: server_query(url, statement)


def run_and_kill(path, seed: int) -> list[str]:
    """Run a child, kill it at some moment, and return the complete lines that it printed."""
    chance = random.Random(seed)
    command = [sys.executable, "-m", "tests.study.killed", str(path), str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(chance.randrange(1, 25))]
        time.sleep(chance.uniform(0, 0.03))
        child.send_signal(signal.SIGKILL)
        lines += child.stdout.read().splitlines(keepends=True)
        assert child.wait() == -signal.SIGKILL
    return [line.decode() for line in lines if line.endswith(b"\n")]


@pytest.mark.slow
def test_kill_9_at_any_moment(place):
    path, rows_of = place
    problem = ToyProblem()
    Study.create(problem, Serving(problem), storage=path, name="toy", seed=7).close()
    said = Acknowledged()
    reopening = []
    for kill in range(KILLS):
        said.listen(run_and_kill(path, seed=kill))
        start = time.perf_counter()
        with Study.open(path, "toy", **OWN) as study:
            study.progress()
            reopening.append(time.perf_counter() - start)
            check(study, rows_of, said)
    print(f"{KILLS} kills, {len(said.told)} outcomes, reopened in {max(reopening):.3f} s at most")
    assert len(said.told) > KILLS


def check(study, rows_of, said: Acknowledged) -> None:
    events = list(study.events())
    asked = {event.pull_id: event.number for event in events if event.kind == "ask"}
    told = {event.pull_id: event.value for event in events if event.kind == "tell"}
    assert said.asked.items() <= asked.items()
    assert said.told.items() <= told.items()
    # A write that was kept but not acknowledged is told as intended, and once.
    assert set(Counter(event.pull_id for event in events if event.kind == "tell").values()) <= {1}
    assert all(told[pull] == asked[pull] / 8 for pull in told)
    assert sorted(asked.values()) == list(range(len(asked)))
    assert [event.hash for event in events] == chain_of(rows_of)
    # This also checks that the database itself is intact.
    assert study.verify().ok
    assert same_state(study.policy, replayed(study))


def test_the_values_of_the_harness_tell_their_pulls_apart(make_study):
    assert [value_of(pull) for pull in make_study().ask(3)] == [0.0, 0.125, 0.25]


# ------------------------------------------------------------------------- the server


def crash_and_start_again(server) -> None:
    server.stop("immediate")
    time.sleep(0.2)
    server.start()


def work(url, said: Acknowledged, over: threading.Event, keys) -> None:
    """Ask and tell until the end; with keys, every call has its own key."""
    with Study.open(url, "toy", **OWN) as study:
        while not over.is_set():
            key = None if keys is None else f"call {next(keys)}"
            if key is not None:
                pull = study.ask(request_id=f"{key}: ask")
                study.tell(pull, value_of(pull))
            elif said.asked and len(said.asked) % 3 == 0:
                [pull, other] = study.ask(2)
                said.asked[other.id] = other.number
                study.tell_many([(pull, value_of(pull)), (other, value_of(other))])
                said.told[other.id] = value_of(other)
            else:
                pull = study.ask()
                study.tell(pull, value_of(pull))
            said.asked[pull.id] = pull.number
            said.told[pull.id] = value_of(pull)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*fsync = off")
@pytest.mark.parametrize("has_keys", [False, True])
def test_the_server_crashes_under_load(postgresql_server, postgresql_url, has_keys):
    url = postgresql_url
    problem = ToyProblem()
    Study.create(problem, Serving(problem), storage=url, name="toy", seed=7).close()
    said, over = Acknowledged(), threading.Event()
    keys = itertools.count() if has_keys else None
    with ThreadPoolExecutor(3) as pool:
        workers = [pool.submit(work, url, said, over, keys) for _ in range(3)]
        for _ in range(effort.runs(3, whole=40)):
            told = len(said.told)
            deadline = time.monotonic() + 60
            while len(said.told) < told + 20 and time.monotonic() < deadline:
                time.sleep(0.01)
            crash_and_start_again(postgresql_server)
        over.set()
        for worker in workers:
            worker.result()
    print(f"{len(said.told)} outcomes")
    assert len(said.told) >= 60
    with Study.open(url, "toy", **OWN) as study:
        check(study, lambda statement: server_query(url, statement), said)
        # No process died, so everything in the log was acknowledged, and once.
        assert study.policy.asked == len(said.asked)
        assert study.policy.told == len(said.told)
        assert study.health()["duplicates"] == 0
