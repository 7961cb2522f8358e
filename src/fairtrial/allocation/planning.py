"""The cost of fairness: the regret bounds of the paper."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fairtrial.allocation.environments.steady import SteadyEnvironment
from fairtrial.core.keywords import named_arguments
from fairtrial.core.validation import check_instance, check_integer
from fairtrial.errors import NotSupported

__all__ = ["Complexity", "complexity"]

_CONSTANT = 1.0 + math.pi**2 / 3.0


@dataclass(frozen=True, slots=True)
class Complexity:
    """Upper bounds on the regret after T rounds, for rewards in a range of length 1.

    Parameters
    ----------
    theorem2 : float
        Bound on the r-regret of Fair-UCB.
    theorem4 : float
        Bound on the regret of Fair-UCB, as the paper's appendix proves it.
    theorem4_main_text : float
        The same bound as the main text prints it, with both sums over the arms that explore beyond
        their quota. It is false if some arm's quota is larger than its exploration.
    theorem8 : float
        Bound on the r-regret of T-fair-UCB.
    ucb1 : float
        Bound on the regret of UCB1 (theorem 6).
    constant : float
        ``(1 + pi^2 / 3)`` times the sum of the gaps, the part that does not grow.
    sufficient_tolerance : float
        The smallest tolerance for which the bound of theorem 4 grows only like ln T.
    """

    theorem2: float
    theorem4: float
    theorem4_main_text: float
    theorem8: float
    ucb1: float
    constant: float
    sufficient_tolerance: float


@named_arguments
def complexity(environment: SteadyEnvironment, horizon: int) -> Complexity:
    """Return the regret bounds of the paper, for the true means of an environment.

    With L = 8 ln T, an arm with gap D explores beyond its quota if ``r T - tolerance < L / D^2``.
    Arms with gap 0 are in no sum. Quotas below 0 count as 0, which only tightens the printed form.

    Parameters
    ----------
    environment : BernoulliEnvironment, BetaEnvironment or ReplayEnvironment
        Arms, shares, tolerance and true means; rewards have a range of length 1.
    horizon : int
        Rounds T.

    Raises
    ------
    InvalidArgument
        If an argument is not acceptable.
    NotSupported
        For several plays a round, groups, or another range of the rewards.

    Notes
    -----
    Source: Patil, Ghalme, Nair, Narahari (2019), theorems 2, 4, 6 and 8.

    Examples
    --------
    >>> from fairtrial.allocation import BernoulliEnvironment, Problem
    >>> problem = Problem(3, ["1/5", "3/10", "1/4"])
    >>> environment = BernoulliEnvironment(problem, [0.7, 0.5, 0.4])
    >>> found = complexity(environment, horizon=200)
    >>> round(found.theorem2, 6), round(found.theorem4, 6)
    (328.366092, 355.366092)
    """
    problem = check_instance("environment", environment, SteadyEnvironment).problem
    low, high = problem.reward_range
    if problem.plays > 1 or problem.groups or high - low != 1.0:
        raise NotSupported(
            "the bounds only hold for one play per round, no groups, and a range of 1"
        )
    rounds = check_integer("horizon", horizon, low=1)
    gaps = environment.arm_means.max() - environment.arm_means
    worse = gaps > 0
    gaps = gaps[worse]
    quotas = np.array([float(share * rounds) for share in problem.shares])[worse]
    owed = np.maximum(0.0, quotas - problem.unfairness_tolerance)
    needed = 8.0 * math.log(rounds) / gaps**2
    constant = _CONSTANT * float(gaps.sum())
    explores = quotas - problem.unfairness_tolerance < needed
    explored = float((gaps * needed)[explores].sum())
    short = quotas < needed
    return Complexity(
        theorem2=constant + explored - float((gaps * owed)[explores].sum()),
        theorem4=constant + explored + float((gaps * owed)[~explores].sum()),
        theorem4_main_text=constant + explored + float((gaps * owed)[explores].sum()),
        theorem8=constant + float((gaps * (needed - quotas))[short].sum()),
        ucb1=constant + float((gaps * needed).sum()),
        constant=constant,
        sufficient_tolerance=float(np.max(quotas - needed, initial=0.0)),
    )
