"""The content of figures of fair interventions, and the layout of the graph."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from scipy import optimize, stats

from fairtrial import causal
from fairtrial.core import Estimate, Progress, Recommendation, ValueLimit
from fairtrial.errors import InvalidArgument
from fairtrial.plots import causal_graph, error_by_budget, fair_outcomes, rejections
from fairtrial.presentation import layers
from fairtrial.simulation import simulate, trace
from tests.messages import raises
from tests.plots.figures import drawn, having, legend_of

ARMS = {
    "now": [[0.5, 0.3, 0.2], [0.4, 0.3, 0.3]],
    "new": [[0.2, 0.3, 0.5], [0.1, 0.3, 0.6]],
    "odd": [[0.1, 0.2, 0.7], [0.5, 0.3, 0.2]],
}


@pytest.fixture(scope="module")
def chain():
    return causal.chain(0.4, ARMS, [0.1, 0.1, 0.9], fairness_bound=0.2)


@pytest.fixture(scope="module")
def estimates(chain):
    problem, environment = chain
    log = environment.table(np.repeat([0, 1, 5, 6], 500), np.random.default_rng(1))
    return causal.estimate(problem, log, fixed_allocation=True)


def made_up(problem, gaps, means=None, verdicts=None, reach=0.01, **changes):
    """Return estimates with chosen numbers."""
    gaps = np.atleast_2d(np.asarray(gaps, dtype=float)).T
    means = np.linspace(0.3, 0.6, len(gaps)) if means is None else np.asarray(means)
    wide_gaps = np.stack([gaps - reach, gaps + reach], axis=-1)
    wide_means = np.stack([means - reach, means + reach], axis=-1)
    fields = {
        "problem": problem,
        "delta": 0.05,
        "rows": 1000,
        "means": means,
        "gaps": gaps,
        "mean_normal": wide_means,
        "gaps_normal": wide_gaps,
        "mean_bernstein": wide_means,
        "gaps_bernstein": wide_gaps,
        "verdicts": verdicts or ["undecided"] * len(gaps),
        "best": None,
    }
    return SimpleNamespace(**{**fields, **changes})


def question(n_arms, pairs=(("s", "t"), ("t", "s")), bound=0.1, is_root=True):
    return SimpleNamespace(
        arm_labels=tuple(f"arm {k}" for k in range(n_arms)),
        pairs=pairs,
        is_root=is_root,
        fairness_bound=bound,
        outcome_node="Y",
        direction="maximize",
    )


def repeated(gap):
    return np.column_stack([gap, -np.asarray(gap)]).T


# -------------------------------------------------------------- outcome against gap


def test_every_arm_is_a_mark_at_its_gap_and_mean(estimates):
    (ax,) = fair_outcomes(estimates).axes
    kinds = ("fair", "unfair", "inside, undecided", "outside, undecided")
    marks = {tuple(p) for kind in kinds for m in having(ax, kind) for p in m.get_offsets().tolist()}
    assert marks == set(zip(estimates.gaps[:, 0], estimates.means, strict=True))


def test_the_band_reaches_from_minus_to_plus_the_bound(estimates):
    (ax,) = fair_outcomes(estimates).axes
    (band,) = having(ax, "band")
    assert (band.get_x(), band.get_x() + band.get_width()) == pytest.approx((-0.2, 0.2))


@pytest.mark.parametrize("interval", ["normal", "bernstein"])
def test_the_intervals_are_those_asked_for(estimates, interval):
    (ax,) = fair_outcomes(estimates, interval).axes
    across = [s for c in ax.collections for s in getattr(c, "get_segments", list)()]
    ends = {tuple(np.round(s[:, 0], 12)) for s in across if s[0, 1] == s[1, 1]}
    wanted = getattr(estimates, f"gaps_{interval}")[:, 0]
    assert ends == {tuple(np.round(pair, 12)) for pair in wanted}


def test_shape_tells_the_estimate_and_fill_the_verdict():
    verdicts = ["fair", "undecided", "undecided", "unfair"]
    figure = fair_outcomes(made_up(question(4), repeated([0.0, 0.05, 0.15, 0.3]), None, verdicts))
    (ax,) = figure.axes
    kinds = ["fair", "inside, undecided", "outside, undecided", "unfair"]
    look = {kind: having(ax, kind)[0] for kind in kinds}
    assert [look[kind].get_offsets()[0][0] for kind in kinds] == [0.0, 0.05, 0.15, 0.3]
    corners = [len(look[kind].get_paths()[0].vertices) for kind in kinds]
    assert corners[0] == corners[1] != corners[2] == corners[3]
    hollow = [bool(np.all(look[kind].get_facecolor() == 1)) for kind in kinds]
    assert hollow == [False, True, True, False]
    assert legend_of(figure)[:4] == kinds


def test_the_best_arms_name_is_always_written_and_bold():
    crowd = made_up(question(12), repeated([0.01] * 12), [0.5] * 12, best="arm 7")
    (ax,) = fair_outcomes(crowd).axes
    names = having(ax, "name")
    assert [name.get_text() for name in names if name.get_fontweight() == "bold"] == ["arm 7"]
    assert len(names) < 12


def test_no_two_names_touch():
    generator = np.random.default_rng(5)
    many = made_up(question(30), repeated(generator.normal(0, 0.05, 30)), generator.random(30))
    figure = fair_outcomes(many)
    (ax,) = figure.axes
    figure.draw_without_rendering()
    boxes = [name.get_window_extent() for name in having(ax, "name")]
    assert len(boxes) > 8
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))


def test_without_a_fair_arm_the_title_says_so():
    (ax,) = fair_outcomes(made_up(question(2), repeated([0.3, -0.4]))).axes
    assert ax.get_title(loc="left") == "1,000 rows, best by the estimates: no fair arm"


def test_of_several_pairs_the_largest_gap_is_shown_and_the_band_begins_at_zero():
    values = ["a", "b", "c"]
    pairs = list(itertools.permutations(values, 2))
    by_value = {"a": 0.2, "b": 0.5, "c": 0.45}
    gaps = np.array([[by_value[a] - by_value[b]] for a, b in pairs])
    (ax,) = fair_outcomes(made_up(question(1, pairs), gaps)).axes
    (band,) = having(ax, "band")
    assert band.get_x() == 0.0
    (mark,) = having(ax, "outside, undecided")
    assert mark.get_offsets().tolist() == [[pytest.approx(0.3), pytest.approx(0.3)]]


def test_of_an_attribute_with_parents_the_larger_of_both_gaps_is_shown():
    figure = fair_outcomes(made_up(question(1, is_root=False), [[0.05], [-0.2]]))
    (mark,) = having(figure.axes[0], "outside, undecided")
    assert mark.get_offsets()[0][0] == pytest.approx(0.2)
    assert figure.axes[0].get_xlabel() == "largest counterfactual gap"


def test_arms_without_information_are_left_out():
    some = made_up(question(2), repeated([0.01, np.nan]), [0.4, np.nan])
    (ax,) = fair_outcomes(some).axes
    assert [name.get_text() for name in having(ax, "name")] == ["arm 0"]
    nothing = made_up(question(1), repeated([np.nan]), [np.nan])
    figure = fair_outcomes(nothing)
    assert figure.axes[0].texts[0].get_text() == "no row is informative about any arm yet"
    assert drawn(figure)


def test_a_bound_that_nothing_comes_near_does_not_squeeze_the_marks():
    (ax,) = fair_outcomes(made_up(question(3, bound=2.0), repeated([-0.02, 0.01, 0.03]))).axes
    low, high = ax.get_xlim()
    assert high - low < 0.2


def test_an_interval_as_wide_as_the_environment_does_not_squeeze_the_others():
    tidy = made_up(question(10), repeated(np.linspace(-0.05, 0.05, 10)))
    tidy.gaps_normal[0] = [[-50, 50], [-50, 50]]
    low, high = fair_outcomes(tidy).axes[0].get_xlim()
    assert high - low < 0.5


def test_a_problem_without_gaps_stands_at_zero():
    # S has no child that leads to Y, so no path carries an effect.
    model = causal.CausalModel(
        [("S", "X"), ("V", "Y")],
        {"S": 2, "X": 2, "V": 2, "Y": 2},
        {"S": [0.5, 0.5], "Y": [[0.9, 0.1], [0.1, 0.9]]},
    )
    problem = causal.Problem(model, "S", "V", "Y", {"a": [0.5, 0.5], "b": [0.1, 0.9]}, 0.1)
    environment = causal.NetworkEnvironment(problem)
    log = environment.table([0] * 50 + [3] * 50, np.random.default_rng(0))
    (ax,) = fair_outcomes(causal.estimate(problem, log)).axes
    assert ax.get_xlabel() == "counterfactual gap: none, nothing carries it"


@pytest.mark.parametrize("interval", ["normal", "bernstein"])
def test_the_legend_says_that_verdicts_stand_on_wider_intervals_than_normal_ones(
    estimates, interval
):
    figure = fair_outcomes(estimates, interval)
    legends = [*figure.legends, *(ax.get_legend() for ax in figure.axes if ax.get_legend())]
    texts = [text.get_text() for legend in legends for text in legend.get_texts()]
    told = any("(verdicts: wider)" in text for text in texts)
    assert told == (interval == "normal")


def test_arms_without_an_interval_are_drawn_as_marks():
    arms = {"now": [[0.9999, 0.0001]] * 2, "new": [[0.05, 0.95], [1.0, 0.0]]}
    problem, environment = causal.chain(0.5, arms, [0.0, 0.9], 0.2)
    with pytest.warns(causal.ThinOverlap):
        found = causal.estimate(problem, environment.table([0] * 1000, np.random.default_rng(1)))
    figure = fair_outcomes(found)
    figure.draw_without_rendering()
    marks = [c for c in figure.axes[0].collections if c.get_gid() in ("fair", "inside, undecided")]
    assert sum(len(c.get_offsets()) for c in marks) == 2


def test_an_unknown_interval_is_refused(estimates):
    with raises(InvalidArgument, "interval"):
        fair_outcomes(estimates, "wald")


# ------------------------------------------------------------- error against budget


def test_rates_and_exact_intervals_are_drawn_at_every_budget():
    figure = error_by_budget({"a": {100: (5, 20), 1000: (0, 20)}, "b": {100: (20, 20)}})
    (ax,) = figure.axes
    assert [line.get_ydata().tolist() for line in ax.lines] == [[0.25, 0.0], [1.0]]
    ends = [s[:, 1] for c in ax.collections for s in c.get_segments()]
    beta = stats.beta.ppf
    assert ends[0] == pytest.approx([beta(0.025, 5, 16), beta(0.975, 6, 15)])
    assert ends[1] == pytest.approx([0.0, beta(0.975, 1, 20)])
    assert ends[2] == pytest.approx([beta(0.025, 20, 1), 1.0])
    assert legend_of(figure) == ["a", "b"]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["100", "1,000"]


def test_simulations_count_their_wrong_answers(chain):
    problem, environment = chain
    runs = simulate(causal.PlugIn(problem, budget=30), environment, 40, progress=False)
    assert runs.correct is not None
    (ax,) = error_by_budget({"plug-in": {30: runs}}).axes
    assert ax.lines[0].get_ydata().tolist() == [1 - runs.correct.mean()]


def test_budgets_may_come_in_any_order():
    (ax,) = error_by_budget({"a": {1000: (1, 10), 10: (9, 10)}}).axes
    assert ax.lines[0].get_ydata().tolist() == [0.9, 0.1]


@pytest.mark.parametrize(
    "errors",
    [
        {},
        {str(k): {1: (0, 1)} for k in range(9)},
        {"a": {}},
        {"a": {10: (3, 2)}},
        {"a": {10: (0, 0)}},
        {"a": {10: SimpleNamespace(correct=None)}},
    ],
)
def test_errors_that_are_none_are_refused(errors):
    with raises(InvalidArgument, "errors"):
        error_by_budget(errors)


# ---------------------------------------------------------------------- rejections


def moment(told, live, gaps, means, leader=None, answer=None):
    status = "running" if answer is None else "decided"
    return Progress(
        Recommendation(answer, status, leader=leader),
        asked=told,
        told=told,
        outstanding=0,
        arms=tuple(Estimate({"arm": arm}, told, mean) for arm, mean in means.items()),
        live=tuple(live),
        value_limits=tuple(
            ValueLimit(arm, "gap", "s instead of t", 0.2, value=gap)
            for arm, gap in zip(means, gaps, strict=True)
        ),
    )


def lives_of(ax):
    names = [label.get_text() for label in ax.get_yticklabels()]
    rows = {int(s[0, 1]): s[1, 0] for c in having(ax, "life") for s in c.get_segments()}
    return {name: rows[row] for row, name in enumerate(names)}


def test_every_arm_lives_until_it_is_first_seen_rejected():
    means = {"arm 0": 0.5, "arm 1": 0.4, "arm 2": 0.6, "arm 3": 0.3}
    gaps = [0.01, 0.02, -0.3, 0.04]
    everyone = list(means)
    moments = [
        moment(0, everyone, gaps, means),
        moment(50, ["arm 0", "arm 1", "arm 3"], gaps, means, "arm 0"),
        moment(100, ["arm 0", "arm 3"], gaps, means, "arm 0"),
        moment(200, ["arm 0", "arm 3"], gaps, means, "arm 0", "arm 0"),
    ]
    figure = rejections(moments, question(4))
    (ax,) = figure.axes
    assert lives_of(ax) == {"arm 0": 200, "arm 3": 200, "arm 1": 100, "arm 2": 50}
    assert [m.get_offsets().tolist() for m in having(ax, "gap")] == [[[50.0, 3.0]]]
    assert [m.get_offsets().tolist() for m in having(ax, "mean")] == [[[100.0, 2.0]]]
    words = [text.get_text() for text in having(ax, "why")]
    assert words == ["mean 0.4, leader's 0.5", "gap 0.3, bound 0.1"]
    assert ax.get_title(loc="left") == "after 200 rows the answer is: arm 0"
    bold = [label.get_text() for label in ax.get_yticklabels() if label.get_fontweight() == "bold"]
    assert bold == ["arm 0"]


@pytest.mark.parametrize(("direction", "expected"), [("maximize", "mean"), ("minimize", "other")])
def test_worse_depends_on_the_direction(direction, expected):
    means = {"arm 0": 0.5, "arm 1": 0.4}
    asked = question(2)
    asked.direction = direction
    moments = [moment(10, ["arm 0"], [0.0, 0.0], means, "arm 0")]
    figure = rejections(moments, asked)
    assert len(having(figure.axes[0], expected)) == 1
    assert figure.axes[0].get_title(loc="left") == "after 10 rows, not decided yet"


def test_a_real_run_shows_the_arms_that_its_policy_rejected(chain):
    problem, environment = chain
    policy = causal.TwoStageRejection(problem, budget=2000)
    moments = trace(policy, environment, seed=3, points=50)
    (ax,) = rejections(moments, problem).axes
    last = moments[-1]
    ends = lives_of(ax)
    assert set(ends) == set(ARMS)
    died = {arm for arm in ARMS if arm not in last.live}
    assert died
    assert all(ends[arm] == last.told for arm in last.live)
    marks = [m for kind in ("gap", "mean", "other") for m in having(ax, kind)]
    assert len(marks) == len(died)


def test_a_policy_that_rejects_nothing_is_no_source_of_rejections(chain):
    moments = [Progress(Recommendation(None, "running"), 0, 0, 0)]
    with raises(InvalidArgument, "source"):
        rejections(moments, chain[0])


# ----------------------------------------------------------------------- the graph


def test_the_graph_shows_read_nodes_and_those_on_the_way_to_the_outcome():
    edges = [("S", "X"), ("X", "M"), ("M", "Y"), ("W", "V"), ("V", "Y"), ("X", "side"), ("Q", "W")]
    nodes = dict.fromkeys(("S", "X", "M", "Y", "W", "V", "side", "Q"), 2)
    tables = {"S": [0.5, 0.5], "X": [[0.9, 0.1], [0.2, 0.8]]}
    model = causal.CausalModel(edges, nodes, tables)
    problem = causal.Problem(model, "S", "V", "Y", {"a": [[0.5, 0.5], [0.1, 0.9]]}, 0.1)
    figure = causal_graph(problem)
    (ax,) = figure.axes
    assert {text.get_text() for text in ax.texts} == {"S", "X", "M", "Y", "W", "V"}
    roles = {role: len(having(ax, role)) for role in ("sensitive", "intervened", "outcome", "read")}
    assert roles == {"sensitive": 1, "intervened": 1, "outcome": 1, "read": 2}
    assert len(having(ax, "unread")) == 1
    shown = {("S", "X"), ("X", "M"), ("M", "Y"), ("W", "V"), ("V", "Y")}
    assert all(len(having(ax, f"{a} -> {b}")) == 1 for a, b in shown)
    assert "not read" in legend_of(figure)
    assert drawn(figure)


def test_figures_are_drawn_where_they_are_told_to_be(chain, estimates):
    figure = Figure()
    axes = figure.subplots(2, 2).ravel()
    assert fair_outcomes(estimates, ax=axes[0]) is figure
    assert error_by_budget({"a": {10: (1, 2)}}, ax=axes[1]) is figure
    assert causal_graph(chain[0], ax=axes[2]) is figure
    moments = [moment(1, ["arm 0"], [0.0], {"arm 0": 0.5})]
    assert rejections(moments, question(1), ax=axes[3]) is figure
    assert len(figure.axes) == 4


@st.composite
def graphs(draw):
    n = draw(st.integers(1, 7))
    names = [f"n{k}" for k in range(n)]
    return {
        name: [names[j] for j in range(k) if draw(st.booleans())] for k, name in enumerate(names)
    }


@given(graphs())
def test_causes_stand_left_of_effects_and_nothing_overlaps(parents):
    widths = {node: 0.5 + 0.1 * place for place, node in enumerate(parents)}
    drawing = layers.arrange(parents, widths, layer_gap=0.7, row_gap=0.6)
    places = drawing.places
    for node, above in parents.items():
        for parent in above:
            right = places[parent][0] + widths[parent] / 2
            assert right + 0.69 <= places[node][0] - widths[node] / 2
            route = drawing.routes[parent, node]
            assert route[0][1] == pytest.approx(places[parent][1])
            assert route[-1][1] == pytest.approx(places[node][1])
            assert np.all(np.diff(route[:, 0]) > 0)
    for a, b in itertools.combinations(parents, 2):
        if places[a][0] == places[b][0]:
            assert abs(places[a][1] - places[b][1]) >= 0.6 - 1e-9
    for node, (x, y) in places.items():
        assert x - widths[node] / 2 >= -1e-9
        assert x + widths[node] / 2 <= drawing.width + 1e-9
        assert -1e-9 <= y <= drawing.height + 1e-9


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=12), st.floats(0.1, 2))
def test_heights_kept_apart_are_the_least_squares_ones(wanted, gap):
    offsets = [gap * place for place in range(len(wanted))]
    found = layers._kept_apart(wanted, offsets)
    levels = optimize.isotonic_regression(np.add(wanted, offsets), increasing=False).x
    assert found == pytest.approx((levels - offsets).tolist(), abs=1e-9)


def test_a_crossing_that_can_be_avoided_is_avoided():
    parents = {"a": [], "b": [], "c": ["b"], "d": ["a"]}
    drawing = layers.arrange(parents, dict.fromkeys(parents, 1.0), 1.0, 1.0)
    y = {node: place[1] for node, place in drawing.places.items()}
    assert (y["a"] - y["b"]) * (y["d"] - y["c"]) > 0
