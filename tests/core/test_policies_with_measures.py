"""What a user's own policy receives if one pull measures several things."""

import math

import numpy as np

from fairtrial.errors import AlreadyTold, ConflictingOutcome, InvalidArgument, InvalidOutcome
from fairtrial.subpopulations import Problem
from tests.messages import raises
from tests.subpopulations.measuring_toys import TakesTurns

PROBLEM = Problem(2, 1, measures={"cd4": (-1, 1), "event_free": (0, 1)}, objective="cd4")


def test_values_that_come_one_by_one_are_learned_whole() -> None:
    policy, other = TakesTurns(PROBLEM), TakesTurns(PROBLEM)
    pull, same = policy.ask(), other.ask()
    policy.report(pull, {"cd4": 0.5})
    policy.report(pull, {"cd4": 0.5})
    assert policy.reported(pull)[0] == 0.5
    assert math.isnan(policy.reported(pull)[1])
    assert policy.sums.sum() == 0
    assert policy.early.tolist() == [[1, 0], [0, 0]]
    policy.tell(pull, {"event_free": 1})
    other.tell(same, {"cd4": 0.5, "event_free": 1})
    assert policy.sums.tolist() == other.sums.tolist() == [[0.5, 1.0], [0.0, 0.0]]
    assert policy.reported(pull) is None


def test_a_refused_report_or_outcome_leaves_everything_as_it_was() -> None:
    policy = TakesTurns(PROBLEM)
    pull = policy.ask()
    policy.report(pull, {"cd4": 0.5})
    before = policy.get_state()
    refused = (
        (ConflictingOutcome, policy.report, {"cd4": 0.6}),
        (ConflictingOutcome, policy.report, {"cd4": 0.6, "event_free": 1}),
        (ConflictingOutcome, policy.tell, {"cd4": None, "event_free": 1}),
        (InvalidOutcome, policy.report, {"event_free": 1, "rash": 0}),
        (InvalidOutcome, policy.report, {"event_free": 2}),
        (InvalidOutcome, policy.report, {"event_free": None}),
        (InvalidOutcome, policy.tell, {"event_free": 2}),
        (InvalidOutcome, policy.tell, {}),
        (InvalidOutcome, policy.tell, {"cd4": 0.5}),
    )
    for error, call, value in refused:
        with raises(error):
            call(pull, value)
        after = policy.get_state()
        assert all(
            np.array_equal(before[name], after[name], equal_nan=before[name].dtype.kind == "f")
            for name in before
        )


def test_what_was_reported_of_a_lost_pull_stays() -> None:
    policy = TakesTurns(PROBLEM)
    lost, whole = policy.ask(), policy.ask()
    policy.report(lost, {"event_free": 0})
    policy.fail(lost)
    policy.fail(whole)
    assert policy.lost_values == 1 + 2
    policy.report(lost, {"cd4": -1})
    policy.tell(lost, {})
    assert policy.sums.tolist() == [[-1.0, 0.0], [0.0, 0.0]]
    with raises(AlreadyTold):
        policy.report(lost, {"cd4": -1})


def test_values_are_saved_and_restored_at_every_step() -> None:
    policy = TakesTurns(PROBLEM)
    pulls = policy.ask(3)
    calls = [
        (policy.report, pulls[1], {"cd4": 0.25}),
        (policy.report, pulls[0], {"event_free": 1}),
        (policy.fail, pulls[0], "lost"),
        (policy.report, pulls[1], {"event_free": 1}),
        (policy.tell, pulls[1], {}),
        (policy.tell, pulls[2], {"cd4": None, "event_free": 1}),
        (policy.tell, pulls[0], {"cd4": 0.125}),
    ]
    for call, pull, value in calls:
        restored = TakesTurns(PROBLEM)
        restored.set_state(policy.get_state())
        getattr(restored, call.__name__)(pull, value)
        call(pull, value)
        ours, theirs = policy.get_state(), restored.get_state()
        for name, own in ours.items():
            assert np.array_equal(own, theirs[name], equal_nan=own.dtype.kind == "f"), name
    assert policy.sums.tolist() == [[0.125, 2.0], [0.25, 1.0]]


def test_a_state_without_the_reported_values_is_refused() -> None:
    policy = TakesTurns(PROBLEM)
    state = policy.get_state()
    del state["reported_values"]
    with raises(InvalidArgument, "state"):
        policy.set_state(state)


def test_a_correction_may_reveal_a_missing_value_or_withdraw_one() -> None:
    policy = TakesTurns(PROBLEM)
    pull = policy.ask()
    policy.tell(pull, {"cd4": 0.5, "event_free": None})
    policy.amend(pull, {"cd4": 0.5, "event_free": None}, {"cd4": 0.25, "event_free": 1})
    assert policy.sums[0].tolist() == [0.25, 1.0]
    policy.amend(pull, {"cd4": 0.25, "event_free": 1}, {"cd4": None, "event_free": 1})
    assert policy.sums[0].tolist() == [0.0, 1.0]
    assert policy.counts[0].tolist() == [0.0, 1.0]
