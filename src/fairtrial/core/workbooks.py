"""Workbooks of Excel: the rows of the first sheet, as people see them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, time
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from fairtrial.core.cells import UnreadableCell
from fairtrial.core.reading import OLD_OFFICE, require_small_archive
from fairtrial.core.warning import warn_caller
from fairtrial.core.wording import plural
from fairtrial.errors import InvalidArgument, MissingExtra

__all__ = ["rows_of_workbook"]

_LITERAL = re.compile(r'"[^"]*"|\\.|\[[^\]]*\]')
"""Parts of a cell's number format that are shown literally, and its colours and conditions."""
_MERGED = re.compile(rb'<(?:\w+:)?mergeCell\b[^>]*\bref="([A-Z]+[0-9]+:[A-Z]+[0-9]+)"')
_HIDDEN = re.compile(rb'<(?:\w+:)?row\b[^>]*\bhidden="(?:1|true)"')
_STALE = re.compile(rb'<(?:\w+:)?calcPr\b[^>]*\bfullCalcOnLoad="(?:1|true)"')
_BROKEN = (BadZipFile, KeyError, ValueError, TypeError, SyntaxError, AttributeError)
"""What openpyxl raises for files that are no workbooks."""

_OF_A_FORMULA = (
    "is a formula that nobody has computed: the workbook was written by a program. Open it in a "
    "spreadsheet and save it again"
)
_OF_AN_ERROR = "is an error of the spreadsheet: correct it, or leave the cell blank"
_OF_A_MERGED_CELL = "is a part of merged cells: unmerge them, and fill in every cell"

Spot = tuple[int, int]
"""The row and the column of a cell, from 1."""


def rows_of_workbook(file: Path) -> Iterator[tuple[int, list[Any]]]:
    """Return the rows of the first sheet that are not empty, with their numbers.

    Raises
    ------
    InvalidArgument
        If the file is not a workbook.
    MissingExtra
        If the package that reads workbooks is not installed.

    Warns
    -----
    UserWarning
        If rows are hidden, which are read like the others, or other sheets are not read.
    """
    try:
        from openpyxl import load_workbook  # noqa: PLC0415 - optional
    except ImportError:
        raise MissingExtra(f"reading {file.name}", "excel") from None
    try:
        with file.open("rb") as stream:
            if stream.read(len(OLD_OFFICE)) == OLD_OFFICE:
                raise BadZipFile("it is an old .xls file, or has a password")
            require_small_archive(file, stream)
            book = load_workbook(stream, read_only=True, data_only=True)
            if not book.worksheets:
                return iter(())
            _warn_of_other_sheets(file, book)
            doubts = _Doubts(file, book.worksheets[0], load_workbook)
            doubts.warn_of_hidden_rows()
            return iter(_rows_of_page(book.worksheets[0], doubts))
    except _BROKEN as error:
        raise InvalidArgument("path", f"must be an Excel workbook ({error})", str(file)) from None


class _Doubts:
    """What makes cells of the first sheet unreadable: formulas without values, merged cells."""

    def __init__(self, file: Path, page: Any, load_workbook: Any) -> None:
        from openpyxl.utils.cell import range_boundaries  # noqa: PLC0415 - optional

        self._file = file
        self._load = load_workbook
        with ZipFile(file) as archive:
            source = archive.read(page._worksheet_path)  # noqa: SLF001 - it has no public name
            names = [name for name in archive.namelist() if name.endswith("workbook.xml")]
            about = b"".join(map(archive.read, names))
        # Some programs store 0 for every formula, and ask the spreadsheet to compute all again.
        self.are_stale = bool(_STALE.search(about))
        self._merged = [range_boundaries(ref.decode()) for ref in _MERGED.findall(source)]
        self._hidden = len(_HIDDEN.findall(source))

    def warn_of_hidden_rows(self) -> None:
        """Warn of rows that are read although nobody sees them."""
        if self._hidden:
            rows = f"{plural(self._hidden, 'row')} hidden by a filter or by hand"
            warn_caller(f"{self._file.name}: {rows} are read like the others")

    def is_merged(self, spot: Spot) -> bool:
        """Return whether a cell is part of merged cells, and not their first."""
        row, column = spot
        return any(
            low <= row <= high and left <= column <= right and spot != (low, left)
            for left, low, right, high in self._merged
        )

    def formulas(self) -> dict[Spot, str]:
        """Return the formulas of the sheet by row and column; reading them takes a second pass."""
        with self._file.open("rb") as stream:
            page = self._load(stream, read_only=True).worksheets[0]
            page.reset_dimensions()
            return {
                (cell.row, cell.column): str(getattr(cell.value, "text", cell.value))
                for row in page.iter_rows()
                for cell in row
                if cell.data_type == "f"
            }


def _warn_of_other_sheets(file: Path, book: Any) -> None:
    first, *others = book.worksheets
    filled = [page.title for page in others if _has_cells(page)]
    if filled:
        warn_caller(
            f"{file.name}: only the first sheet, {first.title!r}, is read, and not "
            f"{', '.join(map(repr, filled))}",
        )


def _has_cells(page: Any) -> bool:
    page.reset_dimensions()
    return any(cell is not None for row in page.iter_rows(values_only=True) for cell in row)


def _rows_of_page(page: Any, doubts: _Doubts) -> list[tuple[int, list[Any]]]:
    # The size that the file states may be wrong, or include a million empty rows.
    page.reset_dimensions()
    rows: list[tuple[int, list[Any]]] = []
    without_value: set[Spot] = set()
    for line, row in enumerate(page.iter_rows(), start=1):
        rows.append((line, [_content(cell) for cell in row]))
        # "str" is the type of a formula whose value is the empty text.
        without_value.update(
            (line, place)
            for place, cell in enumerate(row, start=1)
            if cell.value is None and cell.data_type != "str"
        )
    formulas = doubts.formulas() if without_value or doubts.are_stale else {}
    for spot in formulas:
        if doubts.are_stale or spot in without_value:
            _mark(rows, spot, formulas[spot], _OF_A_FORMULA)
    for spot in without_value - formulas.keys():
        if doubts.is_merged(spot):
            _mark(rows, spot, "", _OF_A_MERGED_CELL)
    return rows


def _mark(rows: list[tuple[int, list[Any]]], spot: Spot, content: str, problem: str) -> None:
    from openpyxl.utils.cell import get_column_letter  # noqa: PLC0415 - optional

    line, column = spot
    name = f"{get_column_letter(column)}{line}"
    rows[line - 1][1][column - 1] = UnreadableCell(content, f"in cell {name} {problem}")


def _content(cell: Any) -> Any:
    """Return the content of a cell: a number or text; a date as 2026-11-23.

    A number that is shown as 72% is returned as that text: .72 is stored, but 72 may be meant.
    """
    value = cell.value
    if value is None:
        return ""
    if cell.data_type == "e":
        return UnreadableCell(value, _OF_AN_ERROR)
    if isinstance(value, datetime):
        return value.isoformat(sep=" ") if value.time() != time() else value.date().isoformat()
    if isinstance(value, int | float) and "%" in _LITERAL.sub("", cell.number_format):
        return f"{100 * value:.15g}%"
    return value if isinstance(value, str | int | float) else str(value)
