"""Block betting: the policy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.block_betting import carry_over, promise, pulls_left
from fairtrial.core.environment import Environment
from fairtrial.core.policy import Choice
from fairtrial.core.pull import UNSOLICITED, Pull
from fairtrial.core.recommendation import Guarantee
from fairtrial.core.run import Run
from fairtrial.core.validation import check_integer
from fairtrial.core.wording import plural
from fairtrial.errors import InvalidArgument
from fairtrial.subpopulations._kernels.indices import (
    ANSWER,
    BLOCKS,
    CONTROL,
    FINISHED,
    FIRST,
    OPEN,
)
from fairtrial.subpopulations.environments import CellEnvironment
from fairtrial.subpopulations.policies.base import FloorPolicy, model_of
from fairtrial.subpopulations.problem import Problem

__all__ = ["BlockBetting"]

Floats = NDArray[np.float64]


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
        Without slack, and with a noise that is not estimated.
    delta : float
        Probability of a wrong answer that is accepted.
    batch : int, optional
        Draws in a block; by default 3 % of the draws so far, and at least two for every
        cell that still matters.
    start : int, optional
        Initial draws of every cell: 10 with a reward range, 5 with a known noise.
    max_pulls : int, optional
        Stop undecided after so many results.
    seed : None, int or numpy.random.Generator
        Not used: the policy tosses no coins.

    Notes
    -----
    Source: docs/explanation/block-betting.md and bounded-rewards.md, with the proofs.
    A pull that is lost counts as the worst value for every bet if rewards have a range:
    the guarantee then holds whatever made it get lost. With a known noise its block is
    closed with the draws that came, which assumes that losing does not depend on the value.
    A correction reaches every bet that is not paid yet; what is paid stays paid.

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

    state_fields = ("_floats", "_integers", "_amended", "_lost_in_block", "_late")

    def __init__(
        self,
        problem: Problem,
        delta: float = 0.05,
        batch: int | None = None,
        start: int | None = None,
        max_pulls: int | None = None,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        from fairtrial.subpopulations._kernels.model import pack_model

        super().__init__(problem, delta, max_pulls, seed)
        self.batch = None if batch is None else check_integer("batch", batch, low=1)
        self.start = None if start is None else check_integer("start", start, low=0)
        self._refuse_what_is_not_covered()
        model = pack_model(model_of(problem, informative_only=True))
        self._packed = np.concatenate([model, self._constants_of(problem)])
        self._lost_in_block = 0
        # Pulls told after they were given up: they are in no bet.
        self._late: list[int] = []
        self._allocate(slots=2)

    def _refuse_what_is_not_covered(self) -> None:
        if self.problem.slack > 0.0 or self.problem.floor_slack > 0.0:
            raise InvalidArgument(
                "problem", "must have no slack for BlockBetting; BalancedTracking takes slack"
            )
        if self.problem.estimates_noise:
            raise InvalidArgument(
                "problem", "must give reward_range or a known noise_std for BlockBetting"
            )

    def _constants_of(self, problem: Problem) -> Floats:
        from fairtrial.subpopulations._kernels.block_book import Rules

        bounded = problem.reward_range is not None
        low, high = problem.reward_range or (0.0, 0.0)
        if problem.sign < 0:
            low, high = -high, -low
        start = (10 if bounded else 5) if self.start is None else self.start
        rules = Rules(
            bounded=bounded,
            low=low,
            high=high,
            threshold=-math.log(self.delta),
            start=float(start),
            growth=0.03,
            kappa=1.0,
            cost=1.5,
            touch=2.0,
            steps=150,
            pause=0.5,
        )
        return np.array(rules, dtype=np.float64)

    # ---------------------------------------------------------------------- books

    def _allocate(self, slots: int) -> None:
        from fairtrial.subpopulations._kernels.block_book import sizes
        from fairtrial.subpopulations._kernels.runs import start_blocks

        floats, integers = sizes(*self.problem.shape, slots, self._bets)
        self._floats = np.zeros(floats)
        self._integers = np.zeros(integers, dtype=np.int64)
        start_blocks(*self._books())

    def _books(self, *more: Any) -> Any:
        """Return everything that the kernels need, packed, and `more` after it."""
        books = (self._packed, self._floats, self._integers)
        return (*books, *self.problem.shape, self._slots, *more)

    @property
    def _slots(self) -> int:
        """Blocks that can be open at once, from the size of the books."""
        arms, _ = self.problem.shape
        return (self._integers.size - (arms + 1) - CONTROL) // (2 + 3 * self._bets)

    @property
    def _bets(self) -> int:
        """Bets in a block: one on each rival, and one on each limit that the leader can have."""
        arms, groups = self.problem.shape
        ends = 2 if np.isfinite(self.problem.ceilings).any() else 1
        return arms + ends * groups

    @property
    def _book(self) -> Any:
        from fairtrial.subpopulations._kernels.block_book import open_book

        return open_book(self._floats, self._integers, *self.problem.shape, self._slots)

    def _make_room(self) -> None:
        """Double the number of blocks that can be open at once."""
        from fairtrial.subpopulations._kernels.block_book import open_book, sizes

        old, slots = self._book, self._slots
        floats, integers = sizes(*self.problem.shape, 2 * slots, self._bets)
        self._floats, self._integers = np.zeros(floats), np.zeros(integers, dtype=np.int64)
        new = open_book(self._floats, self._integers, *self.problem.shape, 2 * slots)
        first, number = int(old.control[FIRST]), int(old.control[OPEN])
        carry_over(old, new, first, number)

    # ------------------------------------------------------------------- contract

    def choose(self, group: str | None = None) -> Choice:
        """Return the next draw of the open block, planning a new one when there is none."""
        from fairtrial.subpopulations._kernels.runs import ask_blocks

        column = self._column(group)
        while True:
            cell, serial = ask_blocks(*self._books(column, float(self.batch or 0)))
            if cell >= 0:
                return cell, serial
            self._make_room()

    def learn(self, pull: Pull, outcome: float) -> None:
        """Take one reward; one that comes after its loss informs plans, and no bet."""
        from fairtrial.subpopulations._kernels.runs import tell_blocks

        solicited = pull.number in self._outstanding
        serial = pull.tag if solicited else -1
        tell_blocks(*self._books(pull.action, serial, self._sign * outcome))
        if self.is_lost(pull):
            self._late.append(pull.number)

    def lose(self, pull: Pull, reason: str) -> None:
        """Close the books on a pull: its worst value if rewards have a range, else without it."""
        from fairtrial.subpopulations._kernels.runs import lose_in_blocks

        self._lost_in_block += pull.tag >= 0 and not self._decided
        lose_in_blocks(*self._books(pull.action, pull.tag))

    def revise(self, pull: Pull, old: float, new: float) -> None:
        """Correct the data, and bets of its block; those that were paid stay as they were."""
        from fairtrial.subpopulations._kernels.runs import correct_in_blocks

        betted_on = pull.number != UNSOLICITED and pull.number not in self._late
        serial = pull.tag if betted_on else -1
        change = (self._sign * old, self._sign * new)
        correct_in_blocks(*self._books(pull.action, serial, *change))
        self._amended += 1

    def compiled_run(
        self,
        environment: Environment,
        generator: np.random.Generator,
        horizon: int | None,
        parallel: int = 1,
    ) -> Run | None:
        """Return a whole run from compiled code."""
        from fairtrial.subpopulations._kernels.runs import run_blocks

        if parallel != 1 or not self._can_compile(environment):
            return None
        assert isinstance(environment, CellEnvironment)
        most = 0 if self._decided else self._most(horizon)
        world = (*environment.source, self._sign, generator, most)
        self.told = self.asked = run_blocks(*self._books(float(self.batch or 0), *world))
        return self._run(environment, self._book.counts, self.told)

    # --------------------------------------------------------------------- report

    @property
    def _control(self) -> NDArray[np.int64]:
        # After what is rejected: arms and "none".
        start = self.problem.shape[0] + 1
        return self._integers[start : start + CONTROL]

    @property
    def _decided(self) -> bool:
        return bool(self._control[FINISHED])

    @property
    def _answer(self) -> int | None:
        from fairtrial.subpopulations._kernels.runs import leader_in_blocks

        if self._decided:
            return int(self._control[ANSWER])
        leader = int(leader_in_blocks(*self._books()))
        return leader if leader >= 0 else None

    @property
    def _data(self) -> tuple[Floats, Floats]:
        book = self._book
        return book.counts, book.sums

    def _wealth(self) -> Floats:
        """Return the log wealth against every answer, "no arm" last."""
        from fairtrial.subpopulations._kernels.runs import wealth_in_blocks

        return np.asarray(wealth_in_blocks(*self._books()))

    def _evidence(self) -> tuple[float | None, float | None]:
        threshold = -math.log(self.delta)
        leader = self._answer
        if leader is None:
            return None, threshold
        wealth, rivals = self._wealth(), ~self._book.rejected.astype(bool)
        rivals[leader] = False
        # Every rival is rejected: what the last of them came to is at least the threshold.
        return float(wealth[rivals].min()) if rivals.any() else threshold, threshold

    def _remaining(self) -> float | None:
        if self.stopped:
            return 0.0
        book = self._book
        return pulls_left(float(book.forecast[0]), float(book.waiting.sum()))

    def _details(self) -> Mapping[str, Any]:
        wealth, rejected = self._wealth(), self._book.rejected
        return {
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
    def guarantee(self) -> Guarantee:
        """The guarantee, and what it still stands on after losses and corrections."""
        bounded = self.problem.reward_range is not None
        stated = promise(
            self.delta,
            self.problem.reward_range,
            "however the arms differ",
            "given the past, each reward of a cell has the same mean",
        )
        if self._lost_in_block and not bounded:
            stated = stated.weakened(
                f"{plural(self._lost_in_block, 'pull')} got lost for reasons unrelated to rewards"
            )
        if self._amended:
            stated = stated.weakened(
                f"{self._amended} rewards were corrected after they had been betted on"
            )
        return stated
