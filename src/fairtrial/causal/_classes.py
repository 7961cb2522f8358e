"""Classes of cells with the same mean outcome by the graph, and estimates of these means."""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

STRENGTHS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, math.inf)
"""Candidates for the number of rows of the overall mean to mix with a class's own mean."""


class Classes(NamedTuple):
    """The number of classes, and the class of every cell, shape (cells,)."""

    number: int
    of_cell: Integers


class ClassMeans:
    """The classes' mean outcomes, shrunk towards the overall mean.

    The strength of the shrinkage is chosen by leave-one-out: the number of rows of the overall mean
    that predicts every row's outcome best from the other rows. With infinitely many, every class's
    mean becomes the overall mean.

    Parameters
    ----------
    numbers, totals, squares : ndarray of shape (classes,)
        Number of rows, sum of their outcomes and sum of the squared outcomes.
    """

    def __init__(self, numbers: Floats, totals: Floats, squares: Floats) -> None:
        self._numbers = numbers
        self._totals = totals
        self._squares = squares
        self._overall = float(totals.sum() / max(numbers.sum(), 1.0))
        errors = [self._error(strength) for strength in STRENGTHS]
        self._strength = STRENGTHS[int(np.argmin(errors))]

    def _error(self, strength: float) -> float:
        """Return the sum of squared differences between each row and the mean of the other rows."""
        mean = self._mixed(strength)
        spread = self._squares - 2.0 * mean * self._totals + self._numbers * mean**2
        return float((_stretch(self._numbers, strength) ** 2 * spread).sum())

    def _mixed(self, strength: float) -> Floats:
        if math.isinf(strength):
            return np.full_like(self._numbers, self._overall)
        total = self._totals + strength * self._overall
        return np.asarray(total / (self._numbers + strength))

    @cached_property
    def means(self) -> Floats:
        """Mean outcome by class, using all rows, shape (classes,)."""
        return self._mixed(self._strength)

    @cached_property
    def stretch(self) -> Floats:
        """Distance of a row from the other rows' mean over its distance from the full mean."""
        return _stretch(self._numbers, self._strength)

    @cached_property
    def share(self) -> Floats:
        """Shift of the full mean by a row, over the row's distance from the other rows' mean."""
        return np.asarray(1.0 / (self._numbers + self._strength))


def _stretch(numbers: Floats, strength: float) -> Floats:
    if math.isinf(strength):
        return np.ones_like(numbers)
    rows = np.maximum(numbers, 1.0)
    return np.asarray((rows + strength) / (rows - 1.0 + strength))
