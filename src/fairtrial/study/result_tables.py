"""Results and corrections of a table, as values: read from a file, or sent to a service."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from fairtrial.core import Problem
from fairtrial.core.cells import NotANumber, NumberFormat, label_of, number_of
from fairtrial.core.printing import printable
from fairtrial.core.problem import Outcome
from fairtrial.core.tables import without_formula
from fairtrial.errors import InvalidArgument, InvalidTable

__all__ = ["Correction", "Mistake", "ResultRow", "ResultTable", "Spot"]


_ROUNDED = 1e-14
"""How far a number may be from what a spreadsheet made of it: it keeps fifteen digits."""


class Spot(NamedTuple):
    """Where a row is: its index among the rows of its table, and the words for its line."""

    place: int
    line: str


class Mistake(NamedTuple):
    """Where an invalid row is, and what is wrong with it."""

    spot: Spot
    text: str


@dataclass(frozen=True)
class ResultRow:
    """A row of a table that has a result.

    Parameters
    ----------
    spot : Spot
        Where it is in the table.
    pull_id : str
        The id of its pull.
    labels : mapping of str to str
        What the table states about the pull: its labels and the ingredients of its arm.
    result : float, mapping of str to object, or None
        The checked outcome; None if the table says that the pull will have none.
    participant : str, optional
        The number of its participant, if the table has it.
    """

    spot: Spot
    pull_id: str
    labels: Mapping[str, str]
    result: Outcome | None
    participant: str | None = None

    def check_labels(self, problem: Problem, action: int) -> None:
        """Raise if the labels are not the pull's: results were moved to other rows."""
        known = {**problem.conditions(action), **problem.labels(action)}
        for name, given in self.labels.items():
            if not _is_same(given, str(known[name])):
                raise InvalidArgument(
                    name,
                    f"is {given!r}, but this pull is of {known[name]!r}: were only some of the "
                    "columns sorted? The column may be left out",
                )


@dataclass(frozen=True)
class Correction:
    """A result that a table corrects.

    Parameters
    ----------
    pull_id : str
        The id of the pull.
    before, after : float, or mapping of str to object
        The result on record, and that of the table. With several measures or fields, the others
        keep their values.
    participant : str, optional
        The number of the participant, if the table has it.
    """

    pull_id: str
    before: Outcome
    after: Outcome
    participant: str | None = None


@dataclass(frozen=True)
class ResultTable:
    """The results in a table, with its mistakes.

    Parameters
    ----------
    name : str
        The name of its file.
    rows : tuple of ResultRow
        The valid rows that have a result.
    mistakes : tuple of Mistake
        The invalid rows.
    """

    name: str
    rows: tuple[ResultRow, ...]
    mistakes: tuple[Mistake, ...] = ()

    @property
    def reason(self) -> str:
        """Why pulls fail that the table says have no result."""
        return f"no result, according to {self.name}"

    def refuse(self, more: Iterable[Mistake] = ()) -> None:
        """Raise if the table has mistakes, or if there are more."""
        mistakes = sorted([*self.mistakes, *more])
        if mistakes:
            raise InvalidTable([f"{one.spot.line}: {one.text}" for one in mistakes], self.name)

    def to_json(self) -> dict[str, Any]:
        """Return the table as JSON's own types; `from_json` reads it back."""
        rows = [
            {
                **row.spot._asdict(),
                "pull": row.pull_id,
                "labels": dict(row.labels),
                "result": row.result,
                "participant": row.participant,
            }
            for row in self.rows
        ]
        mistakes = [{**one.spot._asdict(), "text": one.text} for one in self.mistakes]
        return {"name": self.name, "rows": rows, "mistakes": mistakes}

    @classmethod
    def from_json(cls, sent: Mapping[str, Any]) -> Self:
        """Return the table that `to_json` wrote; its values are not yet checked."""
        rows = (
            ResultRow(_spot(row), row["pull"], row["labels"], row["result"], row["participant"])
            for row in sent["rows"]
        )
        mistakes = (Mistake(_spot(one), one["text"]) for one in sent["mistakes"])
        return cls(sent["name"], tuple(rows), tuple(mistakes))


def _spot(sent: Mapping[str, Any]) -> Spot:
    return Spot(sent["place"], sent["line"])


def _is_same(given: str, known: str) -> bool:
    """Return whether two labels are the same; a spreadsheet may turn 0.50 into 0.5 or 0,5."""
    written = without_formula(known)
    if given in map(label_of, (known, written, printable(written))):
        return True
    if given.isdecimal() and known.isdecimal():
        return int(given) == int(known)
    try:
        number = NumberFormat.of([given]).number(given)
        return math.isclose(number, number_of(known), rel_tol=_ROUNDED)
    except NotANumber:
        return False
