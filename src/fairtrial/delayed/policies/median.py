"""Stop a pull that does worse than the median of others did at its age."""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.policy import Choice
from fairtrial.core.pull import Pull
from fairtrial.core.validation import check_integer
from fairtrial.delayed.policies.records import DONE, OPEN, STATE, BudgetPolicy, check_budget
from fairtrial.delayed.problem import Problem
from fairtrial.errors import InvalidArgument

__all__ = ["MedianStopping"]


class MedianStopping(BudgetPolicy):
    """Pull all arms in turn, and call back pulls below the median at their age; no guarantee.

    A pull is called back when the best of its readings is below the median of the mean
    readings that completed pulls had at that age.

    Parameters
    ----------
    problem : Problem
        With readings.
    budget : int
        Pulls, at least one an arm.
    grace : int
        Readings that every pull may have.
    least : int
        Completed pulls that a median needs.
    seed : None, int or numpy.random.Generator
        Not used: the policy tosses no coins.

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
    >>> problem = Problem(["a", "b"], noise_std=1.0, feedback="refining", report_std=0.5)
    >>> policy = MedianStopping(problem, budget=2, least=1)
    >>> good, bad = policy.ask(2)
    >>> policy.report(good, 1.0), policy.tell(good, 1.5), policy.report(bad, 0.5)
    (None, None, None)
    >>> [pull.arm for pull in policy.cancelled()]
    ['b']
    """

    def __init__(
        self,
        problem: Problem,
        budget: int,
        grace: int = 1,
        least: int = 5,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(problem, seed)
        if problem.feedback == "full":
            raise InvalidArgument("problem", "must have readings to compare pulls by", problem)
        self.budget = check_budget(budget, len(problem.arms))
        self.grace = check_integer("grace", grace, low=1)
        self.least = check_integer("least", least, low=1)
        self._by_age: list[list[float]] = []

    @property
    def _source(self) -> str:
        return (
            "Golovin, Solnik, Moitra, Kochanski, Karro, Sculley (2017), Google Vizier: a service "
            "for black-box optimization, section 3.2.2"
        )

    @property
    def stopped(self) -> bool:
        """Whether the budget is spent, and no pull is waited for."""
        spent = self.asked >= self.budget
        return spent and all(record[STATE] != OPEN for record in self._records)

    def choose(self) -> Choice:
        """Return the next arm in turn, None once the budget is spent."""
        if self.asked >= self.budget:
            return None
        return self._open(self.asked % len(self.problem.arms), 0)

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from a state that a policy of the same problem, parameters and seed returned."""
        super().set_state(state)
        self._by_age = []
        for row in range(len(self._records)):
            self._advance(row)

    def _advance(self, row: int) -> None:
        """File the running means of a completed pull by age, each age in order."""
        count = self._readings.count(row)
        if self._records[row][STATE] != DONE or not count:
            return
        means = self._readings.in_order(row)[:, 1].cumsum() / np.arange(1, count + 1)
        self._by_age += [[] for _ in range(len(self._by_age), count)]
        for others, mean in zip(self._by_age, means.tolist(), strict=False):
            insort(others, mean)

    def cancelled(self) -> list[Pull]:
        """Return the pulls in flight that do worse than the median at their age."""
        return self._in_flight_where(self._is_bad)

    def _is_bad(self, row: int) -> bool:
        age = self._readings.count(row)
        if not self.grace <= age <= len(self._by_age):
            return False
        others = self._by_age[age - 1]
        return len(others) >= self.least and self._readings.largest(row) < median(others)

    def _ranked(self) -> list[int]:
        means, best = self._means(), [float("-inf")] * len(self.problem.arms)
        for row, record in enumerate(self._records):
            value = self._value(row, float("inf"))
            best[int(record[0])] = max(best[int(record[0])], value)
        arms = range(len(self.problem.arms))
        return sorted(arms, key=lambda arm: (-means[arm], -best[arm], arm))
