"""Block betting with predictions: they are measures of a pull besides those of its outcome.

A prediction is known from the start, its mean does not depend on the arm, and neither the
objective nor a limit uses it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.block_betting import Randomize
from fairtrial.confidence.block_betting.blocks import Arrays
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
from fairtrial.subpopulations.policies.recorded_predictions import (
    RecordedPredictions,
    named_apart,
    with_measures,
)
from fairtrial.subpopulations.problem import Problem

__all__ = ["PredictedBlocks", "as_measured"]

Floats = NDArray[np.float64]

_OTHER_MEAN = "predictions of a group have another mean than prediction.known_mean states"

_MANY_CUT = 0.05
"""Share of predictions outside of their range that is worth a warning."""


def as_measured(problem: Problem) -> Problem:
    """Return the same problem with its predictions as measures after those of an outcome.

    Examples
    --------
    >>> problem = Problem(2, 1, floors=0.2, reward_range=(0, 1), prediction=(0, 2))
    >>> as_measured(problem).measures
    ('reward', 'prediction of reward')
    """
    measured, stated = with_measures(problem), problem.predictions
    names = named_apart((f"prediction of {name}" for name in stated), measured.measures)
    ranges = dict(zip(measured.measures, np.asarray(measured.measure_ranges).tolist(), strict=True))
    ends = [list(own.ends) for own in stated.values()]
    return measured.clone(measures={**ranges, **dict(zip(names, ends, strict=True))})


class PredictedBlocks(RecordedPredictions):
    """The blocks of a live policy whose outcomes have ranges and whose pulls have predictions.

    Parameters
    ----------
    problem : Problem
        A problem with a `prediction`.
    rules, randomize, key, points
        As in `MeasuredBlocks`.
    reported : callable
        As in `RecordedPredictions`.
    """

    more_fields: ClassVar[tuple[str, ...]] = (
        *RecordedPredictions.more_fields,
        *("known_test.logs", "unasked"),
    )

    def __init__(
        self,
        problem: Problem,
        rules: Rules,
        randomize: Randomize,
        key: NDArray[np.uint64],
        points: int,
        reported: Callable[[int], Floats | None],
    ) -> None:
        stated = problem.predictions.values()
        known = any(own.known_mean for own in stated)
        self.known_test = KnownMeanTest(len(stated) * len(problem.groups) if known else 0)
        super().__init__(problem, as_measured(problem), rules, randomize, key, points, reported)
        # Numbers and products of pairs of values, and sums of values on the diagonal.
        self.unasked = np.zeros((3, *self.state.counts.shape))

    # ------------------------------------------------------------- results nobody asked for

    def learn(self, pull: Pull, value: Floats, *, was_lost: bool) -> None:
        """Record all values of a pull."""
        super().learn(pull, value, was_lost=was_lost)
        self._note_unasked(pull, value, 1.0)

    def amend(self, pull: Pull, old: Floats, new: Floats) -> None:
        """Correct the values of a pull, and all bets on them."""
        super().amend(pull, old, new)
        self._note_unasked(pull, old, -1.0)
        self._note_unasked(pull, new, 1.0)

    def _note_unasked(self, pull: Pull, value: Floats, sign: float) -> None:
        """Add the values of a pull that nobody asked for, or remove them if `sign` is -1."""
        if pull.number != UNSOLICITED:
            return
        outcomes = self._inward(value)[: self.outcomes]
        known = np.isfinite(outcomes)
        values = np.where(known, outcomes, 0.0)
        own = np.stack([np.outer(known, known), np.outer(values, values), np.diag(values)])
        arm, group = divmod(pull.action, self.groups)
        self.unasked[:, arm, group, : self.outcomes, : self.outcomes] += sign * own

    @property
    def _data_of_asked(self) -> tuple[Floats, Floats, Floats]:
        """Counts, products and sums of the values of pulls that were asked for, as in the state.

        Only these can have predictions: what predictions explain is a share of their variance.
        """
        state, (counts, products, sums) = self.state, self.unasked
        own = np.diagonal(sums, axis1=2, axis2=3)
        return state.counts - counts, state.products - products, state.sums - own

    def _model(self) -> Model:
        model = super()._model()
        number, places = len(self._stated), np.array(self._places)
        low, unit = self._units.low[-number:], self._units.unit[-number:]
        one = unit / self._units.unit[places]
        is_fitted = [own.fit for own in self._stated.values()]
        return model._replace(
            predicted=number,
            predicts=places.astype(np.float64),
            slopes=np.where(is_fitted, math.nan, one),
            known_means=(self._known_means - low[:, np.newaxis]) / unit[:, np.newaxis],
        )

    def _roles(self, model: Model) -> int:
        return ROLES

    def _extended(self, values: Floats, predictions: Sequence[float]) -> Floats:
        pairs = zip(self._stated.values(), predictions, strict=True)
        cut = [one if one == MISSING else own.cut(one) for own, one in pairs]
        return np.concatenate([values, cut])

    def _note(self, group: int, p: int, prediction: float) -> None:
        mean = float(self._known_means[p, group])
        if not math.isnan(mean):
            own = [*self._stated.values()][p]
            place = p * self.groups + group
            self.known_test.add(place, own.cut(prediction), mean, *own.ends)

    def _as_tested(self, p: int, prediction: float) -> float:
        place, own = self.outcomes + p, [*self._stated.values()][p]
        return float((own.cut(prediction) - self._units.low[place]) / self._units.unit[place])

    def _frozen(self, serial: int, p: int, group: int) -> FrozenPredictions:
        slot = self._slot_of(serial)
        expected = float(self.state.fits[slot, p, group, EXPECTED])
        clip = self.state.clip[slot, p].tolist()
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

    # ----------------------------------------------------------------------- effects

    def adjusted_difference(
        self,
        level: float,
        *,
        losses_count: bool,
        before: BlockResults | None = None,
        after: BlockResults | None = None,
    ) -> Difference | None:
        """Return what finds a difference of means, adjusted for predictions; None if too early.

        Parameters
        ----------
        level : float
            The probability that an interval ever fails.
        losses_count : bool
            Whether a lost pull counts as a result with the worst value.
        before, after : BlockResults or None
            Results of a finished experiment before and after its blocks. Their guesses do not use
            predictions.
        """
        parts = [] if before is None else [self._with_one_guess(before, self._middle)]
        results = self.paid_results(losses_count=losses_count)
        if results is not None:
            parts.append(self._with_guesses(results, losses_count=losses_count))
        if after is not None:
            parts.append(self._with_one_guess(after, self._mean_until_stop(before)))
        if not parts:
            return None
        every = reduce(GuessedResults.followed_by, parts)
        adjusted, (low, high) = self.adjusted_means.ravel(), self._ends

        def find(target: Floats) -> DifferenceInterval | None:
            used = target != 0.0
            mean = float(target[used] @ adjusted[used])
            if math.isnan(mean):  # no result of one of the arms has come yet
                return None
            found = difference_with_guesses(every, target, low, high, level)
            return found and found.times(self.unit).around(mean)

        return find

    @property
    def _ends(self) -> tuple[float, float]:
        """The range of the objective in the units of the kernels."""
        low, high = self.objective_spread.reward_range or (0.0, 0.0)
        first, last = sorted((end - self.centre) / self.unit for end in (low, high))
        return first, last

    def _with_guesses(self, results: BlockResults, *, losses_count: bool) -> GuessedResults:
        """Return the results of paid blocks, each with the guess that its block has frozen."""
        counts, losses = results.counts, results.losses
        sums = self.in_paid_blocks("adjusted")[: len(counts)].reshape(*counts.shape, -1)
        off, squares, *of_lost = np.moveaxis(sums, 2, 0)
        if not losses_count:
            # Those that count are still to come: their guess is taken as unknown.
            of_lost = [np.zeros_like(row) for row in of_lost]
        known = [self.in_paid_blocks(name) for name in ("known_complete", "known_adjusted")]
        earlier = np.stack(known)[:, : len(counts)]
        own = GuessedResults(counts, losses, off, squares, *of_lost)
        return replace(own, earlier=earlier)

    @property
    def _middle(self) -> Floats:
        """The middle of the objective's range, in the units of the kernels, by action."""
        return np.full(self.state.blocks.came.size, np.mean(self._ends))

    def _mean_until_stop(self, before: BlockResults | None) -> Floats:
        """Return the mean objective of every group until the stop, repeated for its arms."""
        counts = np.zeros(self.state.blocks.came.size)
        sums = counts.copy()
        for part in (before, self.paid_results(losses_count=True)):
            if part is not None:
                counts += part.counts.sum(axis=0)
                inward = (part.sums + part.counts * (part.centres - self.centre)) / self.unit
                sums += inward.sum(axis=0)
        totals = sums.reshape(-1, self.groups).sum(axis=0)
        numbers = counts.reshape(-1, self.groups).sum(axis=0)
        known = np.where(numbers > 0.0, totals / np.maximum(numbers, 1.0), self._middle[0])
        return np.tile(known, counts.size // self.groups)

    def _with_one_guess(self, results: BlockResults, guesses: Floats) -> GuessedResults:
        """Return a block of results in the units of the kernels, with one guess for each action."""
        counts, losses = results.counts[0], results.losses[0]
        sums = results.sums[0] / self.unit
        off = (results.centres[0] - self.centre) / self.unit - guesses
        squares = results.squares[0] / self.unit**2
        rows = (
            *(counts, losses, sums + counts * off),
            squares + 2.0 * off * sums + counts * off**2,
            *(losses, losses * guesses, losses * guesses**2),
        )
        return GuessedResults(*(row[np.newaxis] for row in rows))

    @property
    def adjusted_means(self) -> Floats:
        """Mean objective of every cell, as for units with its group's mean predictions: (K, L)."""
        slopes, expected, _ = self.fit
        values, means, objective = self._all_values, self._all_means, self._question.objective
        used = objective != 0.0
        found = means[..., used] @ objective[used]
        for p, place in enumerate(self._places):
            known, every = values[..., self.outcomes + p], values[..., place]
            off = np.where(known > 0.0, means[..., self.outcomes + p] - expected[p], 0.0)
            found -= objective[place] * slopes[p] * known / np.maximum(every, 1.0) * off
        return np.asarray(found)

    # ------------------------------------------------------------------------ report

    def shares(self) -> tuple[float, float]:
        """Return the share of predictions that are missing, and of the others that were cut."""
        given = np.array(self.predictions).reshape(-1, len(self._stated))
        known, ends = np.isfinite(given), np.array([own.ends for own in self._stated.values()])
        outside = known & ((given < ends[:, 0]) | (given > ends[:, 1]))
        missing = 1.0 - float(known.mean()) if given.size else 0.0
        return missing, float(outside.sum() / known.sum()) if known.any() else 0.0

    @property
    def found(self) -> Predictions:
        """What predictions did so far."""
        missing, cut = self.shares()
        slopes, expected, _ = self._fit_of(self._arrays_of_asked)
        groups = []
        for p, (place, name) in enumerate(zip(self._places, self._names, strict=True)):
            own = np.zeros(self._question.objective.size)
            own[place] = 1.0
            total, left = self._variances(own, slopes)
            shares = 1.0 - np.where(total > 0.0, left / np.where(total > 0.0, total, 1.0), 1.0)
            rows = np.stack([slopes[p], expected[p], shares], axis=1).tolist()
            groups += [
                GroupPredictions(group, slope, mean, share, measure=name)
                for group, (slope, mean, share) in zip(self._problem.groups, rows, strict=True)
            ]
        total, left = self._variances(self._question.objective, slopes)
        weights = np.square(self._problem.shares)
        plain = float(weights @ total)
        return Predictions(
            groups=tuple(groups),
            variance_left=float(weights @ left) / plain if plain > 0.0 else 1.0,
            missing=missing,
            cut=cut,
            e_value=self.test.e_value,
            alarm=ALARM,
        )

    def _variances(self, weights: Floats, slopes: Floats) -> tuple[Floats, Floats]:
        """Return variances of a sum of measures within arms: plain and adjusted, by group, (L,)."""
        adjusted = np.repeat(weights[:, np.newaxis], self.groups, axis=1)
        for p, place in enumerate(self._places):
            adjusted[self.outcomes + p] = -weights[place] * slopes[p]
        covariances = self._covariances_within_arms
        left = np.einsum("al,lab,bl->l", adjusted, covariances, adjusted)
        return np.asarray(covariances @ weights @ weights), np.asarray(np.maximum(left, 0.0))

    @property
    def _covariances_within_arms(self) -> Floats:
        """Covariances of measures and predictions by group, in their units: shape (L, M, M).

        A pull without a prediction counts as one with the mean prediction.
        """
        counts, products, sums = self._data_of_asked
        means = sums / np.maximum(np.diagonal(counts, axis1=2, axis2=3), 1.0)
        both = counts * means[..., np.newaxis] * means[..., np.newaxis, :]
        spread = (products - both).sum(axis=0)
        measure = [*range(self.outcomes), *self._places]
        numbers = counts[:, :, measure][:, :, :, measure].sum(axis=0)
        unit = self._units.unit
        return np.asarray(spread / np.maximum(numbers, 1.0) * np.outer(unit, unit))

    @property
    def fit(self) -> Floats:
        """Slope, mean and explained variance of each prediction in its units, shape (3, P, L)."""
        return self._fit_of(self.arrays)

    @property
    def _arrays_of_asked(self) -> Arrays:
        """The arrays of the kernels, with only the data of pulls that were asked for."""
        floats = self._floats.copy()
        view = self.kernels.STATE.view(floats, self._integers)
        view.counts[...], view.products[...], view.sums[...] = self._data_of_asked
        return self.arrays[0], floats, self._integers

    def _fit_of(self, arrays: Arrays) -> Floats:
        slopes, expected, explained = blocks.fit_now(arrays)
        number = len(self._stated)
        measure = self._units.unit[self._places][:, np.newaxis]
        low, unit = (ends[-number:, np.newaxis] for ends in (self._units.low, self._units.unit))
        return np.array([slopes * measure / unit, low + unit * expected, explained * measure**2])
