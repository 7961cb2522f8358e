"""Tables of data as columns of numbers and text."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any, get_args
from unicodedata import category, normalize

from fairtrial.core.cells import check_decimal, is_blank, number_or_text
from fairtrial.core.columns import Columns
from fairtrial.core.documentation import documented_by
from fairtrial.core.files import replacing
from fairtrial.core.frames import Library, installed_library, plain_data
from fairtrial.core.printing import printable
from fairtrial.core.problem import Problem
from fairtrial.core.sheets import read_sheet
from fairtrial.core.validation import check_choice
from fairtrial.errors import InvalidArgument, InvalidOutcome, MissingExtra

__all__ = [
    "as_frame",
    "chosen_library",
    "column_of",
    "columns_of_measures",
    "columns_of_predictions",
    "open_table",
    "outcomes_by_labels",
    "read_table",
    "require_written",
    "rewards_by_labels",
    "without_formula",
    "write_table",
]

_WRITTEN = (".csv", ".xlsx")
_FORMULA = ("=", "+", "-", "@")
_INVISIBLE = ("Cc", "Cf", "Zs", "Zl", "Zp")
"""Kinds of characters that spreadsheets skip before a formula: controls, formats, blanks."""


def read_table(
    path: str | Path,
    columns: Sequence[str] | None = None,
    text: Collection[str] = (),
    decimal: str | None = None,
) -> dict[str, list[Any]]:
    r"""Return the columns of a table with a header.

    Parameters
    ----------
    path : str or Path
        A file that `read_sheet` can read.
    columns : sequence of str, optional
        The wanted columns; by default all.
    text : collection of str
        Columns that are labels: kept as text even if every value is a number.
    decimal : {".", ","}, optional
        The decimal separator, if the columns do not show it.

    Returns
    -------
    dict of str to list
        Every column in the order of the rows: floats, and None for blank cells, if all other cells
        of the column are numbers; otherwise text.

    Raises
    ------
    InvalidArgument
        If the file cannot be read, is not a table, has no rows, or lacks a column.
    MissingExtra
        If a Parquet file is given, and neither pyarrow nor polars is installed.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "trial.csv"
    >>> _ = path.write_text("arm,reward\n1,0.5\n2,0.25\n")
    >>> read_table(path)
    {'arm': [1.0, 2.0], 'reward': [0.5, 0.25]}
    >>> read_table(path, columns=["arm"], text=["arm"])
    {'arm': ['1', '2']}
    """
    sheet = read_sheet(path, decimal)
    wanted = sheet.header if columns is None else list(columns)
    _require_columns(sheet.file, wanted, sheet.header)
    return {name: sheet.labels(name) if name in text else sheet.values(name) for name in wanted}


@dataclass(frozen=True)
class _GivenTable(Columns):
    """A frame of pandas, or a mapping of names to sequences; its rows count from 0."""

    table: Any
    decimal: str | None = None
    usual: str | None = "."

    def cells(self, name: str) -> list[Any]:
        return column_of(self.table, name)

    def where(self, row: int) -> str:
        return f"row {row}"

    @property
    def names(self) -> list[str]:
        return [name for name in getattr(self.table, "columns", self.table) if type(name) is str]

    def has(self, name: str) -> bool:
        return name in getattr(self.table, "columns", self.table)


def open_table(table: Any, decimal: str | None = None) -> Columns:
    """Return the columns of a file, a DataFrame, or a mapping of names to sequences.

    Raises
    ------
    InvalidArgument
        If the file cannot be read or is not a table.
    MissingExtra
        If the package that reads such files is not installed.
    """
    if isinstance(table, str | Path):
        return read_sheet(table, decimal)
    return _GivenTable(plain_data(table), check_decimal(decimal))


def column_of(table: Any, name: str) -> list[Any]:
    """Return a column of a DataFrame, or of a mapping of names to sequences.

    Raises
    ------
    InvalidArgument
        If there is no such column (the message names the existing ones), or there are several.

    Examples
    --------
    >>> column_of({"arm": ("a", "b"), "reward": (0, 1)}, "reward")
    [0, 1]
    """
    try:
        column = table[name]
    except (KeyError, TypeError, IndexError):
        known = list(getattr(table, "columns", table if isinstance(table, Mapping) else []))
        raise InvalidArgument("table", f"must have the column {name!r}; it has {known}") from None
    if getattr(column, "ndim", 1) != 1:
        raise InvalidArgument("table", f"must have one column {name!r}")
    return list(column)


def rewards_by_labels(
    problem: Problem,
    table: Any,
    columns: Sequence[str],
    reward: str,
    known: Iterable[tuple[str, ...]],
    accepted: str,
) -> dict[tuple[str, ...], list[float]]:
    """Return the rewards of a table, grouped by the labels in some columns.

    Parameters
    ----------
    problem : Problem
        The problem that checks the rewards.
    table : data frame or mapping of str to sequence
        One row per reward.
    columns, reward : sequence of str, str
        The columns with the labels, and the column with the rewards.
    known : iterable of tuple of str
        The labels that a row may have.
    accepted : str
        What the error says about a row with other labels.

    Returns
    -------
    dict of tuple of str to list of float
        An entry for each of `known`, in the same order.

    Raises
    ------
    InvalidArgument
        If a column is missing, columns differ in length, or labels are unknown.
    InvalidOutcome
        If the problem refuses a reward; the error names the row.
    """
    labels, rewards = [column_of(table, name) for name in columns], column_of(table, reward)
    if any(len(column) != len(rewards) for column in labels):
        raise InvalidArgument("table", "must have columns of equal length")
    found: dict[tuple[str, ...], list[float]] = {own: [] for own in known}
    for row, (*own, value) in enumerate(zip(*labels, rewards, strict=True)):
        key = tuple(map(str, own))
        if key not in found:
            given = own[0] if len(own) == 1 else tuple(own)
            raise InvalidArgument(f"table row {row}", accepted, given)
        try:
            found[key].append(problem.check_outcome(value))
        except InvalidOutcome as error:
            raise InvalidOutcome(f"table row {row}: reward", error.accepted, value) from None
    return found


def columns_of_predictions(problem: Problem, given: Any) -> dict[str, str]:
    """Return the column of each prediction that a problem states; empty if it states none.

    Parameters
    ----------
    problem : Problem
        Any problem.
    given : str, mapping of str to str, or None
        The column; with several predicted measures the column of each.

    Raises
    ------
    InvalidArgument
        If a column is missing, or there are some although the problem has no prediction.
    """
    names = list(getattr(problem, "predictions", ()))
    if not names:
        if given is not None:
            accepted = "must be left out: the problem has no prediction"
            raise InvalidArgument("prediction", accepted, given)
        return {}
    if given is None:
        accepted = "must name the column with the predictions that the problem states"
        raise InvalidArgument("prediction", accepted)
    if isinstance(given, str) and len(names) == 1:
        given = {names[0]: given}
    is_mapping = isinstance(given, Mapping) and set(given) == set(names)
    if not is_mapping or not all(isinstance(own, str) and own for own in given.values()):
        accepted = f"must map each of {names} to the column of its predictions"
        raise InvalidArgument("prediction", accepted, given)
    return {name: given[name] for name in names}


def columns_of_measures(problem: Problem, given: str | Mapping[str, str]) -> dict[str, str]:
    """Return the column of every measure: the given one, or the one with the measure's name.

    Raises
    ------
    InvalidArgument
        If a column is given for something that is not a measure, or for several measures.

    """
    if not isinstance(given, Mapping):
        given = {}
    for name in given:
        if name not in problem.measures:
            accepted = f"must give columns of the measures {list(problem.measures)}"
            raise InvalidArgument("reward", accepted, name)
    return {name: given.get(name, name) for name in problem.measures}


@documented_by(rewards_by_labels)
def outcomes_by_labels(
    problem: Problem,
    table: Any,
    columns: Sequence[str],
    measures: Mapping[str, str],
    known: Iterable[tuple[str, ...]],
    accepted: str,
) -> dict[tuple[str, ...], list[Any]]:
    """Return the outcomes of a table, rows of measures, grouped by the labels in some columns.

    Parameters
    ----------
    problem : Problem
        The problem that checks the outcomes.
    table : data frame or mapping of str to sequence
        One row per outcome.
    columns : sequence of str
        The columns with the labels.
    measures : mapping of str to str
        The column of every measure; a blank cell is a missing value.

    Returns
    -------
    dict of tuple of str to list of ndarray
        An entry for each of `known`, in the same order: arrays of shape (M,), NaN if missing.
    """
    labels = [column_of(table, name) for name in columns]
    values = [column_of(table, name) for name in measures.values()]
    if len({len(column) for column in [*labels, *values]}) > 1:
        raise InvalidArgument("table", "must have columns of equal length")
    found: dict[tuple[str, ...], list[Any]] = {own: [] for own in known}
    for row, (*own, cells) in enumerate(zip(*labels, zip(*values, strict=True), strict=True)):
        key = tuple(map(str, own))
        if key not in found:
            raise InvalidArgument(f"table row {row}", accepted, key)
        outcome = dict(zip(measures, map(_as_value, cells), strict=True))
        try:
            found[key].append(problem.check_outcome(outcome))
        except InvalidOutcome as error:
            name = error.name.removeprefix("outcome: ")
            raise InvalidOutcome(f"table row {row}: {name}", error.accepted, error.given) from None
    return found


def _as_value(cell: Any) -> Any:
    """Return a cell of a column of values: None if blank, a number if it is written as text."""
    return None if is_blank(cell) else number_or_text(cell)


# --------------------------------------------------------------------------- values


def _require_columns(file: Path, wanted: list[str], existing: list[str]) -> None:
    missing = [name for name in wanted if name not in existing]
    if missing:
        raise InvalidArgument(
            "columns",
            f"must be among those of {file.name}: {', '.join(map(repr, existing))}; "
            f"missing: {', '.join(map(repr, missing))}",
        )


def without_formula(cell: Any) -> Any:
    """Return a cell of a CSV file that no spreadsheet treats as a formula.

    Text that would be executed gets an apostrophe in front; a number written as text
    (an arm called ``-1``) stays.

    Examples
    --------
    >>> without_formula("=cmd|' /c calc'!A1"), without_formula("-1"), without_formula(-1.5)
    ("'=cmd|' /c calc'!A1", '-1', -1.5)
    """
    if not isinstance(cell, str) or not _begins_like_a_formula(cell):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def _begins_like_a_formula(text: str) -> bool:
    """Return whether the first visible character, of any width, begins a formula."""
    first = next((letter for letter in text if category(letter) not in _INVISIBLE), "")
    return text[:1] in ("\t", "\r", "\n") or normalize("NFKC", first).startswith(_FORMULA)


def as_frame(
    columns: Mapping[str, Any],
    what: str,
    library: Library | None = None,
    index: str | None = None,
) -> Any:
    """Return columns as a data frame of a library.

    Parameters
    ----------
    columns : mapping of str to sequence
        The columns, of equal length.
    what : str
        What needs the library: for the error.
    library : {"pandas", "polars", "pyarrow"}, optional
        The library; by default the first of these that is installed.
    index : str, optional
        The column that is the index of a frame of pandas.

    Raises
    ------
    InvalidArgument
        If the library is another.
    MissingExtra
        If it is not installed.

    Examples
    --------
    >>> as_frame({"arm": ["a", "b"], "pulls": [3, 5]}, "this example", "pyarrow").column_names
    ['arm', 'pulls']
    """
    backend = chosen_library(library, what)
    import narwhals as nw  # noqa: PLC0415 - optional

    if backend == "pandas":
        frame: Any = nw.from_dict(dict(columns), backend=backend).to_native()
        return frame.set_index(index) if index else frame
    given = {name: _without_objects(own) for name, own in columns.items()}
    return nw.from_dict(given, backend=backend).to_native()


def _without_objects(column: Any) -> Any:
    """Return an array of objects as a list, whose type is found by its elements."""
    return column.tolist() if getattr(getattr(column, "dtype", None), "kind", "") == "O" else column


def chosen_library(library: Library | None, what: str) -> Library:
    """Return the library of data frames to use: the first installed one if none is given.

    Raises
    ------
    InvalidArgument
        If it is unknown.
    MissingExtra
        If it is not installed.
    """
    chosen = installed_library() if library is None else library
    check_choice("library", chosen, get_args(Library))
    if find_spec(chosen) is None:
        raise MissingExtra(what, "polars" if chosen == "polars" else "data")
    return chosen


def write_table(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a table in which a spreadsheet finds no formula.

    Parameters
    ----------
    path : Path
        A file that ends in .csv or .xlsx; an existing file is replaced.
    header, rows : sequence of str, iterable of sequence
        The names of the columns, and the cells of each row.

    Raises
    ------
    InvalidArgument
        If the file has another ending.
    MissingExtra
        If a workbook is wanted and openpyxl is not installed.
    StorageError
        If the file cannot be written.
    """
    require_written(path)
    cells = (map(without_formula, row) for row in chain([header], rows))
    with replacing(path) as part:
        if path.suffix.lower() == ".xlsx":
            _write_excel(part, cells)
        else:
            with part.open("w", encoding="utf-8", newline="") as stream:
                csv.writer(stream).writerows(cells)


def _write_excel(path: Path, rows: Iterable[Iterable[Any]]) -> None:
    from openpyxl import Workbook  # noqa: PLC0415 - optional

    book = Workbook(write_only=True)
    page = book.create_sheet()
    page.freeze_panes = "A2"
    for row in rows:
        # A workbook cannot hold control characters.
        page.append([printable(cell) if isinstance(cell, str) else cell for cell in row])
    book.save(path)


def require_written(path: Path) -> None:
    """Raise if files with this ending cannot be written.

    Raises
    ------
    InvalidArgument
        If not; the message lists the endings that can.
    MissingExtra
        If the package that writes them is not installed.
    """
    if path.suffix.lower() not in _WRITTEN:
        raise InvalidArgument("path", f"must end in {', '.join(_WRITTEN)}", str(path))
    if path.suffix.lower() == ".xlsx" and find_spec("openpyxl") is None:
        raise MissingExtra(f"writing {path.name}", "excel")
