"""The random order of a block's pulls, in every family that bets on blocks."""

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import chisquare

from fairtrial import delayed, linear, subpopulations
from fairtrial.confidence.block_betting.blocks import serial_of
from fairtrial.errors import InvalidArgument, NotSupported
from tests import effort
from tests.messages import raises

RANGE = {"reward_range": (0, 1)}
FAMILIES = {
    "subpopulations": lambda **options: subpopulations.BlockBetting(
        subpopulations.Problem(["a", "b", "c"], {"x": 0.3, "y": 0.7}, **RANGE), **options
    ),
    "linear": lambda **options: linear.BlockBetting(
        linear.Problem([[1, 0], [1, 1], [1, 2]], **RANGE), **options
    ),
    "delayed": lambda **options: delayed.BlockBetting(
        delayed.Problem(["a", "b", "c"], **RANGE), **options
    ),
}
LEAST_P = 1e-4
"""Smallest accepted p-value: the seed is fixed, so a failure means an error or rare bad luck."""


@pytest.fixture(params=FAMILIES)
def make(request):
    return FAMILIES[request.param]


def group_of(pull):
    return pull.labels.get("group")


def reward_of(pull):
    """Return a reward with a wide spread, so a study needs hundreds of pulls."""
    return (0.4, 0.5, 0.6)[pull.action % 3] + 0.4 * (pull.number % 2) - 0.2


def blocks_of(policy, most):
    """Ask and tell one pull after the other; return the pulls by block, in order."""
    blocks = {}
    for _ in range(most):
        if policy.stopped:
            break
        pull = policy.ask()
        blocks.setdefault(serial_of.py_func(pull.tag), []).append(pull)
        policy.tell(pull, reward_of(pull))
    *whole, _ = blocks.values()
    return whole


def share_of_first(pulls):
    """Return the share of the first pull's action among those of its group."""
    peers = [pull for pull in pulls if group_of(pull) == group_of(pulls[0])]
    return sum(pull.action == pulls[0].action for pull in peers) / len(peers)


# ------------------------------------------------------------------------ each drawn


def test_a_propensity_is_the_share_of_an_arm_in_what_is_left_of_its_block_and_group(make):
    blocks = [block for block in blocks_of(make(seed=5), 300) if block[0].tag != -1]
    assert len(blocks) > 1
    for block in blocks:
        for number, pull in enumerate(block):
            assert pull.propensity == pytest.approx(share_of_first(block[number:]), rel=1e-12)


def test_every_order_of_a_block_comes_equally_often(make):
    def order(seed):
        policy = make(seed=seed, initial_pulls=1)
        return tuple(pull.action for pull in policy.ask(policy.problem.n_actions // 2 or 1))

    counts = Counter(order(seed) for seed in range(effort.runs(300, whole=600)))
    first = Counter(actions[0] for actions in counts.elements())
    policy = make(initial_pulls=1)
    if isinstance(policy, linear.BlockBetting):
        # The first pulls are those of a basis.
        possible = policy.problem.rank
        assert set(first) == set(policy.problem.basis_arms.tolist())
    else:
        possible = len({pull.action for pull in blocks_of(policy, 60)[0]})
    assert len(first) == possible
    assert chisquare(list(first.values())).pvalue > LEAST_P
    pairs = possible * (possible - 1) if len(next(iter(counts))) == 2 else None
    assert pairs is None or len(counts) == pairs


def test_the_whole_order_of_a_small_block_is_uniform():
    problem = subpopulations.Problem(["a", "b"], ["x"], **RANGE)
    counts = Counter(
        "".join(
            pull.arm
            for pull in subpopulations.BlockBetting(problem, initial_pulls=2, seed=s).ask(4)
        )
        for s in range(effort.runs(600, whole=1_800))
    )
    assert len(counts) == 6
    assert chisquare(list(counts.values())).pvalue > LEAST_P


@pytest.mark.parametrize("initial_pulls", [None, 1])
def test_orders_of_the_first_linear_pulls_are_as_frequent_as_their_propensities_say(initial_pulls):
    """A basis comes before the rest of the start, and each in random order."""
    problem = linear.Problem(np.vander(np.linspace(-1, 1, 5), 3), **RANGE)
    basis, start = set(problem.basis_arms.tolist()), set(problem.geometry.start_arms.tolist())
    assert len(basis) == 3 < len(start)
    chances, counts = {}, Counter()
    runs = effort.runs(400, whole=1_200)
    for seed in range(runs):
        policy = linear.BlockBetting(problem, initial_pulls=initial_pulls, seed=seed)
        pulls = policy.ask(len(start))
        order = tuple(pull.action for pull in pulls)
        assert (set(order[:3]), set(order)) == (basis, start)
        chance = math.prod(pull.propensity for pull in pulls)
        assert chances.setdefault(order, chance) == pytest.approx(chance)
        counts[order] += 1
    assert math.fsum(chances.values()) == pytest.approx(1.0)
    expected = [runs * chances[order] for order in counts]
    assert chisquare(list(counts.values()), expected).pvalue > LEAST_P


def test_two_seeds_give_two_orders_and_one_seed_gives_one(make):
    orders = [[pull.action for pull in make(seed=seed).ask(20)] for seed in (1, 2, 1)]
    assert orders[0] == orders[2] != orders[1]


def test_a_policy_restored_after_every_pull_draws_as_one_that_never_paused(make):
    whole, current = make(seed=3), make(seed=3)
    for _ in range(120):
        pull, other = whole.ask(), current.ask()
        assert (pull.action, pull.propensity) == (other.action, other.propensity)
        whole.tell(pull, reward_of(pull))
        current.tell(other, reward_of(other))
        state = current.get_state()
        current = make(seed=3)
        current.set_state(state)
        if whole.stopped:
            break


def test_a_fixed_order_has_no_propensity_and_is_the_same_for_every_seed(make):
    one, other = (make(seed=seed, randomize=False).ask(25) for seed in (1, 2))
    assert [pull.action for pull in one] == [pull.action for pull in other]
    assert {pull.propensity for pull in one} == {None}
    assert "can be predicted" in " ".join(make(randomize=False).guarantee.assumptions)
    assert "can be predicted" not in " ".join(make().guarantee.assumptions)


def test_pulls_before_anything_can_be_planned_are_drawn_too(make):
    policy = make(seed=1, initial_pulls=1)
    pulls = policy.ask(200)
    extra = [pull for pull in pulls if serial_of.py_func(pull.tag) < 0]
    assert len(extra) > 100
    counts = Counter(pull.action for pull in extra)
    assert chisquare(list(counts.values())).pvalue > LEAST_P
    for number, pull in enumerate(extra):
        rivals = {other.action for other in extra if group_of(other) == group_of(pull)}
        if isinstance(policy, linear.BlockBetting):
            # No condition is repeated before all others had their turn.
            rivals -= {other.action for other in extra[number // 3 * 3 : number]}
            if number < policy.problem.rank:
                # The first ones are those of a basis.
                rivals &= set(policy.problem.basis_arms.tolist())
        assert pull.propensity == pytest.approx(1 / len(rivals))


# -------------------------------------------------------------------------- arrivals


def test_an_arrival_draws_among_what_is_left_for_its_group():
    policy = FAMILIES["subpopulations"](seed=2, initial_pulls=4)
    pulls = [policy.ask(group="y") for _ in range(12)]
    assert {pull.group for pull in pulls} == {"y"}
    assert Counter(pull.arm for pull in pulls) == {"a": 4, "b": 4, "c": 4}
    for number, pull in enumerate(pulls):
        assert pull.propensity == pytest.approx(share_of_first(pulls[number:]))


def test_an_arrival_for_whom_the_block_has_none_left_is_drawn_by_the_planned_shares():
    policy = FAMILIES["subpopulations"](seed=2)
    for _ in range(200):
        pull = policy.ask()
        policy.tell(pull, reward_of(pull))
    if policy.stopped:
        pytest.fail("the study was to be still running")
    beyond = [pull for pull in policy.ask(3_000, group="y") if pull.tag == -1]
    assert len(beyond) > 2_500
    shares = policy._blocks.state.shares.reshape(3, 2)[:, 1]
    expected = shares / shares.sum()
    counts = Counter(pull.arm for pull in beyond)
    observed = np.array([counts[arm] for arm in ("a", "b", "c")])
    assert (observed[expected == 0.0] == 0).all()
    kept = expected > 0.0
    assert chisquare(observed[kept], expected[kept] * len(beyond)).pvalue > LEAST_P
    assert {pull.arm: pull.propensity for pull in beyond} == pytest.approx(
        {arm: share for arm, share in zip("abc", expected, strict=True) if share}
    )


# ---------------------------------------------------------------------- tossed for


def test_an_arm_that_is_tossed_for_has_one_propensity_throughout_its_block(make):
    initial, *blocks = blocks_of(make(seed=4, randomize="bernoulli", batch=15), 400)
    assert len(blocks) > 1
    if initial[0].tag != -1:
        for number, pull in enumerate(initial):
            assert pull.propensity == pytest.approx(share_of_first(initial[number:]))
    for block in blocks:
        for pull in block:
            same = {other.propensity for other in block if other.action == pull.action}
            assert len(same) == 1
        arms = {(group_of(pull), pull.action): pull.propensity for pull in block}
        for group in {group_of(pull) for pull in block}:
            total = sum(share for (own, _), share in arms.items() if own == group)
            assert total <= 1 + 1e-12


def test_tossed_counts_follow_the_planned_shares_and_each_other_not():
    """Each pull of a block is independent of the one before it, unlike with drawn orders."""
    repeats, drawn_repeats, expected = 0, 0, 0.0
    runs = effort.runs(100, whole=300)
    for seed in range(runs):
        for randomize in ("bernoulli", True):
            policy = FAMILIES["delayed"](seed=seed, randomize=randomize, initial_pulls=2, batch=6)
            for pull in policy.ask(6):
                policy.tell(pull, reward_of(pull))
            block = policy.ask(6)
            same = sum(one.action == other.action for one, other in pairwise(block))
            if randomize == "bernoulli":
                repeats += same
                chances = {pull.action: pull.propensity for pull in block}
                rest = 1.0 - sum(chances.values())
                # An arm without pulls has the remaining probability.
                expected += 5 * (sum(share**2 for share in chances.values()) + rest**2)
            else:
                drawn_repeats += same
    # Each of 5 pairs per run agrees with probability near 1/3, so its deviation is below .5.
    assert repeats == pytest.approx(expected, abs=4 * 0.5 * np.sqrt(5 * runs))
    assert drawn_repeats < repeats


@pytest.mark.parametrize("order", [True, "bernoulli"])
def test_a_wrong_answer_stays_as_rare_in_random_order(order):
    """On a boundary: the better arm barely fails its floor. Error at most .1, within 4 sd."""
    problem = subpopulations.Problem(["a", "b"], ["x", "y"], floors=0.5, **RANGE)
    policy = subpopulations.BlockBetting(problem, delta=0.1, randomize=order, max_pulls=1_500)
    world = subpopulations.BernoulliEnvironment(problem, [[0.9, 0.4999], [0.55, 0.55]])
    wrong, runs = 0, effort.runs(150, whole=400)
    for seed in range(runs):
        clone = policy.clone(seed=seed)
        clone.compiled_run(world, np.random.default_rng(seed), None)
        wrong += clone.recommend().arm == "a"
    assert wrong / runs <= 0.1 + 4 * np.sqrt(0.1 * 0.9 / runs)


# ------------------------------------------------------------------------- bad input


@pytest.mark.parametrize("bad", [None, 1, 0, "Bernoulli", "", 0.5, [True], float("nan")])
def test_another_order_is_refused(make, bad):
    with raises(InvalidArgument, "randomize", given=bad):
        make(randomize=bad)


def test_tosses_are_refused_where_lost_pulls_are_made_again():
    with raises(InvalidArgument, "randomize"):
        FAMILIES["subpopulations"](randomize="bernoulli", losses="ignorable")


def test_a_secret_decides_the_order_whatever_the_seed_and_only_before_the_first_pull(make):
    def order(seed, secret):
        policy = make(seed=seed)
        policy.conceal(secret)
        return [pull.action for pull in policy.ask(20)]

    assert order(1, "x") == order(2, "x") != order(1, "y")
    policy = make(seed=1)
    policy.ask()
    with raises(NotSupported):
        policy.conceal("x")
