"""How many results a unit of evidence takes, if differences are sums over many arms."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.confidence.complexity import EvidencePrice, positive_spread
from fairtrial.linear._arguments import by_arm
from fairtrial.linear._limited_evidence import best_within_limits, looked_at
from fairtrial.linear.designs import contrasts_at
from fairtrial.linear.problem import Problem

__all__ = ["evidence_price"]

Floats = NDArray[np.float64]

_HARDEST = 20
"""The number of hardest comparisons that are checked one by one."""


def evidence_price(
    problem: Problem, theta: ArrayLike, std: ArrayLike, weights: ArrayLike
) -> EvidencePrice:
    """Return the price of a unit of evidence, for the most expensive comparison of candidates.

    Parameters
    ----------
    problem : Problem
        The problem; a `tolerance` is added to every gap.
    theta : array-like of shape (d,)
        The assumed parameter; two candidates must not tie for best.
    std : array-like of shape (K,)
        True standard deviations by arm.
    weights : array-like of shape (K,)
        Shares of the pulls, such as the `allocation` of `complexity`.

    Notes
    -----
    At shares w the best estimate of a difference, divided by its gap, is a sum of c_k times the
    mean of arm k. Its variance after n pulls is half of `spread` divided by n. `reach` is the sum
    of all abs(c_k): how far a range of width 1 can move a single pull's estimate of the difference,
    if its arm is drawn with probability proportional to abs(c_k).

    Examples
    --------
    >>> two_arms = Problem([[1, 0], [0, 1]], reward_range=(0, 1))
    >>> price = evidence_price(two_arms, [0.9, 0.4], [0.1, 0.1], [0.5, 0.5])
    >>> round(price.spread, 3), round(price.reach, 3)
    (0.32, 4.0)
    """
    spread = by_arm("std", std, len(problem.arms))
    relative = positive_spread(spread) / problem.scale
    shares = np.sqrt(np.asarray(weights, dtype=np.float64)) / relative
    rows = shares[:, np.newaxis] * problem.reduced.arms
    directions = _directions(problem, np.asarray(theta, dtype=np.float64), shares)
    lengths = ((directions @ np.linalg.pinv(rows)) ** 2).sum(axis=1)
    hardest = np.argsort(-lengths)[:_HARDEST]
    estimates = np.linalg.lstsq(rows.T, directions[hardest].T, rcond=None)[0].T
    reach = np.abs(estimates * shares / problem.scale).sum(axis=1)
    return EvidencePrice(2.0 * float(lengths.max()), float(reach.max()))


def _directions(problem: Problem, theta: Floats, shares: Floats) -> Floats:
    """Return the directions that decide, divided by their effects: differences, and limits."""
    if not problem.has_limits:
        return contrasts_at(problem, theta).directions
    best = best_within_limits(problem, theta)
    return looked_at(problem, theta, best)(np.square(shares)[:, np.newaxis])[2]
