"""Base class of policies with a fixed budget of rows, in planned phases."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fairtrial.causal._cell_model import cell_model_of
from fairtrial.causal._ledger import Ledger, open_ledger, require_fields
from fairtrial.causal._structure import require_outcome_table
from fairtrial.causal.allocation import whole_rows
from fairtrial.causal.environments import RowEnvironment
from fairtrial.causal.estimates import Estimates, details_of
from fairtrial.causal.estimation import estimate_records
from fairtrial.causal.policies.consistency import require_consistent
from fairtrial.causal.policies.reports import action_estimates, arm_estimates, gap_limits
from fairtrial.causal.problem import Problem
from fairtrial.core.policy import Choice, Policy, State
from fairtrial.core.pull import UNSOLICITED, Pull
from fairtrial.core.recommendation import Guarantee, Progress, Recommendation, Status
from fairtrial.core.run import Run
from fairtrial.core.validation import check_instance, check_integer

Floats = NDArray[np.float64]

_SHOWN_DELTA = 0.05
_RUNNING, NO_FAIR_ARM = -2, -1
_NO_GUARANTEE = Guarantee(
    "none",
    proven=False,
    statement="best estimate for a fixed budget; no error probability is promised",
    source="Gao and Feng, section 5",
)


class FixedBudgetPolicy(Policy):
    """Base class of policies with a fixed budget: phases of planned rows, and reports.

    Lost rows are drawn again. Late and unsolicited rows count as data.
    """

    problem: Problem
    environments = RowEnvironment
    state_fields: ClassVar[tuple[str, ...]] = (
        "_phase",
        "_remaining",
        "_due",
        "_live",
        "_passed",
        "_spent",
        "_planned",
        "_answer",
        "_leader",
        "_passed_margin",
        "_tie",
    )

    _judges_by: ClassVar[str] = ""
    """What readers of an answer must know if it rests on other estimates than those shown."""

    def __init__(
        self, problem: Problem, budget: int, seed: int | np.random.Generator | None = None
    ) -> None:
        super().__init__(check_instance("problem", problem, Problem), seed)
        require_outcome_table(problem)
        self.budget = check_integer("budget", budget, low=1)
        arms = problem.n_arms
        self._ledger = open_ledger(cell_model_of(problem))
        self._phase = -1
        self._remaining = np.zeros(problem.n_actions, dtype=np.int64)
        self._due = 0
        self._live = np.ones(arms, dtype=bool)
        self._passed = np.zeros(arms, dtype=bool)
        self._spent = 0.0
        self._planned = 0
        self._answer = _RUNNING
        self._leader = _RUNNING
        self._passed_margin = False
        self._tie = False

    # ---------------------------------------------------------- what each rule says

    @property
    @abstractmethod
    def _lengths(self) -> Sequence[int]:
        """Return the number of rows of every phase."""

    @abstractmethod
    def _shares(self) -> Floats:
        """Return the shares of rows by action in the next phase, shape (K * modes,)."""

    @abstractmethod
    def _judge(self) -> None:
        """Judge arms at the end of a phase: reject some, and possibly set the answer."""

    def _estimator(self) -> str:
        """Return the estimator of the estimates that are shown before the budget is used up."""
        return "sn"

    # --------------------------------------------------------------------- sampling

    @property
    def stopped(self) -> bool:
        """Whether the answer was found, at the end of the budget or earlier."""
        return bool(self._answer != _RUNNING)

    def choose(self) -> Choice:
        """Return the next planned action, or None while the phase still waits for rows."""
        if self._due == 0:
            self._begin_phase()
        action = int(np.argmax(self._remaining > 0))
        if self._remaining[action] == 0:
            return None
        self._remaining[action] -= 1
        return action, int(self._phase) + 1

    def _begin_phase(self) -> None:
        self._phase += 1
        number = self._lengths[self._phase]
        self._planned += number
        costs = self.problem.row_costs.ravel()
        budget = self.problem.mean_budget
        allowance = math.inf if budget is None else budget * self._planned - self._spent
        counts = whole_rows(self._shares(), costs, number, allowance)
        self._remaining = counts
        self._due = number
        self._spent += float(counts[counts > 0] @ costs[counts > 0])

    def learn(self, pull: Pull, outcome: Any) -> None:
        """Learn a row; the last row of a phase ends the phase."""
        arm, mode = divmod(pull.action, len(self.problem.modes))
        value, cell, reward = cell_model_of(self.problem).encode(outcome)
        require_consistent(self.problem, pull, value, cell)
        self._record(pull.tag, arm, mode > 0, value, cell, reward)
        if pull.number != UNSOLICITED and not self.is_lost(pull):
            self._count_row()

    def _count_row(self) -> None:
        self._due -= 1
        if self._due == 0:
            self._close_phase()

    def _close_phase(self) -> None:
        self._judge()

    def _record(
        self, phase: int, arm: int, forced: bool, value: int, cell: Any, reward: float
    ) -> None:
        self._ledger.add_one(arm, forced, value, cell, reward)

    def on_failure(self, pull: Pull, reason: str) -> None:
        """Plan the row again, because the budget counts received rows."""
        if not self.stopped:
            self._remaining[pull.action] += 1

    # ----------------------------------------------------------------------- answer

    def _decide(self, arm: int | None, tie: bool = False, passed_margin: bool = False) -> None:
        self._answer = NO_FAIR_ARM if arm is None else arm
        self._leader = self._answer
        self._tie = tie
        self._passed_margin = passed_margin

    def _label(self, answer: int) -> str | None:
        return self.problem.arm_labels[answer] if answer >= 0 else None

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee: with a fixed budget, no error probability is promised."""
        return _NO_GUARANTEE

    def recommend(self) -> Recommendation:
        """Return the answer: an arm, or None for "no fair arm" if `status` is decided."""
        status: Status = "decided" if self.stopped else "running"
        leader = self._label(int(self._leader))
        return Recommendation(
            arm=leader if self.stopped else None,
            status=status,
            leader=leader,
            confidence=None,
            guarantee=self.guarantee,
            reason=self._reason(leader),
            evidence=self._evidence(),
        )

    def _reason(self, leader: str | None) -> str:
        if not self.stopped:
            return f"{self.told} of {self.budget} rows are in"
        if leader is None:
            return f"no arm's estimated gaps keep the fairness bound{self._judges_by}"
        best = f"{leader!r} has the best estimated mean of the arms that keep the fairness bound"
        return f"{best}{self._judges_by}"

    def _evidence(self) -> dict[str, Any]:
        return {
            "rows": self.told,
            "budget": self.budget,
            "live": list(self._live_arms),
            "passed_margin": bool(self._passed_margin),
            "tie": bool(self._tie),
        }

    @property
    def _live_arms(self) -> tuple[str, ...]:
        labels = self.problem.arm_labels
        return tuple(label for label, live in zip(labels, self._live, strict=True) if live)

    def estimates(self, delta: float = _SHOWN_DELTA) -> Estimates | None:
        """Return estimates of all arms from all rows so far; None before the first row."""
        records = self._ledger.records()
        if not len(records.arm):
            return None
        return estimate_records(self.problem, records, self._estimator(), delta, False)

    def progress(self) -> Progress:
        """Return means by action, estimates by arm with approximate intervals, and the phase."""
        records = self._ledger.records()
        known = self.estimates()
        return Progress(
            recommendation=self.recommend(),
            asked=self.asked,
            told=self.told,
            outstanding=len(self._outstanding),
            remaining=0.0 if self.stopped else float(max(0, self.budget - self.told)),
            actions=action_estimates(self.problem, records),
            arms=arm_estimates(self.problem, known, records),
            details={
                "phase": int(self._phase) + 1,
                "phases": len(self._lengths),
                **self._evidence(),
                **({} if known is None else details_of(known)),
            },
            live=self._live_arms,
            value_limits=() if known is None else gap_limits(self.problem, known.gaps),
            intervals="approximate",
        )

    def metrics(self) -> dict[str, float]:
        """Return what the rows of a run cost."""
        return {"cost": float(self._spent)}

    # ------------------------------------------------------------------------ state

    def get_state(self) -> State:
        """Return the complete state as named arrays."""
        return {**super().get_state(), **self._ledger.get_state()}

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from a state."""
        require_fields(self._ledger, state)
        super().set_state(state)
        self._ledger.set_state(state)

    # -------------------------------------------------------------- simulated runs

    def _can_run(self, environment: RowEnvironment, horizon: int | None, parallel: int) -> bool:
        whole = horizon is None or horizon >= self.budget
        return parallel == 1 and whole and environment.answers_in_batches

    def _run(
        self, environment: Any, generator: np.random.Generator, horizon: int | None, parallel: int
    ) -> Run:
        # One batch per phase gives the same rows, and the same answer, as single pulls.
        pulls = np.zeros(self.problem.n_actions, dtype=np.int64)
        while not self.stopped:
            self._begin_phase()
            pulls += self._remaining
            self._run_phase(environment, generator)
        answer = self.recommend()
        return Run(
            answer=answer.arm,
            status=answer.status,
            stopping_time=self.told,
            pulls=pulls,
            elapsed=float(self.told),
            metrics={**self.metrics(), **environment.metrics(pulls)},
        )

    def _run_phase(self, environment: RowEnvironment, generator: np.random.Generator) -> None:
        actions = np.repeat(np.arange(self.problem.n_actions), self._remaining)
        rows = environment.batch(actions, generator)
        for ledger in self._ledgers():
            ledger.add(rows)
        self.asked += len(actions)
        self.told += len(actions)
        self._remaining = np.zeros_like(self._remaining)
        self._due = 0
        self._close_phase()

    def _ledgers(self) -> list[Ledger]:
        return [self._ledger]
