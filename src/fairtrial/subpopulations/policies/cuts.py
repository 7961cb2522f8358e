"""A finished experiment as block betting reads it: cut into blocks by its assignments alone."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.errors import InvalidArgument
from fairtrial.subpopulations._kernels.block_state import Rules
from fairtrial.subpopulations.problem import Problem

__all__ = ["ASSIGNED", "Cuts"]

ASSIGNED = (
    "units are in the order in which they were assigned, and neither that order nor which arm a "
    "unit got depends on outcomes of the same block"
)
"""What the analysis of a finished experiment assumes of its assignments."""

_PATIENCE = 4
"""Rows for each initial pull of each cell, after which fewer initial pulls are enough."""


class Cuts:
    """The blocks of a finished experiment.

    They follow from the assignments alone, before any outcome is looked at, and whether a block
    ends somewhere follows from the units up to there: so it does not matter why the experiment
    ended where it did. First come units on which nothing is bet, until every cell has its initial
    pulls; then blocks that grow with what is before them. What is left does not fill a block, and
    is not bet on.

    Parameters
    ----------
    assigned : array-like of int
        The action of every unit, in the order of assignment.
    problem : Problem
        The problem.
    rules : Rules
        The constants of the method.

    Raises
    ------
    InvalidArgument
        If an action is none of the problem's, or a cell has no unit.

    Attributes
    ----------
    actions : ndarray of int
        The action of every unit.
    starts : dict of int to int
        Where each block begins, and where it ends.
    rest : int
        Where what fills no block begins.
    """

    def __init__(self, assigned: ArrayLike, problem: Problem, rules: Rules) -> None:
        self.actions = _checked(assigned, problem)
        self._shape = problem.shape
        self.starts: dict[int, int] = {}
        start = self._initial_units(rules.initial_pulls)
        while start < len(self.actions):
            size = max(math.ceil(rules.growth * start), int(rules.touch) * problem.n_actions)
            if start + size > len(self.actions):
                break
            self.starts[start] = start + size
            start += size
        self.rest = start

    def _initial_units(self, initial_pulls: float) -> int:
        """Return after how many units every cell has its initial pulls, or nearly.

        A rare cell must not use up the experiment: after a while the fewer are enough the longer
        it takes.
        """
        cells = math.prod(self._shape)
        wanted = max(1.0, initial_pulls)
        counts = np.zeros(cells)
        for unit, action in enumerate(self.actions, start=1):
            counts[action] += 1.0
            enough = wanted * min(1.0, _PATIENCE * wanted * cells / unit)
            if counts.min() >= max(1.0, enough):
                return unit
        return len(self.actions)

    @property
    def last_block(self) -> int:
        """Units of the last block, which is the largest."""
        return max((end - start for start, end in self.starts.items()), default=0)

    def counts_from(self, start: int) -> NDArray[np.float64]:
        """Return how many units of the block that begins there each cell has, shape (K, L)."""
        within = self.actions[start : self.starts[start]]
        counts = np.bincount(within, minlength=math.prod(self._shape))
        return counts.astype(np.float64).reshape(self._shape)


def _checked(assigned: ArrayLike, problem: Problem) -> NDArray[np.int64]:
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
    for action, labels in enumerate(problem.action_labels):
        if not (actions == action).any():
            cell = " in ".join(map(repr, labels.values()))
            raise InvalidArgument("assigned", f"must have a unit of every cell, also {cell}")
    return actions.astype(np.int64)
