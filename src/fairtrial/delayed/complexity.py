"""How many pulls the answer needs at least: the complexity T* of the best k, and its shares."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.confidence.complexity import CertifiedComplexity, assumptions_of
from fairtrial.core.validation import as_floats, check_array, check_instance
from fairtrial.delayed.problem import Problem
from fairtrial.errors import InvalidArgument

__all__ = ["Complexity", "complexity"]

Floats = NDArray[np.float64]

_LEAST_STD = 1e-7
"""What a standard deviation of zero counts as, relative to the largest."""

_TOLERANCE = 1e-5
_MOST_STEPS = 20_000


@dataclass(frozen=True, eq=False)
class Complexity(CertifiedComplexity):
    """What it costs to be sure of the best k arms, if the means are what they are assumed to be.

    Attributes
    ----------
    value : float
        T*: complete pulls for each nat of evidence, at the shares in `allocation`; infinite if no
        number of pulls can tell.
    lower, upper : float
        Certified bounds on T*; `upper` is `value`.
    allocation : ndarray of shape (n,), or None
        Optimal shares of the pulls, with sum one; None if T* is infinite.
    answer : tuple of str
        The best k arms, the best first.
    reason : str
        Why T* is infinite; else empty.
    assumes : str
        What the rewards are taken to be. For rewards in a known range T* is a yardstick, and
        without `std` their spread is taken to be the largest that the range allows.
    """

    value: float
    lower: float
    upper: float
    allocation: Floats | None
    answer: tuple[str, ...]
    reason: str = ""
    assumes: str = ""


def complexity(
    problem: Problem,
    means: ArrayLike | Mapping[str, float],
    std: ArrayLike | Mapping[str, float] | None = None,
) -> Complexity:
    """Return the complexity T* of finding the best k arms, certified, and its optimal shares.

    No rule that errs with probability at most delta can do with fewer than
    ``T* kl(delta, 1 - delta)`` complete pulls on average, whatever it knows of the means. Delays
    change when the pulls are over, not how many are needed. A reading holds no more than the
    outcome that it is a reading of: a rule that counts readings needs at least that many *started*
    pulls, of which it may leave some unfinished.

    Parameters
    ----------
    problem : Problem
        The problem. A `tolerance` is added to every gap: the bound is then for rules that give
        `answer`.
    means : array-like of shape (n,), or mapping of str to float
        What the means are assumed to be; a mapping by the arms' labels.
    std : float, array-like of shape (n,) or mapping, optional
        True standard deviations by arm; the problem's by default. For rewards in a known range,
        give the true ones: half the range, the default, is the largest possible.

    Returns
    -------
    Complexity

    Raises
    ------
    InvalidArgument
        If an argument has the wrong shape or value, or `std` is left out where the problem's
        noise is to be estimated.

    Notes
    -----
    T* is that of normal outcomes. For others it is a yardstick: with the true standard deviations
    it is close to what the best rules need, and not a bound.

    Source: Garivier, Kaufmann (2016), "Optimal best arm identification with fixed confidence",
    Theorem 1, for the best k as in Kaufmann, Cappe, Garivier (2016), "On the complexity of best-arm
    identification": ``1/T*`` is the largest over shares w of the least over pairs (i in, j out) of
    ``(mu_i - mu_j)^2 / (2 (s_i^2/w_i + s_j^2/w_j))``.

    Examples
    --------
    >>> problem = Problem(["a", "b", "c"], noise_std=1.0)
    >>> found = complexity(problem, {"a": 1.0, "b": 0.5, "c": 0.0})
    >>> found.answer, round(found.value, 2), found.allocation.round(2).tolist()
    (('a',), 34.29, [0.47, 0.46, 0.07])
    """
    check_instance("problem", problem, Problem)
    values = problem.sign * _by_arm("means", means, problem)
    stds = _true_stds(problem, std)
    order = np.argsort(-values, kind="stable")
    inside, outside = order[: problem.top], order[problem.top :]
    answer = tuple(problem.arms[arm] for arm in inside)
    assumes = assumptions_of("normal outcomes", problem.reward_range is not None, std is not None)
    if not outside.size:
        any_shares = np.full(len(values), 1.0 / len(values))
        return Complexity(0.0, 0.0, 0.0, any_shares, answer, "", assumes)
    if values[inside[-1]] + problem.tolerance == values[outside[0]]:
        first, second = problem.arms[inside[-1]], problem.arms[outside[0]]
        reason = f"{first!r} and {second!r} tie at the border of the best {problem.top}"
        return Complexity(math.inf, math.inf, math.inf, None, answer, reason, assumes)
    # In units of the least gap, so that nothing overflows.
    unit = values[inside[-1]] - values[outside[0]] + problem.tolerance
    gaps = (values[inside][:, None] - values[outside] + problem.tolerance) / unit
    shares, lower, upper = _best_shares(gaps, stds[inside] / unit, stds[outside] / unit)
    weights = np.empty(len(values))
    weights[inside], weights[outside] = shares[: problem.top], shares[problem.top :]
    return Complexity(upper, lower, upper, weights, answer, "", assumes)


def _best_shares(gaps: Floats, inside: Floats, outside: Floats) -> tuple[Floats, float, float]:
    """Return the shares that inform best on the worst pair, with bounds on T*.

    With ``c = gap^2 / 2``, p over pairs of sum one and Q_a the sum of p / c over the pairs of a,
    T* is the largest (sum s_a sqrt(Q_a))^2, and each p bounds it from below; the shares
    s_a sqrt(Q_a) bound it from above. Each step multiplies p by its gradient, which never makes
    the bound worse.
    """
    halves = 0.5 * gaps * gaps
    weights = np.full(gaps.shape, 1.0 / gaps.size)
    for _ in range(_MOST_STEPS):
        roots = np.sqrt((weights / halves).sum(axis=1)), np.sqrt((weights / halves).sum(axis=0))
        shares = np.concatenate([inside * roots[0], outside * roots[1]])
        whole = shares.sum()
        slopes = (inside / roots[0])[:, None] + outside / roots[1]
        growth = slopes / (halves * whole)
        if growth.max() <= 1.0 + _TOLERANCE:
            break
        weights *= growth
    return shares / whole, float(whole * whole), float(whole * whole * growth.max())


def _true_stds(problem: Problem, std: Any) -> Floats:
    if std is None:
        if problem.estimates_noise:
            raise InvalidArgument("std", "must be given where the problem's noise is 'estimated'")
        return np.array(problem.scale)
    given = _by_arm("std", std, problem, single=True)
    if (given < 0.0).any() or given.max() == 0.0:
        raise InvalidArgument("std", "must be non-negative and not zero for every arm", std)
    return np.asarray(np.maximum(given, _LEAST_STD * given.max()))


def _by_arm(name: str, given: Any, problem: Problem, single: bool = False) -> Floats:
    """Return a number for each arm, from a list in their order or a mapping by label."""
    arms = problem.arms
    if isinstance(given, Mapping):
        if set(given) != set(arms):
            raise InvalidArgument(name, f"must have one entry for each of {', '.join(arms)}", given)
        given = [given[arm] for arm in arms]
    values = as_floats(name, given, f"must be numbers, one for each of {len(arms)} arms")
    if single and values.ndim == 0:
        values = np.full(len(arms), float(values))
    return np.array(check_array(name, values, (len(arms),)))
