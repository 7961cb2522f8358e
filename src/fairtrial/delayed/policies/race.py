"""Base class of both races: arguments, events, and compiled runs."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.bounds import Bound
from fairtrial.core.data_unit import are_usual
from fairtrial.core.fixed_confidence import FixedConfidencePolicy
from fairtrial.core.policy import Choice
from fairtrial.core.progress_parts import Parts
from fairtrial.core.pull import UNSOLICITED, Pull
from fairtrial.core.recommendation import Estimate, Guarantee, Status
from fairtrial.core.run import Run
from fairtrial.core.validation import (
    check_instance,
    check_number,
    check_optional_integer,
)
from fairtrial.delayed._kernels import runs
from fairtrial.delayed._kernels.events import CHANGED, CORRECT, FORGET, READ, READ_ONLY, STOP, TELL
from fairtrial.delayed._kernels.queue import Queue
from fairtrial.delayed._kernels.state import SURVIVES
from fairtrial.delayed.environments import TimedEnvironment, draw_key
from fairtrial.delayed.policies import race_assumptions, race_report
from fairtrial.delayed.policies.answers import BestArms
from fairtrial.delayed.policies.race_state import RaceState
from fairtrial.delayed.policies.readings import known_details
from fairtrial.delayed.policies.truncation import check_truncate, reconsider_truncation
from fairtrial.delayed.problem import Problem
from fairtrial.errors import InvalidArgument, NotSupported

__all__ = ["Race"]

Floats = NDArray[np.float64]

_STOPPED_BY_CHOICE = frozenset({"cancelled", "eliminated", "truncated", "user"})
_CHANCE = frozenset({"lost", "error"})


class Race(FixedConfidencePolicy):
    """Base class of `InformationRacing` and `Racing`.

    Parameters
    ----------
    problem : Problem
        The problem.
    delta : float
        Accepted probability of a wrong answer.
    parallel : int, optional
        Maximum number of pulls in flight; by default no limit.
    per_arm : int, optional
        Maximum number of pulls of one arm in flight; by default no limit.
    truncate : int or "auto", optional
        Number of readings after which a pull is cancelled; by default pulls run to completion.
    max_pulls, max_readings : int, optional
        Stop undecided after this many results, or readings.
    max_time : float, optional
        Stop undecided after this much time: in a simulation in the units of its delays, in a study
        in seconds since its first event, otherwise as reported by `pass_time`.
    seed : None, int or numpy.random.Generator
        Source of the policy's own randomness, if it has any.
    """

    problem: Problem
    version = 6
    environments = TimedEnvironment
    _forecasts = False
    state_fields = (*(f"_race.{name}" for name in RaceState.saved), "_amended")

    _race: RaceState

    def __init__(
        self,
        problem: Problem,
        delta: float,
        parallel: int | None,
        per_arm: int | None,
        truncate: int | str | None,
        max_pulls: int | None,
        max_readings: int | None,
        max_time: float | None,
        seed: int | np.random.Generator | None,
    ) -> None:
        check_instance("problem", problem, Problem)
        super().__init__(problem, delta, max_pulls, seed)
        self._answers = BestArms(problem.tolerance)
        self.parallel = check_optional_integer("parallel", parallel, low=1)
        self.per_arm = check_optional_integer("per_arm", per_arm, low=1)
        self.truncate = check_truncate(problem, truncate)
        self.max_readings = check_optional_integer("max_readings", max_readings, low=1)
        self.max_time = (
            None if max_time is None else check_number("max_time", max_time, low=0.0, open_low=True)
        )

    def _open(
        self,
        constants: Mapping[str, float],
        shares: tuple[float, float] = (0.0, 0.0),
        bound: Bound | None = None,
    ) -> RaceState:
        """Return the initial state, for the constants of a rule."""
        per_arm = math.inf if self.per_arm is None else self.per_arm
        known = {"delta": self.delta, "per_arm": per_arm, **constants}
        race = RaceState(self.problem, known, shares, self._uses_readings, bound)
        if isinstance(self.truncate, int):
            race.truncate_at = float(self.truncate)
        return race

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from the state of a policy with the same problem, parameters and seed."""
        super().set_state(state)
        self._race.make_room()

    # ---------------------------------------------------------- what each rule says

    @property
    @abstractmethod
    def _uses_readings(self) -> bool:
        """Whether readings are used."""

    @property
    def _keeps_stopped(self) -> bool:
        """Whether pulls may be stopped because of their readings: only if every reading counts."""
        return self._uses_readings and self.problem.errors != "first"

    @property
    def _learns_bias_late(self) -> bool:
        """Whether a reading counts that arrives after the outcome of its pull."""
        return False

    @property
    def _setup_time(self) -> float:
        """Time to start a pull, for ``truncate="auto"``."""
        return 0.0

    @abstractmethod
    def _interval_ends(self) -> tuple[Floats, Floats]:
        """Return the ends of intervals for the arms' means that hold at all times at once."""

    # ------------------------------------------------------------------- is it over

    @property
    def _finished(self) -> bool:
        return bool(self._race.control.survivors[0] == 0)

    @property
    def _waits_for_decision(self) -> bool:
        """Whether a pull failed and it is not known how the failure counts."""
        return bool(self._race.unresolved)

    @property
    def stopped(self) -> bool:
        """Whether there is an answer, a maximum is reached, or a failure needs a decision."""
        return self._finished or self._capped or self._waits_for_decision

    @property
    def _capped(self) -> bool:
        control = self._race.control
        return bool(
            (self.max_pulls is not None and control.results[0] >= self.max_pulls)
            or (self.max_readings is not None and control.readings[0] >= self.max_readings)
            or (self.max_time is not None and self._race.time >= self.max_time)
        )

    # --------------------------------------------------------------------- what is asked

    def choose(self, duration: float | None = None) -> Choice:
        """Return the arm to pull and its row, or None while no more pulls can be in flight.

        Parameters
        ----------
        duration : float, optional
            For ``feedback="incremental"``: the number of pieces of the pull.
        """
        pieces = self._check_duration(duration)
        if self.parallel is not None and self._race.control.in_flight[0] >= self.parallel:
            return None
        arm = self._next_arm()
        return None if arm < 0 else (arm, self._race.start(arm, self.asked, pieces))

    def _next_arm(self) -> int:
        """Return the arm to pull; -1 if no survivor can have more pulls in flight."""
        return self._race.next_arm()

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

    def to_cancel(self) -> list[Pull]:
        """Return the pulls in flight that are no longer needed; all after the race has stopped.

        These are the pulls on decided arms, and those with as many readings as `truncate` allows.
        """
        race = self._race
        if self.stopped:
            return self.outstanding()
        if race.control.unwanted[0] == 0 and race.truncate_at == math.inf:
            return []
        status, most = race.arms.status, race.truncate_at
        return [
            pull
            for pull in self.outstanding()
            if status[pull.action] != SURVIVES or race.pulls.readings[pull.tag] >= most
        ]

    # ---------------------------------------------------------------------- outcomes

    def tell(self, pull: Pull, outcome: Any) -> None:
        """Tell the outcome of a pull, in any order and with any number outstanding."""
        super().tell(pull, outcome)
        if self.problem.clip and self.problem.check_outcome(outcome) != float(outcome):
            self._race.clipped += 1

    def learn(self, pull: Pull, outcome: float) -> None:
        """Learn one outcome: in time, late after a loss, or unsolicited."""
        race = self._race
        value = race.counted(outcome, "outcome")
        if pull.number == UNSOLICITED:
            self._check_unsolicited()
            row = race.start(pull.action, UNSOLICITED, pieces=None)
            race.arrivals.append([row, 0, 0])
            race.act(TELL, row, value)
            return
        row = race.row_of(pull)
        race.arrivals.append([row, *self._overtaken(pull, row)])
        if row in race.valued:
            race.valued.remove(row)
            race.returned += 1
            race.act(CORRECT, row, value)
            race.control.results[0] += 1
            return
        if row in race.lost:
            race.lost.remove(row)
        survivors = race.survivors
        race.act(TELL, row, value)
        race.note_haste(survivors)
        if row in race.unresolved:
            race.resolve(row)
        if self.truncate == "auto":
            reconsider_truncation(race, self._setup_time)

    def _check_unsolicited(self) -> None:
        if self.problem.feedback == "incremental" and self.problem.duration is None:
            raise InvalidArgument(
                "pull", "must be one that was asked for: the problem gives no duration"
            )

    def _overtaken(self, pull: Pull, row: int) -> tuple[int, int]:
        """Return how many later pulls of the arm have ended, and how many earlier ones are open."""
        earlier = later = 0
        for number, (action, _) in self._outstanding.items():
            if action == pull.action:
                earlier += number < pull.number
                later += number > pull.number
        started = self._race.arms.started[pull.action] - 1 - self._race.pulls.position[row]
        return int(started) - later, earlier

    def on_amend(self, pull: Pull, old: float, new: float) -> None:
        """Correct an outcome; earlier decisions remain."""
        race = self._race
        row = race.row_with(pull, race.counted(old, "outcome"))
        race.act(CORRECT, row, race.counted(new, "outcome"))
        self._amended += 1

    def pass_time(self, now: float) -> None:
        """Report the time since the start; it is only used for `max_time`.

        Parameters
        ----------
        now : float
            Time in the units of `max_time`. The policy has no clock: a simulation, a study or the
            user of a race reports the time.
        """
        self._race.time = max(self._race.time, check_number("now", now, low=0.0))

    # ----------------------------------------------------------------------- readings

    def read(
        self,
        pull: Pull,
        value: float,
        stage: float | None = None,
        elapsed: float | None = None,
        std: float | None = None,
        **details: Any,
    ) -> None:
        """Use a reading of a pull that has no outcome yet.

        Parameters
        ----------
        pull : Pull
            The pull.
        value : float
            The reading.
        stage : float, optional
            Which of the pull's readings it is; by default its `elapsed`, or the next number. A
            repeated reading counts once.
        elapsed : float, optional
            Time since the start of the pull; it is also the stage if no `stage` is given.
        std : float, optional
            Standard deviation of this reading about the outcome.
        **details
            Other details are refused.
        """
        known_details(details)
        self._take(pull, value, stage, elapsed, std, useful=self._uses_readings)

    def read_late(self, pull: Pull, value: float, **details: Any) -> None:
        """Use a reading that arrives after its pull's outcome; it can still show a bias."""
        self._take(pull, value, *known_details(details), useful=self._learns_bias_late)

    def _take(
        self,
        pull: Pull,
        value: float,
        stage: float | None,
        elapsed: float | None,
        std: float | None,
        useful: bool,
    ) -> None:
        """Store a reading; update the race if the reading is new and useful."""
        race = self._race
        row, own = race.row_of(pull), race.counted(value, "reading")
        place, std = self._check_reading(row, stage, elapsed, std)
        if race.readings.is_known(row, place, own, std):
            race.duplicates += 1
            return
        self._refuse_contradiction(row, place, std)
        if self.problem.errors == "nested" and std is not None:
            race.not_nested += race.readings.differs_from_newest(row, own, std)
        newest = race.readings.is_newest(row, place)
        race.readings.add(row, place, own, std, elapsed)
        if self._uses_readings and (newest or self.problem.feedback != "refining"):
            race.record_error(row, own, std)
        if useful:
            survivors = race.survivors
            self._use(row, place, own, std, newest)
            race.note_haste(survivors)

    def _use(self, row: int, stage: float, value: float, std: float | None, newest: bool) -> None:
        race = self._race
        race.make_room()
        if newest or self.problem.feedback == "refining":
            race.act(READ, row, stage, value, -1.0 if std is None else std)
            return
        race.act(FORGET, row)
        for reading in race.readings.in_order(row).tolist():
            race.act(READ_ONLY, row, *reading[:3])
        race.act(CHANGED, row)

    def _refuse_contradiction(self, row: int, stage: float, std: float | None) -> None:
        """Raise for more pieces than a pull has, or a nested error larger than an earlier one."""
        race = self._race
        if self.problem.feedback == "incremental":
            pieces = race.pulls.duration[row]
            if race.readings.count(row) + 1 > pieces:
                raise InvalidArgument("stage", f"must be one of the {pieces:g} pieces", stage)
        if self.problem.errors == "nested" and std is not None:
            before, after = race.readings.stds_around(row, stage)
            if std > before or std < after:
                raise InvalidArgument(
                    "std", "must not grow from reading to reading for errors='nested'", std
                )

    def _check_reading(
        self, row: int, stage: float | None, elapsed: float | None, std: float | None
    ) -> tuple[float, float | None]:
        race = self._race
        if self.problem.feedback == "full":
            raise NotSupported("feedback='full' says that there are no readings")
        std = self._check_std(std)
        if std is None and self.problem.feedback == "refining":
            std = race.reading_std(int(race.pulls.arm[row]))
        since = None if elapsed is None else check_number("elapsed", elapsed, low=0.0)
        if stage is not None:
            return check_number("stage", stage), std
        return (race.readings.next_stage(row) if since is None else since), std

    def _check_std(self, std: float | None) -> float | None:
        """Return the deviation given with a reading, if this rule uses it."""
        if std is None:
            if self.problem.feedback == "refining" and self.problem.reading_std is None:
                raise InvalidArgument("std", "must be given: the problem has no reading_std", None)
            return None
        if self.problem.feedback not in ("unbiased", "refining"):
            raise InvalidArgument(
                "std", f"must be left out for feedback={self.problem.feedback!r}", std
            )
        return check_number("std", std, low=0.0) / self._race.reading_unit

    # ----------------------------------------------------------------------- failures

    def on_failure(self, pull: Pull, reason: str) -> None:
        """Record that a pull will have no outcome; its readings are kept.

        The reasons ``cancelled``, ``eliminated``, ``truncated`` and ``user`` mean that the pull was
        stopped based on logged data; if readings are logged but do not count, this is a failure due
        to the outcome. ``lost`` and ``error`` are chance, and every other reason can be due to the
        outcome, unless the problem's `failure` applies to all failures.
        """
        race = self._race
        row, value = race.row_of(pull), self.problem.failure_value
        by_choice = reason in _STOPPED_BY_CHOICE and (
            self._keeps_stopped or not race.readings.has(row)
        )
        by_outcome = not by_choice and self._depends_on_outcome(reason)
        survives = race.survives(pull.action)
        if survives and by_outcome and value is not None and not self._capped:
            survivors = race.survivors
            race.act(TELL, row, race.kept(value))
            race.note_haste(survivors)
            race.control.results[0] -= 1
            race.valued.append(row)
            return
        race.act(STOP, row)
        if survives and (by_outcome or self.problem.delay_depends_on_outcome):
            race.halt(row, capped=self._capped)
        elif survives and not by_choice:
            race.lost.append(row)

    def _depends_on_outcome(self, reason: str) -> bool:
        if reason in _STOPPED_BY_CHOICE:
            return True
        if self.problem.failure is not None:
            return self.problem.failure == "outcome"
        return reason not in _CHANCE or self.problem.failure_value is not None

    # ------------------------------------------------------------------------- report

    @property
    def _answer(self) -> tuple[str, ...]:
        return race_report.best_arms(self._race)

    @property
    def _ending(self) -> str:
        return "a maximum of results, readings or time is reached"

    def _evidence(self) -> tuple[float | None, float | None]:
        return None, None

    def _reason(self, status: Status, answer: Any) -> str:
        if self._waits_for_decision and not self._finished:
            return (
                "needs a decision: a pull failed, perhaps because of its outcome; tell its outcome,"
                " or set failure='independent' or a failure_value in the problem"
            )
        if status == "running" and not np.isfinite(self._race.arms.variance).any():
            return self._nothing_yet
        return super()._reason(status, answer)

    def _candidates(self) -> tuple[str, ...]:
        return race_report.candidates(self._race)

    def _estimates(self) -> tuple[tuple[Estimate, ...], tuple[Estimate, ...]]:
        estimates = race_report.estimates(self._race, *self._interval_ends())
        return estimates, estimates

    @property
    def _why_approximate(self) -> str:
        stated = self.guarantee
        if not stated.proven:
            return "; ".join(stated.doubts) or "no proof covers the intervals of this rule"
        # If delays may depend on outcomes, only results in the order of issue are used.
        return "" if self.problem.delay_depends_on_outcome else self._doubt_about_order

    @property
    def _settled(self) -> int | None:
        return race_report.settled(self._race)

    def _parts(self) -> Parts:
        return race_report.parts(self._race)

    def _details(self) -> Mapping[str, Any]:
        return race_report.details(self._race)

    @property
    def duplicates(self) -> int:
        """Number of repeated readings, which counted once."""
        return self._race.duplicates

    def metrics(self) -> dict[str, float]:
        """Return the number of readings that were used."""
        return {"readings": float(self._race.control.readings[0])}

    def warnings(self) -> tuple[str, ...]:
        """Return assumptions of the guarantee that the results do not support."""
        return tuple(
            f"the guarantee is not proven, because it must assume this: {finding}"
            for finding in race_assumptions.findings(self._race)
        )

    def _promise(
        self, name: str, proven: bool, assumptions: list[str], *, calibrated: bool = False
    ) -> Guarantee:
        """Return a rule's guarantee with the assumptions that all races share."""
        return race_assumptions.guarantee(
            self._race, name, proven, assumptions, self.delta, self._amended, calibrated=calibrated
        )

    # --------------------------------------------------------------------- whole runs

    def _can_run(self, environment: TimedEnvironment, horizon: int | None, parallel: int) -> bool:
        if not environment.compiled or self.truncate == "auto":
            return False
        if self.problem.estimates_noise and not self._keeps_unit(environment):
            return False
        return self.problem.feedback != "incremental" or self.problem.duration is not None

    def _keeps_unit(self, environment: TimedEnvironment) -> bool:
        """Return whether a whole run needs no other unit than 1; compiled code keeps its unit."""
        sizes = environment.arm_means, environment.arm_stds, self.problem.failure_value or 0.0
        return self._race.unit == 1.0 and are_usual(*sizes)

    def _run(
        self, environment: Any, generator: np.random.Generator, horizon: int | None, parallel: int
    ) -> Run:
        race = self._race
        places = parallel if self.parallel is None else min(parallel, self.parallel)
        clock, limits = np.zeros(1, runs.CLOCK), self._limits(places, horizon)
        staged, slots, heap = environment.stage(draw_key(generator), places)
        queue = Queue(slots, heap, clock)
        while runs.run(*race.buffers, staged, queue, limits) == runs.NEEDS_ROOM:
            # Growing takes as long as hundreds of simulated pulls, so grow a lot at once.
            race.make_room(growth=8, least=512)
        now, losses, cancelled = (clock[name][0].item() for name in ("now", "losses", "cancelled"))
        self.pass_time(now)
        self.asked, self.told = race.rows, int(race.control.results[0])
        if limits.failure != runs.STUCK:
            race.lost = [-1] * losses
        elif not self._capped:
            race.unresolved = race.rows_without_outcome
            race.control.halted[0] = len(race.unresolved)
        return self._finished_run(environment, race.arms.started, now, cancelled)

    def _limits(self, places: int, horizon: int | None) -> runs.Limits:
        problem, value = self.problem, 0.0
        by_outcome = self._depends_on_outcome("lost")
        failure = runs.STOP_IT
        if by_outcome and problem.failure_value is not None:
            failure, value = runs.COUNT_IT, self._race.inward * problem.failure_value
        elif by_outcome or problem.delay_depends_on_outcome:
            failure = runs.STUCK
        return runs.Limits(
            slots=float(places),
            max_pulls=_or_infinity(horizon),
            max_results=_or_infinity(self.max_pulls),
            max_readings=_or_infinity(self.max_readings),
            max_time=_or_infinity(self.max_time),
            sign=float(self._race.inward),
            ignores_readings=not self._uses_readings,
            truncate=float(self._race.truncate_at),
            failure=failure,
            failure_value=float(value),
        )


def _or_infinity(cap: float | None) -> float:
    return math.inf if cap is None else float(cap)
