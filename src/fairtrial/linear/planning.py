"""How many pulls the answer needs at least: the complexity T*, certified, and its shares."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fairtrial.confidence.complexity import Complexity as CertifiedComplexity
from fairtrial.confidence.complexity import assumptions_of, positive_spread
from fairtrial.core.validation import check_instance
from fairtrial.linear.designs import contrasts_at, oracle_design
from fairtrial.linear.environments import ArmEnvironment

__all__ = ["Complexity", "complexity"]


@dataclass(frozen=True, eq=False)
class Complexity(CertifiedComplexity):
    """What it costs to be sure of the answer, if the environment is what it is assumed to be.

    Attributes
    ----------
    value : float
        T*: pulls for each nat of evidence, at the shares in `allocation`; infinite if no number
        of pulls can tell.
    lower, upper : float
        Certified bounds on T*; `upper` is `value`.
    allocation : ndarray of shape (K,), or None
        Optimal shares of the pulls, with sum one; None if T* is infinite. They need not be
        unique.
    answer : str or tuple of str
        The right answer: the label of the best candidate or, with `top` above 1, the labels
        of the best, best first.
    reason : str
        Why T* is infinite; else empty.
    assumes : str
        What the rewards are taken to be. For rewards in a known range T* is a yardstick.
    hardness : float
        H of the literature: ``value / (2 sigma^2)``, with sigma the noise of an arm, or the
        largest where the arms differ.
    """

    hardness: float = math.inf


def complexity(
    environment: ArmEnvironment, tol: float = 1e-6, max_seconds: float | None = None
) -> Complexity:
    """Return the complexity T* of finding the best, certified, and its optimal shares.

    No rule that is wrong with probability at most delta can do with fewer than
    ``T* kl(delta, 1 - delta)`` pulls on average, whatever it knows of theta. With `tolerance` that
    holds for rules that answer the best; another answer within `tolerance` can take fewer.

    Parameters
    ----------
    environment : GaussianEnvironment, BernoulliEnvironment or ReplayEnvironment
        The problem, with what is assumed to be true. A `tolerance` of the problem is added to
        every gap. Where measured means are not linear, the linear function that comes closest
        takes their place. A standard deviation of zero counts as 1e-7 of the largest.
    tol : float
        Relative distance of the certified bounds to be reached, in [1e-9, 1]. Very large or
        very ill-scaled problems may fall short of it: the bounds returned tell.
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
    T* is that of Gaussian rewards. For others it is a yardstick: close to what the best rules
    need, and not a bound.

    Source: Soare, Lazaric, Munos (2014), eq. (6), with ``T* = 2 sigma^2 H``; as a bound for
    every rule: Degenne, Menard, Shang, Valko (2020), "Gamification of pure exploration for
    linear bandits", Theorem 1.

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
    contrasts = contrasts_at(assumed, theta)
    labels = tuple(problem.answers[index] for index in contrasts.best)
    answer = labels[0] if problem.top == 1 else labels
    rewards = "normal rewards whose means are linear in the features,"
    assumes = assumptions_of(rewards, problem.reward_range is not None)
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
