"""The decision logs that the package brings along are those of the tests, and reveal changes."""

from dataclasses import replace
from pathlib import Path

import pytest

import fairtrial
from fairtrial.core.compilation import tier
from fairtrial.core.family import FAMILIES
from fairtrial.qualification import decisions
from fairtrial.qualification.checks import CheckFailed
from fairtrial.qualification.decisions import (
    ARROW,
    decision_checks,
    read_decision_logs,
    write_decision_logs,
)
from tests.golden.logs import POLICIES, read_logs, shipped

LOGS = read_decision_logs()


def test_the_logs_of_the_package_are_the_recorded_ones():
    assert shipped(read_logs()) == LOGS, "run: python -m tests.golden.record NONE"


def test_every_policy_has_a_log_and_all_of_them_are_small():
    policies = {(log.family, log.specification["policy"]["name"]) for log in LOGS}
    assert policies == {
        (row.policy.__module__.split(".")[1], row.policy.__name__) for row in POLICIES
    }
    assert {log.family for log in LOGS} == set(FAMILIES)
    path = Path(fairtrial.__file__).parent / "qualification/decisions.json.xz"
    assert path.stat().st_size < 65_536


def test_logs_are_read_as_they_were_written(tmp_path, monkeypatch):
    write_decision_logs(tmp_path, LOGS[:2])
    monkeypatch.setattr(decisions, "files", lambda _package: tmp_path)
    assert read_decision_logs() == LOGS[:2]


@pytest.fixture
def one_log(monkeypatch):
    """Return a function that makes one log, changed or not, the only one of the package."""

    def use(**changes):
        log = replace(min(LOGS, key=lambda log: len(log.lines)), **changes)
        monkeypatch.setattr(decisions, "read_decision_logs", lambda: [log])
        return log

    return use


def test_a_decision_that_differs_fails_the_check_and_is_named(one_log):
    log = one_log()
    number, line = next((n, line) for n, line in enumerate(log.lines) if line.startswith('["ask"'))
    call, decision = line.split(ARROW)
    changed = f"{call}{ARROW}{decision} 0"
    one_log(lines=(*log.lines[:number], changed, *log.lines[number + 1 :]))
    interpreted, _ = decision_checks(compile_all=False)
    assert interpreted.outcome == "failed"
    assert f"decision {number} of {log.name} differs" in interpreted.details


def test_a_policy_that_cannot_be_built_fails_the_check(one_log):
    log = one_log()
    one_log(specification={**log.specification, "policy": {"name": "Nonsense"}})
    interpreted, _ = decision_checks(compile_all=False)
    assert interpreted.outcome == "failed"
    assert "Nonsense" in interpreted.details


def test_compiled_decisions_are_checked_where_machine_code_is_and_the_tier_is_kept(
    one_log, monkeypatch
):
    one_log()
    before, tiers = tier(), []
    monkeypatch.setattr(decisions.DecisionLog, "difference", lambda _log: tiers.append(tier()))
    for at_hand, compile_all in [(False, False), (True, False), (False, True)]:
        monkeypatch.setattr(decisions, "_has_machine_code", lambda at_hand=at_hand: at_hand)
        _, compiled = decision_checks(compile_all=compile_all)
        assert compiled.outcome == ("passed" if at_hand or compile_all else "skipped")
    assert tiers == ["interpret", "interpret", "auto", "interpret", "compile"]
    assert tier() == before


def test_a_failure_leaves_the_tier_as_it_was(one_log, monkeypatch):
    one_log()
    before = tier()

    def fail(_log):
        raise CheckFailed("no")

    monkeypatch.setattr(decisions.DecisionLog, "difference", fail)
    assert next(decision_checks(compile_all=False)).outcome == "failed"
    assert tier() == before
