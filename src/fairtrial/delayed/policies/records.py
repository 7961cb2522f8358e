"""What rules without a guarantee share: one record for every pull, and what they report."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.policy import Policy
from fairtrial.core.pull import UNSOLICITED, Pull
from fairtrial.core.recommendation import Estimate, Guarantee, Progress, Recommendation
from fairtrial.core.validation import check_integer, check_number
from fairtrial.delayed.policies._readings import Readings
from fairtrial.delayed.problem import Problem
from fairtrial.errors import InvalidArgument, NotSupported, UnknownPull

__all__ = ["BudgetPolicy"]

Floats = NDArray[np.float64]

# Columns of a record. The stage is the rung, or the round, that the pull is for.
ARM, STAGE, STATE, OUTCOME = range(4)
OPEN, DONE, STOPPED = range(3)


class BudgetPolicy(Policy):
    """Base of the rules that end when their budget does, and promise nothing.

    They take the same calls as the races, so that both can be compared in one world or on one
    log.
    """

    problem: Problem
    state_fields: ClassVar[tuple[str, ...]] = ("_records", "_reported", "duplicates")

    def __init__(self, problem: Problem, seed: int | np.random.Generator | None = None) -> None:
        if not isinstance(problem, Problem):
            raise InvalidArgument("problem", "must be a delayed.Problem", problem)
        super().__init__(problem, seed)
        self.duplicates = 0
        self._records: list[list[float]] = []
        self._readings = Readings()

    @property
    def _reported(self) -> NDArray[Any]:
        return self._readings.to_array()

    @_reported.setter
    def _reported(self, rows: NDArray[Any]) -> None:
        self._readings = Readings.from_array(rows)

    # ---------------------------------------------------------------- what a rule says

    def _advance(self, row: int) -> None:
        """Go on after something has happened to the pull of a record."""

    @abstractmethod
    def _ranked(self) -> list[int]:
        """Return all arms, the best first."""

    @property
    @abstractmethod
    def _source(self) -> str:
        """The paper."""

    # ---------------------------------------------------------------- what comes in

    def _open(self, arm: int, stage: int) -> tuple[int, int]:
        """Write a new pull down; return what `choose` returns for it."""
        self._records.append([arm, stage, OPEN, math.nan])
        return arm, len(self._records) - 1

    def learn(self, pull: Pull, outcome: float) -> None:
        """Take an outcome: in time, after a stop, or unsolicited."""
        if pull.number == UNSOLICITED:
            self._open(pull.action, -1)
        row = pull.tag if pull.number != UNSOLICITED else len(self._records) - 1
        self._records[row][STATE] = DONE
        self._records[row][OUTCOME] = self.problem.sign * outcome
        self._advance(row)

    def read(
        self,
        pull: Pull,
        value: float,
        stage: float | None = None,
        elapsed: float | None = None,
        std: float | None = None,
        **details: Any,
    ) -> None:
        """Take a reading; see `InformationRacing`. Its deviation `std` changes nothing."""
        for name, given in details.items():
            raise InvalidArgument(name, "must be one of stage, elapsed, std for a reading", given)
        if self.problem.feedback == "full":
            raise NotSupported("feedback='full' says that there are no readings")
        row, own = pull.tag, self.problem.sign * value
        std = None if std is None else check_number("std", std, low=0.0)
        since = None if elapsed is None else check_number("elapsed", elapsed, low=0.0)
        place = self._readings.next_stage(row) if since is None else since
        place = place if stage is None else check_number("stage", stage)
        if self._readings.is_known(row, place, own, std):
            self.duplicates += 1
            return
        self._readings.add(row, place, own, std)
        self._advance(row)

    def read_late(self, pull: Pull, value: float, **details: Any) -> None:
        """Ignore a reading that its pull's outcome has overtaken."""

    def lose(self, pull: Pull, reason: str) -> None:
        """Take note that a pull has stopped; its readings stay."""
        self._records[pull.tag][STATE] = STOPPED
        self._advance(pull.tag)

    def revise(self, pull: Pull, old: float, new: float) -> None:
        """Correct an outcome; arms that have left stay out."""
        sign = self.problem.sign
        own = self._records if pull.number == UNSOLICITED else [self._records[pull.tag]]
        for record in own:
            if record[ARM] == pull.action and record[OUTCOME] == sign * old:
                record[OUTCOME] = sign * new
                return
        raise UnknownPull(f"{pull!r} was not told with the outcome {old!r}")

    def _in_flight_where(self, test: Callable[[int], bool]) -> list[Pull]:
        """Return the pulls in flight whose records pass a test."""
        return [
            self._pull(number, arm, row)
            for number, (arm, row) in self._outstanding.items()
            if test(row)
        ]

    # ---------------------------------------------------------------- what is known

    def _value(self, row: int, readings: float) -> float:
        """Return the forecast of a pull's outcome from so many readings, NaN without any.

        An outcome that came before the reading takes its place.
        """
        record, count = self._records[row], self._readings.count(row)
        if count < readings and record[STATE] == DONE:
            return record[OUTCOME]
        if count == 0:
            return math.nan
        values = self._readings.in_order(row)[: int(min(readings, count)), 1]
        if self.problem.feedback == "unbiased":
            return float(values.mean())
        if self.problem.feedback == "incremental" and self.problem.duration is not None:
            return float(values.mean() * self.problem.duration[int(record[ARM])])
        return float(values[-1])

    def _outcomes(self) -> list[list[float]]:
        """Return the outcomes of every arm."""
        found: list[list[float]] = [[] for _ in self.problem.arms]
        for record in self._records:
            if record[STATE] == DONE:
                found[int(record[ARM])].append(record[OUTCOME])
        return found

    def _means(self) -> list[float]:
        """Return the mean outcome of every arm, minus infinity where there is none."""
        return [sum(own) / len(own) if own else -math.inf for own in self._outcomes()]

    # --------------------------------------------------------------------- report

    def recommend(self) -> Recommendation:
        """Return the top arms by what was seen, the best first; decided at the end."""
        leader = tuple(self.problem.arms[arm] for arm in self._ranked()[: self.problem.top])
        done = self.stopped
        return Recommendation(
            arm=leader if done else None,
            status="decided" if done else "running",
            leader=leader,
            guarantee=self.guarantee,
            reason="the budget is spent" if done else "the budget is not spent yet",
            evidence={"pulls": self.told},
        )

    @property
    def guarantee(self) -> Guarantee:
        """None: the rule names arms when its budget ends, at no stated probability of error."""
        return Guarantee(
            name=type(self).__name__,
            proven=False,
            statement="no probability of error is claimed",
            source=self._source,
        )

    def progress(self) -> Progress:
        """Return the mean outcome of every arm and the state of the rule."""
        estimates = tuple(
            Estimate(
                labels,
                len(own),
                mean=self.problem.sign * sum(own) / len(own) if own else None,
            )
            for labels, own in zip(self.problem.action_labels, self._outcomes(), strict=True)
        )
        return Progress(
            recommendation=self.recommend(),
            asked=self.asked,
            told=self.told,
            outstanding=len(self._outstanding),
            actions=estimates,
            arms=estimates,
            details={"readings": self._readings.number, "duplicates": self.duplicates},
        )

    def metrics(self) -> dict[str, float]:
        """Return the number of readings."""
        return {"readings": float(self._readings.number)}


def check_budget(budget: int, arms: int) -> int:
    """Require a budget of one pull an arm at least."""
    return check_integer("budget", budget, low=arms)
