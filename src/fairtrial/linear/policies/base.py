"""The base of all policies of the family but block betting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.fixed_confidence import FixedConfidencePolicy
from fairtrial.core.policy import Choice
from fairtrial.core.progress_parts import Parts
from fairtrial.core.pull import Pull
from fairtrial.core.recommendation import PREDICTABLE, Estimate, Guarantee, Status
from fairtrial.core.validation import check_instance, check_optional_integer
from fairtrial.errors import InvalidArgument
from fairtrial.linear._units import Units
from fairtrial.linear.environments import ArmEnvironment
from fairtrial.linear.policies.answers import DistinctCandidates
from fairtrial.linear.policies.findings import Findings
from fairtrial.linear.policies.levels import Level, level_named
from fairtrial.linear.policies.race import Race, state_in
from fairtrial.linear.policies.tracker import Tracker
from fairtrial.linear.problem import Problem

__all__ = ["LinearPolicy", "refuse_several_answers"]

Floats = NDArray[np.float64]

_LEVEL = 0.05
"""The probability with which intervals ever fail, of rules that promise no `delta`."""


class LinearPolicy(FixedConfidencePolicy):
    """A rule whose state is a race; unless it says otherwise, one that chooses pull by pull.

    Parameters
    ----------
    problem : Problem
        The problem.
    delta : float
        Accepted probability of a wrong answer.
    stopping : str or Level
        ``"mixture"`` (proven, default), or a level object: `RidgeLevel` (proven) or
        `ConstantLevel`.
    initial_pulls : int, optional
        Initial pulls of every arm of a basis; 10 by default.
    max_pulls : int, optional
        Stop undecided after this many results.
    seed : None, int or numpy.random.Generator
        Ignored; the policy is deterministic.
    """

    version = 4
    problem: Problem
    environments = ArmEnvironment
    state_fields = state_in(Tracker)

    _answers: DistinctCandidates

    _rule: ClassVar[int]
    """How pulls are chosen: a constant of the kernels."""

    def __init__(
        self,
        problem: Problem,
        delta: float = 0.05,
        stopping: str | Level = "mixture",
        initial_pulls: int | None = None,
        max_pulls: int | None = None,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        check_instance("problem", problem, Problem)
        if problem.has_limits:
            accepted = "must have no floors, ceilings, margin, superiority or limits: only "
            raise InvalidArgument("problem", f"{accepted}BlockBetting takes them")
        super().__init__(problem, delta, max_pulls, seed)
        self.stopping = stopping
        self.initial_pulls = check_optional_integer("initial_pulls", initial_pulls, low=0)
        self._units = Units(problem)
        self._race = self._new_race()
        self._answers = DistinctCandidates(problem)
        level = self.delta if self._has_delta else _LEVEL
        self._findings = Findings(self._answers, self._units, self._race, level)

    def _new_race(self) -> Race:
        """Return the state in which nothing has happened."""
        return Tracker(*self._tested("adaptive"), self._rule, self.initial_pulls)

    def _tested(self, sampler: str) -> tuple[Units, Level, float]:
        """Return the problem, and the level and `delta` of the test that stops the rule."""
        return self._units, level_named(self.stopping, sampler, type(self).__name__), self.delta

    # ------------------------------------------------------------------- contract

    def choose(self) -> Choice:
        """Return the next pull that the rule wants; None if it needs results first."""
        return self._race.choose()

    def learn(self, pull: Pull, outcome: float) -> None:
        """Take one reward, and test whether the evidence is sufficient."""
        reward = self._units.reward(pull.action, outcome)
        in_flight = pull.number in self._outstanding
        self._race.learn(pull, reward, in_flight, was_lost=self.is_lost(pull))

    def on_failure(self, pull: Pull, reason: str) -> None:
        """Free the pull's place: the rule pulls it again if it still wants it."""
        self._race.lose(pull)

    def on_amend(self, pull: Pull, old: float, new: float) -> None:
        """Correct a reward; the evidence is then computed from the corrected data."""
        before, after = (self._units.reward(pull.action, value) for value in (old, new))
        self._race.amend(pull, before, after)
        self._amended += 1

    def _simulate(
        self, environment: ArmEnvironment, generator: np.random.Generator, horizon: int
    ) -> Floats:
        self._race.run(environment, generator, horizon)
        counts = self._race.counts
        self.told = self.asked = int(counts.sum())
        return counts

    def metrics(self) -> dict[str, float]:
        """Return metrics of a run besides its result."""
        return self._race.metrics

    # --------------------------------------------------------------------- report

    @property
    def _finished(self) -> bool:
        return self._findings.finished

    @property
    def _decided(self) -> bool:
        return self._findings.decided

    @property
    def _answer(self) -> Sequence[int] | None:
        return self._findings.answer

    def _evidence(self) -> tuple[float | None, float | None]:
        return self._race.evidence

    @property
    def _ending(self) -> str:
        return self._findings.dead_end or super()._ending

    def _reason(self, status: Status, answer: Sequence[int] | None) -> str:
        if answer is None:
            return self._findings.nothing_yet
        return self._findings.hidden_best or super()._reason(status, answer)

    def _candidates(self) -> tuple[str, ...] | None:
        return self._findings.candidates()

    def _more_evidence(self) -> dict[str, Any]:
        return self._findings.more_evidence(self._status)

    def _parts(self) -> Parts:
        return {"answers": self._findings.rulings()}

    def _details(self) -> dict[str, Any]:
        details = self._findings.details(self.warnings())
        if self._race.phase is not None:
            details["phase"] = self._race.phase
        if self._race.survivors is not None:
            details["survivors"] = self._answers.labels(self._race.survivors)
        return details

    def _estimates(self) -> tuple[tuple[Estimate, ...], tuple[Estimate, ...]]:
        return self._findings.estimates()

    def warnings(self) -> tuple[str, ...]:
        """Return what the results contradict: the stated noise, or that means are linear."""
        return self._findings.warnings()

    @property
    def guarantee(self) -> Guarantee:
        """The rule's guarantee, weakened if the data no longer fit its assumptions."""
        promise = self._race.promise
        if self._race.follows_results:
            promise = promise.assuming(PREDICTABLE)
        promise = self._findings.as_it_stands(promise, self._amended, self.told)
        return self._race.weakened(promise, len(self._lost))


def refuse_several_answers(problem: Problem, policy: str) -> None:
    """Refuse a problem that wants more than one answer if the rule eliminates."""
    if problem.top > 1:
        raise InvalidArgument(
            "problem", f"must have top=1 for {policy}; LinGapE returns several answers", problem.top
        )
