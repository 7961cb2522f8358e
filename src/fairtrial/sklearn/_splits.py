"""Numbered splits of a data set: drawn at random without end, or given as a list."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import (
    BaseShuffleSplit,
    ShuffleSplit,
    StratifiedKFold,
    StratifiedShuffleSplit,
)
from sklearn.utils.multiclass import type_of_target

from fairtrial.core.validation import check_integer
from fairtrial.errors import InvalidArgument

__all__ = ["FixedSplits", "RandomSplits", "Split", "splits_of"]

Split = tuple[NDArray[np.intp], NDArray[np.intp]]

_FOLDS = 5


def splits_of(
    cv: Any, X: Any, y: Any, params: dict[str, Any], classifier: bool, random: Any
) -> RandomSplits | FixedSplits:
    """Return the splits that a search's `cv` means."""
    if cv is None or isinstance(cv, int | np.integer):
        return RandomSplits(_shuffler(cv, y, classifier), (X, y), params, random)
    if not hasattr(cv, "split") or isinstance(cv, str):
        return FixedSplits(_listed(cv), random)
    if hasattr(cv, "random_state") and getattr(cv, "shuffle", True):
        return RandomSplits(cv, (X, y), params, random)
    return FixedSplits(list(cv.split(X, y, **params)), random)


def _shuffler(cv: Any, y: Any, classifier: bool) -> Any:
    folds = _FOLDS if cv is None else check_integer("cv", cv, low=2)
    stratify = classifier and y is not None and type_of_target(y) in ("binary", "multiclass")
    if not stratify:
        return ShuffleSplit(test_size=1.0 / folds)
    members = np.unique(y, return_counts=True)[1]
    if members.min() < 2 or math.ceil(len(y) / folds) < len(members):
        # Not every class can be in every part: then use folds, which allow this.
        return StratifiedKFold(folds, shuffle=True)
    return StratifiedShuffleSplit(test_size=1.0 / folds)


def _listed(cv: Any) -> list[Split]:
    splits = list(cv) if isinstance(cv, Iterable) and not isinstance(cv, str) else []
    if not splits or not all(isinstance(split, Sequence) and len(split) == 2 for split in splits):
        raise InvalidArgument(
            "cv", "must be an integer of at least 2, a splitter, or pairs (train, test)", cv
        )
    return splits


class RandomSplits:
    """Independent draws of one kind of split; the same number gives the same split.

    If a draw consists of several folds, one is chosen at random.

    Parameters
    ----------
    splitter : splitter of scikit-learn
        Draws with its `random_state`.
    data : tuple
        Positional arguments of its `split`.
    params : dict
        Keyword arguments of its `split`.
    random : numpy.random.RandomState
        Gives the seed of all draws.
    """

    count = None

    def __init__(self, splitter: Any, data: Any, params: dict[str, Any], random: Any) -> None:
        self._splitter = splitter
        self._data = data
        self._params = params
        self._seed = int(random.randint(2**31 - 1))
        self._newest: tuple[int, Split] | None = None

    def draw(self, number: int) -> Split:
        """Return the split of that number."""
        if self._newest is None or self._newest[0] != number:
            stream = np.random.SeedSequence(self._seed, spawn_key=(number,))
            self._newest = number, self._drawn(*stream.generate_state(2).tolist())
        return self._newest[1]

    def _drawn(self, seed: int, place: int) -> Split:
        splitter = copy(self._splitter)
        splitter.random_state = seed
        splits = splitter.split(*self._data, **self._params)
        if isinstance(splitter, BaseShuffleSplit):
            first: Split = next(iter(splits))
            return first
        # Folds of one draw differ: a rare class may be tested only in the last ones.
        folds: list[Split] = list(splits)
        return folds[place % len(folds)]

    @property
    def overlap(self) -> float:
        """The number of test rows divided by the number of training rows."""
        train, test = self.draw(0)
        return _size(test) / _size(train)

    def column(self, number: int) -> int:
        """Return the column of a split in a table."""
        return number


def _size(part: Any) -> int:
    """Return the number of chosen rows, given as numbers or as a mask."""
    rows = np.asarray(part)
    return int(rows.sum() if rows.dtype == bool else rows.size)


class FixedSplits:
    """A limited number of splits, in random order, each once.

    Parameters
    ----------
    splits : sequence of (train, test)
    random : numpy.random.RandomState
        Determines the order.
    """

    overlap = 0.0

    def __init__(self, splits: Sequence[Split], random: Any) -> None:
        self._splits = splits
        self._order = random.permutation(len(splits))

    @property
    def count(self) -> int:
        """Number of splits."""
        return len(self._splits)

    def draw(self, number: int) -> Split:
        """Return the split of that number."""
        return self._splits[self.column(number)]

    def column(self, number: int) -> int:
        """Return the column of a split in a table: its place among the given splits."""
        return int(self._order[number])
