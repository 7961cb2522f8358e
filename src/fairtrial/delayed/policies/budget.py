"""What rules without a guarantee share: a ledger of all pulls, and what they report."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.environment import Environment
from fairtrial.core.policy import Choice, Policy
from fairtrial.core.pull import UNSOLICITED, Pull
from fairtrial.core.recommendation import Estimate, Guarantee, Progress, Recommendation
from fairtrial.core.run import Run
from fairtrial.core.validation import check_instance, check_integer, check_number
from fairtrial.delayed._kernels import budget_runs, ledger
from fairtrial.delayed._kernels.budget_runs import act, ask, keep_unwanted, sum_up
from fairtrial.delayed._kernels.budgets import DATA, READ, STOP, TELL
from fairtrial.delayed._kernels.ledger import ARM, KEPT, MOST_READINGS, OVER, ROWS
from fairtrial.delayed.environments import TimedEnvironment, draw_key
from fairtrial.delayed.policies.readings import Readings
from fairtrial.delayed.problem import FEEDBACKS, Problem
from fairtrial.errors import InvalidArgument, NotSupported, UnknownPull

__all__ = ["BudgetPolicy"]

Floats = NDArray[np.float64]

_FIRST_WIDTH = 32


class BudgetPolicy(Policy):
    """Base of the rules that end when their budget does, and promise nothing.

    They take the same calls as the races, so that both can be compared in one world or on one
    log. What they decide is in compiled code, which works on the ledger.
    """

    problem: Problem
    state_fields: ClassVar[tuple[str, ...]] = (
        "_pulls", "_values", "_aged", "_arms", "_control", "_reported", "duplicates",
    )  # fmt: skip

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
    def _order(self) -> NDArray[np.intp]:
        """Return all arms, the best first, after `_sum_up`."""

    @property
    @abstractmethod
    def _source(self) -> str:
        """The paper."""

    # ----------------------------------------------------------------------- the ledger

    def _open_ledger(
        self, rule: int, plan: Floats, kept: float, constants: Mapping[int, float] | None = None
    ) -> None:
        """Start an empty ledger with a rule's own plan and constants.

        `kept` is how many readings of a pull matter.
        """
        problem, arms = self.problem, len(self.problem.arms)
        rules = np.zeros(ledger.CONSTANTS + arms)
        rules[ledger.RULE], rules[ledger.KEPT] = rule, kept
        rules[ledger.FEEDBACK] = FEEDBACKS.index(problem.feedback)
        rules[ledger.TOP] = problem.top
        for name, value in (constants or {}).items():
            rules[name] = value
        rules[ledger.CONSTANTS :] = 0.0 if problem.duration is None else problem.duration
        self._rules, self._plan = rules, plan
        rungs = int(plan[0, 0]) if rule == ledger.PROMOTION else 0
        self._arms = np.zeros((ledger.SEEN + rungs, arms))
        self._control = np.zeros(ledger.CONTROLS)
        self._pulls = np.zeros((0, ledger.PULL_COLUMNS))
        self._values, self._aged = np.zeros((0, 0)), np.zeros((1, 1))
        self._grow(max(64, 2 * arms), int(max(1, min(kept, _FIRST_WIDTH))))
        budget_runs.prepare(*self._ledger)

    @property
    def _ledger(self) -> Any:
        """Everything that the kernels work on."""
        return (
            self._rules,
            self._plan,
            self._pulls,
            self._values,
            self._aged,
            self._arms,
            self._control,
        )

    def _grow(self, rows: int, width: int) -> None:
        """Let the arrays grow to that many pulls, and that many readings of each."""
        self._pulls = _enlarged(self._pulls, rows, ledger.PULL_COLUMNS)
        self._values = _enlarged(self._values, rows, width)
        if self._rules[ledger.RULE] == ledger.MEDIAN:
            self._aged = _enlarged(self._aged, width, rows + 1)

    def _make_room(self) -> None:
        """Let the arrays grow until one more pull, and one more reading of any, fit."""
        (rows, width), kept = self._values.shape, self._rules[KEPT]
        full = self._control[ROWS] >= rows
        short = self._control[MOST_READINGS] >= width and width < kept
        if full or short:
            self._grow(2 * rows if full else rows, int(min(2 * width, kept)) if short else width)

    def _act(self, kind: int, at: int, value: float = 0.0, place: int = 0) -> None:
        """Let one event happen in the ledger."""
        self._make_room()
        event: Any = (kind, at, place, value)
        act(*self._ledger, *event)

    # ------------------------------------------------------------------- what goes out

    def choose(self) -> Choice:
        """Return the arm to pull and its row, or None while no more can be started."""
        self._make_room()
        row = int(ask(*self._ledger))
        return None if row < 0 else (int(self._pulls[row, ARM]), row)

    @property
    def stopped(self) -> bool:
        """Whether the rule has come to its end, and waits for no pull."""
        return bool(self._control[OVER])

    def to_cancel(self) -> list[Pull]:
        """Return the pulls in flight that are not wanted any more; all, once stopped."""
        entries = self._outstanding.values()
        rows = np.fromiter((row for _, row in entries), np.int64, len(entries))
        number: int = keep_unwanted(*self._ledger, rows)
        unwanted = set(rows[:number].tolist())
        return [pull for pull in self.outstanding() if pull.tag in unwanted] if unwanted else []

    # ---------------------------------------------------------------- what comes in

    def learn(self, pull: Pull, outcome: float) -> None:
        """Take an outcome: in time, after a stop, or unsolicited."""
        own = self.problem.sign * outcome
        if pull.number == UNSOLICITED:
            self._act(DATA, pull.action, own)
        else:
            self._act(TELL, pull.tag, own)

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
        self._use(row, place, own, std)

    def _use(self, row: int, stage: float, value: float, std: float | None) -> None:
        """Put a reading at its place among those of its pull."""
        place = self._readings.count(row)
        newest = self._readings.is_newest(row, stage)
        self._readings.add(row, stage, value, std)
        if not newest:
            place = int(np.searchsorted(self._readings.in_order(row)[:, 0], stage))
        self._act(READ, row, value, place)

    def read_late(self, pull: Pull, value: float, **details: Any) -> None:
        """Ignore a reading that its pull's outcome has overtaken."""

    def on_failure(self, pull: Pull, reason: str) -> None:
        """Take note that a pull has stopped; its readings stay."""
        self._act(STOP, pull.tag)

    def on_amend(self, pull: Pull, old: float, new: float) -> None:
        """Correct an outcome; arms that have left stay out."""
        sign, rows = self.problem.sign, self._pulls[: int(self._control[ledger.ROWS])]
        own = rows if pull.number == UNSOLICITED else rows[pull.tag : pull.tag + 1]
        fits = (own[:, ledger.ARM] == pull.action) & (own[:, ledger.OUTCOME] == sign * old)
        if not fits.any():
            raise UnknownPull(f"{pull!r} was not told with the outcome {old!r}")
        own[int(np.argmax(fits)), ledger.OUTCOME] = sign * new

    # ------------------------------------------------------------------------ whole runs

    def compiled_run(
        self,
        environment: Environment,
        generator: np.random.Generator,
        horizon: int | None,
        parallel: int = 1,
    ) -> Run | None:
        """Return a whole run from compiled code, with that many pulls in flight at most."""
        if not isinstance(environment, TimedEnvironment) or not environment.compiled:
            return None
        if self._control[ledger.ROWS]:
            return None
        return self._run(environment, draw_key(generator), horizon, parallel)

    def _run(
        self,
        environment: TimedEnvironment,
        key: NDArray[np.int64],
        horizon: int | None,
        parallel: int,
    ) -> Run:
        clock, limits = np.zeros(budget_runs.CLOCKS), np.zeros(budget_runs.LIMITS)
        limits[budget_runs.MOST_PULLS] = math.inf if horizon is None else horizon
        limits[budget_runs.SIGN] = self.problem.sign
        rest: Any = (*environment.stage(key, parallel), clock, limits)
        while not budget_runs.run(*self._ledger, *rest):
            self._make_room()
        self.asked = int(self._control[ledger.ASKED])
        self.told = int(self._control[ledger.TOLD])
        answer, pulls = self.recommend(), self._arms[ledger.ISSUED].astype(np.int64)
        return Run(
            answer=answer.arm,
            status=answer.status,
            stopping_time=self.told,
            pulls=pulls,
            elapsed=float(clock[budget_runs.NOW]),
            metrics={**self.metrics(), **environment.metrics(pulls)},
            cancelled=int(clock[budget_runs.CANCELLED]),
        )

    # --------------------------------------------------------------------- report

    def _sum_up(self) -> None:
        """Bring the arms' means up to date, and the best forecasts of their pulls."""
        sum_up(*self._ledger)

    def recommend(self) -> Recommendation:
        """Return the top arms by what was seen, the best first; decided at the end."""
        self._sum_up()
        best = self._order()[: self.problem.top].tolist()
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
        """None: the rule names arms when its budget ends, at no stated probability of error."""
        return Guarantee(
            name=type(self).__name__,
            proven=False,
            statement="no probability of error is claimed",
            source=self._source,
        )

    def progress(self) -> Progress:
        """Return the mean outcome of every arm and the state of the rule."""
        recommendation = self.recommend()
        estimates = tuple(
            Estimate(labels, int(number), mean=self.problem.sign * mean if number else None)
            for labels, number, mean in zip(
                self.problem.action_labels,
                self._arms[ledger.COMPLETED].tolist(),
                self._arms[ledger.MEAN].tolist(),
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
            details={
                "readings": int(self._control[ledger.READINGS]),
                "duplicates": self.duplicates,
            },
        )

    def metrics(self) -> dict[str, float]:
        """Return the number of readings."""
        return {"readings": float(self._control[ledger.READINGS])}


def check_budget(budget: int, arms: int) -> int:
    """Require a budget of one pull an arm at least."""
    return check_integer("budget", budget, low=arms)


def _enlarged(array: Floats, rows: int, columns: int) -> Floats:
    """Return an array of that shape which begins with another one."""
    larger = np.zeros((rows, columns))
    larger[: array.shape[0], : array.shape[1]] = array
    return larger
