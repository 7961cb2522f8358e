"""How block betting on linear arms stands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.block_betting import BlockKernels, LiveBlocks
from fairtrial.confidence.block_betting.blocks import OUTSIDE
from fairtrial.confidence.block_betting.book import all_wealth
from fairtrial.confidence.block_betting.cuts import Cuts
from fairtrial.confidence.effects import BlockResults
from fairtrial.confidence.means import Settled
from fairtrial.core.pull import UNSOLICITED, Pull
from fairtrial.linear._kernels import blocks
from fairtrial.linear._kernels.state import Rules
from fairtrial.linear._units import Units
from fairtrial.linear.policies.race import Standing
from fairtrial.linear.policies.values import LinearResults

__all__ = ["BlockStanding", "LinearBlocks"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class LinearBlocks(LiveBlocks):
    """Blocks of bets on linear arms."""

    kernels: ClassVar[BlockKernels] = blocks
    evidence = (*LiveBlocks.evidence, "hopeless")
    verdict = ("chosen",)

    def _details_of_a_loss(self, number: int) -> tuple[Any, ...]:
        return (number,)

    arms: Floats
    """The features of every arm, in the coordinates of the blocks' predictions."""

    def learn(self, pull: Pull, value: float, *, was_lost: bool) -> None:
        """Record a reward; also count those of the pulls before the first block."""
        super().learn(pull, value, was_lost=was_lost)
        if _is_of_opening(pull):
            self.state.opening_counts[pull.action] += 1.0
            self.state.opening_sums[pull.action] += value - self.centre

    def _is_unplanned(self, pull: Pull) -> bool:
        return super()._is_unplanned(pull) and not _is_of_opening(pull)

    def amend(self, pull: Pull, old: float, new: float) -> None:
        """Correct a reward and all bets on it."""
        super().amend(pull, old, new)
        if _is_of_opening(pull):
            self.state.opening_sums[pull.action] += new - old

    def _earlier(self, known: Floats) -> None:
        """Return nothing: each block has its own prediction, which its results are counted from."""

    def _added_by_block(self, state: Any) -> dict[str, Floats]:
        # The sums of a block are of rewards minus its prediction.
        added = super()._added_by_block(state)
        predicted = state.blocks.results[0] * (self.arms @ state.prediction[0])
        added["blocks.settled_sums"] = added["blocks.settled_sums"] + predicted
        return added


class BlockStanding(Standing):
    """How block betting stands, by the wealth against every candidate or pair.

    Parameters
    ----------
    units : Units
        The problem in the numbers of policies.
    live : LinearBlocks
        The blocks.
    rules : Rules
        The rules of the kernels.
    opening : ndarray of int
        The arms of the initial pulls, in their order.
    cuts : Cuts, optional
        The blocks of a finished experiment, if others assigned all pulls.
    """

    keeps_set = True

    def __init__(
        self,
        units: Units,
        live: LinearBlocks,
        rules: Rules,
        opening: Integers,
        cuts: Cuts | None,
    ) -> None:
        self.initial_pulls = int(rules.initial_pulls)
        self._units = units
        self._problem = units.problem
        self._blocks = live
        self._rules = rules
        self._opening = opening
        self._cuts = cuts
        self.has_range = bool(rules.bounded)

    @property
    def _state(self) -> Any:
        return self._blocks.state

    @property
    def found_best(self) -> bool:
        """Whether the best of the distinct candidates is found."""
        return self._blocks.finished

    @property
    def hopeless(self) -> bool:
        """Whether misspecified means can hide the best."""
        return bool(self._state.hopeless[0])

    @property
    def counts(self) -> Floats:
        """Results by arm, shape (K,)."""
        return np.asarray(self._state.counts)

    @property
    def sums(self) -> Floats:
        """Sums of rewards by arm, shape (K,)."""
        return np.asarray(self._state.sums + self._state.counts * self._rules.shift)

    @property
    def records(self) -> tuple[Floats, Floats]:
        """The records of rewards by arm: now, and when theta could first be estimated."""
        return self._state.record, self._state.early

    @property
    def leaders(self) -> Sequence[int]:
        """The answer once it is found; before that, the candidates with the best data."""
        chosen = np.zeros_like(self._state.chosen)
        if not blocks.leaders(self._blocks.arrays, chosen):
            return []
        return np.flatnonzero(chosen).tolist()

    @property
    def live(self) -> Sequence[int]:
        """The candidates that are not ruled out."""
        leaders = self.leaders
        live = ~np.asarray(self._state.book.rejected, dtype=bool)
        if self._rules.pairwise and leaders:
            live = np.any(self.wealth[leaders] < self._rules.threshold, axis=0)
            live[leaders] = True
        return np.flatnonzero(live).tolist()

    @property
    def confidence_set(self) -> Sequence[int] | None:
        """The candidates that are not ruled out; if several are wanted, possible members.

        If `top` candidates are wanted, one is ruled out when at least `top` others have beaten it.
        With `tolerance` a wealth does not rule out that a candidate is the best.
        """
        if self._rules.separately:
            return None
        if not self._rules.pairwise:
            return np.flatnonzero(self._state.book.rejected == 0).tolist()
        if self._problem.tolerance > 0.0:
            return None
        beaten_by = (self.wealth >= self._rules.threshold).sum(axis=0)
        return np.flatnonzero(beaten_by < self._problem.top).tolist()

    @property
    def wealth(self) -> Floats:
        """The log wealth against every candidate, shape (1, M), or every pair, shape (M, M).

        If candidates have limits, the shape is (1, M + 1), including "no arm".
        """
        if self._problem.has_limits:
            return np.asarray(all_wealth(self._state.book)[np.newaxis])
        return np.asarray(self._state.book.ledgers.reshape((-1, self._units.shape[1])))

    @property
    def evidence(self) -> tuple[float | None, float | None]:
        """Evidence for the leader, and the value that it must exceed."""
        evidence = float(blocks.evidence_now(self._blocks.arrays))
        threshold = self._rules.threshold
        if math.isnan(evidence):
            return None, threshold
        # Every rival is rejected: even the smallest of their wealths reached the threshold.
        return min(evidence, threshold) if self.found_best else evidence, threshold

    @property
    def is_estimable(self) -> bool | None:
        """Whether the start is measured; None before that, when other arms may do as well."""
        return True if self._state.estimable[0] else None

    @property
    def settled(self) -> Settled:
        """The results by arm that estimates count: before the first block, and of settled blocks.

        In a finished experiment, those of all units.
        """
        rules, state = self._rules, self._state
        if self._cuts is not None:
            missing = self._cuts.missing(self.counts) * rules.bounded
            return Settled(self.counts.copy(), self.sums, missing)
        counts, sums, missing = self._blocks.settled(losses_count=rules.bounded)
        late = state.opened - state.opening_counts
        if not rules.bounded and late.sum() > state.lost.sum():
            # With known noise no value stands for a result that is still to come.
            return Settled(*(np.zeros_like(counts) for _ in range(3)))
        counts = counts + state.opening_counts
        sums = sums + state.opening_sums + rules.shift * state.opening_counts
        return Settled(counts, sums, missing + late * rules.bounded)

    def in_range(
        self, before: BlockResults | None = None, after: BlockResults | None = None
    ) -> LinearResults | None:
        """Return the results of the settled blocks; None if there are none, or none are kept.

        Parameters
        ----------
        before, after : BlockResults, optional
            Of a finished experiment, the results before the first block and after the last one.
        """
        rules, live = self._rules, self._blocks
        unknown = np.zeros((1, 2, len(live.arms)))
        parts: list[tuple[Floats, ...]] = []
        last = self._middle[np.newaxis], unknown
        if before is not None:
            parts.append((*self._off(before, last[0]), *last))
        paid = live.paid_results(losses_count=True)
        if paid is not None:
            # The sum of known results is not needed: blocks have predictions of their own.
            known = live.in_paid_blocks("blocks.known").reshape(*paid.counts.shape, 3)
            fixed = live.in_paid_blocks("prediction"), np.moveaxis(known[:, :, ::2], 2, 1)
            parts.append((paid.counts, paid.losses, paid.sums, paid.squares, *fixed))
            last = fixed[0][-1:], fixed[1][-1:]
        if after is not None:
            parts.append((*self._off(after, last[0]), *last))
        if not parts:
            return None
        counts, losses, sums, squares, predictions, known = map(
            np.concatenate, zip(*parts, strict=True)
        )
        width = rules.high - rules.low
        return LinearResults(
            live.arms,
            counts,
            losses,
            sums / width,
            squares / width**2,
            predictions / width,
            np.moveaxis(known, 1, 0) / [[[1.0]], [[width**2]]],
            self._units.deviations / width,
            rules.low / width,
            rules.shift / width,
            width,
        )

    def _off(self, block: BlockResults, predictions: Floats) -> tuple[Floats, ...]:
        """Return counts, losses, and sums and squares of results minus predictions."""
        off = predictions @ self._blocks.arms.T - block.centres
        sums = block.sums - block.counts * off
        return block.counts, block.losses, sums, block.squares_about(block.centres + off)

    @property
    def _middle(self) -> Floats:
        """Coefficients that predict the middle of the range, as well as they can; shape (r,)."""
        arms = self._blocks.arms
        middle = 0.5 * self._rules.low + 0.5 * self._rules.high
        return np.asarray(np.linalg.lstsq(arms, np.full(len(arms), middle), rcond=None)[0])

    @property
    def initial_counts(self) -> Floats:
        """The initial pulls of every arm, as planned or assigned."""
        if self._cuts is not None:
            return self._cuts.initial_counts
        places = (
            np.arange(int(self._rules.initial_pulls) * self._problem.geometry.start_arms.size)
            % self._opening.size
        )
        planned = np.bincount(self._opening[places], minlength=len(self._problem.arms))
        return planned.astype(np.float64)


def _is_of_opening(pull: Pull) -> bool:
    return pull.number != UNSOLICITED and pull.tag == OUTSIDE
