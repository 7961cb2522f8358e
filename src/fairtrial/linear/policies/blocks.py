"""Block betting: the policy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.block_betting import carry_over, promise, pulls_left
from fairtrial.core.policy import Choice
from fairtrial.core.pull import UNSOLICITED, Pull
from fairtrial.core.recommendation import Guarantee
from fairtrial.core.validation import check_integer
from fairtrial.errors import InvalidArgument
from fairtrial.linear._kernels.book import (
    BLOCKS,
    CONTROLS,
    FINISHED,
    FIRST,
    HOPELESS,
    OPEN,
    Rules,
    open_book,
    sizes,
)
from fairtrial.linear._kernels.runs import (
    ask_blocks,
    correct_in_blocks,
    evidence_in_blocks,
    leaders_in_blocks,
    lose_in_blocks,
    run_blocks,
    start_blocks,
    tell_blocks,
)
from fairtrial.linear.environments import ArmEnvironment
from fairtrial.linear.policies.base import LinearPolicy
from fairtrial.linear.problem import Problem

__all__ = ["BlockBetting"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MOST_PAIRS = 25_000_000
"""Pairs of candidates that have a wealth of their own, at most: 200 MB of them."""


class BlockBetting(LinearPolicy):
    """Block betting: sampling and a proven stop that belong together; the default.

    For every candidate there is one wealth, which cannot grow on average if it is the best.
    A candidate is rejected for good when the wealth against it reaches 1/delta; the last one
    left is the answer. Blocks of pulls are planned from all data before them; the block alone
    pays or loses, so no union bound over candidates, directions or times is needed.

    With a `reward_range` nothing else has to be known. With `noise_std` the noise has to be
    sub-Gaussian at that scale.

    Parameters
    ----------
    problem : Problem
        The problem. With `tolerance`, or if several of the best are wanted, there is one wealth
        per pair of candidates instead: the square of their number is kept in memory.
    delta : float
        Probability of a wrong answer that is accepted.
    batch : int, optional
        Pulls in a block, or a few more where they could not tell the candidates apart; by
        default 4 % of the pulls so far, and at least 1.5 for every direction.
    initial_pulls : int, optional
        Initial pulls of every arm of a basis; 4 by default.
    max_pulls : int, optional
        Stop undecided after this many results.
    seed : None, int or numpy.random.Generator
        Ignored; the policy is deterministic.

    Notes
    -----
    Source: docs/explanation/block-betting.md and bounded-rewards.md, with the proofs.
    A pull that is lost counts as the worst value for every bet if rewards have a range:
    the guarantee then holds whatever made it get lost. With a known noise its block is
    closed with the pulls that came, which assumes that losing does not depend on the value.

    Examples
    --------
    >>> problem = Problem([[1, 0], [0, 1], [0.7, 0.7]], arms=["a", "b", "ab"], noise_std=0.1)
    >>> policy = BlockBetting(problem, delta=0.05)
    >>> while not policy.stopped:
    ...     pull = policy.ask()
    ...     policy.tell(pull, {"a": 0.1, "b": 0.2, "ab": 0.21}[pull.arm])
    >>> policy.recommend().arm
    'ab'
    """

    state_fields = ("_floats", "_integers", "_amended", "_lost_in_block", "_late")

    def __init__(
        self,
        problem: Problem,
        delta: float = 0.05,
        batch: int | None = None,
        initial_pulls: int | None = None,
        max_pulls: int | None = None,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(problem, delta, max_pulls, seed)
        if problem.estimates_noise:
            raise InvalidArgument(
                "problem",
                "must state the noise, or the rewards' range, for BlockBetting: no bet is proven "
                "without; LinGapE takes an estimated noise",
                problem.noise_std,
            )
        self.batch = None if batch is None else check_integer("batch", batch, low=1)
        self.initial_pulls = (
            None if initial_pulls is None else check_integer("initial_pulls", initial_pulls, low=1)
        )
        if self._pairwise and self._units.shape[1] ** 2 > MOST_PAIRS:
            raise InvalidArgument(
                "problem",
                f"must have at most {math.isqrt(MOST_PAIRS)} distinct candidates for BlockBetting "
                "with a tolerance or top; LinGapE takes more",
                self._units.shape[1],
            )
        self._packed = self._units.pack(self._rules())
        self._lost_in_block = 0
        self._late: list[int] = []
        self._find_places()
        self._allocate(slots=2)

    @property
    def _pairwise(self) -> bool:
        return self.problem.tolerance > 0.0 or self.problem.top > 1

    @property
    def _initial(self) -> int:
        return 4 if self.initial_pulls is None else self.initial_pulls

    @property
    def _threshold(self) -> float:
        """What a log wealth has to reach.

        Pairwise, a wrong answer needs one of its members to beat, wrongly, one of the best.
        """
        top, candidates = self.problem.top, self._units.shape[1]
        errors = max(1, top * (candidates - top)) if self._pairwise else 1
        return math.log(errors / self.delta)

    @property
    def _shift(self) -> float:
        """The middle of the range, which is taken off every reward if the features hold one.

        A range that lies far from 0 would cost digits.
        """
        if self.problem.reward_range is None or not self.problem.holds_constant_exactly:
            return 0.0
        low, high = self.problem.reward_range
        return float(self._units.factors[0]) * (0.5 * low + 0.5 * high)

    def _rules(self) -> Floats:
        problem = self.problem
        low = high = 0.0
        if problem.reward_range is not None:
            low, high = sorted(
                self._units.factors[0] * end - self._shift for end in problem.reward_range
            )
        rules = Rules(
            bounded=problem.reward_range is not None,
            low=low,
            high=high,
            threshold=self._threshold,
            start=float(self._initial),
            growth=0.04,
            kappa=0.5,
            cost=1.5,
            touch=1.5,
            steps=80,
            slack=1.3,
            tolerance=self._units.tolerance,
            top=problem.top,
            pairwise=self._pairwise,
            misspecification=self._units.misspecification,
            shift=self._shift,
        )
        return np.array(rules, dtype=np.float64)

    # ---------------------------------------------------------------------- books

    def _allocate(self, slots: int) -> None:
        floats, integers = sizes(self._packed, *self._units.shape, slots)
        self._floats = np.zeros(floats)
        self._integers = np.zeros(integers, dtype=np.int64)
        start_blocks(*self._books())

    def _books(self, *more: Any) -> Any:
        """Return everything that the kernels need, packed, and `more` after it."""
        books = (self._packed, self._floats, self._integers)
        return (*books, *self._units.shape, self._slots, *more)

    def _find_places(self) -> None:
        """Note where things stand in the books: every decision looks there."""
        arms, candidates, _ = self._units.shape
        first = 2 * candidates
        self._finished_at, self._hopeless_at = first + FINISHED, first + HOPELESS
        bets = max(1, self.problem.top * (candidates - self.problem.top))
        self._before_blocks, self._of_a_block = first + CONTROLS, 4 + arms + 3 * bets

    @property
    def _slots(self) -> int:
        """Blocks that can be open at once, from the size of the books."""
        return (self._integers.size - self._before_blocks) // self._of_a_block

    @property
    def _book(self) -> Any:
        return open_book(*self._books())

    def _make_room(self) -> None:
        """Double the number of blocks that can be open at once."""
        old, slots = self._book, self._slots
        floats, integers = sizes(self._packed, *self._units.shape, 2 * slots)
        self._floats, self._integers = np.zeros(floats), np.zeros(integers, dtype=np.int64)
        new = self._book
        first, number = int(old.control[FIRST]), int(old.control[OPEN])
        carry_over(old, new, first, number)

    # ------------------------------------------------------------------- contract

    def choose(self) -> Choice:
        """Return the next pull of the open block, planning a new one when there is none."""
        while True:
            arm, serial = ask_blocks(*self._books(float(self.batch or 0)))
            if arm >= 0:
                return arm, serial
            self._make_room()

    def learn(self, pull: Pull, outcome: float) -> None:
        """Take one reward; one that comes after its loss informs plans, and no bet."""
        solicited = pull.number in self._outstanding
        serial = pull.tag if solicited else -1
        reward = self._units.reward(pull.action, outcome)
        tell_blocks(*self._books(pull.action, serial, reward, solicited))
        if self.is_lost(pull):
            self._late.append(pull.number)

    def on_failure(self, pull: Pull, reason: str) -> None:
        """Close the books on a pull: its worst value if rewards have a range, else without it."""
        self._lost_in_block += pull.tag >= 0 and not self._found_best
        lose_in_blocks(*self._books(pull.action, pull.tag))

    def on_amend(self, pull: Pull, old: float, new: float) -> None:
        """Correct the data, and bets of its block; those that were paid stay as they were."""
        bet_on = pull.number != UNSOLICITED and pull.number not in self._late
        serial = pull.tag if bet_on else -1
        change = (self._units.reward(pull.action, old), self._units.reward(pull.action, new))
        correct_in_blocks(*self._books(pull.action, serial, *change))
        self._amended += 1

    def _simulate(
        self, environment: ArmEnvironment, generator: np.random.Generator, horizon: int
    ) -> Floats:
        world = (*environment.source, self._units.factors, generator, horizon)
        self.told = self.asked = run_blocks(*self._books(float(self.batch or 0), *world))
        return np.asarray(self._book.counts)

    # --------------------------------------------------------------------- report

    @property
    def _found_best(self) -> bool:
        return bool(self._integers[self._finished_at])

    @property
    def _hopeless(self) -> bool:
        return bool(self._integers[self._hopeless_at])

    @property
    def _noise_variance(self) -> float:
        return 1.0

    def metrics(self) -> dict[str, float]:
        """Return what is noted of a run besides its result: nothing."""
        return {}

    @property
    def _answer(self) -> Sequence[int] | None:
        chosen = np.zeros(self._units.shape[1], dtype=np.int64)
        if not leaders_in_blocks(*self._books(chosen)):
            return None
        return self._best_first(np.flatnonzero(chosen))

    @property
    def _data(self) -> tuple[Floats, Floats]:
        book = self._book
        return book.counts, book.sums + book.counts * self._shift

    @property
    def _records(self) -> tuple[Floats, Floats]:
        book = self._book
        return book.record, book.early

    def _confidence_set(self) -> Sequence[int] | None:
        """Return what no wealth has ruled out; of several that are wanted, what may be one.

        Of those, one is ruled out by as many others as are wanted: not all of them can be right.
        With `tolerance` a wealth rules out less than that one is the best.
        """
        book = self._book
        if not self._pairwise:
            return np.flatnonzero(book.rejected == 0).tolist()
        if self.problem.tolerance > 0.0:
            return None
        beaten_by = (book.wealth >= self._threshold).sum(axis=0)
        return np.flatnonzero(beaten_by < self.problem.top).tolist()

    def _evidence(self) -> tuple[float | None, float | None]:
        evidence = evidence_in_blocks(*self._books())
        if math.isnan(evidence):
            return None, self._threshold
        # Every rival is rejected: what the last of them came to is at least the threshold.
        return min(evidence, self._threshold) if self._found_best else evidence, self._threshold

    def _live(self) -> Sequence[int]:
        if self._found_best:
            return list(self._answer or ())
        book, leaders = self._book, self._answer
        live = book.rejected == 0
        if self._pairwise and leaders is not None:
            live = (book.wealth[leaders] < self._threshold).any(axis=0)
            live[leaders] = True
        return np.flatnonzero(live).tolist()

    def _remaining(self, evidence: float | None, threshold: float | None) -> float | None:
        book = self._book
        return pulls_left(float(book.forecast[0]), float(book.waiting.sum()))

    def _rule_details(self) -> dict[str, Any]:
        book = self._book
        details: dict[str, Any] = {"blocks": int(book.control[BLOCKS])}
        if not self._pairwise:
            details["answers"] = [
                {"answer": label, "log_wealth": float(wealth), "rejected": bool(rejected)}
                for label, wealth, rejected in zip(
                    self._labels(range(self._units.shape[1])),
                    book.wealth[0],
                    book.rejected,
                    strict=True,
                )
            ]
        return details

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee, and what it still stands on after losses and corrections."""
        bounded = self.problem.reward_range is not None
        stated = promise(
            self.delta,
            self.problem.reward_range,
            "whatever theta is",
            "given the past, the mean of a reward is linear in the features of its arm",
        )
        stated = self._as_it_stands(stated)
        lost = 0 if bounded else self._lost_in_block
        return stated.weakened_by(lost, "pull", "got lost for reasons unrelated to rewards")
