"""The rows seen so far, in the smallest form that the estimators allow."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.errors import InvalidArgument

if TYPE_CHECKING:
    from fairtrial.causal._cell_model import CellModel, Rows

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Sums of density ratios beyond exp(690) would overflow.
_LARGEST_LOG = 690.0


class LedgerRecords(NamedTuple):
    """Distinct rows with their number, sum and sum of squares of outcomes.

    `ratio`, shape (n, K, values), is the weight of every arm and value in a row's cell, relative to
    the weight of the row's own arm and value.
    """

    arm: Integers
    forced: NDArray[np.bool_]
    value: Integers
    number: Floats
    total: Floats
    squares: Floats
    cells: NDArray[Any]
    ratio: Floats

    def pick(self, chosen: NDArray[Any]) -> LedgerRecords:
        """Return some of the records."""
        return LedgerRecords(*(column[chosen] for column in self))


class CellLedger:
    """Sums of rows by arm, mode, value and cell: the size does not grow with the rows."""

    fields = ("ledger_places", "ledger_sums")

    def __init__(self, cell_model: CellModel) -> None:
        self._cell_model = cell_model
        arms = cell_model.problem.n_arms
        self._shape = (arms, 2, cell_model.n_values, cell_model.n_cells)
        self._sums = np.zeros((3, int(np.prod(self._shape))))

    def add_one(self, arm: int, forced: bool, value: int, cell: Any, outcome: float) -> None:
        """Add one row."""
        _, modes, values, cells = self._shape
        place = ((arm * modes + forced) * values + value) * cells + cell
        sums = self._sums
        sums[0, place] += 1.0
        sums[1, place] += outcome
        sums[2, place] += outcome * outcome

    def add(self, rows: Rows) -> None:
        """Add many rows, in their order."""
        place = np.ravel_multi_index(
            (rows.arm, rows.forced.astype(np.int64), rows.value, rows.cells), self._shape
        )
        np.add.at(self._sums[0], place, 1.0)
        np.add.at(self._sums[1], place, rows.outcome)
        np.add.at(self._sums[2], place, rows.outcome * rows.outcome)

    def clear(self) -> None:
        """Remove all rows."""
        self._sums[:] = 0.0

    def records(self) -> LedgerRecords:
        """Return the distinct rows."""
        place = np.flatnonzero(self._sums[0])
        arm, forced, value, cells = np.unravel_index(place, self._shape)
        count, total, squares = self._sums[:, place]
        weights = self._weights[cells]
        own = weights[np.arange(len(place)), arm, value]
        ratio = weights / own[:, None, None]
        return LedgerRecords(arm, forced.astype(bool), value, count, total, squares, cells, ratio)

    @cached_property
    def _weights(self) -> Floats:
        return np.ascontiguousarray(self._cell_model.g.transpose(2, 0, 1))

    def get_state(self) -> dict[str, NDArray[Any]]:
        """Return the sums that are not zero, and their positions."""
        place = np.flatnonzero(self._sums[0])
        return {"ledger_places": place, "ledger_sums": self._sums[:, place]}

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from a state."""
        self.clear()
        self._sums[:, np.asarray(state["ledger_places"], dtype=np.int64)] = state["ledger_sums"]


class RowLedger:
    """All single rows, for cells that cannot be listed."""

    fields = ("ledger_keys", "ledger_cells", "ledger_outcomes")

    def __init__(self, cell_model: CellModel) -> None:
        self._cell_model = cell_model
        self._size = 0
        self._keys = np.empty((64, 3), dtype=np.int64)
        self._cells = np.empty((64, len(cell_model.nodes)))
        self._outcomes = np.empty(64)

    def add_one(self, arm: int, forced: bool, value: int, cell: Any, outcome: float) -> None:
        """Add one row."""
        self._reserve(self._size + 1)
        self._keys[self._size] = arm, forced, value
        self._cells[self._size] = cell
        self._outcomes[self._size] = outcome
        self._size += 1

    def add(self, rows: Rows) -> None:
        """Add many rows, in their order."""
        end = self._size + len(rows.arm)
        self._reserve(end)
        self._keys[self._size : end] = np.column_stack([rows.arm, rows.forced, rows.value])
        self._cells[self._size : end] = rows.cells
        self._outcomes[self._size : end] = rows.outcome
        self._size = end

    def _reserve(self, size: int) -> None:
        if size > len(self._keys):
            extra = max(size, 2 * len(self._keys)) - len(self._keys)
            self._keys = np.pad(self._keys, ((0, extra), (0, 0)))
            self._cells = np.pad(self._cells, ((0, extra), (0, 0)))
            self._outcomes = np.pad(self._outcomes, (0, extra))

    def clear(self) -> None:
        """Remove all rows."""
        self._size = 0

    def records(self) -> LedgerRecords:
        """Return the rows."""
        arm, forced, value = self._keys[: self._size].T
        cells = self._cells[: self._size]
        outcome = self._outcomes[: self._size]
        rows = LedgerRecords(
            arm,
            forced.astype(bool),
            value,
            np.ones(self._size),
            outcome,
            outcome * outcome,
            cells,
            np.empty(0),
        )
        return reweighted(rows, self._cell_model)

    def get_state(self) -> dict[str, NDArray[Any]]:
        """Return the rows."""
        return {
            "ledger_keys": self._keys[: self._size].copy(),
            "ledger_cells": self._cells[: self._size].copy(),
            "ledger_outcomes": self._outcomes[: self._size].copy(),
        }

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from a state."""
        self._size = len(state["ledger_keys"])
        self._keys = np.array(state["ledger_keys"], dtype=np.int64)
        self._cells = np.array(state["ledger_cells"], dtype=np.float64)
        self._outcomes = np.array(state["ledger_outcomes"], dtype=np.float64)


Ledger = CellLedger | RowLedger


def reweighted(records: LedgerRecords, cell_model: CellModel) -> LedgerRecords:
    """Return the records with the weights of another model of the same shape."""
    logs = cell_model.log_weights(records.cells)
    own = logs[np.arange(len(records.arm)), records.arm, records.value]
    ratio = np.exp(np.minimum(logs - own[:, None, None], _LARGEST_LOG))
    return records._replace(ratio=ratio)


def open_ledger(cell_model: CellModel) -> Ledger:
    """Return an empty ledger that suits the problem."""
    return CellLedger(cell_model) if cell_model.is_tabulated else RowLedger(cell_model)


def require_fields(ledger: Ledger, state: Mapping[str, Any], prefix: str = "") -> None:
    """Raise if a state lacks a part of the ledger."""
    for name in ledger.fields:
        if prefix + name not in state:
            raise InvalidArgument("state", f"must have the field {prefix + name!r}", sorted(state))
