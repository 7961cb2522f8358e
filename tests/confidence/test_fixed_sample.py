"""The sample size of fixed experiments, compared with exact sums of normal tails."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fairtrial.confidence.fixed_sample import FixedDesign
from fairtrial.errors import InvalidArgument
from tests.messages import raises


def misses(design, pulls, delta):
    level = stats.norm.isf(delta / design.tests)
    return stats.norm.cdf(level - design.signals * math.sqrt(pulls)).sum()


@given(
    st.lists(st.floats(1e-3, 10.0), min_size=1, max_size=6),
    st.integers(1, 12),
    st.floats(1e-6, 0.3),
    st.floats(0.5, 0.999),
)
def test_the_size_is_the_smallest_that_has_the_power(signals, tests, delta, power):
    design = FixedDesign(np.array(signals), tests, actions=1)
    size = design.size(delta, power)
    assert misses(design, size, delta) <= (1.0 - power) * (1 + 1e-6)
    if size > 1:
        assert misses(design, size - 1, delta) > (1.0 - power) * (1 - 1e-6)


def test_the_size_is_shared_equally():
    design = FixedDesign(np.array([0.3, 0.5]), tests=2, actions=7)
    alone = FixedDesign(np.array([0.3, 0.5]), tests=2, actions=1)
    assert design.size(0.05, 0.8) == 7 * math.ceil(alone.size(0.05, 0.8) / 7)


def test_no_size_is_enough_where_a_test_cannot_be_passed():
    assert FixedDesign(np.array([1.0, 0.0]), 2, 2).size(0.05, 0.8) is None
    assert FixedDesign(np.array([1.0, -1.0]), 2, 2).size(0.05, 0.8) is None
    assert FixedDesign(np.array([1e-12]), 1, 2).size(0.05, 0.8) is None
    assert FixedDesign(np.array([]), 1, 2).size(0.05, 0.8) == 2


@pytest.mark.parametrize("name", ["delta", "power"])
@pytest.mark.parametrize("value", [0.0, 1.0, math.nan, "much"])
def test_probabilities_are_checked(name, value):
    with raises(InvalidArgument, name, given=value):
        FixedDesign(np.array([1.0]), 1, 2).size(**{"delta": 0.05, "power": 0.8, name: value})
