"""The state of a race: the kernels' tables, and records of readings and failures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.bounds import Bound
from fairtrial.core.data_unit import unit_after
from fairtrial.core.pull import UNSOLICITED, Pull
from fairtrial.core.records import Words
from fairtrial.delayed._kernels.events import REVIEW, SETTLE, START
from fairtrial.delayed._kernels.runs import act, ask
from fairtrial.delayed._kernels.state import (
    DONE,
    PAIRWISE,
    RACE,
    SURVIVES,
)
from fairtrial.delayed.policies.assumption_tests import ERROR_COLUMNS, NUMBER, record_reading
from fairtrial.delayed.policies.bound_table import bound_table
from fairtrial.delayed.policies.readings import Readings
from fairtrial.delayed.problem import FEEDBACKS, Problem
from fairtrial.errors import InvalidArgument, InvalidOutcome, UnknownPull

__all__ = ["ENOUGH", "RaceState"]

Floats = NDArray[np.float64]
Bits = NDArray[np.bool_]

# Noise above this, or below its inverse, is measured in another unit.
_LARGEST_UNSCALED = 1e40

ENOUGH = 10
"""The complete pulls that it takes to judge forecasts at readings."""

_FIRST_ROWS = 64
_MAX_STDS = 1e8
_MAX_READING = 1e100


class RaceState:
    """The state of a race; outcomes are in the race's unit, and larger is better.

    Parameters
    ----------
    problem : Problem
        The problem.
    constants : mapping
        The rule's own values for the constants of `Rules`.
    shares : (float, float)
        Shares of the error probability for readings and for their bias.
    uses_readings : bool
        Whether readings are used.
    bound : Bound, optional
        Bound for the radius of a mean, if the rule has boxes.

    Attributes
    ----------
    rules, control, arms, pulls : Rules, Control, Arm, Pull
        The tables that the kernels work on, with a column in place of each number.
    declared : ndarray
        ``declared[i, j]``: whether arm i was found better than j.
    readings : Readings
        All readings.
    unresolved : list of int
        Rows of failed pulls for which it is not known how they count.
    valued : list of int
        Rows of failed pulls that count as the problem's `failure_value`.
    lost : list of int
        Rows of pulls that were lost by chance while their arm was in the race.
    arrivals : list of [int, int, int]
        Rows in the order in which outcomes arrived, each with the number of later pulls of the arm
        that had already ended, and of earlier ones that were still open.
    errors : ndarray
        Statistics of the errors of every pull's readings; see `record_reading`.
    hasty : list of int
        Arms that were decided while more of their overtaken pulls were open than complete.
    truncate_at : float
        Number of readings after which a pull is cancelled.
    look_at : int
        Number of outcomes at which ``truncate="auto"`` is computed again.
    returned, not_nested, clipped, duplicates : int
        Numbers of outcomes of failed pulls, of readings that contradict nested errors, of clipped
        outcomes, and of repeated readings.
    time : float
        Time since the start.
    unit : float
        The unit of outcomes, a power of two.
    reading_unit : float
        The unit of readings: the same, unless the noise is estimated. Readings do not count then.
    """

    saved = (
        *("words", "reported", "unresolved", "valued", "lost", "arrivals", "errors", "hasty"),
        *("truncate_at", "look_at", "returned", "not_nested", "clipped", "duplicates", "time"),
        "unit",
    )

    rules: Any
    control: Any
    arms: Any
    pulls: Any
    declared: NDArray[np.int8]
    _words: Words

    def __init__(
        self,
        problem: Problem,
        constants: Mapping[str, float],
        shares: tuple[float, float],
        uses_readings: bool,
        bound: Bound | None = None,
    ) -> None:
        self.problem = problem
        self.uses_readings = uses_readings
        self.unit = _unit_of(problem)
        self.reading_unit = 1.0 if problem.estimates_noise else self.unit
        self.readings = Readings()
        self.unresolved: list[int] = []
        self.valued: list[int] = []
        self.lost: list[int] = []
        self.arrivals: list[list[int]] = []
        self.errors = np.zeros((0, ERROR_COLUMNS))
        self.hasty: list[int] = []
        self.truncate_at = math.inf
        self.look_at = ENOUGH
        self.returned = self.not_nested = self.clipped = self.duplicates = 0
        self.time = 0.0
        self._bound = bound
        self._radii = np.full((2, 1), np.inf)
        number = len(problem.arms)
        pairs = number if constants["rule"] == PAIRWISE else 1
        self.words = RACE.allocate(arms=number, pairs=pairs, rows=_FIRST_ROWS)
        self._set_rules(constants, shares)
        self._set_arms()
        self._largest_noise = float(problem.scale.max()) / self.unit
        self.make_room()
        self.act(SETTLE, 0)

    def _set_rules(self, constants: Mapping[str, float], shares: tuple[float, float]) -> None:
        problem, arms = self.problem, len(self.problem.arms)
        delta = constants["delta"]
        # If readings do not count, nothing related to them does, such as the price of a bias.
        feedback = problem.feedback if self.uses_readings else "full"
        known = {name: value for name, value in constants.items() if name != "delta"}
        log_all = math.log(arms / delta)
        values: dict[str, float] = {
            "feedback": FEEDBACKS.index(feedback),
            "complete_runs_only": problem.delay_depends_on_outcome,
            "top": problem.top,
            "tolerance": _tolerance_in(problem, self.unit),
            "first_only": problem.errors == "first",
            "target_std": (
                math.inf if problem.target_std is None else problem.target_std / self.reading_unit
            ),
            "longest": 0.0 if problem.duration is None else float(np.max(problem.duration)),
            "log_all": log_all,
            "log_outcome": log_all - math.log(1.0 - sum(shares)),
            "log_reading": log_all - math.log(shares[0] or 1.0),
            "log_bias": log_all - math.log(shares[1] or 1.0),
            **known,
        }
        for name, value in values.items():
            getattr(self.rules, name)[0] = value

    def _set_arms(self) -> None:
        problem, arms, control = self.problem, self.arms, self.control
        arms.noise[:] = problem.scale / self.unit
        arms.reading_std[:] = (
            0.0 if problem.reading_std is None else problem.reading_std / self.reading_unit
        )
        arms.duration[:] = 0.0 if problem.duration is None else problem.duration
        for rows in (arms.first, arms.last, arms.front, arms.followed):
            rows[:] = -1
        arms.variance[:] = arms.upper[:] = np.inf
        arms.lower[:] = -np.inf
        control.places[0], control.survivors[0] = problem.top, len(problem.arms)
        control.dirty[0] = 1
        RACE.columns(self.words, self._radii).order.survivor[:] = np.arange(len(problem.arms))

    # ------------------------------------------------------------------- the unit

    @property
    def inward(self) -> float:
        """The factor that brings an outcome into the race's unit, with larger being better."""
        return self.problem.sign / self.unit

    @property
    def outward(self) -> float:
        """The factor that brings an outcome back."""
        return self.problem.sign * self.unit

    def kept(self, outcome: float) -> float:
        """Return an outcome in the race's unit; if the noise is estimated, the unit may change."""
        if self.problem.estimates_noise:
            unit = unit_after(self.unit, outcome, is_first=True)
            if unit > self.unit or (unit < self.unit and not self._has_values):
                self._change_unit(unit)
        return self.inward * outcome

    @property
    def _has_values(self) -> bool:
        """Whether any outcome differs from 0."""
        return bool(self.pulls.outcome[: self.rows].any())

    def _change_unit(self, unit: float) -> None:
        factor = self.unit / unit
        arms, pulls, control = self.arms, self.pulls, self.control
        kept = [pulls.outcome, control.upper_cut, control.lower_cut]
        kept += [arms.estimate, arms.lower, arms.upper, arms.folded.average, arms.total.average]
        squares = [arms.variance, arms.folded.squares, arms.total.squares]
        # One factor after the other: the square of a factor can be out of reach.
        for values in (*kept, *squares, *squares):
            values *= factor
        self.unit = unit
        self.rules.tolerance[0] = _tolerance_in(self.problem, unit)

    # ----------------------------------------------------------------- the tables

    @property
    def words(self) -> Words:
        """The buffer of the tables."""
        return self._words

    @words.setter
    def words(self, words: Words) -> None:
        self._words = words
        tables = RACE.columns(words, self._radii)
        self.rules, self.control = tables.rules, tables.control
        self.arms, self.pulls, self.declared = tables.arms, tables.pulls, tables.declared

    @property
    def buffers(self) -> tuple[Words, Floats]:
        """The arguments of the kernels."""
        return self._words, self._radii

    @property
    def reported(self) -> NDArray[Any]:
        """All readings as an array."""
        return self.readings.to_array()

    @reported.setter
    def reported(self, rows: NDArray[Any]) -> None:
        self.readings = Readings.from_array(rows)

    def make_room(self, growth: int = 2, least: int = 0) -> None:
        """Grow the tables, by a factor or to `least` rows, if no more events fit."""
        rows = len(self.pulls.arm)
        if self.control.rows[0] >= rows:
            self.words = RACE.enlarged(self.words, rows=max(growth * rows, least))
        if self._bound is None:
            return
        steps = self.control.steps[0] + self.control.max_readings[0] + self.rules.longest[0] + 3.0
        if steps >= self._radii.shape[1]:
            self._radii = bound_table(self._bound, 1 << max(8, int(steps).bit_length()))

    def act(
        self, kind: int, at: int, first: float = 0.0, second: float = 0.0, third: float = 0.0
    ) -> int:
        """Process one event; return the row of its pull."""
        return int(act(self._words, self._radii, kind, at, first, second, third))

    def next_arm(self) -> int:
        """Return the arm to pull; -1 if no survivor can have more pulls in flight."""
        return int(ask(self._words, self._radii))

    def start(self, arm: int, number: int, pieces: float | None) -> int:
        """Start a pull of an arm; return its row."""
        known = self.problem.duration
        own = pieces if pieces is not None else 0.0 if known is None else float(known[arm])
        self.make_room()
        return self.act(START, arm, float(number), own)

    @property
    def rows(self) -> int:
        """Number of pulls that have started."""
        return int(self.control.rows[0])

    def row_of(self, pull: Pull) -> int:
        """Return the row of a pull."""
        row = pull.tag
        if (
            0 <= row < self.control.rows[0]
            and self.pulls.number[row] == pull.number
            and self.pulls.arm[row] == pull.action
        ):
            return row
        raise UnknownPull.about(pull, "was never issued by this policy")

    def row_with(self, pull: Pull, value: float) -> int:
        """Return the row of a pull that was told with this value."""
        rows, pulls = slice(self.rows), self.pulls
        fits = (
            (pulls.number[rows] == pull.number)
            & (pulls.arm[rows] == pull.action)
            & (pulls.state[rows] == DONE)
            & (pulls.outcome[rows] == value)
        )
        if not fits.any():
            raise UnknownPull.about(pull, f"was not told with the outcome {self.outward * value!r}")
        return int(np.flatnonzero(fits)[-1])

    # --------------------------------------------------------------- what is known

    @property
    def survivors(self) -> int:
        """Number of undecided arms."""
        return int(self.control.survivors[0])

    def survives(self, arm: int) -> bool:
        """Return whether an arm is undecided."""
        return bool(self.arms.status[arm] == SURVIVES)

    @property
    def unsolicited(self) -> int:
        """Number of unsolicited results."""
        return int((self.pulls.number[: self.rows] == UNSOLICITED).sum())

    @property
    def rows_without_outcome(self) -> list[int]:
        """Rows of the pulls without an outcome on undecided arms."""
        survives = self.arms.status[self.pulls.arm[: self.rows]] == SURVIVES
        found: list[int] = np.flatnonzero(
            survives & (self.pulls.state[: self.rows] != DONE)
        ).tolist()
        return found

    @property
    def has_turns(self) -> bool:
        """Whether a result counts once all earlier pulls of its arm have results."""
        return self.problem.delay_depends_on_outcome

    def counted_rows(self) -> Bits:
        """Return which pulls count, by row; meant for races in which results wait their turn."""
        arm, position = self.pulls.arm[: self.rows], self.pulls.position[: self.rows]
        front = self.arms.front
        places = np.where(front < 0, self.arms.started, self.pulls.position[front])
        return np.asarray(position < places[arm])

    def counted(self, value: float, name: str) -> float:
        """Return a value in the race's unit, with larger being better.

        Readings are in the unit of readings. It differs only if they do not count anyway.

        Raises
        ------
        InvalidOutcome
            If sums of such values, or of their squares, would lose the differences between arms.
        """
        if self.problem.estimates_noise:
            return self.kept(value) if name == "outcome" else self.problem.sign * value
        own = self.inward * value
        if name == "outcome" and abs(own) > _MAX_STDS * self._largest_noise:
            raise InvalidOutcome(
                name,
                f"must be within {_MAX_STDS:g} times the noise of 0; subtract a constant from all "
                "outcomes, which changes no comparison",
                value,
            )
        if abs(own) > _MAX_READING * self._largest_noise:
            raise InvalidOutcome(name, f"must be within {_MAX_READING:g} times the noise", value)
        return own

    def reading_std(self, arm: int) -> float:
        """Return the deviation of an arm's readings that have no deviation of their own."""
        return float(self.arms.reading_std[arm])

    # ------------------------------------------------------- what is noted for tests

    def note_haste(self, survivors: int) -> None:
        """Record arms that were just decided while most of their overtaken pulls are open."""
        if self.survivors == survivors or self.problem.delay_depends_on_outcome:
            return
        decided = np.flatnonzero(self.untested_arms() & (self.arms.status != SURVIVES))
        self.hasty += [arm for arm in decided.tolist() if arm not in self.hasty]

    def untested_arms(self) -> Bits:
        """Return for which arms more overtaken pulls are missing than complete."""
        number, rows = len(self.problem.arms), slice(self.rows)
        arms, done = self.pulls.arm[rows], self.pulls.state[rows] == DONE
        newest = np.full(number, -1)
        np.maximum.at(newest, arms[done], np.flatnonzero(done))
        missing = ~done & (np.arange(self.rows) < newest[arms])
        missing[self.lost] = False
        if self.uses_readings:
            missing &= self.pulls.readings[rows] == 0
        came = np.array(self.arrivals, dtype=np.int64).reshape(-1, 3)
        late = arms[came[came[:, 1] > 0, 0]]
        short = np.bincount(arms[missing], minlength=number)
        return np.asarray(short > np.bincount(late, minlength=number))

    def record_error(self, row: int, value: float, std: float | None) -> None:
        """Add a reading to the statistics of reading errors, in units of the noise."""
        if row >= len(self.errors):
            more = np.zeros((max(row + 1, 2 * len(self.errors)), ERROR_COLUMNS))
            more[: len(self.errors)] = self.errors
            self.errors = more
        arm = int(self.pulls.arm[row])
        noise = float(self.arms.noise[arm])
        if self.problem.feedback == "incremental":
            variance = 1.0 / float(self.pulls.duration[row])
        else:
            own = self.reading_std(arm) if std is None else std
            if self.problem.errors == "first" and (
                self.errors[row, NUMBER] > 0.0 or own > self.rules.target_std[0]
            ):
                return
            # As in the kernels, a deviation of 0 counts as one far below the outcome's.
            variance = max(own / noise, 1e-6) ** 2
        nested = self.problem.feedback == "refining"
        record_reading(self.errors[row], value / noise, variance, nested)

    # --------------------------------------------------------------------- failures

    def halt(self, row: int, *, capped: bool) -> None:
        """Pause decisions until this pull's outcome arrives, forever if a maximum was reached."""
        self.control.halted[0] += 1
        if not capped:
            self.unresolved.append(row)

    def resolve(self, row: int) -> None:
        """Resume deciding after an awaited outcome has arrived."""
        self.unresolved.remove(row)
        self.control.halted[0] -= 1
        if self.control.halted[0] == 0:
            self.control.dirty[0] = 1
            for arm in range(len(self.problem.arms)):
                self.act(REVIEW, arm)


def _tolerance_in(problem: Problem, unit: float) -> float:
    """Return the tolerance in a unit, such that its square can be computed."""
    size = problem.tolerance / _MAX_READING
    return problem.tolerance / unit if size < unit else _MAX_READING


def _unit_of(problem: Problem) -> float:
    """Return the unit of outcomes in a race: 1, unless squares of the noise would be lost.

    It is a power of two, so that nothing is rounded. If the noise is estimated, outcomes can change
    the unit; see `RaceState.kept`.
    """
    if problem.estimates_noise:
        return unit_after(1.0, problem.tolerance, is_first=True)
    scale = problem.scale
    if scale.max() / scale.min() > _LARGEST_UNSCALED:
        raise InvalidArgument(
            "noise_std",
            f"must not differ between arms by more than {_LARGEST_UNSCALED:g} times",
            scale,
        )
    if scale.min() > 1.0 / _LARGEST_UNSCALED and scale.max() < _LARGEST_UNSCALED:
        return 1.0
    return 2.0 ** min(max(math.frexp(float(scale.max()))[1], -1000), 1000)
