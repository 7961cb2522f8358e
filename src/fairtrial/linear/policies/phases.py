"""Policies in phases: pulls fixed beforehand, judged by the phase's own data."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.noise_kernels import record_result, replace_result
from fairtrial.confidence.noise_test import NoiseTest
from fairtrial.core.policy import Choice
from fairtrial.core.pull import Pull
from fairtrial.core.recommendation import Guarantee, Status
from fairtrial.core.validation import check_integer, check_probability
from fairtrial.errors import InvalidArgument
from fairtrial.linear._kernels.phases import (
    ENOUGH,
    HOPELESS,
    judge,
    next_of,
    phase_values,
    run_phase,
)
from fairtrial.linear._kernels.runs import plan_greedy_phase
from fairtrial.linear.designs import round_design
from fairtrial.linear.environments import ArmEnvironment
from fairtrial.linear.policies.base import LinearPolicy, tie_key
from fairtrial.linear.policies.designs import phase_pulls_g, phase_shares
from fairtrial.linear.policies.levels import ConstantLevel, Level, level_named
from fairtrial.linear.policies.tracking import refuse_several_answers
from fairtrial.linear.problem import Problem

__all__ = ["ODLinBAI", "Rage", "XYAdaptive"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

COUNTS, SUMS, TO_ISSUE, GOT, OWN = range(5)
"""Rows of the books: all data, what of the phase is to be issued, and the phase's data."""

MOST_IN_PHASE = 10_000_000.0

_LARGEST_UNIT = 32.0


class _Phased(LinearPolicy):
    """Phases of pulls; a lost pull is issued again, late and unasked data do not count in them."""

    state_fields = (
        "_books", "_alive", "_phase", "_waiting", "_target", "_found", "_given_up", "_amended",
        "_late", "_record", "_early",
    )  # fmt: skip

    def __init__(
        self,
        problem: Problem,
        delta: float | None,
        max_pulls: int | None,
        seed: int | np.random.Generator | None,
    ) -> None:
        super().__init__(problem, delta, max_pulls, seed)
        refuse_several_answers(self)
        arms, candidates, rank = self._shape
        self._books = np.zeros((5, arms))
        self._record, self._early = NoiseTest.empty_record(arms), NoiseTest.empty_record(arms)
        self._alive = np.ones(candidates, dtype=np.int64)
        self._phase = 0
        self._waiting = 0
        self._target = 1.0 / (rank * (rank + 1.0) + 1.0) / self._square
        self._found = candidates == 1
        self._given_up = False
        self._late: list[int] = []

    @property
    def _first_arms(self) -> Integers:
        """Arms that a phase pulls whatever its design: at first, more than a basis."""
        return self.problem.start_arms if self._phase == 1 else self.problem.basis_arms

    @property
    def _square(self) -> float:
        """What variances of the reduced candidates are multiplied by when a phase is planned.

        It makes them those of rewards, as in the papers, in whose units gaps are about one. Where
        rewards are far larger or smaller, so that the first phases would be endless, or many, they
        count in units of the noise.
        """
        unit = self.problem.reduced.unit
        if not 1.0 / _LARGEST_UNIT <= unit <= _LARGEST_UNIT:
            unit /= float(self.problem.scale.max())
        return min(max(unit, 1.0 / _LARGEST_UNIT), _LARGEST_UNIT) ** 2

    # ---------------------------------------------------------- what each rule says

    @abstractmethod
    def _plan(self) -> Floats:
        """Return the pulls of the next phase by arm, shape (K,)."""

    @abstractmethod
    def _judge(self) -> bool:
        """Take candidates out by the phase's data; return whether one is left."""

    # ------------------------------------------------------------------- contract

    def _begin(self) -> None:
        self._phase += 1
        planned = self._plan()
        self._books[TO_ISSUE] = planned
        self._books[GOT:] = 0.0
        self._waiting = int(planned.sum())

    def choose(self) -> Choice:
        """Return the next pull of the phase; none before the results that the next one needs."""
        if self._waiting == 0:
            self._begin()
        support = np.flatnonzero(self._books[TO_ISSUE])
        if not support.size:
            return None
        return int(next_of(self._books[TO_ISSUE], support)), self._phase

    def learn(self, pull: Pull, outcome: float) -> None:
        """Take one reward; the last one of a phase lets it be judged."""
        reward = self._reduced(pull.action, outcome)
        self._books[COUNTS, pull.action] += 1.0
        self._books[SUMS, pull.action] += reward
        record_result(self._record, pull.action, reward)
        if pull.number not in self._outstanding:
            if self.is_lost(pull):
                self._late.append(pull.number)
            return
        self._books[GOT, pull.action] += 1.0
        self._books[OWN, pull.action] += reward
        self._waiting -= 1
        self._settle()

    def _settle(self) -> None:
        if self._waiting == 0 and not self._finished:
            self._found = self._judge()
            if self._phase == 1:
                self._early = self._record.copy()

    def on_failure(self, pull: Pull, reason: str) -> None:
        """Put the pull back: a phase is judged with all its pulls."""
        self._books[TO_ISSUE, pull.action] += 1.0

    def on_amend(self, pull: Pull, old: float, new: float) -> None:
        """Correct a reward; phases that were judged stay so."""
        # The test of the noise begins again: its first results may have been others.
        before, after = self._reduced(pull.action, old), self._reduced(pull.action, new)
        replace_result(self._record, pull.action, before, after)
        self._early = self._record.copy()
        change = after - before
        self._books[SUMS, pull.action] += change
        if pull.tag == self._phase and self._waiting and pull.number not in self._late:
            self._books[OWN, pull.action] += change
        self._amended += 1

    def _simulate(
        self, environment: ArmEnvironment, generator: np.random.Generator, horizon: int
    ) -> Floats:
        while not self._finished and self.told < horizon:
            self._begin()
            support = np.flatnonzero(self._books[TO_ISSUE])
            world = (*environment.source, self._factors, generator, horizon - self.told)
            draws = run_phase(self._books, self._record, support, *world)
            self.told = self.asked = self.told + draws
            self._waiting -= draws
            self._settle()
        return np.asarray(self._books[COUNTS])

    # --------------------------------------------------------------------- report

    @property
    def _initial(self) -> int:
        return 1

    @property
    def _found_best(self) -> bool:
        return bool(self._found)

    @property
    def _hopeless(self) -> bool:
        return bool(self._given_up)

    @property
    def _answer(self) -> Sequence[int] | None:
        live = np.flatnonzero(self._alive).tolist()
        if self._found:
            return live
        return None if self._fit() is None else self._best_first(live)[:1]

    @property
    def _data(self) -> tuple[Floats, Floats]:
        return self._books[COUNTS], self._books[SUMS]

    @property
    def _records(self) -> tuple[Floats, Floats]:
        return self._record, self._early

    def _evidence(self) -> tuple[float | None, float | None]:
        return None, None

    def _live(self) -> Sequence[int]:
        return np.flatnonzero(self._alive).tolist()

    @property
    def _left_out(self) -> int:
        """How many pulls were lost, and in no phase although they came late."""
        return len(self._lost) + len(self._late)

    def _details(self) -> dict[str, Any]:
        survivors = self._labels(self._live())
        return {**super()._details(), "phase": int(self._phase), "survivors": survivors}


class _Eliminating(_Phased):
    """Phases after each of which every candidate that another one beats is out for good."""

    def __init__(
        self,
        problem: Problem,
        delta: float,
        stopping: str | Level,
        max_pulls: int | None,
        seed: int | np.random.Generator | None,
    ) -> None:
        super().__init__(problem, delta, max_pulls, seed)
        self.stopping = stopping
        self._level = level_named(stopping, "phased", type(self).__name__)
        if problem.estimates_noise:
            name = type(self).__name__
            raise InvalidArgument(
                "problem",
                f"must state the noise for {name}: phases are planned by it; "
                "LinGapE takes an estimated one",
                problem.noise_std,
            )

    def _height(self) -> float:
        """Return the level of the present phase."""
        if isinstance(self._level, ConstantLevel):
            return self._level.value
        errors = max(1, self._shape[1] - 1)
        return 2.0 * math.log(errors * self._phase * (self._phase + 1.0) / self.delta)

    def _confidence_set(self) -> Sequence[int] | None:
        return None if isinstance(self._level, ConstantLevel) else self._live()

    def _judge(self) -> bool:
        arms, candidates, _, rest, _ = self.problem.reduced
        wanted = (self._height(), self._tolerance, self._misspecification, self._slack)
        standing = int(judge(arms, candidates, rest, self._books, *wanted, self._alive))
        self._given_up = standing == HOPELESS
        return standing == ENOUGH

    @property
    def guarantee(self) -> Guarantee:
        """The level's guarantee, weakened where the data no longer fit its assumptions."""
        promise = self._as_it_stands(self._level.guarantee(self.delta))
        return self._without(promise, self._left_out)


class XYAdaptive(_Eliminating):
    """XY-adaptive allocation: greedy phases on the differences of the survivors.

    Parameters
    ----------
    problem : Problem
        With one answer wanted. All pairs of survivors are weighed at every pull: not for
        more than a few dozen candidates.
    delta : float
        Probability of a wrong answer that is accepted.
    stopping : str or Level
        ``"phase"`` (proven, default), or a `ConstantLevel`.
    alpha : float
        A phase ends when the largest variance of a difference is `alpha` times what it was at
        the end of the phase before; in (0, 1).
    max_pulls : int, optional
        Stop undecided after this many results.
    ties : {"first", "random"}
        Which of the arms that help equally is pulled: the first, or a random one.
    seed : None, int or numpy.random.Generator
        For random ties.

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
        super().__init__(problem, delta, stopping, max_pulls, seed)
        self.alpha = check_probability("alpha", alpha)
        self.ties = ties
        self._tie_key = tie_key(ties, self.seed)

    def _plan(self) -> Floats:
        arms, candidates, _, rest, _ = self.problem.reduced
        counts = np.zeros(len(arms))
        counts[self._first_arms] = 1.0
        live = np.flatnonzero(self._alive)
        wanted = (self.alpha * self._target, MOST_IN_PHASE)
        ties = (self._tie_key, self._phase)
        self._target = float(
            plan_greedy_phase(arms, candidates, rest, live, *wanted, *ties, counts)
        )
        return counts


class Rage(_Eliminating):
    """Phases of an XY-optimal design on the survivors, four times as long each.

    The rule for few, large batches: all pulls of a phase can be in flight at once.

    Parameters
    ----------
    problem : Problem
        With one answer wanted.
    delta : float
        Probability of a wrong answer that is accepted.
    stopping : str or Level
        ``"phase"`` (proven, default), or a `ConstantLevel`.
    max_pulls : int, optional
        Stop undecided after this many results.
    seed : None, int or numpy.random.Generator
        Ignored; the policy is deterministic.

    Notes
    -----
    Source: Fiez, Jain, Jamieson, Ratliff (2019), "Sequential experimental design for
    transductive linear bandits", with elimination at the variances that were realised. With
    `tolerance`, it also stops after a phase in which the leader is within `tolerance` of every
    survivor.

    Examples
    --------
    >>> Rage(Problem([[1, 0], [0, 1]], noise_std=1.0), delta=0.1).guarantee.label
    'proven'
    """

    def __init__(
        self,
        problem: Problem,
        delta: float = 0.05,
        stopping: str | Level = "phase",
        max_pulls: int | None = None,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(problem, delta, stopping, max_pulls, seed)

    def _plan(self) -> Floats:
        shares, value = phase_shares(self.problem, np.flatnonzero(self._alive))
        wanted = 1.1 * self._square * value * self._height() * 4.0**self._phase
        pulls = math.ceil(min(wanted, MOST_IN_PHASE))
        planned = round_design(shares, max(pulls, int((shares > 0.0).sum()))).astype(np.float64)
        if self._phase == 1:
            planned[self._first_arms] = np.maximum(planned[self._first_arms], 1.0)
        return planned


class ODLinBAI(_Phased):
    """A fixed budget: G-optimal phases on the arms that are left, of which the better half stays.

    Parameters
    ----------
    problem : Problem
        With one answer wanted, and without candidates of their own.
    budget : int
        Pulls in all; at least as many for each of the ceil(log2 d) phases as there are
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

    _has_delta = False

    def __init__(
        self,
        problem: Problem,
        budget: int,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(problem, None, None, seed)
        if problem.candidates is not None:
            raise InvalidArgument("problem", "must have no candidates of their own for ODLinBAI")
        if problem.misspecification > 0.0:
            raise InvalidArgument(
                "problem",
                "must state no misspecification for ODLinBAI, which answers without a test",
                problem.misspecification,
            )
        _, _, rank = self._shape
        self._phases = max(1, math.ceil(math.log2(max(rank, 1))))
        self.budget = check_integer("budget", budget, low=self._phases * max(rank, 1))

    def _plan(self) -> Floats:
        before = (self._phase - 1) * self.budget // self._phases
        pulls = self._phase * self.budget // self._phases - before
        return phase_pulls_g(self.problem, self._arms_of(np.flatnonzero(self._alive)), pulls)

    def _arms_of(self, candidates: Integers) -> Integers:
        groups = self.problem.answer_groups
        return np.array([groups[index][0] for index in candidates], dtype=np.int64)

    def _judge(self) -> bool:
        arms, candidates = self.problem.reduced[:2]
        rank = self._shape[2]
        live = np.flatnonzero(self._alive)
        values = phase_values(arms, candidates, self._books)[live]
        kept = max(1, math.ceil(rank / 2**self._phase))
        order = np.argsort(-values, kind="stable")
        self._alive[live[order[kept:]]] = 0
        return self._phase >= self._phases

    @property
    def _interval_level(self) -> float:
        return 0.05

    def _reason(self, status: Status, answer: Sequence[int] | None) -> str:
        if status == "decided" and answer is not None:
            best = self._label(answer)
            return f"the budget of {self.budget} pulls is spent: {best!r} did best"
        return f"phase {self._phase} of {self._phases}"

    @property
    def guarantee(self) -> Guarantee:
        """What the method promises: an error that falls exponentially, at no stated level."""
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
        return self._without(self._as_it_stands(promise), self._left_out)
