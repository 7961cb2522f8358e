"""Means of results of which some are missing: no missing value can move one out of its interval."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.confidence.bounds import NormalMixture
from fairtrial.confidence.means import Means, Settled, means_of

values = st.lists(st.floats(-1, 3), min_size=1, max_size=30)


@given(values, st.data())
def test_the_interval_contains_the_one_of_all_values_whichever_are_missing(everything, data):
    gone = np.array([data.draw(st.booleans()) for _ in everything])
    outcomes = np.array(everything)
    settled = Settled(
        np.array([(~gone).sum()], float), np.array([outcomes[~gone].sum()]), np.array([gone.sum()])
    )
    (lower,), (upper,) = means_of(settled, 2.0, 0.1, (-1.0, 3.0))[1:]
    radius = NormalMixture().radius([len(outcomes)], 0.1, 2.0)[0]
    assert lower <= outcomes.mean() - radius + 1e-9
    assert upper >= outcomes.mean() + radius - 1e-9


def test_with_known_noise_missing_values_are_left_out():
    some = Settled(np.array([4.0, 0.0]), np.array([2.0, 0.0]), np.array([3.0, 1.0]))
    found = means_of(some, 1.0, 0.1)
    assert found.at(0)[0] == 0.5
    assert found.at(0)[2] == pytest.approx(0.5 + NormalMixture().radius([4], 0.1)[0])
    assert found.at(1) == (None, None, None)


def test_a_mean_of_results_that_do_not_count_yet_has_no_interval():
    nothing = Settled(*np.zeros((3, 1)))
    found = means_of(nothing, 1.0, 0.1, (0.0, 1.0)).or_so_far(np.array([2.0]), np.array([1.5]))
    assert found.at(0) == (0.75, None, None)


def test_sums_have_the_ends_that_their_signs_ask_for():
    means = Means(*(np.array([[[level, 1.0]]]) for level in (0.5, 0.2, 0.8)))
    assert means.combined(np.array([[-2.0, 0.0]])).at(0) == (-1.0, -1.6, -0.4)


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(0, 1), st.floats(0, 1)), min_size=2))
def test_differences_from_one_of_the_means_are_within_their_intervals(parts):
    means = Means(*(np.array(column) for column in zip(*parts, strict=True)))
    means = Means(means.mean, means.mean - means.lower, means.mean + means.upper)
    apart = means.apart_from(1)
    assert apart.mean[0] == means.mean[0] - means.mean[1]
    assert apart.lower[0] == means.lower[0] - means.upper[1]
    assert apart.upper[0] == means.upper[0] - means.lower[1]
