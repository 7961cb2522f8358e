"""Block betting with predictions: a reward and its prediction are two measures of a pull.

The prediction is known from the start, its mean does not depend on the arm, and neither the
objective nor a limit uses it.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.block_betting import Randomize
from fairtrial.confidence.effects import (
    BlockResults,
    Difference,
    DifferenceInterval,
    GuessedResults,
    difference_with_guesses,
)
from fairtrial.confidence.prediction_test import ALARM, FrozenPredictions, KnownMeanTest
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
from fairtrial.subpopulations.policies.measured_blocks import model_of_measures
from fairtrial.subpopulations.policies.recorded_predictions import (
    RecordedPredictions,
    lower_and_upper,
    with_measures,
)
from fairtrial.subpopulations.problem import Problem

__all__ = ["PredictedBlocks", "as_measured"]

Floats = NDArray[np.float64]

_OTHER_MEAN = "predictions of a group have another mean than prediction.known_mean states"

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
    of_rewards = [_REWARD] * len(problem.groups)
    ranges = {_REWARD: problem.reward_range or (0, 1), _PREDICTION: prediction.ends}
    limits = lower_and_upper(problem)
    return with_measures(problem, limits, of_rewards, _REWARD, measures=ranges)


class PredictedBlocks(RecordedPredictions):
    """The blocks of a live policy whose rewards have a range and whose pulls have a prediction.

    Parameters
    ----------
    problem : Problem
        A problem with a `prediction`.
    prediction : Prediction
        That prediction.
    rules, randomize, key, points
        As in `MeasuredBlocks`.
    """

    more_fields: ClassVar[tuple[str, ...]] = (*RecordedPredictions.more_fields, "known_test.logs")

    def __init__(
        self,
        problem: Problem,
        prediction: Prediction,
        rules: Rules,
        randomize: Randomize,
        key: NDArray[np.uint64],
        points: int,
    ) -> None:
        self.known_test = KnownMeanTest(len(problem.groups) if prediction.known_mean else 0)
        measured = as_measured(problem, prediction)
        super().__init__(problem, prediction, measured, rules, randomize, key, points)

    def _model(self) -> Model:
        model = model_of_measures(self._problem, self._units)
        reward, prediction = self._units.unit
        slope = math.nan if self._prediction.fit else float(prediction / reward)
        low = float(self._units.low[1])
        known = (np.array(self._known_means) - low) / prediction
        return model._replace(predicted=1, slope=slope, known_means=known)

    def _roles(self, model: Model) -> int:
        return ROLES

    def _note(self, group: int, prediction: float | None) -> None:
        mean = self._known_means[group]
        if prediction is not None and not math.isnan(mean):
            cut = self._prediction.cut(prediction)
            self.known_test.add(group, cut, mean, *self._prediction.ends)

    def _as_tested(self, prediction: float) -> float:
        return float(self._units.inward(np.array([0.0, self._prediction.cut(prediction)]))[1])

    def _frozen(self, serial: int, group: int) -> FrozenPredictions:
        slot = self._slot_of(serial)
        expected = float(self.state.guess[slot, group, EXPECTED])
        clip = self.state.clip[slot].tolist()
        return FrozenPredictions(self._planned(serial, group), expected, *clip)

    def warnings(self) -> tuple[str, ...]:
        """Return what is wrong with the predictions."""
        cut = self.shares()[1]
        said = f"{cut:.0%} of the predictions are outside of their range, and were cut"
        return (
            *super().warnings(),
            *[_OTHER_MEAN] * self._has_other_means,
            *[said] * (cut > _MANY_CUT),
        )

    @property
    def _has_other_means(self) -> bool:
        """Whether predictions contradict the stated means."""
        return self.known_test.e_value >= ALARM

    def as_it_holds(self, stated: Guarantee, *, ignores_losses: bool) -> Guarantee:
        """Return a guarantee with what predictions add to its assumptions, as far as they hold."""
        stated = super().as_it_holds(stated, ignores_losses=ignores_losses)
        if self._has_other_means:
            stated = stated.weakened("predictions have another mean than stated")
        return stated

    def of_pull(self, pull: Pull, reward: float) -> Floats:
        """Return the reward of a pull and its prediction."""
        return np.array([reward, self._cut(self.prediction_of(pull))])

    def _cut(self, prediction: float) -> float:
        return prediction if prediction == MISSING else self._prediction.cut(prediction)

    def _known_of(self, number: int) -> Floats | None:
        if number == UNSOLICITED:
            return None
        return np.array([math.nan, self._cut(self.predictions[number])])

    def _known_of_overdue(self) -> list[tuple[int, int, Floats]]:
        # What is known of a pull is its result; the prediction is not part of it.
        return [(cell, tag, self._inward(None)) for cell, tag, _ in super()._known_of_overdue()]

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
        low, high = self._prediction.ends
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
