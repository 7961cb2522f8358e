"""The value of the best schedule that keeps the shares, and the pulls that it owes."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.allocation.problem import Problem
from fairtrial.core.keywords import named_arguments
from fairtrial.core.validation import check_array, check_instance

__all__ = ["fair_value", "floored_quotas"]


@named_arguments
def fair_value(problem: Problem, means: ArrayLike) -> float:
    """Return the mean reward per round of the best schedule that keeps the shares exactly.

    Every arm gets its share. The part of a group's share beyond the shares of its members goes to
    the group's best member. The rest goes to the best arm (with several plays, each arm at most
    once per round).

    Parameters
    ----------
    problem : Problem
        Arms and shares.
    means : array-like of shape (k,)
        The true means.

    Examples
    --------
    >>> round(fair_value(Problem(3, ["1/5", "3/10", "1/4"]), [0.7, 0.5, 0.4]), 6)
    0.565
    """
    check_instance("problem", problem, Problem)
    values = check_array("means", means, (len(problem.arms),))
    given = np.array([float(share) for share in problem.shares])
    place_of = {arm: place for place, arm in enumerate(problem.arms)}
    for share, members in (problem.groups or {}).values():
        places = [place_of[arm] for arm in members]
        best = max(places, key=lambda place: values[place])
        given[best] += float(share) - given[places].sum()
    left = problem.plays - float(given.sum())
    for arm in np.argsort(-values, kind="stable"):
        more = min(left, 1.0 - given[arm])
        given[arm] += more
        left -= more
    return float(values @ given)


def floored_quotas(problem: Problem, rounds: int) -> NDArray[np.int64]:
    """Return ``max(0, floor(r_i T) - tolerance)`` for every arm."""
    owed = (quota * rounds // problem.denominator for quota in problem.quotas)
    return np.array(
        [max(0, pulls - problem.unfairness_tolerance) for pulls in owed], dtype=np.int64
    )
