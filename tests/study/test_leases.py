"""Leases: what happens to pulls without an answer, whatever the clock does."""

import pytest

from fairtrial.errors import AlreadyTold, InvalidArgument, PullClosed, UnknownPull
from fairtrial.study import Study
from fairtrial.study.clock import seconds_until_due
from fairtrial.study.group import Action, Group
from fairtrial.study.memory import MemoryStore
from fairtrial.study.postgresql import PostgreSQLStore
from fairtrial.study.server_address import ServerAddress
from fairtrial.study.sqlite import SQLiteStore
from tests.messages import raises
from tests.study.tools import replayed, same_state
from tests.study.toys import OWN, Arrivals, Elimination, GroupProblem, Racing, Serving, ToyProblem

NORMAL, FULL = 1, 2
"""Values of SQLite's `synchronous`: whether a commit is flushed."""


def kinds(study):
    return [event.kind for event in study.events()]


def test_a_pull_without_a_lease_waits_for_ever(make_study, clock):
    study = make_study(Racing)
    pull = study.ask()
    clock.advance(1e9)
    study.ask()
    assert study.tell(pull, 1.0).kind == "tell"


def test_a_lease_that_ran_out_is_recorded_by_the_next_write(make_study, clock):
    study = make_study(Racing)
    lost, kept = study.ask(lease=60), study.ask(lease=600)
    clock.advance(60)
    assert study.health()["overdue"] == 1
    assert kinds(study) == ["ask", "ask"]
    study.ask()
    assert kinds(study) == ["ask", "ask", "expire", "ask"]
    assert lost not in study.outstanding()
    assert kept in study.outstanding()
    assert study.policy.given_up.sum() == 1
    health = study.health()
    assert (health["expired"], health["overdue"], health["expiry"]) == (1, 0, "drop")
    assert same_state(study.policy, replayed(study))


def test_a_lease_lasts_as_long_as_it_says(make_study, clock):
    study = make_study(Racing)
    event = next(study.events()) if study.ask(lease=1.5) else None
    assert (event.lease_until - event.at).total_seconds() == 1.5
    clock.advance(1.499)
    study.ask()
    assert "expire" not in kinds(study)


def test_a_late_outcome_counts_and_is_flagged(make_study, clock):
    study = make_study(Racing)
    pull = study.ask(lease=60)
    clock.advance(61)
    event = study.tell(pull, 1.0)
    assert kinds(study) == ["ask", "expire", "late_tell"]
    assert event.kind == "late_tell"
    assert study.tell(pull, 1.0) == event
    assert study.policy.sums.sum() == 1.0
    assert study.policy.given_up.sum() == 0
    assert study.health()["late"] == 1


def test_expiry_stays_recorded_when_the_call_that_noticed_it_is_refused(make_study, clock):
    study = make_study(Racing)
    study.ask(lease=60)
    clock.advance(61)
    with raises(UnknownPull):
        study.tell("nobody", 1.0)
    assert kinds(study) == ["ask", "expire"]
    assert same_state(study.policy, replayed(study))


def test_a_heartbeat_extends_a_lease_and_writes_no_event(make_study, clock):
    study = make_study(Racing)
    pull = study.ask(lease=60)
    head = study.head_hash
    for _ in range(5):
        clock.advance(50)
        lease = study.extend(pull, 60)
    assert (lease.pull_id, lease.number) == (pull.id, pull.number)
    assert lease.until.timestamp() == clock.seconds + 60
    assert (kinds(study), study.head_hash) == (["ask"], head)
    assert study.tell(pull.id, 1.0).kind == "tell"
    assert same_state(study.policy, replayed(study))
    assert study.verify().ok


def test_a_pull_that_is_no_longer_open_cannot_be_extended(make_study, clock):
    study = make_study(Racing)
    told, expired = study.ask(2, lease=60)
    study.tell(told, 1.0)
    clock.advance(61)
    for pull in (told, expired):
        with raises(AlreadyTold):
            study.extend(pull, 60)
    with raises(UnknownPull):
        study.extend("nobody", 60)


# ------------------------------------------------------------------ leases beside the log


@pytest.fixture
def elsewhere(store, clock):
    """Open the study of the store as another process does."""
    if isinstance(store, MemoryStore):
        yield lambda: Study.open(store, "toy", **OWN)
        return
    if isinstance(store, SQLiteStore):
        other = SQLiteStore(store._path, "process", clock=clock)
    else:
        other = PostgreSQLStore(store._address, "process", clock=clock)
    yield lambda: Study.open(other, "toy", **OWN)
    other.close()


def lease_of(study, pull):
    return study._store.pull(1, pull.id).lease_until / 1e6


@pytest.mark.parametrize("act", ["report", "tell", "amend later"])
def test_a_lease_that_another_process_extended_counts_here(make_study, elsewhere, clock, act):
    study = make_study(Racing)
    pull = study.ask(lease=60)
    other = elsewhere()
    other.extend(pull.id, 600)
    clock.advance(100)
    if act == "report":
        # The row that this handle has read before must not be written back.
        study.report(pull, 0.5, stage=1)
        assert lease_of(study, pull) == clock.seconds + 500
        clock.advance(100)
    assert study.tell(pull, 1.0).kind == "tell"
    if act == "amend later":
        other.amend(pull.id, 0.5, "typing error")
    assert "expire" not in kinds(study)
    assert study.verify().ok
    assert other.verify().ok


def test_everything_that_shows_leases_shows_the_extended_one(make_study, elsewhere, clock):
    study = make_study(Racing)
    pull = study.ask(lease=60)
    other = elsewhere()
    other.extend(pull.id, 600)
    clock.advance(100)
    for handle in (study, other):
        store = handle._store
        assert handle.outstanding() == [pull]
        assert (handle.health()["open"], handle.health()["overdue"]) == (1, 0)
        assert seconds_until_due(store, 1, handle.policy, store.now()) == 500
    clock.advance(500)
    assert study.health()["overdue"] == 1
    study.pass_time()
    assert kinds(other) == ["ask", "expire"]


def test_an_extended_lease_that_runs_out_is_recorded_as_any_other(make_study, clock):
    study = make_study(Racing)
    pull = study.ask(lease=60)
    study.extend(pull, 10)
    clock.advance(11)
    with raises(PullClosed):
        study.extend(pull, 60)
    assert kinds(study) == ["ask", "expire"]
    assert study.tell(pull, 1.0).kind == "late_tell"
    assert same_state(study.policy, replayed(study))


def test_a_pull_without_a_lease_gets_one(make_study, clock):
    study = make_study(Racing)
    pull = study.ask()
    study.extend(pull, 10)
    clock.advance(11)
    study.pass_time()
    assert kinds(study) == ["ask", "expire"]
    assert study.verify().ok


def test_extending_a_lease_records_those_of_others_that_ran_out(make_study, clock):
    study = make_study(Racing)
    lost, kept = study.ask(lease=60), study.ask(lease=600)
    clock.advance(61)
    study.extend(kept, 600)
    assert kinds(study) == ["ask", "ask", "expire"]
    assert study.outstanding() == [kept]
    with raises(PullClosed):
        study.extend(lost, 600)


@pytest.mark.parametrize("close", ["tell", "fail", "cancel"])
def test_a_pull_that_another_process_ended_is_not_extended(make_study, elsewhere, close):
    study = make_study(Racing)
    pull = study.ask(lease=60)
    study.extend(pull, 60)
    getattr(elsewhere(), close)(pull.id, *([1.0] if close == "tell" else []))
    with raises(AlreadyTold if close == "tell" else PullClosed):
        study.extend(pull, 60)
    assert study._store.pull(1, pull.id).lease_until is None
    assert study.outstanding() == []


def test_a_worker_cannot_extend_a_pull_that_was_handed_to_another_one(make_study, clock):
    study = make_study(Serving)
    first = study.ask(worker="one", lease=60)
    clock.advance(61)
    again = study.ask(worker="two", lease=60)
    end = lease_of(study, first)
    for refused in (
        lambda: study.extend(first, 600),
        lambda: study.extend(first.id, 600, worker="one"),
    ):
        with raises(PullClosed):
            refused()
    assert lease_of(study, first) == end
    clock.advance(5)
    assert study.extend(again, 600).until.timestamp() == clock.seconds + 600
    study.extend(again.id, 60, worker="two")
    assert study.tell(first, 1.0).kind == "tell"


def test_a_lease_that_ran_out_can_be_extended_until_the_pull_is_handed_out_again(make_study, clock):
    study = make_study(Serving)
    pull = study.ask(worker="one", lease=60)
    clock.advance(61)
    study.extend(pull, 60)
    assert study.ask(worker="two", lease=60).id != pull.id
    assert kinds(study) == ["ask", "ask"]


def test_another_than_the_worker_may_extend_a_pull_that_was_never_handed_out_again(make_study):
    study = make_study(Serving)
    pull = study.ask(worker="one", lease=60)
    study.extend(pull.id, 600, worker="the head of the laboratory")
    assert study.outstanding()[0].worker == "one"


def test_an_import_has_the_leases_that_pulls_were_issued_with(make_study, store, clock, tmp_path):
    study = make_study(Racing)
    pull = study.ask(lease=60)
    study.extend(pull, 600)
    file = study.export(tmp_path / "log.jsonl")
    copy = Study.import_log(file, storage="memory://", name="copy", **OWN)
    assert copy.head_hash == study.head_hash
    assert lease_of(copy, pull) == clock.seconds + 60
    assert lease_of(study, pull) == clock.seconds + 600
    assert copy.verify().ok


def test_extending_in_a_group_harms_nobody(make_study, store, clock):
    study = make_study(Racing)
    lost, kept, told = study.ask(3, lease=60)
    study.extend(kept, 600)
    study.extend(told, 600)
    clock.advance(61)
    study.session.committer = group = Group(store)

    def extend(pull):
        return Action(study.session, lambda: study.extend(pull, 600), needs_flush=False)

    # The lease that ran out is written in the same commit, although leases alone need no flush.
    outcomes = group.carry_out([extend(kept), extend(lost)])
    assert outcomes[0].answer.until.timestamp() == clock.seconds + 600
    assert isinstance(outcomes[1].error, PullClosed)
    tell = Action(study.session, lambda: study.tell(told, 1.0))
    outcomes = group.carry_out([extend(kept), extend(told), tell, extend(told)])
    assert [type(outcome.error) for outcome in outcomes] == [type(None)] * 3 + [AlreadyTold]
    study.session.committer = None
    assert kinds(study) == ["ask"] * 3 + ["expire", "tell"]
    assert lease_of(study, kept) == clock.seconds + 600
    assert study.verify().ok


def test_a_heartbeat_is_not_flushed_and_what_follows_it_is(tmp_path, clock):
    store = SQLiteStore(tmp_path / "study.db", clock=clock)
    seen = []
    append, set_lease = store.append, store.set_lease

    def level():
        seen.append(store._one("PRAGMA synchronous")[0])

    store.append = lambda *a: level() or append(*a)
    store.set_lease = lambda *a: level() or set_lease(*a)
    problem = ToyProblem()
    study = Study.create(problem, Racing(problem), storage=store, name="toy", seed=7)
    pull = study.ask(lease=60)
    study.extend(pull, 60)
    study.extend(pull, 60)
    clock.advance(30)
    study.tell(pull, 1.0)
    with raises(AlreadyTold):
        study.extend(pull, 60)
    study.ask()
    assert seen == [FULL, NORMAL, NORMAL, FULL, FULL]
    store.close()


def test_a_heartbeat_is_not_flushed_by_a_server_either(postgresql_url, clock):
    store = PostgreSQLStore(ServerAddress(postgresql_url), clock=clock)

    def level():
        return store._one("SHOW synchronous_commit")[0]

    assert store.transact(level, flush=False) == "off"
    assert store.transact(level) == "on"
    store.close()


def test_many_heartbeats_do_not_let_a_file_grow(tmp_path, clock):
    path = tmp_path / "study.db"
    store = SQLiteStore(path, "process", clock=clock)
    problem = ToyProblem()
    study = Study.create(problem, Racing(problem), storage=store, name="toy", seed=7)
    pull = study.ask(lease=60)
    for _ in range(1_200):
        study.extend(pull, 60)
    assert path.with_name("study.db-wal").stat().st_size < 10e6
    assert study.n_events == 1
    store.close()


# ------------------------------------------------------------------------------ arguments


@pytest.mark.parametrize("lease", [0, -1, float("nan"), float("inf"), "60", True, 1e12])
def test_a_bad_lease_is_refused(make_study, lease):
    study = make_study()
    with raises(InvalidArgument, "lease", given=lease):
        study.ask(lease=lease)
    pull = study.ask()
    with raises(InvalidArgument, "lease", given=lease):
        study.extend(pull, lease)


# ----------------------------------------------------------------------- handed out again


def test_a_policy_may_have_lost_pulls_handed_out_again_first(make_study, clock):
    study = make_study(Serving)
    first = study.ask(worker="one", lease=60)
    other = study.ask(lease=600)
    clock.advance(61)
    again = study.ask(worker="two", lease=60)
    assert (again.id, again.number, again.action) == (first.id, first.number, first.action)
    assert again.id != other.id
    assert kinds(study) == ["ask", "ask", "reissue"]
    assert [event.actor for event in study.events()] == ["one", None, "two"]
    assert study.policy.asked == 2
    assert study.ask().number == 2
    health = study.health()
    assert (health["reissued"], health["expiry"]) == (1, "reissue")
    assert same_state(study.policy, replayed(study))


def test_a_pull_handed_out_again_is_told_once(make_study, clock):
    study = make_study(Serving)
    first = study.ask(lease=60)
    clock.advance(61)
    again = study.ask(lease=60)
    event = study.tell(again, 1.0)
    assert event.kind == "tell"
    assert study.tell(first, 1.0) == event
    assert study.policy.told == 1


def test_an_outcome_after_the_lease_and_before_it_is_handed_out_again_is_late(make_study, clock):
    study = make_study(Serving)
    first = study.ask(lease=60)
    clock.advance(61)
    assert study.tell(first, 1.0).kind == "late_tell"
    assert study.ask().number == 1


def test_a_pull_that_is_told_late_is_not_handed_out_again_by_the_same_call(make_study, clock):
    study = make_study(Serving)
    pull, other = study.ask(2, lease=10)
    clock.advance(200)
    assert study.tell_and_ask(pull, 0.5).id == other.id
    assert kinds(study) == ["ask", "ask", "late_tell", "reissue"]
    assert study.tell_and_ask(other, 0.5).number == 2
    assert study.verify().ok


def test_many_lost_pulls_are_handed_out_before_new_ones(make_study, clock):
    study = make_study(Serving)
    lost = study.ask(3, lease=60)
    clock.advance(61)
    pulls = study.ask(5, lease=60, request_id="r")
    assert [pull.id for pull in pulls[:3]] == [pull.id for pull in lost]
    assert [pull.number for pull in pulls] == [0, 1, 2, 3, 4]
    assert study.ask(5, request_id="r") == pulls


def test_a_pull_is_handed_out_again_only_to_the_same_context(make_study, clock):
    study = make_study(Arrivals, GroupProblem())
    lost = study.ask(group="x", lease=60)
    clock.advance(61)
    assert study.ask(group="y", lease=60).id != lost.id
    assert study.ask(group="x", lease=60).id == lost.id
    assert same_state(study.policy, replayed(study))


# -------------------------------------------------------------------------------- clocks


@pytest.mark.parametrize(("policy", "parameters"), [(Racing, {"slots": 20}), (Serving, {})])
def test_a_clock_that_goes_backwards_breaks_nothing(make_study, store, clock, policy, parameters):
    study = make_study(policy, **parameters)
    for step in (10, -3600, 50, -1e6, 3000):
        pull = study.ask(lease=60)
        study.extend(pull, 90)
        clock.advance(step)
        study.tell(pull, 0.5)
        study.ask(2, lease=1)
    assert [event.seq for event in study.events()] == list(range(1, len(kinds(study)) + 1))
    assert study.verify().ok
    assert same_state(Study.open(store, "toy", **OWN).policy, study.policy)


def test_a_lease_given_under_a_wrong_clock_does_not_stop_later_ones(make_study, clock):
    study = make_study(Racing)
    clock.advance(1e9)
    far = study.ask(lease=60)
    clock.advance(-1e9)
    near = study.ask(lease=60)
    clock.advance(61)
    study.ask()
    assert near not in study.outstanding()
    assert far in study.outstanding()


def test_a_lease_that_is_extended_after_the_clock_went_back_ends_by_the_new_clock(
    make_study, clock
):
    study = make_study(Racing)
    pull = study.ask(lease=60)
    clock.advance(-1e6)
    assert study.extend(pull, 60).until.timestamp() == clock.seconds + 60
    clock.advance(61)
    study.pass_time()
    assert kinds(study) == ["ask", "expire"]
    assert study.verify().ok


def test_health_counts_open_pulls(make_study):
    study = make_study(Elimination)
    pulls = study.ask(3)
    study.tell(pulls[0], 1.0)
    assert study.health()["open"] == 2
