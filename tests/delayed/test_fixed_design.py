"""The usual experiment of fixed size: every pair of a best and another arm."""

import numpy as np
from scipy import stats

from fairtrial.delayed import Problem, SimulatedEnvironment
from fairtrial.delayed.fixed_design import fixed_design


def test_one_close_pair_is_a_two_sample_test_at_a_shared_level():
    problem = Problem(4, top=2, noise_std=1.0)
    environment = SimulatedEnvironment(problem, [0.0, 5.0, 5.5, 10.0])
    level = stats.norm.isf(0.05 / 4)
    each = 2 * ((level + stats.norm.ppf(0.8)) / 0.5) ** 2
    assert abs(fixed_design(environment).size(0.05, 0.8) - 4 * np.ceil(each)) <= 4 * 12
    apart = SimulatedEnvironment(problem, [-50.0, 5.0, 5.5, 100.0])
    assert fixed_design(apart).size(0.05, 0.8) == 4 * np.ceil(each)
    tied = SimulatedEnvironment(problem, [0.0, 5.0, 5.0, 10.0])
    assert fixed_design(tied) is None
