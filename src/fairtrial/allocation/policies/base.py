"""What all policies of the family share: decisions, results, the report, and runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from operator import index
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fairtrial.allocation._kernels import runs
from fairtrial.allocation._kernels.model import (
    ALLOWED,
    BEYOND_LIMIT,
    CHANGING,
    CONFINED,
    COUNT,
    FREE,
    ISSUED,
    SAVED,
    SUM,
    TOLD,
)
from fairtrial.allocation._kernels.runs import correct_reward, issue, ruling, void
from fairtrial.allocation._kernels.waiting import rebuild
from fairtrial.allocation.environments import AllocationEnvironment
from fairtrial.allocation.learners import FunctionLearner, Learner, PullFunction, Thompson
from fairtrial.allocation.policies.arrays import (
    Floats,
    Integers,
    Options,
    earlier_rounds,
    new_book,
    new_control,
    new_settings,
    new_stats,
)
from fairtrial.allocation.policies.reporting import ReportingPolicy
from fairtrial.allocation.problem import Problem
from fairtrial.core.environment import Environment
from fairtrial.core.policy import Choice
from fairtrial.core.problem import Outcome
from fairtrial.core.pull import UNSOLICITED, Pull
from fairtrial.core.run import Run, check_horizon
from fairtrial.core.validation import check_instance, check_integer
from fairtrial.errors import InvalidArgument, NotSupported

__all__ = ["AllocationPolicy", "as_learner", "refuse_plays"]


class AllocationPolicy(ReportingPolicy):
    """What all policies of the family share: quotas and statistics in arrays.

    A pull counts when it is issued, so the quotas do not wait for results; a pull that fails
    is taken back, with its round, and its arm's credit rises again. A reward that comes all the
    same is learned, and does not count the pull again.
    """

    endless = True
    state_fields: ClassVar[tuple[str, ...]] = ("_changing", "_counts", "_statistics", "_recent")

    _takes_awake = True

    def __init__(
        self,
        problem: Problem,
        learner: Learner | PullFunction | None,
        seed: int | np.random.Generator | None,
    ) -> None:
        check_instance("problem", problem, Problem)
        super().__init__(problem, seed)
        self._learner = as_learner(learner)
        self._low = problem.reward_range[0]
        self._width = problem.reward_range[1] - problem.reward_range[0]
        self._build()

    # ------------------------------------------------------------- what a rule says

    def _options(self) -> Options:
        return Options()

    # -------------------------------------------------------------------- decisions

    def choose(self, awake: Sequence[str] | None = None, context: int | None = None) -> Choice:
        """Return the next arm.

        Parameters
        ----------
        awake : sequence of str, optional
            Labels of the arms that can be pulled in this round; all without it. When none is,
            the round does not count.
        context : int, optional
            The context at hand, from 0; a policy made with ``contexts=1`` ignores it.
        """
        cell_row = self._row(context)
        sleeping = False
        if awake is not None:
            number = self._mark_awake(awake)
            if number == 0:
                return None
            sleeping = number < len(self.problem.arms)
        if self._learner.code:
            arm = self._decide(*self._arrays, cell_row, sleeping)
        else:
            arm = self._decide_in_python(cell_row, sleeping)
        if arm < 0:
            raise NotSupported(
                f"round {self.asked + 1} is beyond what exact 64-bit credits can count with "
                f"the common denominator {self._parts}"
            )
        return (arm, cell_row) if cell_row else arm

    @property
    def _lets_sleep(self) -> bool:
        return self._takes_awake and self.problem.plays == 1 and not self.problem.groups

    def _row(self, context: int | None) -> int:
        contexts = self._given.contexts
        if context is None:
            if contexts > 1:
                raise InvalidArgument("context", f"must be given, from 0 to {contexts - 1}", None)
            return 0
        row = check_integer("context", context, low=0)
        if contexts == 1:
            return 0
        if row >= contexts:
            raise InvalidArgument("context", f"must be an integer from 0 to {contexts - 1}", row)
        return row

    def _mark_awake(self, awake: Sequence[str]) -> int:
        if not self._lets_sleep:
            raise NotSupported(
                f"{type(self).__name__} has no rule for sleeping arms with groups, with several "
                "plays a round, or after a fixed opening"
            )
        if isinstance(awake, str) or not isinstance(awake, Sequence | np.ndarray | set | frozenset):
            raise InvalidArgument("awake", "must be a list of labels of arms", awake)
        try:
            arms = [self._places[str(label)] for label in awake]
        except KeyError as error:
            raise InvalidArgument("awake", "must be labels of arms", error.args[0]) from None
        self._book[ALLOWED] = 0
        self._book[ALLOWED, arms] = 1
        return len(set(arms))

    def _decide_in_python(self, row: int, sleeping: bool) -> int:
        arm = ruling(self._control, self._book, sleeping)
        if arm == BEYOND_LIMIT:
            return int(arm)
        forced = arm >= 0 or arm == CONFINED
        if arm < 0:
            if arm == FREE:
                allowed = np.arange(len(self.problem.arms))
            else:
                allowed = np.flatnonzero(self._book[ALLOWED, : len(self.problem.arms)])
            arm = self._ask_learner(row, allowed)
        issue(*self._arrays, row, arm, forced, sleeping)
        return int(arm)

    def _ask_learner(self, row: int, allowed: Integers) -> int:
        arms = len(self.problem.arms)
        cells = slice(row * arms, (row + 1) * arms)
        counts = self._stats[TOLD, cells].copy()
        sums = self._low * counts + self._width * self._stats[SUM, cells]
        t = self._rounds + 1 + earlier_rounds(self._given)
        given = self._learner.choose(t, counts, sums, allowed)
        try:
            arm = index(given)
        except TypeError:
            arm = -1
        if not (0 <= arm < arms and (len(allowed) == arms or arm in allowed)):
            raise InvalidArgument(
                "learner", f"must return one of the allowed arms {allowed.tolist()}", given
            )
        return arm

    # ---------------------------------------------------------------------- results

    def learn(self, pull: Pull, outcome: float) -> None:
        """Take a reward, of a forced pull or a free one."""
        reward = (outcome - self._low) / self._width
        number = pull.number - self._first
        self._take(
            self._control,
            self._stats,
            self._ring,
            self._settings,
            self._cell(pull),
            reward,
            number,
            number if number >= 0 else -2 - self.told,
        )

    def on_failure(self, pull: Pull, reason: str) -> None:
        """Take the pull back: out of its arm's count, and its round out of time."""
        void(*self._arrays, self._cell(pull), pull.number - self._first)

    def on_amend(self, pull: Pull, old: Outcome, new: Outcome) -> None:
        """Replace a reward in the statistics."""
        assert isinstance(old, float)
        assert isinstance(new, float)
        if self._learner.window:
            raise NotSupported("a learner with a sliding window cannot correct a reward")
        if UNSOLICITED < pull.number < self._first:
            raise NotSupported("a reward of an earlier epoch cannot be corrected in this one")
        scaled = ((value - self._low) / self._width for value in (old, new))
        number = pull.number - self._first
        correct_reward(
            self._control, self._stats, self._settings, self._cell(pull), *scaled, number
        )

    def _cell(self, pull: Pull) -> int:
        return pull.tag * len(self.problem.arms) + pull.action

    @property
    def stopped(self) -> bool:
        """Never: serving goes on."""
        return False

    # ------------------------------------------------------------------ simulation

    def compiled_run(
        self,
        environment: Environment,
        generator: np.random.Generator,
        horizon: int | None,
        parallel: int = 1,
    ) -> Run | None:
        """Return a whole run from compiled code; None for a learner that is not compiled."""
        known = isinstance(environment, AllocationEnvironment) and bool(self._learner.code)
        if parallel != 1 or not known or self.asked or self.told:
            return None
        assert isinstance(environment, AllocationEnvironment)
        if not self._answers_in(environment):
            return None
        pulls = int(check_horizon(horizon, self))
        measured = environment.run(self._arrays, self._given.contexts, generator, pulls)
        return self._finish(pulls, measured)

    def _answers_in(self, environment: AllocationEnvironment) -> bool:
        """Whether `choose` takes all that the world may say before a pull; else it says why not."""
        contexts = self._given.contexts
        told_apart = contexts == 1 or 0 < environment.contexts <= contexts
        return told_apart and (self._lets_sleep or not environment.is_sleeping)

    def _finish(self, pulls: int, measured: Callable[[Integers], dict[str, float]]) -> Run:
        if self._control[ISSUED] < pulls:
            raise NotSupported("the horizon is beyond what exact 64-bit credits can count")
        self.asked = self.told = pulls
        counts = self._book[COUNT, : len(self.problem.arms)].copy()
        return Run(
            answer=None,
            status="running",
            stopping_time=pulls,
            pulls=counts,
            elapsed=float(pulls),
            metrics={**self.metrics(), **measured(counts)},
        )

    # ----------------------------------------------------------------------- arrays

    @cached_property
    def _places(self) -> dict[str, int]:
        return {arm: place for place, arm in enumerate(self.problem.arms)}

    def _build(self) -> None:
        self._given = given = self._options()
        problem, learner = self.problem, self._learner
        self._book = new_book(problem, given, self._places)
        self._control = new_control(problem, given, learner, self._key.view(np.int64), self._book)
        self._settings = new_settings(problem, given, learner)
        self._stats = new_stats(problem, given, self._control, self._settings)
        self._ring = np.full((2, learner.window), -1.0)
        self._arrays = (self._control, self._book, self._stats, self._ring, self._settings)
        rebuild(self._control, self._book)
        self._decide, self._take = runs.decide, runs.take_reward

    # ------------------------------------------------------------------------ state

    @property
    def _changing(self) -> Integers:
        return self._control[:CHANGING]

    @_changing.setter
    def _changing(self, value: Integers) -> None:
        self._control[:CHANGING] = value

    @property
    def _counts(self) -> Integers:
        return self._book[:SAVED]

    @_counts.setter
    def _counts(self, value: Integers) -> None:
        self._book[:SAVED] = value

    @property
    def _statistics(self) -> Floats:
        return self._stats

    @_statistics.setter
    def _statistics(self, value: Floats) -> None:
        self._stats[:] = value

    @property
    def _recent(self) -> Floats:
        return self._ring

    @_recent.setter
    def _recent(self, value: Floats) -> None:
        self._ring[:] = value

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from a state; the heaps are rebuilt from the counts."""
        super().set_state(state)
        rebuild(self._control, self._book)


def as_learner(learner: object) -> Learner:
    """Return the learner that a function, or nothing, stands for."""
    if learner is None:
        return Thompson()
    if isinstance(learner, Learner):
        return learner
    if callable(learner) and not isinstance(learner, type):
        return FunctionLearner(learner)
    accepted = "must be a Learner such as UCB1(), or a function (t, counts, sums, allowed) -> arm"
    raise InvalidArgument("learner", accepted, learner)


def refuse_plays(problem: object) -> None:
    """Raise if the problem has several plays a round."""
    if isinstance(problem, Problem) and problem.plays > 1:
        raise InvalidArgument("problem", "must have plays=1 for this policy", problem.plays)
