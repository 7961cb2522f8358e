import itertools
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_breast_cancer, load_iris, make_regression
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning
from sklearn.linear_model import BayesianRidge
from sklearn.metrics import make_scorer, mean_absolute_error
from sklearn.model_selection import (
    GridSearchCV,
    GroupShuffleSplit,
    KFold,
    LeaveOneOut,
    ParameterSampler,
    PredefinedSplit,
    ShuffleSplit,
    StratifiedKFold,
    StratifiedShuffleSplit,
    cross_val_score,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from fairtrial.errors import InvalidArgument
from fairtrial.sklearn import RacingSearchCV
from fairtrial.sklearn._candidates import settings_of
from fairtrial.sklearn._ranges import known_range
from fairtrial.sklearn._splits import splits_of
from sklearn import config_context
from tests import effort
from tests.messages import raises, warns

IRIS = load_iris(return_X_y=True)
CANCER = load_breast_cancer(return_X_y=True)
TREE = DecisionTreeClassifier(random_state=0)
DEPTHS = {"max_depth": [1, 2, 3]}
UNBOUNDED = (
    "neg_",
    "r2",
    "explained",
    "d2",
    "adjusted",
    "mutual",
    "fowlkes",
    "positive",
    "max_error",
)


def search(estimator=TREE, candidates=DEPTHS, **given):
    return RacingSearchCV(estimator, candidates, **{"random_state": 0, **given})


class FailsIfAsked(ClassifierMixin, BaseEstimator):
    def __init__(self, fails=False, right=True):
        self.fails = fails
        self.right = right

    def fit(self, X, y):
        if self.fails:
            raise RuntimeError("as asked")
        self.classes_ = np.unique(y)
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0 if self.right else -1])


# ----------------------------------------------------------------------- scikit-learn's rules


@parametrize_with_checks(
    [
        RacingSearchCV(GaussianNB(), {"var_smoothing": [1e-9, 1e-2]}, max_pulls=6, cv=2),
        RacingSearchCV(BayesianRidge(), {"alpha_1": [1e-6, 1.0]}, max_pulls=6, cv=2),
    ]
)
def test_it_keeps_the_rules_of_scikit_learn(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


def test_it_is_cloned_and_its_parameters_are_set_and_got():
    given = search(delta=0.1, cv=3)
    copy = clone(given).set_params(delta=0.2, estimator__max_depth=7)
    assert copy.get_params()["delta"] == 0.2
    assert copy.estimator.max_depth == 7
    assert given.get_params()["delta"] == 0.1
    assert "RacingSearchCV" in repr(given)


def test_the_package_is_imported_without_scikit_learn():
    code = "import sys, fairtrial.sklearn; print('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_without_scikit_learn_the_error_names_the_extra():
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "from fairtrial.errors import MissingExtra\n"
        "import fairtrial.sklearn\n"
        "try:\n    fairtrial.sklearn.RacingSearchCV\n"
        "except MissingExtra as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "fairtrial[sklearn]" in done.stdout


# --------------------------------------------------------------------------------- the answer


@pytest.mark.parametrize(
    "given",
    [{}, {"guarantee": "proven"}, {"paired": False}, {"paired": False, "guarantee": "proven"}],
    ids=["default", "proven", "unpaired", "unpaired proven"],
)
def test_the_best_candidate_is_found_refitted_and_named(given):
    found = search(candidates={"max_depth": [1, 3]}, max_pulls=2000, **given).fit(*IRIS)
    assert (found.best_index_, found.best_params_, found.status_) == (
        1,
        {"max_depth": 3},
        "decided",
    )
    assert found.best_estimator_.get_depth() == 3
    assert found.best_score_ == found.cv_results_["mean_test_score"][1]
    assert found.n_pulls_ == found.cv_results_["n_splits"].sum()
    assert found.guarantee_.label == given.get("guarantee", "calibrated")
    assert "it says nothing about new data" in found.guarantee_.assumptions[-1]
    assert (found.predict(IRIS[0]) == found.best_estimator_.predict(IRIS[0])).all()
    assert found.predict_proba(IRIS[0]).shape == (150, 3)
    assert found.score(*IRIS) > 0.9
    assert list(found.classes_) == [0, 1, 2]


@pytest.mark.parametrize("library", effort.first(1, [pl, pd]))
def test_data_frames_are_searched_like_the_same_arrays(library):
    features, classes = IRIS
    names = ["a", "b", "c", "d"]
    frame = library.DataFrame(dict(zip(names, features.T, strict=True)))
    found = search().fit(frame, library.Series(classes))
    expected = search().fit(features, classes)
    assert found.best_params_ == expected.best_params_
    scores = found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"]
    assert np.array_equal(*scores, equal_nan=True)
    assert found.best_estimator_.feature_names_in_.tolist() == names


def test_candidates_may_be_called_param_grid_as_grid_search_calls_them():
    both = [
        RacingSearchCV(TREE, DEPTHS, max_pulls=40, random_state=0),
        clone(RacingSearchCV(TREE, param_grid=DEPTHS, max_pulls=40, random_state=0)),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        first, second = (search.fit(*IRIS) for search in both)
    assert first.best_params_ == second.best_params_
    np.testing.assert_array_equal(
        first.cv_results_["mean_test_score"], second.cv_results_["mean_test_score"]
    )


@pytest.mark.parametrize("given", [{}, {"candidates": DEPTHS, "param_grid": DEPTHS}])
def test_candidates_are_given_once(given):
    with raises(InvalidArgument, "candidates"):
        RacingSearchCV(TREE, **given).fit(*IRIS)


def test_a_transformer_is_delegated_to():
    found = RacingSearchCV(
        StandardScaler(),
        {"with_mean": [True, False]},
        scoring=lambda model, X, y=None: -abs(model.transform(X).mean()),
        random_state=0,
    ).fit(IRIS[0] + np.random.default_rng(0).normal(size=(150, 4)))
    assert found.best_params_ == {"with_mean": True}
    assert found.transform(IRIS[0]).shape == (150, 4)


def test_a_regression_has_no_range_and_is_not_called_proven():
    X, y = make_regression(200, 5, noise=1.0, random_state=0)
    found = search(DecisionTreeRegressor(random_state=0), {"max_depth": [1, 6]}).fit(X, y)
    assert found.best_params_ == {"max_depth": 6}
    assert found.status_ == "decided"
    assert not found.guarantee_.proven


def test_its_scores_are_those_of_cross_validation_on_its_splits():
    splitter = ShuffleSplit(n_splits=1, test_size=0.3)
    found = search(cv=splitter, candidates={"max_depth": [1, 3]}).fit(*IRIS)
    first = np.random.SeedSequence(
        int(np.random.RandomState(0).randint(2**31 - 1)), spawn_key=(0,)
    ).generate_state(1)[0]
    own = ShuffleSplit(n_splits=1, test_size=0.3, random_state=int(first))
    expected = cross_val_score(DecisionTreeClassifier(random_state=0, max_depth=1), *IRIS, cv=own)
    assert found.cv_results_["split0_test_score"][0] == expected[0]


@pytest.mark.parametrize("paired", [True, False])
def test_the_result_does_not_depend_on_the_number_of_processes(paired):
    def run(n_jobs):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return search(max_pulls=60, n_jobs=n_jobs, paired=paired).fit(*IRIS)

    one, two = run(1), run(2)
    assert one.best_params_ == two.best_params_
    assert one.n_pulls_ == two.n_pulls_
    for key, column in one.cv_results_.items():
        if "time" not in key and key != "params":
            np.testing.assert_array_equal(column, two.cv_results_[key])


def test_another_seed_gives_other_splits():
    columns = [
        search(tolerance=0.1, random_state=seed).fit(*CANCER).cv_results_ for seed in (0, 0, 1)
    ]
    means = [tuple(column["mean_test_score"]) for column in columns]
    assert means[0] == means[1] != means[2]


def test_a_search_that_cannot_decide_says_so_and_takes_the_best_so_far():
    with warns(ConvergenceWarning) as caught:
        found = search(candidates={"max_depth": [3, 4]}, max_pulls=40).fit(*IRIS)
    assert caught[0].filename == __file__
    assert found.status_ == "undecided"
    assert hasattr(found, "best_estimator_")
    assert found.best_index_ == np.argmax(found.cv_results_["mean_test_score"])


@pytest.mark.parametrize("given", [{}, {"paired": False}, {"guarantee": "proven"}], ids=str)
def test_an_undecided_search_says_how_much_worse_its_answer_may_be(given):
    with warns(ConvergenceWarning) as w:
        found = search(candidates={"max_depth": [3, 4]}, max_pulls=60, **given).fit(*IRIS)
    assert 0.0 < found.shortfall_ < 1.0
    assert f"{found.shortfall_:.3g}" in found.guarantee_.statement
    assert ("or guarantee='calibrated'" in str(w[0].message)) == found.guarantee_.proven
    assert found.guarantee_.statement in str(w[0].message)
    if not given:
        wider = search(
            candidates={"max_depth": [3, 4]}, max_pulls=60, tolerance=found.shortfall_ + 1e-6
        ).fit(*IRIS)
        assert wider.status_ == "decided"
        assert wider.shortfall_ == wider.tolerance


def test_a_search_that_knows_nothing_yet_says_so():
    with warns(ConvergenceWarning):
        found = search(max_pulls=2).fit(*IRIS)
    assert found.shortfall_ == np.inf


def test_equal_candidates_end_with_a_tolerance():
    found = search(candidates={"min_samples_leaf": [1], "max_depth": [9, 10]}, tolerance=0.2).fit(
        *IRIS
    )
    assert found.status_ == "decided"


# ------------------------------------------------------------------------------ what is told


def test_the_table_has_the_familiar_columns_and_what_racing_adds():
    found = search(return_train_score=True, tolerance=0.02).fit(*IRIS)
    table = found.cv_results_
    assert {
        "mean_fit_time", "std_fit_time", "mean_score_time", "std_score_time", "param_max_depth",
        "params", "split0_test_score", "mean_test_score", "std_test_score", "rank_test_score",
        "split0_train_score", "mean_train_score", "std_train_score", "n_splits", "status",
    } <= set(table)  # fmt: skip
    assert all(len(column) == 3 for column in table.values())
    tried = table["n_splits"]
    assert tried[0] < tried.max() == found.n_splits_
    splits = np.array([table[f"split{at}_test_score"] for at in range(found.n_splits_)])
    assert (np.isfinite(splits).sum(axis=0) == tried).all()
    np.testing.assert_allclose(np.nanmean(splits, axis=0), table["mean_test_score"])
    np.testing.assert_allclose(np.nanstd(splits, axis=0), table["std_test_score"])
    assert table["rank_test_score"][found.best_index_] == 1
    assert table["status"][found.best_index_] == "best"
    assert sorted(table["rank_test_score"]) == [1, 2, 3]


def test_settings_that_a_candidate_lacks_are_masked():
    found = search(candidates=[{"max_depth": [1]}, {"min_samples_leaf": [60]}], max_pulls=10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        table = found.fit(*IRIS).cv_results_
    assert list(table["param_max_depth"].mask) == [False, True]


def test_several_metrics_are_told_and_the_one_of_refit_is_raced():
    found = search(scoring=["accuracy", "f1_macro"], refit="f1_macro", tolerance=0.2).fit(*IRIS)
    assert found.multimetric_
    assert set(found.scorer_) == {"accuracy", "f1_macro"}
    assert found.best_score_ == found.cv_results_["mean_test_f1_macro"][found.best_index_]
    assert "mean_test_accuracy" in found.cv_results_


def test_a_scorer_of_ones_own_needs_its_range_for_a_proof():
    scorer = make_scorer(mean_absolute_error, greater_is_better=False)
    free = search(scoring=scorer, tolerance=0.4).fit(*IRIS)
    proven = search(scoring=scorer, tolerance=0.4, guarantee="proven")
    with raises(InvalidArgument, "score_range"):
        proven.fit(*IRIS)
    ranged = proven.set_params(score_range=(-2, 0)).fit(*IRIS)
    assert free.guarantee_.label == "calibrated"
    assert ranged.guarantee_.proven
    assert free.best_params_["max_depth"] in (2, 3)


@pytest.mark.parametrize("pre_dispatch", ["all", "n_jobs", 3])
def test_handing_out_fits_in_advance_changes_no_result(pre_dispatch):
    usual = search(tolerance=0.2).fit(*IRIS)
    found = search(tolerance=0.2, pre_dispatch=pre_dispatch, n_jobs=2).fit(*IRIS)
    assert found.best_params_ == usual.best_params_
    assert found.n_pulls_ == usual.n_pulls_


def test_without_refit_there_is_no_estimator():
    found = search(refit=False, tolerance=0.2).fit(*IRIS)
    assert not hasattr(found, "best_estimator_")
    assert found.best_params_["max_depth"] > 1


def test_weights_and_groups_are_handed_on():
    groups = np.arange(150) % 10
    seen = []

    class Splits(GroupShuffleSplit):
        def split(self, X, y=None, groups=None):
            seen.append(groups)
            return super().split(X, y, groups)

    weights = np.where(IRIS[1] == 0, 1.0, 0.0)
    found = search(cv=Splits(test_size=0.3), max_pulls=9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found.fit(*IRIS, groups=groups, sample_weight=weights)
    assert (seen[0] == groups).all()
    assert (found.predict(IRIS[0]) == 0).all()


def test_metadata_is_routed_under_the_names_that_were_asked_for():
    class Listens(FailsIfAsked):
        def fit(self, X, y, sample_weight=None):
            assert len(sample_weight) == len(X)
            return super().fit(X, y)

        def score(self, X, y, sample_weight=None):
            assert len(sample_weight) == len(X)
            return float(self.right)

    with config_context(enable_metadata_routing=True):
        model = Listens().set_fit_request(sample_weight="of_fit")
        model.set_score_request(sample_weight="of_score")
        raced = search(model, {"right": [True, False]}, error_score="raise", max_pulls=200)
        found = raced.fit(*IRIS, of_fit=np.ones(150), of_score=np.ones(150))
    assert found.best_params_ == {"right": True}


# ------------------------------------------------------------------------ what was dropped, and why


def test_the_table_tells_when_and_why_a_candidate_was_dropped():
    found = search(candidates={"max_depth": [1, 2, 3]}, tolerance=0.02).fit(*IRIS)
    table = found.cv_results_
    assert table["dropped_after"].mask[found.best_index_]
    assert table["dropped_because"][found.best_index_] == ""
    assert table["dropped_after"][0] <= table["n_splits"][0] < 20
    assert table["dropped_because"][0].startswith("worse than candidate ")
    assert f"on average over {table['dropped_after'][0]} splits" in table["dropped_because"][0]


def test_a_candidate_that_is_near_enough_or_failed_is_told_as_such():
    near = search(candidates={"max_depth": [9, 10]}, tolerance=0.1).fit(*IRIS).cv_results_
    (why,) = {text for text in near["dropped_because"] if text}
    assert why.startswith("better than candidate ")
    assert "by at most 0.1, after" in why
    with pytest.warns(FitFailedWarning):
        failed = search(FailsIfAsked(), {"fails": [True, False]}).fit(*IRIS).cv_results_
    assert failed["dropped_because"][0] == "a fit failed, or its score was not a number"
    unpaired = search(candidates={"max_depth": [1, 3]}, paired=False).fit(*IRIS).cv_results_
    assert list(unpaired["dropped_because"]) == ["worse than the best", ""]
    assert unpaired["dropped_after"][0] == unpaired["n_splits"][0]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_pipeline_of_a_regressor_is_searched_with_lists_of_grids(n_jobs):
    X, y = make_regression(120, 6, noise=5.0, random_state=1)
    model = Pipeline(
        [("scale", StandardScaler()), ("model", DecisionTreeRegressor(random_state=0))]
    )
    grids = [{"model__max_depth": [1, 6]}, {"model": [BayesianRidge()], "scale": ["passthrough"]}]
    found = RacingSearchCV(model, param_grid=grids, n_jobs=n_jobs, random_state=0).fit(X, y)
    assert isinstance(found.best_estimator_["model"], BayesianRidge)
    assert (found.status_, found.guarantee_.label) == ("decided", "calibrated")
    assert found.n_splits_ < 15


# ----------------------------------------------------------------------------------- new data


def test_for_new_data_splits_share_an_error_and_the_promise_says_so():
    here, anywhere = (
        search(candidates={"max_depth": [1, 3]}, new_data=new).fit(*IRIS) for new in (False, True)
    )
    assert here.n_pulls_ < anywhere.n_pulls_
    assert here.race_.overlap == 0.0
    assert anywhere.race_.overlap == pytest.approx(0.25)
    assert "new data from the same source" in anywhere.guarantee_.assumptions[-1]
    assert "it says nothing about new data" in here.guarantee_.assumptions[-1]
    assert anywhere.guarantee_.label == "calibrated"


def test_a_search_for_new_data_ends_when_more_splits_cannot_help():
    with warns(ConvergenceWarning):
        found = search(candidates={"max_depth": [3, 4]}, new_data=True, cv=4).fit(*IRIS)
    assert found.race_.overlap == pytest.approx(38 / 112)
    assert found.n_splits_ == 15
    assert found.shortfall_ > 0.0


# ----------------------------------------------------------------------------- hostile scores


@pytest.mark.parametrize("given", [{}, {"new_data": True}, {"guarantee": "proven"}], ids=str)
def test_constant_scores_never_rule_out_a_candidate(given):
    same = search(FailsIfAsked(), {"right": [True, True]}, **given)
    with pytest.warns(ConvergenceWarning):
        found = same.fit(*IRIS)
    assert set(found.cv_results_["status"]) == {"best", "undecided"}
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        assert same.set_params(tolerance=0.2).fit(*IRIS).status_ == "decided"


def test_scores_that_are_not_numbers_drop_a_candidate():
    def score(model, X, y):
        return 0.5 if model.max_depth > 1 else np.nan

    with warns(UserWarning):
        found = search(candidates={"max_depth": [1, 2]}, scoring=score).fit(*IRIS)
    assert list(found.cv_results_["status"]) == ["withdrawn", "best"]


@pytest.mark.parametrize("unit", [1e-160, 1e160])
def test_the_unit_of_scores_changes_nothing(unit):
    def score(model, X, y):
        return unit * model.score(X, y)

    small, usual = (
        search(candidates={"max_depth": [1, 3]}, scoring=scoring).fit(*IRIS)
        for scoring in (score, None)
    )
    assert small.best_index_ == usual.best_index_
    assert (small.cv_results_["n_splits"] == usual.cv_results_["n_splits"]).all()


def test_one_split_decides_as_a_grid_search_would():
    one = [(np.arange(0, 150, 2), np.arange(1, 150, 2))]
    found = search(cv=one).fit(*IRIS)
    assert (found.status_, found.n_splits_) == ("decided", 1)
    assert found.best_index_ == GridSearchCV(TREE, DEPTHS, cv=one).fit(*IRIS).best_index_


# ------------------------------------------------------------------------ models, fixed splits


def test_models_are_raced_as_settings_of_a_step():
    models = [GaussianNB(), make_pipeline(StandardScaler(), DecisionTreeClassifier(max_depth=1))]
    found = search(Pipeline([("model", TREE)]), {"model": models}, tolerance=0.01).fit(*IRIS)
    assert isinstance(found.best_estimator_["model"], GaussianNB)
    assert list(found.cv_results_["status"]) == ["best", "rejected"]


@pytest.mark.parametrize(
    "cv",
    [KFold(5), list(KFold(5).split(IRIS[0])), PredefinedSplit(np.arange(150) // 30)],
    ids=["splitter", "pairs", "predefined"],
)
def test_splits_that_are_all_there_are_end_in_the_answer_of_a_grid_search(cv):
    found = search(cv=cv).fit(*IRIS)
    grid = GridSearchCV(TREE, DEPTHS, cv=KFold(5)).fit(*IRIS)
    assert found.status_ == "decided"
    assert found.best_index_ == grid.best_index_
    assert (found.shortfall_, found.n_splits_) == (0.0, 5)
    for at in range(5):
        known = np.isfinite(found.cv_results_[f"split{at}_test_score"])
        own, other = (one.cv_results_[f"split{at}_test_score"] for one in (found, grid))
        np.testing.assert_array_equal(own[known], other[known])


def test_splits_that_are_all_there_are_may_be_given_one_by_one():
    found = search(cv=KFold(5).split(IRIS[0])).fit(*IRIS)
    assert found.best_params_["max_depth"] > 1


def test_all_splits_are_tried_by_default_if_they_are_limited():
    found = search(candidates={"max_depth": [3, 4]}, cv=LeaveOneOut()).fit(IRIS[0], IRIS[1])
    assert (found.status_, found.n_pulls_) == ("decided", 300)


# ------------------------------------------------------------------------------------ failures


def test_a_candidate_whose_fit_fails_leaves_the_race():
    with pytest.warns(FitFailedWarning, match="as asked"):
        found = search(FailsIfAsked(), [{"fails": True}, {"right": True}, {"right": False}]).fit(
            IRIS[0], (IRIS[1] > 1).astype(int)
        )
    assert found.best_params_ == {"right": True}
    assert list(found.cv_results_["status"]) == ["withdrawn", "best", "rejected"]
    assert found.cv_results_["rank_test_score"][0] == 3


def test_a_failure_may_count_as_a_score_or_be_raised():
    candidates = [{"fails": True}, {"right": True}]
    with pytest.warns(FitFailedWarning):
        found = search(FailsIfAsked(), candidates, error_score=0.0).fit(*IRIS)
    assert list(found.cv_results_["status"]) == ["rejected", "best"]
    assert found.cv_results_["mean_test_score"][0] == 0.0
    with pytest.raises(RuntimeError, match="as asked"):
        search(FailsIfAsked(), candidates, error_score="raise").fit(*IRIS)


def test_if_every_candidate_fails_the_reason_is_raised():
    with pytest.warns(FitFailedWarning), pytest.raises(RuntimeError, match="as asked"):
        search(FailsIfAsked(), [{"fails": True}, {"fails": True, "right": False}]).fit(*IRIS)


def test_fits_that_all_fail_are_no_answer_whatever_they_count_as():
    with pytest.warns(FitFailedWarning), pytest.raises(RuntimeError, match="as asked"):
        search(FailsIfAsked(fails=True), {"right": [True]}, error_score=0.0).fit(*IRIS)


def test_a_score_that_is_not_a_number_is_told_of():
    def scorer(model, X, y):
        return float("nan") if model.get_depth() == 1 else 0.5

    with warns(UserWarning):
        found = search(candidates={"max_depth": [1, 3]}, scoring=scorer).fit(*IRIS)
    assert list(found.cv_results_["status"]) == ["withdrawn", "best"]


def test_if_no_score_is_a_number_that_is_said():
    with (
        warns(UserWarning),
        raises(ValueError),
    ):
        search(scoring=lambda model, X, y: float("nan")).fit(*IRIS)


@pytest.mark.parametrize("depths", [[2, 3], [1, 2, 3]], ids=["of two", "after a rejection"])
def test_who_fails_where_the_last_rival_failed_has_not_won(depths):
    """From split 25 on no score is a number; by then the tree of depth 1 is rejected."""
    calls = itertools.count()

    def scorer(model, X, y):
        return float(model.max_depth > 1) if next(calls) < 24 else float("nan")

    tied = search(candidates={"max_depth": depths}, scoring=scorer)
    with warns(UserWarning), raises(ValueError):
        tied.fit(*IRIS)


def test_a_single_candidate_is_scored_all_the_same():
    found = search(candidates={"max_depth": [3]}).fit(*IRIS)
    assert (found.status_, found.n_splits_) == ("decided", 5)
    assert found.best_score_ > 0.9


@pytest.mark.parametrize("fails", [(True, False), (False, True)], ids=["first", "last"])
def test_a_candidate_that_is_left_alone_is_scored_as_often_as_a_single_one(fails):
    with pytest.warns(FitFailedWarning):
        found = search(FailsIfAsked(), {"fails": fails}).fit(*IRIS)
    assert (found.status_, found.best_params_, found.n_splits_) == (
        "decided",
        {"fails": False},
        5,
    )


def test_a_score_outside_of_its_range_is_refused():
    with raises(ValueError, "score_range"):
        search(guarantee="proven", score_range=(0.9, 1.0)).fit(*IRIS)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"delta": 1.0}, "delta"),
        ({"delta": 0.95}, "delta"),
        ({"tolerance": -1.0}, "tolerance"),
        ({"batch_size": 0}, "batch_size"),
        ({"max_pulls": 0}, "max_pulls"),
        ({"paired": "yes"}, "paired"),
        ({"refit": lambda table: 0}, "refit"),
        ({"error_score": "ignore"}, "error_score"),
        ({"n_jobs": "2"}, "n_jobs"),
        ({"estimator": "tree"}, "estimator"),
        ({"estimator": DecisionTreeClassifier}, "estimator"),
        ({"score_range": "known"}, "score_range"),
        ({"score_range": (0, 1)}, "score_range"),
        ({"score_range": None, "guarantee": "proven"}, "score_range"),
        ({"scoring": "r2", "guarantee": "proven"}, "score_range"),
        ({"guarantee": "heuristic"}, "guarantee"),
        ({"guarantee": None}, "guarantee"),
        ({"guarantee": "proven", "partial": 3}, "guarantee"),
        ({"new_data": 1}, "new_data"),
        ({"new_data": True, "guarantee": "proven"}, "new_data"),
        ({"new_data": True, "paired": False}, "new_data"),
        ({"new_data": True, "cv": KFold(5)}, "cv"),
        ({"cv": 1}, "cv"),
        ({"cv": 0.2}, "cv"),
        ({"cv": []}, "cv"),
        ({"cv": [1, 2]}, "cv"),
        ({"cv": KFold(5), "paired": False}, "cv"),
        ({"error_score": -1.0, "guarantee": "proven"}, "error_score"),
        ({"score_range": 3, "guarantee": "proven"}, "score_range"),
        ({"score_range": (1,), "guarantee": "proven"}, "score_range"),
        ({"scoring": ["accuracy", "f1_macro"], "refit": False}, "refit"),
        ({"candidates": []}, "candidates"),
        ({"candidates": "grid"}, "candidates"),
        ({"candidates": [1]}, "candidates"),
        ({"candidates": [{"max_depth": 3}, {"max_dept": 2}]}, "candidates"),
        ({"candidates": {"max_depth": [1, 2], "criterion": "gini"}}, "candidates"),
        ({"candidates": [("a", TREE), ("b", GaussianNB())]}, "candidates"),
        ({"candidates": {"a": TREE, "b": GaussianNB()}}, "candidates"),
        ({"n_candidates": 0, "candidates": DEPTHS}, "n_candidates"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_argument_that_is_not_acceptable_is_named(given, name):
    with raises(InvalidArgument, name):
        search(**given).fit(*IRIS)


# ------------------------------------------------------------------------------------ the parts


@pytest.mark.parametrize(
    "cv",
    [3, KFold(4, shuffle=True), ShuffleSplit(), StratifiedShuffleSplit(test_size=0.2)],
    ids=["int", "KFold", "ShuffleSplit", "StratifiedShuffleSplit"],
)
def test_every_splitter_that_draws_is_accepted_and_left_alone(cv):
    found = search(cv=cv, candidates={"max_depth": [1, 3]}).fit(*IRIS)
    assert found.best_params_ == {"max_depth": 3}
    assert getattr(cv, "random_state", None) is None


@pytest.mark.filterwarnings("ignore:The least populated class")
def test_of_the_folds_of_a_draw_any_may_be_taken():
    """A class of two rows is tested in two of five folds by KFold's rules, never in the first.

    Of 60 draws 24 are expected, with a standard deviation of 3.8.
    """
    y = np.array([0] * 36 + [1] * 22 + [2] * 2)
    folds = StratifiedKFold(5, shuffle=True)
    splits = splits_of(folds, y[:, None], y, {}, True, np.random.RandomState(0))
    tested = [(y[splits.draw(number)[1]] == 2).any() for number in range(60)]
    assert abs(sum(tested) - 24) < 4 * 3.8


def test_a_class_too_rare_to_be_in_every_part_is_put_up_with_as_in_a_grid_search():
    X, y = IRIS
    rare = np.where(np.arange(len(y)) == 149, 3, y)
    with pytest.warns(UserWarning, match="least populated"):
        found = search(candidates={"max_depth": [1, 3]}).fit(X, rare)
    assert found.best_params_ == {"max_depth": 3}


def test_candidates_are_grids_distributions_or_settings():
    from scipy.stats import uniform

    assert len(settings_of({"a": [1, 2], "b": (3, 4)}, None, None)) == 4
    assert settings_of([{"a": 1}, {"a": 2.5}], None, None) == [{"a": 1}, {"a": 2.5}]
    assert len(settings_of(ParameterSampler({"a": [1, 2, 3]}, 2), None, None)) == 2
    drawn = settings_of({"a": uniform(), "b": [1, 2]}, 5, np.random.RandomState(0))
    assert len(drawn) == 5
    with raises(InvalidArgument, "n_candidates"):
        settings_of({"a": uniform()}, None, None)


def test_ranges_are_known_for_bounded_metrics_only():
    from sklearn.metrics import get_scorer_names

    for name in get_scorer_names():
        limits = known_range(name, TREE)
        if limits is None:
            assert name.startswith(UNBOUNDED), name
        else:
            low, high = limits
            assert (low, high) in {(0.0, 1.0), (-1.0, 1.0), (-2.0, 0.0)}
    assert known_range(None, make_pipeline(StandardScaler(), KNeighborsClassifier())) == (0.0, 1.0)
    assert known_range(None, DecisionTreeRegressor()) is None
