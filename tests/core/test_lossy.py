"""Lost results: how many, and which."""

import numpy as np
import pytest

from fairtrial import linear, subpopulations
from fairtrial.core.lossy import LossyEnvironment
from fairtrial.errors import InvalidArgument
from fairtrial.simulation import Scenario, operating_characteristics, simulate
from tests.core.toys import GaussianEnvironment as ToyEnvironment
from tests.core.toys import ToyProblem
from tests.messages import raises

PROBLEM = subpopulations.Problem(["a", "b"], 1, floors=None, reward_range=(0, 10))
ROWS = {"a": [0, 1, 2, 9], "b": [3, 3, 4, 10]}
TABLE = subpopulations.ReplayEnvironment(
    PROBLEM,
    {
        "arm": [arm for arm, rows in ROWS.items() for _ in rows],
        "group": ["0"] * 8,
        "reward": [float(value) for rows in ROWS.values() for value in rows],
    },
)
POLICY = subpopulations.BlockBetting(PROBLEM, seed=0)


def outcomes(environment, number=4_000):
    """Return by action the results, None for those that were lost."""
    generator = np.random.default_rng(1)
    pulls = POLICY.clone().ask(20)
    by_action = {pull.action: pull for pull in pulls}
    return {
        action: [environment.trajectory(pull, generator).outcome for _ in range(number)]
        for action, pull in by_action.items()
    }


@pytest.mark.statistical
def test_that_share_is_lost_by_chance_whatever_the_results_are():
    found = outcomes(LossyEnvironment(TABLE, 0.2))
    assert set(found) == {0, 1}
    for action, came in found.items():
        error = 4.0 * np.sqrt(0.2 * 0.8 / len(came))
        assert np.mean([value is None for value in came]) == pytest.approx(0.2, abs=error)
        known = [value for value in came if value is not None]
        assert np.mean(known) == pytest.approx(TABLE.cell_means[action, 0], abs=0.3)


@pytest.mark.statistical
@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_only_better_results_are_lost_where_the_outcome_matters(direction):
    problem = subpopulations.Problem(
        ["a", "b"], 1, floors=None, reward_range=(0, 10), direction=direction
    )
    table = subpopulations.ReplayEnvironment(problem, TABLE.table)
    found = outcomes(LossyEnvironment(table, 0.2, depends_on_outcome=True))
    for action, came in found.items():
        error = 4.0 * np.sqrt(0.2 * 0.8 / len(came))
        assert np.mean([value is None for value in came]) == pytest.approx(0.2, abs=error)
        rows, mean = table.rows[action], table.cell_means[action, 0]
        known = np.array([value for value in came if value is not None])
        worse = rows <= mean if direction == "maximize" else rows >= mean
        # Results that are not better come as often as without losses.
        for value in np.unique(rows[worse]):
            share = (known == value).sum() / len(came)
            assert share == pytest.approx((rows == value).mean(), abs=4.0 * np.sqrt(0.25 / 4_000))


def test_half_of_normal_results_are_above_their_mean_and_as_many_ones_as_the_probability_says():
    normal = subpopulations.Problem(["a", "b"], 1, floors=None, noise_std=1.0)
    environment = subpopulations.GaussianEnvironment(normal, [[0.0], [1.0]])
    assert LossyEnvironment(environment, 0.5, depends_on_outcome=True).rate == 0.5
    with raises(InvalidArgument, "rate", given=0.51):
        LossyEnvironment(environment, 0.51, depends_on_outcome=True)
    clicks = PROBLEM.clone(reward_range=(0, 1))
    rare = subpopulations.BernoulliEnvironment(clicks, [[0.1], [0.4]])
    assert LossyEnvironment(rare, 0.1, depends_on_outcome=True).truth.best == "b"
    with raises(InvalidArgument, "rate", given=0.11):
        LossyEnvironment(rare, 0.11, depends_on_outcome=True)


@pytest.mark.parametrize("rate", [-0.1, 1.0, 1.5, float("nan"), "many"])
def test_a_rate_is_a_share_below_one(rate):
    with raises(InvalidArgument, "rate", given=rate):
        LossyEnvironment(TABLE, rate)


def test_what_has_losses_of_its_own_or_none_that_is_known_is_refused():
    for given in (None, ToyEnvironment(ToyProblem(["a", "b"]), [0.0, 1.0])):
        with raises(InvalidArgument, "environment", given=given):
            LossyEnvironment(given, 0.1)
    with raises(InvalidArgument, "depends_on_outcome"):
        LossyEnvironment(TABLE, 0.1, depends_on_outcome="yes")


def test_no_losses_are_no_change():
    plain = simulate(POLICY, TABLE, 3, seed=5, horizon=60, engine="python", progress=False)
    same = simulate(POLICY, LossyEnvironment(TABLE, 0.0), 3, seed=5, horizon=60, progress=False)
    assert same.pulls.sum() == plain.pulls.sum() == 180
    assert (same.stopping_time == 60).all()


def test_pulls_without_a_result_count_as_pulls():
    scenario = Scenario("lossy", LossyEnvironment(TABLE, 0.5))
    found = operating_characteristics(POLICY, [scenario], 40, 5, progress=False)[0]
    assert found.pulls.mean == 40
    assert found.simulation.stopping_time.mean() < 35
    assert sum(found.by_action.values()) == pytest.approx(40)
    assert (found.lower_bound, found.fixed_sample) == (None, {})


def test_linear_arms_lose_results_too():
    arms = linear.Problem([[1, 0], [1, 1]], arms=["a", "b"], noise_std=1.0)
    environment = LossyEnvironment(linear.GaussianEnvironment(arms, [0.0, 3.0]), 0.1)
    scenario = Scenario("lossy", environment)
    found = operating_characteristics(
        linear.BlockBetting(arms), [scenario], 400, 5, progress=False
    )[0]
    assert found.right.count == 5
    assert found.bias is not None
