"""A test, valid at all times, of whether results change in the course of a study.

Proofs assume that the mean of an arm stays what it is. Where the results of an arm come from one
distribution, their order says nothing: the last one is the largest so far with probability one
over their number. A result that ranks high among those before it, again and again, does say
something.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaincc

from fairtrial.confidence.drift_kernels import largest_log_wealth

__all__ = ["FALSE_ALARM", "Drift", "find_drift", "log_evidence_of_drift"]

FALSE_ALARM = 0.001
"""Probability that the test ever finds drift where there is none."""


class Drift(NamedTuple):
    """What the test found.

    Attributes
    ----------
    p_value : float
        At most a, at any time, with probability at most a where there is no drift.
    cells : tuple of int
        The cells that show drift, each by its own results.
    """

    p_value: float
    cells: tuple[int, ...]

    @property
    def found(self) -> bool:
        """Whether some results come from another distribution later on, of `cells` or of all."""
        return self.p_value <= FALSE_ALARM


def log_evidence_of_drift(results: ArrayLike, cell: int = 0) -> float:
    """Return the largest logarithm so far of bets against "these results come in random order".

    Parameters
    ----------
    results : array-like of shape (n,)
        The results of one cell, in the order in which its pulls were issued.
    cell : int
        Which cell it is; equal results of different cells are then ordered independently.

    Returns
    -------
    float
        Never above log(1 / a), whatever n, with probability at least 1 - a, if the results are
        independent draws from one distribution; whatever it is, and whenever they are drawn.

    Notes
    -----
    Result n ranks among the first n: its rank, divided by n, with equal results ordered at random,
    is uniform on (0, 1) and independent of the ranks before. A bet that pays 1 + e (rank - 1/2) is
    fair, and so is one that switches between several e: the "simple jumper" of Vovk et al. (2021),
    "Retrain or not retrain: conformal test martingales for change-point detection". Ville's
    inequality bounds the whole path. It holds for all n at once, so it does not matter that the
    number of results of a cell depends on what they are. Source, with the proof:
    docs/explanation/assumption-checks.md.

    Examples
    --------
    >>> steady = [0, 1] * 100
    >>> log_evidence_of_drift(steady) < 2, log_evidence_of_drift([0] * 100 + [1] * 100) > 20
    (True, True)
    """
    values, levels = np.unique(np.asarray(results, dtype=np.float64), return_inverse=True)
    return float(largest_log_wealth(levels.astype(np.int64), len(values), cell))


def find_drift(cells: Sequence[ArrayLike], *, independent: bool = True, tests: int = 1) -> Drift:
    """Ask whether results of some cells come from another distribution later on.

    Parameters
    ----------
    cells : sequence of array-like, of length n_cells
        The results of every cell (an arm, or an arm in a group), in the order in which its pulls
        were issued. A cell without results counts as one.
    independent : bool
        Whether the results of different cells are independent.
    tests : int
        How many such tests are made: one for each measure of the same pulls, which may depend on
        each other in any way. P-values are multiplied by their number.

    Notes
    -----
    One over the largest wealth of a cell is a p-value that holds at all times. Twice the smaller of
    two p-values counts: that of the smallest one (Bonferroni), which finds the arm that changes,
    and that of their product (Fisher), which finds a change that all arms share. Only independent
    cells have the second.

    Examples
    --------
    >>> drift = find_drift([[0] * 100 + [1] * 100, [0, 1] * 100])
    >>> drift.found, drift.cells
    (True, (0,))
    """
    evidence = np.array([log_evidence_of_drift(cell, index) for index, cell in enumerate(cells)])
    alone = np.minimum(1.0, 2.0 * tests * len(evidence) * np.exp(-evidence))
    # Twice the sum has a chi-squared distribution with 2 degrees of freedom for each cell, at most.
    together = min(1.0, 2.0 * tests * float(gammaincc(len(evidence), evidence.sum())))
    smallest = float(alone.min())
    cells = np.flatnonzero(alone <= FALSE_ALARM).tolist()
    return Drift(min(smallest, together) if independent else smallest, tuple(cells))
