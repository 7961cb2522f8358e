from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairtrial as ft
from fairtrial import plots
from fairtrial.core import Progress, Recommendation
from fairtrial.errors import InvalidArgument
from fairtrial.presentation.sources import (
    Grid,
    answered,
    lead_periods,
    minimizes,
    optimal_shares,
    progress_of,
    pulls_of,
    regular_moments,
    trace_of,
)
from tests.messages import raises
from tests.plots.plot_fakes import FakeSimulation, FakeStudy, GridProblem, progress_of_grid


def moment(told: int, leader: object, **changes: object) -> Progress:
    recommendation = Recommendation(arm=None, status="running", leader=leader)
    return Progress(recommendation, asked=told, told=told, outstanding=0, **changes)


@given(st.integers(1, 6), st.integers(1, 5), st.randoms(use_true_random=False))
def test_a_grid_puts_every_action_at_its_arm_and_group_whatever_their_order(arms, groups, random):
    labels = [{"arm": f"a{k}", "group": f"g{j}"} for k in range(arms) for j in range(groups)]
    random.shuffle(labels)
    grid = Grid.of(labels)
    for group, row in grid.panels(labels):
        for arm, found in zip(grid.arms, row, strict=True):
            assert found == {"arm": arm, "group": group}


def test_a_grid_leaves_a_gap_where_an_arm_lacks_a_group():
    grid = Grid.of(
        [{"arm": "a", "group": "x"}, {"arm": "b", "group": "x"}, {"arm": "b", "group": "y"}]
    )
    assert grid.panels([1, 2, 3]) == [("x", [1, 2]), ("y", [None, 3])]


def test_actions_without_groups_make_one_panel_and_other_labels_join():
    assert Grid.of([{"arm": "a"}, {"arm": "b"}]).groups == ("",)
    causal = Grid.of([{"arm": "t", "sensitive": 0, "mode": "do"}])
    assert causal.groups == ("0, do",)


def test_pulls_of_a_simulation_are_those_of_all_runs_together():
    simulation = FakeSimulation(runs=7)
    labels, pulls = pulls_of(simulation)
    assert labels == simulation.problem.action_labels
    assert pulls.tolist() == [int(column.sum()) for column in simulation.pulls.T]


def test_pulls_of_a_study_are_its_results_by_action():
    study = FakeStudy()
    _, pulls = pulls_of(study)
    assert pulls.tolist() == [action.pulls for action in study.end.actions]


def test_progress_is_found_in_a_study_a_policy_or_itself():
    progress = progress_of_grid()
    assert progress_of(progress) is progress
    assert progress_of(FakeStudy(progress)) is progress


@pytest.mark.parametrize("source", [None, 3, "study", SimpleNamespace(progress=lambda: 3)])
def test_what_has_no_progress_is_refused_by_name(source):
    with raises(InvalidArgument, "source", given=source):
        progress_of(source)


@pytest.mark.parametrize("source", [3, [], [1, 2], SimpleNamespace(trace=list)])
def test_what_has_no_moments_is_refused_by_name(source):
    with raises(InvalidArgument, "source", given=source):
        trace_of(source)


@pytest.mark.parametrize(
    "optimal", [[0.5, 0.6, -0.1], [0.5, 0.5, 0.5], [1.0], [np.nan, 0.5, 0.5], "abc"]
)
def test_optimal_shares_that_are_no_distribution_are_refused(optimal):
    with raises(InvalidArgument):
        optimal_shares(optimal, 3)


def test_optimal_shares_may_come_as_arms_by_groups():
    shares = optimal_shares([[0.1, 0.2], [0.3, 0.4]], 4)
    assert shares is not None
    assert shares.tolist() == [0.1, 0.2, 0.3, 0.4]


def test_the_answer_is_emphasised_and_before_it_the_leader():
    assert answered(Recommendation("b", "decided", leader="c")) == {"b"}
    assert answered(Recommendation(None, "running", leader="c")) == {"c"}
    assert answered(Recommendation(("b", "c"), "decided")) == {"b", "c"}
    assert answered(Recommendation(None, "decided", leader="c")) == frozenset()


def test_reigns_follow_the_leader_and_meet_without_gaps():
    leaders = ["a", "a", "b", None, None, "b"]
    found = lead_periods([moment(10 * (i + 1), leader) for i, leader in enumerate(leaders)])
    assert [(r.leader, r.start, r.end) for r in found] == [
        ("a", 0, 30),
        ("b", 30, 40),
        ("no arm", 40, 60),
        ("b", 60, 60),
    ]


def test_nobody_leads_before_the_first_result():
    assert lead_periods([moment(0, "a")]) == []


def test_direction_is_the_problems():
    assert minimizes(FakeStudy(problem=GridProblem(["a"], ["x"], "minimize")))
    assert not minimizes(progress_of_grid())


DRAWINGS = {
    "overview": (plots.overview, "study"),
    "report": (lambda given: ft.write_report(given, "page.html"), "study"),
    "graph": (plots.causal_graph, "problem"),
    "outcomes": (plots.fair_outcomes, "estimates"),
    "errors": (plots.error_by_budget, "errors"),
    "errors of a rule": (lambda given: plots.error_by_budget({"rule": given}), "errors"),
    "means": (plots.means, "source"),
    "allocation": (plots.allocation, "source"),
    "evidence": (plots.evidence, "source"),
    "stopping times": (plots.stopping_times, "simulation"),
    "quotas": (plots.shares_against_quotas, "source"),
}


@pytest.mark.parametrize("given", [None, "x", 3, ["y"]])
@pytest.mark.parametrize("drawing", DRAWINGS)
def test_what_is_no_source_is_refused_by_name(drawing, given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    draw, name = DRAWINGS[drawing]
    with raises(InvalidArgument, name, given=given):
        draw(given)
    assert not list(tmp_path.iterdir())


def test_a_report_is_written_to_a_path_only():
    with raises(InvalidArgument, "path", given=3):
        ft.write_report(FakeStudy(), 3)


def test_moments_without_any_result_are_kept():
    trace = [Progress(Recommendation(None, "running"), asked, 0, asked) for asked in range(4)]
    assert regular_moments(trace) == (trace, 1)
