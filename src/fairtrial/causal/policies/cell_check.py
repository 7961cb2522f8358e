"""A test, valid at all times, of whether rows fall into cells as often as the model says."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.documentation import documented_by

__all__ = ["FALSE_ALARM", "CellTest", "cells_contradict"]

Floats = NDArray[np.float64]

FALSE_ALARM = 0.001
"""Probability that the test ever finds a difference if there is none."""

_TILTS = np.array([0.01, 0.03, 0.1, 0.3, 1.0])


def log_evidence_against_cells(
    counts: Floats, rows: Floats, probabilities: Floats, missing: int
) -> Floats:
    """Return for every cell the logarithm of an e-value against "rows fall as stated".

    Parameters
    ----------
    counts : ndarray of shape (actions,)
        Number of received rows of each action.
    rows : ndarray of shape (cells,)
        Number of rows that fell into each cell.
    probabilities : ndarray of shape (actions, cells)
        Probability that a row of an action falls into a cell.
    missing : int
        Number of rows that were drawn but not received, for any reason.

    Notes
    -----
    A row that falls into a cell with probability p contributes the factor
    ``exp(t (hit - p) - p (1 - p) g(t))`` with ``g(t) = exp(t) - 1 - t``. By Bennett's inequality
    its mean is at most one given the rows before it, and the same holds for misses. The product
    depends only on sums over rows. Averaged over t and both signs, it is a supermartingale that
    starts at one. Missing rows count as if they all reduced the difference.
    """
    expected = counts @ probabilities
    variance = counts @ (probabilities * (1.0 - probabilities)) + 0.25 * missing
    over = np.maximum(0.0, np.abs(rows - expected) - missing)
    gains = np.outer(_TILTS, over) - np.outer(np.expm1(_TILTS) - _TILTS, variance)
    best = gains.max(axis=0)
    total = np.log(np.exp(gains - best).sum(axis=0)) + best
    return np.asarray(total - math.log(2.0 * len(_TILTS)))


@documented_by(log_evidence_against_cells)
def cells_contradict(counts: Floats, rows: Floats, probabilities: Floats, missing: int = 0) -> bool:
    """Return whether rows fall into some cell more or less often than the model can explain.

    If the model is right, the probability that this is ever True is at most 1 in 1,000, because the
    level of each cell's test is divided by the number of cells.

    Examples
    --------
    >>> even = np.full((1, 2), 0.5)
    >>> cells_contradict(np.array([1000.0]), np.array([520.0, 480.0]), even)
    False
    >>> cells_contradict(np.array([1000.0]), np.array([620.0, 380.0]), even)
    True
    """
    evidence = log_evidence_against_cells(counts, rows, probabilities, missing)
    return bool((evidence >= math.log(len(rows) / FALSE_ALARM)).any())


class CellTest:
    """The test during a study: once rows contradict the model, only corrections take it back.

    It remembers the moment at which the rows contradicted the model most. Later rows, rows in
    flight and lost rows do not change what was known then. If a row that was known then is
    corrected, the correction applies to that moment, too. Rows that were not requested do not
    count, because nobody knows how they were selected.

    Parameters
    ----------
    probabilities : ndarray of shape (actions, cells)
        Probability that a row of an action falls into a cell.

    Attributes
    ----------
    counts, rows : ndarray of shape (actions,) and (cells,)
        Numbers of received rows of each action, and in each cell.
    counts_then, rows_then : ndarray of shape (actions,) and (cells,)
        The same at the moment of the largest contradiction; zeros if there was none.
    asked_then : int
        The number of pulls that were issued until that moment.
    absent_then : list of int
        The numbers of those without a row at that moment.
    """

    fields = ("counts", "rows", "counts_then", "rows_then", "asked_then", "absent_then")
    """Attributes that make up the state."""

    def __init__(self, probabilities: Floats) -> None:
        self._probabilities = probabilities
        self.counts, self.rows = (np.zeros(size) for size in probabilities.shape)
        self.counts_then, self.rows_then = self.counts.copy(), self.rows.copy()
        self.asked_then = 0
        self.absent_then: list[int] = []

    @property
    def contradicted(self) -> bool:
        """Whether the rows contradict, or have contradicted, the model."""
        return self._log_evidence_then >= self._limit

    def add(self, action: int, cell: int) -> None:
        """Add the row of a requested pull."""
        self.counts[action] += 1.0
        self.rows[cell] += 1.0

    def move(self, number: int, before: int, after: int) -> None:
        """Move the row of a requested pull to another cell."""
        _move(self.rows, before, after)
        if number < self.asked_then and number not in self.absent_then:
            _move(self.rows_then, before, after)

    def look(self, asked: int, missing: int, absent: Iterable[int]) -> None:
        """Remember this moment if the rows contradict the model, and more than ever.

        Parameters
        ----------
        asked, missing : int
            How many pulls were issued, and how many of them have no row.
        absent : iterable of int
            The numbers of the latter.
        """
        evidence = self._log_evidence(self.counts, self.rows, missing)
        if evidence >= self._limit and evidence > self._log_evidence_then:
            self.counts_then, self.rows_then = self.counts.copy(), self.rows.copy()
            self.asked_then, self.absent_then = asked, list(absent)

    @property
    def _limit(self) -> float:
        return math.log(len(self.rows) / FALSE_ALARM)

    @property
    def _log_evidence_then(self) -> float:
        return self._log_evidence(self.counts_then, self.rows_then, len(self.absent_then))

    def _log_evidence(self, counts: Floats, rows: Floats, missing: int) -> float:
        found = log_evidence_against_cells(counts, rows, self._probabilities, missing)
        return float(found.max())


def _move(rows: Floats, before: int, after: int) -> None:
    rows[before] -= 1.0
    rows[after] += 1.0
