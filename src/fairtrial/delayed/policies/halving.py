"""Rungs of readings: who is among the best at an age goes on to the next."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fairtrial.core.policy import Choice
from fairtrial.core.pull import Pull
from fairtrial.core.validation import check_integer, check_number
from fairtrial.delayed.policies.records import ARM, DONE, STAGE, STATE, STOPPED, BudgetPolicy
from fairtrial.delayed.problem import Problem
from fairtrial.errors import InvalidArgument

__all__ = ["ASHA", "Hyperband", "SuccessiveHalving"]

_NOWHERE = -1


class RungPolicy(BudgetPolicy):
    """What the rules with rungs share: the ages at which arms are compared.

    Parameters
    ----------
    problem : Problem
        With readings.
    eta : float
        One in `eta` goes on.
    first : int
        Readings at the first rung; every later one has `eta` times as many. The last rung is
        the outcome.
    """

    def __init__(
        self,
        problem: Problem,
        eta: float,
        first: int,
        seed: int | np.random.Generator | None,
    ) -> None:
        super().__init__(problem, seed)
        if problem.feedback == "full":
            raise InvalidArgument("problem", "must have readings to compare arms by", problem)
        self.eta = check_number("eta", eta, low=1.0, open_low=True)
        self.first = check_integer("first", first, low=1)

    def _ladder(self, arms: int, first: float) -> list[float]:
        """Return the readings at every rung for so many arms; the last is the outcome."""
        cuts, left = 0, float(arms)
        while left / self.eta >= self.problem.top:
            cuts, left = cuts + 1, left / self.eta
        return [*(math.floor(first * self.eta**cut) for cut in range(cuts)), math.inf]

    def _reached(self, row: int, age: float) -> bool:
        """Return whether a pull has all the readings of a rung, or its outcome."""
        return self._records[row][STATE] == DONE or self._readings.count(row) >= age


class SuccessiveHalving(RungPolicy):
    """Compare all arms after a few readings, keep one in `eta`, and so on; no guarantee.

    A rung is closed when every arm in it has so many readings; the best go on, the pulls of
    the others are called back. A pull that has to wait for its rung runs on, unless arms of the
    rung wait for its place: then it is called back, and started anew if its arm goes on.

    Parameters
    ----------
    problem : Problem
        With readings.
    eta : float
        One in `eta` goes on, more than 1; as many as are wanted at least.
    first : int
        Readings at the first rung; every later one has `eta` times as many. The last rung is
        the outcome.
    pulls : int
        Pulls of every arm at a rung, whose values are averaged.
    seed : None, int or numpy.random.Generator
        Not used: the policy tosses no coins.

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
    >>> problem = Problem(["a", "b", "c"], noise_std=1.0, feedback="unbiased", report_std=0.5)
    >>> policy = SuccessiveHalving(problem)
    >>> pulls = policy.ask(3)
    >>> for pull in pulls:
    ...     policy.report(pull, {"a": 0.0, "b": 2.0, "c": 1.0}[pull.arm])
    >>> [pull.arm for pull in policy.cancelled()]
    ['a', 'c']
    >>> policy.tell(pulls[1], 2.5)
    >>> policy.recommend().arm
    ('b',)
    """

    state_fields = (*RungPolicy.state_fields, "_alive", "_started", "_rung", "_ages", "_places")

    def __init__(
        self,
        problem: Problem,
        eta: float = 3.0,
        first: int = 1,
        pulls: int = 1,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(problem, eta, first, seed)
        self.pulls = check_integer("pulls", pulls, low=1)
        self._places = [0.0] * len(problem.arms)
        self._enter(range(len(problem.arms)), self._ladder(len(problem.arms), self.first))

    def _enter(self, arms: Sequence[int], ages: Sequence[float]) -> None:
        """Start at the first rung with some arms."""
        self._alive, self._ages, self._rung = list(arms), list(ages), 0
        self._started = [0] * len(self.problem.arms)

    @property
    def _source(self) -> str:
        return (
            "Jamieson, Talwalkar (2016), Non-stochastic best arm identification and "
            "hyperparameter optimization, Algorithm 1"
        )

    @property
    def stopped(self) -> bool:
        """Whether the arms of the last rung have their outcomes."""
        return self._rung == len(self._ages)

    def choose(self) -> Choice:
        """Return an arm of this rung that lacks a pull, or None while all have theirs."""
        for arm in self._alive:
            if self._started[arm] < self.pulls:
                self._started[arm] += 1
                return self._open(arm, self._rung)
        return None

    def _waits_for_places(self) -> bool:
        return any(self._started[arm] < self.pulls for arm in self._alive)

    def _advance(self, row: int) -> None:
        record = self._records[row]
        if self.stopped or record[STAGE] != self._rung:
            return
        if not self._reached(row, self._age):
            if record[STATE] == STOPPED:
                record[STAGE] = _NOWHERE
                self._started[int(record[ARM])] -= 1
            return
        rows = self._rows_of_rung()
        if not self._waits_for_places() and all(self._reached(row, self._age) for row in rows):
            self._close(rows)

    @property
    def _age(self) -> float:
        return self._ages[self._rung]

    def _rows_of_rung(self) -> list[int]:
        return [row for row, record in enumerate(self._records) if record[STAGE] == self._rung]

    def _close(self, rows: list[int]) -> None:
        """Let the best arms of a rung into the next, with their pulls that go on."""
        sums = dict.fromkeys(self._alive, 0.0)
        for row in rows:
            sums[int(self._records[row][ARM])] += self._value(row, self._age)
        best = sorted(self._alive, key=lambda arm: (-sums[arm], arm))
        # An arm's place counts rungs first, then those that it leaves behind on its rung.
        for place, arm in enumerate(best):
            self._places[arm] = self._rung + 1.0 - (place + 1.0) / (len(best) + 1.0)
        self._rung += 1
        if self.stopped:
            return
        keep = max(self.problem.top, math.floor(len(best) / self.eta))
        self._alive, self._started = sorted(best[:keep]), [0] * len(self.problem.arms)
        for row in rows:
            record = self._records[row]
            if int(record[ARM]) in self._alive and record[STATE] != STOPPED:
                record[STAGE] = self._rung
                self._started[int(record[ARM])] += 1
        if not self._waits_for_places() and all(
            self._reached(row, self._age) for row in self._rows_of_rung()
        ):
            self._close(self._rows_of_rung())

    def cancelled(self) -> list[Pull]:
        """Return the pulls in flight of arms that are out, and those that block a place."""
        if self.stopped:
            return self.outstanding()
        blocks = self._waits_for_places()
        return self._in_flight_where(
            lambda row: (
                self._records[row][STAGE] != self._rung
                or (blocks and self._reached(row, self._age))
            )
        )

    def _ranked(self) -> list[int]:
        means = self._means()
        arms = range(len(self.problem.arms))
        return sorted(arms, key=lambda arm: (-math.ceil(self._places[arm]), -means[arm],
                                             -self._places[arm], arm))  # fmt: skip


class Hyperband(SuccessiveHalving):
    """Several brackets of successive halving, from many arms cut early to few cut late.

    Bracket s draws at random ceil((S + 1) / (s + 1) eta^s) of the arms, or all if they are
    fewer, and first compares them after `most` / eta^s readings; s goes down from S, the most
    for which that is at least one. No guarantee.

    Parameters
    ----------
    problem : Problem
        With readings.
    most : int
        Readings of a whole pull.
    eta : float
        One in `eta` goes on, more than 1.
    pulls : int
        Pulls of every arm at a rung, whose values are averaged.
    seed : None, int or numpy.random.Generator
        Which arms go into which bracket.

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
    >>> problem = Problem(20, noise_std=1.0, feedback="refining", report_std=0.5)
    >>> [len(arms) for arms, _ in Hyperband(problem, most=27, seed=0).brackets]
    [20, 12, 6, 4]
    """

    state_fields = (*SuccessiveHalving.state_fields, "_bracket")

    def __init__(
        self,
        problem: Problem,
        most: int,
        eta: float = 3.0,
        pulls: int = 1,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(problem, eta, 1, pulls, seed)
        self.most = check_integer("most", most, low=1)
        self._bracket = 0
        self._enter(*self.brackets[0])

    @property
    def brackets(self) -> list[tuple[list[int], list[float]]]:
        """The arms of every bracket, and the readings at its rungs."""
        # A small excess, as log(27)/log(3) falls short of 3.
        last = math.floor(math.log(self.most) / math.log(self.eta) + 1e-9)
        generator = np.random.default_rng(self.seed)
        found, arms = [], len(self.problem.arms)
        for s in range(last, -1, -1):
            wanted = math.ceil((last + 1) / (s + 1) * self.eta**s)
            size = min(arms, max(self.problem.top, wanted))
            own = sorted(generator.permutation(arms)[:size].tolist())
            first = max(1.0, self.most / self.eta**s)
            found.append((own, [*(math.floor(first * self.eta**i) for i in range(s)), math.inf]))
        return found

    @property
    def _source(self) -> str:
        return (
            "Li, Jamieson, DeSalvo, Rostamizadeh, Talwalkar (2018), Hyperband: a novel "
            "bandit-based approach to hyperparameter optimization"
        )

    def _close(self, rows: list[int]) -> None:
        """Close a rung; after the last one of a bracket go on with the next bracket."""
        super()._close(rows)
        if super().stopped and self._bracket + 1 < len(self.brackets):
            for record in self._records:
                record[STAGE] = _NOWHERE
            self._bracket += 1
            self._enter(*self.brackets[self._bracket])

    def _ranked(self) -> list[int]:
        means = self._means()
        return sorted(
            range(len(self.problem.arms)), key=lambda arm: (-means[arm], -self._places[arm], arm)
        )


class ASHA(RungPolicy):
    """Halving that never waits: an arm goes on as soon as it is among the best of its rung.

    A pull that reaches a rung runs on if its arm is in the best 1 / `eta` of those that have
    reached it so far; else it is called back. Its arm is pulled again if later ones push it
    into the best. Arms that have not been tried come next. No guarantee.

    Parameters
    ----------
    problem : Problem
        With readings.
    eta : float
        One in `eta` goes on, more than 1.
    first : int
        Readings at the first rung; every later one has `eta` times as many. The last rung is
        the outcome.
    seed : None, int or numpy.random.Generator
        Not used: the policy tosses no coins.

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
    >>> problem = Problem(9, noise_std=1.0, feedback="unbiased", report_std=0.5)
    >>> policy = ASHA(problem)
    >>> pulls = policy.ask(3)
    >>> for pull, value in zip(pulls, (1.0, 0.0, 2.0)):
    ...     policy.report(pull, value)
    >>> [pull.arm for pull in policy.cancelled()]
    ['0', '1']
    """

    state_fields = (*RungPolicy.state_fields, "_goes_to", "_values")

    def __init__(
        self,
        problem: Problem,
        eta: float = 3.0,
        first: int = 1,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(problem, eta, first, seed)
        arms = len(problem.arms)
        self._ages = self._ladder(arms, self.first)
        # The rung that an arm has been sent to, and what it had at every rung.
        self._goes_to = [_NOWHERE] * arms
        self._values = np.full((len(self._ages), arms), math.nan)

    @property
    def _source(self) -> str:
        return (
            "Li, Jamieson, Rostamizadeh, Gonina, Hardt, Recht, Talwalkar (2020), A system for "
            "massively parallel hyperparameter tuning, Algorithm 2"
        )

    def choose(self) -> Choice:
        """Return an arm to be pulled to its next rung, else one that was not tried yet."""
        for rung in range(len(self._ages) - 2, -1, -1):
            for arm in self._best_of(rung):
                if self._goes_to[arm] == rung:
                    self._goes_to[arm] = rung + 1
                    return self._open(arm, rung + 1)
        for arm, rung in enumerate(self._goes_to):
            if rung == _NOWHERE:
                self._goes_to[arm] = 0
                return self._open(arm, 0)
        return None

    def _best_of(self, rung: int) -> list[int]:
        """Return the best 1 / eta of the arms that have reached a rung, best first."""
        values = self._values[rung]
        there = np.flatnonzero(~np.isnan(values))
        best = there[np.argsort(-values[there], kind="stable")]
        arms: list[int] = best[: math.floor(len(there) / self.eta)].tolist()
        return arms

    def _advance(self, row: int) -> None:
        record = self._records[row]
        if record[STAGE] == _NOWHERE:
            return
        arm, rung = int(record[ARM]), int(record[STAGE])
        if not self._reached(row, self._ages[rung]):
            if record[STATE] == STOPPED:
                record[STAGE], self._goes_to[arm] = _NOWHERE, rung - 1
            return
        if math.isnan(self._values[rung, arm]):
            self._values[rung, arm] = self._value(row, self._ages[rung])
        runs_on = record[STATE] != STOPPED and rung + 1 < len(self._ages)
        if runs_on and self._goes_to[arm] == rung and arm in self._best_of(rung):
            self._goes_to[arm] = record[STAGE] = rung + 1
            self._advance(row)

    @property
    def stopped(self) -> bool:
        """Whether every arm was tried, nobody goes on, and no pull is on its way to a rung."""
        if _NOWHERE in self._goes_to:
            return False
        for arm, rung in enumerate(self._goes_to):
            if math.isnan(self._values[rung, arm]):
                return False
        return not any(
            self._goes_to[arm] == rung
            for rung in range(len(self._ages) - 1)
            for arm in self._best_of(rung)
        )

    def cancelled(self) -> list[Pull]:
        """Return the pulls in flight that have reached their rung and may not go on."""
        if self.stopped:
            return self.outstanding()
        return self._in_flight_where(
            lambda row: self._reached(row, self._ages[int(self._records[row][STAGE])])
        )

    def _ranked(self) -> list[int]:
        means, arms = self._means(), range(len(self.problem.arms))

        def rank(arm: int) -> tuple[float, float, float, int]:
            reached = np.flatnonzero(~np.isnan(self._values[:, arm]))
            top = int(reached[-1]) if reached.size else _NOWHERE
            value = float(self._values[top, arm]) if reached.size else -math.inf
            return -top, -means[arm], -value, arm

        return sorted(arms, key=rank)
