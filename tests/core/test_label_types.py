"""Labels in the type in which they were given: they are kept as text."""

import numpy as np
import pytest

from fairtrial import allocation, delayed, linear, subpopulations
from fairtrial.errors import InvalidArgument
from fairtrial.study import Study
from tests.messages import raises

MADE = {
    "subpopulations": lambda arms: subpopulations.Problem(arms, 1, noise_std=1.0, control=arms[0]),
    "linear": lambda arms: linear.Problem(
        np.eye(len(arms)), arms=arms, noise_std=1.0, control=arms[1], floors={arms[0]: -9.0}
    ),
    "delayed": lambda arms: delayed.Problem(arms, noise_std=1.0, control=arms[0]),
    "allocation": lambda arms: allocation.Problem(arms, shares=[0.3, 0.3]),
}
LABELS = [[1, 2], [0.5, 1.5], [True, False], [np.int64(3), np.int64(4)], [np.float64(0.1), 7]]


@pytest.mark.parametrize("family", MADE)
@pytest.mark.parametrize("arms", LABELS, ids=str)
def test_an_arm_is_named_by_what_it_was_given_as_or_by_its_text(family, arms):
    problem = MADE[family](arms)
    more = {"group": problem.groups[0]} if family == "subpopulations" else {}
    for place, arm in enumerate(arms):
        for label in (arm, str(arm)):
            pull = problem.pull(arm=label, **more)
            assert (pull.action, pull.arm) == (place, str(arm))
    with raises(InvalidArgument):
        problem.pull(arm=99, **more)


@pytest.mark.parametrize("family", MADE)
def test_labels_with_the_same_text_are_refused(family):
    with raises(InvalidArgument) as error:
        MADE[family]([1, "1"])
    assert error.value.name == "arms[1]"


def test_groups_and_what_is_given_by_group_may_be_numbers():
    problem = subpopulations.Problem(
        [1, 2], {10: 0.4, 20: 0.6}, floors={1: {10: 0.1, 20: None}, 2: 0.2}, reward_range=(0, 1)
    )
    assert problem.groups == ("10", "20")
    assert problem.floors.tolist() == [[0.1, -np.inf], [0.2, 0.2]]
    assert problem.check_means({1: {10: 0.1, 20: 0.2}, 2: [0.3, 0.4]}).tolist() == [
        [0.1, 0.2],
        [0.3, 0.4],
    ]
    policy = subpopulations.BlockBetting(problem)
    assert policy.ask(group=20).group == "20"
    study = Study.create(problem, policy.clone(), storage="memory://", name="numbers", seed=1)
    assert study.ask(group=np.int64(10)).group == "10"
    study.tell(problem.pull(arm=2, group=20), 0.5)
    assert study.verify().ok
    with raises(InvalidArgument):
        subpopulations.Problem(2, {1: 0.5, "1": 0.5}, reward_range=(0, 1))
    with raises(InvalidArgument):
        subpopulations.Problem(2, ["1", "2"], floors={1: 0.5, "1": 0.5}, reward_range=(0, 1))
