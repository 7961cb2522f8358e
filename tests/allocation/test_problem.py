from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.allocation import Problem, round_shares
from fairtrial.core.specification import problem_from_dict
from fairtrial.errors import InvalidArgument, InvalidOutcome


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
    problem = Problem(len(shares), [share / scale / 2 for share in shares], tolerance=3)
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


@pytest.mark.parametrize("tolerance", [0.5, -1, True, "1", None])
def test_a_tolerance_is_a_non_negative_integer(tolerance):
    with pytest.raises(InvalidArgument, match="tolerance must be a non-negative integer"):
        Problem(2, "1/4", tolerance)


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan"), float("inf"), "x", "1/0", None, True])
def test_a_share_outside_the_unit_interval_is_refused(share):
    with pytest.raises(InvalidArgument, match=r"shares\[1\] must be in \[0, 1\]"):
        Problem(2, [0, share])


def test_shares_beyond_one_are_refused_exactly():
    with pytest.raises(InvalidArgument, match="sum to 10000001/10000000 > 1; no schedule can"):
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
    with pytest.raises(InvalidArgument) as caught:
        Problem(**arguments)
    assert caught.value.name == name


def test_a_large_common_denominator_is_refused_with_a_way_out():
    shares = ["1/1000003", "1/1000033"]
    with pytest.raises(InvalidArgument, match=r"common denominator of 1000036000099 > 1000000000"):
        Problem(2, shares)
    rounded = round_shares(shares)
    assert Problem(2, rounded).denominator <= 10**9
    assert all(
        0 <= Fraction(s) - r < Fraction(1, 10**9) for s, r in zip(shares, rounded, strict=False)
    )


@pytest.mark.parametrize("shares", ["1/3", {"a": "1/3"}, 0.5])
def test_only_a_list_of_shares_is_rounded(shares):
    with pytest.raises(InvalidArgument, match="shares must be a list of shares"):
        round_shares(shares)


def test_several_plays_may_share_out_as_many_pulls():
    assert Problem(3, "2/3", plays=2).is_exhausted
    with pytest.raises(InvalidArgument, match="sum to 21/10 > plays = 2"):
        Problem(3, 0.7, plays=2)


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), 1.1, -0.1, "1", None])
def test_a_reward_outside_the_range_is_refused(reward):
    with pytest.raises(InvalidOutcome):
        Problem(2, "1/4").check_outcome(reward)
