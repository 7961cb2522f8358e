"""A finished experiment, cut into blocks by its assignments alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.confidence.effects import BlockResults
from fairtrial.core.problem import Problem
from fairtrial.errors import InvalidArgument, TooFewUnits

__all__ = [
    "ASSIGNED",
    "Cuts",
    "OutsideResults",
    "actions_of",
    "require_every_action",
    "units_until_each",
]

ASSIGNED = (
    "units are in the order in which they were assigned, and neither that order nor which arm a "
    "unit got depends on outcomes of the same block"
)
"""What the analysis of a finished experiment assumes about its assignments."""

_PATIENCE = 4
"""Rows per requested initial pull of an action after which fewer initial pulls are enough."""

Actions = NDArray[np.int64]


class Cuts:
    """The blocks of a finished experiment.

    The blocks depend only on the assignments, never on outcomes. Whether a block ends after a unit
    depends only on the units up to there, so the reason why the experiment ended does not matter.
    No bets are placed on the first units. The following blocks grow with the number of units before
    them. The last units may not fill a block; no bets are placed on them either.

    Parameters
    ----------
    actions : ndarray of int
        The action of every unit, in the order of assignment.
    number : int
        Number of actions.
    begin : int
        Index of the first block's first unit; it depends only on earlier assignments.
    growth : float
        Units of a block, as a fraction of the units before it.
    least : int
        Minimum number of units in a block.

    Attributes
    ----------
    actions : ndarray of int
        The action of every unit.
    begin : int
        Index of the first block's first unit.
    starts : dict of int to int
        The end of each block, by its start.
    rest : int
        Index of the first unit after the last block.
    """

    def __init__(
        self, actions: Actions, number: int, begin: int, growth: float, least: int
    ) -> None:
        self.actions = actions
        self.begin = begin
        self._number = number
        self.starts: dict[int, int] = {}
        start = begin
        while start < len(actions):
            size = max(math.ceil(growth * start), least)
            if start + size > len(actions):
                break
            self.starts[start] = start + size
            start += size
        self.rest = start

    @classmethod
    def after_each_action(
        cls,
        assigned: ArrayLike,
        problem: Problem,
        initial_pulls: float,
        growth: float,
        touch: float,
        name: str = "arm",
    ) -> Cuts:
        """Return blocks with `touch` or more units per action, after initial units of every action.

        `name`: what users call an action.
        """
        actions, number = actions_of(assigned, problem), problem.n_actions
        require_every_action(actions, problem, name)
        begin = units_until_each(actions, number, initial_pulls)
        return cls(actions, number, begin, growth, int(touch) * number)

    @property
    def last_block(self) -> int:
        """Units of the last block, which is the largest."""
        return max((end - start for start, end in self.starts.items()), default=0)

    def counts_from(self, start: int) -> NDArray[np.float64]:
        """Return the units of each action in the block that starts at `start`."""
        return self._count(self.actions[start : self.starts[start]])

    @property
    def initial_counts(self) -> NDArray[np.float64]:
        """Return the units of each action before the first block."""
        return self._count(self.actions[: self.begin])

    @property
    def assigned(self) -> NDArray[np.float64]:
        """Return all units of each action."""
        return self._count(self.actions)

    def missing(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the units of each action without a result, given the counts that have one."""
        return np.maximum(self.assigned - counts, 0.0)

    def counts_after(self, unit: int) -> NDArray[np.float64]:
        """Return the units of each action from one unit on."""
        return self._count(self.actions[unit:])

    def _count(self, actions: Actions) -> NDArray[np.float64]:
        return np.bincount(actions, minlength=self._number).astype(np.float64)


class OutsideResults:
    """The results of a finished experiment that are in no block: those before and after the blocks.

    The bets on answers do not use them, but differences do: each of the two parts is one more block
    for them. The first one is known before the others; when the last one begins depends only on
    earlier results.

    Parameters
    ----------
    number : int
        Number of actions; 0 if nothing needs these results.
    ranges : sequence of ((float, float) or None)
        The range of each value of a result, if it is known: sums of squares are about its middle.
    unit : float
        The unit of sums; see `BlockResults`.

    Attributes
    ----------
    moments : ndarray of shape (2, 3, values * number)
        Of the results before and after the blocks: for each of their values, and each action, how
        many are known, their sum and their sum of squares.
    """

    def __init__(
        self,
        number: int = 0,
        ranges: Sequence[tuple[float, float] | None] = (None,),
        unit: float = 1.0,
    ) -> None:
        self.moments = np.zeros((2, 3, len(ranges) * number))
        self._number = number
        ends = [one or (0.0, 0.0) for one in ranges]
        self._centres = np.array([low + (high - low) / 2 for low, high in ends]) / unit
        self._unit = unit

    def add(self, after: bool, action: int, values: NDArray[np.float64]) -> None:
        """Add the values of a result; NaN if unknown."""
        self._count(after, action, values, 1.0)

    def remove(self, after: bool, action: int, values: NDArray[np.float64]) -> None:
        """Remove a result that was added, because it is corrected."""
        self._count(after, action, values, -1.0)

    def _count(self, after: bool, action: int, values: NDArray[np.float64], sign: float) -> None:
        known = ~np.isnan(values)
        off = np.where(known, values / self._unit - self._centres, 0.0)
        own = self.moments[int(after), :, action :: self._number]
        own += sign * np.stack([known, off, off * off])

    def as_block(self, after: bool, assigned: NDArray[np.float64], value: int = 0) -> BlockResults:
        """Return a part as a block with that many assigned units; those without a value are lost.

        `assigned` has shape (actions,). `value` is the place of the value in a result.
        """
        start = value * self._number
        counts, sums, squares = self.moments[int(after), :, start : start + self._number]
        lost = np.maximum(assigned - counts, 0.0)
        rows = counts, lost, sums, squares, np.full_like(counts, self._centres[value])
        return BlockResults(*(row[np.newaxis].copy() for row in rows), unit=self._unit)


def actions_of(assigned: ArrayLike, problem: Problem) -> Actions:
    """Return the action of every unit.

    Raises
    ------
    InvalidArgument
        If there is no unit, or an action is not one of the problem's.
    """
    accepted = f"must be a list of actions, integers from 0 to {problem.n_actions - 1}"
    try:
        actions = np.asarray(assigned)
    except (TypeError, ValueError):
        raise InvalidArgument("assigned", accepted, assigned) from None
    if actions.ndim != 1 or not np.issubdtype(actions.dtype, np.integer):
        raise InvalidArgument("assigned", accepted, assigned)
    outside = (actions < 0) | (actions >= problem.n_actions)
    if outside.any():
        raise InvalidArgument("assigned", accepted, int(actions[outside][0]))
    return actions.astype(np.int64)


def require_every_action(actions: Actions, problem: Problem, name: str) -> None:
    """Require at least one unit of every action; `name` is what users call an action.

    Raises
    ------
    TooFewUnits
        If an action has no units.
    """
    units = np.bincount(actions, minlength=problem.n_actions)
    absent = np.flatnonzero(units == 0).tolist()
    if absent:
        own = " in ".join(map(repr, problem.action_labels[absent[0]].values()))
        accepted = f"must have a unit of every {name}, also {own}"
        raise TooFewUnits("assigned", accepted, absent=absent)


def units_until_each(actions: Actions, number: int, initial_pulls: float) -> int:
    """Return the number of units after which each action has enough initial pulls.

    A rare action must not use up the experiment: as the wait gets longer, fewer initial pulls are
    enough.

    Examples
    --------
    >>> units_until_each(np.array([0, 1, 0, 0, 1, 1, 0]), number=2, initial_pulls=2)
    5
    """
    wanted = max(1.0, initial_pulls)
    counts = np.zeros(number)
    for unit, action in enumerate(actions, start=1):
        counts[action] += 1.0
        enough = wanted * min(1.0, _PATIENCE * wanted * number / unit)
        if counts.min() >= max(1.0, enough):
            return unit
    return len(actions)
