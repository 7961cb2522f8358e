"""Write logs to files, to be read elsewhere or moved to another store."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fairtrial.core import Problem
from fairtrial.core.files import replacing
from fairtrial.core.frames import Library, arrow_library
from fairtrial.core.tables import chosen_library, without_formula, write_table
from fairtrial.errors import InvalidArgument, StorageError
from fairtrial.study.log import TELLS, Event, Record
from fairtrial.study.store import Store, StudyRow

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ENDINGS", "LOG_FORMATS", "LogText", "RecordSource", "export", "history", "records_of"]

LOG_FORMATS = (1, 2)
"""Version numbers of the JSON lines format; each equals the version of the chain of hashes."""

_BATCH = 5_000
"""Number of events that are converted at a time."""
_MOST_ROWS = 1_048_576
"""Rows of a sheet of Excel, with the header."""
_LONGEST_CELL = 32_767
"""Characters in a cell of Excel."""
_NOTHING: Mapping[str, Any] = {}
ENDINGS = (".jsonl", ".csv", ".parquet", ".xlsx")
"""Endings of files that a log can be written to."""

RecordSource = Callable[[], Iterator[Record]]
"""Iterates over a log from its first event each time it is called."""


def export(store: Store, study: StudyRow, problem: Problem, path: Path) -> None:
    """Write a study's log to a file, in the format that the file's ending names.

    Raises
    ------
    InvalidArgument
        If the ending is unknown, or the log has more events or longer texts than a workbook holds.
    StorageError
        If the file cannot be written.
    MissingExtra
        If Parquet or a workbook is requested and its packages are missing.
    """
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise InvalidArgument("path", f"must end in {', '.join(ENDINGS)}", str(path))
    if ending == ".xlsx":
        _write_workbook(study, _Table(records_of(store, study), problem), path)
        return
    with replacing(path) as part:
        if ending == ".parquet":
            _write_parquet(records_of(store, study), problem, part)
        else:
            _write_text(LogText(store, study, problem, ending), part)


def _write_text(text: LogText, path: Path) -> None:
    # Keep the text's own line ends on every system.
    with path.open("w", encoding="utf-8", newline="") as stream:
        stream.write(text.head())
        for after in range(0, text.events, _BATCH):
            stream.write(text.page(after, _BATCH))


class LogText:
    """The text of a log file, produced in parts, from the log as it was at the beginning.

    Parameters
    ----------
    store : Store
        The store of the log.
    study : StudyRow
        The study, with its last event.
    problem : Problem
        The study's problem.
    ending : {".jsonl", ".csv"}
        The format of the file.
    """

    def __init__(self, store: Store, study: StudyRow, problem: Problem, ending: str) -> None:
        self._store = store
        self._study = study
        self._table = _Table(records_of(store, study), problem) if ending == ".csv" else None

    @property
    def events(self) -> int:
        """The number of events."""
        return self._study.head_seq

    def head(self) -> str:
        """Return the first line."""
        if self._table is not None:
            return _csv_lines([self._table.columns])
        return json.dumps(_header(self._study)) + "\n"

    def page(self, after: int, most: int) -> str:
        """Return the lines of at most `most` events after number `after`.

        Raises
        ------
        StorageError
            If an event is missing: the storage has been replaced.
        """
        until = min(after + most, self.events)
        records = list(self._store.records(self._study.id, after, until))
        if len(records) != until - after:
            raise StorageError(
                f"study {self._study.name!r} no longer has event {after + len(records) + 1}: its "
                "storage was replaced while the log was read"
            )
        if self._table is not None:
            return _csv_lines(map(self._table.row, records))
        return "".join(json.dumps(_line(record)) + "\n" for record in records)


def _header(study: StudyRow) -> dict[str, Any]:
    return {
        "fairtrial_log": study.chain,
        "name": study.name,
        "specification": json.loads(study.spec_json),
        "policy_version": study.policy_version,
        "created_with": study.created_with,
        "created_at": study.created_at,
        **({} if study.secret is None else {"secret": study.secret}),
        "events": study.head_seq,
        "head_hash": study.head_hash,
    }


def _line(record: Record) -> dict[str, Any]:
    line = {name: value for name, value in record._asdict().items() if value is not None}
    if record.body is not None:
        line["body"] = json.loads(record.body)
    return line


def _csv_lines(rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(map(without_formula, row) for row in rows)
    return text.getvalue()


def _write_parquet(records: RecordSource, problem: Problem, path: Path) -> None:
    import narwhals as nw  # noqa: PLC0415 - optional

    table = history(records, problem, arrow_library("a Parquet file"))
    nw.from_native(table, eager_only=True).write_parquet(path)


def _write_workbook(study: StudyRow, table: _Table, path: Path) -> None:
    if study.head_seq >= _MOST_ROWS:
        expected = f"must end in .csv or .parquet for a log of {study.head_seq:,} events"
        raise InvalidArgument("path", f"{expected}: a sheet has {_MOST_ROWS:,} rows", str(path))
    rows = (
        [_sheet_cell(name, cell, path) for name, cell in zip(table.columns, row, strict=True)]
        for row in map(table.row, table.records())
    )
    write_table(path, table.columns, rows)


def _sheet_cell(name: str, cell: Any, path: Path) -> Any:
    """Return what a sheet holds without loss; its numbers have 15 digits, so times are text."""
    if isinstance(cell, datetime):
        return cell.isoformat(timespec="microseconds")
    # One more may be needed to neutralise a formula.
    if isinstance(cell, str) and len(cell) >= _LONGEST_CELL:
        expected = f"must end in .csv or .parquet: a text in column {name!r} is too long for a cell"
        raise InvalidArgument("path", expected, str(path))
    return cell


# ------------------------------------------------------------------------------ table


def records_of(store: Store, study: StudyRow) -> RecordSource:
    """Return a callable that iterates over a study's log, up to its present head."""
    return lambda: store.records(study.id, until=study.head_seq)


def history(records: RecordSource, problem: Problem, library: Library | None = None) -> Any:
    """Return a study's log as a table, one row per event.

    Parameters
    ----------
    records, problem : RecordSource, Problem
        The log, and the study's problem.
    library : {"pandas", "polars", "pyarrow"}, optional
        The library of the table; by default the first of these that is installed. In a frame of
        pandas, the index is the number of the event.

    Raises
    ------
    InvalidArgument
        If the library is another.
    MissingExtra
        If it is not installed.
    """
    backend = chosen_library(library, "a study's history as a table")
    table = _Table(records, problem)
    columns = _columns(table)
    return _frame_of_pandas(table, columns) if backend == "pandas" else _frame(columns, backend)


def _frame(columns: dict[str, list[Any]], library: Library) -> Any:
    import narwhals as nw  # noqa: PLC0415 - optional

    types: dict[str, Any] = {"float": nw.Float64, "int": nw.Int64, "str": nw.String}
    series = {
        name: nw.new_series(name, values, types[_kind(name, values)], backend=library)
        for name, values in columns.items()
    }
    moments = [nw.col(name).cast(nw.Datetime("us", "UTC")) for name in _TIMES]
    return nw.from_dict(series).with_columns(moments).to_native()


def _kind(name: str, values: list[Any]) -> str:
    """Return the type of a column; times are still numbers."""
    if name in _TIMES:
        return "int"
    if name in _DTYPES:
        return _DTYPES[name].lower().removesuffix("64")
    numbers = [isinstance(value, int | float) for value in values if value is not None]
    return "float" if numbers and all(numbers) else "str"


def _frame_of_pandas(table: _Table, columns: dict[str, list[Any]]) -> pd.DataFrame:
    import pandas as pd  # noqa: PLC0415 - optional

    # One column at a time, so that each list is freed once its series exists.
    series = {name: _series(name, columns.pop(name)) for name in table.columns}
    return pd.DataFrame(series).set_index("seq")


_DTYPES = {
    "seq": "int64",
    **dict.fromkeys(("value", "propensity"), "float64"),
    **dict.fromkeys(("number", "action", "stage"), "Int64"),
}
"""Types of columns other than times; for all others, pandas infers the type."""
_TIMES = ("at", "lease_until")


def _series(name: str, values: list[Any]) -> pd.Series[Any]:
    import pandas as pd  # noqa: PLC0415 - optional

    if name in _TIMES:
        moments = pd.Series(values, dtype="Int64").astype("datetime64[us]")
        return cast("pd.Series[Any]", moments.dt.tz_localize("UTC"))
    return pd.Series(values, dtype=_DTYPES.get(name))


def _columns(table: _Table) -> dict[str, list[Any]]:
    """Return a log as columns; times are still numbers."""
    columns: dict[str, list[Any]] = {name: [] for name in table.columns}
    records = table.records()
    while batch := list(islice(records, _BATCH)):
        for name, values in _batch_columns(table, batch).items():
            columns[name].extend(values)
    return columns


def _batch_columns(table: _Table, records: Sequence[Record]) -> dict[str, Iterable[Any]]:
    found = dict(zip(Record._fields, zip(*records, strict=True), strict=True))
    bodies = [json.loads(body) if body else _NOTHING for body in found["body"]]
    labels = [_NOTHING if one is None else table.labels_of(one) for one in found["action"]]
    outcomes = [body.get("outcome") or _NOTHING for body in bodies] if table.fields else ()
    return {
        **{name: values for name, values in found.items() if name in table.columns},
        # Shares the memory of the few words that repeat in every row.
        "kind": map(sys.intern, found["kind"]),
        **{
            column: [label.get(name) for label in labels]
            for column, name in table.label_columns.items()
        },
        **{f"outcome_{name}": [outcome.get(name) for outcome in outcomes] for name in table.fields},
        "propensity": [body.get("propensity") for body in bodies],
        "reason": [body.get("reason") for body in bodies],
    }


class _Table:
    """A log as rows and columns, with labels, outcomes and reasons in full."""

    _before = ("seq", "at", "kind", "number", "action")
    _after = (
        "propensity",
        "stage",
        "reason",
        "actor",
        "lease_until",
        "pull_id",
        "request_id",
        "body",
        "hash",
    )

    def __init__(self, records: RecordSource, problem: Problem) -> None:
        self.records = records
        self._problem = problem
        self._labels = list(problem.action_labels[0])
        self.fields = self._outcome_fields()
        fixed = (*self._before, "value", *self._after)
        self.label_columns = {
            name if name not in fixed else f"label_{name}": name for name in self._labels
        }
        self.columns = [
            *self._before,
            *self.label_columns,
            "value",
            *(f"outcome_{name}" for name in self.fields),
            *self._after,
        ]
        self.labels_of = cache(problem.labels)

    def _outcome_fields(self) -> list[str]:
        """Return the fields of the first outcome; all outcomes of a problem have the same ones."""
        if self._problem.measures:
            return list(self._problem.measures)
        first = next((record for record in self.records() if record.kind in TELLS), None)
        outcome = None if first is None else Event.of(first).outcome
        return list(outcome) if isinstance(outcome, Mapping) else []

    def row(self, record: Record) -> list[Any]:
        """Return the row of an event."""
        event = Event.of(record)
        labels = {} if event.action is None else self._problem.labels(event.action)
        outcome = event.outcome if isinstance(event.outcome, Mapping) else {}
        return [
            event.seq,
            event.at,
            event.kind,
            event.number,
            event.action,
            *(labels.get(name) for name in self._labels),
            event.value,
            *(outcome.get(name) for name in self.fields),
            event.body.get("propensity"),
            event.stage,
            event.body.get("reason"),
            event.actor,
            event.lease_until,
            event.pull_id,
            event.request_id,
            record.body,
            event.hash,
        ]
