"""Splits of a data set by their numbers: drawn at random without end, or those that there are."""

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
    """Return the splits that a search's `cv` stands for."""
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
        # Not every class can be in every part: then folds, which put up with it.
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

    Of the folds that a draw consists of one is taken at random.

    Parameters
    ----------
    splitter : splitter of scikit-learn
        Draws by its `random_state`.
    data : tuple
        What its `split` takes by position.
    params : dict
        What it takes by name.
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
        # Folds of one draw are not alike: a rare class may be tested in the last ones only.
        folds: list[Split] = list(splits)
        return folds[place % len(folds)]

    @property
    def overlap(self) -> float:
        """The rows tested on, divided by the rows trained on."""
        train, test = self.draw(0)
        return _size(test) / _size(train)

    def column(self, number: int) -> int:
        """Return where a split stands in a table."""
        return number


def _size(part: Any) -> int:
    """Return how many rows are chosen, by their numbers or by a mask."""
    rows = np.asarray(part)
    return int(rows.sum() if rows.dtype == bool else rows.size)


class FixedSplits:
    """The splits that there are, in random order, each once.

    Parameters
    ----------
    splits : sequence of (train, test)
    random : numpy.random.RandomState
        Gives the order.
    """

    overlap = 0.0

    def __init__(self, splits: Sequence[Split], random: Any) -> None:
        self._splits = splits
        self._order = random.permutation(len(splits))

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._splits)

    def draw(self, number: int) -> Split:
        """Return the split of that number."""
        return self._splits[self.column(number)]

    def column(self, number: int) -> int:
        """Return where a split stands in a table: its place among those that were given."""
        return int(self._order[number])
