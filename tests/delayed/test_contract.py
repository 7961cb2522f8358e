"""The family with the rest of the package: simulations, durable studies, shared environments."""

from __future__ import annotations

import numpy as np
import pytest

import fairtrial as ft
from fairtrial.delayed import (
    InformationRacing,
    LognormalDelay,
    Problem,
    Racing,
    SimulatedEnvironment,
)

PROBLEM = Problem(
    ["a", "b", "c"], top=2, noise_std=1.0, feedback="unbiased", reading_std=0.5, tolerance=0.1
)
ENVIRONMENT = SimulatedEnvironment(PROBLEM, [0.0, 3.0, 6.0], delay=8.0)


@pytest.mark.parametrize("parallel", [1, 5])
def test_a_simulation_is_the_same_by_any_engine(parallel):
    environment = SimulatedEnvironment(PROBLEM, [0.0, 3.0, 6.0], delay=LognormalDelay(8.0, 1.0))
    found = [
        ft.simulate(
            InformationRacing(PROBLEM), environment, 12, seed=4, parallel=parallel, engine=engine,
            progress=False,
        )
        for engine in ("auto", "python")
    ]  # fmt: skip
    for name in ("elapsed", "pulls", "stopping_time", "cancelled", "answer", "status"):
        assert np.array_equal(getattr(found[0], name), getattr(found[1], name)), name
    assert found[0].metrics["readings"].tolist() == found[1].metrics["readings"].tolist()
    assert found[0].error_rate == 0.0
    assert found[0].to_dict() is not None


def test_a_simulation_says_what_was_started_completed_read_and_called_back(monkeypatch):
    monkeypatch.setattr("fairtrial.simulation._replications.run_policy", refuse)
    found = ft.simulate(InformationRacing(PROBLEM), ENVIRONMENT, 8, parallel=6, progress=False)
    # Every pull takes 8 steps, with a reading at each of the first 7.
    assert (found.elapsed > 0).all()
    assert (found.pulls.sum(axis=1) >= found.stopping_time + found.cancelled).all()
    assert (found.cancelled > 0).any()
    assert (found.metrics["readings"] >= 7 * found.stopping_time).all()


def refuse(*arguments):
    raise AssertionError("a run of this family is compiled")


def test_two_policies_see_the_same_outcomes_of_the_same_pulls():
    seen = []
    for cls in (InformationRacing, Racing):
        outcomes = {}
        environment = ENVIRONMENT.begin(np.random.default_rng(7))
        policy = cls(PROBLEM)
        counts = dict.fromkeys(PROBLEM.arms, 0)
        for pull in policy.ask(20):
            path = environment.trajectory(pull, np.random.default_rng())
            outcomes[pull.arm, counts[pull.arm]] = path
            counts[pull.arm] += 1
        seen.append(outcomes)
    both = set(seen[0]) & set(seen[1])
    assert len(both) > 10
    assert all(seen[0][pull] == seen[1][pull] for pull in both)


def test_a_study_keeps_readings_losses_and_late_results(tmp_path):
    storage = f"sqlite:///{tmp_path}/study.db"
    study = ft.Study.create(
        PROBLEM, InformationRacing(PROBLEM, delta=1e-6), storage=storage, name="race", seed=1
    )
    pulls = study.ask(6)
    for pull in pulls:
        study.report(pull, {"a": 0.0, "b": 3.0, "c": 6.0}[pull.arm], stage=1)
        study.report(pull, {"a": 0.2, "b": 3.2, "c": 6.2}[pull.arm], stage=2, std=0.3)
    study.fail(pulls[0], "lost")
    study.tell(pulls[1], 3.0)
    study.tell(pulls[0], 0.0)
    mirror = InformationRacing(PROBLEM, delta=1e-6)
    for pull, other in zip(pulls, mirror.ask(6), strict=True):
        assert pull.arm == other.arm
        mirror.report(other, {"a": 0.0, "b": 3.0, "c": 6.0}[pull.arm], stage=1)
        mirror.report(other, {"a": 0.2, "b": 3.2, "c": 6.2}[pull.arm], stage=2, std=0.3)
    mirror.fail(mirror.in_flight(0), "lost")
    mirror.tell(mirror.in_flight(1), 3.0)
    mirror.tell(mirror.in_flight(0), 0.0)
    assert study.policy.progress() == mirror.progress()
    study.close()
    with ft.Study.open(storage, "race") as again:
        assert again.policy.progress() == mirror.progress()
        assert again.recommend().leader == ("c", "b")
