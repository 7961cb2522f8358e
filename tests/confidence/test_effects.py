"""Differences of arms: intervals from blocks, compared with slow calculations, and coverage."""

import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from fairtrial import delayed, linear, subpopulations
from fairtrial.confidence.bounds import NormalMixture
from fairtrial.confidence.effects import (
    BlockResults,
    Spread,
    difference_from_sums,
    difference_in_range,
    difference_of_arms,
    difference_with_noise,
    level_of_each,
)
from fairtrial.errors import InvalidArgument
from tests import effort
from tests.messages import raises

PRIOR = NormalMixture().prior
SINGLE = np.array([1.0, -1.0])


def blocks_of(values, centres=None, losses=None):
    """Return block results, given a list of results by action for each block."""
    counts = np.array([[len(own) for own in block] for block in values], dtype=float)
    centres = np.zeros_like(counts) if centres is None else np.array(centres, dtype=float)
    off = [
        [np.array(own) - centre for own, centre in zip(block, row, strict=True)]
        for block, row in zip(values, centres, strict=True)
    ]
    return BlockResults(
        counts,
        np.zeros_like(counts) if losses is None else np.array(losses, dtype=float),
        np.array([[own.sum() for own in block] for block in off]),
        np.array([[(own**2).sum() for own in block] for block in off]),
        centres,
    )


def draw_blocks(generator, blocks=6, means=(0.6, 0.4), most=9):
    counts = generator.integers(1, most, (blocks, len(means)))
    return [
        [generator.binomial(1, p, n).tolist() for p, n in zip(means, row, strict=True)]
        for row in counts
    ]


# ------------------------------------------------------------------------ known noise


def test_ends_under_known_noise_are_where_the_mixture_over_bets_reaches_its_threshold():
    generator = np.random.default_rng(1)
    results = blocks_of(draw_blocks(generator))
    weights = SINGLE / results.counts
    scale, level = np.array([1.0, 2.0]), 0.05
    found = difference_with_noise(results, weights, scale, level, one_of_each=5.0)
    variance = (weights**2 * results.counts * scale**2).sum(axis=1)
    seen = results.means_of(weights)
    for end in (found.lower, found.upper):
        deviation = float(((seen - end) / variance).sum())
        known = float((1.0 / variance).sum())
        bet = math.sqrt(1.0 / (PRIOR / 5.0))

        def product(x, deviation=deviation, known=known, bet=bet):
            density = math.exp(-0.5 * (x / bet) ** 2) / (bet * math.sqrt(2.0 * math.pi))
            return density * math.exp(x * deviation - 0.5 * x * x * known)

        wealth, _ = quad(product, -40 * bet, 40 * bet, points=[deviation / known], limit=400)
        assert wealth == pytest.approx(1.0 / level, rel=1e-6)


def test_from_all_results_ends_touch_the_ellipsoid_of_the_product_of_mixtures():
    counts, sums = np.array([12.0, 30.0, 5.0]), np.array([7.0, 11.0, 4.0])
    target, scale, level = np.array([1.0, -0.3, -0.7]), np.array([1.0, 0.5, 2.0]), 0.1
    found = difference_from_sums(counts, sums, target, Spread(scale), level)
    # By Lagrange, the farthest point on the ellipsoid is in the direction of the inverse metric.
    metric = counts**2 / (scale**2 * (counts + PRIOR))
    along = target / metric
    radius = 2 * math.log(1 / level) + np.log((counts + PRIOR) / PRIOR).sum()
    step = along * math.sqrt(radius / (along**2 * metric).sum())
    assert (target @ step) == pytest.approx(found.upper - found.estimate)
    surface = 0.5 * (metric * step**2).sum() - 0.5 * np.log((counts + PRIOR) / PRIOR).sum()
    assert math.exp(surface) == pytest.approx(1 / level)


@given(st.integers(0, 2**32), st.lists(st.floats(-1, 3), min_size=4, max_size=4))
def test_results_missing_from_all_count_as_whatever_they_might_have_been(seed, hidden):
    generator = np.random.default_rng(seed)
    spread, target = Spread(np.full(2, 2.0), (-1.0, 3.0)), np.array([1.0, -1.0])
    counts, missing = generator.integers(1, 9, 2).astype(float), np.array([3.0, 1.0])
    sums = counts * generator.uniform(-1, 3, 2)
    wide = difference_from_sums(counts, sums, target, spread, 0.1, missing=missing)
    whole = sums + np.array([sum(hidden[:3]), hidden[3]])
    narrow = difference_from_sums(counts + missing, whole, target, spread, 0.1)
    assert wide.lower <= narrow.lower + 1e-9
    assert narrow.upper <= wide.upper + 1e-9
    none = difference_from_sums(counts, sums, target, spread, 0.1)
    assert none == difference_from_sums(counts, sums, target, spread, 0.1, missing=0 * missing)


def test_with_known_noise_missing_results_are_left_out():
    given = np.array([5.0, 6.0]), np.array([3.0, 1.0]), SINGLE, Spread(np.ones(2)), 0.1
    assert difference_from_sums(*given, missing=np.array([2.0, 0.0])) == difference_from_sums(
        *given
    )


def test_without_a_control_the_interval_holds_against_each_arm_that_may_lead():
    assert level_of_each(0.05, 5, has_control=True) == 0.05
    assert level_of_each(0.05, 5, has_control=False) == pytest.approx(0.0125)
    assert level_of_each(0.05, 2, has_control=False) == 0.05


# ------------------------------------------------------------------- rewards in a range


def slow_log_e_value(values, difference, sign, level):
    """Return the logarithm of the e-value against a difference, result by result."""
    seen = [[0.5], [0.5]]
    squares = [[0.25], [0.25]]
    first = sum(0.25 / len(own) for own in values[0])
    logs = []
    for power in range(11):
        scale = 4.0**power
        target = math.sqrt(2 * math.log(2 / level) * first / scale)
        log = 0.0
        history = [list(own) for own in seen]
        spread = [list(own) for own in squares]
        for block in values:
            guesses = [sum(own) / len(own) for own in history]
            variances = [
                sum(s) / len(h) - (sum(h) / len(h) - 0.5) ** 2
                for s, h in zip(spread, history, strict=True)
            ]
            weights = [1 / len(block[0]), -1 / len(block[1])]
            variance = sum(
                w * w * len(own) * max(v, 1e-9)
                for w, own, v in zip(weights, block, variances, strict=True)
            )
            bet = min(target / variance, 0.5 / max(map(abs, weights)))
            for weight, own, guess in zip(weights, block, guesses, strict=True):
                for value in own:
                    stake = abs(bet * weight)
                    log += sign * bet * weight * value
                    log -= (-math.log(1 - stake) - stake) * (value - guess) ** 2
            log -= sign * bet * difference
            for arm, own in enumerate(block):
                history[arm] += own
                spread[arm] += [(value - 0.5) ** 2 for value in own]
        logs.append(log - math.log(11))
    return np.logaddexp.reduce(logs)


@pytest.mark.parametrize("seed", range(4))
def test_ends_in_a_range_are_where_the_e_value_of_single_results_reaches_its_threshold(seed):
    generator = np.random.default_rng(seed)
    values = draw_blocks(generator, blocks=12)
    results = blocks_of(values, centres=generator.random((12, 2)))
    found = difference_in_range(results, SINGLE / results.counts, 0.0, 1.0, 0.2)
    for sign, end in ((1.0, found.lower), (-1.0, found.upper)):
        assert abs(end) < 1.0
        slow = slow_log_e_value(values, end, sign, 0.2)
        assert slow == pytest.approx(math.log(10), abs=1e-6)


@given(st.integers(0, 2**32), st.lists(st.floats(0, 1), min_size=3, max_size=3))
def test_lost_results_make_the_interval_hold_whatever_they_would_have_been(seed, lost):
    values = draw_blocks(np.random.default_rng(seed), blocks=5)
    losses = np.zeros((5, 2))
    losses[1, 0], losses[2, 1], losses[4, 0] = 1, 1, 1
    results = blocks_of(values, losses=losses)
    wide = difference_in_range(results, SINGLE / results.drawn, 0.0, 1.0, 0.2)
    # Bets must not depend on the values of lost results, so only the last block is filled in.
    known = [[list(own) for own in block] for block in values]
    last = blocks_of(known, losses=losses)
    filled = last.with_losses_worth(np.where(losses > 0, lost[0], 0.0))
    losses[4] = 0
    partly = BlockResults(
        np.vstack([last.counts[:4], filled.counts[4:]]),
        losses,
        np.vstack([last.sums[:4], filled.sums[4:]]),
        np.vstack([last.squares[:4], filled.squares[4:]]),
        last.centres,
    )
    narrow = difference_in_range(partly, SINGLE / partly.drawn, 0.0, 1.0, 0.2)
    assert wide.lower <= narrow.lower + 1e-9
    assert narrow.upper <= wide.upper + 1e-9


@pytest.mark.parametrize("unit", [1e-140, 1e-3, 1e140])
@pytest.mark.parametrize("origin", [0.0, -0.5, 100.0])
def test_a_change_of_units_changes_the_interval_by_as_much(unit, origin):
    values = draw_blocks(np.random.default_rng(2), blocks=8)
    moved = [[[unit * (y + origin) for y in own] for own in block] for block in values]
    plain, other = blocks_of(values), blocks_of(moved, centres=np.full((8, 2), unit * origin))
    weights = SINGLE / plain.counts
    expected = difference_in_range(plain, weights, 0.0, 1.0, 0.1).times(unit)
    low, high = unit * origin, unit * (origin + 1.0)
    assert difference_in_range(other, weights, low, high, 0.1) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("unit", [1e-300, 1e-163, 1e160, 1e300])
@pytest.mark.parametrize("ranged", [True, False])
@pytest.mark.parametrize("direction", ["maximize", "minimize"])
@pytest.mark.parametrize("assigned", [False, True])
def test_no_unit_of_outcomes_changes_intervals(unit, ranged, direction, assigned):
    found = []
    for size in (1.0, unit):
        known = {"reward_range": (0.0, size)} if ranged else {"noise_std": 0.5 * size}
        problem = delayed.Problem(["a", "b"], direction=direction, control="a", **known)
        own = {"assigned": np.arange(70) % 2} if assigned else {}
        policy, generator = delayed.BlockBetting(problem, seed=1, **own), np.random.default_rng(0)
        for number in range(70):
            pull = policy.ask()
            if number % 9 == 8:
                policy.fail(pull)
            else:
                policy.tell(pull, size * float(generator.random() < 0.6))
        progress = policy.progress()
        ends = [(one.mean, one.lower, one.upper) for one in progress.arms]
        ends += [(one.difference, one.lower, one.upper) for one in progress.effects]
        assert len(ends) == 3
        found.append(np.array(ends, dtype=float) / size)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9)


def test_exchanging_the_arms_turns_the_interval_around():
    values = draw_blocks(np.random.default_rng(3))
    there = blocks_of(values)
    back = blocks_of([block[::-1] for block in values])
    for spread in (Spread(np.ones(2)), Spread(np.ones(2), (0.0, 1.0))):
        found = difference_of_arms(there, SINGLE, spread, 0.1)
        other = difference_of_arms(back, SINGLE, spread, 0.1)
        assert other == pytest.approx(found.times(-1.0))


def test_a_block_without_one_of_the_arms_does_not_move_the_interval():
    values = draw_blocks(np.random.default_rng(4))
    more = [*values, [[1, 1, 1], []]]
    spread = Spread(np.ones(2), (0.0, 1.0))
    found = difference_of_arms(blocks_of(more), SINGLE, spread, 0.1)
    without = difference_of_arms(blocks_of(values), SINGLE, spread, 0.1)
    assert (found.lower, found.upper) == (without.lower, without.upper)
    means = [np.mean(np.concatenate([block[arm] for block in more])) for arm in range(2)]
    assert found.estimate == pytest.approx(means[0] - means[1])
    assert difference_of_arms(blocks_of([[[1], []]]), SINGLE, spread, 0.1) is None


@pytest.mark.parametrize("means", [(0.5, 0.5), (0.05, 0.05), (0.98, 0.5)])
@pytest.mark.parametrize("ranged", [True, False])
def test_intervals_from_chosen_counts_rarely_ever_miss_the_difference(means, ranged):
    """The counts depend on the results so far; at level .2."""
    runs, generator = effort.runs(40, whole=300), np.random.default_rng(5)
    spread = Spread(np.full(2, 0.5), (0.0, 1.0) if ranged else None)
    missed = 0
    for _ in range(runs):
        values = []
        ever = False
        for _ in range(15):
            ahead = sum(sum(block[0]) - sum(block[1]) for block in values) > 0
            counts = (12, 3) if ahead else (3, 12)
            values.append(
                [generator.binomial(1, p, n).tolist() for p, n in zip(means, counts, strict=True)]
            )
            found = difference_of_arms(blocks_of(values), SINGLE, spread, 0.2)
            ever |= not found.lower <= means[0] - means[1] <= found.upper
        missed += ever
    assert missed / runs <= effort.tolerated(0.2, runs)


# ---------------------------------------------------------------------- live policies


def policies(control=None):
    ranged, noisy = {"reward_range": (0.0, 1.0)}, {"noise_std": 0.5}
    groups = {"arms": ["a", "b", "c"], "groups": ["x", "y"], "floors": None}
    features = [[1.0, 0.0], [1.0, 1.0], [1.0, 2.0], [1.0, 4.0]]
    named = {"arms": ["a", "b", "c", "d"], "control": control}
    for known, direction in itertools.product((ranged, noisy), ("maximize", "minimize")):
        yield subpopulations.BlockBetting(
            subpopulations.Problem(**groups, **known, direction=direction, control=control),
            delta=0.05,
            seed=1,
        )
        yield delayed.BlockBetting(
            delayed.Problem(["a", "b", "c"], **known, direction=direction, control=control),
            delta=0.05,
            seed=1,
        )
        yield linear.BlockBetting(
            linear.Problem(features, **named, **known, direction=direction), delta=0.05, seed=1
        )


def name_of(policy):
    problem = policy.problem
    known = "noise" if problem.reward_range is None else "range"
    return f"{problem.family}-{known}-{problem.direction}"


def outcome(generator, pull):
    mean = {"a": 0.5, "b": 0.6, "c": 0.4, "d": 0.3}[pull.arm]
    return float(generator.random() < mean)


def feed(policy, pulls, generator):
    for _ in range(pulls):
        if policy.stopped:
            break
        pull = policy.ask()
        policy.tell(pull, outcome(generator, pull))
    return policy


@pytest.mark.parametrize("policy", list(policies("b")), ids=name_of)
def test_arms_are_compared_with_the_control_as_stated_in_the_units_of_rewards(policy):
    feed(policy, 400, np.random.default_rng(1))
    effects = [effect for effect in policy.progress().effects if effect.group is None]
    others = [arm for arm in policy.problem.arms if arm != "b"]
    assert sorted(effect.arm for effect in effects) == others
    for effect in effects:
        assert effect.reference == "b"
        assert effect.lower <= effect.difference <= effect.upper
        if policy.problem.family != "linear":  # there means follow the features, not the labels
            true = {"a": -0.1, "c": -0.2}[effect.arm]
            assert effect.lower <= true <= effect.upper


def test_no_difference_of_features_is_larger_than_the_range_of_rewards():
    heats = {
        "base": ["K", "Cs"] * 6,
        "ligand": list("XSPD") * 3,
        "heat": [60] * 4 + [80] * 4 + [99] * 4,
    }
    problem = linear.Problem(heats, reward_range=(0, 100))
    policy = linear.BlockBetting(problem, seed=1)
    generator = np.random.default_rng(6)
    while not policy.progress().effects:
        pull = policy.ask()
        policy.tell(pull, float(generator.uniform(40, 60)))
    for effect in policy.progress().effects:
        assert -100 <= effect.lower <= effect.difference <= effect.upper <= 100


@pytest.mark.parametrize("policy", list(policies()), ids=name_of)
def test_without_a_control_arms_are_compared_with_the_leader(policy):
    assert policy.progress().effects == () or policy.progress().effects[0].lower is None
    feed(policy, 400, np.random.default_rng(2))
    progress = policy.progress()
    leader = progress.recommendation.leader
    leader = leader[0] if isinstance(leader, tuple) else leader
    assert {effect.reference for effect in progress.effects} == {leader}


@pytest.mark.parametrize("policy", list(policies()), ids=name_of)
def test_effects_are_those_of_their_moment_and_survive_saving(policy):
    generator = np.random.default_rng(3)
    then = feed(policy, 200, generator).progress()
    expected = then.effects
    twin = policy.clone()
    twin.set_state(policy.get_state())
    assert twin.progress().effects == expected
    feed(policy, 200, generator)
    assert then.effects == expected
    assert pickle.loads(pickle.dumps(then)).effects == expected


@pytest.mark.parametrize("policy", list(policies()), ids=name_of)
def test_a_corrected_result_gives_the_effects_of_the_right_one(policy):
    twin = policy.clone()
    generator = np.random.default_rng(4)
    for number in range(250):
        if policy.stopped or twin.stopped:
            break
        pull, same = policy.ask(), twin.ask()
        assert pull == same
        value = outcome(generator, pull)
        twin.tell(same, value)
        wrong = 1.0 - value if number % 10 == 0 else value
        policy.tell(pull, wrong)
        if wrong != value:
            policy.amend(pull, wrong, value)
    expected = twin.progress().effects
    for one, other in zip(policy.progress().effects, expected, strict=True):
        assert (one.arm, one.group) == (other.arm, other.group)
        assert (one.lower, one.upper) == pytest.approx((other.lower, other.upper), abs=1e-9)


@pytest.mark.parametrize("policy", list(policies("a")), ids=name_of)
def test_correcting_a_paid_result_moves_the_effect_of_its_arm(policy):
    generator = np.random.default_rng(5)
    arm = policy.problem.arms[-1]
    told = []
    while policy.told < 200 and not policy.stopped:
        pull = policy.ask()
        told.append((pull, outcome(generator, pull)))
        policy.tell(*told[-1])

    def difference():
        return next(e.difference for e in policy.progress().effects if e.arm == arm)

    before = difference()
    for pull, value in told[:60]:
        if pull.arm == arm:
            policy.amend(pull, value, 1.0)
    assert difference() > before


def test_without_blocks_all_results_count_and_intervals_are_wider():
    problem = subpopulations.Problem(["a", "b"], ["x", "y"], floors=None, noise_std=1.0)
    generator = np.random.default_rng(6)
    tracking = subpopulations.BalancedTracking(problem, delta=0.05)
    for _ in range(400):
        pull = tracking.ask()
        tracking.tell(pull, generator.normal({"a": 0.1, "b": 0.0}[pull.arm], 1.0))
    effect = tracking.progress().effects[0]
    assert effect.lower < 0.1 < effect.upper
    assert effect.upper - effect.lower > 2 * 2 * math.sqrt(2 / 200)


@pytest.mark.parametrize("policy", list(policies("a")), ids=name_of)
def test_a_policy_keeps_to_intervals_from_blocks_whatever_it_knows(policy, monkeypatch):
    """Each policy uses one kind of interval: two alternating kinds could both fail."""
    pull = policy.ask()
    policy.tell(pull, 0.5)
    assert not any(effect.lower is not None for effect in policy.progress().effects)
    feed(policy, 400, np.random.default_rng(2))
    assert policy.progress().effects
    policy._blocks.paid.floats = []
    assert policy.progress().effects == ()


def test_after_a_compiled_run_there_are_no_effects_as_its_blocks_are_not_kept():
    problem = subpopulations.Problem(["a", "b"], 2, floors=None, noise_std=1.0)
    environment = subpopulations.GaussianEnvironment(problem, [[1.0, 1.0], [0.0, 0.0]])
    policy = subpopulations.BlockBetting(problem, delta=0.05)
    policy.compiled_run(environment, np.random.default_rng(0), None)
    assert policy.progress().effects == ()


@pytest.mark.parametrize(
    "problem",
    [
        subpopulations.Problem(["a", "b"], 1, floors=None, reward_range=(0, 1), control="a"),
        delayed.Problem(["a", "b"], reward_range=(0, 1), control="a"),
    ],
    ids=lambda problem: problem.family,
)
def test_units_of_a_finished_experiment_without_a_result_count_as_the_worst(problem):
    generator = np.random.default_rng(3)
    assigned = generator.integers(0, 2, 300)
    family = {"subpopulations": subpopulations, "delayed": delayed}[problem.family]
    whole, lossy = (family.BlockBetting(problem, delta=0.05, assigned=assigned) for _ in range(2))
    for number in range(300):
        pull, same = whole.ask(), lossy.ask()
        value = float(generator.random() < (0.45, 0.5)[pull.action])
        whole.tell(pull, value)
        if number % 10 == 0:
            lossy.fail(same)
        else:
            lossy.tell(same, value)
    (narrow, *_), (wide, *_) = whole.progress().effects, lossy.progress().effects
    assert wide.lower < narrow.lower - 0.05 < 0.05 < narrow.upper + 0.05 < wide.upper
    assert wide.upper - wide.lower < narrow.upper - narrow.lower + 0.5


EXPERIMENTS = {
    "subpopulations": subpopulations.Problem(
        ["a", "b"], 1, floors=None, reward_range=(0, 1), control="a"
    ),
    "subpopulations, minimize": subpopulations.Problem(
        ["a", "b"], 1, floors=None, reward_range=(0, 1), control="a", direction="minimize"
    ),
    "delayed": delayed.Problem(["a", "b"], reward_range=(0, 1), control="a"),
    "known noise": subpopulations.Problem(["a", "b"], 1, floors=None, noise_std=0.5, control="a"),
}
FAMILIES = {"subpopulations": subpopulations, "delayed": delayed}


def analysed(problem, assigned, values, delta=0.05, rewritten=None):
    """Return the policy that was told the values of all units, None for one without a result.

    `rewritten` maps units to the values that they get first; they are corrected at the end.
    """
    policy = FAMILIES[problem.family].BlockBetting(problem, delta=delta, assigned=assigned)
    first = {**dict(enumerate(values)), **(rewritten or {})}
    pulls = {}
    for unit, action in enumerate(assigned):
        pull = None if policy.stopped else policy.ask()
        pulls[unit] = pull or problem.pull(**problem.labels(int(action)))
        if first[unit] is not None:
            policy.tell(pulls[unit], first[unit])
        elif pull is not None:
            policy.fail(pull)
        policy = restored(policy) if unit % 37 == 0 else policy
    for unit in rewritten or ():
        policy.amend(pulls[unit], first[unit], values[unit])
    return policy


def restored(policy):
    again = type(policy)(policy.problem, delta=policy.delta, assigned=policy.assigned)
    again.set_state(policy.get_state())
    return again


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_effect_of_a_finished_experiment_counts_all_its_units(name):
    generator = np.random.default_rng(8)
    assigned = generator.integers(0, 2, 600)
    values = generator.binomial(1, np.where(assigned == 1, 0.9, 0.2)).astype(float)
    policy = analysed(EXPERIMENTS[name], assigned, values)
    assert policy.asked < 300, "it decides long before the end"
    (effect,) = policy.progress().effects
    means = [values[assigned == arm].mean() for arm in (0, 1)]
    assert effect.difference == pytest.approx(means[1] - means[0])
    lowest = analysed(EXPERIMENTS[name], assigned[:300], values[:300]).progress().effects[0]
    assert effect.upper - effect.lower < 0.8 * (lowest.upper - lowest.lower)


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize("unit", [0, 1, 80, 550])
def test_a_corrected_unit_gives_the_effect_of_the_right_value(name, unit):
    """Before the blocks, in one of them, and after the policy has stopped."""
    generator = np.random.default_rng(9)
    assigned = np.arange(600) % 2
    values = generator.binomial(1, np.where(assigned == 1, 0.9, 0.2)).astype(float).tolist()
    right = analysed(EXPERIMENTS[name], assigned, values)
    amended = analysed(EXPERIMENTS[name], assigned, values, rewritten={unit: 1.0 - values[unit]})
    if amended.asked == right.asked:
        found, expected = (one.progress().effects[0] for one in (amended, right))
        assert found.difference == pytest.approx(expected.difference)
        assert (found.lower, found.upper) == pytest.approx((expected.lower, expected.upper))


@pytest.mark.parametrize("chance", [0.5, 0.03])
@pytest.mark.parametrize("family", ["subpopulations", "delayed"])
def test_intervals_of_finished_experiments_rarely_miss_although_bad_results_are_missing(
    family, chance
):
    """Half of the control's successes are missing; at level .2, at the end and at the stop."""
    runs, generator = effort.runs(15, whole=400), np.random.default_rng(11)
    missed, missed_means = 0, 0
    for _ in range(runs):
        assigned = generator.integers(0, 2, 240)
        values = generator.binomial(1, chance, 240).astype(float).tolist()
        hidden = generator.random(240) < 0.5
        told = [
            None if hide and value > 0 and arm == 0 else value
            for hide, value, arm in zip(hidden, values, assigned, strict=True)
        ]
        progress = analysed(EXPERIMENTS[family], assigned, told, delta=0.2).progress()
        (effect,) = progress.effects
        missed += not effect.lower <= 0.0 <= effect.upper
        missed_means += not progress.arms[0].lower <= chance <= progress.arms[0].upper
    assert missed / runs <= effort.tolerated(0.2, runs)
    assert missed_means / runs <= effort.tolerated(0.2, runs)


def test_a_failure_that_is_worth_a_value_counts_as_it_before_and_after_the_blocks():
    problem = delayed.Problem(["a", "b"], reward_range=(0, 1), control="a", failure_value=0.25)
    assigned = np.arange(400) % 2
    generator = np.random.default_rng(4)
    values = generator.random(400).round(2).tolist()
    failed = [None if unit % 5 == 0 else value for unit, value in enumerate(values)]
    valued = [0.25 if value is None else value for value in failed]
    plain = delayed.Problem(["a", "b"], reward_range=(0, 1), control="a")
    found, expected = analysed(problem, assigned, failed), analysed(plain, assigned, valued)
    assert found.asked == expected.asked == 400
    (one,), (other,) = found.progress().effects, expected.progress().effects
    assert (one.difference, one.lower, one.upper) == pytest.approx(
        (other.difference, other.lower, other.upper)
    )


# ------------------------------------------------------------------------------ linear


def test_a_linear_difference_is_that_of_least_squares_within_every_block():
    features = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0], [1.0, 4.0]])
    problem = linear.Problem(features, noise_std=1.0, control="0")
    policy = linear.BlockBetting(problem, delta=1e-6, batch=40, randomize=False)
    generator = np.random.default_rng(7)
    told = []
    while policy._blocks.planned < 4:
        pull = policy.ask()
        value = float(generator.normal(features[pull.action] @ [0.3, 0.1], 1.0))
        told.append((pull.tag, pull.action, value))
        policy.tell(pull, value)
    paid = len(policy._blocks.paid)
    seen, variances = [], []
    for serial in range(paid):
        rows = [(a, y) for tag, a, y in told if (tag if tag >= 0 else -2 - tag) == serial]
        design, values = features[[a for a, _ in rows]], np.array([y for _, y in rows])
        direction = features[3] - features[0]
        seen.append(direction @ np.linalg.lstsq(design, values, rcond=None)[0])
        variances.append(direction @ np.linalg.inv(design.T @ design) @ direction)
    weights = 1 / np.array(variances)
    effect = next(e for e in policy.progress().effects if e.arm == "3")
    assert (effect.lower + effect.upper) / 2 == pytest.approx(weights @ seen / weights.sum())
    means = {estimate.labels["arm"]: estimate.mean for estimate in policy.progress().arms}
    assert effect.difference == pytest.approx(means["3"] - means["0"])


@pytest.mark.parametrize("known", [{"noise_std": 0.1}, {"reward_range": (-2.0, 2.0)}])
def test_means_that_differ_from_linear_ones_as_far_as_stated_do_not_break_the_interval(known):
    features = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0], [1.0, 3.0]])
    bend = 0.3 * np.array([1.0, -1.0, -1.0, 1.0])
    means = features @ [0.5, 0.05] + bend
    problem = linear.Problem(features, **known, misspecification=0.3, control="0")
    policy = linear.BlockBetting(problem, delta=0.05, max_pulls=20_000, seed=1)
    generator = np.random.default_rng(8)
    while policy.told < 2_000 and not policy.stopped:
        pull = policy.ask()
        policy.tell(pull, float(np.clip(generator.normal(means[pull.action], 0.1), -2, 2)))
    for effect in policy.progress().effects:
        true = means[int(effect.arm)] - means[0]
        assert effect.lower <= true <= effect.upper


# --------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "make",
    [
        lambda control: subpopulations.Problem(["a", "b"], 1, noise_std=1.0, control=control),
        lambda control: delayed.Problem(["a", "b"], noise_std=1.0, control=control),
        lambda control: linear.Problem(
            [[1.0, 0.0], [0.0, 1.0]], arms=["a", "b"], noise_std=1.0, control=control
        ),
    ],
)
@pytest.mark.parametrize("control", ["placebo", 1, "", ["a"]])
def test_a_control_that_is_no_arm_is_refused(make, control):
    with raises(InvalidArgument, "control", given=control):
        make(control)
    assert make("b").control == "b"


def test_a_mean_is_in_the_range_of_its_results_wherever_that_begins() -> None:
    """The same results between 0 and 100, and between -20 and 80, which is 20 less."""
    found = []
    for low in (0.0, -20.0):
        ones = np.ones((4, 1))
        results = BlockResults(50 * ones, 2 * ones, 500 * ones, 9000 * ones, low * ones)
        spread = Spread(np.array([50.0]), (low, low + 100.0))
        found.append(difference_of_arms(results, np.array([1.0]), spread, 0.05))
    assert found[0].lower < 10.0 < found[0].upper
    assert [end + 20.0 for end in found[1]] == pytest.approx([*found[0]])
