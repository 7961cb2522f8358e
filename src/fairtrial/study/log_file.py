"""Read a log from a file, check every event, and write it into a store."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import count, islice
from pathlib import Path
from typing import Any

from fairtrial.core import Policy
from fairtrial.core.nesting import is_deeper
from fairtrial.errors import CorruptLog, InvalidArgument, StorageError, StudyExists
from fairtrial.study.audit import Auditor
from fairtrial.study.export import LOG_FORMATS
from fairtrial.study.log import KINDS, Record, canonical
from fairtrial.study.specification import Specification
from fairtrial.study.statements import is_storable
from fairtrial.study.store import Addition, NewStudy, Store, StudyRow

__all__ = ["LogFile"]

_BATCH = 1_000
_LONGEST_LINE = 8_000_000
_DEEPEST_LINE = 64
_MOST_EVENTS = 100_000_000
_INTEGERS = ("seq", "number", "action", "tag", "stage", "lease_until", "at")
_TYPES: Mapping[str, type] = {
    **dict.fromkeys(Record._fields, str),
    **dict.fromkeys(_INTEGERS, int),
    "value": float,
    "body": dict,
}
_REQUIRED = ("seq", "kind", "at", "hash")


class LogFile:
    """A log in a file of JSON lines, with its header read and checked.

    Parameters
    ----------
    path : Path
        A file that `export` wrote.

    Raises
    ------
    CorruptLog
        If it is not such a file.
    StorageError
        If it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        header = next(self._lines(), None)
        number = None if header is None else header.get("fairtrial_log")
        if header is None or type(number) is not int or number not in LOG_FORMATS:
            formats = " or ".join(map(str, LOG_FORMATS))
            raise self._corrupt(1, f"is not the header of a log of format {formats}")
        self._check_header(header)
        self.name: str = header["name"]
        self.spec = Specification.from_json(json.dumps(header["specification"]))
        self.secret: str | None = header.get("secret")
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
        if "secret" in header:
            self._check(1, header, "secret", str)
        spec = header["specification"]
        for key, kind in {"problem": dict, "policy": dict, "seed": int}.items():
            self._check(1, spec, key, kind)
        for key in {"conduct", "notes"} & spec.keys():
            self._check(1, spec, key, dict)
        if not 0 <= header["events"] <= _MOST_EVENTS:
            raise self._corrupt(1, f"has a number of events below 0 or above {_MOST_EVENTS:,}")
        self._check(1, spec["problem"], "family", str)
        self._check(1, spec["policy"], "name", str)

    def insert(self, store: Store, name: str, fresh: Policy) -> StudyRow:
        """Check every event and write the log into a store, completely or not at all.

        Raises
        ------
        StudyExists
            If the store already has a study of that name.
        CorruptLog
            At the first event that does not follow from the earlier ones.
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
            chain=header["fairtrial_log"],
            secret=self.secret,
        )
        return store.transact(lambda: self._inserted(store, new, fresh))

    def _inserted(self, store: Store, new: NewStudy, fresh: Policy) -> StudyRow:
        if store.find_study(new.name) is not None:
            raise StudyExists(f"{store.url} has a study {new.name!r} already; give another name")
        study = store.insert_study(new)
        auditor = Auditor(fresh, study.head_hash)
        records = self._records()
        while batch := list(islice(records, _BATCH)):
            study = self._append(store, study, batch, auditor)
            if study.head_seq > self._header["events"]:
                break
        header = self._header
        if (study.head_seq, study.head_hash) != (header["events"], header["head_hash"]):
            raise CorruptLog(
                f"{self._path} ends with event {study.head_seq}, but its header names "
                f"event {header['events']} as the last one"
            )
        return study

    def _append(
        self, store: Store, study: StudyRow, batch: Sequence[Record], auditor: Auditor
    ) -> StudyRow:
        if batch[0].seq == 1:
            self._require_secret(batch[0])
        try:
            auditor.check(batch)
        except CorruptLog as error:
            raise CorruptLog(f"{self._path}: {error}") from error
        touched = {record.pull_id for record in batch if record.pull_id is not None}
        pulls = [auditor.pulls[pull_id] for pull_id in touched]
        return store.append(study, Addition(batch, pulls, auditor.replica.status))

    def _require_secret(self, first: Record) -> None:
        """Refuse a copy without the secret of the random order, whose decisions cannot be made."""
        if self.secret is None and json.loads(first.body or "{}").get("secret_sha256") is not None:
            raise InvalidArgument(
                "path",
                "must be a log with the secret of its random order, without which its decisions "
                "cannot be checked: export it from the storage, or from the service with --secret "
                "and a token of the scope admin",
                str(self._path),
            )

    # ---------------------------------------------------------------------- lines

    def _records(self) -> Iterator[Record]:
        lines = self._lines()
        next(lines)
        return (self._record(number, line) for number, line in enumerate(lines, start=2))

    def _lines(self) -> Iterator[dict[str, Any]]:
        try:
            # Refuse pipes and devices, because they may never end.
            if self._path.exists() and not self._path.is_file():
                raise StorageError(f"{self._path} is not a file")
            with self._path.open(encoding="utf-8") as stream:
                for number in count(1):
                    line = stream.readline(_LONGEST_LINE + 1)
                    if not line:
                        return
                    yield self._parsed(number, line)
        except UnicodeDecodeError as error:
            raise CorruptLog(f"{self._path} must be UTF-8 text ({error.reason})") from error
        except OSError as error:
            reason = error.strerror or str(error)
            raise StorageError(f"{self._path} cannot be read: {reason}") from error

    def _parsed(self, number: int, line: str) -> dict[str, Any]:
        if len(line) > _LONGEST_LINE or is_deeper(line, _DEEPEST_LINE):
            limits = f"{_LONGEST_LINE:,} characters or nested more than {_DEEPEST_LINE} deep"
            raise self._corrupt(number, f"is longer than {limits}")
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
        if type(value) is not kind or (key != "seed" and not _fits(value)):
            raise self._corrupt(
                number, f"has a field {key!r} that is not of type {kind.__name__}: {value!r}"
            )

    def _corrupt(self, number: int, problem: str) -> CorruptLog:
        return CorruptLog(f"{self._path}: line {number} {problem}")


def _fits(value: Any) -> bool:
    """Return whether every database accepts the value: 64 bits, finite, storable."""
    if isinstance(value, str):
        return is_storable(value)
    if isinstance(value, int):
        return abs(value) < 2**63
    return not isinstance(value, float) or math.isfinite(value)
