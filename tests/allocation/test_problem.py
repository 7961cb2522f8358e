from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.allocation import (
    KLUCB,
    UCB1,
    FairLearn,
    Greedy,
    HorizonFairUCB,
    Problem,
    SlidingWindowUCB,
    cover_groups,
    round_shares,
)
from fairtrial.core.specification import problem_from_dict
from fairtrial.errors import InvalidArgument, InvalidOutcome
from tests.messages import raises


def test_a_float_is_read_as_its_shortest_decimal():
    problem = Problem(3, [0.05, np.float64(0.07), np.float32(0.1)])
    assert problem.shares == (Fraction(1, 20), Fraction(7, 100), Fraction(1, 10))


def test_shares_are_one_for_all_or_by_label_or_in_order():
    third = Fraction(1, 3)
    assert Problem(2, "1/3").shares == (third, third)
    assert Problem(["a", "b"], {"b": "1/3"}).shares == (0, third)
    assert Problem(["a", "b"], [third, 0]).quotas == (1, 0)


@given(st.lists(st.fractions(0, 1, max_denominator=30), min_size=1, max_size=4))
def test_json_keeps_shares_exactly(shares):
    scale = max(1, sum(shares))
    problem = Problem(len(shares), [share / scale / 2 for share in shares], unfairness_tolerance=3)
    back = problem_from_dict(problem.to_dict())
    assert back == problem
    assert back.shares == problem.shares
    assert all(isinstance(share, str) for share in problem.to_dict()["shares"])


def test_groups_are_kept_in_json():
    problem = Problem(["a", "b", "c"], ["1/10", 0, 0], groups={"g": ("1/3", ["a", "b"])})
    assert problem_from_dict(problem.to_dict()) == problem
    named = Problem(
        ["a", "b", "c"], ["1/10", 0, 0], groups={"g": {"share": "1/3", "members": ["a", "b"]}}
    )
    assert named == problem
    assert Problem(3, ["1/8", "1/8", 0], groups={"g": ("1/4", ["0", "1"])}).total_share == 0.25
    assert problem.denominator == 30
    assert problem.total_share == Fraction(1, 3)


@pytest.mark.parametrize("unfairness_tolerance", [0.5, -1, True, "1", None])
def test_a_tolerance_is_a_non_negative_integer(unfairness_tolerance):
    with raises(InvalidArgument, "unfairness_tolerance", given=unfairness_tolerance):
        Problem(2, "1/4", unfairness_tolerance)


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan"), float("inf"), "x", "1/0", None, True])
def test_a_share_outside_the_unit_interval_is_refused(share):
    with raises(InvalidArgument, "shares[1]", given=share):
        Problem(2, [0, share])


def test_shares_beyond_one_are_refused_exactly():
    with raises(InvalidArgument, "shares"):
        Problem(2, ["0.5", "0.5000001"])
    assert Problem(10, 0.1).is_exhausted


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"arms": 2, "shares": ["1/4"]}, "shares"),
        ({"arms": 0, "shares": []}, "arms"),
        ({"arms": 2, "shares": {"x": 0.1}}, "shares"),
        ({"arms": 2, "shares": "1/4", "plays": 3}, "plays"),
        ({"arms": 2, "shares": "1/4", "reward_range": (1, 0)}, "reward_range"),
        ({"arms": 2, "shares": 0, "groups": {"g": ("1/4", ["2"])}}, "groups[g].members"),
        ({"arms": 2, "shares": "1/4", "groups": {"g": ("1/8", ["0"])}}, "groups[g].share"),
        ({"arms": 2, "shares": 0, "groups": {"g": (1, ["0"])}}, "groups"),
        ({"arms": 2, "shares": 0, "groups": {"g": "1/4"}}, "groups[g]"),
        (
            {"arms": 2, "shares": 0, "groups": {"g": ("1/4", ["0"]), "h": ("1/4", ["0"])}},
            "groups[h]",
        ),
    ],
)
def test_bad_arguments_are_named(arguments, name):
    with raises(InvalidArgument) as caught:
        Problem(**arguments)
    assert caught.value.name == name


def test_a_large_common_denominator_is_refused_with_a_way_out():
    shares = ["1/1000003", "1/1000033"]
    with raises(InvalidArgument, "shares"):
        Problem(2, shares)
    rounded = round_shares(shares)
    assert Problem(2, rounded).denominator <= 10**9
    assert all(
        0 <= Fraction(s) - r < Fraction(1, 10**9) for s, r in zip(shares, rounded, strict=False)
    )


@pytest.mark.parametrize("shares", ["1/3", {"a": "1/3"}, 0.5])
def test_only_a_list_of_shares_is_rounded(shares):
    with raises(InvalidArgument, "shares", given=shares):
        round_shares(shares)


def test_several_plays_may_share_out_as_many_pulls():
    assert Problem(3, "2/3", plays=2).is_exhausted
    with raises(InvalidArgument, "shares"):
        Problem(3, 0.7, plays=2)


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), 1.1, -0.1, "1", None])
def test_a_reward_outside_the_range_is_refused(reward):
    with raises(InvalidOutcome):
        Problem(2, "1/4").check_outcome(reward)


LONG = "9" * 10_000
HUGE = 10**10_000


@pytest.mark.parametrize(
    "share",
    [
        "1e-100000000",
        "1e100000000",
        "0e100000000",
        "-1E-0000100000000",
        "1e-1_000_000_000",
        "1e-5000",
        f"1e-{LONG}",
        f"1/{LONG}",
        f"{LONG}/{LONG}",
        f"0.{LONG}",
        "0." + "0" * 10**6 + "1",
        HUGE,
        Fraction(1, HUGE),
        np.longdouble("1e-4000"),
    ],
    ids=lambda share: type(share).__name__,
)
def test_a_number_that_would_take_long_to_read_is_refused_before_it_is_read(share):
    """In all places of shares and credits; the first number would take minutes and gigabytes."""
    arms = ["a", "b"]
    makers = [
        lambda: Problem(arms, share),
        lambda: Problem(arms, [0, share]),
        lambda: Problem(arms, {"b": share}),
        lambda: Problem(arms, 0, groups={"g": (share, ["a"])}),
        lambda: Problem.from_dict({**Problem(arms, 0).to_dict(), "shares": ["0", share]}),
        lambda: round_shares([share]),
        lambda: cover_groups(arms, {"g": (share, ["a"])}),
        lambda: FairLearn(Problem(arms, 0), initial_credits={"a": share}),
    ]
    for make in makers:
        with raises(InvalidArgument, given=share):
            make()


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Problem(10**9, 0), "arms"),
        (lambda: Problem(HUGE, 0), "arms"),
        (lambda: Problem(2, 0, HUGE), "unfairness_tolerance"),
        (lambda: Problem(2, 0, plays=HUGE), "plays"),
        (lambda: Problem(2, 0, reward_range=(0, HUGE)), "reward_range"),
        (lambda: Problem(2, [[[["1/2"]]]]), "shares"),
        (lambda: Problem(9000, [Fraction(1, 10**9 - i) for i in range(9000)]), "shares"),
        (lambda: round_shares(["1/3"], HUGE), "denominator"),
        (lambda: FairLearn(Problem(2, 0), carry=HUGE), "carry"),
        (lambda: FairLearn(Problem(2, 0), contexts=10**10), "contexts"),
        (lambda: FairLearn(Problem(2, 0), price=5e-324), "price"),
        (
            lambda: FairLearn(Problem(2, 0), initial_rewards=[(HUGE, 1), (0, 0)]),
            "initial_rewards[0]",
        ),
        (
            lambda: FairLearn(Problem(2, 0), initial_rewards=[(1e300, 1), (0, 0)]),
            "initial_rewards[0]",
        ),
        (lambda: SlidingWindowUCB(10**12), "width"),
        (lambda: HorizonFairUCB(Problem(2, "1/2"), 10**30), "horizon"),
    ],
)
def test_what_no_memory_holds_is_refused_by_name(make, name):
    with raises(InvalidArgument, name):
        make()


@pytest.mark.parametrize(
    "given", [(0, 1e160), (-1e160, 0), (0, 1e-160), (1, 1 + 1e-300), (-1.7e308, 1.7e308)]
)
def test_rewards_of_a_scale_that_floats_cannot_sum_are_refused(given):
    with raises(InvalidArgument, "reward_range", given=given):
        Problem(2, 0, reward_range=given)


@pytest.mark.parametrize(
    "learner", [None, UCB1(), KLUCB(), Greedy(), SlidingWindowUCB(20)], ids=repr
)
@pytest.mark.parametrize(
    ("low", "high"), [(0, 1e150), (-1e150, 1e150), (0, 1e-150), (-1e-150, 1e-150), (1e9, 1e9 + 1)]
)
def test_rewards_of_any_accepted_scale_lead_to_the_same_decisions(low, high, learner):
    """The same decisions as with rewards of 0, 1/2 and 1, and only finite numbers are shown."""
    scaled = FairLearn(Problem(3, "1/5", reward_range=(low, high)), learner, seed=1)
    plain = FairLearn(Problem(3, "1/5"), learner, seed=1)
    for number in range(60):
        pull, other = scaled.ask(), plain.ask()
        assert pull.action == other.action
        part = (0.0, 0.5, 1.0)[(number + pull.action) % 3]
        scaled.tell(pull, low + (high - low) * part)
        plain.tell(other, part)
    for estimate in scaled.progress().actions:
        assert low <= estimate.lower <= estimate.mean <= estimate.upper <= high
