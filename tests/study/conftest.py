"""Stores and clocks that the tests of studies share."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from fairtrial.study import Study
from fairtrial.study.memory import MemoryStore
from fairtrial.study.server_address import ServerAddress
from fairtrial.study.sqlite import SQLiteStore
from tests.study.tools import Clock
from tests.study.toys import Elimination, Racing, ToyProblem


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def leap(monkeypatch):
    """Return a function that advances the time of drivers, which otherwise stands still."""
    drivers = Clock()
    standing = SimpleNamespace(**{**vars(time), "monotonic": drivers})
    monkeypatch.setattr("fairtrial.study.driver.time", standing)
    return drivers.advance


@pytest.fixture(params=["file", "memory", "postgresql"])
def store(request, clock):
    """Every kind of store; another implementation joins with a line here."""
    opened = opened_store(request, clock)
    yield opened
    opened.close()


def opened_store(request, clock):
    """Return a new store of the kind in a fixture's parameter."""
    kind = request.param
    if kind == "postgresql":
        from fairtrial.study.postgresql import PostgreSQLStore

        url = request.getfixturevalue("postgresql_url")
        return PostgreSQLStore(ServerAddress(url), "process", clock=clock)
    folder = request.getfixturevalue("tmp_path")
    if kind == "memory":
        return MemoryStore(clock=clock)
    if kind == "file":
        return SQLiteStore(folder / "study.db", "process", clock=clock)
    from tests.study.bundled import BundledStore

    return BundledStore(folder / "study.db", "process", clock=clock)


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "trial.db"


@pytest.fixture
def make_study(store):
    """Return a function that makes a study of a toy policy in the store."""

    def make(policy=Elimination, problem=None, name="toy", seed=7, **parameters) -> Study:
        problem = ToyProblem() if problem is None else problem
        template = policy(problem, **parameters)
        return Study.create(problem, template, storage=store, name=name, seed=seed)

    return make


@pytest.fixture
def study(make_study, clock):
    """A study in which everything possible has happened."""
    study = make_study(Racing, ToyProblem(["a", "b", 'ß, "c"']), slots=5)
    first, second, third, fourth, _ = study.ask(5, worker="lab 1", request_id="r")
    expiring = study.ask(1, note="full")
    assert expiring == []
    study.report(first, 0.5, stage=1, note="first look")
    clock.advance(12.5)
    study.tell(first, 1 / 3, actor="nurse\n2")
    study.amend(first, 1e-300, 'said "oops"')
    study.cancel(second)
    study.fail(third, "spoilt")
    study.tell(third, -0.25)
    study.extend(fourth, 0.5)
    clock.advance(1)
    study.tell(study.problem.pull(arm="b"), 2.0)
    return study
