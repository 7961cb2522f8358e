"""Equal problems share what follows from their features; different ones never do."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from fairtrial.errors import InvalidArgument
from fairtrial.linear import Problem
from tests.messages import raises

FEATURES = [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]

GIVEN = {
    "features": FEATURES,
    "arms": ["a", "b", "c"],
    "noise_std": 1.0,
    "candidates": [[1.0, 0.0], [0.5, 0.5]],
    "answers": ["x", "y"],
    "control": "x",
    "margin": 0.1,
}


def test_equal_problems_share_their_geometry():
    first = Problem(**GIVEN)
    assert Problem(**GIVEN).geometry is first.geometry
    assert Problem.from_dict(first.to_dict()).geometry is first.geometry


@pytest.mark.parametrize(
    "other",
    [
        {"features": [[1.0, 0.0], [0.0, np.nextafter(1.0, 2.0)], [0.6, 0.8]]},
        {"features": [[1.0, 0.0, 0.6], [0.0, 1.0, 0.8]], "arms": ["a", "b"], "candidates": None}
        | {"answers": None, "control": None, "margin": None},
        {"arms": ["a", "b", "d"]},
        {"noise_std": 2.0},
        {"noise_std": [1.0, 1.0, 2.0]},
        {"candidates": [[1.0, 0.0], [0.5, 0.25]]},
        {"answers": ["x", "z"]},
        {"control": "y"},
        {"margin": 0.2},
        {"margin": {"y": 0.1}, "control": "x", "floors": 0.0},
    ],
)
def test_problems_that_differ_in_anything_do_not(other):
    first, second = Problem(**GIVEN), Problem(**GIVEN | other)
    assert first.geometry is not second.geometry
    assert second.geometry.names.answers == second.answers


def test_a_refused_problem_is_refused_again():
    for _ in range(2):
        with raises(InvalidArgument) as refused:
            Problem([[1.0, 0.0], [2.0, 0.0]], candidates=[[1.0, 0.0], [0.0, 1.0]], noise_std=1.0)
        assert refused.value.name == "candidates"


def test_only_the_last_ones_are_kept():
    first = weakref.ref(Problem(FEATURES, noise_std=3.0).geometry)
    for number in range(4, 7):
        Problem(FEATURES, noise_std=float(number))
    gc.collect()
    assert first() is None


def test_threads_share_one_geometry_and_find_the_same():
    def build(_):
        problem = Problem(np.eye(30), noise_std=1.0)
        return problem.geometry, problem.answer_groups

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(build, range(32)))
    assert len({id(geometry) for geometry, _ in found}) == 1
    assert len({groups for _, groups in found}) == 1
