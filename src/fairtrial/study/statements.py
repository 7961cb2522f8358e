"""SQL statements, and the rows that they concern."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

__all__ = [
    "Change",
    "Statements",
    "columns",
    "is_encodable",
    "is_in_no_row",
    "is_storable",
    "places",
]

Change = tuple[str, Sequence[Sequence[Any]]]
"""A statement, and the values of all rows for which it is executed."""


def columns(row_type: Any) -> str:
    """Return the names of a row's columns, separated by commas."""
    return ", ".join(row_type._fields)


def places(row_type: Any) -> str:
    """Return a placeholder for each value of a row, separated by commas."""
    return ", ".join("?" for _ in row_type._fields)


def is_encodable(text: object) -> bool:
    """Return whether a database accepts the text: it has no unpaired surrogates."""
    return text is None or str(text).encode(errors="ignore").decode() == text


def is_storable(text: object) -> bool:
    """Return whether every database stores the text unchanged."""
    return is_encodable(text) and "\0" not in str(text)


def is_in_no_row(values: Sequence[Any]) -> bool:
    """Return whether no row has these values, because no database stores one of the texts."""
    return any(isinstance(value, str) and not is_storable(value) for value in values)


class Statements(ABC):
    """Base of classes that execute statements; those that change data need a transaction."""

    @abstractmethod
    def _all(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Return all rows that a statement yields."""

    @abstractmethod
    def _change(self, *changes: Change) -> int:
        """Make changes, each for all of its rows; return how many rows the last one changed."""

    def _one(self, statement: str, parameters: Sequence[Any] = ()) -> Any:
        return next(iter(self._all(statement, parameters)), None)
