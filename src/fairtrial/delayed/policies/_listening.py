"""What a race takes in: starts, readings, outcomes, losses and corrections."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.policy import Choice
from fairtrial.core.pull import UNSOLICITED, Pull
from fairtrial.core.validation import check_number
from fairtrial.delayed._kernels import books
from fairtrial.delayed._kernels.events import (
    CHANGED,
    CORRECT,
    FORGET,
    READ,
    READ_ONLY,
    REVIEW,
    START,
    STOP,
    TELL,
)
from fairtrial.delayed._kernels.runs import ask
from fairtrial.delayed.policies._checks import ERROR_COLUMNS, NUMBER, record_reading
from fairtrial.delayed.policies._reporting import ReportingPolicy
from fairtrial.delayed.policies._truncation import Followed, best_cut
from fairtrial.errors import InvalidArgument, InvalidOutcome, NotSupported, UnknownPull

__all__ = ["ListeningPolicy"]

_KEPT = frozenset({"cancelled", "eliminated", "truncated", "user"})
_CHANCE = frozenset({"lost", "error"})

_MOST_STDS = 1e8
_MOST_READING = 1e100

Bits = NDArray[np.bool_]


class ListeningPolicy(ReportingPolicy):
    """A policy that lets what comes in happen in the books."""

    def choose(self, duration: float | None = None) -> Choice:
        """Return the arm to pull and its row, or None while no more may be in flight.

        Parameters
        ----------
        duration : float, optional
            For ``feedback="incremental"``: the number of pieces of the pull.
        """
        pieces = self._check_duration(duration)
        if self.parallel is not None and self._control[books.BUSY] >= self.parallel:
            return None
        arm = self._next_arm()
        if arm < 0:
            return None
        return arm, self._open_row(arm, self.asked, pieces)

    def _next_arm(self) -> int:
        """Return the arm to pull, -1 if every survivor has as many pulls in flight as it may."""
        return int(ask(*self._book))

    def _open_row(self, arm: int, number: int, pieces: float | None) -> int:
        known = self.problem.duration
        own = pieces if pieces is not None else 0.0 if known is None else float(known[arm])
        self._make_room()
        return self._act(START, arm, float(number), own)

    def _check_duration(self, duration: float | None) -> float | None:
        if self.problem.feedback != "incremental":
            if duration is not None:
                raise InvalidArgument(
                    "duration", "must be left out unless feedback='incremental'", duration
                )
            return None
        if duration is None:
            if self.problem.duration is None:
                raise InvalidArgument(
                    "duration", "must be given here or in the problem for incremental readings"
                )
            return None
        return check_number("duration", duration, low=0.0, open_low=True)

    def tell(self, pull: Pull, outcome: Any) -> None:
        """Take the outcome of a pull: in any order, with any number outstanding."""
        super().tell(pull, outcome)
        if self.problem.clip and self.problem.check_outcome(outcome) != float(outcome):
            self._clipped += 1

    def learn(self, pull: Pull, outcome: float) -> None:
        """Take one outcome: in time, late after a loss, or unsolicited."""
        value = self._count(outcome, "outcome")
        if pull.number == UNSOLICITED:
            self._check_unsolicited()
            row = self._open_row(pull.action, UNSOLICITED, pieces=None)
            self._arrivals.append([row, 0, 0])
            self._act(TELL, row, value)
            return
        row = self._row_of(pull)
        self._arrivals.append([row, *self._overtaken(pull, row)])
        if row in self._valued:
            self._valued.remove(row)
            self._returned += 1
            self._act(CORRECT, row, value)
            self._control[books.RESULTS] += 1.0
            return
        if row in self._dropped:
            self._dropped.remove(row)
        survivors = self._survivors()
        self._act(TELL, row, value)
        self._note_haste(survivors)
        if row in self._unresolved:
            self._resolve(row)
        if self.truncate == "auto":
            self._reconsider_cut()

    def _count(self, value: float, name: str) -> float:
        """Return a value as the books count it: larger is better, in their unit.

        Raises
        ------
        InvalidOutcome
            If sums of such values, or of their squares, would lose what tells arms apart.
        """
        own = self._inward * value
        if self.problem.estimates_noise:
            if abs(own) > _MOST_READING:
                raise InvalidOutcome(name, f"must be within {_MOST_READING:g} of 0", value)
            # Squares of smaller numbers vanish, and would pass for perfect agreement.
            return own if abs(own) > 1.0 / _MOST_READING else 0.0
        if name == "outcome" and abs(own) > _MOST_STDS * self._largest_scale:
            raise InvalidOutcome(
                name,
                f"must be within {_MOST_STDS:g} times the noise of 0; subtract a constant from all "
                "outcomes, which changes no comparison",
                value,
            )
        if abs(own) > _MOST_READING * self._largest_scale:
            raise InvalidOutcome(name, f"must be within {_MOST_READING:g} times the noise", value)
        return own

    @cached_property
    def _largest_scale(self) -> float:
        return float(self.problem.scale.max()) / self._unit

    # ---------------------------------------------------------- what the checks need

    def _overtaken(self, pull: Pull, row: int) -> tuple[int, int]:
        """Return how many later pulls of the arm have ended, and how many earlier ones are open."""
        earlier = later = 0
        for number, (action, _) in self._outstanding.items():
            if action == pull.action:
                earlier += number < pull.number
                later += number > pull.number
        started = self._arms[pull.action, books.STARTED] - 1.0 - self._pulls[row, books.INDEX]
        return int(started) - later, earlier

    def _survivors(self) -> int:
        return int(self._control[books.SURVIVORS])

    def _note_haste(self, survivors: int) -> None:
        """Note arms that have just been decided on while most of their overtaken pulls are open."""
        if self._survivors() == survivors or self.problem.delay_depends_on_outcome:
            return
        status = self._arms[:, books.STATUS]
        decided = np.flatnonzero(self._untested_arms() & (status != books.SURVIVES))
        self._hasty += [arm for arm in decided.tolist() if arm not in self._hasty]

    def _untested_arms(self) -> Bits:
        """Return for which arms more overtaken pulls are missing than have come."""
        number = len(self.problem.arms)
        rows = self._pulls[: int(self._control[books.ROWS])]
        arms, done = rows[:, books.ARM].astype(np.int64), rows[:, books.STATE] == books.DONE
        newest = np.full(number, -1)
        np.maximum.at(newest, arms[done], np.flatnonzero(done))
        missing = ~done & (np.arange(len(rows)) < newest[arms])
        missing[self._dropped] = False
        if self._uses_readings:
            missing &= rows[:, books.COUNT] == 0.0
        came = np.array(self._arrivals, dtype=np.int64).reshape(-1, 3)
        late = arms[came[came[:, 1] > 0, 0]]
        short = np.bincount(arms[missing], minlength=number)
        return np.asarray(short > np.bincount(late, minlength=number))

    def _record_error(self, row: int, value: float, std: float | None) -> None:
        """Add a reading to what is known of the errors of readings, in units of the noise."""
        if row >= len(self._errors):
            more = np.zeros((max(row + 1, 2 * len(self._errors)), ERROR_COLUMNS))
            more[: len(self._errors)] = self._errors
            self._errors = more
        arm = int(self._pulls[row, books.ARM])
        scale = float(self._rules[books.CONSTANTS + arm])
        if self.problem.feedback == "incremental":
            variance = 1.0 / float(self._pulls[row, books.DURATION])
        else:
            own = self._reading_std(arm) if std is None else std
            if self.problem.errors == "first" and (
                self._errors[row, NUMBER] > 0.0 or own > self._rules[books.TARGET]
            ):
                return
            # As in the books: a deviation of 0 counts as one far below the outcome's.
            variance = max(own / scale, 1e-6) ** 2
        nested = self.problem.feedback == "refining"
        record_reading(self._errors[row], value / scale, variance, nested)

    def _reconsider_cut(self) -> None:
        """Look for the best age to call pulls back, each time that twice as many were followed."""
        pulls = self._pulls[: int(self._control[books.ROWS])]
        ends = (pulls[:, books.STATE] == books.DONE) & (pulls[:, books.COUNT] > 0.0)
        rows = [row for row in np.flatnonzero(ends).tolist() if row not in self._valued]
        if len(rows) < self._look_at:
            return
        while len(rows) >= self._look_at:
            self._look_at *= 2
        self._cut_at = best_cut([self._followed(row) for row in rows], self._setup_time)

    _setup_time = 0.0

    def _followed(self, row: int) -> list[Followed]:
        """Return what a pull that came to its end would have been worth at each reading."""
        arm, count = self._pulls[row, [books.ARM, books.COUNT]].astype(int).tolist()
        outcome, pieces = self._pulls[row, [books.OUTCOME, books.DURATION]].tolist()
        variance = (float(self.problem.scale[arm]) / self._unit) ** 2
        steps, total, precision = [], 0.0, 0.0
        for number, (_, value, std, elapsed) in enumerate(
            self._readings.in_order(row)[:count].tolist(), start=1
        ):
            if self.problem.feedback == "incremental":
                total += value
                forecast = pieces * total / number
                own = variance * max(0.0, pieces / number - 1.0)
            else:
                if std < 0.0:
                    std = self._reading_std(arm)
                if self.problem.feedback == "refining":
                    total, precision = 0.0, 0.0
                # As in the books: a deviation of 0 counts as one far below the outcome's.
                weight = 1.0 / max(std * std, 1e-12 * variance)
                precision, total = precision + weight, total + weight * value
                forecast, own = total / precision, 1.0 / precision
            weight = variance / (variance + own)
            steps.append(Followed(number, elapsed, weight, forecast - outcome, math.sqrt(own)))
        return steps

    def _check_unsolicited(self) -> None:
        if self.problem.feedback == "incremental" and self.problem.duration is None:
            raise InvalidArgument(
                "pull", "must be one that was asked for: the problem gives no duration"
            )

    def read(
        self,
        pull: Pull,
        value: float,
        stage: float | None = None,
        elapsed: float | None = None,
        std: float | None = None,
        **details: Any,
    ) -> None:
        """Take a reading of a pull that has no outcome yet.

        Parameters
        ----------
        pull : Pull
            The pull.
        value : float
            The reading.
        stage : float, optional
            Which of the pull's readings it is; by default its `elapsed`, or the next one. One
            that comes twice counts once.
        elapsed : float, optional
            Time since the start of the pull; where no `stage` is given it stands for it.
        std : float, optional
            Standard deviation of this reading about the outcome.
        **details
            Nothing else is known.
        """
        _refuse_unknown(details)
        self._take(pull, value, stage, elapsed, std, useful=self._uses_readings)

    def read_late(
        self,
        pull: Pull,
        value: float,
        stage: float | None = None,
        elapsed: float | None = None,
        std: float | None = None,
        **details: Any,
    ) -> None:
        """Take a reading that its pull's outcome has overtaken; it can still tell of a bias."""
        _refuse_unknown(details)
        self._take(pull, value, stage, elapsed, std, useful=self._learns_bias_late)

    def _take(
        self,
        pull: Pull,
        value: float,
        stage: float | None,
        elapsed: float | None,
        std: float | None,
        useful: bool,
    ) -> None:
        """Write a reading down; let the books follow if it is new and of use."""
        row, own = self._row_of(pull), self._count(value, "reading")
        place, std = self._check_reading(row, stage, elapsed, std)
        if self._readings.is_known(row, place, own, std):
            self.duplicates += 1
            return
        self._refuse_contradiction(row, place, std)
        if self.problem.errors == "nested" and std is not None:
            self._not_nested += self._readings.differs_from_newest(row, own, std)
        newest = self._readings.is_newest(row, place)
        self._readings.add(row, place, own, std, elapsed)
        if self._uses_readings and (newest or self.problem.feedback != "refining"):
            self._record_error(row, own, std)
        if useful:
            survivors = self._survivors()
            self._use(row, place, own, std, newest)
            self._note_haste(survivors)

    def _refuse_contradiction(self, row: int, stage: float, std: float | None) -> None:
        """Refuse more pieces than a pull has, and a nested error larger than an earlier one."""
        if self.problem.feedback == "incremental":
            pieces = self._pulls[row, books.DURATION]
            if self._readings.count(row) + 1 > pieces:
                raise InvalidArgument("stage", f"must be one of the {pieces:g} pieces", stage)
        if self.problem.errors == "nested" and std is not None:
            before, after = self._readings.stds_around(row, stage)
            if std > before or std < after:
                raise InvalidArgument(
                    "std", "must not grow from reading to reading for errors='nested'", std
                )

    def _reading_std(self, arm: int) -> float:
        """Return the deviation of an arm's readings that bring none of their own."""
        return float(self._rules[books.CONSTANTS + len(self.problem.arms) + arm])

    @property
    def _learns_bias_late(self) -> bool:
        return False

    def _check_reading(
        self, row: int, stage: float | None, elapsed: float | None, std: float | None
    ) -> tuple[float, float | None]:
        if self.problem.feedback == "full":
            raise NotSupported("feedback='full' says that there are no readings")
        std = self._check_std(std)
        if std is None and self.problem.feedback == "refining":
            std = self._reading_std(int(self._pulls[row, books.ARM]))
        since = None if elapsed is None else check_number("elapsed", elapsed, low=0.0)
        if stage is not None:
            return check_number("stage", stage), std
        return (self._readings.next_stage(row) if since is None else since), std

    def _check_std(self, std: float | None) -> float | None:
        """Return the deviation that a reading brings, if this rule takes one."""
        if std is None:
            if self.problem.feedback == "refining" and self.problem.reading_std is None:
                raise InvalidArgument("std", "must be given: the problem has no reading_std", None)
            return None
        if self.problem.feedback not in ("unbiased", "refining"):
            raise InvalidArgument(
                "std", f"must be left out for feedback={self.problem.feedback!r}", std
            )
        return check_number("std", std, low=0.0) / self._unit

    def _use(self, row: int, stage: float, value: float, std: float | None, newest: bool) -> None:
        self._make_room()
        if newest or self.problem.feedback == "refining":
            self._act(READ, row, stage, value, -1.0 if std is None else std)
            return
        self._act(FORGET, row)
        for reading in self._readings.in_order(row).tolist():
            self._act(READ_ONLY, row, *reading[:3])
        self._act(CHANGED, row)

    def pass_time(self, now: float) -> None:
        """Take note of the time since the start, for `max_time`; it counts for nothing else.

        Parameters
        ----------
        now : float
            In the units of `max_time`. The policy has no clock: a simulation says it, a study,
            or the user of a race.
        """
        self._time = max(self._time, check_number("now", now, low=0.0))

    def on_failure(self, pull: Pull, reason: str) -> None:
        """Take note that a pull will have no outcome; what was read of it stays.

        ``cancelled``, ``eliminated``, ``truncated`` and ``user`` say that somebody stopped it
        on the strength of what is logged; if readings are logged and do not count, that is
        a failure due to the outcome. ``lost`` and ``error`` are chance, and every other reason may
        be due to the outcome, unless the problem says of all failures what they are.
        """
        row, value = self._row_of(pull), self.problem.failure_value
        kept = reason in _KEPT and (self._keeps_stopped or not self._readings.has(row))
        by_outcome = not kept and self._depends_on_outcome(reason)
        survives = self._arms[pull.action, books.STATUS] == books.SURVIVES
        if survives and by_outcome and value is not None and not self._capped:
            survivors = self._survivors()
            self._act(TELL, row, self._inward * value)
            self._note_haste(survivors)
            self._control[books.RESULTS] -= 1.0
            self._valued.append(row)
            return
        self._act(STOP, row)
        if survives and (by_outcome or self.problem.delay_depends_on_outcome):
            self._halt(row)
        elif survives and not kept:
            self._dropped.append(row)

    def _halt(self, row: int) -> None:
        """Decide nothing before this pull's outcome comes, nor ever if a cap has ended the race."""
        self._control[books.HALTED] += 1.0
        if not self._capped:
            self._unresolved.append(row)

    def _resolve(self, row: int) -> None:
        """Go on deciding, now that an outcome has come that was waited for."""
        self._unresolved.remove(row)
        self._control[books.HALTED] -= 1.0
        if self._control[books.HALTED] == 0.0:
            self._control[books.DIRTY] = 1.0
            for arm in range(len(self.problem.arms)):
                self._act(REVIEW, arm)

    def _depends_on_outcome(self, reason: str) -> bool:
        if reason in _KEPT:
            return True
        if self.problem.failure is not None:
            return self.problem.failure == "outcome"
        return reason not in _CHANCE or self.problem.failure_value is not None

    def on_amend(self, pull: Pull, old: float, new: float) -> None:
        """Correct an outcome; what was decided before stays decided."""
        row = self._row_with(pull, self._count(old, "outcome"))
        self._act(CORRECT, row, self._count(new, "outcome"))
        self._amended += 1

    def _row_with(self, pull: Pull, value: float) -> int:
        """Return the row of a pull that was told with that value."""
        rows = self._pulls[: int(self._control[books.ROWS])]
        fits = (
            (rows[:, books.NUMBER] == pull.number)
            & (rows[:, books.ARM] == pull.action)
            & (rows[:, books.STATE] == books.DONE)
            & (rows[:, books.OUTCOME] == value)
        )
        if not fits.any():
            raise UnknownPull(f"{pull!r} was not told with the outcome {self._outward * value!r}")
        return int(np.flatnonzero(fits)[-1])

    def to_cancel(self) -> list[Pull]:
        """Return the pulls in flight that are not wanted any more; all, once stopped.

        They are those on decided arms, and those with as many readings as `truncate` allows.
        """
        if self.stopped:
            return self.outstanding()
        if self._control[books.DOOMED] == 0.0 and self._cut_at == math.inf:
            return []
        status, most = self._arms[:, books.STATUS], self._cut_at
        return [
            pull
            for pull in self.outstanding()
            if status[pull.action] != books.SURVIVES or self._pulls[pull.tag, books.COUNT] >= most
        ]


def _refuse_unknown(details: Mapping[str, Any]) -> None:
    for name, value in details.items():
        raise InvalidArgument(name, "must be one of stage, elapsed, std for a reading", value)
