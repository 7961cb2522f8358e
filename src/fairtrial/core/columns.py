"""Columns of a table as numbers or labels, wherever the table comes from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any, NamedTuple

from fairtrial.core.cells import MIXED, NotANumber, NumberFormat, is_blank, labels_in, tidy
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

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """The names of all columns."""

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
        read = self._read(name, others)
        if read.refused:
            raise self._refusal(name, read, next(iter(read.refused)))
        return read.numbers

    def values(
        self, name: str, others: Collection[str] = (), *, mixed: bool = True
    ) -> list[float | None] | list[str]:
        """Return a column as numbers if all its given cells are, otherwise as labels.

        Parameters
        ----------
        name : str
            The column.
        others : collection of str
            Words that are no number and no label, in lower case, besides blank cells.
        mixed : bool
            Whether a column in which most cells are numbers, and others not, is one of labels;
            otherwise it is refused.

        Raises
        ------
        InvalidArgument
            If there is no such column, if a cell is unreadable, if the column does not show
            which numbers its cells are, or if it is mixed and must not be.
        """
        read = self._read(name, others)
        settled = read.format.settled
        odd = [row for row in read.refused if not settled.reads(read.cells[row])]
        if not mixed and odd and 2 * len(odd) < len(read.cells):
            raise self._refusal(name, read, odd[0], MIXED)
        if odd or (all(number is None for number in read.numbers) and not read.refused):
            return labels_in(read.cells, name, self.where)
        if read.refused:
            raise self._refusal(name, read, next(iter(read.refused)))
        return read.numbers

    def _read(self, name: str, others: Collection[str]) -> _Read:
        """Read each cell of a column once."""
        cells = self.cells(name)
        written = NumberFormat.of(cells, self.usual, self.decimal)
        numbers: list[float | None] = []
        refused: dict[int, NotANumber] = {}
        # Each text is read once: columns of a million rows often have few values.
        known: dict[str, float | None] = {}
        for row, cell in enumerate(cells):
            is_text = type(cell) is str
            if is_text and cell in known:
                numbers.append(known[cell])
                continue
            number = None
            if not (is_blank(cell) or (others and tidy(str(cell)).lower() in others)):
                try:
                    number = written.number(cell)
                except NotANumber as error:
                    refused[row] = error
                    is_text = False
            numbers.append(number)
            if is_text:
                known[cell] = number
        return _Read(cells, written, numbers, refused)

    def _refusal(self, name: str, read: _Read, row: int, hint: str = "") -> InvalidArgument:
        accepted = f"{read.refused[row]}{hint}"
        return InvalidArgument(f"{self.where(row)}: {name}", accepted, read.cells[row])


class _Read(NamedTuple):
    """A column: its cells, how its numbers are written, and the rows that hold no number."""

    cells: list[Any]
    format: NumberFormat
    numbers: list[float | None]
    refused: dict[int, NotANumber]
