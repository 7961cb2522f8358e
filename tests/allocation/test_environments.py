import numpy as np
import pytest

import fairtrial as ft
from fairtrial.allocation import (
    BernoulliEnvironment,
    BetaEnvironment,
    ContextualEnvironment,
    DriftingEnvironment,
    FairLearn,
    Problem,
    ReplayEnvironment,
    RoundRobin,
    SleepingEnvironment,
    SlidingWindowUCB,
    UnconstrainedLearner,
)
from fairtrial.errors import InvalidArgument, InvalidOutcome, NotSupported
from tests.messages import raises

PROBLEM = Problem(["a", "b"], ["1/4", "1/5"])


@pytest.mark.parametrize(
    ("environment", "deviations"),
    [
        (BernoulliEnvironment(PROBLEM, [0.7, 0.2]), [np.sqrt(0.21), 0.4]),
        (BetaEnvironment(PROBLEM, [0.7, 0.2], 3), [np.sqrt(0.21 / 4), 0.2]),
        (
            ReplayEnvironment(PROBLEM, {"arm": list("aaabb"), "reward": [1, 1, 0.1, 0.4, 0.0]}),
            [np.sqrt(0.18), 0.2],
        ),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.statistical
def test_rewards_have_the_means_and_spreads_of_their_environment(environment, deviations):
    """20,000 draws; within 4 standard errors."""
    rng = np.random.default_rng(0)
    assert environment.truth.means == pytest.approx([0.7, 0.2])
    assert environment.truth.best == "a"
    for arm, deviation in zip("ab", deviations, strict=True):
        pull = PROBLEM.pull(arm=arm)
        draws = np.array([environment.sample(pull, rng) for _ in range(20_000)])
        mean = environment.truth.means[pull.action]
        assert abs(draws.mean() - mean) < 4 * deviation / np.sqrt(20_000)
        assert abs(draws.std() - deviation) < 0.02


def test_truth_knows_gaps_ties_and_the_best_fair_value():
    truth = BernoulliEnvironment(Problem(3, [0.2, 0.3, 0.25]), [0.7, 0.7, 0.4]).truth
    assert truth.acceptable == ("0", "1")
    assert truth.details["gaps"] == pytest.approx([0, 0, 0.3])
    assert truth.details["fair_value"] == pytest.approx(0.7 * 0.75 + 0.4 * 0.25)


def test_regrets_are_those_of_the_counts():
    problem = Problem(3, [0.2, 0.3, 0.25], unfairness_tolerance=2)
    environment = BernoulliEnvironment(problem, [0.7, 0.5, 0.4])
    found = environment.metrics(np.array([100, 60, 40]))
    assert found["regret"] == pytest.approx(0.2 * 60 + 0.3 * 40)
    assert found["r_regret"] == pytest.approx(0.2 * (60 - 58) + 0.3 * (40 - 48))
    assert found["fair_regret"] == pytest.approx(0.2 * (60 - 60) + 0.3 * (40 - 50))


def test_drift_changes_at_its_pulls_and_is_measured_against_the_best_of_the_moment():
    environment = DriftingEnvironment(PROBLEM, [[1, 0], [0, 1]], [30])
    always_a = UnconstrainedLearner(PROBLEM, lambda t, counts, sums, allowed: 0)
    result = ft.simulate(always_a, environment, 1, horizon=100, progress=False)
    assert result.metrics["regret"] == 70
    assert result.metrics["fair_regret"] == pytest.approx(30 * 0.8 + 70 * 0.75 - 30)
    rewards = UnconstrainedLearner(PROBLEM, RoundRobin()).compiled_run(
        environment, np.random.default_rng(0), 100
    )
    assert rewards.metrics["regret"] == 50


@pytest.mark.statistical
def test_a_sliding_window_follows_drift_where_ucb_does_not():
    """5 runs of 8,000; the published gap is a factor of 40, a factor of 2 is required."""
    problem = Problem(5, 0.05)
    means = np.full((2, 5), 0.5)
    means[0, 0] = means[1, 3] = 0.8
    environment = DriftingEnvironment(problem, means, [4000])
    lost = [
        ft.simulate(FairLearn(problem, learner), environment, 5, horizon=8000, progress=False)
        .metrics["fair_regret"]
        .mean()
        for learner in (None, SlidingWindowUCB(800, xi=0.5))
    ]
    assert lost[1] < lost[0] / 2


def test_a_round_without_anyone_awake_is_skipped():
    environment = SleepingEnvironment(PROBLEM, [0.6, 0.4], [0.05, 0.1])
    result = ft.simulate(FairLearn(PROBLEM), environment, 2, horizon=300, progress=False)
    assert (result.stopping_time == 300).all()
    assert (result.metrics["regret"] < 20).all()


def test_a_simulation_refuses_what_a_policy_cannot_be_told():
    grouped = Problem(["a", "b"], 0, groups={"g": ("4/5", ["a", "b"])})
    asleep = SleepingEnvironment(grouped, [0.6, 0.4], 0.5)
    with raises(NotSupported):
        ft.simulate(FairLearn(grouped), asleep, 1, horizon=50, progress=False)
    policy = FairLearn(PROBLEM, contexts=2)
    three = ContextualEnvironment(PROBLEM, [[0.5, 0.5]] * 3)
    with raises(InvalidArgument, "context", given=2):
        ft.simulate(policy, three, 1, horizon=50, progress=False)
    steady = BernoulliEnvironment(PROBLEM, [0.5, 0.5])
    with raises(InvalidArgument, "context", given=None):
        ft.simulate(policy, steady, 1, horizon=50, progress=False)
    two = ContextualEnvironment(PROBLEM, [[0.5, 0.5]] * 2)
    for told_apart in (policy, policy.clone(contexts=3), policy.clone(contexts=1)):
        assert told_apart.compiled_run(two, np.random.default_rng(0), 50) is not None


def test_pulls_of_a_round_that_is_not_complete_cost_their_part_of_it():
    problem = Problem(3, "1/5", plays=2)
    environment = BernoulliEnvironment(problem, [0.6, 0.6, 0.6])
    for pulls in ([10, 9, 8], [10, 9, 9]):
        found = environment.metrics(np.array(pulls))
        assert found == pytest.approx({"regret": 0, "fair_regret": 0})


def test_the_contextual_value_is_that_of_the_linear_program():
    problem = Problem(2, ["1/2", "1/5"])
    environment = ContextualEnvironment(problem, [[0.2, 0.9], [0.5, 0.6]], [1, 1])
    # Arm 0 needs half of the rounds, so all rounds of the second context.
    assert environment.fair_value == pytest.approx((0.9 + 0.5) / 2)


@pytest.mark.parametrize(
    "make",
    [
        lambda: BernoulliEnvironment(PROBLEM, [0.5]),
        lambda: BernoulliEnvironment(PROBLEM, [0.5, 1.5]),
        lambda: BernoulliEnvironment(Problem(2, 0, reward_range=(0.5, 1)), [0.5, 0.5]),
        lambda: BetaEnvironment(PROBLEM, [0.5, 1.0]),
        lambda: BetaEnvironment(PROBLEM, [0.5, 0.5], 0),
        lambda: DriftingEnvironment(PROBLEM, [[0.5, 0.5], [0.5, 0.5]], []),
        lambda: DriftingEnvironment(PROBLEM, [[0.5, 0.5], [0.5, 0.5]], [0]),
        lambda: SleepingEnvironment(PROBLEM, [0.5, 0.5], [0, 1]),
        lambda: DriftingEnvironment(PROBLEM, [[0.5, 0.5], [0.5, 0.5]], [5.5]),
        lambda: DriftingEnvironment(PROBLEM, [[0.5, 0.5], [0.5, 0.5]], 5),
        lambda: SleepingEnvironment(PROBLEM, [0.5, 0.5], [0.5, 0.5, 0.5]),
        lambda: BetaEnvironment(PROBLEM, [0.5, 0.5], "x"),
        lambda: BernoulliEnvironment("problem", [0.5, 0.5]),
        lambda: SleepingEnvironment(None, [0.5, 0.5], 1),
        lambda: ContextualEnvironment(PROBLEM, [[0.5, 0.5]], [-1]),
        lambda: ReplayEnvironment(PROBLEM, {"arm": ["a"], "reward": [1]}),
        lambda: ReplayEnvironment(PROBLEM, {"arm": ["c"], "reward": [1]}),
        lambda: ReplayEnvironment(PROBLEM, {"arm": ["a"]}),
    ],
)
def test_an_environment_that_cannot_be_is_refused(make):
    with raises((InvalidArgument, InvalidOutcome)):
        make()


def test_a_logged_reward_outside_the_range_names_its_row():
    with raises(InvalidOutcome, "table row 1: reward"):
        ReplayEnvironment(PROBLEM, {"arm": ["a", "b"], "reward": [1, 3]})
