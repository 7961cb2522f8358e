"""Cells that have the same mean outcome by the graph, and those means as the rows tell them."""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

STRENGTHS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, math.inf)
"""How many rows of the overall mean a class's own mean may be mixed with."""


class Classes(NamedTuple):
    """Their number, and which of them every cell is in, shape (cells,)."""

    number: int
    of_cell: Integers


class ClassMeans:
    """The classes' mean outcomes, mixed with the overall mean.

    How strongly they are mixed is found by leaving one out: with as many rows of the overall
    mean as predict every row's outcome best from the other rows. Infinitely many make every
    class's mean the overall one.

    Parameters
    ----------
    numbers, totals, squares : ndarray of shape (classes,)
        Number of rows, sum and sum of squares of their outcomes.
    """

    def __init__(self, numbers: Floats, totals: Floats, squares: Floats) -> None:
        self._numbers = numbers
        self._totals = totals
        self._squares = squares
        self._overall = float(totals.sum() / max(numbers.sum(), 1.0))
        errors = [self._error(strength) for strength in STRENGTHS]
        self._strength = STRENGTHS[int(np.argmin(errors))]

    def _error(self, strength: float) -> float:
        """Return the sum of squared differences between rows and the means of the others."""
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
        """Mean outcome by class, of all rows, shape (classes,)."""
        return self._mixed(self._strength)

    @cached_property
    def stretch(self) -> Floats:
        """How much further a row is from the others' mean than from that of all rows."""
        return _stretch(self._numbers, self._strength)

    @cached_property
    def share(self) -> Floats:
        """Which part of its distance from the others' mean a row moves the mean of all rows."""
        return np.asarray(1.0 / (self._numbers + self._strength))


def _stretch(numbers: Floats, strength: float) -> Floats:
    if math.isinf(strength):
        return np.ones_like(numbers)
    rows = np.maximum(numbers, 1.0)
    return np.asarray((rows + strength) / (rows - 1.0 + strength))
