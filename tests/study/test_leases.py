"""Leases: what happens to pulls without an answer, whatever the clock does."""

import pytest

from fairtrial.errors import AlreadyTold, InvalidArgument, UnknownPull
from fairtrial.study import Study
from tests.messages import raises
from tests.study.tools import replayed, same_state
from tests.study.toys import OWN, Arrivals, Elimination, GroupProblem, Racing, Serving


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


def test_a_heartbeat_extends_a_lease(make_study, clock):
    study = make_study(Racing)
    pull = study.ask(lease=60)
    for _ in range(5):
        clock.advance(50)
        event = study.extend(pull, 60)
    assert (event.lease_until - event.at).total_seconds() == 60
    assert kinds(study) == ["ask", *["extend"] * 5]
    assert study.tell(pull.id, 1.0).kind == "tell"
    assert same_state(study.policy, replayed(study))


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


def test_health_counts_open_pulls(make_study):
    study = make_study(Elimination)
    pulls = study.ask(3)
    study.tell(pulls[0], 1.0)
    assert study.health()["open"] == 2
