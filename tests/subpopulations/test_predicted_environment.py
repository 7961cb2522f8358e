"""Simulated units with a prediction."""

import numpy as np
import pytest

from fairtrial import analyse, simulate
from fairtrial.core.mistakes import Mistakes
from fairtrial.errors import InvalidArgument, NotSupported
from fairtrial.subpopulations import BlockBetting, PredictedEnvironment, Problem
from fairtrial.subpopulations.family import FAMILY

MEANS = [[0.3, 0.2], [0.5, 0.1]]


def problem_of(**arguments):
    stated = {"floors": 0.05, "reward_range": (0, 1), "prediction": (0, 1), **arguments}
    return Problem(["a", "b"], {"x": 0.7, "y": 0.3}, **stated)


@pytest.mark.parametrize("r_squared", [0.0, 0.3, 0.7])
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
    with pytest.raises(InvalidArgument) as error:
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


def test_finished_experiments_with_predictions_are_refused_before_anything_is_kept():
    rows = {"arm": ["a", "b"] * 50, "group": ["x"] * 100, "day": range(100), "outcome": [0, 1] * 50}
    with pytest.raises(NotSupported):
        analyse(problem_of(), rows, order="day")
