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

    That any of it ever reaches log(1/delta) against the best of all arms, and wrongly, has at most
    probability delta: over all arms that lead, and over both kinds. The second is never below
    the first, or both come of one confidence sequence.
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
            Complete for the leader and the rivals; larger is better. Not a number from the
            block on before which an arm had left the race.
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

    Every pair with the best arm has an equal share of the probability of error.

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
        near_enough = _student(mean + self.tolerance, squares, blocks)
        return better - _for_all_pairs(scores), near_enough - _for_all_pairs(scores)

    def shortfalls(self, scores: Floats, leader: int, rivals: Indices, level: float) -> Floats:
        """Return the least tolerance, 0 or more, at which `near_enough` reaches the level."""
        blocks = len(scores)
        differences = scores[:, [leader]] - scores[:, rivals]
        grown = 1.0 + blocks / _PRIOR
        # Solved for `between` in `_student`; no mean is enough while the ratio is out of reach.
        wanted = 2.0 * (level + _for_all_pairs(scores)) + math.log(grown)
        ratio = math.exp(wanted / max(blocks, 1))
        if blocks < 2 or ratio >= grown:
            return np.full(len(rivals), math.inf)
        mean = differences.mean(axis=0)
        squares = ((differences - mean) ** 2).sum(axis=0)
        between = squares * (ratio - 1.0) / (1.0 - ratio / grown)
        least: Floats = np.maximum(0.0, np.sqrt(between / blocks) - mean)
        return least


def _for_all_pairs(scores: Floats) -> float:
    """Return what evidence for one pair is short of evidence for all pairs with the best arm."""
    return math.log(max(1, scores.shape[1] - 1))


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
    """Bets on bounded differences, mixed over fixed stakes.

    One half of the capital against an arm is bet on whichever of the others led before the
    block. Against the best arm such bets win nothing on average, whichever arm they are on, and so
    need no union over rivals. They count the tolerance where they are on today's leader. The
    other half is bet on today's leader from the first block on, in equal parts for every arm
    that might lead.

    Of `n_blocks` blocks that are drawn without replacement, the remaining ones have a mean of
    at most ``-won / left`` if all have one of at most 0; a bet pays on what exceeds that.
    """

    name = "bets on bounded differences"
    proven = True

    def __init__(self, tolerance: float, width: float, n_blocks: int | None = None) -> None:
        super().__init__(tolerance)
        self.width = width
        self.n_blocks = math.inf if n_blocks is None else n_blocks
        self._leader = -1
        self._blocks = 0
        self._sums: Floats
        self._logs: Floats

    def against(self, scores: Floats, leader: int, rivals: Indices) -> tuple[Floats, Floats]:
        """Return the evidence for the leader against each rival."""
        arms = scores.shape[1]
        if leader != self._leader or len(scores) < self._blocks:
            self._leader, self._blocks = leader, 0
            self._sums = np.zeros(arms)
            self._logs = np.zeros((2, 2, arms, len(_STAKES)))
        for block in scores[self._blocks :] / self.width:
            bets = _bets(block, self._sums, leader)
            for logs, tolerance in zip(self._logs, (0.0, self.tolerance / self.width), strict=True):
                logs += self._growth(bets, tolerance, self._blocks)
            self._sums = self._sums + block
            self._blocks += 1
        better, near_enough = (_capital(logs[:, rivals], arms) for logs in self._logs)
        return better, near_enough

    def shortfalls(self, scores: Floats, leader: int, rivals: Indices, level: float) -> Floats:
        """Return the least tolerance, 0 or more, at which `near_enough` reaches the level."""
        blocks, arms = scores.shape
        bets = np.empty((3, blocks, 2, arms))
        sums = np.zeros(arms)
        for at, block in enumerate(scores / self.width):
            bets[:, at] = _bets(block, sums, leader)
            sums = sums + block
        bets, before = bets[..., rivals], np.arange(blocks)[:, None, None]
        # A difference is never below -1: a tolerance of 1 needs no evidence.
        low, high = np.zeros(len(rivals)), np.ones(len(rivals))
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            enough = _capital(self._growth(bets, middle, before).sum(axis=0), arms) >= level
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return high * self.width

    def _growth(
        self, bets: Floats, tolerance: float | Floats, before: int | NDArray[np.intp]
    ) -> Floats:
        """Return what the log of every capital gains by the block after that many others."""
        difference, won, is_on_leader = bets
        credit = tolerance * is_on_leader
        expected = np.maximum(0.0, -(won + credit * before) / (self.n_blocks - before))
        gain = (difference + credit - expected) / (1.0 + expected)
        growth: Floats = np.log1p(gain[..., None] * _STAKES)
        return growth


def _bets(block: Floats, sums: Floats, leader: int) -> Floats:
    """Return what bets against every arm are about, shape (3, 2, arms).

    The difference on this block, its sum over those before, and whether it is the leader's:
    of the arm that led the others before, and of the one that leads now.
    """
    on = np.stack([_best_others(block, sums), np.full(len(block), leader)])
    return np.stack([block[on] - block, sums[on] - sums, on == leader])


def _best_others(block: Floats, sums: Floats) -> Indices:
    """Return for every arm the best of the others before a block, of those that are raced on it."""
    raced = np.where(np.isnan(block), -math.inf, sums)
    best = int(raced.argmax())
    others = np.full(len(block), best)
    raced[best] = -math.inf
    others[best] = raced.argmax()
    return others


def _capital(logs: Floats, arms: int) -> Floats:
    """Return the log of the capital against every arm, of that by bet, arm and stake."""
    largest = logs.max(axis=-1)
    shares = np.exp(logs - largest[..., None])
    followed, hindsight = largest + np.log((shares * _CAPITAL).sum(axis=-1))
    mixed: Floats = np.logaddexp(followed, hindsight - math.log(max(1, arms - 1))) - math.log(2.0)
    return mixed
