"""What all policies of the family share: caps, estimates, and reports."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.bounds import NormalMixture
from fairtrial.confidence.effects import (
    Difference,
    Ends,
    Spread,
    difference_from_sums,
    effects_of_arms,
    level_of_each,
)
from fairtrial.confidence.noise_test import FALSE_ALARM, NoiseTest
from fairtrial.core.fixed_confidence import FixedConfidencePolicy
from fairtrial.core.policy import Choice
from fairtrial.core.pull import Pull
from fairtrial.core.recommendation import Effect, Estimate, Guarantee
from fairtrial.core.validation import check_instance, index_of
from fairtrial.core.wording import or_within
from fairtrial.errors import InvalidArgument
from fairtrial.subpopulations._kernels.indices import ANY_GROUP
from fairtrial.subpopulations.environments import CellEnvironment
from fairtrial.subpopulations.policies.tracker import Tracker
from fairtrial.subpopulations.policies.units import unit_of
from fairtrial.subpopulations.problem import Problem

Floats = NDArray[np.float64]


class StatedNoise(NamedTuple):
    """The stated noise that a record of results is tested against."""

    what: str
    """The statement that is tested, in words."""

    spreads: str
    """The quantity that spreads, with its verb."""

    share: float
    """This test's share of the probability of a false alarm."""

    is_combined: bool = False
    """Whether the tested quantity is a sum of several measures of a pull."""


class Contradiction(NamedTuple):
    """The statement about the noise, and how the results contradict it."""

    stated: str
    finding: str


class FloorPolicy(FixedConfidencePolicy):
    """What all policies of the family share: the problem as arrays, and the reports."""

    version = 3
    state_fields = ("_amended", *(f"_race.{field}" for field in Tracker.fields))
    problem: Problem
    environments = CellEnvironment
    _nothing_yet = "not every cell that matters has a result yet"

    _takes_measures = False
    """Whether the policy accepts pulls with several measures."""

    _race: Tracker
    """The state of the rule, made by its constructor; block betting keeps its own instead."""

    def __init__(
        self,
        problem: Problem,
        delta: float,
        max_pulls: int | None,
        seed: int | np.random.Generator | None,
    ) -> None:
        check_instance("problem", problem, Problem)
        if problem.measures and not self._takes_measures:
            accepted = f"must not have measures for {type(self).__name__}: use BlockBetting"
            raise InvalidArgument("problem", accepted, list(problem.measures))
        super().__init__(problem, delta, max_pulls, seed)
        # Rewards are maximised, in units that keep their squares well within a float's range.
        self._inward = problem.sign / unit_of(problem)

    # ------------------------------------------------------------------- contract

    def choose(self, group: str | None = None) -> Choice:
        """Return the cell that the rule wants next (in the group that arrived, if one did)."""
        return self._race.choose(self._column(group), self.asked)

    def learn(self, pull: Pull, outcome: float) -> None:
        """Take one reward, and test whether the evidence is sufficient."""
        in_flight = pull.number in self._outstanding
        self._race.learn(pull, self._inward * outcome, in_flight, lambda: self._missing(pull))

    def _missing(self, pull: Pull) -> list[int]:
        """Return the other pulls of the same cell that have no result."""
        return [
            number
            for waiting in (self._outstanding, self._lost)
            for number, (action, _) in waiting.items()
            if action == pull.action and number != pull.number
        ]

    def on_failure(self, pull: Pull, reason: str) -> None:
        """Free the cell's place: the rule pulls it again if it still wants it."""
        self._race.lose(pull)

    def on_amend(self, pull: Pull, old: float, new: float) -> None:
        """Correct a reward; the evidence is then computed from the corrected data."""
        self._amended += self._race.amend(pull, self._inward * old, self._inward * new)

    def _can_run(self, environment: CellEnvironment, horizon: int | None, parallel: int) -> bool:
        return environment.arrivals is None and super()._can_run(environment, horizon, parallel)

    def _simulate(
        self, environment: CellEnvironment, generator: np.random.Generator, horizon: int
    ) -> Floats:
        self._race.run(environment.source, self._inward, generator, horizon)
        counts = self._data[0]
        self.told = self.asked = int(counts.sum())
        return counts

    # ---------------------------------------------------- the state of the race

    @property
    def _finished(self) -> bool:
        return self._race.finished

    @property
    def _answer(self) -> int | None:
        """The index of the answer, or of the leader: K means "no arm", None "not known yet"."""
        return self._race.answer

    @property
    def _data(self) -> tuple[Floats, Floats]:
        """Counts and sums by cell, shape (K, L), of rewards to be maximised."""
        return self._race.data

    def _evidence(self) -> tuple[float | None, float | None]:
        return self._race.evidence

    def _spreads(self) -> list[Floats]:
        """Return the records of how results spread; each is tested separately."""
        return self._race.spreads

    def _scale(self) -> Floats:
        """Return the scale of the noise by cell."""
        return self._race.scale

    @property
    def guarantee(self) -> Guarantee:
        """The threshold's guarantee, weakened if the data no longer fit its assumptions."""
        return self._as_results_allow(self._race.guarantee(len(self._lost), self._amended))

    def _column(self, group: str | None) -> int:
        """Return the index of the group that arrived, if one did."""
        return ANY_GROUP if group is None else index_of("group", group, self.problem.groups)

    # ------------------------------------------------------------- reports in words

    def _label(self, answer: int) -> str | None:
        return None if answer == len(self.problem.arms) else self.problem.arms[answer]

    @property
    def _no_arm(self) -> str:
        return f"no arm keeps all its {self._limits}"

    def _finding(self, label: str | None) -> str:
        spare = self.problem.floor_tolerance
        if label is None:
            return f"no arm keeps all its {self._limits}" + (f" by {spare:g}" if spare else "")
        kept = f"keeps all its {self._limits}" + (f" to within {spare:g}" if spare else "")
        near = or_within(self.problem.tolerance, "the best")
        return f"{label!r} is the best arm that {kept}{near}"

    @property
    def _limits(self) -> str:
        if self.problem.measures or self.problem.refers_to_control:
            return "limits"
        return "limits" if np.isfinite(self.problem.ceilings).any() else "floors"

    @property
    def _intervals(self) -> str:
        # Intervals hold at all times if the noise is known and the results do not contradict it.
        is_known = not self.problem.estimates_noise and self._contradiction is None
        return "anytime" if is_known else "approximate"

    # ------------------------------------------------------- contradictions in results

    @property
    def _contradiction(self) -> Contradiction | None:
        """A statement about the noise that the results contradict, if there is one.

        Single measures come before sums of several, because a measure's spread explains theirs.
        """
        found = []
        for record, tested in zip(self._spreads(), self._tested, strict=True):
            test = NoiseTest(record)
            if test.log_evidence >= -math.log(FALSE_ALARM * tested.share):
                found.append((not tested.is_combined, test.estimated_inflation or 1.0, tested))
        if not found:
            return None
        _, excess, tested = max(found, key=lambda one: one[:2])
        return Contradiction(tested.what, f"{tested.spreads} {excess:.2g} times as widely")

    @property
    def _tested(self) -> list[StatedNoise]:
        """The statement that each of the records of `_spreads` tests."""
        records = len(self._spreads())
        return [StatedNoise("noise_std", "they spread", 1.0 / records) for _ in range(records)]

    def warnings(self) -> tuple[str, ...]:
        """Return what the results contradict: the stated noise, if there is one."""
        contradiction = self._contradiction
        if contradiction is None:
            return ()
        found = f"the results contradict the stated {contradiction.stated}: {contradiction.finding}"
        return (f"{found}, so answers are wrong more often than promised",)

    def _as_results_allow(self, promise: Guarantee) -> Guarantee:
        """Return a guarantee; not proven any more if the results contradict the stated noise."""
        contradiction = self._contradiction
        if contradiction is None:
            return promise
        return promise.weakened(
            f"{contradiction.stated} is right, which the results contradict: "
            f"{contradiction.finding}"
        )

    def _effects(self) -> Callable[[], tuple[Effect, ...]]:
        return self._effects_by(self._difference_from_sums())

    def _difference_from_sums(self, missing: Floats | None = None) -> Difference:
        """Return a function that estimates a difference from all results, however chosen."""
        counts, sums = self._data
        return partial(
            difference_from_sums,
            counts.ravel().copy(),
            sums.ravel() / self._inward,
            spread=self._spread,
            level=self._level_of_each,
            missing=missing,
        )

    def _effects_by(self, difference: Difference) -> Callable[[], tuple[Effect, ...]]:
        """Return a function that computes all effects with a function for one difference."""
        problem, reference = self.problem, self._reference
        if reference is None:
            return tuple
        weights: dict[str | None, Floats] = {None: problem.shares}
        if len(problem.groups) > 1:
            weights |= zip(problem.groups, np.eye(len(problem.groups)), strict=True)
        limits = self._limits_of_effects
        return partial(effects_of_arms, problem.arms, reference, weights, difference, limits)

    @property
    def _limits_of_effects(self) -> dict[tuple[str, str | None], Ends]:
        """By arm and group: the ends that the difference from the control must stay between."""
        problem = self.problem
        in_groups, overall = problem.differences()
        found: dict[tuple[str, str | None], Ends] = {}
        for k, arm in enumerate(problem.arms):
            for group, least in (
                (None, overall[k, 0]),
                *zip(problem.groups, in_groups[k], strict=True),
            ):
                if math.isfinite(least):
                    limit = float(problem.sign * least)
                    found[arm, group] = (limit, None) if problem.sign > 0 else (None, limit)
        if len(problem.groups) == 1:
            # If there is only one group, its limits also hold overall.
            for arm in problem.arms:
                if (arm, problem.groups[0]) in found:
                    found.setdefault((arm, None), found[arm, problem.groups[0]])
        return found

    @property
    def _spread(self) -> Spread:
        return Spread(self._scale().ravel(), self.problem.reward_range)

    @property
    def _level_of_each(self) -> float:
        has_control = self.problem.control is not None
        return level_of_each(self.delta, len(self.problem.arms), has_control=has_control)

    @property
    def _reference(self) -> int | None:
        """The arm that the others are compared with: the control, or else the leader."""
        if self.problem.control is not None:
            return self.problem.arms.index(self.problem.control)
        answer = self._answer
        return None if answer == len(self.problem.arms) else answer

    def _estimates(self) -> tuple[tuple[Estimate, ...], tuple[Estimate, ...]]:
        return self._cell_estimates(), self._arm_estimates()

    def _cell_estimates(self) -> tuple[Estimate, ...]:
        counts, sums = self._data
        radius = NormalMixture().radius(counts, self.delta, self._scale())
        limits = self.problem.floors, self.problem.ceilings
        lower_limits, upper_limits = limits if self.problem.sign > 0 else limits[::-1]
        estimates = []
        for action, labels in enumerate(self.problem.action_labels):
            k, group = divmod(action, len(self.problem.groups))
            count = int(counts[k, group])
            mean = sums[k, group] / self._inward / count if count else None
            estimates.append(
                Estimate(
                    labels=labels,
                    pulls=count,
                    mean=mean,
                    lower=None if mean is None else self._clip(mean - radius[k, group]),
                    upper=None if mean is None else self._clip(mean + radius[k, group]),
                    lower_limit=_none_if_infinite(lower_limits[k, group]),
                    upper_limit=_none_if_infinite(upper_limits[k, group]),
                )
            )
        return tuple(estimates)

    def _arm_estimates(self) -> tuple[Estimate, ...]:
        counts, sums = self._data
        shares = self.problem.shares
        radius = NormalMixture().radius(counts, self.delta / len(shares), self._scale())
        estimates = []
        for k, arm in enumerate(self.problem.arms):
            used = shares > 0
            known = bool((counts[k, used] > 0).all())
            mean = reach = None
            if known:
                means = sums[k, used] / self._inward / counts[k, used]
                mean = float(shares[used] @ means)
                reach = float(shares[used] @ radius[k, used])
            estimates.append(
                Estimate(
                    labels={"arm": arm},
                    pulls=int(counts[k].sum()),
                    mean=mean,
                    lower=None if mean is None or reach is None else self._clip(mean - reach),
                    upper=None if mean is None or reach is None else self._clip(mean + reach),
                )
            )
        return tuple(estimates)

    def _clip(self, value: float) -> float:
        low, high = self.problem.reward_range or (-math.inf, math.inf)
        return float(min(max(value, low), high))


def _none_if_infinite(limit: float) -> float | None:
    return float(limit) if math.isfinite(limit) else None
