"""Simulated units with a prediction."""

import numpy as np
import pytest

from fairtrial import simulate
from fairtrial.core.mistakes import Mistakes
from fairtrial.errors import InvalidArgument
from fairtrial.subpopulations import (
    BlockBetting,
    PredictedEnvironment,
    Problem,
    ReplayEnvironment,
    scenarios,
)
from fairtrial.subpopulations.family import FAMILY
from tests import effort
from tests.messages import raises

MEANS = [[0.3, 0.2], [0.5, 0.1]]


def problem_of(**arguments):
    stated = {"floors": 0.05, "reward_range": (0, 1), "prediction": (0, 1), **arguments}
    return Problem(["a", "b"], {"x": 0.7, "y": 0.3}, **stated)


@pytest.mark.parametrize("r_squared", effort.first(2, [0.0, 0.7, 0.3]))
def test_units_have_the_stated_means_and_correlation(r_squared):
    """20,000 units, 3,000 or more in a cell; standard errors are below .01."""
    problem = problem_of()
    random = np.random.default_rng(1)
    means = [[0.3, 0.2], [0.33, 0.19]]
    environment = PredictedEnvironment(problem, means, r_squared).begin(random)
    rows = {}
    for number in range(20_000):
        unit = environment.context(random)
        arm = problem.arms[number % 2]
        reward = environment.sample(problem.pull(arm=arm, group=unit["group"]), random)
        rows.setdefault((arm, unit["group"]), []).append((unit["prediction"], reward))
    for (arm, group), own in rows.items():
        predictions, rewards = np.array(own).T
        wanted = means[problem.arms.index(arm)][problem.groups.index(group)]
        assert rewards.mean() == pytest.approx(wanted, abs=0.04)
        assert set(rewards) <= {0.0, 1.0}
        if r_squared:
            found = np.corrcoef(predictions, rewards)[0, 1] ** 2
            # The share is stated for the average of the arms.
            assert found == pytest.approx(r_squared, abs=0.08)
    same = [np.mean(np.array(rows[arm, "x"])[:, 0]) for arm in problem.arms]
    assert same[0] == pytest.approx(same[1], abs=0.03)


def test_runs_do_not_share_units_and_have_the_right_answer():
    problem = problem_of()
    environment = PredictedEnvironment(problem, [[0.2, 0.3], [0.8, 0.7]], 0.5)
    result = simulate(BlockBetting(problem), environment, 3, seed=1, progress=False)
    assert result.error_rate == 0.0
    again = simulate(BlockBetting(problem), environment, 3, seed=1, progress=False)
    assert result.stopping_time.tolist() == again.stopping_time.tolist()


@pytest.mark.parametrize(
    ("arguments", "changes", "name"),
    [
        ({"r_squared": 1.0}, {}, "r_squared"),
        ({"r_squared": -0.1}, {}, "r_squared"),
        ({}, {"prediction": None}, "problem"),
        ({}, {"prediction": (0, 0.5)}, "problem"),
    ],
)
def test_a_world_that_cannot_be_is_refused(arguments, changes, name):
    with raises(InvalidArgument) as error:
        PredictedEnvironment(problem_of(**changes), MEANS, **arguments)
    assert error.value.name == name


def test_a_file_states_how_much_predictions_explain():
    problem, mistakes = problem_of(), Mistakes("plan", [])
    found = FAMILY.environment(problem, {"means": MEANS, "r_squared": 0.4}, mistakes)
    assert not mistakes
    assert isinstance(found, PredictedEnvironment)
    assert found.r_squared == 0.4
    assert found.clone(means=MEANS[::-1]).truth.best == "a"


@pytest.mark.parametrize(
    ("prediction", "given"),
    [
        ((0, 1), {}),
        ((0, 1), {"r_squared": 0.4, "noise": "gaussian"}),
        ((0, 1), {"r_squared": 0.4, "std": 0.1}),
        ((0, 1), {"r_squared": 1.4}),
        (None, {"r_squared": 0.4}),
    ],
)
def test_a_file_that_states_it_wrongly_is_refused(prediction, given):
    mistakes = Mistakes("plan", [])
    problem = problem_of(prediction=prediction)
    assert FAMILY.environment(problem, {"means": MEANS, **given}, mistakes) is None or mistakes
    assert mistakes


def recorded(number=60):
    """Return rows whose scores predict their rewards, by arm and group."""
    random = np.random.default_rng(3)
    table = {"arm": [], "group": [], "reward": [], "score": []}
    for _ in range(number):
        arm, score = str(random.choice(["a", "b"])), float(random.choice([0.1, 0.4, 0.8]))
        table["arm"].append(arm)
        table["group"].append(str(random.choice(["x", "y"])))
        table["score"].append(score)
        table["reward"].append(float(random.random() < score + 0.1 * (arm == "b")))
    return table


def test_replayed_units_keep_the_means_of_the_table_and_predictions_like_in_all_arms():
    table = recorded()
    environment = ReplayEnvironment(problem_of(), table, prediction="score")
    plain = ReplayEnvironment(problem_of(prediction=None), table)
    assert environment.truth.means == pytest.approx(plain.truth.means)
    random = np.random.default_rng(1)
    units, run = {}, environment.begin(random)
    for _ in range(4_000):
        unit = run.context(random)
        for arm in ("a", "b"):
            reward = run.sample(environment.problem.pull(arm=arm, group=unit["group"]), random)
            units.setdefault((arm, unit["group"]), []).append((unit["prediction"], reward))
    for (arm, group), own in units.items():
        known, rewards = np.array(own).T
        mean = environment.truth.means["ab".index(arm), "xy".index(group)]
        # 1,200 units or more: a standard error of .015.
        assert rewards.mean() == pytest.approx(mean, abs=0.06)
        assert np.corrcoef(known, rewards)[0, 1] > 0.3
        assert known.tolist() == np.array(units["a", group])[:, 0].tolist()


def test_rows_with_predictions_are_moved_as_a_whole():
    problem = problem_of(reward_range=(-1, 2))
    environment = ReplayEnvironment(problem, recorded(), prediction="score")
    moved = scenarios.with_means(environment, environment.cell_means + 0.25)
    assert moved.cell_means == pytest.approx(environment.cell_means + 0.25)
    same = scenarios.at_effect(environment, 0.0, "b")
    assert same.cell_means[0].tolist() == environment.cell_means[1].tolist()
    for one, other in zip(moved.predictions, environment.predictions, strict=True):
        assert one.tolist() == other.tolist()
    with raises(InvalidArgument):
        scenarios.with_means(environment, environment.cell_means + 1.5)


@pytest.mark.parametrize("blank", [None, "", np.nan])
def test_a_replayed_unit_may_lack_its_prediction_only_if_that_is_stated(blank):
    table = recorded()
    table["score"][7] = blank
    with raises(InvalidArgument) as error:
        ReplayEnvironment(problem_of(), table, prediction="score")
    assert error.value.name == "table row 7: score"
    problem = problem_of(prediction={"range": (0, 1), "missing": "mean"})
    environment = ReplayEnvironment(problem, table, prediction="score")
    random = np.random.default_rng(1)
    without = sum("prediction" not in environment.context(random) for _ in range(2_000))
    # About 1 of 60 units.
    assert 8 <= without <= 80


@pytest.mark.parametrize(
    ("prediction", "column"), [((0, 1), None), (None, "score"), ((0, 1), "no")]
)
def test_the_column_of_replayed_predictions_must_fit_the_problem(prediction, column):
    with raises(InvalidArgument):
        ReplayEnvironment(problem_of(prediction=prediction), recorded(), prediction=column)
