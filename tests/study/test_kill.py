"""kill -9 at any moment: nothing acknowledged is lost or doubled, and the study continues."""

import itertools
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from fairtrial.study import Study
from tests import effort
from tests.study.killed import value_of
from tests.study.tools import chain_of, query, replayed, same_state, server_query, wait_until
from tests.study.toys import OWN, Racing, Serving, ToyProblem

KILLS = effort.runs(5, whole=200)


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


# ------------------------------------------------------------------------------ leases

LEASE = 0.3


@contextmanager
def renewing(path):
    """Renew leases in another process; yield it, and the ends of leases that it said, by pull."""
    ends: dict[str, list[int]] = defaultdict(list)
    command = [sys.executable, "-m", "tests.study.leased", str(path), str(LEASE)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "ready\n"

        def listen():
            for line in child.stdout:
                match line.split():
                    case ["extended", pull_id, until] if line.endswith("\n"):
                        ends[pull_id].append(int(until))

        listener = threading.Thread(target=listen)
        listener.start()
        try:
            yield child, ends
        finally:
            child.kill()
            listener.join()


@pytest.mark.filterwarnings("ignore:.*fsync = off")
def test_a_lease_is_renewed_or_over_whatever_two_processes_do_and_one_is_killed(place):
    path, _ = place
    problem = ToyProblem()
    policy = Racing(problem, slots=4, budget=10_000)
    chance = random.Random(7)
    with (
        Study.create(problem, policy, storage=path, name="toy", seed=7) as study,
        renewing(path) as (child, ends),
    ):

        def is_enough() -> bool:
            return len(ends) > 10 and study.health()["expired"] > 2 and study.policy.told > 5

        latest = time.monotonic() + 120.0
        while not is_enough():
            assert time.monotonic() < latest
            study.ask(4, lease=LEASE)
            time.sleep(chance.uniform(0.0, LEASE))
            pulls = study.outstanding()
            if pulls and chance.random() < 0.5:
                study.tell(chance.choice(pulls), 0.5)
        for pull in study.outstanding():
            study.fail(pull, "over")
        last = study.ask(lease=600)
        wait_until(lambda: ends[last.id])
        # All that the child said of the other pulls has been read by this moment.
        child.send_signal(signal.SIGKILL)
        child.wait()
        kept = study._store.pull(1, last.id).lease_until
        check_leases(study, ends, last)
        wait_until(lambda: max(ends[last.id]) <= kept < study._store.now())
        study.pass_time()
        assert [event.kind for event in study.events() if event.pull_id == last.id] == [
            "ask",
            "expire",
        ]
        assert study.verify().ok
        assert same_state(study.policy, replayed(study))


def check_leases(study, ends, last) -> None:
    """Check that no pull was over before its lease was, and that none was renewed after that."""
    issued = {}
    for event in study.events():
        at, pull = event.at.timestamp() * 1e6, event.pull_id
        if event.kind == "ask":
            issued[pull] = event.lease_until.timestamp() * 1e6
        elif event.kind in ("tell", "expire", "fail"):
            end = max([issued[pull], *ends[pull]])
            assert end <= at + 1 if event.kind == "expire" else end > at - 1, event
            assert end <= at + LEASE * 1e6 + 1, event
        else:
            assert event.kind in ("wait", "late_tell"), event
    assert ends[last.id]


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
