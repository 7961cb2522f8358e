"""Two tests, valid at all times, of counts against intended probabilities.

One compares the groups with their stated proportions. The other compares the arms whose results
arrived with the probabilities with which these arms were drawn.
"""

from __future__ import annotations

import math

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from fairtrial.core.documentation import documented_by

__all__ = [
    "FALSE_ALARM",
    "favoured_arms",
    "log_evidence_against_shares",
    "log_evidence_of_favour",
    "shares_differ",
]

FALSE_ALARM = 0.001
"""Probability that one of these tests ever finds a difference if there is none."""

_STAKES = np.array([0.1, 0.3, 0.7])
"""Fractions of the wealth that are bet on an arm."""


def log_evidence_against_shares(counts: ArrayLike, shares: ArrayLike) -> float:
    """Return the logarithm of an e-value against "these counts come with these probabilities".

    Parameters
    ----------
    counts : array-like of shape (n,)
        How often each of n values occurred.
    shares : array-like of shape (n,)
        Their intended probabilities, each greater than 0.

    Returns
    -------
    float
        At most log(1 / a) at all times with probability at least 1 - a, if the values occur
        independently with these probabilities.

    Notes
    -----
    It is the ratio of two likelihoods. The numerator draws the probabilities from a Dirichlet
    distribution that has the intended ones as its mean and is as strong as n observations; the
    denominator uses the intended ones. Source: Lindon and Malek (2022), "Anytime-valid inference
    for multinomial count data".

    Examples
    --------
    >>> log_evidence_against_shares([700, 300], [0.5, 0.5]) > 70
    True
    >>> log_evidence_against_shares([510, 490], [0.5, 0.5]) < 0
    True
    """
    came, intended = np.asarray(counts, dtype=np.float64), np.asarray(shares, dtype=np.float64)
    prior = intended * len(intended)
    ratio = scipy.special.gammaln(prior.sum()) - scipy.special.gammaln(prior.sum() + came.sum())
    ratio += (
        scipy.special.gammaln(prior + came)
        - scipy.special.gammaln(prior)
        - scipy.special.xlogy(came, intended)
    ).sum()
    return float(ratio)


def shares_differ(counts: ArrayLike, shares: ArrayLike) -> bool:
    """Return whether the evidence exceeds its limit: by chance it ever does at most 1 in 1,000.

    Examples
    --------
    >>> shares_differ([60, 40], [0.5, 0.5]), shares_differ([600, 400], [0.5, 0.5])
    (False, True)
    """
    return log_evidence_against_shares(counts, shares) >= -math.log(FALSE_ALARM)


def log_evidence_of_favour(
    arms: ArrayLike, propensities: ArrayLike, n_arms: int
) -> NDArray[np.float64]:
    """Return for each arm the largest log wealth of bets that its results arrive more often.

    Parameters
    ----------
    arms, propensities : array-like of shape (results,)
        The arm of each pull that brought a result, in the order in which the pulls were issued,
        and the probability with which the arm was drawn, greater than 0.
    n_arms : int
        Number of arms.

    Returns
    -------
    array of shape (n_arms,)
        Each is never above log(1 / a), with probability at least 1 - a, if whether and when a pull
        brings its result does not depend on its arm.

    Notes
    -----
    A bet on arm k multiplies the wealth by 1 + s (1 / p - 1) if k is drawn, with probability p, and
    by 1 - s if another arm is drawn. The mean of the factor is 1, or 1 - s if k cannot be drawn; no
    other probability has to be known. The wealth is averaged over several s. If the arm was
    certain, nothing is bet. Source: docs/explanation/assumption-checks.md.

    Examples
    --------
    >>> bool(log_evidence_of_favour([0] * 40, [0.5] * 40, n_arms=2)[0] > 15)
    True
    """
    drawn, probability = np.asarray(arms, dtype=np.int64), np.asarray(propensities, dtype=float)
    uncertain = probability < 1.0
    drawn, probability = drawn[uncertain], probability[uncertain]
    return np.array([_largest(np.flatnonzero(drawn == arm), probability) for arm in range(n_arms)])


def _largest(places: NDArray[np.int64], probability: NDArray[np.float64]) -> float:
    """Return the largest log of the average wealth of bets on an arm.

    Only draws of the arm have to be looked at, because every other draw is a loss.
    """
    gains = np.cumsum(np.log1p(np.outer(1.0 / probability[places] - 1.0, _STAKES)), axis=0)
    losses = np.outer(places - np.arange(len(places)), np.log1p(-_STAKES))
    average = np.logaddexp.reduce(gains + losses, axis=1) - math.log(len(_STAKES))
    return float(average.max(initial=0.0))


@documented_by(log_evidence_of_favour)
def favoured_arms(arms: ArrayLike, propensities: ArrayLike, n_arms: int) -> tuple[int, ...]:
    """Return the arms that bring more results than their probabilities allow.

    Returns
    -------
    tuple of int
        Empty at all times with probability at least .999, if whether and when a pull brings its
        result does not depend on its arm: each arm is tested at a level divided by their number.

    Examples
    --------
    >>> favoured_arms([0, 1] * 50, [0.5] * 100, n_arms=2)
    ()
    >>> favoured_arms([0] * 40, [0.5] * 40, n_arms=2)
    (0,)
    """
    evidence = log_evidence_of_favour(arms, propensities, n_arms)
    return tuple(np.flatnonzero(evidence >= math.log(n_arms / FALSE_ALARM)).tolist())
