"""Tables of conditions as features: categories as indicators, interactions as products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.cells import NumberFormat, label_of, labels_in, refuse_odd_cells
from fairtrial.core.mistakes import did_you_mean
from fairtrial.core.wording import choices
from fairtrial.errors import InvalidArgument
from fairtrial.linear._arguments import is_frame

__all__ = ["Encoding", "Table", "encoding_of", "joined_labels", "table_of"]

Floats = NDArray[np.float64]
Table = dict[str, list[float] | list[str]]
"""Columns by name; each has only numbers or only text."""

INTERCEPT = "intercept"

_LONGEST_JOINED = 100
_MOST_ENTRIES = 50_000_000
"""The most numbers in an encoded table: 400 MB."""


@dataclass(frozen=True)
class Encoding:
    """How a table becomes features.

    A column of text has an indicator (0 or 1) for every level except the first in the table, the
    reference. If there is such a column, a constant is added: the mean of the reference conditions.

    Parameters
    ----------
    levels : mapping of str to tuple of str
        Levels by column, the reference first; empty for a column of numbers.
    interactions : tuple of tuple of str
        Columns whose products are also features.
    has_constant : bool
        Whether a constant is added.
    """

    levels: Mapping[str, tuple[str, ...]]
    interactions: tuple[tuple[str, ...], ...]
    has_constant: bool

    @property
    def is_plain(self) -> bool:
        """Whether the features are the columns of the table, all of them numbers."""
        return not (self.interactions or any(self.levels.values()))

    @property
    def references(self) -> dict[str, str]:
        """The level of each column of text that the others are compared with."""
        return {name: levels[0] for name, levels in self.levels.items() if levels}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features, such as ``ligand=L02`` and ``ligand=L02:base=B03``."""
        own = {name: self._names_of(name) for name in self.levels}
        products = [
            ":".join(parts)
            for names in self.interactions
            for parts in product(*(own[name] for name in names))
        ]
        constant = [INTERCEPT] if self.has_constant else []
        return (*constant, *(part for parts in own.values() for part in parts), *products)

    def in_words(self) -> str:
        """Return in words the columns, their reference values, and the interactions."""
        columns = [
            f"{name} (against {self.references[name]})" if name in self.references else name
            for name in self.levels
        ]
        interacting = [" with ".join(names) for names in self.interactions]
        products = f"; interactions: {', '.join(interacting)}" if interacting else ""
        return f"{', '.join(columns)}{products}"

    def _names_of(self, name: str) -> list[str]:
        levels = self.levels[name]
        return [f"{name}={level}" for level in levels[1:]] if levels else [name]

    def features(self, argument: str, table: Table) -> Floats:
        """Return the features of a table's rows, shape (n, d).

        Raises
        ------
        InvalidArgument
            If its columns or levels differ.
        """
        if set(table) != set(self.levels):
            raise InvalidArgument(
                argument, f"must have the columns of features, {list(self.levels)}", list(table)
            )
        number = len(next(iter(table.values())))
        own = {name: self._block(argument, name, table[name]) for name in self.levels}
        width = 1 + sum(prod(own[name].shape[1] for name in names) for names in self.interactions)
        if number * width > _MOST_ENTRIES:
            raise InvalidArgument(
                "interactions", f"must make fewer features: there are {width:,} for {number:,} rows"
            )
        constant = [np.ones((number, 1))] if self.has_constant else []
        products = [_products([own[name] for name in names]) for names in self.interactions]
        return np.hstack([*constant, *own.values(), *products])

    def _block(self, argument: str, name: str, column: list[float] | list[str]) -> Floats:
        """Return the features of one column: its numbers, or indicators of its levels."""
        levels = self.levels[name]
        if bool(levels) != isinstance(column[0], str):
            kind = "text" if levels else "numbers"
            raise InvalidArgument(
                f"{argument}: feature {name!r}", f"must hold {kind} as in features", column[0]
            )
        if not levels:
            return np.array(column, dtype=np.float64)[:, np.newaxis]
        places = {level: place for place, level in enumerate(levels)}
        for level in column:
            if level not in places:
                raise InvalidArgument(
                    f"{argument}: feature {name!r}",
                    f"must be a level that features have: {choices(levels, level)}",
                    level,
                )
        codes = np.array([places[str(level)] for level in column])
        return np.asarray(codes[:, np.newaxis] == np.arange(1, len(levels)), dtype=np.float64)


def _products(blocks: Sequence[Floats]) -> Floats:
    """Return the products of one column from each block, in all combinations."""
    found = blocks[0]
    for block in blocks[1:]:
        found = (found[:, :, np.newaxis] * block[:, np.newaxis, :]).reshape(len(found), -1)
    return found


# ------------------------------------------------------------------------- arguments


def table_of(argument: str, value: Any, *, is_encoded: bool) -> Table | None:
    """Return the columns of a table, or None for rows of numbers.

    A DataFrame of numbers whose columns have no names is rows of numbers unless `is_encoded`.

    Raises
    ------
    InvalidArgument
        If a column has neither numbers nor text, or columns have the same name.
    """
    if is_frame(value):
        unnamed = type(value.columns).__name__ == "RangeIndex"
        if unnamed and not is_encoded and all(_kind(kind) in "biuf" for kind in value.dtypes):
            return None
        columns = _columns_of_frame(argument, value)
    elif isinstance(value, Mapping):
        columns = {str(name): column for name, column in value.items()}
    else:
        return None
    table = {name: _column(argument, name, column) for name, column in columns.items()}
    if len({len(column) for column in table.values()}) != 1 or not next(iter(table.values())):
        raise InvalidArgument(argument, "must be columns of equal length, with rows")
    return table


def _kind(dtype: Any) -> str:
    return str(getattr(dtype, "kind", "O"))


def _columns_of_frame(argument: str, frame: Any) -> dict[str, Any]:
    names = [str(name) for name in frame.columns]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InvalidArgument(argument, f"must have distinct columns; {repeated} repeat")
    columns = {}
    for name, own in zip(names, frame.columns, strict=True):
        column = frame[own]
        is_categorical = type(column.dtype).__name__ == "CategoricalDtype"
        # Categories may be numbers, but they are still labels.
        columns[name] = [
            label_of(value) if is_categorical and value == value else value
            for value in column.tolist()
        ]
    return columns


def _column(argument: str, name: str, column: Any) -> list[float] | list[str]:
    given = [] if isinstance(column, str) else list(column)
    if given and all(isinstance(value, str) for value in given):
        blank = next((row for row, value in enumerate(given) if not value.strip()), None)
        if blank is not None:
            raise InvalidArgument(
                f"{argument}: feature {name!r}", f"must not be blank (row {blank})"
            )

        def where(row: int) -> str:
            return f"{argument}: row {row}"

        refuse_odd_cells(given, NumberFormat(), name, where)
        return labels_in(given, name, where)
    for row, value in enumerate(given):
        if not isinstance(value, Real | np.bool_) or not np.isfinite(float(value)):
            raise InvalidArgument(
                f"{argument}: feature {name!r}",
                f"must hold finite numbers only, or text only (row {row})",
                value,
            )
    return [float(value) for value in given]


def encoding_of(table: Table, interactions: Any) -> Encoding:
    """Return how a table is encoded, with levels in the order of their first rows.

    Raises
    ------
    InvalidArgument
        If an interaction names fewer than two columns, or a column of text identifies the rows.
    """
    levels = {
        name: tuple(dict.fromkeys(map(str, column))) if isinstance(column[0], str) else ()
        for name, column in table.items()
    }
    rows = len(next(iter(table.values())))
    for name, own in levels.items():
        if len(own) == rows > 1 and len(table) > 1:
            _refuse_constant(table)
            raise InvalidArgument(
                f"features: feature {name!r}",
                "must not be different in every row: nothing is left for the other features. Leave "
                "it out; labels belong in a column arm, or in the index of a DataFrame",
            )
    constant = any(levels.values()) and not any(
        not isinstance(column[0], str) and column[0] != 0.0 and len(set(column)) == 1
        for column in table.values()
    )
    return Encoding(levels, check_interactions(interactions, list(table)), constant)


def _refuse_constant(table: Table) -> None:
    """Refuse a column that is the same in every row: it is what keeps others from being used."""
    for name, column in table.items():
        if len(set(column)) == 1:
            raise InvalidArgument(
                f"features: feature {name!r}",
                "must not be the same in every row: it says nothing about the arms. Leave it out",
                column[0],
            )


def check_interactions(interactions: Any, columns: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return groups of two or more distinct columns."""
    accepted = 'must be lists of two or more columns, such as [["ligand", "base"]]'
    if isinstance(interactions, str) or not isinstance(interactions, Sequence):
        raise InvalidArgument("interactions", accepted, interactions)
    found: list[tuple[str, ...]] = []
    for place, names in enumerate(interactions):
        if isinstance(names, str) or not isinstance(names, Sequence) or len(names) < 2:
            raise InvalidArgument(f"interactions[{place}]", accepted, names)
        for name in names:
            if name not in columns:
                raise InvalidArgument(
                    f"interactions[{place}]",
                    f"must name columns of features; {did_you_mean(str(name), columns)}",
                    name,
                )
        if len(set(names)) < len(names) or set(names) in map(set, found):
            raise InvalidArgument(
                f"interactions[{place}]", "must be distinct columns, and no group twice", names
            )
        found.append(tuple(names))
    return tuple(found)


def joined_labels(table: Table) -> list[str] | None:
    """Return the joined values of each row as labels, if they are distinct and not too long.

    Examples
    --------
    >>> joined_labels({"base": ["B01", "B02"], "temperature": [90.0, 105.5]})
    ['B01 90', 'B02 105.5']
    """
    rows = zip(*table.values(), strict=True)
    labels = [" ".join(map(label_of, row)) for row in rows]
    fit = len(set(labels)) == len(labels) and max(map(len, labels)) <= _LONGEST_JOINED
    return labels if fit else None
