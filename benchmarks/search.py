"""Compare searches with equal numbers of fits: how often each finds the best, and the loss.

Scores are recorded once, for all candidates on the same random splits; their means are the truth.
`GridSearchCV` on random splits, `RacingSearchCV` and Optuna then look up scores instead of fitting,
each on new draws from the recorded splits. Searches with folds and halving fit models.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import optuna
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.experimental import enable_halving_search_cv  # noqa: F401 - defines the next import
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    KFold,
    StratifiedKFold,
)

from benchmarks.recording import QUESTIONS, Question, record
from fairtrial.sklearn import RacingSearchCV

COMPARED = (
    "breast cancer, SVC",
    "digits 3 and 8, logistic",
    "wine, trees",
    "friedman1, trees, squared error",
)
FEW, MANY = 5, 25
"""Numbers of splits per candidate in searches without a race."""
PRUNED = 12
"""Approximate mean number of splits per candidate after which Optuna prunes."""

Table = NDArray[np.float64]


@dataclass(frozen=True)
class Found:
    """The choice of a search, and the number of its fits."""

    candidate: int
    fits: int


Search = Callable[[int], Found]


def run(*, quick: bool) -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    searches = 2 if quick else 60
    for name in COMPARED[-2:] if quick else COMPARED:
        question = QUESTIONS[name]
        table = record(question, 50 if quick else 600)
        truth = np.sort(table.mean(axis=0))[::-1]
        print(
            f"\n{name}, {len(truth)} candidates, {searches} searches each; best {truth[0]:.4f}, "
            f"second {truth[1]:.4f}, third {truth[2]:.4f}, worst {truth[-1]:.4f}\n"
            f"{'search':<42}{'fits':>7}{'wrong winners':>15}{'lacks':>9}{'most':>9}"
        )
        for title, search in _searches(question, table).items():
            _compare(title, search, table.mean(axis=0), searches)


def _searches(question: Question, table: Table) -> dict[str, Search]:
    arms = table.shape[1]
    return {
        f"GridSearchCV, {FEW} folds": lambda seed: _folds(question, seed),
        f"RacingSearchCV, {FEW} x {arms} fits": lambda seed: _race(table, seed, FEW * arms),
        "HalvingGridSearchCV": lambda seed: _halving(question, seed),
        f"GridSearchCV, {MANY} splits": lambda seed: _grid(table, seed),
        f"Optuna, WilcoxonPruner, {MANY} splits": lambda seed: _wilcoxon(table, seed),
        f"RacingSearchCV, {PRUNED} x {arms} fits": lambda seed: _race(table, seed, PRUNED * arms),
        f"RacingSearchCV, {MANY} x {arms} fits": lambda seed: _race(table, seed, MANY * arms),
        "RacingSearchCV, default": lambda seed: _race(table, seed, None),
    }


def _compare(title: str, search: Search, truth: Table, searches: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [search(seed) for seed in range(searches)]
    lacks = np.array([truth.max() - truth[one.candidate] for one in found])
    print(
        f"{title:<42}{np.mean([one.fits for one in found]):>7.0f}"
        f"{np.mean(lacks > 0.0):>15.0%}{lacks.mean():>9.4f}{lacks.max():>9.4f}",
        flush=True,
    )


# ------------------------------------------------------------------- searches that look up


class Recorded(BaseEstimator):
    """A model that is already fitted: its score on a split is looked up.

    Parameters
    ----------
    table : ndarray of shape (splits, candidates), optional
    candidate : int
    """

    def __init__(self, table: Table | None = None, candidate: int = 0) -> None:
        self.table = table
        self.candidate = candidate

    def fit(self, X: Table, y: Any = None) -> Recorded:
        """Do nothing, because the scores are already recorded."""
        return self

    def score(self, X: Table, y: Any = None) -> float:
        """Return the score on the split whose number is the only row."""
        assert self.table is not None
        return float(self.table[int(X[0, 0]), self.candidate])


@dataclass
class RecordedSplits:
    """Random recorded splits: each has one row, the number of the split."""

    n_splits: int = MANY
    random_state: int | None = None

    def split(self, X: Table, y: Any = None, groups: Any = None) -> Iterator[Any]:
        """Yield independent draws."""
        for row in np.random.default_rng(self.random_state).integers(len(X), size=self.n_splits):
            yield np.array([row]), np.array([row])

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of draws."""
        return self.n_splits


def _looked_up(table: Table) -> tuple[Recorded, dict[str, list[int]], Table]:
    rows = np.arange(len(table), dtype=float)[:, None]
    return Recorded(table), {"candidate": list(range(table.shape[1]))}, rows


def _grid(table: Table, seed: int) -> Found:
    model, candidates, rows = _looked_up(table)
    found = GridSearchCV(model, candidates, cv=RecordedSplits(MANY, seed), refit=False).fit(rows)
    return Found(int(found.best_index_), MANY * table.shape[1])


def _race(table: Table, seed: int, fits: int | None) -> Found:
    model, candidates, rows = _looked_up(table)
    cv = RecordedSplits(1)
    found = RacingSearchCV(model, candidates, cv=cv, max_pulls=fits, random_state=seed).fit(rows)
    return Found(int(found.best_index_), int(found.n_pulls_))


def _wilcoxon(table: Table, seed: int) -> Found:
    """Return the result of Optuna: a candidate is a trial, a split is a step."""
    random = np.random.default_rng(seed)
    scores = table[random.integers(len(table), size=MANY)]
    # Ties are broken at random, because SciPy's test enumerates all 8,192 signs of up to 13 tied
    # values, and a search would take 30 seconds.
    scores = scores + 1e-9 * random.normal(size=scores.shape)
    fits = 0

    def objective(trial: optuna.Trial) -> float:
        nonlocal fits
        candidate = trial.suggest_int("candidate", 0, table.shape[1] - 1)
        seen: list[float] = []
        # In random order, and with the mean as the value of a stopped trial, as its documentation
        # recommends.
        for split in random.permutation(MANY).tolist():
            fits += 1
            seen.append(float(scores[split, candidate]))
            trial.report(seen[-1], split)
            if trial.should_prune():
                break
        return float(np.mean(seen))

    study = optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.GridSampler({"candidate": list(range(table.shape[1]))}, seed=seed),
        pruner=optuna.pruners.WilcoxonPruner(),
    )
    study.optimize(objective, n_trials=table.shape[1])
    return Found(int(study.best_params["candidate"]), fits)


# ----------------------------------------------------------------------- searches that fit


def _folds(question: Question, seed: int) -> Found:
    cv = _shuffled(question, seed)
    found = GridSearchCV(
        question.model, dict(question.grid), scoring=question.scoring, cv=cv, refit=False
    ).fit(*question.load())
    return Found(int(found.best_index_), FEW * len(found.cv_results_["params"]))


def _halving(question: Question, seed: int) -> Found:
    found = HalvingGridSearchCV(
        question.model,
        dict(question.grid),
        scoring=question.scoring,
        cv=_shuffled(question, seed),
        refit=False,
        random_state=seed,
    ).fit(*question.load())
    settings = found.cv_results_["params"]
    # Every round has each of its settings once; the first round has all of them.
    return Found(settings.index(found.best_params_), int(found.n_splits_ * len(settings)))


def _shuffled(question: Question, seed: int) -> Any:
    kind = StratifiedKFold if question.is_classifier else KFold
    return kind(FEW, shuffle=True, random_state=seed)
