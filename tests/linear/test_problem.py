"""What a problem accepts, refuses, writes as data, and makes of its features."""

import json
import math
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.core.specification import problem_from_dict
from fairtrial.errors import InvalidArgument, InvalidOutcome
from fairtrial.linear import BlockBetting, NotEstimable, Problem
from tests.messages import raises, warns

PLANE = [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]


def test_a_frame_labels_the_arms_and_its_columns_are_matched_by_name() -> None:
    features = pd.DataFrame(PLANE, index=["a", "b", "c"], columns=["x", "y"])
    candidates = pd.DataFrame({"y": [1.0, 2.0], "x": [5.0, 6.0]}, index=["p", "q"])
    problem = Problem(features, candidates, noise_std=1.0)
    assert problem.arms == ("a", "b", "c")
    assert problem.answers == ("p", "q")
    assert problem.candidates is not None
    assert problem.candidates.tolist() == [[5.0, 1.0], [6.0, 2.0]]
    with raises(InvalidArgument, "candidates"):
        Problem(features, candidates.rename(columns={"x": "z"}), noise_std=1.0)


def test_arms_are_the_answers_unless_there_are_candidates() -> None:
    assert Problem(PLANE, arms=["a", "b", "c"], noise_std=1.0).answers == ("a", "b", "c")
    other = Problem(PLANE, candidates=[[1, 1], [2, 0]], answers=["p", "q"], noise_std=1.0)
    assert other.answers == ("p", "q")
    assert other.n_actions == 3
    assert other.labels(2) == {"arm": "2"}


@pytest.mark.parametrize(
    "arguments",
    [
        {"noise_std": 0.5},
        {"noise_std": [0.5, 1.0, 2.0], "tolerance": 0.1, "top": 2, "direction": "minimize"},
        {"reward_range": (-1, 1), "arms": ["c", "b", "a"]},
        {"candidates": [[1, 1], [0.1 + 0.2, 0]], "answers": ["z", "a"], "noise_std": 1.0},
    ],
)
def test_the_problem_survives_json(arguments: dict) -> None:
    problem = Problem(PLANE, **arguments)
    data = json.loads(json.dumps(problem.to_dict(), sort_keys=True))
    again = problem_from_dict(data)
    assert again == problem
    assert isinstance(again, Problem)
    assert (again.features == problem.features).all()
    assert again.answers == problem.answers
    assert problem.clone() == problem
    assert problem.clone(tolerance=0.7) != problem


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"features": []}, "features"),
        ({"features": [[], []]}, "features"),
        ({"features": [[1, 2], [3]]}, "features"),
        ({"features": [[1, 2], [3, math.nan]]}, "features[1, 1]"),
        ({"features": [[1, 2], [math.inf, 1]]}, "features[1, 0]"),
        ({"candidates": [[1, math.nan]]}, "candidates[0, 1]"),
        ({"candidates": [[1, 2, 3]]}, "candidates"),
        ({"arms": ["a", "b"]}, "arms"),
        ({"arms": ["a", "a", "b"]}, "arms[1]"),
        ({"answers": ["p", "q", "r"]}, "answers"),
        ({"noise_std": None}, "noise_std, reward_range"),
        ({"reward_range": (0, 1)}, "noise_std, reward_range"),
        ({"noise_std": 0.0}, "noise_std"),
        ({"noise_std": [1, 1, 0]}, "noise_std[2]"),
        ({"noise_std": [1, 1]}, "noise_std"),
        ({"noise_std": None, "reward_range": (1, 1)}, "reward_range"),
        ({"tolerance": -0.1}, "tolerance"),
        ({"top": 0}, "top"),
        ({"top": 4}, "top"),
        ({"direction": "up"}, "direction"),
    ],
)
def test_bad_arguments_are_named_with_what_is_accepted(arguments: dict, name: str) -> None:
    with raises(InvalidArgument, name):
        Problem(**({"features": PLANE, "noise_std": 1.0} | arguments))


def test_candidates_that_no_arm_can_tell_apart_are_refused_by_name() -> None:
    flat = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    candidates = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 1e-3]]
    with raises(NotEstimable, "candidates"):
        Problem(flat, candidates, answers=["p", "q", "r"], noise_std=1.0)
    with raises(NotEstimable, "candidates"):
        Problem(flat, [[1, 0, 7], [0, 1, 7], [2, 1, 6]], noise_std=1.0)
    assert Problem(flat, [[1, 0, 7], [0, 1, 7]], noise_std=1.0).rank == 2


@pytest.mark.parametrize("unit", [1e-20, 1e-9, 1.0, 1e20])
def test_a_feature_that_no_arm_has_must_be_the_same_for_all_candidates(unit: float) -> None:
    arms = [[1.0, 1.0, 0.0], [1.0, 2.0, 0.0]]
    with raises(NotEstimable, "candidates"):
        Problem(arms, [[1, 1, 0], [1, 500, unit]], noise_std=1.0)
    same = Problem(arms, [[1, 1, unit], [1, 500, unit]], noise_std=1.0)
    assert len(same.answer_groups) == 2


def test_the_rank_does_not_depend_on_units_or_on_repeated_columns() -> None:
    generator = np.random.default_rng(0)
    features = generator.normal(size=(9, 3))
    for units in ([1.0, 1.0, 1.0], [1e-12, 1.0, 1e12]):
        problem = Problem(features * units, noise_std=1.0)
        assert problem.rank == 3
    repeated = np.column_stack([features, features @ [1.0, 2.0, 3.0], np.zeros(9)])
    assert Problem(repeated, noise_std=1.0).rank == 3


@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 8), st.booleans())
def test_reduced_coordinates_keep_every_mean_and_every_difference(
    seed: int, rank: int, arms: int, by_arm: bool
) -> None:
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(arms, rank)) @ generator.normal(size=(rank, 5))
    noise = generator.uniform(0.5, 2.0, arms) if by_arm else 0.7
    problem = Problem(features, noise_std=noise)
    reduced = problem.reduced
    assert problem.rank == min(arms, rank)
    assert np.allclose(reduced.arms.T @ reduced.arms / arms, np.eye(problem.rank))
    phi = generator.normal(size=problem.rank)
    means = problem.scale.max() * features @ (reduced.basis @ phi)
    assert np.allclose(reduced.arms @ phi * problem.scale, means)
    values = reduced.unit * ((reduced.candidates + reduced.rest) @ phi)
    assert np.allclose(np.subtract.outer(values, values), np.subtract.outer(means, means))
    chosen = problem.basis_arms
    assert len(chosen) == problem.rank == np.linalg.matrix_rank(features[chosen])


def test_identical_candidates_are_one_answer_and_identical_arms_are_measured_once() -> None:
    rows = [[1, 0], [0, 1], [1, 0], [-0.0, 1]]
    problem = Problem(rows, noise_std=1.0)
    assert problem.answer_groups == ((0, 2), (1, 3))
    assert problem.group_of.tolist() == [0, 1, 0, 1]
    assert problem.distinct_arms.tolist() == [0, 1]
    noisy = Problem(rows, noise_std=[1, 1, 2, 1])
    assert noisy.distinct_arms.tolist() == [0, 1, 2]
    assert noisy.answer_groups == ((0, 2), (1, 3))
    with raises(InvalidArgument, "top"):
        Problem(rows, noise_std=1.0, top=3)


@pytest.mark.parametrize("dependent", [False, True])
def test_candidates_that_differ_by_rounding_only_are_one_answer(dependent: bool) -> None:
    generator = np.random.default_rng(5)
    for _ in range(20):
        rows = generator.normal(size=(6, 3)) * 10.0 ** generator.integers(-3, 4, size=3)
        features = rows[np.tile(np.arange(6), 3)]
        up = generator.random(features.shape) < 0.5
        features = np.where(up, np.nextafter(features, np.inf), features)
        if dependent:
            features = np.hstack([features, features @ generator.normal(size=(3, 1))])
        problem = Problem(features, noise_std=0.1)
        assert problem.answer_groups == tuple((k, k + 6, k + 12) for k in range(6))
        assert problem.rank == 3
    policy = BlockBetting(problem)
    best = problem.features @ np.linalg.lstsq(problem.features, np.eye(18)[0], rcond=None)[0]
    while not policy.stopped:
        pull = policy.ask()
        policy.tell(pull, best[pull.action])
    assert policy.recommend().arm == str(best.argmax() % 6)


def test_equal_in_what_is_measured_but_not_otherwise_is_refused() -> None:
    arms = [[1.0, 0.0], [2.0, 0.0]]
    for tiny in (1e-10, 1e-12):
        with raises(NotEstimable, "candidates"):
            Problem(arms, candidates=[[0, 0], [1, tiny], [1, 0]], noise_std=1.0)


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ([[1.0, 0.3], [1.0, 0.7], [1.0, 2.0]], True),
        ([[5e-9, 3e6], [5e-9, 7e6], [5e-9, 2e6]], True),
        ([[1.0, 0.0, 2.0], [0.0, 1.0, 2.5], [0.0, 1.0, 3.0], [1.0, 0.0, 9.0]], True),
        ([[1.0, 0.0], [0.0, 1.0]], True),
        ([[0.3], [0.7], [2.0]], False),
        ([[1.0, 0.0], [0.0, 1.0], [0.9, 0.5]], False),
    ],
    ids=["ones", "other scales", "indicators", "one mean an arm", "slope", "plane"],
)
def test_an_intercept_is_a_combination_that_is_constant(features, expected) -> None:
    problem = Problem(features, noise_std=1.0)
    assert problem.has_intercept is expected
    text = "; ".join(BlockBetting(problem).guarantee.assumptions)
    assert ("and 0 where they are all 0" in text) is not expected


def test_a_table_without_a_constant_is_warned_of() -> None:
    table = pd.DataFrame({"heat": [20.0, 25.0, 30.0]}, index=list("abc"))
    with warns(UserWarning):
        Problem(table, noise_std=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        problem = Problem(table.assign(one=1.0), noise_std=1.0)
        assert Problem.from_dict(problem.to_dict()).has_intercept


def test_an_arm_of_zeros_is_told_of_once_and_never_a_basis() -> None:
    with warns(UserWarning) as caught:
        problem = Problem([[1, 0], [0, 0], [0, 1]], arms=["a", "b", "c"], noise_std=1.0)
    assert len(caught) == 1
    assert set(problem.basis_arms) == {0, 2}
    assert problem.distinct_arms.tolist() == [0, 2]


def test_one_candidate_needs_no_measurement() -> None:
    problem = Problem([[1.0, 0.0]], candidates=[[0.0, 5.0]], noise_std=1.0)
    assert len(problem.answer_groups) == 1


def test_rewards_outside_the_range_are_refused() -> None:
    problem = Problem(PLANE, reward_range=(0, 2))
    assert problem.scale.tolist() == [1.0, 1.0, 1.0]
    assert problem.check_outcome(2) == 2.0
    for wrong in (2.1, -0.1, math.nan, "1"):
        with raises(InvalidOutcome):
            problem.check_outcome(wrong)


def test_the_problem_is_frozen() -> None:
    problem = Problem(PLANE, noise_std=1.0)
    with pytest.raises(AttributeError, match="frozen"):
        problem.tolerance = 1.0
    with pytest.raises(ValueError, match="read-only"):
        problem.features[0, 0] = 2.0


@pytest.mark.parametrize("size", [1e250, 1e-250])
def test_a_feature_that_cannot_be_scaled_is_refused_by_name(size: float) -> None:
    table = pd.DataFrame({"time": [size, 0.0], "dose": [0.0, 1.0]})
    with raises(InvalidArgument, "features: feature 'time'", given=size):
        Problem(table, noise_std=1.0)


def test_truth_values_of_a_table_are_zeros_and_ones() -> None:
    table = pd.DataFrame({"solvent": ["a", "b", "c"], "heat": [20.0, 25.0, 30.0]})
    expected = [[20.0, 1, 0, 0], [25.0, 0, 1, 0], [30.0, 0, 0, 1]]
    for encoded in (pd.get_dummies(table), pd.get_dummies(table, dtype=float)):
        assert Problem(encoded, noise_std=1.0).features.tolist() == expected
    assert Problem(np.eye(3, dtype=bool), noise_std=1.0).features.tolist() == np.eye(3).tolist()


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_a_missing_feature_of_a_table_is_refused(missing: object) -> None:
    table = pd.DataFrame({"heat": pd.array([20.0, missing], dtype="Float64")}, index=["a", "b"])
    with raises(InvalidArgument, "features: feature 'heat'"):
        Problem(table, noise_std=1.0)
