"""Block betting with predictions and a known noise: bets on measures minus their predictions.

In a group, the mean prediction is the same for all arms. So a difference of arms is also one of
their measures minus predictions, whose noise is smaller. A floor or a ceiling of a single arm is
about the measure itself, unless the mean prediction is known. What is measured, and what is left of
it after its prediction, are therefore measures of a pull with stated scales, and nothing is
assumed about how they depend on each other. Proof: docs/explanation/predictions.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.block_betting import Randomize
from fairtrial.confidence.effects import Difference, difference_of_arms
from fairtrial.confidence.means import Settled
from fairtrial.confidence.prediction_test import ALARM, FrozenPredictions
from fairtrial.core.progress_parts import GroupPredictions, Predictions
from fairtrial.core.recommendation import Guarantee
from fairtrial.subpopulations._kernels.block_state import Rules
from fairtrial.subpopulations._kernels.measures.predictions import MISSING
from fairtrial.subpopulations.policies.measured_blocks import Question
from fairtrial.subpopulations.policies.recorded_predictions import (
    RecordedPredictions,
    named_apart,
    with_measures,
)
from fairtrial.subpopulations.policies.stated_noise import StatedNoise
from fairtrial.subpopulations.problem import LimitRow, Problem

__all__ = ["ResidualBlocks", "with_residuals"]

Floats = NDArray[np.float64]

_STATED_RESIDUALS = (
    "a {} minus its prediction is sub-Gaussian at the scale residual_std around its mean, "
    "whatever happened before"
)


def with_residuals(problem: Problem) -> Problem:
    """Return the same problem with more measures: those that are predicted, less the predictions.

    Examples
    --------
    >>> problem = Problem(2, 1, floors=0.2, noise_std=1.0, prediction={"residual_std": 0.6})
    >>> with_residuals(problem).measures
    ('reward', 'reward minus its prediction')
    """
    measured, stated = with_measures(problem), problem.predictions
    names = named_apart((f"{name} minus its prediction" for name in stated), measured.measures)
    residuals = [own.residual_std for own in stated.values()]
    return measured.clone(
        measures=[*measured.measures, *names],
        noise_std={**measured.noise_std, **dict(zip(names, residuals, strict=True))},
    )


def _about_residuals(problem: Problem, places: Sequence[int], known_means: Floats) -> Question:
    """Return the question of a problem, asked about measures minus predictions where it can be.

    Arms are compared by these. Floors and ceilings are on the measures, except in groups whose mean
    prediction is known.

    Parameters
    ----------
    problem : Problem
        The problem with its residuals as last measures.
    places : sequence of int
        The measure that each of them is left of.
    known_means : ndarray of shape (P, L)
        Known mean predictions; NaN where they are not known.
    """
    objective, rows = np.array(problem.objective_weights), list(problem.limit_rows)
    first = objective.size - len(places)
    for p, place in enumerate(places):
        objective[first + p], objective[place] = objective[place], 0.0
        for at, row in enumerate(rows):
            rows[at] = _about_residual(row, place, first + p, known_means[p], problem.shares)
    return Question(objective, tuple(rows))


def _about_residual(
    row: LimitRow, place: int, residual: int, known_means: Floats, shares: Floats
) -> LimitRow:
    """Return a limit, on a residual instead of its measure if that is the same limit."""
    weights = row.weights.copy()
    weights[residual], weights[place] = weights[place], 0.0
    if row.measure is None:
        # A difference of objectives.
        return replace(row, weights=weights)
    if row.measure != place:
        return row
    if row.control is not None:
        return replace(row, measure=residual, weights=weights)
    counts = shares > 0.0 if row.group is None else np.arange(shares.size) == row.group
    if np.isnan(known_means[counts]).any():
        return row
    off = float(known_means[row.group]) if row.group is not None else 0.0
    if row.group is None:
        off = float(known_means[counts] @ shares[counts])
    return replace(row, measure=residual, weights=weights, bounds=row.bounds - off)


class ResidualBlocks(RecordedPredictions):
    """The blocks of a live policy whose noise is known and whose pulls have predictions.

    Parameters
    ----------
    problem : Problem
        A problem with a `prediction` that states a `residual_std`.
    rules, randomize, key
        As in `MeasuredBlocks`.
    reported : callable
        As in `RecordedPredictions`.

    Attributes
    ----------
    totals : ndarray of shape (2, P, L)
        The number of each prediction by group, and their sum.
    reach : ndarray of shape (P, 2)
        The smallest and the largest of each prediction.
    frozen : dict of int to ndarray of shape (P, 2 + L)
        For the test of each open block, by its number: `reach`, and the mean prediction by group,
        before its first pull.
    """

    more_fields: ClassVar[tuple[str, ...]] = (
        *RecordedPredictions.more_fields,
        *("totals", "reach", "frozen_blocks"),
    )

    def __init__(
        self,
        problem: Problem,
        rules: Rules,
        randomize: Randomize,
        key: NDArray[np.uint64],
        reported: Callable[[int], Floats | None],
    ) -> None:
        number = len(problem.predictions)
        self.totals: Floats = np.zeros((2, number, len(problem.groups)))
        self.reach: Floats = np.tile([math.inf, -math.inf], (number, 1))
        self.frozen: dict[int, Floats] = {}
        super().__init__(problem, with_residuals(problem), rules, randomize, key, 0, reported)
        stated = ["noise_std", "residual_std of rewards minus predictions"]
        if problem.measures:
            stated = [
                *(f"noise_std of {name}" for name in problem.measures),
                *(f"residual_std of {name} minus its prediction" for name in problem.predictions),
            ]
        self.tested = [StatedNoise(what, "they spread", 1.0 / len(stated)) for what in stated]

    def _asked(self, problem: Problem) -> Question:
        return _about_residuals(problem, self._places, self._known_means)

    def _extended(self, values: Floats, predictions: Sequence[float]) -> Floats:
        known = np.array([math.nan if one == MISSING else one for one in predictions])
        return np.concatenate([values, values[self._places] - known])

    # ----------------------------------------------------------- the test of predictions

    def _note(self, group: int, p: int, prediction: float) -> None:
        self.totals[:, p, group] += (1.0, prediction)
        self.reach[p] = min(self.reach[p, 0], prediction), max(self.reach[p, 1], prediction)
        first = self._first.item()
        self.frozen = {serial: row for serial, row in self.frozen.items() if serial >= first}

    def _as_tested(self, p: int, prediction: float) -> float:
        return prediction

    def _frozen(self, serial: int, p: int, group: int) -> FrozenPredictions:
        if serial not in self.frozen:
            self.frozen[serial] = np.concatenate([self.reach, self._mean_predictions], axis=1)
        low, high, *expected = self.frozen[serial][p].tolist()
        return FrozenPredictions(self._planned(serial, group), expected[group], low, high)

    @property
    def _mean_predictions(self) -> Floats:
        """The mean of each prediction by group, (P, L); that of all where a group has none yet."""
        numbers, sums = self.totals
        overall = sums.sum(axis=1) / np.maximum(1.0, numbers.sum(axis=1))
        means = sums / np.maximum(numbers, 1.0)
        return np.asarray(np.where(numbers > 0.0, means, overall[:, np.newaxis]))

    @property
    def frozen_blocks(self) -> Floats:
        """The entries of `frozen` as rows that begin with the number of the block."""
        rows = [[serial, *row.ravel()] for serial, row in self.frozen.items()]
        width = 1 + len(self._stated) * (2 + self.groups)
        return np.array(rows, dtype=np.float64).reshape(len(rows), width)

    @frozen_blocks.setter
    def frozen_blocks(self, rows: Floats) -> None:
        shape = len(self._stated), 2 + self.groups
        self.frozen = {int(row[0]): row[1:].reshape(shape).copy() for row in rows}

    # ------------------------------------------------------------------------- report

    def as_it_holds(self, stated: Guarantee, *, ignores_losses: bool) -> Guarantee:
        """Return a guarantee with what predictions add to its assumptions, as far as they hold."""
        what = "reward" if self._names == [None] else "measure"
        stated = stated.assuming(_STATED_RESIDUALS.format(what))
        return super().as_it_holds(stated, ignores_losses=ignores_losses)

    def settled(self, *, losses_count: bool) -> Settled:
        """Return the objective of all settled blocks, by action."""
        found = super().settled(losses_count=losses_count)
        objective = np.asarray(self._problem.objective_weights) * self._units.unit
        return found._replace(sums=self.state.settled_values @ objective)

    def adjusted_difference(self, level: float, *, losses_count: bool) -> Difference | None:
        """Return what finds a difference of means, adjusted for predictions; None if too early."""
        results = self.paid_results(losses_count=losses_count)
        if results is None:
            return None
        return partial(difference_of_arms, results, spread=self.objective_spread, level=level)

    @property
    def found(self) -> Predictions:
        """What predictions did so far; what they save is what the stated scales say."""
        means, explained = self._mean_predictions.tolist(), self._r_squared.tolist()
        groups = [
            GroupPredictions(group, 1.0, mean, share, measure=name)
            for p, name in enumerate(self._names)
            for group, mean, share in zip(self._problem.groups, means[p], explained[p], strict=True)
        ]
        weights = np.square(self._problem.shares)
        plain, left = (
            weights @ np.square(self._problem.scale_of(objective)).mean(axis=0)
            for objective in (np.asarray(self._problem.objective_weights), self._question.objective)
        )
        return Predictions(
            groups=tuple(groups),
            variance_left=float(left / plain),
            e_value=self.test.e_value,
            alarm=ALARM,
        )

    @property
    def _r_squared(self) -> Floats:
        """The share of the variance of measures within arms that predictions explain: (P, L)."""
        counts = np.maximum(self._all_values, 1.0)
        squares = np.diagonal(self.state.products, axis1=2, axis2=3)
        spread = (squares - np.square(self.state.sums) / counts).sum(axis=0)
        variances = spread / np.maximum(self._all_values.sum(axis=0), 1.0)
        variances = variances * np.square(self._units.unit)
        plain = variances[:, self._places].T
        left = variances[:, self.outcomes :].T / np.where(plain > 0.0, plain, 1.0)
        return np.asarray(1.0 - np.where(plain > 0.0, left, 1.0))
