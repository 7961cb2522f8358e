"""Block betting with predictions: a reward and its prediction are two measures of a pull.

The prediction is known from the start, its mean does not depend on the arm, and neither the
objective nor a limit uses it.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.block_betting import LiveBlocks, Randomize
from fairtrial.confidence.block_betting.live import serial_of_tag
from fairtrial.confidence.effects import (
    BlockResults,
    Difference,
    DifferenceInterval,
    GuessedResults,
    difference_with_guesses,
)
from fairtrial.confidence.prediction_test import (
    ALARM,
    FrozenPredictions,
    KnownMeanTest,
    PredictionTest,
)
from fairtrial.core.progress_parts import GroupPredictions, Predictions
from fairtrial.core.pull import UNSOLICITED, Pull
from fairtrial.core.recommendation import Guarantee
from fairtrial.subpopulations._kernels.block_state import Rules
from fairtrial.subpopulations._kernels.measures import blocks
from fairtrial.subpopulations._kernels.measures.items import ROLES
from fairtrial.subpopulations._kernels.measures.model import Model
from fairtrial.subpopulations._kernels.measures.predictions import MISSING
from fairtrial.subpopulations._kernels.measures.state import EXPECTED
from fairtrial.subpopulations._prediction import Prediction
from fairtrial.subpopulations.policies.measured_blocks import MeasuredBlocks, model_of_measures
from fairtrial.subpopulations.problem import Problem

__all__ = ["PredictedBlocks", "as_measured"]

Floats = NDArray[np.float64]

_DEPEND_ON_ARM = (
    "predictions differ between arms by more than chance: they must be recorded before the arm is "
    "drawn, of whoever comes next"
)

_OTHER_MEAN = "predictions of a group have another mean than prediction.known_mean states"

_RECORDED_BEFORE = "each prediction was recorded before the arm was drawn"

_LOSSES_IGNORE_PREDICTIONS = (
    "whether a result gets lost depends on the prediction in all arms alike, if at all"
)

_STATED_MEANS = (
    "units of a group come at random from those whose mean prediction is stated (known_mean)"
)

_MANY_CUT = 0.05
"""Share of predictions outside of their range that is worth a warning."""

_REWARD, _PREDICTION = "reward", "prediction"
"""The names of the two measures."""


def as_measured(problem: Problem, prediction: Prediction) -> Problem:
    """Return the same problem with the reward and its prediction as measures.

    Examples
    --------
    >>> problem = Problem(2, 1, floors=0.2, reward_range=(0, 1))
    >>> as_measured(problem, Prediction((0.0, 2.0))).measures
    ('reward', 'prediction')
    """
    lower, upper = problem.floors, problem.ceilings
    if problem.sign < 0.0:
        # With rewards that are minimised, a floor is what a mean must not exceed.
        lower, upper = upper, lower
    margin: Any = (
        None if problem.margin is None else _by_cell(problem, problem.margin, but_control=True)
    )
    return Problem(
        problem.arms,
        problem.groups,
        problem.shares,
        floors=_by_cell(problem, lower),
        ceilings=_by_cell(problem, upper),
        measures={_REWARD: problem.reward_range or (0, 1), _PREDICTION: prediction.range},
        objective=_REWARD,
        direction=problem.direction,
        costs=problem.costs,
        tolerance=problem.tolerance,
        control=problem.control if problem.refers_to_control else None,
        margin=margin,
        superiority=problem.superiority,
    )


def _by_cell(
    problem: Problem, limits: Floats, *, but_control: bool = False
) -> dict[tuple[str, str], dict[str, float | None]]:
    """Return the limits of the reward of every cell, in the form that measures take."""
    found = {}
    for column, group in enumerate(problem.groups):
        own = dict(zip(problem.arms, limits[:, column].tolist(), strict=True))
        if but_control:
            del own[str(problem.control)]
        found[_REWARD, group] = {
            arm: limit if math.isfinite(limit) else None for arm, limit in own.items()
        }
    return found


class PredictedBlocks(MeasuredBlocks):
    """The blocks of a live policy whose pulls have a prediction.

    Parameters
    ----------
    problem : Problem
        A problem with a `prediction`.
    rules, randomize, key, points
        As in `MeasuredBlocks`.

    Attributes
    ----------
    predictions : list of float
        The prediction of every pull that was issued, as given; infinite for a missing one.
    groups : int
        Number of groups.
    test : PredictionTest
        The evidence that predictions depend on the arm.
    """

    more_fields: ClassVar[tuple[str, ...]] = (
        *("predictions", "test.logs", "test.open_blocks", "known_test.logs"),
    )

    runs_compiled: ClassVar[bool] = False

    def __init__(
        self,
        problem: Problem,
        prediction: Prediction,
        rules: Rules,
        randomize: Randomize,
        key: NDArray[np.uint64],
        points: int,
    ) -> None:
        self._prediction = prediction
        self.predictions: list[float] = []
        self.groups = len(problem.groups)
        self.test = PredictionTest(*problem.shape)
        self._known_means = prediction.means_of(problem.groups)
        self.known_test = KnownMeanTest(len(problem.groups) if prediction.known_mean else 0)
        measured = as_measured(problem, prediction)
        super().__init__(measured, rules, randomize, key, points, self._known_of)

    def _model(self) -> Model:
        model = model_of_measures(self._problem, self._units)
        reward, prediction = self._units.unit
        slope = math.nan if self._prediction.fit else float(prediction / reward)
        low = float(self._units.low[1])
        known = (np.array(self._known_means) - low) / prediction
        return model._replace(predicted=1, slope=slope, known_means=known)

    def _roles(self, model: Model) -> int:
        return ROLES

    def issue(self, number: int, prediction: float | None, action: int, tag: int) -> None:
        """Record the prediction of the pull that is issued next; it is frozen from now on."""
        del self.predictions[number:]
        self.predictions.append(MISSING if prediction is None else prediction)
        self._test_known_mean(action % self.groups, prediction)
        serial = serial_of_tag(tag)
        if serial < self._first.item():
            # It is in no block, or in one that was closed before all its pulls were made.
            return
        slot = self._slot_of(serial)
        if prediction is not None and not self._is_replacement(slot, action):
            arm, group = divmod(action, self.groups)
            known = float(self._units.inward(np.array([0.0, self._prediction.cut(prediction)]))[1])
            self.test.add(serial, arm, group, known, self._frozen(slot, group))
        if self.state.blocks.unissued[slot] == 0:
            self.test.complete(serial)

    def _is_replacement(self, slot: int, action: int) -> bool:
        """Return whether the last issued pull of an action replaces one that got lost.

        The test counts as many pulls of each arm as were planned: the first ones.
        """
        blocks = self.state.blocks
        issued = blocks.losses[slot, action] - blocks.to_issue[slot, action]
        return bool(self._makes_again and issued > 0.0)

    def _test_known_mean(self, group: int, prediction: float | None) -> None:
        mean = self._known_means[group]
        if prediction is not None and not math.isnan(mean):
            cut = self._prediction.cut(prediction)
            self.known_test.add(group, cut, mean, *self._prediction.range)

    def _frozen(self, slot: int, group: int) -> FrozenPredictions:
        """Return what is fixed before the block in a slot, for the test of predictions."""
        planned = self.state.blocks.planned[slot].reshape(-1, self.groups)[:, group]
        expected = float(self.state.guess[slot, group, EXPECTED])
        return FrozenPredictions(planned, expected, *self.state.clip[slot].tolist())

    def warnings(self) -> tuple[str, ...]:
        """Return what is wrong with the predictions."""
        cut = self.shares()[1]
        said = f"{cut:.0%} of the predictions are outside of their range, and were cut"
        return (
            *[_DEPEND_ON_ARM] * self.depend_on_arm,
            *[_OTHER_MEAN] * self._has_other_means,
            *[said] * (cut > _MANY_CUT),
        )

    @property
    def _has_other_means(self) -> bool:
        """Whether predictions contradict the stated means."""
        return self.known_test.e_value >= ALARM

    def as_it_holds(self, stated: Guarantee, *, ignores_losses: bool) -> Guarantee:
        """Return a guarantee with what predictions add to its assumptions, as far as they hold."""
        stated = stated.assuming(_RECORDED_BEFORE)
        if ignores_losses:
            stated = stated.assuming(_LOSSES_IGNORE_PREDICTIONS)
        if self._prediction.known_mean:
            stated = stated.assuming(_STATED_MEANS)
        if self.depend_on_arm:
            stated = stated.weakened("predictions differ between arms by more than chance")
        if self._has_other_means:
            stated = stated.weakened("predictions have another mean than stated")
        return stated

    @property
    def depend_on_arm(self) -> bool:
        """Whether predictions differ between arms far more than chance allows."""
        return self.test.e_value >= ALARM

    def of_pull(self, pull: Pull, reward: float) -> Floats:
        """Return the reward of a pull and its prediction; that of unsolicited data is missing."""
        is_own = 0 <= pull.number < len(self.predictions)
        return np.array([reward, self._cut(pull.number) if is_own else MISSING])

    def _cut(self, number: int) -> float:
        known = self.predictions[number]
        return known if known == MISSING else self._prediction.cut(known)

    def _known_of(self, number: int) -> Floats | None:
        """Return what is known of a pull without a result: its prediction."""
        if number == UNSOLICITED:
            return None
        return np.array([math.nan, self._cut(number)])

    def _known_of_overdue(self) -> list[tuple[int, int, Floats]]:
        # What is known of a pull is its result; the prediction is not part of it.
        return [(cell, tag, self._inward(None)) for cell, tag, _ in super()._known_of_overdue()]

    def loses_unequally(self, groups: int = 1) -> bool:
        """Return whether some arms lose far more results than others in their group."""
        return LiveBlocks.loses_unequally(self, groups)

    def difference(
        self, level: float, before: BlockResults | None = None, after: BlockResults | None = None
    ) -> Difference | None:
        """Return what finds a difference of means, adjusted for predictions; None if too early.

        Parameters
        ----------
        level : float
            The probability that an interval ever fails.
        before, after : BlockResults or None
            Results of a finished experiment before and after its blocks. Their guesses do not use
            predictions.
        """
        parts = [] if before is None else [self._with_one_guess(before, self._middle)]
        if self._first.item() == len(self.paid) > 0:
            counts = self.in_paid_blocks("blocks.results")
            losses = self.in_paid_blocks("blocks.losses")
            sums = self.in_paid_blocks("adjusted").reshape(*counts.shape, -1)
            parts.append(GuessedResults(counts, losses, *np.moveaxis(sums, 2, 0)))
        if after is not None:
            parts.append(self._with_one_guess(after, self._mean_until_stop(before)))
        if not parts:
            return None
        results = reduce(GuessedResults.followed_by, parts)
        adjusted, unit = self.adjusted_means.ravel(), float(self._units.unit[0])
        low, high = self._units.inward(np.array(self._problem.measure_ranges).T)[:, 0].tolist()

        def find(target: Floats) -> DifferenceInterval | None:
            found = difference_with_guesses(results, target, low, high, level)
            used = target != 0.0
            return found and found.times(unit).around(float(target[used] @ adjusted[used]))

        return find

    @property
    def _middle(self) -> Floats:
        """The middle of the range of rewards, in the units of the kernels, by action."""
        ends = self._units.inward(np.array(self._problem.measure_ranges).T)[:, 0]
        return np.full(self.state.blocks.came.size, ends.mean())

    def _mean_until_stop(self, before: BlockResults | None) -> Floats:
        """Return the mean reward of every group until the stop, repeated for its arms."""
        counts, sums = self.state.blocks.came.copy(), np.zeros(self.state.blocks.came.size)
        if len(self.paid):
            values = self.in_paid_blocks("values").sum(axis=0)
            sums += values.reshape(counts.size, -1)[:, 0]
        if before is not None:
            counts += before.counts[0]
            sums += before.counts[0] * self._inward_centre(before) + self._inward_sums(before)
        totals = sums.reshape(-1, self.groups).sum(axis=0)
        numbers = counts.reshape(-1, self.groups).sum(axis=0)
        known = np.where(numbers > 0.0, totals / np.maximum(numbers, 1.0), self._middle[0])
        return np.tile(known, counts.size // self.groups)

    def _inward_centre(self, results: BlockResults) -> Floats:
        return np.asarray((results.centres[0] - self._units.low[0]) / self._units.unit[0])

    def _inward_sums(self, results: BlockResults) -> Floats:
        return np.asarray(results.sums[0] / self._units.unit[0])

    def _with_one_guess(self, results: BlockResults, guesses: Floats) -> GuessedResults:
        """Return a block of results in the units of the kernels, with one guess for each action."""
        counts, losses = results.counts[0], results.losses[0]
        sums, off = self._inward_sums(results), self._inward_centre(results) - guesses
        squares = results.squares[0] / self._units.unit[0] ** 2
        rows = (
            *(counts, losses, sums + counts * off),
            squares + 2.0 * off * sums + counts * off**2,
            *(losses, losses * guesses, losses * guesses**2),
        )
        return GuessedResults(*(row[np.newaxis] for row in rows))

    @property
    def adjusted_means(self) -> Floats:
        """Mean reward of every cell, as for units with the mean prediction of its group: (K, L)."""
        slopes, expected, _ = self.fit
        known = self.values[..., 1] > 0.0
        means = self.means
        off = np.where(known, means[..., 1] - expected, 0.0)
        shares = self.values[..., 1] / np.maximum(self.values[..., 0], 1.0)
        return np.asarray(means[..., 0] - slopes * shares * off)

    def shares(self) -> tuple[float, float]:
        """Return the share of pulls without a prediction, and of predictions that were cut."""
        given = np.array(self.predictions)
        known = given[np.isfinite(given)]
        low, high = self._prediction.range
        missing = 1.0 - known.size / given.size if given.size else 0.0
        return missing, float(np.mean((known < low) | (known > high))) if known.size else 0.0

    @property
    def found(self) -> Predictions:
        """What predictions did so far."""
        missing, cut = self.shares()
        slopes, expected, _ = self.fit
        explained, total = self._variances
        shares = np.where(total > 0.0, explained / np.where(total > 0.0, total, 1.0), 0.0)
        rows = np.stack([slopes, expected, shares], axis=1).tolist()
        named = zip(self._problem.groups, rows, strict=True)
        weights = np.square(self._problem.shares)
        plain, saved = float(weights @ total), float(weights @ explained)
        return Predictions(
            groups=tuple(GroupPredictions(group, *row) for group, row in named),
            variance_left=1.0 - saved / plain if plain > 0.0 else 1.0,
            missing=missing,
            cut=cut,
            e_value=self.test.e_value,
            alarm=ALARM,
        )

    @property
    def _variances(self) -> tuple[Floats, Floats]:
        """The variance of rewards within arms by group, shape (L,): the explained one, and all."""
        state = self.state
        counts = np.maximum(state.counts[..., 0, 0], 1.0)
        pairs = np.maximum(state.counts[..., 1, 1], 1.0)
        rewards, known = state.sums[..., 0], state.sums[..., 1]
        total = (state.products[..., 0, 0] - rewards**2 / counts).sum(axis=0)
        spread = (state.products[..., 1, 1] - known**2 / pairs).sum(axis=0)
        both = (state.products[..., 0, 1] - rewards * known / counts).sum(axis=0)
        slopes = blocks.fit_now(self.arrays)[0]
        explained = 2.0 * slopes * both - slopes**2 * spread
        pulls = np.maximum(state.counts[..., 0, 0].sum(axis=0), 1.0)
        return explained / pulls, total / pulls

    @property
    def fit(self) -> Floats:
        """Slope, mean prediction and explained variance by group, in the units of the problem."""
        slopes, expected, explained = blocks.fit_now(self.arrays)
        reward, prediction = self._units.unit
        return np.array(
            [
                slopes * reward / prediction,
                self._units.low[1] + prediction * expected,
                explained * reward**2,
            ]
        )
