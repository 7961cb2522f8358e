"""Evidence on shared blocks if no category of them may be worse than that of a control."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.delayed.policies.judged_evidence import Judge, Slopes
from fairtrial.delayed.policies.paired_evidence import (
    BettingEvidence,
    gains,
    smallest_credit,
    stakes_for,
)

__all__ = ["CAUGHT_UP", "LIMITS_ONLY", "SKIPPED", "LimitedEvidence", "Limits"]

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Codes = NDArray[np.int8]

SKIPPED, CAUGHT_UP, LIMITS_ONLY = 1, 2, 3
"""What is left out of the bets on an arm and a block: all of them, as its score is not known, or
became known later; or only those on pairs. Otherwise the code is 0."""

_FOLLOWED, _HINDSIGHT, _OWN = 0.6, 0.2, 0.2
_HALVINGS = 12
_HALF = math.log(0.5)
# The parts of the capital without and with bets on pairs and blocks that were skipped.
_SKIPPING, _BETTING = math.log(0.8), math.log(0.2)
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
    become_certain : bool
        Whether a limit is certainly kept or broken once all blocks of its category were tried.
    """

    def __init__(
        self,
        control: int,
        margin: float,
        categories: Indices,
        *,
        has_end: bool,
        become_certain: bool = False,
    ) -> None:
        self.control = control
        self.margin = margin
        self.categories = categories
        self.become_certain = become_certain
        counts = np.bincount(categories).astype(float)
        self.sizes: Floats = counts if has_end else np.full(len(counts), math.inf)

    def excess(self, scores: Floats) -> Floats:
        """Return the sum by which arms exceed their limits, by category and arm.

        It is negative where an arm breaks a limit on these blocks. Unknown scores are left out.
        """
        gaps = np.nan_to_num(scores - scores[:, [self.control]] + self.margin, nan=0.0)
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
    judge : Judge, optional
        A judge. Half of the capital is then bet after subtracting what it predicts.
    """

    name = "bets on bounded differences and limits"

    def __init__(
        self,
        tolerance: float,
        width: float,
        n_blocks: int | None,
        limits: Limits,
        judge: Judge | None = None,
    ) -> None:
        super().__init__(tolerance, width, n_blocks)
        self.name = (
            f"bets on bounded differences{', limits and a judge' if judge else ' and limits'}"
        )
        self._limits = limits
        self._judge = judge
        self._known: dict[float, _Capital] = {}

    def against(
        self,
        scores: Floats,
        targets: Indices,
        leader: int,
        rivals: Indices,
        left_out: Codes | None = None,
    ) -> tuple[Floats, Floats]:
        """Return the evidence for the leader against each rival."""
        better, near_enough = self._mixed(self._capitals(scores, targets, leader, left_out))
        return better[rivals], near_enough[rivals]

    def if_kept(
        self,
        scores: Floats,
        targets: Indices,
        leader: int,
        rivals: Indices,
        left_out: Codes,
        categories: NDArray[np.bool_],
    ) -> Floats:
        """Return what `near_enough` is at least if the leader certainly keeps some of its limits.

        It counts no bets on pairs and blocks that are skipped, also if the first one is yet to be.
        """
        share, capital = self._capitals(scores, targets, leader, left_out)[0]
        with np.errstate(invalid="ignore"):
            return np.asarray((min(share, _SKIPPING) + capital.wealth(categories)[1])[rivals])

    def shortfalls(
        self,
        scores: Floats,
        targets: Indices,
        leader: int,
        rivals: Indices,
        level: float,
        left_out: Codes | None = None,
    ) -> Floats:
        """Return the smallest tolerance, 0 or more, at which `near_enough` reaches the level."""

        def wealth(credit: Floats) -> Floats:
            capitals = []
            for share, codes in self._parts_of(left_out):
                capital = self._fresh(leader, credit)
                capital.add(scores / self.width, targets, codes)
                capitals.append((share, capital))
            return np.asarray(self._mixed(capitals)[1])

        credit = smallest_credit(wealth, level, scores.shape[1], _HALVINGS)
        return np.asarray(credit[rivals] * self.width)

    def _parts_of(self, left_out: Codes | None) -> list[tuple[float, Codes | None]]:
        """Return the parts of the capital, and what each of them leaves out."""
        if left_out is None or not left_out.any():
            return [(0.0, None)]
        return [(_SKIPPING, left_out), (_BETTING, None)]

    def _capitals(
        self, scores: Floats, targets: Indices, leader: int, left_out: Codes | None
    ) -> list[tuple[float, _Capital]]:
        """Return the parts of the capital after the blocks so far."""
        capitals = []
        for share, codes in self._parts_of(left_out):
            capital = self._known.get(share)
            if capital is None or capital.leader != leader or capital.blocks > len(scores):
                credit = np.full(scores.shape[1], self.tolerance / self.width)
                capital = self._known[share] = self._fresh(leader, credit)
            capital.add(scores / self.width, targets, codes)
            capitals.append((share, capital))
        return capitals

    def _mixed(self, capitals: Sequence[tuple[float, _Capital]]) -> Floats:
        """Return the log capital of all parts, or of the first where the second is unknown."""
        # Infinite evidence is meant, and arms that have left have none.
        with np.errstate(invalid="ignore"):
            first, *others = [np.asarray(share + capital.wealth()) for share, capital in capitals]
            if not others:
                return first
            mixed = np.logaddexp(first, others[0])
            return np.where(np.isnan(mixed), first, mixed)

    def _fresh(self, leader: int, credit: Floats) -> _Capital:
        predictions = None if self._judge is None else _Predictions(self._judge, self._limits)
        return _Capital(leader, credit, self.n_blocks, self._limits, self.width, predictions)


class _Prediction(NamedTuple):
    """The part of differences that a judge predicts, and how large it can be on any block left."""

    value: Floats
    largest: Floats

    def in_units_of(self, unit: float) -> _Prediction:
        """Return the prediction of differences in another unit."""
        return _Prediction(self.value / unit, self.largest / unit)


class _Predictions:
    """What a judge predicts of differences on a block: among all blocks left, or its category's.

    Parameters
    ----------
    judge : Judge
        The judge.
    limits : Limits
        The categories of blocks.
    """

    def __init__(self, judge: Judge, limits: Limits) -> None:
        self._judge = judge
        self._in_category = [
            Judge(judge.scores[limits.categories == category])
            for category in range(len(limits.sizes))
        ]
        self._slopes = Slopes(judge.variances)

    def add(self, scores: Floats, block: int) -> None:
        """Take the scores on a block into account."""
        self._slopes.add(scores, self._judge.scores[block])

    def of_pairs(self, one: Indices | int, other: Indices | int, block: int) -> _Prediction:
        """Return the predictions of differences on a block of those left."""
        return self._of(self._judge, one, other, block)

    def of_limits(
        self, one: Indices | int, other: Indices | int, category: int, place: int
    ) -> _Prediction:
        """Return the predictions of differences on a block of those left of a category.

        The place is that of the block in its category.
        """
        return self._of(self._in_category[category], one, other, place)

    def _of(
        self, judge: Judge, one: Indices | int, other: Indices | int, place: int
    ) -> _Prediction:
        slope = self._slopes.of(one, other)
        return _Prediction(
            slope * judge.surprise(place, one, other),
            slope * judge.largest_surprise(place, one, other),
        )


class _Mixed(NamedTuple):
    """Log capitals of bets, mixed over stakes.

    On a pair, by target, and for the leader on all blocks; on a limit of a target by category, and
    of the leader on all blocks; and that an arm breaks its own limits.
    """

    pairs: Floats
    of_leader: Floats
    kept: Floats
    by_leader: Floats
    own: Floats


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
    predictions : _Predictions, optional
        What a judge predicts. Each bet is then made twice, with half of its capital: without and
        with the predictions.
    """

    def __init__(
        self,
        leader: int,
        credit: Floats,
        n_blocks: float,
        limits: Limits,
        width: float,
        predictions: _Predictions | None = None,
    ) -> None:
        arms, categories = len(credit), len(limits.sizes)
        self.leader, self.blocks = leader, 0
        self._credit, self._n_blocks, self._limits = credit, n_blocks, limits
        self._margin = limits.margin / width
        self._predictions = predictions
        self._pair_stakes, self._pair_shares = self._parts(n_blocks)
        self._limit_parts = [self._parts(size) for size in limits.sizes]
        pairs = len(self._pair_shares)
        most = max(len(shares) for _, shares in self._limit_parts)
        self._last_mixed: tuple[int, _Mixed] | None = None
        self._sums = np.zeros(arms)
        self._gaps = np.zeros((categories, arms))
        self._tried = np.zeros(categories, dtype=np.intp)
        self._pairs = np.zeros((2, arms, arms, pairs))
        self._of_leader = np.zeros((2, arms, pairs))
        self._kept = np.zeros((arms, categories, most))
        self._kept_by_leader = np.zeros((categories, most))
        self._broken = np.zeros((arms, categories, most))

    def _parts(self, size: float) -> tuple[Floats, Floats]:
        """Return stakes, and the logarithms of the parts of the capital on each bet with each."""
        stakes, shares = stakes_for(size)
        if self._predictions is None:
            return stakes, shares
        return stakes, np.concatenate([shares, shares]) + _HALF

    def add(self, scores: Floats, targets: Indices, left_out: Codes | None = None) -> None:
        """Bet on the blocks that are new, one after the other, but not on what is left out."""
        no_code = np.zeros(scores.shape[1], dtype=np.int8)
        for at in range(self.blocks, len(scores)):
            codes = no_code if left_out is None else left_out[at]
            category = int(self._limits.categories[at])
            self._add_block(scores[at], int(targets[at, 0]), category, codes)
            self.blocks += 1

    def _add_block(self, scores: Floats, target: int, category: int, codes: Codes) -> None:
        no_pair = codes != 0
        self._pairs[:, :, target] += _unless(
            no_pair | no_pair[target], self._of_pair(scores, target)
        )
        of_leader = self._of_pair(scores, self.leader)
        self._of_leader += _unless(no_pair | no_pair[self.leader], of_leader)
        skips = no_pair & (codes != LIMITS_ONLY)
        no_limit = skips | skips[self._limits.control]
        kept, broken = (_unless(no_limit, gain) for gain in self._of_limits(scores, category))
        number = kept.shape[-1]
        self._kept[target, category, :number] += kept[target]
        self._kept_by_leader[category, :number] += kept[self.leader]
        self._broken[:, category, :number] += broken
        self._sums = self._sums + scores
        self._gaps[category] += self._gap(scores)
        self._tried[category] += 1
        if self._predictions is not None:
            self._predictions.add(np.where(skips, np.nan, scores), self.blocks)

    def _gap(self, scores: Floats) -> Floats:
        return np.asarray(scores - scores[self._limits.control] + self._margin)

    def _of_pair(self, scores: Floats, target: int) -> Floats:
        """Return the gains of bets that a target is better, without and with the tolerance."""
        difference, won = scores[target] - scores, self._sums[target] - self._sums
        extra = np.stack([np.zeros_like(self._credit), self._credit * (target == self.leader)])
        before, predicted = self.blocks, None
        if self._predictions is not None:
            predicted = self._predictions.of_pairs(target, np.arange(len(scores)), before)
        return _gains(
            difference + extra,
            won + extra * before,
            before,
            self._n_blocks,
            self._pair_stakes,
            predicted,
        )

    def _of_limits(self, scores: Floats, category: int) -> tuple[Floats, Floats]:
        """Return the gains of bets that arms keep, and that they break, their limit."""
        gap, won = self._gap(scores), self._gaps[category]
        arms, control = np.arange(len(scores)), self._limits.control
        size, place = float(self._limits.sizes[category]), int(self._tried[category])
        stakes, _ = self._limit_parts[category]
        # A gap may be as large as one range and the margin, and a loss at most one range.
        unit = 1.0 + self._margin
        above = below = None
        if self._predictions is not None:
            above = self._predictions.of_limits(arms, control, category, place)
            below = self._predictions.of_limits(control, arms, category, place).in_units_of(unit)
        return (
            _gains(gap, won, place, size, stakes, above),
            _gains(gap / -unit, won / -unit, place, size, stakes, below),
        )

    def wealth(self, certainly_kept: NDArray[np.bool_] | None = None) -> Floats:
        """Return the log capital against every arm, without and with the tolerance.

        Parameters
        ----------
        certainly_kept : ndarray of bool, optional
            Categories in which the leader is taken to keep its limits for certain.
        """
        mixed, leader = self._mixed(), self.leader
        kept, by_leader = mixed.kept, mixed.by_leader
        if certainly_kept is not None:
            kept, by_leader = kept.copy(), by_leader.copy()
            kept[leader, certainly_kept] = by_leader[certainly_kept] = math.inf
        arms = range(len(kept))
        smaller = np.minimum(mixed.pairs, kept.min(axis=-1))
        smaller[:, arms, arms] = 0.0
        followed = smaller.sum(axis=-1)
        hindsight = np.minimum(mixed.of_leader, by_leader.min())
        parts = [
            followed + math.log(_FOLLOWED),
            hindsight + math.log(_HINDSIGHT / max(1, len(kept) - 1)),
            np.broadcast_to(mixed.own + math.log(_OWN), followed.shape),
        ]
        return np.asarray(np.logaddexp.reduce(np.stack(parts), axis=0))

    def _mixed(self) -> _Mixed:
        """Return the log capitals of bets after the blocks so far, mixed over stakes."""
        if self._last_mixed is None or self._last_mixed[0] != self.blocks:
            self._last_mixed = self.blocks, self._mix()
        return self._last_mixed[1]

    def _mix(self) -> _Mixed:
        control, leader, shares = self._limits.control, self.leader, self._pair_shares
        are_kept, are_broken = self._certainties()
        kept = self._mixed_limits(self._kept)
        by_leader = self._mixed_limits(self._kept_by_leader)
        kept[are_kept] = math.inf
        by_leader[are_kept[leader]] = math.inf
        kept[control] = math.inf
        if leader == control:
            by_leader[:] = math.inf
        own = self._mixed_limits(self._broken)
        own[are_broken] = math.inf
        own = np.logaddexp.reduce(own, axis=-1) - math.log(own.shape[-1])
        own[control] = 0.0
        pairs = np.logaddexp.reduce(self._pairs + shares, axis=-1)
        of_leader = np.logaddexp.reduce(self._of_leader + shares, axis=-1)
        return _Mixed(pairs, of_leader, kept, by_leader, own)

    def _certainties(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return whether limits are certainly kept, and certainly broken, by arm and category.

        They are certain once all blocks of a category were tried, if their scores are known.
        """
        tried = self._tried[:, None]
        room = self._gaps + _ROUNDING * tried
        is_over = self._limits.become_certain & (tried == self._limits.sizes[:, None])
        return (is_over & (room >= 0.0)).T, (is_over & (room < 0.0)).T

    def _mixed_limits(self, logs: Floats) -> Floats:
        """Return the log capital of limits, mixed over the stakes of each category."""
        mixed = [
            np.logaddexp.reduce(logs[..., category, : len(shares)] + shares, axis=-1)
            for category, (_, shares) in enumerate(self._limit_parts)
        ]
        return np.stack(mixed, axis=-1)


def _gains(
    difference: Floats,
    won: Floats,
    before: int,
    n_blocks: float,
    stakes: Floats,
    predicted: _Prediction | None,
) -> Floats:
    """Return what log capitals gain for every stake, without and then with a prediction."""
    plain = gains(difference, won, before, n_blocks, stakes)
    if predicted is None:
        return plain
    adjusted = difference - predicted.value
    judged = gains(adjusted, won, before, n_blocks, stakes, predicted.largest)
    return np.concatenate([plain, judged], axis=-1)


def _unless(without: NDArray[np.bool_], gain: Floats) -> Floats:
    """Return what log capitals gain, shape (..., arms, stakes), and nothing without a bet."""
    return np.where(without[:, None], 0.0, gain)
