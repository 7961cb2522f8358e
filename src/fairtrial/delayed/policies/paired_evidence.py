"""Evidence, in nats, that one arm is better than others on shared blocks."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence import StudentMixture

__all__ = ["BettingEvidence", "Evidence", "StudentEvidence"]

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

# Stakes from nearly all to the best one for gaps of a sixtieth of a standard deviation. Half of the
# capital is on the first, the best one unless scores deviate by more than the root of their gap.
_STAKES: Floats = 0.98 * np.exp2(-0.5 * np.arange(13, dtype=np.float64))
_CAPITAL: Floats = np.array([1 / 2] + 12 * [1 / 24])
# Differences in the last digits of scores count as zero.
_ROUNDING = 8.0 * np.finfo(float).eps
# Whether more blocks can help is checked when the variance of the shared error is this many times
# the variance of the mean of the other errors, and for differences that are larger by this many
# standard errors.
_ENOUGH, _STANDARD_ERRORS = 5.0, 2.0
# Halvings of an interval as wide as differences can be, down to the last digits of a score.
_HALVINGS = 40


class Evidence(ABC):
    """Evidence for every pair against "not better" and "worse by more than the tolerance".

    The probability that any of it ever wrongly reaches log(1/delta) against the best of all arms is
    at most delta, over all leaders and both kinds together. The second kind is never below the
    first, or both come from one confidence sequence.
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
            Scores, complete for the leader and the rivals; larger is better. NaN on blocks after an
            arm has left the race.
        leader : int
            The arm to compare with the rivals.
        rivals : ndarray of int

        Returns
        -------
        better, near_enough : ndarray of shape (rivals,)
            Evidence that the leader is better, and that it is not worse by more than the tolerance.
        """

    @abstractmethod
    def shortfalls(self, scores: Floats, leader: int, rivals: Indices, level: float) -> Floats:
        """Return the smallest tolerance, 0 or more, at which `near_enough` reaches the level."""

    def out_of_reach(self, scores: Floats, leader: int, rivals: Indices, level: float) -> bool:
        """Return whether no number of blocks like these can decide some rival."""
        return False


class StudentEvidence(Evidence):
    """Student's t on differences, mixed over a half-normal prior of the standardised effect.

    Every pair with the best arm gets an equal share of the error probability.

    Parameters
    ----------
    tolerance : float
        How much worse than the best arm an answer may be.
    overlap : float
        The variance of an error that all blocks share, relative to that of a difference.

    Examples
    --------
    >>> scores = np.array([[0.9, 0.5], [0.8, 0.5], [0.9, 0.4], [0.9, 0.5]])
    >>> StudentEvidence(0.0).against(scores, 0, np.array([1]))[0].round(2)
    array([2.87])
    """

    name = "Student mixture"
    proven = False

    def __init__(self, tolerance: float, overlap: float = 0.0) -> None:
        super().__init__(tolerance)
        self.overlap = overlap
        self._mixture = StudentMixture(overlap=overlap)

    def against(self, scores: Floats, leader: int, rivals: Indices) -> tuple[Floats, Floats]:
        """Return the evidence for the leader against each rival."""
        unit, differences = _differences(scores, leader, rivals)
        mean, squares = _moments(differences)
        credit = self.tolerance / unit
        better, near_enough = (
            self._mixture.log_evidence(len(scores), mean + extra, squares) - _for_all_pairs(scores)
            for extra in (0.0, credit)
        )
        return better, near_enough

    def shortfalls(self, scores: Floats, leader: int, rivals: Indices, level: float) -> Floats:
        """Return the smallest tolerance, 0 or more, at which `near_enough` reaches the level."""
        unit, differences = _differences(scores, leader, rivals)
        mean, squares = _moments(differences)
        wanted = level + _for_all_pairs(scores)
        least = self._mixture.least_mean(len(scores), squares, wanted) - mean
        return np.asarray(unit * np.maximum(0.0, least))

    def out_of_reach(self, scores: Floats, leader: int, rivals: Indices, level: float) -> bool:
        """Return whether no number of blocks like these can decide some rival."""
        blocks = len(scores)
        if blocks * self.overlap < _ENOUGH:
            return False
        unit, differences = _differences(scores, leader, rivals)
        mean, squares = _moments(differences)
        deviation = np.sqrt(squares / (blocks - 1))
        most = mean + self.tolerance / unit + _STANDARD_ERRORS * deviation / math.sqrt(blocks)
        known = deviation > 0.0
        limit = self._mixture.in_the_limit(most[known] / deviation[known])
        is_tied = bool((most[~known] <= 0.0).any())
        return is_tied or bool((limit < level + _for_all_pairs(scores)).any())


def _differences(scores: Floats, leader: int, rivals: Indices) -> tuple[float, Floats]:
    """Return a unit, and the leader's advantage on every block in that unit."""
    own, others = scores[:, [leader]] / 2.0, scores[:, rivals] / 2.0
    differences = own - others
    tied = abs(differences) <= _ROUNDING * np.maximum(abs(own), abs(others))
    differences[tied] = 0.0
    unit = float(abs(differences).max(initial=0.0)) or 1.0
    return 2.0 * unit, differences / unit


def _moments(differences: Floats) -> tuple[Floats, Floats]:
    """Return the mean over blocks, and the sum of squares about the mean."""
    if not len(differences):
        return np.zeros(differences.shape[1]), np.zeros(differences.shape[1])
    mean = differences.mean(axis=0)
    return mean, ((differences - mean) ** 2).sum(axis=0)


def _for_all_pairs(scores: Floats) -> float:
    """Return the additional evidence that all pairs with the best arm need, beyond one pair."""
    return math.log(max(1, scores.shape[1] - 1))


class BettingEvidence(Evidence):
    """Bets on bounded differences, mixed over fixed stakes.

    Half of the capital against an arm is bet on the best of the other arms before each block.
    Against the best arm, such bets gain nothing on average, whichever arm they are on, so they need
    no union bound over rivals. They include the tolerance if they are on the current leader. The
    other half is bet on the current leader from the first block on, in equal parts for every arm
    that might lead.

    If `n_blocks` blocks are drawn without replacement and their overall mean is at most 0, the
    remaining blocks have a mean of at most ``-won / left``; a bet pays on the excess over it.
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
        """Return the smallest tolerance, 0 or more, at which `near_enough` reaches the level."""
        blocks, arms = scores.shape
        bets = np.empty((3, blocks, 2, arms))
        sums = np.zeros(arms)
        for at, block in enumerate(scores / self.width):
            bets[:, at] = _bets(block, sums, leader)
            sums = sums + block
        bets, before = bets[..., rivals], np.arange(blocks)[:, None, None]
        # A difference is never below -1, so a tolerance of 1 needs no evidence.
        low, high = np.zeros(len(rivals)), np.ones(len(rivals))
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            enough = _capital(self._growth(bets, middle, before).sum(axis=0), arms) >= level
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return high * self.width

    def _growth(
        self, bets: Floats, tolerance: float | Floats, before: int | NDArray[np.intp]
    ) -> Floats:
        """Return the gain of every log capital by a block with `before` blocks before it."""
        difference, won, is_on_leader = bets
        credit = tolerance * is_on_leader
        expected = np.maximum(0.0, -(won + credit * before) / (self.n_blocks - before))
        gain = (difference + credit - expected) / (1.0 + expected)
        growth: Floats = np.log1p(gain[..., None] * _STAKES)
        return growth


def _bets(block: Floats, sums: Floats, leader: int) -> Floats:
    """Return the subjects of the bets against every arm, shape (3, 2, arms).

    The first axis holds the difference on this block, its sum over earlier blocks, and whether it
    is the current leader's. The second axis holds the best of the other arms before the block, and
    the current leader.
    """
    on = np.stack([_best_others(block, sums), np.full(len(block), leader)])
    return np.stack([block[on] - block, sums[on] - sums, on == leader])


def _best_others(block: Floats, sums: Floats) -> Indices:
    """Return for every arm the best other arm before a block, among the arms on that block."""
    raced = np.where(np.isnan(block), -math.inf, sums)
    best = int(raced.argmax())
    others = np.full(len(block), best)
    raced[best] = -math.inf
    others[best] = raced.argmax()
    return others


def _capital(logs: Floats, arms: int) -> Floats:
    """Return the log capital against every arm, given that by bet, arm and stake."""
    largest = logs.max(axis=-1)
    shares = np.exp(logs - largest[..., None])
    followed, hindsight = largest + np.log((shares * _CAPITAL).sum(axis=-1))
    mixed: Floats = np.logaddexp(followed, hindsight - math.log(max(1, arms - 1))) - math.log(2.0)
    return mixed
