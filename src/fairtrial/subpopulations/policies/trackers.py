"""The rules that choose one pull at a time."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.confidence.thresholds import Threshold
from fairtrial.core.documentation import documented_by
from fairtrial.core.validation import check_array, check_optional_integer, check_optional_number
from fairtrial.errors import InvalidArgument
from fairtrial.subpopulations._kernels.indices import (
    BALANCED,
    EXACT,
    PAPER,
    PLAIN,
    ROUND_ROBIN,
    STATIC,
    UNIFORM,
)
from fairtrial.subpopulations.policies.base import FloorPolicy
from fairtrial.subpopulations.policies.tracker import Sampling, Tracker
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


class TrackingPolicy(FloorPolicy):
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
        super().__init__(problem, delta, max_pulls, seed)
        self.stopping = stopping
        self.initial_pulls = check_optional_integer("initial_pulls", initial_pulls, low=0)
        self.exploration = check_optional_number("exploration", exploration, low=0.0)
        self._race = Tracker(problem, self.delta, stopping, self._sampling())

    def _sampling(self) -> Sampling:
        return Sampling(self._rule, self.seed, self.initial_pulls, self.exploration)


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
