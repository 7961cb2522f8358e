"""Searches side by side: fits, seconds, and how often each takes the truly best candidate."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.experimental import enable_halving_search_cv  # noqa: F401 - defines the next import
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    StratifiedKFold,
    StratifiedShuffleSplit,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from fairtrial.sklearn import RacingSearchCV

GRID = {"svc__C": [0.1, 1.0, 10.0, 100.0], "svc__gamma": [0.0003, 0.001, 0.003, 0.01]}
MODEL = make_pipeline(StandardScaler(), SVC())

Search = Callable[[int], Any]


def run(*, quick: bool) -> None:
    digits, classes = load_digits(return_X_y=True)
    some = np.random.default_rng(0).permutation(len(classes))[:400]
    data = {
        "breast_cancer": load_breast_cancer(return_X_y=True),
        "digits, 400 rows": (digits[some], classes[some]),
    }
    for name, (X, y) in data.items():
        truth = _truth(X, y, splits=40 if quick else 400)
        best = max(truth.values())
        print(f"\n{name}, 16 candidates; best {best:.4f}, worst {min(truth.values()):.4f}")
        print(f"{'search':<40}{'fits':>7}{'seconds':>9}{'best':>7}{'lacks':>9}{'decided':>9}")
        for title, search in _searches().items():
            _compare(title, search, X, y, truth, repetitions=2 if quick else 20)


def _searches() -> dict[str, Search]:
    racing = partial(RacingSearchCV, MODEL, GRID)
    return {
        "GridSearchCV, 5 folds": lambda seed: GridSearchCV(
            MODEL, GRID, cv=StratifiedKFold(5, shuffle=True, random_state=seed)
        ),
        "GridSearchCV, 25 splits": lambda seed: GridSearchCV(
            MODEL, GRID, cv=StratifiedShuffleSplit(25, test_size=0.2, random_state=seed)
        ),
        "HalvingGridSearchCV": lambda seed: HalvingGridSearchCV(
            MODEL, GRID, cv=StratifiedKFold(5, shuffle=True, random_state=seed), random_state=seed
        ),
        "RacingSearchCV, calibrated, within .005": lambda seed: racing(
            tolerance=0.005, random_state=seed
        ),
        "RacingSearchCV, proven, within .03": lambda seed: racing(
            guarantee="proven", tolerance=0.03, max_pulls=1600, random_state=seed
        ),
    }


def _truth(X: Any, y: Any, splits: int) -> dict[tuple[float, ...], float]:
    """Return every candidate's mean over many splits, by its settings."""
    search = GridSearchCV(
        MODEL,
        GRID,
        cv=StratifiedShuffleSplit(splits, test_size=0.2, random_state=10**6),
        refit=False,
    ).fit(X, y)
    table = search.cv_results_
    return {
        _key(setting): mean
        for setting, mean in zip(table["params"], table["mean_test_score"], strict=True)
    }


def _key(setting: dict[str, float]) -> tuple[float, ...]:
    return tuple(setting[name] for name in sorted(setting))


def _fits(found: Any) -> int:
    if isinstance(found, RacingSearchCV):
        return int(found.n_pulls_)
    return int(found.n_splits_ * len(found.cv_results_["params"]))


def _compare(
    title: str,
    search: Search,
    X: Any,
    y: Any,
    truth: dict[tuple[float, ...], float],
    repetitions: int,
) -> None:
    fits, seconds, lacks, decided = [], [], [], []
    for seed in range(repetitions):
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = search(seed).fit(X, y)
        seconds.append(time.process_time() - began)
        fits.append(_fits(found))
        lacks.append(max(truth.values()) - truth[_key(found.best_params_)])
        decided.append(getattr(found, "status_", "") == "decided")
    share = f"{np.mean(decided):>8.0%}" if isinstance(found, RacingSearchCV) else "        -"
    print(
        f"{title:<40}{np.mean(fits):>7.0f}{np.mean(seconds):>9.1f}"
        f"{np.mean(np.array(lacks) == 0.0):>7.0%}{np.mean(lacks):>9.4f}{share:>9}",
        flush=True,
    )
