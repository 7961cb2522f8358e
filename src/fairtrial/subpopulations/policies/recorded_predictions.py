"""Blocks whose pulls have predictions that were recorded before the arm was drawn."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.block_betting import LiveBlocks, Randomize
from fairtrial.confidence.block_betting.live import serial_of_tag
from fairtrial.confidence.prediction_test import ALARM, FrozenPredictions, PredictionTest
from fairtrial.core.pull import UNSOLICITED, Pull
from fairtrial.core.recommendation import Guarantee
from fairtrial.subpopulations._kernels.block_state import Rules
from fairtrial.subpopulations._kernels.measures.predictions import MISSING
from fairtrial.subpopulations._prediction import REWARD
from fairtrial.subpopulations.policies.measured_blocks import MeasuredBlocks
from fairtrial.subpopulations.problem import Problem

__all__ = ["RecordedPredictions", "named_apart", "with_measures"]

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


def _limits_by_cell(problem: Problem, limits: Floats) -> _LimitsByCell:
    """Return limits of the rewards of all cells in the form that measures take."""
    found: _LimitsByCell = {}
    for column, group in enumerate(problem.groups):
        own = zip(problem.arms, limits[:, column].tolist(), strict=True)
        found[REWARD, group] = {arm: end if math.isfinite(end) else None for arm, end in own}
    return found


def _margins_by_cell(problem: Problem) -> Any:
    """Return the margins of all cells but the control's, in the form that measures take."""
    if problem.margin is None:
        return None
    found = _limits_by_cell(problem, problem.margin)
    for own in found.values():
        del own[str(problem.control)]
    return found


def with_measures(problem: Problem) -> Problem:
    """Return the same problem with the measures of a pull, and without predictions.

    A reward becomes a measure, the only one.

    Examples
    --------
    >>> problem = Problem(2, 1, floors=0.2, reward_range=(0, 1), prediction=(0, 1))
    >>> with_measures(problem).measures
    ('reward',)
    """
    if problem.measures:
        return problem.clone(prediction=None)
    lower, upper = problem.floors, problem.ceilings
    if problem.sign < 0.0:
        # With rewards that are minimised, a floor is what a mean must not exceed.
        lower, upper = upper, lower
    is_bounded = problem.reward_range is not None
    stated: dict[str, Any] = {"measures": {REWARD: problem.reward_range}}
    if not is_bounded:
        stated = {"measures": [REWARD], "noise_std": {REWARD: problem.noise_std}}
    return Problem(
        problem.arms,
        problem.groups,
        problem.shares,
        floors=_limits_by_cell(problem, lower),
        ceilings=_limits_by_cell(problem, upper),
        objective=REWARD,
        direction=problem.direction,
        costs=problem.costs,
        tolerance=problem.tolerance,
        control=problem.control if problem.refers_to_control else None,
        margin=_margins_by_cell(problem),
        superiority=problem.superiority,
        **stated,
    )


def named_apart(names: Iterable[str], measures: Sequence[str]) -> list[str]:
    """Return names that no measure has.

    Examples
    --------
    >>> named_apart(["prediction of x", "y"], ["x", "y"])
    ['prediction of x', 'y again']
    """
    taken, found = set(measures), []
    for name in names:
        own = name
        while own in taken:
            own = f"{own} again"
        taken.add(own)
        found.append(own)
    return found


class _Tests:
    """The evidence that predictions depend on the arm: a test of each, and their mean.

    Parameters
    ----------
    number : int
        Number of predictions of a unit.
    arms, groups : int
        Their numbers.
    """

    def __init__(self, number: int, arms: int, groups: int) -> None:
        self._each = [PredictionTest(arms, groups) for _ in range(number)]

    def add(self, p: int, *details: Any) -> None:
        """Add a prediction of a pull of a block; see `PredictionTest.add`."""
        self._each[p].add(*details)

    def complete(self, block: int) -> None:
        """Count a block, all of whose pulls are issued."""
        for own in self._each:
            own.complete(block)

    @property
    def e_value(self) -> float:
        """The evidence: at least x with probability at most 1/x at any time if all is well."""
        return float(np.mean([own.e_value for own in self._each]))

    @property
    def logs(self) -> Floats:
        """Logarithms of the products over complete blocks."""
        return np.array([own.logs for own in self._each])

    @logs.setter
    def logs(self, values: Floats) -> None:
        for own, logs in zip(self._each, values, strict=True):
            own.logs = logs.copy()

    @property
    def open_blocks(self) -> Floats:
        """The blocks whose pulls are not all issued: after the number of the prediction."""
        own = [np.insert(one.open_blocks, 0, p, axis=1) for p, one in enumerate(self._each)]
        return np.concatenate(own)

    @open_blocks.setter
    def open_blocks(self, rows: Floats) -> None:
        for p, own in enumerate(self._each):
            own.open_blocks = rows[rows[:, 0] == p, 1:]


class RecordedPredictions(MeasuredBlocks):
    """The blocks of a live policy whose pulls have predictions: base of all kinds.

    Parameters
    ----------
    problem : Problem
        A problem with a `prediction`.
    measured : Problem
        The problem in measures that the bets are about: those of an outcome come first.
    rules, randomize, key, points
        As in `MeasuredBlocks`.
    reported : callable
        Returns the values of measures that were reported for a pull before its outcome, by its
        number.

    Attributes
    ----------
    predictions : list of list of float
        The predictions of every pull that was issued, as given; infinite for a missing one.
    groups : int
        Number of groups.
    test : _Tests
        The evidence that predictions depend on the arm.
    """

    more_fields: ClassVar[tuple[str, ...]] = (
        *MeasuredBlocks.more_fields,
        *("predictions", "test.logs", "test.open_blocks"),
    )

    runs_compiled: ClassVar[bool] = False

    def __init__(
        self,
        problem: Problem,
        measured: Problem,
        rules: Rules,
        randomize: Randomize,
        key: NDArray[np.uint64],
        points: int,
        reported: Callable[[int], Floats | None],
    ) -> None:
        self._stated = problem.predictions
        names = problem.measures or (REWARD,)
        self._places = [names.index(name) for name in self._stated]
        self._names: list[str | None] = [*self._stated] if problem.measures else [None]
        self.predictions: list[list[float]] = []
        self.groups = len(problem.groups)
        self.test = _Tests(len(self._stated), *problem.shape)
        means = [own.means_of(problem.groups) for own in self._stated.values()]
        self._known_means: Floats = np.array(means)
        self._values_so_far_of = reported
        super().__init__(measured, rules, randomize, key, points, self._known_of)
        self.outcomes = len(names)
        self.never_known = self.never_known[:, : self.outcomes].copy()

    def of_pull(self, pull: Pull, outcome: Any) -> Floats:
        """Return what bets use of a pull: its values, and what its predictions add."""
        return self._extended(np.atleast_1d(np.asarray(outcome, float)), self.predictions_of(pull))

    @abstractmethod
    def _extended(self, values: Floats, predictions: Sequence[float]) -> Floats:
        """Return the values of a pull, and what its predictions add to them."""

    def _known_of(self, number: int) -> Floats | None:
        """Return what is known of a pull without a result, by its number."""
        if number == UNSOLICITED:
            return None
        values = self._values_so_far_of(number)
        if values is None:
            values = np.full(self.outcomes, math.nan)
        return self._extended(values, self.predictions[number])

    def _gave_values(self, pull: Pull) -> bool:
        return self._values_so_far_of(pull.number) is not None

    # ------------------------------------------------------------- predictions of pulls

    def issue(
        self, number: int, predictions: Sequence[float | None], action: int, tag: int
    ) -> None:
        """Record the predictions of the pull that is issued next; they are frozen from now on."""
        del self.predictions[number:]
        given = [MISSING if one is None else one for one in predictions]
        self.predictions.append(given)
        serial = serial_of_tag(tag)
        if serial >= self._first.item():
            # Others are in no block, or in one that was closed before all its pulls were made.
            self._test_arms(serial, given, action)
        for p, prediction in enumerate(given):
            if prediction != MISSING:
                self._note(action % self.groups, p, prediction)

    def _test_arms(self, serial: int, predictions: Sequence[float], action: int) -> None:
        """Add the predictions of a pull of a block to the test that all arms have the same."""
        slot = self._slot_of(serial)
        arm, group = divmod(action, self.groups)
        if not self._is_replacement(slot, action):
            for p, prediction in enumerate(predictions):
                if prediction != MISSING:
                    tested = self._as_tested(p, prediction), self._frozen(serial, p, group)
                    self.test.add(p, serial, arm, group, *tested)
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
    def _frozen(self, serial: int, p: int, group: int) -> FrozenPredictions:
        """Return what is fixed before an open block, for the test of a prediction."""

    @abstractmethod
    def _as_tested(self, p: int, prediction: float) -> float:
        """Return a prediction in the units of `_frozen`."""

    @abstractmethod
    def _note(self, group: int, p: int, prediction: float) -> None:
        """Take note of a prediction of a pull after it was tested."""

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
        if any(own.known_mean for own in self._stated.values()):
            stated = stated.assuming(_STATED_MEANS)
        if self.depend_on_arm:
            stated = stated.weakened("predictions differ between arms by more than chance")
        return stated

    def loses_unequally(self, groups: int = 1) -> bool:
        """Return whether some arms lose far more results than others in their group."""
        if self.outcomes > 1:
            return super().loses_unequally(groups)
        return LiveBlocks.loses_unequally(self, groups)

    def predictions_of(self, pull: Pull) -> list[float]:
        """Return the predictions of a pull as given; those of unsolicited data are missing."""
        is_own = 0 <= pull.number < len(self.predictions)
        return self.predictions[pull.number] if is_own else [MISSING] * len(self._stated)
