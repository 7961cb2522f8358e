"""Rows of features as given: numbers, or tables whose text is encoded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.frames import plain_data
from fairtrial.errors import InvalidArgument
from fairtrial.linear._arguments import (
    column_names,
    in_the_order_of,
    is_frame,
    labels_of,
    rows_of,
)
from fairtrial.linear._encoding import Encoding, Table, encoding_of, joined_labels, table_of

__all__ = ["Described", "described"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Described:
    """How the descriptions of arms and candidates are read.

    Parameters
    ----------
    tables : mapping of str to Table
        Those of ``features`` and ``candidates`` that are tables to encode.
    encoding : Encoding, optional
        The encoding of the tables; None for plain numbers.
    """

    tables: Mapping[str, Table]
    encoding: Encoding | None

    @property
    def interactions(self) -> tuple[tuple[str, ...], ...]:
        """Columns whose products are also features."""
        return () if self.encoding is None else self.encoding.interactions

    @property
    def references(self) -> Mapping[str, str]:
        """By column of text, the value that the other values are compared with."""
        return {} if self.encoding is None else self.encoding.references

    def features(self, features: Any) -> tuple[Floats, tuple[str, ...]]:
        """Return the arms' features, shape (K, d), and their names."""
        if self.encoding is not None:
            encoded = self.encoding.features("features", self.tables["features"])
            return rows_of("features", encoded, names=self.encoding.names), self.encoding.names
        rows = rows_of("features", features)
        return rows, column_names(features, rows.shape[1])

    def candidates(self, candidates: Any, features: Any, width: int) -> Floats | None:
        """Return the candidates' features, shape (M, width); None if they are the arms."""
        if candidates is None:
            return None
        if self.encoding is not None and "candidates" in self.tables:
            candidates = self.encoding.features("candidates", self.tables["candidates"])
        elif isinstance(candidates, Mapping):
            candidates = list(zip(*candidates.values(), strict=True))
        elif is_frame(features) and is_frame(candidates):
            candidates = in_the_order_of(candidates, features)
        return rows_of("candidates", candidates, width)

    def labels(
        self, name: str, labels: Any, argument: str, rows: Any, number: int
    ) -> tuple[str, ...]:
        """Return the labels of rows: the given ones, or the table's, or the joined conditions."""
        has_own = is_frame(rows) and type(rows.index).__name__ != "RangeIndex"
        if labels is None and argument in self.tables and not has_own:
            labels = joined_labels(self.tables[argument])
        return labels_of(name, labels, rows, number)

    def predicted(self, name: str, given: Any, names: Sequence[str]) -> Floats | Table:
        """Return features of other predictions, one row per candidate, or their table."""
        given = plain_data(given)
        if self.encoding is not None:
            table = table_of(name, given, is_encoded=True)
            if table is None and self.encoding.is_plain:
                return rows_of(name, given, len(names))
            if table is None:
                raise InvalidArgument(
                    name, f"must be a table with the columns {list(self.tables['features'])}"
                )
            return table
        if is_frame(given) and set(map(str, given.columns)) == set(names):
            given = given.rename(columns=str)[list(names)]
        return rows_of(name, given, len(names))

    def rows_predicted(self, name: str, given: Any, width: int) -> Floats:
        """Return the result of `predicted` as floats of shape (n, width)."""
        if self.encoding is None or isinstance(given, np.ndarray):
            return np.asarray(given)
        return rows_of(name, self.encoding.features(name, given), width)

    def conditions(self, arm: int) -> Mapping[str, float | str]:
        """Return an arm's values in the table that describes the arms; empty without a table."""
        table = self.tables.get("features", {})
        return {name: column[arm] for name, column in table.items()}


def described(features: Any, candidates: Any, interactions: Any) -> Described:
    """Return how these arguments are read: tables with text or interactions are encoded."""
    has_interactions = not isinstance(interactions, Sequence) or len(interactions) > 0
    table = table_of("features", features, is_encoded=has_interactions)
    if table is None:
        if has_interactions:
            raise InvalidArgument(
                "interactions", "need features with named columns: a table", interactions
            )
        return Described({}, None)
    encoding = encoding_of(table, interactions)
    if candidates is None:
        return Described({"features": table}, encoding)
    chosen = table_of("candidates", candidates, is_encoded=True)
    if chosen is None and encoding.is_plain:
        return Described({"features": table}, encoding)
    if chosen is None:
        raise InvalidArgument("candidates", f"must be a table with the columns {list(table)}")
    return Described({"features": table, "candidates": chosen}, encoding)
