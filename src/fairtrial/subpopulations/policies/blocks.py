"""Block betting: the policy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.block_betting import carry_over, promise, pulls_left
from fairtrial.confidence.loss_test import losses_differ
from fairtrial.core.policy import Choice
from fairtrial.core.pull import UNSOLICITED, Pull
from fairtrial.core.recommendation import Guarantee
from fairtrial.core.validation import check_choice, check_integer
from fairtrial.core.wording import plural
from fairtrial.errors import InvalidArgument
from fairtrial.subpopulations._kernels.block_book import Rules, open_book, sizes, slots_in
from fairtrial.subpopulations._kernels.indices import (
    ANSWER,
    BLOCKS,
    CONTROL,
    FINISHED,
    FIRST,
    NOISE_FIELDS,
    OPEN,
)
from fairtrial.subpopulations._kernels.model import pack_model
from fairtrial.subpopulations._kernels.runs import (
    ask_blocks,
    correct_in_blocks,
    leader_in_blocks,
    lose_in_blocks,
    run_blocks,
    start_blocks,
    tell_blocks,
    tell_late_to_blocks,
    wealth_in_blocks,
)
from fairtrial.subpopulations.environments import CellEnvironment
from fairtrial.subpopulations.policies.base import FloorPolicy
from fairtrial.subpopulations.policies.units import PREDICTABLE, model_of
from fairtrial.subpopulations.problem import Problem

__all__ = ["BlockBetting"]

Floats = NDArray[np.float64]

_LOSSES_IGNORABLE = "whether a result gets lost does not depend on its value"

_MANY_CELLS = 500
"""With more, initial pulls and the fewest that a block makes would be most of a study."""

_FAR = 8.0
"""Widths away from zero at which a range counts as far."""


class BlockBetting(FloorPolicy):
    """Block betting: sampling and a proven stop that belong together; the default.

    For every possible answer there is one wealth, which cannot grow on average if the
    answer is right. An answer is rejected for good when the wealth against it reaches
    1/delta; the last one left is given. Blocks of draws are planned from all data before
    them; the block alone pays or loses, so no union bound over arms or times is needed.

    With a `reward_range` nothing else has to be known: no sigma, and cells may differ in
    variance. With `noise_std` the noise has to be sub-Gaussian at that scale.

    Parameters
    ----------
    problem : Problem
        Without tolerances, and with a noise that is not estimated.
    delta : float
        Probability of a wrong answer that is accepted.
    batch : int, optional
        Draws in a block; by default 3 % of the draws so far, and at least two (of more than 500
        cells: one) for every cell that still matters.
    initial_pulls : int, optional
        Initial draws of every cell: 10 with a reward range, 5 with a known noise or with more
        than 500 cells.
    max_pulls : int, optional
        Stop undecided after this many results.
    losses : {"informative", "ignorable"}
        Whether the value of a result may have a say in whether it gets lost (default). If not, a
        lost pull is drawn again, which costs that one pull; the guarantee then names the
        assumption, and is weakened if some arms lose more results than others.
    seed : None, int or numpy.random.Generator
        Ignored; the policy is deterministic, and its next pull predictable from the results.

    Notes
    -----
    Source: docs/explanation/block-betting.md and bounded-rewards.md, with the proofs.
    By default a pull that is lost counts as the worst value for every bet if rewards have a
    range: the guarantee then holds whatever made it get lost. Plans, bets and the forecast of what
    is left allow for the share that gets lost; a share that leaves nothing to be decided is told
    in ``progress().details["losses"]``. With a known noise the block is closed with the draws that
    came, which assumes that losing does not depend on the value. A result that comes after its
    pull was given up still counts if its block is open.
    A correction reaches every bet that is not paid yet; what is paid stays paid, and the
    guarantee is then no longer called proven. Losses and corrections of pulls on which nothing
    is bet (the initial pulls, data that nobody asked for) leave the guarantee as it is.

    Examples
    --------
    >>> problem = Problem(["a", "b"], ["x"], floors=0.0, reward_range=(-1, 1))
    >>> policy = BlockBetting(problem, delta=0.05)
    >>> for _ in range(100):
    ...     if policy.stopped:
    ...         break
    ...     pull = policy.ask()
    ...     policy.tell(pull, 0.5 if pull.arm == "a" else -0.5)
    >>> policy.recommend().arm
    'a'
    """

    version = 3
    state_fields = (
        "_floats",
        "_integers",
        "_amended",
        "_corrected",
        "_lost_in_bet",
        "_late",
        "_noise",
    )

    def __init__(
        self,
        problem: Problem,
        delta: float = 0.05,
        batch: int | None = None,
        initial_pulls: int | None = None,
        max_pulls: int | None = None,
        losses: str = "informative",
        seed: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(problem, delta, max_pulls, seed)
        self.batch = None if batch is None else check_integer("batch", batch, low=1)
        self.initial_pulls = (
            None if initial_pulls is None else check_integer("initial_pulls", initial_pulls, low=0)
        )
        self.losses = check_choice("losses", losses, ["informative", "ignorable"])
        self._refuse_what_is_not_covered()
        self._lost_in_bet = 0
        self._corrected = 0
        rules = self._rules_of(problem)
        model = model_of(problem, informative_only=True)
        model = model._replace(
            limits=model.limits - rules.shift,
            own_limits=model.own_limits - rules.shift,
            rival_limits=model.rival_limits - rules.shift,
        )
        self._packed = np.concatenate([pack_model(model), np.array(rules, dtype=np.float64)])
        # Pulls told after they were given up: they are in no bet.
        self._late: list[int] = []
        self._allocate(slots=2)

    def _refuse_what_is_not_covered(self) -> None:
        if self.problem.tolerance > 0.0 or self.problem.floor_tolerance > 0.0:
            raise InvalidArgument(
                "problem", "must have no tolerance for BlockBetting; BalancedTracking takes one"
            )
        if self.problem.estimates_noise:
            raise InvalidArgument(
                "problem", "must give reward_range or a known noise_std for BlockBetting"
            )

    def _rules_of(self, problem: Problem) -> Rules:
        bounded = problem.reward_range is not None
        ends = problem.reward_range or (0.0, 0.0)
        low, high = sorted(self._inward * end for end in ends)
        # Squares of rewards around 1e9 would leave nothing of a variance of one.
        shift = low if min(abs(low), abs(high)) > _FAR * (high - low) else 0.0
        return Rules(
            bounded=bounded,
            low=low - shift,
            high=high - shift,
            threshold=-math.log(self.delta),
            start=float(
                self._initial_draws(bounded) if self.initial_pulls is None else self.initial_pulls
            ),
            growth=0.03,
            kappa=1.0,
            cost=1.5,
            touch=1.0 if problem.n_actions > _MANY_CELLS else 2.0,
            steps=150,
            precision=0.9,
            doubts=True,
            pause=0.5,
            redraws=bounded and self.losses == "ignorable",
            shift=shift,
        )

    def _initial_draws(self, bounded: bool) -> int:
        return 10 if bounded and self.problem.n_actions <= _MANY_CELLS else 5

    # ---------------------------------------------------------------------- books

    def _allocate(self, slots: int) -> None:
        arms, groups, bets = self._sizes
        floats, integers = sizes(arms, groups, slots, bets)
        self._floats = np.zeros(floats)
        self._integers = np.zeros(integers, dtype=np.int64)
        self._noise = self._noise_records(slots)
        start_blocks(*self._books())

    def _noise_records(self, slots: int) -> Floats:
        """Return empty records for the test of the stated noise, if there is one to test."""
        stated = self.problem.reward_range is None
        return np.zeros((1 + slots, self.problem.n_actions, NOISE_FIELDS) if stated else (0, 0, 0))

    def _books(self, *more: Any) -> Any:
        """Return everything that the kernels need, packed, and `more` after it."""
        return self._packed, self._floats, self._integers, *self._sizes, *more

    @property
    def _slots(self) -> int:
        """Blocks that can be open at once."""
        arms, _, bets = self._sizes
        return int(slots_in(self._integers, arms, bets))

    @cached_property
    def _sizes(self) -> tuple[int, int, int]:
        """Arms, groups, and bets in a block: on each rival, and on each limit of the leader."""
        arms, groups = self.problem.shape
        ends = 2 if np.isfinite(self.problem.ceilings).any() else 1
        return arms, groups, arms + ends * groups

    @property
    def _book(self) -> Any:
        return open_book(self._floats, self._integers, *self._sizes)

    def _make_room(self) -> None:
        """Double the number of blocks that can be open at once."""
        old, slots = self._book, self._slots
        arms, groups, bets = self._sizes
        floats, integers = sizes(arms, groups, 2 * slots, bets)
        self._floats, self._integers = np.zeros(floats), np.zeros(integers, dtype=np.int64)
        new = open_book(self._floats, self._integers, arms, groups, bets)
        first, number = int(old.control[FIRST]), int(old.control[OPEN])
        carry_over(old, new, first, number)
        if self._noise.size:
            self._move_noise(first, number, slots)

    def _move_noise(self, first: int, number: int, slots: int) -> None:
        """Keep what is known of the spread in books with twice the room."""
        old, self._noise = self._noise, self._noise_records(2 * slots)
        self._noise[0] = old[0]
        for serial in range(first, first + number):
            self._noise[1 + serial % (2 * slots)] = old[1 + serial % slots]

    # ------------------------------------------------------------------- contract

    def choose(self, group: str | None = None) -> Choice:
        """Return the next draw of the open block, planning a new one when there is none."""
        column = self._column(group)
        while True:
            cell, tag = ask_blocks(*self._books(column, float(self.batch or 0)))
            if cell >= 0:
                return cell, tag
            self._make_room()

    def learn(self, pull: Pull, outcome: float) -> None:
        """Take one reward; after its loss it counts for bets as long as its block is open."""
        reward = self._inward * outcome
        if self._lost and self.is_lost(pull):
            told = (pull.action, pull.tag, reward, pull.number, self._noise)
            if tell_late_to_blocks(*self._books(*told)):
                self._lost_in_bet -= pull.tag >= 0 and not self._finished
            else:
                self._late.append(pull.number)
            return
        tag = pull.tag if pull.number in self._outstanding else -1
        told = (pull.action, tag, reward, pull.number, self._noise)
        tell_blocks(*self._books(*told))

    def on_failure(self, pull: Pull, reason: str) -> None:
        """Close the books on a pull: its worst value if rewards have a range, else without it."""
        # A tag below -1 is of a block in which nothing is bet on the pull's cell.
        self._lost_in_bet += pull.tag >= 0 and not self._finished
        lose_in_blocks(*self._books(pull.action, pull.tag, self._noise))

    def on_amend(self, pull: Pull, old: float, new: float) -> None:
        """Correct the data, and bets of its block; those that were paid stay as they were."""
        in_block = pull.number != UNSOLICITED and pull.number not in self._late
        tag = pull.tag if in_block else -1
        change = (self._inward * old, self._inward * new, pull.number, self._noise)
        correct_in_blocks(*self._books(pull.action, tag, *change))
        if tag >= 0:
            was_paid = tag < self._control[FIRST]
            self._amended += was_paid
            self._corrected += not was_paid

    def _simulate(
        self, environment: CellEnvironment, generator: np.random.Generator, horizon: int
    ) -> Floats:
        most = 0 if self._finished else horizon
        world = (*environment.source, self._inward, generator, most, self._noise)
        self.told = self.asked = run_blocks(*self._books(float(self.batch or 0), *world))
        return self._data[0]

    # --------------------------------------------------------------------- report

    @cached_property
    def _control_start(self) -> int:
        # After what is rejected: arms and "none".
        return len(self.problem.arms) + 1

    @property
    def _control(self) -> NDArray[np.int64]:
        return self._integers[self._control_start : self._control_start + CONTROL]

    @property
    def _finished(self) -> bool:
        return bool(self._integers[self._control_start + FINISHED])

    @property
    def _answer(self) -> int | None:
        if self._finished:
            return int(self._control[ANSWER])
        leader = int(leader_in_blocks(*self._books()))
        return leader if leader >= 0 else None

    @property
    def _data(self) -> tuple[Floats, Floats]:
        # The first of a book's floats: opening all of it takes as long as several decisions.
        arms, groups, _ = self._sizes
        counts, sums = self._floats[: 2 * arms * groups].reshape((2, arms, groups))
        return counts, sums + self._packed[-1] * counts

    def _spreads(self) -> list[Floats]:
        return [self._noise[0]] if self._noise.size else []

    def _scale(self) -> Floats:
        return self.problem.scale

    @property
    def _rejected(self) -> NDArray[np.bool_]:
        """Which answers are ruled out, "no arm" last."""
        return self._integers[: self._control_start].astype(bool)

    def _wealth(self) -> Floats:
        """Return the log wealth against every answer, "no arm" last."""
        return np.asarray(wealth_in_blocks(*self._books()))

    def _candidates(self) -> tuple[str | None, ...]:
        if self._finished:
            return (self._label(int(self._control[ANSWER])),)
        return tuple(map(self._label, np.flatnonzero(~self._rejected).tolist()))

    def _evidence(self) -> tuple[float | None, float | None]:
        threshold = -math.log(self.delta)
        leader = self._answer
        if leader is None:
            return None, threshold
        wealth, rivals = self._wealth(), ~self._rejected
        rivals[leader] = False
        # Every rival is rejected: what the last of them came to is at least the threshold.
        return float(wealth[rivals].min()) if rivals.any() else threshold, threshold

    def _remaining(self, evidence: float | None, threshold: float | None) -> float | None:
        book = self._book
        return pulls_left(float(book.forecast[0]), float(book.waiting.sum()))

    @property
    def _losses(self) -> tuple[Floats, Floats]:
        """Pulls of settled blocks that brought a result, and that were lost, by cell."""
        book = self._book
        return book.came, book.lost

    def _details(self) -> Mapping[str, Any]:
        wealth, rejected = self._wealth(), self._rejected
        came, lost = self._losses
        return {
            "losses": {
                "counted_as": self._lost_counts_as,
                "share": float(lost.sum() / max(1.0, came.sum() + lost.sum())),
                "too_many_to_decide": self._loses_too_many,
            },
            "blocks": int(self._control[BLOCKS]),
            "answers": [
                {
                    "answer": self._label(answer),
                    "log_wealth": float(wealth[answer]) if math.isfinite(wealth[answer]) else None,
                    "rejected": bool(rejected[answer]),
                }
                for answer in range(len(self.problem.arms) + 1)
            ],
        }

    @property
    def _lost_counts_as(self) -> str:
        """What a bet takes a lost result for."""
        if self.losses == "ignorable":
            return "not drawn"
        return "the worst value" if self.problem.reward_range is not None else "not drawn"

    @property
    def _is_out_of_reach(self) -> bool:
        """Whether results of the kind that came so far cannot settle the leader's answer."""
        planned = self._control[BLOCKS] > 1
        return planned and not self._finished and math.isinf(self._book.forecast[0])

    @property
    def _loses_too_many(self) -> bool:
        return bool(self._losses[1].any()) and self._is_out_of_reach

    def warnings(self) -> tuple[str, ...]:
        """Return what the results contradict, and whether lost results keep it from deciding."""
        found = super().warnings()
        if not self._loses_too_many:
            return found
        lost = (
            "too many results are lost: each counts as its worst value, and as things stand more "
            "results will not decide"
        )
        return (*found, lost)

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee, and what it still stands on after losses and corrections."""
        bounded = self.problem.reward_range is not None
        stated = promise(
            self.delta,
            self.problem.reward_range,
            "however the arms differ",
            "the true mean of each arm in each group does not change during the study",
        )
        stated = stated.assuming(PREDICTABLE)
        if self._corrected:
            corrections = plural(self._corrected, "correction")
            stated = stated.assuming(f"after {corrections} every value is the true one")
        if self.losses == "ignorable":
            stated = stated.assuming(_LOSSES_IGNORABLE)
            if losses_differ(*self._losses):
                stated = stated.weakened("some arms lose more results than others by chance alone")
        elif not bounded:
            event = "got lost for reasons unrelated to rewards"
            stated = stated.weakened_by(self._lost_in_bet, "pull", event)
        event = "came after bets on the values were paid"
        stated = stated.weakened_by(self._amended, "correction", event)
        return self._as_results_allow(stated)
