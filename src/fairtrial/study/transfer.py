"""Logs as files: exported to be read elsewhere, or to be moved to another store."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairtrial.core import Policy, Problem
from fairtrial.errors import CorruptLog, InvalidArgument, MissingExtra, StorageError, StudyExists
from fairtrial.study.audit import Auditor
from fairtrial.study.log import KINDS, TELLS, Event, Record, canonical
from fairtrial.study.specification import Specification
from fairtrial.study.store import NewStudy, Store, StudyRow

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LogFile", "export", "history"]

_FORMAT = 1
_ENDINGS = (".jsonl", ".csv", ".parquet")
_BATCH = 1_000
_INTEGERS = ("seq", "number", "action", "tag", "stage", "lease_until", "at")
_TYPES: Mapping[str, type] = {
    **dict.fromkeys(Record._fields, str),
    **dict.fromkeys(_INTEGERS, int),
    "value": float,
    "body": dict,
}
_REQUIRED = ("seq", "kind", "at", "hash")


# ----------------------------------------------------------------------------- export


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
        part.unlink(missing_ok=True)


def _write_lines(store: Store, study: StudyRow, path: Path) -> None:
    header = {
        "fairtrial_log": _FORMAT,
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


# ----------------------------------------------------------------------------- import


class LogFile:
    """A log in a file of JSON lines, its header read and checked.

    Parameters
    ----------
    path : Path
        What `export` wrote.

    Raises
    ------
    CorruptLog
        If it is no such file.
    StorageError
        If it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        header = next(self._lines(), None)
        if header is None or header.get("fairtrial_log") != _FORMAT:
            raise self._corrupt(1, f"is not the header of a log of format {_FORMAT}")
        self._check_header(header)
        self.name: str = header["name"]
        self.spec = Specification.from_json(json.dumps(header["specification"]))
        self._header = header

    def _check_header(self, header: Mapping[str, Any]) -> None:
        types = {
            "name": str,
            "specification": dict,
            "policy_version": int,
            "created_with": str,
            "created_at": int,
            "events": int,
            "head_hash": str,
        }
        for key, kind in types.items():
            self._check(1, header, key, kind)
        spec = header["specification"]
        for key, kind in {"problem": dict, "policy": dict, "seed": int}.items():
            self._check(1, spec, key, kind)
        self._check(1, spec["problem"], "family", str)
        self._check(1, spec["policy"], "name", str)

    def insert(self, store: Store, name: str, fresh: Policy) -> StudyRow:
        """Write the log into a store, all of it or nothing; every event is checked.

        Raises
        ------
        StudyExists
            If the store has a study of that name.
        CorruptLog
            At the first event that does not follow from those before.
        """
        header = self._header
        new = NewStudy(
            name=name,
            spec_json=self.spec.to_json(),
            spec_sha256=self.spec.sha256,
            seed=str(self.spec.seed),
            policy_version=header["policy_version"],
            created_with=header["created_with"],
            created_at=header["created_at"],
        )
        auditor = Auditor(fresh, self.spec.sha256)
        with store.transaction():
            if store.find_study(name) is not None:
                raise StudyExists(f"{store.url} has a study {name!r} already; give another name")
            study = store.insert_study(new)
            records = self._records()
            while batch := list(islice(records, _BATCH)):
                study = self._append(store, study, batch, auditor)
            if (study.head_seq, study.head_hash) != (header["events"], header["head_hash"]):
                raise CorruptLog(
                    f"{self._path} ends with event {study.head_seq}, and not with the event "
                    f"{header['events']} that its header names"
                )
        return study

    def _append(
        self, store: Store, study: StudyRow, batch: Sequence[Record], auditor: Auditor
    ) -> StudyRow:
        try:
            auditor.check(batch)
        except CorruptLog as error:
            raise CorruptLog(f"{self._path}: {error}") from error
        touched = {record.pull_id for record in batch if record.pull_id is not None}
        pulls = [auditor.pulls[pull_id] for pull_id in touched]
        return store.append(study, batch, pulls, auditor.replica.status)

    # ---------------------------------------------------------------------- lines

    def _records(self) -> Iterator[Record]:
        lines = self._lines()
        next(lines)
        return (self._record(number, line) for number, line in enumerate(lines, start=2))

    def _lines(self) -> Iterator[dict[str, Any]]:
        try:
            with self._path.open(encoding="utf-8") as stream:
                for number, line in enumerate(stream, start=1):
                    yield self._parsed(number, line)
        except UnicodeDecodeError as error:
            raise CorruptLog(f"{self._path} must be UTF-8 text ({error.reason})") from error
        except OSError as error:
            reason = error.strerror or str(error)
            raise StorageError(f"{self._path} cannot be read: {reason}") from error

    def _parsed(self, number: int, line: str) -> dict[str, Any]:
        try:
            data = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise self._corrupt(number, f"is not JSON ({error})") from error
        if not isinstance(data, dict):
            raise self._corrupt(number, "is not a JSON object")
        return data

    def _record(self, number: int, line: Mapping[str, Any]) -> Record:
        for key in line:
            if key not in _TYPES:
                raise self._corrupt(number, f"has an unknown field {key!r}")
            self._check(number, line, key, _TYPES[key])
        for key in _REQUIRED:
            self._check(number, line, key, _TYPES[key])
        if line["kind"] not in KINDS:
            raise self._corrupt(number, f"has an unknown kind {line['kind']!r}")
        body = line.get("body")
        columns = {**line, "body": None if body is None else self._canonical(number, body)}
        return Record(**{**dict.fromkeys(Record._fields), **columns})

    def _canonical(self, number: int, body: Any) -> str:
        try:
            return canonical(body)
        except ValueError as error:
            raise self._corrupt(number, f"has a body that is not strict JSON ({error})") from error

    def _check(self, number: int, data: Mapping[str, Any], key: str, kind: type) -> None:
        if key not in data:
            raise self._corrupt(number, f"has no field {key!r}")
        value = data[key]
        if type(value) is not kind or (key != "seed" and not _is_storable(value)):
            raise self._corrupt(
                number, f"has a field {key!r} that is no {kind.__name__}: {value!r}"
            )

    def _corrupt(self, number: int, problem: str) -> CorruptLog:
        return CorruptLog(f"{self._path}: line {number} {problem}")


def _is_storable(value: Any) -> bool:
    """Return whether a database takes the value: 64 bits, finite, encodable."""
    if isinstance(value, str):
        return value.encode(errors="ignore").decode() == value
    if isinstance(value, int):
        return abs(value) < 2**63
    return not isinstance(value, float) or math.isfinite(value)
