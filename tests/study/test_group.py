"""Many writes in one commit: each succeeds or fails separately, and policies follow the log."""

import threading

import pytest

from fairtrial.errors import (
    ConflictingOutcome,
    ConnectionLost,
    InvalidOutcome,
    NotSupported,
    StorageBusy,
    StorageError,
    StorageUnreachable,
    UnknownPull,
)
from fairtrial.study import Study
from fairtrial.study.group import Action, Group, _by_study
from fairtrial.study.opening import open_study
from fairtrial.study.sqlite import SQLiteStore
from fairtrial.study.store import AnswerRow
from tests.study.tools import Failing, Fault, same_state
from tests.study.toys import OWN, Elimination, Racing, Serving, ToyProblem

POLICIES = (OWN["policies"], OWN["problems"])


class Members:
    """Studies whose writes are committed together."""

    def __init__(self, store):
        self.store = store
        self.group = Group(store)
        self.studies = {}

    def make(self, name, policy=Serving, **parameters):
        problem = ToyProblem()
        template = policy(problem, **parameters)
        Study.create(problem, template, storage=self.store, name=name, seed=7)
        session = open_study(self.store, name, POLICIES, "full")
        session.committer = self.group
        self.studies[name] = Study(session)
        return self.studies[name]

    def action(self, name, do):
        study = self.studies[name]
        return Action(study.session, lambda: do(study))

    def carry_out(self, *actions):
        return self.group.carry_out([self.action(*action) for action in actions])

    def check(self):
        """Raise if a policy does not have the log's state, or a log is not complete."""
        for name, study in self.studies.items():
            fresh = Study.open(self.store, name, **OWN)
            assert same_state(study.policy, fresh.policy)
            found = fresh.verify()
            assert found.ok, found.first_difference


@pytest.fixture
def members(store):
    return Members(store)


def ask(study):
    return study.ask()


def answers(outcomes):
    assert [outcome.error for outcome in outcomes] == [None] * len(outcomes)
    return [outcome.answer for outcome in outcomes]


def kinds(study):
    return [event.kind for event in study.events()]


def test_writes_of_several_studies_are_kept_by_one_commit(members, store):
    members.make("a"), members.make("b")
    before = store._commits
    first, other, second = answers(members.carry_out(("a", ask), ("b", ask), ("a", ask)))
    assert store._commits == before + 1
    assert [pull.number for pull in (first, second, other)] == [0, 1, 0]
    answers(members.carry_out(("a", lambda study: study.tell(first, 0.5))))
    assert kinds(members.studies["a"]) == ["ask", "ask", "tell"]
    members.check()


def test_actions_on_one_study_are_carried_out_in_their_order(members):
    members.make("a")
    pulls = answers(members.carry_out(*[("a", ask)] * 20))
    assert [pull.number for pull in pulls] == list(range(20))


@pytest.mark.parametrize(
    ("fail", "error"),
    [
        (lambda study: study.tell("nobody's", 0.5), UnknownPull),
        (lambda study: study.tell(study.problem.pull(arm="0"), float("nan")), InvalidOutcome),
        (lambda study: study.report(study.outstanding()[0], 0.5), NotSupported),
        (lambda study: [].pop(), IndexError),
    ],
    ids=["before the policy moved", "before the write", "within the policy", "in the caller"],
)
def test_one_that_fails_takes_no_other_with_it(members, fail, error):
    members.make("a"), members.make("b")
    outcomes = members.carry_out(("a", ask), ("a", fail), ("a", ask), ("b", ask))
    assert isinstance(outcomes[1].error, error)
    assert [outcomes[place].answer.number for place in (0, 2, 3)] == [0, 1, 0]
    members.check()


def test_one_that_fails_after_it_has_written_is_undone_alone(members):
    members.make("a"), members.make("b")

    def write_and_fail(study):
        study.ask()
        raise Fault

    outcomes = members.carry_out(("a", ask), ("a", write_and_fail), ("a", ask), ("b", ask))
    assert isinstance(outcomes[1].error, Fault)
    assert [outcomes[place].answer.number for place in (0, 2, 3)] == [0, 1, 0]
    assert kinds(members.studies["a"]) == ["ask", "ask"]
    members.check()


def test_an_outcome_of_many_that_is_refused_leaves_the_policy_as_it_was(members):
    members.make("a", Elimination)
    first, second = answers(members.carry_out(("a", ask), ("a", ask)))

    def tell_both(study):
        # The policy has learned the first one when the second one fails.
        return study.tell_many([(first, 1.0), ("nobody's", 0.5)])

    outcomes = members.carry_out(
        ("a", tell_both), ("a", lambda study: study.tell(second, 0.25)), ("a", ask)
    )
    assert isinstance(outcomes[0].error, UnknownPull)
    assert kinds(members.studies["a"])[:3] == ["ask", "ask", "tell"]
    members.check()


def test_a_conflict_is_told_to_whoever_comes_second(members):
    members.make("a")
    [pull] = answers(members.carry_out(("a", ask)))
    first, same, other = members.carry_out(
        *[("a", lambda study, value=value: study.tell(pull, value)) for value in (0.5, 0.5, 0.75)]
    )
    assert first.answer == same.answer
    assert isinstance(other.error, ConflictingOutcome)
    assert members.studies["a"].health()["duplicates"] == 1
    members.check()


def test_what_the_clock_brings_about_is_written_first_and_once(members, clock):
    members.make("a", Racing, slots=5)
    answers(members.carry_out(("a", lambda study: study.ask(2, lease=10))))
    clock.advance(11)
    outcomes = members.carry_out(("a", ask), ("a", lambda study: study.tell("x", 1)), ("a", ask))
    assert isinstance(outcomes[1].error, UnknownPull)
    assert kinds(members.studies["a"]) == ["ask", "ask", "expire", "expire", "ask", "ask"]
    members.check()


def test_a_request_is_answered_once_however_often_it_comes_in_a_group(members):
    members.make("a")
    asks = [("a", lambda study: study.ask(2, request_id="r"))] * 3
    found = answers(members.carry_out(*asks))
    assert found[0] == found[1] == found[2]
    assert kinds(members.studies["a"]) == ["ask", "ask"]


def test_another_writer_in_between_is_noticed(members, store):
    members.make("a")
    answers(members.carry_out(("a", ask)))
    with Study.open(store, "a", **OWN) as other:
        other.ask()
    [pull] = answers(members.carry_out(("a", ask)))
    assert pull.number == 2
    members.check()


def test_more_than_a_study_is_kept_with_it_or_not_at_all(members, store):
    study = members.make("a")
    answer = AnswerRow("ann", "k", "f", 200, "{}", 1)

    def both(opened):
        pull = opened.ask()
        store.save_answer(answer)
        return pull

    outcomes = members.carry_out(("a", both), ("a", both))
    assert outcomes[0].error is None
    assert isinstance(outcomes[1].error, StorageError)
    assert store.answer("ann", "k") == answer
    assert kinds(study) == ["ask"]
    members.check()


def test_an_action_about_no_study_takes_part(members, store):
    members.make("a")
    insert = Action(None, lambda: store.save_answer(AnswerRow("ann", "k", "f", 200, "{}", 1)))
    outcomes = members.group.carry_out([members.action("a", ask), insert])
    assert [outcome.error for outcome in outcomes] == [None, None]
    assert store.answer("ann", "k") is not None


def test_snapshots_are_taken_between_commits(members, store):
    study = members.make("a")
    answers(members.carry_out(("a", lambda opened: opened.ask(1_200))))
    assert list(store.snapshots(study.session.id)) == []
    members.group.save_snapshots()
    assert [snapshot.seq for snapshot in store.snapshots(study.session.id)] == [1_200]
    answers(members.carry_out(("a", ask)))
    members.check()


# ------------------------------------------------------------------------------ mishaps


class MishapStore(Failing, SQLiteStore):
    """A store in a file whose commits fail on request."""

    commit_errors = ()

    def _commit(self):
        if self.commit_errors:
            error, *self.commit_errors = self.commit_errors
            raise error
        super()._commit()


@pytest.fixture
def unlucky(path, clock):
    store = MishapStore(path, "process", clock=clock)
    yield Members(store)
    store.close()


@pytest.mark.parametrize("point", ["after begin", "before insert", "before commit", "after insert"])
def test_a_failure_within_is_met_by_trying_one_by_one(unlucky, point):
    unlucky.make("a"), unlucky.make("b")
    answers(unlucky.carry_out(("a", ask), ("b", ask)))
    unlucky.store.fail_at = point
    outcomes = unlucky.carry_out(("a", ask), ("b", ask), ("a", ask))
    # A fault before an action has written anything affects only that action; after it, all are
    # tried again. The second action on a study begins with a look for pulls, which inserts the
    # first one's.
    failed = [isinstance(outcome.error, Fault) for outcome in outcomes]
    assert failed == [point == "after begin", False, point == "after insert"]
    kept = sum(study.n_events for study in unlucky.studies.values())
    assert kept == 5 - sum(failed)
    unlucky.check()


def test_a_commit_that_fails_keeps_nothing_and_each_is_tried_by_itself(unlucky):
    unlucky.make("a"), unlucky.make("b")
    unlucky.store.commit_errors = (StorageError("full"), StorageError("full"))
    outcomes = unlucky.carry_out(("a", ask), ("a", ask), ("b", ask))
    assert isinstance(outcomes[0].error, StorageError)
    assert [outcomes[place].answer.number for place in (1, 2)] == [0, 0]
    unlucky.check()


def test_a_lost_connection_is_made_again_and_everything_is_done_once(unlucky):
    unlucky.make("a"), unlucky.make("b")
    unlucky.store.commit_errors = (ConnectionLost("gone"), ConnectionLost("gone"))
    first, second = answers(unlucky.carry_out(("a", ask), ("b", ask)))
    assert (first.number, second.number) == (0, 0)
    assert kinds(unlucky.studies["a"]) == ["ask"]
    unlucky.check()


@pytest.mark.parametrize("error", [StorageBusy("held"), StorageUnreachable("unknown")])
def test_if_nobody_can_write_everybody_is_told_so_at_once(unlucky, error):
    unlucky.make("a"), unlucky.make("b")
    unlucky.store.commit_errors = (error,)
    outcomes = unlucky.carry_out(("a", ask), ("b", ask))
    assert [outcome.error for outcome in outcomes] == [error, error]
    answers(unlucky.carry_out(("a", ask)))
    unlucky.check()


def test_kernels_are_loaded_outside_of_the_transaction(path, monkeypatch):
    from fairtrial.core.loading import load
    from tests.study import toys

    store = SQLiteStore(path, "process")
    members = Members(store)
    study = members.make("a")
    loaded = []

    def choose(self):
        if not loaded:
            load(lambda: loaded.append(store._is_writing))
        return self.asked % 2

    monkeypatch.setattr(toys.Serving, "choose", choose)
    answers(members.carry_out(("a", ask), ("a", ask)))
    assert loaded == [False]
    assert kinds(study) == ["ask", "ask"]
    store.close()


def test_two_groups_and_single_writers_share_a_storage(store, request):
    if not isinstance(store, SQLiteStore):
        pytest.skip("each thread needs a handle of its own")
    path = request.getfixturevalue("tmp_path") / "study.db"
    first, second = Members(store), Members(SQLiteStore(path, "process"))
    for name in ("a", "b"):
        first.make(name)
        session = open_study(second.store, name, POLICIES, "full")
        session.committer = second.group
        second.studies[name] = Study(session)
    errors = []

    def work(members):
        for _ in range(20):
            outcomes = members.carry_out(("b", ask), ("a", ask), ("b", ask))
            errors.extend(outcome.error for outcome in outcomes if outcome.error)

    threads = [threading.Thread(target=work, args=(members,)) for members in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert [first.studies[name].n_events for name in ("a", "b")] == [40, 80]
    first.check()
    second.store.close()


def test_what_belongs_to_no_study_is_retried_by_itself():
    actions = [Action(None, lambda: None), Action(None, lambda: None)]
    assert _by_study(actions, [0, 1]) == [[0], [1]]
