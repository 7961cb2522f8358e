"""The course of a race over shared blocks: what is tried next, who leads, and who leaves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.fixed_confidence import FixedConfidencePolicy
from fairtrial.core.policy import Choice
from fairtrial.core.pull import UNSOLICITED, Pull
from fairtrial.core.validation import check_flag, check_instance, check_optional_integer
from fairtrial.core.wording import said_of_standstill
from fairtrial.delayed.policies.answers import BestOfBlocks
from fairtrial.delayed.policies.judged_evidence import Judge, JudgedEvidence
from fairtrial.delayed.policies.limited_evidence import (
    CAUGHT_UP,
    LIMITS_ONLY,
    SKIPPED,
    LimitedEvidence,
    Limits,
)
from fairtrial.delayed.policies.paired_evidence import (
    BettingEvidence,
    Evidence,
    StudentEvidence,
    best_two,
)
from fairtrial.delayed.policies.paired_parameters import (
    check_arms_from,
    check_categories,
    check_earlier,
    check_judge,
    check_margin,
    check_overlap,
    check_problem,
    check_shuffle,
    check_skips,
)
from fairtrial.delayed.problem import Problem
from fairtrial.errors import NotSupported

__all__ = [
    "NOBODY",
    "REJECTED",
    "RUNS",
    "SET_ASIDE",
    "TOLD",
    "WAITS",
    "WITHDRAWN",
    "PairedCourse",
]

Floats = NDArray[np.float64]

FREE, ISSUED, TOLD = 0, 1, 2
"""Whether an arm's pull on a block was issued, and its result told."""
RUNS, REJECTED, WITHDRAWN, SET_ASIDE, WAITS = 0, 1, 2, 3, 4
"""The states of an arm."""
NOBODY = -1
_WITHDRAWS = frozenset({"error", "user"})


class PairedCourse(FixedConfidencePolicy):
    """The course of a `PairedRacing`, which describes its parameters."""

    problem: Problem
    state_fields = (
        "_scores",
        "_cells",
        "_arm_states",
        "_raced_until",
        "_left_behind",
        "_targets",
        "_left_out",
        "_settled_categories",
        "_complete",
        "_open_from",
        "_out_of_reach",
    )

    def __init__(
        self,
        problem: Problem,
        delta: float = 0.05,
        parallel: int | None = None,
        max_pulls: int | None = None,
        n_blocks: int | None = None,
        max_blocks: int | None = None,
        overlap: float = 0.0,
        shuffle: bool = False,
        blocks_from: str | None = None,
        margin: float | None = None,
        categories: Sequence[str] | None = None,
        arms_from: Sequence[str] | None = None,
        earlier_evidence: Sequence[Sequence[float]] | None = None,
        judge: Sequence[Sequence[float]] | None = None,
        holds_back: bool = False,
        skips: bool = False,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        check_problem(problem)
        super().__init__(problem, delta, max_pulls, seed)
        self._answers = BestOfBlocks(problem.tolerance)
        self.parallel = check_optional_integer("parallel", parallel, low=1)
        self.n_blocks = check_optional_integer("n_blocks", n_blocks, low=1)
        self.max_blocks = check_optional_integer("max_blocks", max_blocks, low=1)
        self.overlap = check_overlap(overlap, problem, self.n_blocks)
        self.shuffle = check_shuffle(shuffle, self._n_listed)
        self.holds_back = check_flag("holds_back", holds_back)
        self.blocks_from = (
            None if blocks_from is None else check_instance("blocks_from", blocks_from, str)
        )
        self.arms_from = check_arms_from(arms_from, problem)
        self.margin = check_margin(margin, problem, self._n_listed)
        self.skips = check_skips(skips, self.margin)
        self.categories = check_categories(categories, self.margin, self._n_listed)
        arms = len(problem.arms)
        self._level = math.log(1.0 / self.delta)
        self.earlier_evidence = check_earlier(earlier_evidence, problem, self._level)
        self.judge = check_judge(judge, problem, self.n_blocks)
        self._scores: Floats = np.full((8, arms), np.nan)
        self._cells = np.zeros((8, arms), dtype=np.int8)
        self._arm_states = np.zeros(arms, dtype=np.int8)
        self._raced_until = np.full(arms, np.iinfo(np.int64).max)
        self._left_behind = np.full(arms, NOBODY)
        self._targets = np.zeros((8, 2), dtype=np.intp)
        self._left_out = np.zeros((8, arms), dtype=np.int8)
        self._settled_categories = np.zeros(len(set(self.categories or ("",))), dtype=np.bool_)
        self._complete = 0
        self._open_from = 0
        self._out_of_reach = False
        self._test = self._fresh_test()
        self._forecast: tuple[object, Floats | None] | None = None
        self._begin()

    def _begin(self) -> None:
        """Reject the arms against which an earlier race has found enough evidence."""
        if self.earlier_evidence is not None:
            is_worse = np.diagonal(self._earlier) >= self._level
            self._take_out(np.flatnonzero(is_worse), REJECTED)

    @cached_property
    def _earlier(self) -> Floats:
        arms = len(self.problem.arms)
        return np.reshape(self.earlier_evidence or np.zeros((arms, arms)), (arms, arms))

    def conceal(self, secret: str) -> None:
        """Before the first pull, take the random order from a secret instead of the seed."""
        super().conceal(secret)
        for name in ("_order", "_places", "_limits", "_ordered_judge"):
            self.__dict__.pop(name, None)
        self._test = self._fresh_test()

    @cached_property
    def _limits(self) -> Limits | None:
        """The limits against the control, with the category of each block of the race."""
        if self.margin is None:
            return None
        listed = self._n_listed or 0
        labels = self.categories or ("",) * listed
        codes = {label: at for at, label in enumerate(sorted(set(labels)))}
        in_list = np.array([codes[label] for label in labels])
        control = self.problem.arms.index(self.problem.control)
        order = self._order if self.shuffle else np.arange(listed)
        return Limits(
            control,
            self.margin,
            in_list[order],
            has_end=self.n_blocks is not None,
            become_certain=self.skips,
        )

    @property
    def _n_listed(self) -> int | None:
        """The number of blocks in the user's list, if it has an end."""
        return self.max_blocks if self.n_blocks is None else self.n_blocks

    @property
    def randomizes(self) -> bool:
        """Whether the order of the blocks is random."""
        return self.shuffle

    @cached_property
    def _order(self) -> NDArray[np.intp]:
        """The block of the user's list in each place of the race."""
        generator = np.random.Generator(np.random.Philox(key=self._key))
        return generator.permutation(self._n_listed or 0)

    @cached_property
    def _places(self) -> NDArray[np.intp]:
        """The place in the race of each block of the user's list."""
        return np.argsort(self._order)

    def _tag(self, place: int) -> int:
        return int(self._order[place]) if self.shuffle else place

    def _place(self, tag: int) -> int:
        return int(self._places[tag]) if self.shuffle else tag

    def _fresh_test(self) -> Evidence:
        return self._test_with(self._ordered_judge)

    def _test_with(self, judge: Judge | None) -> Evidence:
        if self.problem.reward_range is None:
            return StudentEvidence(self.problem.tolerance, self.overlap)
        low, high = self.problem.reward_range
        tolerance, limits = self.problem.tolerance, self._limits
        if limits is not None:
            return LimitedEvidence(tolerance, high - low, self.n_blocks, limits, judge)
        if judge is not None:
            return JudgedEvidence(tolerance, high - low, len(judge.scores), judge)
        return BettingEvidence(tolerance, high - low, self.n_blocks)

    @cached_property
    def _ordered_judge(self) -> Judge | None:
        """The judge, with its scores in the order of the race and in units of the range."""
        if self.judge is None or self.problem.reward_range is None:
            return None
        low, high = self.problem.reward_range
        judged = self.problem.sign * np.array(self.judge)
        return Judge((judged[self._order] if self.shuffle else judged) / (high - low))

    @property
    def _in_race(self) -> NDArray[np.bool_]:
        """Which arms are neither out nor set aside."""
        return np.asarray((self._arm_states == RUNS) | (self._arm_states == WAITS))

    @property
    def _is_tried(self) -> NDArray[np.bool_]:
        """Which arms are tried on the next blocks: the surviving ones, and a control."""
        tried = np.asarray(self._arm_states == RUNS)
        if self._limits is not None and not self._finished:
            tried[self._limits.control] = True
        return tried

    # -------------------------------------------------------------------- contract

    def choose(self) -> Choice:
        """Return the next untried pair of a surviving arm and a block, oldest block first."""
        if self.parallel is not None and len(self._outstanding) >= self.parallel:
            return None
        survivors = np.flatnonzero(self._is_tried)
        block = self._open_from
        end = self._n_listed if self.shuffle else self.n_blocks
        while end is None or block < end:
            self._make_room(block)
            free = survivors[self._cells[block, survivors] == FREE]
            if free.size and not self._is_skipped(block):
                if block > self._open_from and self._too_many_wait(survivors):
                    return None
                tag = self._tag(block)
                arm = int(free[tag % free.size if self.shuffle else 0])
                self._cells[block, arm] = ISSUED
                return arm, tag
            block += 1
        return None

    def _is_skipped(self, block: int) -> bool:
        """Return whether no open question needs a block, because of its category."""
        limits = self._limits
        if limits is None or not self._complete <= block < len(limits.categories):
            return False
        return bool(self._settled_categories[limits.categories[block]])

    def _too_many_wait(self, tried: NDArray[np.intp]) -> bool:
        """Return whether so many results wait for an earlier block that no more are wanted."""
        if not self.holds_back:
            return False
        waiting = int((self._cells[self._complete :, tried] == TOLD).sum())
        return waiting >= 2 * (len(self._outstanding) + len(tried))

    def _make_room(self, block: int) -> None:
        if block >= len(self._cells):
            self._cells = np.concatenate([self._cells, np.zeros_like(self._cells)])
            self._scores = np.concatenate([self._scores, np.full_like(self._scores, np.nan)])
            self._targets = np.concatenate([self._targets, np.zeros_like(self._targets)])
            self._left_out = np.concatenate([self._left_out, np.zeros_like(self._left_out)])

    def learn(self, pull: Pull, outcome: float) -> None:
        """Learn one score; compare the arms on every block that it completes."""
        if pull.number == UNSOLICITED:
            raise NotSupported("PairedRacing takes no unsolicited results: they have no block")
        if self._is_known(pull):
            # Decisions may depend on the first score, so another one does not replace it.
            return
        block = self._place(pull.tag)
        self._scores[block, pull.action] = self.problem.sign * outcome
        self._cells[block, pull.action] = TOLD
        self._advance()

    def _is_known(self, pull: Pull) -> bool:
        """Return whether the score of a pull is known, from another pull of its arm and block."""
        return bool(self._cells[self._place(pull.tag), pull.action] == TOLD)

    def on_failure(self, pull: Pull, reason: str) -> None:
        """Issue a lost pull again; an error withdraws an arm that is needed.

        If an arm that was set aside returns, a pull that failed in between is issued again.
        """
        if self._is_known(pull):
            return
        if reason in _WITHDRAWS and self._is_needed(pull.action):
            self._withdraw(pull.action)
        else:
            self._cells[self._place(pull.tag), pull.action] = FREE

    def _is_needed(self, arm: int) -> bool:
        """Return whether an arm is in the race, or a control with which others are compared."""
        is_compared = self._is_tried[arm] and not self._ended_early
        return bool(self._arm_states[arm] == RUNS or is_compared)

    def _withdraw(self, arm: int) -> None:
        self._take_out(np.array([arm]), WITHDRAWN)
        if (self._left_behind[self._arm_states == WAITS] == arm).any():
            self._wake()
        if self._finished:
            self._bring_back(NOBODY if self.leader is None else self.leader)
        self._advance()

    def _advance(self) -> None:
        while not (self._finished or self._ended_early) and self._is_told(self._open_from):
            if self._is_catching_up:
                self._count_skipped(self._open_from)
            else:
                self._count_block()
            self._open_from += 1
            self._compare()

    @property
    def _is_catching_up(self) -> bool:
        """Whether arms that were set aside have returned, and miss scores of complete blocks."""
        return self._open_from < self._complete

    def _is_told(self, block: int) -> bool:
        """Return whether the scores of all arms that are tried on a block are known."""
        if self._is_skipped(block):
            self._make_room(block)
            return True
        if block >= len(self._cells):
            return False
        return bool((self._cells[block, self._is_tried] == TOLD).all())

    def _count_block(self) -> None:
        """Count a block, and keep the arms that led before it: bets on them stay as they are."""
        survivors = np.flatnonzero(self._arm_states == RUNS)
        sums = self._sums_of(survivors, self._complete)
        self._targets[self._complete] = survivors[best_two(sums)]
        tried, row = self._is_tried, self._left_out[self._complete]
        row[self._in_race & ~tried] = SKIPPED
        # Bets on pairs need blocks of all categories, or none.
        if self._settled_categories.any():
            row[tried] = SKIPPED if self._is_skipped(self._complete) else LIMITS_ONLY
        self._complete += 1

    def _count_skipped(self, block: int) -> None:
        """Count the scores of arms that have caught up on a block that they skipped."""
        row = self._left_out[block]
        row[self._is_tried & (row == SKIPPED)] = CAUGHT_UP

    def _compare(self) -> None:
        """Reject arms that are worse than the leader; set aside those that are hardly better."""
        leader, rivals = self._leader_and_rivals()
        was_behind = self._is_catching_up
        if was_behind:
            rivals = rivals[~self._has_caught_up(rivals)]
        self._decide(leader, rivals)
        if not self._has_returned():
            self._open_from = self._complete
            if self.skips and self._goes_on(leader, was_behind=was_behind):
                return
        if self._finished:
            self._bring_back(leader)

    def _goes_on(self, leader: int, *, was_behind: bool) -> bool:
        """Wake arms that must not wait any more, or let arms wait; return whether it compared."""
        must_wake = self._must_wake(leader)
        if must_wake:
            self._wake()
        elif not was_behind:
            self._let_wait(leader)
            return False
        if not self._is_catching_up:
            self._compare()
        return True

    def _let_wait(self, leader: int) -> None:
        """Leave out what no open question needs as long as this arm leads.

        Those are arms with which only limits of the leader are open, and blocks of categories in
        which they are not.
        """
        if self._finished or self._complete == self._n_listed:
            return
        rivals = np.flatnonzero(self._in_race)
        rivals = rivals[rivals != leader]
        every = np.ones(len(self._settled_categories), dtype=np.bool_)
        wait = self._would_be_out(leader, rivals, every)
        self._arm_states[rivals[wait]] = WAITS
        self._left_behind[rivals[wait]] = leader
        before = self._settled_categories.copy()
        self._settled_categories[:] = False
        if wait.all():
            self._settle_categories(leader, rivals, before)
        if (before & ~self._settled_categories).any():
            self._catch_up()

    def _settle_categories(
        self, leader: int, rivals: NDArray[np.intp], before: NDArray[np.bool_]
    ) -> None:
        """Settle categories one by one while all rivals would be out if all others were certain."""
        settled = self._settled_categories
        for category in np.argsort(~before, kind="stable").tolist():
            certain = ~settled
            certain[category] = False
            settled[category] = self._would_be_out(leader, rivals, certain).all()

    def _would_be_out(
        self, leader: int, rivals: NDArray[np.intp], categories: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Return which rivals would be out if the leader certainly kept limits of categories."""
        assert isinstance(self._test, LimitedEvidence)
        blocks = slice(self._open_from)
        evidence = self._test.if_kept(
            self._table(),
            self._targets[blocks],
            leader,
            rivals,
            self._left_out[blocks],
            categories,
        )
        return np.asarray(evidence + self._earlier[leader, rivals] >= self._level)

    def _must_wake(self, leader: int) -> bool:
        """Return whether arms wait for limits of another arm, or that seem broken, or for ever."""
        waits = self._arm_states == WAITS
        if self._limits is None or not waits.any():
            return False
        is_last = self._complete == self._n_listed and self.max_blocks is None
        behind_another = bool((self._left_behind[waits] != leader).any())
        are_kept = self._limits.are_kept(self._counted_scores(self._complete))
        return is_last or behind_another or not are_kept[leader]

    def _wake(self) -> None:
        """Let waiting arms go on: they catch up on the blocks that they skipped."""
        waits = self._arm_states == WAITS
        self._arm_states[waits] = RUNS
        self._left_behind[waits] = NOBODY
        self._catch_up()

    def _catch_up(self) -> None:
        """Go back to the first block that an arm skipped that is tried."""
        self._settled_categories[:] = False
        lacks = (self._left_out[: self._complete, self._is_tried] == SKIPPED).any(axis=1)
        if lacks.any():
            self._open_from = min(self._open_from, int(lacks.argmax()))
            self._test = self._fresh_test()

    def _bring_back(self, leader: int) -> None:
        """Let arms return that were set aside behind another arm than this leader."""
        back = (self._arm_states == SET_ASIDE) & (self._left_behind != leader)
        if not back.any():
            return
        self._return(back)
        # If they miss no block, they are compared at once.
        if self._complete and not self._is_catching_up:
            self._compare()

    def _decide(self, leader: int, rivals: NDArray[np.intp]) -> None:
        table, targets = self._table(), self._targets[: self._open_from]
        left_out = self._left_out[: self._open_from]
        better, near_enough = self._against(table, targets, leader, rivals, left_out=left_out)
        is_worse = (better >= self._level) | self._are_certain(leader, rivals)
        self._take_out(rivals[is_worse], REJECTED, leader)
        self._take_out(rivals[~is_worse & (near_enough >= self._level)], SET_ASIDE, leader)
        if not self._finished:
            undecided = rivals[self._in_race[rivals]]
            self._out_of_reach = self._test.out_of_reach(
                table, targets, leader, undecided, self._level
            )

    def _are_certain(self, leader: int, rivals: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return against which rivals the leader is certain: both were tried on all blocks."""
        if self._open_from != self.n_blocks:
            return np.zeros(len(rivals), dtype=np.bool_)
        lacks = (self._left_out[: self._open_from] == SKIPPED).any(axis=0)
        return np.asarray(~lacks[rivals] & ~lacks[leader])

    def _against(
        self,
        scores: Floats,
        targets: NDArray[np.intp],
        leader: int,
        rivals: NDArray[np.intp],
        test: Evidence | None = None,
        left_out: NDArray[np.int8] | None = None,
    ) -> tuple[Floats, Floats]:
        """Return the evidence for a leader against rivals, with that of an earlier race."""
        test = test or self._test
        better, near_enough = test.against(scores, targets, leader, rivals, left_out)
        if self.earlier_evidence is None:
            return better, near_enough
        before = self._earlier
        return better + np.diagonal(before)[rivals], near_enough + before[leader, rivals]

    def _has_returned(self) -> bool:
        """Return whether any arm that is tried has not caught up."""
        return not self._has_caught_up(np.flatnonzero(self._is_tried)).all()

    def _has_caught_up(self, arms: NDArray[np.intp]) -> NDArray[np.bool_]:
        cells = self._cells[self._open_from : self._complete, arms]
        return np.asarray((cells == TOLD).all(axis=0))

    def _return(self, back: NDArray[np.bool_]) -> None:
        """Let arms return: they catch up on the blocks that they missed, until they are decided."""
        self._open_from = int(self._raced_until[back].min())
        self._arm_states[back] = RUNS
        self._raced_until[back] = np.iinfo(np.int64).max
        self._left_behind[back] = NOBODY
        self._test = self._fresh_test()
        if self.skips:
            self._catch_up()

    def _take_out(self, arms: NDArray[np.intp], status: int, leader: int = NOBODY) -> None:
        has_all = self._has_caught_up(arms)
        self._arm_states[arms] = status
        self._raced_until[arms] = np.where(has_all, self._complete, self._open_from)
        self._left_behind[arms] = leader

    def _table(self) -> Floats:
        """Return the scores of complete blocks, for each arm while it was tried.

        Late results of skipped blocks do not count, so they cannot change a decision.
        """
        blocks = np.arange(self._open_from)[:, None]
        is_raced = blocks < self._raced_until
        if self._limits is not None:
            is_raced[:, self._limits.control] = True
        is_raced &= self._left_out[: self._open_from] != SKIPPED
        return np.where(is_raced, self._scores[: self._open_from], np.nan)

    def _leader_and_rivals(self) -> tuple[int, NDArray[np.intp]]:
        survivors = np.flatnonzero(self._arm_states == RUNS)
        sums = self._sums_of(survivors, self._complete)
        sums[~self._has_caught_up(survivors)] = -math.inf
        # If no arm that has caught up seems to keep its limits, earlier blocks say who leads.
        if self._is_catching_up and not np.isfinite(sums).any():
            sums = self._sums_of(survivors, self._open_from)
        leader = int(survivors[sums.argmax() if self._complete else 0])
        return leader, np.flatnonzero(self._in_race & (np.arange(len(self._in_race)) != leader))

    def _sums_of(self, survivors: NDArray[np.intp], blocks: int) -> Floats:
        """Return sums of scores; minus infinity for arms that seem to break a limit."""
        scores = self._scores[:blocks]
        sums = scores[:, survivors].sum(axis=0)
        if self._limits is not None:
            are_kept = self._limits.are_kept(self._counted_scores(blocks))[survivors]
            sums = np.where(are_kept | ~are_kept.any(), sums, -math.inf)
        return np.asarray(sums)

    def _counted_scores(self, blocks: int) -> Floats:
        """Return scores of the first blocks; NaN where an arm has not caught up."""
        return np.where(self._left_out[:blocks] == SKIPPED, np.nan, self._scores[:blocks])

    @property
    def issued(self) -> NDArray[np.intp]:
        """Number of pulls of each arm, whatever became of them."""
        told = (self._cells == TOLD).sum(axis=0)
        others = [*self._outstanding.values(), *self._lost.values()]
        actions = np.array([action for action, _ in others], dtype=np.intp)
        return np.asarray(told + np.bincount(actions, minlength=len(told)))

    def to_cancel(self) -> list[Pull]:
        """Return the pulls in flight that the race does not need now; all after it has stopped.

        Those are pulls on arms that are not tried, on blocks that are skipped, and those whose
        score is known: a lost pull was issued again, and its result came after all. The race may
        need the others later; it then issues those again that have failed.
        """
        if self.stopped:
            return self.outstanding()
        tried = self._is_tried
        return [
            pull
            for pull in self.outstanding()
            if not tried[pull.action]
            or self._is_skipped(self._place(pull.tag))
            or self._is_known(pull)
        ]

    def warnings(self) -> tuple[str, ...]:
        """Return a warning if many results of later blocks wait for those of one block."""
        runs = np.flatnonzero(self._arm_states == RUNS)
        cells = self._cells[self._complete :, runs]
        if self.stopped or not len(cells):
            return ()
        lacking = {self.problem.arms[arm]: 1 for arm in runs[cells[0] != TOLD]}
        return said_of_standstill(int((cells[1:] == TOLD).sum()), lacking)

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from the state of a policy with the same problem, parameters and seed."""
        super().set_state(state)
        self._test = self._fresh_test()
        self._forecast = None

    @property
    def _finished(self) -> bool:
        return int(self._in_race.sum()) <= 1 and not self._lacks_control

    @property
    def _capped(self) -> bool:
        return self._ended_early or super()._capped

    @property
    def _ended_early(self) -> bool:
        is_last = self._complete == self.max_blocks and not self._is_catching_up
        return self._out_of_reach or is_last or self._lacks_control

    @property
    def _lacks_control(self) -> bool:
        """Whether the control failed, with which all limits are compared."""
        limits = self._limits
        return limits is not None and bool(self._arm_states[limits.control] == WITHDRAWN)

    @property
    def _ending(self) -> str:
        if self._out_of_reach:
            return f"no number of blocks like these {self._complete} could decide it"
        if self._lacks_control:
            return f"the control, {self.problem.control!r}, failed"
        if self._complete == self.max_blocks:
            return f"the maximum of {self.max_blocks} blocks is reached"
        return super()._ending

    @property
    def _is_exhausted(self) -> bool:
        if self._open_from != self.n_blocks or (self._arm_states == WAITS).any():
            return False
        left_out = self._left_out[: self._open_from, self._arm_states == RUNS]
        return not (left_out == SKIPPED).any()

    @property
    def blocks(self) -> int:
        """Number of blocks on which every arm was tried that was in the race then."""
        return int(self._complete)

    @property
    def leader(self) -> int | None:
        """The index of the best arm so far; None if all arms are withdrawn."""
        return self._leader_and_rivals()[0] if (self._arm_states == RUNS).any() else None

    @property
    def order(self) -> NDArray[np.intp]:
        """The block of your list in each place of the race.

        Raises
        ------
        NotSupported
            If blocks have no end, so there is no list of them.
        """
        if self._n_listed is None:
            raise NotSupported("blocks without n_blocks or max_blocks have no list")
        return self._order.copy() if self.shuffle else np.arange(self._n_listed)

    def _listed(self, values: NDArray[Any], otherwise: Any) -> NDArray[Any]:
        """Return values by the order of the race in the order of the list."""
        order = self.order
        known = values[: len(order)]
        listed = np.full((len(order), values.shape[1]), otherwise)
        listed[order[: len(known)]] = known
        return listed
