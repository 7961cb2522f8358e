"""What policies that bet on blocks have in common in all families."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.confidence.block_betting.book import all_wealth, evidence_for
from fairtrial.confidence.block_betting.cuts import ASSIGNED, Cuts, OutsideResults
from fairtrial.confidence.block_betting.live import NEVER_COUNTED, LiveBlocks, Randomize
from fairtrial.confidence.block_betting.planned_end import chance_by_end
from fairtrial.confidence.effects import (
    BlockResults,
    Difference,
    Spread,
    difference_of_arms,
)
from fairtrial.confidence.loss_test import UNEQUAL_LOSSES
from fairtrial.confidence.means import BlockMeans, Settled
from fairtrial.core.fixed_confidence import FixedConfidencePolicy
from fairtrial.core.policy import Choice
from fairtrial.core.progress_parts import AnswerStatus
from fairtrial.core.pull import Pull
from fairtrial.core.recommendation import PREDICTABLE, Guarantee
from fairtrial.core.validation import check_choice, check_flag
from fairtrial.core.wording import (
    MANY_WAIT,
    listed,
    plural,
    said_of_awaited,
    said_of_lost_pulls,
    said_of_never_made,
    said_of_standstill,
)
from fairtrial.errors import InvalidArgument, NotSupported

__all__ = ["BlockPolicy", "answers_with_wealth"]

Floats = NDArray[np.float64]

_LEFT_OVER = "of blocks that were not complete when the study ended"

_MANY_LOST = 5
"""Lost pulls without any result that are worth a warning if nothing can be planned."""


class BlockPolicy(FixedConfidencePolicy):
    """A policy whose pulls come from `LiveBlocks`; its family defines the rest.

    Parameters
    ----------
    delta : float
        Accepted probability of a wrong answer.
    max_pulls : int, optional
        Stop undecided after this many results.
    assigned : array-like of int, optional
        The action of every unit of a finished experiment, in the order of assignment, for
        `fairtrial.analyse`. Blocks are cut from these assignments instead of being planned.
    randomize : bool or "bernoulli"
        True (default): the pulls of a block come in random order, each drawn from those left.
        ``"bernoulli"``: the arm of each pull is drawn on its own, with the planned shares, when its
        block is planned; knowing the earlier pulls of a block then does not help to guess the next
        arm. False: the most numerous arm comes first, and the next pull can be predicted from the
        results.
    seed : None, int or numpy.random.Generator
        Source of the random order.
    """

    state_fields: ClassVar[tuple[str, ...]] = (
        *(f"_blocks.{name}" for name in LiveBlocks.fields),
        "_outside.moments",
        "_told_at_decision",
    )

    batch: int | None
    losses: str = "informative"
    max_replacements: int | None = None
    noise: str = "sub-Gaussian"
    randomize: Randomize
    assigned: ArrayLike | None
    _blocks: LiveBlocks

    _evidence_scale = "log_e_value"

    _cuts: Cuts | None = None
    """The blocks of a finished experiment, if all pulls were assigned by others."""

    _outside: OutsideResults
    """The results of a finished experiment that are in no block."""

    _end: int | None = None
    """The pulls after which the experiment ends, if its bets are aimed at that."""

    _told_at_decision: int = -1
    """Number of results when the policy decided; -1 while it has not."""

    @property
    def randomizes(self) -> bool:
        """Whether pulls come in random order; False if all are assigned externally."""
        return self.randomize is not False and self._cuts is None

    def conceal(self, secret: str) -> None:
        """Toss all coins with a secret key instead of the seed; call it before the first pull."""
        super().conceal(secret)
        self._blocks.use_key(self._key)

    def _end_as_planned(self, planned_end: bool) -> None:
        """Aim bets at the end that `max_pulls` states, if this is asked for."""
        self.planned_end = check_flag("planned_end", planned_end)
        if planned_end and self.max_pulls is None:
            raise InvalidArgument("planned_end", "must be given together with max_pulls")
        self._end = self.max_pulls if planned_end else None

    def _noise_as_stated(self, noise: str, *, is_known: bool) -> str:
        """Return what is known of the shape of the noise; "normal" only where bets can use it.

        `is_known`: whether the problem has bets for normal noise.
        """
        check_choice("noise", noise, ["sub-Gaussian", "normal"])
        if noise == "normal" and self._end is None:
            raise InvalidArgument("noise", "must be 'normal' only with planned_end", noise)
        if noise == "normal" and not is_known:
            raise NotSupported(
                "noise='normal' needs one measure with a known noise_std, and no prediction: "
                "without it, planned_end aims the bets at the end for every noise and range"
            )
        return noise

    def _require_pulls(self, needed: int, which: str) -> None:
        """Refuse a planned end before this number of pulls; `which` says what they are."""
        if self._end is not None and self._end < needed:
            accepted = f"must be at least {needed} with planned_end: {which}"
            raise InvalidArgument("max_pulls", accepted, self._end)

    def _has_issued_all(self) -> bool:
        # With a planned end, each family counts the pulls of its blocks, also those that failed.
        return self._end is None and super()._has_issued_all()

    def horizon_for(self, max_pulls: int) -> int:
        """Return the horizon of a run: with a planned end, lost pulls may be made again.

        Twice the pulls until the end are a limit against runs in which nearly all get lost.
        """
        if not (self.planned_end and self.losses == "ignorable"):
            return max_pulls
        more = self.max_replacements
        return 2 * max_pulls if more is None else max_pulls + more

    def choose(self) -> Choice:
        """Return the next pull of an open block, planning a new one when there is none."""
        if self._cuts is not None:
            return self._next_assigned(self._cuts)
        again = self._made_again()
        if again is None and self._is_all_issued(slice(None)):
            return None
        return again or self._blocks.choose(float(self.batch or 0))

    def _is_all_issued(self, actions: slice) -> bool:
        """Return whether a planned end leaves no pull of one of these actions."""
        return self._end is not None and not self._blocks.has_pulls_until(self._end, actions)

    def _made_again(self, accepts: Callable[[int], bool] = lambda _: True) -> Choice:
        """Return a pull that a closed block lacks, if lost pulls are made again."""
        return self._blocks.make_again(self.asked, accepts)

    # ------------------------------------------------------------------- contract

    @abstractmethod
    def _told(self, pull: Pull, outcome: Any) -> Any:
        """Return an outcome in the form that the family's kernels take."""

    def learn(self, pull: Pull, outcome: Any) -> None:
        """Take one result; a lost one that comes after all counts while its block is open."""
        told = self._told(pull, outcome)
        self._blocks.learn(pull, told, was_lost=pull.number in self._lost)
        self._note_outside(pull, outcome)

    def on_failure(self, pull: Pull, reason: str) -> None:
        """Count the pull as the worst value if rewards have a range; otherwise leave it out."""
        self._blocks.lose(pull, stopped=self.stopped)

    def on_amend(self, pull: Pull, old: Any, new: Any) -> None:
        """Correct the data, and all bets on the result."""
        self._blocks.amend(pull, self._told(pull, old), self._told(pull, new))
        self._note_outside(pull, new, instead_of=old)

    def _after_news(self) -> None:
        if self._cuts is not None:
            return
        while self._need_not_wait:
            if not self._blocks.close_oldest(self._open_pulls_of_oldest):
                break
        if not self._finished:
            self._told_at_decision = -1
        elif self._told_at_decision < 0:
            self._told_at_decision = self.told

    @property
    def _need_not_wait(self) -> bool:
        """Whether the oldest block need not wait any longer for its open pulls."""
        blocks = self._blocks
        if blocks.has_worst_values:
            return blocks.is_overtaken(self.asked)
        if not blocks.holds_back_others:
            return False
        # No bet is on an arm without results, but bets on others have no worst value.
        pulls, silent = self._open_pulls_of_oldest, self._silent
        are_silent = all(action in silent for _, action, _ in pulls)
        return are_silent and blocks.waits_for_no_bet(pulls)

    @property
    def _open_pulls_of_oldest(self) -> list[tuple[int, int, int]]:
        """Number, action and tag of the open pulls that the oldest open block waits for."""
        return [(number, *self._outstanding[number]) for number in self._open_of_oldest]

    # -------------------------------------------------------------------- report

    @property
    def _finished(self) -> bool:
        return self._blocks.finished

    # The following holds if the answer is one arm or none; other families have their own.

    @property
    @abstractmethod
    def _threshold(self) -> float:
        """The logarithm of the e-value that is needed."""

    @property
    def _kernels(self) -> Any:
        return self._blocks.kernels

    @property
    def _separately(self) -> bool:
        """Whether every ledger is tested separately, as a tolerance requires."""
        return False

    @property
    def _answer(self) -> Any:
        if self._finished:
            return int(self._blocks.state.answer[0])
        leader = int(self._kernels.answer_now(self._blocks.arrays))
        return leader if leader >= 0 else None

    @property
    def _rejected(self) -> NDArray[np.bool_]:
        """Which answers are ruled out; "no arm" is last."""
        return np.asarray(self._blocks.state.book.rejected, dtype=bool)

    @property
    def _wealth(self) -> Floats:
        """The log wealth against every answer; "no arm" is last."""
        return np.asarray(all_wealth(self._blocks.state.book))

    def _candidates(self) -> tuple[Any, ...] | None:
        if self._finished:
            return (self._answers.label(int(self._blocks.state.answer[0])),)
        if self._separately:
            # With a tolerance the evidence is that a rival is better by more than the tolerance.
            return None
        return tuple(map(self._answers.label, np.flatnonzero(~self._rejected).tolist()))

    def _evidence(self) -> tuple[float | None, float | None]:
        threshold, leader = self._threshold, self._answer
        if leader is None:
            return None, threshold
        if self._separately:
            evidence = float(evidence_for(self._blocks.state.book, leader))
            return min(evidence, threshold), threshold
        rivals = ~self._rejected
        rivals[leader] = False
        # Every rival is rejected: even the smallest of their wealths reached the threshold.
        return float(self._wealth[rivals].min()) if rivals.any() else threshold, threshold

    def _answers_with_wealth(self) -> tuple[AnswerStatus, ...]:
        """Return every possible answer with the evidence against it."""
        wealth = self._wealth
        labels = [self._answers.label(one) for one in range(len(wealth))]
        found = answers_with_wealth(labels, wealth, self._rejected)
        closed = self._blocks.closed
        # What people have closed is not ruled out by evidence.
        return tuple(one for k, one in enumerate(found) if not (closed.size and closed[k]))

    def _details(self) -> Mapping[str, Any]:
        return {"blocks": self._blocks.planned}

    # ------------------------------------------------------- assumptions and losses

    @property
    def _loses_unequally(self) -> bool:
        """Whether some arms lose far more results than others."""
        return self._blocks.loses_unequally()

    def _contradicted(self) -> tuple[str, ...]:
        """Return warnings about assumptions that the results contradict."""
        return ()

    def warnings(self) -> tuple[str, ...]:
        """Return what the results contradict, what delays the evidence, and unequal losses."""
        awaited = said_of_awaited(self._awaited_by_all, by_all=True)
        found = (*self._contradicted(), *self._standstill, *awaited)
        return (*found, UNEQUAL_LOSSES) if self._loses_unequally else found

    def remarks(self) -> tuple[str, ...]:
        """Return how many open pulls count as their worst."""
        return self._blocks.said_of_open_pulls()

    def remarks_on_arms(self) -> tuple[str, ...]:
        """Return which planned pulls were never asked for, and which arms lose their results."""
        return (*self._said_of_never_made(), *self._said_of_unequal_losses())

    def _said_of_unequal_losses(self) -> tuple[str, ...]:
        """Return how many pulls each arm has lost, if some lose far more than others."""
        # The checks of a table say it of a finished experiment.
        if self._cuts is not None or not self._loses_unequally:
            return ()
        lost = Counter(str(self.problem.labels(at)["arm"]) for at, _ in self._lost.values())
        arms = {str(self.problem.labels(at)["arm"]) for at in range(self.problem.n_actions)}
        return said_of_lost_pulls(lost, len(arms))

    def _said_of_never_made(self) -> tuple[str, ...]:
        of_closed = self._never_made_of_closed()
        others = self._planned_never_made.total() - of_closed.total()
        return said_of_never_made(others, of_closed, have_worst=self._blocks.has_worst_values)

    @property
    def _planned_never_made(self) -> Counter[int]:
        """The number of planned pulls that are not made, by action.

        Without those in place of lost pulls that nobody will make any more: they count among the
        lost ones.
        """
        never = Counter(action for action, _ in self._blocks.never_issued)
        replacements = self._blocks.replacements_never_made
        return never - Counter(
            action for action in replacements if self.stopped or not self._can_be_made(action)
        )

    def _how_lost_count(self) -> Mapping[str, int]:
        """Return how many lost pulls are treated in which way; nothing of finished experiments."""
        if self._cuts is not None:
            return {}
        return self._blocks.how_lost_count(self._lost, self._can_be_made, stopped=self.stopped)

    def open_as_worst(self) -> tuple[int, ...]:
        """Return the numbers of the open pulls that count as their worst."""
        return self._blocks.open_as_worst

    def _never_made_of_closed(self) -> Counter[str]:
        """Return the number of planned pulls of each closed arm and group that are not made."""
        closed = {"arm": self.closed_arms, "group": self.closed_groups}
        if not any(closed.values()):
            return Counter()
        cells = map(self.problem.labels, self._planned_never_made.elements())
        parts = [
            next((f"{name} {cell[name]}" for name in closed if cell.get(name) in closed[name]), "")
            for cell in cells
        ]
        return Counter(filter(None, parts))

    def why_no_pull(self, **context: Any) -> str:
        """Return who has no place in the study near its planned end; empty if everybody has."""
        if self._end is None or self.stopped:
            return ""
        if not self._has_handed_out_all():
            return self._whose_pulls_are_handed_out(**context)
        open_ = plural(self.n_outstanding, "result")
        verb = "is" if self.n_outstanding == 1 else "are"
        said = f"all pulls until the planned end have been handed out; {open_} {verb} still open"
        return f"{said}: {self._no_place()}"

    def _has_handed_out_all(self) -> bool:
        """Return whether no pull is left until the planned end, not even one to make again."""
        return self._is_all_issued(slice(None)) and not self._blocks.lacks(self._can_be_made)

    def _can_be_made(self, action: int) -> bool:
        """Return whether a pull of this action that a closed block lacks can still be made."""
        return True

    def _whose_pulls_are_handed_out(self, **context: Any) -> str:
        """Return in words which requests get none of the pulls that are left; empty if all do."""
        return ""

    def _no_place(self, whose: str = "") -> str:
        """Return what it means that pulls are handed out; `whose`: the groups, if only theirs."""
        lost = ", unless a pull gets lost" if self._blocks.may_make_more_again else ""
        return f"whoever {whose}comes now has no place in the study{lost}"

    def _with_losses(self, stated: Guarantee, assumption: str, one: str = "result") -> Guarantee:
        """Add to a guarantee what it assumes about losses that may be repeated."""
        if self.losses != "ignorable":
            return stated
        stated = stated.assuming(assumption)
        if self._loses_unequally:
            return stated.weakened(f"some arms lose more {one}s than chance explains")
        return stated

    @property
    def _why_approximate(self) -> str:
        # Settled blocks do not depend on when results come, and in a range lost ones count at the
        # worst. Whatever else weakens the guarantee also weakens the intervals.
        doubts = "; ".join(self.guarantee.doubts)
        if doubts or not self._leaves_out_losses:
            return doubts
        called_back = [number for number, _, _ in self._blocks.called_back]
        lost = len(self._lost.keys() - called_back) - self._lost_of(self._silent)
        return f"{plural(lost, 'pull')} got lost, perhaps because of the values" if lost else ""

    @property
    def _leaves_out_losses(self) -> bool:
        """Whether means leave out lost results without an assumption about the reasons."""
        return False

    @property
    def _silent(self) -> frozenset[int]:
        """Actions without a result: no mean and no bet can leave out their lost pulls."""
        return frozenset()

    def _lost_of(self, actions: frozenset[int]) -> int:
        """Return the number of lost pulls of these actions."""
        if not actions:
            return 0
        called_back = {number for number, _, _ in self._blocks.called_back}
        return sum(
            action in actions and number not in called_back
            for number, (action, _) in self._lost.items()
        )

    @property
    def _losses_count(self) -> bool:
        """Whether a lost pull counts as the worst value."""
        return self._blocks.has_worst_values and self.losses != "ignorable"

    def _counted(self, counts: Floats, sums: Floats) -> Settled:
        """Return the results that means count: those of settled blocks, by action.

        Of a finished experiment, all results so far count (the arguments), and all other units are
        missing.
        """
        if self._cuts is None:
            return self._blocks.settled(losses_count=self._losses_count)
        return Settled(counts, sums, self._cuts.missing(counts))

    def _difference_by(self, spread: Spread, level: float) -> Difference | None:
        """Return what finds a difference of arms; None without any results."""
        if self._cuts is None:
            results = self._blocks.paid_results(losses_count=self._losses_count)
        else:
            results = self._results_of_all(self._cuts)
        if results is None:
            return None
        return partial(difference_of_arms, results, spread=spread, level=level)

    def _means_in_range(
        self, reward_range: tuple[float, float] | None, settled: Settled
    ) -> BlockMeans | None:
        """Return what finds means from blocks; None without a range.

        `settled`: the results that count. If the blocks are not kept, means are found from these.
        """
        if reward_range is None:
            return None
        if self._cuts is None:
            results = self._blocks.paid_results(losses_count=self._losses_count)
        else:
            results = self._results_of_all(self._cuts)
        if results is None:
            return settled.in_range(reward_range, combines=self._cuts is not None)
        return BlockMeans(results, reward_range)

    @property
    def _decided_after(self) -> int | None:
        return self._told_at_decision if self._told_at_decision >= 0 else None

    @property
    def _settled(self) -> int | None:
        return int(self._blocks.state.blocks.came.sum())

    @property
    def _never_counted(self) -> Mapping[str, int]:
        if self._cuts is not None:
            return {}
        numbers = self._blocks.never_counted.tolist()
        found = dict(zip(NEVER_COUNTED, numbers, strict=True))
        if self.stopped:
            found[_LEFT_OVER] = self._blocks.results_in_open_blocks
        for pull in self._never_told:
            why = self._blocks.why_never_counted(pull)
            if why is None and self.stopped and not self._blocks.is_paid(pull):
                why = _LEFT_OVER
            if why is not None:
                found[why] -= 1
        return {why: number for why, number in found.items() if number}

    @property
    def _never_told(self) -> Sequence[Pull]:
        """The failed pulls that count as a value: results of their blocks that nobody told."""
        return ()

    @property
    def _assigned_units(self) -> int | None:
        return None if self._cuts is None else len(self._cuts.actions)

    @property
    def _is_reopened(self) -> bool:
        return self._blocks.reopened > 0 and not self._finished

    def _remaining(self, evidence: float | None, threshold: float | None) -> float | None:
        return self._blocks.pulls_left

    @property
    def _spends_error(self) -> bool:
        """Whether the bets of a planned end spend the whole error that is left."""
        return self.noise == "normal"

    def _chance_to_decide(self) -> float | None:
        """Return the chance of a decision by the planned end, given the data; None without one."""
        evidence, threshold = self._evidence()
        if self._end is None or evidence is None or threshold is None or self.stopped:
            return None
        made, missing = self._blocks.made, threshold - evidence
        own = missing, self._end - made, self._blocks.pulls_left, made
        return chance_by_end(*own, is_normal=self._spends_error)

    @property
    def _remaining_at_most(self) -> int | None:
        """The results that can still come in blocks until the planned end, if there is one.

        They include those of open pulls that count as their worst until they come.
        """
        if self._end is None or self.stopped:
            return None
        late = len(self._blocks.open_as_worst)
        return max(0, int(self._end - self._blocks.made)) + late

    @property
    def _is_out_of_reach(self) -> bool:
        """Whether results like those so far cannot settle the leader's answer."""
        # Before the first plan, nothing is forecast.
        is_planned = self._blocks.planned > 1 and not self._finished
        return is_planned and math.isinf(self._blocks.state.forecast[0])

    @property
    def _no_forecast(self) -> str:
        blocks = self._blocks
        if blocks.overtaken < MANY_WAIT:
            return ""
        numbers = [str(number) for number in self._open_of_oldest]
        unasked = blocks.unissued_of_oldest
        verb = "is" if len(numbers) + unasked == 1 else "are"
        return f"nothing can be forecast until {_named(numbers, unasked)} {verb} told or failed"

    @property
    def _standstill(self) -> tuple[str, ...]:
        """Return a warning if many later results wait for those of one block."""
        waiting = self._blocks.overtaken
        if waiting < MANY_WAIT:
            return ()
        unasked = Counter(self._blocks.unissued_actions_of_oldest)
        lacking = Counter(self._open_of_oldest.values()) + unasked
        return said_of_standstill(waiting, {self._name_of(a): lacking[a] for a in sorted(lacking)})

    @property
    def _awaited_by_all(self) -> list[str]:
        """What has given no result although no block can be planned before one comes."""
        return []

    def _names_without(self, results: Floats) -> list[str]:
        """Return the names of actions without a result although they were often asked for.

        `results`: their number, by action.
        """
        lost = Counter(action for action, _ in self._lost.values())
        actions = {action for action, number in lost.items() if number >= _MANY_LOST}
        if self.told >= MANY_WAIT:
            actions |= lost.keys() | {action for action, _ in self._outstanding.values()}
        return [self._name_of(action) for action in sorted(actions) if results[action] == 0.0]

    def _name_of(self, action: int) -> str:
        return " / ".join(map(str, self.problem.labels(action).values()))

    @property
    def _open_of_oldest(self) -> dict[int, int]:
        """The actions of the open pulls that the oldest open block waits for, by number."""
        return {
            number: action
            for number, (action, tag) in self._outstanding.items()
            if self._blocks.oldest_lacks(number, action, tag)
        }

    def _with_order(self, stated: Guarantee) -> Guarantee:
        """Add to a guarantee what it assumes about the order of the pulls."""
        if self._cuts is not None:
            return reduce(_despite, self.doubts_of_table, stated.assuming(ASSIGNED))
        return stated if self.randomize else stated.assuming(PREDICTABLE)

    # ------------------------------------------------------------- finished experiments

    _keeps_outside: bool = False
    """Whether results of a finished experiment that are in no block are recorded and shown."""

    @abstractmethod
    def _cut(self, assigned: ArrayLike) -> Cuts:
        """Return the blocks of a finished experiment."""

    def _follow(self, assigned: ArrayLike | None) -> None:
        """Take all pulls from a finished experiment, if one is given, instead of planning them."""
        self.assigned = assigned
        self._outside = OutsideResults()
        if assigned is None:
            return
        cuts = self._cut(assigned)
        if self.batch is not None or self.max_pulls is not None:
            raise InvalidArgument("assigned", "must be given without batch and max_pulls")
        self._cuts = cuts
        if self._keeps_outside:
            unit = self._blocks.unit_of_results
            self._outside = OutsideResults(self.problem.n_actions, self._ranges_of_values, unit)
        self._blocks.skip_initial_block()

    @property
    def _ranges_of_values(self) -> list[tuple[float, float] | None]:
        """The range of each number that `_values` returns, if it is known."""
        return [self.problem.reward_range]

    def _values(self, outcome: Any) -> Floats:
        """Return the numbers of an outcome that are shown: first the one that compares arms."""
        return np.array([outcome], dtype=np.float64)

    def _note_outside(self, pull: Pull, outcome: Any, instead_of: Any = None) -> None:
        """Record a result of a finished experiment if it is in no block."""
        if self._cuts is None or not self._outside.moments.size:
            return
        is_after = not 0 <= pull.number < self._cuts.rest
        if is_after or pull.number < self._cuts.begin:
            if instead_of is not None:
                self._outside.remove(is_after, pull.action, self._values(instead_of))
            self._outside.add(is_after, pull.action, self._values(outcome))

    def _results_of_all(self, cuts: Cuts) -> BlockResults | None:
        """Return the results of a finished experiment; None without any.

        Results after the blocks count once the policy has stopped; which ones these are depends
        only on earlier results.
        """
        if not self._keeps_outside:
            return None
        return self._blocks_of_all(cuts, self._blocks.paid_results(losses_count=True))

    def _blocks_of_all(
        self, cuts: Cuts, paid: BlockResults | None, value: int = 0
    ) -> BlockResults | None:
        """Return all blocks of one of the numbers of results; None without any."""
        before, after = self._outside_blocks(cuts, value)
        found = [part for part in (before, paid, after) if part is not None]
        if not found:
            return None
        results = reduce(BlockResults.followed_by, found)
        return results if self._losses_count else results.without_losses()

    def _outside_blocks(
        self, cuts: Cuts, value: int = 0
    ) -> tuple[BlockResults | None, BlockResults | None]:
        """Return the results before and after the blocks, as a block each, once they are known."""
        before = after = None
        if min(self._outstanding, default=self.asked) >= cuts.begin:
            before = self._outside.as_block(False, cuts.initial_counts, value)
        if self.stopped:
            last = self.asked if self._finished else cuts.rest
            after = self._outside.as_block(True, cuts.counts_after(last), value)
        return before, after

    @property
    def ends_of_blocks(self) -> list[int]:
        """The units of a finished experiment until the end of each block.

        The first block is that without bets; the last one has the units that fill no block.
        """
        cuts = self._cuts
        if cuts is None:
            return []
        return sorted({cuts.begin, *cuts.starts.values(), len(cuts.actions)})

    def _next_assigned(self, cuts: Cuts) -> tuple[int, int] | None:
        """Return action and tag of the next assigned unit.

        A block starts after the earlier blocks have all results.
        """
        if self.asked == len(cuts.actions):
            return None
        begins = self.asked in cuts.starts
        if self._outstanding and (begins or self.asked == cuts.rest):
            return None
        if begins:
            self._blocks.open_assigned(cuts.counts_from(self.asked))
        action = int(cuts.actions[self.asked])
        return action, self._blocks.ask_assigned(action)

    def _can_run(self, environment: Any, horizon: int | None, parallel: int) -> bool:
        return self._cuts is None and super()._can_run(environment, horizon, parallel)

    def _left_out(self, results: float) -> int:
        """Return the number of pulls without a result; `results`: number of all results.

        Of actions without any, there are no means or bets that could leave them out.
        """
        if self._cuts is not None:
            return self._ended_units - int(results)
        return self._blocks.lost - self._lost_of(self._silent)

    @property
    def _ended_units(self) -> int:
        """Units of a finished experiment that have a result or will have none."""
        known = self.told + len(self._lost) + len(self._outstanding)
        # Units after the stop are told without being asked for.
        own = self._cuts.actions if self._cuts is not None else ()
        return len(own) if known > self.asked else self.asked - len(self._outstanding)

    @property
    def _capped(self) -> bool:
        if self._end is not None:
            return self._blocks.has_ended(self._end)
        if self._cuts is None:
            return super()._capped
        return self.asked == len(self._cuts.actions) and not self._outstanding

    @property
    def _ending(self) -> str:
        if self._cuts is not None:
            return f"all {len(self._cuts.actions):,} units of the experiment are used"
        if self._end is not None:
            return "; ".join([self._end_in_words(self._end), *self._said_of_never_made()])
        of_closed, have_worst = self._never_made_of_closed(), self._blocks.has_worst_values
        said = said_of_never_made(0, of_closed, have_worst=have_worst)
        return "; ".join([super()._ending, *said])

    def _end_in_words(self, end: int) -> str:
        """Return that the planned end is reached, and how many pulls were asked for if not `end`.

        Not all planned pulls are made if an arm was closed or nobody came for them, and lost ones
        may be made again. The end counts each planned pull once.
        """
        reached = f"the planned end of {plural(end, 'pull')} is reached"
        again = self.asked - (end - self._planned_never_made.total())
        if not again and self.asked == end:
            return reached
        in_place = f", {again:,} of them in place of lost ones" if again else ""
        return f"{reached}: {self.asked:,} were asked for{in_place}"

    def _left(self, evidence: float | None, threshold: float | None) -> float | None:
        if self._cuts is None or self._finished or not self._capped:
            return super()._left(evidence, threshold)
        # Results that would have been needed beyond those of the last block.
        needed = float(self._blocks.state.forecast[0]) - self._cuts.last_block
        return max(0.0, needed) if math.isfinite(needed) else None


def _despite(stated: Guarantee, doubt: str) -> Guarantee:
    """Return a guarantee that holds only if what contradicts its table does no harm.

    Examples
    --------
    >>> guarantee = _despite(Guarantee("betting", True, ""), "units are missing")
    >>> print(*guarantee.assumptions)
    no unit is missing or has its arm because of its outcome, although units are missing
    >>> guarantee.doubts
    ('units are missing',)
    """
    assumption = f"no unit is missing or has its arm because of its outcome, although {doubt}"
    return stated.weakened(assumption, doubt)


def _named(numbers: Sequence[str], unasked: int) -> str:
    """Name the pulls that a block lacks: issued ones by number, and a count of the others.

    Examples
    --------
    >>> _named(["20"], 0), _named([], 3)
    ('pull 20', '3 pulls of an earlier block that are not asked for yet')
    >>> _named(["20", "24"], 1)
    'pulls 20, 24 and 1 more that is not asked for yet'
    """
    rest = f"that {'is' if unasked == 1 else 'are'} not asked for yet"
    if not numbers:
        return f"{plural(unasked, 'pull')} of an earlier block {rest}"
    known = f"pull{'s' if len(numbers) + unasked > 1 else ''} {listed(numbers)}"
    return f"{known} and {unasked:,} more {rest}" if unasked else known


def answers_with_wealth(
    labels: Sequence[Any], wealth: Floats, rejected: NDArray[Any]
) -> tuple[AnswerStatus, ...]:
    """Return every possible answer with the evidence against it.

    Examples
    --------
    >>> found = answers_with_wealth(["a", None], np.array([0.5, np.inf]), np.array([0, 1]))
    >>> [(one.log_wealth, one.rejected) for one in found]
    [(0.5, False), (None, True)]
    """
    return tuple(
        AnswerStatus(label, bool(out), log_wealth=float(value) if math.isfinite(value) else None)
        for label, value, out in zip(labels, wealth, rejected, strict=True)
    )
