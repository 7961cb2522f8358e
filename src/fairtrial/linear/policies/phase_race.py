"""The state of the rules in phases, and the functions that plan and judge a phase."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import scipy
from numpy.typing import NDArray

from fairtrial.confidence.noise_kernels import record_result, replace_result
from fairtrial.confidence.noise_test import NoiseTest
from fairtrial.core.policy import Choice
from fairtrial.core.pull import Pull
from fairtrial.core.recommendation import Guarantee
from fairtrial.linear._kernels.choosing import greedy_phase
from fairtrial.linear._kernels.phases import (
    ENOUGH,
    HOPELESS,
    OPEN,
    judge,
    next_of,
    phase_values,
    run_phase,
)
from fairtrial.linear._units import Units
from fairtrial.linear.designs import round_design
from fairtrial.linear.environments import ArmEnvironment
from fairtrial.linear.policies.designs import phase_pulls_g, phase_shares
from fairtrial.linear.policies.levels import ConstantLevel, Level
from fairtrial.linear.policies.race import Race

__all__ = ["Phases", "eliminate", "halve", "plan_budget", "plan_design", "plan_greedily"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

COUNTS, SUMS, TO_ISSUE, GOT, OWN, LEADING = range(6)
"""Rows of the results: all data, pulls of the phase to issue, the phase's data, and its first arms.
"""

_MOST_IN_PHASE = 10_000_000.0

_LARGEST_UNIT = 32.0


class Phases(Race):
    """Phases of pulls that are fixed in advance, each judged by its own data.

    A lost pull is issued again; late results, and unsolicited ones, do not count in any phase.

    Parameters
    ----------
    units : Units
        The problem in the numbers of the kernels.
    plan : callable
        Returns the pulls of the next phase by arm, shape (K,).
    judge : callable
        Removes candidates according to the phase's data; returns the new status.
    promise : Guarantee
        The guarantee before there are any data.
    is_confidence_set : bool
        Whether the remaining candidates include the best at all times.
    """

    fields = (
        *("results", "alive", "record", "early", "late"),
        *("number", "waiting", "target", "found", "given_up"),
    )
    initial_pulls = 1

    def __init__(
        self,
        units: Units,
        plan: Callable[[Phases], Floats],
        judge: Callable[[Phases], int],
        promise: Guarantee,
        is_confidence_set: bool,
    ) -> None:
        arms, candidates, rank = units.shape
        self.units = units
        self._plan, self._judge = plan, judge
        self._promise = promise
        self._is_confidence_set = is_confidence_set
        self.results = np.zeros((6, arms))
        self.record, self.early = NoiseTest.empty_record(arms), NoiseTest.empty_record(arms)
        self.alive = np.ones(candidates, dtype=np.int64)
        self.number = 0
        self.waiting = 0
        self.target = 1.0 / (rank * (rank + 1.0) + 1.0) / self.square
        self.found = candidates == 1
        self.given_up = False
        self.late: list[int] = []

    @property
    def first_arms(self) -> Integers:
        """The arms that a phase pulls whatever its design: at first, more than a basis."""
        problem = self.units.problem
        return problem.geometry.start_arms if self.number == 1 else problem.basis_arms

    @property
    def square(self) -> float:
        """The factor for variances of the reduced candidates when a phase is planned.

        It converts them to variances of rewards as in the papers, in units in which gaps are about
        one. If rewards are far larger or smaller, so that the first phases would be endless or very
        many, units of the noise are used.
        """
        problem = self.units.problem
        unit = problem.reduced.unit
        if not 1.0 / _LARGEST_UNIT <= unit <= _LARGEST_UNIT:
            unit /= float(problem.scale.max())
        return min(max(unit, 1.0 / _LARGEST_UNIT), _LARGEST_UNIT) ** 2

    # ---------------------------------------------------------------- events

    def _begin(self) -> None:
        self.number += 1
        planned = self._plan(self)
        self.results[TO_ISSUE] = planned
        self.results[GOT:] = 0.0
        if self.number == 1:
            self.results[LEADING, self._basis_of(planned)] = 1.0
        self.waiting = int(planned.sum())

    def _basis_of(self, planned: Floats) -> Integers:
        """Return planned arms that measure all that the plan measures, as few as possible."""
        arms = np.flatnonzero(planned)
        columns = self.units.problem.reduced.arms[arms].T
        if not columns.size:
            return arms[:0]
        _, pivots = scipy.linalg.qr(columns, mode="r", pivoting=True, check_finite=False)
        return np.asarray(arms[pivots[: np.linalg.matrix_rank(columns)]])

    def choose(self) -> Choice:
        """Return the next pull of the phase; None if the next one needs results first."""
        if self.waiting == 0:
            self._begin()
        support = np.flatnonzero(self.results[TO_ISSUE])
        if not support.size:
            return None
        return int(next_of(self.results[TO_ISSUE], self.results[LEADING], support)), self.number

    def learn(self, pull: Pull, reward: float, in_flight: bool, was_lost: bool) -> None:
        """Take one reward; judge the phase after its last reward."""
        self.results[COUNTS, pull.action] += 1.0
        self.results[SUMS, pull.action] += reward
        record_result(self.record, pull.action, reward)
        if was_lost:
            self.late.append(pull.number)
        if in_flight:
            self.results[GOT, pull.action] += 1.0
            self.results[OWN, pull.action] += reward
            self.waiting -= 1
            self._settle()

    def _settle(self) -> None:
        if self.waiting == 0 and not (self.found or self.given_up):
            standing = self._judge(self)
            self.found, self.given_up = standing == ENOUGH, standing == HOPELESS
            if self.number == 1:
                self.early = self.record.copy()

    def lose(self, pull: Pull) -> None:
        """Put the pull back: a phase is judged with all its pulls."""
        self.results[TO_ISSUE, pull.action] += 1.0

    def amend(self, pull: Pull, old: float, new: float) -> None:
        """Correct a reward; phases that were judged are not judged again."""
        # The test of the noise starts again: its first results may have been others.
        replace_result(self.record, pull.action, old, new)
        self.early = self.record.copy()
        self.results[SUMS, pull.action] += new - old
        if pull.tag == self.number and self.waiting and pull.number not in self.late:
            self.results[OWN, pull.action] += new - old

    def run(
        self, environment: ArmEnvironment, generator: np.random.Generator, horizon: int
    ) -> None:
        """Continue, phase after phase, until the stop or until there are that many results."""
        told = int(self.counts.sum())
        while not (self.found or self.given_up) and told < horizon:
            self._begin()
            support = np.flatnonzero(self.results[TO_ISSUE])
            source = (environment.source, self.units.factors, generator, horizon - told)
            pulls = run_phase(self.results, self.record, support, *source)
            told += pulls
            self.waiting -= pulls
            self._settle()

    # --------------------------------------------------------------- current state

    @property
    def found_best(self) -> bool:
        """Whether the best of the distinct candidates is found."""
        return bool(self.found)

    @property
    def hopeless(self) -> bool:
        """Whether misspecified means can hide the best."""
        return bool(self.given_up)

    @property
    def counts(self) -> Floats:
        """Results by arm."""
        return np.asarray(self.results[COUNTS])

    @property
    def sums(self) -> Floats:
        """Sums of rewards by arm."""
        return np.asarray(self.results[SUMS])

    @property
    def records(self) -> tuple[Floats, Floats]:
        """The records of rewards by arm: now, and when theta could first be estimated."""
        return self.record, self.early

    @property
    def leaders(self) -> Sequence[int]:
        """The remaining candidates; none lead before theta can be estimated."""
        return self.live if self.found or self.units.can_be_fitted(self.counts) else []

    @property
    def live(self) -> Sequence[int]:
        """The remaining candidates."""
        return np.flatnonzero(self.alive).tolist()

    @property
    def confidence_set(self) -> Sequence[int] | None:
        """The remaining candidates, if the elimination is proven."""
        return self.live if self._is_confidence_set else None

    @property
    def noise_variance(self) -> float:
        """Variance of a reward relative to the stated one; infinite if none is stated."""
        return math.inf if self.units.problem.estimates_noise else 1.0

    @property
    def phase(self) -> int:
        """The current phase."""
        return int(self.number)

    @property
    def survivors(self) -> Sequence[int]:
        """The remaining candidates."""
        return self.live

    @property
    def promise(self) -> Guarantee:
        """The guarantee before there are any data."""
        return self._promise

    def weakened(self, promise: Guarantee, lost: int) -> Guarantee:
        """Return a guarantee, weakened by lost pulls that are in no phase."""
        event = "got lost, for reasons assumed to be unrelated to rewards"
        return promise.weakened_by(lost + len(self.late), "pull", event)


# ----------------------------------------------------------------------- elimination


def height_of(phases: Phases, level: Level, delta: float) -> float:
    """Return the level of the current phase."""
    if isinstance(level, ConstantLevel):
        return level.value
    errors = max(1, phases.units.shape[1] - 1)
    return 2.0 * math.log(errors * phases.number * (phases.number + 1.0) / delta)


def eliminate(phases: Phases, level: Level, delta: float) -> int:
    """Remove every candidate that another one beats; return the new status."""
    units = phases.units
    wanted = (height_of(phases, level, delta), units.tolerance, units.misspecification)
    return int(judge(units.model, phases.results, *wanted, phases.alive))


def plan_greedily(phases: Phases, alpha: float, ties: int) -> Floats:
    """Return pulls that reduce the largest variance of a difference by the factor `alpha`."""
    counts = np.zeros(phases.units.shape[0])
    counts[phases.first_arms] = 1.0
    live = np.flatnonzero(phases.alive)
    wanted = (alpha * phases.target, _MOST_IN_PHASE, ties, phases.number)
    phases.target = float(greedy_phase(phases.units.model, live, *wanted, counts))
    return counts


def plan_design(phases: Phases, level: Level, delta: float) -> Floats:
    """Return pulls of an XY-optimal design on the remaining candidates, 4 times the last phase."""
    shares, value = phase_shares(phases.units.problem, np.flatnonzero(phases.alive))
    height = height_of(phases, level, delta)
    wanted = 1.1 * phases.square * value * height * 4.0**phases.number
    pulls = math.ceil(min(wanted, _MOST_IN_PHASE))
    planned = round_design(shares, max(pulls, int((shares > 0.0).sum()))).astype(np.float64)
    if phases.number == 1:
        planned[phases.first_arms] = np.maximum(planned[phases.first_arms], 1.0)
    return planned


# ---------------------------------------------------------------------- fixed budget


def plan_budget(phases: Phases, budget: int, number: int) -> Floats:
    """Return the phase's part of the budget as a G-optimal design on the remaining arms."""
    problem = phases.units.problem
    before = (phases.number - 1) * budget // number
    pulls = phases.number * budget // number - before
    groups = problem.answer_groups
    left = np.array([groups[index][0] for index in phases.live], dtype=np.int64)
    return phase_pulls_g(problem, left, pulls)


def halve(phases: Phases, number: int) -> int:
    """Keep the better half of the candidates; return whether that was the last phase."""
    arms, candidates = phases.units.problem.reduced[:2]
    live = np.flatnonzero(phases.alive)
    values = phase_values(arms, candidates, phases.results)[live]
    kept = max(1, math.ceil(phases.units.shape[2] / 2**phases.number))
    order = np.argsort(-values, kind="stable")
    phases.alive[live[order[kept:]]] = 0
    return ENOUGH if phases.number >= number else OPEN
