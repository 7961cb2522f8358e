"""T*, compared with reference values, closed forms and its own symmetries."""

import math

import numpy as np
import pytest

from fairtrial.data import direct_arylation, suzuki
from fairtrial.errors import InvalidArgument
from fairtrial.linear import (
    BernoulliEnvironment,
    GaussianEnvironment,
    Problem,
    ReplayEnvironment,
    complexity,
)
from tests.linear.test_designs import largest_form, soare
from tests.messages import raises


def complexity_of(problem, theta, std=None, **options):
    """Return the complexity for normal rewards with this parameter."""
    return complexity(GaussianEnvironment(problem, theta, std), **options)


@pytest.mark.parametrize(
    ("dimension", "angle", "hardness"),
    [(2, 0.01, 10100.0825), (5, 0.01, 10100.83625), (10, 0.01, 10102.0925), (5, 0.1, 110.8625014)],
)
def test_hardness_has_its_reference_value(dimension: int, angle: float, hardness: float) -> None:
    problem = Problem(soare(dimension, angle), noise_std=1.0)
    theta = np.eye(dimension)[0] * 2
    found = complexity_of(problem, theta)
    assert found.hardness == pytest.approx(hardness, rel=1e-6)
    assert found.value == found.upper == pytest.approx(2 * hardness, rel=1e-6)
    assert found.lower == pytest.approx(2 * hardness, rel=1e-6)
    assert found.answer == "0"
    gap = np.sort(problem.values(theta))[-2:]
    if angle == 0.01:
        assert gap[1] - gap[0] == pytest.approx(9.99991667e-5, abs=1e-12)


@pytest.mark.parametrize(("angle", "bound"), [(0.01, 53534.33), (0.1, 587.570)])
def test_the_lower_bound_has_its_reference_value(angle: float, bound: float) -> None:
    found = complexity_of(Problem(soare(5, angle), noise_std=1.0), [2, 0, 0, 0, 0])
    assert found.lower_bound(0.05) == pytest.approx(bound, rel=1e-5)
    assert found.kl(0.05) == pytest.approx(2.64999508, abs=1e-8)


def test_equal_pulls_of_the_axes_cost_five_times_as_much() -> None:
    problem = Problem(soare(5, 0.01), noise_std=1.0)
    rows = problem.features[0] - problem.features[1:]
    weights = np.array([0.2] * 5 + [0.0])
    scaled = rows / (2.0 * rows[:, :1])
    assert largest_form(problem, weights, scaled) == pytest.approx(50000.4167, rel=1e-6)


@pytest.mark.parametrize("dimension", range(2, 11))
def test_a_static_design_costs_the_dimension_times_more_than_the_oracle(dimension: int) -> None:
    ratios = [1.98, 2.97, 3.96, 4.95, 5.94, 6.93, 7.92, 8.91, 9.90]
    problem = Problem(soare(dimension, 0.01), noise_std=1.0)
    rows = problem.features[0] - problem.features[1:]
    uniform = np.append(np.full(dimension, 1.0 / dimension), 0.0)
    static = largest_form(problem, uniform, rows / (2.0 * rows[:, :1]))
    found = complexity_of(problem, np.eye(dimension)[0] * 2)
    assert static / found.hardness == pytest.approx(ratios[dimension - 2], rel=0.01)


def test_noise_by_arm_is_what_two_arms_of_a_plain_problem_cost() -> None:
    # For two unrelated arms T* = 2 (sigma_1 + sigma_2)^2 / gap^2, with pulls in ratio of the
    # noises.
    problem = Problem(np.eye(2), noise_std=[1.0, 3.0])
    found = complexity_of(problem, [0.5, 0.0])
    assert found.value == pytest.approx(2 * 16 / 0.25, rel=1e-6)
    assert found.hardness == pytest.approx(found.value / 18)
    assert found.allocation == pytest.approx([0.25, 0.75], abs=1e-3)
    other = problem.clone(noise_std=7.0)
    assert complexity_of(other, [0.5, 0.0], std=[1, 3]).value == pytest.approx(found.value)
    certain = complexity_of(other, [0.5, 0.0], std=[0, 3], tol=1e-3)
    assert certain.value == pytest.approx(2 * 9 / 0.25, rel=1e-3)


def test_epsilon_and_direction_do_what_they_say() -> None:
    slack = Problem(np.eye(2), noise_std=1.0, tolerance=0.5)
    assert complexity_of(slack, [0.5, 0.0]).value == pytest.approx(2 * 4 / 1.0, rel=1e-6)
    least = Problem(np.eye(2), noise_std=1.0, direction="minimize")
    assert complexity_of(least, [0.5, 0.0]).answer == "1"
    assert complexity_of(least, [0.5, 0.0]).value == pytest.approx(2 * 4 / 0.25, rel=1e-6)


def test_top_two_is_answered_with_two_labels() -> None:
    problem = Problem(np.eye(3), arms=["a", "b", "c"], noise_std=1.0, top=2)
    found = complexity_of(problem, [0.0, 0.5, 1.0])
    assert found.answer == ("c", "b")
    assert math.isfinite(found.value)
    everyone = complexity_of(problem.clone(top=3), [0.0, 0.5, 1.0])
    assert everyone.value == everyone.lower_bound(0.05) == 0.0


def test_a_tie_is_never_told_apart() -> None:
    problem = Problem(np.eye(3), arms=["a", "b", "c"], noise_std=1.0)
    found = complexity_of(problem, [1.0, 0.0, 1.0])
    assert found.value == found.lower == found.hardness == math.inf
    assert found.lower_bound(0.1) == math.inf
    assert found.allocation is None
    assert found.reason == "'a' and 'c' tie for best"
    assert math.isfinite(complexity_of(problem.clone(tolerance=0.1), [1.0, 0.0, 1.0]).value)
    same = Problem([[1, 0], [1, 0], [0, 1]], noise_std=1.0)
    assert math.isfinite(complexity_of(same, [1.0, 0.0]).value)


def test_what_is_no_environment_is_refused() -> None:
    with raises(InvalidArgument, "environment"):
        complexity(Problem(np.eye(2), noise_std=1.0))


def test_rewards_in_a_range_count_as_normal_ones_of_their_spread() -> None:
    problem = Problem(np.eye(2), reward_range=(0, 1))
    found = complexity(BernoulliEnvironment(problem, [0.8, 0.5]))
    wanted = complexity_of(Problem(np.eye(2), noise_std=[0.4, 0.5]), [0.8, 0.5])
    assert found.value == pytest.approx(wanted.value, rel=1e-6)
    assert "no bound" in found.assumes
    assert "no bound" not in wanted.assumes


@pytest.mark.parametrize(
    ("data", "hardness", "best", "gap"),
    [(direct_arylation, 26_200, 785, 0.0127), (suzuki, 239_000, 1156, 0.0041)],
)
def test_reactions_are_as_hard_as_their_linear_fit(data, hardness, best: int, gap: float) -> None:
    table = data()
    problem = Problem(table["features"], arms=table["arm"], noise_std=1.0)
    theta = ReplayEnvironment(problem, table).theta
    values = np.sort(problem.values(theta))
    found = complexity_of(problem, theta, tol=1e-3)
    assert found.answer == table["arm"][best]
    assert values[-1] - values[-2] == pytest.approx(gap, abs=6e-5)
    # The figures come from a search that ends slightly too high, never too low.
    assert 0.96 * hardness < found.hardness < 1.005 * hardness
