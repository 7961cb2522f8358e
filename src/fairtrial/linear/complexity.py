"""How many pulls the answer needs at least: the complexity T*, certified, and its shares."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.confidence.complexity import CertifiedComplexity, EvidencePrice, assumptions_of
from fairtrial.core.validation import check_instance
from fairtrial.errors import InvalidArgument
from fairtrial.linear._arguments import by_arm
from fairtrial.linear.designs import contrasts_at, oracle_design
from fairtrial.linear.problem import Problem

__all__ = ["Complexity", "complexity", "evidence_price"]

Floats = NDArray[np.float64]

_LEAST_STD = 1e-7
"""What a standard deviation of zero counts as, relative to the largest."""

_HARDEST = 20
"""Number of the hardest comparisons that are looked at one by one."""


@dataclass(frozen=True, eq=False)
class Complexity(CertifiedComplexity):
    """What it costs to be sure of the answer, if `theta` is what it is assumed to be.

    Attributes
    ----------
    value : float
        T*: pulls for each nat of evidence, at the shares in `allocation`; infinite if no number
        of pulls can tell.
    lower, upper : float
        Certified bounds on T*; `upper` is `value`.
    hardness : float
        H of the literature: ``value / (2 sigma^2)``, with sigma the noise of an arm, or the
        largest where the arms differ.
    allocation : ndarray of shape (K,), or None
        Optimal shares of the pulls, with sum one; None if T* is infinite. They need not be
        unique.
    answer : str or tuple of str
        The right answer: the label of the best candidate or, with `top` above 1, the labels
        of the best, best first.
    reason : str
        Why T* is infinite; else empty.
    assumes : str
        What the rewards are taken to be. For rewards in a known range T* is a yardstick, and
        without `std` their spread is taken to be the largest that the range allows.
    """

    value: float
    lower: float
    upper: float
    hardness: float
    allocation: Floats | None
    answer: Any
    reason: str = ""
    assumes: str = ""


def complexity(
    problem: Problem,
    theta: ArrayLike,
    tol: float = 1e-6,
    std: ArrayLike | None = None,
    max_seconds: float | None = None,
) -> Complexity:
    """Return the complexity T* of finding the best, certified, and its optimal shares.

    No rule that errs with probability at most delta can do with fewer than
    ``T* kl(delta, 1 - delta)`` pulls on average, whatever it knows of theta. With `tolerance` that
    holds for rules that answer the best; another answer within `tolerance` can take fewer.

    Parameters
    ----------
    problem : Problem
        The problem. An `tolerance` is added to every gap.
    theta : array-like of shape (d,)
        What the parameter is assumed to be.
    tol : float
        Relative distance of the certified bounds to be reached, in [1e-9, 1]. Very large or
        very ill-scaled problems may fall short of it: the bounds returned tell.
    std : float or array-like of shape (K,), optional
        True standard deviations by arm; the problem's by default. For rewards in a known
        range, give the true ones: half the range, the default, is the largest possible. An
        arm of zero counts as 1e-7 of the largest.
    max_seconds : float, optional
        When to stop short of `tol`.

    Returns
    -------
    Complexity

    Raises
    ------
    InvalidArgument
        If an argument has the wrong shape or value.

    Notes
    -----
    T* is that of Gaussian rewards. For others it is a yardstick: with the true standard
    deviations it is close to what the best rules need, and not a bound.

    Source: Soare, Lazaric, Munos (2014), eq. (6), with ``T* = 2 sigma^2 H``; as a bound for
    every rule: Degenne, Menard, Shang, Valko (2020), "Gamification of pure exploration for
    linear bandits", Theorem 1.

    Examples
    --------
    >>> problem = Problem([[1, 0], [0, 1], [0.995, 0.0998]], noise_std=1.0)
    >>> found = complexity(problem, [2.0, 0.0])
    >>> found.answer, round(found.hardness, 1), found.allocation.round(2).tolist()
    ('0', 109.8, [0.05, 0.95, 0.0])
    """
    check_instance("problem", problem, Problem)
    if problem.estimates_noise and std is None:
        raise InvalidArgument("std", "must be given where the problem's noise is 'estimated'")
    assumed = problem if std is None else _with_noise(problem, std)
    contrasts = contrasts_at(assumed, theta)
    labels = tuple(problem.answers[index] for index in contrasts.best)
    answer = labels[0] if problem.top == 1 else labels
    rewards = "normal rewards whose means are linear in the features,"
    assumes = assumptions_of(rewards, problem.reward_range is not None, std is not None)
    if contrasts.tied:
        first, second = (problem.answers[index] for index in contrasts.tied)
        reason = f"{first!r} and {second!r} tie for best"
        return Complexity(math.inf, math.inf, math.inf, math.inf, None, answer, reason, assumes)
    design = oracle_design(assumed, theta, tol, max_seconds)
    value = 2.0 * design.value
    largest = float(assumed.scale.max())
    with np.errstate(over="ignore"):
        hardness = float(np.float64(design.value) / largest / largest)
    weights, lower = design.weights, 2.0 * design.lower
    return Complexity(value, lower, value, hardness, weights, answer, "", assumes)


def _with_noise(problem: Problem, std: ArrayLike) -> Problem:
    """Return the problem with other standard deviations."""
    given = by_arm("std", std, len(problem.arms))
    if (given < 0.0).any() or given.max() == 0.0:
        raise InvalidArgument("std", "must be non-negative and not zero for every arm", std)
    noise = np.maximum(given, _LEAST_STD * given.max())
    return problem.clone(noise_std=noise, reward_range=None)


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
    relative = np.maximum(spread, _LEAST_STD * spread.max()) / problem.scale
    shares = np.sqrt(np.asarray(weights, dtype=np.float64)) / relative
    rows = shares[:, np.newaxis] * problem.reduced.arms
    directions = contrasts_at(problem, theta).directions
    lengths = ((directions @ np.linalg.pinv(rows)) ** 2).sum(axis=1)
    hardest = np.argsort(-lengths)[:_HARDEST]
    estimates = np.linalg.lstsq(rows.T, directions[hardest].T, rcond=None)[0].T
    reach = np.abs(estimates * shares / problem.scale).sum(axis=1)
    return EvidencePrice(2.0 * float(lengths.max()), float(reach.max()))
