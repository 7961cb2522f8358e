"""Tables of data: CSV by the standard library, Parquet where pandas is installed."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any, TextIO

from fairtrial.core.problem import Problem
from fairtrial.core.wording import plural
from fairtrial.errors import InvalidArgument, InvalidOutcome, MissingExtra

__all__ = [
    "column_of",
    "read_bytes",
    "read_table",
    "readable",
    "rewards_by_labels",
    "without_formula",
]

_SEPARATORS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
_EUROPEAN = ";"
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_ACCEPTED = (*_SEPARATORS, ".parquet")

_MOST_UNPACKED = 32_000_000
_MOST_EXPANSION = 50
"""A compressed file may hold that many bytes, or that many times its own."""


def read_table(
    path: str | Path,
    columns: Sequence[str] | None = None,
    text: Collection[str] = (),
) -> dict[str, list[Any]]:
    r"""Return the columns of a table with a header.

    Parameters
    ----------
    path : str or Path
        A file that ends in .csv, .tsv (each also .gz) or .parquet. If the header of a .csv file
        holds semicolons and no comma, semicolons separate, and ``0,5`` is a half: so do
        spreadsheets write in countries with a decimal comma.
    columns : sequence of str, optional
        The columns wanted; all without it.
    text : collection of str
        Columns that are labels: kept as text even where every value is a number.

    Returns
    -------
    dict of str to list
        Every column in the order of the rows: floats where the whole column is numeric,
        else text.

    Raises
    ------
    InvalidArgument
        If the file cannot be read, is no table, has no rows, or lacks a column.
    MissingExtra
        If a Parquet file is given and pandas is not installed.

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
    file = Path(path)
    ending = next((end for end in _ACCEPTED if file.name.lower().endswith(end)), None)
    if ending is None:
        raise InvalidArgument("path", f"must end in {', '.join(_ACCEPTED)}", str(path))
    with readable(file):
        if ending == ".parquet":
            table = _read_parquet(file)
        else:
            table = _read_text(file, _SEPARATORS[ending], text)
    wanted = list(table) if columns is None else list(columns)
    _require_columns(file, wanted, list(table))
    return {
        name: _as_text(table[name]) if name in text else _as_numbers(table[name]) for name in wanted
    }


def column_of(table: Any, name: str) -> list[Any]:
    """Return a column of a DataFrame, or of a mapping of names to sequences.

    Raises
    ------
    InvalidArgument
        If there is no such column; those that there are, are named.

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
    return list(column)


def rewards_by_labels(
    problem: Problem,
    table: Any,
    columns: Sequence[str],
    reward: str,
    known: Iterable[tuple[str, ...]],
    accepted: str,
) -> dict[tuple[str, ...], list[float]]:
    """Return the rewards of a table by the labels that some columns give them.

    Parameters
    ----------
    problem : Problem
        What checks the rewards.
    table : pandas.DataFrame or mapping of str to sequence
        One row per reward.
    columns, reward : sequence of str, str
        The columns with the labels, and the one with the rewards.
    known : iterable of tuple of str
        The labels that a row may have.
    accepted : str
        What is said of a row with others.

    Returns
    -------
    dict of tuple of str to list of float
        Of all that is `known`, in its order.

    Raises
    ------
    InvalidArgument
        If a column is missing, columns differ in length, or labels are unknown.
    InvalidOutcome
        If a reward is refused by the problem; the row is named.
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


@contextmanager
def readable(file: Path) -> Iterator[None]:
    """Turn whatever reading a file can raise into one error that names the file.

    What is no file, but a pipe or a device, is refused before it is read: it may never end.
    """
    try:
        if file.exists() and not (file.is_file() or file.is_dir()):
            raise InvalidArgument("path", "must be a file, no pipe or device", str(file))
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidArgument("path", f"must be a readable file ({reason})", str(file)) from error
    except (EOFError, zlib.error) as error:
        raise InvalidArgument("path", f"must be an intact file ({error})", str(file)) from error
    except UnicodeDecodeError as error:
        raise InvalidArgument("path", f"must be UTF-8 text ({error.reason})", str(file)) from error


def read_bytes(file: Path) -> bytes:
    """Return the content of a file, unpacked if its name ends in .gz.

    Raises
    ------
    InvalidArgument
        If it unpacks to far more than a file of its size does.
    """
    if not file.name.lower().endswith(".gz"):
        return file.read_bytes()
    most = max(_MOST_UNPACKED, _MOST_EXPANSION * file.stat().st_size)
    with gzip.open(file) as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        accepted = (
            f"must unpack to {most:,} bytes or fewer, {_MOST_EXPANSION} times its size; "
            "unpack it yourself if you trust it"
        )
        raise InvalidArgument("path", accepted, str(file))
    return content


# ------------------------------------------------------------------------ text files


def _read_text(file: Path, separator: str, text: Collection[str]) -> dict[str, list[Any]]:
    with _open_text(file) as stream:
        # Strict: a quote in the wrong place is an error, not a part of the value.
        reader = csv.reader(stream, delimiter=separator, strict=True)
        try:
            header = next(reader, [])
            _require_header(file, header)
            if separator == "," and len(header) == 1 and _EUROPEAN in header[0]:
                return _read_text(file, _EUROPEAN, text)
            rows = list(_rows_of_width(file, reader, len(header)))
        except csv.Error as error:
            line = max(reader.line_num, 1)
            raise InvalidArgument(
                "path", f"must be a well-formed table (line {line}: {error})", str(file)
            ) from error
    if not rows:
        raise InvalidArgument("path", "must be a table with at least one row", str(file))
    numeric = set(header).difference(text) if separator == _EUROPEAN else set()
    return {
        name: _with_points(values) if name in numeric else list(values)
        for name, values in zip(header, zip(*rows, strict=True), strict=True)
    }


def _open_text(file: Path) -> TextIO:
    # utf-8-sig drops the mark that spreadsheets put at the beginning.
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


def _rows_of_width(file: Path, reader: Any, width: int) -> Iterator[list[str]]:
    for row in reader:
        if not row:
            continue
        if len(row) != width:
            has = f"line {reader.line_num} has {len(row)}"
            accepted = f"must have {plural(width, 'value')} in every row; {has}"
            raise InvalidArgument("path", accepted, str(file))
        yield row


# -------------------------------------------------------------------------- Parquet


def _read_parquet(file: Path) -> dict[str, list[Any]]:
    with file.open("rb") as stream:
        stream.read(1)
    try:
        import pandas as pd
        import pyarrow as pa
    except ImportError:
        raise MissingExtra(f"reading {file.name}", "data") from None
    try:
        frame = pd.read_parquet(file)
    except (pa.ArrowException, ValueError) as error:
        raise InvalidArgument("path", f"must be a Parquet file ({error})", str(file)) from error
    if frame.empty:
        raise InvalidArgument("path", "must be a table with at least one row", str(file))
    return {str(name): frame[name].tolist() for name in frame.columns}


# --------------------------------------------------------------------------- values


def _require_columns(file: Path, wanted: list[str], existing: list[str]) -> None:
    missing = [name for name in wanted if name not in existing]
    if missing:
        raise InvalidArgument(
            "columns",
            f"must be among those of {file.name}: {', '.join(map(repr, existing))}; "
            f"missing: {', '.join(map(repr, missing))}",
        )


def _as_numbers(values: list[Any]) -> list[Any]:
    try:
        return [_number(value) for value in values]
    except (TypeError, ValueError):
        return _as_text(values)


def _number(value: Any) -> float:
    # Python reads "1_000" as a number; no table means it so.
    if isinstance(value, str) and "_" in value:
        raise ValueError(value)
    return float(value)


def _with_points(values: Sequence[str]) -> list[str]:
    """Return a column with decimal points for its decimal commas, if all of it is numbers then."""
    changed = [value.replace(",", ".") for value in values]
    numbers = _as_numbers(changed)
    return changed if all(isinstance(value, float) for value in numbers) else list(values)


def _as_text(values: list[Any]) -> list[str]:
    return [_label(value) for value in values]


def _label(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def without_formula(cell: Any) -> Any:
    """Return a cell of a CSV file that no spreadsheet takes for a formula.

    A text that one would carry out gets an apostrophe before it; a number that is written as text
    (an arm called ``-1``) stays.

    Examples
    --------
    >>> without_formula("=cmd|' /c calc'!A1"), without_formula("-1"), without_formula(-1.5)
    ("'=cmd|' /c calc'!A1", '-1', -1.5)
    """
    if not isinstance(cell, str) or not cell.startswith(_FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell
