"""Read arms from a tidy table with one row for every arm and combination of parents' states."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.causal._states import positions_of, state_label
from fairtrial.errors import InvalidArgument

if TYPE_CHECKING:
    from fairtrial.causal.model import CausalModel

Floats = NDArray[np.float64]

ARM, PROBABILITY = "arm", "probability"


def is_table(arms: Any) -> bool:
    """Return whether arms are given as a DataFrame or as a sequence of rows."""
    if hasattr(arms, "columns") and hasattr(arms, "to_dict"):
        return True
    is_sequence = isinstance(arms, Sequence) and not isinstance(arms, str)
    return is_sequence and bool(arms) and all(isinstance(row, Mapping) for row in arms)


def arms_from_table(model: CausalModel, intervened: str, table: Any) -> dict[str, Floats]:
    """Return every arm's distribution, shape (states of the first parent, ..., own states).

    The table has the column `arm` and one column for every parent. In addition, it has either one
    column for every state of the intervened node, with its probability, or a column for the
    intervened node and the column `probability`.

    Raises
    ------
    InvalidArgument
        If a column is missing, a state is unknown, a probability is not a number, or a combination
        is given twice or not at all; the message names the row.
    """
    rows = table.to_dict("records") if hasattr(table, "columns") else list(table)
    parents, states = model.parents(intervened), model.states.get(intervened, ())
    present = {str(name) for name in (rows[0] if rows else {})}
    is_long = {intervened, PROBABILITY} <= present
    if not {ARM, *parents} <= present or not (is_long or (states and set(states) <= present)):
        needed = ", ".join(map(repr, (ARM, *parents)))
        wide = ", ".join(map(repr, states)) or "its states"
        accepted = (
            f"must have the columns {needed}, and either {intervened!r} and {PROBABILITY!r} or one "
            f"for the probability of each state: {wide}"
        )
        raise InvalidArgument("arms", accepted, sorted(present))
    shape = tuple(model.size(node) for node in parents)
    arms: dict[str, Floats] = {}
    for number, given in enumerate(rows):
        row = {str(name): value for name, value in given.items()}
        place = tuple(_position(model, node, row, number) for node in parents)
        label = state_label(_value(row, ARM, number))
        arm = arms.setdefault(label, np.full((*shape, len(states)), np.nan))
        if is_long:
            entries = {_position(model, intervened, row, number): PROBABILITY}
        else:
            entries = dict(enumerate(states))
        for state, column in entries.items():
            if not math.isnan(arm[(*place, state)]):
                raise InvalidArgument(
                    "arms", f"must give every probability once; row {number} repeats one"
                )
            arm[(*place, state)] = _probability(row, column, number)
    return {label: _complete(model, parents, label, arm) for label, arm in arms.items()}


def _value(row: Mapping[str, Any], column: str, number: int) -> Any:
    if column not in row:
        raise InvalidArgument("arms", f"must have {column!r} in every row; row {number} has none")
    return row[column]


def _position(model: CausalModel, node: str, row: Mapping[str, Any], number: int) -> int:
    value = _value(row, node, number)
    position = int(positions_of([value], model.states[node])[0])
    if position < 0:
        known = ", ".join(map(repr, model.states[node]))
        raise InvalidArgument("arms", f"row {number}: {node} must be one of {known}", value)
    return position


def _probability(row: Mapping[str, Any], column: str, number: int) -> float:
    value = _value(row, column, number)
    try:
        result = float(value)
    except (TypeError, ValueError, OverflowError):
        result = math.nan
    if not 0.0 <= result <= 1.0:
        raise InvalidArgument("arms", f"row {number}: {column} must be from 0 to 1", value)
    return result


def _complete(model: CausalModel, parents: tuple[str, ...], label: str, arm: Floats) -> Floats:
    """Return the arm with zeros for states that a combination's rows leave out."""
    missing = np.isnan(arm).all(axis=-1)
    if missing.any():
        place = np.argwhere(missing)[0]
        named = zip(parents, place, strict=True)
        where = ", ".join(f"{node}={model.states[node][state]}" for node, state in named)
        raise InvalidArgument("arms", f"must have a row of {label!r} for {where or 'every state'}")
    return np.nan_to_num(arm)
