"""Degenerate and bad input: what is refused, with which message, and what is accepted."""

import copy
from fractions import Fraction

import numpy as np
import pytest

import fairtrial as ft
from fairtrial.allocation import (
    UCB1,
    BernoulliEnvironment,
    FairLearn,
    FairUCB,
    HorizonFairUCB,
    Problem,
    Thompson,
    UnconstrainedLearner,
    round_shares,
)
from fairtrial.errors import InvalidArgument, InvalidOutcome
from tests.allocation.slow import SlowQuotas
from tests.messages import raises, warns

# ---------------------------------------------------------------------- the problem


@pytest.mark.parametrize(
    "unfairness_tolerance", [0.5, 1.0, np.float64(2), float("inf"), -1, "1", None, True]
)
def test_a_tolerance_that_is_no_whole_number_is_refused(unfairness_tolerance):
    with raises(InvalidArgument, "unfairness_tolerance", given=unfairness_tolerance):
        Problem(2, "1/4", unfairness_tolerance)
    assert Problem(2, "1/4", np.int64(2)).unfairness_tolerance == 2


def test_half_a_pull_of_tolerance_could_not_be_kept():
    """Four arms, three of them owed .24, and a learner that always takes the fourth."""
    slow = SlowQuotas([Fraction(24, 100)] * 3 + [0], unfairness_tolerance=Fraction(1, 2))
    for _ in range(5):
        slow.step("largest", lambda allowed: 3)
    assert max(credit // 1 for credit in slow.credits) == 1


@pytest.mark.parametrize(
    "share",
    [-0.1, "-1/4", 1.5, float("nan"), np.nan, float("inf"), "x", "1/0", None, True, b"1/4", 1j],
)
def test_a_share_that_is_none_is_refused_by_its_place(share):
    with raises(InvalidArgument, "shares[1]", given=share):
        Problem(2, [0, share])
    with raises(InvalidArgument, "shares[b]", given=share):
        Problem(["a", "b"], {"b": share})


def test_shares_that_no_schedule_can_meet_are_refused_exactly():
    with raises(InvalidArgument, "shares", given=["1/2", "3/10", "3/10"]):
        Problem(3, [0.5, 0.3, 0.3])
    with raises(InvalidArgument, "shares"):
        Problem(2, ["0.5", "0.500000001"])


@pytest.mark.parametrize(
    "shares", [[0.1] * 10, [0.1, 0.2, 0.7], [0.7, 0.2, 0.1], [0.58, 0.29, 0.07, 0.06]]
)
def test_floats_that_do_not_sum_to_one_do_so_as_they_are_meant(shares):
    problem = Problem(len(shares), shares)
    assert problem.total_share == 1
    assert problem.is_exhausted


def test_an_arm_without_a_share_beside_shares_of_one_is_masked_with_a_warning():
    with warns(UserWarning):
        problem = Problem(["a", "b", "c"], ["1/2", "1/2", 0])
    for scheduler in ("due", "lazy"):
        offered = []

        def learner(t, counts, sums, allowed, offered=offered):
            offered.extend(allowed.tolist())
            return allowed[-1]

        policy = FairLearn(problem, learner, scheduler)
        assert {pull.arm for pull in policy.ask(50)} == {"a", "b"}
        assert 2 not in offered
        assert policy.metrics()["floored_violation"] == 0


@pytest.mark.parametrize("shares", [["1/2"], [0.1, 0.1, 0.1], [], np.full(4, 0.1)])
def test_a_share_for_each_arm_is_wanted(shares):
    with raises(InvalidArgument, "shares", given=shares):
        Problem(2, shares)


def test_there_must_be_an_arm_and_one_is_enough():
    for none in (0, []):
        with raises(InvalidArgument, "arms", given=none):
            Problem(none, [])
    for share in (0, "1/2", 1):
        problem = Problem(1, share)
        for policy in (FairLearn(problem), FairLearn(problem, scheduler="lazy")):
            assert [pull.action for pull in policy.ask(5)] == [0] * 5


def test_a_large_denominator_is_refused_and_says_what_to_do():
    for arms, shares in ((2, ["1/1000003", "1/1000033"]), (3, 1 / 3), (2, 1e-320)):
        with raises(InvalidArgument, "shares"):
            Problem(arms, shares)
    assert sum(round_shares([1 / 3] * 3)) < 1
    Problem(3, round_shares([1 / 3] * 3))


# --------------------------------------------------------------------- the schedulers


@pytest.mark.parametrize("shares", [[0.68, 0.2, 0], ["1/2", "1/3", 0], ["1/3", "1/3", "1/3"]])
def test_the_largest_credit_is_refused_where_it_is_not_proven(shares):
    problem = Problem(["a", "b", "c"], shares)
    with raises(InvalidArgument, "scheduler"):
        FairLearn(problem, scheduler="largest")
    with raises(InvalidArgument):
        FairUCB(problem)
    assert not FairLearn(problem, scheduler="largest", allow_unsafe=True).guarantee.proven


def test_a_horizon_that_is_too_short_is_refused():
    with raises(InvalidArgument, "horizon", given=4):
        HorizonFairUCB(Problem(5, 0.01), horizon=4)
    policy = HorizonFairUCB(Problem(5, 0.01), horizon=5)
    assert [pull.action for pull in policy.ask(5)] == [0, 1, 2, 3, 4]


def test_a_failed_pull_of_a_fixed_opening_is_made_up_for():
    policy = HorizonFairUCB(Problem(2, "1/4"), horizon=8)
    pulls = policy.ask(4)
    assert [pull.action for pull in pulls] == [0, 0, 1, 1]
    for pull in pulls[1:]:
        policy.tell(pull, float(pull.action))
    assert policy.guarantee.label == "proven"
    policy.fail(pulls[0])
    assert [pull.action for pull in policy.ask(2)] == [0, 1]
    assert policy.guarantee.label == "heuristic"
    assert policy.guarantee.doubts == ("1 pull failed",)
    restored = policy.clone()
    restored.set_state(policy.get_state())
    assert restored.guarantee == policy.guarantee


# -------------------------------------------------------------------------- rewards


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), 1.5, -0.1, "1", None, [1]])
def test_a_refused_reward_leaves_the_round_open_and_the_state_as_it_was(reward):
    policy = FairLearn(Problem(2, "1/4"), Thompson(), seed=1)
    pull = policy.ask()
    before = copy.deepcopy(policy.get_state())
    with raises(InvalidOutcome, "reward", given=reward):
        policy.tell(pull, reward)
    after = policy.get_state()
    assert all(np.array_equal(before[key], after[key]) for key in before)
    assert policy.outstanding() == [pull]
    policy.tell(pull, 1)


# ------------------------------------------------------------------- nothing, and ties


def test_no_rounds_are_an_empty_result():
    policy = FairLearn(Problem(2, "1/4"))
    assert policy.ask(0) == []
    assert policy.credits == (0, 0)
    metrics = policy.metrics()
    assert {name: value for name, value in metrics.items() if value} == {}
    assert policy.progress().asked == 0
    assert policy.recommend().leader is None


def sequence(policy, rounds, rewards):
    actions = []
    for t in range(rounds):
        pull = policy.ask()
        actions.append(pull.action)
        policy.tell(pull, float(rewards[t, pull.action]))
    return actions


@pytest.mark.parametrize("learner", [UCB1(), Thompson()], ids=repr)
@pytest.mark.parametrize("scheduler", ["due", "largest", "lazy"])
def test_a_tolerance_of_the_horizon_or_more_is_the_bare_learner(learner, scheduler):
    problem = Problem(3, [0.2, 0.3, 0.25], unfairness_tolerance=150)
    rewards = np.random.default_rng(0).random((150, 3)) < [0.7, 0.5, 0.4]
    fair = FairLearn(problem, learner, scheduler, seed=5)
    assert sequence(fair, 150, rewards) == sequence(
        UnconstrainedLearner(problem, learner, seed=5), 150, rewards
    )
    assert fair.metrics()["forced_share"] == 0


def test_equal_means_cost_nothing():
    problem = Problem(3, "1/4")
    environment = BernoulliEnvironment(problem, [0.5] * 3)
    found = ft.simulate(FairLearn(problem), environment, 3, horizon=100, progress=False).metrics
    assert not found["regret"].any()
    assert not found["r_regret"].any()
    assert abs(found["fair_regret"]).max() < 1e-9
