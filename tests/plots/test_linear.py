"""The content of figures of arms with features, read from matplotlib's own objects."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from fairtrial import delayed, linear, subpopulations
from fairtrial.core import Progress, Recommendation
from fairtrial.errors import InvalidArgument
from fairtrial.plots import (
    budget_by_dimension,
    design_weights,
    survivors_over_time,
    times_the_bound,
)
from fairtrial.simulation import trace
from tests.messages import raises
from tests.plots.figures import drawn, having, legend_of


def rows_of(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def widths(ax):
    return [float(bar.get_width()) for bar in ax.patches if bar.get_gid() == "share"]


def runs(times, bound=None):
    return SimpleNamespace(stopping_time=np.array(times), lower_bound=bound)


# ---------------------------------------------------------------------------------- designs


def test_design_weights_draws_a_panel_for_each_design_and_a_bar_for_each_arm():
    figure = design_weights({"G": [0.25, 0.25, 0.5], "oracle": [0.0, 0.9, 0.1]}, list("abc"))
    left, right = figure.axes
    assert (left.get_title(loc="left"), right.get_title(loc="left")) == ("G", "oracle")
    assert rows_of(left) == ["a", "b", "c"]
    assert widths(left) == [0.25, 0.25, 0.5]
    assert widths(right) == [0.0, 0.9, 0.1]
    assert drawn(figure)


def test_design_weights_takes_designs_and_numbers_of_pulls():
    design = SimpleNamespace(weights=np.array([0.2, 0.8]))
    figure = design_weights({"design": design, "pulls": [30, 10]})
    assert widths(figure.axes[0]) == [0.2, 0.8]
    assert widths(figure.axes[1]) == [0.75, 0.25]
    assert rows_of(figure.axes[0]) == ["0", "1"]


def test_design_weights_writes_the_shares_that_are_not_zero():
    (ax,) = design_weights({"one": [0.99999, 1e-5, 0.0]}).axes
    assert [text.get_text() for text in ax.texts] == ["100.0 %", "<0.1 %"]


def test_of_many_arms_the_largest_of_any_design_are_drawn_and_the_others_together():
    first, second = np.full(1000, 1e-4), np.full(1000, 1e-4)
    first[700] = second[5] = 1.0
    figure = design_weights({"one": first, "two": second}, most_arms=2)
    assert rows_of(figure.axes[0]) == ["5", "700", "other 998 arms"]
    total = 1.0 + 999e-4
    assert widths(figure.axes[0]) == pytest.approx([1e-4 / total, 1 / total, 998e-4 / total])
    assert sum(widths(figure.axes[1])) == pytest.approx(1.0)
    assert drawn(figure)


@pytest.mark.parametrize(
    ("designs", "arms", "name"),
    [
        ({}, None, "designs"),
        ({"a": [0.5, -0.5]}, None, "designs['a']"),
        ({"a": [0.0, 0.0]}, None, "designs['a']"),
        ({"a": [0.5, 0.5], "b": [1.0]}, None, "designs['b']"),
        ({"a": [0.5, 0.5]}, ["only one"], "arms"),
    ],
    ids=["none", "negative", "zero", "other arms", "labels"],
)
def test_design_weights_refuses_what_are_no_shares(designs, arms, name):
    with raises(InvalidArgument, name):
        design_weights(designs, arms)


# -------------------------------------------------------------------------------- survivors


def moments(pairs, decided=True):
    """Return moments with these numbers of results and of live candidates."""
    last = pairs[-1][0]
    return [
        Progress(
            Recommendation(
                arm="a" if decided and told == last else None,
                status="decided" if decided and told == last else "running",
                leader="a",
            ),
            asked=told,
            told=told,
            outstanding=0,
            live=tuple(map(str, live if isinstance(live, list) else range(live))),
        )
        for told, live in pairs
    ]


def test_survivors_over_time_steps_down_and_marks_the_answer():
    traces = {
        "one": moments([(0, 5), (10, 3), (30, 1)]),
        "two": moments([(0, 5), (40, 4)], decided=False),
    }
    figure = survivors_over_time(traces)
    (ax,) = figure.axes
    one, two = having(ax, "survivors")
    assert (one.get_xdata().tolist(), one.get_ydata().tolist()) == ([0, 10, 30], [5, 3, 1])
    assert one.get_drawstyle() == "steps-post"
    assert two.get_ydata().tolist() == [5, 4]
    (answer,) = having(ax, "answer")
    assert (answer.get_xdata().tolist(), answer.get_ydata().tolist()) == ([30], [1])
    assert legend_of(figure) == ["one", "two"]
    assert drawn(figure)


def test_survivors_may_be_listed_and_many_get_a_logarithmic_axis():
    many = moments([(0, list(range(400))), (100, ["a", "b"]), (200, ["a"])])
    (ax,) = survivors_over_time({"many": many}).axes
    assert having(ax, "survivors")[0].get_ydata().tolist() == [400, 2, 1]
    assert (ax.get_xscale(), ax.get_yscale()) == ("linear", "log")


def test_races_of_very_different_lengths_can_be_seen_together():
    short, long = moments([(0, 3), (20, 1)]), moments([(0, 3), (90_000, 1)])
    figure = survivors_over_time({"short": short, "long": long})
    assert figure.axes[0].get_xscale() == "symlog"
    assert drawn(figure)


BOUNDED = {"reward_range": (0, 1)}
FAMILIES = {
    "subpopulations": lambda: (
        subpopulations.BlockBetting(problem := subpopulations.Problem(3, 2, floors=0.2, **BOUNDED)),
        subpopulations.BernoulliEnvironment(problem, [[0.9, 0.9], [0.4, 0.4], [0.1, 0.1]]),
        4,
    ),
    "delayed": lambda: (
        delayed.BlockBetting(problem := delayed.Problem(3, noise_std=0.3)),
        delayed.SimulatedEnvironment(problem, [0.9, 0.4, 0.1]),
        3,
    ),
    "linear": lambda: (
        linear.BlockBetting(problem := linear.Problem(np.eye(3), noise_std=0.3)),
        linear.GaussianEnvironment(problem, [0.9, 0.4, 0.1]),
        3,
    ),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_block_betting_of_every_family_shows_which_answers_it_has_not_ruled_out(family):
    policy, environment, answers = FAMILIES[family]()
    (ax,) = survivors_over_time({"bets": trace(policy, environment, points=20, seed=1)}).axes
    live = having(ax, "survivors")[0].get_ydata().tolist()
    assert (live[0], live[-1]) == (answers, 1)
    assert live == sorted(live, reverse=True)
    assert having(ax, "answer")


def test_survivors_over_time_needs_moments_that_tell_what_is_live():
    with raises(InvalidArgument, "traces", given={}):
        survivors_over_time({})
    silent = Progress(Recommendation(arm=None, status="running"), 0, 0, 0)
    with raises(InvalidArgument, "traces", given="silent"):
        survivors_over_time({"silent": [silent]})


# ------------------------------------------------------------------------------- dimensions


def test_budget_by_dimension_draws_means_two_standard_errors_and_the_bound():
    budgets = {"G": {4: runs([190, 210]), 2: [90, 110]}, "oracle": {2: 60.0, 4: 70.0}}
    figure = budget_by_dimension(budgets, {2: 50.0, 4: 55.0})
    (ax,) = figure.axes
    first, second = ax.containers
    assert first.lines[0].get_xdata().tolist() == [2, 4]
    assert first.lines[0].get_ydata().tolist() == [100.0, 200.0]
    assert second.lines[0].get_ydata().tolist() == [60.0, 70.0]
    lengths = [segment[1, 1] - segment[0, 1] for segment in first.lines[2][0].get_segments()]
    # Two values a and b have the standard error |a - b| / 2; the bar is four of them long.
    assert lengths == pytest.approx([40.0, 40.0])
    (bound,) = having(ax, "bound")
    assert bound.get_ydata() == pytest.approx([50.0, 55.0])
    assert set(legend_of(figure)) == {"G", "oracle", "bound for every rule"}
    assert drawn(figure)


def test_the_bound_may_be_a_function_and_budgets_far_apart_get_a_logarithmic_axis():
    (ax,) = budget_by_dimension({"G": {2: 100.0, 10: 5000.0}}, lambda d: 10.0 * d).axes
    assert having(ax, "bound")[0].get_ydata() == pytest.approx([20.0, 100.0])
    assert ax.get_yscale() == "log"


@pytest.mark.parametrize(
    "budgets",
    [{}, {"G": {}}, {"G": {0: [1.0]}}, {"G": {2: [0.0]}}, {"G": {2: []}}],
    ids=["none", "no dimension", "dimension 0", "no pulls", "no runs"],
)
def test_budget_by_dimension_refuses_what_is_no_budget(budgets):
    with raises(InvalidArgument):
        budget_by_dimension(budgets)


# ------------------------------------------------------------------------------ the bound


def test_times_the_bound_draws_ratios_by_environment_and_rule():
    simulations = {
        "easy": {"BlockBetting": runs([150, 250], 100.0), "Rage": runs([900, 900], 100.0)},
        "hard": {"BlockBetting": runs([3000, 3000], 1000.0)},
    }
    figure = times_the_bound(simulations)
    (ax,) = figure.axes
    assert rows_of(ax) == ["easy", "hard"]
    block, rage = ax.containers
    assert block.lines[0].get_xdata().tolist() == [2.0, 3.0]
    assert rage.lines[0].get_xdata().tolist() == [9.0]
    # Each mark is in the row of its environment.
    assert np.round(block.lines[0].get_ydata()).tolist() == [0, 1]
    (segment, _) = block.lines[2][0].get_segments()
    assert segment[1, 0] - segment[0, 0] == pytest.approx(4 * 50 / 100)
    assert having(ax, "bound")[0].get_xdata() == [1.0, 1.0]
    assert set(legend_of(figure)) == {"the bound", "BlockBetting", "Rage"}
    assert drawn(figure)


@pytest.mark.parametrize(
    "simulations",
    [{}, {"easy": {}}, {"easy": {"Rage": runs([5, 6])}}, {"easy": {"Rage": runs([5], 0.0)}}],
    ids=["none", "no rule", "no bound", "bound 0"],
)
def test_times_the_bound_needs_simulations_with_bounds(simulations):
    with raises(InvalidArgument, "simulations"):
        times_the_bound(simulations)


def test_twelve_rules_are_told_apart_and_more_are_refused():
    many = {f"rule {number}": runs([5, 6], 1.0) for number in range(13)}
    with raises(InvalidArgument, "simulations"):
        times_the_bound({"easy": many})
    many.popitem()
    (ax,) = times_the_bound({"easy": many}).axes
    marks = [bars.lines[0] for bars in ax.containers]
    assert len({(mark.get_marker(), mark.get_color()) for mark in marks}) == 12


def test_runs_by_rule_without_their_environment_are_refused():
    with raises(InvalidArgument, "simulations['Rage']"):
        times_the_bound({"Rage": runs([5, 6], 1.0)})


# ------------------------------------------------------------------------------- in general


def test_figures_are_drawn_where_they_are_told_to():
    from matplotlib.figure import Figure

    figure = Figure()
    ax = figure.subplots()
    assert budget_by_dimension({"G": {2: 5.0}}, ax=ax) is figure
    assert len(figure.axes) == 1
    other = Figure()
    assert design_weights({"G": [0.5, 0.5]}, figure=other) is other
