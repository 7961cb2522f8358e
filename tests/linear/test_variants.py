"""Means that are not quite linear, unknown noise, noise by arm, and dependent delays."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from fairtrial.core import Policy, run_policy
from fairtrial.data import direct_arylation, suzuki
from fairtrial.errors import InvalidArgument
from fairtrial.linear import (
    BlockBetting,
    ConstantLevel,
    FrankWolfeSampling,
    FullyAdaptiveXY,
    GAllocation,
    GaussianEnvironment,
    LazyTrackAndStop,
    LinGame,
    LinGapE,
    ODLinBAI,
    Problem,
    Rage,
    ReplayEnvironment,
    RidgeLevel,
    XYAdaptive,
    XYAllocation,
    complexity,
)
from fairtrial.simulation import simulate
from tests import effort
from tests.linear.instances import soare
from tests.messages import raises

TRACKING = [LinGapE, LinGame, FrankWolfeSampling, LazyTrackAndStop, FullyAdaptiveXY, GAllocation]
EVERY = [BlockBetting, *TRACKING, XYAllocation, Rage, XYAdaptive]
ARMS = np.vstack([np.eye(3), [0.8, 0.6, 0.0]])
THETA = np.array([0.4, 0.1, 0.0])  # values .4, .1, 0, .38


def run(policy: Policy, environment: object, seed: int = 0, horizon: int | None = None):
    return policy.compiled_run(environment, np.random.default_rng(seed), horizon)  # type: ignore[arg-type]


def environment_of(problem: Problem, means: np.ndarray, noise: float) -> ReplayEnvironment:
    table = {"arm": list(problem.arms), "reward": list(means)}
    return ReplayEnvironment(problem, table, noise_std=noise)


# ------------------------------------------------------------------ misspecification


def worst_bias(effects: np.ndarray) -> float:
    """How much means that are each off by one of these move an estimate: over all signs."""
    signs = np.array(list(itertools.product([-1, 1], repeat=len(effects))))
    return float((signs @ effects).max())


@pytest.mark.parametrize("noise", [2.0, [1.0, 2.0, 0.5, 3.0]])
def test_evidence_is_what_is_left_of_a_gap_after_the_worst_bias(noise: object) -> None:
    gamma = 0.01
    problem = Problem(ARMS, noise_std=noise, misspecification=gamma)
    plain = Problem(ARMS, noise_std=noise)
    rng = np.random.default_rng(0)
    counts = np.array([5, 7, 6, 9])
    policies = [LinGapE(own, initial_pulls=5, delta=1e-9) for own in (problem, plain)]
    for k, count in enumerate(counts):
        for reward in rng.normal((ARMS @ THETA)[k], 0.01, count):
            for policy in policies:
                policy.tell(policy.problem.pull(arm=str(k)), reward)
    scaled = ARMS / problem.scale[:, None]
    gram = (scaled.T * counts) @ scaled
    theta = np.linalg.solve(gram, (scaled.T @ policies[0]._race.sums))
    best = int((ARMS @ theta).argmax())
    weakest = []
    for k in set(range(4)) - {best}:
        y = ARMS[best] - ARMS[k]
        effects = gamma / problem.scale * counts * (scaled @ np.linalg.solve(gram, y))
        left = y @ theta - np.abs(effects).sum() - 2 * gamma
        assert np.abs(effects).sum() == pytest.approx(worst_bias(effects))
        weakest.append(max(left, 0.0) ** 2 / (y @ np.linalg.solve(gram, y)) / 2)
    assert policies[0]._evidence()[0] == pytest.approx(min(weakest))
    assert policies[0]._evidence()[1] == policies[1]._evidence()[1]


@pytest.mark.parametrize("cls", EVERY)
def test_a_gap_above_the_resolution_is_found_and_one_below_ends_undecided(
    cls: type[Policy],
) -> None:
    off = 0.004 * np.array([1.0, -1.0, 1.0, -1.0])
    means = ARMS @ THETA
    near = Problem(ARMS[:3], noise_std=0.1, misspecification=0.02)
    found = run(cls(near), environment_of(near, means[:3] + 5 * off[:3], 0.1))
    assert (found.status, found.answer) == ("decided", "0")
    hidden = Problem(ARMS, noise_std=0.1, misspecification=0.1)
    policy = cls(hidden)
    found = run(policy, environment_of(hidden, means + off, 0.1), horizon=200_000)
    assert (found.status, found.answer) == ("undecided", None)
    answer = policy.recommend()
    assert found.stopping_time < 200_000
    assert "can hide which is the best" in answer.reason
    assert {"0", "3"} <= set(answer.evidence["not_ruled_out"])
    assert policy.guarantee.label == "proven"
    assert any("within 0.1" in text for text in policy.guarantee.assumptions)


@pytest.mark.parametrize("cls", [BlockBetting, LinGapE, Rage])
def test_live_and_simulated_runs_are_the_same_when_there_is_no_answer(cls: type[Policy]) -> None:
    problem = Problem(ARMS, noise_std=0.1, misspecification=0.05)
    environment = environment_of(problem, ARMS @ THETA, 0.1)
    compiled = run(cls(problem, seed=0), environment, seed=4)
    live = run_policy(cls(problem, seed=0), environment, np.random.default_rng(4))
    assert (live.stopping_time, live.status) == (compiled.stopping_time, "undecided")
    assert np.array_equal(live.pulls, compiled.pulls)


@pytest.mark.statistical
@pytest.mark.parametrize("cls", [BlockBetting, LinGapE, Rage])
def test_means_that_are_not_linear_mislead_only_who_takes_them_for_linear(
    cls: type[Policy],
) -> None:
    # The fit puts the last arm first, by .06; in truth the first is the best.
    means = np.array([0.40, 0.24, 0.0, 0.38])
    off = np.array([0.0, 0.14, 0.0, -0.004])
    assert means[3] - means[0] < 0
    assert (ARMS @ np.linalg.lstsq(ARMS, means, rcond=None)[0]).argmax() == 3
    runs, delta = 40, 0.1
    wrong = {}
    for gamma in (0.0, float(np.abs(off).max())):
        problem = Problem(ARMS, noise_std=0.1, misspecification=gamma)
        found = simulate(cls(problem, delta), environment_of(problem, means, 0.1), runs, seed=1)
        wrong[gamma > 0] = found.error_rate
    assert wrong[False] > 0.5
    assert wrong[True] <= delta + 3 * math.sqrt(delta / runs)


@pytest.mark.parametrize("data", effort.first(1, [direct_arylation, suzuki]))
def test_reactions_that_are_not_linear_are_not_given_a_winner(data) -> None:
    table = data()
    problem = Problem(table["features"], arms=table["arm"], noise_std=0.03)
    environment = ReplayEnvironment(problem, table, noise_std=0.03)
    off = float(np.abs(environment.arm_means - problem.features @ environment.theta).max())
    assert off > 0.3
    honest = problem.clone(misspecification=off)
    policy = BlockBetting(honest, batch=96, seed=0)
    environment = ReplayEnvironment(honest, table, noise_std=0.03)
    found = run(policy, environment, horizon=3 * 1728)
    assert (found.status, found.answer) == ("undecided", None)
    assert environment.truth.best in policy.recommend().evidence["not_ruled_out"]
    assert policy.guarantee.label == "proven"


def test_bounded_rewards_whose_means_are_not_linear() -> None:
    features = [[1.0, 0.0], [1.0, 1.0], [1.0, 0.5]]
    problem = Problem(features, reward_range=(0, 1), misspecification=0.02)
    table: dict[str, list] = {"arm": [], "reward": []}
    for arm, mean in (("0", 0.2), ("1", 0.8), ("2", 0.52)):
        table["arm"] += [arm] * 100
        table["reward"] += (np.arange(100) < 100 * mean).astype(float).tolist()
    environment = ReplayEnvironment(problem, table)
    assert run(BlockBetting(problem, seed=0), environment).answer == "1"
    coarse = problem.clone(misspecification=0.3)
    found = run(BlockBetting(coarse, seed=0), ReplayEnvironment(coarse, table))
    assert found.status == "undecided"


@pytest.mark.parametrize("reward_range", [None, (0.0, 1.0)])
def test_a_wealth_does_not_grow_against_the_truth_that_misleading_means_hide(
    reward_range: object,
) -> None:
    noise = {"noise_std": 0.5} if reward_range is None else {"reward_range": reward_range}
    # The values at 0 and 1 are .5 and .48; the arms in between are off by a tenth, so the fit puts
    # the second first by almost one.
    features, ends = [[1.0, 0.4], [1.0, 0.6]], [[1.0, 0.0], [1.0, 1.0]]
    table = {"arm": ["0"] * 500 + ["1"] * 500, "reward": np.zeros(1000)}
    table["reward"][:196] = table["reward"][500 : 500 + 294] = 1.0
    answers = {}
    for gamma in (0.0, 0.1):
        problem = Problem(
            features, candidates=ends, answers=["low", "high"], misspecification=gamma, **noise
        )
        environment = ReplayEnvironment(problem, table)
        policy = BlockBetting(problem, delta=0.2, max_pulls=3000, seed=0)
        answers[gamma] = [run(policy.clone(), environment, seed=seed).answer for seed in range(60)]
    assert answers[0.0].count("high") > 50
    assert answers[0.1].count("high") <= 60 * (0.2 + 3 * math.sqrt(0.2 / 60))


def test_the_distance_of_zero_changes_nothing() -> None:
    problem = Problem(ARMS, noise_std=0.3)
    assert problem == Problem(ARMS, noise_std=0.3, misspecification=0.0)
    assert Problem.from_dict(problem.clone(misspecification=0.2).to_dict()).misspecification == 0.2
    with raises(InvalidArgument, "misspecification"):
        Problem(ARMS, noise_std=0.3, misspecification=-1.0)
    with raises(InvalidArgument, "problem"):
        ODLinBAI(problem.clone(misspecification=0.1), budget=100)


def test_intervals_are_wider_by_what_the_means_may_differ() -> None:
    estimates = []
    for gamma in (0.0, 0.1):
        problem = Problem(np.eye(2), noise_std=1.0, misspecification=gamma)
        policy = LinGapE(problem)
        for pull in policy.ask(20):
            policy.tell(pull, 1.0)
        estimates.append(policy.progress().actions[0])
    # A single arm is measured with a bias of up to gamma, and its mean is gamma off the line.
    assert estimates[1].upper - estimates[0].upper == pytest.approx(0.2)


# ---------------------------------------------------------------------- unknown noise


@pytest.mark.parametrize("cls", TRACKING)
def test_an_unknown_noise_is_estimated_and_nothing_is_proven(cls: type[Policy]) -> None:
    problem = Problem(soare(3, 0.4)[0], noise_std="estimated")
    environment = GaussianEnvironment(problem, soare(3, 0.4)[1], std=0.5)
    policy = cls(problem)
    found = run(policy, environment)
    assert found.answer == "0"
    assert policy.guarantee.label == "heuristic"
    assert "the estimated noise is the true one" in policy.guarantee.assumptions[-1]
    assert 0.25 / 1.6 <= policy._race.noise_variance <= 0.25 * 1.6


def test_the_estimate_is_an_upper_bound_from_the_residuals() -> None:
    problem = Problem(ARMS, noise_std="estimated")
    policy = LinGapE(problem, delta=1e-9)
    rng = np.random.default_rng(0)
    pulls = policy.ask(30)
    rewards = rng.normal((ARMS @ THETA)[[pull.action for pull in pulls]], 0.7)
    for pull, reward in zip(pulls, rewards, strict=True):
        policy.tell(pull, reward)
    rows = ARMS[[pull.action for pull in pulls]]
    residuals = rewards - rows @ np.linalg.lstsq(rows, rewards, rcond=None)[0]
    wanted = (residuals**2).sum() / stats.chi2.ppf(0.1, 27)
    assert policy._race.noise_variance == pytest.approx(wanted, rel=1e-3)


def test_there_are_no_intervals_before_the_noise_can_be_estimated() -> None:
    policy = LinGapE(Problem(ARMS, noise_std="estimated"), initial_pulls=2)
    budgeted = ODLinBAI(Problem(ARMS, noise_std="estimated"), budget=40)
    for number in range(12):
        for own in (policy, budgeted):
            pull = own.ask()
            own.tell(pull, float((ARMS @ THETA)[pull.action]) + 0.1 * (-1) ** number)
        if 5 <= number < 7:
            assert policy.progress().actions[0].lower is None
    estimate = policy.progress().actions[0]
    assert estimate.lower < estimate.mean < estimate.upper
    assert budgeted.progress().actions[0].mean is not None
    assert budgeted.progress().actions[0].lower is None


def test_levels_and_sampling_do_not_change_with_the_unit_of_the_rewards() -> None:
    found = []
    for unit in (1.0, 1000.0):
        problem = Problem(ARMS, noise_std="estimated")
        environment = GaussianEnvironment(problem, unit * THETA, std=0.2 * unit)
        policy = LinGapE(problem)
        run(policy, environment, seed=7)
        found.append((policy.told, policy._evidence()))
    assert found[0][0] == found[1][0]
    assert found[0][1] == pytest.approx(found[1][1])


@pytest.mark.statistical
def test_estimated_noise_errs_rarely_on_ties() -> None:
    problem = Problem(np.eye(2), noise_std="estimated")
    environment = GaussianEnvironment(problem, [1e-6, 0.0], std=1.0)
    runs, delta = 400, 0.1
    found = simulate(LinGapE(problem, delta, max_pulls=500), environment, runs, seed=2)
    assert float(np.mean(found.status == "decided")) <= delta + 3 * math.sqrt(delta / runs)


def test_equal_rewards_do_not_make_a_noise_of_zero_an_answer() -> None:
    policy = LinGapE(Problem(np.eye(2), noise_std="estimated"), max_pulls=60)
    while not policy.stopped:
        policy.tell(policy.ask(), 0.3)
    assert policy.recommend().status == "undecided"


def test_few_results_are_not_tested_with_an_estimated_noise() -> None:
    policy = LinGapE(
        Problem(np.eye(2), noise_std="estimated"), stopping=ConstantLevel(1e-9), initial_pulls=1
    )
    for number in range(6):
        assert not policy.stopped
        pull = policy.ask()
        policy.tell(pull, 5.0 * (pull.arm == "0") + 0.1 * (-1) ** number)


def test_who_needs_the_noise_refuses_an_estimated_one() -> None:
    problem = Problem(np.eye(2), noise_std="estimated")
    for cls in (BlockBetting, Rage, XYAdaptive):
        with raises(InvalidArgument, "problem"):
            cls(problem)
    with raises(InvalidArgument, "std"):
        GaussianEnvironment(problem, [1.0, 0.0])
    assert complexity(GaussianEnvironment(problem, [1.0, 0.0], std=2.0)).value == pytest.approx(
        32.0, rel=1e-5
    )
    with raises(InvalidArgument, "noise_std"):
        Problem(np.eye(2), noise_std="unknown")
    assert ODLinBAI(problem, budget=20).guarantee.label == "heuristic"


# ----------------------------------------------------------------------- noise by arm


@pytest.mark.parametrize("cls", [LinGapE, FullyAdaptiveXY, BlockBetting, Rage, GAllocation])
def test_noise_by_arm_is_the_problem_with_rows_and_rewards_divided_by_it(
    cls: type[Policy],
) -> None:
    noise = np.array([0.5, 1.0, 2.0, 0.25])
    own = Problem(ARMS, noise_std=noise)
    scaled = Problem(ARMS / noise[:, None], candidates=ARMS, noise_std=1.0)
    rng = np.random.default_rng(6)
    policies = [cls(problem, max_pulls=400, seed=0) for problem in (own, scaled)]
    while not policies[0].stopped:
        pulls = [policy.ask() for policy in policies]
        assert pulls[0].action == pulls[1].action
        mean = (ARMS @ (2 * THETA))[pulls[0].action]
        reward = rng.normal(mean, noise[pulls[0].action])
        policies[0].tell(pulls[0], reward)
        policies[1].tell(pulls[1], reward / noise[pulls[1].action])
    assert policies[1].stopped
    assert policies[0].recommend().arm == policies[1].recommend().arm


def test_the_reach_of_the_ridge_is_that_of_the_scaled_rows() -> None:
    noise = np.array([0.5, 1.0, 2.0, 0.25])
    level = RidgeLevel(norm_bound=2.0)
    evidence = []
    for problem, factors in (
        (Problem(ARMS, noise_std=noise), np.ones(4)),
        (Problem(ARMS / noise[:, None], candidates=ARMS, noise_std=1.0), 1 / noise),
    ):
        policy = LinGapE(problem, stopping=level, initial_pulls=1)
        for k in range(4):
            policy.tell(problem.pull(arm=str(k)), factors[k] * [0.9, 0.2, 0.1, 0.7][k])
        evidence.append(policy._evidence())
    assert evidence[0] == pytest.approx(evidence[1])


# ------------------------------------------------- batches, and what telling depends on


@pytest.mark.parametrize("cls", TRACKING)
def test_pulls_in_flight_count_for_choosing_and_never_for_stopping(cls: type[Policy]) -> None:
    problem = Problem(np.eye(3), noise_std=1.0)
    alone, with_batch = cls(problem), cls(problem)
    started = alone.ask(30), with_batch.ask(30)
    with_batch.ask(5000)
    rng = np.random.default_rng(8)
    for one, other in zip(*started, strict=True):
        assert one.arm == other.arm
        reward = rng.normal(0.4 * (one.arm == "0"), 1.0)
        alone.tell(one, reward)
        with_batch.tell(other, reward)
    assert alone._evidence() == pytest.approx(with_batch._evidence())
    assert not with_batch.stopped


@pytest.mark.parametrize("cls", EVERY)
def test_what_telling_may_not_depend_on_is_said(cls: type[Policy]) -> None:
    policy = cls(Problem(np.eye(2), noise_std=1.0))
    if cls is BlockBetting:
        # No bet depends on its initial pulls.
        for pull in policy.ask(8):
            policy.tell(pull, 0.0)
    pulls = policy.ask(3)
    said = " ".join(policy.guarantee.assumptions)
    assert cls is BlockBetting or "neither whether nor when a reward is told" in said
    policy.fail(pulls[0])
    assert policy.guarantee.label == "heuristic"
    assert (
        "lost, for reasons assumed to be unrelated to rewards" in policy.guarantee.assumptions[-1]
    )


def test_results_that_nobody_asked_for_are_no_fixed_design() -> None:
    problem = Problem(np.eye(2), noise_std=1.0)
    static, mixture = GAllocation(problem), GAllocation(problem, stopping="mixture")
    for policy in (static, mixture):
        policy.tell(problem.pull(arm="0"), 1.0)
    assert static.guarantee.label == "heuristic"
    assert "unsolicited results" in static.guarantee.assumptions[-1]
    assert mixture.guarantee.label == "proven"


# ------------------------------------------------------------------------------- ties


@pytest.mark.parametrize("cls", [FullyAdaptiveXY, XYAdaptive])
def test_random_ties_are_broken_by_the_seed_and_first_ones_by_the_order(cls: type[Policy]) -> None:
    problem = Problem(np.eye(6), noise_std=1.0)

    def chosen(**options: object) -> list[str]:
        policy = cls(problem, **options)
        pulls = policy.ask(60)
        if cls is XYAdaptive:
            return [pull.arm for pull in pulls]
        for pull in pulls:
            policy.tell(pull, 0.0)
        return [pull.arm for pull in policy.ask(6)]

    assert chosen() == chosen(ties="first") == chosen(seed=3)
    if cls is FullyAdaptiveXY:
        assert chosen() == list("012345")
        assert chosen(ties="random", seed=1) == chosen(ties="random", seed=1)
        orders = {tuple(chosen(ties="random", seed=seed)) for seed in range(8)}
        assert len(orders) > 4
        assert all(sorted(order) == list("012345") for order in orders)
    with raises(InvalidArgument, "ties"):
        cls(problem, ties="last")


@pytest.mark.parametrize("cls", [FullyAdaptiveXY, XYAdaptive])
def test_random_ties_end_with_the_same_answer_live_and_simulated(cls: type[Policy]) -> None:
    problem = Problem(np.eye(4), noise_std=0.5)
    environment = GaussianEnvironment(problem, [1.0, 0.2, 0.0, 0.0])
    policy = cls(problem, ties="random", seed=5)
    compiled = run(policy.clone(), environment, seed=1)
    live = run_policy(policy.clone(), environment, np.random.default_rng(1))
    assert compiled.answer == live.answer == "0"
    assert np.array_equal(live.pulls, compiled.pulls)
