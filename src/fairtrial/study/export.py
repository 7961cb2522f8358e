"""Logs written to files, to be read elsewhere or to be moved to another store."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairtrial.core import Problem
from fairtrial.errors import InvalidArgument, MissingExtra, StorageError
from fairtrial.study.log import TELLS, Event, Record
from fairtrial.study.store import Store, StudyRow

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LOG_FORMAT", "export", "history"]

LOG_FORMAT = 1
"""Number of the format of JSON lines."""

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
    with _replacing(path) as part:
        if ending == ".jsonl":
            _write_lines(store, study, part)
        elif ending == ".csv":
            _write_csv(_Table(store, study, problem), part)
        else:
            _write_parquet(store, study, problem, part)


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Give a file to write to, which takes the place of `path` once it is whole."""
    part = path.with_name(f"{path.name}.part")
    try:
        yield part
        part.replace(path)
    except StorageError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(f"{path} cannot be written: {reason}") from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _write_lines(store: Store, study: StudyRow, path: Path) -> None:
    header = {
        "fairtrial_log": LOG_FORMAT,
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
        writer.writerow(table.columns)
        writer.writerows(table.rows())


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
    table = _Table(store, study, problem)
    frame = pd.DataFrame(list(table.rows()), columns=table.columns)
    for name in ("number", "action", "stage"):
        frame[name] = frame[name].astype("Int64")
    frame["value"] = frame["value"].astype("float64")
    for name in ("at", "lease_until"):
        frame[name] = pd.to_datetime(frame[name], utc=True).astype("datetime64[us, UTC]")
    return frame.set_index("seq")


class _Table:
    """A log as rows and columns: labels, outcomes and reasons spelled out."""

    _before = ("seq", "at", "kind", "number", "action")
    _after = ("stage", "reason", "actor", "lease_until", "pull_id", "request_id", "body", "hash")

    def __init__(self, store: Store, study: StudyRow, problem: Problem) -> None:
        self._store = store
        self._study = study
        self._problem = problem
        self._labels = list(problem.action_labels[0])
        self._fields = self._outcome_fields()
        fixed = (*self._before, "value", *self._after)
        self.columns = [
            *self._before,
            *(name if name not in fixed else f"label_{name}" for name in self._labels),
            "value",
            *(f"outcome_{name}" for name in self._fields),
            *self._after,
        ]

    def _records(self) -> Iterator[Record]:
        return self._store.records(self._study.id, until=self._study.head_seq)

    def _outcome_fields(self) -> list[str]:
        """Return the fields of the first outcome: a problem's outcomes all have the same."""
        first = next((record for record in self._records() if record.kind in TELLS), None)
        outcome = None if first is None else Event.of(first).outcome
        return list(outcome) if isinstance(outcome, Mapping) else []

    def rows(self) -> Iterator[list[Any]]:
        """Yield one row per event."""
        return (self._row(record) for record in self._records())

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
            *(outcome.get(name) for name in self._fields),
            event.stage,
            event.body.get("reason"),
            event.actor,
            event.lease_until,
            event.pull_id,
            event.request_id,
            record.body,
            event.hash,
        ]
