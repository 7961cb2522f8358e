"""Measures that were told early and are corrected before their pull has its outcome."""

import copy
import math

import numpy as np
import pytest

from fairtrial.errors import ConflictingOutcome, InvalidOutcome, UnknownPull
from fairtrial.subpopulations import BlockBetting, Problem
from tests.messages import raises

MEASURES = {"effect": (0, 1), "harm": (0, 1), "note": (0, 1)}
WRONG, RIGHT = {"harm": 1.0}, {"harm": 0.0}
REST = {"effect": 0.75, "note": 0.25}


def policy_of(losses="informative", **options):
    problem = Problem(
        ["a", "b"],
        {"x": 0.5, "y": 0.5},
        measures=MEASURES,
        objective="effect",
        ceilings={"harm": 0.6},
    )
    return BlockBetting(problem, losses=losses, delta=1e-9, seed=2, **options)


def outcome_of(pull):
    rng = np.random.default_rng([7, pull.number])
    mean = 0.7 if pull.arm == "a" else 0.3
    effect = float(np.clip(mean + 0.2 * rng.standard_normal(), 0, 1))
    return {"effect": effect, "harm": float(rng.random() < 0.3), "note": float(rng.random())}


def told_until(policy, tells, held=()):
    """Tell all results but those of the pulls that are held, one after the other."""
    while policy.told < tells and not policy.stopped:
        pull = policy.ask()
        if pull.number not in held:
            policy.tell(pull, outcome_of(pull))


def pull_on_a_bet(policy):
    """Return a pull of an open block that bets are placed on; it is not told."""
    told_until(policy, 60)
    while True:
        pull = policy.ask()
        if pull.tag > 0:
            return pull
        policy.tell(pull, outcome_of(pull))


def data_of(policy):
    """Return all that the policy knows, except how often it was corrected."""
    state = policy.get_state()
    return {
        name: value for name, value in state.items() if name not in ("_blocks.corrected", "seed")
    }


def assert_alike(policy, twin):
    other = data_of(twin)
    for name, value in data_of(policy).items():
        if value.dtype.kind in "fiu":
            np.testing.assert_allclose(value, other[name], rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("losses", ["informative", "ignorable"])
@pytest.mark.parametrize("early", [["harm"], ["effect", "harm"]])
def test_what_was_corrected_before_the_next_plan_is_as_if_it_had_been_right(losses, early):
    # With effect and harm the block has all values that its bets use.
    policy = policy_of(losses)
    pull = pull_on_a_bet(policy)
    twin = copy.deepcopy(policy)
    right = {name: {**REST, **RIGHT}[name] for name in early}
    wrong = {**right, **WRONG}
    policy.report(pull, wrong)
    policy.amend(pull, wrong, right)
    twin.report(pull, right)
    assert policy._wealth.tolist() == pytest.approx(twin._wealth.tolist())
    for name in ("sums", "counts", "products"):
        theirs = getattr(twin._blocks.state, name)
        np.testing.assert_allclose(getattr(policy._blocks.state, name), theirs, atol=1e-9)
    for one in (policy, twin):
        one.tell(pull, REST)
        told_until(one, 300)
    assert_alike(policy, twin)
    assert policy._wealth.tolist() == pytest.approx(twin._wealth.tolist())
    assert policy.guarantee.proven
    assert any("1 correction" in one for one in policy.guarantee.assumptions)


@pytest.mark.parametrize("losses", ["informative", "ignorable"])
@pytest.mark.parametrize("early", [["harm"], ["effect", "harm"]])
@pytest.mark.parametrize("end", ["tell", "fail", "fail first", "fail and tell"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_bets_that_are_paid_follow_a_correction(losses, early, end, when):
    # Where harm alone is known when its block is overtaken, the rest counts as its worst.
    policy = policy_of(losses)
    pull = pull_on_a_bet(policy)
    right = {name: {**REST, **RIGHT}[name] for name in early}
    wrong = {**right, **WRONG}
    if when == "before":
        policy.report(pull, wrong)
    told_until(policy, 300)
    if when == "after":
        policy.report(pull, wrong)
    first = policy._blocks.state.blocks.first[0]
    assert first > pull.tag
    if end == "fail first":
        policy.fail(pull, "moved away")
    twin = copy.deepcopy(policy)
    policy.amend(pull, wrong, right)
    slow = _told_right(twin, pull, right)
    np.testing.assert_allclose(_paid_harm(policy, pull), slow, atol=1e-9)
    if end.startswith("fail") and end != "fail first":
        policy.fail(pull, "moved away")
        np.testing.assert_allclose(_paid_harm(policy, pull), slow, atol=1e-9)
    if end in ("tell", "fail and tell"):
        policy.tell(pull, {name: None for name in MEASURES if name not in right})
    assert policy._blocks.amended == 0
    assert math.isclose(_sum_of_harm(policy, pull), _sum_of_harm(twin, pull) - 1.0)


def _paid_harm(policy, pull):
    """Return sum and number of the harms of the pull's cell in its paid block."""
    blocks = policy._blocks
    shape = blocks.state.was_absent.shape
    values = blocks.in_paid_blocks("values").reshape(-1, *shape)
    pairs = blocks.in_paid_blocks("pairs").reshape(-1, *shape, shape[1])
    return values[pull.tag, pull.action, 1], pairs[pull.tag, pull.action, 1, 1]


def _told_right(twin, pull, right):
    total, number = _paid_harm(twin, pull)
    return total - 1.0, number


def _sum_of_harm(policy, pull):
    return float(policy._blocks.state.sums[divmod(pull.action, 2)][1])


def test_wealth_after_a_correction_of_an_overdue_pull_is_that_of_the_right_value():
    policy = policy_of()
    pull = pull_on_a_bet(policy)
    told_until(policy, 300)
    assert pull.number in policy._blocks.overdue[:, 0]
    twin = copy.deepcopy(policy)
    wrong, right = {"effect": 0.0, "harm": 1.0}, {"effect": 1.0, "harm": 0.0}
    policy.report(pull, wrong)
    before = _ledgers(policy)
    policy.amend(pull, wrong, right)
    twin.report(pull, right)
    assert not np.allclose(before, _ledgers(policy))
    assert _ledgers(policy) == pytest.approx(_ledgers(twin))
    for one in (policy, twin):
        one.tell(pull, {"note": 0.25})
    assert _ledgers(policy) == pytest.approx(_ledgers(twin))


def _ledgers(policy):
    return policy._blocks.state.book.ledgers.tolist()


def test_a_value_that_is_corrected_twice_and_back_leaves_no_trace_in_evidence():
    policy = policy_of()
    pull = pull_on_a_bet(policy)
    policy.report(pull, {"effect": 0.5, "harm": 0.0})
    told_until(policy, 200)
    before = data_of(policy)
    policy.amend(pull, {"effect": 0.5, "harm": 0.0}, {"effect": 0.0, "harm": 1.0})
    policy.amend(pull, {"effect": 0.0, "harm": 1.0}, {"effect": 0.5, "harm": 0.0})
    for name, value in data_of(policy).items():
        if value.dtype.kind in "fiu":
            np.testing.assert_allclose(value, before[name], atol=1e-9, err_msg=name)
    assert policy._blocks.corrected == 2


def test_a_correction_of_a_pull_that_was_called_back_counts_if_the_study_goes_on():
    problem = Problem(
        ["a", "b"], 1, measures={"effect": (0, 1), "note": (0, 1)}, objective="effect"
    )
    policy, history = BlockBetting(problem, delta=1e-3, seed=1), []
    held = None
    while not policy.stopped:
        pull = policy.ask()
        if pull.tag > 0 and held is None and policy.told > 10:
            held = pull
            policy.report(held, {"note": 1.0})
            continue
        outcome = {"effect": float(pull.arm == "a"), "note": 0.5}
        policy.tell(pull, outcome)
        history.append((pull, outcome))
    policy.fail(held, "cancelled")
    policy.amend(held, {"note": 1.0}, {"note": 0.0})
    for pull, outcome in history:
        policy.amend(pull, outcome, {"effect": 0.5, "note": 0.5})
    assert not policy.stopped
    known = policy._blocks.state.sums[..., 1].sum()
    assert known == pytest.approx(0.5 * len(history))


@pytest.mark.parametrize("is_paid", [False, True])
def test_values_that_came_after_a_pull_was_made_again_are_corrected_in_the_data_only(is_paid):
    policy = policy_of("ignorable")
    pull = pull_on_a_bet(policy)
    policy.fail(pull, "moved away")
    if is_paid:
        told_until(policy, 300)
        assert policy._blocks.state.blocks.first[0] > pull.tag
    else:
        # All pulls of the block are issued, and none of its cell is told.
        slot = policy._blocks._slot_of(pull.tag)
        while policy._blocks.state.blocks.to_issue[slot].any():
            policy.ask()
    before, data = _ledgers(policy), _sum_of_harm(policy, pull)
    wrong, right = {"effect": 0.0, "harm": 1.0}, {"effect": 1.0, "harm": 0.0}
    bets = policy._blocks.state.bets.products.copy()
    policy.report(pull, wrong)
    policy.amend(pull, wrong, right)
    np.testing.assert_array_equal(policy._blocks.state.bets.products, bets)
    assert _ledgers(policy) == before
    assert _sum_of_harm(policy, pull) == pytest.approx(data)


@pytest.mark.parametrize(
    ("error", "old", "new"),
    [
        (ConflictingOutcome, {"harm": 0.5}, {"harm": 0.0}),
        (ConflictingOutcome, {"harm": 1.0, "note": 0.0}, {"harm": 0.0}),
        (InvalidOutcome, {"harm": 1.0}, {"effect": 0.0}),
        (InvalidOutcome, {"harm": 1.0}, {"harm": 0.0, "effect": 0.0}),
        (InvalidOutcome, {"harm": 1.0}, {"harm": 2.0}),
        (InvalidOutcome, {"harm": 1.0}, {}),
    ],
)
def test_what_is_refused_changes_nothing(error, old, new):
    policy = policy_of()
    pull = pull_on_a_bet(policy)
    policy.report(pull, WRONG)
    before = data_of(policy)
    with raises(error):
        policy.amend(pull, old, new)
    after = data_of(policy)
    assert all(np.array_equal(before[name], after[name], equal_nan=True)
               for name in before if before[name].dtype.kind in "fiu")  # fmt: skip


def test_a_pull_of_which_nothing_was_told_has_nothing_to_correct():
    policy = policy_of()
    pull = pull_on_a_bet(policy)
    with raises(UnknownPull):
        policy.amend(pull, {**REST, **WRONG}, {**REST, **RIGHT})
