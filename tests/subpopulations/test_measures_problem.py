"""Problems with several measures: limits by measure and place, noise, and what is refused."""

import json
import math
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from fairtrial.core.measures import Measures
from fairtrial.errors import InvalidArgument, InvalidOutcome, NotSupported
from fairtrial.subpopulations import OVERALL, Problem
from fairtrial.subpopulations.limits import Limits, limit_rows, require_possible
from fairtrial.testing import check_problem
from tests import effort
from tests.messages import raises

TRIAL = {
    "arms": ["zdv", "zdv_ddi"],
    "groups": {"naive": 0.5, "treated": 0.5},
    "measures": {"cd4": (-1, 1), "event_free": (0, 1)},
    "objective": "cd4",
}
BY_NAME = {**TRIAL, "measures": ["cd4", "event_free"]}


def _problem(**changes) -> Problem:
    return Problem(**{**TRIAL, **changes})


def _rows(problem: Problem) -> list[tuple]:
    return [
        (problem.name_of(row), row.group, row.is_floor, row.bounds.tolist())
        for row in problem.limit_rows
    ]


def test_a_limit_is_of_every_group_of_one_or_overall() -> None:
    problem = _problem(
        floors={
            "event_free": 0.5,
            ("event_free", "naive"): 0.6,
            ("event_free", OVERALL): 0.7,
            "cd4": {"zdv": None, "zdv_ddi": 0.1},
        },
        ceilings={("cd4", "treated"): 0.9},
    )
    assert _rows(problem) == [
        ("cd4", 0, True, [-math.inf, 0.1]),
        ("cd4", 1, True, [-math.inf, 0.1]),
        ("cd4", 1, False, [0.9, 0.9]),
        ("event_free", 0, True, [0.6, 0.6]),
        ("event_free", 1, True, [0.5, 0.5]),
        ("event_free", None, True, [0.7, 0.7]),
    ]
    assert problem.has_limits
    assert problem.constrained.tolist() == [[True, True], [True, True]]


def test_none_frees_a_group_of_a_limit_that_holds_elsewhere() -> None:
    problem = _problem(ceilings={"cd4": 0.5, ("cd4", "naive"): None})
    assert _rows(problem) == [("cd4", 1, False, [0.5, 0.5])]
    assert problem.constrained.tolist() == [[False, True], [False, True]]


def test_there_are_no_limits_by_default() -> None:
    problem = _problem()
    assert problem.limit_rows == ()
    assert not problem.has_limits
    assert problem.feasible(np.full((2, 2, 2), -9.0)).all()


def test_infinity_on_the_free_side_is_no_limit() -> None:
    assert _problem(floors={"cd4": -math.inf}, ceilings={"cd4": math.inf}).limit_rows == ()


def test_bounds_by_arm_may_be_a_series() -> None:
    series = pd.Series({"zdv_ddi": 0.2, "zdv": 0.1})
    assert _rows(_problem(floors={("cd4", OVERALL): series})) == [("cd4", None, True, [0.1, 0.2])]


def test_the_direction_turns_the_objective_only() -> None:
    means = {"cd4": [[0.5, 0.5], [0.1, 0.1]], "event_free": [[0.4, 0.8], [0.5, 0.5]]}
    for direction in ("maximize", "minimize"):
        problem = _problem(direction=direction, floors={"event_free": 0.5})
        assert problem.feasible(means).tolist() == [False, True]
        assert problem.quality(means).tolist() == [0.5, 0.1]
        assert problem.limit_rows[0].is_floor


def test_the_objective_is_a_measure_or_a_weighted_sum() -> None:
    means = np.array([[[0.5, 0.2], [0.3, 0.4]], [[0.1, 0.0], [0.1, 0.2]]])
    assert _problem(objective="event_free").objective_weights.tolist() == [0.0, 1.0]
    both = _problem(objective={"event_free": -0.5, "cd4": 1.0})
    assert both.objective_weights.tolist() == [1.0, -0.5]
    assert both.quality(means) == pytest.approx([0.4 - 0.15, 0.1 - 0.05], rel=1e-12)
    assert both.in_words()["Question"].startswith(
        "Which of zdv, zdv_ddi has the largest mean of cd4 - 0.5 event_free?"
    )
    assert Problem(2, 1, measures=["a"], noise_std={"a": 1.0}).objective == "a"


def test_feasible_is_what_the_limits_say_by_hand() -> None:
    problem = Problem(
        2,
        {"x": 0.25, "y": 0.75, "z": 0.0},
        measures={"a": (0, 1), "b": (0, 1)},
        objective="a",
        floors={("a", "x"): 0.3, ("a", "z"): 0.2},
        ceilings={("b", OVERALL): 0.4},
    )
    means = np.array([[[0.3, 0.1], [0.0, 0.5], [0.2, 1.0]], [[0.3, 0.11], [0.0, 0.5], [0.2, 0.0]]])
    assert problem.feasible(means).tolist() == [True, False]
    means[0, 2, 0] = 0.19
    assert problem.feasible(means).tolist() == [False, False]


def test_a_weighted_mean_that_is_rounded_is_still_on_its_limit() -> None:
    problem = Problem(1, 10, measures={"a": (0, 1)}, floors={("a", OVERALL): 0.1})
    assert problem.feasible(np.full((1, 10, 1), 0.1)).all()
    assert not problem.feasible(np.full((1, 10, 1), 0.1 - 1e-9)).any()


def test_means_may_be_given_by_measure() -> None:
    problem = _problem()
    by_name = {"event_free": {"zdv_ddi": [3, 4], "zdv": [1, 2]}, "cd4": [[5, 6], [7, 8]]}
    expected = [[[5, 1], [6, 2]], [[7, 3], [8, 4]]]
    assert problem.check_means(by_name).tolist() == expected
    assert problem.check_means(expected).tolist() == expected
    for wrong, name in (
        ({"cd4": [[1, 2], [3, 4]]}, "means"),
        ([[1, 2], [3, 4]], "means"),
        ({**by_name, "cd4": [[1, 2]]}, "means[cd4]"),
    ):
        with raises(InvalidArgument, name):
            problem.check_means(wrong)


def test_a_scale_per_measure_or_a_covariance_is_taken_by_cell() -> None:
    stds = Problem(**BY_NAME, noise_std={"event_free": [1, 2], "cd4": 0.5})
    assert stds.measure_noise_std[0].tolist() == [[0.5, 1.0], [0.5, 2.0]]
    assert stds.noise_covariance is None
    assert stds.measure_ranges is None
    covariance = [[4.0, 1.0], [1.0, 1.0]]
    known = Problem(**BY_NAME, noise_cov=covariance)
    assert known.noise_covariance.shape == (2, 2, 2, 2)
    assert known.noise_covariance[1, 0].tolist() == covariance
    by_cell = np.broadcast_to(covariance, (2, 2, 2, 2)) * np.arange(1, 5).reshape(2, 2, 1, 1)
    assert Problem(**BY_NAME, noise_cov=by_cell).noise_covariance[1, 1, 0, 0] == 16.0


def test_a_singular_covariance_is_allowed() -> None:
    assert Problem(**BY_NAME, noise_cov=[[1.0, 1.0], [1.0, 1.0]]).noise_covariance is not None


def test_the_scale_is_that_of_the_objective() -> None:
    weighted = {**BY_NAME, "objective": {"cd4": 1.0, "event_free": -1.0}}
    assert Problem(**weighted, noise_std={"cd4": 3.0, "event_free": 4.0}).scale[0, 0] == 7.0
    covariance = [[9.0, 12.0], [12.0, 16.0]]
    assert Problem(**weighted, noise_cov=covariance).scale[0, 0] == pytest.approx(1.0)
    assert _problem(objective="cd4").scale.tolist() == [[1.0, 1.0]] * 2


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"measures": {}}, "measures"),
        ({"reward_range": (0, 1)}, "reward_range"),
        ({"noise_std": {"cd4": 1, "event_free": 1}}, "measures, noise_std, noise_cov"),
        ({"noise_cov": np.eye(2)}, "measures, noise_std, noise_cov"),
        ({"measures": ["cd4", "event_free"]}, "measures, noise_std, noise_cov"),
        ({"noise_std": "estimated"}, "measures, noise_std, noise_cov"),
        ({"floor_tolerance": 0.1}, "floor_tolerance"),
        ({"objective": None}, "objective"),
        ({"objective": "rash"}, "objective"),
        ({"objective": {"rash": 1}}, "objective"),
        ({"objective": {"cd4": 0}}, "objective"),
        ({"objective": {}}, "objective"),
        ({"objective": {"cd4": math.nan}}, "objective[cd4]"),
        ({"objective": 3}, "objective"),
        ({"floors": 0.0}, "floors"),
        ({"floors": "auto "}, "floors"),
        ({"floors": {"rash": 0}}, "floors[rash]"),
        ({"floors": {("cd4", "old"): 0}}, "floors[cd4, old]"),
        ({"floors": {("cd4", "naive", 1): 0}}, "floors[cd4, naive, 1]"),
        ({"floors": {("cd4",): 0}}, "floors[cd4]"),
        ({"floors": {("cd4", "OVERALL"): 0}}, "floors[cd4, OVERALL]"),
        ({"floors": {OVERALL: 0}}, "floors[OVERALL]"),
        ({"floors": {"cd4": math.nan}}, "floors[cd4]"),
        ({"floors": {"cd4": math.inf}}, "floors[cd4]"),
        ({"ceilings": {"cd4": -math.inf}}, "ceilings[cd4]"),
        ({"floors": {"cd4": "0"}}, "floors[cd4]"),
        ({"floors": {"cd4": True}}, "floors[cd4]"),
        ({"floors": {"cd4": [0, 1]}}, "floors[cd4]"),
        ({"floors": {"cd4": {"zdv": 0}}}, "floors[cd4]"),
        ({"floors": {"cd4": {"zdv": 0, "zdv_ddi": "x"}}}, "floors[cd4] of arm zdv_ddi"),
        ({"floors": {"cd4": 1.5}}, "floors[cd4, naive] of arm zdv"),
        ({"ceilings": {"event_free": -0.1}}, "ceilings[event_free, naive] of arm zdv"),
        ({"floors": {("cd4", OVERALL): 1.5}}, "floors[cd4, OVERALL] of arm zdv"),
        (
            {"floors": {"cd4": 0.5}, "ceilings": {("cd4", "treated"): 0.5}},
            "ceilings[cd4, treated] of arm zdv",
        ),
        (
            {
                "floors": {("cd4", OVERALL): {"zdv": None, "zdv_ddi": 0.5}},
                "ceilings": {("cd4", OVERALL): 0.4},
            },
            "ceilings[cd4, OVERALL] of arm zdv_ddi",
        ),
        (
            {"floors": {"cd4": 0.5}, "ceilings": {("cd4", OVERALL): {"zdv": None, "zdv_ddi": 0.4}}},
            "ceilings[cd4, OVERALL] of arm zdv_ddi",
        ),
        (
            {"ceilings": {("event_free", "naive"): 0.1}, "floors": {("event_free", OVERALL): 0.6}},
            "floors[event_free, OVERALL] of arm zdv",
        ),
        ({"floors": [{"measure": "cd4"}]}, "floors[0]"),
        ({"floors": [3]}, "floors[0]"),
        (
            {"floors": [{"measure": "cd4", "bound": 0, "grp": "naive"}]},
            "floors[0]",
        ),
        (
            {"floors": [{"measure": "cd4", "bound": 0, "group": "naive", "overall": True}]},
            "floors[0]",
        ),
        ({"floors": [{"measure": "cd4", "bound": 0}] * 2}, "floors[1]"),
    ],
)
def test_bad_input_is_refused_and_named(changes, name) -> None:
    with raises(InvalidArgument, name):
        _problem(**changes)


@pytest.mark.parametrize(
    ("noise", "name"),
    [
        ({"noise_std": 1.0}, "noise_std"),
        ({"noise_std": {"cd4": 1.0}}, "noise_std"),
        ({"noise_std": {"cd4": 1.0, "event_free": 0}}, "noise_std[event_free]"),
        ({"noise_std": {"cd4": 1.0, "event_free": 1e200}}, "noise_std[event_free]"),
        ({"noise_std": "estimated"}, "noise_std"),
        ({"noise_cov": np.eye(3)}, "noise_cov"),
        ({"noise_cov": [[1, 0.5], [0.4, 1]]}, "noise_cov"),
        ({"noise_cov": [[1, 2], [2, 1]]}, "noise_cov"),
        ({"noise_cov": [[1, math.nan], [math.nan, 1]]}, "noise_cov"),
        ({"noise_cov": [[0, 0], [0, 1]]}, "noise_cov"),
        ({"noise_cov": "unknown"}, "noise_cov"),
    ],
)
def test_bad_noise_is_refused_and_named(noise, name) -> None:
    with raises(InvalidArgument, name):
        Problem(**BY_NAME, **noise)


@pytest.mark.parametrize("name", ["objective", "noise_cov"])
def test_what_belongs_to_measures_is_refused_without_them(name) -> None:
    with raises(InvalidArgument, name):
        Problem(2, 1, reward_range=(0, 1), **{name: "cd4"})


def test_a_group_may_be_called_overall() -> None:
    problem = Problem(1, ["overall", "x"], measures={"a": (0, 1)}, floors={("a", "overall"): 0.5})
    assert _rows(problem) == [("a", 0, True, [0.5])]


def test_a_limit_in_a_group_without_weight_is_no_part_of_an_overall_one() -> None:
    problem = Problem(
        1,
        {"x": 1.0, "y": 0.0},
        measures={"a": (0, 1)},
        floors={("a", "y"): 0.9},
        ceilings={("a", OVERALL): 0.1},
    )
    assert problem.feasible([[[0.05], [0.95]]]).all()


LIMITS = st.one_of(st.none(), st.integers(-4, 4).map(lambda number: number / 4))


@settings(max_examples=effort.runs(120, whole=300), deadline=None)
@given(
    floors=st.lists(LIMITS, min_size=3, max_size=3),
    ceilings=st.lists(LIMITS, min_size=3, max_size=3),
    weights=st.lists(st.integers(0, 3), min_size=2, max_size=2).filter(any),
    is_bounded=st.booleans(),
)
def test_limits_are_refused_exactly_if_a_linear_programme_finds_no_means(
    floors, ceilings, weights, is_bounded
) -> None:
    shares = np.array(weights) / sum(weights)
    measures = Measures(("a",), ((-1.0, 1.0),) if is_bounded else None)
    keys = [("a", "x"), ("a", "y"), ("a", OVERALL)]
    given_limits = [
        Limits.given(name, dict(zip(keys, own, strict=True)), measures, ["arm"], ["x", "y"])
        for name, own in (("floors", floors), ("ceilings", ceilings))
    ]
    rows = limit_rows(*given_limits, measures, ["arm"], ["x", "y"])
    pairs = zip(floors, ceilings, strict=True)
    is_empty = any(f is not None and c is not None and f >= c for f, c in pairs)
    possible = not is_empty and _least_violation(floors, ceilings, shares, is_bounded) <= 1e-9
    try:
        require_possible(rows, measures, ["arm"], ["x", "y"], shares)
    except InvalidArgument:
        assert not possible
    else:
        assert possible


def _least_violation(floors, ceilings, shares, is_bounded) -> float:
    """Return how much the worst limit is missed at least, by a linear programme."""
    own = [np.array([1.0, 0.0]), np.array([0.0, 1.0]), shares]
    rows, ends = [], []
    for row, floor, ceiling in zip(own, floors, ceilings, strict=True):
        if floor is not None:
            rows.append([*-row, -1.0])
            ends.append(-floor)
        if ceiling is not None:
            rows.append([*row, -1.0])
            ends.append(ceiling)
    if not rows:
        return 0.0
    reach = (-1.0, 1.0) if is_bounded else (None, None)
    found = linprog([0, 0, 1], A_ub=rows, b_ub=ends, bounds=[reach, reach, (0.0, None)])
    return float(found.fun)


PROBLEMS = [
    _problem(floors={"cd4": 0.0, ("event_free", OVERALL): {"zdv": 0.1, "zdv_ddi": None}}),
    _problem(ceilings={("event_free", "naive"): None, "event_free": 0.5}, direction="minimize"),
    Problem(**BY_NAME, noise_std={"event_free": [1, 2], "cd4": 0.5}),
    Problem(**BY_NAME, noise_cov=[[1.0, 0.2], [0.2, 1.0]], costs=[1, 2]),
    _problem(
        control="zdv",
        direction={"event_free": "maximize"},
        margin={"event_free": 0.1, ("event_free", OVERALL): {"zdv": None, "zdv_ddi": 0.05}},
        superiority={("cd4", "naive"): 0.2},
    ),
    _problem(control="zdv", superiority=0.1, objective={"cd4": 1.0, "event_free": 0.5}),
]


@pytest.mark.parametrize("problem", PROBLEMS)
def test_problems_are_written_down_and_read_again(problem) -> None:
    check_problem(problem)
    read = Problem.from_dict(json.loads(json.dumps(problem.to_dict())))
    assert _rows(read) == _rows(problem)
    assert read.to_dict() == problem.to_dict()
    assert pickle.loads(pickle.dumps(problem)) == problem
    assert problem.clone() == problem
    assert problem.clone(tolerance=0.5).measures == problem.measures


def test_the_constant_stays_one_object_when_pickled() -> None:
    assert pickle.loads(pickle.dumps(OVERALL)) is OVERALL
    assert repr(OVERALL) == "OVERALL"


def test_problems_differ_if_a_limit_does() -> None:
    known = {_problem(floors={key: 0.1}).digest for key in ("cd4", ("cd4", "naive"))}
    assert len(known | {_problem(floors={("cd4", OVERALL): 0.1}).digest, _problem().digest}) == 4


def test_one_measure_is_written_as_before() -> None:
    problem = Problem(2, 2, reward_range=(0, 1))
    assert not {"measures", "objective", "noise_cov"} & set(problem.to_dict())
    assert problem.measures == ()
    assert problem.limit_rows == ()
    assert problem.check_outcome(0.5) == 0.5


def test_what_is_asked_is_said_in_words() -> None:
    problem = _problem(
        floors={("event_free", OVERALL): 0.7, ("event_free", "naive"): 0.6},
        ceilings={"cd4": {"zdv": 0.5, "zdv_ddi": None}, ("cd4", "naive"): None},
    )
    words = problem.in_words()
    assert words["Question"] == (
        "Which of zdv, zdv_ddi has the largest mean of cd4, among those that keep all limits?"
    )
    assert words["Limits"] == (
        "event_free at least 0.7 overall; event_free at least 0.6 in group naive; "
        "cd4 at most 0.5 for zdv in every group; cd4 free in group naive"
    )
    assert words["Measures"] == "cd4 lies between -1 and 1; event_free lies between 0 and 1"
    stds = Problem(**BY_NAME, noise_std={"event_free": [1, 2], "cd4": 0.5}).in_words()["Measures"]
    assert stds.startswith("cd4 has a standard deviation of 0.5; event_free has a standard dev")


def test_limits_by_cell_are_not_those_of_measures() -> None:
    with raises(NotSupported):
        _problem().limits()


def test_an_outcome_is_checked_whole() -> None:
    problem = _problem()
    assert problem.check_outcome({"cd4": 0.31, "event_free": 1}).tolist() == [0.31, 1.0]
    with raises(InvalidOutcome, "outcome: event_free"):
        problem.check_outcome({"cd4": 0.31, "event_free": 7})


# ------------------------------------------------------------------ limits against the control

BESIDE = {"control": "zdv", "direction": {"event_free": "maximize"}}


def test_limits_against_the_control_are_rows_on_differences() -> None:
    problem = _problem(
        **BESIDE,
        floors={"cd4": -0.5},
        margin={"event_free": 0.1, ("event_free", "treated"): 0.2, ("cd4", OVERALL): 0.3},
        superiority={("cd4", "naive"): 0.05},
    )
    assert [own for own, row in zip(_rows(problem), problem.limit_rows, strict=True)
            if row.control == 0] == [
        ("cd4", 0, True, [-math.inf, 0.05]),
        ("event_free", 0, True, [-math.inf, -0.1]),
        ("event_free", 1, True, [-math.inf, -0.2]),
        ("cd4", None, True, [-math.inf, -0.3]),
    ]  # fmt: skip
    assert problem.refers_to_control
    means = {"cd4": [[0.1, 0.1], [0.15, -0.4]], "event_free": [[0.8, 0.8], [0.7, 0.6]]}
    assert problem.feasible(means).tolist() == [True, True]
    for measure, place in (("cd4", 0), ("cd4", 1), ("event_free", 0), ("event_free", 1)):
        worse = {name: np.array(own) for name, own in means.items()}
        worse[measure][1, place] -= 1e-6
        if (measure, place) != ("cd4", 1):
            assert problem.feasible(worse).tolist() == [True, False]


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_what_is_worse_follows_from_the_objective_and_the_directions(direction) -> None:
    problem = _problem(
        control="zdv",
        direction={"cd4": direction, "event_free": "minimize"},
        margin={"cd4": 0.1, "event_free": 0.2},
        superiority=0.3,
    )
    assert problem.direction == direction
    sign = 1.0 if direction == "maximize" else -1.0
    rows = {
        (row.measure, row.group, row.is_floor): float(row.bounds[1]) for row in problem.limit_rows
    }
    assert rows == {
        (0, 0, sign > 0): -0.1 * sign, (0, 1, sign > 0): -0.1 * sign, (1, 0, False): 0.2,
        (1, 1, False): 0.2, (0, None, sign > 0): 0.3 * sign,
    }  # fmt: skip


def test_superiority_of_an_objective_with_weights_is_a_row_of_its_own() -> None:
    mixed = _problem(control="zdv", superiority=0.1, objective={"cd4": 2.0, "event_free": -1.0})
    (row,) = mixed.limit_rows
    assert (row.measure, row.group, row.is_floor, row.control) == (None, None, True, 0)
    assert row.weights.tolist() == [2.0, -1.0]
    assert mixed.name_of(row) == "2 cd4 - event_free"
    means = {"cd4": [[0.1, 0.1], [0.2, 0.2]], "event_free": [[0.5, 0.5], [0.6, 0.6]]}
    assert mixed.feasible(means).tolist() == [True, True]
    means["event_free"][1][0] += 1e-6
    assert mixed.feasible(means).tolist() == [True, False]
    single = _problem(control="zdv", superiority=0.1, objective={"cd4": -2.0})
    (row,) = single.limit_rows
    assert (row.measure, row.is_floor, float(row.bounds[1])) == (0, False, -0.05)


def test_a_margin_as_wide_as_the_range_is_no_limit() -> None:
    assert _problem(**BESIDE, margin={"cd4": 2.0, "event_free": math.inf}).limit_rows == ()
    assert not _problem(**BESIDE, margin={"cd4": None}).has_limits
    assert not _problem(control="zdv").refers_to_control


def test_a_margin_as_wide_as_the_range_is_announced_as_no_limit() -> None:
    problem = _problem(
        control="zdv",
        direction={"event_free": "minimize"},
        margin={"cd4": 2.0, "event_free": {"zdv_ddi": 0.9}, ("event_free", OVERALL): 1.5},
    )
    assert [row.group for row in problem.limit_rows] == [0, 1]
    assert problem.in_words()["Limits"] == (
        "cd4 at most 2 below zdv (always met: its range is no wider) in every group; "
        "event_free at most 0.9 above zdv for zdv_ddi in every group; "
        "event_free at most 1.5 above zdv (always met: its range is no wider) overall"
    )


@pytest.mark.parametrize("by_arm", [{"zdv_ddi": 0.2}, {"zdv": None, "zdv_ddi": 0.2}])
def test_by_arm_a_limit_against_the_control_needs_no_number_for_the_control(by_arm) -> None:
    problem = _problem(control="zdv", superiority={"cd4": by_arm})
    assert _rows(problem) == [("cd4", group, True, [-math.inf, 0.2]) for group in (0, 1)]
    assert problem.to_dict() == _problem(control="zdv", superiority={"cd4": 0.2}).to_dict() | {
        "superiority": [{"measure": "cd4", "bound": {"zdv_ddi": 0.2, "zdv": None}}]
    }
    assert Problem.from_dict(problem.to_dict()) == problem


@pytest.mark.parametrize("form", ["minimize", {"cd4": "minimize"}])
def test_the_only_measure_may_have_a_direction_of_its_own(form) -> None:
    problem = Problem(
        2, 1, measures={"cd4": (-1, 1)}, direction=form, control="0", margin={"cd4": 0.1}
    )
    assert (problem.direction, problem.objective) == ("minimize", "cd4")
    assert _rows(problem) == [("cd4", 0, False, [math.inf, 0.1])]


def test_limits_against_the_control_are_said_in_words() -> None:
    problem = _problem(
        control="zdv",
        direction={"event_free": "minimize"},
        margin={"cd4": 0.0, "event_free": 0.1, ("event_free", "naive"): None},
        superiority=0.25,
    )
    assert problem.in_words()["Limits"] == (
        "cd4 not below zdv in every group; event_free at most 0.1 above zdv in every group; "
        "event_free free in group naive; cd4 at least 0.25 above zdv overall"
    )


@pytest.mark.parametrize(
    ("changes", "argument"),
    [
        ({"margin": {"cd4": 0.1}}, "control"),
        ({"superiority": 0.1}, "control"),
        ({"margin": {"event_free": 0.1}, "control": "zdv"}, "direction"),
        ({"superiority": {"event_free": 0.1}, "control": "zdv"}, "direction"),
        ({"direction": {"cd5": "minimize"}}, "direction"),
        ({"direction": {"cd4": "down"}}, "direction[cd4]"),
        ({"direction": {"event_free": "down"}}, "direction[event_free]"),
        (
            {"objective": {"cd4": -1.0}, "direction": {"cd4": "maximize"}},
            "direction[cd4]",
        ),
        ({**BESIDE, "margin": 0.1}, "margin"),
        ({**BESIDE, "margin": {"cd4": -0.1}}, "margin[cd4]"),
        ({**BESIDE, "margin": {"cd4": math.nan}}, "margin[cd4]"),
        ({**BESIDE, "margin": {("cd4", "x"): 0.1}}, "margin[cd4, x]"),
        ({**BESIDE, "superiority": -0.1}, "superiority"),
        ({**BESIDE, "superiority": "much"}, "superiority"),
        ({**BESIDE, "superiority": {"cd4": math.inf}}, "superiority[cd4]"),
        ({**BESIDE, "superiority": {"cd4": {"ddi": 0.1}}}, "superiority[cd4]"),
        ({**BESIDE, "margin": {"cd4": {"zdv": 0.1}}}, "margin[cd4] of arm zdv"),
        (
            {**BESIDE, "superiority": {"cd4": {"zdv": 0.1, "zdv_ddi": 0.2}}},
            "superiority[cd4] of arm zdv",
        ),
        ({**BESIDE, "superiority": {"cd4": 2.5}}, "superiority[cd4, naive] of arm zdv_ddi"),
        (
            {
                **BESIDE,
                "superiority": {"cd4": 1.2},
                "ceilings": {("cd4", OVERALL): 0.1, "cd4": 0.1},
            },
            "superiority[cd4, naive] of arm zdv_ddi",
        ),
    ],
)
def test_bad_limits_against_the_control_are_refused(changes, argument) -> None:
    with raises(InvalidArgument) as caught:
        _problem(**changes)
    assert caught.value.name == argument


PLACES = [("a", "x"), ("a", "y"), ("a", OVERALL), ("b", "x"), ("b", "y"), ("b", OVERALL)]
SOME = st.dictionaries(st.sampled_from(PLACES), st.integers(-3, 3).map(lambda n: n / 4), max_size=3)
BETTER = {"a": 1.0, "b": -1.0}
AT_LEAST = st.sampled_from([0.25, 0.5, 1.0, 1.5, 2.25])
BESIDE_SOME = st.one_of(st.dictionaries(st.sampled_from(PLACES), AT_LEAST, max_size=3), AT_LEAST)


@settings(max_examples=effort.runs(150, whole=400), deadline=None)
@given(
    floors=SOME,
    ceilings=SOME,
    superiority=BESIDE_SOME,
    weights=st.lists(st.integers(0, 3), min_size=2, max_size=2).filter(any),
)
def test_superiority_is_refused_exactly_if_a_linear_programme_finds_no_means(
    floors, ceilings, superiority, weights
) -> None:
    shares = dict(zip("xy", weights, strict=True))
    ranges = {"a": (0, 1), "b": (-1, 1)}
    given_limits = {
        name: {key: {"now": None, "new": bound} for key, bound in own.items()}
        for name, own in (("floors", floors), ("ceilings", ceilings))
    }
    is_empty = any(key in ceilings and floor >= ceilings[key] for key, floor in floors.items())
    possible = not is_empty and _is_possible(ranges, floors, ceilings, superiority, shares)
    try:
        Problem(
            ["now", "new"], shares, measures=ranges, objective={"a": 1.0, "b": -0.5},
            control="now", superiority=superiority, **given_limits,
        )  # fmt: skip
    except InvalidArgument:
        assert not possible
    else:
        assert possible


def _is_possible(ranges, floors, ceilings, superiority, weights) -> bool:
    """Whether means of the arm and of the control keep all limits, by a linear programme."""
    shares = np.array([*weights.values()]) / sum(weights.values())
    form = {
        (measure, place): np.outer(BETTER_AXIS[measure], by_group).ravel()
        for measure in ranges
        for place, by_group in (("x", [1, 0]), ("y", [0, 1]), (OVERALL, shares))
    }
    rows = [(-form[key], None, -bound) for key, bound in floors.items()]
    rows += [(form[key], None, bound) for key, bound in ceilings.items()]
    if isinstance(superiority, dict):
        asked = [(BETTER[key[0]] * form[key], least) for key, least in superiority.items()]
    else:
        asked = [(form["a", OVERALL] - 0.5 * form["b", OVERALL], superiority)]
    rows += [(-better, better, -least) for better, least in asked]
    if not rows:
        return True
    sides = [[*own, *(0.0 * own if other is None else other)] for own, other, _ in rows]
    bounds = [ends for _ in range(2) for ends in ranges.values() for _ in range(2)]
    return linprog(np.zeros(8), A_ub=sides, b_ub=[end for *_, end in rows], bounds=bounds).success


BETTER_AXIS = {"a": [1.0, 0.0], "b": [0.0, 1.0]}


@pytest.mark.parametrize(
    ("changes", "argument", "accepted"),
    [
        (
            {"superiority": {("cd4", OVERALL): 0.5}, "ceilings": {("cd4", OVERALL): -0.6}},
            "superiority[cd4, OVERALL] of arm zdv_ddi",
            "must be at most 0.4: the range and the arm's own limits allow no more",
        ),
        (
            {"superiority": {"cd4": 0.5}, "ceilings": {("cd4", OVERALL): -0.6}},
            "ceilings[cd4, OVERALL] of arm zdv_ddi",
            "must be at least -0.5: the groups' own limits and range allow no less",
        ),
        (
            {"superiority": 4.0, "objective": {"cd4": 1.0, "event_free": 1.5}},
            "superiority",
            "must be at most 3.5: ranges and limits of arm zdv_ddi allow no more",
        ),
        (
            {
                "superiority": 3.0,
                "objective": {"cd4": 1.0, "event_free": 1.5},
                "ceilings": {("event_free", OVERALL): 0.5},
            },
            "superiority",
            "must be at most 2.75: ranges and limits of arm zdv_ddi allow no more",
        ),
    ],
)
def test_superiority_beyond_the_own_limits_of_an_arm_is_refused(changes, argument, accepted):
    with raises(InvalidArgument) as caught:
        _problem(control="zdv", **changes)
    assert (caught.value.name, caught.value.accepted) == (argument, accepted)


def test_one_measure_takes_one_direction() -> None:
    with raises(InvalidArgument) as caught:
        Problem(2, 1, reward_range=(0, 1), direction={"reward": "minimize"})
    assert caught.value.name == "direction"
