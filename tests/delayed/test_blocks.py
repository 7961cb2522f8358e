"""Block betting on the best k: the theorem for all sets, order of arrival, losses, labels."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from benchmarks.top_sets import coins, normals, play_null
from fairtrial import subpopulations
from fairtrial.confidence.block_betting.bets import bounded_gain
from fairtrial.confidence.block_betting.planned_end import no_end
from fairtrial.core.run import run_policy
from fairtrial.delayed import (
    BlockBetting,
    CurveEnvironment,
    InformationRacing,
    OutcomeDelay,
    Problem,
    SimulatedEnvironment,
)
from fairtrial.delayed._kernels import block_bets, block_plans, top_sets
from fairtrial.errors import InvalidArgument, InvalidOutcome
from tests import effort
from tests.messages import raises

ARMS = ["a", "b", "c", "d"]
COINS = Problem(ARMS, top=2, reward_range=(0, 1))
MEANS = dict(zip(ARMS, [0.2, 0.3, 0.7, 0.8], strict=True))


def toss(rng, arm, means=MEANS):
    return float(rng.random() < means[arm])


# ------------------------------------------------------------------------- the theorem


def pair_of(rest, target, order):
    """Return the set's clearest arm outside the target, and the target's arm it lacks."""
    arms = range(len(order))
    joins = [arm for arm in arms if arm in rest and arm not in target]
    lacks = [arm for arm in arms if arm not in rest and arm in target]
    return min(joins, key=order.__getitem__), min(lacks, key=order.__getitem__)


def with_open_block(policy, means, planned):
    """Return rules and state of a policy with one open block, in slot 1, planned by these means."""
    rules, state = policy._rules, policy._blocks.state
    state.blocks.first[0], state.blocks.number[0] = 1, 1
    state.blocks.planned[1], state.plans.estimate[1] = planned, means
    top_sets.find_target(state.plans.estimate[1], rules.top, state.plans.inside[1])
    top_sets.find_places(state.plans.estimate[1], state.plans.inside[1], state.plans.place[1])
    block_plans.find_positions(state.plans.inside[1], state.plans.position[1])
    return rules, state


@pytest.mark.parametrize(("number", "top"), [(3, 1), (4, 1), (4, 2), (4, 3), (5, 2), (5, 3)])
def test_ledgers_never_exceed_the_wealth_against_any_set(number, top):
    rng = np.random.default_rng([number, top])
    sets = [frozenset(chosen) for chosen in itertools.combinations(range(number), top)]
    compared = exact = 0
    for _ in range(8):
        policy = BlockBetting(Problem(number, top=top, noise_std=1.0), delta=1e-3, seed=0)
        wealth, tenure, order = dict.fromkeys(sets, 0.0), None, None
        for _ in range(7):
            planned = rng.integers(1, 4, number)
            rules, state = with_open_block(policy, rng.normal(size=number), planned)
            state.plans.earlier[1], state.plans.spread[1] = rng.integers(2, 9, number), 1.0
            shared = state.wealth, state.plans, state.blocks, state.bets
            block_bets.place_bets(rules, state, 1)
            target = frozenset(np.flatnonzero(state.plans.inside[1]).tolist())
            if target != tenure:
                tenure, order = target, state.plans.place[1].tolist()
            state.blocks.results[1] = planned
            state.blocks.sums[1] = [rng.normal(size=results).sum() for results in planned]
            top_sets.carry(rules, state.wealth, state.plans.inside[1], state.plans.place[1])
            ledger, own = state.wealth.ledgers, state.wealth.ledgers.copy()
            block_bets.pay_bets(rules, *shared, 1, state.means)
            for chosen in sets:
                if chosen != target:
                    j, b = pair_of(chosen, target, order)
                    gain = ledger[j, b] - own[j, b] if own[j, b] < math.inf else 0.0
                    assert gain < math.inf
                    wealth[chosen] += gain
                    compared += 1
                    exact += abs(ledger[j, b] - wealth[chosen]) < 1e-9
                    assert ledger[j, b] <= wealth[chosen] + 1e-9
                else:
                    assert state.wealth.own[0] <= wealth[chosen] + 1e-9
    if top == 1 or top == number - 1:
        assert exact == compared


def test_no_bet_on_a_true_null_pays_on_average():
    rng = np.random.default_rng(4)
    for tolerance in (0.0, 0.15):
        for _ in range(15):
            policy = BlockBetting(Problem(2, reward_range=(0, 1), tolerance=tolerance), seed=0)
            rules, state = with_open_block(policy, [1.0, 0.0], [2, 3])
            state.plans.earlier[1] = rng.integers(3, 30, 2)
            state.plans.estimate[1] = rng.uniform(0.1, 0.9, 2)
            state.plans.spread[1] = rng.uniform(0.05, 0.25, 2)
            worse = rng.uniform(0.1, 0.8)
            means = [worse, worse + tolerance + rng.choice([0.0, 0.05])]
            # The bet is that arm 0 is better, but it is worse by at least the tolerance.
            state.bets.number[1], state.bets.ledger[1, 0] = 1, 2
            moved = rules, state.plans, state.blocks.planned[1], state.bets, 1
            block_bets.freeze(*moved, 0, 1, 0, no_end())
            frozen = state.bets.logs[1, 0].copy()
            total = 0.0
            for bits in itertools.product([0.0, 1.0], repeat=5):
                state.bets.received[1, 0] = 0
                state.bets.products[1, 0], state.bets.logs[1, 0] = 1.0, frozen
                chance = 1.0
                for arm, bit in zip([0, 0, 1, 1, 1], bits, strict=True):
                    chance *= means[arm] if bit else 1 - means[arm]
                    block_bets.multiply_bets(*moved, arm, bit)
                total += chance * math.exp(bounded_gain(state.bets, 1, 0))
            assert total <= 1.0 + 1e-9


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("means", "top", "draw", "tolerance"),
    [
        ([0.5, 0.5], 1, coins, 0.0),
        ([0.5] * 4, 2, coins, 0.0),
        ([1.0, 0.0, 0.0, -1.0], 2, normals, 0.0),
        ([0.7, 0.4999, 0.4], 1, coins, 0.2),
    ],
)
def test_the_right_set_is_seldom_rejected_on_hard_nulls(means, top, draw, tolerance):
    runs = effort.runs(50, whole=100)
    found = [play_null(np.array(means), top, draw, tolerance, seed, 300) for seed in range(runs)]
    # Four standard errors above delta = .1; 2,000 runs of each are in benchmarks/top_sets.py.
    assert sum(run[1] for run in found) <= 0.1 * runs + 4 * math.sqrt(0.09 * runs)


# ---------------------------------------------------------------------------- decisions


def first_open_block(policy):
    return int(policy._blocks.state.blocks.first[0])


def race(policy, seed, means=MEANS, late=0, order=None):
    """Run to completion with up to `late` pulls in flight, told in random order."""
    rng = np.random.default_rng(seed)
    pending = []
    while not policy.stopped and policy.told < 5000:
        while len(pending) <= late:
            pull = policy.ask()
            pending.append((pull, toss(rng, pull.arm, means)))
        entry = pending.pop(rng.integers(len(pending)) if order is None else order(pending))
        policy.tell(*entry)
    return policy


@pytest.mark.parametrize("top", [1, 2, 3])
@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_the_best_arms_are_found_by_their_range_alone(top, direction):
    problem = Problem(ARMS, top=top, reward_range=(0, 1), direction=direction)
    policy = race(BlockBetting(problem, seed=0), seed=top, late=6)
    best = ARMS[::-1] if direction == "maximize" else ARMS
    assert set(policy.recommend().arm) == set(best[:top])
    assert policy.guarantee.proven
    assert policy.recommend().candidates == tuple(arm for arm in ARMS if arm in best[:top])
    progress = policy.progress()
    assert progress.evidence == progress.threshold > 0
    for estimate in progress.arms:
        assert 0.0 <= estimate.lower <= MEANS[estimate.labels["arm"]] <= estimate.upper <= 1.0


def test_one_arm_takes_as_many_pulls_as_block_betting_of_one_group():
    means = {"a": 0.9, "b": 0.88, "c": 0.85, "d": 0.8}
    plain = subpopulations.Problem(ARMS, ["all"], floors=None, reward_range=(0, 1))
    own, other, known = [], [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        for policy, told in (
            (BlockBetting(Problem(ARMS, reward_range=(0, 1)), seed=0), own),
            (subpopulations.BlockBetting(plain, seed=0), other),
            (InformationRacing(Problem(ARMS, reward_range=(0, 1)), max_pulls=2000), known),
        ):
            while not policy.stopped:
                pull = policy.ask()
                policy.tell(pull, float(np.clip(means[pull.arm] + 0.02 * rng.normal(), 0, 1)))
            told.append(policy.told)
            assert policy.recommend().arm in ("a", ("a",), None)
    assert np.mean(own) <= 1.15 * np.mean(other)
    # The race assumes half the range as its scale, so it has not decided after 2,000.
    assert min(known) == 2000


def test_candidates_shrink_to_the_answer_and_keep_the_best():
    policy, rng = BlockBetting(COINS, seed=0), np.random.default_rng(5)
    sizes = []
    while not policy.stopped:
        pull = policy.ask()
        policy.tell(pull, toss(rng, pull.arm))
        answer = policy.recommend()
        assert {"c", "d"} <= set(answer.candidates)
        sizes.append(len(answer.candidates))
    assert sizes[0] == 4
    assert sizes[-1] == 2


def test_delays_may_depend_on_outcomes():
    problem = Problem(2, noise_std=1.0, delay_depends_on_outcome=True)
    environment = SimulatedEnvironment(
        problem, [0.0, 0.3], delay=OutcomeDelay([50, 1], [50, 20000])
    )
    for seed in range(8):
        policy = BlockBetting(problem, seed=0)
        run = run_policy(policy, environment, np.random.default_rng([seed, 5]), 400, parallel=60)
        # A race without the switch gets this wrong nearly always.
        assert run.answer in (None, ("1",))


def test_the_order_of_arrival_changes_no_evidence():
    values = np.random.default_rng(1).random(200)
    found = []
    for reverse in (False, True):
        policy = BlockBetting(COINS, seed=0)
        for _ in range(3):
            pulls = policy.ask(40 if policy.told == 0 else 12)
            for pull in pulls[::-1] if reverse else pulls:
                policy.tell(pull, float(values[pull.number] < MEANS[pull.arm]))
        found.append((policy._blocks.state.wealth.ledgers.copy(), policy.recommend().candidates))
    assert np.allclose(found[0][0], found[1][0], atol=1e-9)
    assert found[0][1] == found[1][1]


# ------------------------------------------------------------------- losses and labels


def test_losses_of_whatever_value_never_help_a_worse_arm():
    wrong = 0
    for seed in range(20):
        policy, rng = (
            BlockBetting(Problem(2, reward_range=(0, 1)), seed=0),
            np.random.default_rng(seed),
        )
        while not policy.stopped and policy.asked < 1200:
            pull = policy.ask()
            value = float(rng.random() < 0.5 + 0.01 * pull.action)
            # The better arm's good results are lost.
            if pull.action and value and rng.random() < 0.6:
                policy.fail(pull, "timeout")
            else:
                policy.tell(pull, value)
        wrong += policy.recommend().arm == ("0",)
        assert policy.guarantee.proven
    # At delta .05, more than 5 of 20 wrong answers have a probability below .001.
    assert wrong <= 5


def test_every_loss_with_known_noise_takes_the_proof_away_until_its_result_comes():
    problem = Problem(2, noise_std=1.0)
    policy = BlockBetting(problem, seed=0)
    pulls = policy.ask(10)
    policy.fail(pulls[0], "lost")
    for pull in pulls[1:]:
        policy.tell(pull, 0.1 * pull.number)
    # No bet was placed on it, but means and effects leave it out.
    assert not policy.guarantee.proven
    policy.tell(pulls[0], 0.0)
    assert policy.guarantee.proven
    late = policy.ask()
    policy.fail(late, "lost")
    assert not policy.guarantee.proven
    policy.tell(late, 0.0)
    # Its block is still open: it was only late.
    assert policy.guarantee.proven
    declared = BlockBetting(problem.clone(failure="independent"), seed=0)
    for pull in declared.ask(10):
        declared.tell(pull, 0.1 * pull.number)
    declared.fail(declared.ask(), "lost")
    assert declared.guarantee.proven


@pytest.mark.parametrize("fails", [True, False])
def test_a_warning_names_an_arm_without_results_that_all_comparisons_wait_for(fails):
    policy = BlockBetting(Problem(["a", "b", "c"], noise_std=1.0), delta=0.05, seed=1)
    for _ in range(200):
        pull = policy.ask()
        if pull.arm != "b":
            policy.tell(pull, 0.5)
        elif fails:
            policy.fail(pull)
    assert "no result of b has come: nothing can be compared before one does" in policy.warnings()


def test_a_late_result_of_an_initial_pull_forgives_no_other_loss():
    policy = BlockBetting(Problem(2, noise_std=1.0), initial_pulls=2, seed=0)
    first, second, third, _ = policy.ask(4)
    policy.fail(first, "lost")
    policy.tell(second, 0.0)
    policy.tell(third, 0.5)
    assert not policy.guarantee.proven
    policy.fail(next(pull for pull in policy.ask(4) if pull.action == first.action), "lost")
    assert not policy.guarantee.proven
    policy.tell(first, 0.0)
    assert not policy.guarantee.proven


def test_a_pull_that_fails_after_the_stop_is_in_no_bet():
    policy = BlockBetting(COINS, max_pulls=42, seed=0)
    for pull in policy.ask(40):
        policy.tell(pull, float(pull.number % 2))
    told, failed = policy.ask(2)
    policy.tell(told, 1.0)
    policy.tell(COINS.pull(arm="a"), 1.0)
    assert policy.stopped
    blocks = policy._blocks.state.blocks
    waiting = blocks.waiting.sum()
    policy.fail(failed, "cancelled")
    policy.tell(failed, 1.0)
    assert policy.told == 43
    assert blocks.waiting.sum() == waiting


def test_a_late_result_counts_in_its_block_and_after_it():
    early, lost = BlockBetting(COINS, seed=0), BlockBetting(COINS, seed=0)
    for policy in (early, lost):
        for pull in policy.ask(40):
            policy.tell(pull, float(pull.arm in "cd"))
        first, second, *rest = policy.ask(8)
        policy.fail(first, "lost")
        if policy is early:
            policy.tell(first, float(first.arm in "cd"))
        for pull in (second, *rest):
            policy.tell(pull, float(pull.arm in "cd"))
        assert first_open_block(policy) == 2
        if policy is lost:
            policy.tell(first, float(first.arm in "cd"))
        assert policy.guarantee.proven
    inside, outside = early._blocks.state.wealth.ledgers, lost._blocks.state.wealth.ledgers
    np.testing.assert_allclose(outside, inside, rtol=1e-12)


def test_corrections_count_before_bets_are_settled_and_after():
    policy = BlockBetting(COINS, seed=0)
    first = policy.ask(40)
    for pull in first:
        policy.tell(pull, float(pull.number % 2))
    second = policy.ask(8)
    policy.tell(second[0], 1.0)
    policy.amend(second[0], 1.0, 0.0)
    assert policy._blocks.state.blocks.sums[1].sum() == 0.0
    assert (
        policy.guarantee.assumptions[-1]
        == "after 1 correction of results that bets use, every value is the true one"
    )
    policy.tell(COINS.pull(arm="a"), 1.0)
    policy.amend(COINS.pull(arm="a"), 1.0, 0.0)
    assert policy.guarantee.proven
    for pull in [*second[1:], *policy.ask(int(policy._blocks.state.blocks.unissued[1]))]:
        policy.tell(pull, 1.0)
    assert first_open_block(policy) == 2
    before = policy._blocks.state.wealth.ledgers.copy()
    policy.amend(second[1], 1.0, 0.0)
    assert not np.array_equal(policy._blocks.state.wealth.ledgers, before)
    assert (
        policy.guarantee.assumptions[-1]
        == "after 2 corrections of results that bets use, every value is the true one"
    )
    assert policy.guarantee.proven
    untouched = BlockBetting(COINS, seed=0)
    pulls = untouched.ask(40)
    for pull in pulls:
        untouched.tell(pull, float(pull.number % 2))
    untouched.amend(pulls[0], 0.0, 1.0)
    # The initial pulls are not part of any bet.
    assert untouched.guarantee.proven


def test_a_failure_value_counts_as_an_outcome():
    problem = Problem(2, reward_range=(0, 1), failure_value=0.0)
    policy, rng = BlockBetting(problem, seed=0), np.random.default_rng(0)
    while not policy.stopped:
        pull = policy.ask()
        if pull.arm == "1" and rng.random() < 0.7:
            policy.fail(pull, "timeout")
        else:
            policy.tell(pull, 0.6 if pull.arm == "1" else 0.5)
    assert policy.recommend().arm == ("0",)
    assert policy.guarantee.proven
    # Pulls that are cancelled at the stop did not fail for their own reasons.
    before = policy.progress().arms
    for pull in policy.outstanding():
        policy.fail(pull, "cancelled")
    assert policy.progress().arms == before


def test_a_late_outcome_replaces_the_failure_value():
    problem = Problem(2, reward_range=(0, 1), failure_value=0.0)
    policy = BlockBetting(problem, seed=0)
    pulls = policy.ask(20)
    policy.fail(pulls[0], "timeout")
    assert policy.progress().arms[pulls[0].action].mean == 0.0
    policy.tell(pulls[0], 0.75)
    assert policy.progress().arms[pulls[0].action].mean == 0.75
    assert policy.guarantee.proven


def test_results_that_count_do_not_include_failed_pulls_that_count_as_a_value():
    policy = BlockBetting(Problem(2, reward_range=(0, 1), failure_value=0.0), seed=0)
    failed, *others = policy.ask(20)
    policy.fail(failed, "timeout")
    for pull in others:
        policy.tell(pull, 0.5)
    first, second = policy.ask(2)
    policy.tell(first, 0.5)
    progress = policy.progress()
    assert (progress.told, progress.settled) == (20, 19)
    policy.fail(second, "timeout")
    assert policy.progress().settled == 19
    policy.tell(failed, 1.0)
    progress = policy.progress()
    assert (progress.told, progress.settled) == (21, 20)


def test_too_small_a_noise_takes_the_proof_away():
    policy, rng = BlockBetting(Problem(2, noise_std=1.0), seed=0), np.random.default_rng(1)
    while not policy.stopped and policy.told < 60:
        policy.tell(policy.ask(), 5.0 * rng.normal())
    assert not policy.guarantee.proven
    assert "spread far more widely" in policy.guarantee.assumptions[-1]
    assert "spread far more widely" in policy.warnings()[0]


def test_pulls_that_no_bet_needs_are_called_back_and_cost_no_proof():
    problem = Problem(3, noise_std=1.0)
    policy, rng = BlockBetting(problem, delta=0.01, seed=0), np.random.default_rng(2)
    pending, called_back = [], 0
    means = [0.0, 0.4, -6.0]
    while not policy.stopped and policy.asked < 3000:
        pending += policy.ask(12 - len(pending))
        for pull in policy.to_cancel():
            if not policy.stopped:
                called_back += 1
                assert pull.arm == "2"
                policy.fail(pull, "cancelled")
                pending.remove(pull)
        pull = pending.pop(0)
        policy.tell(pull, means[pull.action] + rng.normal())
    assert policy.recommend().arm == ("1",)
    assert policy.guarantee.proven


# --------------------------------------------------------------------- scales and input


def asked_in_units_of(size, bounded):
    """Return the arms of all pulls if all numbers are multiplied by `size`."""
    noise = {"reward_range": (0, size)} if bounded else {"noise_std": size}
    policy = BlockBetting(Problem(ARMS, top=2, **noise), seed=0)
    rng, asked = np.random.default_rng(9), []
    while not policy.stopped and policy.told < 500:
        pull = policy.ask()
        asked.append(pull.action)
        value = toss(rng, pull.arm) if bounded else 2 * MEANS[pull.arm] + rng.normal()
        policy.tell(pull, value * size)
    assert set(policy.recommend().arm) == {"c", "d"}
    return asked


@pytest.mark.parametrize("size", [2.0**-900, 2.0**-530, 2.0**530, 2.0**900])
@pytest.mark.parametrize("bounded", [True, False])
def test_another_unit_gives_the_same_pulls_and_answer(size, bounded):
    assert asked_in_units_of(size, bounded) == asked_in_units_of(1.0, bounded)


def test_a_range_far_from_zero_costs_nothing():
    def told(low):
        policy = BlockBetting(Problem(ARMS, top=2, reward_range=(low, low + 1)), seed=0)
        rng = np.random.default_rng(4)
        while not policy.stopped:
            pull = policy.ask()
            policy.tell(pull, low + toss(rng, pull.arm))
        return policy.told

    assert told(0.0) == told(1e9) == told(-1e9)


def test_equal_values_are_never_told_apart():
    for value in (0.0, 0.5, 1.0):
        policy = BlockBetting(COINS, max_pulls=300, seed=0)
        while not policy.stopped:
            policy.tell(policy.ask(), value)
        assert policy.recommend().status == "undecided"
        assert policy.recommend().candidates == tuple(ARMS)


def test_a_tolerance_lets_close_arms_end():
    close = {"a": 0.5, "b": 0.5, "c": 0.5, "d": 0.9}
    problem = Problem(ARMS, top=2, reward_range=(0, 1), tolerance=0.3)
    policy = race(BlockBetting(problem, seed=0), seed=0, means=close)
    assert "d" in policy.recommend().arm
    assert policy.recommend().candidates is None


def test_nothing_is_asked_where_every_arm_is_wanted():
    policy = BlockBetting(Problem(2, top=2, reward_range=(0, 1)), seed=0)
    assert policy.stopped
    assert policy.recommend().arm == ("0", "1")


def test_what_is_not_covered_is_refused():
    with raises(InvalidArgument, "problem"):
        BlockBetting(Problem(2, noise_std="estimated"), seed=0)
    with raises(InvalidArgument, "initial_pulls"):
        BlockBetting(COINS, initial_pulls=0, seed=0)
    with raises(InvalidArgument, "noise_std"):
        BlockBetting(Problem(2, noise_std=[1e-20, 1.0]), seed=0)
    with raises(InvalidArgument, "problem"):
        BlockBetting(Problem(2, reward_range=(-1.7e308, 1.7e308)), seed=0)
    policy = BlockBetting(Problem(2, noise_std=1e-12), seed=0)
    pull = policy.ask()
    with raises(InvalidOutcome, "outcome"):
        policy.tell(pull, 1.0)
    assert policy.told == 0


def test_it_is_the_default_where_outcomes_alone_count_and_have_a_range():
    assert COINS.default_policy == "BlockBetting"
    assert Problem(2, noise_std=1.0).default_policy == "InformationRacing"
    read = Problem(2, reward_range=(0, 1), feedback="unbiased", reading_std=0.1)
    assert read.default_policy == "Racing"


def test_readings_are_ignored():
    problem = Problem(2, noise_std=1.0, feedback="unbiased", reading_std=0.1)
    policy = BlockBetting(problem, seed=0)
    pull = policy.ask()
    policy.report(pull, 5.0, stage=1)
    policy.tell(pull, 1.0)
    policy.report(pull, 5.0, stage=2)
    assert policy.progress().arms[pull.action].mean == 1.0


# --------------------------------------------------------------------------- adversaries


@pytest.mark.statistical
@pytest.mark.parametrize("bounded", [True, False])
def test_whoever_picks_which_results_come_first_wins_nothing(bounded):
    noise = {"reward_range": (0, 1)} if bounded else {"noise_std": 1.0}
    wrong, runs = 0, effort.runs(25, whole=60)
    for seed in range(runs):
        policy, rng = (
            BlockBetting(Problem(2, **noise), delta=0.1, seed=0),
            np.random.default_rng(seed),
        )
        pending = []
        while not policy.stopped and policy.told < 120:
            while len(pending) < 16:
                pull = policy.ask()
                value = 0.01 * pull.action + rng.normal()
                pending.append((pull, float(value > 0.0) if bounded else value))
            # First the worse arm's good results and the better arm's bad ones.
            suits = [(1 - 2 * pull.action) * value for pull, value in pending]
            policy.tell(*pending.pop(int(np.argmax(suits))))
        wrong += policy.recommend().arm == ("0",)
    # Three standard errors above delta; a race without the switch is wrong in half of such runs.
    assert wrong <= 0.1 * runs + 3 * math.sqrt(0.09 * runs)


def test_intervals_follow_corrections_of_the_initial_pulls():
    policy = BlockBetting(Problem(["a", "b"], noise_std=1.0), delta=0.05, seed=1)
    told = [(policy.ask(), 0.5) for _ in range(30)]
    for pull, value in told:
        policy.tell(pull, value)
    before = policy.progress().arms[0]
    first = next(pull for pull, _ in told if pull.arm == "a")
    assert first.tag < -1
    policy.amend(first, 0.5, 3.5)
    after = policy.progress().arms[0]
    assert after.upper - before.upper == pytest.approx(after.lower - before.lower)
    assert after.lower > before.lower


def recorded_curves(problem, kind):
    """Return curves whose last points come soon or late; every twelfth of `forever` never."""
    rng = np.random.default_rng(0)
    rows = {"arm": [], "curve": [], "elapsed": [], "value": []}
    for place, arm in enumerate(problem.arms):
        for curve in range(80):
            value = float(np.clip(0.35 + 0.1 * place + 0.2 * rng.standard_normal(), 0, 1))
            delay = {
                "lognormal": float(np.exp(1.8 + 1.2 * rng.standard_normal())),
                "worse is later": 1 + 30 * (1 - value),
                "equal": 5.0,
                "forever": 1e7 if curve % 12 == 0 else 5.0,
            }[kind]
            for column, entry in zip(rows, (arm, curve, delay, value), strict=True):
                rows[column].append(entry)
    return CurveEnvironment(problem, rows)


@pytest.mark.parametrize("kind", ["lognormal", "worse is later", "equal", "forever"])
@pytest.mark.parametrize(("top", "parallel"), [(1, 1), (1, 12), (2, 50)])
def test_a_compiled_run_counts_open_pulls_as_the_plain_loop_does(kind, top, parallel):
    problem = Problem(4, top=top, reward_range=(0, 1))
    environment = recorded_curves(problem, kind)
    slow, fast = BlockBetting(problem, seed=1), BlockBetting(problem, seed=1)
    expected = run_policy(slow, environment, np.random.default_rng(3), 800, parallel)
    found = fast.compiled_run(environment, np.random.default_rng(3), 800, parallel)
    assert found.pulls.tolist() == expected.pulls.tolist()
    for name in ("answer", "status", "stopping_time", "elapsed", "cancelled"):
        assert getattr(found, name) == getattr(expected, name), name
    assert np.array_equal(
        slow._blocks.state.wealth.ledgers, fast._blocks.state.wealth.ledgers, equal_nan=True
    )
    is_overdue = len(fast._blocks.overdue) > 0
    if kind == "equal" or parallel == 1:
        assert not is_overdue
    elif kind == "forever":
        assert is_overdue
        assert found.status == "decided"
