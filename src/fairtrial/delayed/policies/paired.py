"""The race over shared blocks: all arms are tried on the same blocks and compared in pairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.fixed_confidence import FixedConfidencePolicy
from fairtrial.core.policy import Choice
from fairtrial.core.progress_parts import ArmStatus, Parts
from fairtrial.core.pull import UNSOLICITED, Pull
from fairtrial.core.recommendation import PREDICTABLE, Estimate, Guarantee, Status
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
from fairtrial.delayed.policies.race_forecast import (
    FEWEST_BLOCKS,
    blocks_needed,
    repeated_blocks,
)
from fairtrial.delayed.problem import Problem
from fairtrial.errors import NotSupported

__all__ = ["Departure", "PairedRacing"]

Floats = NDArray[np.float64]

_FREE, _ISSUED, _TOLD = 0, 1, 2
_RUNS, _REJECTED, _WITHDRAWN, _SET_ASIDE, _WAITS = 0, 1, 2, 3, 4
_STATES = ("undecided", "rejected", "withdrawn", "set aside", "waiting")
_WITHDRAWS = frozenset({"error", "user"})
_NOBODY = -1
# Evidence, in nats, that no accepted error probability exceeds.
_CERTAIN = 1e4
# A race without an end of blocks is forecast until it has this many times its blocks.
_HORIZON = 10
_PREDICTABLE_ON_A_BLOCK = (
    "nobody's guess of the arm that is next on a block changes an outcome: only the order of "
    "blocks is random"
)
# Number of blocks that are shown because results on them differ.
_DISPUTED = 8
# Sums of scores that differ by less, relative to their size, are equal: only rounding matters.
_ROUNDING = 1e-12


class Departure(NamedTuple):
    """How an arm left a race.

    Parameters
    ----------
    blocks : int
        Number of complete blocks when it left.
    leader : str or None
        The leading arm at that time; None if the arm was withdrawn, or rejected by an earlier race.
    behind : float or None
        How much better the leader was on average, in units of the scores. It is negative if the
        leader was worse, when the arm left because it is not better by more than the tolerance.
    """

    blocks: int
    leader: str | None
    behind: float | None


class PairedRacing(FixedConfidencePolicy):
    """Race over blocks that all arms share: a split of a data set, an instance with its seed.

    Effects of a block that are common to all arms cancel in the difference of two arms, so far
    fewer pulls are needed than with separate blocks for every arm. On every block, each surviving
    arm is pulled once. An arm is rejected when there is enough evidence that the leader is better.
    Decisions follow the order of the blocks, not the order in which results arrive. So they are the
    same for any number of workers, and are not biased towards fast results.

    Parameters
    ----------
    problem : delayed.Problem
        The problem, with ``top=1`` and ``feedback="full"``. With a `reward_range`, the race bets on
        the bounded differences, and is proven. Otherwise, it estimates the deviation of the
        differences and assumes that they are normal; a `noise_std` is ignored.
    delta : float
        Accepted probability of a wrong answer.
    parallel : int, optional
        Maximum number of pulls in flight; by default no limit.
    max_pulls : int, optional
        Stop undecided after this many results.
    n_blocks : int, optional
        Number of all blocks, if they are drawn without replacement: an arm that leads on all of
        them is certainly the best. By default there is no end of blocks.
    max_blocks : int, optional
        Stop undecided after N complete blocks.
    overlap : float
        The variance of an error that all blocks share, relative to that of a difference. For random
        splits of one data set, if the means should hold for new data from the same source, it is
        the number of test rows divided by the number of training rows. The race then ends undecided
        when no number of such blocks could decide it. By default 0: blocks are independent. Only
        without a `reward_range` and `n_blocks`.
    shuffle : bool
        Whether to draw the order of the blocks at random, of which there must be `n_blocks` or
        `max_blocks`. The number of a block is then its place in your list, not in the race, and no
        arm is the first on all blocks.
    skips : bool
        Whether to leave out pulls that no open question needs; only with a `margin`. An arm waits
        when it would be out if the leader kept its limits. When all wait, blocks of categories in
        which the leader's limit is settled are skipped, too.
    holds_back : bool
        Whether to issue no pull of a later block while many results wait for a pull of an earlier
        one: twice as many as there are pulls in flight and arms in the race. They may turn out to
        be on arms that have left. By default, later blocks are tried meanwhile.
    blocks_from : str, optional
        Where the blocks come from: the name of a data set, or a checksum. It is recorded with the
        parameters, so that nobody continues a study with other blocks.
    margin : float, optional
        How much worse than the problem's `control` the answer may be in each category of blocks.
        An arm that is worse by more is no answer; the control always is one. It needs a
        `reward_range`, and `n_blocks` or `max_blocks`.
    categories : sequence of str, optional
        The category of each block of the list. By default all blocks are one category.
    arms_from : sequence of str, optional
        Where each arm comes from, or a checksum of it: of a prompt, for example. It is recorded, so
        that nobody continues a study with other arms under the same labels.
    earlier_evidence : array of shape (arms, arms), optional
        Evidence in nats before the first block, by `carried_evidence` of an earlier race on the
        same blocks. Row l, column k: that arm l is not worse than k by more than the tolerance;
        the diagonal: that k is not the best. It needs a `reward_range`.
    judge : array of shape (n_blocks, arms), optional
        Scores that a cheap judge gave to all arms on all blocks of the list before the race. What
        they predict is subtracted from differences, so fewer pulls are needed if they are similar
        to scores; the guarantee is the same if they are not. It needs a `reward_range` and
        `n_blocks`.
    seed : None, int or numpy.random.Generator
        Source of the random order; ignored without `shuffle`.

    Raises
    ------
    InvalidArgument
        If an argument is not acceptable.

    Notes
    -----
    A pull's `tag` is the number of its block. The caller must draw the blocks independently of each
    other (or all `n_blocks` in random order), and use the same blocks for all arms. A lost pull is
    issued again on its block. A pull that fails for the reason ``"error"`` or ``"user"`` withdraws
    its arm from the race, unless the arm was rejected or set aside before. A control with limits is
    withdrawn even then, and the race ends undecided.

    An arm is set aside, and not pulled any more, when there is enough evidence that the leader is
    worse by at most the tolerance. If another arm is left in the end, it returns, and catches up on
    the blocks that it missed until it is decided.

    Bets: a mixture of products of 1 + b (difference + tolerance) / range, over fixed stakes b
    (Waudby-Smith and Ramdas 2024, "Estimating means of bounded random variables by betting"). Most
    of it is bet on the arm that led before each block, which needs no union bound over arms. With
    `n_blocks`, bets are on what the remaining blocks must be like if the arm were not worse
    (docs/explanation/races.md). Otherwise: `fairtrial.confidence.StudentMixture`, a martingale
    under every variance if differences are normal. The label is then "calibrated": its error rate
    was measured (docs/how-to/tune-a-model.md).

    Examples
    --------
    >>> problem = Problem(["a", "b", "c"], reward_range=(0, 1))
    >>> policy = PairedRacing(problem, delta=0.05)
    >>> while not policy.stopped:
    ...     pull = policy.ask()
    ...     block = 0.2 * (pull.tag % 2)
    ...     policy.tell(pull, block + {"a": 0.1, "b": 0.6, "c": 0.3}[pull.arm])
    >>> policy.recommend().arm, policy.told
    ('b', 44)
    """

    problem: Problem
    version = 5
    has_shared_blocks = True
    results_are_independent = False
    _nothing_yet = "every arm was withdrawn"
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
    expiry: ClassVar[Literal["drop", "reissue"]] = "reissue"

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
        self._left_behind = np.full(arms, _NOBODY)
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
            self._take_out(np.flatnonzero(is_worse), _REJECTED)

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
        return np.asarray((self._arm_states == _RUNS) | (self._arm_states == _WAITS))

    @property
    def _is_tried(self) -> NDArray[np.bool_]:
        """Which arms are tried on the next blocks: the surviving ones, and a control."""
        tried = np.asarray(self._arm_states == _RUNS)
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
            free = survivors[self._cells[block, survivors] == _FREE]
            if free.size and not self._is_skipped(block):
                if block > self._open_from and self._too_many_wait(survivors):
                    return None
                tag = self._tag(block)
                arm = int(free[tag % free.size if self.shuffle else 0])
                self._cells[block, arm] = _ISSUED
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
        waiting = int((self._cells[self._complete :, tried] == _TOLD).sum())
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
        block = self._place(pull.tag)
        self._scores[block, pull.action] = self.problem.sign * outcome
        self._cells[block, pull.action] = _TOLD
        self._advance()

    def on_failure(self, pull: Pull, reason: str) -> None:
        """Issue a lost pull again; an error withdraws an arm that is needed.

        If an arm that was set aside returns, a pull that failed in between is issued again.
        """
        if reason in _WITHDRAWS and self._is_needed(pull.action):
            self._withdraw(pull.action)
        elif self._cells[block := self._place(pull.tag), pull.action] == _ISSUED:
            self._cells[block, pull.action] = _FREE

    def _is_needed(self, arm: int) -> bool:
        """Return whether an arm is in the race, or a control with which others are compared."""
        is_compared = self._is_tried[arm] and not self._ended_early
        return bool(self._arm_states[arm] == _RUNS or is_compared)

    def _withdraw(self, arm: int) -> None:
        self._take_out(np.array([arm]), _WITHDRAWN)
        if (self._left_behind[self._arm_states == _WAITS] == arm).any():
            self._wake()
        if self._finished:
            self._bring_back(_NOBODY if self.leader is None else self.leader)
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
        return bool((self._cells[block, self._is_tried] == _TOLD).all())

    def _count_block(self) -> None:
        """Count a block, and keep the arms that led before it: bets on them stay as they are."""
        survivors = np.flatnonzero(self._arm_states == _RUNS)
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
        self._arm_states[rivals[wait]] = _WAITS
        self._left_behind[rivals[wait]] = leader
        self._settled_categories[:] = wait.all() and [
            self._would_be_out(leader, rivals, others).all()
            for others in ~np.eye(len(every), dtype=np.bool_)
        ]
        # Limits of two categories can hold down two parts of the capital.
        if self._settled_categories.all():
            self._settled_categories[:] = False

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
        waits = self._arm_states == _WAITS
        if self._limits is None or not waits.any():
            return False
        is_last = self._complete == self._n_listed and self.max_blocks is None
        behind_another = bool((self._left_behind[waits] != leader).any())
        are_kept = self._limits.are_kept(self._counted_scores(self._complete))
        return is_last or behind_another or not are_kept[leader]

    def _wake(self) -> None:
        """Let waiting arms go on: they catch up on the blocks that they skipped."""
        waits = self._arm_states == _WAITS
        self._arm_states[waits] = _RUNS
        self._left_behind[waits] = _NOBODY
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
        back = (self._arm_states == _SET_ASIDE) & (self._left_behind != leader)
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
        self._take_out(rivals[is_worse], _REJECTED, leader)
        self._take_out(rivals[~is_worse & (near_enough >= self._level)], _SET_ASIDE, leader)
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
        return np.asarray((cells == _TOLD).all(axis=0))

    def _return(self, back: NDArray[np.bool_]) -> None:
        """Let arms return: they catch up on the blocks that they missed, until they are decided."""
        self._open_from = int(self._raced_until[back].min())
        self._arm_states[back] = _RUNS
        self._raced_until[back] = np.iinfo(np.int64).max
        self._left_behind[back] = _NOBODY
        self._test = self._fresh_test()
        if self.skips:
            self._catch_up()

    def _take_out(self, arms: NDArray[np.intp], status: int, leader: int = _NOBODY) -> None:
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
        survivors = np.flatnonzero(self._arm_states == _RUNS)
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
        told = (self._cells == _TOLD).sum(axis=0)
        others = [*self._outstanding.values(), *self._lost.values()]
        actions = np.array([action for action, _ in others], dtype=np.intp)
        return np.asarray(told + np.bincount(actions, minlength=len(told)))

    def to_cancel(self) -> list[Pull]:
        """Return the pulls in flight on decided arms; all after the race has stopped."""
        if self.stopped:
            return self.outstanding()
        tried = self._is_tried
        return [
            pull
            for pull in self.outstanding()
            if not tried[pull.action] or self._is_skipped(self._place(pull.tag))
        ]

    def warnings(self) -> tuple[str, ...]:
        """Return a warning if many results of later blocks wait for those of one block."""
        runs = np.flatnonzero(self._arm_states == _RUNS)
        cells = self._cells[self._complete :, runs]
        if self.stopped or not len(cells):
            return ()
        lacking = {self.problem.arms[arm]: 1 for arm in runs[cells[0] != _TOLD]}
        return said_of_standstill(int((cells[1:] == _TOLD).sum()), lacking)

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from the state of a policy with the same problem, parameters and seed."""
        super().set_state(state)
        self._test = self._fresh_test()
        self._forecast = None

    # -------------------------------------------------------------------- forecast

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
        told = (self._cells[self._complete :] == _TOLD).sum(axis=0)
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
        left_out[blocks:, self._arm_states == _WAITS] = SKIPPED
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
        left[self._arm_states == _WAITS] = 0.0
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
        may_come &= self._is_tried | (self._arm_states == _SET_ASIDE) | self._in_race
        known = self._cells[:end]
        may_come[: len(known)] &= known != _TOLD
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

    # ---------------------------------------------------------------------- answer

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
        return limits is not None and bool(self._arm_states[limits.control] == _WITHDRAWN)

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
        if self._open_from != self.n_blocks or (self._arm_states == _WAITS).any():
            return False
        left_out = self._left_out[: self._open_from, self._arm_states == _RUNS]
        return not (left_out == SKIPPED).any()

    @property
    def blocks(self) -> int:
        """Number of blocks on which every arm was tried that was in the race then."""
        return int(self._complete)

    @property
    def leader(self) -> int | None:
        """The index of the best arm so far; None if all arms are withdrawn."""
        return self._leader_and_rivals()[0] if (self._arm_states == _RUNS).any() else None

    @property
    def shortfall(self) -> float | None:
        """Upper bound on how much worse than the best the leader is, with confidence ``1 - delta``.

        It is the problem's tolerance when the race is decided; before, the smallest tolerance for
        which it would be decided. It holds together with all rejections of the race. None without a
        leader, or if the control failed, so that nobody knows which limits the leader keeps.
        """
        if self.leader is None or self._lacks_control:
            return None
        tolerance = float(self.problem.tolerance)
        if self._finished:
            return tolerance
        leader, _ = self._leader_and_rivals()
        aside = (self._arm_states == _SET_ASIDE) & (self._left_behind != leader)
        rivals = np.flatnonzero(self._in_race | aside).tolist()
        return max(tolerance, *(self._shortfall(leader, arm) for arm in rivals if arm != leader))

    def _shortfall(self, leader: int, rival: int) -> float:
        """Return how much worse than one rival the leader may be, by the blocks of both."""
        told = self._cells[: self._complete, rival] == _TOLD
        told |= self._arm_states[rival] == _WAITS
        blocks = self._complete if told.all() else int(told.argmin())
        targets = self._targets[:blocks]
        scores = self._counted_scores(blocks)
        rivals, missing = np.array([rival]), self._level - self._earlier[leader, rival]
        left_out = self._left_out[:blocks]
        return float(self._test.shortfalls(scores, targets, leader, rivals, missing, left_out)[0])

    @property
    def states(self) -> tuple[str, ...]:
        """The state of every arm.

        ``"undecided"``; ``"rejected"``, because the leader is better; ``"set aside"``, because the
        leader is worse by at most the tolerance (it returns if another arm is left in the end);
        ``"waiting"``, because only limits of the leader are open; or ``"withdrawn"``.
        """
        return tuple(_STATES[code] for code in self._arm_states.tolist())

    @property
    def departures(self) -> tuple[Departure | None, ...]:
        """How every arm left the race; None for arms that are still in it."""
        return tuple(
            None if state in (_RUNS, _WAITS) else self._departure(arm)
            for arm, state in enumerate(self._arm_states.tolist())
        )

    def _departure(self, arm: int) -> Departure:
        blocks, leader = int(self._raced_until[arm]), int(self._left_behind[arm])
        if leader == _NOBODY:
            return Departure(blocks, None, None)
        shared = self._scores[:blocks]
        ahead = shared[:, leader] - shared[:, arm]
        behind = float(ahead[~np.isnan(ahead)].mean())
        return Departure(blocks, self.problem.arms[leader], behind)

    @property
    def scores(self) -> Floats:
        """Scores by block and arm, shape (blocks, arms); NaN if unknown.

        Blocks are in the order of the race.
        """
        last = np.flatnonzero((self._cells == _TOLD).any(axis=1)).max(initial=-1)
        return self.problem.sign * self._scores[: int(last) + 1]

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

    @property
    def listed_scores(self) -> Floats:
        """Scores of all listed blocks by arm; NaN if unknown. Blocks are in the order of your list.

        Raises
        ------
        NotSupported
            If blocks have no end, so there is no list of them.
        """
        return self._listed(self.problem.sign * self._scores, np.nan)

    @property
    def requested(self) -> NDArray[np.bool_]:
        """Whether a pull was issued and not lost, by listed block and arm."""
        return self._listed(self._cells != _FREE, False)

    def _listed(self, values: NDArray[Any], otherwise: Any) -> NDArray[Any]:
        """Return values by the order of the race in the order of the list."""
        order = self.order
        known = values[: len(order)]
        listed = np.full((len(order), values.shape[1]), otherwise)
        listed[order[: len(known)]] = known
        return listed

    def carried_evidence(self, arms: Sequence[str]) -> list[list[float]]:
        """Return `earlier_evidence` for a later race of the same arms and new ones.

        The later race must draw its own random order of the same `n_blocks` blocks. Half of its
        capital against an arm of this race is what this one has won, and half begins anew; half of
        the capital against a new arm is left unused. docs/explanation/races.md has the proof, which
        holds if new arms were chosen with knowledge of all scores so far.

        Parameters
        ----------
        arms : sequence of str
            The arms of the later race, among them all of this one.

        Returns
        -------
        list of list of float
            A row for each leader, and a column for each rival.

        Raises
        ------
        NotSupported
            If this race is not proven, or its blocks have no end.
        """
        if self.n_blocks is None or not self._test.proven:
            raise NotSupported("only proven races with n_blocks carry evidence to later ones")
        places = [arms.index(label) for label in self.problem.arms]
        is_old = np.isin(np.arange(len(arms)), places)
        own = self._log_capital()
        capital = np.full((len(arms), len(arms)), -math.inf)
        capital[:, places] = np.diagonal(own)
        capital[np.ix_(places, places)] = own
        carried = np.where(is_old, np.logaddexp(capital, 0.0), 0.0) - math.log(2.0)
        return [row.tolist() for row in np.minimum(carried, _CERTAIN)]

    def _log_capital(self) -> Floats:
        """Return the log capital against each arm when it left, laid out as it is carried."""
        arms, leader = len(self.problem.arms), self.leader
        capital = np.full((arms, arms), -math.inf)
        for arm in range(arms):
            if leader is not None and arm != leader:
                capital[:, arm] = self._log_capital_against(arm, leader)
        return capital

    def _log_capital_against(self, arm: int, leader: int) -> Floats:
        """Return the capital for each leader, at the one time when the arm left or until now.

        Leaders whose scores end before have none of their own; that of bets without a tolerance
        counts for them.
        """
        blocks, rivals = int(self._raced[arm]), np.array([arm])
        if not blocks:
            return self._earlier[:, arm]
        is_exact = blocks == self.n_blocks == int(self._counted[arm])
        if is_exact and self._arm_states[arm] == _REJECTED:
            return np.full(len(self.problem.arms), math.inf)
        behind = int(self._left_behind[arm])
        opponent = leader if behind == _NOBODY else behind
        scores, targets = self._table()[:blocks], self._targets[:blocks]
        better, _ = self._against(
            scores, targets, opponent, rivals, self._fresh_test(), self._left_out[:blocks]
        )
        capital: Floats = np.full(len(self.problem.arms), better[0])
        for other in np.flatnonzero(~np.isnan(scores).any(axis=0)).tolist():
            if other != arm:
                _, near = self._against(
                    scores, targets, other, rivals, self._fresh_test(), self._left_out[:blocks]
                )
                capital[other] = max(better[0], near[0])
        return capital

    @property
    def _answer(self) -> str | None:
        return None if self.leader is None else self.problem.arms[self.leader]

    def _reason(self, status: Status, answer: Any) -> str:
        if status != "decided" or answer is None:
            return super()._reason(status, answer)
        if self.is_unopposed:
            return f"{answer!r} is the only arm left: all others failed"
        if not self._is_exhausted:
            return super()._reason(status, answer)
        equal = f"; exactly equal to it: {', '.join(self.equal_arms)}" if self.equal_arms else ""
        return f"every block was tried: {self._answers.finding(answer)}{equal}"

    @property
    def is_unopposed(self) -> bool:
        """Whether all arms but one were withdrawn, so that nothing speaks for that one."""
        n_withdrawn = int((self._arm_states == _WITHDRAWN).sum())
        is_alone = 0 < n_withdrawn == len(self._arm_states) - 1
        return is_alone and bool((self._arm_states == _RUNS).any())

    @property
    def explained_by_judge(self) -> float | None:
        """The share of the variance of differences that the judge explains.

        It is that of the leader and the arm that was compared with it on most blocks. None without
        a judge or a second arm.
        """
        leader, judge = self.leader, self._ordered_judge
        if judge is None or leader is None or len(self._counted) < 2:
            return None
        counted = self._counted
        counted[leader] = -1
        rival = int(counted.argmax())
        scores = self._scores[: min(int(counted[rival]), self._complete)]
        low, high = self.problem.reward_range or (0.0, 1.0)
        return judge.explained(scores / (high - low), leader, rival)

    @property
    def equal_arms(self) -> tuple[str, ...]:
        """The arms that are exactly as good as the answer, if all blocks were tried."""
        leader = self.leader
        if leader is None or not (self._finished and self._is_exhausted):
            return ()
        scores = self._scores[: self._complete]
        sums, sizes = scores.sum(axis=0), abs(scores).sum(axis=0)
        are_equal = abs(sums - sums[leader]) <= _ROUNDING * (sizes + sizes[leader])
        are_equal &= (self._cells[: self._complete] == _TOLD).all(axis=0)
        if self._limits is not None:
            are_equal &= self._limits.are_kept(scores)
        are_equal[leader] = False
        return tuple(self.problem.arms[arm] for arm in np.flatnonzero(are_equal))

    def _more_evidence(self) -> Mapping[str, Any]:
        return {"blocks": self.blocks}

    def _evidence(self) -> tuple[float | None, float | None]:
        """Return the leader's evidence against its closest rival, in nats, and the threshold."""
        # Without its control, a race can end with one arm or none, and without an answer.
        if self._finished or int(self._in_race.sum()) < 2 or self.leader is None:
            return None, None
        leader, rivals = self._leader_and_rivals()
        if not self._open_from:
            return 0.0, self._level
        targets = self._targets[: self._open_from]
        _, near_enough = self._against(
            self._table(), targets, leader, rivals, left_out=self._left_out[: self._open_from]
        )
        return max(0.0, float(near_enough.min())), self._level

    @property
    def _intervals(self) -> str:
        return "none"

    def _parts(self) -> Parts:
        return {"arm_states": tuple(map(self._arm_status, range(len(self.problem.arms))))}

    def _arm_status(self, arm: int) -> ArmStatus:
        label, state, leader = self.problem.arms[arm], self.states[arm], self.leader
        if leader is None:
            return ArmStatus(label, state)
        told = self._cells[: self._complete] == _TOLD
        shared = self._scores[: self._complete][told[:, leader] & told[:, arm]]
        ahead = shared[:, leader] - shared[:, arm]
        behind = float(ahead.mean()) if ahead.size else None
        return ArmStatus(label, state, ahead.size, behind, int((ahead != 0.0).sum()))

    def _details(self) -> Mapping[str, Any]:
        return {"blocks": self.blocks, "disputed_blocks": self._disputed_blocks()}

    def _disputed_blocks(self) -> list[dict[str, Any]]:
        """Return the complete blocks on which results differ most, by arm; None if unknown."""
        told = self._cells[: self._complete] == _TOLD
        known = np.where(told, self._scores[: self._complete], np.nan)
        shared = np.flatnonzero(told.sum(axis=1) >= 2)
        # The square of a large score would overflow.
        unit = float(np.nanmax(abs(known), initial=0.0)) or 1.0
        spread = np.nanstd(known[shared] / unit, axis=1)
        places = shared[np.argsort(-spread, kind="stable")][: min(_DISPUTED, (spread > 0).sum())]
        return [
            {
                "block": self._tag(place),
                **self._category_of(place),
                "results": [
                    self.problem.sign * value if math.isfinite(value) else None
                    for value in known[place].tolist()
                ],
            }
            for place in places.tolist()
        ]

    def _category_of(self, place: int) -> dict[str, str]:
        categories = self.categories
        return {} if categories is None else {"category": categories[self._tag(place)]}

    def _estimates(self) -> tuple[tuple[Estimate, ...], tuple[Estimate, ...]]:
        told = (self._cells == _TOLD).sum(axis=0)
        estimates = tuple(
            Estimate(labels, int(told[arm]), mean=self._mean(arm), counted=int(self._counted[arm]))
            for arm, labels in enumerate(self.problem.action_labels)
        )
        return estimates, estimates

    @property
    def _counted(self) -> NDArray[np.intp]:
        """Number of results of each arm that comparisons use: those on complete blocks.

        Results after a block that an arm skipped do not count: they are of some categories.
        """
        is_known = self._left_out[: self._complete] != SKIPPED
        before = np.logical_and.accumulate(is_known, axis=0).sum(axis=0)
        return np.asarray(np.minimum(self._raced, before))

    @property
    def _raced(self) -> NDArray[np.intp]:
        """Number of complete blocks while each arm was in the race."""
        has_all = self._has_caught_up(np.arange(len(self.problem.arms)))
        has_returned = (self._arm_states == _RUNS) & ~has_all
        tried = np.where(has_returned, self._open_from, self._complete)
        return np.asarray(np.minimum(tried, self._raced_until))

    @property
    def _settled(self) -> int:
        return int(self._counted.sum())

    def _mean(self, arm: int) -> float | None:
        """Return an arm's mean on complete blocks, or else of all its results."""
        blocks = self._counted[arm]
        told = self._cells[:, arm] == _TOLD
        known = self._scores[:blocks, arm] if blocks else self._scores[told, arm]
        return self.problem.sign * float(known.mean()) if known.size else None

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee and its basis; proven if scores are bounded, otherwise calibrated."""
        tolerance = self.problem.tolerance
        sound = not self._withdrawn(after_blocks=True) and not self.is_unopposed
        is_bounded = self.problem.reward_range is not None
        wrong = f"neither the best nor within {tolerance:g} of it" if tolerance else "not the best"
        if self.margin is not None:
            where = "" if self.categories is None else " in some category of blocks"
            wrong = (
                f"worse than {self.problem.control!r} by more than {self.margin:g}{where}, or "
                f"{wrong} of the arms that are not"
            )
        return Guarantee(
            name=f"paired race, {self._test.name}",
            proven=self._test.proven and sound,
            calibrated=not self._test.proven and sound,
            statement=(
                f"the probability that this race ever names an arm that is {wrong} is at most "
                f"{self.delta:g}"
            ),
            assumptions=(
                self._noise_assumption(),
                f"blocks are drawn {self._drawn()}, and are the same for all arms",
                "a pull that is lost gives the same score when it is run again",
                _PREDICTABLE_ON_A_BLOCK if self.shuffle else PREDICTABLE,
                *self._said_of_earlier(),
                *self._said_of_judge(),
                *self._withdrawals(),
            ),
            source=f"docs/{'explanation/races' if is_bounded else 'how-to/tune-a-model'}.md",
        )

    def _said_of_earlier(self) -> tuple[str, ...]:
        if self.earlier_evidence is None:
            return ()
        said = "and half of the evidence of an earlier race on them counts, whose arms are all here"
        return (f"blocks are in a random order of their own, {said}",)

    def _said_of_judge(self) -> tuple[str, ...]:
        if self.judge is None:
            return ()
        return ("the judge's scores were fixed before the order of blocks was drawn",)

    def _drawn(self) -> str:
        if self.n_blocks is None:
            return "independently of each other"
        return f"in random order from {self.n_blocks}"

    def _noise_assumption(self) -> str:
        if self.problem.reward_range is not None:
            low, high = self.problem.reward_range
            return f"scores lie in [{low:g}, {high:g}]"
        shared = (
            f", and share an error of {self.overlap:.3g} times their variance, as splits of the "
            "same rows do"
            if self.overlap
            else ""
        )
        return f"differences of two arms on a block are normal{shared} (not proven)"

    def _withdrawals(self) -> tuple[str, ...]:
        texts = []
        if gone := self._withdrawn(after_blocks=False):
            texts.append(
                f"arms that failed are not candidates, and would always fail: {', '.join(gone)}"
            )
        if gone := self._withdrawn(after_blocks=True):
            texts.append(
                "arms that failed on a later block had ruled out no arm better than the answer "
                f"(not proven): {', '.join(gone)}"
            )
        if self.is_unopposed:
            texts.append("all other arms failed, so nothing was compared (not proven)")
        return tuple(texts)

    def _withdrawn(self, *, after_blocks: bool) -> list[str]:
        """Return the arms that failed: on the first block, or after counted blocks."""
        gone = (self._arm_states == _WITHDRAWN) & ((self._raced_until > 0) == after_blocks)
        return [self.problem.arms[arm] for arm in np.flatnonzero(gone)]
