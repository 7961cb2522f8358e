"""Units of values whose size only the values show."""

import math

import numpy as np
import pytest

from fairtrial.core.data_unit import are_usual, unit_after

SIZES = [5e-324, 1e-300, 1e-160, 1e160, 1.7e308]


@pytest.mark.parametrize("size", SIZES)
def test_a_first_value_of_an_unusual_size_has_a_unit_near_it(size):
    unit = unit_after(1.0, -size, is_first=True)
    assert math.frexp(unit)[0] == 0.5
    assert 0.0 < 1.0 / unit < math.inf
    assert 1e-30 < size / unit < 1e30


@pytest.mark.parametrize("value", [0.0, 1e-50, -3.0, 1e50])
@pytest.mark.parametrize("is_first", [True, False])
def test_usual_sizes_have_no_unit_of_their_own(value, is_first):
    assert unit_after(1.0, value, is_first=is_first) == 1.0


def test_a_smaller_value_changes_the_unit_only_if_all_others_are_zero():
    assert unit_after(1.0, 1e-200, is_first=False) == 1.0
    assert unit_after(1.0, 1e-200, is_first=True) < 1e-199


def test_a_far_larger_value_changes_the_unit():
    assert unit_after(2.0**-700, 0.75, is_first=False) == 1.0


def test_the_largest_value_decides_whether_values_are_usual():
    assert are_usual(np.array([0.3, 1e-300]), np.array([-1.0, 2.0]), 0.0)
    assert are_usual(np.zeros(2))
    assert not are_usual(np.array([1e-200]), np.array([1e-201, 0.0]))
    assert not are_usual(np.array([1.0]), -1e200)
