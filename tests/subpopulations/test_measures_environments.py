"""Environments of several measures: draws, dependence between measures, and truth."""

import math

import numpy as np
import pandas as pd
import pytest

from fairtrial.core.drifting import DriftingEnvironment
from fairtrial.core.lossy import LossyEnvironment
from fairtrial.core.pull import Pull
from fairtrial.core.run import run_policy
from fairtrial.errors import InvalidArgument, InvalidOutcome
from fairtrial.subpopulations import (
    OVERALL,
    BernoulliEnvironment,
    GaussianEnvironment,
    Problem,
    ReplayEnvironment,
)
from fairtrial.testing import check_environment
from tests.messages import raises
from tests.subpopulations.measuring_toys import TakesTurns

DRAWS = 4_000

DOSES = Problem(
    ["low", "high"],
    1,
    measures={"cured": (0, 1), "harmed": (0, 1)},
    objective="cured",
    ceilings={"harmed": 0.3},
)
MEANS = {"cured": [[0.4], [0.6]], "harmed": [[0.1], [0.4]]}
NORMAL = Problem(
    2, 2, measures=["a", "b"], objective="a", noise_cov=[[4.0, 1.0], [1.0, 1.0]], floors={"b": 0}
)
ROWS = {
    "arm": ["low"] * 3 + ["high"] * 2,
    "group": ["0"] * 5,
    "cured": [0, 1, 1, 1, 1],
    "harmed": [0, 0, None, 1, 0],
}


def _drawn(environment, action: int) -> pd.DataFrame:
    generator = np.random.default_rng(5)
    pull = Pull(0, action, environment.problem.labels(action))
    return pd.DataFrame([environment.sample(pull, generator) for _ in range(DRAWS)])


def _assert_moments(environment, action: int) -> None:
    """Means and covariances of draws are those that the environment states, to 5 errors."""
    drawn, cell = _drawn(environment, action), divmod(action, len(environment.problem.groups))
    mean, covariance = environment.cell_means[cell], environment.cell_covariances[cell]
    errors = np.sqrt(np.diagonal(covariance) / DRAWS)
    assert np.abs(drawn.mean() - mean).to_numpy() == pytest.approx(0, abs=5 * errors.max() + 1e-12)
    spreads = np.sqrt(np.outer(np.diagonal(covariance), np.diagonal(covariance)))
    assert (
        (np.abs(drawn.cov() - covariance) <= 10 * spreads / math.sqrt(DRAWS) + 1e-12)
        .to_numpy()
        .all()
    )


@pytest.mark.statistical
@pytest.mark.parametrize("correlation", [None, 0.3, -0.2])
def test_coins_have_the_means_and_the_correlation_that_are_stated(correlation) -> None:
    environment = BernoulliEnvironment(DOSES, MEANS, correlation=correlation)
    check_environment(environment)
    for action in range(2):
        _assert_moments(environment, action)
        p, q = environment.cell_means[action, 0]
        stated = (correlation or 0.0) * math.sqrt(p * (1 - p) * q * (1 - q))
        assert environment.cell_covariances[action, 0, 0, 1] == pytest.approx(stated, abs=1e-12)
    assert environment.truth.best == "low"
    assert environment.truth.details["feasible"].tolist() == [True, False]


@pytest.mark.statistical
def test_a_joint_table_gives_the_means() -> None:
    joint = [[0.5, 0.1], [0.1, 0.3]]
    environment = BernoulliEnvironment(DOSES, None, joint=joint)
    assert environment.cell_means.tolist() == [[[0.4, 0.4]], [[0.4, 0.4]]]
    _assert_moments(environment, 0)
    moved = environment.with_means(MEANS)
    assert moved.cell_means == pytest.approx(DOSES.check_means(MEANS))
    table = moved._chances[0, 0].reshape(2, 2)
    odds = table[1, 1] * table[0, 0] / (table[0, 1] * table[1, 0])
    assert odds == pytest.approx(0.5 * 0.3 / 0.01)


def test_values_are_at_the_ends_of_their_ranges() -> None:
    problem = Problem(1, 1, measures={"x": (-2, 3), "y": (10, 20)}, objective="x")
    environment = BernoulliEnvironment(problem, [[[0.5, 12.0]]])
    drawn = _drawn(environment, 0)
    assert set(drawn.x) == {-2.0, 3.0}
    assert set(drawn.y) == {10.0, 20.0}
    _assert_moments(environment, 0)


@pytest.mark.statistical
def test_normal_measures_have_the_covariance_of_the_problem_or_their_own() -> None:
    means = np.arange(8.0).reshape(2, 2, 2)
    for environment in (
        GaussianEnvironment(NORMAL, means),
        GaussianEnvironment(NORMAL, means, cov=[[1.0, -1.0], [-1.0, 1.0]]),
    ):
        check_environment(environment)
        _assert_moments(environment, 3)
    stds = Problem(1, 1, measures=["a", "b"], objective="b", noise_std={"a": 1, "b": 2})
    assert GaussianEnvironment(stds, [[[0, 0]]]).cell_covariances[0, 0].tolist() == [[1, 0], [0, 4]]


def test_rows_are_replayed_whole_and_blanks_stay_missing() -> None:
    environment = ReplayEnvironment(DOSES, ROWS)
    check_environment(environment)
    drawn = {tuple(row) for row in _drawn(environment, 0).fillna(-1).to_numpy()}
    assert drawn == {(0, 0), (1, 0), (1, -1)}
    assert environment.cell_means.tolist() == [[[2 / 3, 0.0]], [[1.0, 0.5]]]
    assert environment.truth.best == "low"
    renamed = {**ROWS, "tox": ROWS["harmed"]}
    del renamed["harmed"]
    other = ReplayEnvironment(DOSES, renamed, reward={"harmed": "tox"})
    assert other.cell_means.tolist() == environment.cell_means.tolist()
    again = environment.with_rows(environment.rows)
    assert again.cell_means.tolist() == environment.cell_means.tolist()


@pytest.mark.parametrize(
    ("changes", "error", "name"),
    [
        ({"harmed": [0, 0, 0, 2, 0]}, InvalidOutcome, "table row 3: harmed"),
        ({"harmed": [0, 0, 0, "x", 0]}, InvalidOutcome, "table row 3: harmed"),
        ({"harmed": [0, 0, 0]}, InvalidArgument, "table"),
        ({"arm": ["low"] * 4 + ["top"]}, InvalidArgument, "table row 4"),
        ({"arm": ["low"] * 5}, InvalidArgument, "table"),
        ({"harmed": [0, 0, 0, None, None]}, InvalidArgument, "table"),
    ],
)
def test_tables_that_do_not_fit_are_refused(changes, error, name) -> None:
    with raises(error, name):
        ReplayEnvironment(DOSES, {**ROWS, **changes})


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"means": None}, "means"),
        ({"means": {"cured": [[0.4], [0.6]], "harmed": [[0.1], [1.4]]}}, "means[high, 0, harmed]"),
        ({"correlation": 0.9}, "correlation"),
        ({"correlation": [1, 2, 3]}, "correlation"),
        ({"correlation": 0.1, "joint": np.full((2, 2), 0.25)}, "joint"),
        ({"joint": np.full((2, 2), 0.3)}, "joint"),
        ({"joint": [[-0.5, 0.5], [0.5, 0.5]]}, "joint[0, 0]"),
        ({"joint": [0.5, 0.5]}, "joint"),
        ({"joint": [[1, 0], [0, 0]]}, "means"),
    ],
)
def test_coins_that_cannot_be_are_refused(arguments, name) -> None:
    with raises(InvalidArgument, name):
        BernoulliEnvironment(DOSES, **{"means": MEANS, **arguments})


def test_environments_refuse_problems_of_the_other_kind() -> None:
    with raises(InvalidArgument, "problem"):
        BernoulliEnvironment(NORMAL, np.zeros((2, 2, 2)))
    with raises(InvalidArgument, "problem"):
        GaussianEnvironment(DOSES, MEANS)
    with raises(InvalidArgument, "std"):
        GaussianEnvironment(NORMAL, np.zeros((2, 2, 2)), std=1.0)
    with raises(InvalidArgument, "cov"):
        GaussianEnvironment(NORMAL, np.zeros((2, 2, 2)), cov=[[1, 2], [2, 1]])
    one = Problem(2, 1, reward_range=(0, 1))
    with raises(InvalidArgument, "correlation"):
        BernoulliEnvironment(one, [[0.1], [0.2]], correlation=0.1)


def test_an_overall_limit_decides_what_is_feasible() -> None:
    problem = Problem(
        2,
        {"x": 0.5, "y": 0.5},
        measures={"a": (0, 1), "b": (0, 1)},
        objective="a",
        ceilings={("b", OVERALL): 0.3},
    )
    means = {"a": [[0.5, 0.5], [0.9, 0.9]], "b": [[0.5, 0.1], [0.5, 0.2]]}
    truth = BernoulliEnvironment(problem, means).truth
    assert truth.best == "0"
    assert truth.means.shape == (2, 2, 2)


def test_a_policy_of_ones_own_runs_in_them() -> None:
    run = run_policy(
        TakesTurns(DOSES), BernoulliEnvironment(DOSES, MEANS), np.random.default_rng(1)
    )
    assert run.stopping_time == 40
    assert run.pulls.tolist() == [20, 20]


@pytest.mark.statistical
def test_results_get_lost_because_of_their_objective() -> None:
    environment = BernoulliEnvironment(DOSES, MEANS, correlation=0.3)
    lossy = LossyEnvironment(environment, rate=0.2, depends_on_outcome=True)
    generator, pull = np.random.default_rng(2), Pull(0, 1, DOSES.labels(1))
    paths = [lossy.trajectory(pull, generator) for _ in range(DRAWS)]
    lost = sum(path.outcome is None for path in paths) / DRAWS
    assert lost == pytest.approx(0.2, abs=5 * math.sqrt(0.16 / DRAWS))
    kept = [path.outcome["cured"] for path in paths if path.outcome]
    assert np.mean(kept) == pytest.approx(0.4 / 0.8, abs=0.05)


def test_all_measures_drift_together() -> None:
    pull = Pull(100, 0, NORMAL.labels(0))
    still = GaussianEnvironment(NORMAL, np.zeros((2, 2, 2)))
    drifting = DriftingEnvironment(still, drift=1.0)
    found = drifting.sample(pull, np.random.default_rng(3))
    start = still.sample(pull, np.random.default_rng(3))
    assert found["a"] - start["a"] == pytest.approx(200.0)
    assert found["b"] - start["b"] == pytest.approx(100.0)
    bounded = DriftingEnvironment(BernoulliEnvironment(DOSES, MEANS), drift=0.02)
    late = Pull(100, 0, DOSES.labels(0))
    assert bounded.sample(late, np.random.default_rng(4)) == {"cured": 1.0, "harmed": 1.0}
