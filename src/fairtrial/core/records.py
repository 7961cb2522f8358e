"""One declaration of the tables that kernels share: a row for each pull, arm or other thing.

Kernels pass their state to each other at every call. Each array in it then has a cost, and each
column would be an array, so all columns of a table are one array of records. One `NamedTuple`
declares the columns, another one the tables. All tables are kept in one buffer of 8-byte words,
which is cheap to pass to compiled code and easy to save.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import accumulate, pairwise
from typing import Annotated, Any, Generic, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.compilation import kernel

__all__ = ["Records", "Words", "record_type"]

Words = NDArray[np.int64]

State = TypeVar("State")

_DIMENSION = re.compile(r"[a-z_]+")
_NUMBERS = {bool: np.int8, float: np.float64, int: np.int64}
_WORD = 8
"""Bytes per entry of the buffer."""


@dataclass(frozen=True)
class Table:
    """One declared table; a single record is a table of one row."""

    name: str
    row: Any
    """The `NamedTuple` of its columns; or `float` or `bool` (one byte each) for plain numbers."""

    shape: tuple[str, ...] | None
    """Names of dimensions, or None for a single record."""

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The type of its records."""
        return np.dtype(_NUMBERS[self.row]) if self.is_plain else record_type(self.row)

    @property
    def is_plain(self) -> bool:
        """Whether it is an array of numbers."""
        return self.row in _NUMBERS

    @property
    def entries(self) -> str:
        """The expression for the number of its records."""
        return " * ".join(self.shape or ()) or "1"

    @property
    def words(self) -> str:
        """The expression for the number of its words."""
        return f"({self.entries} * {self.dtype.itemsize} + {_WORD - 1}) // {_WORD}"

    def shape_in(self, dimensions: Mapping[str, int]) -> tuple[int, ...]:
        """Return its shape for the values of the dimensions."""
        return tuple(dimensions[name] for name in self.shape or ()) or (1,)

    def words_in(self, dimensions: Mapping[str, int]) -> int:
        """Return the number of its words for the values of the dimensions."""
        return -(-math.prod(self.shape_in(dimensions)) * self.dtype.itemsize // _WORD)


class Records(Generic[State]):
    """Tables of rows: all columns of a table are one array of records, and all are in one buffer.

    `Layout` declares named arrays instead, which are simpler where few calls pass them on.

    Parameters
    ----------
    declaration : type
        A `NamedTuple`. A field ``Annotated[Any, Arm, "arms"]`` is a table. `Arm` declares its rows:
        another `NamedTuple` of `int` and `float` columns or of nested ones. Its length is the value
        of the dimension. ``Annotated[Any, Arm]`` is a single record; ``Annotated[Any, bool, "arms
        arms"]`` and ``Annotated[Any, float, "arms"]`` are arrays of numbers. Fields of other types
        are not part of the buffer; they come last, and are passed to `open` and `columns`
        unchanged.
    compiler : callable
        The decorator that compiles the function `open`.

    Attributes
    ----------
    open : callable
        The kernel that returns the tables in a buffer: ``state.arms[arm].estimate`` is a number,
        and so is ``state.control[0].rows`` of a single record. Kernels call it by a global name
        of their module: ``open_state = STATE.open``.
    dimensions : tuple of str
        Names of all dimensions. Their values are the first entries of the buffer.

    Examples
    --------
    >>> from typing import Annotated, NamedTuple
    >>> class Arm(NamedTuple):
    ...     pulls: int
    ...     estimate: float
    >>> State = NamedTuple("State", [("arms", Annotated[Any, Arm, "arms"])])
    >>> layout = Records(State)
    >>> words = layout.allocate(arms=3)
    >>> layout.columns(words).arms.estimate[:] = 0.5
    >>> layout.columns(words).arms.estimate
    array([0.5, 0.5, 0.5])
    """

    def __init__(self, declaration: type[State], compiler: Callable[[Any], Any] = kernel) -> None:
        self._declaration = declaration
        self.tables = tuple(_tables_of(declaration))
        self._others = declaration._fields[len(self.tables) :]  # type: ignore[attr-defined]
        found = (_DIMENSION.findall(" ".join(table.shape or ())) for table in self.tables)
        self.dimensions = tuple(dict.fromkeys(name for names in found for name in names))
        self.open: Callable[..., State] = compiler(self._compose())

    def allocate(self, **dimensions: int) -> Words:
        """Return a buffer full of zeros for tables of these dimensions."""
        length = sum(table.words_in(dimensions) for table in self.tables)
        words = np.zeros(len(self.dimensions) + length, dtype=np.int64)
        words[: len(self.dimensions)] = [dimensions[name] for name in self.dimensions]
        return words

    def enlarged(self, words: Words, **dimensions: int) -> Words:
        """Return larger tables that begin with the same records."""
        larger = self.allocate(**{**self._dimensions_of(words), **dimensions})
        for old, new in zip(self._tables(words), self._tables(larger), strict=True):
            new[tuple(slice(length) for length in old.shape)] = old
        return larger

    def columns(self, words: Words, *others: Any) -> State:
        """Return the tables for Python: each is a `NamedTuple` of columns.

        A column is a view of the buffer; a column of a single record has one entry.
        """
        views = zip(self.tables, self._tables(words), strict=True)
        parts = [view if table.is_plain else _columns_of(table.row, view) for table, view in views]
        return self._declaration(*parts, *others)

    def _dimensions_of(self, words: Words) -> dict[str, int]:
        values = words[: len(self.dimensions)].tolist()
        return dict(zip(self.dimensions, values, strict=True))

    def _tables(self, words: Words) -> list[NDArray[Any]]:
        values = tuple(words[: len(self.dimensions)].tolist())
        return [
            words[place].view(dtype)[: math.prod(shape)].reshape(shape)
            for place, dtype, shape in _places(self, values)
        ]

    def _compose(self) -> Callable[..., State]:
        """Return the function that opens the buffer; it is compiled from generated source."""
        name = f"open_{self._declaration.__name__}"
        lines = [f"def {name}({', '.join(['words', *self._others])}):"]
        lines += [f"    {each} = int(words[{i}])" for i, each in enumerate(self.dimensions)]
        lines += [f"    at = {len(self.dimensions)}"]
        for table in self.tables:
            view = f"words[at : at + {table.words}].view(type_{table.name})"
            if table.is_plain:
                view = f"{view}[: {table.entries}].reshape(({', '.join(table.shape or ())},))"
            lines += [f"    table_{table.name} = {view}", f"    at += {table.words}"]
        parts = [*(f"table_{table.name}" for table in self.tables), *self._others]
        lines.append(f"    return declaration({', '.join(parts)})")
        # numba keeps the compiled code beside the module that holds the declaration.
        module = sys.modules[self._declaration.__module__]
        types = {f"type_{table.name}": table.dtype for table in self.tables}
        own = {"declaration": self._declaration, "__name__": module.__name__}
        namespace: dict[str, Any] = {**types, **own}
        source = "\n".join(lines) + "\n"
        exec(compile(source, str(module.__file__), "exec"), namespace)  # noqa: S102
        function: Callable[..., State] = namespace[name]
        return function


@lru_cache(maxsize=1000)
def _places(
    layout: Records[Any], values: tuple[int, ...]
) -> tuple[tuple[slice, np.dtype[Any], tuple[int, ...]], ...]:
    """Return the position, type and shape of each table in a buffer with these dimensions."""
    known, at = dict(zip(layout.dimensions, values, strict=True)), len(layout.dimensions)
    ends = list(accumulate((table.words_in(known) for table in layout.tables), initial=at))
    return tuple(
        (slice(*place), table.dtype, table.shape_in(known))
        for table, place in zip(layout.tables, pairwise(ends), strict=True)
    )


@cache
def record_type(row: Any) -> np.dtype[Any]:
    """Return the type of the records that a `NamedTuple` of `int` and `float` declares."""
    formats = {int: "i8", float: "f8"}
    columns = [
        (name, formats[kind] if kind in formats else record_type(kind))
        for name, kind in _kinds_of(row).items()
    ]
    return np.dtype((np.record, columns))


@cache
def _kinds_of(row: Any) -> dict[str, Any]:
    return get_type_hints(row)


def _tables_of(declaration: Any) -> Iterator[Table]:
    for name, hint in get_type_hints(declaration, include_extras=True).items():
        if get_origin(hint) is Annotated:
            _, row, *shape = get_args(hint)
            yield Table(name, row, tuple(shape[0].split()) if shape else None)


def _columns_of(row: Any, view: NDArray[Any]) -> Any:
    """Return a declared row in which a column replaces each number."""
    return row(
        *(
            _columns_of(kind, view[name]) if hasattr(kind, "_fields") else view[name]
            for name, kind in _kinds_of(row).items()
        )
    )
