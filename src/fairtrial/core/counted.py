"""Tables of counts, as warehouses give them: each row stands for several units."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.cells import NumberFormat
from fairtrial.core.columns import Columns
from fairtrial.errors import InvalidArgument

__all__ = ["MOST_UNITS", "CountedUnits"]

MOST_UNITS = 10_000_000
"""The most units of a table of counts: each is analysed as a row of its own."""


class CountedUnits(Columns):
    """The units of a table of counts, one row per unit, in random order.

    The units of a row differ in nothing that the table shows, so their order must not show anything
    either: any order of the rows, such as one by outcome, would otherwise be that of the units.

    Parameters
    ----------
    table : Columns
        The table of counts.
    count : str
        The column with the number of units of each row.
    successes : str, optional
        The column with the number of those units whose outcome is 1; that of the others is 0. The
        units then have their outcome in the column of this name.

    Raises
    ------
    InvalidArgument
        If a column is missing, a count is not a whole number from 0, there are more successes than
        units, or there are no units or more than 10,000,000.

    Examples
    --------
    >>> from fairtrial.core.tables import open_table
    >>> table = {"arm": ["old", "new"], "users": [2, 3], "bought": [0, 1]}
    >>> units = CountedUnits(open_table(table), "users", "bought")
    >>> sorted(zip(units.labels("arm"), units.numbers("bought")))
    [('new', 0.0), ('new', 0.0), ('new', 1.0), ('old', 0.0), ('old', 0.0)]
    """

    def __init__(self, table: Columns, count: str, successes: str | None = None) -> None:
        self._table = table
        self._successes = successes
        self.usual, self.decimal = table.usual, table.decimal
        self._counts = self._whole_numbers(count)
        if successes is not None:
            if successes == count:
                raise InvalidArgument("successes", "must be another column than count", successes)
            self._require_fewer_successes(successes)
        total = int(self._counts.sum())
        if not 0 < total <= MOST_UNITS:
            accepted = f"must have from 1 to {MOST_UNITS:,} units together"
            raise InvalidArgument(f"table: {count}", accepted, total)

    def _whole_numbers(self, name: str) -> NDArray[np.int64]:
        numbers = self._table.numbers(name)
        for row, number in enumerate(numbers):
            if number is None or not (0.0 <= number <= MOST_UNITS and number.is_integer()):
                accepted = f"must be a whole number from 0 to {MOST_UNITS:,}"
                raise InvalidArgument(f"{self._table.where(row)}: {name}", accepted, number)
        return np.array(numbers, dtype=np.int64)

    def _require_fewer_successes(self, successes: str) -> None:
        ones = self._whole_numbers(successes)
        if len(ones) != len(self._counts):
            raise InvalidArgument("table", "must have columns of equal length", successes)
        for row in np.flatnonzero(ones > self._counts)[:1].tolist():
            accepted = f"must be at most the number of units, {self._counts[row]:,}"
            raise InvalidArgument(
                f"{self._table.where(row)}: {successes}", accepted, int(ones[row])
            )

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        """Which unit comes first: a fixed order that does not depend on the table."""
        return np.random.default_rng(0).permutation(int(self._counts.sum()))

    @cached_property
    def _row_of(self) -> list[int]:
        """The row of every unit."""
        rows: list[int] = np.repeat(np.arange(len(self._counts)), self._counts)[
            self._order
        ].tolist()
        return rows

    def _outcomes(self) -> list[float]:
        """Return 1 for the first units of a row, its successes, and 0 for the others."""
        starts = np.repeat(np.cumsum(self._counts) - self._counts, self._counts)
        place = np.arange(len(starts)) - starts
        ones = np.repeat(self._whole_numbers(str(self._successes)), self._counts)
        outcomes: list[float] = (place < ones)[self._order].astype(np.float64).tolist()
        return outcomes

    def _of_units(self, name: str, column: list[Any]) -> list[Any]:
        if len(column) != len(self._counts):
            raise InvalidArgument("table", "must have columns of equal length", name)
        return [column[row] for row in self._row_of]

    def cells(self, name: str) -> list[Any]:
        """Return a column of the units; that of the successes holds their outcomes."""
        if name == self._successes:
            return self._outcomes()
        return self._of_units(name, self._table.cells(name))

    def where(self, row: int) -> str:
        """Return the place of a unit's row in the table of counts."""
        return self._table.where(self._row_of[row])

    @property
    def names(self) -> list[str]:
        """The names of all columns."""
        return self._table.names

    def has(self, name: str) -> bool:
        """Return whether there is such a column."""
        return self._table.has(name)

    # Every cell of the table is read once, not once for each of its units.

    def format_of(self, name: str) -> NumberFormat:
        """Return how the numbers of a column are written."""
        return self._table.format_of(name)

    def labels(self, name: str) -> list[str]:
        """Return a column of the units as labels."""
        return self._of_units(name, self._table.labels(name))

    def numbers(self, name: str, others: Collection[str] = ()) -> list[float | None]:
        """Return a column of the units as numbers."""
        if name == self._successes:
            return list(self._outcomes())
        return self._of_units(name, self._table.numbers(name, others))
