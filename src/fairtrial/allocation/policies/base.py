"""Base class of the family's policies: decisions, results, the report, and runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from operator import index
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fairtrial.allocation._kernels import runs
from fairtrial.allocation._kernels.model import (
    BEYOND_LIMIT,
    CONFINED,
    FREE,
)
from fairtrial.allocation._kernels.runs import correct_reward, issue, ruling, void
from fairtrial.allocation.environments import AllocationEnvironment
from fairtrial.allocation.learners import FunctionLearner, Learner, PullFunction, Thompson
from fairtrial.allocation.policies import report
from fairtrial.allocation.policies.state import AllocationState, Options
from fairtrial.allocation.problem import Problem
from fairtrial.core.policy import Choice, Policy
from fairtrial.core.problem import Outcome
from fairtrial.core.pull import UNSOLICITED, Pull
from fairtrial.core.recommendation import Progress, Recommendation
from fairtrial.core.run import Run, check_horizon
from fairtrial.core.validation import check_instance, check_integer
from fairtrial.errors import InvalidArgument, NotSupported

__all__ = ["AllocationPolicy", "as_learner", "refuse_plays"]

Integers = NDArray[np.int64]


class AllocationPolicy(Policy):
    """Base class of the family's policies: decisions, results, the report, and runs.

    A pull counts when it is issued, so the quotas do not wait for results. A failed pull is taken
    back, with its round, and its arm's credit rises again. If its reward still arrives later, the
    policy learns from it, but does not count the pull again.
    """

    problem: Problem
    environments = AllocationEnvironment
    endless = True
    state_fields: ClassVar[tuple[str, ...]] = tuple(
        f"_state.{name}" for name in AllocationState.saved
    )

    _takes_awake = True

    def __init__(
        self,
        problem: Problem,
        learner: Learner | PullFunction | None,
        seed: int | np.random.Generator | None,
        options: Options | None = None,
    ) -> None:
        check_instance("problem", problem, Problem)
        super().__init__(problem, seed)
        self._learner = as_learner(learner)
        key = self._key.view(np.int64)
        self._state = AllocationState(problem, options or Options(), self._learner, key)
        # Looked up once, because the lookups would add noticeably to the time of a decision.
        self._decide, self._take = runs.decide, runs.take_reward

    # -------------------------------------------------------------------- decisions

    def choose(self, awake: Sequence[str] | None = None, context: int | None = None) -> Choice:
        """Return the next arm.

        Parameters
        ----------
        awake : sequence of str, optional
            Labels of the arms that can be pulled in this round; all arms by default. If the list is
            empty, the round does not count.
        context : int, optional
            Number of the current context, from 0; ignored by a policy with ``contexts=1``.
        """
        cell_row = self._row(context)
        sleeping = False
        if awake is not None:
            number = self._mark_awake(awake)
            if number == 0:
                return None
            sleeping = number < len(self.problem.arms)
        if self._learner.code:
            arm = self._decide(self._state.words, cell_row, sleeping)
        else:
            arm = self._decide_in_python(cell_row, sleeping)
        if arm < 0:
            raise NotSupported(
                f"round {self.asked + 1} is beyond what exact 64-bit credits can count with "
                f"the common denominator {self._state.parts}"
            )
        return (arm, cell_row) if cell_row else arm

    def to_dict(self) -> dict[str, Any]:
        """Return the policy's name and parameters; the default learner is left out, however given.

        So policies that decide the same have the same specification.
        """
        written = super().to_dict()
        if "learner" not in written:  # it is not a parameter
            return written
        default = as_learner(None)
        is_default = type(self._learner) is type(default)
        if is_default and self._learner.get_params() == default.get_params():
            written["learner"] = None
        return written

    @property
    def _lets_sleep(self) -> bool:
        return self._takes_awake and self.problem.plays == 1 and not self.problem.groups

    def _row(self, context: int | None) -> int:
        contexts = self._state.options.contexts
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
            arms = [self._state.places[str(label)] for label in awake]
        except KeyError as error:
            raise InvalidArgument("awake", "must be labels of arms", error.args[0]) from None
        self._state.allowed[:] = 0
        self._state.allowed[arms] = 1
        return len(set(arms))

    def _decide_in_python(self, row: int, sleeping: bool) -> int:
        arm = ruling(self._state.words, sleeping)
        if arm == BEYOND_LIMIT:
            return int(arm)
        forced = arm >= 0 or arm == CONFINED
        if arm < 0:
            if arm == FREE:
                allowed = np.arange(len(self.problem.arms))
            else:
                allowed = np.flatnonzero(self._state.allowed[: len(self.problem.arms)])
            arm = self._ask_learner(row, allowed)
        issue(self._state.words, row, arm, forced, sleeping)
        return int(arm)

    def _ask_learner(self, row: int, allowed: Integers) -> int:
        arms = len(self.problem.arms)
        cells = slice(row * arms, (row + 1) * arms)
        counts = self._state.cells.told[cells].copy()
        sums = self._state.low * counts + self._state.width * self._state.cells.total[cells]
        t = self._state.rounds + 1 + int(self._state.control.earlier_rounds[0])
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
        """Learn from a reward, of a forced or a free pull."""
        state = self._state
        reward = (outcome - state.low) / state.width
        number = pull.number - state.first
        self._take(
            state.words,
            self._cell(pull),
            reward,
            number,
            number if number >= 0 else -2 - self.told,
        )

    def on_failure(self, pull: Pull, reason: str) -> None:
        """Take the pull back: subtract it from its arm's pulls, and its round from the rounds."""
        void(self._state.words, self._cell(pull), pull.number - self._state.first)

    def on_amend(self, pull: Pull, old: Outcome, new: Outcome) -> None:
        """Replace a reward in the statistics."""
        assert isinstance(old, float)
        assert isinstance(new, float)
        if self._learner.window:
            raise NotSupported("a learner with a sliding window cannot correct a reward")
        state = self._state
        if UNSOLICITED < pull.number < state.first:
            raise NotSupported("a reward of an earlier epoch cannot be corrected in this one")
        before, after = ((value - state.low) / state.width for value in (old, new))
        correct_reward(state.words, self._cell(pull), before, after, pull.number - state.first)

    @property
    def has_window(self) -> bool:
        """Whether the learner only uses a window of recent rounds."""
        return self._learner.window > 0

    @property
    def rewards(self) -> NDArray[np.float64]:
        """Number and sum of the rewards the learner knows, shape (contexts, 2, k)."""
        return self._state.rewards()

    @property
    def pulls(self) -> Integers:
        """Pulls that count, by arm, shape (k,)."""
        return self._state.pulls.copy()

    def add_rewards(self, difference: NDArray[np.float64]) -> None:
        """Add rewards from elsewhere to the learner's statistics, without counting pulls.

        Parameters
        ----------
        difference : ndarray, shape (contexts, 2, k)
            Numbers and sums of the new rewards; negative for rewards that are taken back.
        """
        self._state.add_rewards(difference)

    def _cell(self, pull: Pull) -> int:
        return pull.tag * len(self.problem.arms) + pull.action

    @property
    def stopped(self) -> bool:
        """Always False, because serving never ends."""
        return False

    # ------------------------------------------------------------------ simulation

    def _can_run(
        self, environment: AllocationEnvironment, horizon: int | None, parallel: int
    ) -> bool:
        is_compiled = bool(self._learner.code)
        return parallel == 1 and is_compiled and self._answers_in(environment)

    def _run(
        self, environment: Any, generator: np.random.Generator, horizon: int | None, parallel: int
    ) -> Run:
        pulls = int(check_horizon(horizon, self))
        measured = environment.run(
            self._state.words, self._state.options.contexts, generator, pulls
        )
        return self._finish(pulls, measured)

    def _answers_in(self, environment: AllocationEnvironment) -> bool:
        """Whether `choose` accepts all that this environment announces before a pull."""
        contexts = self._state.options.contexts
        told_apart = contexts == 1 or 0 < environment.contexts <= contexts
        return told_apart and (self._lets_sleep or not environment.is_sleeping)

    def _finish(self, pulls: int, measured: Callable[[Integers], dict[str, float]]) -> Run:
        if self._state.control.issued[0] < pulls:
            raise NotSupported("the horizon is beyond what exact 64-bit credits can count")
        self.asked = self.told = pulls
        counts = self._state.pulls.copy()
        return Run(
            answer=None,
            status="running",
            stopping_time=pulls,
            pulls=counts,
            elapsed=float(pulls),
            metrics={**self.metrics(), **measured(counts)},
        )

    # ---------------------------------------------------------------------- report

    @property
    def credits(self) -> tuple[Fraction, ...]:
        """The exact number of pulls that every arm is owed now: ``r_i t - N_i``.

        With sleeping arms, t counts the rounds in which the arm was awake; with several plays per
        round, it counts the rounds without a failed pull of the arm. Initial credits are included.
        """
        return self._state.credits(slice(len(self.problem.arms)))

    def metrics(self) -> dict[str, float]:
        """Return how well the shares were kept so far.

        Returns
        -------
        dict
            ``violation`` and ``floored_violation``: the largest ``r_i t - N_i`` and
            ``floor(r_i t) - N_i`` of any arm after any round (from t = 0), including rounds that
            failed later; ``rounds_in_violation``: number of rounds after which an arm was further
            behind than the tolerance; ``forced_share`` of the pulls; ``longest_gap``: largest
            number of rounds between two pulls of an arm, over all arms and (up to 100 arms) by arm,
            including the current gap.
        """
        return report.violations(self._state, self.asked - self._state.first)

    def recommend(self) -> Recommendation:
        """Return the arm with the best mean so far; serving never ends with an answer."""
        leader, metrics = report.leader(self._state), self.metrics()
        shown = ("violation", "floored_violation", "forced_share")
        return Recommendation(
            arm=None,
            status="running",
            leader=leader,
            guarantee=self.guarantee,
            reason="no reward has come yet" if leader is None else "its mean is the best so far",
            evidence={"rounds": self._state.rounds, **{name: metrics[name] for name in shown}},
        )

    @property
    def _why_approximate(self) -> str:
        known = int(self._state.totals()[0].sum())
        if known != self.told:
            return "some rewards come from other processes, or from before this epoch"
        return self._doubt_about_order

    def progress(self) -> Progress:
        """Return means with anytime intervals (95 % each), and shares compared with quotas."""
        owed = [
            (arm, float(credit))
            for arm, credit in zip(self.problem.arms, self.credits, strict=True)
        ]
        doubt, metrics = self._why_approximate, self.metrics()
        return Progress(
            recommendation=self.recommend(),
            asked=self.asked,
            told=self.told,
            outstanding=len(self._outstanding),
            actions=report.estimates(self._state),
            arms=report.shares(self._state),
            intervals="approximate" if doubt else "anytime",
            why_approximate=doubt,
            shares=report.guaranteed_shares(self._state, owed),
            largest_shortfall=metrics.get("violation"),
            details=metrics,
            quantity="share",
        )


def as_learner(learner: object) -> Learner:
    """Return a learner, given one, a function, or None for the default."""
    if learner is None:
        return Thompson()
    if isinstance(learner, Learner):
        return learner
    if callable(learner) and not isinstance(learner, type):
        return FunctionLearner(learner)
    accepted = "must be a Learner such as UCB1(), or a function (t, counts, sums, allowed) -> arm"
    raise InvalidArgument("learner", accepted, learner)


def refuse_plays(problem: object) -> None:
    """Raise if the problem has several plays per round."""
    if isinstance(problem, Problem) and problem.plays > 1:
        raise InvalidArgument("problem", "must have plays=1 for this policy", problem.plays)
