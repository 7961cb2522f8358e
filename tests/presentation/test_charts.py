"""Charts as data: what all drawings of them have in common."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace

import pytest

from fairtrial.core import AnswerStatus, Estimate, Progress, Recommendation
from fairtrial.presentation.charts import (
    evidence_chart,
    interval_chart,
    most_pulled,
    share_chart,
)
from fairtrial.presentation.limits import Standing
from fairtrial.presentation.panels import shown_panels
from tests.plots.plot_fakes import cell, progress_of_grid


def moment(told, evidence, **answers):
    rows = tuple(AnswerStatus(a, w >= 3.0, log_wealth=w) for a, w in answers.items())
    leads = Recommendation(arm=None, status="running", leader="a")
    return Progress(leads, told, told, 0, evidence=evidence, threshold=3.0, answers=rows)


def test_every_chart_is_plain_data():
    progress = progress_of_grid()
    shown = shown_panels(progress, minimize=False)
    pulls = [action.pulls for action in progress.actions]
    labels = [action.labels for action in progress.actions]
    charts = [
        interval_chart(progress, shown.arms, shown.all, shown.note),
        share_chart(labels, pulls, None, *most_pulled(labels, pulls)),
        evidence_chart([replace(progress, evidence=math.nan), progress]),
    ]
    for chart in charts:
        data = json.loads(json.dumps(asdict(chart), allow_nan=False))
        assert data.keys() == asdict(chart).keys()


def test_an_interval_ends_where_the_axis_does():
    progress = replace(progress_of_grid(), actions=(replace(cell(), lower=-math.inf, upper=None),))
    panels = [("x", list(progress.actions))]
    chart = interval_chart(progress, ["a"], panels)
    ((_, (only,)),) = chart.panels
    assert only.ends == chart.axes[0]
    assert only.standing in dict(chart.marks)
    unknown = interval_chart(progress, ["a"], [("x", [None])])
    assert unknown.panels == (("x", (None,)),)
    assert unknown.marks == ()


def test_only_a_chart_with_intervals_has_a_name_for_them():
    known = cell()
    unknown = replace(known, lower=None, upper=None)
    for rows, named in ([[unknown], False], [[unknown, known], True], [[], False]):
        progress = replace(progress_of_grid(), actions=tuple(rows))
        chart = interval_chart(progress, ["a", "b"], [("x", rows)])
        assert bool(chart.interval) == named


def test_shares_are_of_all_pulls_though_some_are_not_drawn():
    labels = [{"arm": arm} for arm in "abc"]
    chart = share_chart(labels, [10, 20, 10], [0.5, 0.25, 0.25], [1, 2])
    ((_, bars),) = chart.panels
    assert [(bar.share, bar.optimal) for bar in bars] == [(0.5, 0.25), (0.25, 0.25)]
    assert (chart.total, chart.most) == (40, 0.5)


def test_evidence_against_a_rival_ends_where_it_is_ruled_out():
    trace = [moment(1, None, b=0.5), moment(2, 1.0, b=4.0), moment(3, 2.0, b=3.5)]
    chart = evidence_chart(trace)
    (rival,), (crossing,) = chart.rivals, chart.crossings
    assert rival.against == (0.5, 3.0)
    assert (crossing.told, crossing.answers) == (2, ("b",))
    assert chart.evidence == (None, 1.0, 2.0)
    assert not chart.is_empty
    many = {f"r{number}": 4.0 for number in range(7)}
    assert evidence_chart([moment(1, 1.0, **many)]).rivals == ()


def test_a_part_of_the_evidence_is_cut_where_it_begins_and_ends():
    trace = [moment(told, told / 2, b=told / 4) for told in (0, 10, 20, 30)]
    whole = evidence_chart(trace)
    part = whole.within(5, 25)
    assert part.told == (5, 10, 20, 25)
    assert part.evidence == (2.5, 5.0, 10.0, 12.5)
    assert [(one.start, one.end) for one in part.lead_periods] == [(5, 25)]
    assert part.height[0] > 0 == whole.height[0]
    assert [len(one.against) for one in part.rivals] == [3]
    assert [one.told for one in part.crossings] == [20]
    assert whole.within(25, 30).rivals[0].against == ()
    assert whole.within(0, 30) == whole


@pytest.mark.parametrize("state", Standing)
def test_a_standing_is_its_words(state):
    assert json.loads(json.dumps(state)) == state.value


def test_panels_of_measures_with_other_units_have_axes_of_their_own():
    def row(measure, mean):
        return [Estimate({"arm": "a", "measure": measure}, 5, mean=mean, lower=mean, upper=mean)]

    progress = Progress(Recommendation(None, "running"), 5, 5, 0)
    panels = [("x, sold", row("sold", 0.1)), ("x, load", row("load", 2_400.0))]
    panels.append(("y, sold", row("sold", 0.3)))
    sold, load, again = interval_chart(progress, ["a"], panels).axes
    assert sold == again
    assert sold[1] < 1.0 < load[0]
