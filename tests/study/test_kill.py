"""kill -9 at any moment: nothing acknowledged is lost, nothing is doubled, the study goes on."""

import random
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from fairtrial.study import Study
from tests import effort
from tests.study.killed import value_of
from tests.study.tools import chain, connect, replayed, same_state
from tests.study.toys import OWN, Serving, ToyProblem

KILLS = effort.runs(8, whole=200)


class Acknowledged:
    """What children said was done, before they were killed."""

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


def run_and_kill(path, seed: int) -> list[str]:
    """Run a child, kill it at some moment, and return the whole lines that it printed."""
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
def test_kill_9_at_any_moment(path):
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
            check(study, path, said)
    print(f"{KILLS} kills, {len(said.told)} outcomes, reopened in {max(reopening):.3f} s at most")
    assert len(said.told) > KILLS


def check(study, path, said: Acknowledged) -> None:
    events = list(study.events())
    asked = {event.pull_id: event.number for event in events if event.kind == "ask"}
    told = {event.pull_id: event.value for event in events if event.kind == "tell"}
    assert said.asked.items() <= asked.items()
    assert said.told.items() <= told.items()
    # A write that was kept and not yet acknowledged is told as it was meant, and once.
    assert set(Counter(event.pull_id for event in events if event.kind == "tell").values()) <= {1}
    assert all(told[pull] == asked[pull] / 8 for pull in told)
    assert sorted(asked.values()) == list(range(len(asked)))
    assert [event.hash for event in events] == chain(path)
    assert connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert study.verify().ok
    assert same_state(study.policy, replayed(study))


def test_the_values_of_the_harness_tell_their_pulls_apart(make_study):
    assert [value_of(pull) for pull in make_study().ask(3)] == [0.0, 0.125, 0.25]
