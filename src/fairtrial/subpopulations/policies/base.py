"""What all policies of the family share: caps, estimates, and what they report."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.bounds import NormalMixture
from fairtrial.core.environment import Environment
from fairtrial.core.policy import Policy
from fairtrial.core.recommendation import (
    Estimate,
    Guarantee,
    Progress,
    Recommendation,
    Status,
)
from fairtrial.core.run import Run
from fairtrial.core.validation import check_instance, check_integer, check_probability, index_of
from fairtrial.core.wording import or_within
from fairtrial.subpopulations._kernels.indices import ANY_GROUP, NOISE_FIELDS
from fairtrial.subpopulations.environments import CellEnvironment
from fairtrial.subpopulations.problem import Problem

if TYPE_CHECKING:
    from fairtrial.subpopulations._kernels.model import Model

Floats = NDArray[np.float64]


PREDICTABLE = (
    "nobody's guess of the next pull changes an outcome: the order of pulls is not random, and can "
    "be predicted from the results"
)
"""What a rule without coins assumes of those who see its results."""


_USUAL = 20
"""Powers of two that scales of rewards may differ from 1 by without a unit of their own."""


class FloorPolicy(Policy):
    """What all policies of the family share: the problem in arrays, and what they report."""

    problem: Problem

    def __init__(
        self,
        problem: Problem,
        delta: float,
        max_pulls: int | None,
        seed: int | np.random.Generator | None,
    ) -> None:
        super().__init__(check_instance("problem", problem, Problem), seed)
        self.delta = check_probability("delta", delta)
        self.max_pulls = None if max_pulls is None else check_integer("max_pulls", max_pulls, low=1)
        # Rewards are maximised, and in units that keep their squares well within a float's range.
        self._inward = problem.sign / unit_of(problem)
        self._amended = 0
        self._noise = self._noise_records(slots=0)

    def _noise_records(self, slots: int) -> Floats:
        """Return empty records for the test of the stated noise, if there is one to test."""
        stated = self.problem.reward_range is None and not self.problem.estimates_noise
        return np.zeros((1 + slots, self.problem.n_actions, NOISE_FIELDS) if stated else (0, 0, 0))

    # ---------------------------------------------------------- what each rule says

    @property
    @abstractmethod
    def _decided(self) -> bool:
        """Whether the rule has stopped with an answer."""

    @property
    @abstractmethod
    def _answer(self) -> int | None:
        """The index of the answer, or of the leader: K stands for "no arm", None for "no idea"."""

    @property
    @abstractmethod
    def _data(self) -> tuple[Floats, Floats]:
        """Counts and sums by cell, shape (K, L), rewards as maximised."""

    @abstractmethod
    def _evidence(self) -> tuple[float | None, float | None]:
        """Evidence for the leader and what it is held against, in nats."""

    # --------------------------------------------------------------------- shared

    @property
    def stopped(self) -> bool:
        """Whether there is an answer, or the cap on pulls is reached."""
        return self._decided or (self.max_pulls is not None and self.told >= self.max_pulls)

    def _column(self, group: str | None) -> int:
        """Return the index of the group that arrived, if one did."""
        return ANY_GROUP if group is None else index_of("group", group, self.problem.groups)

    def _label(self, answer: int) -> str | None:
        return None if answer == len(self.problem.arms) else self.problem.arms[answer]

    def recommend(self) -> Recommendation:
        """Return the answer now: an arm, "no arm" (None), or none yet (`status`)."""
        status: Status = "decided" if self._decided else "undecided" if self.stopped else "running"
        evidence, threshold = self._evidence()
        answer = self._answer
        leader = None if answer is None else self._label(answer)
        return Recommendation(
            arm=leader if self._decided else None,
            status=status,
            leader=leader,
            confidence=1.0 - self.delta,
            guarantee=self.guarantee,
            reason=self._reason(status, answer),
            evidence={"evidence": evidence, "threshold": threshold, "pulls": self.told},
            candidates=self._candidates(),
        )

    def _candidates(self) -> tuple[str | None, ...] | None:
        """Return the answers that are not ruled out, None where the rule has no such set."""
        return None

    def _reason(self, status: Status, answer: int | None) -> str:
        if answer is None:
            return "not every cell that matters has a result yet"
        arm = self._label(answer)
        if status == "decided":
            return f"there is enough evidence: {self._finding(arm)}"
        best = f"no arm keeps all its {self._limits}" if arm is None else f"{arm!r} leads"
        if status == "undecided":
            return f"the cap of {self.max_pulls} pulls is reached; {best} so far"
        return f"{best} so far; there is not enough evidence to decide yet"

    def _finding(self, arm: str | None) -> str:
        spare = self.problem.floor_tolerance
        if arm is None:
            return f"no arm keeps all its {self._limits}" + (f" by {spare:g}" if spare else "")
        kept = f"keeps all its {self._limits}" + (f" to within {spare:g}" if spare else "")
        near = or_within(self.problem.tolerance, "the best")
        return f"{arm!r} is the best arm that {kept}{near}"

    @property
    def _limits(self) -> str:
        return "limits" if np.isfinite(self.problem.ceilings).any() else "floors"

    def progress(self) -> Progress:
        """Return estimates with intervals, evidence, and a forecast of what is left.

        The intervals hold at all times if the noise is known, and the results do not contradict it.
        """
        evidence, threshold = self._evidence()
        is_known = not self.problem.estimates_noise and self._excess is None
        return Progress(
            recommendation=self.recommend(),
            asked=self.asked,
            told=self.told,
            outstanding=len(self._outstanding),
            evidence=evidence,
            threshold=threshold,
            remaining=self._remaining(),
            actions=self._cell_estimates(),
            arms=self._arm_estimates(),
            details=self._details(),
            intervals="anytime" if is_known else "approximate",
        )

    def _remaining(self) -> float | None:
        evidence, threshold = self._evidence()
        if self.stopped:
            return 0.0
        if evidence is None or threshold is None or evidence <= 0.0:
            return None
        return self.told * max(0.0, threshold / evidence - 1.0)

    def _details(self) -> Mapping[str, Any]:
        return {}

    # ------------------------------------------------------- what the results contradict

    @property
    def _excess(self) -> float | None:
        """How many times as widely as stated the results spread, if that contradicts the noise."""
        if not self._noise.size:
            return None
        from fairtrial.confidence.noise_test import FALSE_ALARM, NoiseTest

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

    def _most(self, horizon: int | None) -> int:
        caps = [cap for cap in (horizon, self.max_pulls) if cap is not None]
        return min(caps, default=2**62)

    def _run(self, environment: CellEnvironment, counts: Floats, draws: int) -> Run:
        """Return the finished compiled run of this policy."""
        answer = self.recommend()
        pulls = counts.ravel().astype(np.int64)
        return Run(
            answer=answer.arm,
            status=answer.status,
            stopping_time=draws,
            pulls=pulls,
            elapsed=float(draws),
            metrics=environment.metrics(pulls),
        )

    def _can_compile(self, environment: Environment) -> bool:
        return isinstance(environment, CellEnvironment) and self.asked == self.told == 0


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
    from fairtrial.subpopulations._kernels.model import Model

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
