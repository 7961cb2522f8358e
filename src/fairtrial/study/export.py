"""Logs written to files, to be read elsewhere or to be moved to another store."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairtrial.core import Problem
from fairtrial.core.files import replacing
from fairtrial.core.tables import without_formula
from fairtrial.errors import InvalidArgument, MissingExtra
from fairtrial.study.log import TELLS, Event, Record
from fairtrial.study.store import Store, StudyRow

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LOG_FORMATS", "export", "history"]

LOG_FORMATS = (1, 2)
"""Numbers of the formats of JSON lines; each is that of the chain of hashes within."""

_BATCH = 20_000
"""Events that are made into a part of a table at a time."""
_ENDINGS = (".jsonl", ".csv", ".parquet")


def export(store: Store, study: StudyRow, problem: Problem, path: Path) -> None:
    """Write a study's log to a file, in the format that its ending names.

    Raises
    ------
    InvalidArgument
        If the ending is not known.
    StorageError
        If the file cannot be written.
    MissingExtra
        If Parquet is wanted and its packages are missing.
    """
    ending = path.suffix.lower()
    if ending not in _ENDINGS:
        raise InvalidArgument("path", f"must end in {', '.join(_ENDINGS)}", str(path))
    with replacing(path) as part:
        if ending == ".jsonl":
            _write_lines(store, study, part)
        elif ending == ".csv":
            _write_csv(_Table(store, study, problem), part)
        else:
            _write_parquet(store, study, problem, part)


def _write_lines(store: Store, study: StudyRow, path: Path) -> None:
    header = {
        "fairtrial_log": study.chain,
        "name": study.name,
        "specification": json.loads(study.spec_json),
        "policy_version": study.policy_version,
        "created_with": study.created_with,
        "created_at": study.created_at,
        "events": study.head_seq,
        "head_hash": study.head_hash,
    }
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        stream.write(json.dumps(header) + "\n")
        for record in store.records(study.id, until=study.head_seq):
            stream.write(json.dumps(_line(record)) + "\n")


def _line(record: Record) -> dict[str, Any]:
    line = {name: value for name, value in record._asdict().items() if value is not None}
    if record.body is not None:
        line["body"] = json.loads(record.body)
    return line


def _write_csv(table: _Table, path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        for row in chain([table.columns], table.rows()):
            writer.writerow(map(without_formula, row))


def _write_parquet(store: Store, study: StudyRow, problem: Problem, path: Path) -> None:
    try:
        import pyarrow as pa  # noqa: F401
    except ImportError:
        raise MissingExtra("a Parquet file", "data") from None
    history(store, study, problem).to_parquet(path)


# ------------------------------------------------------------------------------ table


def history(store: Store, study: StudyRow, problem: Problem) -> pd.DataFrame:
    """Return a study's log as a table, one row per event.

    Raises
    ------
    MissingExtra
        If pandas is not installed.
    """
    try:
        import pandas as pd
    except ImportError:
        raise MissingExtra("a study's history as a table", "data") from None
    import numpy as np

    table = _Table(store, study, problem)
    parts = [_columns(table, batch) for batch in _batches(table.records())]
    joined = {name: _joined([part[name] for part in parts]) for name in table.columns}
    frame = pd.DataFrame(joined, columns=table.columns)
    for name in ("number", "action", "stage"):
        frame[name] = frame[name].astype("Int64")
    for name in ("at", "lease_until"):
        moments = np.asarray(joined[name], dtype=np.int64).astype("datetime64[us]")
        frame[name] = pd.Series(moments).dt.tz_localize("UTC")
    return frame.astype({"value": "float64", "seq": "int64"}).set_index("seq")


def _joined(parts: Sequence[Any]) -> Any:
    import numpy as np

    if parts and isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return list(chain.from_iterable(parts))


def _batches(records: Iterator[Record]) -> Iterator[list[Record]]:
    while batch := list(islice(records, _BATCH)):
        yield batch


def _columns(table: _Table, records: Sequence[Record]) -> dict[str, Any]:
    """Return a part of a log column by column; times are still numbers."""
    import numpy as np

    columns = dict(zip(Record._fields, zip(*records, strict=True), strict=True))
    bodies = [json.loads(body) if body else {} for body in columns["body"]]
    actions = [None if action is None else table.labels_of(action) for action in columns["action"]]
    outcomes = [body.get("outcome") or {} for body in bodies]
    never = np.iinfo(np.int64).min
    return {
        "seq": np.array(columns["seq"], dtype=np.int64),
        "at": np.array(columns["at"], dtype=np.int64),
        "kind": list(columns["kind"]),
        **{name: list(columns[name]) for name in ("number", "action")},
        **{
            column: [None if labels is None else labels.get(name) for labels in actions]
            for column, name in table.label_columns.items()
        },
        "value": np.array(columns["value"], dtype=np.float64),
        **{f"outcome_{name}": [outcome.get(name) for outcome in outcomes] for name in table.fields},
        "stage": list(columns["stage"]),
        "reason": [body.get("reason") for body in bodies],
        "actor": list(columns["actor"]),
        "lease_until": np.array(
            [never if until is None else until for until in columns["lease_until"]], dtype=np.int64
        ),
        **{name: list(columns[name]) for name in ("pull_id", "request_id", "body", "hash")},
    }


class _Table:
    """A log as rows and columns: labels, outcomes and reasons spelled out."""

    _before = ("seq", "at", "kind", "number", "action")
    _after = ("stage", "reason", "actor", "lease_until", "pull_id", "request_id", "body", "hash")

    def __init__(self, store: Store, study: StudyRow, problem: Problem) -> None:
        self._store = store
        self._study = study
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

    def records(self) -> Iterator[Record]:
        """Yield the events."""
        return self._store.records(self._study.id, until=self._study.head_seq)

    def _outcome_fields(self) -> list[str]:
        """Return the fields of the first outcome: a problem's outcomes all have the same."""
        first = next((record for record in self.records() if record.kind in TELLS), None)
        outcome = None if first is None else Event.of(first).outcome
        return list(outcome) if isinstance(outcome, Mapping) else []

    def rows(self) -> Iterator[list[Any]]:
        """Yield one row per event."""
        return (self._row(record) for record in self.records())

    def _row(self, record: Record) -> list[Any]:
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
            event.stage,
            event.body.get("reason"),
            event.actor,
            event.lease_until,
            event.pull_id,
            event.request_id,
            record.body,
            event.hash,
        ]
