"""Block betting with predictions: a reward and its prediction are two measures of a pull.

The prediction is known from the start, its mean does not depend on the arm, and neither the
objective nor a limit uses it.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.block_betting import LiveBlocks, Randomize
from fairtrial.confidence.block_betting.live import serial_of_tag
from fairtrial.confidence.effects import (
    Difference,
    DifferenceInterval,
    GuessedResults,
    difference_with_guesses,
)
from fairtrial.confidence.prediction_test import ALARM, FrozenPredictions, PredictionTest
from fairtrial.core.pull import UNSOLICITED, Pull
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

    more_fields: ClassVar[tuple[str, ...]] = ("predictions", "test.logs", "test.open_blocks")
    """The attributes that are saved besides `fields`."""

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
        measured = as_measured(problem, prediction)
        super().__init__(measured, rules, randomize, key, points, self._known_of)

    def _model(self) -> Model:
        model = model_of_measures(self._problem, self._units)
        reward, prediction = self._units.unit
        slope = math.nan if self._prediction.fit else float(prediction / reward)
        return model._replace(predicted=1, slope=slope)

    def _roles(self, model: Model) -> int:
        return ROLES

    def issue(self, number: int, prediction: float | None, action: int, tag: int) -> None:
        """Record the prediction of the pull that is issued next; it is frozen from now on."""
        del self.predictions[number:]
        self.predictions.append(MISSING if prediction is None else prediction)
        serial = serial_of_tag(tag)
        if serial < 0:
            return
        slot = self._slot_of(serial)
        if prediction is not None:
            arm, group = divmod(action, self.groups)
            known = float(self._units.inward(np.array([0.0, self._prediction.cut(prediction)]))[1])
            self.test.add(serial, arm, group, known, self._frozen(slot, group))
        if self.state.blocks.unissued[slot] == 0:
            self.test.complete(serial)

    def _frozen(self, slot: int, group: int) -> FrozenPredictions:
        """Return what is fixed before the block in a slot, for the test of predictions."""
        planned = self.state.blocks.planned[slot].reshape(-1, self.groups)[:, group]
        expected = float(self.state.guess[slot, group, EXPECTED])
        return FrozenPredictions(planned, expected, *self.state.clip[slot].tolist())

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

    def difference(self, level: float) -> Difference | None:
        """Return what finds a difference of means, adjusted for predictions; None if too early."""
        if not self._first.item() == len(self.paid) > 0:
            return None
        counts = self.in_paid_blocks("blocks.results")
        losses = self.in_paid_blocks("blocks.losses")
        sums = self.in_paid_blocks("adjusted").reshape(*counts.shape, -1)
        results = GuessedResults(counts, losses, *np.moveaxis(sums, 2, 0))
        adjusted, unit = self.adjusted_means.ravel(), float(self._units.unit[0])
        low, high = self._units.inward(np.array(self._problem.measure_ranges).T)[:, 0].tolist()

        def find(target: Floats) -> DifferenceInterval | None:
            found = difference_with_guesses(results, target, low, high, level)
            used = target != 0.0
            return found and found.times(unit).around(float(target[used] @ adjusted[used]))

        return find

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
    def r_squared(self) -> Floats:
        """The share of the variance within arms that predictions explain, by group, shape (L,)."""
        state = self.state
        counts = np.maximum(state.counts[..., 0, 0], 1.0)
        pairs = np.maximum(state.counts[..., 1, 1], 1.0)
        rewards, known = state.sums[..., 0], state.sums[..., 1]
        total = (state.products[..., 0, 0] - rewards**2 / counts).sum(axis=0)
        spread = (state.products[..., 1, 1] - known**2 / pairs).sum(axis=0)
        both = (state.products[..., 0, 1] - rewards * known / counts).sum(axis=0)
        slopes = blocks.fit_now(self.arrays)[0]
        explained = 2.0 * slopes * both - slopes**2 * spread
        return np.where(total > 0.0, explained / np.where(total > 0.0, total, 1.0), 0.0)

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
