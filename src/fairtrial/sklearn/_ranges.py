"""The ranges of scikit-learn's own metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, is_classifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline

from fairtrial.errors import InvalidArgument

__all__ = ["known_range", "range_of"]

_UNIT = (
    "accuracy",
    "average_precision",
    "balanced_accuracy",
    "completeness_score",
    "f1",
    "homogeneity_score",
    "jaccard",
    "normalized_mutual_info_score",
    "precision",
    "rand_score",
    "recall",
    "roc_auc",
    "top_k_accuracy",
    "v_measure_score",
)
_AVERAGES = ("macro", "micro", "ovo", "ovo_weighted", "ovr", "ovr_weighted", "samples", "weighted")
_RANGES = dict.fromkeys(_UNIT, (0.0, 1.0)) | {
    "matthews_corrcoef": (-1.0, 1.0),
    "neg_brier_score": (-2.0, 0.0),
}


def range_of(given: Any, scoring: Any, refit: Any, estimator: Any) -> tuple[float, float] | None:
    """Return the range that a search's `score_range` means; None if it is not known."""
    if isinstance(given, str) and given == "auto":
        if isinstance(scoring, Mapping):
            return known_range(scoring.get(refit), estimator)
        return known_range(refit if isinstance(scoring, list | tuple | set) else scoring, estimator)
    if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray):
        raise InvalidArgument("score_range", "must be 'auto' or two numbers", given)
    if len(given) != 2 or not given[0] < given[1]:
        raise InvalidArgument("score_range", "must be two numbers, low < high", given)
    return given[0], given[1]


def known_range(scoring: Any, estimator: Any) -> tuple[float, float] | None:
    """Return the range of a metric with a known name, or of a classifier's own score; else None.

    Examples
    --------
    >>> known_range("f1_macro", None), known_range("r2", None)
    ((0.0, 1.0), None)
    """
    if isinstance(scoring, str):
        name, _, average = scoring.partition("_") if scoring not in _RANGES else (scoring, "", "")
        for known in _UNIT:
            if scoring.startswith(f"{known}_"):
                name, average = known, scoring.removeprefix(f"{known}_")
        return _RANGES.get(name) if not average or average in _AVERAGES else None
    return (0.0, 1.0) if scoring is None and _scores_by_accuracy(estimator) else None


def _scores_by_accuracy(estimator: Any) -> bool:
    while isinstance(estimator, Pipeline):
        estimator = estimator.steps[-1][1]
    own = getattr(type(estimator), "score", None)
    return is_classifier(estimator) and own in (ClassifierMixin.score, KNeighborsClassifier.score)
