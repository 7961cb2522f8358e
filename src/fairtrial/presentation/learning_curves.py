"""Learning curves of a search over a model's settings: each candidate's mean score by split."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy

from fairtrial.errors import InvalidArgument
from fairtrial.presentation.sources import Floats
from fairtrial.presentation.words import clean

__all__ = [
    "LearningCurve",
    "LearningCurves",
    "SearchLike",
    "curves_of",
    "half_widths",
    "running_mean",
]


class SearchLike(Protocol):
    """A fitted search, such as `fairtrial.sklearn.RacingSearchCV`."""

    scoring: Any
    refit: bool | str
    paired: bool
    partial: Any
    multimetric_: bool
    cv_results_: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LearningCurve:
    """The scores of one candidate, in the order of the race.

    Parameters
    ----------
    name : str
        The candidate's settings, without those that all candidates share.
    status : str
        ``"best"``, ``"undecided"``, ``"rejected"``, ``"set aside"`` or ``"withdrawn"``.
    scores : ndarray of shape (splits,)
        The scores until the candidate was dropped.
    behind : ndarray of shape (splits,), optional
        By how much the best candidate was better on each split; None if candidates do not share
        their splits.
    """

    name: str
    status: str
    scores: Floats
    behind: Floats | None


@dataclass(frozen=True, slots=True)
class LearningCurves:
    """The curves of a search, the best candidate first, then those that lasted longest.

    Parameters
    ----------
    metric : str
        The name of the score.
    curves : tuple of LearningCurve
        The curves of candidates with a score.
    without_score : int
        Number of candidates without a score.
    """

    metric: str
    curves: tuple[LearningCurve, ...]
    without_score: int


def running_mean(values: Floats) -> Floats:
    """Return the mean of the first value, of the first two, and so on.

    Examples
    --------
    >>> running_mean(np.array([1.0, 3.0, 2.0])).tolist()
    [1.0, 2.0, 2.0]
    """
    mean: Floats = np.cumsum(values) / np.arange(1, len(values) + 1)
    return mean


def half_widths(values: Floats) -> Floats:
    """Return half the width of Student's 95 % interval for each running mean.

    NaN for fewer than three values.

    Examples
    --------
    >>> half_widths(np.array([1.0, 3.0, 2.0])).round(2).tolist()
    [nan, nan, 2.48]
    """
    count = np.arange(1.0, len(values) + 1)
    # Subtract the first value, so that squares of nearly equal values keep their precision.
    about = values - values[:1]
    squares = np.cumsum(about**2) - np.cumsum(about) ** 2 / count
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.sqrt(np.maximum(0.0, squares) / (count - 1.0) / count)
        half: Floats = np.where(
            count < 3, np.nan, scipy.special.stdtrit(count - 1.0, 0.975) * error
        )
    return half


def curves_of(search: SearchLike) -> LearningCurves:
    """Return the curves of a search.

    Raises
    ------
    InvalidArgument
        If the search is not fitted, or does not race.
    """
    columns = getattr(search, "cv_results_", None)
    if not isinstance(columns, Mapping) or "dropped_after" not in columns:
        raise InvalidArgument("search", "must be a RacingSearchCV after its `fit`", search)
    raced = str(search.refit) if search.multimetric_ else "score"
    table = _in_order(columns, raced)
    status = [str(one) for one in columns["status"]]
    best = table[status.index("best")]
    names = _names(columns["params"])
    is_paired = search.paired and search.partial is None
    curves = []
    for arm in np.argsort(columns[f"rank_test_{raced}"]):
        # A fit that was running when its candidate was dropped may also have given a score.
        until = columns["dropped_after"][arm]
        tried = np.flatnonzero(np.isfinite(table[arm]))[: None if np.ma.is_masked(until) else until]
        own = table[arm, tried]
        curves.append(
            LearningCurve(names[arm], status[arm], own, best[tried] - own if is_paired else None)
        )
    shown = tuple(curve for curve in curves if curve.scores.size)
    metric = search.scoring if isinstance(search.scoring, str) else raced
    return LearningCurves(metric, shown, len(curves) - len(shown))


def _in_order(columns: Mapping[str, Any], metric: str) -> Floats:
    """Return scores by candidate and split, in the order of the race.

    Splits passed by the user are listed in their given order. As candidates only ever leave the
    race, splits with more candidates came first.
    """
    splits = itertools.count()
    keys = itertools.takewhile(columns.__contains__, (f"split{at}_test_{metric}" for at in splits))
    table = np.column_stack([columns[key] for key in keys])
    order = np.argsort(-np.isfinite(table).sum(axis=0), kind="stable")
    ordered: Floats = table[:, order]
    return ordered


def _names(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the settings that differ between candidates; short names if they are unambiguous."""
    keys = list(dict.fromkeys(key for setting in settings for key in setting))
    telling = [key for key in keys if len({repr(one.get(key)) for one in settings}) > 1] or keys
    short = {key: key.rpartition("__")[2] for key in telling}
    if len(set(short.values())) < len(short):
        short = {key: key for key in telling}
    return [
        clean(", ".join(f"{short[key]}={_value(one[key])}" for key in telling if key in one))
        for one in settings
    ]


def _value(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
