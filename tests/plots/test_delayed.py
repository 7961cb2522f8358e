"""Pictures of races show the numbers that they get."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import fairtrial as ft
from fairtrial.core import ArmStatus
from fairtrial.delayed import InformationRacing, Problem, SimulatedEnvironment
from fairtrial.errors import InvalidArgument
from fairtrial.plots import cost_of_answers, race_over_time, time_ratios
from fairtrial.simulation import trace
from tests.messages import raises
from tests.plots.figures import having

# ------------------------------------------------------------------------------ ratios


def test_ratios_are_those_of_the_means_with_the_paired_interval():
    rng = np.random.default_rng(0)
    slow = rng.gamma(20.0, size=400)
    fast = 0.5 * slow + 0.1 * rng.random(400)
    pair = (SimpleNamespace(elapsed=fast), SimpleNamespace(elapsed=slow))
    ax = time_ratios({"rule": {10: pair, 100: (0.8, 0.05)}}).axes[0]
    (line,) = having(ax, "ratio")
    np.testing.assert_allclose(line.get_ydata(), [fast.mean() / slow.mean(), 0.8])
    ends = [segment[:, 1] for segment in ax.collections[0].get_segments()]
    assert ends[1] == pytest.approx([0.8 - 1.96 * 0.05, 0.8 + 1.96 * 0.05])
    resampled = [
        fast[chosen].mean() / slow[chosen].mean() for chosen in rng.integers(400, size=(2_000, 400))
    ]
    # A bootstrap of 2,000 samples knows its standard error to about 1.6 %.
    assert (ends[0][1] - ends[0][0]) / (2 * 1.96) == pytest.approx(np.std(resampled), rel=0.1)


def test_rules_are_named_and_numbers_stand_at_the_axis():
    figure = time_ratios({"a": {10: (0.5, 0.1), 200: (0.6, 0.1)}, "b": {10: (0.9, 0.0)}}, "arms")
    ax = figure.axes[0]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["10", "200"]
    assert (ax.get_xscale(), ax.get_xlabel()) == ("log", "arms")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b"]
    assert having(ax, "equal")[0].get_ydata()[0] == 1.0
    near = time_ratios({"a": {10: (0.5, 0.1), 20: (0.6, 0.1)}}).axes[0]
    assert near.get_xscale() == "linear"


@pytest.mark.parametrize(
    "curves",
    [
        {},
        {"a": {}},
        {str(i): {1: (1.0, 0.0)} for i in range(9)},
        {"a": {1: 0.5}},
        {"a": {1: (0.5, -1.0)}},
        {"a": {1: (SimpleNamespace(elapsed=[1.0]), SimpleNamespace(elapsed=[1.0, 2.0]))}},
    ],
    ids=["nothing", "no number", "too many", "no pair", "negative", "unpaired"],
)
def test_what_is_no_ratio_is_refused(curves):
    with raises(InvalidArgument, "curves"):
        time_ratios(curves)


def test_the_message_says_that_numbers_are_mapped_to_pairs():
    with raises(InvalidArgument, "curves"):
        time_ratios({"a": SimpleNamespace(elapsed=[1.0])})


# ------------------------------------------------------------------------------- costs


def test_costs_and_wrong_answers_are_shown_rule_by_rule():
    costs = np.arange(1.0, 101.0)
    right = np.arange(100) >= 7
    figure = cost_of_answers({"a": (costs, right), "b": (costs * 50, ~right)}, 0.05, "seconds")
    left, other = figure.axes
    assert [dot.get_xdata()[0] for dot in having(left, "cost")] == [50.5, 2525.0]
    spread = having(left, "spread")[0].get_segments()[0][:, 0]
    assert spread == pytest.approx(np.quantile(costs, [0.05, 0.95]))
    assert [dot.get_xdata()[0] for dot in having(other, "wrong")] == [0.07, 0.93]
    interval = having(other, "interval")[0].get_segments()[0][:, 0]
    exact = stats.binomtest(7, 100).proportion_ci(0.95, method="exact")
    assert interval == pytest.approx([exact.low, exact.high])
    assert having(other, "delta")[0].get_xdata()[0] == 0.05
    assert (left.get_xscale(), left.get_xlabel()) == ("log", "seconds")


def test_axes_of_costs_begin_at_zero_wrong_answers_and_their_labels_do_not_touch():
    costs = np.geomspace(20.0, 60.0, 40)
    right = np.ones(40, dtype=bool)
    figure = cost_of_answers({"a": (costs, right), "b": (6 * costs, right)})
    figure.canvas.draw()
    left, other = figure.axes
    assert other.get_xlim()[0] == 0.0
    for ax in (left, other):
        low, high = ax.get_xlim()
        ticks = [*ax.get_xticklabels(), *ax.get_xticklabels(minor=True)]
        boxes = [
            text.get_window_extent()
            for text in ticks
            if text.get_text() and low <= text.get_position()[0] <= high
        ]
        assert 2 <= len(boxes) <= 6
        ends = sorted((box.x0, box.x1) for box in boxes)
        assert all(first[1] < second[0] for first, second in pairwise(ends))


def test_a_simulation_is_a_result():
    problem = Problem(2, noise_std=1.0)
    environment = SimulatedEnvironment(problem, [0.0, 5.0], delay=3.0)
    runs = ft.simulate(InformationRacing(problem), environment, 5, progress=False)
    left, other = cost_of_answers({"race": runs}).axes
    assert having(left, "cost")[0].get_xdata()[0] == pytest.approx(runs.elapsed.mean())
    assert having(other, "wrong")[0].get_xdata()[0] == 0.0


@pytest.mark.parametrize(
    "results",
    [{}, {"a": 3}, {"a": ([1.0, 2.0], [True])}, {"a": ([], [])}],
    ids=["nothing", "a number", "lengths", "empty"],
)
def test_what_has_no_cost_is_refused(results):
    with raises(InvalidArgument, "results"):
        cost_of_answers(results)


# ---------------------------------------------------------------------------- one race


@pytest.fixture(scope="module")
def moments():
    problem = Problem(["a", "b", "c"], noise_std=1.0, feedback="unbiased", reading_std=0.5)
    environment = SimulatedEnvironment(problem, [0.0, 1.0, 4.0], delay=4.0)
    return trace(InformationRacing(problem), environment, seed=1, parallel=2)


def test_arms_end_where_they_are_decided_the_accepted_one_on_top(moments):
    arms, flight, results = race_over_time(moments).axes
    assert arms.get_yticklabels()[0].get_text() == "c"
    heard = [moment.told + moment.readings for moment in moments]
    for arm, mark in (("c", "accepted"), ("a", "rejected"), ("b", "rejected")):
        first = next(
            at
            for at, moment in zip(heard, moments, strict=True)
            if ArmStatus(arm, "undecided") not in moment.arm_states
        )
        names = [tick.get_text() for tick in arms.get_yticklabels()]
        ends = {float(dot.get_ydata()[0]): dot.get_xdata()[0] for dot in having(arms, mark)}
        assert ends[names.index(arm)] == first
    most = max(moment.outstanding for moment in moments)
    assert having(flight, "in flight")[0].get_ydata().max() == most > 0
    assert having(results, "results")[0].get_ydata()[-1] == moments[-1].told


def test_a_race_that_is_not_over_shows_its_undecided_arms(moments):
    arms = race_over_time(moments[:2]).axes[0]
    assert len(having(arms, "undecided")) == 3
    assert not having(arms, "accepted")


def test_many_arms_are_drawn_without_names():
    problem = Problem(50, noise_std=1.0)
    arms = race_over_time([InformationRacing(problem).progress()]).axes[0]
    assert len(having(arms, "undecided")) == 50
    assert not len(arms.get_yticks())


def test_what_is_no_race_is_refused(moments):
    problem = ft.allocation.Problem(arms=["a", "b"], shares=["1/5", "1/5"])
    policy = ft.allocation.FairLearn(problem, seed=1)
    with raises(InvalidArgument, "source"):
        race_over_time([policy.progress()])
    with raises(InvalidArgument, "source"):
        race_over_time(moments[0])
