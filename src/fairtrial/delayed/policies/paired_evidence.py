"""Evidence, in nats, that one arm is better than others on shared blocks."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence import StudentMixture

__all__ = [
    "BettingEvidence",
    "Evidence",
    "StudentEvidence",
    "best_two",
    "gains",
    "leading",
    "smallest_credit",
    "stakes_for",
]

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

# Stakes from nearly all to the best one for gaps of a sixtieth of a standard deviation. Half of the
# capital is on the first, the best one unless scores deviate by more than the root of their gap.
_LARGEST_STAKE, _MOST_STAKES = 0.98, 13
# A race over N blocks ends before smaller stakes than this, divided by the root of N, could win.
_SMALLEST_USEFUL = 2.0
# The parts of the capital on the arm that led before each block, and on the current leader.
_FOLLOWED, _HINDSIGHT = 0.8, 0.2
# What remains of a bet's room when its hypothesis is as good as impossible; only rounding matters.
_NO_ROOM = 1e-9
# Differences in the last digits of scores count as zero.
_ROUNDING = 8.0 * np.finfo(float).eps
# Whether more blocks can help is checked when the variance of the shared error is this many times
# the variance of the mean of the other errors, and for differences that are larger by this many
# standard errors.
_ENOUGH, _STANDARD_ERRORS = 5.0, 2.0
# Halvings of an interval as wide as differences can be, down to the last digits of a score.
_HALVINGS = 40
_NOBODY = -1


class Evidence(ABC):
    """Evidence for every pair against "not better" and "worse by more than the tolerance".

    The probability that any of it ever wrongly reaches log(1/delta) against the best of all arms is
    at most delta, over all leaders and both kinds together. The second kind is never below the
    first, or both come from one confidence sequence.
    """

    name: str
    proven: ClassVar[bool]

    def __init__(self, tolerance: float) -> None:
        self.tolerance = tolerance

    @abstractmethod
    def against(
        self,
        scores: Floats,
        targets: Indices,
        leader: int,
        rivals: Indices,
        left_out: NDArray[np.int8] | None = None,
    ) -> tuple[Floats, Floats]:
        """Return the evidence for the leader against each rival.

        Parameters
        ----------
        scores : ndarray of shape (blocks, arms)
            Scores, complete for the leader and the rivals; larger is better. NaN on blocks after an
            arm has left the race.
        targets : ndarray of int, shape (blocks, 2)
            The best and the second-best arm before each block, among the arms on that block.
        leader : int
            The arm to compare with the rivals.
        rivals : ndarray of int
        left_out : ndarray of int8, shape (blocks, arms), optional
            Codes of what a part of the bets leaves out (`limited_evidence`). Scores are NaN until
            they are known. Only with limits.

        Returns
        -------
        better, near_enough : ndarray of shape (rivals,)
            Evidence that the leader is better, and that it is not worse by more than the tolerance.
        """

    @abstractmethod
    def shortfalls(
        self,
        scores: Floats,
        targets: Indices,
        leader: int,
        rivals: Indices,
        level: float,
        left_out: NDArray[np.int8] | None = None,
    ) -> Floats:
        """Return the smallest tolerance, 0 or more, at which `near_enough` reaches the level."""

    def out_of_reach(
        self, scores: Floats, targets: Indices, leader: int, rivals: Indices, level: float
    ) -> bool:
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
    >>> targets = leading(scores)
    >>> StudentEvidence(0.0).against(scores, targets, 0, np.array([1]))[0].round(2)
    array([2.87])
    """

    name = "Student mixture"
    proven = False

    def __init__(self, tolerance: float, overlap: float = 0.0) -> None:
        super().__init__(tolerance)
        self.overlap = overlap
        self._mixture = StudentMixture(overlap=overlap)

    def against(
        self,
        scores: Floats,
        targets: Indices,
        leader: int,
        rivals: Indices,
        left_out: NDArray[np.int8] | None = None,
    ) -> tuple[Floats, Floats]:
        """Return the evidence for the leader against each rival."""
        unit, differences = _differences(scores, leader, rivals)
        mean, squares = _moments(differences)
        credit = self.tolerance / unit
        better, near_enough = (
            self._mixture.log_evidence(len(scores), mean + extra, squares) - _for_all_pairs(scores)
            for extra in (0.0, credit)
        )
        return better, near_enough

    def shortfalls(
        self,
        scores: Floats,
        targets: Indices,
        leader: int,
        rivals: Indices,
        level: float,
        left_out: NDArray[np.int8] | None = None,
    ) -> Floats:
        """Return the smallest tolerance, 0 or more, at which `near_enough` reaches the level."""
        unit, differences = _differences(scores, leader, rivals)
        mean, squares = _moments(differences)
        wanted = level + _for_all_pairs(scores)
        least = self._mixture.least_mean(len(scores), squares, wanted) - mean
        return np.asarray(unit * np.maximum(0.0, least))

    def out_of_reach(
        self, scores: Floats, targets: Indices, leader: int, rivals: Indices, level: float
    ) -> bool:
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

    Most of the capital against an arm is bet on the best of the other arms before each block.
    Against the best arm, such bets gain nothing on average, whichever arm they are on, so they need
    no union bound over rivals. They include the tolerance if they are on the current leader. The
    rest is bet on the current leader from the first block on, in equal parts for every arm that
    might lead.

    If `n_blocks` blocks are drawn without replacement and their overall mean is at most 0, the
    remaining blocks have a mean of at most ``-won / left``, which is negative while an arm is
    ahead. A bet pays on the excess over it, with a stake that grows as fewer blocks are left. Once
    no scores of the remaining blocks could make the overall mean 0, the evidence is infinite.

    docs/explanation/races.md has the proof.

    Parameters
    ----------
    tolerance : float
        How much worse than the best arm an answer may be.
    width : float
        The width of the range of scores.
    n_blocks : int, optional
        Number of all blocks, if they are drawn without replacement.
    """

    name = "bets on bounded differences"
    proven = True

    def __init__(self, tolerance: float, width: float, n_blocks: int | None = None) -> None:
        super().__init__(tolerance)
        self.width = width
        self.n_blocks = math.inf if n_blocks is None else n_blocks
        self._stakes, self._log_shares = stakes_for(self.n_blocks)
        self._leader = _NOBODY
        self._blocks = 0
        self._sums: Floats
        self._logs: Floats

    def against(
        self,
        scores: Floats,
        targets: Indices,
        leader: int,
        rivals: Indices,
        left_out: NDArray[np.int8] | None = None,
    ) -> tuple[Floats, Floats]:
        """Return the evidence for the leader against each rival."""
        arms = scores.shape[1]
        if leader != self._leader or len(scores) < self._blocks:
            self._leader, self._blocks = leader, 0
            self._sums = np.zeros(arms)
            self._logs = np.zeros((2, 2, arms, len(self._stakes)))
        new = slice(self._blocks, len(scores))
        bets, self._sums = _bets(scores[new] / self.width, targets[new], self._sums, leader)
        before = np.arange(new.start, new.stop)[:, None, None]
        for logs, tolerance in zip(self._logs, (0.0, self.tolerance / self.width), strict=True):
            logs[:] = _added(logs, self._growth(bets, tolerance, before))
        self._blocks = len(scores)
        better, near_enough = (self._capital(logs[:, rivals], arms) for logs in self._logs)
        return better, near_enough

    def shortfalls(
        self,
        scores: Floats,
        targets: Indices,
        leader: int,
        rivals: Indices,
        level: float,
        left_out: NDArray[np.int8] | None = None,
    ) -> Floats:
        """Return the smallest tolerance, 0 or more, at which `near_enough` reaches the level."""
        blocks, arms = scores.shape
        bets, _ = _bets(scores / self.width, targets, np.zeros(arms), leader)
        bets, before = bets[..., rivals], np.arange(blocks)[:, None, None]

        def capital(credit: Floats) -> Floats:
            return self._capital(self._growth(bets, credit, before).sum(axis=0), arms)

        return smallest_credit(capital, level, len(rivals)) * self.width

    def _growth(self, bets: Floats, tolerance: float | Floats, before: NDArray[np.intp]) -> Floats:
        """Return the gain of every log capital by blocks with `before` blocks before them."""
        difference, won, is_on_leader = bets
        credit = tolerance * is_on_leader
        return gains(
            difference + credit, won + credit * before, before, self.n_blocks, self._stakes
        )

    def _capital(self, logs: Floats, arms: int) -> Floats:
        """Return the log capital against every arm, given that by bet, arm and stake."""
        # Infinite evidence is meant, and arms that have left have none.
        with np.errstate(invalid="ignore"):
            followed, hindsight = np.logaddexp.reduce(logs + self._log_shares, axis=-1)
            hindsight = hindsight + math.log(_HINDSIGHT / max(1, arms - 1))
            mixed: Floats = np.logaddexp(followed + math.log(_FOLLOWED), hindsight)
        return mixed


def smallest_credit(
    capital: Callable[[Floats], Floats], level: float, number: int, halvings: int = _HALVINGS
) -> Floats:
    """Return for each of `number` arms the smallest credit at which its capital reaches a level.

    A difference is never below -1, so a credit of 1 needs no evidence.
    """
    low, high = np.zeros(number), np.ones(number)
    for _ in range(halvings):
        middle = (low + high) / 2.0
        enough = capital(middle) >= level
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high


def gains(
    difference: Floats,
    won: Floats,
    before: int | NDArray[np.intp],
    n_blocks: float,
    stakes: Floats,
    reach: float | Floats = 0.0,
) -> Floats:
    """Return what log capitals gain by differences of at least -1 - reach, for every stake.

    Parameters
    ----------
    difference : ndarray
        Differences on a block.
    won : ndarray
        Their sums over earlier blocks.
    before : int or ndarray of int
        Number of earlier blocks.
    n_blocks : float
        Number of all blocks if they are drawn without replacement, or infinity.
    stakes : ndarray
        Stakes at the start.
    reach : float or ndarray
        How far below -1 an adjusted difference may be. The sums are of differences themselves,
        which are at least -1.

    Returns
    -------
    ndarray
        The last axis is that of the stakes. Infinite if the overall mean is certainly positive.

    Examples
    --------
    >>> gains(np.array([0.5]), np.array([0.0]), 0, math.inf, np.array([0.8])).round(3)
    array([[0.336]])
    """
    expected = -won / (n_blocks - before)
    room = 1.0 + expected + reach
    has_room = room > _NO_ROOM
    largest = _LARGEST_STAKE / np.where(has_room, room, 1.0)
    growing = stakes / (1.0 - np.asarray(before) / n_blocks)[..., None]
    gain = np.where(has_room, difference - expected, 0.0)
    growth: Floats = np.log1p(np.minimum(growing, largest[..., None]) * gain[..., None])
    growth[1.0 + expected < -_NO_ROOM] = math.inf
    return growth


def stakes_for(n_blocks: float) -> tuple[Floats, Floats]:
    """Return stakes, and the logarithms of the parts of the capital on them."""
    ratio = _LARGEST_STAKE * math.sqrt(n_blocks) / _SMALLEST_USEFUL
    number = 1 + int(min(_MOST_STAKES - 1.0, max(0.0, 2.0 * math.log2(ratio))))
    stakes = _LARGEST_STAKE * np.exp2(-0.5 * np.arange(number, dtype=np.float64))
    shares = np.full(number, 0.5 / max(1, number - 1))
    shares[0] = 1.0 if number == 1 else 0.5
    return stakes, np.log(shares)


def leading(scores: Floats) -> Indices:
    """Return the best and the second-best arm before each block, among the arms on that block."""
    sums = _before(scores, np.zeros(scores.shape[1]))[:-1]
    return best_two(np.where(np.isnan(scores), -math.inf, sums))


def best_two(sums: Floats) -> Indices:
    """Return the places of the largest and the second-largest sum; twice the same of a single one.

    Examples
    --------
    >>> best_two(np.array([0.5, 2.0, 2.0, 1.0]))
    array([1, 2])
    """
    ranked = np.argsort(-sums, axis=-1, kind="stable")
    return ranked[..., [0, min(1, sums.shape[-1] - 1)]]


def _before(scores: Floats, sums: Floats) -> Floats:
    """Return the sums before each block, and after the last one, added in the order of blocks."""
    return np.concatenate([sums[None], scores]).cumsum(axis=0)


def _added(logs: Floats, growth: Floats) -> Floats:
    """Return logarithms after the growth by blocks, added in the order of blocks."""
    total: Floats = np.concatenate([logs[None], growth]).cumsum(axis=0)[-1]
    return total


def _bets(scores: Floats, targets: Indices, sums: Floats, leader: int) -> tuple[Floats, Floats]:
    """Return the subjects of the bets against every arm, shape (3, blocks, 2, arms), and new sums.

    The first axis holds the difference on a block, its sum over earlier blocks, and whether it is
    the current leader's. The third axis holds the best of the other arms before the block, and the
    current leader.
    """
    blocks, arms = scores.shape
    best, second = targets[:, [0]], targets[:, [1]]
    followed = np.where(best == np.arange(arms), second, best)
    on = np.stack([followed, np.full((blocks, arms), leader)], axis=1).reshape(blocks, 2 * arms)
    before = _before(scores, sums)
    subjects = [
        np.take_along_axis(values, on, axis=1).reshape(blocks, 2, arms) - values[:, None]
        for values in (scores, before[:-1])
    ]
    is_on_leader = (on == leader).reshape(blocks, 2, arms)
    return np.stack([*subjects, is_on_leader]), before[-1]
