"""What a problem accepts, refuses, means, and stores in a file."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from fairtrial.confidence import FiniteLIL
from fairtrial.core.compilation import compiled
from fairtrial.core.specification import policy_from_dict, problem_from_dict
from fairtrial.delayed import InformationRacing, Problem, Racing
from fairtrial.delayed._kernels.runs import act
from fairtrial.errors import InvalidArgument, InvalidOutcome
from tests.messages import raises

UNBIASED = {"feedback": "unbiased", "reading_std": 0.25}


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"arms": 0}, "arms"),
        ({"arms": ["a", "a"]}, "arms"),
        ({"top": 0}, "top"),
        ({"top": 4}, "top"),
        ({"top": 1.5}, "top"),
        ({"noise_std": 0.0}, "noise_std"),
        ({"noise_std": -1.0}, "noise_std"),
        ({"noise_std": math.nan}, "noise_std"),
        ({"noise_std": math.inf}, "noise_std"),
        ({"noise_std": [1.0, 1.0]}, "noise_std"),
        ({"noise_std": None}, "noise_std, reward_range"),
        ({"reward_range": (0, 1)}, "noise_std, reward_range"),
        ({"noise_std": None, "reward_range": (1, 0)}, "reward_range"),
        ({"noise_std": None, "reward_range": (0, math.inf)}, "reward_range"),
        ({"feedback": "unbiased"}, "reading_std"),
        ({"feedback": "biased"}, "reading_std"),
        ({"feedback": "unbiased", "reading_std": -0.1}, "reading_std"),
        ({"feedback": "unbiased", "reading_std": math.nan}, "reading_std"),
        ({"feedback": "unbiased", "reading_std": [1.0, 2.0]}, "reading_std"),
        ({"reading_std": 1.0}, "reading_std"),
        ({"feedback": "partial"}, "feedback"),
        ({"errors": "nested"}, "errors"),
        ({"feedback": "refining", "errors": "first"}, "target_std"),
        ({"feedback": "refining", "target_std": 0.1}, "target_std"),
        ({"duration": 3}, "duration"),
        ({"feedback": "incremental", "duration": 0}, "duration"),
        ({"tolerance": -1.0}, "tolerance"),
        ({"failure": "sometimes"}, "failure"),
        ({"failure": "independent", "failure_value": 0.0}, "failure_value"),
        ({"noise_std": None, "reward_range": (0, 1), "failure_value": 2.0}, "failure_value"),
        ({"clip": True}, "clip"),
        ({"delay_depends_on_outcome": 1}, "delay_depends_on_outcome"),
        ({"direction": "up"}, "direction"),
        ({"noise": "cauchy"}, "noise"),
    ],
)
def test_a_bad_argument_is_refused_by_name(arguments, name):
    with raises(InvalidArgument) as caught:
        Problem(**{"arms": 3, "noise_std": 1.0, **arguments})
    assert caught.value.name.partition("[")[0] == name


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"delta": math.nan}, "delta"),
        ({"parallel": 0}, "parallel"),
        ({"parallel": 1.5}, "parallel"),
        ({"per_arm": 0}, "per_arm"),
        ({"max_pulls": 0}, "max_pulls"),
        ({"max_readings": 0}, "max_readings"),
    ],
)
@pytest.mark.parametrize("cls", [InformationRacing, Racing])
def test_a_bad_argument_of_a_policy_is_refused_by_name(cls, arguments, name):
    with raises(InvalidArgument, name):
        cls(Problem(3, noise_std=1.0), **arguments)


@pytest.mark.parametrize(
    ("cls", "arguments", "name"),
    [
        (InformationRacing, {"test": "triples"}, "test"),
        (InformationRacing, {"sampling": "best"}, "sampling"),
        (InformationRacing, {"prior": 0.0}, "prior"),
        (InformationRacing, {"use_partial": 1}, "use_partial"),
        (Racing, {"variant": "fast"}, "variant"),
        (Racing, {"bound": "lil"}, "bound"),
        (Racing, {"running_intersection": 0}, "running_intersection"),
    ],
)
def test_a_bad_choice_of_a_policy_is_refused_by_name(cls, arguments, name):
    with raises(InvalidArgument, name):
        cls(Problem(3, noise_std=1.0), **arguments)


@pytest.mark.parametrize(("a", "c"), [(0.6, 1.0), (0.5, 1.1), (0.55, 1.1), (0.6, 0.9)])
def test_constants_that_the_bound_is_not_proven_for_are_refused(a, c):
    with raises(InvalidArgument):
        Racing(Problem(3, noise_std=1.0), bound=FiniteLIL(a, c))


def test_readings_of_noise_that_is_not_normal_need_the_proven_race():
    bounded = Problem(3, reward_range=(0, 1), **UNBIASED)
    with raises(InvalidArgument, "problem"):
        InformationRacing(bounded)
    with raises(InvalidArgument, "problem"):
        InformationRacing(Problem(3, noise_std=1.0, noise="subgaussian", **UNBIASED))
    # No proven race uses refining readings, so the message must not recommend one.
    with raises(InvalidArgument, "problem"):
        InformationRacing(Problem(3, reward_range=(0, 1), feedback="refining", reading_std=0.1))
    assert InformationRacing(bounded, use_partial=False).guarantee.proven
    assert Racing(bounded).guarantee.proven
    assert InformationRacing(Problem(3, reward_range=(0, 1))).guarantee.proven


@pytest.mark.parametrize("variant", ["partial", "proven"])
def test_a_race_refuses_readings_that_it_does_not_cover(variant):
    refining = Problem(3, noise_std=1.0, feedback="refining", reading_std=1.0)
    depends = Problem(3, noise_std=1.0, delay_depends_on_outcome=True, **UNBIASED)
    pieces = Problem(3, noise_std=1.0, feedback="incremental")
    for problem in (refining, depends, pieces):
        with raises(InvalidArgument):
            Racing(problem, variant=variant)
        assert Racing(problem, variant="full").guarantee.proven


def test_what_is_proven_is_told_from_what_is_not():
    def refining(**more):
        return Problem(3, noise_std=1.0, feedback="refining", reading_std=1.0, **more)

    assert not InformationRacing(refining()).guarantee.proven
    assert InformationRacing(refining(errors="nested")).guarantee.proven
    assert InformationRacing(refining(errors="first", target_std=0.5)).guarantee.proven
    unbiased = Problem(3, noise_std=1.0, **UNBIASED)
    assert InformationRacing(unbiased).guarantee.proven
    assert Racing(unbiased).guarantee.proven
    assert not Racing(unbiased, variant="partial").guarantee.proven
    assert Racing(unbiased, variant="full").guarantee.proven


@pytest.mark.parametrize("cls", [InformationRacing, Racing])
@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_a_race_is_the_same_in_any_units(cls, scale):
    def pulls(unit):
        policy = cls(Problem(2, noise_std=unit), max_pulls=60)
        for value in np.random.default_rng(3).normal(size=60).tolist():
            if policy.stopped:
                break
            pull = policy.ask()
            policy.tell(pull, (value + 1.5 * pull.action) * unit)
        return policy.recommend().arm, policy.told

    assert pulls(scale) == pulls(1.0)
    assert pulls(1.0)[0] == ("1",)


def test_a_race_of_one_arm_needs_no_code_of_its_own():
    before = len(act.dispatcher.signatures)
    with compiled():
        for arms in (1, 2):
            InformationRacing(Problem(arms, noise_std=1.0))
    assert len(act.dispatcher.signatures) - before <= 1


@pytest.mark.parametrize("arms", [1, 3])
@pytest.mark.parametrize("cls", [InformationRacing, Racing])
def test_as_many_places_as_arms_need_no_pull(cls, arms):
    policy = cls(Problem(arms, top=arms, noise_std=1.0))
    assert policy.stopped
    answer = policy.recommend()
    assert answer.status == "decided"
    assert answer.arm == tuple(str(arm) for arm in range(arms))
    assert answer.guarantee.proven
    assert policy.ask(3) == []


def test_an_outcome_outside_of_the_range_is_refused_or_clipped():
    problem = Problem(2, reward_range=(0, 1))
    with raises(InvalidOutcome):
        problem.check_outcome(1.5)
    policy = InformationRacing(problem.clone(clip=True))
    pull = policy.ask()
    policy.tell(pull, 1.5)
    assert policy.progress().actions[0].mean == 1.0
    assert any("1 were clipped" in text for text in policy.guarantee.assumptions)
    assert not any("clipped" in text for text in InformationRacing(problem).guarantee.assumptions)


def test_a_problem_is_the_same_after_a_file():
    problem = Problem(
        ["a", "b", "c"], top=2, noise_std=[1.0, 2.0, 3.0], feedback="refining", errors="first",
        target_std=0.3, reading_std=0.5, tolerance=0.1, direction="minimize", failure="outcome",
        failure_value=9.0,
    )  # fmt: skip
    again = problem_from_dict(json.loads(json.dumps(problem.to_dict())))
    assert again == problem
    assert again.clone(top=1) != problem


@pytest.mark.parametrize(
    "make",
    [
        lambda problem: InformationRacing(problem, delta=0.1, test="box", parallel=3),
        lambda problem: Racing(problem, bound=FiniteLIL(0.7, 1.2, one_sided=True), per_arm=2),
    ],
)
def test_a_policy_is_the_same_after_a_file(make):
    policy = make(Problem(3, noise_std=1.0))
    data = json.loads(json.dumps(policy.to_dict()))
    again = policy_from_dict(data, policy.problem, seed=0)
    assert again.to_dict() == policy.to_dict()
    assert type(again) is type(policy)


def test_the_default_rule_covers_the_noise():
    assert Problem(2, noise_std=1.0, **UNBIASED).default_policy == "InformationRacing"
    assert Problem(2, noise_std="estimated", **UNBIASED).default_policy == "InformationRacing"
    assert Problem(2, reward_range=(0, 1)).default_policy == "BlockBetting"
    for noise in ({"noise_std": 1.0, "noise": "subgaussian"}, {"reward_range": (0, 1)}):
        problem = Problem(2, **noise, **UNBIASED)
        assert problem.default_policy == "Racing"
        assert policy_from_dict({"name": problem.default_policy}, problem, 0).guarantee.proven


def test_half_the_range_is_the_scale():
    assert Problem(2, reward_range=(-1, 3)).scale.tolist() == [2.0, 2.0]
    assert Problem(2, noise_std=[1.0, 2.0]).scale.tolist() == [1.0, 2.0]


def test_incremental_readings_need_a_duration_when_a_pull_is_asked_for():
    policy = InformationRacing(Problem(2, noise_std=1.0, feedback="incremental"))
    with raises(ValueError, "duration"):
        policy.ask()
    assert policy.asked == 0
    with raises(ValueError, "duration", given=0.0):
        policy.ask(duration=0.0)
    pull = policy.ask(duration=4.0)
    policy.report(pull, 0.5)
    assert policy.progress().actions[0].mean == 2.0
    with raises(ValueError, "duration", given=4.0):
        InformationRacing(Problem(2, noise_std=1.0)).ask(duration=4.0)


def test_numbers_that_are_not_finite_change_nothing():
    policy = InformationRacing(Problem(2, noise_std=1.0, **UNBIASED))
    pull = policy.ask()
    before = policy.get_state()
    for value in (math.nan, math.inf, "x", None):
        with raises(ValueError, "outcome", given=value):
            policy.tell(pull, value)
        with raises(ValueError, "reading", given=value):
            policy.report(pull, value)
    for details in ({"std": math.nan}, {"std": -1.0}, {"stage": math.nan}, {"place": 3}):
        with raises(ValueError, next(iter(details))):
            policy.report(pull, 0.5, **details)
    after = policy.get_state()
    assert all(np.array_equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize(
    "scale", ["0.3", [True, False], ["a", "b"]], ids=["text", "truths", "words"]
)
def test_text_is_no_deviation(scale):
    with raises(InvalidArgument):
        Problem(["a", "b"], noise_std=scale)
