"""Block betting with predictions and a known noise: bets on rewards minus their predictions.

In a group, the mean prediction is the same for all arms. So a difference of arms is also one of
their rewards minus predictions, whose noise is smaller. A floor or a ceiling of a single arm is
about the reward itself, unless the mean prediction is known. Rewards, and rewards minus
predictions, are therefore two measures of a pull with stated scales, and nothing is assumed about
how they depend on each other. Proof: docs/explanation/predictions.md.
"""

from __future__ import annotations

import math
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.block_betting import Randomize
from fairtrial.confidence.effects import Difference, difference_of_arms
from fairtrial.confidence.means import Settled
from fairtrial.confidence.prediction_test import ALARM, FrozenPredictions
from fairtrial.core.progress_parts import GroupPredictions, Predictions
from fairtrial.core.pull import Pull
from fairtrial.core.recommendation import Guarantee
from fairtrial.subpopulations._kernels.block_state import Rules
from fairtrial.subpopulations._kernels.measures.predictions import MISSING
from fairtrial.subpopulations._prediction import Prediction
from fairtrial.subpopulations.policies.recorded_predictions import (
    RecordedPredictions,
    lower_and_upper,
    with_measures,
)
from fairtrial.subpopulations.policies.stated_noise import StatedNoise
from fairtrial.subpopulations.problem import Problem

__all__ = ["ResidualBlocks", "as_residuals"]

Floats = NDArray[np.float64]

_REWARD, _RESIDUAL = "reward", "residual"
"""The names of the two measures."""

_STATED_RESIDUALS = (
    "a reward minus its prediction is sub-Gaussian at the scale residual_std around its mean, "
    "whatever happened before"
)


def as_residuals(problem: Problem, prediction: Prediction) -> Problem:
    """Return the same problem with rewards, and rewards minus predictions, as measures.

    Arms are compared by the latter. Floors and ceilings are on rewards, except in groups whose mean
    prediction is known.

    Examples
    --------
    >>> problem = Problem(2, 1, floors=0.2, noise_std=1.0, prediction={"residual_std": 0.6})
    >>> measured = as_residuals(problem, problem.prediction)
    >>> measured.objective, measured.floors[0]["measure"]
    ('residual', 'reward')
    """
    known = np.array(prediction.means_of(problem.groups))
    measures = [_REWARD if math.isnan(mean) else _RESIDUAL for mean in known]
    lower, upper = (ends - np.nan_to_num(known) for ends in lower_and_upper(problem))
    noise = {_REWARD: problem.noise_std, _RESIDUAL: prediction.residual_std}
    stated = {"measures": [_REWARD, _RESIDUAL], "noise_std": noise}
    return with_measures(problem, (lower, upper), measures, _RESIDUAL, **stated)


class ResidualBlocks(RecordedPredictions):
    """The blocks of a live policy whose noise is known and whose pulls have a prediction.

    Parameters
    ----------
    problem : Problem
        A problem with a `prediction` that states a `residual_std`.
    prediction : Prediction
        That prediction.
    rules, randomize, key
        As in `MeasuredBlocks`.

    Attributes
    ----------
    totals : ndarray of shape (2, L)
        The number of predictions by group, and their sum.
    reach : ndarray of shape (2,)
        The smallest and the largest prediction.
    frozen : dict of int to ndarray of shape (2 + L,)
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
        prediction: Prediction,
        rules: Rules,
        randomize: Randomize,
        key: NDArray[np.uint64],
    ) -> None:
        self.totals: Floats = np.zeros((2, len(problem.groups)))
        self.reach: Floats = np.array([math.inf, -math.inf])
        self.frozen: dict[int, Floats] = {}
        measured = as_residuals(problem, prediction)
        super().__init__(problem, prediction, measured, rules, randomize, key, points=0)
        self.tested = [
            StatedNoise(what, "they spread", 0.5)
            for what in ("noise_std", "residual_std of rewards minus predictions")
        ]

    def of_pull(self, pull: Pull, reward: float) -> Floats:
        """Return the reward of a pull, and the reward minus its prediction."""
        known = self.prediction_of(pull)
        return np.array([reward, math.nan if known == MISSING else reward - known])

    # ----------------------------------------------------------- the test of predictions

    def _note(self, group: int, prediction: float | None) -> None:
        if prediction is None:
            return
        self.totals[:, group] += (1.0, prediction)
        self.reach[:] = min(self.reach[0], prediction), max(self.reach[1], prediction)
        first = self._first.item()
        self.frozen = {serial: row for serial, row in self.frozen.items() if serial >= first}

    def _as_tested(self, prediction: float) -> float:
        return prediction

    def _frozen(self, serial: int, group: int) -> FrozenPredictions:
        if serial not in self.frozen:
            self.frozen[serial] = np.concatenate([self.reach, self._mean_predictions])
        low, high, *expected = self.frozen[serial].tolist()
        return FrozenPredictions(self._planned(serial, group), expected[group], low, high)

    @property
    def _mean_predictions(self) -> Floats:
        """The mean prediction of each group; that of all where a group has none yet."""
        numbers, sums = self.totals
        overall = sums.sum() / max(1.0, numbers.sum())
        means = sums / np.maximum(numbers, 1.0)
        return np.asarray(np.where(numbers > 0.0, means, overall))

    @property
    def frozen_blocks(self) -> Floats:
        """The entries of `frozen` as rows that begin with the number of the block."""
        rows = [[serial, *row] for serial, row in self.frozen.items()]
        return np.array(rows, dtype=np.float64).reshape(len(rows), 3 + self.groups)

    @frozen_blocks.setter
    def frozen_blocks(self, rows: Floats) -> None:
        self.frozen = {int(row[0]): row[1:].copy() for row in rows}

    # ------------------------------------------------------------------------- report

    def as_it_holds(self, stated: Guarantee, *, ignores_losses: bool) -> Guarantee:
        """Return a guarantee with what predictions add to its assumptions, as far as they hold."""
        stated = stated.assuming(_STATED_RESIDUALS)
        return super().as_it_holds(stated, ignores_losses=ignores_losses)

    @property
    def objective_data(self) -> tuple[Floats, Floats]:
        """Counts and sums of the rewards by cell, shape (K, L)."""
        return self.values[..., 0].copy(), self.state.sums[..., 0] * self._units.unit[0]

    def settled(self, *, losses_count: bool) -> Settled:
        """Return the rewards of all settled blocks, by action."""
        found = super().settled(losses_count=losses_count)
        return found._replace(sums=self.state.settled_values[:, 0] * self._units.unit[0])

    def difference(self, level: float) -> Difference | None:
        """Return what finds a difference of means, adjusted for predictions; None if too early."""
        results = self.paid_results(losses_count=False)
        if results is None:
            return None
        spread = self.objective_spread
        return partial(difference_of_arms, results, spread=spread, level=level)

    @property
    def found(self) -> Predictions:
        """What predictions did so far; what they save is what the stated scales say."""
        means = self._mean_predictions.tolist()
        rows = zip(self._problem.groups, means, self._r_squared.tolist(), strict=True)
        weights = np.square(self._problem.shares)
        scales = np.square(np.asarray(self._problem.measure_noise_std)).mean(axis=0)
        plain, left = weights @ scales
        return Predictions(
            groups=tuple(GroupPredictions(group, 1.0, mean, share) for group, mean, share in rows),
            variance_left=float(left / plain),
            e_value=self.test.e_value,
            alarm=ALARM,
        )

    @property
    def _r_squared(self) -> Floats:
        """The share of the variance of rewards within arms that predictions explain, shape (L,)."""
        counts = np.maximum(self.values, 1.0)
        squares = np.diagonal(self.state.products, axis1=2, axis2=3)
        spread = squares - np.square(self.state.sums) / counts
        pulls = np.maximum(self.values.sum(axis=0), 1.0)
        variances = spread.sum(axis=0) / pulls * np.square(self._units.unit)
        rewards, residuals = variances.T
        left = residuals / np.where(rewards > 0.0, rewards, 1.0)
        return np.asarray(1.0 - np.where(rewards > 0.0, left, 1.0))
