"""What may be true instead of the assumed parameter."""

import numpy as np
import pytest

from fairtrial.errors import InvalidArgument
from fairtrial.linear import BernoulliEnvironment, GaussianEnvironment, Problem, ReplayEnvironment
from fairtrial.simulation import at_effect, default_scenarios
from tests.messages import raises

WITH_CONSTANT = [[1, 0, 0], [1, 1, 0], [1, 0, 1], [1, 1, 1]]
THETA = np.array([0.2, 0.3, -0.1])


def test_differences_shrink_towards_the_control_where_the_features_have_a_constant():
    environment = GaussianEnvironment(Problem(WITH_CONSTANT, noise_std=1.0), THETA)
    found = {s.name: s.environment for s in default_scenarios(environment)}
    assert list(found) == ["null", "half", "full"]
    worst = environment.arm_means.min()
    assert found["null"].arm_means == pytest.approx([worst] * 4)
    assert found["null"].truth.tied
    assert found["half"].arm_means == pytest.approx((environment.arm_means + worst) / 2)
    controlled = at_effect(environment, 2.0, control="1").environment
    assert controlled.arm_means[1] == pytest.approx(environment.arm_means[1])
    assert np.ptp(controlled.arm_means) == pytest.approx(2 * np.ptp(environment.arm_means))


def test_means_shrink_towards_zero_where_nothing_is_constant():
    problem = Problem([[1, 0], [0, 1], [0.7, 0.9]], noise_std=1.0)
    environment = GaussianEnvironment(problem, [1.0, 0.5])
    assert at_effect(environment, 0.5).environment.theta == pytest.approx([0.5, 0.25])
    assert at_effect(environment, 0.0).environment.truth.tied


def test_equal_arms_are_one_scenario_whatever_rounding_does():
    environment = GaussianEnvironment(Problem(WITH_CONSTANT, noise_std=1.0), [0.1, 0.0, 0.0])
    assert [scenario.name for scenario in default_scenarios(environment)] == ["full"]


def test_probabilities_stay_probabilities():
    environment = BernoulliEnvironment(Problem(WITH_CONSTANT, reward_range=(0, 1)), THETA)
    names = [scenario.name for scenario in default_scenarios(environment)]
    assert names == ["null", "half", "full"]
    with raises(InvalidArgument, "theta"):
        at_effect(environment, 10.0)


def test_the_rows_of_a_table_are_moved():
    problem = Problem([[1, 0], [1, 1]], arms=["a", "b"], reward_range=(0, 10))
    table = {"arm": ["a", "a", "b", "b"], "reward": [1.0, 3.0, 4.0, 8.0]}
    environment = ReplayEnvironment(problem, table)
    half = at_effect(environment, 0.5).environment
    assert half.arm_means == pytest.approx([2.0, 4.0])
    assert half.arm_stds == pytest.approx(environment.arm_stds)
    assert at_effect(environment, 0.0).environment.truth.tied


def test_a_control_that_is_no_candidate_is_refused():
    environment = GaussianEnvironment(Problem(WITH_CONSTANT, noise_std=1.0), THETA)
    with raises(InvalidArgument, "control"):
        at_effect(environment, 0.5, control="nobody")
