"""Statements of SQL, and the rows that they are about."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

__all__ = ["Change", "Statements", "columns", "places"]

Change = tuple[str, Sequence[Sequence[Any]]]
"""A statement, and the values of all rows that it is carried out for."""


def columns(row_type: Any) -> str:
    """Return the names of the columns that a row is made of."""
    return ", ".join(row_type._fields)


def places(row_type: Any) -> str:
    """Return a mark for each value of a row."""
    return ", ".join("?" for _ in row_type._fields)


class Statements(ABC):
    """What carries out statements; those that change something within a transaction."""

    @abstractmethod
    def _all(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Return all rows that a statement gives."""

    @abstractmethod
    def _change(self, *changes: Change) -> int:
        """Make changes, each for all of its rows; return how many rows the last one changed."""

    def _one(self, statement: str, parameters: Sequence[Any] = ()) -> Any:
        return next(iter(self._all(statement, parameters)), None)
