"""Races with limits, in which candidates wait: kills, a service, and races that began before."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import fairtrial as ft
from fairtrial.study import Study, Tokens
from tests.effort import first
from tests.server.load import service

N = 160
LABELS = ["hard" if at % 4 == 0 else "easy" for at in range(N)]
MEANS = {
    "now": {"hard": 0.5, "easy": 0.3},
    "newest": {"hard": 0.45, "easy": 0.95},
    "other": {"hard": 0.3, "easy": 0.2},
    "last": {"hard": 0.2, "easy": 0.1},
}
GIVEN = {"reward_range": (0, 1), "control": "now", "margin": 0.08, "category": LABELS}
SCRIPT = """
    import json, os, signal, sys
    from tests.races.test_limits import GIVEN, MEANS, N, ft, score

    storage, paid, most, parallel = sys.argv[1:]
    calls = 0

    def counted(candidate, item):
        global calls
        calls += 1
        if calls > int(most):
            os.kill(os.getpid(), signal.SIGKILL)
        with open(paid, "a") as file:
            file.write(json.dumps([candidate, item]) + "\\n")
        return score(candidate, item)

    given = {**GIVEN, "storage": storage, "parallel": int(parallel)}
    result = ft.race(list(MEANS), range(N), counted, **given)
    print(result.best, result.evaluations)
"""


def score(candidate, item):
    noise = (item * 37 + 11 * len(candidate)) % 101 / 101 - 0.5
    return min(1.0, max(0.0, MEANS[candidate][LABELS[item]] + 0.28 * noise))


def race(**given):
    return ft.race(list(MEANS), range(N), given.pop("score", score), **{**GIVEN, **given})


def test_candidates_wait_and_the_answer_needs_fewer_evaluations(tmp_path):
    result = race()
    assert (result.best, result.guarantee.label) == ("newest", "proven")
    assert result.evaluations < 0.6 * N * len(MEANS)
    assert "skips=True" in repr(result.study.policy)
    for most in range(28, 400, 4):
        part = race(storage=tmp_path / "part.db", max_evaluations=most)
        if "waiting" in part.states.values():
            break
    assert set(part.candidates) == {
        name for name, state in part.states.items() if state != "rejected"
    }
    assert part.remaining_at_most > 0
    assert "waiting" in part._repr_html_()


@pytest.mark.parametrize("parallel", first(1, [8, 1]))
def test_a_race_in_which_candidates_wait_is_killed_and_pays_nothing_twice(parallel, tmp_path):
    script, paid = tmp_path / "run.py", tmp_path / "paid"
    script.write_text(textwrap.dedent(SCRIPT))
    environment = {**os.environ, "FAIRTRIAL_KERNELS": "interpret", "PYTHONPATH": str(Path.cwd())}
    known, seen = set(), 0
    # The second kill is while candidates wait, in nearly all orders of the items.
    for most in (48, 12, 100_000):
        call = [sys.executable, str(script), str(tmp_path / "race.db"), str(paid), str(most)]
        done = subprocess.run(
            [*call, str(parallel)], env=environment, capture_output=True, text=True, check=False
        )
        calls = [tuple(json.loads(line)) for line in paid.read_text().splitlines()]
        assert known.isdisjoint(calls[seen:])
        with Study.open(tmp_path / "race.db", "race") as study:
            told = np.argwhere(np.isfinite(study.policy.listed_scores)).tolist()
            assert study.verify().ok
        known, seen = {([*MEANS][arm], item) for item, arm in told}, len(calls)
        assert done.returncode == (0 if most == 100_000 else -signal.SIGKILL), done.stderr
    assert done.stdout.split() == ["newest", str(len(known))]
    assert seen - len(known) <= 2 * parallel


def test_a_service_runs_a_race_in_which_candidates_wait(tmp_path, monkeypatch):
    storage = str(tmp_path / "races.db")
    with service(f"sqlite:///{storage}") as running:
        with Tokens(storage) as tokens:
            _, secret = tokens.create("experimenter", ["read", "run", "admin"])
        monkeypatch.setenv("FAIRTRIAL_TOKEN", secret)
        url = f"http://127.0.0.1:{running.port}"
        part = race(storage=url, parallel=4, max_evaluations=60)
        assert part.status == "running"
        result = race(storage=url, parallel=4)
        assert result.best == "newest"
        assert result.evaluations < 0.7 * N * len(MEANS)
        assert result.study.verify().ok
        race(storage=url, score=lambda *_: pytest.fail("a score was paid again"))


def test_a_race_goes_on_by_the_rule_with_which_it_began(tmp_path):
    """Races that were begun by versions that skip nothing are continued, and verified."""
    begun = race(storage=tmp_path / "new.db", max_evaluations=1).study
    policy = begun.policy.clone(skips=False)
    storage = tmp_path / "race.db"
    with Study.create(policy.problem, policy, storage=storage, name="race") as study:
        while study.policy.told < 100:
            pull = study.ask()
            study.tell(pull, score([*MEANS][pull.action], pull.tag))
    result = race(storage=storage)
    assert not result.study.policy.skips
    assert result.best == "newest"
    assert result.study.verify().ok
