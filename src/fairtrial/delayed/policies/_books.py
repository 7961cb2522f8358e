"""The books of a race: what is written down, and whether it is over."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.policy import Policy
from fairtrial.core.pull import Pull
from fairtrial.core.validation import check_instance, check_integer, check_number, check_probability
from fairtrial.delayed._kernels import books
from fairtrial.delayed._kernels.books import Book, list_survivors
from fairtrial.delayed._kernels.events import SETTLE
from fairtrial.delayed._kernels.runs import act
from fairtrial.delayed.policies._checks import ERROR_COLUMNS
from fairtrial.delayed.policies._readings import Readings
from fairtrial.delayed.policies._truncation import ENOUGH
from fairtrial.delayed.problem import FEEDBACKS, Problem
from fairtrial.errors import InvalidArgument, UnknownPull

__all__ = ["BookedPolicy"]

Floats = NDArray[np.float64]

# Noise beyond this, or below its inverse, is counted in another unit.
_PLAIN = 1e40

# A bias is learned from outcomes only, and full feedback has no readings to keep.
_TRUNCATED = frozenset({"incremental", "unbiased", "refining"})


class BookedPolicy(Policy):
    """A policy whose state is in the books that the kernels work on."""

    problem: Problem
    version = 4
    state_fields = (
        "_pulls",
        "_arms",
        "_sums",
        "_control",
        "_declared",
        "_reported",
        "_unresolved",
        "_valued",
        "duplicates",
        "_dropped",
        "_arrivals",
        "_errors",
        "_hasty",
        "_returned",
        "_amended",
        "_not_nested",
        "_clipped",
        "_time",
        "_cut_at",
        "_look_at",
    )

    def __init__(
        self,
        problem: Problem,
        delta: float,
        parallel: int | None,
        per_arm: int | None,
        truncate: int | str | None,
        seed: int | np.random.Generator | None,
    ) -> None:
        check_instance("problem", problem, Problem)
        super().__init__(problem, seed)
        self.delta = check_probability("delta", delta)
        self.parallel = None if parallel is None else check_integer("parallel", parallel, low=1)
        self.per_arm = None if per_arm is None else check_integer("per_arm", per_arm, low=1)
        self.truncate = self._check_truncate(truncate)
        # Readings after which a pull is called back, and outcomes at which "auto" looks again.
        self._cut_at = float(self.truncate) if isinstance(self.truncate, int) else math.inf
        self._look_at = ENOUGH
        self.duplicates = 0
        self._unit = _unit_of(problem)
        self._inward = problem.sign / self._unit
        self._outward = problem.sign * self._unit
        self._readings = Readings()
        self._unresolved: list[int] = []
        self._valued: list[int] = []
        # Rows of pulls that got lost by chance while their arm was in the race.
        self._dropped: list[int] = []
        # Rows in the order in which outcomes came, with how many later pulls of the arm had ended
        # before, and how many earlier ones were still open.
        self._arrivals: list[list[int]] = []
        self._errors = np.zeros((0, ERROR_COLUMNS))
        # Arms decided on while more of their overtaken pulls were open than had come.
        self._hasty: list[int] = []
        self._returned = 0
        self._amended = 0
        self._not_nested = 0
        self._clipped = 0

    def _check_truncate(self, truncate: int | str | None) -> int | str | None:
        problem = self.problem
        if truncate is None:
            return None
        if problem.feedback not in _TRUNCATED:
            raise InvalidArgument(
                "truncate", f"must be left out for feedback={problem.feedback!r}", truncate
            )
        if problem.errors == "first":
            raise InvalidArgument("truncate", "must be left out for errors='first'", truncate)
        if truncate == "auto":
            return truncate
        if isinstance(truncate, str):
            raise InvalidArgument("truncate", "must be a number of readings, or 'auto'", truncate)
        return check_integer("truncate", truncate, low=1)

    def _set_caps(
        self, max_pulls: int | None, max_reports: int | None, max_time: float | None
    ) -> None:
        """Take note of what ends a race undecided."""
        self.max_pulls = None if max_pulls is None else check_integer("max_pulls", max_pulls, low=1)
        self.max_reports = (
            None if max_reports is None else check_integer("max_reports", max_reports, low=1)
        )
        self.max_time = (
            None if max_time is None else check_number("max_time", max_time, low=0.0, open_low=True)
        )
        self._time = 0.0

    def _open_books(self, constants: Mapping[int, float]) -> None:
        """Start empty books with a rule's own constants."""
        problem, arms = self.problem, len(self.problem.arms)
        rules = np.zeros(books.CONSTANTS + 3 * arms)
        # Readings that do not count leave nothing of their kind, such as the price of a bias.
        feedback = problem.feedback if self._uses_readings else "full"
        rules[books.FEEDBACK] = FEEDBACKS.index(feedback)
        rules[books.PREFIX] = problem.delay_depends_on_outcome
        rules[books.TOP], rules[books.DELTA] = problem.top, self.delta
        rules[books.TOLERANCE] = problem.tolerance / self._unit
        rules[books.PER_ARM] = math.inf if self.per_arm is None else self.per_arm
        rules[books.FIRST_ONLY] = problem.errors == "first"
        rules[books.TARGET] = (
            math.inf if problem.target_std is None else problem.target_std / self._unit
        )
        for name, value in constants.items():
            rules[name] = value
        shares = rules[books.REPORT_SHARE], rules[books.BIAS_SHARE]
        rules[books.LOG_ALL] = math.log(arms / self.delta)
        rules[books.LOG_OUTCOME] = rules[books.LOG_ALL] - math.log(1.0 - sum(shares))
        rules[books.LOG_REPORT] = rules[books.LOG_ALL] - math.log(shares[0] or 1.0)
        rules[books.LOG_BIAS] = rules[books.LOG_ALL] - math.log(shares[1] or 1.0)
        scales = rules[books.CONSTANTS :].reshape(3, arms)
        scales[0] = problem.scale / self._unit
        scales[1] = 0.0 if problem.reading_std is None else problem.reading_std / self._unit
        scales[2] = 0.0 if problem.duration is None else problem.duration
        rules[books.LONGEST] = scales[2].max()
        book = books.empty_books(rules, arms, rows=64)
        self._rules, self._table, self._pulls = book.rules, book.table, book.pulls
        self._arms, self._sums = book.arms, book.sums
        self._control, self._declared, self._lists = book.control, book.declared, book.lists
        self._act(SETTLE, 0)

    @property
    def _book(self) -> Any:
        """Everything that the kernels work on.

        The arms are handed over transposed: an array of one row is laid out by rows and by
        columns alike, for which everything would be compiled once more.
        """
        return (
            self._rules,
            self._table,
            self._pulls,
            self._arms.T,
            self._sums,
            self._control,
            self._declared,
            self._lists,
        )

    def _act(
        self, kind: int, at: int, first: float = 0.0, second: float = 0.0, third: float = 0.0
    ) -> int:
        """Let one event happen in the books; return the row of its pull."""
        event: Any = (kind, at, first, second, third)
        return int(act(*self._book, *event))

    @property
    def _reported(self) -> NDArray[Any]:
        return self._readings.to_array()

    @_reported.setter
    def _reported(self, rows: NDArray[Any]) -> None:
        self._readings = Readings.from_array(rows)

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from a state that a policy of the same problem, parameters and seed returned."""
        super().set_state(state)
        self._arms = np.asfortranarray(self._arms)
        self._make_room()
        list_survivors(Book(*self._book)._replace(arms=self._arms))

    # ---------------------------------------------------------- what each rule says

    @property
    @abstractmethod
    def _uses_readings(self) -> bool:
        """Whether readings change anything."""

    @property
    def _keeps_stopped(self) -> bool:
        """Whether a pull may be stopped because of its readings: only if each of them counts."""
        return self._uses_readings and self.problem.errors != "first"

    @abstractmethod
    def _intervals(self) -> tuple[Floats, Floats]:
        """Return the ends of intervals for the arms' means that hold at all times at once."""

    # ------------------------------------------------------------------------ room

    def _make_room(self) -> None:
        """Let the pulls' array grow until one more fits."""
        if self._control[books.ROWS] >= len(self._pulls):
            self._pulls = np.concatenate([self._pulls, np.zeros_like(self._pulls)])

    def _row_of(self, pull: Pull) -> int:
        """Return the row of a pull in the books."""
        row = pull.tag
        if 0 <= row < self._control[books.ROWS]:
            number, arm = self._pulls[row, [books.NUMBER, books.ARM]]
            if number == pull.number and arm == pull.action:
                return row
        raise UnknownPull(f"{pull!r} was never issued by this policy")

    # ------------------------------------------------------------------- is it over

    @property
    def _decided(self) -> bool:
        return bool(self._control[books.SURVIVORS] == 0.0)

    @property
    def _waits_for_decision(self) -> bool:
        """Whether a pull failed in a way that nobody has said how to count."""
        return bool(self._unresolved)

    @property
    def stopped(self) -> bool:
        """Whether there is an answer, a cap is reached, or a failure has to be decided on."""
        return self._decided or self._capped or self._waits_for_decision

    @property
    def _capped(self) -> bool:
        control = self._control
        return bool(
            (self.max_pulls is not None and control[books.RESULTS] >= self.max_pulls)
            or (self.max_reports is not None and control[books.READINGS] >= self.max_reports)
            or (self.max_time is not None and self._time >= self.max_time)
        )


def _unit_of(problem: Problem) -> float:
    """Return what the books count outcomes in: 1, unless squares of the noise would get lost.

    A power of two, so that nothing is rounded.
    """
    scale = problem.scale
    if np.isnan(scale).any():
        return 1.0
    if scale.max() / scale.min() > _PLAIN:
        raise InvalidArgument(
            "noise_std", f"must not differ between arms by more than {_PLAIN:g} times", scale
        )
    if scale.min() > 1.0 / _PLAIN and scale.max() < _PLAIN:
        return 1.0
    return 2.0 ** min(max(math.frexp(float(scale.max()))[1], -1000), 1000)
