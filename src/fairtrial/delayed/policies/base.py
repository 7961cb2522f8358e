"""What both races share: the books, what comes in, what is lost, and what they report."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.environment import Environment
from fairtrial.core.policy import Choice, Policy
from fairtrial.core.pull import UNSOLICITED, Pull
from fairtrial.core.recommendation import Estimate, Guarantee, Progress, Recommendation, Status
from fairtrial.core.run import Run
from fairtrial.core.validation import check_integer, check_number, check_probability
from fairtrial.delayed.environments import TimedEnvironment, draw_key
from fairtrial.delayed.policies._readings import Readings
from fairtrial.delayed.problem import FEEDBACKS, Problem
from fairtrial.errors import InvalidArgument, NotSupported, UnknownPull

__all__ = ["DelayedPolicy"]

Floats = NDArray[np.float64]

_KEPT = frozenset({"cancelled", "eliminated", "truncated", "user"})
# A bias is learned from outcomes only, and full feedback has no readings to keep.
_TRUNCATED = frozenset({"incremental", "unbiased", "refining"})
_TIMEOUTS = frozenset({"timeout", "expired"})


class DelayedPolicy(Policy):
    """What both races share; see `InformationRacing` and `Racing`.

    Parameters
    ----------
    problem : Problem
        What is known and wanted.
    delta : float
        Probability of a wrong answer that is accepted.
    parallel : int, optional
        Most pulls in flight; by default as many as are asked for.
    per_arm : int, optional
        Most pulls of one arm in flight; by default no limit.
    truncate : int, optional
        Readings after which a pull is called back; by default it runs to its end.
    max_pulls, max_reports : int, optional
        Stop undecided after so many results, or readings.
    seed : None, int or numpy.random.Generator
        Not used: the policies toss no coins.
    """

    problem: Problem
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
        "_amended",
        "_clipped",
    )

    def __init__(
        self,
        problem: Problem,
        delta: float,
        parallel: int | None,
        per_arm: int | None,
        truncate: int | None,
        max_pulls: int | None,
        max_reports: int | None,
        seed: int | np.random.Generator | None,
    ) -> None:
        if not isinstance(problem, Problem):
            raise InvalidArgument("problem", "must be a delayed.Problem", problem)
        super().__init__(problem, seed)
        self.delta = check_probability("delta", delta)
        self.parallel = None if parallel is None else check_integer("parallel", parallel, low=1)
        self.per_arm = None if per_arm is None else check_integer("per_arm", per_arm, low=1)
        self.truncate = None if truncate is None else check_integer("truncate", truncate, low=1)
        if truncate is not None and problem.feedback not in _TRUNCATED:
            raise InvalidArgument(
                "truncate", f"must be left out for feedback={problem.feedback!r}", truncate
            )
        self.max_pulls = None if max_pulls is None else check_integer("max_pulls", max_pulls, low=1)
        self.max_reports = (
            None if max_reports is None else check_integer("max_reports", max_reports, low=1)
        )
        self.duplicates = 0
        self._sign = problem.sign
        self._readings = Readings()
        self._unresolved: list[int] = []
        self._valued: list[int] = []
        self._dropped = 0
        self._amended = 0
        self._clipped = 0

    def _open_books(self, constants: Mapping[int, float]) -> None:
        """Start empty books with a rule's own constants."""
        from fairtrial.delayed._kernels import books
        from fairtrial.delayed._kernels.events import SETTLE

        problem, arms = self.problem, len(self.problem.arms)
        rules = np.zeros(books.CONSTANTS + 3 * arms)
        rules[books.FEEDBACK] = FEEDBACKS.index(problem.feedback)
        rules[books.PREFIX] = problem.delay_depends_on_outcome
        rules[books.TOP], rules[books.DELTA] = problem.top, self.delta
        rules[books.TOLERANCE] = problem.tolerance
        rules[books.PER_ARM] = math.inf if self.per_arm is None else self.per_arm
        rules[books.FIRST_ONLY] = problem.errors == "first"
        rules[books.TARGET] = math.inf if problem.target_std is None else problem.target_std
        for name, value in constants.items():
            rules[name] = value
        shares = rules[books.REPORT_SHARE], rules[books.BIAS_SHARE]
        rules[books.LOG_ALL] = math.log(arms / self.delta)
        rules[books.LOG_OUTCOME] = rules[books.LOG_ALL] - math.log(1.0 - sum(shares))
        rules[books.LOG_REPORT] = rules[books.LOG_ALL] - math.log(shares[0] or 1.0)
        rules[books.LOG_BIAS] = rules[books.LOG_ALL] - math.log(shares[1] or 1.0)
        scales = rules[books.CONSTANTS :].reshape(3, arms)
        scales[0] = problem.scale
        scales[1] = 0.0 if problem.report_std is None else problem.report_std
        scales[2] = 0.0 if problem.duration is None else problem.duration
        rules[books.LONGEST] = scales[2].max()
        book = books.empty_books(rules, arms, rows=64)
        self._rules, self._table, self._pulls = book.rules, book.table, book.pulls
        self._arms, self._sums = book.arms, book.sums
        self._control, self._declared = book.control, book.declared
        self._act(SETTLE, 0)

    @property
    def _book(self) -> Any:
        """Everything that the kernels work on."""
        return (
            self._rules,
            self._table,
            self._pulls,
            self._arms,
            self._sums,
            self._control,
            self._declared,
        )

    def _act(
        self, kind: int, at: int, first: float = 0.0, second: float = 0.0, third: float = 0.0
    ) -> int:
        """Let one event happen in the books; return the row of its pull."""
        from fairtrial.delayed._kernels.runs import act

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

    def _check_std(self, std: float | None) -> float | None:
        """Return the deviation that a reading brings, if this rule takes one."""
        if std is None:
            if self.problem.feedback == "refining" and self.problem.report_std is None:
                raise InvalidArgument("sd", "must be given: the problem has no report_std", None)
            return None
        if self.problem.feedback not in ("unbiased", "refining"):
            raise InvalidArgument(
                "sd", f"must be left out for feedback={self.problem.feedback!r}", std
            )
        return check_number("sd", std, low=0.0)

    # ------------------------------------------------------------------------ room

    def _make_room(self) -> None:
        """Let the pulls' array grow until one more fits."""
        from fairtrial.delayed._kernels import books

        if self._control[books.ROWS] >= len(self._pulls):
            self._pulls = np.concatenate([self._pulls, np.zeros_like(self._pulls)])

    def _row_of(self, pull: Pull) -> int:
        """Return the row of a pull in the books."""
        from fairtrial.delayed._kernels import books

        row = pull.tag
        if 0 <= row < self._control[books.ROWS]:
            number, arm = self._pulls[row, [books.NUMBER, books.ARM]]
            if number == pull.number and arm == pull.action:
                return row
        raise UnknownPull(f"{pull!r} was never issued by this policy")

    # -------------------------------------------------------------------- contract

    def choose(self, duration: float | None = None) -> Choice:
        """Return the arm to pull and its row, or None while no more may be in flight.

        Parameters
        ----------
        duration : float, optional
            For ``feedback="incremental"``: the number of pieces of the pull.
        """
        from fairtrial.delayed._kernels import books
        from fairtrial.delayed._kernels.runs import ask

        pieces = self._check_duration(duration)
        if self.parallel is not None and self._control[books.BUSY] >= self.parallel:
            return None
        arm = ask(*self._book)
        if arm < 0:
            return None
        return arm, self._open_row(arm, self.asked, pieces)

    def _open_row(self, arm: int, number: int, pieces: float | None) -> int:
        from fairtrial.delayed._kernels.events import START

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
        from fairtrial.delayed._kernels import books
        from fairtrial.delayed._kernels.events import CORRECT, TELL

        value = self._sign * outcome
        if pull.number == UNSOLICITED:
            self._check_unsolicited()
            row = self._open_row(pull.action, UNSOLICITED, pieces=None)
            self._act(TELL, row, value)
            return
        row = self._row_of(pull)
        if row in self._valued:
            self._valued.remove(row)
            self._act(CORRECT, row, value)
            self._control[books.RESULTS] += 1.0
            return
        if row in self._unresolved:
            self._unresolved.remove(row)
        self._act(TELL, row, value)

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
        sd: float | None = None,
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
        sd : float, optional
            Standard deviation of this reading about the outcome.
        **details
            Nothing else is known.
        """
        _refuse_unknown(details)
        self._take(pull, value, stage, elapsed, sd, useful=self._uses_readings)

    def read_late(
        self,
        pull: Pull,
        value: float,
        stage: float | None = None,
        elapsed: float | None = None,
        sd: float | None = None,
        **details: Any,
    ) -> None:
        """Take a reading that its pull's outcome has overtaken; it can still tell of a bias."""
        _refuse_unknown(details)
        self._take(pull, value, stage, elapsed, sd, useful=self._learns_bias_late)

    def _take(
        self,
        pull: Pull,
        value: float,
        stage: float | None,
        elapsed: float | None,
        sd: float | None,
        useful: bool,
    ) -> None:
        """Write a reading down; let the books follow if it is new and of use."""
        row, own = self._row_of(pull), self._sign * value
        place, std = self._check_reading(row, stage, elapsed, sd)
        if self._readings.is_known(row, place, own, std):
            self.duplicates += 1
            return
        newest = self._readings.is_newest(row, place)
        self._readings.add(row, place, own, std)
        if useful:
            self._use(row, place, own, std, newest)

    @property
    def _learns_bias_late(self) -> bool:
        return False

    def _check_reading(
        self, row: int, stage: float | None, elapsed: float | None, sd: float | None
    ) -> tuple[float, float | None]:
        if self.problem.feedback == "full":
            raise NotSupported("feedback='full' says that there are no readings")
        std = self._check_std(sd)
        since = None if elapsed is None else check_number("elapsed", elapsed, low=0.0)
        if stage is not None:
            return check_number("stage", stage), std
        return (self._readings.next_stage(row) if since is None else since), std

    def _use(self, row: int, stage: float, value: float, std: float | None, newest: bool) -> None:
        from fairtrial.delayed._kernels.events import CHANGED, FORGET, READ, READ_ONLY

        self._make_room()
        if newest or self.problem.feedback == "refining":
            self._act(READ, row, stage, value, -1.0 if std is None else std)
            return
        self._act(FORGET, row)
        for reading in self._readings.in_order(row).tolist():
            self._act(READ_ONLY, row, *reading)
        self._act(CHANGED, row)

    def lose(self, pull: Pull, reason: str) -> None:
        """Take note that a pull will have no outcome; what was read of it stays.

        ``cancelled``, ``eliminated``, ``truncated`` and ``user`` say that somebody stopped it
        on the strength of what is logged; if readings are logged and do not count, that is
        as a failure due to the outcome. So are ``timeout`` and ``expired``, unless the problem
        says that failures are independent of outcomes, and any other reason if it says not.
        """
        from fairtrial.delayed._kernels import books
        from fairtrial.delayed._kernels.events import STOP, TELL

        row = self._row_of(pull)
        kept = reason in _KEPT and (self._keeps_stopped or not self._readings.has(row))
        by_outcome = not kept and self._depends_on_outcome(reason)
        survives = self._arms[pull.action, books.STATUS] == books.SURVIVES
        if survives and by_outcome and self.problem.failure_value is not None:
            self._act(TELL, row, self._sign * self.problem.failure_value)
            self._control[books.RESULTS] -= 1.0
            self._valued.append(row)
            return
        self._act(STOP, row)
        if survives and (by_outcome or self.problem.delay_depends_on_outcome):
            self._unresolved.append(row)
        elif survives and not kept:
            self._dropped += 1

    def _depends_on_outcome(self, reason: str) -> bool:
        if self.problem.failure is not None:
            return self.problem.failure == "outcome"
        suspicious = reason in _TIMEOUTS or reason in _KEPT
        return suspicious or self.problem.failure_value is not None

    def revise(self, pull: Pull, old: float, new: float) -> None:
        """Correct an outcome; what was decided before stays decided."""
        from fairtrial.delayed._kernels.events import CORRECT

        row = self._row_with(pull, self._sign * old)
        self._act(CORRECT, row, self._sign * new)
        self._amended += 1

    def _row_with(self, pull: Pull, value: float) -> int:
        """Return the row of a pull that was told with that value."""
        from fairtrial.delayed._kernels import books

        rows = self._pulls[: int(self._control[books.ROWS])]
        fits = (
            (rows[:, books.NUMBER] == pull.number)
            & (rows[:, books.ARM] == pull.action)
            & (rows[:, books.STATE] == books.DONE)
            & (rows[:, books.OUTCOME] == value)
        )
        if not fits.any():
            raise UnknownPull(f"{pull!r} was not told with the outcome {self._sign * value!r}")
        return int(np.flatnonzero(fits)[-1])

    def cancelled(self) -> list[Pull]:
        """Return the pulls in flight that are not wanted any more; all, once stopped.

        They are those on decided arms, and those with as many readings as `truncate` allows.
        """
        from fairtrial.delayed._kernels import books

        if self.stopped:
            return self.outstanding()
        if self._control[books.DOOMED] == 0.0 and self.truncate is None:
            return []
        status = self._arms[:, books.STATUS]
        most = math.inf if self.truncate is None else self.truncate
        return [
            pull
            for pull in self.outstanding()
            if status[pull.action] != books.SURVIVES or self._pulls[pull.tag, books.COUNT] >= most
        ]

    def compiled_run(
        self,
        environment: Environment,
        generator: np.random.Generator,
        horizon: int | None,
        parallel: int = 1,
    ) -> Run | None:
        """Return a whole run from compiled code, with so many pulls in flight at most."""
        if not isinstance(environment, TimedEnvironment) or not environment.compiled:
            return None
        if self.asked or self._has_heard_anything():
            return None
        if self.problem.feedback == "incremental" and self.problem.duration is None:
            return None
        return self._run(environment, draw_key(generator), horizon, parallel)

    def _has_heard_anything(self) -> bool:
        from fairtrial.delayed._kernels import books

        return bool(self._control[books.ROWS])

    def _run(
        self,
        environment: TimedEnvironment,
        key: NDArray[np.int64],
        horizon: int | None,
        parallel: int,
    ) -> Run:
        from fairtrial.delayed._kernels import books, runs, worlds

        places = parallel if self.parallel is None else min(parallel, self.parallel)
        slots = np.zeros((places, worlds.SLOT_COLUMNS))
        slots[:, worlds.ROW] = -1.0
        clock = np.zeros(runs.CLOCKS)
        limits = self._limits(places, horizon)
        heap = np.zeros(places, dtype=np.int64)
        world = environment.world(key)
        rest: Any = (*world, slots, heap, clock, limits)
        while runs.run(*self._book, *rest) == runs.NEEDS_ROOM:
            self._make_room()
        self.asked = int(self._control[books.ROWS])
        self.told = int(self._control[books.RESULTS])
        if limits[runs.FAILURE] == runs.STUCK:
            self._unresolved = self._stopped_rows()
        else:
            self._dropped = int(clock[runs.LOSSES])
        answer = self.recommend()
        pulls = self._arms[:, books.STARTED].astype(np.int64)
        return Run(
            answer=answer.arm if answer.status == "decided" else None,
            status=answer.status,
            stopping_time=self.told,
            pulls=pulls,
            elapsed=float(clock[runs.NOW]),
            extra={**self.metrics(), **environment.metrics(pulls)},
            cancelled=int(clock[runs.CANCELLED]),
        )

    def _stopped_rows(self) -> list[int]:
        """Return the pulls without outcome on arms that survive."""
        from fairtrial.delayed._kernels import books

        rows = self._pulls[: int(self._control[books.ROWS])]
        survives = self._arms[rows[:, books.ARM].astype(int), books.STATUS] == books.SURVIVES
        stopped: list[int] = np.flatnonzero(
            survives & (rows[:, books.STATE] != books.DONE)
        ).tolist()
        return stopped

    def _limits(self, places: int, horizon: int | None) -> Floats:
        from fairtrial.delayed._kernels import runs

        problem = self.problem
        limits = np.zeros(runs.LIMITS)
        limits[runs.SLOTS] = places
        limits[runs.MOST_PULLS] = math.inf if horizon is None else horizon
        limits[runs.MOST_RESULTS] = math.inf if self.max_pulls is None else self.max_pulls
        limits[runs.MOST_READ] = math.inf if self.max_reports is None else self.max_reports
        limits[runs.CUT] = math.inf if self.truncate is None else self.truncate
        limits[runs.SIGN] = self._sign
        limits[runs.SKIP] = not self._uses_readings
        limits[runs.FAILURE] = runs.STOP_IT
        by_outcome = self._depends_on_outcome("lost")
        if by_outcome and problem.failure_value is not None:
            limits[runs.FAILURE] = runs.COUNT_IT
            limits[runs.FAILURE_VALUE] = self._sign * problem.failure_value
        elif by_outcome or problem.delay_depends_on_outcome:
            limits[runs.FAILURE] = runs.STUCK
        return limits

    # ---------------------------------------------------------------------- report

    @property
    def _decided(self) -> bool:
        from fairtrial.delayed._kernels import books

        return bool(self._control[books.SURVIVORS] == 0.0)

    @property
    def _waits_for_decision(self) -> bool:
        """Whether a pull failed in a way that nobody has said how to count."""
        from fairtrial.delayed._kernels import books

        if not self._unresolved or self._decided:
            return False
        arms = self._pulls[self._unresolved, books.ARM].astype(int)
        return bool((self._arms[arms, books.STATUS] == books.SURVIVES).any())

    @property
    def stopped(self) -> bool:
        """Whether there is an answer, a cap is reached, or a failure has to be decided on."""
        return self._decided or self._capped or self._waits_for_decision

    @property
    def _capped(self) -> bool:
        from fairtrial.delayed._kernels import books

        control = self._control
        return bool(
            (self.max_pulls is not None and control[books.RESULTS] >= self.max_pulls)
            or (self.max_reports is not None and control[books.READINGS] >= self.max_reports)
        )

    def _best(self) -> tuple[str, ...]:
        """Return the answer, or what it would be by the data so far, the best arm first."""
        from fairtrial.delayed._kernels import books

        accepted = self._arms[:, books.STATUS] == books.ACCEPTED
        survives = self._arms[:, books.STATUS] == books.SURVIVES
        known = np.isfinite(self._arms[:, books.VARIANCE])
        means = np.where(known, self._arms[:, books.MEAN], -math.inf)
        # Accepted arms have their place; then by mean, and arms of equal mean in their order.
        order = np.lexsort((-means, ~accepted, ~(accepted | survives)))[: self.problem.top]
        best = sorted(order.tolist(), key=lambda arm: (-means[arm], arm))
        return tuple(self.problem.arms[arm] for arm in best)

    def recommend(self) -> Recommendation:
        """Return the answer now: the top arms, the best first, or none yet (`status`)."""
        status: Status = "decided" if self._decided else "undecided" if self.stopped else "running"
        leader = self._best()
        evidence, threshold = self._evidence()
        return Recommendation(
            arm=leader if self._decided else None,
            status=status,
            leader=leader,
            confidence=1.0 - self.delta,
            guarantee=self.guarantee,
            reason=self._reason(leader),
            evidence={"evidence": evidence, "threshold": threshold, "pulls": self.told},
        )

    def _reason(self, leader: tuple[str, ...]) -> str:
        names = ", ".join(repr(arm) for arm in leader)
        if self._decided:
            return f"the evidence suffices: the best {len(leader)} of the arms are {names}"
        if self._waits_for_decision:
            return (
                "needs a decision: a pull failed, perhaps because of its outcome; tell its outcome,"
                " or say failure='independent' or a failure_value in the problem"
            )
        if self._capped:
            return f"a cap on results or readings is reached; by the data so far {names} lead"
        return f"by the data so far {names} lead; the evidence does not suffice yet"

    def _evidence(self) -> tuple[float | None, float | None]:
        """Return the evidence for the leaders, and what would stop the policy."""
        return None, None

    def progress(self) -> Progress:
        """Return estimates with intervals that hold at all times, and the state of every arm."""
        evidence, threshold = self._evidence()
        estimates = self._estimates()
        return Progress(
            recommendation=self.recommend(),
            asked=self.asked,
            told=self.told,
            outstanding=len(self._outstanding),
            evidence=evidence,
            threshold=threshold,
            actions=estimates,
            arms=estimates,
            details=self._details(),
        )

    def _estimates(self) -> tuple[Estimate, ...]:
        from fairtrial.delayed._kernels import books

        lower, upper = self._intervals()
        if self._sign < 0:
            lower, upper = -upper, -lower
        estimates = []
        for arm, labels in enumerate(self.problem.action_labels):
            known = math.isfinite(self._arms[arm, books.VARIANCE])
            estimates.append(
                Estimate(
                    labels,
                    int(self._arms[arm, books.COMPLETED]),
                    mean=float(self._sign * self._arms[arm, books.MEAN]) if known else None,
                    lower=float(lower[arm]) if math.isfinite(lower[arm]) else None,
                    upper=float(upper[arm]) if math.isfinite(upper[arm]) else None,
                )
            )
        return tuple(estimates)

    def _details(self) -> Mapping[str, Any]:
        from fairtrial.delayed._kernels import books

        names = ("undecided", "accepted", "rejected")
        status = self._arms[:, books.STATUS].astype(int).tolist()
        return {
            "arms": {arm: names[code] for arm, code in zip(self.problem.arms, status, strict=True)},
            "readings": int(self._control[books.READINGS]),
            "duplicates": self.duplicates,
        }

    def metrics(self) -> dict[str, float]:
        """Return the number of readings that were used."""
        from fairtrial.delayed._kernels import books

        return {"readings": float(self._control[books.READINGS])}

    # ------------------------------------------------------------------- guarantee

    def _promise(self, name: str, proven: bool, assumptions: list[str], source: str) -> Guarantee:
        """Return a rule's guarantee, with what all of the family stand on."""
        problem = self.problem
        near = f", within {problem.tolerance:g}" if problem.tolerance else ""
        promise = Guarantee(
            name=name,
            proven=proven,
            statement=(
                f"the probability that this study ever gives a set that is not the best "
                f"{problem.top}{near} is at most {self.delta:g}"
            ),
            assumptions=(*assumptions, *self._common_assumptions()),
            source=source,
        )
        if self._amended:
            promise = promise.weakened(
                f"{self._amended} outcomes were corrected after decisions had used them"
            )
        return promise

    def _common_assumptions(self) -> list[str]:
        problem = self.problem
        if problem.delay_depends_on_outcome:
            common = ["delays may depend on outcomes: only runs of complete pulls count"]
        else:
            common = ["when results and readings come says nothing of the outcome"]
        common.append("a pull is stopped on the strength of logged data only")
        if problem.failure_value is not None:
            common.append(f"a pull that fails has the outcome {problem.failure_value:g}")
        if self._dropped:
            common.append(
                f"{self._dropped} lost pulls were lost for reasons unrelated to their outcomes"
            )
        if self._clipped:
            common.append(f"means are of clipped outcomes: {self._clipped} were clipped")
        return common

    def _noise_assumption(self) -> str:
        problem = self.problem
        if problem.reward_range is not None:
            low, high = problem.reward_range
            return f"every outcome lies in [{low:g}, {high:g}]"
        if problem.gaussian:
            return "outcomes and errors of readings are normal, at the stated deviations"
        return "outcomes and errors of readings are sub-Gaussian at the stated scales"


def _refuse_unknown(details: Mapping[str, Any]) -> None:
    for name, value in details.items():
        raise InvalidArgument(name, "must be one of stage, elapsed, sd for a reading", value)
