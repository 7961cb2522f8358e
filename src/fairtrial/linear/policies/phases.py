"""Policies in phases: pulls fixed in advance, judged by the phase's own data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.documentation import documented_by
from fairtrial.core.recommendation import Guarantee, Status
from fairtrial.core.validation import check_integer, check_probability
from fairtrial.errors import InvalidArgument
from fairtrial.linear._units import Units, tie_key
from fairtrial.linear.policies.base import LinearPolicy, refuse_several_answers
from fairtrial.linear.policies.levels import ConstantLevel, Level
from fairtrial.linear.policies.phase_race import (
    Phases,
    eliminate,
    halve,
    plan_budget,
    plan_design,
    plan_greedily,
)
from fairtrial.linear.policies.race import state_in
from fairtrial.linear.problem import Problem

__all__ = ["ODLinBAI", "Rage", "XYAdaptive"]

Floats = NDArray[np.float64]


def _elimination(
    units: Units, level: Level, delta: float, plan: Callable[[Phases], Floats]
) -> Phases:
    """Return phases that each remove for good the candidates that another one beats."""
    judge = partial(eliminate, level=level, delta=delta)
    is_proven = not isinstance(level, ConstantLevel)
    return Phases(units, plan, judge, level.guarantee(delta), is_confidence_set=is_proven)


def _refuse_what_needs_other_rules(problem: Problem, policy: str) -> None:
    refuse_several_answers(problem, policy)
    if problem.estimates_noise:
        raise InvalidArgument(
            "problem",
            f"must state the noise for {policy}: phases are planned by it; "
            "LinGapE takes an estimated one",
            problem.noise_std,
        )


class XYAdaptive(LinearPolicy):
    """XY-adaptive allocation: greedy phases on the differences of the survivors.

    Parameters
    ----------
    problem : Problem
        It must have ``top=1``. All pairs of survivors are weighed at every pull: do not use it
        for more than a few dozen candidates.
    delta : float
        Accepted probability of a wrong answer.
    stopping : str or Level
        ``"phase"`` (proven, default), or a `ConstantLevel`.
    alpha : float
        A phase ends when the largest variance of a difference is `alpha` times its value at the
        end of the phase before; in (0, 1).
    max_pulls : int, optional
        Stop undecided after this many results.
    ties : {"first", "random"}
        Which of several equally useful arms is pulled: the first, or a random one.
    seed : None, int or numpy.random.Generator
        Seed of random ties.

    Notes
    -----
    Source: Soare, Lazaric, Munos (2014), Figure 3, with survivors intersected from phase to
    phase, the discard of Lemma 4, and 1/n counted once. With `tolerance`, it also stops after a
    phase in which the leader is within `tolerance` of every survivor.

    Examples
    --------
    >>> policy = XYAdaptive(Problem([[1, 0], [0, 1]], noise_std=1.0), delta=0.1)
    >>> sorted({pull.arm for pull in policy.ask(10)})
    ['0', '1']
    """

    version = 4
    state_fields = state_in(Phases)

    def __init__(
        self,
        problem: Problem,
        delta: float = 0.05,
        stopping: str | Level = "phase",
        alpha: float = 0.1,
        max_pulls: int | None = None,
        ties: str = "first",
        seed: int | np.random.Generator | None = None,
    ) -> None:
        self.alpha = check_probability("alpha", alpha)
        self.ties = ties
        super().__init__(problem, delta, stopping, max_pulls=max_pulls, seed=seed)

    def _new_race(self) -> Phases:
        _refuse_what_needs_other_rules(self.problem, type(self).__name__)
        plan = partial(plan_greedily, alpha=self.alpha, ties=tie_key(self.ties, self.seed))
        return _elimination(*self._tested("phased"), plan)


@documented_by(XYAdaptive)
class Rage(LinearPolicy):
    """Phases of an XY-optimal design on the survivors, each four times as long as the last.

    The rule for few, large batches: all pulls of a phase can be in flight at once.

    Parameters
    ----------
    problem : Problem
        It must have ``top=1``.
    seed : None, int or numpy.random.Generator
        Ignored; the policy is deterministic.

    Notes
    -----
    Source: Fiez, Jain, Jamieson, Ratliff (2019), "Sequential experimental design for
    transductive linear bandits", with elimination at the variances that were attained. With
    `tolerance`, it also stops after a phase in which the leader is within `tolerance` of every
    survivor.

    Examples
    --------
    >>> Rage(Problem([[1, 0], [0, 1]], noise_std=1.0), delta=0.1).guarantee.label
    'proven'
    """

    version = 4
    state_fields = state_in(Phases)

    def __init__(
        self,
        problem: Problem,
        delta: float = 0.05,
        stopping: str | Level = "phase",
        max_pulls: int | None = None,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(problem, delta, stopping, max_pulls=max_pulls, seed=seed)

    def _new_race(self) -> Phases:
        _refuse_what_needs_other_rules(self.problem, type(self).__name__)
        units, level, delta = self._tested("phased")
        return _elimination(units, level, delta, partial(plan_design, level=level, delta=delta))


class ODLinBAI(LinearPolicy):
    """A fixed budget: G-optimal phases on the remaining arms; the better half stays after each.

    Parameters
    ----------
    problem : Problem
        It must have ``top=1`` and no separate candidates.
    budget : int
        Total number of pulls: for each of the ceil(log2 d) phases at least as many as there are
        directions.
    seed : None, int or numpy.random.Generator
        Ignored; the policy is deterministic.

    Notes
    -----
    Source: Yang, Tan (2022), "Minimax optimal fixed-budget best arm identification in linear
    bandits". The answer comes with the budget's last result, and without a level of
    confidence.

    Examples
    --------
    >>> policy = ODLinBAI(Problem([[1, 0], [0, 1], [1, 1]], noise_std=1.0), budget=20)
    >>> len(policy.ask(100))
    20
    """

    version = 4
    state_fields = state_in(Phases)
    _has_delta = False

    def __init__(
        self,
        problem: Problem,
        budget: int,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        self.budget = budget
        super().__init__(problem, seed=seed)

    def _new_race(self) -> Phases:
        problem, number = self.problem, self._phases
        refuse_several_answers(problem, "ODLinBAI")
        if problem.candidates is not None:
            raise InvalidArgument("problem", "must have no candidates of their own for ODLinBAI")
        if problem.misspecification > 0.0:
            raise InvalidArgument(
                "problem",
                "must state no misspecification for ODLinBAI, which answers without a test",
                problem.misspecification,
            )
        rank = max(self._units.shape[2], 1)
        self.budget = check_integer("budget", self.budget, low=number * rank)
        plan = partial(plan_budget, budget=self.budget, number=number)
        judge = partial(halve, number=number)
        promise = Guarantee(
            name="fixed budget",
            proven=False,
            statement=(
                f"an answer after {self.budget} pulls; its error falls exponentially with the "
                "budget, at a rate that depends on the unknown gaps"
            ),
            assumptions=("the mean of a reward is linear in the features of its arm",),
            source="Yang, Tan (2022), Theorem 2",
        )
        return Phases(self._units, plan, judge, promise, is_confidence_set=False)

    @property
    def _phases(self) -> int:
        return max(1, math.ceil(math.log2(max(self._units.shape[2], 1))))

    def _reason(self, status: Status, answer: Sequence[int] | None) -> str:
        if status == "decided" and answer is not None:
            best = self._answers.label(answer)
            return f"the budget of {self.budget} pulls is spent: {best!r} did best"
        return f"phase {self._race.phase} of {self._phases}"
