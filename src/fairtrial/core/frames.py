"""Read data frames of any library as plain columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from importlib.util import find_spec
from typing import Any, Literal, get_args

from fairtrial.errors import InvalidArgument, MissingExtra

__all__ = [
    "ArrowLibrary",
    "Library",
    "arrow_library",
    "installed_library",
    "library_of",
    "plain_data",
    "rows_of",
]

Library = Literal["pandas", "polars", "pyarrow"]
"""A library whose data frames can be returned."""
ArrowLibrary = Literal["pyarrow", "polars"]
"""A library that reads and writes Arrow data and Parquet files."""

_SIGNS = ("__arrow_c_stream__", "collect")
"""What frames of other libraries have: they export Arrow data, or are computed when collected."""


def plain_data(value: Any) -> Any:
    """Return a frame as a mapping of columns, a series as a list, and anything else unchanged.

    Frames and series of pandas are left as they are, because their index may hold labels. A lazy
    frame, a relation or a reader is collected once, so that all columns have the same order of
    rows. Decimal numbers become floats, and categories text.

    Raises
    ------
    InvalidArgument
        If several columns have the same name.
    MissingExtra
        If the data must be collected, and neither pyarrow nor polars is installed.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = plain_data(pa.table({"arm": ["a", "b"], "reward": [0, 1]}))
    >>> list(table), table["reward"], plain_data([0.5, 1])
    (['arm', 'reward'], [0, 1], [0.5, 1])
    """
    home = type(value).__module__.partition(".")[0]
    if home in ("pandas", "builtins", "numpy") or isinstance(value, Mapping):
        return value
    if not any(hasattr(type(value), sign) for sign in _SIGNS):
        return value
    try:
        return _read(value)
    except Exception as error:
        # Each library has a class of this name for it.
        if type(error).__name__ != "DuplicateError":
            raise
        raise InvalidArgument("table", f"must have distinct columns ({error})") from None


def rows_of(columns: Mapping[str, list[Any]]) -> list[dict[str, Any]]:
    """Return the rows of a table as mappings.

    Examples
    --------
    >>> rows_of({"arm": ["a", "b"], "reward": [0, 1]})
    [{'arm': 'a', 'reward': 0}, {'arm': 'b', 'reward': 1}]
    """
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def arrow_library(what: str) -> ArrowLibrary:
    """Return the installed library that reads and writes Arrow data and Parquet files.

    Raises
    ------
    MissingExtra
        If there is none.
    """
    for name in get_args(ArrowLibrary):
        if find_spec(name):
            found: ArrowLibrary = name
            return found
    raise MissingExtra(what, "data")


def library_of(value: Any) -> Library | None:
    """Return the library of a frame, if frames of that library can be returned; None otherwise.

    Examples
    --------
    >>> import pyarrow as pa
    >>> library_of(pa.table({"arm": ["a"]})), library_of({"arm": ["a"]})
    ('pyarrow', None)
    """
    home = type(value).__module__.partition(".")[0]
    return next((name for name in get_args(Library) if name == home), None)


def installed_library() -> Library:
    """Return the first library of frames that is installed; pandas if none is."""
    return next((name for name in get_args(Library) if find_spec(name)), "pandas")


def _read(value: Any) -> Any:
    # Imported here, because few callers have such data, and the import takes .2 s.
    import narwhals as nw  # noqa: PLC0415 - optional

    found: Any = nw.from_native(value, allow_series=True, pass_through=True)
    if isinstance(found, nw.LazyFrame):
        found = found.collect(arrow_library("reading such a table"))
    elif found is value and hasattr(value, _SIGNS[0]):
        found = nw.from_arrow(value, backend=arrow_library("reading such a table"))
    if isinstance(found, nw.DataFrame):
        return _Columns(found)
    return _cells(found) if isinstance(found, nw.Series) else value


class _Columns(Mapping[str, list[Any]]):
    """The columns of a frame, each read when it is needed."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def __getitem__(self, name: str) -> list[Any]:
        if name not in self._frame.columns:
            raise KeyError(name)
        return _cells(self._frame[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._frame.columns)

    def __len__(self) -> int:
        return len(self._frame.columns)


def _cells(series: Any) -> list[Any]:
    cells: list[Any] = series.to_list()
    kind = type(series.dtype).__name__
    if kind in ("Categorical", "Enum"):
        return [None if cell is None else str(cell) for cell in cells]
    if kind == "Decimal":
        return [float(cell) if isinstance(cell, Decimal) else cell for cell in cells]
    return cells
