"""Logged events: the reference lists all of them, and they hold what it says."""

import importlib
import logging
import pkgutil
import re
import time
from pathlib import Path

import pytest

import fairtrial
from fairtrial.core import background
from fairtrial.core.logs import LogEvent, RareLog
from fairtrial.errors import ConnectionLost, InvalidArgument
from fairtrial.study import Study
from fairtrial.study.memory import MemoryStore
from fairtrial.study.session import transact
from fairtrial.subpopulations import BlockBetting, Problem
from tests.messages import raises

PAGE = Path(__file__).parents[2] / "docs/reference/logging.md"
ROW = re.compile(r"^\| `fairtrial\.(\w+)` \| `([^`]+)` \| (\w+) \| ([^|]+) \|", re.MULTILINE)
PROBLEM = Problem(["a", "b"], ["x"], reward_range=(0, 1))
POLICY = BlockBetting(PROBLEM, delta=0.05)


def declared():
    """Return all events that modules of the package declare, as rows of the reference."""
    found = set()
    for module in pkgutil.walk_packages(fairtrial.__path__, "fairtrial."):
        if module.name.endswith(("__main__", "inspect.early_stopping")):
            continue
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, LogEvent):
                level = logging.getLevelName(value.level)
                found.add((value.logger, value.name, level, value.facts))
    return found


def test_the_reference_lists_every_event_with_its_level_and_facts():
    listed = {
        (place, name, level, tuple(re.findall(r"`(\w+)`", facts)))
        for place, name, level, facts in ROW.findall(PAGE.read_text(encoding="utf-8"))
    }
    assert listed == declared()


def events(caplog):
    return [(record.event, record.facts) for record in caplog.records if hasattr(record, "event")]


def test_a_program_that_sets_up_nothing_sees_nothing():
    handlers = logging.getLogger("fairtrial").handlers
    assert any(isinstance(handler, logging.NullHandler) for handler in handlers)


def test_the_message_has_the_name_and_the_facts(caplog):
    event = LogEvent("study", "something", logging.INFO, ("study", "n"))
    with caplog.at_level("INFO", "fairtrial"):
        event.log(study="trial", n=3)
    [record] = caplog.records
    assert record.getMessage() == "something: study='trial', n=3"
    assert (record.event, record.facts) == ("something", {"study": "trial", "n": 3})
    assert (record.name, record.filename) == ("fairtrial.study", "test_logs.py")


def test_a_rare_event_is_logged_once_a_minute_with_how_often_it_happened(caplog):
    rare = RareLog(LogEvent("study", "something", logging.INFO, ("times",)))
    with caplog.at_level("INFO", "fairtrial"):
        for at in (0.0, 1.0, 59.0, 60.0, 61.0):
            rare.log("one", at)
        rare.log("another", 61.0)
    assert [facts["times"] for _, facts in events(caplog)] == [1, 3, 1]


def test_asks_for_a_group_that_the_study_does_not_know_are_logged(caplog):
    with Study.create(PROBLEM, POLICY, storage="memory://", name="forgotten", seed=7) as study:
        for _ in range(3):
            with raises(InvalidArgument, "group", given="tv"):
                study.ask(unit="anna", group="tv")
        study.ask(unit="anna", group="x")
    found = [facts for event, facts in events(caplog) if event == "unknown label"]
    assert found == [{"study": "forgotten", "argument": "group", "times": 1}]


def test_a_study_logs_that_it_was_created_opened_and_finished(caplog):
    store = MemoryStore()
    with caplog.at_level("DEBUG", "fairtrial.study"):
        study = Study.create(PROBLEM, POLICY, storage=store, name="trial", seed=7)
        again = Study.create(PROBLEM, POLICY, storage=store, name="trial", seed=7, exist_ok=True)
        study.tell(study.ask(unit="anna"), 0.5)
        study.stop(reason="enough")
        again.ask(0)
    opened = {"study": "trial", "storage": "memory://", "events": 0}
    assert events(caplog) == [
        ("study created", {"study": "trial", "storage": "memory://"}),
        ("study opened", opened),
        ("study opened", opened),
        ("study finished", {"study": "trial", "status": "undecided", "events": 3}),
    ]
    assert "anna" not in caplog.text


def test_a_warning_is_logged_once_by_each_handle(caplog, monkeypatch):
    study = Study.create(PROBLEM, POLICY, storage="memory://", name="trial", seed=7)
    monkeypatch.setattr(BlockBetting, "warnings", lambda self: ["arm a is strange"])
    with caplog.at_level("WARNING", "fairtrial.study"):
        study.health()
        study.health()
    assert events(caplog) == [("new warnings", {"study": "trial", "new": 1, "warnings": 1})]
    assert "strange" not in caplog.text


def test_a_write_that_is_tried_again_is_logged(caplog, monkeypatch):
    store, attempts = MemoryStore(), []

    def lost_at_first(operation, flush):
        attempts.append(operation)
        if len(attempts) == 1:
            raise ConnectionLost("gone")
        return operation()

    monkeypatch.setattr(store, "transact", lost_at_first)
    with caplog.at_level("WARNING", "fairtrial.study"):
        assert transact(store, lambda: 7) == 7
    assert events(caplog) == [("write retried", {"storage": "memory://", "attempt": 2})]


def test_a_service_logs_its_start_and_its_end(caplog):
    from starlette.testclient import TestClient

    from fairtrial.server import create_app

    with (
        caplog.at_level("INFO", "fairtrial.server"),
        TestClient(create_app(MemoryStore()), base_url="http://localhost"),
    ):
        pass
    facts = {"version": fairtrial.__version__}
    assert events(caplog) == [("service started", facts), ("service stopped", facts)]


@pytest.fixture
def compiler(monkeypatch):
    """A compiler in the background that is due, and compiles nothing."""
    monkeypatch.setattr(background, "kernels", list)
    monkeypatch.setattr(background, "COMPILING_SECONDS", 5.0)
    monkeypatch.setattr(background, "seconds_interpreted", lambda: 100.0)
    return background._Compiler()


@pytest.mark.parametrize("exit_code", [0, 3])
def test_compiling_in_the_background_logs_its_start_and_its_end(
    caplog, monkeypatch, compiler, exit_code
):
    child = f"import sys; sys.stdin.buffer.read(); sys.exit({exit_code})"
    monkeypatch.setattr(background, "_CHILD", child)
    with caplog.at_level("INFO", "fairtrial"):
        compiler.start_compiling()
        assert events(caplog) == [("compiling started", {"kernels": 0})]
        patience = time.monotonic() + 60.0
        while len(caplog.records) == 1 and time.monotonic() < patience:
            compiler.start_compiling()
            time.sleep(0.01)
    [_, (event, facts)] = events(caplog)
    assert (event, facts["exit_code"]) == ("compiling ended", exit_code)
    assert 0.0 <= facts["seconds"] < 60.0


def test_a_process_that_cannot_be_started_logs_nothing(caplog, monkeypatch, compiler):
    monkeypatch.setattr(background.sys, "executable", "/nowhere/python")
    with caplog.at_level("DEBUG", "fairtrial"):
        compiler.start_compiling()
    assert events(caplog) == []
