"""Recorded rewards with another mean."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.core.shifted_rows import shifted_rows
from fairtrial.errors import InvalidArgument
from tests.messages import raises


def test_rows_are_shifted_where_that_leaves_none_outside():
    rows = np.array([0.2, 0.3, 0.7])
    assert shifted_rows("mean", rows, 0.5, (0, 1)) == pytest.approx([0.3, 0.4, 0.8])
    assert shifted_rows("mean", rows, 50.0, None) - rows == pytest.approx([49.6] * 3)


def test_rewards_of_0_or_1_remain_so_but_for_one():
    tilted = shifted_rows("mean", np.array([0.0] * 30 + [1.0] * 70), 0.3333, (0, 1))
    assert tilted.mean() == pytest.approx(0.3333, abs=1e-12)
    assert ((tilted == 0.0) | (tilted == 1.0)).sum() >= len(tilted) - 1


@given(
    st.lists(st.integers(-50, 50), min_size=2, max_size=30),
    st.floats(0.0, 1.0, exclude_min=True, exclude_max=True),
)
def test_the_mean_is_exact_and_nothing_leaves_the_range(values, place):
    rows = np.array(values) / 50.0
    mean = -1.0 + 2.0 * place
    try:
        found = shifted_rows("mean", rows, mean, (-1, 1))
    except InvalidArgument:
        assert not rows.min() < mean < rows.max()
        return
    assert found.mean() == pytest.approx(mean, abs=1e-9)
    assert found.min() >= -1.0
    assert found.max() <= 1.0


@pytest.mark.parametrize("mean", [0.0, 0.1, 0.9, 1.0, 2.0])
def test_a_mean_that_no_mixture_of_the_rows_has_is_refused(mean):
    rows = np.array([0.1, 0.9])
    with raises(InvalidArgument, "mean", given=mean):
        shifted_rows("mean", rows, mean, (0.1, 0.9))
