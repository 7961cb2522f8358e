"""Measures that were told early and are taken back: they are not known any more."""

import copy
import itertools
import math

import numpy as np
import pytest

from fairtrial.errors import InvalidOutcome, NotSupported
from fairtrial.subpopulations import BlockBetting, Problem
from tests import effort
from tests.messages import raises
from tests.subpopulations.test_early_corrections import (
    REST,
    RIGHT,
    _ledgers,
    data_of,
    policy_of,
    pull_on_a_bet,
    told_until,
)

WRONG = {"harm": 1.0}
BOTH = ["effect", "harm"]
"""All measures that bets use."""


def early_of(names):
    return {name: {**REST, **WRONG}[name] for name in names}


def taken_back(early, *names):
    return {name: None if name in names else value for name, value in early.items()}


def assert_same_knowledge(policy, twin):
    """Compare all that decisions follow from; how factors of a bet are kept may differ."""
    names = ("sums", "counts", "products", "pulls", "was_absent", "was_present")
    names += ("settled_values", "settled_pairs", "is_late")
    for name in names:
        ours, theirs = (getattr(one._blocks.state, name) for one in (policy, twin))
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9, err_msg=name)
    for name in ("first", "number", "pulls", "waiting", "planned", "came", "lost", "results"):
        ours, theirs = (getattr(one._blocks.state.blocks, name) for one in (policy, twin))
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9, err_msg=name)
    assert _ledgers(policy) == pytest.approx(_ledgers(twin))
    assert policy.open_as_worst() == twin.open_as_worst()
    assert policy.asked == twin.asked


def restored(policy):
    fresh = BlockBetting(policy.problem, seed=policy.seed, **policy.get_params())
    fresh.set_state(policy.get_state())
    return fresh


@pytest.mark.parametrize(
    ("early", "losses"),
    effort.pairs([["harm"], BOTH, [*BOTH, "note"], ["note"]], ["informative", "ignorable"]),
)
def test_what_was_withdrawn_before_the_next_plan_is_as_if_it_had_never_been_told(losses, early):
    policy = policy_of(losses)
    pull = pull_on_a_bet(policy)
    told = early_of(early)
    for number in range(1, len(early) + 1):
        for names in itertools.combinations(early, number):
            one, twin = restored(policy), copy.deepcopy(policy)
            one.report(pull, told)
            one.amend(pull, told, taken_back(told, *names))
            one = restored(one)
            left = {name: told[name] for name in early if name not in names}
            if left:
                twin.report(pull, left)
            assert (one.reported(pull) is None) == (not left)
            for each in (one, twin):
                each.tell(pull, {**REST, **RIGHT, **left})
                told_until(each, 300)
            assert_same_knowledge(one, twin)
            assert one._wealth.tolist() == pytest.approx(twin._wealth.tolist())
            assert one.guarantee.proven


@pytest.mark.parametrize("losses", ["informative", "ignorable"])
@pytest.mark.parametrize("names", [["harm"], ["effect"], BOTH])
@pytest.mark.parametrize("is_told_before", [True, False])
def test_in_a_paid_block_a_withdrawn_value_counts_as_its_worst_until_it_comes(
    losses, names, is_told_before
):
    policy = policy_of(losses)
    pull = pull_on_a_bet(policy)
    right = {"effect": 0.75, "harm": 0.0}
    if is_told_before:
        policy.report(pull, right)
    told_until(policy, 300)
    if not is_told_before:
        policy.report(pull, right)
    assert policy._blocks.state.blocks.first[0] > pull.tag
    before, overdue = _ledgers(policy), set(policy.open_as_worst())
    data = policy._blocks.state.sums[divmod(pull.action, 2)].copy()
    policy.amend(pull, right, taken_back(right, *names))
    policy = restored(policy)
    assert set(policy.open_as_worst()) == overdue | {pull.number}
    # The worst of a measure depends on the bet; one of the corners is as bad for each ledger.
    corners = []
    for values in itertools.product((0.0, 1.0), repeat=len(names)):
        corner = restored(policy)
        corner.report(pull, dict(zip(names, values, strict=True)))
        corners.append(_ledgers(corner))
    finite = np.array(_ledgers(policy))
    assert (finite <= np.min(corners, axis=0) + 1e-9).all()
    assert not np.allclose(finite, before)
    # With the values it is as before.
    policy.report(pull, {name: right[name] for name in names})
    assert _ledgers(policy) == pytest.approx(before)
    np.testing.assert_allclose(policy._blocks.state.sums[divmod(pull.action, 2)], data, atol=1e-9)
    assert policy._blocks.amended == 0


@pytest.mark.parametrize("losses", ["informative", "ignorable"])
@pytest.mark.parametrize("is_paid", [True, False])
@pytest.mark.parametrize("end", ["fail", "fail first", "tell", "fail and tell"])
def test_a_value_that_is_withdrawn_and_never_comes_is_missing(losses, is_paid, end):
    policy = policy_of(losses)
    pull = pull_on_a_bet(policy)
    known = {"effect": 0.75, "harm": 1.0}
    policy.report(pull, known)
    if is_paid:
        told_until(policy, 300)
    if end == "fail first":
        policy.fail(pull)
    policy.amend(pull, known, taken_back(known, "harm"))
    if end in ("fail", "fail and tell"):
        policy.fail(pull)
    if end.endswith("tell"):
        policy.tell(pull, {"harm": None, "note": None})
    told_until(policy, 400)
    lacking = [one.missing for one in policy.progress().measures if one.measure == "harm"]
    assert sum(lacking) == 1
    state = policy._blocks.state
    assert (state.was_absent >= 0).all()
    assert (state.was_present >= 0).all()
    assert (state.blocks.waiting >= 0).all()
    assert (state.blocks.lost >= 0).all()


def test_a_decision_that_rests_on_a_withdrawn_value_is_taken_back():
    problem = Problem(
        ["a", "b"], 1, measures={"effect": (0, 1), "note": (0, 1)}, objective="effect"
    )
    policy, early = BlockBetting(problem, delta=0.05, seed=1), []
    while not policy.stopped:
        pull = policy.ask()
        policy.report(pull, {"effect": float(pull.arm == "a")})
        early.append(pull)
    assert policy.decided
    for pull in reversed(early):
        value = float(pull.arm == "a")
        policy.amend(pull, {"effect": value}, {"effect": None})
        if not policy.decided:
            break
    assert not policy.decided
    assert policy.recommend().arm is None
    policy.report(pull, {"effect": value})
    assert policy.decided


def test_with_known_noise_a_value_is_withdrawn_as_long_as_its_bets_are_not_paid():
    problem = Problem(
        ["a", "b"],
        1,
        measures=["effect", "note"],
        objective="effect",
        noise_std={"effect": 1.0, "note": 1.0},
    )
    policy, rng = BlockBetting(problem, delta=1e-9, seed=1), np.random.default_rng(1)

    def carry_on(one, tells):
        while one.told < tells:
            pull = one.ask()
            if pull.number != held.number:
                one.tell(pull, dict(zip(problem.measures, rng.normal(size=2), strict=True)))

    def next_on_a_bet():
        while (pull := policy.ask()).tag < 1:
            policy.tell(pull, {"effect": rng.normal(), "note": rng.normal()})
        return pull

    held = next_on_a_bet()
    never = copy.deepcopy(policy)
    policy.report(held, {"effect": 9.0})
    policy.amend(held, {"effect": 9.0}, {"effect": None})
    for one in (policy, never):
        one.tell(held, {"effect": 0.5, "note": 0.5})
    assert policy._wealth.tolist() == pytest.approx(never._wealth.tolist())

    held = next_on_a_bet()
    policy.report(held, {"effect": 1.0})
    carry_on(policy, policy.told + 300)
    assert policy._blocks.state.blocks.first[0] > held.tag
    before = data_of(policy)
    with raises(NotSupported):
        policy.amend(held, {"effect": 1.0}, {"effect": None})
    after = data_of(policy)
    assert policy.reported(held)[0] == 1.0
    assert all(
        np.array_equal(before[name], after[name], equal_nan=True)
        for name in before
        if before[name].dtype.kind in "fiu"
    )


def test_what_was_not_told_cannot_be_withdrawn():
    policy = policy_of()
    pull = pull_on_a_bet(policy)
    policy.report(pull, WRONG)
    with raises(InvalidOutcome):
        policy.amend(pull, WRONG, {**WRONG, "effect": None})
    assert math.isclose(policy.reported(pull)[1], 1.0)
