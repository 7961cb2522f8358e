"""Environments: the same pulls for every policy, distributions, truth, curves."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from fairtrial.core import Pull
from fairtrial.delayed import (
    ConstantDelay,
    CurveEnvironment,
    EmpiricalDelay,
    GeometricDelay,
    LognormalDelay,
    OutcomeDelay,
    Problem,
    SimulatedEnvironment,
    UniformDelay,
)
from fairtrial.errors import InvalidArgument, InvalidOutcome
from tests.messages import raises

FULL = Problem(2, noise_std=1.0)
UNBIASED = Problem(2, noise_std=1.0, feedback="unbiased", reading_std=0.5)


def paths(environment, arm, number, seed=0):
    begun = environment.begin(np.random.default_rng(seed))
    pull = Pull(0, arm, environment.problem.labels(arm))
    generator = np.random.default_rng(0)
    return [begun.trajectory(pull, generator) for _ in range(number)]


def test_the_same_pull_comes_out_the_same_whatever_came_before():
    environment = SimulatedEnvironment(UNBIASED, [0.0, 1.0], delay=UniformDelay(2, 9))
    alone = paths(environment, 1, 5)
    begun = environment.begin(np.random.default_rng(0))
    generator = np.random.default_rng(99)
    for path in alone:
        begun.trajectory(Pull(0, 0, environment.problem.labels(0)), generator)
        assert begun.trajectory(Pull(0, 1, environment.problem.labels(1)), generator) == path
    assert paths(environment, 1, 5, seed=1) != alone
    assert len({path.outcome for path in alone}) == 5


def test_readings_come_before_the_outcome_at_their_times():
    (path,) = paths(SimulatedEnvironment(UNBIASED, [0.0, 0.0], delay=2.0, every=0.5), 0, 1)
    assert [reading.elapsed for reading in path.readings] == [0.5, 1.0, 1.5]
    assert [reading.details["stage"] for reading in path.readings] == [1, 2, 3]
    (path,) = paths(SimulatedEnvironment(UNBIASED, [0.0, 0.0], delay=1.0), 0, 1)
    assert path.readings == ()
    (path,) = paths(SimulatedEnvironment(UNBIASED, [0.0, 0.0], delay=301.0), 0, 1)
    assert len(path.readings) == 300
    (path,) = paths(SimulatedEnvironment(FULL, [0.0, 0.0], delay=9.0), 0, 1)
    assert path.readings == ()


@pytest.mark.parametrize(
    ("delay", "low", "high", "mean"),
    [
        (3.0, 3.0, 3.0, 3.0),
        (ConstantDelay([9.0, 3.0]), 3.0, 3.0, 3.0),
        (UniformDelay(2, 6), 2.0, 6.0, 4.0),
        (GeometricDelay(4.0), 1.0, math.inf, 4.0),
        (GeometricDelay(1.0), 1.0, 1.0, 1.0),
        (LognormalDelay(2.0, 0.5), 0.0, math.inf, 2.0 * math.exp(0.125)),
        (EmpiricalDelay([1.0, 2.0, 6.0]), 1.0, 6.0, 3.0),
        (lambda arm, outcome, chance: 1.0 + chance, 1.0, 2.0, 1.5),
    ],
)
@pytest.mark.statistical
def test_delays_have_their_distribution(delay, low, high, mean):
    found = np.array([p.delay for p in paths(SimulatedEnvironment(FULL, [0, 0], delay), 1, 2000)])
    assert low <= found.min()
    assert found.max() <= high
    # Four standard errors of the mean; none where the delay is constant.
    assert abs(found.mean() - mean) <= 4 * found.std() / math.sqrt(2000) + 1e-12


def test_a_delay_can_grow_with_the_outcome():
    environment = SimulatedEnvironment(FULL, [0.0, 0.0], OutcomeDelay([1, 1], [100, 2000]))
    found = paths(environment, 1, 300)
    outcomes = np.array([path.outcome for path in found])
    delays = np.array([path.delay for path in found])
    assert stats.spearmanr(outcomes, delays).statistic > 0.999
    assert np.allclose(delays, 1 + np.floor(stats.norm.cdf(outcomes) * 1999))


@pytest.mark.statistical
def test_outcomes_and_readings_have_their_moments():
    problem = Problem(2, noise_std=2.0, feedback="biased", reading_std=0.5)
    environment = SimulatedEnvironment(problem, [0.0, 3.0], delay=6.0, bias=1.0)
    found = paths(environment, 1, 2000)
    outcomes = np.array([path.outcome for path in found])
    errors = np.array([[r.value for r in path.readings] for path in found]) - outcomes[:, None] - 1
    assert stats.kstest((outcomes - 3.0) / 2.0, "norm").pvalue > 1e-3
    assert stats.kstest(errors.ravel() / 0.5, "norm").pvalue > 1e-3
    # Correlations of independent columns: 4 / sqrt(2000) is four standard errors.
    correlation = np.corrcoef(np.column_stack([outcomes, errors]).T)
    assert np.abs(correlation - np.eye(6)).max() < 4.5 / math.sqrt(2000)


@pytest.mark.statistical
def test_errors_of_refining_readings_are_nested_or_redrawn():
    problem = Problem(1, noise_std=1.0, feedback="refining", reading_std=0.8)
    for errors in ("nested", "redrawn"):
        environment = SimulatedEnvironment(problem, [0.0], delay=4.0, errors=errors)
        found = paths(environment, 0, 3000)
        outcomes = np.array([path.outcome for path in found])
        values = np.array([[r.value for r in path.readings] for path in found])
        stds = np.array([reading.details["std"] for reading in found[0].readings])
        assert np.allclose(stds, 0.8 * np.sqrt([0.75, 0.5, 0.25]))
        covariance = np.cov((values - outcomes[:, None]).T)
        later = np.minimum.outer(stds, stds) ** 2 if errors == "nested" else np.diag(stds**2)
        # Four standard errors of a covariance of normal numbers are at most 4 sqrt(2) s^2.
        assert np.abs(covariance - later).max() < 4 * math.sqrt(2 / 3000) * 0.8**2 * 0.75


@pytest.mark.statistical
def test_pieces_add_up_to_the_outcome():
    problem = Problem(2, noise_std=2.0, feedback="incremental", duration=[4.0, 6.0])
    found = paths(SimulatedEnvironment(problem, [0.0, 3.0]), 1, 1500)
    assert all(path.delay == 6.0 and len(path.readings) == 5 for path in found)
    outcomes = np.array([path.outcome for path in found])
    pieces = np.array([[r.value for r in path.readings] for path in found])
    last = outcomes - pieces.sum(axis=1)
    everything = np.column_stack([pieces, last])
    assert stats.kstest((everything.ravel() - 0.5) / (2.0 / math.sqrt(6)), "norm").pvalue > 1e-3
    correlation = np.corrcoef(everything.T)
    assert np.abs(correlation - np.eye(6)).max() < 4.5 / math.sqrt(1500)


@pytest.mark.statistical
def test_pulls_are_lost_with_their_probability():
    found = paths(SimulatedEnvironment(FULL, [0.0, 0.0], loss=0.25), 0, 2000)
    lost = sum(path.outcome is None for path in found)
    assert abs(lost - 500) < 4 * math.sqrt(2000 * 0.25 * 0.75)


def test_the_truth_accepts_any_order_and_what_is_within_the_tolerance():
    problem = Problem(["a", "b", "c", "d"], top=2, noise_std=1.0, tolerance=0.5)
    truth = SimulatedEnvironment(problem, [1.0, 3.0, 2.0, 1.6]).truth
    assert truth.best == ("b", "c")
    assert truth.good == ("b", "c", "d")
    assert truth.accepts(("c", "b"))
    assert truth.accepts(["d", "b"])
    assert not truth.accepts(("b", "a"))
    assert not truth.accepts(("b", "b"))
    assert not truth.accepts(("b",))
    assert not truth.accepts(None)
    least = SimulatedEnvironment(problem.clone(direction="minimize"), [1.0, 3.0, 2.0, 1.6]).truth
    assert least.best == ("a", "d")
    assert least.good == ("a", "c", "d")


ROWS = {
    "arm": ["a", "a", "a", "a", "b"],
    "curve": ["x", "x", "x", "y", "x"],
    "elapsed": [2.0, 1.0, 5.0, 3.0, 4.0],
    "value": [0.2, 0.1, 0.5, 0.9, 1.5],
    "std": [0.3, 0.4, math.nan, math.nan, None],
}
CURVES = Problem(["a", "b"], noise_std=1.0, feedback="refining", reading_std=1.0)


def test_recorded_curves_are_replayed_whole():
    environment = CurveEnvironment(CURVES, ROWS, std="std")
    assert environment.truth.means.tolist() == [0.7, 1.5]
    assert environment.truth.best == ("b",)
    assert environment.arm_stds.tolist() == [pytest.approx(0.2), 0.0]
    seen = {path.delay: path for path in paths(environment, 0, 50)}
    assert set(seen) == {3.0, 5.0}
    assert seen[3.0].outcome == 0.9
    assert seen[3.0].readings == ()
    assert seen[5.0].outcome == 0.5
    assert [(r.elapsed, r.value, r.details) for r in seen[5.0].readings] == [
        (1.0, 0.1, {"stage": 1, "elapsed": 1.0, "std": 0.4}),
        (2.0, 0.2, {"stage": 2, "elapsed": 2.0, "std": 0.3}),
    ]
    without = {path.delay: path for path in paths(CurveEnvironment(CURVES, ROWS), 0, 50)}
    assert without[5.0].readings[0].details == {"stage": 1, "elapsed": 1.0}


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"arm": ["a", "a", "a", "a", "z"]}, "table row 4"),
        ({"arm": ["a"] * 5, "curve": [1, 2, 3, 4, 5]}, "table"),
        ({"value": [0.1, 0.2, math.nan, 0.9, 1.0]}, "table row 2: value"),
        ({"elapsed": [1.0, 1.0, 2.0, 1.0, 1.0]}, "table"),
        ({"elapsed": [0.0, 1.0, 2.0, 1.0, 1.0]}, "table row 0: elapsed"),
        ({"value": [0.1]}, "table"),
        ({"std": [-1.0] * 5}, "table row 0: std"),
    ],
)
def test_a_bad_table_is_refused_where_it_is_bad(change, name):
    with raises(InvalidArgument, name):
        CurveEnvironment(CURVES, {**ROWS, **change}, std="std")
    with raises(InvalidArgument, "table"):
        CurveEnvironment(CURVES, ROWS, value="score")


def test_recorded_deviations_do_not_grow_where_errors_are_nested():
    problem = Problem(["a"], noise_std=1.0, feedback="refining", errors="nested")

    def environment(*stds):
        points = {"elapsed": range(1, len(stds) + 1), "value": [0.0] * len(stds), "std": stds}
        rows = {"arm": ["a"] * len(stds), "curve": [1] * len(stds), **points}
        return CurveEnvironment(problem, rows, std="std")

    # The outcome needs no deviation.
    environment(0.5, 0.5, 0.2, 9.0)
    with raises(InvalidArgument, "table"):
        environment(0.5, 0.2, 0.3, 0.0)


def test_a_recorded_outcome_outside_of_the_range_is_refused():
    problem = Problem(["a", "b"], reward_range=(0, 1), feedback="refining", reading_std=1.0)
    with raises(InvalidOutcome, "table: the outcome of curve 'x' of 'b'"):
        CurveEnvironment(problem, ROWS)


@pytest.mark.parametrize(
    "arguments",
    [
        {"means": [0.0]},
        {"means": [0.0, math.nan]},
        {"delay": 0.0},
        {"delay": [1.0, 2.0, 3.0]},
        {"delay": "long"},
        {"delay": UniformDelay(0, 3)},
        {"delay": UniformDelay(3, 2)},
        {"delay": GeometricDelay(0.5)},
        {"delay": LognormalDelay(0.0)},
        {"delay": LognormalDelay(1.0, -1.0)},
        {"delay": EmpiricalDelay([])},
        {"delay": EmpiricalDelay([0.0])},
        {"delay": OutcomeDelay(1.5, 3)},
        {"bias": 1.0},
        {"std": -1.0},
        {"reading_std": -1.0},
        {"every": 0.0},
        {"loss": 1.5},
        {"errors": "other"},
        {"shrink": -1.0},
    ],
)
def test_a_bad_argument_of_an_environment_is_refused(arguments):
    with raises(InvalidArgument):
        SimulatedEnvironment(**{"problem": UNBIASED, "means": [0.0, 1.0], **arguments})


def test_environments_that_contradict_their_problem_are_refused():
    with raises(InvalidArgument, "problem"):
        SimulatedEnvironment(Problem(2, reward_range=(0, 1)), [0.0, 1.0])
    with raises(InvalidArgument, "problem"):
        SimulatedEnvironment(Problem(1, noise_std=1.0, feedback="incremental"), [0.0])
    pieces = Problem(1, noise_std=1.0, feedback="incremental", duration=4)
    with raises(InvalidArgument, "delay, every"):
        SimulatedEnvironment(pieces, [0.0], delay=4.0)
    with raises(InvalidArgument, "reading_std"):
        SimulatedEnvironment(Problem(1, noise_std=1.0, feedback="refining"), [0.0])
    with raises(InvalidArgument, "problem", given="problem"):
        SimulatedEnvironment("problem", [0.0])


def test_outcomes_without_noise_are_allowed_in_a_simulation():
    (path,) = paths(SimulatedEnvironment(FULL, [0.5, 0.0], std=0.0), 0, 1)
    assert path.outcome == 0.5


def test_arms_at_the_border_of_the_best_are_interchangeable() -> None:
    problem = Problem(["a", "b", "c"], top=2, noise_std=1.0)
    assert SimulatedEnvironment(problem, [3.0, 2.0, 1.0]).truth.interchangeable == ()
    assert SimulatedEnvironment(problem, [3.0, 1.0, 1.0]).truth.interchangeable == ("a", "b", "c")
    near = problem.clone(tolerance=0.1)
    assert SimulatedEnvironment(near, [3.0, 1.0, 0.95]).truth.interchangeable == ("a", "b", "c")


def test_arms_tie_for_the_last_place_only_where_no_tolerance_allows_either():
    means = [0.0, 1.0, 1.0]
    assert SimulatedEnvironment(Problem(3, noise_std=1.0), means).truth.tied
    assert not SimulatedEnvironment(Problem(3, top=2, noise_std=1.0), means).truth.tied
    will_do = Problem(3, noise_std=1.0, tolerance=0.1)
    assert not SimulatedEnvironment(will_do, means).truth.tied
