"""Stop a pull that is worse than the median of other pulls at the same age."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.validation import check_integer
from fairtrial.delayed._kernels.budget_state import MEDIAN
from fairtrial.delayed.policies.budget import BudgetPolicy, check_budget
from fairtrial.delayed.problem import Problem
from fairtrial.errors import InvalidArgument

__all__ = ["MedianStopping"]


class MedianStopping(BudgetPolicy):
    """Pull all arms in turn, and cancel pulls below the median at their age; no guarantee.

    A pull is cancelled when its best reading is below the median, over completed pulls, of the mean
    of their readings up to that age.

    Parameters
    ----------
    problem : Problem
        With readings.
    budget : int
        Number of pulls, at least one per arm.
    min_readings : int
        Number of readings before a pull can be cancelled.
    min_completed : int
        Number of completed pulls before the median is used.
    seed : None, int or numpy.random.Generator
        Ignored; the policy is deterministic.

    Raises
    ------
    InvalidArgument
        If an argument is not acceptable, or the problem has no readings.

    Notes
    -----
    Source: Golovin, Solnik, Moitra, Kochanski, Karro, Sculley (2017), "Google Vizier: a service
    for black-box optimization", section 3.2.2.

    Examples
    --------
    >>> problem = Problem(["a", "b"], noise_std=1.0, feedback="refining", reading_std=0.5)
    >>> policy = MedianStopping(problem, budget=2, min_completed=1)
    >>> good, bad = policy.ask(2)
    >>> policy.report(good, 1.0), policy.tell(good, 1.5), policy.report(bad, 0.5)
    (None, None, None)
    >>> [pull.arm for pull in policy.to_cancel()]
    ['b']
    """

    _source = (
        "Golovin, Solnik, Moitra, Kochanski, Karro, Sculley (2017), Google Vizier: a service "
        "for black-box optimization, section 3.2.2"
    )

    def __init__(
        self,
        problem: Problem,
        budget: int,
        min_readings: int = 1,
        min_completed: int = 5,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(problem, seed)
        if problem.feedback == "full":
            raise InvalidArgument("problem", "must have readings to compare pulls by", problem)
        self.budget = check_budget(budget, len(problem.arms))
        self.min_readings = check_integer("min_readings", min_readings, low=1)
        self.min_completed = check_integer("min_completed", min_completed, low=1)
        self._open(
            MEDIAN,
            np.zeros((1, 1)),
            math.inf,
            budget=self.budget,
            min_readings=self.min_readings,
            min_completed=self.min_completed,
        )

    def _order(self, tables: Any) -> NDArray[np.intp]:
        return np.lexsort((-tables.arms.key, -tables.arms.estimate))
