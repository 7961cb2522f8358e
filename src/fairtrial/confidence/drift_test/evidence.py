"""A test, valid at all times, of whether results change during a study.

Proofs assume that the mean of an arm does not change. If all results of an arm come from one
distribution, their order carries no information: the last of n results is the largest with
probability 1 / n. Results that rank high among the earlier ones again and again are evidence of
drift.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

from fairtrial.confidence.drift_test.kernels import largest_log_wealth
from fairtrial.core.compilation import compiled

__all__ = ["FALSE_ALARM", "Drift", "find_drift", "log_evidence_of_drift"]

FALSE_ALARM = 0.001
"""Probability that the test ever finds drift if there is none."""

_WORTH_COMPILING = 50_000
"""Number of results for which the interpreter takes longer than the compiler."""


class Drift(NamedTuple):
    """Result of the test.

    Attributes
    ----------
    p_value : float
        Without drift, the probability that it is ever at most a is at most a.
    cells : tuple of int
        The cells whose own results show drift.
    """

    p_value: float
    cells: tuple[int, ...]

    @property
    def found(self) -> bool:
        """Whether results drift, in some `cells` or in all cells taken together."""
        return self.p_value <= FALSE_ALARM


def log_evidence_of_drift(results: ArrayLike, cell: int = 0) -> float:
    """Return the largest log wealth of bets against "these results come in random order".

    Parameters
    ----------
    results : array-like of shape (n,)
        The results of one cell, in the order in which its pulls were issued.
    cell : int
        Index of the cell; it makes the order of equal results independent between cells.

    Returns
    -------
    float
        With probability at least 1 - a it is never above log(1 / a), for all n at once, if the
        results are independent draws from one distribution, whatever that is and whenever they are
        drawn.

    Notes
    -----
    The rank of result n among the first n results, divided by n and with equal results ordered at
    random, is uniform on (0, 1) and independent of the earlier ranks. A bet that pays
    1 + e (rank - 1/2) is fair, and so is one that switches between several e: the "simple jumper"
    of Vovk et al. (2021), "Retrain or not retrain: conformal test martingales for change-point
    detection". Ville's inequality bounds the whole path. It holds for all n at once, so the number
    of results of a cell may depend on their values. Source, with the proof:
    docs/explanation/assumption-checks.md.

    Examples
    --------
    >>> steady = [0, 1] * 100
    >>> log_evidence_of_drift(steady) < 2, log_evidence_of_drift([0] * 100 + [1] * 100) > 20
    (True, True)
    """
    values, levels = np.unique(np.asarray(results, dtype=np.float64), return_inverse=True)
    with compiled() if levels.size >= _WORTH_COMPILING else nullcontext():
        return float(largest_log_wealth(levels.astype(np.int64), len(values), cell))


def find_drift(cells: Sequence[ArrayLike], *, independent: bool = True, tests: int = 1) -> Drift:
    """Test whether the distribution of results changes over time in some cells.

    Parameters
    ----------
    cells : sequence of array-like, of length n_cells
        The results of every cell (an arm, or an arm in a group), in the order in which its pulls
        were issued. Cells without results count too.
    independent : bool
        Whether the results of different cells are independent.
    tests : int
        Number of such tests: one for each measure of the same pulls. The measures may depend on
        each other in any way; p-values are multiplied by this number.

    Notes
    -----
    The inverse of the largest wealth of a cell is a p-value that holds at all times. Two combined
    p-values are computed, and the result is twice the smaller one. The smallest p-value
    (Bonferroni) finds a single arm that changes; the product (Fisher) finds a change that all arms
    share. The second needs independent cells.

    Examples
    --------
    >>> drift = find_drift([[0] * 100 + [1] * 100, [0, 1] * 100])
    >>> drift.found, drift.cells
    (True, (0,))
    """
    evidence = np.array([log_evidence_of_drift(cell, index) for index, cell in enumerate(cells)])
    alone = np.minimum(1.0, 2.0 * tests * len(evidence) * np.exp(-evidence))
    # Without drift, twice the sum is at most chi-squared, with 2 degrees of freedom per cell.
    together = min(1.0, 2.0 * tests * float(scipy.special.gammaincc(len(evidence), evidence.sum())))
    smallest = float(alone.min())
    cells = np.flatnonzero(alone <= FALSE_ALARM).tolist()
    return Drift(min(smallest, together) if independent else smallest, tuple(cells))
