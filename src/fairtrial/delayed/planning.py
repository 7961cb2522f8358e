"""The least number of pulls for the best k arms: the complexity T*, and its optimal shares."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.complexity import Complexity, assumptions_of, positive_spread
from fairtrial.core.keywords import named_arguments
from fairtrial.core.validation import check_instance
from fairtrial.delayed._timed import TimedEnvironment

__all__ = ["Complexity", "complexity"]

Floats = NDArray[np.float64]

_TOLERANCE = 1e-5
_MOST_STEPS = 20_000


@named_arguments
def complexity(environment: TimedEnvironment) -> Complexity:
    """Return the certified complexity T* of finding the best k arms, and its optimal shares.

    No rule with an error probability of at most delta needs fewer than ``T* kl(delta, 1 - delta)``
    complete pulls on average. Delays change when pulls end, not how many are needed. A reading
    contains no more information than its outcome: a rule that uses readings needs at least that
    many *started* pulls, and can leave some of them unfinished.

    Parameters
    ----------
    environment : SimulatedEnvironment or CurveEnvironment
        The problem with assumed true means and standard deviations. A `tolerance` of the problem is
        added to every gap; the bound is then for rules that give `answer`. A standard deviation of
        zero counts as 1e-7 times the largest one.

    Raises
    ------
    InvalidArgument
        If `environment` does not belong to this family.

    Notes
    -----
    T* is that of normal outcomes. For other outcomes it is a yardstick: close to what the best
    rules need, but not a bound.

    Source: Garivier, Kaufmann (2016), "Optimal best arm identification with fixed confidence",
    Theorem 1, for the best k as in Kaufmann, Cappe, Garivier (2016), "On the complexity of best-arm
    identification": ``1/T*`` is the maximum over shares w of the minimum over pairs (i in, j out)
    of ``(mu_i - mu_j)^2 / (2 (s_i^2/w_i + s_j^2/w_j))``.

    Examples
    --------
    >>> from fairtrial.delayed import Problem, SimulatedEnvironment
    >>> problem = Problem(["a", "b", "c"], noise_std=1.0)
    >>> found = complexity(SimulatedEnvironment(problem, [1.0, 0.5, 0.0]))
    >>> found.answer, round(found.value, 2), found.allocation.round(2).tolist()
    (('a',), 34.29, [0.47, 0.46, 0.07])
    """
    problem = check_instance("environment", environment, TimedEnvironment).problem
    values, stds = problem.sign * environment.arm_means, positive_spread(environment.arm_stds)
    order = np.argsort(-values, kind="stable")
    inside, outside = order[: problem.top], order[problem.top :]
    answer = tuple(problem.arms[arm] for arm in inside)
    assumes = assumptions_of("normal outcomes", problem.reward_range is not None)
    if not outside.size:
        any_shares = np.full(len(values), 1.0 / len(values))
        return Complexity(0.0, 0.0, 0.0, any_shares, answer, "", assumes)
    if values[inside[-1]] + problem.tolerance == values[outside[0]]:
        first, second = problem.arms[inside[-1]], problem.arms[outside[0]]
        reason = f"{first!r} and {second!r} tie at the border of the best {problem.top}"
        return Complexity(math.inf, math.inf, math.inf, None, answer, reason, assumes)
    # In units of the smallest gap, so that nothing overflows.
    unit = values[inside[-1]] - values[outside[0]] + problem.tolerance
    gaps = (values[inside][:, None] - values[outside] + problem.tolerance) / unit
    shares, lower, upper = _best_shares(gaps, stds[inside] / unit, stds[outside] / unit)
    weights = np.empty(len(values))
    weights[inside], weights[outside] = shares[: problem.top], shares[problem.top :]
    return Complexity(upper, lower, upper, weights, answer, "", assumes)


def _best_shares(gaps: Floats, inside: Floats, outside: Floats) -> tuple[Floats, float, float]:
    """Return the shares that are the most informative on the worst pair, with bounds on T*.

    Let ``c = gap^2 / 2``, let p be weights of pairs that sum to one, and let Q_a be the sum of p /
    c over the pairs of arm a. Then T* is the maximum over p of ``(sum s_a sqrt(Q_a))^2``. Each p
    bounds T* from below, and the shares ``s_a sqrt(Q_a)`` bound it from above. Each step multiplies
    p by its gradient, which never makes the bound worse.
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
