"""Evidence, in nats, that one arm is better than others on the blocks that they share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["BettingEvidence", "Evidence", "StudentEvidence"]

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

# Stakes from nearly all to what suits gaps a sixtieth of a standard deviation wide.
_STAKES: Floats = 0.98 * np.exp2(-0.5 * np.arange(13, dtype=np.float64))
# How many blocks the prior of a standardised difference counts for.
_PRIOR = 1.0


class Evidence(ABC):
    """Evidence for every pair against "not better" and "worse by more than the tolerance".

    Both reach a level wrongly with the probability that one of them may: the second is never
    below the first, or both come of one confidence sequence. So a union over pairs charges
    each pair once.
    """

    name: ClassVar[str]
    proven: ClassVar[bool]

    def __init__(self, tolerance: float) -> None:
        self.tolerance = tolerance

    @abstractmethod
    def against(self, scores: Floats, leader: int, rivals: Indices) -> tuple[Floats, Floats]:
        """Return the evidence for the leader against each rival.

        Parameters
        ----------
        scores : ndarray of shape (blocks, arms)
            Complete for the leader and the rivals; larger is better.
        leader : int
            The arm that is held against the rivals.
        rivals : ndarray of int

        Returns
        -------
        better, near_enough : ndarray of shape (rivals,)
            That the leader is better; that it is not worse by more than the tolerance.
        """


class StudentEvidence(Evidence):
    """Student's t on differences, mixed over a normal prior of the standardised effect.

    Examples
    --------
    >>> scores = np.array([[0.9, 0.5], [0.8, 0.5], [0.9, 0.4], [0.9, 0.5]])
    >>> StudentEvidence(0.0).against(scores, 0, np.array([1]))[0].round(2)
    array([2.19])
    """

    name = "Student mixture"
    proven = False

    def against(self, scores: Floats, leader: int, rivals: Indices) -> tuple[Floats, Floats]:
        """Return the evidence for the leader against each rival."""
        blocks = len(scores)
        differences = scores[:, [leader]] - scores[:, rivals]
        mean = differences.mean(axis=0)
        squares = ((differences - mean) ** 2).sum(axis=0)
        better = _student(mean, squares, blocks)
        return better, _student(mean + self.tolerance, squares, blocks)


def _student(mean: Floats, squares: Floats, blocks: int) -> Floats:
    """Return the log Bayes factor of positive means against zero, shape of `mean`.

    A martingale under mean zero, whatever the variance, from two blocks on.
    """
    if blocks < 2:
        return np.zeros_like(mean)
    grown = 1.0 + blocks / _PRIOR
    # With between = blocks mean^2 the ratio is (squares + between) / (squares + between/grown).
    between = blocks * mean**2
    total = squares + between
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.where(total > 0.0, total / (squares + between / grown), 1.0)
    evidence = 0.5 * (blocks * np.log(ratio) - math.log(grown))
    return np.where(mean > 0.0, evidence, -math.inf)


class BettingEvidence(Evidence):
    """Bets on bounded differences, mixed over fixed stakes; what was won is kept by leader."""

    name = "bets on bounded differences"
    proven = True

    def __init__(self, tolerance: float, width: float) -> None:
        super().__init__(tolerance)
        self.width = width
        self._leader = -1
        self._blocks = 0
        self._won: Floats = np.empty((2, 0, 0))

    def against(self, scores: Floats, leader: int, rivals: Indices) -> tuple[Floats, Floats]:
        """Return the evidence for the leader against each rival."""
        if leader != self._leader or len(scores) < self._blocks:
            self._leader, self._blocks = leader, 0
            self._won = np.zeros((2, scores.shape[1], len(_STAKES)))
        # Block by block, so that a sum is the same to the last bit however often it is taken.
        for block in scores[self._blocks :]:
            difference = (block[leader] - block) / self.width
            self._won[0] += np.log1p(difference[:, None] * _STAKES)
            self._won[1] += np.log1p((difference + self.tolerance / self.width)[:, None] * _STAKES)
        self._blocks = len(scores)
        better, near_enough = _mixed(self._won[:, rivals])
        return better, near_enough


def _mixed(logs: Floats) -> Floats:
    """Return the log of the mean over the last axis, given logs."""
    largest = logs.max(axis=-1)
    mixed: Floats = largest + np.log(np.exp(logs - largest[..., None]).mean(axis=-1))
    return mixed
