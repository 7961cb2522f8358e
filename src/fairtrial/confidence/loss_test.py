"""A test, valid at all times, of whether some arms lose more results than others do.

Results that are lost for reasons unrelated to their values do no harm. Whether that is so cannot be
observed, because the values are lost. But reasons unrelated to an arm's results seldom depend on
the arm. If losses do depend on the arm, do not trust the assumption.
"""

from __future__ import annotations

import math

import numpy as np
import scipy
from numpy.typing import ArrayLike

__all__ = [
    "FALSE_ALARM",
    "UNEQUAL_LOSSES",
    "log_evidence_of_unequal_losses",
    "losses_differ",
]

FALSE_ALARM = 0.001
"""Probability that the test ever finds a difference if there is none."""

UNEQUAL_LOSSES = (
    "some arms lose far more results than others: find out why, because what makes an arm lose "
    "results may depend on their values, too"
)
"""The warning of a policy if the test finds a difference."""


def log_evidence_of_unequal_losses(came: ArrayLike, lost: ArrayLike) -> float:
    """Return the logarithm of an e-value against "in a group all arms lose as many results".

    Parameters
    ----------
    came, lost : array-like of shape (arms, groups)
        Number of pulls of each cell that brought a result, and that were lost.

    Returns
    -------
    float
        At most log(1 / a) at all times with probability at least 1 - a, if in every group each pull
        is lost with the same probability for all arms, however the pulls were chosen.

    Notes
    -----
    The losses of every cell are predicted one by one by (lost + 1/2) / (pulls + 1), the rule of
    Krichevsky and Trofimov (1981). The product of these predictions, divided by the true
    likelihood, is a martingale that starts at one. The best likelihood with one probability for all
    arms is at least the true one. Source: docs/explanation/assumption-checks.md.

    Examples
    --------
    >>> log_evidence_of_unequal_losses([[200], [150]], [[0], [50]]) > 20
    True
    >>> log_evidence_of_unequal_losses([[180], [175]], [[20], [25]]) < 0
    True
    """
    kept, gone = np.asarray(came, dtype=np.float64), np.asarray(lost, dtype=np.float64)
    log_gamma, x_log_y = scipy.special.gammaln, scipy.special.xlogy
    predicted = log_gamma(kept + 0.5) + log_gamma(gone + 0.5) - log_gamma(kept + gone + 1.0)
    predicted -= 2.0 * log_gamma(0.5)
    kept, gone = kept.sum(axis=0), gone.sum(axis=0)
    whole = kept + gone
    best = x_log_y(kept, kept) + x_log_y(gone, gone) - x_log_y(whole, whole)
    return float(predicted.sum() - best.sum())


def losses_differ(came: ArrayLike, lost: ArrayLike, tests: int = 1) -> bool:
    """Return whether the evidence exceeds its limit: by chance it ever does at most 1 in 1,000.

    Parameters
    ----------
    came, lost : array-like of shape (arms, groups)
        Number of pulls of each cell that brought a result, and that were lost.
    tests : int
        Number of such tests; they share the probability of 1 in 1,000.

    Examples
    --------
    >>> losses_differ([[10], [10]], [[1], [0]])
    False
    """
    if not np.any(lost):
        return False
    return log_evidence_of_unequal_losses(came, lost) >= math.log(tests / FALSE_ALARM)
