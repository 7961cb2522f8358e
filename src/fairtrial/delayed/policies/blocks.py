"""Block betting on the best k arms: outcomes alone count, in whatever order they come."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.block_betting import promise, pulls_left
from fairtrial.confidence.bounds import NormalMixture
from fairtrial.confidence.noise_kernels import record_result
from fairtrial.confidence.noise_test import NoiseTest
from fairtrial.core.fixed_confidence import FixedConfidencePolicy
from fairtrial.core.policy import Choice
from fairtrial.core.pull import UNSOLICITED, Pull
from fairtrial.core.recommendation import Estimate, Guarantee
from fairtrial.core.validation import check_instance, check_integer
from fairtrial.core.wording import is_best, plural
from fairtrial.delayed._kernels.top_sets import (
    FROZEN,
    PLANNED,
    SIDE,
    Rules,
    add_value,
    correct_value,
    pay_block,
    plan_block,
)
from fairtrial.delayed.policies.assumption_tests import contradicts, log_evidence_of_losses
from fairtrial.delayed.problem import Problem
from fairtrial.errors import InvalidArgument, InvalidOutcome

__all__ = ["BlockBetting"]

Floats = NDArray[np.float64]

_MOST_STDS = 1e10
_OF_A_DEAD_ARM = "cancelled"
_WIDE_SPREAD = "noise_std is as stated (contradicted: results spread far more widely)"


class BlockBetting(FixedConfidencePolicy):
    """Block betting on the best k arms; the default where rewards are bounded and nothing is read.

    Blocks of pulls are planned from all results before them; a block alone pays or loses, and
    counts once it and all blocks before it are complete. So results may come in any order, and
    delays may depend on them. For every set of k arms there is one wealth, which cannot grow on
    average if the set is right: no union over arms, pairs or times is needed.

    With a `reward_range` nothing else has to be known. With `noise_std` the noise has to be
    sub-Gaussian at that scale. Readings are ignored.

    Parameters
    ----------
    problem : Problem
        With a `reward_range` or a `noise_std`.
    delta : float
        Probability of a wrong answer that is accepted.
    batch : int, optional
        Pulls in a block; by default 3 % of the results so far, and at least two for every arm
        that is not settled.
    initial_pulls : int, optional
        First pulls of every arm, on which nothing is bet: 10 with a reward range, 5 with a known
        noise.
    max_pulls : int, optional
        Stop undecided after this many results.
    seed : None, int or numpy.random.Generator
        Ignored; the policy is deterministic.

    Raises
    ------
    InvalidArgument
        If an argument is not acceptable, or the noise is to be estimated.

    Notes
    -----
    Source: docs/explanation/delayed.md, "Block betting on the best k", with the proof; the bets are
    those of docs/explanation/block-betting.md and bounded-rewards.md.
    A pull that gets lost counts as the worst value for every bet if rewards have a range, whatever
    made it get lost; if it comes before its block is complete, it counts as what it is. With a
    known noise its block is closed without it, which assumes that losing does not depend on the
    value. With a `tolerance` each pair of arms is tested on its own, at delta / (k (n - k)).

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
    version = 2
    state_fields = (
        "_data", "_ledger", "_carried", "_shares", "_frozen", "_to_issue", "_waiting", "_first",
        "_results", "_valued", "_closed", "_record", "_losses", "_amended", "_has_answer",
        "_forecast",
    )  # fmt: skip

    def __init__(
        self,
        problem: Problem,
        delta: float = 0.05,
        batch: int | None = None,
        initial_pulls: int | None = None,
        max_pulls: int | None = None,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        check_instance("problem", problem, Problem)
        super().__init__(problem, delta, max_pulls, seed)
        self.batch = None if batch is None else check_integer("batch", batch, low=1)
        self.initial_pulls = (
            None if initial_pulls is None else check_integer("initial_pulls", initial_pulls, low=1)
        )
        if problem.estimates_noise:
            raise InvalidArgument(
                "problem", "must give noise_std or reward_range for BlockBetting", problem
            )
        self._bounded = problem.reward_range is not None
        self._origin, self._unit = self._units()
        self._variances = (problem.scale / abs(self._unit)) ** 2
        self._open_books()

    def _units(self) -> tuple[float, float]:
        """Return what counts as 0 and as 1 inside: there more is better, bounded rewards in [0, 1].

        A known noise is counted in a power of two, so that nothing is rounded.
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

    def _rules(self) -> Any:
        problem, arms = self.problem, len(self.problem.arms)
        pairs = problem.top * (arms - problem.top)
        return Rules(
            bounded=self._bounded,
            tolerance=problem.tolerance / abs(self._unit),
            threshold=self._threshold(pairs),
            top=problem.top,
            growth=0.03,
            touch=2.0,
            kappa=1.0,
            cost=1.5,
            steps=150,
            pause=0.5,
        )

    def _threshold(self, pairs: int) -> float:
        """Return the wealth, as a logarithm, at which a set (or a pair) is rejected."""
        tests = pairs if self.problem.tolerance > 0.0 else 1
        return math.log(max(tests, 1) / self.delta)

    def _open_books(self) -> None:
        """Open the block of initial pulls, unless nothing is to be found."""
        arms = len(self.problem.arms)
        self._data, self._carried = np.zeros((3, arms)), np.zeros((3, arms))
        self._carried[0] = -1.0
        self._ledger, self._shares = np.zeros((arms, arms)), np.full(arms, 1.0 / arms)
        self._frozen = np.zeros((0, FROZEN, arms))
        self._to_issue, self._waiting = np.zeros((0, arms)), np.zeros(0)
        # Serial number of the oldest open block; that of the initial pulls is 0.
        self._first = 0
        # By pull: serial of its block, arm and result, NaN for one that got lost.
        self._known: dict[int, tuple[int, int, float]] = {}
        # Pulls that failed and count as the failure value.
        self._valued: list[int] = []
        # Of complete blocks, arm by arm: results, and their sums with losses at either end.
        self._closed = np.zeros((3, arms))
        self._record = NoiseTest.empty_record(arms)
        self._losses = np.zeros(arms)
        self._has_answer = self.problem.top == arms
        self._forecast = math.inf
        frozen = np.zeros((FROZEN, arms))
        frozen[PLANNED] = self.initial_pulls or (10 if self._bounded else 5)
        if not self._finished:
            self._open_block(frozen)

    @property
    def _results(self) -> Floats:
        """The results of open blocks, as rows of number, serial, arm and value."""
        rows = [(number, *result) for number, result in self._known.items()]
        return np.array(rows, dtype=np.float64).reshape(len(rows), 4)

    @_results.setter
    def _results(self, rows: Floats) -> None:
        self._known = {
            int(number): (int(serial), int(arm), value)
            for number, serial, arm, value in rows.tolist()
        }

    def _open_block(self, frozen: Floats) -> None:
        planned = frozen[PLANNED]
        self._frozen = np.concatenate([self._frozen, frozen[None]])
        self._to_issue = np.concatenate([self._to_issue, planned[None]])
        self._waiting = np.append(self._waiting, planned.sum())

    # ------------------------------------------------------------------------- contract

    def choose(self) -> Choice:
        """Return the next pull of an open block; plan a block when none has pulls left."""
        for place, left in enumerate(self._to_issue):
            arm = int(left.argmax())
            if left[arm] > 0.0:
                left[arm] -= 1.0
                return arm, self._first + place
        if not self._data[0].all():
            # Without a result of every arm there is no plan: the pull informs it, in no bet.
            return int(self._issued().argmin()), -1
        self._plan()
        return self.choose()

    def _issued(self) -> Floats:
        """Return by arm how many pulls have a result or are in flight."""
        arms = [action for action, _ in self._outstanding.values()]
        return np.asarray(self._data[0] + np.bincount(arms, minlength=len(self.problem.arms)))

    def _plan(self) -> None:
        frozen = np.zeros((FROZEN, len(self.problem.arms)))
        books = (self._data, self._variances, self._ledger, self._carried, self._shares, frozen)
        self._forecast = float(plan_block(self._rules(), *books, float(self.batch or 0)))
        self._open_block(frozen)

    def learn(self, pull: Pull, outcome: float) -> None:
        """Take one result: in time, after a loss, or unsolicited (then it informs plans only)."""
        value, known = self._count(outcome), self._known.get(pull.number)
        failed = pull.number in self._valued
        if failed:
            self._valued.remove(pull.number)
            correct_value(self._data, pull.action, self._count(self._failure_value), value)
        else:
            add_value(self._data, pull.action, value)
        if pull.number == UNSOLICITED or pull.tag < self._first:
            self._amended += failed and pull.tag > 0
            return
        self._known[pull.number] = (pull.tag, pull.action, value)
        if known is None:
            self._receive(pull.tag)
        elif math.isnan(known[2]) and self._losses[pull.action] > 0.0:
            # It was only late: its block is still open.
            self._losses[pull.action] -= 1.0

    def _receive(self, serial: int) -> None:
        """Note that one pull of a block has ended; settle the blocks that are complete."""
        self._waiting[serial - self._first] -= 1.0
        while len(self._waiting) and self._waiting[0] == 0.0 and not self._finished:
            self._settle()

    def _settle(self) -> None:
        """Pay the bets of the oldest block, and close it."""
        mine = sorted((arm, number, value) for number, (serial, arm, value) in self._known.items()
                      if serial == self._first)  # fmt: skip
        arms = np.array([arm for arm, _, _ in mine], dtype=np.int64)
        values = np.array([value for _, _, value in mine])
        counts = np.bincount(arms, minlength=len(self.problem.arms))
        starts = np.concatenate([[0], np.cumsum(counts)])
        if self._first > 0:
            books = (values, starts, self._ledger, self._carried)
            self._has_answer = bool(pay_block(self._rules(), self._frozen[0], *books))
        self._note_closed(arms, values)
        for _, number, _ in mine:
            del self._known[number]
        self._first += 1
        self._frozen, self._to_issue = self._frozen[1:], self._to_issue[1:]
        self._waiting = self._waiting[1:]

    def _note_closed(self, arms: NDArray[np.int64], values: Floats) -> None:
        """Add a complete block to what intervals and the test of the noise rest on."""
        came = ~np.isnan(values)
        if self._bounded:
            number = len(self.problem.arms)
            self._closed[0] += np.bincount(arms, minlength=number)
            self._closed[1] += np.bincount(arms, np.where(came, values, 0.0), number)
            self._closed[2] += np.bincount(arms, np.where(came, values, 1.0), number)
            return
        for arm, value in zip(arms[came].tolist(), values[came].tolist(), strict=True):
            self._closed[:, arm] += (1.0, value, value)
            record_result(self._record, arm, value / math.sqrt(self._variances[arm]))

    def read(self, pull: Pull, value: float, **details: Any) -> None:
        """Ignore a reading: outcomes alone count."""

    def read_late(self, pull: Pull, value: float, **details: Any) -> None:
        """Ignore a reading that its pull's outcome has overtaken."""

    def on_failure(self, pull: Pull, reason: str) -> None:
        """Take note that a pull will have no outcome.

        It counts as the problem's `failure_value` if there is one; else as its worst value for
        every bet if rewards have a range, and not at all if only their noise is known.
        """
        if self.stopped:
            return
        wanted = bool(self._live_arms()[pull.action]) or reason != _OF_A_DEAD_ARM
        value = math.nan
        if wanted and self.problem.failure_value is not None:
            value = self._count(self.problem.failure_value)
            add_value(self._data, pull.action, value)
            self._valued.append(pull.number)
        if pull.tag < self._first:
            return
        self._known[pull.number] = (pull.tag, pull.action, value)
        self._losses[pull.action] += math.isnan(value) and pull.tag > 0 and wanted
        self._receive(pull.tag)

    def on_amend(self, pull: Pull, old: float, new: float) -> None:
        """Correct the data, and the bets of its block; those that were paid stay as they were."""
        before, after = self._count(old), self._count(new)
        correct_value(self._data, pull.action, before, after)
        if pull.number in self._known:
            serial, arm, _ = self._known[pull.number]
            self._known[pull.number] = (serial, arm, after)
        elif pull.tag > 0:
            # The initial pulls and those outside of every block are in no bet.
            self._amended += 1

    def _count(self, value: float) -> float:
        """Return a value as it is counted inside: more is better."""
        own = (value - self._origin) / self._unit
        if self._bounded:
            return min(max(own, 0.0), 1.0)
        if abs(own) > _MOST_STDS:
            raise InvalidOutcome(
                "outcome",
                f"must be within {_MOST_STDS:g} times the noise of 0; subtract a constant from all "
                "outcomes, which changes no comparison",
                value,
            )
        return own

    @property
    def _failure_value(self) -> float:
        value = self.problem.failure_value
        return 0.0 if value is None else value

    def to_cancel(self) -> list[Pull]:
        """Return the pulls in flight that no bet needs any more; all, once stopped."""
        if self.stopped:
            return self.outstanding()
        live = self._live_arms()
        if live.all():
            return []
        return [pull for pull in self.outstanding() if not live[pull.action]]

    def _live_arms(self) -> NDArray[np.bool_]:
        """Return which arms are in a pair that is not settled, for every open block."""
        target = self._carried[0]
        same = (self._frozen[1 if self._first == 0 else 0 :, SIDE] == target).all()
        if target[0] < 0.0 or not same:
            return np.ones(target.size, dtype=bool)
        pairs = self._open_pairs()
        return np.asarray(pairs.any(axis=0) | pairs.any(axis=1))

    def _open_pairs(self) -> NDArray[np.bool_]:
        """Return which pairs of an arm outside of the target and one inside are not settled."""
        inside = self._carried[0] > 0.0
        return np.asarray((self._ledger < math.inf) & ~inside[:, None] & inside)

    # --------------------------------------------------------------------------- report

    @property
    def _finished(self) -> bool:
        return self._has_answer

    @property
    def _answer(self) -> tuple[str, ...]:
        """The answer, or what leads so far; the best first."""
        means = np.where(self._data[0] > 0.0, self._data[1], -math.inf)
        settled = self._finished and self._carried[0, 0] >= 0.0
        inside = self._carried[0] if settled else np.zeros(means.size)
        order = np.lexsort((-means, -inside))[: self.problem.top]
        return tuple(self.problem.arms[arm] for arm in order.tolist())

    def _label(self, answer: Any) -> Any:
        return answer

    def _finding(self, label: Any) -> str:
        return is_best(label, self.problem.tolerance)

    def _evidence(self) -> tuple[float | None, float | None]:
        """Return the least wealth against a rival set, as a logarithm, and what rejects it."""
        threshold = float(self._rules().threshold)
        if self.problem.top == len(self.problem.arms):
            return None, None
        if self._carried[0, 0] < 0.0:
            return 0.0, threshold
        open_pairs = self._open_pairs()
        # Rejected sets came to the threshold at least.
        least = self._ledger[open_pairs].min() if open_pairs.any() else threshold
        return float(min(least, threshold)), threshold

    def _candidates(self) -> tuple[str, ...] | None:
        """Return the arms of sets that are not rejected, in the order of the problem.

        With a tolerance pairs are tested and not sets: an arm that is left out may be the best.
        """
        if self.problem.tolerance > 0.0:
            return None
        if self._carried[0, 0] < 0.0:
            return self.problem.arms
        inside, order = self._carried[0] > 0.0, self._carried[1]
        waiting = self._open_pairs().any(axis=1)
        # A set with an arm was followed by a pair whose arm comes no later in the order.
        first = order[waiting].min() if waiting.any() else math.inf
        later = order >= first if self.problem.top > 1 else waiting
        kept = inside | (~inside & later)
        return tuple(arm for arm, stays in zip(self.problem.arms, kept, strict=True) if stays)

    def _remaining(self, evidence: float | None, threshold: float | None) -> float | None:
        return pulls_left(self._forecast, float(self._waiting.sum()))

    def _estimates(self) -> tuple[tuple[Estimate, ...], tuple[Estimate, ...]]:
        """Return the mean of each arm, with an interval from complete blocks."""
        counts, least, most = self._closed
        scale = np.sqrt(self._variances)
        radius = NormalMixture().radius(counts, self.delta / counts.size, scale)
        with np.errstate(invalid="ignore"):
            ends = np.stack([least / counts - radius, most / counts + radius])
        if self._bounded:
            ends = np.clip(ends, 0.0, 1.0)
        ends = np.sort(self._origin + self._unit * ends, axis=0)
        estimates = []
        for arm, labels in enumerate(self.problem.action_labels):
            number = int(self._data[0, arm])
            known = bool(counts[arm] > 0.0)
            estimates.append(
                Estimate(
                    labels,
                    number,
                    mean=self._origin + self._unit * float(self._data[1, arm]) if number else None,
                    lower=float(ends[0, arm]) if known else None,
                    upper=float(ends[1, arm]) if known else None,
                )
            )
        return tuple(estimates), tuple(estimates)

    def _details(self) -> Mapping[str, Any]:
        """Return blocks, and which arms are settled."""
        candidates = self._candidates() or self.problem.arms
        settled = self._answer if self._finished else ()
        return {
            "blocks": self._first + len(self._waiting),
            "answers": [
                {"answer": arm, "accepted": arm in settled, "rejected": arm not in candidates}
                for arm in self.problem.arms
            ],
        }

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee, and its basis after losses and corrections."""
        problem, lost = self.problem, int(self._losses.sum())
        stated = promise(
            self.delta,
            problem.reward_range,
            "whatever the true means are and whenever results arrive",
            "the true mean of each arm does not change during the study",
        )
        if problem.clip:
            clipped = "the means are those of outcomes clipped to the range"
            stated = replace(stated, assumptions=(*stated.assumptions, clipped))
        if lost and not self._bounded:
            chance = f"{plural(lost, 'pull')} got lost for reasons unrelated to outcomes"
            if problem.failure != "independent":
                stated = stated.weakened(chance)
            elif contradicts(log_evidence_of_losses(self._data[0], self._losses)):
                stated = stated.weakened(
                    f"{chance} (contradicted: some arms lose far more than others)"
                )
        if problem.failure_value is not None and not self._bounded and problem.gaussian:
            stated = stated.weakened(
                f"a pull that fails has the outcome {problem.failure_value:g}, which the noise of "
                "other outcomes does not foresee"
            )
        stated = stated.weakened_by(
            self._amended, "outcome", "changed after bets on them were settled"
        )
        if self._contradicts_noise:
            stated = stated.weakened(_WIDE_SPREAD)
        return stated

    @property
    def _contradicts_noise(self) -> bool:
        return not self._bounded and NoiseTest(self._record).contradicted

    def warnings(self) -> tuple[str, ...]:
        """Return what the results contradict: the stated noise, where there is one."""
        if not self._contradicts_noise:
            return ()
        return (f"the results contradict an assumption: {_WIDE_SPREAD}",)
