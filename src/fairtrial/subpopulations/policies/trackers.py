"""The rules that choose one pull at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.confidence.effects import Spread
from fairtrial.confidence.means import Settled
from fairtrial.confidence.thresholds import Threshold
from fairtrial.core.data_unit import are_usual
from fairtrial.core.documentation import documented_by
from fairtrial.core.fixed_confidence import FixedConfidencePolicy
from fairtrial.core.policy import Choice
from fairtrial.core.pull import Pull
from fairtrial.core.recommendation import Effect, Estimate, Guarantee
from fairtrial.core.validation import (
    check_array,
    check_instance,
    check_optional_integer,
    check_optional_number,
)
from fairtrial.errors import InvalidArgument, NotSupported
from fairtrial.subpopulations._kernels.indices import (
    BALANCED,
    EXACT,
    PAPER,
    PLAIN,
    ROUND_ROBIN,
    STATIC,
    UNIFORM,
)
from fairtrial.subpopulations.environments import CellEnvironment
from fairtrial.subpopulations.policies import cell_report
from fairtrial.subpopulations.policies.cell_report import ArmsWithLimits, Cells
from fairtrial.subpopulations.policies.stated_noise import (
    Contradiction,
    as_results_allow,
    contradiction_of,
    warnings_of,
)
from fairtrial.subpopulations.policies.tracker import Sampling, Tracker
from fairtrial.subpopulations.policies.units import column_of
from fairtrial.subpopulations.problem import Problem

__all__ = [
    "BalancedTracking",
    "ExactTracking",
    "PlainTrackAndStop",
    "RoundRobin",
    "TrackAndStop",
    "UniformSampling",
]

Floats = NDArray[np.float64]


class TrackingPolicy(FixedConfidencePolicy):
    """A rule that chooses one pull at a time.

    Parameters
    ----------
    problem : Problem
        The problem.
    delta : float
        Accepted probability of a wrong answer.
    stopping : str or Threshold
        ``"certified"`` (proven, default), ``"kaufmann-koolen"`` (proven),
        ``"stylised"`` (the paper's, a heuristic), or a threshold object.
    initial_pulls : int, optional
        Initial pulls of every cell; 5, or 10 if the noise is estimated.
    exploration : float, optional
        Pull the least pulled cell while it has fewer than `exploration` times
        sqrt(t / (K L)) pulls; by default 1.25 for `BalancedTracking`; for the others 0.5 if both
        kinds of tolerance are given, otherwise none.
    max_pulls : int, optional
        Stop undecided after this many results.
    seed : None, int or numpy.random.Generator
        Ignored; the rule is deterministic, and its next pull can be predicted from the results.
    """

    version = 5
    state_fields = ("_amended", *(f"_race.{field}" for field in Tracker.fields))
    problem: Problem
    environments = CellEnvironment
    _nothing_yet = cell_report.NOTHING_YET

    _rule: ClassVar[int]
    """How pulls are chosen: a constant of the kernels."""

    def __init__(
        self,
        problem: Problem,
        delta: float = 0.05,
        stopping: str | Threshold = "certified",
        initial_pulls: int | None = None,
        exploration: float | None = None,
        max_pulls: int | None = None,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        check_instance("problem", problem, Problem)
        if problem.measures:
            accepted = f"must not have measures for {type(self).__name__}: use BlockBetting"
            raise InvalidArgument("problem", accepted, list(problem.measures))
        if problem.prediction is not None:
            raise NotSupported(f"{type(self).__name__} cannot use predictions: use BlockBetting")
        super().__init__(problem, delta, max_pulls, seed)
        self._answers = ArmsWithLimits(problem)
        self.stopping = stopping
        self.initial_pulls = check_optional_integer("initial_pulls", initial_pulls, low=0)
        self.exploration = check_optional_number("exploration", exploration, low=0.0)
        self._race = Tracker(problem, self.delta, stopping, self._sampling())

    def _sampling(self) -> Sampling:
        return Sampling(self._rule, self.seed, self.initial_pulls, self.exploration)

    # ------------------------------------------------------------------- contract

    def choose(self, group: str | None = None) -> Choice:
        """Return the cell that the rule wants next (in the group that arrived, if one did)."""
        return self._race.choose(column_of(self.problem, group), self.asked)

    def learn(self, pull: Pull, outcome: float) -> None:
        """Take one reward, and test whether the evidence is sufficient."""
        in_flight = pull.number in self._outstanding
        reward = self.problem.sign * outcome
        self._race.learn(pull, reward, in_flight, lambda: self._missing(pull))

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
        sign = self.problem.sign
        self._amended += self._race.amend(pull, sign * old, sign * new)

    def _can_run(self, environment: CellEnvironment, horizon: int | None, parallel: int) -> bool:
        if environment.arrivals is not None or not super()._can_run(environment, horizon, parallel):
            return False
        # A compiled run keeps its unit; see `Tracker.unit`.
        source = environment.source
        keeps_unit = self._race.unit == 1.0 and are_usual(source.first, source.second)
        return keeps_unit or not self.problem.estimates_noise

    def _simulate(
        self, environment: CellEnvironment, generator: np.random.Generator, horizon: int
    ) -> Floats:
        self._race.run(environment.source, self.problem.sign, generator, horizon)
        counts = self._race.data[0]
        self.told = self.asked = int(counts.sum())
        return counts

    # --------------------------------------------------------------------- report

    @property
    def _finished(self) -> bool:
        return self._race.finished

    @property
    def _answer(self) -> int | None:
        """The index of the answer, or of the leader: K means "no arm", None "not known yet"."""
        return self._race.answer

    def _evidence(self) -> tuple[float | None, float | None]:
        return self._race.evidence

    @property
    def _cells(self) -> Cells:
        counts, sums = self._race.data
        own = self.problem, self.delta, counts, self.problem.sign * sums, self._race.scale
        return Cells(*own, self._settled_cells)

    @property
    def _settled_cells(self) -> Settled | None:
        """The results that means count, by cell; None if all do."""
        if not self._race.waits_for_order:
            return None
        counts, sums = self._race.tested
        return Settled(counts.copy(), self.problem.sign * sums, np.zeros_like(counts))

    def _estimates(self) -> tuple[tuple[Estimate, ...], tuple[Estimate, ...]]:
        return cell_report.estimates(self._cells)

    def _effects(self) -> Callable[[], tuple[Effect, ...]]:
        spread = Spread(self._race.scale.ravel(), self.problem.reward_range)
        difference = cell_report.difference_from_counted(self._cells, spread)
        return cell_report.effects(self.problem, self._answer, difference)

    @property
    def _why_approximate(self) -> str:
        # If delays may depend on outcomes, only results in the order of issue are used.
        waits = self._race.waits_for_order
        return "; ".join(self.guarantee.doubts) if waits else super()._why_approximate

    @property
    def _settled(self) -> int | None:
        return int(self._race.tested[0].sum()) if self._race.waits_for_order else None

    def _spreads(self) -> list[Floats]:
        """Return the records of how results spread; each is tested separately."""
        return self._race.spreads

    @property
    def _contradiction(self) -> Contradiction | None:
        return contradiction_of(self._spreads())

    def warnings(self) -> tuple[str, ...]:
        """Return what the results contradict: the stated noise, if there is one."""
        return warnings_of(self._contradiction)

    @property
    def guarantee(self) -> Guarantee:
        """The threshold's guarantee, weakened if the data no longer fit its assumptions."""
        promise = self._race.guarantee(len(self._lost), self._amended)
        return as_results_allow(promise, self._contradiction)


@documented_by(TrackingPolicy)
class BalancedTracking(TrackingPolicy):
    """Information-balanced sampling: pull the cell that the weakest evidence depends on.

    The best of the rules that choose one pull at a time. It takes data in any order, in
    batches, and from passive arrivals (``ask(group=...)``), with costs and with tolerances.

    Notes
    -----
    Source: You, Qin, Wang, Yang (2023), "Information-directed selection for top-two
    algorithms", for the pitfalls of Wu, Zheng and Zhu.

    Examples
    --------
    >>> policy = BalancedTracking(Problem(3, 2, noise_std=1.0), delta=0.1)
    >>> [pull.action for pull in policy.ask(3)]
    [0, 1, 2]
    """

    _rule = BALANCED


@documented_by(TrackingPolicy)
class TrackAndStop(TrackingPolicy):
    """The paper's T-a-SCS: projected gradient steps on floored weights, cumulative tracking.

    Notes
    -----
    Source: Wu, Zheng, Zhu, Algorithm 1, with step size 1 on the floored weights. Kept for
    replication; `BalancedTracking` needs fewer pulls.

    Examples
    --------
    >>> TrackAndStop(Problem(2, 1, noise_std=1.0), stopping="stylised").guarantee.label
    'heuristic'
    """

    _rule = PAPER


@documented_by(TrackingPolicy)
class ExactTracking(TrackingPolicy):
    """Track the optimal shares at the estimated means, or shares that are given once.

    Parameters
    ----------
    shares : array-like of shape (K, L), optional
        Track these shares instead, as an oracle would; they must not be negative, and sum
        to one.

    Raises
    ------
    InvalidArgument
        If the shares have another shape, are negative, or do not sum to one.

    Notes
    -----
    The optimal shares are those of Wu, Zheng and Zhu, eq. (5); every decision takes twenty steps
    towards them from where the last decision ended.

    Examples
    --------
    >>> ExactTracking(Problem(2, 1, noise_std=1.0), shares=[[0.5], [0.5]]).delta
    0.05
    """

    _rule = EXACT

    def __init__(
        self,
        problem: Problem,
        delta: float = 0.05,
        stopping: str | Threshold = "certified",
        initial_pulls: int | None = None,
        exploration: float | None = None,
        max_pulls: int | None = None,
        shares: ArrayLike | None = None,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        self.shares = shares
        super().__init__(problem, delta, stopping, initial_pulls, exploration, max_pulls, seed)

    def _sampling(self) -> Sampling:
        if self.shares is None:
            return super()._sampling()
        shares = self._given(self.shares)
        return Sampling(STATIC, self.seed, self.initial_pulls, self.exploration, shares)

    def _given(self, shares: ArrayLike) -> Floats:
        given = np.array(check_array("shares", shares, self.problem.shape))
        if (given < 0).any() or abs(given.sum() - 1.0) > 1e-6:
            raise InvalidArgument("shares", "must be non-negative and sum to 1", shares)
        return given


@documented_by(TrackingPolicy)
class PlainTrackAndStop(TrackingPolicy):
    """Ordinary Track-and-Stop on the overall means; ignores floors, draws groups by their weights.

    A baseline: it may need many times as many pulls.

    Parameters
    ----------
    seed : None, int or numpy.random.Generator
        Decides which group is pulled.

    Notes
    -----
    Source: Garivier, Kaufmann (2016), "Optimal best arm identification with fixed
    confidence", with cumulative tracking.

    Examples
    --------
    >>> PlainTrackAndStop(Problem(2, 2, noise_std=1.0), seed=1).ask().arm
    '0'
    """

    _rule = PLAIN


@documented_by(TrackingPolicy)
class UniformSampling(TrackingPolicy):
    """Pull every arm equally often, at random, groups by their weights: a baseline.

    Parameters
    ----------
    seed : None, int or numpy.random.Generator
        Decides which cell is pulled.

    Examples
    --------
    >>> UniformSampling(Problem(2, 2, noise_std=1.0), seed=1).ask().group
    '0'
    """

    _rule = UNIFORM


@documented_by(TrackingPolicy)
class RoundRobin(TrackingPolicy):
    """Pull every cell in turn: a baseline.

    Examples
    --------
    >>> [pull.action for pull in RoundRobin(Problem(2, 2, noise_std=1.0)).ask(5)]
    [0, 1, 2, 3, 0]
    """

    _rule = ROUND_ROBIN

    def __init__(
        self,
        problem: Problem,
        delta: float = 0.05,
        stopping: str | Threshold = "certified",
        initial_pulls: int | None = None,
        max_pulls: int | None = None,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(problem, delta, stopping, initial_pulls, None, max_pulls, seed)
