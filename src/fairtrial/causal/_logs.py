"""Read logs: convert columns of labels and numbers to rows for the estimators."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.causal._cell_model import Rows, cell_model_of
from fairtrial.causal._outcomes import LARGEST_SIZE, LEAST_SIZE, NO_SUCH_SIZE
from fairtrial.causal._states import positions_of
from fairtrial.core.cells import NotANumber, number_of
from fairtrial.core.frames import plain_data
from fairtrial.errors import InvalidArgument, InvalidOutcome

if TYPE_CHECKING:
    from fairtrial.causal.problem import Problem

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def encode_table(problem: Problem, table: Any, arm: str = "arm", mode: str = "s_mode") -> Rows:
    """Return the validated rows of a log.

    Raises
    ------
    InvalidArgument
        If a column is missing or lengths differ.
    InvalidOutcome
        If a value is refused; the message names row and column.
    """
    columns = columns_of(table, (arm, *problem.columns), (mode,))
    if len({len(column) for column in columns.values()}) != 1:
        raise InvalidArgument("rows", "must have columns of equal length")
    arms = positions_in_column(arm, columns[arm], problem.arm_labels)
    forced = np.zeros(len(arms), dtype=bool)
    if mode in columns:
        forced = forced_rows(problem, mode, columns[mode])
    numbers = _numbers(problem, columns[problem.outcome_node])
    cell_model = cell_model_of(problem)
    codes: dict[str, NDArray[Any]] = {}
    for node in (*problem.attributes, *cell_model.nodes):
        if node == problem.outcome_node:
            codes[node] = _outcome_codes(problem, numbers)
        elif problem.model.is_discrete(node):
            codes[node] = positions_in_column(node, columns[node], problem.model.states[node])
        else:
            codes[node] = _reals(node, columns[node])
    value, cells = cell_model.gather(codes)
    rows = Rows(arms, forced, value, cells, problem.scaled(numbers))
    cell_model.require_possible(rows)
    return rows


def columns_of(table: Any, needed: Sequence[str], optional: Sequence[str]) -> dict[str, Any]:
    """Return columns of a table, or of a sequence of rows, as lists."""
    table = plain_data(table)
    if isinstance(table, Sequence) and not isinstance(table, str):
        first = table[0] if table else {}
        names = [n for n in (*needed, *optional) if isinstance(first, Mapping) and n in first]
        try:
            table = {name: [row[name] for row in table] for name in names}
        except (KeyError, TypeError):
            raise InvalidArgument("rows", f"must all have the fields {', '.join(names)}") from None
    known = list(getattr(table, "columns", table if isinstance(table, Mapping) else []))
    columns = {}
    for name in (*needed, *optional):
        if name in known:
            column = table[name]
            columns[name] = column.tolist() if hasattr(column, "tolist") else list(column)
        elif name in needed:
            raise InvalidArgument("rows", f"must have the column {name!r}; there are {known}")
    return columns


def positions_in_column(name: str, values: Sequence[Any], labels: Sequence[str]) -> Integers:
    """Return the position of each value of a column among labels, shape (n,).

    Raises
    ------
    InvalidOutcome
        If a value is not a label; the message names the row.
    """
    codes = positions_of(values, labels)
    if (codes < 0).any():
        row = int(np.argmin(codes))
        known = ", ".join(map(repr, labels))
        raise InvalidOutcome(f"row {row}: {name}", f"must be one of {known}", values[row])
    return codes


def forced_rows(problem: Problem, mode: str, values: Sequence[Any]) -> NDArray[np.bool_]:
    """Return whether the sensitive attribute was forced in each row, shape (n,).

    Raises
    ------
    InvalidOutcome
        If a value is neither mode, or a row is forced although forcing is not allowed; the message
        names the row.
    """
    forced = positions_in_column(mode, values, ("natural", "forced")).astype(bool)
    if problem.forcing == "never" and forced.any():
        row = int(np.argmax(forced))
        accepted = "must be 'natural': the sensitive attribute is never forced"
        raise InvalidOutcome(f"row {row}: {mode}", accepted, "forced")
    return forced


def _reals(name: str, values: Sequence[Any]) -> Floats:
    try:
        # NumPy reads more texts as numbers than a table means, such as "1_000".
        has_text = any(isinstance(value, str) for value in values)
        given = [_float_or_nan(value) for value in values] if has_text else values
        numbers = np.array(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        numbers = np.array([_float_or_nan(value) for value in values])
    if not np.isfinite(numbers).all():
        row = int(np.argmin(np.isfinite(numbers)))
        raise InvalidOutcome(f"row {row}: {name}", "must be a finite number", values[row])
    return numbers


def _float_or_nan(value: Any) -> float:
    try:
        return number_of(value)
    except NotANumber:
        return math.nan


def _numbers(problem: Problem, values: Sequence[Any]) -> Floats:
    """Return the outcomes as numbers, checked against their range."""
    name = problem.outcome_node
    if problem.outcome_values is not None:
        known = problem.outcome_values
        values = [known.get(value, value) if isinstance(value, str) else value for value in values]
    numbers = _reals(name, values)
    if problem.outcome_range is not None:
        low, high = problem.outcome_range
        inside = (numbers >= low) & (numbers <= high)
        if not inside.all():
            row = int(np.argmin(inside))
            raise InvalidOutcome(
                f"row {row}: {name}", f"must lie in [{low:g}, {high:g}]", values[row]
            )
        return numbers
    size = np.abs(numbers)
    usual = (size == 0.0) | ((size >= LEAST_SIZE) & (size <= LARGEST_SIZE))
    if not usual.all():
        row = int(np.argmin(usual))
        raise InvalidOutcome(f"row {row}: {name}", NO_SUCH_SIZE, values[row])
    return numbers


def _outcome_codes(problem: Problem, numbers: Floats) -> Integers:
    known = problem.outcome_positions
    codes = np.array([known.get(number, -1) for number in numbers.tolist()], dtype=np.int64)
    if (codes < 0).any():
        row = int(np.argmin(codes))
        listed = ", ".join(f"{number:g}" for number in known)
        raise InvalidOutcome(
            f"row {row}: {problem.outcome_node}", f"must be one of {listed}", float(numbers[row])
        )
    return codes
