"""Environments: the defaults of the base, which answers are right, and which have memory."""

import pickle

import numpy as np
import pytest

from fairtrial.core import Environment, Pull, Reading, Trajectory
from fairtrial.errors import InvalidArgument, NotSupported
from tests.core.toys import (
    ArrivalEnvironment,
    DelayedEnvironment,
    GaussianEnvironment,
    GroupProblem,
    RecordEnvironment,
    RecordProblem,
    ToyProblem,
    UsedUpEnvironment,
)
from tests.messages import raises

PROBLEM = ToyProblem(["a", "b", "c"])


class Constant(Environment):
    """The shortest environment that a user can write."""

    def __init__(self, problem: ToyProblem) -> None:
        self.problem = problem

    def sample(self, pull: Pull, generator: np.random.Generator) -> float:
        return float(pull.action)


def test_an_environment_needs_no_more_than_a_sample() -> None:
    environment, generator = Constant(PROBLEM), np.random.default_rng(0)
    assert environment.trajectory(PROBLEM.pull(arm="c"), generator) == Trajectory(2.0, 1.0, ())
    assert environment.begin(generator) is environment
    assert environment.context(generator) == {}
    assert environment.metrics(np.zeros(3, dtype=np.int64)) == {}
    with raises(NotSupported):
        _ = environment.truth


def test_ties_are_all_acceptable() -> None:
    truth = GaussianEnvironment(PROBLEM, [0.0, 1.0, 1.0]).truth
    assert truth.best == "b"
    assert [truth.accepts(arm) for arm in ("a", "b", "c", None)] == [False, True, True, False]


def test_no_arm_may_be_the_right_answer() -> None:
    truth = RecordEnvironment(RecordProblem(["a"], bound=0.1), [[0.1, 0.9]]).truth
    assert truth.accepts(None)
    assert not truth.accepts("a")


def test_a_set_of_arms_is_right_in_any_order() -> None:
    truth = DelayedEnvironment(PROBLEM, [0.0, 2.0, 1.0], k=2).truth
    assert truth.best == ("b", "c")
    for answer, right in [
        (("b", "c"), True),
        (("c", "b"), True),
        (("a", "b"), False),
        (("b", "b"), False),
        (("b",), False),
        (None, False),
    ]:
        assert truth.accepts(answer) is right


def test_an_environment_is_made_again_from_its_parameters() -> None:
    environment = GaussianEnvironment(PROBLEM, [0, 1, 2])
    other = environment.clone(means=[2, 1, 0])
    assert (environment.truth.best, other.truth.best) == ("c", "a")
    assert repr(other) == f"GaussianEnvironment(problem={PROBLEM!r}, means=[2, 1, 0])"
    with raises(InvalidArgument, "means"):
        environment.clone(means=[1, 2])


@pytest.mark.parametrize(
    "environment",
    [
        GaussianEnvironment(PROBLEM, [0, 1, 2]),
        DelayedEnvironment(PROBLEM, [0, 1, 2]),
        RecordEnvironment(RecordProblem(2, bound=0.1), [[0, 1], [1, 0]]),
        ArrivalEnvironment(GroupProblem(2, 2), [[0, 1], [1, 0]], [0.5, 0.5]),
        UsedUpEnvironment(PROBLEM, [[1.0]] * 3),
    ],
    ids=lambda environment: type(environment).__name__,
)
def test_an_environment_crosses_processes(environment: Environment) -> None:
    again = pickle.loads(pickle.dumps(environment))
    pull = environment.problem.pull(**environment.problem.labels(0))

    def path(environment: Environment) -> Trajectory:
        generator = np.random.default_rng(5)
        return environment.begin(generator).trajectory(pull, generator)

    assert path(again) == path(environment)


def test_trajectories_are_in_the_order_of_time() -> None:
    environment, generator = DelayedEnvironment(PROBLEM, [0, 1, 2]), np.random.default_rng(1)
    for _ in range(50):
        path = environment.trajectory(PROBLEM.pull(arm="a"), generator)
        times = [reading.elapsed for reading in path.readings]
        assert times == sorted(times)
        assert all(time < path.delay for time in times)
    assert Reading(1.0, 2.0) == Reading(1.0, 2.0, {})
