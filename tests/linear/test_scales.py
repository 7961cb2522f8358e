"""Features in any units, near each other or far apart: a right answer, or a refusal by name."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairtrial.core import Policy
from fairtrial.errors import InvalidArgument, InvalidOutcome
from fairtrial.linear import (
    BlockBetting,
    FrankWolfeSampling,
    FullyAdaptiveXY,
    GAllocation,
    LazyTrackAndStop,
    LinGame,
    LinGapE,
    Problem,
    Rage,
    XYAdaptive,
    XYAllocation,
)
from tests import effort
from tests.linear.scale_instances import answer_of, hard_instance
from tests.messages import raises

DELTA = 0.05
EVERY = [
    BlockBetting, LinGapE, LinGame, FrankWolfeSampling, LazyTrackAndStop, GAllocation,
    XYAllocation, Rage, XYAdaptive, FullyAdaptiveXY,
]  # fmt: skip


def answers(
    cls: type[Policy], problem: Problem, means: np.ndarray, noise: float, runs: int, **more: Any
) -> list[str | None]:
    """Return the answers of that many runs with normal noise, inside the range if there is one."""
    low, high = problem.reward_range or (-np.inf, np.inf)
    found = []
    for seed in range(runs):
        policy, rng = cls(problem, delta=DELTA, **more), np.random.default_rng(seed)
        while not policy.stopped:
            pull = policy.ask()
            reward = means[pull.action] + noise * rng.normal()
            policy.tell(pull, float(np.clip(reward, low, high)))
        found.append(policy.recommend().arm)
    return found


# --------------------------------------------------------------- a direction that is measured


def hours_since_1970() -> tuple[np.ndarray, np.ndarray]:
    """A control, and nine hourly times with a trend and its bend; the best is the sixth hour."""
    time = 1.7e9 + 3600.0 * np.arange(9)
    rows = [[1.0, 0.0, 0.0, 0.0], *([1.0, 1.0, t, t * t] for t in time)]
    hours = np.arange(9) - 5.0
    return np.array(rows), np.append(-3.0, -0.4 * hours**2)


@pytest.mark.parametrize("cls", EVERY)
def test_a_bend_over_hours_is_measured_in_seconds_since_1970(cls: type[Policy]) -> None:
    features, means = hours_since_1970()
    problem = Problem(features, noise_std=0.1)
    assert problem.rank == 4
    assert len(problem.answer_groups) == 10
    assert answers(cls, problem, means, 0.1, runs=3, max_pulls=5000) == ["6"] * 3


def test_a_bend_over_hours_is_measured_by_rewards_in_a_range() -> None:
    features, means = hours_since_1970()
    problem = Problem(features, reward_range=(-8, 1))
    found = answers(BlockBetting, problem, means, 0.1, runs=3, max_pulls=5000)
    assert found == ["6"] * 3


def test_units_do_not_change_the_coordinates_of_times() -> None:
    features, _ = hours_since_1970()
    hours = features.copy()
    hours[1:, 2] = np.arange(9) - 4.0
    hours[1:, 3] = hours[1:, 2] ** 2
    near, far = (Problem(rows, noise_std=1.0).reduced.arms for rows in (hours, features))
    # The same space of means: the squares of times as floats are off by 256 in 10^14.
    assert np.linalg.norm(near @ np.linalg.lstsq(near, far, rcond=None)[0] - far) < 1e-4


# ---------------------------------------------------------------- candidates near each other


def test_a_chain_of_near_candidates_is_not_one_answer() -> None:
    step = 280 * 2.0**-52
    values = 1.0 + step * np.arange(4000)
    candidates = np.column_stack([np.ones_like(values), values])
    problem = Problem(np.eye(2), candidates, noise_std=1.0)
    spread = max(values[list(group)].max() - values[list(group)].min()
                 for group in problem.answer_groups)  # fmt: skip
    assert len(problem.answer_groups) > 1000
    assert spread < 3e-13
    assert not BlockBetting(problem, seed=0).stopped


def test_candidates_beyond_what_floats_can_tell_apart_are_refused_by_name() -> None:
    candidates = [[1e150, 0.0], [0.0, 1.0], [0.0, 2.0]]
    with raises(InvalidArgument, "candidates"):
        Problem(np.eye(2), candidates, answers=["far", "near", "next"], noise_std=1.0)


def test_far_candidates_that_differ_by_little_are_told_apart() -> None:
    candidates = [[1e12, 0.0], [1e12, 1.0], [-1e12, 3.0]]
    problem = Problem([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], candidates, noise_std=1.0)
    # The first coordinate decides between the last and the others, the second among those.
    means = np.array([6.0, 3.0, 9.0])
    assert answers(BlockBetting, problem, means, 1.0, runs=5) == ["1"] * 5


def test_an_arm_that_measures_too_weakly_is_refused_by_the_name_of_its_feature() -> None:
    table = pd.DataFrame({"one": [1.0, 1.0, 1e-60], "time": [1.0, 1.0, 2e-60]}, index=list("abc"))
    with raises(InvalidArgument, "features"):
        Problem(table, noise_std=1.0)
    with raises(InvalidArgument, "noise_std[1]"):
        Problem(np.eye(2), noise_std=[1.0, 1e9])


# ------------------------------------------------------------------------ sizes of rewards


@pytest.mark.parametrize("cls", [BlockBetting, LinGapE, GAllocation, Rage])
def test_one_mean_a_thousand_million_times_the_noise_does_not_hide_the_others(
    cls: type[Policy],
) -> None:
    rows = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.6, 0.6]])
    problem = Problem(rows, noise_std=1.0)
    means = rows @ [-1e9, 2.0, 4.0]
    assert answers(cls, problem, means, 1.0, runs=12, max_pulls=5000) == ["2"] * 12


@pytest.mark.parametrize("cls", EVERY)
@pytest.mark.parametrize("unit", [1e-170, 1e170])
def test_the_unit_of_rewards_does_not_matter(cls: type[Policy], unit: float) -> None:
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.6]])
    problem = Problem(rows, noise_std=unit)
    found = answers(cls, problem, unit * rows @ [1.0, 5.0], unit, runs=3, max_pulls=3000)
    assert found == ["1"] * 3


PAPERS_UNIT = [Rage, XYAdaptive]
"""They plan their first phases in the units of the papers, in which gaps are about one."""

ESTIMATING = [LinGapE, LinGame, FrankWolfeSampling, LazyTrackAndStop, GAllocation, XYAllocation]


@pytest.mark.parametrize(
    ("cls", "noise"),
    [(cls, 0.3) for cls in EVERY if cls not in PAPERS_UNIT]
    + [(cls, "estimated") for cls in ESTIMATING],
)
@pytest.mark.parametrize("tolerance", [0.0, 0.05])
def test_the_unit_of_rewards_changes_no_pull_and_no_number(
    cls: type[Policy], noise: Any, tolerance: float
) -> None:
    """Powers of two multiply without rounding, so everything must be the same."""
    rows = np.array([[1.0, 0.1], [0.2, 1.1], [0.75, 0.6], [-0.5, 0.4]])

    def found(unit: float) -> Any:
        std = noise if isinstance(noise, str) else noise * unit
        problem = Problem(rows, noise_std=std, tolerance=tolerance * unit)
        policy, rng = cls(problem, delta=DELTA, seed=1), np.random.default_rng(3)
        pulled = []
        while not policy.stopped and len(pulled) < 70:
            pull = policy.ask()
            pulled.append(pull.action)
            policy.tell(pull, unit * float(rows[pull.action] @ [0.6, 0.4] + 0.3 * rng.normal()))
        progress = policy.progress()
        ends = [(one.mean, one.lower, one.upper) for one in progress.actions]
        ends += [(one.difference, one.lower, one.upper) for one in progress.effects]
        shown = [tuple(None if end is None else end / unit for end in three) for three in ends]
        return pulled, progress.evidence, progress.threshold, policy.recommend().candidates, shown

    expected = found(1.0)
    for unit in effort.first(2, [2.0**-440, 2.0**300, 2.0**-60, 2.0**3, 2.0**40]):
        assert found(unit) == expected


@pytest.mark.parametrize("unit", [1e-160, 1e160])
def test_the_unit_of_a_range_does_not_matter(unit: float) -> None:
    rows = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 0.6]])
    problem = Problem(rows, reward_range=(0.0, unit))
    means = unit * rows @ [0.3, 0.4]
    assert answers(BlockBetting, problem, means, 0.1 * unit, runs=5) == ["1"] * 5


def test_a_range_far_from_zero_costs_nothing_where_features_hold_a_constant() -> None:
    rows = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 0.6]])
    told = []
    for low in (0.0, 1e9):
        problem = Problem(rows, reward_range=(low, low + 1.0))
        policy, rng = BlockBetting(problem, seed=0), np.random.default_rng(0)
        while not policy.stopped:
            pull = policy.ask()
            policy.tell(pull, low + float(rng.random() < rows[pull.action] @ [0.3, 0.4]))
        assert policy.recommend().arm == "1"
        told.append(policy.told)
    assert told[0] == told[1]


def test_rewards_and_ranges_that_floats_cannot_hold_are_refused() -> None:
    problem = Problem(np.eye(2), noise_std=1e-150)
    with raises(InvalidOutcome, "reward"):
        problem.check_outcome(1.0)
    for wrong in ((0.0, 1e-250), (-1e250, 1e250), (1.0, 1.0 + 1e-14)):
        with raises(InvalidArgument, "reward_range", given=wrong):
            Problem(np.eye(2), reward_range=wrong)
    with raises(InvalidArgument, "noise_std"):
        Problem(np.eye(2), noise_std=1e-250)


# -------------------------------------------------------------------------- random instances


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("cls", "first", "number"),
    [(BlockBetting, 0, 60), (LinGapE, 1000, 40), (LinGame, 2000, 15), (GAllocation, 3000, 25),
     (XYAllocation, 4000, 25), (Rage, 5000, 25), (FrankWolfeSampling, 6000, 15),
     (LazyTrackAndStop, 7000, 10)],
)  # fmt: skip
def test_hard_features_are_answered_rightly_or_refused(
    cls: type[Policy], first: int, number: int
) -> None:
    """An error has probability at most .05, and here far less: gaps are many times the noise."""
    wrong = answered = 0
    number = effort.runs(max(10, number // 2), whole=number)
    for seed in range(first, first + number):
        instance = hard_instance(seed)
        problem = instance.problem()
        if problem is None:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            policy = cls(problem, delta=DELTA, max_pulls=400)
        arm, proven = answer_of(policy, instance, np.random.default_rng(seed), bounded=False)
        answered += arm is not None
        wrong += arm is not None and proven and instance.is_wrong(arm)
    # P(Binomial(60, .05) > 8) and P(Binomial(10, .05) > 3) are below .003.
    assert wrong <= number * DELTA + 3.0 * (number * DELTA * (1 - DELTA)) ** 0.5
    assert answered >= number // 3


@pytest.mark.statistical
def test_hard_features_with_rewards_in_a_range_are_answered_rightly_or_refused() -> None:
    wrong = answered = 0
    for seed in range(20):
        instance = hard_instance(seed, bounded=True)
        problem = instance.problem()
        if problem is None:
            continue
        policy = BlockBetting(problem, delta=DELTA, max_pulls=600, seed=0)
        arm, proven = answer_of(policy, instance, np.random.default_rng(seed), bounded=True)
        answered += arm is not None
        wrong += arm is not None and proven and instance.is_wrong(arm)
    assert wrong <= 3
    assert answered >= 7
