"""Races on the address of a service: several processes, kills, and what is refused."""

import json
import math
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter

import pytest

import fairtrial as ft
from fairtrial.errors import AccessRefused, StudyExists
from fairtrial.races.scoring import Evaluation
from fairtrial.study import Study, Tokens
from tests.messages import raises
from tests.server.load import service

N = 120
CHANCES = {"a": 0.2, "b": 0.85, "c": 0.5, "new": 0.97}
SCRIPT = """
    import json, os, signal, sys, time
    import fairtrial as ft
    from fairtrial.races import running

    url, paid, most = sys.argv[1:]
    calls = 0

    def score(candidate, item):
        global calls
        calls += 1
        if calls > int(most):
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.01)
        with open(paid, "a") as file:
            file.write(json.dumps([candidate, item]) + "\\n")
        return float((item * 37 + 11) % 100 / 100 < {"a": 0.2, "b": 0.85, "c": 0.5}[candidate])

    running.LEASE = 1.0
    result = ft.race(["a", "b", "c"], range(120), score, reward_range=(0, 1), delta=1e-3,
                     storage=url, parallel=3)
    print(json.dumps([result.best, result.evaluations]))
"""


def score(candidate, item):
    return float((item * 37 + 11) % 100 / 100 < CHANCES[candidate])


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    storage = str(tmp_path_factory.mktemp("served") / "races.db")
    with service(f"sqlite:///{storage}") as running:
        address = f"http://127.0.0.1:{running.port}"
        with Tokens(storage) as tokens:
            _, secret = tokens.create("experimenter", ["read", "run", "admin"])
            _, other = tokens.create("reader", ["read"])
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("FAIRTRIAL_TOKEN", secret)
            patch.setenv("READER", other)
            yield address


def run(url, score=score, candidates=("a", "b", "c"), **given):
    options = {"reward_range": (0, 1), "storage": url, **given}
    return ft.race(list(candidates), range(N), score, **options)


def test_processes_that_are_killed_share_a_race_and_repeat_only_what_was_in_flight(url, tmp_path):
    script, paid = tmp_path / "run.py", tmp_path / "paid"
    script.write_text(textwrap.dedent(SCRIPT))
    environment = {**os.environ, "FAIRTRIAL_KERNELS": "interpret"}

    def start(most):
        command = [sys.executable, str(script), url, str(paid), str(most)]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)

    for most in (6, 7):
        assert start(most).wait(60) == -signal.SIGKILL
    workers = [start(10_000) for _ in range(2)]
    answers = [json.loads(worker.communicate(timeout=120)[0]) for worker in workers]
    assert [best for best, _ in answers] == ["b", "b"]
    calls = Counter(map(tuple, map(json.loads, paid.read_text().splitlines())))
    # At most three were in flight at each of the two kills.
    assert calls.total() - len(calls) <= 2 * 3
    again = run(url, delta=1e-3, score=lambda *_: pytest.fail("a score was paid again"))
    assert again.best == "b"
    # Results that were in flight at the decision come after a caller has counted.
    assert max(number for _, number in answers) <= again.evaluations <= len(calls)
    assert again.study.verify().ok


def test_the_result_is_that_of_a_local_race(url, capsys):
    result = run(url, name="whole", cost=0.5, progress=True, parallel=4)
    assert (result.best, result.guarantee.label) == ("b", "proven")
    assert result.cost == 0.5 * result.evaluations
    assert result.table()["candidate"][0] == "b"
    assert isinstance(result.study, Study)
    assert "leads after" in capsys.readouterr().err


def test_scores_of_a_table_and_of_an_earlier_race_are_used(url):
    table = {name: [score(name, item) for item in range(N)] for name in CHANCES}
    first = run(url, {name: table[name] for name in "abc"}, name="one")
    calls = []

    def paid(candidate, item):
        calls.append((candidate, item))
        return score(candidate, item)

    given = {"name": "two", "extends": "one"}
    second = run(url, paid, CHANCES, **given)
    assert (first.best, second.best) == ("b", "new")
    assert second.reused > 0
    assert len(calls) == len(set(calls)) == second.evaluations


def test_a_changed_candidate_is_named(url):
    def call(prompt):
        candidates = {"short": prompt, "long": "Think."}
        options = {"reward_range": (0, 1), "storage": url, "name": "prompts"}
        return ft.race(candidates, range(9), lambda *_: 0.5, **options)

    call("Answer.")
    with raises(StudyExists):
        call("Answer!")


COSTS = {"a": 1.0, "b": 2.0, "c": 3.0}


class Paid:
    """A score function that notes its calls."""

    def __init__(self):
        self.calls = []

    def __call__(self, candidate, item):
        self.calls.append((candidate, item))
        time.sleep(0.002)
        return 0.5

    @property
    def cost(self):
        return sum(COSTS[candidate] for candidate, _ in self.calls)


@pytest.mark.parametrize("given", [{"max_evaluations": 20}, {"max_cost": 40.0, "cost": COSTS}])
def test_all_callers_together_keep_a_limit_and_a_higher_one_continues(given, url):
    paid, given = Paid(), {"name": f"limited {min(given)}", **given}

    def call():
        run(url, paid, parallel=2, **given).study.close()

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    at_most = given.get("max_evaluations", math.inf), given.get("max_cost", math.inf)
    assert len(paid.calls) <= at_most[0]
    assert paid.cost <= at_most[1]
    # The pull that was refused is not skipped for cheaper ones.
    assert len(paid.calls) == at_most[0] or paid.cost > at_most[1] - 3.0
    part = run(url, pytest.fail, **given)
    assert (part.status, part.evaluations) == ("running", len(paid.calls))
    limit = "max_cost" if "cost" in given else "max_evaluations"
    more = run(url, paid, **{**given, limit: given[limit] + 6})
    assert more.evaluations == len(paid.calls) == len(set(paid.calls)) > part.evaluations
    assert more.study.verify().ok


def test_a_limit_of_a_table_and_repeated_attempts_count_on_a_service(url, monkeypatch):
    monkeypatch.setattr(Evaluation.__init__, "__defaults__", (0.0,))
    table = {name: [score(name, item) for item in range(N)] for name in "abc"}
    assert run(url, table, name="table", max_evaluations=7).evaluations == 7
    calls = []

    def failing(candidate, item):
        calls.append(candidate)
        if len(calls) % 3:
            raise ConnectionError("busy")
        return 0.5

    part = run(url, failing, name="attempts", max_evaluations=7)
    assert (len(calls), part.evaluations, part.status) == (7, 2, "running")


def test_what_an_earlier_race_has_paid_is_free_on_a_service(url):
    def both(candidate, item):
        return 0.4 + 0.1 * (item % 2)

    # Each race has an order of items of its own; half of them are known for "a" and "b".
    run(url, both, "ab", name="base", delta=1e-9, max_evaluations=N).study.close()
    more = run(url, both, "abc", name="wider", extends="base", delta=1e-9, max_evaluations=60)
    assert more.reused > 0
    assert more.evaluations == 60


def test_a_token_that_may_not_create_studies_is_refused(url, monkeypatch):
    monkeypatch.setenv("FAIRTRIAL_TOKEN", os.environ["READER"])
    with raises(AccessRefused):
        run(url, name="refused")
