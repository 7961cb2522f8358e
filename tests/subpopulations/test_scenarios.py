"""What may be true instead of the assumed means."""

import numpy as np
import pytest

from fairtrial.errors import InvalidArgument
from fairtrial.simulation import at_effect, default_scenarios
from fairtrial.subpopulations import (
    BernoulliEnvironment,
    GaussianEnvironment,
    Problem,
    ReplayEnvironment,
)
from tests.messages import raises

MEANS = np.array([[0.3, 0.5], [0.5, 0.6], [0.1, 0.9]])
FLOORED = Problem(["a", "b", "c"], ["x", "y"], floors=0.2, noise_std=1.0)


def of(environment, control=None):
    return {s.name: s.environment for s in default_scenarios(environment, control)}


def replayed(problem, means, offsets=(-0.1, 0.0, 0.1)):
    cells = zip(problem.action_labels, np.ravel(means), strict=True)
    rows = [(*labels.values(), mean + off) for labels, mean in cells for off in offsets]
    columns = dict(zip(("arm", "group", "reward"), zip(*rows, strict=True), strict=True))
    return ReplayEnvironment(problem, columns)


def test_differences_are_counted_from_the_worst_acceptable_arm_or_from_the_control():
    found = of(GaussianEnvironment(FLOORED, MEANS))
    assert list(found) == ["null", "half", "full", "one group harmed", "none acceptable"]
    # "c" is worse overall, but it is below the floor.
    assert found["null"].means == pytest.approx(np.array([MEANS[0]] * 3))
    assert found["half"].means == pytest.approx((MEANS + MEANS[0]) / 2)
    assert found["full"].means == pytest.approx(MEANS)
    controlled = of(GaussianEnvironment(FLOORED, MEANS), control="b")
    assert controlled["null"].means == pytest.approx(np.array([MEANS[1]] * 3))


def test_the_answer_is_harmful_in_one_group_just_beyond_its_closest_limit():
    found = of(GaussianEnvironment(FLOORED, MEANS))["one group harmed"]
    changed = found.means != MEANS
    assert np.argwhere(changed).tolist() == [[1, 0]]
    assert found.means[1, 0] == pytest.approx(0.2 - 0.1 * 0.3)
    assert found.truth.best == "a"


def test_no_arm_is_acceptable_when_each_is_beyond_a_limit():
    found = of(GaussianEnvironment(FLOORED, MEANS))["none acceptable"]
    assert found.means == pytest.approx(np.array([[0.1, 0.5], [-0.1, 0.6], [0.1, 0.9]]))
    assert (found.truth.best, found.truth.acceptable) == (None, (None,))


def test_harm_is_a_mean_that_is_too_large_where_small_ones_are_good():
    problem = Problem(["a", "b"], 1, floors=1.0, noise_std=1.0, direction="minimize")
    found = of(GaussianEnvironment(problem, [[0.9], [0.5]]))
    assert found["null"].means == pytest.approx(np.array([[0.9]] * 2))
    assert found["one group harmed"].means == pytest.approx(np.array([[0.9], [1.05]]))
    assert found["one group harmed"].truth.best == "a"
    assert found["none acceptable"].truth.best is None


def test_a_ceiling_does_harm_too_and_a_tolerance_is_allowed_for():
    problem = Problem(["a", "b"], 1, floors=0.0, ceilings=1.0, noise_std=1.0, floor_tolerance=0.05)
    found = of(GaussianEnvironment(problem, [[0.5], [0.9]]))
    assert found["one group harmed"].means[1, 0] > 1.05
    assert found["one group harmed"].truth.acceptable == ("a",)
    assert found["none acceptable"].truth.acceptable == (None,)


@pytest.mark.parametrize("floors", [None, 0.0], ids=["no floor", "a floor at the range's end"])
def test_what_cannot_happen_is_no_scenario(floors):
    problem = Problem(["a", "b"], 1, floors=floors, reward_range=(0, 1))
    assert list(of(BernoulliEnvironment(problem, [[0.3], [0.5]]))) == ["null", "half", "full"]


def test_scenarios_with_the_same_means_are_looked_at_once():
    equal = Problem(["a", "b"], 1, floors=None, noise_std=1.0)
    assert list(of(GaussianEnvironment(equal, [[0.5], [0.5]]))) == ["full"]
    single = Problem(["a"], 1, floors=0.2, noise_std=1.0)
    found = of(GaussianEnvironment(single, [[0.5]]))
    # Only one arm: "harmed" and "none acceptable" differ in how far it is below the floor.
    assert list(found) == ["full", "one group harmed", "none acceptable"]


def test_equal_arms_of_a_table_have_the_same_rows():
    problem = Problem(["a", "b", "c"], ["x", "y"], floors=0.2, reward_range=(0, 1))
    found = of(replayed(problem, MEANS))
    rows = found["null"].rows
    assert all(np.array_equal(rows[cell], rows[cell % 2]) for cell in range(6))
    assert found["null"].truth.tied
    assert found["half"].cell_means == pytest.approx((MEANS + MEANS[0]) / 2)
    assert found["none acceptable"].truth.best is None
    assert found["full"].about == found["null"].about


def test_an_effect_that_no_rewards_have_is_refused_by_name():
    problem = Problem(["a", "b"], 1, floors=None, reward_range=(0, 1))
    means = [[0.3], [0.5]]
    assert at_effect(BernoulliEnvironment(problem, means), 3.5).environment.means[1, 0] == 1.0
    with raises(InvalidArgument, "means[b, 0]", given=1.02):
        at_effect(BernoulliEnvironment(problem, means), 3.6)
    with raises(InvalidArgument, "means[b, 0]", given=2.3):
        at_effect(replayed(problem, means), 10)
    with raises(InvalidArgument, "effect"):
        at_effect(BernoulliEnvironment(problem, means), -0.5)
    with raises(InvalidArgument, "control", given="z"):
        default_scenarios(BernoulliEnvironment(problem, means), control="z")
