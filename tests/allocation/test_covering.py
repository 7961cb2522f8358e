"""Overlapping groups: exact shares with the smallest sum that serve all of them."""

from fractions import Fraction
from itertools import combinations
from math import lcm

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairtrial.allocation import FairLearn, Problem, cover_groups
from fairtrial.allocation.covering import _vertex
from fairtrial.errors import InvalidArgument
from tests import effort
from tests.allocation.slow import solve_fractions
from tests.messages import raises

pytestmark = pytest.mark.filterwarnings("ignore:the shares take every pull")


def served(shares, members):
    return sum(shares[arm] for arm in members)


def least_sum(arms, groups, least):
    """Return the smallest sum of shares by enumerating all vertices in fractions."""
    rows = [([arm in inside for arm in arms], share) for share, inside in groups.values()]
    rows += [([other == arm for other in arms], own) for arm, own in zip(arms, least, strict=True)]
    best = None
    for chosen in combinations(rows, len(arms)):
        point = solve_fractions([[*map(Fraction, row), side] for row, side in chosen])
        if point is None:
            continue
        if all(sum(p for p, in_ in zip(point, row, strict=True) if in_) >= s for row, s in rows):
            best = sum(point) if best is None else min(best, sum(point))
    return best


@st.composite
def overlapping(draw):
    arms = list("abcd"[: draw(st.integers(1, 4))])
    share = st.fractions(0, Fraction(3, 4), max_denominator=11)
    members = st.lists(st.sampled_from(arms), min_size=1, unique=True)
    groups = draw(st.dictionaries(st.sampled_from("uvwxy"), st.tuples(share, members), max_size=4))
    own = st.sampled_from([Fraction(0), Fraction(0), Fraction(1, 9), Fraction(1, 4)])
    return arms, groups, draw(st.lists(own, min_size=len(arms), max_size=len(arms)))


@settings(max_examples=effort.runs(30, whole=80))
@given(overlapping())
def test_shares_cover_exactly_and_with_the_least_sum(case):
    arms, groups, least = case
    smallest = least_sum(arms, groups, least)
    if smallest > 1:
        with pytest.raises(InvalidArgument) as caught:
            cover_groups(arms, groups, least)
        assert caught.value.name == "groups"
        return
    shares = cover_groups(arms, groups, least)
    assert list(shares) == arms
    assert all(share >= own for share, own in zip(shares.values(), least, strict=True))
    assert all(served(shares, members) >= share for share, members in groups.values())
    assert sum(shares.values()) == smallest
    assert Problem(arms, shares).total_share == smallest


@settings(max_examples=25)
@given(overlapping(), st.integers(0, 1), st.integers(0, 2**32))
def test_every_group_is_served_at_every_moment_by_less_than_its_size(
    case, unfairness_tolerance, seed
):
    arms, groups, least = case
    if least_sum(arms, groups, least) > 1:
        return
    shares = cover_groups(arms, groups, least)
    counts = dict.fromkeys(arms, 0)
    rng = np.random.default_rng(seed)

    def learner(t, told, sums, allowed):
        return max(allowed, key=lambda arm: (counts[arms[arm]], rng.random()))

    policy = FairLearn(Problem(arms, shares, unfairness_tolerance), learner)
    for t in range(1, 80):
        counts[policy.ask().arm] += 1
        for share, members in groups.values():
            size = sum(shares[arm] > 0 for arm in members)
            shortfall = share * t - served(counts, members)
            assert shortfall < size * (1 + unfairness_tolerance) or shortfall <= 0


def test_three_pairs_that_overlap_share_their_arms():
    pairs = {"g": ("1/3", ["a", "b"]), "h": ("1/3", ["b", "c"]), "i": ("1/3", ["a", "c"])}
    assert set(cover_groups(list("abc"), pairs).values()) == {Fraction(1, 6)}
    named = {
        label: {"share": share, "members": members} for label, (share, members) in pairs.items()
    }
    with_own = cover_groups(list("abc"), named, {"a": "1/2"})
    assert with_own["a"] == Fraction(1, 2)
    assert with_own["b"] + with_own["c"] == Fraction(1, 3)


def test_no_groups_are_covered_by_the_arms_own_shares():
    assert cover_groups(2, {}, "1/4") == {"0": Fraction(1, 4), "1": Fraction(1, 4)}


def test_groups_that_demand_too_much_are_named():
    groups = {
        "g": ("9/10", ["a", "b"]),
        "h": ("9/10", ["b", "c"]),
        "i": ("9/10", ["a", "c"]),
        "fine": ("1/10", ["a"]),
    }
    with raises(InvalidArgument, "groups") as caught:
        cover_groups(list("abc"), groups)
    assert all(repr(group) in str(caught.value) for group in "ghi")
    assert "fine" not in str(caught.value)
    with raises(InvalidArgument, "groups"):
        cover_groups(["a", "b"], {"g": ("3/5", ["a"])}, {"b": "1/2"})


def test_a_denominator_too_large_is_rounded_up():
    groups = {"g": ("1/1000003", ["a"]), "h": ("1/1000033", ["b"])}
    shares = cover_groups(["a", "b"], groups)
    assert lcm(*(share.denominator for share in shares.values())) <= 10**9
    for label, (share, (arm,)) in groups.items():
        assert 0 <= shares[arm] - Fraction(share) < Fraction(1, 10**9), label
    groups["rest"] = (1 - sum(Fraction(share) for share, _ in groups.values()), ["c"])
    with raises(InvalidArgument, "groups"):
        cover_groups(["a", "b", "c"], groups)


def test_a_solution_that_is_no_vertex_is_rounded_up():
    demands, inside = [Fraction(1, 2)], [[0, 1]]
    assert _vertex(np.array([0.25, 0.25]), inside, demands, [Fraction(0)] * 2) is None
    assert _vertex(np.array([0.5, 0.0]), inside, demands, [Fraction(0)] * 2) == (Fraction(1, 2), 0)


@pytest.mark.parametrize(
    ("groups", "name"),
    [
        ([("g", 1)], "groups"),
        ({"g": "1/4"}, "groups[g]"),
        ({"g": (2, ["a"])}, "groups[g].share"),
        ({"g": ("1/4", ["x"])}, "groups[g].members"),
        ({"g": ("1/4", [])}, "groups[g].members"),
    ],
)
def test_bad_groups_are_named(groups, name):
    with raises(InvalidArgument, name):
        cover_groups(["a", "b"], groups)


def test_a_problem_with_groups_that_overlap_points_here():
    groups = {"g": ("1/4", ["a"]), "h": ("1/4", ["a", "b"])}
    with raises(InvalidArgument, "groups[h]"):
        Problem(["a", "b"], 0, groups=groups)
