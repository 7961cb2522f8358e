"""Columns of a table as numbers or labels, wherever the table comes from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any

from fairtrial.core.cells import NotANumber, NumberFormat, is_blank, labels_in, tidy
from fairtrial.errors import InvalidArgument

__all__ = ["Columns"]


class Columns(ABC):
    """The columns of a table.

    Parameters
    ----------
    usual : {".", None}
        The usual decimal separator of numbers that are written as text in such a table.
    decimal : {".", ",", None}
        The decimal separator that somebody has stated.
    """

    usual: str | None
    decimal: str | None

    @abstractmethod
    def cells(self, name: str) -> list[Any]:
        """Return a column as written.

        Raises
        ------
        InvalidArgument
            If there is no such column.
        """

    @abstractmethod
    def where(self, row: int) -> str:
        """Return the place where people find a row."""

    @abstractmethod
    def has(self, name: str) -> bool:
        """Return whether there is such a column."""

    def format_of(self, name: str) -> NumberFormat:
        """Return how the numbers of a column are written."""
        return NumberFormat.of(self.cells(name), self.usual, self.decimal)

    def labels(self, name: str) -> list[str]:
        """Return a column as labels: text, even if every cell is a number.

        Raises
        ------
        InvalidArgument
            If there is no such column, or a cell is unreadable.
        """
        return labels_in(self.cells(name), name, self.where)

    def numbers(self, name: str, others: Collection[str] = ()) -> list[float | None]:
        """Return a column as numbers; None for a blank cell, and for the words in `others`.

        Raises
        ------
        InvalidArgument
            If there is no such column, or a cell holds no number: the error names its line.
        """
        written = self.format_of(name)
        found: list[float | None] = []
        for row, cell in enumerate(self.cells(name)):
            if is_blank(cell) or (others and tidy(str(cell)).lower() in others):
                found.append(None)
                continue
            try:
                found.append(written.number(cell))
            except NotANumber as error:
                raise InvalidArgument(f"{self.where(row)}: {name}", str(error), cell) from None
        return found

    def values(self, name: str) -> list[Any]:
        """Return a column as numbers if all its cells that are not blank are, otherwise as labels.

        Raises
        ------
        InvalidArgument
            If there is no such column, if a cell is unreadable, or if the column does not show
            which numbers its cells are.
        """
        settled = self.format_of(name).settled
        given = [cell for cell in self.cells(name) if not is_blank(cell)]
        if not given or not all(map(settled.reads, given)):
            return self.labels(name)
        return self.numbers(name)
