"""Check that a row is a possible outcome of its pull."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fairtrial.causal._cell_model import cell_model_of
from fairtrial.errors import InvalidOutcome

if TYPE_CHECKING:
    from fairtrial.causal.problem import Problem
    from fairtrial.core.pull import Pull


def require_consistent(problem: Problem, pull: Pull, value: int, cell: Any) -> None:
    """Raise if a row is impossible under its own arm, or has another value than was forced.

    Parameters
    ----------
    problem : Problem
        The problem.
    pull : Pull
        The pull of the row.
    value : int
        Index of the row's value of the sensitive attribute.
    cell : int or sequence
        The row's cell, as `CellModel.encode` returns it.

    Raises
    ------
    InvalidOutcome
        If the row is impossible.
    """
    arm, mode = divmod(pull.action, len(problem.modes))
    if mode and value != mode - 1:
        forced = problem.values[mode - 1]
        raise InvalidOutcome(
            "outcome", f"must have the forced value {forced!r}", problem.values[value]
        )
    cell_model = cell_model_of(problem)
    if cell_model.is_tabulated:
        possible = cell_model.g[arm, value, cell] > 0.0
    else:
        possible = cell_model.log_weights(np.array([cell], float))[0, arm, value] > -np.inf
    if not possible:
        raise InvalidOutcome(
            "outcome",
            f"has probability zero under its own arm {pull.labels['arm']!r}: model and "
            "record disagree",
        )
