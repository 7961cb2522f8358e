"""Races on the address of a service: several processes, kills, and what is refused."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections import Counter

import pytest

import fairtrial as ft
from fairtrial.errors import AccessRefused, InvalidArgument, StudyExists
from fairtrial.study import Study, Tokens
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
    with pytest.raises(StudyExists, match="'short' changed since the race 'prompts' began"):
        call("Answer!")


@pytest.mark.parametrize("given", [{"max_evaluations": 5}, {"max_cost": 5, "cost": 1}])
def test_limits_are_refused_because_a_service_keeps_none(given, url):
    with pytest.raises(InvalidArgument) as error:
        run(url, name="limited", **given)
    assert error.value.name == next(iter(given))


def test_a_token_that_may_not_create_studies_is_refused(url, monkeypatch):
    monkeypatch.setenv("FAIRTRIAL_TOKEN", os.environ["READER"])
    with pytest.raises(AccessRefused):
        run(url, name="refused")
