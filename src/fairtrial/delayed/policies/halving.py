"""Rules with rungs: arms that are among the best at some age continue to the next rung."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.documentation import documented_by
from fairtrial.core.validation import check_integer, check_number
from fairtrial.delayed._kernels.budget_state import PROMOTION, RUNGS
from fairtrial.delayed.policies.budget import BudgetPolicy
from fairtrial.delayed.problem import Problem
from fairtrial.errors import InvalidArgument

__all__ = ["ASHA", "Hyperband", "SuccessiveHalving"]

Floats = NDArray[np.float64]
Bracket = tuple[Sequence[int], Sequence[float]]


class RungPolicy(BudgetPolicy):
    """Base class of rules with rungs, the ages at which arms are compared.

    Parameters
    ----------
    problem : Problem
        The problem, with readings.
    eta : float
        One in `eta` arms continues.
    min_readings : int
        Number of readings at the first rung; every later rung has `eta` times as many. The last
        rung is the outcome.
    """

    def __init__(
        self,
        problem: Problem,
        eta: float,
        min_readings: int,
        seed: int | np.random.Generator | None,
    ) -> None:
        super().__init__(problem, seed)
        if problem.feedback == "full":
            raise InvalidArgument("problem", "must have readings to compare arms by", problem)
        self.eta = check_number("eta", eta, low=1.0, open_low=True)
        self.min_readings = check_integer("min_readings", min_readings, low=1)

    def _all_arms(self) -> Bracket:
        """Return all arms, and the number of readings at every rung; the last is the outcome."""
        arms = len(self.problem.arms)
        cuts, left = 0, float(arms)
        while left / self.eta >= self.problem.top:
            cuts, left = cuts + 1, left / self.eta
        ages = [*(math.floor(self.min_readings * self.eta**cut) for cut in range(cuts)), math.inf]
        return range(arms), ages

    def _set_up(self, rule: int, brackets: Sequence[Bracket], pulls: int) -> None:
        """Start an empty state for arms in brackets, with `pulls` pulls of each arm at a rung."""
        ages = [age for _, own in brackets for age in own if age < math.inf]
        plan = _plan_of(brackets, len(self.problem.arms))
        self._open(rule, plan, max(ages, default=0.0), eta=self.eta, pulls_each=pulls)


def _plan_of(brackets: Sequence[Bracket], arms: int) -> Floats:
    """Return a row for each bracket: number of rungs, readings at each, and membership of arms."""
    most = max(len(ages) for _, ages in brackets)
    plan = np.zeros((len(brackets), 1 + most + arms))
    for row, (own, ages) in zip(plan, brackets, strict=True):
        row[0] = len(ages)
        row[1 : 1 + len(ages)] = ages
        row[1 + most :][list(own)] = 1.0
    return plan


class SuccessiveHalving(RungPolicy):
    """Compare all arms after a few readings, keep one in `eta`, and so on; no guarantee.

    A rung ends when every arm in it has enough readings. The best arms continue, the pulls of the
    others are cancelled. A pull that has to wait for its rung continues to run, unless arms of the
    rung wait for its place. Then it is cancelled, and started again if its arm continues.

    Parameters
    ----------
    problem : Problem
        The problem, with readings.
    eta : float
        One in `eta` arms continues, but at least as many as are wanted; more than 1.
    min_readings : int
        Number of readings at the first rung; every later rung has `eta` times as many. The last
        rung is the outcome.
    pulls : int
        Number of pulls of every arm at a rung; their values are averaged.
    seed : None, int or numpy.random.Generator
        Ignored; the policy is deterministic.

    Raises
    ------
    InvalidArgument
        If an argument is not acceptable, or the problem has no readings.

    Notes
    -----
    Source: Jamieson and Talwalkar (2016), "Non-stochastic best arm identification and
    hyperparameter optimization", Algorithm 1.

    Examples
    --------
    >>> problem = Problem(["a", "b", "c"], noise_std=1.0, feedback="unbiased", reading_std=0.5)
    >>> policy = SuccessiveHalving(problem)
    >>> pulls = policy.ask(3)
    >>> for pull in pulls:
    ...     policy.report(pull, {"a": 0.0, "b": 2.0, "c": 1.0}[pull.arm])
    >>> [pull.arm for pull in policy.to_cancel()]
    ['a', 'c']
    >>> policy.tell(pulls[1], 2.5)
    >>> policy.recommend().arm
    ('b',)
    """

    _source = (
        "Jamieson, Talwalkar (2016), Non-stochastic best arm identification and "
        "hyperparameter optimization, Algorithm 1"
    )

    def __init__(
        self,
        problem: Problem,
        eta: float = 3.0,
        min_readings: int = 1,
        pulls: int = 1,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(problem, eta, min_readings, seed)
        self.pulls = check_integer("pulls", pulls, low=1)
        self._set_up(RUNGS, [self._all_arms()], self.pulls)

    def _order(self, tables: Any) -> NDArray[np.intp]:
        means, places = tables.arms.estimate, tables.arms.place
        return np.lexsort((-places, -means, -np.ceil(places)))


@documented_by(SuccessiveHalving)
class Hyperband(RungPolicy):
    """Run several brackets of successive halving, from many arms cut early to few cut late.

    Bracket s draws ceil((S + 1) / (s + 1) eta^s) arms at random, or all arms if there are fewer. It
    first compares them after `max_readings` / eta^s readings. s decreases from S, the largest
    number for which this is at least one reading. No guarantee.

    Parameters
    ----------
    max_readings : int
        Number of readings of a complete pull.
    eta : float
        One in `eta` arms continues; more than 1.
    seed : None, int or numpy.random.Generator
        Source of the random assignment of arms to brackets.

    Raises
    ------
    InvalidArgument
        If an argument is not acceptable, or the problem has no readings.

    Notes
    -----
    Source: Li, Jamieson, DeSalvo, Rostamizadeh, Talwalkar (2018), "Hyperband: a novel
    bandit-based approach to hyperparameter optimization", Algorithm 1.

    Examples
    --------
    >>> problem = Problem(20, noise_std=1.0, feedback="refining", reading_std=0.5)
    >>> [len(arms) for arms, _ in Hyperband(problem, max_readings=27, seed=0).brackets]
    [20, 12, 6, 4]
    """

    _source = (
        "Li, Jamieson, DeSalvo, Rostamizadeh, Talwalkar (2018), Hyperband: a novel "
        "bandit-based approach to hyperparameter optimization"
    )

    def __init__(
        self,
        problem: Problem,
        max_readings: int,
        eta: float = 3.0,
        pulls: int = 1,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(problem, eta, 1, seed)
        self.max_readings = check_integer("max_readings", max_readings, low=1)
        self.pulls = check_integer("pulls", pulls, low=1)
        self._set_up(RUNGS, self.brackets, self.pulls)

    @property
    def brackets(self) -> list[tuple[list[int], list[float]]]:
        """The arms of every bracket, and the numbers of readings at its rungs."""
        # Add a small excess, because log(27)/log(3) is slightly less than 3.
        last = math.floor(math.log(self.max_readings) / math.log(self.eta) + 1e-9)
        generator = np.random.default_rng(self.seed)
        found, arms = [], len(self.problem.arms)
        for s in range(last, -1, -1):
            wanted = math.ceil((last + 1) / (s + 1) * self.eta**s)
            size = min(arms, max(self.problem.top, wanted))
            own = sorted(generator.permutation(arms)[:size].tolist())
            first = max(1.0, self.max_readings / self.eta**s)
            found.append((own, [*(math.floor(first * self.eta**i) for i in range(s)), math.inf]))
        return found

    def _order(self, tables: Any) -> NDArray[np.intp]:
        return np.lexsort((-tables.arms.place, -tables.arms.estimate))


@documented_by(SuccessiveHalving)
class ASHA(RungPolicy):
    """Halving without waiting: an arm continues as soon as it is among the best of its rung.

    A pull that reaches a rung continues if its arm is in the best 1 / `eta` of the arms that have
    reached the rung so far; otherwise it is cancelled. Its arm is pulled again if later arms push
    it into the best 1 / `eta`. Otherwise, an arm that was not tried yet comes next. No guarantee.

    Parameters
    ----------
    eta : float
        One in `eta` arms continues; more than 1.

    Raises
    ------
    InvalidArgument
        If an argument is not acceptable, or the problem has no readings.

    Notes
    -----
    Source: Li, Jamieson, Rostamizadeh, Gonina, Hardt, Recht, Talwalkar (2020), "A system for
    massively parallel hyperparameter tuning", Algorithm 2.

    Examples
    --------
    >>> problem = Problem(9, noise_std=1.0, feedback="unbiased", reading_std=0.5)
    >>> policy = ASHA(problem)
    >>> pulls = policy.ask(3)
    >>> for pull, value in zip(pulls, (1.0, 0.0, 2.0)):
    ...     policy.report(pull, value)
    >>> [pull.arm for pull in policy.to_cancel()]
    ['0', '1']
    """

    _source = (
        "Li, Jamieson, Rostamizadeh, Gonina, Hardt, Recht, Talwalkar (2020), A system for "
        "massively parallel hyperparameter tuning, Algorithm 2"
    )

    def __init__(
        self,
        problem: Problem,
        eta: float = 3.0,
        min_readings: int = 1,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(problem, eta, min_readings, seed)
        self._set_up(PROMOTION, [self._all_arms()], pulls=1)

    def _order(self, tables: Any) -> NDArray[np.intp]:
        seen = tables.seen
        there = ~np.isnan(seen)
        # The highest rung that an arm has reached, 0 for none.
        height = np.where(there, np.arange(1, len(seen) + 1)[:, None], 0).max(axis=0)
        last = np.take_along_axis(seen, np.maximum(height - 1, 0)[None], axis=0)[0]
        value = np.where(height > 0, last, -math.inf)
        return np.lexsort((-value, -tables.arms.estimate, -height))
