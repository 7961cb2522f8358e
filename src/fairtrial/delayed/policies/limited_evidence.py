"""Evidence on shared blocks if no category of them may be worse than that of a control."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fairtrial.delayed.policies.paired_evidence import (
    BettingEvidence,
    gains,
    smallest_credit,
    stakes_for,
)

__all__ = ["LimitedEvidence", "Limits"]

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

_FOLLOWED, _HINDSIGHT, _OWN = 0.6, 0.2, 0.2
_HALVINGS = 12
# Means on the margin are within it: only rounding matters.
_ROUNDING = 1e-9


class Limits:
    """Limits against a control: in no category may an answer be worse by more than a margin.

    Parameters
    ----------
    control : int
        The control.
    margin : float
        How much worse than the control an answer's mean in a category may be.
    categories : ndarray of int
        The category of each block, in the order of the race.
    has_end : bool
        Whether these blocks are all that there are, or a sample.
    """

    def __init__(self, control: int, margin: float, categories: Indices, *, has_end: bool) -> None:
        self.control = control
        self.margin = margin
        self.categories = categories
        counts = np.bincount(categories).astype(float)
        self.sizes: Floats = counts if has_end else np.full(len(counts), math.inf)

    def excess(self, scores: Floats) -> Floats:
        """Return the sum by which arms exceed their limits, by category and arm.

        It is negative where an arm breaks a limit on these blocks.
        """
        gaps = scores - scores[:, [self.control]] + self.margin
        sums = np.zeros((len(self.sizes), scores.shape[1]))
        np.add.at(sums, self.categories[: len(scores)], gaps)
        return sums

    def are_kept(self, scores: Floats) -> NDArray[np.bool_]:
        """Return whether the means of arms on these blocks are within all limits."""
        tried = np.bincount(self.categories[: len(scores)], minlength=len(self.sizes))
        room = self.excess(scores) + _ROUNDING * tried[:, None]
        kept = np.asarray((room >= 0.0).all(axis=0))
        kept[self.control] = True
        return kept


class LimitedEvidence(BettingEvidence):
    """Bets on bounded differences, and on limits against a control.

    Each block has one target, the best arm that seems to keep its limits. A bet says that the
    target is better, or that the target keeps its limit in the category of the block. If k is the
    right answer, then for each target either the first kind of bet gains nothing on average, or the
    second kind does for one of its limits: the smaller capital counts. A part of the capital bets
    that k itself breaks a limit. docs/explanation/races.md has the proof.

    Parameters
    ----------
    tolerance : float
        How much worse than the best arm an answer may be.
    width : float
        The width of the range of scores.
    n_blocks : int or None
        Number of all blocks, if they are drawn without replacement.
    limits : Limits
        The limits.
    """

    name = "bets on bounded differences and limits"

    def __init__(
        self, tolerance: float, width: float, n_blocks: int | None, limits: Limits
    ) -> None:
        super().__init__(tolerance, width, n_blocks)
        self._limits = limits
        self._capital_of: _Capital | None = None

    def against(
        self, scores: Floats, targets: Indices, leader: int, rivals: Indices
    ) -> tuple[Floats, Floats]:
        """Return the evidence for the leader against each rival."""
        capital = self._capital_of
        if capital is None or capital.leader != leader or capital.blocks > len(scores):
            credit = np.full(scores.shape[1], self.tolerance / self.width)
            capital = self._capital_of = self._fresh(leader, credit)
        capital.add(scores / self.width, targets)
        # Infinite evidence is meant, and arms that have left have none.
        with np.errstate(invalid="ignore"):
            better, near_enough = capital.wealth()
        return better[rivals], near_enough[rivals]

    def shortfalls(
        self, scores: Floats, targets: Indices, leader: int, rivals: Indices, level: float
    ) -> Floats:
        """Return the smallest tolerance, 0 or more, at which `near_enough` reaches the level."""

        def wealth(credit: Floats) -> Floats:
            capital = self._fresh(leader, credit)
            capital.add(scores / self.width, targets)
            with np.errstate(invalid="ignore"):
                return capital.wealth()[1]

        credit = smallest_credit(wealth, level, scores.shape[1], _HALVINGS)
        return np.asarray(credit[rivals] * self.width)

    def _fresh(self, leader: int, credit: Floats) -> _Capital:
        return _Capital(leader, credit, self.n_blocks, self._limits, self.width)


class _Capital:
    """The capital against every arm, without and with the tolerance for one leader.

    Parameters
    ----------
    leader : int
        The arm that could be the answer.
    credit : ndarray of shape (arms,)
        The tolerance against every arm, in units of the range.
    n_blocks : float
        Number of all blocks, or infinity.
    limits : Limits
        The limits.
    width : float
        The width of the range of scores.
    """

    def __init__(
        self, leader: int, credit: Floats, n_blocks: float, limits: Limits, width: float
    ) -> None:
        arms, categories = len(credit), len(limits.sizes)
        self.leader, self.blocks = leader, 0
        self._credit, self._n_blocks, self._limits = credit, n_blocks, limits
        self._margin = limits.margin / width
        self._pair_stakes = stakes_for(n_blocks)
        self._limit_stakes = [stakes_for(size) for size in limits.sizes]
        pairs = len(self._pair_stakes[0])
        most = max(len(stakes) for stakes, _ in self._limit_stakes)
        self._sums = np.zeros(arms)
        self._gaps = np.zeros((categories, arms))
        self._tried = np.zeros(categories, dtype=np.intp)
        self._pairs = np.zeros((2, arms, arms, pairs))
        self._of_leader = np.zeros((2, arms, pairs))
        self._kept = np.zeros((arms, categories, most))
        self._kept_by_leader = np.zeros((categories, most))
        self._broken = np.zeros((arms, categories, most))

    def add(self, scores: Floats, targets: Indices) -> None:
        """Bet on the blocks that are new, one after the other."""
        for at in range(self.blocks, len(scores)):
            self._add_block(scores[at], int(targets[at, 0]), int(self._limits.categories[at]))
            self.blocks += 1

    def _add_block(self, scores: Floats, target: int, category: int) -> None:
        self._pairs[:, :, target] += self._of_pair(scores, target)
        self._of_leader += self._of_pair(scores, self.leader)
        gap = scores - scores[self._limits.control] + self._margin
        kept = self._of_limit(gap, self._gaps[category], category)
        number = kept.shape[-1]
        self._kept[target, category, :number] += kept[target]
        self._kept_by_leader[category, :number] += kept[self.leader]
        # A gap may be as large as one range and the margin, and a loss at most one range.
        unit = -(1.0 + self._margin)
        self._broken[:, category, :number] += self._of_limit(
            gap / unit, self._gaps[category] / unit, category
        )
        self._sums = self._sums + scores
        self._gaps[category] += gap
        self._tried[category] += 1

    def _of_pair(self, scores: Floats, target: int) -> Floats:
        """Return the gains of bets that a target is better, without and with the tolerance."""
        stakes, _ = self._pair_stakes
        difference, won = scores[target] - scores, self._sums[target] - self._sums
        extra = np.stack([np.zeros_like(self._credit), self._credit * (target == self.leader)])
        before = self.blocks
        return gains(difference + extra, won + extra * before, before, self._n_blocks, stakes)

    def _of_limit(self, gap: Floats, won: Floats, category: int) -> Floats:
        stakes, _ = self._limit_stakes[category]
        size = float(self._limits.sizes[category])
        return gains(gap, won, int(self._tried[category]), size, stakes)

    def wealth(self) -> tuple[Floats, Floats]:
        """Return the log capital against every arm, without and with the tolerance."""
        kept = self._mixed_limits(self._kept)
        kept[self._limits.control] = math.inf
        least = kept.min(axis=-1)
        by_leader = float(self._mixed_limits(self._kept_by_leader).min())
        if self.leader == self._limits.control:
            by_leader = math.inf
        own = self._mixed_limits(self._broken)
        own = np.logaddexp.reduce(own, axis=-1) - math.log(own.shape[-1])
        own[self._limits.control] = 0.0
        shares = self._pair_stakes[1]
        pairs = np.logaddexp.reduce(self._pairs + shares, axis=-1)
        smaller = np.minimum(pairs, least)
        smaller[:, range(len(least)), range(len(least))] = 0.0
        followed = smaller.sum(axis=-1)
        hindsight = np.minimum(np.logaddexp.reduce(self._of_leader + shares, axis=-1), by_leader)
        parts = [
            followed + math.log(_FOLLOWED),
            hindsight + math.log(_HINDSIGHT / max(1, len(own) - 1)),
            np.broadcast_to(own + math.log(_OWN), followed.shape),
        ]
        better, near_enough = np.logaddexp.reduce(np.stack(parts), axis=0)
        return better, near_enough

    def _mixed_limits(self, logs: Floats) -> Floats:
        """Return the log capital of limits, mixed over the stakes of each category."""
        mixed = [
            np.logaddexp.reduce(logs[..., category, : len(shares)] + shares, axis=-1)
            for category, (_, shares) in enumerate(self._limit_stakes)
        ]
        return np.stack(mixed, axis=-1)
