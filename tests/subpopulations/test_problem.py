"""What a problem accepts, refuses, and writes as data."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.errors import InvalidArgument, InvalidOutcome
from fairtrial.subpopulations import GaussianEnvironment, Problem
from tests.messages import raises


def test_weights_are_equal_by_default_and_normalised_otherwise() -> None:
    assert Problem(2, 4, noise_std=1.0).shares.tolist() == [0.25] * 4
    problem = Problem(2, 2, group_weights=[1, 3], noise_std=1.0)
    assert problem.shares.tolist() == [0.25, 0.75]
    assert problem.group_weights.tolist() == [1.0, 3.0]


def test_a_mapping_gives_groups_and_weights() -> None:
    problem = Problem(["a"], {"x": 2, "y": 6}, noise_std=1.0)
    assert problem.groups == ("x", "y")
    assert problem.shares.tolist() == [0.25, 0.75]


def test_a_series_gives_groups_weights_and_arms_by_its_labels() -> None:
    expected = Problem(["a", "b"], {"young": 0.25, "old": 0.75}, noise_std=1.0)
    shares = pd.Series(["old"] * 3 + ["young"]).value_counts(normalize=True).sort_values()
    assert Problem(pd.Series(["a", "b"]), shares, noise_std=1.0) == expected
    labels = pd.Series(["young", "old"])
    for weights in (pd.Series({"old": 3, "young": 1}), {"old": 3, "young": 1}, pd.Series([1, 3])):
        problem = Problem(["a", "b"], labels, group_weights=weights, noise_std=1.0)
        assert problem.shares.tolist() == [0.25, 0.75]
    with raises(InvalidArgument, "group_weights"):
        Problem(2, labels, group_weights=pd.Series({"old": 3, "new": 1}), noise_std=1.0)


def test_means_may_be_given_by_label_in_any_order() -> None:
    problem = Problem(["a", "b"], ["x", "y"], noise_std=1.0)
    table = pd.DataFrame({"y": [4, 2], "x": [3, 1]}, index=["b", "a"])
    for means in (table, {"b": [3, 4], "a": {"y": 2, "x": 1}}, [[1, 2], {"y": 4, "x": 3}]):
        assert problem.check_means(means).tolist() == [[1, 2], [3, 4]]
        assert GaussianEnvironment(problem, means).truth.best == "b"
    for wrong, name in (
        ({"a": [1, 2]}, "means"),
        ({"a": [1, 2], "b": {"x": 1}}, "means[b]"),
        ({"x": 1, "y": 2}, "means"),
        ([[1, 2]], "means"),
        ([[1, 2], [3, 4], [5, 6]], "means"),
        ({"a": [1, 2], "b": [3, None]}, "means[1, 1]"),
    ):
        with raises(InvalidArgument, name):
            problem.check_means(wrong)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"group_weights": [1, -1]}, "group_weights[y]"),
        ({"group_weights": [1, math.inf]}, "group_weights[1]"),
        ({"group_weights": [1, 1e308 * 1.5]}, None),
        ({"group_weights": [1.5e308, 1.5e308]}, "group_weights"),
        ({"costs": [[1, 1], [1, 0]]}, "costs[b, y]"),
        ({"noise_std": [1, -1]}, "noise_std[a, y]"),
        ({"noise_std": -1}, "noise_std"),
        ({"noise_std": [1, "x"]}, "noise_std[1]"),
    ],
)
def test_the_entry_that_is_wrong_is_named(given, name) -> None:
    arguments = {"noise_std": 1.0} | given
    if name is None:
        assert Problem(["a", "b"], ["x", "y"], **arguments).shares[1] == 1.0
        return
    with raises(InvalidArgument, name):
        Problem(["a", "b"], ["x", "y"], **arguments)


def test_floors_may_be_a_number_one_per_group_or_one_per_cell() -> None:
    assert Problem(2, 2, floors=0.5, noise_std=1.0).floors.tolist() == [[0.5, 0.5]] * 2
    by_group = Problem(2, 2, floors=[0.5, None], noise_std=1.0).floors
    assert by_group.tolist() == [[0.5, -math.inf]] * 2
    by_cell = Problem(2, 2, floors=[[0, None], [1, 2]], noise_std=1.0).floors
    assert by_cell.tolist() == [[0.0, -math.inf], [1.0, 2.0]]
    assert not Problem(2, 2, floors=None, noise_std=1.0).constrained.any()


@pytest.mark.parametrize(
    "by_label",
    [
        {"old": 0.3, "young": 0.1},
        {"b": [0.1, 0.3], "a": {"young": 0.1, "old": 0.3}},
        {"a": (0.1, 0.3), "b": {"old": 0.3, "young": 0.1}},
    ],
    ids=["groups", "arms", "tuples"],
)
def test_limits_may_be_given_by_label_in_any_order(by_label) -> None:
    given = Problem(["a", "b"], ["young", "old"], noise_std=1.0, floors=by_label)
    assert given == Problem(["a", "b"], ["young", "old"], noise_std=1.0, floors=[0.1, 0.3])


def test_labelled_limits_differ_by_arm_and_leave_cells_free() -> None:
    problem = Problem(
        ["a", "b"],
        ["young", "old"],
        noise_std={"young": 1.0, "old": 2.0},
        floors={"a": {"young": None, "old": 0.5}, "b": 0.2},
        ceilings={"old": 0.9, "young": None},
    )
    assert problem.floors.tolist() == [[-math.inf, 0.5], [0.2, 0.2]]
    assert problem.ceilings.tolist() == [[math.inf, 0.9]] * 2
    assert np.asarray(problem.noise_std).tolist() == [[1.0, 2.0]] * 2


def test_where_arms_and_groups_share_their_labels_a_flat_mapping_is_by_group() -> None:
    same = Problem(["x", "y"], ["x", "y"], noise_std=1.0, floors={"y": 2, "x": 1})
    assert same.floors.tolist() == [[1, 2], [1, 2]]


@pytest.mark.parametrize(
    ("floors", "name"),
    [
        ({"yuong": 1, "old": 2}, "floors"),
        ({"old": 2}, "floors"),
        ({"a": {"old": 1}, "b": 0}, "floors[a]"),
        ({"a": [1, 2, 3], "b": 0}, "floors"),
        ({"a": "high", "b": 0}, "floors[0, 0]"),
    ],
    ids=["misspelt", "missing", "missing cell", "too long", "text"],
)
def test_limits_by_label_that_do_not_fit_are_refused(floors, name) -> None:
    with raises(InvalidArgument, name):
        Problem(["a", "b"], ["young", "old"], noise_std=1.0, floors=floors)


def test_ceilings_of_a_minimised_problem_are_free_at_plus_infinity() -> None:
    problem = Problem(1, 2, floors=[0.5, None], noise_std=1.0, direction="minimize")
    assert problem.floors.tolist() == [[0.5, math.inf]]
    assert problem.feasible([[0.4, 99.0]]).tolist() == [True]
    assert problem.feasible([[0.6, 0.0]]).tolist() == [False]


def test_a_mean_exactly_on_its_floor_is_feasible() -> None:
    assert Problem(1, 1, floors=0.3, noise_std=1.0).feasible([[0.3]]).all()


def test_a_mean_must_be_between_floor_and_ceiling_ends_included() -> None:
    problem = Problem(1, 2, floors=0.2, ceilings=[0.6, None], noise_std=1.0)
    assert problem.ceilings.tolist() == [[0.6, math.inf]]
    kept = [(0.6, 9.0), (0.2, 0.2)]
    broken = [(0.61, 0.5), (0.19, 0.5)]
    assert all(problem.feasible([means])[0] for means in kept)
    assert not any(problem.feasible([means])[0] for means in broken)


def test_limits_change_sides_when_rewards_are_minimised() -> None:
    problem = Problem(1, 1, floors=0.6, ceilings=0.2, noise_std=1.0, direction="minimize")
    assert problem.limits(0.1).ravel().tolist() == pytest.approx([-0.7, -0.1])
    assert problem.feasible([[0.4]]).all()
    assert not problem.feasible([[0.1]]).any()
    assert not problem.feasible([[0.7]]).any()
    assert Problem(1, 1, floors=None, noise_std=1.0, direction="minimize").ceilings == -math.inf


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"group_weights": [1, -1]}, "group_weights[1]"),
        ({"group_weights": [0, 0]}, "group_weights"),
        ({"group_weights": [math.nan, 1]}, "group_weights[0]"),
        ({"group_weights": [math.inf, 1]}, "group_weights[0]"),
        ({"group_weights": [1, 2, 3]}, "group_weights"),
        ({"arms": []}, "arms"),
        ({"arms": 0}, "arms"),
        ({"arms": ["a", "a", "b"]}, "arms[1]"),
        ({"groups": []}, "groups"),
        ({"groups": 0}, "groups"),
        ({"floors": math.nan}, "floors[0, 0]"),
        ({"floors": math.inf}, "floors[0, 0]"),
        ({"floors": [0, 0, 0]}, "floors"),
        ({"floors": "low"}, "floors"),
        ({"ceilings": -math.inf}, "ceilings[0, 0]"),
        ({"ceilings": [1, math.nan]}, "ceilings[0, 1]"),
        ({"ceilings": "high"}, "ceilings"),
        (
            {"floors": 0, "ceilings": 0.0},
            "ceilings[0, 0]",
        ),
        ({"floors": 0, "ceilings": [2, -1]}, "ceilings[0, 1]"),
        (
            {"floors": 0, "ceilings": 1, "floor_tolerance": 0.5},
            "ceilings[0, 0]",
        ),
        ({"noise_std": 0.0}, "noise_std"),
        ({"noise_std": -1.0}, "noise_std"),
        ({"noise_std": math.nan}, "noise_std"),
        ({"noise_std": math.inf}, "noise_std"),
        ({"noise_std": [[1, 1]]}, "noise_std"),
        ({"noise_std": "guess"}, "noise_std"),
        ({"noise_std": None}, "noise_std, reward_range"),
        ({"reward_range": (0, 1)}, "noise_std, reward_range"),
        ({"noise_std": None, "reward_range": (1, 1)}, "reward_range"),
        ({"noise_std": None, "reward_range": (1, 0)}, "reward_range"),
        ({"noise_std": None, "reward_range": (0, math.inf)}, "reward_range"),
        ({"noise_std": None, "reward_range": 3}, "reward_range"),
        ({"direction": "up"}, "direction"),
        ({"costs": 0.0}, "costs"),
        ({"tolerance": -0.1}, "tolerance"),
        ({"floor_tolerance": math.nan}, "floor_tolerance"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, object], name: str) -> None:
    given_arguments = {"arms": 3, "groups": 2, "noise_std": 1.0, **arguments}
    with raises(InvalidArgument, name):
        Problem(**given_arguments)  # type: ignore[arg-type]


def test_weights_beside_a_mapping_of_groups_are_refused() -> None:
    with raises(InvalidArgument, "group_weights"):
        Problem(1, {"x": 1.0}, group_weights=[1.0], noise_std=1.0)


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf, None, "1", [1.0]])
def test_a_reward_that_is_no_finite_number_is_refused(reward: object) -> None:
    with raises(InvalidOutcome, "reward", given=reward):
        Problem(1, 1, noise_std=1.0).check_outcome(reward)


@pytest.mark.parametrize("reward", [-0.01, 1.01])
def test_a_reward_outside_its_range_is_refused(reward: float) -> None:
    with raises(InvalidOutcome, "reward", given=reward):
        Problem(1, 1, reward_range=(0, 1)).check_outcome(reward)


def test_actions_are_cells_arm_by_arm() -> None:
    problem = Problem(["a", "b"], ["x", "y", "z"], noise_std=1.0)
    assert problem.n_actions == 6
    assert problem.labels(4) == {"arm": "b", "group": "y"}
    assert problem.action(arm="b", group="y") == 4
    with raises(InvalidArgument, "labels"):
        problem.action(arm="c", group="y")


def test_a_problem_is_frozen() -> None:
    problem = Problem(1, 1, noise_std=1.0)
    with pytest.raises(AttributeError, match="frozen"):
        problem.arms = ("b",)
    with pytest.raises(ValueError, match="read-only"):
        problem.floors[0, 0] = 9.0


levels = st.none() | st.floats(-5, 5)


@given(
    floors=st.lists(st.lists(levels, min_size=2, max_size=2), min_size=3, max_size=3),
    weights=st.lists(st.floats(0.01, 9), min_size=2, max_size=2),
    bounded=st.booleans(),
    direction=st.sampled_from(["maximize", "minimize"]),
    tolerance=st.floats(0, 1),
)
def test_json_round_trip_gives_the_same_problem(
    floors: list[list[float | None]],
    weights: list[float],
    bounded: bool,
    direction: str,
    tolerance: float,
) -> None:
    noise = {"reward_range": (-6, 6)} if bounded else {"noise_std": [[1, 2], [3, 4], [5, 6]]}
    problem = Problem(
        ["a", "b", "c"],
        ["x", "y"],
        group_weights=np.array(weights) / sum(weights),
        floors=floors,  # type: ignore[arg-type]
        direction=direction,
        tolerance=tolerance,
        **noise,  # type: ignore[arg-type]
    )
    highest = max(0.0, *(level or 0.0 for row in floors for level in row)) + 1.0
    if direction == "maximize":
        problem = problem.clone(ceilings=[[highest, None]] * 3)
    copy = Problem.from_dict(json.loads(json.dumps(problem.to_dict())))
    assert copy == problem
    assert np.array_equal(copy.ceilings, problem.ceilings)
    assert copy.digest == problem.digest
    assert np.array_equal(copy.floors, problem.floors)


@pytest.mark.parametrize(
    ("direction", "limits", "name"),
    [
        ("maximize", {"floors": 40}, "floors[0, 0]"),
        ("maximize", {"floors": None, "ceilings": -0.1}, "ceilings[0, 0]"),
        ("minimize", {"floors": -0.1}, "floors[0, 0]"),
        ("minimize", {"floors": None, "ceilings": 1.5}, "ceilings[0, 0]"),
    ],
)
def test_a_limit_that_no_mean_can_keep_is_refused(
    direction: str, limits: dict[str, float | None], name: str
) -> None:
    with raises(InvalidArgument, name):
        Problem(2, 2, reward_range=(0, 1), direction=direction, **limits)  # type: ignore[arg-type]


@pytest.mark.parametrize("floors", ["0.4", True, [["0.1", 0.2]]])
def test_floors_that_are_no_numbers_are_refused(floors: object) -> None:
    with raises(InvalidArgument):
        Problem(1, 2, floors=floors, noise_std=1.0)  # type: ignore[arg-type]


# ------------------------------------------------------------------- limits against a control


def test_limits_against_a_control_are_differences_of_means() -> None:
    problem = Problem(["now", "a", "b"], 2, control="now", margin=0.1, reward_range=(0, 1))
    means = [[0.5, 0.3], [0.4, 0.9], [0.39, 0.9]]
    assert problem.feasible(means).tolist() == [True, True, False]
    assert problem.differences()[0].tolist() == [[-math.inf] * 2, [-0.1] * 2, [-0.1] * 2]
    assert problem.constrained.all()
    better = problem.clone(margin=None, superiority=0.2)
    assert better.feasible([[0.5, 0.3], [0.5, 0.7], [0.5, 0.69]]).tolist() == [True, True, False]
    assert not better.constrained.any()
    assert better.has_limits


def test_where_small_means_are_good_a_margin_is_how_much_larger_a_mean_may_be() -> None:
    problem = Problem(2, 2, control="1", margin=[0.1, None], noise_std=1.0, direction="minimize")
    assert problem.feasible([[0.6, 9.0], [0.5, 0.5]]).tolist() == [True, True]
    assert problem.feasible([[0.61, 0.0], [0.5, 0.5]]).tolist() == [False, True]


def test_a_margin_takes_away_the_default_floors_and_no_others() -> None:
    assert Problem(2, 2, noise_std=1.0).floors.tolist() == [[0.0] * 2] * 2
    assert np.isinf(Problem(2, 2, noise_std=1.0, control="0", margin=0.0).floors).all()
    assert np.isinf(Problem(2, 2, noise_std=1.0, control="0", superiority=0.0).floors).all()
    both = Problem(2, 2, floors=0.2, noise_std=1.0, control="0", margin=0.1)
    assert both.floors.tolist() == [[0.2] * 2] * 2
    assert both.feasible([[0.3, 0.3], [0.2, 0.2]]).tolist() == [True, True]
    assert both.feasible([[0.1, 0.3], [0.3, 0.2]]).tolist() == [False, True]


def test_a_problem_with_a_control_is_written_down_and_read_again() -> None:
    problem = Problem(
        ["a", "b"],
        ["x", "y"],
        control="b",
        margin={"a": {"x": 0.1, "y": None}, "b": 0.3},
        superiority=0.05,
        reward_range=(0, 1),
    )
    again = Problem.from_dict(json.loads(json.dumps(problem.to_dict())))
    assert again == problem
    assert again.differences().tolist() == problem.differences().tolist()
    # The control may be changed: its own margin then counts.
    assert problem.clone(control="a").differences()[0].tolist() == [[-math.inf] * 2, [-0.3] * 2]


def test_a_margin_as_wide_as_the_range_can_be_missed_by_no_arm() -> None:
    wide = Problem(2, 2, reward_range=(0, 2), control="0", margin=[2.0, 1.9])
    assert np.isfinite(wide.differences()[0, 1]).tolist() == [False, True]
    known = Problem(2, 2, noise_std=1.0, control="0", margin=[2.0, 1.9])
    assert np.isfinite(known.differences()[0, 1]).all()


@pytest.mark.parametrize("scale", [1e-130, 1e-9, 1.0, 1e130])
def test_rounding_breaks_no_margin(scale: float) -> None:
    problem = Problem(2, 1, control="0", margin=0.1 * scale, noise_std=scale)
    assert problem.feasible([[0.3 * scale], [0.2 * scale]]).all()
    assert not problem.feasible([[0.3 * scale], [0.1999999 * scale]])[1]


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"margin": 0.1}, "control"),
        ({"superiority": 0.1}, "control"),
        ({"control": "c", "margin": 0.1}, "control"),
        ({"control": "a", "margin": -0.1}, "margin[a, x]"),
        ({"control": "a", "margin": math.nan}, "margin[a, x]"),
        ({"control": "a", "margin": [0.1, -math.inf]}, "margin[a, y]"),
        ({"control": "a", "margin": "auto"}, "margin"),
        ({"control": "a", "margin": [0.1, 0.2, 0.3]}, "margin"),
        ({"control": "a", "margin": {"x": 0.1}}, "margin"),
        ({"control": "a", "superiority": -0.1}, "superiority"),
        ({"control": "a", "superiority": math.inf}, "superiority"),
        ({"control": "a", "superiority": [0.1]}, "superiority"),
        ({"control": "a", "superiority": 1.0}, "superiority"),
    ],
)
def test_bad_limits_against_a_control_are_named(given: dict, name: str) -> None:
    with raises(InvalidArgument, name):
        Problem(["a", "b"], ["x", "y"], reward_range=(0, 1), **given)


def test_the_question_says_what_is_asked_against_the_control() -> None:
    def question(groups: int = 2, **asked: object) -> str:
        problem = Problem(["a", "b"], groups, reward_range=(0, 1), control="a", **asked)
        return problem.in_words()["Question"]

    assert question(margin=0.1).endswith("not worse than 'a' in any group by more than 0.1?")
    assert question(margin=0.0).endswith("not worse than 'a' in any group?")
    assert question(1, margin=0.0).endswith("not worse than 'a'?")
    assert question(margin=[0.1, None]).endswith("by more than the margin there?")
    assert question(floors=0.2, margin=1.5).endswith("is at least 0.2?")
    assert question(margin=[0.1, 1.5]).endswith("by more than the margin there?")
    assert question(superiority=0.0).endswith("among those that are better overall than 'a'?")
    assert question(floors=0.2, margin=0.1, superiority=0.05).endswith(
        "among those whose mean in every group is at least 0.2 and that are not worse than 'a' in "
        "any group by more than 0.1 and that are better overall than 'a' by at least 0.05?"
    )


@pytest.mark.parametrize(
    "weights",
    [[0.4, 0.5], [0.5, 0.48], [0.3, 0.3, 0.3], [41.4, 19.2, 39.4], [1.0, 0.5], [0.07] * 13],
    ids=str,
)
def test_weights_that_are_neither_shares_nor_counts_are_refused(weights) -> None:
    by_group = {f"g{at}": weight for at, weight in enumerate(weights)}
    for how in (
        {"groups": len(weights), "group_weights": weights},
        {"groups": by_group},
        {"groups": list(by_group), "group_weights": by_group},
    ):
        with raises(InvalidArgument) as error:
            Problem(2, noise_std=1.0, **how)
        assert error.value.name == "group_weights"
        assert f"sum to {sum(weights):.12g}" in error.value.accepted


@pytest.mark.parametrize(
    "weights",
    [[0.33, 0.33, 0.33], [1 / 3, 1 / 3, 1 / 3], [0.17] * 6, [0.1] * 10, [414, 192, 394], [3, 1]],
    ids=str,
)
def test_rounded_shares_and_counts_are_weights(weights) -> None:
    problem = Problem(1, len(weights), group_weights=weights, noise_std=1.0)
    assert problem.shares.tolist() == pytest.approx((np.array(weights) / sum(weights)).tolist())


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_ceilings_alone_set_no_floors(direction) -> None:
    problem = Problem(2, 2, ceilings=-1.0, noise_std=1.0, direction=direction)
    free = Problem(2, 2, floors=None, ceilings=-1.0, noise_std=1.0, direction=direction)
    assert np.array_equal(problem.floors, free.floors)
    usual = Problem(2, 2, noise_std=1.0, direction=direction)
    assert usual.clone(ceilings=-1.0) == problem
    assert usual.clone(costs=2.0).floors.tolist() == [[0.0, 0.0]] * 2
    given = Problem(2, 2, floors=-2.0, noise_std=1.0)
    assert given.clone(ceilings=1.0).floors.tolist() == [[-2.0, -2.0]] * 2
