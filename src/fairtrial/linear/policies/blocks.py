"""Block betting: the policy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.confidence.block_betting import (
    BlockPolicy,
    Randomize,
    answers_with_wealth,
    check_randomize,
    promise,
    promise_for_normal_noise,
)
from fairtrial.confidence.block_betting.bets import GRID
from fairtrial.confidence.block_betting.book import book_dimensions
from fairtrial.confidence.block_betting.cuts import Cuts, actions_of
from fairtrial.confidence.effects import BlockResults, level_of_each
from fairtrial.core.documentation import documented_by
from fairtrial.core.progress_parts import Parts
from fairtrial.core.pull import Pull
from fairtrial.core.recommendation import Effect, Estimate, Guarantee, Status
from fairtrial.core.validation import check_instance, check_optional_integer
from fairtrial.errors import InvalidArgument, TooFewUnits
from fairtrial.linear._kernels import blocks
from fairtrial.linear._kernels.state import CONSTANTS, Constants, Rules
from fairtrial.linear._units import Units
from fairtrial.linear.environments import ArmEnvironment
from fairtrial.linear.policies.answers import DistinctCandidates
from fairtrial.linear.policies.block_standing import BlockStanding, LinearBlocks
from fairtrial.linear.policies.effects import effects_of_candidates
from fairtrial.linear.policies.findings import Findings
from fairtrial.linear.policies.values import LinearResults
from fairtrial.linear.problem import Problem

__all__ = ["BlockBetting"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MOST_PAIRS = 25_000_000
"""The most pairs of candidates that have their own wealth: 200 MB."""


_ASSIGNED_PER_FEATURE = 3
"""The least number of units per independent feature in a block that others assigned."""

_MOST_COMPARED = 20
"""The most candidates that are compared with another: those with the largest fitted values."""


@documented_by(BlockPolicy)
class BlockBetting(BlockPolicy):
    """Block betting: sampling and a proven stop that belong together; the default.

    Each candidate has a wealth: what is won or lost by betting that it is not the best. If it
    is the best, this wealth does not grow on average. A candidate is rejected permanently when
    the wealth against it reaches 1/delta; the last one left is the answer. Each block of pulls is
    planned from earlier data, but only its own results decide its bets: that is why delta need
    not be divided among candidates, directions or times.

    With a `reward_range` nothing else need be known. With `noise_std` the noise must be
    sub-Gaussian at that scale.

    Parameters
    ----------
    problem : Problem
        The problem. With `tolerance`, or if several of the best are wanted, there is one wealth
        per pair of candidates instead: the square of their number is kept in memory.
    batch : int, optional
        Pulls per block; a few more if that many could not distinguish the candidates. By default
        4 % of the pulls so far, but at least 1.5 times the number of independent features.
    initial_pulls : int, optional
        Initial pulls of every arm of a basis. By default the same number of pulls as 4 of each, but
        of different arms: none is repeated before every arm was pulled.
    planned_end : bool
        Plan for the end that `max_pulls` states: by then, the power is far higher than without, but
        pulls after it are not possible. All pulls count, also those without a result.
    noise : {"sub-Gaussian", "normal"}
        What is known of the shape of the noise. "normal" makes the bets of a planned end stronger:
        they bring the whole error that is left to the end. The guarantee then holds for normal
        noise with the stated `noise_std` only.

    Notes
    -----
    Source: docs/explanation/block-betting.md and bounded-rewards.md, with the proofs.
    If rewards have a range, a lost pull counts as the worst value for every bet: the guarantee
    then holds whatever the reason for the loss. With a known noise its block is closed with the
    pulls that came, which assumes that a loss does not depend on the value. A result that comes
    after its pull was lost still counts if its block is open.

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

    version = 15
    problem: Problem
    environments = ArmEnvironment

    _answers: DistinctCandidates

    def __init__(
        self,
        problem: Problem,
        delta: float = 0.05,
        batch: int | None = None,
        initial_pulls: int | None = None,
        max_pulls: int | None = None,
        planned_end: bool = False,
        noise: str = "sub-Gaussian",
        assigned: ArrayLike | None = None,
        randomize: Randomize = True,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        check_instance("problem", problem, Problem)
        super().__init__(problem, delta, max_pulls, seed)
        if problem.estimates_noise:
            raise InvalidArgument(
                "problem",
                "must state the noise, or the rewards' range, for BlockBetting: without, no bet is "
                "proven; LinGapE takes an estimated noise",
                problem.noise_std,
            )
        self._end_as_planned(planned_end)
        self.noise = self._noise_as_stated(noise, is_known=problem.reward_range is None)
        self._answers = DistinctCandidates(problem)
        self._units = Units(problem)
        self.batch = check_optional_integer("batch", batch, low=1)
        self.initial_pulls = check_optional_integer("initial_pulls", initial_pulls, low=1)
        has_pairs = self._pairwise or problem.has_limits
        if has_pairs and self._units.shape[1] ** 2 > MOST_PAIRS:
            others = "limits" if problem.has_limits else "a tolerance or top; LinGapE takes more"
            raise InvalidArgument(
                "problem",
                f"must have at most {math.isqrt(MOST_PAIRS)} distinct candidates for BlockBetting "
                f"with {others}",
                self._units.shape[1],
            )
        # Arms are repeated only if this was requested.
        repeats = self.initial_pulls is not None
        opening = problem.geometry.start_arms if repeats else problem.geometry.varied_arms
        model = self._units.model._replace(opening=opening.astype(np.float64))
        limits, rules = self._units.limits(self._shift), self._rules
        constants, _ = CONSTANTS.pack(Constants(model, rules, limits))
        self.randomize = check_randomize(randomize)
        self._blocks = LinearBlocks(constants, self.randomize, self._key, **self._dimensions)
        self._blocks.arms, self._blocks.centre = self._units.model.arms, self._shift
        self._keeps_outside = problem.reward_range is not None
        self._follow(assigned)
        _, distinct, rank = self._units.shape
        block = math.ceil(rules.touch * min(rank, distinct))
        self._require_pulls(self._initial * rank + block, "initial pulls and one block")
        self._standing = BlockStanding(self._units, self._blocks, rules, opening, self._cuts)
        self._findings = Findings(self._answers, self._units, self._standing, self.delta)

    def _cut(self, assigned: ArrayLike) -> Cuts:
        """Return the blocks of a finished experiment: the first units determine theta."""
        actions = actions_of(assigned, self.problem)
        arms, _, rank = self._units.shape
        begin = self._units_until_measured(actions, self._initial * rank)
        return Cuts(actions, arms, begin, self._rules.growth, _ASSIGNED_PER_FEATURE * rank)

    def _units_until_measured(self, actions: Integers, least: int) -> int:
        """Return how many units measure every direction like a basis does, or the number of all."""
        self._require_all_directions(actions)
        model = self._units.model
        shortest, longest = min(least, len(actions)), len(actions)
        # More units never measure less, so bisection works.
        while shortest < longest:
            middle = (shortest + longest) // 2
            counts = np.bincount(actions[:middle], minlength=len(model.arms)).astype(np.float64)
            if blocks.measures_start(model, counts):
                longest = middle
            else:
                shortest = middle + 1
        return longest

    def _require_all_directions(self, actions: Integers) -> None:
        rows = self.problem.reduced.arms
        pulled = rows[np.unique(actions)]
        rank = int(np.linalg.matrix_rank(pulled)) if len(pulled) else 0
        for arm in self.problem.geometry.start_arms.tolist():
            if int(np.linalg.matrix_rank([*pulled, rows[arm]])) > rank:
                label = self.problem.arms[arm]
                accepted = f"must have units that determine the mean of every arm, also {label!r}"
                raise TooFewUnits("assigned", accepted, undetermined=label)

    @property
    def _pairwise(self) -> bool:
        return not self.problem.has_limits and (self.problem.tolerance > 0 or self.problem.top > 1)

    @property
    def _separately(self) -> bool:
        """Whether every ledger is tested separately, as limits with a tolerance require."""
        spare = max(self.problem.tolerance, self.problem.floor_tolerance)
        return self.problem.has_limits and spare > 0.0

    @property
    def _initial(self) -> int:
        return 4 if self.initial_pulls is None else self.initial_pulls

    @property
    def _threshold(self) -> float:
        """The log wealth that rejects.

        With pairs, an answer is wrong if one of its members wrongly beats one of the best.
        """
        top, candidates = self.problem.top, self._units.shape[1]
        errors = max(1, top * (candidates - top)) if self._pairwise else 1
        if self._separately:
            errors = candidates
        return math.log(errors / self.delta)

    @property
    def _shift(self) -> float:
        """The middle of the range, subtracted from every reward if the features contain a constant.

        A range far from 0 would cost digits.
        """
        problem = self.problem
        known = problem.geometry.constant_parameter is not None
        if problem.reward_range is None or not problem.holds_constant_exactly:
            return 0.0
        if problem.has_limits and not known:
            # Limits on means, unlike limits on differences, would have to be shifted exactly.
            return 0.0
        low, high = problem.reward_range
        return float(self._units.factors[0]) * (0.5 * low + 0.5 * high)

    @property
    def _rules(self) -> Rules:
        problem = self.problem
        low = high = 0.0
        if problem.reward_range is not None:
            low, high = sorted(
                self._units.factors[0] * end - self._shift for end in problem.reward_range
            )
        return Rules(
            bounded=problem.reward_range is not None,
            low=low,
            high=high,
            threshold=self._threshold,
            initial_pulls=float(self._initial),
            growth=0.04,
            kappa=0.5,
            cost=1.5,
            touch=1.5,
            steps=80,
            excess=1.3,
            tolerance=self._units.tolerance,
            top=problem.top,
            pairwise=self._pairwise,
            misspecification=self._units.misspecification,
            shift=self._shift,
            separately=self._separately,
            pause=0.5,
            max_pulls=float(self._end or math.inf),
            normal=self.noise == "normal",
        )

    @property
    def _dimensions(self) -> dict[str, int]:
        """Dimensions of the state, without the number of blocks that can be open at once."""
        arms, candidates, rank = self._units.shape
        top, bounded = self.problem.top, self.problem.reward_range is not None
        bets, aimed = max(1, top * (candidates - top)), 0
        book = {
            "ledgers": candidates**2 if self._pairwise else candidates,
            "candidates": 0,
            "limits": 0,
            "answers": candidates,
        }
        if self._end is not None:
            bets += top
        if self.problem.has_limits:
            book = book_dimensions(candidates, len(self.problem.requirements))
            bets = aimed = candidates + book["limits"]
        return book | {
            "arms": arms,
            "actions": arms,
            "rank": rank,
            "bets": bets,
            "aimed": aimed,
            "width": rank if bounded else 0,
            "points": GRID if bounded else 0,
        }

    # ------------------------------------------------------------------- contract

    def _told(self, pull: Pull, outcome: float) -> float:
        return self._units.reward(pull.action, outcome)

    @property
    def _ranges_of_values(self) -> list[tuple[float, float] | None]:
        return [(self._rules.low, self._rules.high)]

    def _values(self, outcome: float) -> Floats:
        return np.array([self._units.reward(0, outcome) - self._shift])

    def _simulate(
        self, environment: ArmEnvironment, generator: np.random.Generator, horizon: int
    ) -> Floats:
        simulated = (
            float(self.batch or 0),
            environment.source,
            self._units.factors,
            generator,
            horizon,
        )
        self.told = self.asked = blocks.run(self._blocks.arrays, *simulated)
        return self._standing.counts

    # --------------------------------------------------------------------- report

    @property
    def _answer(self) -> Sequence[int] | None:
        return self._findings.answer

    def _evidence(self) -> tuple[float | None, float | None]:
        return self._standing.evidence

    @property
    def _finished(self) -> bool:
        return self._findings.finished

    @property
    def _leaves_out_losses(self) -> bool:
        return self.problem.reward_range is None

    @property
    def _settled(self) -> int | None:
        if self._cuts is not None:
            return super()._settled
        return int(self._standing.settled.counts.sum())

    def _reason(self, status: Status, answer: Sequence[int] | None) -> str:
        if answer is None:
            return self._findings.nothing_yet
        return self._findings.hidden_best or super()._reason(status, answer)

    @property
    def _ending(self) -> str:
        return self._findings.dead_end or super()._ending

    def _more_evidence(self) -> dict[str, Any]:
        return self._findings.more_evidence(self._status)

    @property
    def _decided(self) -> bool:
        return self._findings.decided

    def _candidates(self) -> tuple[str, ...] | None:
        return self._findings.candidates()

    def _limited(self) -> tuple[Estimate, ...]:
        return self._findings.limited(self._in_range)

    def _estimates(self) -> tuple[tuple[Estimate, ...], tuple[Estimate, ...]]:
        return self._findings.estimates(self._in_range)

    def _effects(self) -> Callable[[], tuple[Effect, ...]]:
        problem, answer = self.problem, self._answer
        results = self._results
        if results is None or not answer:
            return tuple
        candidates = self._units.shape[1]
        reference = answer[0]
        if reference == candidates and problem.control is None:
            return tuple
        if problem.control is not None:
            reference = int(problem.group_of[problem.answers.index(problem.control)])
        everything = range(candidates)
        rivals = [one for one in self._findings.best_first(everything) if one != reference]
        labels = self._answers.labels(everything)
        if problem.control is not None:
            labels[reference] = problem.control
        has_control = problem.control is not None
        level = level_of_each(self.delta, candidates, has_control=has_control)
        limits = self._limits_of_effects
        compared = self._units, labels, rivals[:_MOST_COMPARED], reference, results, level, limits
        return partial(effects_of_candidates, *compared, self._findings.theta)

    @property
    def _results(self) -> BlockResults | LinearResults | None:
        """The results of the settled blocks; None if there are none, or not all are kept."""
        if self._standing.has_range:
            return self._in_range
        results = self._blocks.paid_results(losses_count=False)
        if results is None:
            return None
        predicted = self._blocks.in_paid_blocks("prediction") @ self.problem.reduced.arms.T
        return replace(results, centres=results.centres + predicted)

    @property
    def _in_range(self) -> LinearResults | None:
        """The results of blocks if rewards have a range; of a finished experiment, all results."""
        if not self._standing.has_range:
            return None
        if self._cuts is None:
            return self._standing.in_range()
        return self._standing.in_range(*self._outside_blocks(self._cuts))

    @property
    def _limits_of_effects(self) -> dict[int, float]:
        """By distinct candidate: the least difference from the control, if there is one."""
        problem = self.problem
        if problem.margin is None and problem.superiority is None:
            return {}
        found = {}
        for index, group in enumerate(problem.answer_groups):
            least = problem.superiority
            if problem.margin is not None:
                least = -float(problem.margin[group[0]])
            if least is not None and math.isfinite(least):
                found[index] = problem.sign * least
        return found

    def _details(self) -> dict[str, Any]:
        return self._findings.details(self.warnings()) | {"blocks": self._blocks.planned}

    def _parts(self) -> Parts:
        parts: Parts = {"chance_to_decide": self._chance_to_decide()}
        if self._pairwise or self._separately:
            return {**parts, "answers": self._findings.rulings()}
        rejected = self._blocks.state.book.rejected
        labels = self._answers.labels(range(rejected.size))
        wealth = self._standing.wealth[0]
        return {**parts, "answers": answers_with_wealth(labels, wealth, rejected)}

    @property
    def _awaited_by_all(self) -> list[str]:
        is_any_planned = self._blocks.planned > 0
        return [] if is_any_planned else self._names_without(self._blocks.state.counts)

    def _contradicted(self) -> tuple[str, ...]:
        return self._findings.warnings()

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee, and its basis after losses and corrections."""
        bounded = self.problem.reward_range is not None
        stated = promise(
            self.delta,
            self.problem.reward_range,
            "whatever the true coefficients are",
            "the mean of each reward is linear in the features of its arm",
        )
        if self.noise == "normal":
            stated = promise_for_normal_noise(stated)
        stated = self._with_order(stated)
        stated = self._findings.as_it_stands(stated, self._amended, self.told)
        left_out = 0 if bounded else self._left_out(self._standing.counts.sum())
        return self._blocks.as_it_stands(stated, left_out=left_out)
