"""What all policies of the family share: caps, estimates, and what they report."""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.bounds import NormalMixture
from fairtrial.confidence.noise_test import FALSE_ALARM, NoiseTest
from fairtrial.core.fixed_confidence import FixedConfidencePolicy
from fairtrial.core.recommendation import Estimate, Guarantee
from fairtrial.core.validation import check_instance, index_of
from fairtrial.core.wording import or_within, who_leads
from fairtrial.subpopulations._kernels.indices import ANY_GROUP, NOISE_FIELDS
from fairtrial.subpopulations._kernels.model import Model
from fairtrial.subpopulations.environments import CellEnvironment
from fairtrial.subpopulations.problem import Problem

Floats = NDArray[np.float64]


PREDICTABLE = (
    "nobody's guess of the next pull changes an outcome: the order of pulls is not random, and can "
    "be predicted from the results"
)
"""What a rule without coins assumes of those who see its results."""


_USUAL = 20
"""Powers of two that scales of rewards may differ from 1 by without a unit of their own."""


class FloorPolicy(FixedConfidencePolicy):
    """What all policies of the family share: the problem in arrays, and what they report."""

    problem: Problem
    environments = CellEnvironment
    _nothing_yet = "not every cell that matters has a result yet"

    def __init__(
        self,
        problem: Problem,
        delta: float,
        max_pulls: int | None,
        seed: int | np.random.Generator | None,
    ) -> None:
        check_instance("problem", problem, Problem)
        super().__init__(problem, delta, max_pulls, seed)
        # Rewards are maximised, and in units that keep their squares well within a float's range.
        self._inward = problem.sign / unit_of(problem)
        self._noise = self._noise_records(slots=0)

    def _noise_records(self, slots: int) -> Floats:
        """Return empty records for the test of the stated noise, if there is one to test."""
        stated = self.problem.reward_range is None and not self.problem.estimates_noise
        return np.zeros((1 + slots, self.problem.n_actions, NOISE_FIELDS) if stated else (0, 0, 0))

    @property
    @abstractmethod
    def _data(self) -> tuple[Floats, Floats]:
        """Counts and sums by cell, shape (K, L), rewards as maximised."""

    def _column(self, group: str | None) -> int:
        """Return the index of the group that arrived, if one did."""
        return ANY_GROUP if group is None else index_of("group", group, self.problem.groups)

    # ------------------------------------------------------------- what is said of it

    def _label(self, answer: int) -> str | None:
        return None if answer == len(self.problem.arms) else self.problem.arms[answer]

    def _leads(self, label: str | None) -> str:
        return f"no arm keeps all its {self._limits}" if label is None else who_leads(label)

    def _finding(self, label: str | None) -> str:
        spare = self.problem.floor_tolerance
        if label is None:
            return f"no arm keeps all its {self._limits}" + (f" by {spare:g}" if spare else "")
        kept = f"keeps all its {self._limits}" + (f" to within {spare:g}" if spare else "")
        near = or_within(self.problem.tolerance, "the best")
        return f"{label!r} is the best arm that {kept}{near}"

    @property
    def _limits(self) -> str:
        return "limits" if np.isfinite(self.problem.ceilings).any() else "floors"

    @property
    def _intervals(self) -> str:
        # They hold at all times if the noise is known, and the results do not contradict it.
        is_known = not self.problem.estimates_noise and self._excess is None
        return "anytime" if is_known else "approximate"

    # ------------------------------------------------------- what the results contradict

    @property
    def _excess(self) -> float | None:
        """How many times as widely as stated the results spread, if that contradicts the noise."""
        if not self._noise.size:
            return None
        tests = [NoiseTest(record) for record in self._spreads()]
        level = math.log(len(tests) / FALSE_ALARM)
        found = [test.estimated_inflation for test in tests if test.log_evidence >= level]
        return max((excess for excess in found if excess is not None), default=None)

    def _spreads(self) -> list[Floats]:
        """Return the records to be tested, each by itself."""
        return [self._noise[0]]

    def warnings(self) -> tuple[str, ...]:
        """Return what the results contradict: the stated noise, where there is one."""
        excess = self._excess
        if excess is None:
            return ()
        found = (
            f"the results contradict the stated noise_std: they spread {excess:.2g} times as widely"
        )
        return (f"{found}, so answers are wrong more often than promised",)

    def _as_results_allow(self, promise: Guarantee) -> Guarantee:
        """Return a guarantee, no longer proven where the results contradict the stated noise."""
        excess = self._excess
        if excess is None:
            return promise
        return promise.weakened(
            f"noise_std is right, which the results contradict: they spread {excess:.2g} times as "
            "widely"
        )

    def _scale(self) -> Floats:
        return self.problem.scale

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


def unit_of(problem: Problem) -> float:
    """Return the unit in which the kernels are told rewards: 1 unless these are tiny or huge.

    It is a power of two, so that nothing is rounded: decisions are the same in every unit.
    """
    exponent = round(math.log2(problem.scale.max()))
    return 1.0 if abs(exponent) <= _USUAL else 2.0**exponent


def model_of(problem: Problem, informative_only: bool) -> Model:
    """Return the problem as the kernels see it."""
    needed = np.ones(problem.shape, dtype=bool)
    if informative_only:
        matters = problem.shares > 0.0 if len(problem.arms) > 1 else np.zeros_like(problem.shares)
        needed = problem.constrained | (matters > 0.0)
    unit = unit_of(problem)
    return Model(
        weights=np.array(problem.shares),
        limits=problem.limits() / unit,
        own_limits=problem.limits(problem.floor_tolerance) / unit,
        rival_limits=problem.limits(-problem.floor_tolerance) / unit,
        variances=(problem.scale / unit) ** 2,
        costs=np.array(problem.costs),
        active=needed.astype(np.float64),
        slack=float(problem.tolerance / unit),
    )
