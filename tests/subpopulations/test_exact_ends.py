"""Exact bets of a planned end: two arms whose rewards are 0 or 1."""

import itertools
import math
from functools import cache

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import hypergeom, norm

from fairtrial.confidence.block_betting.end_bets import log_end_bet
from fairtrial.confidence.block_betting.exact_bets import hypergeometric, log_exact_bet
from fairtrial.errors import InvalidArgument, InvalidOutcome, NotSupported
from fairtrial.subpopulations import (
    BernoulliEnvironment,
    BlockBetting,
    Problem,
    ReplayEnvironment,
)
from tests import effort
from tests.messages import raises
from tests.subpopulations.block_views import ledgers_of
from tests.subpopulations.test_blocks import saved

BINARY = {"floors": None, "reward_range": (0, 1), "outcomes": "binary"}
TWO_ARMS = Problem(2, 1, **BINARY)
END = {"max_pulls": 200, "planned_end": True}


def policy_of(problem: Problem = TWO_ARMS, delta: float = 0.05, **options: object) -> BlockBetting:
    return BlockBetting(problem, delta, **{**END, **options}, seed=0)


# ------------------------------------------------------------------ a slow implementation


def slow_bet(
    need: float, later: float, pulls: tuple[int, int], ones: tuple[int, int], extra: float = 1e-6
) -> float:
    """Return the log of what a block pays; pulls and ones of the target come first."""
    alpha = math.exp(-need - extra)
    of_target = hypergeom(sum(pulls), sum(ones), pulls[0])
    if later == 0:
        return need + extra if of_target.sf(ones[0] - 1) <= alpha else -700.0
    support = np.arange(max(0, sum(ones) - pulls[1]), min(sum(ones), pulls[0]) + 1)
    expected = sum(ones) * pulls[0] / sum(pulls)
    scores, chances = support - expected, of_target.pmf(support)

    def crosses(distance: np.ndarray | float) -> np.ndarray:
        return np.minimum(1.0, 2 * norm.sf(distance / math.sqrt(later)))

    def excess(level: float) -> float:
        return math.log(chances @ crosses(level - scores) / alpha)

    level = brentq(excess, scores.min(), scores.max() + 36 * math.sqrt(later), xtol=1e-12)
    paid = crosses(level - (ones[0] - expected)) / alpha
    return max(-700.0, math.log(max(float(paid), 1e-320)))


class Slow:
    """The evidence of a policy, from the plans of its blocks and all results of each."""

    def __init__(self, policy: BlockBetting, delta: float, end: int) -> None:
        self.need = -math.log(delta)
        self.evidence = [0.0, 0.0]
        self.left, self.end = end, end
        self.came = self.ones = 0

    def open(self, planned: tuple[int, int], ones_told: int, told: int) -> None:
        self.left -= sum(planned)
        self.planned = planned
        share = (ones_told + 0.5) / (told + 1)
        self.later = self.left / 4 * share * (1 - share)
        self.needs = [self.need - evidence for evidence in self.evidence]

    def pay(self, ones: tuple[int, int], missing: tuple[int, int] = (0, 0)) -> None:
        for rival in (0, 1):
            target = 1 - rival
            pulls = self.planned[target], self.planned[rival]
            counted = ones[target], ones[rival] + missing[rival]
            self.evidence[rival] += slow_bet(self.needs[rival], self.later, pulls, counted)


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
@pytest.mark.parametrize("fails", [0.0, 0.2])
def test_every_block_pays_what_the_slow_implementation_pays(direction: str, fails: float) -> None:
    problem = Problem(2, 1, **BINARY, direction=direction)
    policy = policy_of(problem, delta=0.01)
    slow, rng = Slow(policy, 0.01, 200), np.random.default_rng(4)
    blocks = policy._blocks.state.blocks
    told = good = paid = 0
    while not policy.stopped:
        ones, missing = [0, 0], [0, 0]
        pulls = [policy.ask()]
        slow.open(tuple(blocks.planned[blocks.first[0] % 2].astype(int)), good, told)
        pulls += policy.ask(sum(slow.planned) - 1)
        for pull in pulls:
            if rng.random() < fails:
                policy.fail(pull)
                missing[pull.action] += 1
                continue
            value = float(rng.random() < (0.5, 0.65)[pull.action])
            policy.tell(pull, value)
            better = value if direction == "maximize" else 1 - value
            ones[pull.action] += int(better)
            told, good = told + 1, good + int(better)
        slow.pay((ones[0], ones[1]), (missing[0], missing[1]))
        paid += 1
        assert policy._wealth[:2].tolist() == pytest.approx(slow.evidence, abs=1e-6)
    assert paid > 10


# ---------------------------------------------------------------- the mathematics of a bet


@pytest.mark.parametrize(
    ("first", "second", "ones"),
    [(3, 4, 2), (1, 9, 10), (10, 10, 0), (0, 5, 2), (200, 150, 41), (2_000, 2_000, 2_000)],
)
def test_chances_are_hypergeometric(first: int, second: int, ones: int) -> None:
    least, chances = hypergeometric(first, second, ones)
    known = hypergeom(first + second, ones, first).pmf(least + np.arange(chances.size))
    assert chances == pytest.approx(known, rel=1e-9, abs=1e-300)


BLOCKS = [(3, 3), (2, 5), (6, 1), (10, 10), (0, 4)]


@pytest.mark.parametrize("later", [0.0, 0.05, 2.0, 1e4])
@pytest.mark.parametrize("need", [1e-3, 0.7, 3.0, 12.0])
@pytest.mark.parametrize("pulls", BLOCKS)
def test_given_all_ones_a_bet_gains_nothing_on_average(
    pulls: tuple[int, int], need: float, later: float
) -> None:
    for ones in range(sum(pulls) + 1):
        least, chances = hypergeometric(*pulls, ones)
        outcomes = range(least, least + chances.size)
        paid = [math.exp(log_exact_bet(need, later, *pulls, k, ones - k)) for k in outcomes]
        assert chances @ paid <= 1.0 + 1e-12
        assert later == 0.0 or chances @ paid >= 1.0 - 1e-5
        assert max(paid) <= math.exp(need + 2e-6)


@pytest.mark.parametrize("later", [0.0, 0.05, 2.0, 1e4])
@pytest.mark.parametrize("need", [1e-3, 0.7, 3.0, 12.0])
@pytest.mark.parametrize("pulls", BLOCKS)
def test_a_one_of_the_target_never_costs_and_one_of_the_rival_never_pays(
    pulls: tuple[int, int], need: float, later: float
) -> None:
    """So the worst value of a missing result is 0 for the target and 1 for the rival."""
    paid = np.array(
        [
            [log_exact_bet(need, later, *pulls, own, other) for other in range(pulls[1] + 1)]
            for own in range(pulls[0] + 1)
        ]
    )
    assert (np.diff(paid, axis=0) >= -1e-9).all()
    assert (np.diff(paid, axis=1) <= 1e-9).all()


def test_large_blocks_pay_as_bets_for_normal_noise_do() -> None:
    pulls, ones = (20_000, 20_000), (6_120, 5_950)
    inside = float(hypergeom.var(40_000, sum(ones), 20_000))
    score = (ones[0] - ones[1]) / 2
    of_normal = log_end_bet(3.0, inside, 2 * inside, score)
    assert log_exact_bet(3.0, 2 * inside, *pulls, *ones) == pytest.approx(of_normal, abs=0.01)


@pytest.mark.parametrize("need", [1e-300, 1.0, 600.0, 703.0, 1e5])
@pytest.mark.parametrize("later", [0.0, 1e-300, 1e300])
def test_extreme_needs_and_ends_pay_finite_amounts(need: float, later: float) -> None:
    for ones in [(50, 0), (0, 50), (0, 0), (50, 50)]:
        assert math.isfinite(log_exact_bet(need, later, 50, 50, *ones))
        assert math.isfinite(log_end_bet(need, 1.0, later, 1e3 * (ones[0] - ones[1])))


def exact_error(block: int, blocks: int, delta: float, chance: float) -> float:
    """Return the probability that blocks of equal arms ever reject the first one."""

    @cache
    def paid(serial: int, evidence: float, ones: tuple[int, int]) -> float:
        need = -math.log(delta) - evidence
        later = (blocks - serial - 1) * 2 * block / 4 * chance * (1 - chance)
        return log_exact_bet(need, later, block, block, *ones)

    law = [math.comb(block, k) * chance**k * (1 - chance) ** (block - k) for k in range(block + 1)]
    open_paths, rejected = {0.0: 1.0}, 0.0
    for serial in range(blocks):
        following: dict[float, float] = {}
        for evidence, probability in open_paths.items():
            for ones in itertools.product(range(block + 1), repeat=2):
                reached = evidence + paid(serial, evidence, ones)
                added = probability * law[ones[0]] * law[ones[1]]
                if reached >= -math.log(delta):
                    rejected += added
                else:
                    following[reached] = following.get(reached, 0.0) + added
        open_paths = following
    return rejected


@pytest.mark.parametrize("chance", [0.05, 0.3, 0.5, 0.9])
@pytest.mark.parametrize(("block", "blocks"), [(5, 2), (3, 3)])
def test_the_probability_of_a_wrong_rejection_is_at_most_delta(
    block: int, blocks: int, chance: float
) -> None:
    """Summed over all results of all blocks: there is no tolerance for chance."""
    for delta in (0.05, 0.25):
        assert exact_error(block, blocks, delta, chance) <= delta


def test_the_sum_over_all_results_finds_bets_that_are_too_large() -> None:
    assert exact_error(8, 2, 0.25, 0.5) > 0.12


# ------------------------------------------------------------------------- the policy


def test_bets_begin_with_the_first_block() -> None:
    policy = policy_of()
    for pull in policy.ask(20):
        policy.tell(pull, float(pull.arm == "0"))
    assert ledgers_of(policy).pairs[1, 0] > 0.0
    assert ledgers_of(policy).pairs[0, 1] < 0.0


def test_a_study_of_initial_pulls_only_is_fishers_exact_test() -> None:
    for ones, is_clear in ((9, True), (2, False)):
        policy = policy_of(max_pulls=20)
        left = {"0": ones, "1": 0}
        for pull in policy.ask(100):
            policy.tell(pull, float(left[pull.arm] > 0))
            left[pull.arm] -= 1
        assert policy.asked == 20
        assert policy.stopped
        assert policy.recommend().decided is is_clear


@pytest.mark.parametrize("most", [21, 57, 200])
def test_all_pulls_are_used_whatever_their_number(most: int) -> None:
    policy = policy_of(max_pulls=most, delta=1e-9)
    rng = np.random.default_rng(1)
    while not policy.stopped:
        policy.tell(policy.ask(), float(rng.random() < 0.5))
    assert policy.asked == most
    assert np.isfinite(policy._wealth[:2]).all()


@pytest.mark.parametrize("value", [0.5, 1e-9, True, -0.0])
def test_other_rewards_than_0_and_1_are_refused_and_change_nothing(value: float) -> None:
    policy = policy_of()
    pull = policy.ask()
    before = policy.get_state()
    if value in (0, 1):
        policy.tell(pull, value)
        return
    with raises(InvalidOutcome):
        policy.tell(pull, value)
    after = policy.get_state()
    assert all(np.array_equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize(
    ("arms", "groups", "problem"),
    [
        (3, 1, {}),
        (2, 2, {}),
        (2, 1, {"floors": 0.1}),
        (2, 1, {"ceilings": 0.9}),
        (2, 1, {"control": "0", "margin": 0.1}),
        (2, 1, {"tolerance": 0.1}),
        (2, 1, {"prediction": (0, 1)}),
    ],
)
def test_exact_bets_are_refused_where_there_are_none(arms: int, groups: int, problem: dict) -> None:
    found = Problem(arms, groups, **{**BINARY, **problem})
    with raises(NotSupported):
        BlockBetting(found, **END)
    BlockBetting(found)
    BlockBetting(found.clone(outcomes="any"), **END)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("reward_range", {"reward_range": (0, 2)}),
        ("reward_range", {"reward_range": None, "noise_std": 1.0}),
        ("outcomes", {"outcomes": "ones"}),
        ("outcomes", {"reward_range": None, "measures": {"a": (0, 1)}, "objective": "a"}),
    ],
)
def test_binary_outcomes_need_rewards_in_0_to_1(name: str, problem: dict) -> None:
    with raises(InvalidArgument) as error:
        Problem(2, 1, **{**BINARY, **problem})
    assert error.value.name == name


def test_an_end_before_the_initial_pulls_is_refused() -> None:
    with raises(InvalidArgument) as error:
        policy_of(max_pulls=19)
    assert error.value.name == "max_pulls"
    policy_of(max_pulls=20)


def test_a_problem_is_read_back_as_it_was() -> None:
    assert Problem.from_dict(TWO_ARMS.to_dict()).outcomes == "binary"
    assert "outcomes" not in TWO_ARMS.clone(outcomes="any").to_dict()


def test_a_table_with_other_rewards_is_not_replayed() -> None:
    rows = {("0", "0"): [0.0, 1.0], ("1", "0"): [0.0, 0.5]}
    with raises((InvalidOutcome, InvalidArgument)):
        ReplayEnvironment(TWO_ARMS, rows)


def test_the_guarantee_is_proven_and_says_what_it_uses() -> None:
    stated = policy_of().guarantee
    assert stated.proven
    assert "exact" in stated.name
    assert stated.assumptions[0] == "every reward is 0 or 1"


# -------------------------------------------------------- results that fail, or come late


@pytest.mark.parametrize("seed", range(effort.runs(4, whole=40)))
def test_failures_never_add_evidence_whatever_their_values_were(seed: int) -> None:
    """In one block: later blocks are planned from what is known."""
    rng = np.random.default_rng([7, seed])
    values = dict(enumerate(rng.integers(0, 2, 40).astype(float).tolist()))
    lost = set(rng.choice(40, 6, replace=False).tolist())
    wealth = []
    for missing in (set(), lost):
        policy = policy_of(delta=0.2, initial_pulls=20)
        for pull in policy.ask(40):
            if pull.number in missing:
                policy.fail(pull)
            else:
                policy.tell(pull, values[pull.number])
        wealth.append(policy._wealth[:2])
    assert (wealth[1] <= wealth[0] + 1e-9).all()


def test_a_late_result_replaces_the_worst_value() -> None:
    policy, complete = policy_of(initial_pulls=20), policy_of(initial_pulls=20)
    rng = np.random.default_rng(0)
    values = rng.integers(0, 2, 80).astype(float)
    held = []
    for policy_now, holds in ((policy, True), (complete, False)):
        for pull in policy_now.ask(40):
            if holds and pull.number in (3, 17):
                policy_now.fail(pull)
                held.append(pull)
            else:
                policy_now.tell(pull, values[pull.number])
    assert (policy._wealth[:2] < complete._wealth[:2]).any()
    for pull in held:
        policy.tell(pull, values[pull.number])
    assert policy._wealth[:2] == pytest.approx(complete._wealth[:2], abs=1e-9)


def test_a_correction_pays_the_block_again() -> None:
    policy, right = policy_of(initial_pulls=20), policy_of(initial_pulls=20)
    for policy_now in (policy, right):
        for pull in policy_now.ask(40):
            wrong = policy_now is policy and pull.number == 5
            policy_now.tell(pull, float(pull.number % 3 == 0) if not wrong else 0.0)
            if pull.number == 5:
                first = pull
    policy.amend(first, 0.0, float(5 % 3 == 0))
    assert policy._wealth[:2] == pytest.approx(right._wealth[:2], abs=1e-9)
    with raises(InvalidOutcome):
        policy.amend(first, 0.0, 0.5)


def test_lost_pulls_are_made_again_if_losses_are_ignorable() -> None:
    policy = policy_of(losses="ignorable", max_pulls=100, delta=1e-9)
    rng, failed = np.random.default_rng(2), 0
    while not policy.stopped:
        pull = policy.ask()
        if rng.random() < 0.2:
            policy.fail(pull)
            failed += 1
        else:
            policy.tell(pull, float(rng.random() < 0.5))
    assert failed > 5
    assert policy.told == 100


@pytest.mark.parametrize("steps", [1, 9])
@pytest.mark.parametrize("randomize", [True, "bernoulli"])
def test_a_restored_policy_reaches_the_same_end(steps: int, randomize: object) -> None:
    policies = [policy_of(randomize=randomize, max_pulls=60) for _ in range(2)]
    rng = np.random.default_rng(1)
    while not policies[0].stopped:
        if policies[0].asked % steps == 0:
            policies[1] = saved(policies[1])
        pulls = [policy.ask() for policy in policies]
        assert pulls[0] == pulls[1]
        reward = float(rng.random() < 0.4)
        for policy, pull in zip(policies, pulls, strict=True):
            policy.tell(pull, reward)
    states = [policy.get_state() for policy in policies]
    for name in states[0]:
        assert np.array_equal(states[0][name], states[1][name]), name


@pytest.mark.parametrize("block_draws", [False, True])
def test_simulated_runs_are_those_of_the_policy(block_draws: bool) -> None:
    environment = BernoulliEnvironment(TWO_ARMS, [[0.2], [0.6]])
    policy = policy_of(block_draws=block_draws)
    policy.compiled_run(environment, np.random.default_rng(3), None)
    assert policy.recommend().arm == "1"
    assert policy._wealth[0] >= -math.log(0.05)


# ------------------------------------------------------------ the promise, by simulation


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("delta", "most", "chance", "known"),
    [(0.05, 400, 0.3, 0.0457), (0.025, 200, 0.5, 0.0206)],
)
def test_equal_arms_are_rejected_as_often_as_known(
    delta: float, most: int, chance: float, known: float
) -> None:
    """Known from 20,000 independent runs with another plan of blocks, both arms averaged."""
    runs = effort.runs(12, whole=4_000)
    policy = policy_of(delta=delta, max_pulls=most, block_draws=True)
    environment = BernoulliEnvironment(TWO_ARMS, [[chance], [chance]])
    rejected = 0
    for seed in range(runs):
        copy = policy.clone(seed=0)
        copy.compiled_run(environment, np.random.default_rng([9, seed]), None)
        rejected += copy.recommend().decided
    share = rejected / (2 * runs)
    assert share <= delta + 3 * math.sqrt(delta / (2 * runs))
    spread = known * (1 - known)
    assert share == pytest.approx(known, abs=4 * math.sqrt(spread / (2 * runs) + spread / 40_000))
