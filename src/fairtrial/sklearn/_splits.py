"""Random splits of a data set, each by its number."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit
from sklearn.utils.multiclass import type_of_target

from fairtrial.core.validation import check_integer
from fairtrial.errors import InvalidArgument

__all__ = ["RandomSplits"]

Split = tuple[NDArray[np.intp], NDArray[np.intp]]

_FOLDS = 5


class RandomSplits:
    """Independent draws of one kind of split; the same number gives the same split.

    Parameters
    ----------
    splitter : splitter of scikit-learn
        Draws by its `random_state`.
    data : tuple
        What its `split` takes by position.
    params : dict
        What it takes by name.
    seed : int
        Of all draws.
    """

    def __init__(self, splitter: Any, data: Any, params: dict[str, Any], seed: int) -> None:
        self._splitter = splitter
        self._data = data
        self._params = params
        self._seed = seed
        self._newest: tuple[int, Split] | None = None

    @classmethod
    def of(
        cls,
        cv: Any,
        X: Any,
        y: Any,
        params: dict[str, Any],
        classifier: bool,
        random: Any,
    ) -> RandomSplits:
        """Return the splits that a search's `cv` stands for."""
        return cls(_splitter(cv, y, classifier), (X, y), params, int(random.randint(2**31 - 1)))

    def draw(self, number: int) -> Split:
        """Return the split of that number."""
        if self._newest is None or self._newest[0] != number:
            stream = np.random.SeedSequence(self._seed, spawn_key=(number,))
            splitter = copy(self._splitter)
            splitter.random_state = int(stream.generate_state(1)[0])
            self._newest = number, next(iter(splitter.split(*self._data, **self._params)))
        return self._newest[1]


def _splitter(cv: Any, y: Any, classifier: bool) -> Any:
    if cv is None or isinstance(cv, int | np.integer):
        folds = _FOLDS if cv is None else check_integer("cv", cv, low=2)
        stratify = classifier and y is not None and type_of_target(y) in ("binary", "multiclass")
        return (StratifiedShuffleSplit if stratify else ShuffleSplit)(test_size=1.0 / folds)
    draws = hasattr(cv, "split") and hasattr(cv, "random_state") and getattr(cv, "shuffle", True)
    if not draws:
        raise InvalidArgument(
            "cv",
            "must be an integer of at least 2, or a splitter that draws at random, such as "
            "ShuffleSplit, GroupShuffleSplit or KFold(shuffle=True)",
            cv,
        )
    return cv
