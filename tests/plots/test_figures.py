"""The content of figures, read from matplotlib's own objects."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from fairtrial import subpopulations
from fairtrial.core import Estimate
from fairtrial.errors import InvalidArgument
from fairtrial.plots import allocation, evidence, means, overview, stopping_times
from fairtrial.presentation.recruitment import recruitment
from tests.messages import raises
from tests.plots.figures import drawn, having, legend_of
from tests.plots.plot_fakes import (
    ARMS,
    GROUPS,
    Endless,
    FakeSimulation,
    FakeStudy,
    GridProblem,
    cell,
    growing_trace,
    progress_of_grid,
)

REPOSITORY = Path(__file__).parents[2]
OPTIMAL = np.arange(1, 13) / 78


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for ax in figure.axes for text in ax.texts]


def with_cells(cells):
    return replace(progress_of_grid(), actions=tuple(cells), arms=())


def strip(ax, gid: str) -> list[np.ndarray]:
    """Return the segments of the only collection of lines with that gid."""
    (collection,) = having(ax, gid)
    return collection.get_segments()


# --------------------------------------------------------------------- allocation


def test_allocation_has_a_panel_for_each_group_and_a_bar_for_each_arm():
    study = FakeStudy()
    figure = allocation(study, OPTIMAL)
    assert [ax.get_title(loc="left") for ax in figure.axes] == list(GROUPS)
    shares = np.array([a.pulls for a in study.end.actions]) / study.end.told
    for group, ax in enumerate(figure.axes):
        bars = [bar.get_width() for bar in ax.containers[0]]
        assert bars == pytest.approx(shares.reshape(4, 3)[:, group])
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == list(ARMS)


def test_allocation_draws_the_optimal_share_across_each_bar():
    figure = allocation(FakeStudy(), OPTIMAL.reshape(4, 3))
    for group, ax in enumerate(figure.axes):
        at = [segment[0, 0] for segment in strip(ax, "optimal")]
        assert at == pytest.approx(OPTIMAL.reshape(4, 3)[:, group])
        heights = [sorted(segment[:, 1]) for segment in strip(ax, "optimal")]
        assert heights == [pytest.approx([row - 0.4, row + 0.4]) for row in range(4)]
    assert legend_of(figure) == ["share of 1,322 results", "optimal share"]


def test_allocation_of_a_simulation_shares_out_the_pulls_of_all_runs():
    simulation = FakeSimulation(runs=9)
    figure = allocation(simulation)
    widths = [bar.get_width() for ax in figure.axes for bar in ax.containers[0]]
    total = simulation.pulls.sum(axis=0)
    assert widths == pytest.approx((total / total.sum()).reshape(4, 3).T.ravel())
    assert not any(having(ax, "optimal") for ax in figure.axes)


def test_allocation_says_the_share_of_every_bar_if_there_are_few():
    assert len(texts(allocation(FakeStudy()))) == 12
    many = progress_of_grid([f"a{i}" for i in range(24)], [f"g{i}" for i in range(8)], told=9000)
    figure = allocation(many)
    assert texts(figure) == []
    assert sum(len(ax.containers[0]) for ax in figure.axes) == 24 * 8


def test_allocation_before_the_first_pull_is_empty_bars():
    figure = allocation(progress_of_grid(told=0))
    assert all(bar.get_width() == 0 for ax in figure.axes for bar in ax.containers[0])
    assert legend_of(figure) == ["share of 0 results"]
    assert drawn(figure)


def test_allocation_refuses_shares_of_other_actions_and_sources_without_actions():
    with raises(InvalidArgument, "optimal"):
        allocation(FakeStudy(), [0.5, 0.5])
    with raises(InvalidArgument, "source"):
        allocation(with_cells(()))


def test_allocation_draws_where_it_is_told_to():
    whole = Figure(layout="constrained")
    left, right = whole.subfigures(1, 2)
    assert allocation(FakeStudy(), figure=right) is whole
    assert len(right.axes) == 3
    assert left.axes == []


# -------------------------------------------------------------------------- means


def test_means_show_overall_quality_then_every_group():
    figure = means(FakeStudy())
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["overall", *GROUPS]


def test_means_draw_interval_floor_and_mean_of_every_cell():
    study = FakeStudy()
    figure = means(study)
    for group, ax in enumerate(figure.axes[1:]):
        cells = study.end.actions[group::3]
        low, high = ax.get_xlim()
        for row, (one, segment) in enumerate(zip(cells, strip(ax, "intervals"), strict=True)):
            assert segment[:, 1].tolist() == [row, row]
            assert segment[:, 0] == pytest.approx([max(one.lower, low), min(one.upper, high)])
        assert [segment[0, 0] for segment in strip(ax, "limits")] == [0.0] * 4
        marks = {
            tuple(offset)
            for collection in ax.collections
            if collection.get_gid() in ("KEPT", "DECIDED", "LIKELY_KEPT", "LIKELY_BROKEN", "BROKEN")
            for offset in collection.get_offsets()
        }
        assert marks == {(one.mean, row) for row, one in enumerate(cells)}


def test_cells_on_the_wrong_side_of_their_floor_differ_in_shape_and_certain_ones_in_fill():
    cells = tuple(
        cell(mean=mean, half=0.1, labels={"arm": name, "group": "x"})
        for name, mean in {"kept": 0.5, "open": 0.05, "low": -0.05, "broken": -0.5}.items()
    )
    (ax,) = means(with_cells(cells)).axes
    look = {gid: having(ax, gid)[0] for gid in ("KEPT", "LIKELY_KEPT", "LIKELY_BROKEN", "BROKEN")}
    corners = {gid: len(mark.get_paths()[0].vertices) for gid, mark in look.items()}
    assert (
        corners["KEPT"] == corners["LIKELY_KEPT"] != corners["BROKEN"] == corners["LIKELY_BROKEN"]
    )
    hollow = {gid: bool(np.all(mark.get_facecolor() == 1)) for gid, mark in look.items()}
    assert hollow == {"KEPT": False, "LIKELY_KEPT": True, "LIKELY_BROKEN": True, "BROKEN": False}


def test_a_ceiling_turns_the_sides_around():
    low = with_cells([cell(mean=-0.5, half=0.1, limit=None, upper_limit=0.0)])
    (ax,) = means(low).axes
    assert having(ax, "KEPT")
    assert "ceiling" in legend_of(means(low))


def test_an_interval_beyond_the_axis_ends_in_an_arrow_at_its_edge():
    cells = [cell(mean=0.1 * i, half=0.1, labels={"arm": f"a{i}"}) for i in range(9)]
    cells.append(cell(mean=0.2, half=50.0, labels={"arm": "wide"}))
    (ax,) = means(with_cells(cells)).axes
    low, high = ax.get_xlim()
    assert strip(ax, "intervals")[9][:, 0].tolist() == [low, high]
    arrows = [c.get_offsets().tolist() for c in having(ax, "arrows")]
    assert arrows == [[[low, 9.0]], [[high, 9.0]]]


def test_one_sided_and_missing_intervals_and_results():
    one_sided = replace(cell(labels={"arm": "a"}), upper=None)
    infinite = replace(cell(labels={"arm": "b"}), lower=-math.inf, upper=math.inf)
    without = cell(half=None, labels={"arm": "c"})
    nothing = cell(pulls=0, mean=None, labels={"arm": "d"})
    figure = means(with_cells([one_sided, infinite, without, nothing]))
    (ax,) = figure.axes
    low, high = ax.get_xlim()
    assert [segment[:, 0].tolist() for segment in strip(ax, "intervals")] == [
        [pytest.approx(0.1), high],
        [low, high],
    ]
    assert texts(figure) == ["no result"]


def test_without_floors_there_are_none_in_picture_or_key():
    figure = means(progress_of_grid(limit=None))
    assert all(strip(ax, "limits") == [] for ax in figure.axes)
    assert legend_of(figure) == [
        "mean",
        "anytime interval of each mean on its own, for orientation",
    ]


def test_the_answer_is_bold_on_a_band():
    figure = means(FakeStudy())
    weights = [tick.get_fontweight() for tick in figure.axes[0].get_yticklabels()]
    assert weights == ["normal", "bold", "normal", "normal"]
    assert [ax.patches[0].get_y() for ax in figure.axes] == [0.5] * 4
    nobody = means(FakeStudy(progress_of_grid(answer=None)))
    assert [len(ax.patches) for ax in nobody.axes] == [0] * 4


def test_arms_without_groups_make_one_panel():
    assert len(means(progress_of_grid(["only"], [], answer="only", told=9)).axes) == 1


# ----------------------------------------------------------------------- evidence


def test_evidence_and_threshold_run_over_the_results():
    trace = growing_trace(progress_of_grid())
    (ax,) = evidence(trace).axes
    (line,) = having(ax, "evidence")
    (needed,) = having(ax, "threshold")
    assert line.get_xdata().tolist() == [moment.told for moment in trace]
    assert line.get_ydata().tolist() == [moment.evidence for moment in trace]
    assert set(needed.get_ydata()) == {math.log(20)}
    assert "threshold 3.00" in texts(ax.figure)


def test_changes_of_the_leader_are_marked_and_long_reigns_named():
    study = FakeStudy()
    figure = evidence(study)
    (ax,) = figure.axes
    at = [line.get_xdata()[0] for line in having(ax, "leader change")]
    trace = study.trace()
    leaders = [m.recommendation.leader for m in trace]
    expected = [
        m.told
        for m, before in zip(trace[1:], leaders, strict=False)
        if m.recommendation.leader != before
    ]
    assert at == expected
    assert [text.get_text() for text in having(ax, "leader")] == ["zdv", "ddi", "zdv_ddi"]


def test_moments_without_evidence_leave_a_gap():
    trace = growing_trace(progress_of_grid(), points=4)
    trace[2] = replace(trace[2], evidence=None)
    trace[3] = replace(trace[3], evidence=math.inf)
    (ax,) = evidence(trace).axes
    assert np.isnan(having(ax, "evidence")[0].get_ydata()).tolist() == [
        False,
        False,
        True,
        True,
        False,
    ]


def test_a_policy_without_evidence_gets_a_sentence():
    figure = evidence([progress_of_grid(evidence=None, threshold=None)])
    assert "no evidence is reported" in texts(figure)
    assert drawn(figure)


def test_evidence_draws_where_it_is_told_to():
    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert evidence(FakeStudy(), ax=right) is figure
    assert having(right, "evidence")
    assert not left.lines


# ----------------------------------------------------------------- stopping times


def test_stopping_times_count_every_run_once():
    simulation = FakeSimulation()
    (ax,) = stopping_times(simulation).axes
    bars = ax.containers[0]
    counts, _ = np.histogram(
        simulation.stopping_time,
        [*(b.get_x() for b in bars), bars[-1].get_x() + bars[-1].get_width()],
    )
    assert counts.sum() == 500
    heights = np.array([bar.get_height() for bar in bars])
    assert heights / heights.max() == pytest.approx(counts / counts.max())


def test_mean_median_and_bound_are_drawn_and_written():
    simulation = FakeSimulation(runs=101)
    figure = stopping_times(simulation)
    (ax,) = figure.axes
    drawn_at = {
        name: having(ax, name)[0].get_xdata()[0] for name in ("mean", "median", "lower bound")
    }
    times = simulation.stopping_time
    assert drawn_at == {
        "mean": pytest.approx(times.mean()),
        "median": np.median(times),
        "lower bound": 506.0,
    }
    (line,) = texts(figure)
    error = times.std(ddof=1) / math.sqrt(101)
    assert f"mean {times.mean():,.0f} (s.e. {error:.2g})" in line
    assert "bound 506" in line


def test_a_bound_given_replaces_the_simulations_own_and_none_is_left_out():
    (ax,) = stopping_times(FakeSimulation(), lower_bound=700).axes
    assert having(ax, "lower bound")[0].get_xdata()[0] == 700
    figure = stopping_times(FakeSimulation(lower_bound=None))
    assert not having(figure.axes[0], "lower bound")
    assert legend_of(figure) == ["mean", "median"]


def test_an_infinite_bound_is_not_drawn():
    (ax,) = stopping_times(FakeSimulation(lower_bound=math.inf)).axes
    assert not having(ax, "lower bound")
    assert math.isfinite(ax.get_xlim()[1])


def test_several_simulations_share_scale_and_bins_in_their_order():
    figure = stopping_times({"one": FakeSimulation(), "two": FakeSimulation(mean=3000, seed=1)})
    (ax,) = figure.axes
    names = [text.get_text() for text in having(ax, "name")]
    assert names == ["one", "two"]
    first, second = ax.containers
    assert [b.get_x() for b in first] == [b.get_x() for b in second]
    assert {b.get_y() for b in first} == {1}
    assert {b.get_y() for b in second} == {0}


def test_unfinished_runs_make_the_mean_a_bound_and_the_median_only_if_they_are_half():
    few = texts(stopping_times(FakeSimulation(unfinished=3)))[0]
    assert "mean ≥" in few
    assert "median ≥" not in few
    assert "3 without an answer" in few
    assert "median ≥" in texts(stopping_times(FakeSimulation(unfinished=250)))[0]


@pytest.mark.parametrize("times", [[0], [5, 5, 5], [3]])
def test_runs_that_all_take_the_same_time_are_drawn(times):
    simulation = FakeSimulation(runs=len(times))
    simulation.stopping_time = np.array(times)
    figure = stopping_times(simulation)
    assert drawn(figure)
    assert sum(b.get_height() > 0 for b in figure.axes[0].containers[0]) == 1


def test_no_runs_and_senseless_bounds_are_refused():
    empty = FakeSimulation()
    empty.stopping_time = np.array([])
    with raises(InvalidArgument, "simulation"):
        stopping_times(empty)
    with raises(InvalidArgument, "simulation", given={}):
        stopping_times({})
    for bound in (-1.0, math.nan, math.inf):
        with raises(InvalidArgument, "lower_bound", given=bound):
            stopping_times(FakeSimulation(), lower_bound=bound)


# ----------------------------------------------------------------------- overview


def test_overview_holds_decision_evidence_means_and_allocation():
    figure = overview(FakeStudy(), OPTIMAL)
    assert len(figure.axes) == 1 + 1 + 4 + 3
    said = texts(figure)
    assert "Answer: zdv_ddi" in said
    promised = "wrong answer is at most 5 % (proven: block betting)."
    assert any(promised in " ".join(text.split()) for text in said)
    assert sum(len(having(ax, "optimal")) for ax in figure.axes) == 3


@pytest.mark.parametrize(
    "progress",
    [
        progress_of_grid(answer=None),
        progress_of_grid(status="undecided"),
        progress_of_grid(status="running", told=0, answer=None, evidence=None),
        progress_of_grid(limit=None),
        with_cells(()),
        progress_of_grid(["only"], [], answer="only", told=5),
        progress_of_grid(["one arm"], ["one group"], answer="one arm", told=5),
    ],
    ids=["no arm", "undecided", "no pulls", "no floors", "no actions", "one arm", "one cell"],
)
def test_overview_of_every_kind_of_study(progress):
    assert drawn(overview(FakeStudy(progress)))


def test_dollars_in_labels_are_not_formulas():
    arms, groups = ["$x^{$", "5$ off $\\bad$"], ["$1", "_a_"]
    figure = overview(FakeStudy(progress_of_grid(arms, groups, answer=arms[0])))
    assert drawn(figure)


def test_long_labels_keep_their_ends_and_stay_short():
    arms = [f"{'a very long label ' * 9}{i}" for i in range(3)]
    figure = means(progress_of_grid(arms, GROUPS, answer=arms[0]))
    shown = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert [text[-1] for text in shown] == ["0", "1", "2"]
    assert max(map(len, shown)) <= 24


def test_pictures_are_deterministic_and_leave_matplotlibs_settings_alone():
    before = dict(mpl.rcParams)
    assert drawn(overview(FakeStudy(), OPTIMAL)) == drawn(overview(FakeStudy(), OPTIMAL))
    assert dict(mpl.rcParams) == before


def test_pictures_need_neither_pyplot_nor_a_display_and_importing_needs_no_matplotlib():
    code = (
        "import sys, fairtrial.plots as plots\n"
        "assert 'matplotlib' not in sys.modules\n"
        "from tests.plots.plot_fakes import FakeStudy\n"
        "plots.overview(FakeStudy()).savefig('/dev/null', format='svg')\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=REPOSITORY)


def test_without_matplotlib_the_extra_is_named():
    code = (
        "import sys, fairtrial.plots as plots\n"
        "from fairtrial.errors import MissingExtra\n"
        "sys.modules['matplotlib'] = None\n"
        "for name in plots.__all__:\n"
        "    try:\n"
        "        getattr(plots, name)\n"
        "    except MissingExtra as error:\n"
        "        assert str(error).startswith(\"plots needs the extra 'plots'\")\n"
        "    else:\n"
        "        raise AssertionError(name)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ---------------------------------------------------------------- policies that never stop


def serving():
    """Return a study of a policy that keeps shares and never stops."""
    shares = tuple(
        Estimate({"arm": name}, pulls=pulls, mean=pulls / 40, lower_limit=limit)
        for name, pulls, limit in [("a", 30, 0.5), ("b", 10, 0.25)]
    )
    told = tuple(cell(15, labels={"arm": name}, limit=None) for name in "ab")
    running = progress_of_grid(status="running", answer="a", told=40, evidence=None, threshold=None)
    end = replace(running, arms=shares, actions=told, quantity="share", remaining=None)
    return FakeStudy(end, GridProblem("ab", []), policy=Endless())


def test_overview_of_a_policy_that_never_stops_shows_shares_where_evidence_would_be():
    figure = overview(serving())
    said = " ".join(texts(figure))
    assert "Serving continues" in said
    assert "never stops by itself" in said
    assert "decision" not in said
    assert "40 results so far, 4 open" in " ".join(said.split())
    _, shares, means_ = figure.axes
    assert len(having(shares, "owed")) == 1
    assert not having(shares, "evidence")
    assert [label.get_text() for label in means_.get_yticklabels()] == ["a", "b"]
    assert drawn(figure)


def test_pulls_that_measure_several_things_are_counted_once():
    problem = subpopulations.Problem(
        ["low", "high"], 1, measures={"y": (0, 1), "z": (0, 1)}, objective="y", ceilings={"z": 0.5}
    )
    policy = subpopulations.BlockBetting(problem)
    for pull in policy.ask(20):
        policy.tell(pull, {"y": 1.0, "z": 0.0})
    figure = allocation(policy)
    assert sum(bar.get_width() for ax in figure.axes for bar in ax.patches) == pytest.approx(1.0)
    assert len(figure.axes) == 1
    assert recruitment(policy.progress())["values of y of 0"] == 20
