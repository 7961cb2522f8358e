"""Limits against a control: bets, proofs, reports and refusals."""

import math
from typing import Any

import numpy as np
import pytest

import fairtrial as ft
from fairtrial.errors import InvalidArgument
from fairtrial.subpopulations import (
    BalancedTracking,
    BernoulliEnvironment,
    BlockBetting,
    GaussianEnvironment,
    Problem,
    ReplayEnvironment,
    RoundRobin,
    TrackAndStop,
    UniformSampling,
    complexity,
)
from fairtrial.subpopulations.scenarios import harms
from fairtrial.testing import check_environment, check_policy, check_problem
from tests import effort
from tests.block_betting import factors
from tests.messages import raises
from tests.subpopulations.block_views import ledgers_of
from tests.subpopulations.control_instances import BEYOND, HARD, share_rejected, share_wrong

PAGES = Problem(
    ["now", "short", "bold"],
    {"phone": 0.6, "desktop": 0.4},
    reward_range=(0, 1),
    control="now",
    margin=0.02,
)
RATES = [[0.30, 0.50], [0.42, 0.60], [0.60, 0.40]]


# ------------------------------------------------------------ every bet is fair, exactly


def block_of_coins(seed: int) -> tuple[BlockBetting, list[Any]]:
    """Return a policy with bets on a block of few pulls, and these pulls."""
    rng = np.random.default_rng(seed)
    problem = Problem(3, 2, [1, 2], reward_range=(0, 1), control="0", margin=0.1, superiority=0.05)
    policy = BlockBetting(problem, delta=0.01, initial_pulls=8, batch=9, seed=seed)
    means = rng.uniform(0.1, 0.9, problem.shape)
    while policy.told < 8 * problem.n_actions:
        pull = policy.ask()
        policy.tell(pull, float(rng.random() < means.flat[pull.action]))
    block = [policy.ask()]
    while policy._blocks.state.blocks.number[0] == 1 and len(block) < 40:
        block.append(policy.ask())
    return policy, block[:-1]


def chances(outcomes: np.ndarray, block: list[Any], means: np.ndarray) -> np.ndarray:
    """Return the probability of every outcome of a block."""
    rates = np.array([means.flat[pull.action] for pull in block])
    return np.prod(np.where(outcomes == 1.0, rates, 1.0 - rates), axis=1)


def on_the_border(problem: Problem, ledger: tuple, rng: np.random.Generator) -> np.ndarray:
    """Return means at which the claim that a ledger bets against is just true."""
    shares = problem.shares
    while True:
        means = rng.uniform(0.05, 0.95, problem.shape)
        if ledger[0] == "limit":
            _, end, target, group = ledger
            if end == 2:
                means[target, group] = means[0, group] - 0.1
            else:
                gap = shares @ (means[0] - means[target]) + 0.05
                means[target] += gap
        else:
            _, rival, target = ledger
            if rival:
                # On its margin in one group; exactly as much better overall as it must be.
                group = int(rng.integers(2))
                means[rival, group] = means[0, group] - 0.1
                other = 1 - group
                rest = shares @ means[0] + 0.05 - shares[group] * means[rival, group]
                means[rival, other] = rest / shares[other]
            if target:
                means[target] += shares @ (means[rival] - means[target])
        if (means >= 0.0).all() and (means <= 1.0).all():
            return means


@pytest.mark.parametrize("seed", effort.first(4, [1, 2, 3, 11, 13, 17, 18]))
def test_every_factor_of_a_block_is_at_most_one_on_average(seed: int) -> None:
    policy, block = block_of_coins(seed)
    assert 2 <= len(block) <= 14
    outcomes, found = factors(policy, block)
    state = policy._blocks.state
    slot = int(state.blocks.first[0]) % len(state.blocks.waiting)
    limits, groups, rng = state.book.stated.shape[1], 2, np.random.default_rng([seed, 1])
    arms = 3
    used, largest = 0, 0.0
    for ledger in {int(bet) for bet in state.bets.ledger[slot] if bet >= 0}:
        if ledger < arms:
            name: tuple = ("own", ledger, None)
        elif ledger < arms + arms**2:
            name = ("pair", *reversed(divmod(ledger - arms, arms)))
        else:
            target, r = divmod(ledger - arms - arms**2, limits)
            name = ("limit", r // groups, target, r % groups)
        for _ in range(20):
            means = on_the_border(policy.problem, name, rng)
            average = float(chances(outcomes, block, means) @ found[:, ledger])
            assert average <= 1.0 + 1e-9
            largest = max(largest, average)
        used += 1
    assert used >= 2
    # There are bets: a factor of exactly one everywhere would be fair, too.
    assert largest > 0.5
    assert np.ptp(found, axis=0).max() > 0.01


def test_what_speaks_against_a_rival_goes_into_the_ledger_of_its_pair() -> None:
    """Bets that share the pulls of the control must never be multiplied."""
    rng = np.random.default_rng(2)
    policy = BlockBetting(PAGES, delta=0.01, seed=0)
    while policy.told < 3_000 and not policy.stopped:
        pull = policy.ask()
        policy.tell(pull, float(rng.random() < np.ravel(RATES)[pull.action]))
    ledgers = ledgers_of(policy)
    assert not ledgers.own.any()
    assert ledgers.pairs[2, 1] > 1.0
    assert ledgers.limits[2, 1].min() > 1.0


# ------------------------------------------------------------------- the hardest questions

RUNS = effort.runs(20, whole=2_000)


@pytest.mark.statistical
@pytest.mark.parametrize("known_noise", [True, False])
@pytest.mark.parametrize("name", HARD)
def test_a_right_answer_is_seldom_ever_ruled_out(name: str, known_noise: bool) -> None:
    share = share_rejected(name, RUNS, known_noise=known_noise, horizon=600)
    assert share <= effort.tolerated(0.1, RUNS)


@pytest.mark.statistical
@pytest.mark.parametrize("known_noise", [True, False])
@pytest.mark.parametrize("name", BEYOND)
def test_an_answer_that_a_tolerance_just_does_not_forgive_is_seldom_given(
    name: str, known_noise: bool
) -> None:
    share = share_wrong(name, RUNS, known_noise=known_noise, horizon=600)
    assert share <= effort.tolerated(0.1, RUNS)


@pytest.mark.statistical
def test_no_run_waits_for_a_control_whose_first_results_were_unlucky() -> None:
    # Two arms nearly tie, and only the control, soon ruled out, shows which is acceptable.
    environment = BernoulliEnvironment(PAGES, [[0.30, 0.50], [0.42, 0.60], [0.55, 0.40]])
    runs = effort.runs(60, whole=300)
    found = ft.simulate(BlockBetting(PAGES, delta=0.05), environment, runs, seed=1, horizon=40_000)
    assert found.undecided_rate == 0.0
    assert found.error_rate == 0.0
    assert found.stopping_time.max() < 8 * np.median(found.stopping_time)


# ---------------------------------------------------------------------- the whole contract


@pytest.mark.parametrize("losses", [True, False])
@pytest.mark.parametrize(
    ("noise", "asked"),
    [
        ({"reward_range": (0, 1)}, {"margin": 0.05}),
        ({"noise_std": 1.0}, {"superiority": 0.1, "margin": [0.1, None]}),
        ({"reward_range": (0, 1)}, {"margin": 0.05, "tolerance": 0.1, "floor_tolerance": 0.1}),
    ],
)
def test_the_policy_keeps_the_contract(noise: dict, asked: dict, losses: bool) -> None:
    problem = Problem(3, 2, control="1", **noise, **asked)
    make = BernoulliEnvironment if "reward_range" in noise else GaussianEnvironment
    environment = make(problem, [[0.4, 0.5], [0.3, 0.4], [0.6, 0.2]])
    check_problem(problem)
    check_environment(environment)
    policy = BlockBetting(problem, delta=0.1, seed=3)
    check_policy(policy, environment, pulls=effort.runs(30, whole=60), losses=losses)


def test_a_finished_experiment_is_analysed_against_its_control() -> None:
    rng = np.random.default_rng(0)
    actions = rng.integers(0, PAGES.n_actions, 12_000)
    policy = BlockBetting(PAGES, delta=0.05, assigned=actions)
    rates = np.ravel(RATES)
    while not policy.stopped:
        pull = policy.ask()
        policy.tell(pull, float(rng.random() < rates[pull.action]))
    assert policy.recommend().arm == "short"
    assert policy.guarantee.proven


def test_a_study_against_a_control_is_saved_and_verified(tmp_path: Any) -> None:
    storage = f"sqlite:///{tmp_path}/pages.db"
    rng = np.random.default_rng(4)
    study = ft.Study.create(
        PAGES, BlockBetting(PAGES, delta=0.1), storage=storage, name="pages", seed=1
    )
    for _ in range(150):
        pull = study.ask()
        study.tell(pull, float(rng.random() < np.ravel(RATES)[pull.action]))
    again = ft.Study.open(storage=storage, name="pages")
    assert again.verify().ok
    assert again.problem == PAGES


@pytest.mark.parametrize("rule", [BalancedTracking, TrackAndStop, UniformSampling, RoundRobin])
def test_other_rules_say_that_they_take_no_limits_against_a_control(rule: Any) -> None:
    with raises(InvalidArgument, "problem"):
        rule(PAGES)
    # A control without limits changes no decision.
    rule(PAGES.clone(margin=None))


# ---------------------------------------------------------------------------- what is shown


def test_differences_from_the_control_are_shown_with_their_limits() -> None:
    def effects_of(problem: Problem) -> dict[tuple[str, str | None], Any]:
        policy, rng = BlockBetting(problem, delta=0.05, seed=0), np.random.default_rng(1)
        for _ in range(400):
            pull = policy.ask()
            policy.tell(pull, float(rng.random() < np.ravel(RATES)[pull.action]))
        return {(one.arm, one.group): one for one in policy.progress().effects}

    problem = PAGES.clone(superiority=0.03)
    effects = effects_of(problem)
    assert effects["bold", "desktop"].lower_limit == -0.02
    assert effects["bold", "desktop"].upper_limit is None
    assert effects["short", None].lower_limit == 0.03
    assert effects["short", None].reference == "now"
    effects = effects_of(problem.clone(direction="minimize", floors=None, ceilings=None))
    assert effects["bold", "phone"].upper_limit == 0.02
    assert effects["bold", None].upper_limit == -0.03


def test_with_one_group_what_holds_there_holds_overall() -> None:
    problem = Problem(2, 1, noise_std=1.0, control="0", margin=0.1)
    policy = BlockBetting(problem, seed=0)
    for pull in policy.ask(40):
        policy.tell(pull, 0.3 * (pull.number % 3))
    (effect,) = policy.progress().effects
    assert (effect.group, effect.lower_limit) == (None, -0.1)


def test_harm_is_an_arm_just_beyond_its_margin() -> None:
    environment = BernoulliEnvironment(PAGES, RATES)
    (scenario,) = harms(environment)
    assert scenario.name == "one group harmed"
    moved = scenario.environment
    assert isinstance(moved, BernoulliEnvironment)
    assert not PAGES.feasible(moved.cell_means)[1]
    assert moved.truth.best == "now"
    # Its closest limit is the margin on the desktop: .10 and .02 away, and a tenth beyond.
    assert moved.cell_means[1, 1] == pytest.approx(0.5 - 0.02 - 0.012)


def test_the_price_of_evidence_counts_both_arms_of_a_difference() -> None:
    problem = Problem(2, 1, noise_std=1.0, control="0", margin=0.1)
    environment = GaussianEnvironment(problem, [[0.5], [0.7]])
    # The closest call is the quality: .2 apart; the margin is kept by .3.
    price = environment.evidence_price(np.full((2, 1), 0.5))
    assert price.spread == pytest.approx(2.0 * (2.0 / 0.2) ** 2)
    near = GaussianEnvironment(problem, [[0.9], [0.85]])
    assert near.evidence_price(np.full((2, 1), 0.5)).spread == pytest.approx(
        2.0 * (2.0 / 0.05) ** 2
    )
    short = GaussianEnvironment(problem, [[0.9], [0.78]])
    assert short.truth.best == "0"
    assert short.evidence_price(np.full((2, 1), 0.5)).spread == pytest.approx(
        2.0 * (2.0 / 0.02) ** 2
    )


def test_a_replayed_table_has_a_truth_against_its_control() -> None:
    rng = np.random.default_rng(5)
    cells = rng.integers(0, PAGES.n_actions, 1_200)
    table = {
        "arm": [PAGES.labels(int(cell))["arm"] for cell in cells],
        "group": [PAGES.labels(int(cell))["group"] for cell in cells],
        "reward": (rng.random(1_200) < np.ravel(RATES)[cells]).astype(float),
    }
    environment = ReplayEnvironment(PAGES, table)
    means = environment.cell_means
    kept = (means - means[0] >= -0.02).all(axis=1)
    assert environment.truth.details["feasible"].tolist() == kept.tolist()


@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e100])
def test_the_unit_of_rewards_changes_no_decision(scale: float) -> None:
    def actions(factor: float) -> list[int]:
        rng = np.random.default_rng(6)
        problem = Problem(3, 2, noise_std=factor, control="0", margin=0.25 * factor)
        policy = BlockBetting(problem, delta=0.1, seed=2)
        found = []
        while len(found) < 200 and not policy.stopped:
            pull = policy.ask()
            policy.tell(pull, factor * (0.5 * (pull.arm == "1") + rng.standard_normal()))
            found.append(pull.action)
        return found

    power = 2.0 ** round(math.log2(scale))
    assert actions(power) == actions(1.0)


def test_the_complexity_is_more_than_that_of_floors_at_the_controls_level() -> None:
    against = complexity(GaussianEnvironment(PAGES.clone(reward_range=None, noise_std=0.5), RATES))
    floors = Problem(PAGES.arms, {"phone": 0.6, "desktop": 0.4}, floors=[0.28, 0.48], noise_std=0.5)
    known = complexity(GaussianEnvironment(floors, RATES))
    assert against.answer == known.answer == "short"
    assert against.value > known.value
