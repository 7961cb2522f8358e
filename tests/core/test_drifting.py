"""Means that move while an experiment runs."""

import numpy as np
import pytest

from fairtrial import delayed, linear, subpopulations
from fairtrial.core import Pull
from fairtrial.core.drifting import DriftingEnvironment
from fairtrial.core.lossy import LossyEnvironment
from fairtrial.errors import InvalidArgument
from fairtrial.simulation import simulate
from tests import effort
from tests.messages import raises

COINS = subpopulations.BernoulliEnvironment(
    subpopulations.Problem(["a", "b"], 1, floors=None, reward_range=(0, 1)), [[0.2], [0.6]]
)
NORMAL = linear.GaussianEnvironment(
    linear.Problem([[1.0, 0.0], [1.0, 1.0]], noise_std=1.0), [0.5, 0.25]
)


def mean_at(environment, number, action, draws=4_000):
    generator = np.random.default_rng(1)
    pull = Pull(number, action, environment.problem.labels(action))
    return np.mean([environment.trajectory(pull, generator).outcome for _ in range(draws)])


@pytest.mark.statistical
@pytest.mark.parametrize("drift", [0.001, -0.001])
def test_in_a_range_a_growing_share_of_the_results_is_its_end(drift):
    environment = DriftingEnvironment(COINS, drift)
    for action, mean in enumerate((0.2, 0.6)):
        for number in (0, 300, 2_000):
            share = min(1.0, abs(drift) * number)
            expected = mean * (1 - share) + share * (drift > 0)
            # Five standard errors of the mean of 4,000 results.
            assert mean_at(environment, number, action) == pytest.approx(expected, abs=0.04)


@pytest.mark.statistical
def test_known_noise_is_shifted():
    environment = DriftingEnvironment(NORMAL, -0.01)
    assert mean_at(environment, 0, 1) == pytest.approx(0.75, abs=0.08)
    assert mean_at(environment, 500, 1) == pytest.approx(0.75 - 5.0, abs=0.08)


def test_the_truth_is_that_of_the_start_and_unsolicited_data_do_not_drift():
    environment = DriftingEnvironment(COINS, 0.5)
    assert environment.truth.best == "b"
    generator, twin = np.random.default_rng(2), np.random.default_rng(2)
    pull = COINS.problem.pull(arm="a", group="0")
    assert environment.sample(pull, generator) == COINS.sample(pull, twin)


def test_a_lost_result_stays_lost():
    environment = DriftingEnvironment(LossyEnvironment(COINS, 0.5), 0.001)
    generator = np.random.default_rng(3)
    pull = Pull(10, 0, COINS.problem.labels(0))
    paths = [environment.trajectory(pull, generator).outcome for _ in range(200)]
    assert 50 < paths.count(None) < 150


@pytest.mark.statistical
def test_a_proven_answer_stands_a_drift_that_all_arms_share():
    """Means drift between blocks; at most three standard errors above delta .1 are wrong."""
    runs = effort.runs(40, whole=100)
    policy = subpopulations.BlockBetting(COINS.problem, delta=0.1, max_pulls=400)
    close = COINS.clone(means=[[0.45], [0.55]])
    found = simulate(policy, DriftingEnvironment(close, 0.0003), runs, seed=1, progress=False)
    assert np.mean([answer == "a" for answer in found.answer]) <= effort.tolerated(0.1, runs)


@pytest.mark.parametrize("drift", [0.0, np.nan, np.inf, "fast", None])
def test_no_drift_and_none_that_is_a_number_are_refused(drift):
    with raises(InvalidArgument, "drift", given=drift):
        DriftingEnvironment(COINS, drift)


def test_an_environment_with_delays_is_refused():
    late = delayed.SimulatedEnvironment(delayed.Problem(["a", "b"], noise_std=1.0), [0.0, 1.0])
    with raises(InvalidArgument, "environment"):
        DriftingEnvironment(late, 0.1)
