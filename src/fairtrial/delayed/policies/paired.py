"""The race over shared blocks: all arms are tried on the same blocks and compared in pairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.progress_parts import ArmStatus, Parts
from fairtrial.core.recommendation import PREDICTABLE, Estimate, Guarantee, Status
from fairtrial.delayed.policies.judged_evidence import Judge
from fairtrial.delayed.policies.limited_evidence import LIMITS_ONLY, SKIPPED, LimitedEvidence
from fairtrial.delayed.policies.paired_course import (
    FREE,
    NOBODY,
    REJECTED,
    RUNS,
    SET_ASIDE,
    TOLD,
    WAITS,
    WITHDRAWN,
    PairedCourse,
)
from fairtrial.delayed.policies.race_forecast import (
    FEWEST_BLOCKS,
    blocks_needed,
    repeated_blocks,
)
from fairtrial.errors import NotSupported

__all__ = ["Departure", "PairedRacing"]

Floats = NDArray[np.float64]

_STATES = ("undecided", "rejected", "withdrawn", "set aside", "waiting")
# Evidence, in nats, that no accepted error probability exceeds.
_CERTAIN = 1e4
_PREDICTABLE_ON_A_BLOCK = (
    "nobody's guess of the arm that is next on a block changes an outcome: only the order of "
    "blocks is random"
)
# Number of blocks that are shown because results on them differ.
_DISPUTED = 8
# A race without an end of blocks is forecast until it has this many times its blocks.
_HORIZON = 10
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


class PairedRacing(PairedCourse):
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
    >>> from fairtrial.delayed import Problem
    >>> problem = Problem(["a", "b", "c"], reward_range=(0, 1))
    >>> policy = PairedRacing(problem, delta=0.05)
    >>> while not policy.stopped:
    ...     pull = policy.ask()
    ...     block = 0.2 * (pull.tag % 2)
    ...     policy.tell(pull, block + {"a": 0.1, "b": 0.6, "c": 0.3}[pull.arm])
    >>> policy.recommend().arm, policy.told
    ('b', 44)
    """

    version = 6
    has_shared_blocks = True
    results_are_independent = False
    _nothing_yet = "every arm was withdrawn"
    expiry: ClassVar[Literal["drop", "reissue"]] = "reissue"

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
        aside = (self._arm_states == SET_ASIDE) & (self._left_behind != leader)
        rivals = np.flatnonzero(self._in_race | aside).tolist()
        return max(tolerance, *(self._shortfall(leader, arm) for arm in rivals if arm != leader))

    def _shortfall(self, leader: int, rival: int) -> float:
        """Return how much worse than one rival the leader may be, by the blocks of both."""
        told = self._cells[: self._complete, rival] == TOLD
        told |= self._arm_states[rival] == WAITS
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
            None if state in (RUNS, WAITS) else self._departure(arm)
            for arm, state in enumerate(self._arm_states.tolist())
        )

    def _departure(self, arm: int) -> Departure:
        blocks, leader = int(self._raced_until[arm]), int(self._left_behind[arm])
        if leader == NOBODY:
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
        last = np.flatnonzero((self._cells == TOLD).any(axis=1)).max(initial=-1)
        return self.problem.sign * self._scores[: int(last) + 1]

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
        return self._listed(self._cells != FREE, False)

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
        if is_exact and self._arm_states[arm] == REJECTED:
            return np.full(len(self.problem.arms), math.inf)
        behind = int(self._left_behind[arm])
        opponent = leader if behind == NOBODY else behind
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
        n_withdrawn = int((self._arm_states == WITHDRAWN).sum())
        is_alone = 0 < n_withdrawn == len(self._arm_states) - 1
        return is_alone and bool((self._arm_states == RUNS).any())

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
        are_equal &= (self._cells[: self._complete] == TOLD).all(axis=0)
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
        told = self._cells[: self._complete] == TOLD
        shared = self._scores[: self._complete][told[:, leader] & told[:, arm]]
        ahead = shared[:, leader] - shared[:, arm]
        behind = float(ahead.mean()) if ahead.size else None
        return ArmStatus(label, state, ahead.size, behind, int((ahead != 0.0).sum()))

    def _details(self) -> Mapping[str, Any]:
        return {"blocks": self.blocks, "disputed_blocks": self._disputed_blocks()}

    def _disputed_blocks(self) -> list[dict[str, Any]]:
        """Return the complete blocks on which results differ most, by arm; None if unknown."""
        told = self._cells[: self._complete] == TOLD
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
        told = (self._cells == TOLD).sum(axis=0)
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
        has_returned = (self._arm_states == RUNS) & ~has_all
        tried = np.where(has_returned, self._open_from, self._complete)
        return np.asarray(np.minimum(tried, self._raced_until))

    @property
    def _settled(self) -> int:
        return int(self._counted.sum())

    def _mean(self, arm: int) -> float | None:
        """Return an arm's mean on complete blocks, or else of all its results."""
        blocks = self._counted[arm]
        told = self._cells[:, arm] == TOLD
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
        gone = (self._arm_states == WITHDRAWN) & ((self._raced_until > 0) == after_blocks)
        return [self.problem.arms[arm] for arm in np.flatnonzero(gone)]

    # ----------------------------------------------------------------- what is left

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

        known = self.problem.reward_range
        highest = math.inf if known is None else max(self.problem.sign * end for end in known)
        scores, targets = self._table(), self._targets[:blocks]

        def needed_for(evidence: Callable[..., Floats]) -> Floats:
            needed = blocks_needed(
                evidence, scores, targets, places, leader, rivals, self._level, highest
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
