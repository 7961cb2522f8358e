"""Block betting on the best k arms: only outcomes count, in any order of arrival."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.confidence.block_betting import (
    BlockKernels,
    BlockPolicy,
    LiveBlocks,
    Randomize,
    check_randomize,
    promise,
)
from fairtrial.confidence.block_betting.bets import GRID
from fairtrial.confidence.block_betting.cuts import Cuts
from fairtrial.confidence.block_betting.live import serial_of_tag
from fairtrial.confidence.effects import (
    Difference,
    Spread,
    effects_of_arms,
    level_of_each,
    unit_for,
)
from fairtrial.confidence.means import means_of
from fairtrial.confidence.noise_test import NoiseTest
from fairtrial.core.documentation import documented_by
from fairtrial.core.progress_parts import AnswerStatus, Parts
from fairtrial.core.pull import Pull
from fairtrial.core.recommendation import Effect, Estimate, Guarantee
from fairtrial.core.run import Run
from fairtrial.core.validation import check_instance, check_optional_integer
from fairtrial.core.wording import plural
from fairtrial.delayed._kernels import block_runs, blocks
from fairtrial.delayed._kernels.block_state import CONSTANTS, Constants, Rules
from fairtrial.delayed._timed import TimedEnvironment, draw_key
from fairtrial.delayed.policies.answers import BestArms
from fairtrial.delayed.problem import Problem
from fairtrial.errors import InvalidArgument, InvalidOutcome

__all__ = ["BlockBetting"]

Floats = NDArray[np.float64]

_GROWTH, _GROWTH_TO_NEAR_END = 0.03, 0.01
"""Pulls of a block per result so far. Smaller blocks bring more power by a planned end; but every
block takes time to plan."""

_NEAR_END = 5_000
"""With a planned end after at most this many pulls, blocks are small."""

_MOST_STDS = 1e10
_RAREST = 1e4
"""Assumed maximum distance of a simulated outcome from its mean, in standard deviations."""

_OF_A_DEAD_ARM = "cancelled"
_WIDE_SPREAD = "noise_std is as stated (contradicted: results spread far more widely)"


class _Blocks(LiveBlocks):
    kernels: ClassVar[BlockKernels] = blocks
    evidence = ("wealth.target", "wealth.order", "wealth.ledgers", "wealth.own", "finished")
    fields = (*LiveBlocks.fields, "unneeded")

    def __init__(
        self, constants: Floats, randomize: Randomize, key: NDArray[np.uint64], **dimensions: int
    ) -> None:
        super().__init__(constants, randomize, key, **dimensions)
        self.unneeded: list[int] = []
        """Lost pulls that no bet needed any more."""

    def _details_of_a_loss(self, number: int) -> tuple[Any, ...]:
        return (True,)

    def _details_of_an_overdue(self, number: int) -> tuple[Any, ...]:
        # It is not a loss yet.
        return (False,)

    def lose(self, pull: Pull, *details: Any, stopped: bool) -> None:
        """Record that a pull is lost; `details`: whether a bet needed it."""
        if pull.number in self._overdue and not stopped and details[0]:
            self.state.losses[pull.action] += 1.0
        super().lose(pull, *details, stopped=stopped)
        if not stopped and not details[0]:
            self.unneeded.append(pull.number)

    def _learn_late(self, pull: Pull, value: Any) -> None:
        lost, is_paid = self.lost, self.is_paid(pull)
        super()._learn_late(pull, value)
        if self.lost == lost:
            return
        if pull.number in self.unneeded:
            self.unneeded.remove(pull.number)
        else:
            self.state.losses[pull.action] -= 1.0
        if is_paid:
            self._count_as_told(pull)

    def _learn_overdue(self, pull: Pull, value: Any) -> bool:
        counts = super()._learn_overdue(pull, value)
        if counts:
            self._count_as_told(pull)
        return counts

    def _count_as_told(self, pull: Pull) -> None:
        """Count a result of a settled block, in the comparison of losses, as one that came."""
        live = self.paid.floats[serial_of_tag(pull.tag)]
        counted = live[self._slots.in_row("live")][pull.action]
        self.state.live_came[pull.action] += counted
        self.state.live_lost[pull.action] -= counted

    def _came_and_lost(self) -> tuple[Floats, Floats]:
        """Return results and lost pulls of settled blocks while bets needed their arm."""
        if not self._overdue:
            return self.state.live_came, self.state.live_lost
        ended = self._ended_blocks
        if ended == 0:
            return np.zeros_like(self.state.live_came), np.zeros_like(self.state.live_lost)
        live = self.in_paid_blocks("live")[:ended]
        came, lost = (self.in_paid_blocks(f"blocks.{name}") for name in ("results", "losses"))
        return (live * came[:ended]).sum(axis=0), (live * lost[:ended]).sum(axis=0)


@documented_by(BlockPolicy)
class BlockBetting(BlockPolicy):
    """Block betting on the best k arms; the default for bounded rewards without readings.

    Blocks of pulls are planned from all results before them. Bets are paid once per block, in the
    order of issue. So results may arrive in any order, and delays may depend on them. For every set
    of k arms there is a wealth against it, which cannot grow on average if the set is right: no
    union bound over arms, pairs or times is needed.

    With a `reward_range`, nothing else has to be known. With `noise_std`, the noise has to be
    sub-Gaussian at that scale. Readings are ignored.

    Parameters
    ----------
    problem : Problem
        The problem, with a `reward_range` or a `noise_std`.
    batch : int, optional
        Number of pulls in a block; by default 3 % of the results so far (1 % with a planned end
        after at most 5,000 pulls), and at least two for every undecided arm.
    initial_pulls : int, optional
        First pulls of every arm, without bets; by default 10 with a reward range, and 5 with a
        known noise.
    planned_end : bool
        Plan for the end that `max_pulls` states: by then, the power is far higher than without, but
        pulls after it are not possible. All pulls count, also those without a result.

    Raises
    ------
    InvalidArgument
        If an argument is not acceptable, or the noise has to be estimated.

    Notes
    -----
    Source: docs/explanation/delayed.md, "Block betting on the best k", with the proof; the bets are
    those of docs/explanation/block-betting.md and bounded-rewards.md.
    If rewards have a range, a lost pull counts for every bet as the worst value, whatever the
    reason for the loss; if its result arrives before its block is complete, the result counts
    instead. With a known noise, the block is completed without it, which assumes that losses do not
    depend on values. With a `tolerance`, each pair of arms is tested separately, at delta / (k (n -
    k)).

    Examples
    --------
    >>> policy = BlockBetting(Problem(["a", "b", "c"], top=2, reward_range=(0, 1)))
    >>> while not policy.stopped:
    ...     pull = policy.ask()
    ...     policy.tell(pull, {"a": 0.2, "b": 0.6, "c": 0.9}[pull.arm])
    >>> policy.recommend().arm
    ('c', 'b')
    """

    problem: Problem
    version = 10
    _keeps_outside = True
    environments = TimedEnvironment
    state_fields = ("_valued", "_blocks.unneeded", *BlockPolicy.state_fields)

    def __init__(
        self,
        problem: Problem,
        delta: float = 0.05,
        batch: int | None = None,
        initial_pulls: int | None = None,
        max_pulls: int | None = None,
        planned_end: bool = False,
        assigned: ArrayLike | None = None,
        randomize: Randomize = True,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        check_instance("problem", problem, Problem)
        super().__init__(problem, delta, max_pulls, seed)
        self._end_as_planned(planned_end)
        self._answers = BestArms(problem.tolerance)
        self.batch = check_optional_integer("batch", batch, low=1)
        self.initial_pulls = check_optional_integer("initial_pulls", initial_pulls, low=1)
        if problem.estimates_noise:
            raise InvalidArgument(
                "problem", "must give noise_std or reward_range for BlockBetting", problem
            )
        self._bounded = problem.reward_range is not None
        self._rules = self._rules_of(problem)
        # One pull of every arm is the smallest block that bets on all pairs.
        needed = int(self._rules.initial_pulls + 1) * len(problem.arms)
        self._require_pulls(needed, "initial pulls, and one more of each arm")
        variances = (problem.scale / abs(self._rules.unit)) ** 2
        constants, _ = CONSTANTS.pack(Constants(variances, self._rules))
        self.randomize = check_randomize(randomize)
        self._blocks = _Blocks(constants, self.randomize, self._key, **self._dimensions)
        self._blocks.unit, self._blocks.centre = self._rules.unit, self._rules.origin
        self._blocks.unit_of_results = unit_for(self._rules.unit)
        # Failed pulls that count as the failure value.
        self._valued: list[int] = []
        self._follow(assigned)

    def _cut(self, assigned: ArrayLike) -> Cuts:
        rules = self._rules
        return Cuts.after_each_action(
            assigned, self.problem, rules.initial_pulls, rules.growth, rules.touch
        )

    def _units(self) -> tuple[float, float]:
        """Return origin and unit of internal values: larger is better, a range becomes [0, 1].

        With a known noise, the unit is a power of two, so that nothing is rounded.
        """
        problem = self.problem
        if problem.reward_range is not None:
            low, high = problem.reward_range if problem.sign > 0 else problem.reward_range[::-1]
            if not math.isfinite(high - low):
                raise InvalidArgument("problem", "must have a narrower reward_range", problem)
            return low, high - low
        scale = problem.scale
        if scale.max() / scale.min() > _MOST_STDS:
            raise InvalidArgument(
                "noise_std",
                f"must not differ between arms by more than {_MOST_STDS:g} times",
                scale,
            )
        exponent = min(max(math.frexp(float(scale.max()))[1], -1000), 1000)
        return 0.0, problem.sign * 2.0**exponent

    def _rules_of(self, problem: Problem) -> Rules:
        origin, unit = self._units()
        return Rules(
            bounded=self._bounded,
            origin=origin,
            unit=unit,
            tolerance=problem.tolerance / abs(unit),
            threshold=self._threshold,
            top=problem.top,
            initial_pulls=float(self.initial_pulls or (10 if self._bounded else 5)),
            growth=_GROWTH_TO_NEAR_END if 0 < (self._end or 0) <= _NEAR_END else _GROWTH,
            touch=2.0,
            kappa=1.0,
            cost=1.5,
            pause=0.5,
            max_pulls=float(self._end or math.inf),
            normal=False,
        )

    @property
    def _threshold(self) -> float:
        # With a tolerance, each pair of an arm outside and an arm inside is tested separately.
        problem = self.problem
        pairs = problem.top * (len(problem.arms) - problem.top)
        tests = max(pairs, 1) if problem.tolerance > 0.0 else 1
        return math.log(tests) - math.log(self.delta)

    @property
    def _dimensions(self) -> dict[str, int]:
        """Return the dimensions of the state, except the number of open blocks."""
        arms, top = len(self.problem.arms), self.problem.top
        return {
            "arms": arms,
            "actions": arms,
            "bets": max(1, top * (arms - top)) + (self._end is not None),
            "points": GRID if self._bounded else 0,
            "tested": 0 if self._bounded else arms,
        }

    # ------------------------------------------------------------------------- contract

    def learn(self, pull: Pull, outcome: float) -> None:
        """Learn one result: in time, after a loss, or unsolicited (then only plans use it)."""
        if pull.number in self._valued:
            told = self._told(pull, outcome)
            self._valued.remove(pull.number)
            self._blocks.amend(pull, self._failure_value, told)
            self._note_outside(pull, outcome, instead_of=self._failure_value)
        else:
            super().learn(pull, outcome)

    def read(self, pull: Pull, value: float, **details: Any) -> None:
        """Ignore a reading: only outcomes count."""

    def read_late(self, pull: Pull, value: float, **details: Any) -> None:
        """Ignore a reading that arrives after its pull's outcome."""

    def on_failure(self, pull: Pull, reason: str) -> None:
        """Record that a pull will have no outcome.

        It counts as the problem's `failure_value` if there is one. Otherwise, it counts for every
        bet as the worst value if rewards have a range, and not at all if only their noise is known.
        """
        is_wanted = reason != _OF_A_DEAD_ARM or bool(self._live_arms[pull.action])
        if is_wanted and self.problem.failure_value is not None and not self.stopped:
            self._blocks.learn(pull, self.problem.failure_value, was_lost=False)
            self._note_outside(pull, self.problem.failure_value)
            self._valued.append(pull.number)
        else:
            self._blocks.lose(pull, is_wanted, stopped=self.stopped)

    def _told(self, pull: Pull, outcome: float) -> float:
        """Return an outcome, unless it is so large that the stated noise is lost in rounding."""
        if not self._bounded and abs(outcome / self._rules.unit) > _MOST_STDS:
            raise InvalidOutcome(
                "outcome",
                f"must be within {_MOST_STDS:g} times the noise of 0; subtract a constant from all "
                "outcomes, which changes no comparison",
                outcome,
            )
        return outcome

    @property
    def _failure_value(self) -> float:
        value = self.problem.failure_value
        return 0.0 if value is None else value

    def to_cancel(self) -> list[Pull]:
        """Return the pulls in flight that no bet needs any more; all after the stop."""
        if self.stopped:
            return self.outstanding()
        live = self._live_arms
        if live.all():
            return []
        return [pull for pull in self.outstanding() if not live[pull.action]]

    @property
    def _live_arms(self) -> Floats:
        """One for every arm whose results a bet can still need, zero otherwise."""
        live = np.empty(len(self.problem.arms))
        blocks.find_live_arms(self._blocks.arrays, live)
        return live

    def _can_run(self, environment: TimedEnvironment, horizon: int | None, parallel: int) -> bool:
        largest = np.abs(environment.arm_means) + _RAREST * environment.arm_stds
        # Compiled code refuses no outcome.
        is_near = self._bounded or (largest <= _MOST_STDS * abs(self._rules.unit)).all()
        return self._cuts is None and environment.compiled and bool(is_near)

    def _run(
        self, environment: Any, generator: np.random.Generator, horizon: int | None, parallel: int
    ) -> Run:
        problem = self.problem
        limits = block_runs.Limits(
            max_pulls=math.inf if horizon is None else float(horizon),
            max_results=self._most_results,
            failure_value=math.nan if problem.failure_value is None else problem.failure_value,
            has_news=parallel > 1 and self._blocks.has_worst_values,
        )
        staged, slots, heap = environment.stage(draw_key(generator), parallel)
        flight = block_runs.new_flight(slots, heap, len(problem.arms))
        batch = float(self.batch or 0)
        while (why := block_runs.run(self._blocks.arrays, batch, staged, flight, limits)) >= 0:
            if why == block_runs.NO_ROOM:
                self._blocks.make_room()
            else:
                self._take_news(flight)
        clock = flight.queue.clock[0]
        self.asked, self.told = int(clock.asked), int(clock.told)
        now, cancelled = float(clock.now), int(clock.cancelled)
        return self._finished_run(environment, flight.pulls, now, cancelled)

    @property
    def _most_results(self) -> float:
        # With a planned end, the pulls of the blocks are counted instead.
        return math.inf if self.max_pulls is None or self._end is not None else self.max_pulls

    def _take_news(self, flight: block_runs.Flight) -> None:
        """Do in a compiled run what a live policy does with settled blocks and overdue pulls."""
        clock, live = flight.queue.clock[0], self._blocks
        live.keep_paid(int(clock.kept_from))
        if clock.is_overdue:
            pull = self._pull(int(clock.number), int(clock.arm), int(clock.tag))
            if math.isnan(clock.outcome):
                live.lose(pull, bool(clock.is_wanted), stopped=False)
            else:
                live.learn(pull, float(clock.outcome), was_lost=False)
        while live.is_overtaken(int(clock.asked)):
            if not live.close_oldest(block_runs.open_pulls(live.state.blocks, flight)):
                break
        settled = int(live.state.blocks.first[0])
        clock.kept_from, clock.kept = settled, int(len(live.paid) == settled)
        # Late results can change which arms bets need.
        clock.settled = -1

    # --------------------------------------------------------------------------- report

    @property
    def _has_target(self) -> bool:
        """Whether any bet has been placed and paid."""
        return bool(self._blocks.state.wealth.target[0] >= 0.0)

    @property
    def _open_pairs(self) -> NDArray[np.bool_]:
        """Which pairs of an arm outside the target and an arm inside are undecided."""
        wealth = self._blocks.state.wealth
        inside = wealth.target > 0.0
        return np.asarray((wealth.ledgers < math.inf) & ~inside[:, None] & inside)

    @property
    def _answer(self) -> tuple[str, ...]:
        """The answer, or the leading arms of those not ruled out so far; the best first."""
        state = self._blocks.state
        means = np.where(state.counts > 0.0, state.means, -math.inf)
        settled = self._finished and self._has_target
        inside = state.wealth.target if settled else np.zeros(means.size)
        candidates = {*(self._candidates() or self.problem.arms)}
        is_out = np.array([arm not in candidates for arm in self.problem.arms])
        order = np.lexsort((-means, is_out, -inside))[: self.problem.top]
        return tuple(self.problem.arms[arm] for arm in order.tolist())

    def _evidence(self) -> tuple[float | None, float | None]:
        """Return the smallest log wealth against a rival set, and the rejection threshold."""
        threshold = self._rules.threshold
        if self.problem.top == len(self.problem.arms):
            return None, None
        if not self._has_target:
            return 0.0, threshold
        # The wealth against rejected sets is at least the threshold.
        least = self._blocks.state.wealth.ledgers[self._open_pairs].min(initial=threshold)
        return float(least), threshold

    def _candidates(self) -> tuple[str, ...] | None:
        """Return the arms of sets that are not rejected, in the order of the problem.

        With a tolerance, pairs are tested instead of sets: an arm that is left out can be the best.
        """
        if self.problem.tolerance > 0.0:
            return None
        if not self._has_target:
            return self.problem.arms
        wealth = self._blocks.state.wealth
        inside, order = wealth.target > 0.0, wealth.order
        waiting = self._open_pairs.any(axis=1)
        # A set with an arm was followed by a pair whose arm is not later in the order.
        first = order[waiting].min() if waiting.any() else math.inf
        later = order >= first if self.problem.top > 1 else waiting
        kept = inside | (~inside & later)
        return tuple(arm for arm, stays in zip(self.problem.arms, kept, strict=True) if stays)

    def _estimates(self) -> tuple[tuple[Estimate, ...], tuple[Estimate, ...]]:
        """Return the mean of each arm, with an interval that holds at all times."""
        problem, (counts, sums) = self.problem, self._data
        settled = self._counted(counts, sums)
        level = self.delta / len(problem.arms)
        in_range = self._means_in_range(problem.reward_range, settled)
        if in_range is None:
            found = means_of(settled, problem.scale, level)
        else:
            found = in_range.of(np.eye(len(problem.arms)), level)
        found = found.or_so_far(counts, sums)
        estimates = tuple(
            Estimate(labels, int(counts[arm]), *found.at(arm), counted=int(settled.counts[arm]))
            for arm, labels in enumerate(problem.action_labels)
        )
        return estimates, estimates

    @property
    def _data(self) -> tuple[Floats, Floats]:
        """Numbers and sums of all results, by arm."""
        state, (origin, unit) = self._blocks.state, (self._rules.origin, self._rules.unit)
        return state.counts.copy(), state.counts * (origin + unit * state.means)

    @property
    def _settled(self) -> int | None:
        settled = super()._settled
        untold = sum(map(self._blocks.is_paid, self._never_told))
        return None if settled is None else settled - untold

    @property
    def _never_told(self) -> Sequence[Pull]:
        return [self.in_flight(number) for number in self._valued]

    @property
    def _leaves_out_losses(self) -> bool:
        problem = self.problem
        counts = problem.failure == "independent" or problem.failure_value is not None
        return not (self._bounded or counts)

    def _effects(self) -> Callable[[], tuple[Effect, ...]]:
        answer = self._answer
        difference = self._difference()
        if difference is None or not answer:
            return tuple
        arms, reference = self.problem.arms, self.problem.control or answer[0]
        weights: dict[str | None, Floats] = {None: np.ones(1)}
        return partial(effects_of_arms, arms, arms.index(reference), weights, difference)

    def _difference(self) -> Difference | None:
        """Return a function that computes differences; None before the first result."""
        problem, has_control = self.problem, self.problem.control is not None
        level = level_of_each(self.delta, len(problem.arms), has_control=has_control)
        return self._difference_by(Spread(problem.scale, problem.reward_range), level)

    def _parts(self) -> Parts:
        """Return the chance of a decision, and which arms are decided, unless only pairs are."""
        chance: Parts = {"chance_to_decide": self._chance_to_decide()}
        candidates = self._candidates()
        if candidates is None:
            return chance
        settled = self._answer if self._finished else ()
        return chance | {
            "answers": tuple(
                AnswerStatus(arm, rejected=arm not in candidates, accepted=arm in settled)
                for arm in self.problem.arms
            )
        }

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee, and its basis after losses and corrections."""
        problem, state = self.problem, self._blocks.state
        lost = int(state.losses.sum())
        if self._cuts is not None:
            lost = self._left_out(state.counts.sum())
        stated = promise(
            self.delta,
            problem.reward_range,
            "whatever the true means are and whenever results arrive",
            "the true mean of each arm does not change during the study",
        )
        stated = self._with_order(stated)
        if problem.clip:
            clipped = "the means are those of outcomes clipped to the range"
            stated = replace(stated, assumptions=(*stated.assumptions, clipped))
        if lost and not self._bounded:
            chance = (
                f"{plural(lost, 'pull')} got lost, for reasons assumed to be unrelated to outcomes"
            )
            if problem.failure != "independent":
                stated = stated.weakened(chance)
            elif self._blocks.loses_unequally():
                stated = stated.weakened(
                    f"{chance} (contradicted: some arms lose far more than others)"
                )
        if problem.failure_value is not None and not self._bounded and problem.gaussian:
            stated = stated.weakened(
                f"a pull that fails has the outcome {problem.failure_value:g}, which the noise of "
                "other outcomes does not cover"
            )
        # Losses were already stated above, by arm.
        stated = self._blocks.as_it_stands(stated, left_out=0)
        if self._contradicts_noise:
            stated = stated.weakened(_WIDE_SPREAD)
        return stated

    @property
    def _contradicts_noise(self) -> bool:
        return not self._bounded and NoiseTest(self._blocks.state.settled_noise).contradicted

    @property
    def _awaited_by_all(self) -> list[str]:
        is_any_planned = self._blocks.planned > 1
        return [] if is_any_planned else self._names_without(self._blocks.state.counts)

    def _contradicted(self) -> tuple[str, ...]:
        if not self._contradicts_noise:
            return ()
        return (f"the results contradict an assumption: {_WIDE_SPREAD}",)
