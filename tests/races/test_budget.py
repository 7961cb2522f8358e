"""Limits of a race: for all callers, for repeated attempts, and only for what is still raced."""

import threading
import time

import pytest

import fairtrial as ft
from fairtrial.races.scoring import Evaluation


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(Evaluation.__init__, "__defaults__", (0.0,))


def run(score, items=60, **given):
    return ft.race(["a", "b"], range(items), score, **{"reward_range": (0, 1), **given})


def test_the_price_of_a_candidate_that_has_left_does_not_end_a_race(tmp_path):
    scores = {"dear": [0.0] * 400, "p": [0.5, 0.6] * 200, "q": [0.62, 0.5] * 200}
    costs = {"dear": 5.0, "p": 0.001, "q": 0.001}

    def call(limit):
        return ft.race(
            list(scores),
            range(400),
            scores,
            reward_range=(0, 1),
            cost=costs,
            max_cost=limit,
            storage=tmp_path / "race.db",
        )

    limit = 10.0
    while (part := call(limit)).states["dear"] != "rejected":
        assert part.status == "running"
        assert limit - 5.0 < part.cost <= limit
        limit += 5.0
    # Less than the price of one more is left, and enough for the others.
    assert part.status == "decided"
    assert limit - 5.0 < part.cost <= limit


@pytest.mark.parametrize("limit", [{"max_evaluations": 40}, {"cost": 0.5, "max_cost": 20.0}])
def test_all_callers_together_keep_a_limit(limit, tmp_path):
    calls = []

    def score(candidate, item):
        calls.append(candidate)
        time.sleep(0.005)
        return 0.5

    def call():
        run(score, storage=tmp_path / "race.db", items=300, parallel=2, **limit)

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert 36 <= len(calls) <= 40


@pytest.mark.parametrize("limit", [{"max_evaluations": 7}, {"cost": 2.0, "max_cost": 15.0}])
@pytest.mark.parametrize("on_error", ["ask", "worst", "leave"])
def test_repeated_attempts_are_paid_and_count(limit, on_error, tmp_path):
    calls = []

    def failing(candidate, item):
        calls.append(candidate)
        if len(calls) % 3:
            raise ConnectionError("busy")
        return 0.5

    given = {"storage": tmp_path / "race.db", "on_error": on_error}
    part = run(failing, **limit, **given)
    assert part.status == "running"
    assert len(calls) == 7
    assert part.evaluations == 2
    whole = run(lambda candidate, item: float(candidate == "a"), **given)
    assert whole.best == "a"


def test_a_higher_limit_continues_with_the_evaluation_that_was_refused(tmp_path):
    evaluations = [
        run(lambda *_: 0.5, storage=tmp_path / "race.db", max_evaluations=most).evaluations
        for most in (1, 2, 7, 7, 120)
    ]
    assert evaluations == [1, 2, 7, 7, 120]
