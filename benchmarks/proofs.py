"""What a proof costs `RacingSearchCV`: races replayed on recorded splits of four data sets."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.model_selection import GridSearchCV, StratifiedShuffleSplit
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from benchmarks.search import GRID, MODEL
from fairtrial.delayed import PairedRacing, Problem

TREES = {"max_depth": [1, 2, 3, 4, 5, 6, 7, 8], "min_samples_leaf": [1, 5]}
NEIGHBOURS = {"n_neighbors": [1, 3, 5, 9, 15, 25]}
DEFAULT_CAP, CAP = 50, 200
"""Most splits for every candidate."""


def run(*, quick: bool) -> None:
    print(
        "\nfits for every candidate until a proof (on average; of races that ended undecided, all)"
    )
    print(f"{'data, candidates':<30}{'within':>8}{'fits':>7}{'decided':>9}{'wrong':>7}", end="")
    print(f"{f'decided at {DEFAULT_CAP}':>15}{'shortfall then':>16}")
    for name, scores in _recorded(60 if quick else 300):
        for tolerance in (0.02, 0.05):
            _race(name, scores, tolerance, races=2 if quick else 5)


def _recorded(splits: int) -> Any:
    """Yield scores of every candidate on random splits, shape (splits, candidates), by data."""
    digits, classes = load_digits(return_X_y=True)
    some = np.random.default_rng(0).permutation(len(classes))[:400]
    tree = DecisionTreeClassifier(random_state=0)
    for name, data, model, grid in [
        ("wine, 16 trees", load_wine(return_X_y=True), tree, TREES),
        ("breast cancer, 16 SVC", load_breast_cancer(return_X_y=True), MODEL, GRID),
        ("digits, 400 rows, 16 SVC", (digits[some], classes[some]), MODEL, GRID),
        ("iris, 6 neighbours", load_iris(return_X_y=True), KNeighborsClassifier(), NEIGHBOURS),
    ]:
        cv = StratifiedShuffleSplit(splits, test_size=0.2, random_state=0)
        table = GridSearchCV(model, grid, cv=cv, refit=False, n_jobs=2).fit(*data).cv_results_
        yield name, np.array([table[f"split{split}_test_score"] for split in range(splits)])


def _race(name: str, scores: np.ndarray, tolerance: float, races: int) -> None:
    splits, candidates = scores.shape
    means, fits, decided, wrong, early, short = scores.mean(axis=0), [], [], [], [], []
    for seed in range(races):
        order = np.random.default_rng(seed).permutation(splits)
        policy = _raced(scores[order], tolerance, CAP)
        answer = policy.recommend()
        fits.append(policy.told / candidates)
        decided.append(answer.decided)
        if answer.decided:
            wrong.append(means.max() - means[int(answer.arm)] > tolerance)
        capped = _raced(scores[order], tolerance, DEFAULT_CAP)
        early.append(capped.recommend().decided)
        short.append(capped.shortfall)
    print(
        f"{name:<30}{tolerance:>8}{np.mean(fits):>7.0f}{np.mean(decided):>9.0%}{sum(wrong):>7}"
        f"{np.mean(early):>15.0%}{np.mean(short):>16.3f}",
        flush=True,
    )


def _raced(scores: np.ndarray, tolerance: float, cap: int) -> PairedRacing:
    """Return a race of that many fits for every candidate at most, on splits in their order."""
    splits, candidates = scores.shape
    problem = Problem(candidates, reward_range=(0.0, 1.0), tolerance=tolerance)
    policy = PairedRacing(problem, max_pulls=cap * candidates)
    while not policy.stopped and (policy.blocks < splits):
        for pull in policy.ask(1):
            policy.tell(pull, scores[pull.tag, pull.action])
    return policy
