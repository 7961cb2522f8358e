"""How many results a unit of evidence takes, where differences are sums over many arms."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.confidence.complexity import EvidencePrice, positive_spread
from fairtrial.linear._arguments import by_arm
from fairtrial.linear.designs import contrasts_at
from fairtrial.linear.limited_evidence import best_within_limits, looked_at
from fairtrial.linear.problem import Problem

__all__ = ["evidence_price"]

Floats = NDArray[np.float64]

_HARDEST = 20
"""Number of the hardest comparisons that are looked at one by one."""


def evidence_price(
    problem: Problem, theta: ArrayLike, std: ArrayLike, weights: ArrayLike
) -> EvidencePrice:
    """Return what a unit of evidence takes, on the comparison of candidates that takes most.

    Parameters
    ----------
    problem : Problem
        The problem; a `tolerance` is added to every gap.
    theta : array-like of shape (d,)
        What the parameter is assumed to be; two candidates must not tie for best.
    std : array-like of shape (K,)
        True standard deviations by arm.
    weights : array-like of shape (K,)
        Shares of the pulls, such as those of `complexity`.

    Notes
    -----
    At shares w the best estimate of a difference, divided by its gap, is a sum of c_k times the
    mean of arm k. Its variance after n pulls is half of `spread` over n, and `reach` is the sum of
    all abs(c_k): as much as a range of width 1 moves what one pull, drawn with a probability in
    proportion to abs(c_k), says of the difference.

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
    """Return what decides, over its effect: differences from the best, and limits."""
    if not problem.has_limits:
        return contrasts_at(problem, theta).directions
    best = best_within_limits(problem, theta)
    return looked_at(problem, theta, best)(np.square(shares)[:, np.newaxis])[2]
