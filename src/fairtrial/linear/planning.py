"""How many pulls an answer needs at least: the complexity T*, with certified bounds, and shares."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.complexity import Complexity as CertifiedComplexity
from fairtrial.confidence.complexity import assumptions_of, positive_spread
from fairtrial.confidence.cutting_planes import CutsAt, best_shares
from fairtrial.core.keywords import named_arguments
from fairtrial.core.validation import check_instance, check_number
from fairtrial.linear._limited_evidence import best_within_limits, looked_at
from fairtrial.linear.designs import contrasts_at, oracle_design
from fairtrial.linear.environments import ArmEnvironment
from fairtrial.linear.problem import Problem

__all__ = ["Complexity", "complexity"]

Floats = NDArray[np.float64]

_NORMAL = "normal rewards whose means are linear in the features,"

_STEPS = 20_000
_LEAST_PART = 1e-9
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Complexity(CertifiedComplexity):
    """The cost of being sure of the answer, if the environment is as assumed.

    Attributes
    ----------
    value : float
        T*: pulls for each nat of evidence, at the shares in `allocation`; infinite if no number
        of pulls is enough.
    lower, upper : float
        Certified bounds on T*; `upper` is `value`.
    allocation : ndarray of shape (K,), or None
        Optimal shares of the pulls, which sum to one; None if T* is infinite. They need not be
        unique.
    answer : str, tuple of str, or None
        The right answer: the label of the best candidate or, with `top` above 1, the labels
        of the best, best first. None if no candidate keeps all its limits.
    reason : str
        Why T* is infinite; otherwise empty.
    assumes : str
        What is assumed about the rewards. For rewards in a known range T* is a yardstick.
    hardness : float
        H of the literature: ``value / (2 sigma^2)``, where sigma is the noise of an arm, or the
        largest if the arms differ.
    """

    hardness: float = math.inf


@named_arguments
def complexity(
    environment: ArmEnvironment, tol: float = 1e-6, max_seconds: float | None = None
) -> Complexity:
    """Return certified bounds on the complexity T* of finding the best, and its optimal shares.

    A rule that is wrong with probability at most delta needs at least
    ``T* kl(delta, 1 - delta)`` pulls on average, even if it knows theta. With `tolerance` this
    holds for rules that answer the best; another answer within `tolerance` can take fewer.

    Parameters
    ----------
    environment : GaussianEnvironment, BernoulliEnvironment or ReplayEnvironment
        The problem, with the assumed truth. A `tolerance` of the problem is added to every gap.
        If measured means are not linear, the closest linear function replaces them. A standard
        deviation of zero counts as 1e-7 of the largest.
    tol : float
        Relative distance of the certified bounds to reach, in [1e-9, 1]. Very large or very
        ill-scaled problems may not reach it: see the bounds returned.
    max_seconds : float, optional
        Time after which to stop before `tol` is reached.

    Raises
    ------
    InvalidArgument
        If an argument has the wrong shape or value.

    Notes
    -----
    If candidates have limits, T* counts the pulls needed to know that the answer keeps its limits,
    and that every other candidate breaks one or is worse.

    T* is computed for Gaussian rewards. For other rewards it is a yardstick, close to what the best
    rules need, but not a bound.

    Source: Soare, Lazaric, Munos (2014), eq. (6), with ``T* = 2 sigma^2 H``; as a bound for
    every rule: Degenne, Menard, Shang, Valko (2020), "Gamification of pure exploration for
    linear bandits", Theorem 1. With limits: see the page on block betting.

    Examples
    --------
    >>> from fairtrial.linear import GaussianEnvironment, Problem
    >>> problem = Problem([[1, 0], [0, 1], [0.995, 0.0998]], noise_std=1.0)
    >>> found = complexity(GaussianEnvironment(problem, [2.0, 0.0]))
    >>> found.answer, round(found.hardness, 1), found.allocation.round(2).tolist()
    ('0', 109.8, [0.05, 0.95, 0.0])
    """
    problem = check_instance("environment", environment, ArmEnvironment).problem
    theta, noise = environment.closest_theta, positive_spread(environment.arm_stds)
    assumed = problem.clone(noise_std=noise, reward_range=None)
    if problem.has_limits:
        wanted = check_number("tol", tol, low=1e-9, high=1.0)
        found = _complexity_with_limits(assumed, theta, wanted, max_seconds)
        return replace(found, assumes=assumptions_of(_NORMAL, problem.reward_range is not None))
    contrasts = contrasts_at(assumed, theta)
    labels = tuple(problem.answers[index] for index in contrasts.best)
    answer = labels[0] if problem.top == 1 else labels
    assumes = assumptions_of(_NORMAL, problem.reward_range is not None)
    if contrasts.tied:
        first, second = (problem.answers[index] for index in contrasts.tied)
        reason = f"{first!r} and {second!r} tie for best"
        return Complexity(math.inf, math.inf, math.inf, None, answer, reason, assumes)
    design = oracle_design(assumed, theta, tol, max_seconds)
    value, lower = 2.0 * design.value, 2.0 * design.lower
    largest = float(assumed.scale.max())
    with np.errstate(over="ignore"):
        hardness = float(np.float64(design.value) / largest / largest)
    return Complexity(
        value, lower, value, design.weights, answer, assumes=assumes, hardness=hardness
    )


# ------------------------------------------------------------------------------ with limits


def _complexity_with_limits(
    problem: Problem, theta: Floats, tol: float, max_seconds: float | None
) -> Complexity:
    """Return the complexity at a theta if candidates have limits."""
    best = best_within_limits(problem, theta)
    answer = None if best is None else problem.answers[best]
    assumes = ""
    reason = _why_infinite(problem, theta, best)
    if reason:
        return Complexity(math.inf, math.inf, math.inf, None, answer, reason, assumes)
    look = looked_at(problem, theta, best)

    def cuts_at(shares: Floats) -> tuple[float, Floats]:
        return look(shares)[:2]

    start = _nearly_best(cuts_at, problem)
    if not np.isfinite(cuts_at(start)[0]):
        even = start[:, 0]
        return Complexity(0.0, 0.0, 0.0, even, answer, "", assumes, 0.0)
    lower, upper, shares = best_shares(cuts_at, start, np.ones(1), tol, _LEAST_PART, max_seconds)
    weights = shares[:, 0] / shares.sum()
    weights.setflags(write=False)
    largest = float(problem.scale.max())
    return Complexity(
        upper, lower, upper, weights, answer, "", assumes, 0.5 * upper / largest / largest
    )


def _nearly_best(cuts_at: CutsAt, problem: Problem) -> Floats:
    """Return shares after some steps, each towards the needs of the hardest item."""
    shares = np.zeros((len(problem.arms), 1))
    shares[problem.distinct_arms] = 1.0 / len(problem.distinct_arms)
    best, most = shares, 0.0
    for step in range(max(50, _STEPS // len(problem.answer_groups))):
        hardest, cuts = cuts_at(shares)
        if not 0.0 < hardest < np.inf:
            break
        if hardest > most:
            best, most = shares, hardest
        gain = 1.0 / (8.0 + step)
        worth = (cuts * shares).sum(axis=(1, 2))
        shares = shares * (1.0 - gain + gain * cuts[int(worth.argmin())] / worth.min())
        shares = shares / shares.sum()
    return best


def _why_infinite(problem: Problem, theta: Floats, best: int | None) -> str:
    """Return why no number of pulls is enough; empty if some number is."""
    if best is None:
        return ""
    spare = problem.floor_tolerance
    for one in problem.requirements:
        distance = one.distance(problem.sign * (one.features @ theta))
        if distance[best] + spare == 0.0:
            return f"{problem.answers[best]!r} is exactly on a limit, {one.name}"
    values = problem.sign * problem.values(theta)
    rivals = problem.feasible(theta, -spare)
    rivals[list(problem.answer_groups[int(problem.group_of[best])])] = False
    tied = rivals & (values[best] + problem.tolerance - values <= _ROUNDING * np.abs(values).max())
    if problem.tolerance and tied.any():
        same = values == values[best]
        tied &= ~same
    if not tied.any():
        return ""
    return f"{problem.answers[best]!r} and {problem.answers[int(tied.argmax())]!r} tie for best"
