"""When a study decided: the event and its time, also after corrections, from any storage."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from fairtrial.core import Decision
from fairtrial.errors import UnknownPull
from fairtrial.study import Study
from fairtrial.study.memory import MemoryStore
from fairtrial.study.replica import Replica
from fairtrial.subpopulations import BlockBetting, Problem
from tests.messages import raises

PROBLEM = Problem(["a", "b"], ["x"], reward_range=(0, 1))
VALUES = {"a": 0.9, "b": 0.1}


def made(store, **options) -> Study:
    policy = BlockBetting(PROBLEM, **options)
    return Study.create(PROBLEM, policy, storage=store, name="trial", seed=7, secret="s")


def decided(study: Study, values=VALUES) -> list:
    """Carry a study out until it decides; return the pulls."""
    pulls = []
    while not study.stopped:
        pulls.append(study.ask())
        study.tell(pulls[-1], values[pulls[-1].arm])
    return pulls


def take_back(study: Study, pulls: list) -> int:
    """Correct results until the study runs again; return the number of the last event."""
    for pull in reversed(pulls):
        study.amend(pull, 1.0 - VALUES[pull.arm], "read the wrong way round")
        if not study.stopped:
            return study.n_events
    raise AssertionError("the corrections do not matter")


def replayed(study: Study) -> tuple[Decision, ...]:
    """Return the decisions that a replay of the whole log finds."""
    replica = Replica(study._session.build())
    replica.replay(study._store.steps(study._session.id))
    return replica.decisions


@pytest.fixture
def study(store):
    return made(store)


def test_a_running_study_has_not_decided(study):
    study.tell(study.ask(), 0.5)
    assert study.recommend().decisions == ()


def test_the_decision_is_that_of_the_event_that_brought_the_answer(study):
    decided(study)
    last = list(study.events())[-1]
    (found,) = study.recommend().decisions
    assert (found.event, found.at) == (study.n_events, last.at)
    assert found.stands
    assert study.progress().recommendation.decisions == (found,)


def test_later_events_do_not_move_a_decision(study, clock):
    waiting = study.ask()
    decided(study)
    (found,) = study.recommend().decisions
    clock.advance(86_400)
    study.tell(waiting, VALUES[waiting.arm])
    study.amend(waiting, 0.5, "typing error")
    assert study.recommend().decisions == (found,) == replayed(study)


def test_a_correction_that_takes_back_a_decision_moves_it(study, clock):
    pulls = decided(study)
    (first,) = study.recommend().decisions
    clock.advance(86_400)
    by = take_back(study, pulls)
    (found,) = study.recommend().decisions
    assert (found.event, found.at, found.withdrawn_by) == (first.event, first.at, by)
    assert found.withdrawn_at == list(study.events())[-1].at
    assert found.withdrawn_at - found.at >= timedelta(days=1)
    assert not found.stands
    clock.advance(86_400)
    decided(study)
    earlier, now = study.recommend().decisions
    assert earlier == found
    assert now.stands
    assert now.event == study.n_events
    assert study.recommend().decisions == replayed(study)


def test_a_result_that_replaces_the_answer_is_the_new_decision():
    study = made(MemoryStore())
    decided(study)
    (first,) = study.recommend().decisions
    replica = Replica(study._session.build())
    replica.replay(study._store.steps(study._session.id))
    other = replace(study.policy.recommend(), arm="b")
    replica.policy.recommend = lambda: other
    replica._note_decision(100, 0)
    earlier, now = replica.decisions
    assert (earlier.event, earlier.withdrawn_by) == (first.event, 100)
    assert (now.event, now.stands) == (100, True)


def test_a_snapshot_keeps_the_decisions(tmp_path):
    path = tmp_path / "trial.db"
    with made(path) as study:
        take_back(study, decided(study))
        decided(study)
        expected = study.recommend().decisions
        study.snapshot()
        head = study.n_events
    with Study.open(path, "trial") as again:
        assert next(iter(again._store.snapshots(1))).seq == head
        assert again.recommend().decisions == expected == replayed(again)
        assert len(expected) == 2


DAMAGE = {
    "another event": lambda one, moment: (replace(one, event=one.event - 1),),
    "another time": lambda one, moment: (replace(one, at=moment),),
    "lost": lambda one, moment: (),
    "withdrawn": lambda one, moment: (replace(one, withdrawn_by=one.event, withdrawn_at=moment),),
    "one more": lambda one, moment: (one, Decision(one.event, moment)),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_verify_finds_a_snapshot_that_says_something_else_about_decisions(tmp_path, damage):
    path = tmp_path / "trial.db"
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    with made(path) as study:
        decided(study)
        (right,) = study.recommend().decisions
        head = study.n_events
        assert study.verify().ok
        with study.session.replica_at_head() as (_, replica):
            replica.decisions = wrong = DAMAGE[damage](right, moment)
        study.snapshot()
    with Study.open(path, "trial") as again:
        assert again.recommend().decisions == wrong
        found = again.verify()
    assert (found.ok, found.events) == (False, head)
    number = 2 if damage == "one more" else 1
    assert found.first_difference.startswith(f"decision {number}: the log leads to ")
    log, shown = found.first_difference.split(", but the study in use shows ")
    assert log.endswith("no such decision" if damage == "one more" else f"({right.at.isoformat()})")
    said = {
        "another event": f"event {head - 1} ",
        "another time": f"event {head} ({moment.isoformat()})",
        "lost": "no such decision",
        "withdrawn": f"withdrawn by event {head} ({moment.isoformat()})",
        "one more": f"event {head} ({moment.isoformat()})",
    }
    assert said[damage] in shown


def test_verify_compares_decisions_that_were_withdrawn(tmp_path):
    path = tmp_path / "trial.db"
    with made(path) as study:
        take_back(study, decided(study))
        decided(study)
        study.snapshot()
        assert len(study.recommend().decisions) == 2
        assert study.verify().ok
    with Study.open(path, "trial") as again:
        assert again.verify().ok


def test_a_snapshot_of_an_earlier_version_is_passed_over(tmp_path, monkeypatch):
    path = tmp_path / "trial.db"
    with made(path) as study:
        decided(study)
        expected = study.recommend().decisions
        monkeypatch.setattr("fairtrial.study.snapshots._DECISIONS", "something else")
        study.snapshot()
        monkeypatch.undo()
    with Study.open(path, "trial") as again:
        assert again.recommend().decisions == expected


def test_a_write_that_is_undone_leaves_no_decision(study):
    while not study.stopped:
        pull = study.ask()
        outcomes = [(pull, VALUES[pull.arm]), ("0" * 32, 0.5)]
        before = study.n_events
        with raises(UnknownPull):
            study.tell_many(outcomes)
        assert study.n_events == before
        assert study.recommend().decisions == ()
        study.tell(pull, VALUES[pull.arm])
    assert study.recommend().decisions == replayed(study) != ()


def test_a_study_stopped_by_hand_decides_with_a_late_result(study):
    needed = len(decided(made(MemoryStore())))
    for _ in range(needed - 1):
        pull = study.ask()
        study.tell(pull, VALUES[pull.arm])
    last = study.ask()
    study.stop("the supply has ended")
    assert study.recommend().decisions == ()
    study.tell(last, VALUES[last.arm])
    (found,) = study.recommend().decisions
    assert found.event == study.n_events
    assert study.recommend().decided


def test_an_end_without_an_answer_is_no_decision(store):
    study = made(store, max_pulls=10)
    while not study.stopped:
        study.tell(study.ask(), 0.5)
    assert study.recommend().status == "undecided"
    assert study.recommend().decisions == ()


def test_a_copy_of_the_log_decides_with_the_same_event(study, tmp_path):
    take_back(study, decided(study))
    decided(study)
    log = study.export(tmp_path / "log.jsonl")
    copy = Study.import_log(log, storage=MemoryStore())
    assert copy.recommend().decisions == study.recommend().decisions


def test_the_decision_is_part_of_what_is_written_as_json(study):
    decided(study)
    (document,) = json.loads(json.dumps(study.recommend().to_dict()))["decisions"]
    assert document["event"] == study.n_events
    assert datetime.fromisoformat(document["at"]).astimezone(UTC) == list(study.events())[-1].at
    assert document["withdrawn_by"] is document["withdrawn_at"] is None
