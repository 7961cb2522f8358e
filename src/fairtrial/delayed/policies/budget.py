"""Base class of rules without a guarantee: state, events and report."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.policy import Choice, Policy
from fairtrial.core.pull import UNSOLICITED, Pull
from fairtrial.core.recommendation import Estimate, Guarantee, Progress, Recommendation
from fairtrial.core.records import Words
from fairtrial.core.run import Run
from fairtrial.core.validation import check_instance, check_integer, check_number
from fairtrial.delayed._kernels import budget_runs
from fairtrial.delayed._kernels.budget_runs import act, ask, keep_unwanted, sum_up
from fairtrial.delayed._kernels.budget_state import BUDGET, MEDIAN, PARTIALS, PROMOTION
from fairtrial.delayed._kernels.budgets import DATA, READ, STOP, TELL
from fairtrial.delayed._kernels.queue import Queue
from fairtrial.delayed.environments import TimedEnvironment, draw_key
from fairtrial.delayed.policies.readings import Readings, known_details
from fairtrial.delayed.problem import FEEDBACKS, Problem
from fairtrial.errors import NotSupported, UnknownPull

__all__ = ["BudgetPolicy"]

Floats = NDArray[np.float64]

_FIRST_WIDTH = 32


class BudgetPolicy(Policy):
    """Base class of rules that end with their budget and have no guarantee.

    They accept the same calls as the races, so both can be compared in one environment or on one
    log. Compiled code makes the decisions.
    """

    problem: Problem
    version = 3
    environments = TimedEnvironment
    state_fields: ClassVar[tuple[str, ...]] = ("_words", "_reported", "duplicates")

    _source: ClassVar[str]
    """The paper that describes the rule."""

    _buffer: Words

    _tables: Any
    """Columns of the tables: `Any`, because the declaration describes single rows."""

    def __init__(self, problem: Problem, seed: int | np.random.Generator | None = None) -> None:
        check_instance("problem", problem, Problem)
        super().__init__(problem, seed)
        self.duplicates = 0
        self._readings = Readings()

    @property
    def _reported(self) -> NDArray[Any]:
        return self._readings.to_array()

    @_reported.setter
    def _reported(self, rows: NDArray[Any]) -> None:
        self._readings = Readings.from_array(rows)

    # ---------------------------------------------------------------- what a rule says

    @abstractmethod
    def _order(self, tables: Any) -> NDArray[np.intp]:
        """Return all arms, the best first, by the tables of `_summary`."""

    # ------------------------------------------------------------------------ the state

    def _open(self, rule: int, plan: Floats, kept: float, **constants: float) -> None:
        """Start an empty state with a rule's own plan and constants.

        `kept` is the number of readings of a pull that matter.
        """
        problem, arms = self.problem, len(self.problem.arms)
        rows, width = max(64, 2 * arms), int(max(1, min(kept, _FIRST_WIDTH)))
        median = rule == MEDIAN
        self._words = BUDGET.allocate(
            arms=arms,
            rows=rows,
            steps=plan.shape[0],
            entries=plan.shape[1],
            width=width,
            ages=width if median else 1,
            columns=rows + 1 if median else 1,
            rungs=int(plan[0, 0]) if rule == PROMOTION else 0,
            partials=PARTIALS,
        )
        tables = self._tables
        tables.plan[:] = plan
        tables.arms.duration[:] = 0.0 if problem.duration is None else problem.duration
        feedback = FEEDBACKS.index(problem.feedback)
        known = {"rule": rule, "kept": kept, "feedback": feedback, "top": problem.top}
        for name, value in {**known, **constants}.items():
            getattr(tables.rules, name)[0] = value
        budget_runs.prepare(self._words)

    @property
    def _words(self) -> Words:
        """The buffer of the tables that the kernels work on."""
        return self._buffer

    @_words.setter
    def _words(self, words: Words) -> None:
        self._buffer = words
        self._tables = BUDGET.columns(words)

    def _make_room(self) -> None:
        """Grow the tables until one more pull, and one more reading of any pull, fit."""
        tables = self._tables
        (rows, width), kept = tables.values.shape, tables.rules.kept[0]
        full = tables.control.rows[0] >= rows
        short = tables.control.max_readings[0] >= width and width < kept
        if not (full or short):
            return
        rows = 2 * rows if full else rows
        width = int(min(2 * width, kept)) if short else width
        median = tables.rules.rule[0] == MEDIAN
        aged = {"ages": width, "columns": rows + 1} if median else {}
        self._words = BUDGET.enlarged(self._words, rows=rows, width=width, **aged)

    def _act(self, kind: int, at: int, value: float = 0.0, place: int = 0) -> None:
        """Process one event."""
        self._make_room()
        act(self._words, kind, at, place, value)

    # ------------------------------------------------------------------- what goes out

    def choose(self) -> Choice:
        """Return the arm to pull and its row, or None while no pull can start."""
        self._make_room()
        row = int(ask(self._words))
        return None if row < 0 else (int(self._tables.pulls.arm[row]), row)

    @property
    def stopped(self) -> bool:
        """Whether the rule has ended and waits for no pull."""
        return bool(self._tables.control.over[0])

    def to_cancel(self) -> list[Pull]:
        """Return the pulls in flight that are no longer needed; all after the rule has stopped."""
        entries = self._outstanding.values()
        rows = np.fromiter((row for _, row in entries), np.int64, len(entries))
        number: int = keep_unwanted(self._words, rows)
        unwanted = set(rows[:number].tolist())
        return [pull for pull in self.outstanding() if pull.tag in unwanted] if unwanted else []

    # ---------------------------------------------------------------- what comes in

    def learn(self, pull: Pull, outcome: float) -> None:
        """Learn an outcome: in time, after a stop, or unsolicited."""
        own = self.problem.sign * outcome
        if pull.number == UNSOLICITED:
            self._act(DATA, pull.action, own)
        else:
            self._act(TELL, pull.tag, own)

    def read(self, pull: Pull, value: float, **details: Any) -> None:
        """Use a reading; see `InformationRacing`. Its deviation `std` is ignored."""
        stage, elapsed, std = known_details(details)
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
        self._use(row, place, own, std)

    def _use(self, row: int, stage: float, value: float, std: float | None) -> None:
        """Insert a reading among those of its pull, in order."""
        place = self._readings.count(row)
        newest = self._readings.is_newest(row, stage)
        self._readings.add(row, stage, value, std)
        if not newest:
            place = int(np.searchsorted(self._readings.in_order(row)[:, 0], stage))
        self._act(READ, row, value, place)

    def read_late(self, pull: Pull, value: float, **details: Any) -> None:
        """Ignore a reading that its pull's outcome has overtaken."""

    def on_failure(self, pull: Pull, reason: str) -> None:
        """Record that a pull has stopped; its readings are kept."""
        self._act(STOP, pull.tag)

    def on_amend(self, pull: Pull, old: float, new: float) -> None:
        """Correct an outcome; eliminated arms stay eliminated."""
        sign, pulls = self.problem.sign, self._tables.pulls
        last = int(self._tables.control.rows[0])
        rows = np.arange(last) if pull.number == UNSOLICITED else np.arange(last)[[pull.tag]]
        fits = (pulls.arm[rows] == pull.action) & (pulls.outcome[rows] == sign * old)
        if not fits.any():
            raise UnknownPull.about(pull, f"was not told with the outcome {old!r}")
        pulls.outcome[rows[int(np.argmax(fits))]] = sign * new

    # ------------------------------------------------------------------------ whole runs

    def _can_run(self, environment: TimedEnvironment, horizon: int | None, parallel: int) -> bool:
        return environment.compiled

    def _run(
        self, environment: Any, generator: np.random.Generator, horizon: int | None, parallel: int
    ) -> Run:
        clock = np.zeros(1, budget_runs.CLOCK)
        max_pulls = math.inf if horizon is None else float(horizon)
        limits = budget_runs.Limits(max_pulls, float(self.problem.sign))
        staged, slots, heap = environment.stage(draw_key(generator), parallel)
        queue = Queue(slots, heap, clock)
        while not budget_runs.run(self._words, staged, queue, limits):
            self._make_room()
        self.asked = int(self._tables.control.asked[0])
        self.told = int(self._tables.control.told[0])
        answer, pulls = self.recommend(), self._tables.arms.issued.astype(np.int64)
        return Run(
            answer=answer.arm,
            status=answer.status,
            stopping_time=self.told,
            pulls=pulls,
            elapsed=float(clock["now"][0]),
            metrics={**self.metrics(), **environment.metrics(pulls)},
            cancelled=int(clock["cancelled"][0]),
        )

    # --------------------------------------------------------------------- report

    def _summary(self) -> Any:
        """Return the tables with the arms' means and best forecasts; the state stays as it is."""
        words = self._words.copy()
        sum_up(words)
        return BUDGET.columns(words)

    def recommend(self) -> Recommendation:
        """Return the best arms by the observed values, the best first; decided at the end."""
        best = self._order(self._summary())[: self.problem.top].tolist()
        leader = tuple(self.problem.arms[arm] for arm in best)
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
        """No guarantee: the rule answers when its budget ends, without an error probability."""
        return Guarantee(
            name=type(self).__name__,
            proven=False,
            statement="no probability of error is claimed",
            source=self._source,
        )

    def progress(self) -> Progress:
        """Return the mean outcome of every arm and the state of the rule."""
        recommendation, arms = self.recommend(), self._summary().arms
        estimates = tuple(
            Estimate(labels, int(number), mean=self.problem.sign * mean if number else None)
            for labels, number, mean in zip(
                self.problem.action_labels,
                arms.completed.tolist(),
                arms.estimate.tolist(),
                strict=True,
            )
        )
        return Progress(
            recommendation=recommendation,
            asked=self.asked,
            told=self.told,
            outstanding=len(self._outstanding),
            actions=estimates,
            arms=estimates,
            intervals="none",
            readings=int(self._tables.control.readings[0]),
            details={"duplicates": self.duplicates},
        )

    def metrics(self) -> dict[str, float]:
        """Return the number of readings."""
        return {"readings": float(self._tables.control.readings[0])}


def check_budget(budget: int, arms: int) -> int:
    """Return the budget; raise if it is less than one pull per arm."""
    return check_integer("budget", budget, low=arms)
