"""Environments: what the base answers, what counts as right, and which of them remember."""

import pickle

import numpy as np
import pytest

from fairtrial.core import Environment, Pull, Reading, Trajectory
from fairtrial.errors import InvalidArgument, NotSupported
from tests.core.toys import (
    ArrivalWorld,
    DelayedWorld,
    GaussianWorld,
    GroupProblem,
    RecordProblem,
    RecordWorld,
    ToyProblem,
    UsedUpWorld,
)

PROBLEM = ToyProblem(["a", "b", "c"])


class Constant(Environment):
    """The shortest world that a user can write."""

    def __init__(self, problem: ToyProblem) -> None:
        self.problem = problem

    def sample(self, pull: Pull, generator: np.random.Generator) -> float:
        return float(pull.action)


def test_a_world_needs_no_more_than_a_sample() -> None:
    world, generator = Constant(PROBLEM), np.random.default_rng(0)
    assert world.trajectory(PROBLEM.pull(arm="c"), generator) == Trajectory(2.0, 1.0, ())
    assert world.begin(generator) is world
    assert world.context(generator) == {}
    assert world.metrics(np.zeros(3, dtype=np.int64)) == {}
    with pytest.raises(NotSupported, match="Constant does not know the truth"):
        _ = world.truth


def test_ties_are_all_acceptable() -> None:
    truth = GaussianWorld(PROBLEM, [0.0, 1.0, 1.0]).truth
    assert truth.best == "b"
    assert [truth.accepts(arm) for arm in ("a", "b", "c", None)] == [False, True, True, False]


def test_no_arm_may_be_the_right_answer() -> None:
    truth = RecordWorld(RecordProblem(["a"], bound=0.1), [[0.1, 0.9]]).truth
    assert truth.accepts(None)
    assert not truth.accepts("a")


def test_a_set_of_arms_is_right_in_any_order() -> None:
    truth = DelayedWorld(PROBLEM, [0.0, 2.0, 1.0], k=2).truth
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
    world = GaussianWorld(PROBLEM, [0, 1, 2])
    other = world.clone(means=[2, 1, 0])
    assert (world.truth.best, other.truth.best) == ("c", "a")
    assert repr(other) == f"GaussianWorld(problem={PROBLEM!r}, means=[2, 1, 0])"
    with pytest.raises(InvalidArgument, match=r"^means must have shape \(3,\); got shape \(2,\)"):
        world.clone(means=[1, 2])


@pytest.mark.parametrize(
    "world",
    [
        GaussianWorld(PROBLEM, [0, 1, 2]),
        DelayedWorld(PROBLEM, [0, 1, 2]),
        RecordWorld(RecordProblem(2, bound=0.1), [[0, 1], [1, 0]]),
        ArrivalWorld(GroupProblem(2, 2), [[0, 1], [1, 0]], [0.5, 0.5]),
        UsedUpWorld(PROBLEM, [[1.0]] * 3),
    ],
    ids=lambda world: type(world).__name__,
)
def test_a_world_crosses_processes(world: Environment) -> None:
    again = pickle.loads(pickle.dumps(world))
    pull = world.problem.pull(**world.problem.labels(0))

    def path(world: Environment) -> Trajectory:
        generator = np.random.default_rng(5)
        return world.begin(generator).trajectory(pull, generator)

    assert path(again) == path(world)


def test_trajectories_are_in_the_order_of_time() -> None:
    world, generator = DelayedWorld(PROBLEM, [0, 1, 2]), np.random.default_rng(1)
    for _ in range(50):
        path = world.trajectory(PROBLEM.pull(arm="a"), generator)
        times = [reading.elapsed for reading in path.readings]
        assert times == sorted(times)
        assert all(time < path.delay for time in times)
    assert Reading(1.0, 2.0) == Reading(1.0, 2.0, {})
