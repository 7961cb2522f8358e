"""The race over blocks: every arm is tried on the same block, and arms are compared in pairs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.fixed_confidence import FixedConfidencePolicy
from fairtrial.core.policy import Choice
from fairtrial.core.pull import UNSOLICITED, Pull
from fairtrial.core.recommendation import PREDICTABLE, Estimate, Guarantee, Status
from fairtrial.core.validation import check_instance, check_number, check_optional_integer
from fairtrial.core.wording import or_within
from fairtrial.delayed.policies.paired_evidence import BettingEvidence, Evidence, StudentEvidence
from fairtrial.delayed.problem import Problem
from fairtrial.errors import InvalidArgument, NotSupported

__all__ = ["Departure", "PairedRacing"]

Floats = NDArray[np.float64]

_FREE, _ISSUED, _TOLD = 0, 1, 2
_RUNS, _REJECTED, _WITHDRAWN, _SET_ASIDE = 0, 1, 2, 3
_STATES = ("undecided", "rejected", "withdrawn", "set aside")
_WITHDRAWS = frozenset({"error", "user"})
_NOBODY = -1


class Departure(NamedTuple):
    """How an arm left a race.

    Parameters
    ----------
    blocks : int
        Complete blocks when it left.
    leader : str or None
        The arm that led then; None if the arm was withdrawn.
    behind : float or None
        By how much the leader was better on average, in units of the scores; below 0 if it was
        not, and the arm is only not better by more than the tolerance.
    """

    blocks: int
    leader: str | None
    behind: float | None


class PairedRacing(FixedConfidencePolicy):
    """Race over blocks that all arms share: a split of a data set, an instance with its seed.

    What a block does to all arms alike cancels in the difference of two of them, so that far
    fewer pulls are needed than with blocks of its own for every arm. Block after block, each
    surviving arm is pulled once on it; an arm is rejected when the leader is better with
    enough evidence. Decisions follow the order of the blocks, not that in which results come:
    they are the same for any number of workers, and may not be biased by what comes first.

    Parameters
    ----------
    problem : delayed.Problem
        With ``top=1`` and ``feedback="full"``. With a `reward_range` the race bets on the
        bounded differences, and is proven; otherwise, as with ``noise_std="estimated"``, it
        estimates their deviation and takes them for normal; a `noise_std` is not used.
    delta : float
        Probability of a wrong answer that is accepted.
    parallel : int, optional
        Most pulls in flight; by default as many as are asked for.
    max_pulls : int, optional
        Stop undecided after this many results.
    n_blocks : int, optional
        How many blocks there are, if they are drawn without replacement: an arm that leads on
        all of them is the best, for certain. By default blocks are drawn without end.
    max_blocks : int, optional
        Stop undecided after this many complete blocks.
    overlap : float
        The variance of an error that all blocks share, relative to that of a difference. For
        random splits of one data set, and means that new data of its source would have: the rows
        tested on, divided by the rows trained on. The race then ends undecided once no number of
        such blocks could decide it. By default 0: blocks are independent. Only without a
        `reward_range` and `n_blocks`.
    seed : None, int or numpy.random.Generator
        Ignored; the policy is deterministic.

    Raises
    ------
    InvalidArgument
        If an argument is not acceptable.

    Notes
    -----
    A pull's `tag` is the number of its block; the caller must draw the blocks
    independently of each other (or all `n_blocks` in random order), and give all arms the
    same. A pull that is lost is issued again on its block. One that fails for the reason
    ``"error"`` or ``"user"`` withdraws its arm from the race.

    Bets: a mixture of products of 1 + b (difference + tolerance) / range, over fixed stakes b
    (Waudby-Smith and Ramdas 2024, "Estimating means of bounded random variables by betting");
    half of it on the arm that led before each block, which needs no union over arms.
    Otherwise: `fairtrial.confidence.StudentMixture`, a martingale under every variance if
    differences are normal. The label is then "calibrated": how often it is wrong was measured
    (docs/how-to/tune-a-model.md).

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
    version = 3
    results_are_independent = False
    _forecasts = False
    _nothing_yet = "every arm was withdrawn"
    state_fields = (
        "_scores",
        "_cells",
        "_arm_states",
        "_raced_until",
        "_left_behind",
        "_complete",
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
        seed: int | np.random.Generator | None = None,
    ) -> None:
        _check_problem(problem)
        super().__init__(problem, delta, max_pulls, seed)
        self.parallel = check_optional_integer("parallel", parallel, low=1)
        self.n_blocks = check_optional_integer("n_blocks", n_blocks, low=1)
        self.max_blocks = check_optional_integer("max_blocks", max_blocks, low=1)
        self.overlap = _check_overlap(overlap, problem, self.n_blocks)
        arms = len(problem.arms)
        self._level = math.log(1.0 / self.delta)
        self._scores: Floats = np.full((8, arms), np.nan)
        self._cells = np.zeros((8, arms), dtype=np.int8)
        self._arm_states = np.zeros(arms, dtype=np.int8)
        self._raced_until = np.full(arms, np.iinfo(np.int64).max)
        self._left_behind = np.full(arms, _NOBODY)
        self._complete = 0
        self._out_of_reach = False
        self._test = self._fresh_test()

    def _fresh_test(self) -> Evidence:
        if self.problem.reward_range is None:
            return StudentEvidence(self.problem.tolerance, self.overlap)
        low, high = self.problem.reward_range
        return BettingEvidence(self.problem.tolerance, high - low, self.n_blocks)

    # -------------------------------------------------------------------- contract

    def choose(self) -> Choice:
        """Return the next surviving arm and block that was not tried, the oldest block first."""
        if self.parallel is not None and len(self._outstanding) >= self.parallel:
            return None
        survivors = np.flatnonzero(self._arm_states == _RUNS)
        block = self._complete
        while self.n_blocks is None or block < self.n_blocks:
            self._make_room(block)
            free = survivors[self._cells[block, survivors] == _FREE]
            if free.size:
                self._cells[block, free[0]] = _ISSUED
                return int(free[0]), block
            block += 1
        return None

    def _make_room(self, block: int) -> None:
        if block >= len(self._cells):
            self._cells = np.concatenate([self._cells, np.zeros_like(self._cells)])
            self._scores = np.concatenate([self._scores, np.full_like(self._scores, np.nan)])

    def learn(self, pull: Pull, outcome: float) -> None:
        """Take one score; compare the arms on every block that is complete by it."""
        if pull.number == UNSOLICITED:
            raise NotSupported("PairedRacing takes no unsolicited results: they have no block")
        self._scores[pull.tag, pull.action] = self.problem.sign * outcome
        self._cells[pull.tag, pull.action] = _TOLD
        self._advance()

    def on_failure(self, pull: Pull, reason: str) -> None:
        """Let a lost pull be issued again; an error withdraws the arm."""
        if reason in _WITHDRAWS:
            if self._arm_states[pull.action] == _RUNS:
                self._take_out(pull.action, _WITHDRAWN)
                self._advance()
        elif self._cells[pull.tag, pull.action] == _ISSUED:
            self._cells[pull.tag, pull.action] = _FREE

    def _advance(self) -> None:
        while not (self._finished or self._ended_early) and self._is_complete(self._complete):
            self._complete += 1
            self._compare()

    def _is_complete(self, block: int) -> bool:
        if block >= len(self._cells):
            return False
        return bool((self._cells[block, self._arm_states == _RUNS] == _TOLD).all())

    def _compare(self) -> None:
        """Reject what is worse than the leader; all, once no rival can be better by much."""
        leader, rivals = self._leader_and_rivals()
        table = self._table()
        better, near_enough = self._test.against(table, leader, rivals)
        is_worse = np.full(len(rivals), True) if self._is_exhausted else better >= self._level
        self._take_out(rivals[is_worse], _REJECTED, leader)
        if (near_enough >= self._level).all():
            self._take_out(rivals[~is_worse], _SET_ASIDE, leader)
        elif not self._finished:
            self._out_of_reach = self._test.out_of_reach(
                table, leader, rivals[~is_worse], self._level
            )

    def _take_out(self, arms: int | NDArray[np.intp], status: int, leader: int = _NOBODY) -> None:
        self._arm_states[arms] = status
        self._raced_until[arms] = self._complete
        self._left_behind[arms] = leader

    def _table(self) -> Floats:
        """Return the scores of complete blocks, of an arm while it was in the race."""
        blocks = np.arange(self._complete)[:, None]
        return np.where(blocks < self._raced_until, self._scores[: self._complete], np.nan)

    def _leader_and_rivals(self) -> tuple[int, NDArray[np.intp]]:
        survivors = np.flatnonzero(self._arm_states == _RUNS)
        sums = self._scores[: self._complete, survivors].sum(axis=0)
        at = int(sums.argmax()) if self._complete else 0
        return int(survivors[at]), np.delete(survivors, at)

    def to_cancel(self) -> list[Pull]:
        """Return the pulls in flight on arms that are decided; all, once stopped."""
        if self.stopped:
            return self.outstanding()
        return [pull for pull in self.outstanding() if self._arm_states[pull.action] != _RUNS]

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from a state that a policy of the same problem, parameters and seed returned."""
        super().set_state(state)
        self._test = self._fresh_test()

    # ---------------------------------------------------------------------- answer

    @property
    def _finished(self) -> bool:
        return int((self._arm_states == _RUNS).sum()) <= 1

    @property
    def _capped(self) -> bool:
        return self._ended_early or super()._capped

    @property
    def _ended_early(self) -> bool:
        return self._out_of_reach or self._complete == self.max_blocks

    @property
    def _ending(self) -> str:
        if self._out_of_reach:
            return f"no number of blocks like these {self._complete} could decide it"
        if self._complete == self.max_blocks:
            return f"the maximum of {self.max_blocks} blocks is reached"
        return super()._ending

    @property
    def _is_exhausted(self) -> bool:
        return self._complete == self.n_blocks

    @property
    def blocks(self) -> int:
        """Blocks on which every surviving arm was tried."""
        return int(self._complete)

    @property
    def leader(self) -> int | None:
        """The arm's number that is best so far; None if all are withdrawn."""
        return self._leader_and_rivals()[0] if (self._arm_states == _RUNS).any() else None

    @property
    def shortfall(self) -> float | None:
        """How much worse than the best the leader may be, with confidence ``1 - delta``.

        The problem's tolerance once the race is decided; before, the least tolerance for which
        it would be. It holds together with all that the race rejects. None without a leader.
        """
        if self.leader is None:
            return None
        tolerance = float(self.problem.tolerance)
        if self._finished:
            return tolerance
        leader, rivals = self._leader_and_rivals()
        least = self._test.shortfalls(self._table(), leader, rivals, self._level)
        return max(tolerance, float(least.max()))

    @property
    def states(self) -> tuple[str, ...]:
        """What became of every arm.

        ``"undecided"``; ``"rejected"``, as the leader is better; ``"set aside"``, as the leader is
        at most the tolerance worse; or ``"withdrawn"``.
        """
        return tuple(_STATES[code] for code in self._arm_states.tolist())

    @property
    def departures(self) -> tuple[Departure | None, ...]:
        """How every arm left the race; None for one that is still in it."""
        return tuple(
            None if state == _RUNS else self._departure(arm)
            for arm, state in enumerate(self._arm_states.tolist())
        )

    def _departure(self, arm: int) -> Departure:
        blocks, leader = int(self._raced_until[arm]), int(self._left_behind[arm])
        if leader == _NOBODY:
            return Departure(blocks, None, None)
        shared = self._scores[:blocks]
        behind = float((shared[:, leader] - shared[:, arm]).mean())
        return Departure(blocks, self.problem.arms[leader], behind)

    @property
    def scores(self) -> Floats:
        """Scores by block and arm, shape (blocks, arms); not a number where none is known."""
        last = np.flatnonzero((self._cells == _TOLD).any(axis=1)).max(initial=-1)
        return self.problem.sign * self._scores[: int(last) + 1]

    @property
    def _answer(self) -> str | None:
        return None if self.leader is None else self.problem.arms[self.leader]

    def _label(self, answer: Any) -> Any:
        return answer

    def _finding(self, label: Any) -> str:
        return f"{label!r} is the best of the arms{or_within(self.problem.tolerance)}"

    def _reason(self, status: Status, answer: Any) -> str:
        if status == "decided" and self._is_exhausted and answer is not None:
            return f"every block was tried: {self._finding(answer)}"
        return super()._reason(status, answer)

    def _more_evidence(self) -> Mapping[str, Any]:
        return {"blocks": self.blocks}

    def _evidence(self) -> tuple[float | None, float | None]:
        """Return the leader's evidence against its closest rival, in nats, and the threshold."""
        if self._finished:
            return None, None
        leader, rivals = self._leader_and_rivals()
        if not self._complete:
            return 0.0, self._level
        _, near_enough = self._test.against(self._table(), leader, rivals)
        return max(0.0, float(near_enough.min())), self._level

    def _details(self) -> Mapping[str, Any]:
        return {
            "arms": dict(zip(self.problem.arms, self.states, strict=True)),
            "blocks": self.blocks,
        }

    def _estimates(self) -> tuple[tuple[Estimate, ...], tuple[Estimate, ...]]:
        told = self._cells == _TOLD
        estimates = tuple(
            Estimate(
                labels,
                int(told[:, arm].sum()),
                mean=self.problem.sign * float(self._scores[told[:, arm], arm].mean())
                if told[:, arm].any()
                else None,
            )
            for arm, labels in enumerate(self.problem.action_labels)
        )
        return estimates, estimates

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee and its basis; proven if scores are bounded, else calibrated."""
        tolerance = self.problem.tolerance
        sound = not self._withdrawn(after_blocks=True)
        wrong = f"neither the best nor within {tolerance:g} of it" if tolerance else "not the best"
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
                PREDICTABLE,
                *self._withdrawals(),
            ),
            source="docs/how-to/tune-a-model.md",
        )

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
            texts.append(f"arms that failed are no candidates, and had to fail: {', '.join(gone)}")
        if gone := self._withdrawn(after_blocks=True):
            texts.append(
                "arms that failed on a later block had ruled out no arm better than the answer "
                f"(not proven): {', '.join(gone)}"
            )
        return tuple(texts)

    def _withdrawn(self, *, after_blocks: bool) -> list[str]:
        """Return the arms that failed: on the first block, or after others had counted."""
        gone = (self._arm_states == _WITHDRAWN) & ((self._raced_until > 0) == after_blocks)
        return [self.problem.arms[arm] for arm in np.flatnonzero(gone)]


def _check_overlap(overlap: float, problem: Problem, n_blocks: int | None) -> float:
    share = check_number("overlap", overlap, low=0.0)
    if share and (problem.reward_range is not None or n_blocks is not None):
        raise InvalidArgument(
            "overlap",
            "must be 0 with a reward_range or n_blocks: blocks are then all there is",
            share,
        )
    return share


def _check_problem(problem: Problem) -> None:
    check_instance("problem", problem, Problem)
    if problem.top != 1:
        raise InvalidArgument("problem", "must have top=1 for PairedRacing", problem)
    if problem.feedback != "full":
        raise InvalidArgument("problem", "must have feedback='full' for PairedRacing", problem)
    if problem.failure_value is not None or problem.failure == "outcome":
        raise InvalidArgument(
            "problem", "must leave failures to PairedRacing, which tries a lost pull again", problem
        )
