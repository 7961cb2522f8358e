"""A finished experiment as block betting reads it: cut into blocks by its assignments alone."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.core.problem import Problem
from fairtrial.errors import InvalidArgument

__all__ = ["ASSIGNED", "Cuts", "actions_of", "require_every_action", "units_until_each"]

ASSIGNED = (
    "units are in the order in which they were assigned, and neither that order nor which arm a "
    "unit got depends on outcomes of the same block"
)
"""What the analysis of a finished experiment assumes of its assignments."""

_PATIENCE = 4
"""Rows for each initial pull of each action, after which fewer initial pulls are enough."""

Actions = NDArray[np.int64]


class Cuts:
    """The blocks of a finished experiment.

    They follow from the assignments alone, before any outcome is looked at, and whether a block
    ends somewhere follows from the units up to there: so it does not matter why the experiment
    ended where it did. First come units on which nothing is bet; then blocks that grow with what
    is before them. What is left does not fill a block, and is not bet on.

    Parameters
    ----------
    actions : ndarray of int
        The action of every unit, in the order of assignment.
    number : int
        How many actions there are.
    begin : int
        Where the first block begins; it follows from the assignments before it.
    growth : float
        Units of a block, as a part of those before it.
    least : int
        Units of a block, at least.

    Attributes
    ----------
    actions : ndarray of int
        The action of every unit.
    begin : int
        Where the first block begins.
    starts : dict of int to int
        Where each block begins, and where it ends.
    rest : int
        Where what fills no block begins.
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
        """Return blocks of `touch` units or more an action, after units of every action.

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
        """Return how many units of the block that begins there each action has."""
        return self._count(self.actions[start : self.starts[start]])

    @property
    def initial_counts(self) -> NDArray[np.float64]:
        """How many units before the first block each action has."""
        return self._count(self.actions[: self.begin])

    def missing(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how many units of each action have no result, given how many have."""
        return np.maximum(self._count(self.actions) - counts, 0.0)

    def _count(self, actions: Actions) -> NDArray[np.float64]:
        return np.bincount(actions, minlength=self._number).astype(np.float64)


def actions_of(assigned: ArrayLike, problem: Problem) -> Actions:
    """Return the action of every unit, if each is one of the problem's.

    Raises
    ------
    InvalidArgument
        If one is not, or there is no unit.
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
    """Require a unit of every action; `name` says what one is.

    Raises
    ------
    InvalidArgument
        If an action has none.
    """
    for action, labels in enumerate(problem.action_labels):
        if not (actions == action).any():
            own = " in ".join(map(repr, labels.values()))
            raise InvalidArgument("assigned", f"must have a unit of every {name}, also {own}")


def units_until_each(actions: Actions, number: int, initial_pulls: float) -> int:
    """Return after how many units each of so many actions has its initial pulls, or nearly.

    A rare action must not use up the experiment: after a while the fewer are enough the longer it
    takes.

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
