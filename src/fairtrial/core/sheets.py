"""Tables as files contain them: a header, rows of cells, and the line of each row."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, time
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any, TextIO
from zipfile import BadZipFile

from fairtrial.core.reading import read_bytes, readable, require_small_archive
from fairtrial.core.wording import plural
from fairtrial.errors import InvalidArgument, MissingExtra

__all__ = ["ENDINGS", "Sheet", "is_blank", "number_of", "number_or_text", "read_sheet"]

_COMMA, _SEMICOLON, _TAB = ",", ";", "\t"
_EITHER = "either"
_POINT = {_SEMICOLON: ",", _TAB: _EITHER}
"""The decimal separator, by column separator; a point for all others."""
ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".xlsx", ".parquet")
"""Endings of the files that can be read."""

_BLANK = frozenset({"", "na", "nan", "nat", "<na>", "none", "null"})
"""How tables write a missing value, in lower case."""
_TRUTH = {"true": 1.0, "false": 0.0}
_LITERAL = re.compile(r'"[^"]*"|\\.|\[[^\]]*\]')
"""Parts of a cell's number format that are shown literally, and its colours and conditions."""
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")


@dataclass(frozen=True)
class Sheet:
    """The content of a file.

    Parameters
    ----------
    file : Path
        The file that was read.
    header : list of str
        Names of the columns, all different.
    rows : list of list
        The cells: text, or numbers if the format has numbers.
    lines : list of int
        The line of the file, or row of the sheet, where people find each row.
    decimal : {".", ",", "either"}
        The decimal separator of numbers that are written as text.
    counted : {"line", "row"}
        What the numbers in `lines` count.
    """

    file: Path
    header: list[str]
    rows: list[list[Any]]
    lines: list[int]
    decimal: str = "."
    counted: str = "line"

    def cells(self, name: str) -> list[Any]:
        """Return a column as written."""
        place = self.header.index(name)
        return [row[place] for row in self.rows]

    def where(self, row: int) -> str:
        """Return the place where people find a row."""
        return f"{self.counted} {self.lines[row]}"

    def column(self, name: str, *, each: bool = False) -> list[Any]:
        """Return a column with decimal commas changed to points.

        If not all cells are then numbers, the column is returned as written: its commas may be part
        of labels. With `each`, every cell is decided on its own.
        """
        cells = self.cells(name)
        given = [cell for cell in cells if isinstance(cell, str) and not is_blank(cell)]
        if self.decimal == "." or (self.decimal == _EITHER and _may_be_thousands(given)):
            return cells
        if not each and not all(map(_is_number, map(_with_point, given))):
            return cells
        return [_with_point(cell) if isinstance(cell, str) else cell for cell in cells]


def read_sheet(path: str | Path) -> Sheet:
    r"""Return the content of a table with a header.

    Parameters
    ----------
    path : str or Path
        A file that ends in one of `ENDINGS`. The columns of a .csv file are separated by commas,
        semicolons or tabs: the separator that gives its header the most columns. With semicolons,
        ``0,5`` is one half; with tabs too, unless all such numbers could be thousands. Spreadsheets
        write numbers like this in countries with a decimal comma. From a workbook (.xlsx) the first
        sheet is read.

    Raises
    ------
    InvalidArgument
        If the file cannot be read, is not a table, or has no rows.
    MissingExtra
        If the package that reads such files is not installed.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "trial.csv"
    >>> _ = path.write_text("arm;reward\na;0,5\n\nb;0,25\n")
    >>> sheet = read_sheet(path)
    >>> sheet.column("reward"), sheet.lines
    (['0.5', '0.25'], [2, 4])
    """
    file = Path(path)
    ending = next((end for end in ENDINGS if file.name.lower().endswith(end)), None)
    if ending is None:
        raise InvalidArgument("path", f"must end in {', '.join(ENDINGS)}", str(path))
    with readable(file):
        sheet = _READERS.get(ending, _read_text)(file)
    if not sheet.rows:
        raise InvalidArgument("path", "must be a table with at least one row", str(file))
    return sheet


def is_blank(cell: Any) -> bool:
    """Return whether a cell is a missing value.

    Examples
    --------
    >>> is_blank(" "), is_blank("NA"), is_blank(float("nan")), is_blank(0)
    (True, True, True, False)
    """
    return cell is None or str(cell).strip().lower() in _BLANK


def number_of(cell: Any) -> float:
    """Return the number in a cell; 1 and 0 for "true" and "false" in upper or lower case.

    Raises
    ------
    ValueError, TypeError
        If it holds no number. Python reads "1_000" as a number, but no table means it as one.
    """
    if isinstance(cell, str):
        if "_" in cell:
            raise ValueError(cell)
        cell = _TRUTH.get(cell.strip().lower(), cell)
    return float(cell)


def number_or_text(cell: Any) -> Any:
    """Return a cell as a number if it is one, otherwise unchanged.

    Examples
    --------
    >>> number_or_text("0.5"), number_or_text("yes")
    (0.5, 'yes')
    """
    try:
        return number_of(cell)
    except (TypeError, ValueError):
        return cell


# ------------------------------------------------------------------------ text files


def _read_text(file: Path) -> Sheet:
    separator = _TAB if ".tsv" in file.name.lower()[-7:] else _separator_of(file)
    with _open_text(file) as stream:
        reader = _reader(stream, separator)
        try:
            header: list[str] = next(reader, [])
            _require_header(file, header)
            numbered = list(_rows_of_width(file, reader, len(header)))
        except csv.Error as error:
            line = max(reader.line_num, 1)
            raise InvalidArgument(
                "path", f"must be a well-formed table (line {line}: {error})", str(file)
            ) from error
    lines, rows = [line for line, _ in numbered], [row for _, row in numbered]
    return Sheet(file, header, rows, lines, _POINT.get(separator, "."))


def _reader(stream: TextIO, separator: str) -> Any:
    # Strict: a quote in the wrong place is an error, not a part of the value.
    return csv.reader(stream, delimiter=separator, strict=True)


def _separator_of(file: Path) -> str:
    """Return the separator that gives the header the most columns; a comma if there is a tie."""
    columns = {}
    for separator in (_COMMA, _SEMICOLON, _TAB):
        with _open_text(file) as stream:
            try:
                columns[separator] = len(next(_reader(stream, separator), []))
            except csv.Error:
                columns[separator] = 0
    return max(columns, key=lambda separator: columns[separator])


def _open_text(file: Path) -> TextIO:
    # utf-8-sig drops the byte order mark that spreadsheets put at the beginning.
    if file.name.lower().endswith(".gz"):
        return TextIOWrapper(BytesIO(read_bytes(file)), encoding="utf-8-sig", newline="")
    return file.open(encoding="utf-8-sig", newline="")


def _require_header(file: Path, header: list[str]) -> None:
    if not header:
        raise InvalidArgument("path", "must be a table with a header; it is empty", str(file))
    repeated = sorted({name for name in header if header.count(name) > 1})
    if repeated:
        raise InvalidArgument(
            "path",
            f"must have distinct column names; {', '.join(map(repr, repeated))} repeat",
            str(file),
        )


def _rows_of_width(file: Path, reader: Any, width: int) -> Iterator[tuple[int, list[str]]]:
    for row in reader:
        if not row:
            continue
        if len(row) != width:
            has = f"line {reader.line_num} has {len(row)}"
            accepted = f"must have {plural(width, 'value')} in every row; {has}"
            raise InvalidArgument("path", accepted, str(file))
        yield reader.line_num, row


# ----------------------------------------------------------------- Excel and Parquet


def _read_excel(file: Path) -> Sheet:
    try:
        from openpyxl import load_workbook  # noqa: PLC0415 - optional
    except ImportError:
        raise MissingExtra(f"reading {file.name}", "excel") from None
    with file.open("rb") as stream:
        try:
            require_small_archive(file, stream)
            book = load_workbook(stream, read_only=True, data_only=True)
            pages = book.worksheets
            numbered = list(_rows_of_page(pages[0])) if pages else []
        except (BadZipFile, KeyError, ValueError, TypeError, SyntaxError) as error:
            raise InvalidArgument(
                "path", f"must be an Excel workbook ({error})", str(file)
            ) from None
    if not numbered:
        raise InvalidArgument("path", "must be a table with a header; it is empty", str(file))
    header = [str(cell) for cell in numbered[0][1]]
    _require_header(file, header)
    width = len(header)
    for line, row in numbered[1:]:
        if len(row) > width:
            accepted = f"must have {plural(width, 'value')} in every row; row {line} has {len(row)}"
            raise InvalidArgument("path", accepted, str(file))
    rows = [[*row, *[""] * (width - len(row))] for _, row in numbered[1:]]
    return Sheet(file, header, rows, [line for line, _ in numbered[1:]], _EITHER, "row")


def _rows_of_page(page: Any) -> Iterator[tuple[int, list[Any]]]:
    """Yield the rows that are not empty, each up to its last cell with content."""
    # The size that the file states may be wrong, or include a million empty rows.
    page.reset_dimensions()
    for line, row in enumerate(page.iter_rows(), start=1):
        cells = [_excel_cell(cell) for cell in row]
        while cells and cells[-1] == "":
            cells.pop()
        if cells:
            yield line, cells


def _excel_cell(cell: Any) -> Any:
    """Return the content of a cell: a number or text; a date as 2026-11-23.

    A number that is shown as 72% is returned as that text: .72 is stored, but 72 may be meant.
    """
    value = cell.value
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.isoformat(sep=" ") if value.time() != time() else value.date().isoformat()
    if isinstance(value, int | float) and "%" in _LITERAL.sub("", cell.number_format):
        return f"{100 * value:.15g}%"
    return value if isinstance(value, str | int | float) else str(value)


def _read_parquet(file: Path) -> Sheet:
    with file.open("rb") as stream:
        stream.read(1)
    try:
        import pandas as pd  # noqa: PLC0415 - optional
        import pyarrow as pa  # noqa: PLC0415 - optional
    except ImportError:
        raise MissingExtra(f"reading {file.name}", "data") from None
    try:
        frame = pd.read_parquet(file)
    except (pa.ArrowException, ValueError) as error:
        raise InvalidArgument("path", f"must be a Parquet file ({error})", str(file)) from error
    header = [str(name) for name in frame.columns]
    columns = [frame[name].tolist() for name in frame.columns]
    rows = [list(row) for row in zip(*columns, strict=True)]
    return Sheet(file, header, rows, list(range(1, len(rows) + 1)), counted="row")


# --------------------------------------------------------------------- decimal commas


def _may_be_thousands(cells: Sequence[str]) -> bool:
    """Return whether every comma may separate thousands: 1,000 may be one thousand."""
    with_comma = [cell.strip() for cell in cells if _COMMA in cell]
    return all(_THOUSANDS.fullmatch(cell) for cell in with_comma)


def _with_point(cell: str) -> str:
    """Return a number with its decimal comma changed to a point; other text unchanged."""
    changed = cell.replace(_COMMA, ".")
    return changed if _is_number(changed) else cell


def _is_number(cell: str) -> bool:
    try:
        number_of(cell)
    except ValueError:
        return False
    return True


_READERS = {".xlsx": _read_excel, ".parquet": _read_parquet}
"""The function that reads a file, by ending; all others are text."""
