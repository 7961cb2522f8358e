"""Evidence on shared blocks if a cheap judge's scores of all arms on all blocks are known."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fairtrial.delayed.policies.paired_evidence import BettingEvidence, gains, smallest_credit

__all__ = ["Judge", "JudgedEvidence", "Slopes"]

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

_HALVINGS = 12
# A slope counts fully when much more than this many blocks support it.
_BLOCKS_FOR_A_SLOPE = 4.0
_HALF = math.log(0.5)


class Judge:
    """A judge's scores of all arms on all blocks, in the order of the race.

    Parameters
    ----------
    scores : ndarray of shape (blocks, arms)
        The scores, in units of the range of scores.
    """

    def __init__(self, scores: Floats) -> None:
        self.scores = scores
        left = np.arange(len(scores), 0, -1)[:, None]
        self.means_left: Floats = scores[::-1].cumsum(axis=0)[::-1] / left
        self.largest_left: Floats = np.maximum.accumulate(scores[::-1])[::-1]
        self.smallest_left: Floats = np.minimum.accumulate(scores[::-1])[::-1]
        between = np.atleast_2d(np.cov(scores, rowvar=False, ddof=0))
        own = np.diagonal(between)
        self.variances: Floats = np.maximum(0.0, own[:, None] + own - 2.0 * between)
        """The variance of the difference of two arms over all blocks."""

    def surprise(self, block: int, one: Indices | int, other: Indices | int) -> Floats:
        """Return how much the judged difference of arms exceeds its mean over the blocks left."""
        excess = self.scores[block] - self.means_left[block]
        return np.asarray(excess[one] - excess[other])

    def largest_surprise(self, block: int, one: Indices | int, other: Indices | int) -> Floats:
        """Return a bound on the surprise of every block that is left before this one."""
        up = self.largest_left[block] - self.means_left[block]
        down = self.means_left[block] - self.smallest_left[block]
        return np.asarray(up[one] + down[other])

    def explained(self, scores: Floats, leader: int, rival: int) -> float:
        """Return the share of the variance of a difference that the judge explains.

        The scores are those of the first blocks, in units of the range.
        """
        own, judged = scores[:, leader] - scores[:, rival], self.scores[: len(scores)]
        if len(own) < 2:
            return 0.0
        between = np.cov(own, judged[:, leader] - judged[:, rival])
        size = float(between[0, 0] * between[1, 1])
        return 0.0 if size <= 0.0 else float(max(0.0, between[0, 1]) ** 2 / size)


class Slopes:
    """Slopes from 0 to 1 of the differences of arms on those of the judge, on blocks so far.

    Parameters
    ----------
    variances : ndarray of shape (arms, arms)
        The variance of each judged difference over all blocks.
    """

    def __init__(self, variances: Floats) -> None:
        self._variances = variances
        self._blocks = np.zeros(variances.shape)
        self._moments = np.zeros((4, *variances.shape))

    def add(self, scores: Floats, judged: Floats) -> None:
        """Take the scores of arms on a block into account, in units of the range, unless NaN."""
        own, other = scores[:, None] - scores, judged[:, None] - judged
        is_known = ~np.isnan(own)
        new = np.stack([own, other, own * other, other * other])
        self._moments += np.where(is_known, new, 0.0)
        self._blocks += is_known

    def of(self, one: Indices | int, other: Indices | int) -> Floats:
        """Return the slopes of the differences of pairs of arms."""
        own, judged, product, square = self._moments[:, one, other]
        blocks = np.maximum(1.0, self._blocks[one, other])
        together = product - own * judged / blocks
        variances = self._variances[one, other]
        spread = square - judged * judged / blocks + _BLOCKS_FOR_A_SLOPE * variances
        slope = np.where(spread > 0.0, together / np.where(spread > 0.0, spread, 1.0), 0.0)
        return np.clip(slope, 0.0, 1.0)


class JudgedEvidence(BettingEvidence):
    """Bets on bounded differences, half of the capital after subtracting what a judge predicts.

    The judge's mean difference over the blocks left is known, so a part of its surprise on a block
    can be subtracted from the difference without changing the expectation. The part is the slope of
    earlier differences on those of the judge. docs/explanation/races.md has the proof.

    Parameters
    ----------
    tolerance : float
        How much worse than the best arm an answer may be.
    width : float
        The width of the range of scores.
    n_blocks : int
        Number of all blocks, which are drawn without replacement.
    judge : Judge
        The judge.
    """

    name = "bets on bounded differences and a judge"

    def __init__(self, tolerance: float, width: float, n_blocks: int, judge: Judge) -> None:
        super().__init__(tolerance, width, n_blocks)
        self._judge = judge
        self._bets: _Bets | None = None

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
        bets = self._bets
        if bets is None or bets.leader != leader or bets.blocks > len(scores):
            credit = np.full(arms, self.tolerance / self.width)
            bets = self._bets = self._fresh(leader, credit)
        bets.add(scores / self.width, targets)
        better, near_enough = (self._wealth(bets.logs[:, at], rivals) for at in (0, 1))
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
        arms = np.arange(scores.shape[1])

        def wealth(credit: Floats) -> Floats:
            bets = self._fresh(leader, credit)
            bets.add(scores / self.width, targets)
            return self._wealth(bets.logs[:, 1], arms)

        credit = smallest_credit(wealth, level, len(arms), _HALVINGS)
        return np.asarray(credit[rivals] * self.width)

    def _fresh(self, leader: int, credit: Floats) -> _Bets:
        return _Bets(leader, credit, self.n_blocks, self._judge, self._stakes)

    def _wealth(self, logs: Floats, rivals: Indices) -> Floats:
        parts = [self._capital(part[:, rivals], logs.shape[2]) + _HALF for part in logs]
        # Infinite evidence is meant, and arms that have left have none.
        with np.errstate(invalid="ignore"):
            return np.asarray(np.logaddexp(*parts))


class _Bets:
    """The log capital against every arm, by judge, tolerance, bet and stake.

    Parameters
    ----------
    leader : int
        The arm that could be the answer.
    credit : ndarray of shape (arms,)
        The tolerance against every arm, in units of the range.
    n_blocks : float
        Number of all blocks.
    judge : Judge
        The judge.
    stakes : ndarray
        Stakes at the start.
    """

    def __init__(
        self, leader: int, credit: Floats, n_blocks: float, judge: Judge, stakes: Floats
    ) -> None:
        arms = len(credit)
        self.leader, self.blocks = leader, 0
        self.logs = np.zeros((2, 2, 2, arms, len(stakes)))
        self._credit, self._n_blocks, self._judge, self._stakes = credit, n_blocks, judge, stakes
        self._sums = np.zeros(arms)
        self._slopes = Slopes(judge.variances)

    def add(self, scores: Floats, targets: Indices) -> None:
        """Bet on the blocks that are new, one after the other."""
        for at in range(self.blocks, len(scores)):
            self._add_block(scores[at], targets[at])
            self.blocks += 1

    def _add_block(self, scores: Floats, targets: Indices) -> None:
        arms, block = np.arange(len(scores)), self.blocks
        followed = np.where(arms == targets[0], targets[1], targets[0])
        on = np.stack([followed, np.full(len(arms), self.leader)])
        slope = self._slopes.of(on, arms)
        plain = scores[on] - scores
        adjusted = plain - slope * self._judge.surprise(block, on, arms)
        reach = slope * self._judge.largest_surprise(block, on, arms)
        won = self._sums[on] - self._sums
        for part, difference, low in ((0, plain, 0.0), (1, adjusted, reach)):
            for at, tolerance in enumerate((0.0, self._credit * (on == self.leader))):
                self.logs[part, at] += gains(
                    difference + tolerance,
                    won + tolerance * block,
                    block,
                    self._n_blocks,
                    self._stakes,
                    low,
                )
        self._sums = self._sums + scores
        self._slopes.add(scores, self._judge.scores[block])
