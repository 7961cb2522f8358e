"""Lines as data: what they say of runs."""

import numpy as np
import pytest

from fairtrial.presentation.lines import Line, LineChart, effect_chart, stopping_chart


@pytest.mark.parametrize("most", [1, 7, 80, 100_000])
def test_the_share_that_has_decided_grows_to_that_of_all(most):
    generator = np.random.default_rng(1)
    times = generator.integers(1, most + 1, size=30)
    chart = stopping_chart({"some": times, "none": []}, runs=40, most=most)
    some, none = chart.lines
    assert (some.across[0], some.across[-1]) == (0.0, most)
    assert (np.diff(some.across) > 0).all()
    for at, share in zip(some.across, some.up, strict=True):
        assert share == (times <= at).sum() / 40
    assert some.up[-1] == 0.75
    assert set(none.up) == {0.0}


def test_effects_are_drawn_from_nothing_to_the_largest():
    chart = effect_chart([0, 0.5, 2], {"a": [0.1, 0.2, 0.9]}, "probability", shares=True)
    assert (chart.span, chart.height) == ((0.0, 2.0), (0.0, 1.0))
    assert chart.marked


def over_results(**values):
    lines = [Line(name, tuple(map(float, range(len(up)))), up) for name, up in values.items()]
    return LineChart(tuple(lines), "results", "mean", (0.0, 9.0), (-1.0, 1.0), shares=False)


def test_a_part_of_a_chart_is_as_high_as_its_lines_are_there():
    chart = over_results(a=(0.0, 0.5, 0.25, 0.75), b=(1e160, -1e160, 0.5, 0.5)).within(2, 3)
    assert chart.span == (2, 3)
    assert chart.height == (0.25, 0.75)
    assert [line.up for line in chart.lines] == [(0.25, 0.75), (0.5, 0.5)]


@pytest.mark.parametrize("level", [0.0, 1e-160, -3.0, 1e160])
def test_a_part_in_which_nothing_moves_has_a_height(level):
    low, high = over_results(a=(level,) * 5).within(1, 3).height
    assert low <= level <= high
    assert low < high


def test_a_part_in_which_a_line_has_no_points_is_drawn_without_it():
    chart = over_results(a=(0.0, 1.0), b=(0.0, 1.0, 2.0, 3.0)).within(2, 3)
    assert [line.up for line in chart.lines] == [(), (2.0, 3.0)]
    assert over_results(a=(0.0, 1.0)).within(5, 6).height == (0.0, 1.0)
