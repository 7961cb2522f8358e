"""The audit finds every change, and names the first wrong event."""

import hashlib
import json

import numpy as np
import pytest

from fairtrial.errors import CorruptLog, InvalidArgument
from fairtrial.study import Study, Verification, audit
from tests.messages import raises
from tests.study.tools import chain, connect
from tests.study.toys import OWN, Averaging, Racing, RecordProblem, Serving, ToyProblem


@pytest.fixture
def study(path):
    problem = ToyProblem()
    study = Study.create(
        problem, Racing(problem, slots=4), storage=path, name="toy", seed=1, durability="process"
    )
    for index in range(6):
        pull = study.ask(worker="w", request_id=f"r{index}")
        pull.report(0.5, stage=1)
        study.tell(pull, float(index))
    study.ask()
    return study


def tamper(path, *statements):
    connection = connect(path)
    for name in ("event_is_never_changed", "event_is_never_removed", "study_is_never_changed"):
        connection.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        assert connection.execute(statement).rowcount > 0
    connection.close()


def reopened(path):
    return Study.open(path, "toy", **OWN)


def test_a_sound_log_verifies(study):
    assert study.verify() == Verification(True, 19, None)


def test_an_empty_log_verifies(path):
    problem = ToyProblem()
    study = Study.create(problem, Serving(problem), storage=path, name="toy")
    assert study.verify() == Verification(True, 0, None)


def test_the_software_is_noted_once_and_named_where_a_decision_does_not_follow(study, monkeypatch):
    noted = [event.body["environment"] for event in study.events() if "environment" in event.body]
    assert len(noted) == 1
    assert noted[0].keys() >= {"fairtrial", "python", "numpy", "scipy", "numba", "processor"}
    monkeypatch.setattr(audit, "environment", lambda: {**noted[0], "numpy": "9.9"})
    assert study.verify().ok
    monkeypatch.setattr(Racing, "choose", lambda self: 1 if self.asked % 2 else 0)
    found = study.verify()
    assert not found.ok
    assert f"the log was written with numpy {np.__version__} (here 9.9)" in found.first_difference


def test_the_chain_is_what_the_documentation_says(study, path):
    stored = [event.hash for event in study.events()]
    assert stored == chain(path)
    assert study.head_hash == stored[-1]


def test_the_first_hash_follows_the_specification(study, path):
    connection = connect(path)
    spec, digest = connection.execute("SELECT spec_json, spec_sha256 FROM study").fetchone()
    assert hashlib.sha256(spec.encode()).hexdigest() == digest
    assert json.loads(spec) == {
        "problem": {"family": "study-toy", "schema": 1, "arms": 3},
        "policy": {"name": "Racing", "slots": 4, "budget": 40},
        "seed": 1,
    }


@pytest.mark.parametrize(
    "change",
    [
        "value = value + 1e-12",
        "value = NULL",
        "value = 'text'",
        "value = x'00'",
        "value = 9e999",
        "at = at + 1",
        "actor = 'somebody else'",
        "request_id = 'another'",
        "stage = 9",
        "number = number + 1",
        "action = (action + 1) % 3",
        "action = 99",
        "tag = tag + 1",
        "kind = 'late_tell'",
        "body = '{}'",
        "lease_until = 1",
        "pull_id = '0'",
    ],
)
def test_every_column_is_sealed(study, path, change):
    tamper(path, f"UPDATE event SET {change} WHERE seq = 9")
    found = reopened(path).verify()
    assert (found.ok, found.events) == (False, 8)
    assert found.first_difference == "event 9: its hash does not match its content"


def test_a_missing_event_is_found(study, path):
    tamper(path, "DELETE FROM event WHERE seq = 5")
    assert reopened(path).verify().first_difference == "event 5 is missing; the next one is 6"


def test_a_shortened_log_is_found(study, path):
    tamper(path, "DELETE FROM event WHERE seq > 15")
    found = reopened(path).verify()
    assert found.first_difference.startswith("the log ends with event 15 instead of event 19")


@pytest.mark.parametrize(("last", "checked"), [(1, 1), (7, 7), (18, 18), (19, 19), (1_000, 19)])
def test_the_hashes_of_the_last_events_can_be_checked_alone(study, last, checked):
    assert study.verify_last(last) == Verification(True, checked, None, skipped=19 - checked)
    with raises(InvalidArgument, "events"):
        study.verify_last(0)


def test_of_an_empty_log_nothing_is_checked(path):
    problem = ToyProblem()
    study = Study.create(problem, Serving(problem), storage=path, name="toy")
    assert study.verify_last(10) == Verification(True, 0, None, skipped=0)


@pytest.mark.parametrize(
    ("statement", "checked", "said"),
    [
        ("UPDATE event SET value = 9 WHERE seq = 15", 2, "event 15: its hash does not match"),
        ("UPDATE event SET value = 9 WHERE seq = 13", 0, "event 13: its hash does not match"),
        ("DELETE FROM event WHERE seq = 15", 2, "event 15 is missing; the next one is 16"),
        ("DELETE FROM event WHERE seq = 12", 0, "event 13 is missing; the next one is 14"),
        ("DELETE FROM event WHERE seq > 15", 3, "the log ends with event 15 instead of"),
        ("DELETE FROM event", 0, "event 12 is missing"),
        ("UPDATE event SET value = 9 WHERE seq = 3", 7, "the guards that keep a log"),
    ],
)
def test_what_was_done_to_the_last_events_is_found(study, path, statement, checked, said):
    tamper(path, statement)
    found = reopened(path).verify_last(7)
    assert (found.ok, found.events, found.skipped) == (False, checked, 12)
    assert said in found.first_difference


def test_a_forged_chain_is_found_by_replay(study, path):
    """A person who seals the whole log again cannot change what the policy would have decided."""
    forged = "UPDATE event SET action = (action + 1) % 3 WHERE number = 2"
    tamper(path, forged)
    hashes = chain(path)
    connection = connect(path)
    for seq, digest in enumerate(hashes, start=1):
        connection.execute("UPDATE event SET hash = ? WHERE seq = ?", (digest, seq))
    connection.execute("UPDATE study SET head_hash = ?", (hashes[-1],))
    found = reopened(path).verify()
    assert not found.ok
    assert found.first_difference.startswith("event 7: the log says pull 2")
    with raises(CorruptLog):
        reopened(path).recommend()


@pytest.mark.parametrize(
    "change", ["kind = 'tell'", "kind = 'nonsense'", "number = NULL", "body = 'no JSON'"]
)
def test_a_forged_chain_of_nonsense_is_found(study, path, change):
    tamper(path, f"UPDATE event SET {change} WHERE seq = 10")
    hashes = chain(path)
    connection = connect(path)
    for seq, digest in enumerate(hashes, start=1):
        connection.execute("UPDATE event SET hash = ? WHERE seq = ?", (digest, seq))
    connection.execute("UPDATE study SET head_hash = ?", (hashes[-1],))
    assert reopened(path).verify().first_difference.startswith("event 10")


def test_a_changed_specification_does_not_open(study, path):
    tamper(path, "UPDATE study SET spec_json = replace(spec_json, '\"slots\":4', '\"slots\":5')")
    with raises(CorruptLog):
        reopened(path)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE pull SET state = 'open' WHERE number = 0",
        "UPDATE pull SET action = action + 1 WHERE number = 0",
        "UPDATE pull SET value_seq = 4 WHERE number = 0",
        "DELETE FROM pull WHERE number = 0",
        (
            "INSERT INTO pull (study_id, pull_id, number, action, tag, state, asked_seq) "
            "VALUES (1, 'x', 9, 0, 0, 'open', 1)"
        ),
    ],
)
def test_a_changed_table_of_pulls_is_found(study, path, change):
    connect(path).execute(change)
    assert "the table of pulls and the log differ" in study.verify().first_difference


def test_a_policy_in_another_state_than_the_log_says_is_found(study):
    study.policy.sums += 1
    assert "the policy in use is not in the state" in study.verify().first_difference


def test_the_log_cannot_be_changed_by_accident(study, path):
    connection = connect(path)
    for statement in (
        "UPDATE event SET value = 0",
        "DELETE FROM event WHERE seq = 1",
        "INSERT OR REPLACE INTO event SELECT * FROM event WHERE seq = 1",
        "UPDATE study SET seed = '2'",
        "UPDATE study SET spec_json = '{}'",
        "DELETE FROM study",
    ):
        with pytest.raises(Exception, match=r"append-only|immutable|never removed"):
            connection.execute(statement)
    assert study.verify().ok


def test_records_are_audited_too(path):
    problem = RecordProblem()
    study = Study.create(problem, Averaging(problem), storage=path, name="toy")
    study.tell(study.ask(), {"s": 1, "y": 0.5})
    tamper(path, "UPDATE event SET body = replace(body, '0.5', '0.6') WHERE seq = 2")
    assert reopened(path).verify().first_difference.startswith("event 2")


def test_an_audit_is_not_confused_by_others_who_go_on(study, path, monkeypatch):
    other = reopened(path)
    original = type(study._store).pulls

    def pulls(self, study_id):
        other.tell(other.outstanding()[0], 1.0)
        other.ask(2)
        return original(self, study_id)

    monkeypatch.setattr(type(study._store), "pulls", pulls)
    assert study.verify() == Verification(True, 19, None)


def test_what_others_write_meanwhile_is_left_out(study, path, monkeypatch):
    other = reopened(path)
    original = type(study._store).read_study

    def read_study(self, study_id):
        row = original(self, study_id)
        if self is study._store:
            other.tell(other.ask(), 1.0)
        return row

    events = study._session.row().head_seq
    monkeypatch.setattr(type(study._store), "read_study", read_study)
    assert study.verify() == Verification(True, events, None)
    assert len(study.trace(3)) == 3
