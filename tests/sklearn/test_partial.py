import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_digits
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import SGDClassifier
from sklearn.tree import DecisionTreeClassifier

from fairtrial.errors import InvalidArgument
from fairtrial.sklearn import RacingSearchCV
from fairtrial.sklearn._partial import Steps, _Lag
from tests.messages import raises

X, Y = (part[:400] for part in load_digits(return_X_y=True))


class Climbs(ClassifierMixin, BaseEstimator):
    """Its score climbs to `top`, from far below if it is slow; a fit counts steps."""

    def __init__(self, top=0.5, slow=0.0):
        self.top = top
        self.slow = slow

    def partial_fit(self, X, y, classes=None):
        self.steps_ = getattr(self, "steps_", 0) + 1
        self.classes_ = classes
        self.noise_ = 0.02 * np.sin(1e3 * X[:, 2:5].sum())
        return self

    def fit(self, X, y):
        return self.partial_fit(X, y, np.unique(y))

    def predict(self, X):
        return np.zeros(len(X))

    def score(self, X, y, sample_weight=None):
        return self.top - self.slow * (5 - min(self.steps_, 5)) + self.noise_


def search(estimator, candidates, **given):
    return RacingSearchCV(estimator, candidates, **{"random_state": 0, **given})


def test_a_slow_learner_that_ends_best_is_not_taken_for_a_bad_one():
    candidates = [{"top": 0.6, "slow": 0.0}, {"top": 0.7, "slow": 0.1}, {"top": 0.4, "slow": 0.0}]
    found = search(Climbs(), candidates, partial=5).fit(X, Y)
    assert (found.status_, found.best_index_) == ("decided", 1)
    assert not found.guarantee_.proven
    assert any("whole fits" in assumption for assumption in found.guarantee_.assumptions)


def test_steps_are_saved_on_candidates_that_are_out():
    candidates = [{"top": top} for top in (0.3, 0.4, 0.5, 0.52, 0.54)]
    found = search(Climbs(), candidates, partial=5, delta=0.01).fit(X, Y)
    assert found.status_ == "decided"
    assert found.n_steps_ >= 5 * found.n_pulls_
    assert found.cv_results_["n_splits"].sum() == found.n_pulls_


@pytest.mark.parametrize(
    ("estimator", "partial", "candidates", "best"),
    [
        (SGDClassifier(random_state=0), 3, {"alpha": [1e-4, 1e3]}, {"alpha": 1e-4}),
        (
            GradientBoostingClassifier(max_depth=1, random_state=0),
            {"n_estimators": [2, 4, 6]},
            {"learning_rate": [1e-3, 0.5]},
            {"learning_rate": 0.5},
        ),
    ],
    ids=["partial_fit", "warm_start"],
)
def test_real_estimators_are_fitted_step_by_step(estimator, partial, candidates, best):
    found = search(estimator, candidates, partial=partial, max_pulls=60).fit(X[:200], Y[:200] > 4)
    assert found.best_params_ == best
    assert found.predict(X).shape == (400,)


def test_the_result_does_not_depend_on_the_number_of_processes():
    one, two = (
        search(SGDClassifier(random_state=0), {"alpha": [1e-3, 1e2]}, partial=3, n_jobs=jobs).fit(
            X, Y
        )
        for jobs in (1, 2)
    )
    assert (one.n_steps_, one.n_pulls_, one.best_score_) == (
        two.n_steps_,
        two.n_pulls_,
        two.best_score_,
    )


def test_a_warm_start_goes_on_where_it_was():
    steps = Steps({"n_estimators": [2, 5]}, GradientBoostingClassifier(random_state=0))
    model = steps.start({"max_depth": 1})
    for step in range(2):
        steps.advance(model, step, X, Y > 4)
    whole = GradientBoostingClassifier(max_depth=1, n_estimators=5, random_state=0).fit(X, Y > 4)
    np.testing.assert_allclose(model.decision_function(X), whole.decision_function(X))


@pytest.mark.parametrize(
    ("estimator", "partial", "candidates", "steps"),
    [
        (GradientBoostingClassifier(max_depth=1), {"n_estimators": [2, 4]},
         {"learning_rate": [1e-3, 0.5]}, {"n_estimators_": 4}),
        (Climbs(), 5, [{"top": 0.3}, {"top": 0.6}], {"steps_": 5}),
    ],
    ids=["warm_start", "partial_fit"],
)  # fmt: skip
def test_the_best_estimator_takes_the_steps_that_were_raced(estimator, partial, candidates, steps):
    found = search(estimator, candidates, partial=partial, tolerance=0.1).fit(X[:200], Y[:200] > 4)
    assert {name: getattr(found.best_estimator_, name) for name in steps} == steps
    assert not getattr(found.best_estimator_, "warm_start", False)


def test_a_setting_that_grows_is_not_raced_too():
    raced = search(
        GradientBoostingClassifier(), {"n_estimators": [2, 4]}, partial={"n_estimators": [2, 4]}
    )
    with raises(InvalidArgument, "partial"):
        raced.fit(X, Y)


def test_what_is_still_to_come_is_the_candidates_own():
    lag = _Lag(candidates=2, steps=2)
    for final in (0.5, 0.7):
        lag.add(0, [0.2, final])
        lag.add(1, [final - 0.1, final])
    value, deviation = lag.forecast(0, 0, 0.3)
    assert value == pytest.approx(0.3 + 0.4)
    # The pooled variance: squares 2 * 0.1^2 and 0 over two degrees of freedom.
    assert deviation == pytest.approx(np.sqrt(0.01 * 1.5))
    assert lag.forecast(1, 0, 0.3)[0] == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("estimator", "partial"),
    [
        (DecisionTreeClassifier(), 3),
        (SGDClassifier(), 1),
        (SGDClassifier(), {"max_iter": [1, 2], "tol": [1, 2]}),
        (SGDClassifier(), {"max_iter": [2, 1]}),
        (SGDClassifier(), {"max_iter": [2]}),
        (SGDClassifier(), {"max_iter": 2}),
        (DecisionTreeClassifier(), {"max_depth": [1, 2]}),
    ],
    ids=[
        "no partial_fit",
        "one step",
        "two settings",
        "falling",
        "one value",
        "no list",
        "no warm start",
    ],
)
def test_steps_that_cannot_be_taken_are_refused(estimator, partial):
    with raises(InvalidArgument, "partial", given=partial):
        search(estimator, [{}, {}], partial=partial).fit(X, Y)


def test_what_steps_cannot_carry_is_refused():
    raced = search(SGDClassifier(), {"alpha": [1, 2]}, partial=2)
    with raises(InvalidArgument, "params"):
        raced.fit(X, Y, sample_weight=np.ones(400))
    with raises(InvalidArgument, "scoring"):
        raced.set_params(scoring=["accuracy"], refit="accuracy").fit(X, Y)


def test_warnings_of_a_race_that_cannot_decide_come_as_ever():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        search(Climbs(), [{"top": 0.5}, {"top": 0.5}], partial=2, max_pulls=30).fit(X, Y)
    assert any("undecided after" in str(warning.message) for warning in seen)
