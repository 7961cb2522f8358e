"""The picture of a search shows its scores, how candidates ended, and which is the best."""

import warnings

import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import Pipeline
from sklearn.tree import DecisionTreeClassifier

from fairtrial.errors import InvalidArgument
from fairtrial.plots import learning_curves
from fairtrial.presentation.learning_curves import curves_of, half_widths, running_mean
from fairtrial.sklearn import RacingSearchCV
from tests.messages import raises
from tests.plots.figures import having, legend_of

IRIS = load_iris(return_X_y=True)
TREE = DecisionTreeClassifier(random_state=0)


def search(candidates, estimator=TREE, **given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", FitFailedWarning)
        return RacingSearchCV(estimator, candidates, **{"random_state": 0, **given}).fit(*IRIS)


@pytest.fixture(scope="module")
def depths():
    return search({"max_depth": [1, 2, 3]}, tolerance=0.02)


def note_of(figure):
    return figure.legends[0].get_title().get_text()


# ----------------------------------------------------------------------------- numbers


def test_the_interval_of_a_running_mean_is_students_at_every_split():
    from scipy import stats

    values = np.random.default_rng(0).normal(0.9, 0.02, size=12)
    half = half_widths(values)
    assert np.isnan(half[:2]).all()
    for count in (3, 12):
        first = values[:count]
        interval = stats.t.interval(0.95, count - 1, first.mean(), stats.sem(first))
        assert running_mean(values)[count - 1] == pytest.approx(first.mean())
        assert half[count - 1] == pytest.approx((interval[1] - interval[0]) / 2)


def test_the_interval_of_large_values_that_hardly_differ_keeps_its_digits():
    small = np.array([0.0, 1e-4, 2e-4, 1e-4])
    np.testing.assert_allclose(half_widths(1e6 + small)[2:], half_widths(small)[2:], rtol=1e-4)


def test_curves_end_where_candidates_were_dropped_and_come_in_order_of_rank(depths):
    results = depths.cv_results_
    shown = curves_of(depths)
    assert [curve.name for curve in shown.curves] == [
        f"max_depth={results['params'][arm]['max_depth']}"
        for arm in np.argsort(results["rank_test_score"])
    ]
    assert shown.curves[0].status == "best"
    worst = shown.curves[-1]
    dropped_after = results["dropped_after"][0]
    assert (worst.name, worst.status) == ("max_depth=1", "rejected")
    expected = [results[f"split{at}_test_score"][0] for at in range(dropped_after)]
    assert worst.scores.tolist() == expected


def test_differences_are_taken_on_the_same_splits(depths):
    best, *_, worst = curves_of(depths).curves
    np.testing.assert_allclose(worst.behind, best.scores[: len(worst.scores)] - worst.scores)
    assert not best.behind.any()


def test_given_splits_are_put_in_the_order_of_the_race():
    given = search(
        {"max_depth": [1, 3]}, cv=list(KFold(30, shuffle=True, random_state=1).split(*IRIS))
    )
    assert given.race_.n_blocks == 30
    dropped = curves_of(given).curves[1]
    blocks = given.race_.scores[: len(dropped.scores), 0]
    assert 0 < len(dropped.scores) < 30
    assert sorted(dropped.scores) == pytest.approx(sorted(blocks))
    assert dropped.behind.mean() == pytest.approx(given.race_.departures[0].behind)


def test_names_leave_out_what_all_candidates_share():
    pipeline = Pipeline([("tree", TREE)])
    grid = {"tree__max_depth": [1, 3], "tree__criterion": ["gini"]}
    found = search(grid, pipeline, max_pulls=20)
    assert sorted(curve.name for curve in curves_of(found).curves) == ["max_depth=1", "max_depth=3"]


def test_names_of_steps_stay_where_two_steps_have_the_same_setting():
    pipeline = Pipeline([("a", DecisionTreeSelector()), ("b", TREE)])
    found = search({"a__max_depth": [1, 2], "b__max_depth": [1, 3]}, pipeline, max_pulls=20)
    assert curves_of(found).curves[0].name.startswith("a__max_depth=")


class DecisionTreeSelector(DecisionTreeClassifier):
    """A step with a setting that has the same name as the model."""

    def transform(self, X):
        return X


# ----------------------------------------------------------------------------- pictures


def test_every_candidate_has_a_curve_of_its_mean_scores_and_a_mark_at_its_end(depths):
    means, behind = learning_curves(depths).axes
    curves = curves_of(depths).curves
    ends = sorted(float(line.get_ydata()[-1]) for line in having(means, "curve"))
    assert ends == pytest.approx(sorted(curve.scores.mean() for curve in curves))
    for status in ("best", "rejected"):
        marks = sorted(mark.get_xdata()[0] for mark in having(means, status))
        assert marks == sorted(len(one.scores) for one in curves if one.status == status)
    differences = sorted(float(line.get_ydata()[-1]) for line in having(behind, "curve"))
    assert differences == pytest.approx(sorted(-one.behind.mean() for one in curves[1:]))


def test_the_best_is_broad_with_a_band_and_the_others_have_bars(depths):
    means, behind = learning_curves(depths).axes
    widths = [line.get_linewidth() for line in having(means, "curve")]
    assert sorted(widths)[-1] > 1.5 * sorted(widths)[-2]
    assert len(having(means, "band")) == 1
    curve = curves_of(depths).curves[-1]
    half = half_widths(curve.behind)[-1]
    bars = [bar.get_segments()[0] for bar in having(behind, "interval")]
    ends = {round(bar[0, 0], 6): bar[:, 1] for bar in bars}
    middle = -curve.behind.mean()
    assert ends[len(curve.scores)] == pytest.approx([middle - half, middle + half])


def test_the_key_names_candidates_and_the_ends_that_occur(depths):
    key = legend_of(learning_curves(depths))
    assert key[:3] == [curve.name for curve in curves_of(depths).curves]
    assert "best" in key
    assert "dropped: worse" in key
    assert "out: a fit failed" not in key


def test_eight_candidates_are_named_and_the_others_are_pale():
    found = search({"min_impurity_decrease": np.linspace(0.0, 0.6, 12).tolist()}, tolerance=0.02)
    figure = learning_curves(found)
    assert sum("impurity" in name for name in legend_of(figure)) == 8
    assert "Pale: 4 other candidates." in note_of(figure)
    colors = [line.get_color() for line in having(figure.axes[0], "curve")]
    assert colors.count("#b8b8b8") == 4


def test_bars_that_end_together_stand_beside_each_other():
    found = search({"n_neighbors": [3, 5, 7, 9]}, KNeighborsClassifier(), max_pulls=40)
    behind = learning_curves(found).axes[1]
    places = [bar.get_segments()[0][0, 0] for bar in having(behind, "interval")]
    assert len(set(places)) == len(places) == 3


def test_one_candidate_has_one_panel():
    figure = learning_curves(search({"max_depth": [3]}))
    (ax,) = figure.axes
    assert len(having(ax, "curve")) == 1
    assert legend_of(figure) == ["max_depth=3", "best"]


def test_a_candidate_without_a_score_is_counted():
    found = search({"n_neighbors": [1, 1000]}, KNeighborsRegressor())
    figure = learning_curves(found)
    assert len(having(figure.axes[0], "curve")) == 1
    assert "Not shown, as no fit gave a score: 1." in note_of(figure)


@pytest.mark.parametrize("given", [{"paired": False}, {"partial": {"n_estimators": [2, 4]}}])
def test_candidates_with_splits_of_their_own_have_one_panel(given):
    from sklearn.ensemble import RandomForestClassifier

    model = RandomForestClassifier(random_state=0) if "partial" in given else TREE
    found = search({"max_depth": [1, 3]}, model, max_pulls=40, **given)
    (ax,) = learning_curves(found).axes
    assert ax.get_xlabel() == "fits of the candidate"
    tried = found.cv_results_["n_splits"].tolist()
    assert sorted(len(line.get_xdata()) for line in having(ax, "curve")) == sorted(tried)


def test_the_axis_names_the_metric_that_is_raced():
    losses = search({"max_depth": [1, 3]}, scoring="neg_log_loss")
    assert learning_curves(losses).axes[0].get_ylabel() == "mean neg_log_loss so far"
    several = search({"max_depth": [1, 3]}, scoring=["accuracy", "f1_macro"], refit="f1_macro")
    ax = learning_curves(several).axes[0]
    assert ax.get_ylabel() == "mean f1_macro so far"
    ends = [line.get_ydata()[-1] for line in having(ax, "curve")]
    assert ends[-1] == pytest.approx(several.best_score_)


def test_long_names_are_shortened_and_a_dollar_is_a_dollar():
    class Named(str):
        def __repr__(self):
            return self

    found = search({"class_weight": [None, {0: 1.0, 1: 2.0, 2: 3.123456789}]}, max_pulls=12)
    found.cv_results_["params"][0]["class_weight"] = Named("$x$" * 40)
    figure = learning_curves(found)
    assert max(map(len, legend_of(figure)[:2])) <= 40
    figure.canvas.draw()


def test_it_draws_where_it_is_told_to(depths):
    whole = Figure(layout="constrained")
    left, right = whole.subfigures(1, 2)
    assert learning_curves(depths, figure=right) is whole
    assert (len(left.axes), len(right.axes)) == (0, 2)


@pytest.mark.parametrize(
    "source",
    [
        RacingSearchCV(TREE, {"max_depth": [1]}),
        GridSearchCV(TREE, {"max_depth": [1]}).fit(*IRIS),
        None,
    ],
    ids=["not fitted", "another search", "nothing"],
)
def test_what_is_no_race_is_refused(source):
    with raises(InvalidArgument, "search", given=source):
        learning_curves(source)
