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

# Stakes from nearly all to what suits gaps a sixtieth of a standard deviation wide. Half of the
# capital is on the first: the best one unless scores deviate by more than the root of their gap.
_STAKES: Floats = 0.98 * np.exp2(-0.5 * np.arange(13, dtype=np.float64))
_CAPITAL: Floats = np.array([1 / 2] + 12 * [1 / 24])
# How many blocks the prior of a standardised difference counts for.
_PRIOR = 1.0
# Of an interval as wide as differences are, to the last digits of a score.
_HALVINGS = 40


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

    @abstractmethod
    def shortfalls(self, scores: Floats, leader: int, rivals: Indices, level: float) -> Floats:
        """Return the least tolerance, 0 or more, at which `near_enough` reaches the level."""


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

    def shortfalls(self, scores: Floats, leader: int, rivals: Indices, level: float) -> Floats:
        """Return the least tolerance, 0 or more, at which `near_enough` reaches the level."""
        blocks = len(scores)
        differences = scores[:, [leader]] - scores[:, rivals]
        grown = 1.0 + blocks / _PRIOR
        # Solved for `between` in `_student`; no mean is enough while the ratio is out of reach.
        ratio = math.exp((2.0 * level + math.log(grown)) / max(blocks, 1))
        if blocks < 2 or ratio >= grown:
            return np.full(len(rivals), math.inf)
        mean = differences.mean(axis=0)
        squares = ((differences - mean) ** 2).sum(axis=0)
        between = squares * (ratio - 1.0) / (1.0 - ratio / grown)
        least: Floats = np.maximum(0.0, np.sqrt(between / blocks) - mean)
        return least


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
    """Bets on bounded differences, mixed over fixed stakes; what was won is kept by leader.

    Of `n_blocks` blocks that are drawn without replacement, those still to come have a mean of
    at most ``-won / left`` if all have one of at most 0; a bet pays on what exceeds that.
    """

    name = "bets on bounded differences"
    proven = True

    def __init__(self, tolerance: float, width: float, n_blocks: int | None = None) -> None:
        super().__init__(tolerance)
        self.width = width
        self.n_blocks = n_blocks
        self._leader = -1
        self._blocks = 0
        self._books: tuple[_Book, _Book]

    def against(self, scores: Floats, leader: int, rivals: Indices) -> tuple[Floats, Floats]:
        """Return the evidence for the leader against each rival."""
        if leader != self._leader or len(scores) < self._blocks:
            self._leader, self._blocks = leader, 0
            self._books = self._book(scores.shape[1]), self._book(scores.shape[1])
        for block in scores[self._blocks :]:
            difference = (block[leader] - block) / self.width
            self._books[0].take(difference)
            self._books[1].take(difference + self.tolerance / self.width)
        self._blocks = len(scores)
        better, near_enough = (book.evidence()[rivals] for book in self._books)
        return better, near_enough

    def shortfalls(self, scores: Floats, leader: int, rivals: Indices, level: float) -> Floats:
        """Return the least tolerance, 0 or more, at which `near_enough` reaches the level."""
        differences = (scores[:, [leader]] - scores[:, rivals]) / self.width
        # A difference is never below -1: a tolerance of 1 needs no evidence.
        low, high = np.zeros(len(rivals)), np.ones(len(rivals))
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            book = self._book(len(rivals))
            for difference in differences:
                book.take(difference + middle)
            enough = book.evidence() >= level
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return high * self.width

    def _book(self, arms: int) -> _Book:
        return _Book(arms, self.n_blocks)


class _Book:
    """What bets on differences have won, by arm, block by block."""

    def __init__(self, arms: int, n_blocks: int | None) -> None:
        self._left = math.inf if n_blocks is None else n_blocks
        self._sums = np.zeros(arms)
        self._logs = np.zeros((arms, len(_STAKES)))

    def take(self, difference: Floats) -> None:
        """Bet on one block."""
        expected = np.maximum(0.0, -self._sums / self._left)
        gain = (difference - expected) / (1.0 + expected)
        self._logs += np.log1p(gain[:, None] * _STAKES)
        self._sums += difference
        self._left -= 1

    def evidence(self) -> Floats:
        """Return the log of the capital, by arm."""
        largest = self._logs.max(axis=1)
        shares = np.exp(self._logs - largest[:, None])
        mixed: Floats = largest + np.log((shares * _CAPITAL).sum(axis=1))
        return mixed
