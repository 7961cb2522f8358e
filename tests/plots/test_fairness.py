"""The content of figures of guaranteed shares, read from matplotlib's own objects."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

import fairtrial
from fairtrial.core import Estimate, Problem, ShareOfPulls
from fairtrial.errors import InvalidArgument
from fairtrial.plots import (
    allocation,
    cost_of_fairness,
    regret_over_time,
    shares_against_quotas,
    violation_over_time,
)
from fairtrial.presentation.cuts import MOST_ARMS
from fairtrial.presentation.shares import earlier_note
from tests.messages import raises
from tests.plots.figures import drawn, having, legend_of
from tests.plots.plot_fakes import progress_of_grid

SHARES = (0.2, 0.3, 0.25)


class SharesProblem(Problem):
    family = "shares"

    def __init__(self, shares=SHARES, unfairness_tolerance=0, plays=1):
        self.shares, self.unfairness_tolerance, self.plays = (
            tuple(shares),
            unfairness_tolerance,
            plays,
        )
        self._freeze()

    @property
    def guaranteed_shares(self):
        return self.shares

    @property
    def action_labels(self):
        return tuple({"arm": f"arm {index}"} for index in range(len(self.shares)))


@dataclass
class Runs:
    """A simulation, with the attributes that these figures use."""

    pulls: np.ndarray
    problem: Problem = field(default_factory=SharesProblem)
    metrics: dict = field(default_factory=dict)


def runs_at(horizon, *, runs=8, seed=0, **metrics):
    generator = np.random.default_rng(seed)
    pulls = generator.multinomial(horizon, [0.5, 0.3, 0.2], size=runs)
    measured = {name: np.full(runs, float(value)) for name, value in metrics.items()}
    return Runs(pulls, metrics=measured)


def curve(ax, gid="curve", index=0):
    return np.array(having(ax, gid)[index].get_data())


def note_of(figure):
    return " ".join(figure.legends[0].get_title().get_text().split())


# ------------------------------------------------------------------ the cost of fairness


def cost_runs():
    regrets = {0: [30.0, 34.0], 10: [20.0, 20.0], 5: [25.0, 27.0]}
    return [
        Runs(
            np.ones((2, 3), dtype=int),
            SharesProblem(unfairness_tolerance=unfairness_tolerance),
            {"regret": np.array(values), "violation": np.full(2, unfairness_tolerance + 0.5)},
        )
        for unfairness_tolerance, values in regrets.items()
    ]


def test_cost_of_fairness_draws_mean_regret_and_violation_by_tolerance():
    figure = cost_of_fairness(cost_runs())
    regret, violation = figure.axes
    line = regret.containers[0].lines[0]
    assert line.get_xdata().tolist() == [0, 5, 10]
    assert line.get_ydata().tolist() == [32, 26, 20]
    assert violation.containers[0].lines[0].get_ydata().tolist() == [0.5, 5.5, 10.5]
    assert (regret.get_ylabel(), violation.get_ylabel()) == ("regret", "largest violation (pulls)")
    assert drawn(figure)


def test_cost_of_fairness_shows_two_standard_errors():
    regret, _ = cost_of_fairness(cost_runs()).axes
    (bars,) = regret.containers[0].lines[2]
    lengths = [segment[1, 1] - segment[0, 1] for segment in bars.get_segments()]
    # Two values a and b have the standard error |a - b| / 2; the bar is four of them long.
    assert lengths == pytest.approx([8.0, 4.0, 0.0])


def test_cost_of_fairness_draws_bounds_and_the_limit_of_the_guarantee():
    figure = cost_of_fairness(
        cost_runs(), {"Theorem 4": lambda unfairness_tolerance: 100 - 2 * unfairness_tolerance}
    )
    x, y = curve(figure.axes[0], "bound")
    assert y == pytest.approx(100 - 2 * x)
    x, y = curve(figure.axes[1], "limit")
    assert y == pytest.approx(x + 1)
    assert "Theorem 4" in legend_of(figure)


def test_cost_of_fairness_needs_simulations_that_measured_it():
    with raises(InvalidArgument, "simulations", given=[]):
        cost_of_fairness([])
    with raises(InvalidArgument, "simulations"):
        cost_of_fairness([runs_at(10)])
    with raises(InvalidArgument, "simulations", given="nothing"):
        cost_of_fairness(["nothing"])


# ----------------------------------------------------------------------------- over time


def test_regret_over_time_reads_simulations_in_the_order_of_their_horizons():
    simulations = [runs_at(t, r_regret=t / 2, regret=3 * t) for t in (100, 10, 1000)]
    figure = regret_over_time({"ours": simulations})
    assert curve(figure.axes[0]).tolist() == [[10, 100, 1000], [5, 50, 500]]
    figure = regret_over_time({"ours": simulations}, measure="regret")
    assert curve(figure.axes[0])[1].tolist() == [30, 300, 3000]
    assert figure.axes[0].get_ylabel() == "regret"


def test_regret_over_time_draws_the_mean_and_the_middle_of_the_runs():
    values = np.arange(101.0)[:, None] + np.array([10.0, 20.0, 40.0])
    figure = regret_over_time({"ours": ([1, 2, 3], values)})
    (ax,) = figure.axes
    assert curve(ax)[1] == pytest.approx([60, 70, 90])
    (band,) = having(ax, "band")
    heights = band.get_paths()[0].get_extents()
    assert (heights.y0, heights.y1) == pytest.approx((15, 135))


def test_regret_over_time_draws_bounds_as_functions_of_the_round():
    figure = regret_over_time({"a": ([10, 1000], [1, 2])}, {"ln": np.log, "five": lambda t: 5})
    x, y = curve(figure.axes[0], "bound")
    assert (x.min(), x.max()) == (10, 1000)
    assert y == pytest.approx(np.log(x))
    assert set(curve(figure.axes[0], "bound", 1)[1]) == {5.0}
    assert legend_of(figure) == ["a", "ln", "five"]


def test_regret_over_time_is_logarithmic_only_where_all_is_positive_and_wide():
    wide = regret_over_time({"a": ([1, 10, 1000], [1.0, 50.0, 500.0])}).axes[0]
    assert (wide.get_xscale(), wide.get_yscale()) == ("log", "log")
    negative = regret_over_time({"a": ([1, 10, 1000], [-1.0, 50.0, 500.0])}).axes[0]
    assert (negative.get_xscale(), negative.get_yscale()) == ("log", "linear")
    even = regret_over_time({"a": (np.arange(1, 501), np.ones(500))}).axes[0]
    assert (even.get_xscale(), even.get_yscale()) == ("linear", "linear")


def test_violation_over_time_is_the_most_that_an_arm_lacks_at_the_round():
    simulations = [runs_at(t, seed=t) for t in (50, 100)]
    figure = violation_over_time({"ours": simulations})
    expected = [
        np.mean([max(r * t - n for r, n in zip(SHARES, run, strict=True)) for run in one.pulls])
        for t, one in zip((50, 100), simulations, strict=True)
    ]
    assert curve(figure.axes[0])[1] == pytest.approx(expected)


def test_violation_counts_rounds_where_several_arms_are_served_at_a_time():
    problem = SharesProblem([0.5, 0.5, 0.9], plays=2)
    figure = violation_over_time({"two": [Runs(np.array([[4, 7, 9]]), problem)]})
    assert curve(figure.axes[0]).ravel() == pytest.approx([10, 1.0])


def test_the_band_of_violations_reaches_to_the_worst_run():
    values = np.array([[0.1, 0.2], [0.3, 2.5], [0.2, 0.3]])
    (ax,) = violation_over_time({"ours": ([1, 2], values)}).axes
    (band,) = having(ax, "band")
    heights = band.get_paths()[0].get_extents()
    assert (heights.y0, heights.y1) == pytest.approx((0.2, 2.5))


@pytest.mark.parametrize(("unfairness_tolerance", "at"), [(None, 8.0), (3, 4.0)])
def test_the_limit_of_violations_is_one_above_the_tolerance(unfairness_tolerance, at):
    runs = Runs(np.array([[4, 3, 3]]), SharesProblem(unfairness_tolerance=7))
    figure = violation_over_time({"ours": [runs]}, unfairness_tolerance=unfairness_tolerance)
    (limit,) = having(figure.axes[0], "limit")
    assert limit.get_ydata()[0] == at


def moments(*pairs):
    start = progress_of_grid(groups=())
    return [
        replace(
            start, asked=t, shares=tuple(ShareOfPulls(a, 0, 0.0, 0.0, b) for a, b in owed.items())
        )
        for t, owed in pairs
    ]


def test_violation_over_time_follows_a_study_or_the_moments_of_a_run():
    trace = moments((0, {"a": 0.0}), (10, {"a": 0.25, "b": -1.0}), (20, {"a": -0.5, "b": -0.75}))
    followed = SimpleNamespace(trace=lambda: trace, unfairness_tolerance=0)
    figure = violation_over_time({"trace": trace, "study": followed})
    for index in range(2):
        assert curve(figure.axes[0], index=index).tolist() == [[10, 20], [0.25, -0.5]]
    with raises(InvalidArgument, "curves"):
        violation_over_time({"a": [progress_of_grid()]})


def test_curves_of_another_form_are_refused():
    with raises(InvalidArgument, "curves", given={}):
        regret_over_time({})
    with raises(InvalidArgument, "curves", given=[1, 2, 3]):
        regret_over_time({"a": [1, 2, 3]})
    with raises(InvalidArgument, "curves"):
        regret_over_time({"a": ([1, 2, 3], [1, 2])})
    with raises(InvalidArgument, "curves"):
        violation_over_time({"a": [runs_at(10, runs=2), runs_at(20, runs=3)]})
    with raises(InvalidArgument, "unfairness_tolerance"):
        violation_over_time({"a": ([1, 2], [0.1, 0.2])}, unfairness_tolerance="none")
    with raises(InvalidArgument, "measure"):
        regret_over_time({"a": ([1], [1])}, measure="loss")


def test_more_curves_than_colours_start_again():
    figure = regret_over_time({f"policy {i}": ([1, 2], [i, i + 1]) for i in range(8)})
    assert len(having(figure.axes[0], "curve")) == 8
    assert drawn(figure)


# ------------------------------------------------------------------ shares against quotas


def bars(ax, gid):
    return [bar.get_width() for bar in having(ax, gid)]


def ticks(ax, gid):
    (lines,) = having(ax, gid)
    return [segment[0, 0] for segment in lines.get_segments()]


def test_shares_are_parted_at_the_guarantee():
    runs = Runs(np.array([[50, 20, 30], [30, 60, 10]]))
    (ax,) = shares_against_quotas(runs).axes
    assert bars(ax, "guaranteed") == pytest.approx([0.2, 0.3, 0.2])
    assert bars(ax, "beyond") == pytest.approx([0.2, 0.1, 0.0])
    assert ticks(ax, "owed") == pytest.approx(SHARES)
    assert not having(ax, "quota")
    assert ticks(ax, "least") == pytest.approx([0.3, 0.2, 0.1])
    said = [text.get_text() for text in having(ax, "share")]
    assert said == ["40 %, owed 20 %", "40 %, owed 30 %", "20 %, owed 25 %"]


def test_shares_of_several_plays_a_round_are_of_the_rounds():
    runs = Runs(np.array([[4, 7, 9]]), SharesProblem([0.5, 0.5, 0.9], plays=2))
    (ax,) = shares_against_quotas(runs).axes
    both = np.add(bars(ax, "guaranteed"), bars(ax, "beyond"))
    assert both == pytest.approx([0.4, 0.7, 0.9])
    assert not having(ax, "least")


def test_shares_of_progress_take_the_quotas_that_are_given():
    progress = progress_of_grid(groups=())
    figure = shares_against_quotas(progress, [0.1, 0.1, 0.2, 0.0])
    assert ticks(figure.axes[0], "owed") == [0.1, 0.1, 0.2, 0.0]
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == ["zdv", "zdv_ddi", "zdv_ddc", "ddi"]
    with raises(InvalidArgument, "quotas"):
        shares_against_quotas(replace(progress, arms=()))


def test_shares_of_progress_are_of_the_pulls_issued_against_its_own_quotas():
    issued = tuple(
        Estimate({"arm": name}, pulls=pulls, mean=pulls / 40, lower_limit=limit)
        for name, pulls, limit in [("a", 30, 0.5), ("b", 10, 0.25)]
    )
    told = tuple(Estimate({"arm": name}, pulls=1) for name in "ab")
    progress = replace(progress_of_grid(), actions=told, arms=issued, quantity="share")
    (ax,) = shares_against_quotas(progress).axes
    assert np.add(bars(ax, "guaranteed"), bars(ax, "beyond")) == pytest.approx([0.75, 0.25])
    assert ticks(ax, "owed") == [0.5, 0.25]


def test_a_group_stands_beside_its_arms_with_what_they_are_owed_together():
    problem = fairtrial.allocation.Problem(
        ["a", "b", "c"], {"a": "1/10"}, groups={"rural": ("1/2", ["b", "c"])}
    )
    policy = fairtrial.allocation.FairLearn(problem, lambda t, counts, sums, allowed: allowed[0])
    policy.ask(40)
    *_, rural = policy.progress().shares
    pulls = [arm.pulls for arm in policy.progress().arms]
    assert rural.pulls == pulls[1] + pulls[2] >= 20
    assert (rural.share, rural.guaranteed) == (rural.pulls / 40, 0.5)
    assert rural.behind == 20 - rural.pulls
    (ax,) = shares_against_quotas(policy).axes
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["a", "b", "c", "rural (together)"]
    assert ticks(ax, "owed") == [0.1, 0.0, 0.0, 0.5]
    assert legend_of(ax.figure)[0] == "share of 40 pulls, as far as owed"
    (ax,) = shares_against_quotas(policy, [0.2, 0.1, 0.1]).axes
    assert ticks(ax, "owed") == [0.2, 0.1, 0.1]


def next_epoch(pulls):
    """Return a policy in its second epoch, which arm d began 15 pulls ahead."""
    problem = fairtrial.allocation.Problem(["a", "b", "d"], {"a": "1/5", "b": "1/4", "d": "1/10"})
    first = fairtrial.allocation.FairLearn(problem, lambda t, counts, sums, allowed: allowed[-1])
    for pull in first.ask(40):
        first.tell(pull, 1.0)
    second = first.next_epoch(problem)
    for pull in second.ask(pulls):
        second.tell(pull, 0.0)
    return first, second


def test_what_an_arm_was_ahead_by_is_owed_no_more_in_the_next_epoch():
    first, second = next_epoch(20)
    ahead = -float(first.credits[2])
    assert ahead > 2
    (ax,) = shares_against_quotas(second).axes
    assert ticks(ax, "owed") == pytest.approx([0.2, 0.25, max(0.0, (0.1 * 20 - ahead) / 20)])
    assert ticks(ax, "quota") == pytest.approx([0.2, 0.25, 0.1])
    assert having(ax, "share")[2].get_text().endswith("owed 0 %")
    assert "Pulls that it was ahead or behind when it began are counted" in note_of(ax.figure)
    (ax,) = shares_against_quotas(first).axes
    assert not having(ax, "quota")
    assert note_of(ax.figure) == ""


def test_the_allocation_counts_the_pulls_of_the_epoch_and_the_means_all_results():
    _, second = next_epoch(20)
    (ax,) = allocation(second).axes
    assert legend_of(ax.figure) == ["share of 20 pulls"]
    assert sum(bar.get_width() for bar in ax.containers[0]) == pytest.approx(1.0)
    assert sum(action.pulls for action in second.progress().actions) == 60
    said = "40 of the results behind the means do not count for the shares"
    assert earlier_note(second.progress()).startswith(said)
    assert earlier_note(next_epoch(20)[0].progress()) == ""


def test_of_many_arms_those_nearest_to_their_guarantee_are_drawn():
    shares = [0.0] * 90 + [0.01] * 10
    pulls = np.array([[2] * 90 + [1] * 10])
    figure = shares_against_quotas(Runs(pulls, SharesProblem(shares)))
    (ax,) = figure.axes
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert len(labels) == MOST_ARMS
    assert set(labels) >= {f"arm {index}" for index in range(90, 100)}
    assert note_of(figure).startswith(f"Showing {MOST_ARMS} of 100 arms: those nearest to what")


def test_small_shares_have_numbers_at_their_axis():
    figure = shares_against_quotas(Runs(np.ones((1, 4000)), SharesProblem([1 / 8000] * 4000)))
    figure.canvas.draw()
    labels = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert "0.01 %" in labels
    assert len(set(labels)) == len(labels)


def test_quotas_that_are_no_shares_are_refused():
    runs = Runs(np.array([[1, 1, 1]]))
    for quotas in ([0.2, 0.3], [0.2, 0.3, -0.1], [0.2, 0.3, 1.5]):
        with raises(InvalidArgument, "quotas"):
            shares_against_quotas(runs, quotas)


# ---------------------------------------------------------------------------- everywhere


def all_figures(**where):
    axes = {"ax": where["figure"].subplots()} if where else {}
    return [
        lambda: regret_over_time({"$a$ & b": ([1, 2], [1, 2])}, **axes),
        lambda: violation_over_time({"a": ([1, 2], [1, 2])}, **axes),
        lambda: shares_against_quotas(Runs(np.array([[1, 2, 3]])), **axes),
    ]


def test_figures_go_where_they_are_told_and_touch_no_global_state():
    before = dict(mpl.rcParams)
    for index in range(3):
        board = Figure()
        assert all_figures(figure=board)[index]() is board
        assert drawn(board)
    board = Figure()
    assert cost_of_fairness(cost_runs(), figure=board) is board
    assert dict(mpl.rcParams) == before
