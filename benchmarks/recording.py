"""Model selection problems, and tables of scores of all candidates on the same splits."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    load_wine,
    make_classification,
    make_friedman1,
    make_moons,
)
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier
from sklearn.model_selection import (
    GridSearchCV,
    ShuffleSplit,
    StratifiedShuffleSplit,
)
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

__all__ = ["QUESTIONS", "Question", "record", "some_digits"]

Table = NDArray[np.float64]
Data = tuple[NDArray[Any], NDArray[Any]]


@dataclass(frozen=True)
class Question:
    """The question of which settings of a model are the best on some data.

    Parameters
    ----------
    load : callable
        Returns the data.
    model, grid
        The model to fit, and its candidate settings.
    scoring : str, optional
        Name of the score; by default the model's own score.
    test_size : float
        The share of rows in the test set of a split.
    """

    load: Callable[[], Data]
    model: Any
    grid: Mapping[str, list[Any]]
    scoring: str | None = None
    test_size: float = 0.2

    @property
    def is_classifier(self) -> bool:
        """Return whether splits are stratified."""
        return bool(is_classifier(self.model))


def record(question: Question, splits: int, seed: int = 0) -> Table:
    """Return the score of every candidate on every split, shape (splits, candidates)."""
    kind = StratifiedShuffleSplit if question.is_classifier else ShuffleSplit
    cv = kind(splits, test_size=question.test_size, random_state=seed)
    search = GridSearchCV(
        question.model, dict(question.grid), scoring=question.scoring, cv=cv, refit=False
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = search.fit(*question.load()).cv_results_
    return np.array([table[f"split{split}_test_score"] for split in range(splits)])


def some_digits() -> Data:
    X, y = load_digits(return_X_y=True)
    some = np.random.default_rng(0).permutation(len(y))[:400]
    return X[some], y[some]


def _pair_of_digits() -> Data:
    X, y = load_digits(return_X_y=True)
    chosen = (y == 3) | (y == 8)
    return X[chosen], y[chosen]


def _products_of_diabetes() -> Data:
    """Return 100 rows with 65 features; fits to 80 of them are sometimes very bad."""
    X, y = load_diabetes(return_X_y=True)
    return PolynomialFeatures(2, include_bias=False).fit_transform(X[:100]), y[:100]


def _friedman_with_outliers() -> Data:
    X, y = make_friedman1(200, noise=1.0, random_state=0)
    random = np.random.default_rng(0)
    return X, y + np.where(random.random(200) < 0.03, 60.0 * random.normal(size=200), 0.0)


def _scaled(model: Any) -> Any:
    return make_pipeline(StandardScaler(), model)


QUESTIONS = {
    "breast cancer, SVC": Question(
        partial(load_breast_cancer, return_X_y=True),
        _scaled(SVC()),
        {"svc__C": [0.1, 1.0, 10.0, 100.0], "svc__gamma": [0.0003, 0.001, 0.003, 0.01]},
    ),
    "digits, 400 rows, k-NN": Question(
        some_digits,
        KNeighborsClassifier(),
        {"n_neighbors": [1, 2, 3, 5, 9, 15], "weights": ["uniform", "distance"]},
    ),
    "digits 3 and 8, logistic": Question(
        _pair_of_digits,
        _scaled(LogisticRegression(max_iter=1000)),
        {"logisticregression__C": np.logspace(-4, 3, 8).tolist()},
    ),
    "wine, trees": Question(
        partial(load_wine, return_X_y=True),
        DecisionTreeClassifier(random_state=0),
        {"max_depth": [1, 2, 3, 4, 5, 6, 7, 8], "min_samples_leaf": [1, 5]},
    ),
    "iris, k-NN": Question(
        partial(load_iris, return_X_y=True),
        KNeighborsClassifier(),
        {"n_neighbors": [1, 3, 5, 9, 15, 25]},
    ),
    "diabetes, ridge": Question(
        partial(load_diabetes, return_X_y=True),
        _scaled(Ridge()),
        {"ridge__alpha": np.logspace(-2, 4, 10).tolist()},
    ),
    "noisy labels, forests": Question(
        partial(make_classification, 200, 10, n_informative=4, flip_y=0.2, random_state=0),
        RandomForestClassifier(10, random_state=0),
        {"max_depth": [1, 2, 4, 8], "max_features": [0.3, 1.0]},
    ),
    "moons, SVC, tests on 10 rows": Question(
        partial(make_moons, 200, noise=0.3, random_state=0),
        SVC(),
        {"gamma": np.logspace(-2, 2, 8).tolist()},
        test_size=0.05,
    ),
    "friedman1, trees, squared error": Question(
        partial(make_friedman1, 200, noise=1.0, random_state=0),
        DecisionTreeRegressor(random_state=0),
        {"max_depth": [2, 3, 4, 6, 8], "min_samples_leaf": [1, 5]},
        scoring="neg_mean_squared_error",
    ),
    "outliers, k-NN, squared error": Question(
        _friedman_with_outliers,
        KNeighborsRegressor(),
        {"n_neighbors": [1, 2, 3, 5, 8, 12, 20, 40]},
        scoring="neg_mean_squared_error",
    ),
    "breast cancer, k-NN, log loss": Question(
        partial(load_breast_cancer, return_X_y=True),
        KNeighborsClassifier(),
        {"n_neighbors": [1, 3, 5, 9, 15, 25, 40]},
        scoring="neg_log_loss",
    ),
    "rare class, logistic, F1": Question(
        partial(make_classification, 300, 10, weights=[0.93], flip_y=0.02, random_state=0),
        LogisticRegression(),
        {"C": [0.01, 0.1, 1.0, 10.0], "class_weight": [None, "balanced"]},
        scoring="f1",
    ),
    "breast cancer, unscaled SGD": Question(
        partial(load_breast_cancer, return_X_y=True),
        SGDClassifier(learning_rate="constant", max_iter=5, tol=None, random_state=0),
        {"eta0": [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1]},
    ),
    "diabetes, 65 features, ridge": Question(
        _products_of_diabetes,
        _scaled(Ridge()),
        {"ridge__alpha": np.logspace(-8, 2, 6).tolist()},
    ),
}
