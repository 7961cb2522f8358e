"""Time: a study tells its policy once when `max_time` is over."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from fairtrial.delayed import InformationRacing, Problem
from fairtrial.errors import ExperimentFinished, UnknownPull
from fairtrial.study import Study, run_study
from fairtrial.study.sqlite import SQLiteStore
from tests.messages import raises
from tests.study.tools import PATIENCE, FailingStore, Fault, replayed, same_state
from tests.study.toys import OWN, Racing, Timed
from tests.study.work import Slowly


def kinds(study):
    return [event.kind for event in study.events()]


def test_the_first_write_after_the_end_of_the_time_stops_the_study(make_study, clock):
    study = make_study(Timed, max_time=60.0)
    pull = study.ask()
    clock.advance(59.9)
    assert study.ask() is not None
    clock.advance(0.1)
    assert study.status == "running"
    assert study.ask(1) == []
    assert study.status == "undecided"
    assert kinds(study) == ["ask", "ask", "time"]
    last = list(study.events())[-1]
    assert last.body["seconds"] == pytest.approx(60.0, abs=1e-6)
    assert (last.outcome, last.pull_id) == (None, None)
    with raises(ExperimentFinished):
        study.ask()
    study.tell(pull, 1.0)
    clock.advance(1e6)
    study.tell(pull, 1.0)
    assert kinds(study) == ["ask", "ask", "time", "tell"]
    assert same_state(study.policy, replayed(study))
    assert study.verify().ok


def test_the_time_begins_with_the_first_event(make_study, clock):
    study = make_study(Timed, max_time=60.0)
    clock.advance(1000.0)
    study.pass_time()
    assert kinds(study) == []
    study.ask()
    clock.advance(59.0)
    study.pass_time()
    assert kinds(study) == ["ask"]


def test_whoever_waits_learns_of_the_end_without_a_write_of_its_own(make_study, clock):
    study = make_study(Timed, max_time=60.0)
    waiting, lost = study.ask(), study.ask(lease=30)
    clock.advance(60.0)
    study.pass_time()
    study.pass_time()
    assert kinds(study) == ["ask", "ask", "expire", "time"]
    assert study.to_cancel() == [waiting]
    assert study.should_stop(waiting)
    assert study.should_stop(lost)


def test_a_clock_that_goes_backwards_neither_ends_nor_revives_a_study(make_study, clock):
    study = make_study(Timed, max_time=60.0)
    study.ask()
    clock.advance(-1e6)
    study.ask()
    clock.advance(1e6 + 60)
    study.pass_time()
    clock.advance(-1e6)
    study.pass_time()
    assert kinds(study) == ["ask", "ask", "time"]
    assert study.status == "undecided"


def test_a_policy_without_an_end_of_its_time_is_never_told(make_study, clock):
    study = make_study(Racing)
    study.ask()
    clock.advance(1e9)
    study.pass_time()
    assert kinds(study) == ["ask"]


def test_a_policy_that_does_not_listen_is_told_once(make_study, clock, monkeypatch):
    monkeypatch.setattr(Racing, "max_time", 60.0)
    study = make_study(Racing)
    study.ask()
    clock.advance(60)
    for _ in range(3):
        study.pass_time()
    assert kinds(study) == ["ask", "time"]


def test_the_end_of_the_time_stays_recorded_when_the_call_that_noticed_it_is_refused(
    make_study, clock
):
    study = make_study(Timed, max_time=60.0)
    study.ask()
    clock.advance(61)
    with raises(UnknownPull):
        study.tell("nobody", 1.0)
    assert kinds(study) == ["ask", "time"]


@pytest.mark.parametrize("point", ["after begin", "before insert", "before commit"])
def test_a_fault_while_the_end_is_written_leaves_it_to_the_next_call(path, clock, point):
    problem = Problem(["a", "b"], noise_std=1.0)
    policy = InformationRacing(problem, delta=0.05, max_time=60.0)
    store = FailingStore(path, "process", clock=clock)
    with Study.create(problem, policy, storage=store, name="race", seed=1) as study:
        study.ask()
        clock.advance(61)
        store.fail_at = point
        with pytest.raises(Fault):
            study.pass_time()
        assert (kinds(study), study.status) == (["ask"], "running")
        study.pass_time()
        assert (kinds(study), study.status) == (["ask", "time"], "undecided")
        assert study.verify().ok
    store.close()


def test_two_writers_say_it_once_and_a_new_handle_knows(make_study, store, clock, tmp_path):
    study = make_study(Timed, max_time=60.0)
    other = Study.open(store, "toy", **OWN)
    study.ask()
    clock.advance(61)
    other.pass_time()
    study.pass_time()
    assert kinds(study) == ["ask", "time"]
    assert study.ask(1) == []
    assert same_state(study.policy, other.policy)
    log = study.export(tmp_path / "log.jsonl")
    copy = Study.import_log(log, storage=SQLiteStore(clock=clock), **OWN)
    assert copy.head_hash == study.head_hash
    assert copy.status == "undecided"
    assert study.history()["kind"].tolist() == ["ask", "time"]
    assert [moment.recommendation.status for moment in study.trace(2)][-1] == "undecided"


def test_snapshots_keep_the_end_of_the_time(path, clock):
    problem = Problem(["a", "b"], noise_std=1.0)
    policy = InformationRacing(problem, delta=0.05, max_time=60.0)
    store = SQLiteStore(path, "process", clock=clock)
    with Study.create(problem, policy, storage=store, name="race", seed=1) as study:
        study.ask()
        clock.advance(61)
        study.pass_time()
        study.snapshot()
    with Study.open(store, "race") as again:
        assert again.status == "undecided"
    store.close()


def test_a_driver_is_not_kept_waiting_beyond_the_end_of_the_time(path, tmp_path, clock):
    problem = Problem(["a", "b"], noise_std=1.0)
    policy = InformationRacing(problem, delta=1e-9, max_time=60.0)
    store = SQLiteStore(path, clock=clock)
    both_begun = threading.Barrier(2, lambda: clock.advance(61))

    def slowly(arm, report):
        both_begun.wait(PATIENCE)
        return Slowly(tmp_path)(arm, report)

    with (
        Study.create(problem, policy, storage=store, name="race", seed=1) as study,
        ThreadPoolExecutor(2) as threads,
    ):
        answer = run_study(study, slowly, threads, parallel=2)
        assert answer.status == "undecided"
        assert sorted(kinds(study)) == ["ask", "ask", "cancel", "cancel", "time"]
        assert study.verify().ok
    store.close()
    # Each pull would have taken ten minutes.
    assert len(list(tmp_path.glob("*.stopped"))) == 2
