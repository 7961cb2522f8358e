"""An environment that is fitted to the curves of another one resembles it."""

from __future__ import annotations

import numpy as np
import pytest

from fairtrial.core import Pull
from fairtrial.delayed import (
    EmpiricalDelay,
    InformationRacing,
    LognormalDelay,
    Problem,
    SimulatedEnvironment,
    fit_environment,
)
from fairtrial.errors import InvalidArgument
from tests.messages import raises

HOW = {
    "full": {},
    "unbiased": {"reading_std": 0.5},
    "biased": {"reading_std": 0.5},
    "refining": {"reading_std": 0.8},
    "incremental": {"duration": 4},
}


def problem_with(feedback, **more):
    return Problem(2, noise_std=1.0, feedback=feedback, **HOW[feedback], **more)


def seen_in(environment, pulls=300):
    """Return the curves of N pulls of every arm."""
    rows = {"arm": [], "curve": [], "elapsed": [], "value": []}
    running = environment.begin(np.random.default_rng(2))
    for action, label in enumerate(environment.problem.arms):
        for number in range(pulls):
            path = running.trajectory(Pull(0, action, {"arm": label}), np.random.default_rng())
            points = [(reading.elapsed, reading.value) for reading in path.readings]
            for elapsed, value in [*points, (path.delay, path.outcome)]:
                for name, entry in zip(rows, (label, number, elapsed, value), strict=True):
                    rows[name].append(entry)
    return rows


@pytest.mark.statistical
@pytest.mark.parametrize("feedback", list(HOW))
def test_means_and_deviations_are_found_again(feedback):
    environment = SimulatedEnvironment(
        problem_with(feedback), [0.0, 3.0], std=[1.0, 2.0],
        delay=None if feedback == "incremental" else LognormalDelay(8.0, 0.2),
    )  # fmt: skip
    found = fit_environment(environment.problem, seen_in(environment))
    # Four standard errors: of a mean of 300, and of a deviation, which is sigma / sqrt(600).
    assert np.abs(found.means - [0.0, 3.0]).max() < 4 * 2.0 / np.sqrt(300)
    assert np.abs(found.std / [1.0, 2.0] - 1).max() < 4 / np.sqrt(600)
    run = InformationRacing(found.problem).compiled_run(found, np.random.default_rng(0), None)
    assert run.answer == ("1",)


@pytest.mark.statistical
def test_biases_and_the_noise_of_readings_are_found_again():
    environment = SimulatedEnvironment(
        problem_with("biased"), [0.0, 0.0], delay=6.0, every=0.5, bias=[2.0, -1.0],
        reading_std=[0.5, 1.5],
    )  # fmt: skip
    found = fit_environment(environment.problem, seen_in(environment))
    assert np.abs(found.bias - [2.0, -1.0]).max() < 4 * 1.5 / np.sqrt(300 * 11)
    assert np.abs(found.reading_std / [0.5, 1.5] - 1).max() < 4 / np.sqrt(2 * 300 * 11)
    assert found.every == pytest.approx(0.5)


@pytest.mark.statistical
@pytest.mark.parametrize("errors", ["nested", "redrawn"])
@pytest.mark.parametrize("shrink", [0.0, 0.5, 1.5])
def test_how_errors_shrink_and_hang_together_is_found_again(errors, shrink):
    environment = SimulatedEnvironment(
        problem_with("refining"), [0.0, 0.0], delay=10.0, errors=errors, shrink=shrink
    )
    found = fit_environment(environment.problem, seen_in(environment))
    assert found.errors == errors
    # At least 600 independent errors determine each of the ten points to 3 %.
    assert found.reading_std == pytest.approx([0.8, 0.8], rel=0.12)
    assert found.shrink == pytest.approx(shrink, abs=0.12)


def test_delays_are_a_sample_of_all_or_each_arms_own():
    same = SimulatedEnvironment(problem_with("full"), [0.0, 0.0], delay=LognormalDelay(5.0, 0.5))
    found = fit_environment(same.problem, seen_in(same, 40))
    assert isinstance(found.delay, EmpiricalDelay)
    assert len(found.delay.sample) == 80
    other = SimulatedEnvironment(
        problem_with("full"), [0.0, 0.0], delay=LognormalDelay([5.0, 50.0], [0.5, 0.1])
    )
    found = fit_environment(other.problem, seen_in(other))
    assert isinstance(found.delay, LognormalDelay)
    assert found.delay.median == pytest.approx([5.0, 50.0], rel=0.12)
    assert found.delay.shape == pytest.approx([0.5, 0.1], rel=0.17)


def test_losses_are_the_share_of_pulls_without_outcome():
    rows = {"arm": ["0", "0", "1"], "curve": [1, 2, 1], "elapsed": [1, 1, 1], "value": [0, 2, 5]}
    found = fit_environment(problem_with("full"), rows, lost=1)
    assert found.loss == 0.25
    # The second arm has only one outcome, so it gets the deviation of the first arm.
    assert found.std.tolist() == [pytest.approx(2**0.5)] * 2


def test_tables_that_tell_too_little_are_refused():
    rows = {"arm": ["0", "1"], "curve": [1, 1], "elapsed": [1.0, 1.0], "value": [0.0, 1.0]}
    with raises(InvalidArgument, "table"):
        fit_environment(problem_with("full"), rows)
    twice = {name: column * 2 for name, column in rows.items()} | {"curve": [1, 1, 2, 2]}
    with raises(InvalidArgument, "table", given=None):
        fit_environment(problem_with("unbiased"), twice)
    with raises(InvalidArgument, "problem"):
        fit_environment(Problem(2, reward_range=(0, 5)), twice)
    with raises(InvalidArgument, "lost"):
        fit_environment(problem_with("full"), twice, lost=-1)
