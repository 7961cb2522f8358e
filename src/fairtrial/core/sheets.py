"""Tables as files contain them: a header, rows of cells, and the line of each row."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from fairtrial.core.cells import check_decimal, tidy
from fairtrial.core.columns import Columns
from fairtrial.core.frames import arrow_library, plain_data
from fairtrial.core.mistakes import did_you_mean
from fairtrial.core.reading import read_bytes, readable, require_table, text_of
from fairtrial.core.wording import plural
from fairtrial.core.workbooks import rows_of_workbook
from fairtrial.errors import InvalidArgument

__all__ = ["ENDINGS", "Sheet", "naming_lines", "read_sheet"]

_COMMA, _SEMICOLON, _TAB = ",", ";", "\t"
_USUAL = {_COMMA: "."}
"""The usual decimal separator, by column separator: others are written in all countries."""
ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".xlsx", ".parquet")
"""Endings of the files that can be read."""
_OTHER_TABLES = (".xls", ".xlsm", ".xlsb", ".ods", ".numbers")

_ROW = re.compile(r"(?:table )?row (\d+)\b")
_LONGEST_CELL = 1_000_000

Row = tuple[int, list[Any]]
"""The line of a row, and its cells."""


@dataclass(frozen=True)
class Sheet(Columns):
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
    usual : {".", None}
        The usual decimal separator of numbers that are written as text in such a file.
    counted : {"line", "row"}
        What the numbers in `lines` count.
    decimal : {".", ",", None}
        The decimal separator that somebody has stated.
    """

    file: Path
    header: list[str]
    rows: list[list[Any]]
    lines: list[int]
    usual: str | None = "."
    counted: str = "line"
    decimal: str | None = None

    def cells(self, name: str) -> list[Any]:
        """Return a column as written.

        Raises
        ------
        InvalidArgument
            If there is no such column.
        """
        if name not in self.header:
            accepted = f"must have the column {name!r}; {did_you_mean(name, self.header)}"
            raise InvalidArgument("table", accepted, self.file.name)
        place = self.header.index(name)
        return [row[place] for row in self.rows]

    def where(self, row: int) -> str:
        """Return the place where people find a row."""
        return f"{self.counted} {self.lines[row]}"

    @property
    def names(self) -> list[str]:
        """The names of all columns."""
        return list(self.header)

    def has(self, name: str) -> bool:
        """Return whether there is such a column."""
        return name in self.header


def read_sheet(path: str | Path, decimal: str | None = None) -> Sheet:
    r"""Return the content of a table with a header.

    Parameters
    ----------
    path : str or Path
        A file that ends in one of `ENDINGS`. docs/reference/tables.md says what is read. The
        columns of a .csv file are separated by commas, semicolons or tabs: as its first line
        ``sep=;`` says, or by what gives its header the most columns. From a workbook (.xlsx) the
        first sheet is read.
    decimal : {".", ","}, optional
        The decimal separator of numbers written as text. By default each column decides, and is
        refused if it does not show it.

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
    >>> sheet.numbers("reward"), sheet.lines
    ([0.5, 0.25], [2, 4])
    """
    check_decimal(decimal)
    file = Path(path)
    name = file.name.lower()
    ending = next((end for end in ENDINGS if name.endswith(end)), None)
    if ending is None:
        hint = "; save it as .xlsx or .csv" if name.endswith(_OTHER_TABLES) else ""
        raise InvalidArgument("path", f"must end in {', '.join(ENDINGS)}{hint}", str(path))
    with readable(file):
        header, rows, usual = _READERS.get(ending, _read_text)(file)
    if not rows:
        raise InvalidArgument("path", "must be a table with at least one row", str(file))
    lines, cells = [line for line, _ in rows], [row for _, row in rows]
    counted = "row" if ending in _READERS else "line"
    return Sheet(file, header, cells, lines, usual, counted, decimal)


@contextmanager
def naming_lines(sheet: Sheet) -> Iterator[None]:
    """Let errors about a row of the table, counted from 0, name the line of the file."""
    try:
        yield
    except InvalidArgument as error:
        found = _ROW.match(error.name)
        if found is None or int(found[1]) >= len(sheet.rows):
            raise
        name = _ROW.sub(sheet.where(int(found[1])), error.name, count=1)
        raise type(error)(name, error.accepted, error.given) from None


# ------------------------------------------------------------------------ text files


def _read_text(file: Path) -> tuple[list[str], list[Row], str | None]:
    content = read_bytes(file)
    require_table(file, content)
    text = text_of(file, content)
    stated, text, before = _stated_separator(text)
    separator = _TAB if ".tsv" in file.name.lower()[-7:] else stated or _separator_of(text)
    header, rows = _as_table(file, "line", _text_rows(file, text, separator, before))
    return header, rows, _USUAL.get(separator)


def _stated_separator(text: str) -> tuple[str | None, str, int]:
    """Return the separator in a first line such as ``sep=;``, the text after it, and its lines."""
    first, end, rest = text.partition("\n")
    name, equals, separator = first.rstrip("\r").strip('"').partition("=")
    if not equals or name.strip().lower() != "sep" or len(separator) != 1:
        return None, text, 0
    return separator, rest if end else "", 1


def _separator_of(text: str) -> str:
    """Return the separator that gives the header the most columns; a comma if there is a tie."""
    columns = {}
    for separator in (_COMMA, _SEMICOLON, _TAB):
        rows = _reader(text, separator)
        try:
            columns[separator] = len(next(filter(_has_content, rows), []))
        except csv.Error:
            columns[separator] = 0
    return max(columns, key=lambda separator: columns[separator])


def _reader(text: str, separator: str) -> Any:
    # Strict: a quote in the wrong place is an error, not a part of the value.
    csv.field_size_limit(_LONGEST_CELL)
    lines = StringIO(text, newline="")
    return csv.reader(lines, delimiter=separator, strict=True, skipinitialspace=True)


def _text_rows(file: Path, text: str, separator: str, before: int) -> Iterator[Row]:
    """Yield every row with the line that it begins on; `before` lines come before the text."""
    reader = _reader(text, separator)
    while True:
        line = before + reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            is_open = "unexpected end" in str(error) or "field limit" in str(error)
            what = "a quotation mark is opened and not closed" if is_open else error
            accepted = f"must be a well-formed table (line {line}: {what})"
            raise InvalidArgument("path", accepted, str(file)) from None
        if row is None:
            return
        yield line, row


# ----------------------------------------------------------------- Excel and Parquet


def _read_excel(file: Path) -> tuple[list[str], list[Row], str | None]:
    header, rows = _as_table(file, "row", rows_of_workbook(file))
    return header, rows, None


def _read_parquet(file: Path) -> tuple[list[str], list[Row], str | None]:
    with file.open("rb") as stream:
        stream.read(1)
    import narwhals as nw  # noqa: PLC0415 - optional

    library = arrow_library(f"reading {file.name}")
    try:
        table = plain_data(nw.read_parquet(file, backend=library).to_native())
    except Exception as error:  # each library has its own errors
        raise InvalidArgument("path", f"must be a Parquet file ({error})", str(file)) from error
    names = [name for name in table if not _UNNAMED_INDEX.fullmatch(name)]
    header = [tidy(name) for name in names]
    _require_names(file, header)
    rows = [list(row) for row in zip(*(table[name] for name in names), strict=True)]
    return header, list(enumerate(rows, 1)), "."


_UNNAMED_INDEX = re.compile(r"__index_level_\d+__")
"""What pandas calls an index without a name in a Parquet file."""

_READERS = {".xlsx": _read_excel, ".parquet": _read_parquet}
"""The function that reads a file, by ending; all others are text."""


# ------------------------------------------------------------------------------- rows


def _as_table(file: Path, counted: str, rows: Iterator[Row]) -> tuple[list[str], list[Row]]:
    """Return the header and the rows below it, without blank rows and blank columns."""
    first = next((row for row in rows if _has_content(row[1])), None)
    if first is None:
        raise InvalidArgument("path", "must be a table with a header; it is empty", str(file))
    header = [tidy(str(cell)) for cell in _without_blank_end(first[1])]
    width = len(header)
    found = []
    for line, row in rows:
        if not _has_content(row):
            continue
        if counted == "row" and len(row) < width:
            # A workbook leaves out blank cells at the end of a row.
            row += [""] * (width - len(row))
        cells = row if len(row) == width else _of_width(file, row, width, f"{counted} {line}")
        found.append((line, cells))
    kept = [
        place
        for place, name in enumerate(header)
        if name or any(_has_content(row[place : place + 1]) for _, row in found)
    ]
    _require_names(file, [header[place] for place in kept])
    if len(kept) < width:
        found = [(line, [row[place] for place in kept]) for line, row in found]
    return [header[place] for place in kept], found


def _has_content(row: Sequence[Any]) -> bool:
    return any(not isinstance(cell, str) or tidy(cell) for cell in row)


def _without_blank_end(row: list[Any]) -> list[Any]:
    width = len(row)
    while width and not _has_content(row[width - 1 : width]):
        width -= 1
    return row[:width]


def _of_width(file: Path, row: list[Any], width: int, where: str) -> list[Any]:
    """Return a row without blank cells at its end that the header does not have."""
    cut = [*row[:width], *_without_blank_end(row[width:])]
    if len(cut) != width:
        accepted = f"must have {plural(width, 'value')} in every row; {where} has {len(cut)}"
        if width == 1 and len(cut) > 1:
            accepted += "; the first line must be the names of the columns, without a title above"
        raise InvalidArgument("path", accepted, str(file))
    return cut


def _require_names(file: Path, header: list[str]) -> None:
    repeated = sorted({name for name in header if header.count(name) > 1})
    if repeated == [""]:
        accepted = (
            "must have a name for every column in its first line, without a title above; "
            f"{header.count('')} have none"
        )
        raise InvalidArgument("path", accepted, str(file))
    if repeated:
        accepted = f"must have distinct column names; {', '.join(map(repr, repeated))} repeat"
        raise InvalidArgument("path", accepted, str(file))
