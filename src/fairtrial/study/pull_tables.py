"""Tables of pulls: written without results, and read back with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairtrial.core import Problem
from fairtrial.core.cells import (
    FAILED,
    MISSING,
    NotANumber,
    UnreadableCell,
    label_of,
    tidy,
)
from fairtrial.core.problem import Outcome
from fairtrial.core.sheets import read_sheet
from fairtrial.core.tables import write_table
from fairtrial.errors import FairtrialError, InvalidArgument, UnknownPull
from fairtrial.study.arguments import as_outcome
from fairtrial.study.pull import MASKED, StudyPull
from fairtrial.study.result_tables import Mistake, ResultRow, ResultTable, Spot

if TYPE_CHECKING:
    from fairtrial.study.numbers import Asked

__all__ = ["PullColumns", "PullFinder", "participants_of", "read_results", "write_pulls"]

PullFinder = Callable[[str], str]
"""Return the id of the pull of a participant or unit; raise `UnknownPull` if there is none."""

_ID, _NUMBER, _BLOCK, _VALUE = "pull_id", "number", "block", "value"
_PARTICIPANT, _UNIT, _KITS = "participant", "unit", "kits"
_AS_A_NUMBER = re.compile(r"[+-]?\d+([.,]\d+)?(e[+-]?\d+)?", re.IGNORECASE)
_DIGITS_OF_ID = 32
_WITHOUT = (FAILED, MISSING)
"""Words for a result that will never be known; a blank one is not known yet."""


class PullColumns:
    """The columns of a table of pulls; they have the same names as in an exported log.

    Parameters
    ----------
    problem : Problem
        The problem of the pulls.
    has_blocks : bool
        Whether the pulls have blocks.
    shown : collection of str, optional
        The labels that the pulls show, if not all: those of a masked study hide the arm.
    """

    def __init__(
        self, problem: Problem, has_blocks: bool = False, shown: Collection[str] | None = None
    ) -> None:
        self._problem = problem
        self._has_conditions = shown is None
        self._own = [_ID, _NUMBER, *([_BLOCK] if has_blocks else [])]
        taken = (_ID, _NUMBER, _BLOCK, _VALUE)
        self.labels = {
            name if name not in taken else f"label_{name}": name
            for name in problem.action_labels[0]
            if shown is None or name in shown
        }
        """The label in each column."""
        self.fields = {f"outcome_{name}": name for name in problem.outcome_fields}
        """The outcome's field in each column; empty if outcomes are numbers."""

    @property
    def results(self) -> list[str]:
        """The columns to fill in."""
        return list(self.fields) or [_VALUE]

    @cached_property
    def conditions(self) -> list[str]:
        """The ingredients of the pulls' arms, unless another column has the same name."""
        if not self._has_conditions:
            return []
        others = {_ID, _NUMBER, _BLOCK, *self.labels, *self.results}
        return [name for name in self._problem.conditions(0) if name not in others]

    @property
    def header(self) -> list[str]:
        """The names of all columns."""
        return [*self._own, *self.labels, *self.conditions, *self.results]

    def row(self, pull: StudyPull) -> list[Any]:
        """Return the cells of a pull, with blank results."""
        labels = (pull.labels.get(name, "") for name in self.labels.values())
        known = {} if pull.action == MASKED else self._problem.conditions(pull.action)
        own = (_as_written(known[name]) if known else "" for name in self.conditions)
        about = [pull.id, pull.number, pull.block][: len(self._own)]
        return [*about, *labels, *own, *("" for _ in self.results)]


def write_pulls(
    problem: Problem,
    pulls: Sequence[StudyPull],
    path: Path,
    units: Mapping[str, str] | None = None,
    participants: Mapping[str, str] | None = None,
) -> None:
    """Write pulls as a table, with blank columns for their results.

    `units` and `participants` have those of each pull, by its id, for a column of the table. Pulls
    that hide their arms, as in a masked study, have their kits instead.

    Raises
    ------
    InvalidArgument
        If the file's ending is not supported.
    StorageError
        If the file cannot be written.
    """
    is_masked = bool(pulls) and all(pull.action == MASKED for pull in pulls)
    shown = {name for pull in pulls for name in pull.labels} if is_masked else None
    has_blocks = any(pull.block is not None for pull in pulls)
    columns = PullColumns(problem, has_blocks, shown)
    kits = {pull.id: ", ".join(pull.kits) for pull in pulls}
    has_kits = any(kits.values()) and _KITS not in columns.header
    about = {_UNIT: units, _PARTICIPANT: participants, _KITS: kits if has_kits else None}
    known = {name: of for name, of in about.items() if of is not None}
    rows = ([*(of[pull.id] for of in known.values()), *columns.row(pull)] for pull in pulls)
    write_table(path, [*known, *columns.header], rows)


def participants_of(pulls: Sequence[StudyPull], asked: Sequence[Asked]) -> dict[str, str] | None:
    """Return the participant of each pull, by the pull's id; None if there are none.

    Parameters
    ----------
    pulls : sequence of StudyPull
        The pulls.
    asked : sequence of Asked
        When and for whom each was asked for, as far as this is known.
    """
    if not any(own.participant for own in asked):
        return None
    known = {own.number: own.participant or "" for own in asked}
    return {pull.id: known.get(pull.number, "") for pull in pulls}


def read_results(
    problem: Problem,
    path: Path,
    decimal: str | None = None,
    find: Mapping[str, PullFinder] | None = None,
) -> ResultTable:
    """Return the results in the file of a table, with all its mistakes.

    Parameters
    ----------
    problem : Problem
        The problem that checks the outcomes.
    path : Path
        The file of the table.
    decimal : {".", ","}, optional
        The decimal separator, if the columns do not show it.
    find : mapping of str to PullFinder
        Finds the pull of a participant or unit, for the column that may name the pull instead of
        its id: ``participant`` or ``unit``.
    """
    return _Reader(problem, path, decimal, find or {}).table()


class _Reader:
    """Reads the rows of a table of results, and notes their mistakes."""

    def __init__(
        self, problem: Problem, path: Path, decimal: str | None, find: Mapping[str, PullFinder]
    ) -> None:
        self._problem = problem
        self._columns = PullColumns(problem)
        self._sheet = read_sheet(path, decimal)
        self._find = self._finders(find)
        self._require_columns()
        self._formats = {name: self._sheet.format_of(name) for name in self._columns.results}
        self._mistakes: list[Mistake] = []

    def table(self) -> ResultTable:
        """Return the rows that have a result, and the mistakes of the others."""
        rows = tuple(self._read())
        return ResultTable(self._sheet.file.name, rows, tuple(self._mistakes))

    def _finders(self, find: Mapping[str, PullFinder]) -> dict[str, PullFinder]:
        """Return what finds pulls by columns of this table."""
        header = self._sheet.header
        own = {name: finder for name, finder in find.items() if name not in self._columns.header}
        if _ID in header:
            # Beside ids, a column `unit` may well be the unit of a measurement.
            own.pop(_UNIT, None)
        return own

    def _require_columns(self) -> None:
        header, results = self._sheet.header, self._columns.results
        missing = [name for name in results if name not in header]
        if _ID not in header and self._find.keys().isdisjoint(header):
            missing.insert(0, _ID)
        if missing:
            wanted = ", ".join([" or ".join([_ID, *self._find]), *results])
            raise InvalidArgument(
                "path",
                f"must be a table with the columns {wanted}; {self._sheet.file.name} "
                f"has no {', '.join(missing)}, it has {', '.join(header)}",
            )

    def _read(self) -> Iterator[ResultRow]:
        first: dict[str, int] = {}
        for place, cells in enumerate(self._cells):
            given = {name: cell for name, cell in cells.items() if not _is_empty(cell)}
            if given.keys().isdisjoint(self._columns.results):
                # The pull is still open, or the row is a remark below the table.
                continue
            try:
                pull_id = self._pull_of(given)
                earlier = first.setdefault(pull_id, place)
                if earlier != place:
                    raise self._repeated(given, earlier)
                participant = given.get(_PARTICIPANT) if _PARTICIPANT in self._find else None
                yield ResultRow(
                    self._spot(place),
                    pull_id,
                    self._labels(given),
                    self._result(given),
                    None if participant is None else _name_in(participant),
                )
            except FairtrialError as error:
                self._mistakes.append(Mistake(self._spot(place), str(error)))

    def _spot(self, place: int) -> Spot:
        return Spot(place, self._sheet.where(place))

    def _pull_of(self, given: Mapping[str, Any]) -> str:
        """Return the id of the pull of a row: by its id, by its participant or unit, or by both."""
        named = {
            column: self._found(column, given[column]) for column in self._find if column in given
        }
        if _ID not in given and named:
            return next(iter(named.values()))
        if _ID not in self._sheet.header:
            raise InvalidArgument(next(name for name in self._find), "is missing")
        pull_id = _pull_id(given.get(_ID))
        for column, found in named.items():
            if found != pull_id:
                accepted = (
                    f"must be that of the pull with the {_ID} of this row: were only some of the "
                    "columns sorted?"
                )
                raise InvalidArgument(column, accepted, _name_in(given[column]))
        return pull_id

    def _found(self, column: str, cell: Any) -> str:
        """Return the id of the pull of a participant or unit."""
        try:
            return self._find[column](_name_in(cell))
        except UnknownPull:
            if column == _PARTICIPANT:
                # It has the form of a number, so it is no name.
                accepted = "must be one who has a pull in this study"
                raise InvalidArgument(column, accepted, _name_in(cell)) from None
            raise InvalidArgument(column, "must be one that has a pull in this study") from None
        except InvalidArgument as error:
            # A message must not repeat what may be a name.
            raise InvalidArgument(column, error.accepted) from None

    def _repeated(self, given: Mapping[str, Any], earlier: int) -> InvalidArgument:
        where = self._sheet.where(earlier)
        name = next((name for name in (_ID, *self._find) if name in given), _ID)
        return InvalidArgument(name, f"names the same pull as {where}")

    @property
    def _cells(self) -> Iterator[dict[str, Any]]:
        """Yield the cells of each row, by column."""
        header = self._sheet.header
        for row in self._sheet.rows:
            yield dict(zip(header, row, strict=True))

    def _result(self, given: Mapping[str, Any]) -> Outcome | None:
        """Return the result of a row; None if the pull will have none."""
        words = {name: self._word(name, given) for name in self._columns.results}
        if all(word in _WITHOUT for word in words.values()):
            return None
        failed = [name for name, word in words.items() if word == FAILED]
        if failed:
            accepted = f"must be {MISSING!r} if other results of the row are known"
            raise InvalidArgument(failed[0], accepted, given[failed[0]])
        return as_outcome(self._problem, self._outcome(given))

    def _word(self, name: str, given: Mapping[str, Any]) -> str:
        """Return a cell in lower case; empty if it is a label of its field."""
        word = tidy(str(given.get(name, ""))).lower()
        field = self._columns.fields.get(name, "")
        return "" if word in map(str.lower, self._problem.labels_of_field(field)) else word

    def _outcome(self, given: Mapping[str, Any]) -> Outcome:
        """Return the outcome of a row."""
        if self._problem.measures:
            columns = self._columns.fields.items()
            return {own: self._measure(name, given[name]) for name, own in columns if name in given}
        blank = [name for name in self._columns.results if name not in given]
        if blank:
            raise InvalidArgument(", ".join(blank), "must be filled in, like the others of the row")
        if not self._columns.fields:
            return self._number(_VALUE, given[_VALUE])
        columns = self._columns.fields.items()
        return {field: self._number_or_label(name, given[name]) for name, field in columns}

    def _number(self, name: str, cell: Any) -> float:
        try:
            return self._formats[name].number(cell)
        except NotANumber as error:
            accepted = f"{error}; leave it blank while the pull is open"
            raise InvalidArgument(name, accepted, cell) from None

    def _measure(self, name: str, cell: Any) -> float | None:
        """Return the value of a measure; None if the table says that it will never be known."""
        return None if tidy(str(cell)).lower() == MISSING else self._number(name, cell)

    def _number_or_label(self, name: str, cell: Any) -> Any:
        """Return a field of a row: a number, or a label."""
        written = self._formats[name]
        if isinstance(cell, UnreadableCell) or (written.decimal is None and "," in str(cell)):
            return self._number(name, cell)
        return written.number(cell) if written.reads(cell) else label_of(cell)

    def _labels(self, given: Mapping[str, Any]) -> dict[str, str]:
        columns = self._columns.labels | {name: name for name in self._columns.conditions}
        return {
            name: label_of(given[column]) for column, name in columns.items() if column in given
        }


def _as_written(value: Any) -> Any:
    """Return a number as people write it: 120 instead of 120.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _is_empty(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and not tidy(cell))


def _name_in(cell: Any) -> str:
    """Return the number of a participant, or the unit, in a cell."""
    return label_of(cell).strip()


def _pull_id(cell: Any) -> str:
    text = label_of(cell).strip()
    if cell is None:
        raise InvalidArgument(_ID, "is missing")
    if isinstance(cell, int | float) or (
        len(text) != _DIGITS_OF_ID and _AS_A_NUMBER.fullmatch(text)
    ):
        raise InvalidArgument(
            _ID,
            "was turned into a number, by a spreadsheet perhaps: copy the id from `fairtrial study "
            "outstanding` into a column of text",
            cell,
        )
    return text
