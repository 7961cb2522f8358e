"""A test, valid at all times, of whether rows fall into cells as often as the model says."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.documentation import documented_by

__all__ = ["FALSE_ALARM", "cells_contradict"]

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
