"""Block betting: the policy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.confidence.block_betting import (
    BlockKernels,
    BlockPolicy,
    Randomize,
    check_randomize,
    promise,
    promise_for_normal_noise,
)
from fairtrial.confidence.block_betting.bets import GRID
from fairtrial.confidence.block_betting.book import book_dimensions
from fairtrial.confidence.block_betting.cuts import Cuts
from fairtrial.confidence.effects import Difference, Spread
from fairtrial.confidence.means import BlockMeans, Settled
from fairtrial.core.documentation import documented_by
from fairtrial.core.policy import Choice
from fairtrial.core.problem import Outcome
from fairtrial.core.progress_parts import Losses, Parts
from fairtrial.core.pull import Pull
from fairtrial.core.recommendation import Effect, Estimate, Guarantee, Status
from fairtrial.core.replications import Replications, from_streams, of_generator
from fairtrial.core.runs import Runs
from fairtrial.core.streams import Reseeded, Streams
from fairtrial.core.validation import (
    check_choice,
    check_flag,
    check_instance,
    check_optional_integer,
)
from fairtrial.core.wording import choices, listed, said_of_awaited, said_of_closed_control
from fairtrial.errors import InvalidArgument, NotSupported
from fairtrial.subpopulations._kernels import blocks
from fairtrial.subpopulations._kernels.block_state import CONSTANTS, Constants, Rules
from fairtrial.subpopulations._kernels.control_limits import ROLES
from fairtrial.subpopulations._kernels.model import CEILING, OVERALL_DIFFERENCE
from fairtrial.subpopulations._prediction import TOO_LATE
from fairtrial.subpopulations.environments import CellEnvironment
from fairtrial.subpopulations.policies import cell_report
from fairtrial.subpopulations.policies.cell_blocks import CellBlocks
from fairtrial.subpopulations.policies.cell_report import ArmsWithLimits, Cells
from fairtrial.subpopulations.policies.measured_blocks import MeasuredBlocks
from fairtrial.subpopulations.policies.measured_report import (
    arm_estimates,
    cell_estimates,
    limits_of_measures,
    overall_estimates,
    promise_on_measures,
    values_of_measures,
)
from fairtrial.subpopulations.policies.predicted_blocks import PredictedBlocks
from fairtrial.subpopulations.policies.recorded_predictions import RecordedPredictions
from fairtrial.subpopulations.policies.residual_blocks import ResidualBlocks
from fairtrial.subpopulations.policies.stated_noise import (
    Contradiction,
    as_results_allow,
    contradiction_of,
    warnings_of,
)
from fairtrial.subpopulations.policies.units import column_of, far_from_zero, model_of, unit_of
from fairtrial.subpopulations.problem import Problem

__all__ = ["BlockBetting"]

Floats = NDArray[np.float64]

_LOSSES_IGNORABLE = "whether a result gets lost does not depend on its value"

_EXACT_BETS = "block betting with exact bets on rewards of 0 and 1"

_BINARY = "every reward is 0 or 1"

_PLANNED_ENDS = "docs/explanation/planned-ends.md"

_TOO_MANY_LOST = (
    "too many results are lost: by the estimates so far, more results will not decide at this rate"
)

_MANY_CELLS = 500
"""With more cells, initial pulls and the minimal block would be most of a study."""

_GROWTH, _GROWTH_TO_NEAR_END = 0.03, 0.01
"""Pulls of a block per pull so far. A wealth that passes its threshold inside a block wastes the
excess, so smaller blocks bring more power by a planned end; but every block takes time to plan."""

_NEAR_END = 5_000
"""With a planned end after at most this many pulls, blocks are small."""


class _Blocks(CellBlocks):
    kernels: ClassVar[BlockKernels] = blocks
    verdict = ("answer",)

    inward: float = 1.0
    """What rewards are multiplied by."""

    def of_pull(self, pull: Pull, outcome: Any) -> Any:
        return self.inward * outcome


@documented_by(BlockPolicy)
class BlockBetting(BlockPolicy):
    """Block betting: sampling and a proven stop that belong together; the default.

    Each possible answer has a wealth, which cannot grow on average if the answer is right. An
    answer is rejected permanently when the wealth against it reaches 1/delta; the last one that
    remains is given. Blocks of pulls are planned from all earlier data. Only the block wins or
    loses, so no union bound over arms or times is needed.

    With a `reward_range` nothing else need be known: no sigma, and cells may differ in
    variance. With `noise_std` the noise must be sub-Gaussian at that scale.

    Parameters
    ----------
    problem : Problem
        Its noise must not be estimated. With a tolerance every piece of evidence is tested on its
        own, at delta / K for K arms.
    batch : int, optional
        Pulls in a block; by default 3 % of the pulls so far (1 % with a planned end after at most
        5,000 pulls), and at least two (one if there are more than 500 cells) for every cell that
        still matters.
    initial_pulls : int, optional
        Initial pulls of every cell: 10 with a reward range, 5 with a known noise or with more
        than 500 cells.
    planned_end : bool
        Plan for the end that `max_pulls` states: by then, the power is far higher than without, but
        pulls after it are not possible. All pulls count, also those without a result.
    noise : {"sub-Gaussian", "normal"}
        What is known of the shape of the noise. "normal" makes the bets of a planned end stronger:
        they need no more results than a sequential test with a flat boundary. The guarantee then
        holds for normal noise with the stated `noise_std` only.
    losses : {"informative", "ignorable"}
        Whether the value of a result may influence whether it gets lost (default). If not, a lost
        pull is repeated, which costs only that pull; the guarantee then names the assumption, and
        is weakened if some arms lose more results than others. In a finished experiment, leave
        units without a result out of `assigned` then; `analyse` does.
    max_replacements : int, optional
        With a planned end and ``losses="ignorable"``, the most lost pulls that are made again, so
        that a study asks for at most `max_pulls` plus this many. Further lost ones count as their
        worst value, which is valid whatever the reason for the loss, and costs power. Pulls of an
        arm that is closed before they were made again no longer count.
    block_draws : bool
        In a simulation, draw all results of a block in one step: with the same distribution, but
        with other random numbers than pulls one by one. Pulls were 1.3 to 2.3 times as fast with
        normal results, and 15 times with results 0 and 1 in large blocks. The run's `metrics` tell
        whether it was drawn so: not in Python's loop, with arrivals, or with several pulls in
        flight.

    Notes
    -----
    Source: docs/explanation/block-betting.md and bounded-rewards.md, with the proofs.
    If rewards have a range, a lost pull by default counts as the worst value for every bet: the
    guarantee then holds whatever the reason for the loss. Plans, bets and the forecast allow for
    the share that gets lost; if that share makes a decision impossible,
    ``progress().losses`` tells. With a known noise the block is closed with the pulls
    that came, which assumes that a loss does not depend on the value. A result that comes after its
    pull was given up still counts if its block is open. A correction reaches every bet: bets that
    were already paid are paid again, and an answer that was based on a wrong value is taken back.
    Corrections of pulls without a bet (initial pulls, unsolicited data) do not change the
    guarantee; nor do their losses if rewards have a range. With a known noise every loss does,
    because means and effects leave lost pulls out, except in cells without any result, which no
    bet uses.

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

    version = 22
    state_fields = (*BlockPolicy.state_fields, "_closed_columns")
    problem: Problem
    environments = CellEnvironment
    _nothing_yet = cell_report.NOTHING_YET

    def __init__(
        self,
        problem: Problem,
        delta: float = 0.05,
        batch: int | None = None,
        initial_pulls: int | None = None,
        max_pulls: int | None = None,
        planned_end: bool = False,
        noise: str = "sub-Gaussian",
        losses: str = "informative",
        max_replacements: int | None = None,
        assigned: ArrayLike | None = None,
        randomize: Randomize = True,
        block_draws: bool = False,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        check_instance("problem", problem, Problem)
        self.block_draws = check_flag("block_draws", block_draws)
        self._pulls_in_blocks = 0
        if block_draws and problem.measures:
            raise InvalidArgument("block_draws", "must be False with measures", block_draws)
        if block_draws and problem.prediction is not None:
            raise InvalidArgument("block_draws", "must be False with a prediction", block_draws)
        super().__init__(problem, delta, max_pulls, seed)
        self._closed_columns: list[int] = []
        self._end_as_planned(planned_end)
        self.noise = self._noise_as_stated(noise, is_known=self._has_known_noise)
        # Rewards are maximised, in units that keep their squares well within a float's range.
        self._inward = problem.sign / unit_of(problem)
        self._answers = ArmsWithLimits(problem)
        self.batch = check_optional_integer("batch", batch, low=1)
        self.initial_pulls = check_optional_integer("initial_pulls", initial_pulls, low=0)
        self.losses = check_choice("losses", losses, ["informative", "ignorable"])
        # Nobody can repeat a pull of a finished experiment.
        self._makes_again = self.losses == "ignorable" and assigned is None
        self.max_replacements = self._replacements_as_stated(max_replacements)
        self._refuse_what_is_not_covered()
        self._require_what_exact_bets_need()
        self._rules = self._rules_of(problem)
        self.randomize = check_randomize(randomize, self.losses)
        self._measured: MeasuredBlocks | None = None
        self._blocks: CellBlocks
        if problem.predictions:
            predicted = self._blocks_with_predictions(problem)
            self._measured = predicted if problem.measures else None
            self._blocks = predicted
        elif problem.measures:
            self._measured = MeasuredBlocks(
                problem,
                self._rules,
                self.randomize,
                self._key,
                points=GRID if self._bounded else 0,
                reported=self._values_so_far_of,
            )
            self._blocks = self._measured
        else:
            self._blocks = self._blocks_of_one_measure(problem)
        if self.max_replacements is not None:
            self._blocks.max_replacements = self.max_replacements
        # With known noise, adjusted differences are those of the blocks.
        self._keeps_outside = not isinstance(self._blocks, ResidualBlocks)
        self._follow(assigned)
        self._require_pulls_for_a_bet()

    def _replacements_as_stated(self, most: int | None) -> int | None:
        """Return the most lost pulls that are made again; refuse a number that would be ignored."""
        if check_optional_integer("max_replacements", most, low=1) is None:
            return None
        if not (self.planned_end and self.losses == "ignorable" and self._bounded):
            accepted = (
                "must be given only with planned_end and losses='ignorable', for rewards in a range"
            )
            raise InvalidArgument("max_replacements", accepted, most)
        if self.problem.predictions:
            raise NotSupported("max_replacements needs a problem without predictions")
        return most

    @property
    def _compared_spread(self) -> Spread:
        """What is known about the spread of the numbers by which arms are compared."""
        if self._measured is not None:
            return self._measured.objective_spread
        return Spread(self.problem.scale.ravel(), self.problem.reward_range)

    @property
    def _ranges_of_values(self) -> list[tuple[float, float] | None]:
        first, ranges = self._compared_spread.reward_range, self.problem.measure_ranges
        if self._measured is None:
            return [first]
        if ranges is None:
            return [None] * (1 + len(self.problem.measures))
        return [first, *map(tuple, ranges.tolist())]

    def _values(self, outcome: Any) -> Floats:
        if self._measured is None:
            return super()._values(outcome)
        return self._measured.shown_values(outcome)

    def _measure_in_range(self, measure: int | None) -> BlockMeans | None:
        """Return what finds means of a measure, if measures have ranges.

        None stands for the objective.
        """
        ranges, measured = self.problem.measure_ranges, self._measured
        if ranges is None or measured is None:
            return None
        if measure is None:
            return self._objective_in_range
        low, high = ranges[measure].tolist()
        if self._cuts is None:
            found = measured.paid_values(measure, losses_count=self._losses_count)
        elif self._keeps_outside:
            paid = measured.paid_values(measure, losses_count=True)
            found = self._blocks_of_all(self._cuts, paid, 1 + measure)
        else:
            found = None
        if found is not None:
            return BlockMeans(found, (low, high))
        settled = Settled(*(values[..., measure] for values in self._settled_measures(measured)))
        return settled.in_range((low, high), combines=self._cuts is not None)

    def _values_so_far_of(self, number: int) -> Floats | None:
        return self._values_so_far.get(number)

    def _blocks_with_predictions(self, problem: Problem) -> RecordedPredictions:
        """Return blocks whose pulls have predictions."""
        known = problem, self._rules, self.randomize, self._key
        if self._bounded:
            return PredictedBlocks(*known, points=GRID, reported=self._values_so_far_of)
        return ResidualBlocks(*known, reported=self._values_so_far_of)

    def _blocks_of_one_measure(self, problem: Problem) -> _Blocks:
        model = model_of(problem, informative_only=True)
        # Differences from a control need no shift.
        shift = np.zeros((len(model.limits), 1, 1))
        shift[: CEILING + 1] = self._rules.shift
        model = model._replace(
            limits=model.limits - shift,
            own_limits=model.own_limits - shift,
            rival_limits=model.rival_limits - shift,
        )
        constants, _ = CONSTANTS.pack(Constants(model, self._rules))
        found = _Blocks(constants, self.randomize, self._key, **self._dimensions)
        found.inward, found.unit = self._inward, 1.0 / self._inward
        found.centre = self._rules.shift / self._inward
        if self._rules.pulls_again:
            as_worst = Constants(model, self._rules._replace(pulls_again=False))
            found.as_worst, _ = CONSTANTS.pack(as_worst)
        return found

    @property
    def _has_known_noise(self) -> bool:
        """Whether a pull gives one number, whose noise has a known scale, and nothing else."""
        problem = self.problem
        is_known = not (self._bounded or problem.measures or problem.estimates_noise)
        return is_known and problem.prediction is None

    @property
    def _is_exact(self) -> bool:
        """Whether bets use that rewards are 0 or 1."""
        return self.problem.is_binary and self._end is not None

    @property
    def _spends_error(self) -> bool:
        return super()._spends_error or self._is_exact

    def _require_what_exact_bets_need(self) -> None:
        """Refuse a planned end with rewards of 0 and 1 where no exact bets exist."""
        problem = self.problem
        is_plain = problem.shape == (2, 1) and problem.prediction is None
        if self._is_exact and (not is_plain or problem.has_limits or self._separately):
            raise NotSupported(
                "with outcomes='binary', planned_end needs two arms and one group, without limits "
                "(floors=None), tolerance and prediction: leave out outcomes, and planned_end aims "
                "the bets at the end for every range"
            )

    def _require_pulls_for_a_bet(self) -> None:
        """Refuse a planned end before the first block that is bet on could be complete."""
        if self._blocks.finished:
            return
        opening = self._blocks.state.blocks
        needed, which = int(opening.pulls[0]), "the initial pulls"
        if not self._is_exact:
            needed += int(self._rules.touch * opening.width[0])
            which = "initial pulls and one block"
        self._require_pulls(needed, which)

    @property
    def _bounded(self) -> bool:
        """Whether ranges are known instead of the noise."""
        return self.problem.reward_range is not None or self.problem.measure_ranges is not None

    def _cut(self, assigned: ArrayLike) -> Cuts:
        rules = self._rules
        return Cuts.after_each_action(
            assigned, self.problem, rules.initial_pulls, rules.growth, rules.touch, "cell"
        )

    def _refuse_what_is_not_covered(self) -> None:
        if self.problem.estimates_noise:
            raise InvalidArgument(
                "problem", "must give reward_range or a known noise_std for BlockBetting"
            )

    @property
    def _separately(self) -> bool:
        return self.problem.tolerance > 0.0 or self.problem.floor_tolerance > 0.0

    @property
    def _threshold(self) -> float:
        """The logarithm of the e-value that is needed."""
        tests = len(self.problem.arms) if self._separately else 1
        return math.log(tests) - math.log(self.delta)

    def _rules_of(self, problem: Problem) -> Rules:
        bounded = self._bounded
        ends = problem.reward_range or (0.0, 0.0)
        low, high = sorted(self._inward * end for end in ends)
        # In squares of rewards around 1e9, a variance of one would be lost.
        shift = low if far_from_zero(low, high) else 0.0
        return Rules(
            bounded=bounded,
            low=low - shift,
            high=high - shift,
            threshold=self._threshold,
            initial_pulls=float(
                self._default_initial_pulls if self.initial_pulls is None else self.initial_pulls
            ),
            growth=_GROWTH_TO_NEAR_END if self._ends_soon else _GROWTH,
            kappa=1.0,
            cost=1.5,
            touch=1.0 if problem.n_actions > _MANY_CELLS else 2.0,
            doubts=True,
            pause=0.5,
            pulls_again=bounded and self._makes_again,
            shift=shift,
            separately=self._separately,
            max_pulls=float(self._end or math.inf),
            normal=self.noise == "normal",
            exact=self._is_exact,
        )

    @property
    def _ends_soon(self) -> bool:
        """Whether the planned end is so near that small blocks pay."""
        return self._end is not None and self._end <= _NEAR_END

    @property
    def _default_initial_pulls(self) -> int:
        return 10 if self._bounded and self.problem.n_actions <= _MANY_CELLS else 5

    @property
    def _dimensions(self) -> dict[str, int]:
        """Dimensions of the state, without the number of blocks that can be open at once."""
        arms, groups = self.problem.shape
        bounded = self.problem.reward_range is not None
        # A bet on each rival, and on each limit of the leader.
        limits = groups * (2 if np.isfinite(self.problem.ceilings).any() else 1)
        has_control = self.problem.refers_to_control
        if has_control:
            limits = OVERALL_DIFFERENCE * groups + 1
        return book_dimensions(arms, limits) | {
            "arms": arms,
            "groups": groups,
            "roles": ROLES if has_control else 2,
            "actions": arms * groups,
            "bets": arms + limits,
            "points": GRID if bounded else 0,
            "tested": 0 if bounded else arms * groups,
        }

    # ------------------------------------------------------------------- contract

    def choose(self, group: str | None = None, prediction: Any = None) -> Choice:
        """Return the next pull of an open block; plan a new block if there is none.

        The prediction is recorded with the pull: a number, or with measures a mapping of them to
        numbers. The arm does not depend on it.
        """
        known = self._checked_prediction(group, prediction)
        choice = self._choose_cell(group)
        if isinstance(choice, tuple):
            self._blocks.issue(self.asked, known, choice[0], choice[1])
        return choice

    def _checked_prediction(self, group: str | None, prediction: Any) -> list[float | None]:
        stated = self.problem.prediction
        if stated is None:
            if prediction is not None:
                accepted = "must be left out: the problem has no prediction"
                raise InvalidArgument("prediction", accepted, prediction)
            return []
        known = stated.check(prediction)
        is_open = self._cuts is None and len(self.problem.groups) > 1
        is_given = any(one is not None for one in known)
        if is_given and group is None and is_open:
            accepted = "must be given with a prediction: both are known before the arm is drawn"
            raise InvalidArgument("group", accepted)
        return known

    def _choose_cell(self, group: str | None) -> Choice:
        if self._cuts is None:
            column = column_of(self.problem, group)
            again = self._made_again(partial(self._can_make, column))
            if again is None and self._is_all_issued(self._actions_of(column)):
                return None
            return again or self._blocks.choose(column, float(self.batch or 0))
        if group is not None:
            raise InvalidArgument("group", "must not be given: all pulls are assigned", group)
        return self._next_assigned(self._cuts)

    def _whose_pulls_are_handed_out(self, group: str | None = None, **context: Any) -> str:
        names = [
            name
            for column, name in enumerate(self.problem.groups)
            if group in (None, name)
            and column not in self._closed_columns
            and self._has_handed_out(column)
        ]
        if not names:
            return ""
        one = len(names) == 1
        which, whose = ("group", "of this group ") if one else ("the groups", "of these groups ")
        said = f"all pulls of {which} {listed(names)} until the planned end have been handed out"
        return f"{said}: {self._no_place(whose)}"

    def _has_handed_out(self, column: int) -> bool:
        """Return whether no pull of a group is left until the planned end."""
        can_make = partial(self._can_make, column)
        return self._is_all_issued(self._actions_of(column)) and not self._blocks.lacks(can_make)

    def _can_be_made(self, action: int) -> bool:
        is_closed = action % len(self.problem.groups) in self._closed_columns
        return not is_closed and self._can_make(-1, action)

    def _actions_of(self, column: int) -> slice:
        """Return the actions of a group, or all if it is negative."""
        return slice(None) if column < 0 else slice(column, None, len(self.problem.groups))

    def _can_make(self, column: int, action: int) -> bool:
        """Return whether an action is of the wanted group, or any of them, and its arm is open."""
        group = action % len(self.problem.groups)
        return column in (-1, group) and not self._blocks.is_closed(action)

    def tell(self, pull: Pull, outcome: Outcome, *, prediction: None = None) -> None:
        """Take the outcome of a pull, as `Policy.tell`; a prediction comes too late here."""
        if prediction is not None:
            raise InvalidArgument("prediction", TOO_LATE, prediction)
        super().tell(pull, outcome)

    @property
    def _saved_fields(self) -> tuple[str, ...]:
        return (*self.state_fields, *(f"_blocks.{name}" for name in self._blocks.more_fields))

    def _told(self, pull: Pull, outcome: Any) -> Any:
        return self._blocks.of_pull(pull, outcome)

    def read(self, pull: Pull, value: Any, **details: Any) -> None:
        """Take values of some measures that come before the others; plans use them at once.

        Bets count a pull as soon as all measures that they use are known.
        """
        if self._measured is None or details:
            super().read(pull, value, **details)
            return
        known = self._measured.of_pull(pull, value)
        self._measured.read(pull, known, was_lost=pull.number in self._lost)

    def on_amend_reading(self, pull: Pull, old: Any, new: Any) -> None:
        """Correct early values in the data, and in bets that have used them."""
        assert self._measured is not None, "only measures can come early"
        correction = self._told(pull, old), self._told(pull, new)
        self._measured.amend_early(pull, *correction, was_lost=pull.number in self._lost)

    @property
    def closed_arms(self) -> tuple[str, ...]:
        """The labels of the arms that people have closed."""
        return tuple(np.array(self.problem.arms)[self._blocks.closed[:-1]].tolist())

    def close_arm(self, arm: str) -> None:
        """Ask no more for an arm, and never give it as the answer; results in flight still count.

        See docs/explanation/closing.md for what this does to the guarantee.
        """
        groups = self.problem.shape[1]
        self._require_closable(arm)
        k = self.problem.arms.index(arm)
        actions = range(k * groups, (k + 1) * groups)
        self._blocks.give_back(actions)
        self._blocks.close_arm(k, actions, self._rules)
        self._after_news()

    @property
    def closed_groups(self) -> tuple[str, ...]:
        """The labels of the groups that people have closed."""
        return tuple(self.problem.groups[column] for column in self._closed_columns)

    def close_group(self, group: str) -> None:
        """Take note that nobody is asked for a group any more.

        Only a planned end depends on this: when nothing else is left until then, the planned pulls
        of closed groups are not waited for.
        """
        self._closed_columns.append(self.problem.groups.index(group))
        self._after_news()

    def _after_news(self) -> None:
        if self._waits_for_closed_groups and self._blocks.has_worst_values:
            for column in self._closed_columns:
                actions = range(self.problem.n_actions)[self._actions_of(column)]
                self._blocks.issue_none(actions)
        super()._after_news()

    @property
    def _waits_for_closed_groups(self) -> bool:
        """Whether all pulls that are left until a planned end are for closed groups."""
        closed = self._closed_columns
        if not closed or self._end is None or self._is_all_issued(slice(None)):
            return False
        columns = range(len(self.problem.groups))
        return all(
            column in closed or self._is_all_issued(self._actions_of(column)) for column in columns
        )

    @property
    def _capped(self) -> bool:
        # With known noise, nothing can count in place of pulls that are never made.
        return super()._capped or (self._waits_for_closed_groups and not self._outstanding)

    @property
    def _ending(self) -> str:
        said = super()._ending
        if not self._waits_for_closed_groups:
            return said
        return f"{said}; all others until the planned end are for closed groups"

    def _require_closable(self, arm: str) -> None:
        problem, closed = self.problem, self.closed_arms
        if self._cuts is not None:
            super().close_arm(arm)
        if arm not in problem.arms or arm in closed:
            left = [one for one in problem.arms if one not in closed]
            raise InvalidArgument("arm", f"must be an open arm: {choices(left, arm)}", arm)
        if len(closed) + 1 == len(problem.arms):
            accepted = "must not be the last open arm: stop the study instead"
            raise InvalidArgument("arm", accepted, arm)
        if arm == problem.control and problem.refers_to_control:
            accepted = "must not be the control, which limits refer to: stop the study instead"
            raise InvalidArgument("arm", accepted, arm)

    def remarks_on_arms(self) -> tuple[str, ...]:
        """Return what is said of planned pulls that nobody makes, and of a closed control."""
        said, control = super().remarks_on_arms(), self.problem.control
        return (*said, said_of_closed_control(control)) if control in self.closed_arms else said

    @property
    def _confidence(self) -> float:
        return max(0.0, 1.0 - (1 + self._comparable_closed) * self.delta)

    @property
    def _comparable_closed(self) -> int:
        """Number of closed arms that bets may have been on."""
        return len(self.closed_arms) - len(self._blocks.never_compared)

    @property
    def _silent(self) -> frozenset[int]:
        return frozenset(np.flatnonzero(self._blocks.pulls_with_values == 0.0).tolist())

    def _reason(self, status: Status, answer: Any) -> str:
        said, closed = super()._reason(status, answer), self.closed_arms
        if not closed:
            return said
        return f"{said}; the answer is one of the open arms, without {listed(closed)}"

    def _can_run(self, environment: CellEnvironment, horizon: int | None, parallel: int) -> bool:
        if not self._blocks.runs_compiled:
            return False
        if self._is_exact and not environment.gives_binary:
            return False
        return environment.arrivals is None and super()._can_run(environment, horizon, parallel)

    def _simulate(
        self, environment: CellEnvironment, generator: np.random.Generator, horizon: int
    ) -> Floats:
        if self._measured is not None:
            batch = float(self.batch or 0)
            self.told = self.asked = self._measured.run(environment, batch, generator, horizon)
            return self._measured.pulls_with_values
        one = of_generator(self._key, self.problem.n_actions)
        self._fill(one, environment, generator, horizon)
        self.told = self.asked = int(one.stopping_time[0])
        self._pulls_in_blocks = int(one.in_blocks[0])
        return self._data[0]

    def _fill(
        self,
        replications: Replications,
        environment: CellEnvironment,
        generator: np.random.Generator,
        horizon: int,
    ) -> None:
        """Make runs in the policy's own state."""
        simulated = float(self.batch or 0), environment.source, self._inward, generator, horizon
        blocks.run(self._blocks.arrays, *simulated, self.block_draws, replications)

    def _run_all(
        self, environment: CellEnvironment, streams: Streams, horizon: int | None
    ) -> Runs | None:
        if isinstance(self._blocks, MeasuredBlocks):
            return None
        reseeded = Reseeded()
        made = from_streams(streams, reseeded, self.problem.n_actions)
        self.clone(seed=0)._fill(made, environment, reseeded.generator, self._most(horizon))  # noqa: SLF001
        metrics = [self._metrics_after(pulls) for pulls in made.in_blocks.tolist()]
        return self._finished_runs(environment, made, metrics)

    def metrics(self) -> dict[str, float]:
        """Return whether a simulation drew the results of blocks in one step, if it was to."""
        return self._metrics_after(self._pulls_in_blocks)

    def _metrics_after(self, pulls_in_blocks: int) -> dict[str, float]:
        return {"block_draws": float(pulls_in_blocks > 0)} if self.block_draws else {}

    # --------------------------------------------------------------------- report

    @property
    def _data(self) -> tuple[Floats, Floats]:
        if isinstance(self._blocks, MeasuredBlocks):
            return self._blocks.objective_data
        state = self._blocks.state
        return state.counts, (state.sums + self._rules.shift * state.counts) / self._inward

    def _spreads(self) -> list[Floats]:
        """Return the records of how results spread; each is tested separately."""
        if isinstance(self._blocks, MeasuredBlocks):
            return self._blocks.spreads
        record = self._blocks.state.settled_noise
        return [record] if record.size else []

    @property
    def _contradiction(self) -> Contradiction | None:
        tested = self._blocks.tested if isinstance(self._blocks, MeasuredBlocks) else None
        return contradiction_of(self._spreads(), tested)

    @property
    def _cells(self) -> Cells:
        counts, sums = self._data
        own = self.problem, self.delta, counts, sums, self.problem.scale
        return Cells(*own, self._settled_cells, self._objective_in_range)

    @property
    def _objective_in_range(self) -> BlockMeans | None:
        """What finds means of what arms are compared by, if it has a range."""
        return self._means_in_range(self._compared_spread.reward_range, self._settled_cells)

    @property
    def _settled_cells(self) -> Settled:
        """The results that means count, by cell."""
        found = self._counted(*(values.ravel() for values in self._data))
        return Settled(*(values.reshape(self.problem.shape) for values in found))

    @property
    def _settled(self) -> int | None:
        if self._measured is not None and self._measured.state.is_late[0]:
            # Settled pulls may still wait for measures; `Estimate.counted` tells them apart.
            return None
        return super()._settled

    @property
    def _leaves_out_losses(self) -> bool:
        return not (self._bounded or self.losses == "ignorable")

    def _estimates(self) -> tuple[tuple[Estimate, ...], tuple[Estimate, ...]]:
        if self._measured is None:
            return cell_report.estimates(self._cells)
        known = self._measured, self._settled_measures(self._measured), self.problem, self.delta
        more = *known, self._measure_in_range
        return cell_estimates(*more), arm_estimates(*more)

    def _overall_measures(self) -> tuple[Estimate, ...]:
        if self._measured is None:
            return ()
        known = self._measured, self._settled_measures(self._measured), self.problem, self.delta
        return overall_estimates(*known, self._measure_in_range)

    def _settled_measures(self, measured: MeasuredBlocks) -> Settled:
        """Return the values of measures that means count, by cell."""
        if self._cuts is None:
            return measured.settled_measures(losses_count=self._losses_count)
        values = measured.values
        with np.errstate(invalid="ignore"):
            sums = np.where(values > 0.0, measured.means * values, 0.0)
        assigned = self._cuts.assigned.reshape(self.problem.shape)[..., np.newaxis]
        return Settled(values, sums, np.maximum(assigned - values, 0.0))

    def _effects(self) -> Callable[[], tuple[Effect, ...]]:
        difference = self._difference()
        if difference is None:
            return tuple
        return cell_report.effects(self.problem, self._answer, difference)

    def _difference(self) -> Difference | None:
        """Return what finds a difference; None before there is any result to find it from."""
        problem = self.problem
        level = cell_report.effect_level(problem, self.delta)
        if isinstance(self._blocks, PredictedBlocks):
            outside: dict[str, Any] = {}
            if self._cuts is not None and self._keeps_outside:
                before, after = self._outside_blocks(self._cuts)
                outside = {"before": before, "after": after}
            counts = self._losses_count
            return self._blocks.adjusted_difference(level, losses_count=counts, **outside)
        if isinstance(self._blocks, ResidualBlocks):
            return self._blocks.adjusted_difference(level, losses_count=self._losses_count)
        spread = self._compared_spread
        found = self._difference_by(spread, level)
        if found is None and self._cuts is not None:
            return cell_report.difference_from_counted(self._cells, spread)
        return found

    @property
    def _losses(self) -> tuple[Floats, Floats]:
        """Pulls of settled blocks with a result, and lost pulls, by cell."""
        came, shape = self._blocks.state.blocks.came, self.problem.shape
        return came.reshape(shape), self._blocks.known_losses.reshape(shape)

    def _parts(self) -> Parts:
        came, lost = self._losses
        share = float(lost.sum() / max(1.0, came.sum() + lost.sum()))
        parts: Parts = {
            "losses": Losses(
                self._lost_counts_as,
                share,
                self._loses_too_many,
                **self._how_lost_count(),
                limit_reached=self._blocks.limit_reached,
            ),
            "chance_to_decide": self._chance_to_decide(),
            "predictions": self._blocks.found,
        }
        if not self._separately:
            # With a tolerance, evidence is about pairs of arms, not about a single answer.
            parts["answers"] = self._answers_with_wealth()
        if self._measured is not None:
            known = self._measured, self._settled_measures(self._measured), self.problem
            levels, holds = (self.delta, self._threshold), not self._why_approximate
            parts["measure_limits"] = limits_of_measures(
                *known, *levels, self._measure_in_range, holds=holds
            )
            parts["measures"] = values_of_measures(*known)
        return parts

    @property
    def _lost_counts_as(self) -> str:
        """The value that bets use for a lost result."""
        if self.losses == "ignorable":
            return "made again" if self._bounded and self._makes_again else "not drawn"
        return "the worst value" if self._bounded else "not drawn"

    @property
    def _loses_unequally(self) -> bool:
        groups = self.problem.shape[1]
        if self._blocks.loses_unequally(groups):
            return True
        # Values that no settled block has count too, once no pull is open.
        if self._measured is None or self.n_outstanding:
            return False
        return self._measured.misses_unequally()

    @property
    def _loses_too_many(self) -> bool:
        lost = self._losses[1].any() or (
            self._measured is not None and self._measured.missing.any()
        )
        return bool(lost) and self._is_out_of_reach

    @property
    def _awaited(self) -> list[str]:
        """The cells of open arms of which all results have been lost: no bet is on their arms."""
        if self._bounded or self._finished:
            return []
        state, shape = self._blocks.state, self.problem.shape
        told, lost = self._blocks.pulls_with_values, state.blocks.lost
        if isinstance(self._blocks, MeasuredBlocks):
            told, lost = self._blocks.told_in_full, state.was_absent.sum(axis=1)
        lost, is_live = lost.reshape(shape), state.book.rejected[:-1, np.newaxis] == 0
        awaited = np.flatnonzero((told == 0.0) & (lost > 0.0) & is_live)
        return [self._name_of(int(action)) for action in awaited]

    @property
    def _no_forecast(self) -> str:
        said, awaited = super()._no_forecast, self._awaited
        if said or not awaited:
            return said
        return f"nothing can be forecast before there is a result of {listed(awaited)}"

    def _contradicted(self) -> tuple[str, ...]:
        return (*warnings_of(self._contradiction), *self._blocks.warnings())

    def warnings(self) -> tuple[str, ...]:
        """Return what the results contradict, what delays the evidence, and losses."""
        found = (*super().warnings(), *said_of_awaited(self._awaited))
        is_said = self._awaited or not self._loses_too_many
        return found if is_said else (*found, _TOO_MANY_LOST)

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee, and its basis after losses and corrections."""
        stated = self._with_order(self._promised)
        stated = self._with_losses(stated, _LOSSES_IGNORABLE)
        left_out = self._missing if self._leaves_out_losses else 0
        stated = self._blocks.as_it_stands(stated, left_out=left_out)
        stated = self._after_closing(stated)
        stated = self._blocks.as_it_holds(stated, ignores_losses=self.losses == "ignorable")
        return as_results_allow(stated, self._contradiction)

    def _after_closing(self, stated: Guarantee) -> Guarantee:
        """Return the guarantee about the best open arm, if people have closed some."""
        closed, comparable = self.closed_arms, self._comparable_closed
        if not closed:
            return stated
        statement = f"the answer is about the arms that are open, without {listed(closed)}: the "
        error = min(1.0, (1 + comparable) * self.delta)
        statement += (
            f"probability that it is wrong is at most {error:g}, whatever results made people "
            "close arms"
        )
        if comparable:
            statement += f", and at most {self.delta:g} if no closed arm was the right answer"
        return replace(stated, statement=statement)

    @property
    def _missing(self) -> int:
        """Number of lost pulls, or of missing values of several measures.

        Of cells without results, there are no means or bets that could leave out what is lost.
        """
        if self._measured is None:
            return self._left_out(self._data[0].sum())
        if self._cuts is None:
            return int(self._measured.missing[self._blocks.pulls_with_values > 0.0].sum())
        values = self._measured.values
        return int(self._ended_units * values.shape[2] - values.sum())

    @property
    def _promised(self) -> Guarantee:
        if self._measured is not None:
            return promise_on_measures(self.problem, self.delta)
        stated = promise(
            self.delta,
            self.problem.reward_range,
            "whatever the true means are",
            "the true mean of each arm in each group does not change during the study",
        )
        if self._is_exact:
            known = (_BINARY, *stated.assumptions[1:])
            return replace(stated, name=_EXACT_BETS, assumptions=known, source=_PLANNED_ENDS)
        if self.noise == "normal":
            return promise_for_normal_noise(stated)
        return stated
