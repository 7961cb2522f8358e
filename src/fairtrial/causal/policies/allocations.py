"""How the actions of a finished experiment were chosen, as probabilities by unit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairtrial.confidence.block_betting.cuts import actions_of
from fairtrial.core.validation import as_floats
from fairtrial.errors import InvalidArgument

if TYPE_CHECKING:
    from fairtrial.causal.problem import Problem

__all__ = ["FIXED", "FOLLOWED", "allocation_of"]

Floats = NDArray[np.float64]

FIXED = "fixed"
"""Actions were fixed, or drawn, without using outcomes of the same block."""

FOLLOWED = "any"
"""Each action is an arbitrary function of the rows before it."""

_MOST_NUMBERS = 20_000_000
_ROUNDING = 1e-6


def allocation_of(problem: Problem, assigned: ArrayLike | None, given: str | ArrayLike) -> Floats:
    """Return the probabilities of all actions for every unit; no rows if they were fixed.

    Raises
    ------
    InvalidArgument
        If these are not probabilities, do not fit a finished experiment, or an assigned action
        had probability 0.
    """
    none: Floats = np.zeros((0, problem.n_actions))
    if isinstance(given, str) and given == FIXED:
        return none
    if assigned is None:
        raise InvalidArgument("allocation", "is only for assigned actions", given)
    actions = actions_of(assigned, problem)
    if len(actions) * problem.n_actions > _MOST_NUMBERS:
        accepted = f"must be {FIXED!r} with more than {_MOST_NUMBERS // problem.n_actions:,} units"
        raise InvalidArgument("allocation", accepted, len(actions))
    if isinstance(given, str) and given == FOLLOWED:
        return np.asarray(np.eye(problem.n_actions)[actions])
    return _recorded(problem, actions, given)


def _recorded(problem: Problem, actions: NDArray[np.int64], given: Any) -> Floats:
    shape = (len(actions), problem.n_actions)
    accepted = f"must be {FIXED!r}, {FOLLOWED!r} or probabilities of shape {shape}"
    if isinstance(given, str):
        raise InvalidArgument("allocation", accepted, given)
    array = as_floats("allocation", given, accepted)
    if array.shape != shape:
        raise InvalidArgument("allocation", accepted, array.shape)
    wrong = ~(np.isfinite(array) & (array >= 0.0)).all(axis=1)
    wrong |= np.abs(array.sum(axis=1) - 1.0) > _ROUNDING
    if wrong.any():
        unit = int(np.argmax(wrong))
        accepted = "must be probabilities that sum to 1"
        raise InvalidArgument(f"allocation, unit {unit}", accepted, array[unit].tolist())
    impossible = array[np.arange(len(actions)), actions] == 0.0
    if impossible.any():
        unit = int(np.argmax(impossible))
        accepted = "must be positive for the action that the unit got"
        raise InvalidArgument(f"allocation, unit {unit}", accepted, int(actions[unit]))
    return np.asarray(array / array.sum(axis=1, keepdims=True))
