"""A study that a person stops: no more pulls, late results count, and the reason is shown."""

import pytest

from fairtrial.errors import CorruptLog, ExperimentFinished, InvalidArgument
from fairtrial.study import Study
from fairtrial.study.log import Step
from fairtrial.study.memory import MemoryStore
from fairtrial.study.replica import Replica
from fairtrial.subpopulations import BlockBetting, Problem
from tests.messages import raises
from tests.study.tools import same_state
from tests.study.toys import OWN, Elimination, Racing, Serving, ToyProblem


def kinds(study):
    return [event.kind for event in study.events()]


def test_no_more_pulls_are_issued_and_the_reason_is_shown(make_study):
    study = make_study()
    pull = study.ask()
    event = study.stop("the drug was recalled", actor="board")
    assert (event.kind, event.body["reason"], event.actor) == (
        "stop",
        "the drug was recalled",
        "board",
    )
    assert study.stopped
    assert study.status == "undecided"
    assert study.ask(3) == []
    with raises(ExperimentFinished):
        study.ask()
    answer = study.recommend()
    assert (answer.arm, answer.status) == (None, "undecided")
    assert answer.reason.startswith("stopped by hand: the drug was recalled")
    assert study.progress().recommendation == answer
    assert study.progress().remaining == 0.0
    assert study.to_cancel() == [pull]
    assert study.should_stop(pull)
    assert kinds(study) == ["ask", "stop"]
    [row] = study.session.store.studies()
    assert row.status == "undecided"
    assert study.verify().ok


def test_late_results_corrections_and_losses_still_count(make_study):
    study = make_study(Racing, slots=5)
    first, second, third, _, _ = study.ask(5)
    study.tell(first, 0.5)
    study.stop("enough")
    study.tell(second, 0.75)
    study.amend(first, 0.25, "typing error")
    study.fail(third, "spoilt")
    study.tell(third, 1.0)
    study.tell(study.problem.pull(arm="1"), 2.0)
    assert study.policy.told == 4
    assert study.status == "undecided"
    assert kinds(study)[5:] == ["tell", "stop", "tell", "amend", "fail", "late_tell", "unsolicited"]
    assert study.verify().ok


def test_results_that_were_under_way_may_decide_it(make_study):
    study = make_study(Elimination, ToyProblem(2), width=0.5)
    pulls = study.ask(20)
    study.stop("enough")
    for pull in pulls:
        study.tell(pull, 1.0 if pull.arm == "0" else 0.0)
    answer = study.recommend()
    assert (answer.arm, answer.status) == ("0", "decided")
    assert answer.reason.startswith("stopped by hand: enough; ")


def test_a_second_stop_changes_nothing(make_study):
    study = make_study()
    first = study.stop("for one reason")
    assert study.stop("for another") == first
    assert kinds(study) == ["stop"]


def test_a_study_that_has_an_answer_is_not_stopped(make_study):
    study = make_study(Elimination, ToyProblem(2), width=0.5)
    while not study.stopped:
        pull = study.ask()
        study.tell(pull, 1.0 if pull.arm == "0" else 0.0)
    events = study.n_events
    with raises(ExperimentFinished):
        study.stop("too late")
    assert (study.n_events, study.status) == (events, "decided")


@pytest.mark.parametrize("reason", ["", "  ", None, 5, "x" * 10_001, "\ud800"])
def test_a_stop_needs_a_reason(make_study, reason):
    study = make_study()
    with raises(InvalidArgument, "reason", given=reason):
        study.stop(reason)
    assert kinds(study) == []
    assert not study.stopped


@pytest.mark.parametrize("saved", [False, True])
def test_it_stays_stopped_when_it_is_opened_again(make_study, store, saved):
    study = make_study(Racing, slots=5)
    pulls = study.ask(5)
    study.stop("over")
    if saved:
        study.snapshot()
    study.tell(pulls[0], 0.5)
    again = Study.open(store, "toy", **OWN)
    assert again.stopped
    assert again.recommend().reason.startswith("stopped by hand: over")
    assert again.ask(1) == []
    assert same_state(study.policy, again.policy)
    with raises(ExperimentFinished):
        again.ask()


def test_a_snapshot_from_before_does_not_know_of_it(make_study, store):
    study = make_study()
    study.ask()
    study.snapshot()
    study.stop("over")
    again = Study.open(store, "toy", **OWN)
    assert again.stopped
    assert again.verify().ok


def test_another_handle_learns_of_it(make_study, store):
    study = make_study()
    other = Study.open(store, "toy", **OWN)
    other.ask()
    study.stop("over")
    assert other.stopped
    assert other.ask(1) == []


def test_leases_run_out_afterwards_and_nothing_is_handed_out_again(make_study, clock):
    dropping = make_study(Racing, slots=5)
    dropping.ask(2, lease=10)
    dropping.stop("over")
    handing = make_study(Serving, name="handing")
    handing.ask(2, lease=10)
    handing.stop("over")
    clock.advance(11)
    dropping.pass_time()
    assert kinds(dropping) == ["ask", "ask", "stop", "expire", "expire"]
    assert handing.ask(2) == []
    assert kinds(handing) == ["ask", "ask", "stop"]


def test_the_log_moves_with_it(make_study, tmp_path):
    study = make_study()
    study.ask()
    study.stop("over", actor="ann")
    log = study.export(tmp_path / "log.jsonl")
    copy = Study.import_log(log, storage=MemoryStore(), **OWN)
    assert copy.head_hash == study.head_hash
    assert copy.recommend() == study.recommend()
    assert study.history()["reason"].tolist()[-1] == "over"
    moments = study.trace(2)
    assert moments[-1].recommendation.status == "undecided"


def test_a_log_that_goes_on_asking_is_no_log():
    replica = Replica(Serving(ToyProblem(), seed=1))
    replica.replay([Step(1, "stop", None, None, None, None, None, '{"reason":"over"}', 0)])
    pull = Serving(ToyProblem(), seed=1).ask()
    with raises(CorruptLog):
        replica.replay([Step(2, "ask", 0, pull.action, pull.tag, None, None, None, 0)])


def test_a_log_that_stops_twice_is_no_log():
    replica = Replica(Serving(ToyProblem(), seed=1))
    stop = Step(1, "stop", None, None, None, None, None, '{"reason":"over"}', 0)
    replica.replay([stop])
    with raises(CorruptLog):
        replica.replay([stop._replace(seq=2)])


def test_a_family_of_ours_says_so_everywhere():
    problem = Problem(["a", "b"], ["x"], reward_range=(0, 1))
    with Study.create(problem, BlockBetting(problem), storage="memory://", name="t") as study:
        for pull in study.ask(10):
            study.tell(pull, 0.9 if pull.arm == "a" else 0.1)
        study.stop("futile")
        progress = study.progress().to_dict()
        assert progress["recommendation"]["status"] == "undecided"
        assert "stopped by hand: futile" in progress["recommendation"]["reason"]
        assert study.health()["open"] == 0
