"""Blocks whose pulls have a prediction that was recorded before the arm was drawn."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.block_betting import LiveBlocks, Randomize
from fairtrial.confidence.block_betting.live import serial_of_tag
from fairtrial.confidence.prediction_test import ALARM, FrozenPredictions, PredictionTest
from fairtrial.core.pull import Pull
from fairtrial.core.recommendation import Guarantee
from fairtrial.subpopulations._kernels.block_state import Rules
from fairtrial.subpopulations._kernels.measures.predictions import MISSING
from fairtrial.subpopulations._prediction import Prediction
from fairtrial.subpopulations.policies.measured_blocks import MeasuredBlocks
from fairtrial.subpopulations.problem import Problem

__all__ = ["RecordedPredictions", "lower_and_upper", "with_measures"]

Floats = NDArray[np.float64]

_DEPEND_ON_ARM = (
    "predictions differ between arms by more than chance: they must be recorded before the arm is "
    "drawn, of whoever comes next"
)

_RECORDED_BEFORE = "each prediction was recorded before the arm was drawn"

_LOSSES_IGNORE_PREDICTIONS = (
    "whether a result gets lost depends on the prediction in all arms alike, if at all"
)

_STATED_MEANS = (
    "units of a group come at random from those whose mean prediction is stated (known_mean)"
)


_LimitsByCell = dict[tuple[str, str], dict[str, float | None]]


def lower_and_upper(problem: Problem) -> tuple[Floats, Floats]:
    """Return the lower and the upper limits of the means of all cells, each of shape (K, L)."""
    if problem.sign < 0.0:
        # With rewards that are minimised, a floor is what a mean must not exceed.
        return problem.ceilings, problem.floors
    return problem.floors, problem.ceilings


def _limits_by_cell(problem: Problem, limits: Floats, measures: Sequence[str]) -> _LimitsByCell:
    """Return limits of all cells in the form that measures take.

    `measures`: the one that has the limits, by group.
    """
    found: _LimitsByCell = {}
    for column, (group, measure) in enumerate(zip(problem.groups, measures, strict=True)):
        own = zip(problem.arms, limits[:, column].tolist(), strict=True)
        found[measure, group] = {arm: end if math.isfinite(end) else None for arm, end in own}
    return found


def _margins_by_cell(problem: Problem, measure: str) -> Any:
    """Return the margins of all cells but the control's, in the form that measures take."""
    if problem.margin is None:
        return None
    found = _limits_by_cell(problem, problem.margin, [measure] * len(problem.groups))
    for own in found.values():
        del own[str(problem.control)]
    return found


def with_measures(
    problem: Problem,
    limits: tuple[Floats, Floats],
    limited: list[str],
    objective: str,
    **measures: Any,
) -> Problem:
    """Return the same problem with several measures of a pull.

    Parameters
    ----------
    problem : Problem
        A problem with one reward.
    limits : (ndarray, ndarray) of shape (K, L)
        The lower and the upper limits of cells.
    limited : list of str
        The measure that they limit, by group.
    objective : str
        The measure that arms are compared by.
    **measures
        The arguments of `Problem` that state the measures and their ranges or noise.
    """
    return Problem(
        problem.arms,
        problem.groups,
        problem.shares,
        floors=_limits_by_cell(problem, limits[0], limited),
        ceilings=_limits_by_cell(problem, limits[1], limited),
        objective=objective,
        direction=problem.direction,
        costs=problem.costs,
        tolerance=problem.tolerance,
        control=problem.control if problem.refers_to_control else None,
        margin=_margins_by_cell(problem, objective),
        superiority=problem.superiority,
        **measures,
    )


class RecordedPredictions(MeasuredBlocks):
    """The blocks of a live policy whose pulls have a prediction: base of all kinds.

    Parameters
    ----------
    problem : Problem
        A problem with a `prediction`.
    prediction : Prediction
        That prediction.
    measured : Problem
        The problem in measures that the bets are about.
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

    runs_compiled: ClassVar[bool] = False

    def __init__(
        self,
        problem: Problem,
        prediction: Prediction,
        measured: Problem,
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
        super().__init__(measured, rules, randomize, key, points, self._known_of)

    def _known_of(self, number: int) -> Floats | None:
        """Return what is known of a pull without a result."""
        return None

    # ------------------------------------------------------------- predictions of pulls

    def issue(self, number: int, prediction: float | None, action: int, tag: int) -> None:
        """Record the prediction of the pull that is issued next; it is frozen from now on."""
        del self.predictions[number:]
        self.predictions.append(MISSING if prediction is None else prediction)
        serial = serial_of_tag(tag)
        if serial >= self._first.item():
            # Others are in no block, or in one that was closed before all its pulls were made.
            self._test_arms(serial, prediction, action)
        self._note(action % self.groups, prediction)

    def _test_arms(self, serial: int, prediction: float | None, action: int) -> None:
        """Add the prediction of a pull of a block to the test that all arms have the same."""
        slot = self._slot_of(serial)
        if prediction is not None and not self._is_replacement(slot, action):
            arm, group = divmod(action, self.groups)
            frozen = self._frozen(serial, group)
            self.test.add(serial, arm, group, self._as_tested(prediction), frozen)
        if self.state.blocks.unissued[slot] == 0:
            self.test.complete(serial)

    def _is_replacement(self, slot: int, action: int) -> bool:
        """Return whether the last issued pull of an action replaces one that got lost.

        The test counts as many pulls of each arm as were planned: the first ones.
        """
        blocks = self.state.blocks
        issued = blocks.losses[slot, action] - blocks.to_issue[slot, action]
        return bool(self._makes_again and issued > 0.0)

    def _planned(self, serial: int, group: int) -> Floats:
        """Return the planned pulls of every arm in a group of an open block."""
        planned = self.state.blocks.planned[self._slot_of(serial)]
        return np.asarray(planned.reshape(-1, self.groups)[:, group])

    @abstractmethod
    def _frozen(self, serial: int, group: int) -> FrozenPredictions:
        """Return what is fixed before an open block, for the test of predictions."""

    @abstractmethod
    def _as_tested(self, prediction: float) -> float:
        """Return a prediction in the units of `_frozen`."""

    @abstractmethod
    def _note(self, group: int, prediction: float | None) -> None:
        """Take note of the prediction of a pull after it was tested."""

    # ------------------------------------------------------------------------ report

    @property
    def depend_on_arm(self) -> bool:
        """Whether predictions differ between arms far more than chance allows."""
        return self.test.e_value >= ALARM

    def warnings(self) -> tuple[str, ...]:
        """Return what is wrong with the predictions."""
        return (_DEPEND_ON_ARM,) if self.depend_on_arm else ()

    def as_it_holds(self, stated: Guarantee, *, ignores_losses: bool) -> Guarantee:
        """Return a guarantee with what predictions add to its assumptions, as far as they hold."""
        stated = stated.assuming(_RECORDED_BEFORE)
        if ignores_losses:
            stated = stated.assuming(_LOSSES_IGNORE_PREDICTIONS)
        if self._prediction.known_mean:
            stated = stated.assuming(_STATED_MEANS)
        if self.depend_on_arm:
            stated = stated.weakened("predictions differ between arms by more than chance")
        return stated

    def loses_unequally(self, groups: int = 1) -> bool:
        """Return whether some arms lose far more results than others in their group."""
        return LiveBlocks.loses_unequally(self, groups)

    def prediction_of(self, pull: Pull) -> float:
        """Return the prediction of a pull as given; that of unsolicited data is missing."""
        is_own = 0 <= pull.number < len(self.predictions)
        return self.predictions[pull.number] if is_own else MISSING
