"""Parts of an experiment: every step leads to a part that exists."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.presentation.ranges import Range, moments_within, value_at

STEPS = (Range.closer, Range.wider, Range.earlier, Range.later, Range.newest, Range.whole)


@st.composite
def ranges(draw):
    total = draw(st.integers(1, 10**15))
    begin = draw(st.integers(0, total - 1))
    return Range(begin, draw(st.integers(begin + 1, total)), total)


@given(ranges(), st.lists(st.sampled_from(STEPS), max_size=6))
def test_every_step_leads_to_results_that_there_are(shown, steps):
    for step in steps:
        shown = step(shown)
        assert 0 <= shown.begin < shown.end <= shown.total


@given(ranges())
def test_zooming_in_ends_and_zooming_out_reaches_the_whole(shown):
    closest = widest = shown
    for _ in range(60):
        inner = closest.closer()
        assert closest.begin <= inner.begin < inner.end <= closest.end
        closest, widest = inner, widest.wider()
    assert closest.end - closest.begin <= 4
    assert closest.closer() == closest
    assert widest.is_whole


def test_a_part_that_follows_the_newest_result_does_so_when_zoomed_in():
    newest = Range(0, 1000, 1000).newest()
    assert newest == Range(750, 1000, 1000)
    assert newest.closer() == Range(875, 1000, 1000)
    assert newest.follows
    assert not newest.earlier().follows


def test_moving_stops_at_both_ends():
    part = Range(2, 6, 10)
    assert part.earlier() == Range(0, 4, 10)
    assert part.earlier().earlier() == Range(0, 4, 10)
    assert part.later().later().later() == Range(6, 10, 10)


@given(st.lists(st.integers(0, 1000), min_size=2, unique=True).map(sorted), st.floats(-10, 1010))
def test_a_value_between_two_moments_is_on_the_straight_line(across, where):
    up = [float(x % 7) for x in across]
    found = value_at(across, up, where)
    if across[0] <= where <= across[-1]:
        assert found == pytest.approx(np.interp(where, across, up))
    else:
        assert found is None


def test_gaps_stay_gaps():
    assert value_at([0, 2, 4], [None, 1.0, None], 1) is None
    assert value_at([0, 2, 4], [None, 1.0, None], 2) == 1.0
    assert value_at([0, 2, 4], [None, 1.0, None], 3) is None
    assert value_at([], [], 3) is None
    assert moments_within([], 0, 1) == []
