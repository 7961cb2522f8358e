"""The usual experiment of fixed size: its closed form, compared with least squares."""

import numpy as np
import pytest
from scipy import stats

from fairtrial.linear import GaussianEnvironment, Problem
from fairtrial.linear.fixed_design import fixed_design
from tests.effort import runs

FEATURES = np.array([[1.0, 0.0], [0.0, 1.0], [0.7, 0.7], [1.0, 0.0]])
STDS = np.array([0.5, 1.0, 1.0, 2.0])


@pytest.mark.statistical
@pytest.mark.parametrize("top", [1, 2])
def test_the_size_has_the_power_by_weighted_least_squares(top):
    theta, delta = np.array([1.0, 0.4]), 0.1
    environment = GaussianEnvironment(Problem(FEATURES, noise_std=2.0, top=top), theta, std=STDS)
    size = fixed_design(environment).size(delta, 0.8)
    number = runs(4_000, whole=40_000)
    noise = np.random.default_rng(1).standard_normal((number, 4)) * STDS / np.sqrt(size / 4)
    weights = (FEATURES / STDS[:, None]) / np.sqrt(4 / size)
    fits = (FEATURES @ theta + noise) / STDS * np.sqrt(size / 4) @ np.linalg.pinv(weights).T
    covariance = np.linalg.inv(weights.T @ weights)
    values = {"0": theta[0], "1": theta[1], "2": 0.7 * theta.sum()}
    order = sorted(values, key=values.get, reverse=True)
    pairs = [(int(a), int(b)) for a in order[:top] for b in order[top:]]
    z = stats.norm.isf(delta / len(pairs))
    passed = np.ones(number, dtype=bool)
    for first, second in pairs:
        contrast = FEATURES[first] - FEATURES[second]
        passed &= fits @ contrast > z * np.sqrt(contrast @ covariance @ contrast)
    error = 4.0 * np.sqrt(0.25 / number)
    assert 0.8 - error < passed.mean() < 0.85 + error


def test_two_plain_arms_are_a_two_sample_test():
    environment = GaussianEnvironment(Problem(np.eye(2), noise_std=1.0), [0.0, 0.5])
    each = 2 * ((stats.norm.ppf(0.95) + stats.norm.ppf(0.8)) / 0.5) ** 2
    assert fixed_design(environment).size(0.05, 0.8) == 2 * np.ceil(each)
    assert fixed_design(GaussianEnvironment(environment.problem, [0.5, 0.5])) is None
