"""Lines as data, from runs."""

import math

import numpy as np
import pytest

from fairtrial.core import MeasureLimit, Progress, Recommendation
from fairtrial.presentation.lines import (
    Level,
    Line,
    LineChart,
    effect_chart,
    limit_evidence_chart,
    measure_charts,
    stopping_chart,
)


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


# ------------------------------------------------------------------------- limits of measures


def limit(
    measure, estimate, evidence=0.0, *, arm="a", group="x", kind="ceiling", bound=0.5, needed=3.0
):
    known = {"estimate": estimate, "log_evidence": evidence, "needed": needed}
    return MeasureLimit(arm, measure, group, kind, bound, **known)


def moments(*rows):
    """Return the moments after 0, 1, ... results, each with these limits."""
    leads = Recommendation(None, "running", leader="a")
    return [
        Progress(leads, told, told, 0, measure_limits=tuple(own)) for told, own in enumerate(rows)
    ]


def points(chart):
    return {line.name: list(zip(line.across, line.up, strict=True)) for line in chart.lines}


def test_each_measure_has_a_chart_of_its_own_in_its_unit():
    trace = moments(
        [limit("sold", None), limit("load", 900.0, group=None, bound=800.0)],
        [limit("sold", 0.25), limit("load", 700.0, group=None, bound=800.0)],
        [limit("sold", 0.75), limit("load", 600.0, group=None, bound=800.0)],
    )
    charts = measure_charts(trace, "a")
    assert list(charts) == ["sold", "load"]
    assert points(charts["sold"]) == {"x, at most 0.500": [(1.0, 0.25), (2.0, -0.25)]}
    assert points(charts["load"]) == {
        "overall, at most 800": [(0.0, -100.0), (1.0, 100.0), (2.0, 200.0)]
    }
    assert charts["load"].up == "distance from the limit, in units of load"
    assert charts["sold"].shown_level == Level(0.0, "limit")
    assert measure_charts(trace, "b") == {}


def test_a_floor_is_kept_above_it_and_a_ceiling_below():
    rows = [limit("sold", 0.7, kind="floor", bound=0.5), limit("sold", 0.7, bound=0.6)]
    chart = measure_charts(moments(rows, rows), "a")["sold"]
    assert {name: round(own[-1][1], 9) for name, own in points(chart).items()} == {
        "x, at least 0.500": 0.2,
        "x, at most 0.600": -0.1,
    }


def test_a_group_that_is_called_overall_is_not_taken_for_all_groups():
    rows = [limit("sold", 0.1, group="overall"), limit("sold", 0.4, group=None)]
    chart = measure_charts(moments(rows, rows), "a")["sold"]
    assert [line.up for line in chart.lines] == [(0.4, 0.4), (0.5 - 0.4, 0.5 - 0.4)]


def test_of_many_measures_those_with_the_least_evidence_are_shown():
    rows = [limit(f"m{number}", 0.1, evidence=float(-number)) for number in range(9)]
    charts = measure_charts(moments(rows, rows), "a")
    assert list(charts) == ["m3", "m4", "m5", "m6", "m7", "m8"]


def test_evidence_for_limits_is_drawn_up_to_what_settles_them_whatever_the_measure():
    trace = moments(
        [limit("sold", 0.1), limit("load", 0.1, 0.0)],
        [limit("sold", 0.1, 50.0), limit("load", 0.1, -50.0)],
        [limit("sold", 0.1, 2.0), limit("load", 0.1, None)],
    )
    chart = limit_evidence_chart(trace, "a")
    assert points(chart) == {
        "sold, x, at most 0.500": [(0.0, 0.0), (1.0, 3.0), (2.0, 2.0)],
        "load, x, at most 0.500": [(0.0, 0.0), (1.0, -3.0)],
    }
    assert chart.in_e_values
    assert chart.shown_level == Level(3.0, "settled")


@pytest.mark.parametrize("needed", [None, math.inf, math.nan, 0.0])
def test_evidence_for_limits_without_a_level_is_not_drawn(needed):
    rows = [limit("sold", 0.1, 2.0, needed=needed)]
    assert limit_evidence_chart(moments(rows, rows), "a") is None


def test_before_the_first_bet_no_evidence_is_drawn():
    rows = [limit("sold", 0.1)]
    assert limit_evidence_chart(moments(rows, rows), "a") is None


@pytest.mark.parametrize("scale", [1e-160, 1.0, 1e160])
def test_distances_of_any_size_have_a_chart_with_a_height(scale):
    rows = [[limit("sold", value * scale, bound=scale)] for value in (0.5, 2.0, 2.0)]
    chart = measure_charts(moments(*rows), "a")["sold"]
    assert chart.height == (-scale, 0.5 * scale)
    assert math.isfinite(chart.within(1, 2).height[0])


def test_a_level_outside_of_what_is_looked_at_is_not_shown():
    chart = over_results(a=(0.0, 5.0, 6.0))
    held = LineChart(
        chart.lines,
        "results",
        "up",
        chart.span,
        (0.0, 6.0),
        shares=False,
        level=Level(0.0, "limit"),
    )
    assert held.shown_level is not None
    assert held.within(1, 2).shown_level is None
