"""The rules that choose one draw at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fairtrial.confidence.thresholds import Threshold
from fairtrial.core.validation import check_array
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
from fairtrial.subpopulations.policies.tracking import Tracking
from fairtrial.subpopulations.problem import Problem

__all__ = [
    "BalancedTracking",
    "ExactTracking",
    "PlainTrackAndStop",
    "RoundRobin",
    "TrackAndStop",
    "UniformSampling",
]


class BalancedTracking(Tracking):
    """Information-balanced sampling: draw what the weakest evidence rests on.

    Best of the rules that choose one draw at a time; takes data in any order, in
    batches, from passive arrivals (``ask(group=...)``), with costs and with tolerances.

    Parameters
    ----------
    problem : Problem
        The problem.
    delta : float
        Probability of a wrong answer that is accepted.
    stopping : str or Threshold
        ``"certified"`` (proven, default), ``"kaufmann-koolen"`` (proven),
        ``"stylised"`` (the paper's, a heuristic), or a threshold object.
    initial_pulls : int, optional
        Initial draws of every cell; 5, or 10 if the noise is estimated.
    exploration : float, optional
        Draw the least drawn cell while it has fewer than `exploration` times
        sqrt(t / (K L)) draws; by default 1.25, for the other trackers 0.5 with tolerances of both
        kinds, else none.
    max_pulls : int, optional
        Stop undecided after this many results.
    delays : {"ignorable", "informative"}
        Whether a result's value may have a say in when it is told, or whether at all. If it
        may, the tests use of each cell what is complete in the order of issue, at a higher
        price for pairs; a lost pull then ends the use of its cell. Certified stop only.
    seed : None, int or numpy.random.Generator
        Ignored; the rule is deterministic, and its next pull predictable from the results.

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

    rule = BALANCED
    guard = 1.25


class TrackAndStop(Tracking):
    """The paper's T-a-SCS: projected gradient steps on floored weights, cumulative tracking.

    Parameters are those of `BalancedTracking`.

    Notes
    -----
    Source: Wu, Zheng, Zhu, Algorithm 1, with step size 1 on the floored weights. Kept for
    replication; `BalancedTracking` needs fewer draws.

    Examples
    --------
    >>> TrackAndStop(Problem(2, 1, noise_std=1.0), stopping="stylised").guarantee.label
    'heuristic'
    """

    rule = PAPER
    informative_only = False


class ExactTracking(Tracking):
    """Tracking of the optimal shares at the estimated means, or of shares given once.

    Parameters are those of `BalancedTracking`, and:

    Parameters
    ----------
    shares : array-like of shape (K, L), optional
        Track these shares instead, as an oracle would; they must not be negative, and sum
        to one.

    Raises
    ------
    InvalidArgument
        If the shares have another shape, or are no shares.

    Notes
    -----
    The optimal shares are those of Wu, Zheng and Zhu, eq. (5); every decision takes twenty steps
    towards them from where the last one left off.

    Examples
    --------
    >>> ExactTracking(Problem(2, 1, noise_std=1.0), shares=[[0.5], [0.5]]).delta
    0.05
    """

    rule = EXACT

    def __init__(
        self,
        problem: Problem,
        delta: float = 0.05,
        stopping: str | Threshold = "certified",
        initial_pulls: int | None = None,
        exploration: float | None = None,
        max_pulls: int | None = None,
        delays: str = "ignorable",
        shares: ArrayLike | None = None,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(
            problem, delta, stopping, initial_pulls, exploration, max_pulls, delays, seed
        )
        self.shares = shares
        if shares is not None:
            given = check_array("shares", shares, problem.shape)
            if (given < 0).any() or abs(given.sum() - 1.0) > 1e-6:
                raise InvalidArgument("shares", "must be non-negative and sum to 1", shares)
            self._shares = np.array(given)
            self.rule = STATIC


class PlainTrackAndStop(Tracking):
    """Ordinary Track-and-Stop on the overall means, blind to floors; groups by their weights.

    Parameters are those of `BalancedTracking`, but that `seed` decides which group is drawn. A
    baseline: it may need many times the draws.

    Notes
    -----
    Source: Garivier, Kaufmann (2016), "Optimal best arm identification with fixed
    confidence", with cumulative tracking.

    Examples
    --------
    >>> PlainTrackAndStop(Problem(2, 2, noise_std=1.0), seed=1).ask().arm
    '0'
    """

    rule = PLAIN
    informative_only = False


class UniformSampling(Tracking):
    """Every arm equally often, at random, groups by their weights: a baseline.

    Parameters are those of `BalancedTracking`, but that `seed` decides which cell is drawn.

    Examples
    --------
    >>> UniformSampling(Problem(2, 2, noise_std=1.0), seed=1).ask().group
    '0'
    """

    rule = UNIFORM
    informative_only = False


class RoundRobin(Tracking):
    """Every cell in turn: a baseline.

    Parameters are those of `BalancedTracking`.

    Examples
    --------
    >>> [pull.action for pull in RoundRobin(Problem(2, 2, noise_std=1.0)).ask(5)]
    [0, 1, 2, 3, 0]
    """

    rule = ROUND_ROBIN
    informative_only = False
