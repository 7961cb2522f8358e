"""What is left of a race over shared blocks: a forecast, and bounds."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fairtrial.delayed.policies.judged_evidence import Judge
from fairtrial.delayed.policies.limited_evidence import LIMITS_ONLY, SKIPPED, LimitedEvidence
from fairtrial.delayed.policies.paired_course import SET_ASIDE, TOLD, WAITS, PairedCourse
from fairtrial.delayed.policies.race_forecast import (
    FEWEST_BLOCKS,
    blocks_needed,
    repeated_blocks,
)

__all__ = ["PairedForecast"]

Floats = NDArray[np.float64]

# A race without an end of blocks is forecast until it has this many times its blocks.
_HORIZON = 10


class PairedForecast(PairedCourse):
    """A race that says what is left of it."""

    @property
    def expected_pulls(self) -> Floats | None:
        """A forecast of the pulls of each arm until the race is decided.

        It lets the blocks left be like those so far, and takes rivals to be a little better than
        they were, because the leader is the leader partly by luck. Arms that were set aside are
        not forecast to return. None before there are enough blocks, while arms catch up, or if the
        race would not be decided.
        """
        if self.stopped or self._complete < FEWEST_BLOCKS or self._is_catching_up:
            return None
        known = (self._complete, self._arm_states.tobytes())
        if self._forecast is None or self._forecast[0] != known:
            self._forecast = known, self._blocks_left()
        blocks = self._forecast[1]
        if blocks is None:
            return None
        told = (self._cells[self._complete :] == TOLD).sum(axis=0)
        return np.asarray(np.maximum(0.0, blocks - told))

    def _blocks_left(self) -> Floats | None:
        """Return how many more blocks each arm needs; None if the race would not be decided."""
        leader, rivals = self._leader_and_rivals()
        blocks, end = self._complete, self._n_listed
        end = _HORIZON * blocks if end is None else end
        limits = self._limits
        places = repeated_blocks(blocks, end, None if limits is None else limits.categories)
        test = self._test_with(self._repeated_judge(places))
        left_out = np.zeros((end, len(self._arm_states)), dtype=np.int8)
        left_out[:blocks] = self._left_out[:blocks]
        left_out[blocks:, self._arm_states == WAITS] = SKIPPED
        if limits is not None and self._settled_categories.any():
            left_out[blocks:, self._is_tried] = LIMITS_ONLY
            left_out[blocks:][self._settled_categories[limits.categories[blocks:end]]] = SKIPPED
        kept = np.ones(len(self._settled_categories), dtype=np.bool_)

        def evidence(scores: Floats, targets: NDArray[np.intp]) -> Floats:
            n = len(scores)
            return self._against(scores, targets, leader, rivals, test, left_out[:n])[1]

        def evidence_on_pairs(scores: Floats, targets: NDArray[np.intp]) -> Floats:
            assert isinstance(test, LimitedEvidence)
            found = test.if_kept(scores, targets, leader, rivals, left_out[: len(scores)], kept)
            return np.asarray(found + self._earlier[leader, rivals])

        low, high = self.problem.reward_range or (0.0, math.inf)
        scores, targets = self._table(), self._targets[:blocks]

        def needed_for(evidence: Callable[..., Floats]) -> Floats:
            needed = blocks_needed(
                evidence, scores, targets, places, leader, rivals, self._level, high - low
            )
            return needed if self.n_blocks is None else np.minimum(needed, self.n_blocks - blocks)

        needed = needed_for(evidence)
        if not np.isfinite(needed).all():
            return None
        left = np.where(self._is_tried, needed.max(), 0.0)
        if limits is not None:
            left *= 1.0 - self._settled_categories[limits.categories[blocks:end]].mean()
        left[rivals] = np.minimum(needed, needed_for(evidence_on_pairs)) if self.skips else needed
        left[self._arm_states == WAITS] = 0.0
        return left

    def _repeated_judge(self, places: NDArray[np.intp]) -> Judge | None:
        """Return a judge whose scores on the blocks left are those of earlier blocks."""
        judge = self._ordered_judge
        if judge is None:
            return None
        return Judge(np.concatenate([judge.scores[: self._complete], judge.scores[places]]))

    @property
    def may_come(self) -> NDArray[np.bool_] | None:
        """Whether a result may still come, by listed block and arm; None without an end of blocks.

        Those are the unknown results of all arms that are in the race or may return to it, and of
        pulls in flight.
        """
        end = self._n_listed
        if end is None:
            return None
        may_come = np.full((end, len(self.problem.arms)), not self.stopped)
        may_come &= self._is_tried | (self._arm_states == SET_ASIDE) | self._in_race
        known = self._cells[:end]
        may_come[: len(known)] &= known != TOLD
        may_come = self._listed(may_come, False)
        for action, tag in self._outstanding.values():
            if tag < end:
                may_come[tag, action] = not self.stopped
        return may_come

    def _remaining(self, evidence: float | None, threshold: float | None) -> float | None:
        expected = self.expected_pulls
        return None if expected is None else float(expected.sum())

    @property
    def _remaining_at_most(self) -> int | None:
        may_come = self.may_come
        most = [] if may_come is None else [int(may_come.sum()) + self._in_flight_beyond(may_come)]
        if self.max_pulls is not None:
            most.append(max(0, self.max_pulls - self.told))
        return min(most, default=None)

    def _in_flight_beyond(self, may_come: NDArray[np.bool_]) -> int:
        """Return the number of pulls in flight of blocks that are not listed."""
        if self.stopped:
            return 0
        return sum(tag >= len(may_come) for _, tag in self._outstanding.values())
