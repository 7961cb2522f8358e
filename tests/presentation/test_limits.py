from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.core import Effect, Estimate, MeasureLimit, Progress, Recommendation, ValueLimit
from fairtrial.presentation.guardrails import guardrails
from fairtrial.presentation.limits import (
    Standing,
    Standings,
    distance_to_limit,
    document_of,
    sure_distance,
    visible_range,
)
from tests.plots.plot_fakes import cell

numbers = st.floats(-1e3, 1e3)


@pytest.mark.parametrize(
    ("mean", "half", "expected"),
    [
        (0.3, 0.1, Standing.KEPT),
        (0.1, 0.1, Standing.KEPT),
        (0.05, 0.1, Standing.LIKELY_KEPT),
        (0.0, 0.1, Standing.LIKELY_KEPT),
        (-0.05, 0.1, Standing.LIKELY_BROKEN),
        (-0.3, 0.1, Standing.BROKEN),
        (-0.3, None, Standing.LIKELY_BROKEN),
        (None, None, Standing.UNKNOWN),
    ],
)
def test_standing_against_a_floor_at_zero(mean, half, expected):
    assert Standings().of(cell(mean=mean, half=half)) is expected


@pytest.mark.parametrize(
    ("mean", "half", "expected", "distance_of_mean", "distance_of_interval"),
    [
        (0.5, 0.2, Standing.KEPT, 0.5, 0.3),
        (0.9, 0.2, Standing.LIKELY_KEPT, 0.1, -0.1),
        (1.1, 0.2, Standing.LIKELY_BROKEN, -0.1, -0.3),
        (-0.1, 0.2, Standing.LIKELY_BROKEN, -0.1, -0.3),
        (1.5, 0.2, Standing.BROKEN, -0.5, -0.7),
        (-0.5, 0.2, Standing.BROKEN, -0.5, -0.7),
    ],
)
def test_standing_in_an_interval(mean, half, expected, distance_of_mean, distance_of_interval):
    estimate = Estimate({}, 9, mean, mean - half, mean + half, 0.0, 1.0)
    assert Standings().of(estimate) is expected
    assert distance_to_limit(mean, estimate) == pytest.approx(distance_of_mean)
    assert sure_distance(estimate) == pytest.approx(distance_of_interval)


@given(numbers, st.floats(0, 100), numbers)
def test_a_ceiling_is_the_floor_of_the_mirror_image(mean, half, limit):
    upright = Estimate({}, 1, mean, mean - half, mean + half, lower_limit=limit)
    mirrored = Estimate({}, 1, -mean, -mean - half, -mean + half, upper_limit=-limit)
    assert Standings().of(upright) is Standings().of(mirrored)


@pytest.mark.parametrize("limit", [None, -math.inf, math.nan])
def test_no_finite_limit_is_no_limit(limit):
    assert Standings().of(cell(limit=limit)) is Standing.FREE


@given(st.lists(st.tuples(numbers, st.floats(0, 1e3), numbers), min_size=1, max_size=20))
def test_every_mean_and_limit_is_inside_the_visible_range(cells):
    estimates = [Estimate({}, 1, m, m - h, m + h, limit) for m, h, limit in cells]
    low, high = visible_range(estimates)
    assert low < high
    assert all(low < value < high for m, _, limit in cells for value in (m, limit))


def test_one_cell_without_much_data_does_not_squeeze_the_others():
    narrow = [cell(mean=0.1 * i, half=0.1) for i in range(9)]
    low, high = visible_range([*narrow, cell(mean=0.2, half=50.0)])
    assert high - low < 1.5


@pytest.mark.parametrize("estimates", [[], [None], [cell(mean=None, limit=None)]])
def test_without_any_number_there_is_still_an_axis(estimates):
    assert visible_range(estimates) == (0.0, 1.0)


def test_the_limits_of_an_answer_are_kept_by_the_decision():
    """This holds whatever the interval of a single mean, which is wider than the evidence."""
    wide = cell(mean=0.2, half=0.5)
    assert Standings().of(wide) is Standing.LIKELY_KEPT
    assert Standings({str(wide.labels["arm"])}).of(wide) is Standing.DECIDED
    assert Standings({"another arm"}).of(wide) is Standing.LIKELY_KEPT
    sure = cell(mean=0.9, half=0.1)
    assert Standings({str(sure.labels["arm"])}).of(sure) is Standing.KEPT
    assert Standings({"a"}).of(cell(limit=None)) is Standing.FREE


def test_an_approximate_interval_settles_no_limit():
    sure, out = cell(mean=0.9, half=0.1), cell(mean=-0.9, half=0.1)
    assert Standings(hold=False).of(sure) is Standing.LIKELY_KEPT
    assert Standings(hold=False).of(out) is Standing.LIKELY_BROKEN
    assert Standings({"a"}, hold=False).of(sure) is Standing.DECIDED
    limit = MeasureLimit("b", "harmed", "x", "ceiling", 0.3, estimate=0.2, met_by_bets=True)
    assert Standings(hold=False).of_measure(limit) is Standing.LIKELY_KEPT


def test_a_limit_of_a_measure_has_the_same_standing_in_every_table():
    """The interval of the mean is in one table, the evidence about the limit in another."""
    labels = {"arm": "a", "group": "x", "measure": "harmed"}
    mean = Estimate(labels, 40, mean=0.2, lower=0.05, upper=0.4, upper_limit=0.3)
    limit = MeasureLimit("a", "harmed", "x", "ceiling", 0.3, estimate=0.2, lower=0.05, upper=0.4)
    for known in (limit, replace(limit, met_by_bets=True)):
        recommendation = Recommendation(None, "running", leader="a")
        progress = Progress(recommendation, 40, 40, 0, actions=(mean,), measure_limits=(known,))
        standings, (row,) = Standings.by(progress), guardrails(progress, minimize=False)
        assert standings.of(mean) is row.standing
        assert row.standing is (Standing.KEPT if known.met_by_bets else Standing.LIKELY_KEPT)


def test_a_mean_with_two_limits_stands_as_the_worse_one():
    labels = {"arm": "a", "group": "x", "measure": "dose"}
    mean = Estimate(labels, 40, mean=0.5, lower=0.1, upper=0.9, lower_limit=0.2, upper_limit=0.4)
    known = {"estimate": 0.5, "lower": 0.1, "upper": 0.9}
    limits = (
        MeasureLimit("a", "dose", "x", "floor", 0.2, met_by_bets=True, **known),
        MeasureLimit("a", "dose", "x", "ceiling", 0.4, **known),
    )
    assert Standings(measured=limits).of(mean) is Standing.LIKELY_BROKEN


def with_every_standing(intervals: str) -> Progress:
    """Return a progress in which arm "a" is the answer, with limits of all kinds."""
    ends = [(0.4, 0.6), (0.1, 0.2), (0.2, 0.6), (None, None)]
    means = tuple(
        Estimate({"arm": arm, "group": "x"}, 9, 0.5 if low else None, low, high, limit)
        for arm in ("a", "b")
        for low, high in ends
        for limit in (0.3, None)
    )
    effects = tuple(
        Effect(arm, "c", None, 0.1, low, high, 0.0)
        for arm in ("a", "b")
        for low, high in [(0.05, 0.2), (-0.2, -0.1), (-0.1, 0.2)]
    )
    of_measures = tuple(
        MeasureLimit(arm, "m", None, "ceiling", 0.3, 0.2, low, high, 4.0, by_bets)
        for arm in ("a", "b")
        for low, high in [(0.1, 0.25), (0.35, 0.4), (0.1, 0.4)]
        for by_bets in (False, True)
    )
    values = tuple(
        ValueLimit(arm, "gap", "s", 0.3, 0.2, certain=sure)
        for arm in ("a", "b")
        for sure in (False, True)
    )
    return Progress(
        Recommendation("a", "decided"),
        *(9, 9, 0),
        intervals=intervals,
        actions=means,
        arms=means,
        limited=means,
        find_effects=lambda: effects,
        measure_limits=of_measures,
        value_limits=values,
    )


@pytest.mark.parametrize("intervals", ["anytime", "approximate"])
def test_a_document_calls_a_limit_met_as_tables_do(intervals):
    progress = with_every_standing(intervals)
    by, found = Standings.by(progress), document_of(progress)
    said = {
        "met": True,
        "kept, by the decision": True,
        "missed": False,
        "met so far, not settled": None,
        "missed so far, not settled": None,
        "not known yet": None,
        "no limit": None,
    }
    kinds = {
        "actions": (progress.actions, by.of),
        "arms": (progress.arms, by.of),
        "limited": (progress.limited, by.of),
        "effects": (progress.effects, by.of_effect),
        "measure_limits": (progress.measure_limits, by.of_measure),
        "value_limits": (progress.value_limits, by.of_value),
    }
    for name, (items, standing) in kinds.items():
        assert [one["met"] for one in found[name]] == [said[standing(one).value] for one in items]
        for one in found[name]:
            del one["met"]
    assert found == progress.to_dict()
    assert {one.met for one in Standing} == {True, False, None}
    if intervals == "anytime":
        assert {one["met"] for one in document_of(progress)["actions"]} == {True, False, None}


def test_a_document_finds_effects_once() -> None:
    found = []

    def find() -> tuple[Effect, ...]:
        found.append(1)
        return (Effect("a", "b", None, 0.3, 0.2, 0.4, lower_limit=0.1),)

    running = Recommendation(None, "running")
    progress = Progress(running, 9, 9, 0, intervals="anytime", find_effects=find)
    (effect,) = document_of(progress)["effects"]
    assert (effect["difference"], effect["met"], len(found)) == (0.3, True, 1)
