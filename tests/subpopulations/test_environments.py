"""Environments: what they draw and what they know."""

import math

import numpy as np
import pandas as pd
import pytest

from fairtrial.errors import InvalidArgument, InvalidOutcome
from fairtrial.simulation import simulate
from fairtrial.subpopulations import (
    BernoulliEnvironment,
    BlockBetting,
    GaussianEnvironment,
    Problem,
    ReplayEnvironment,
    complexity,
)
from tests import effort
from tests.messages import raises

MEANS = [[0.2, 0.6], [0.4, 0.3], [-0.2, 1.0]]


def brute_force_acceptable(problem: Problem, means: np.ndarray) -> set[str | None]:
    """Apply the guarantee with tolerance literally."""
    acceptable: set[str | None] = set()
    sign = problem.sign
    quality = {a: sign * problem.quality(means)[k] for k, a in enumerate(problem.arms)}
    beats = [
        arm
        for k, arm in enumerate(problem.arms)
        if all(
            sign * means[k, g] >= sign * problem.floors[k, g] + problem.floor_tolerance
            for g in range(len(problem.groups))
        )
    ]
    for k, arm in enumerate(problem.arms):
        keeps = all(
            sign * means[k, g] >= sign * problem.floors[k, g] - problem.floor_tolerance
            for g in range(len(problem.groups))
        )
        if keeps and not any(quality[b] > quality[arm] + problem.tolerance for b in beats):
            acceptable.add(arm)
    if not beats:
        acceptable.add(None)
    return acceptable


@pytest.mark.parametrize("tolerance", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("floor_tolerance", [0.0, 0.1, 0.25])
@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_acceptable_answers_are_those_of_the_guarantee(
    tolerance: float, floor_tolerance: float, direction: str
) -> None:
    generator = np.random.default_rng(5)
    for _ in range(50):
        means = generator.normal(0, 0.4, (4, 2))
        problem = Problem(
            4,
            2,
            noise_std=1.0,
            tolerance=tolerance,
            floor_tolerance=floor_tolerance,
            direction=direction,
        )
        truth = GaussianEnvironment(problem, means).truth
        assert set(truth.acceptable) == brute_force_acceptable(problem, means)
        assert truth.best in truth.acceptable


def test_best_ignores_infeasible_arms_however_good() -> None:
    assert GaussianEnvironment(Problem(3, 2, noise_std=1.0), MEANS).truth.best == "0"
    assert GaussianEnvironment(Problem(3, 2, floors=None, noise_std=1.0), MEANS).truth.best in "02"
    assert GaussianEnvironment(Problem(3, 2, floors=2.0, noise_std=1.0), MEANS).truth.best is None


def test_ties_are_all_acceptable() -> None:
    problem = Problem(2, 1, floors=None, noise_std=1.0)
    assert GaussianEnvironment(problem, [[1.0], [1.0]]).truth.acceptable == ("0", "1")


@pytest.mark.statistical
def test_draws_have_the_stated_means_and_deviations() -> None:
    draws = effort.runs(4_000, whole=20_000)  # tolerance: 5 standard errors
    gaussian = GaussianEnvironment(Problem(3, 2, noise_std=0.7), MEANS)
    binary = BernoulliEnvironment(Problem(1, 2, reward_range=(0, 1)), [[0.3, 0.9]])
    for environment in (gaussian, binary):
        generator = np.random.default_rng(1)
        for action in range(environment.problem.n_actions):
            pull = environment.problem.pull(**environment.problem.labels(action))
            sample = np.array([environment.sample(pull, generator) for _ in range(draws)])
            cell = np.unravel_index(action, environment.problem.shape)
            spread = environment.cell_stds[cell]
            assert abs(sample.mean() - environment.cell_means[cell]) < 5 * spread / math.sqrt(draws)
            assert abs(sample.std() - spread) < 5 * spread / math.sqrt(draws)


def test_replay_draws_only_rows_of_the_cell_and_knows_their_means() -> None:
    problem = Problem(["a", "b"], ["x", "y"], reward_range=(0, 1))
    table = pd.DataFrame(
        {
            "treatment": ["a", "a", "b", "b", "b", "a"],
            "stratum": ["x", "y", "x", "y", "y", "x"],
            "gain": [0.1, 0.2, 0.3, 0.4, 0.8, 0.5],
        }
    )
    environment = ReplayEnvironment(problem, table, "treatment", "stratum", "gain")
    assert np.allclose(environment.truth.means, [[0.3, 0.2], [0.3, 0.6]])
    generator = np.random.default_rng(0)
    pull = problem.pull(arm="b", group="y")
    assert {environment.sample(pull, generator) for _ in range(60)} == {0.4, 0.8}


def test_a_mapping_of_columns_is_a_table_too() -> None:
    problem = Problem(["a"], ["x"], reward_range=(0, 1))
    environment = ReplayEnvironment(problem, {"arm": ["a"], "group": ["x"], "reward": [1]})
    assert environment.truth.means.tolist() == [[1.0]]


@pytest.mark.parametrize(
    ("columns", "name"),
    [
        ({"arm": ["a"], "group": ["x"]}, "table"),
        ({"arm": ["c"], "group": ["x"], "reward": [0]}, "table row 0"),
        ({"arm": ["a"], "group": ["z"], "reward": [0]}, "table row 0"),
        ({"arm": ["a"], "group": ["x"], "reward": [0.5, 1]}, "table"),
        ({"arm": ["a"], "group": ["x"], "reward": [0.5]}, "table"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(columns: dict[str, list], name: str) -> None:
    problem = Problem(["a", "b"], ["x"], reward_range=(0, 1))
    with raises(InvalidArgument, name):
        ReplayEnvironment(problem, columns)


@pytest.mark.parametrize("reward", [7.0, math.nan, "many"])
def test_a_row_with_an_impossible_reward_is_named(reward: object) -> None:
    problem = Problem(["a"], ["x"], reward_range=(0, 1))
    with raises(InvalidOutcome, "table row 1: reward", given=reward):
        ReplayEnvironment(problem, {"arm": ["a"] * 2, "group": ["x"] * 2, "reward": [1, reward]})


def test_environments_refuse_means_that_cannot_be() -> None:
    problem = Problem(2, 2, noise_std=1.0)
    with raises(InvalidArgument, "means"):
        GaussianEnvironment(problem, [[1.0]])
    with raises(InvalidArgument, "means[0, 1]"):
        GaussianEnvironment(problem, [[1.0, math.nan], [0, 0]])
    with raises(InvalidArgument, "means[0, 1]", given=1.2):
        BernoulliEnvironment(problem, [[1.0, 1.2], [0, 0]])
    with raises(InvalidArgument, "std"):
        GaussianEnvironment(Problem(1, 1, noise_std="estimated"), [[0.0]])
    with raises(InvalidArgument, "std", given=[1.0, 2.0, 3.0]):
        GaussianEnvironment(problem, np.zeros((2, 2)), std=[1.0, 2.0, 3.0])
    with raises(InvalidArgument, "problem"):
        GaussianEnvironment(Problem(1, 1, reward_range=(0, 1)), [[0.0]])
    with raises(InvalidOutcome, "reward_range: a reward of this environment"):
        BernoulliEnvironment(Problem(1, 1, reward_range=(0, 0.5)), [[0.5]])


@pytest.mark.parametrize(
    ("means", "more", "tied"),
    [
        ([[0.5, 0.5], [0.5, 0.5]], {}, True),
        ([[0.5, 0.5], [0.3, 0.7]], {}, True),
        ([[0.5, 0.5], [0.5, 0.6]], {}, False),
        ([[0.5, 0.5], [0.5, 0.5]], {"tolerance": 0.1}, False),
        ([[0.5, 0.5], [-0.1, 1.1]], {}, False),
        ([[-0.5, 0.5], [-0.5, 0.5]], {}, False),
    ],
    ids=["equal", "equal overall", "different", "within what will do", "one kept", "none kept"],
)
def test_answers_tie_if_they_are_exactly_as_good_and_no_tolerance_allows_both(means, more, tied):
    problem = Problem(["a", "b"], 2, noise_std=1.0, **more)
    assert GaussianEnvironment(problem, means).truth.tied is tied


def test_rounding_breaks_no_tie():
    problem = Problem(["a", "b"], 1, floors=None, reward_range=(0, 1))
    rows = {"arm": [*"aaaaab"], "group": ["0"] * 6, "reward": [0.1, 0.2, 0.3, 0.4, 0.7, 0.34]}
    environment = ReplayEnvironment(problem, rows)
    (first,), (second,) = environment.cell_means
    assert 0.0 < abs(first - second) < 1e-15
    assert environment.truth.tied


@pytest.mark.parametrize("kind", ["gaussian", "bernoulli", "replay"])
def test_groups_arrive_by_themselves_in_the_stated_proportions(kind):
    noise = {"noise_std": 1.0} if kind == "gaussian" else {"reward_range": (0, 1)}
    problem = Problem(["a", "b"], ["x", "y", "z"], floors=None, **noise)
    means = [[0.2, 0.4, 0.6], [0.5, 0.5, 0.5]]
    arrivals = {"z": 1e160, "x": 3e160, "y": 0.0}
    if kind == "gaussian":
        environment = GaussianEnvironment(problem, means, arrivals=arrivals)
    elif kind == "bernoulli":
        environment = BernoulliEnvironment(problem, means, arrivals=arrivals)
    else:
        labels = [problem.labels(action) for action in range(6)] * 2
        rows = [{**own, "reward": number < 6} for number, own in enumerate(labels)]
        environment = ReplayEnvironment(problem, pd.DataFrame(rows), arrivals=[3, 0, 1])
    generator = np.random.default_rng(4)
    groups = [environment.context(generator)["group"] for _ in range(2_000)]
    assert groups.count("y") == 0
    # 4 standard errors of a share of 3/4.
    assert abs(groups.count("x") / 2_000 - 0.75) < 4 * math.sqrt(0.75 * 0.25 / 2_000)
    policy = BlockBetting(problem)
    assert policy.compiled_run(environment, generator, 100) is None
    found = simulate(policy, environment, 2, horizon=60, progress=False)
    assert (found.pulls.reshape(2, 2, 3)[:, :, 1] == 0).all()
    assert environment.clone().context(generator)["group"] in "xz"
    assert GaussianEnvironment.context(environment.clone(arrivals=None), generator) == {}


@pytest.mark.parametrize("arrivals", [[1.0], [1, -1], [0, 0], [1, math.nan], {"x": 1}, "xy", 3])
def test_proportions_that_make_no_sense_are_refused(arrivals):
    problem = Problem(["a", "b"], ["x", "y"], floors=None, noise_std=1.0)
    with raises(InvalidArgument) as caught:
        GaussianEnvironment(problem, [[0, 0], [1, 1]], arrivals=arrivals)
    assert caught.value.name.startswith("arrivals")


def test_the_complexity_is_that_of_the_arrivals_of_the_environment():
    problem = Problem(["a", "b"], ["x", "y"], floors=None, noise_std=1.0)
    plain = GaussianEnvironment(problem, [[0, 0], [1, 1]])
    alone = plain.clone(arrivals={"x": 0.9, "y": 0.1})
    assert complexity(alone).value == complexity(plain, arrivals=[0.9, 0.1]).value
    assert complexity(alone).value > 2 * complexity(plain).value
