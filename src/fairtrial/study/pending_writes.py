"""Collect what a transaction is about to write, so that many writes need few statements."""

# ruff: noqa: S608 - only the names of our own columns are written into statements

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from fairtrial.study.log import PullRow, Record
from fairtrial.study.statements import Change, columns, places
from fairtrial.study.store import Addition, AnswerRow, StudyRow

__all__ = ["PendingWrites", "replacing"]


def replacing(table: str, row_type: Any, key: str) -> str:
    """Return the statement that inserts a study's row or replaces the one with the same key."""
    changes = ", ".join(f"{name} = excluded.{name}" for name in row_type._fields if name != key)
    return (
        f"INSERT INTO {table} (study_id, {columns(row_type)}) VALUES (?, {places(row_type)}) "
        f"ON CONFLICT (study_id, {key}) DO UPDATE SET {changes}"
    )


_INSERT_EVENT = f"INSERT INTO event (study_id, {columns(Record)}) VALUES (?, {places(Record)})"
_REPLACE_PULL = replacing("pull", PullRow, "pull_id")
_INSERT_ANSWER = f"INSERT INTO idempotency ({columns(AnswerRow)}) VALUES ({places(AnswerRow)})"
_MOVE_HEAD = (
    "UPDATE study SET status = ?, head_seq = ?, head_hash = ?, duplicates = duplicates + ?, "
    "machine = ?, environment = coalesce(?, environment) "
    "WHERE id = ? AND head_seq = ? AND head_hash = ?"
)
_SET_LEASE = "UPDATE pull SET lease_until = ? WHERE study_id = ? AND pull_id = ?"
_COUNT_LEASES = "UPDATE study SET lease_changes = lease_changes + ? WHERE id = ?"
_MOST_EVENTS = 5_000


@dataclass(slots=True)
class _Head:
    """The head of a study as it is in the tables, and as it will be."""

    seq: int
    hash: str
    after: StudyRow
    duplicates: int = 0
    environment: str | None = None

    def row(self) -> tuple[Any, ...]:
        study = self.after
        return (
            *(study.status, study.head_seq, study.head_hash, self.duplicates),
            *(study.machine, self.environment, study.id, self.seq, self.hash),
        )


class PendingWrites:
    """Events, pulls, leases, heads and answers that are not yet in the tables."""

    def __init__(self) -> None:
        self._events: list[tuple[Any, ...]] = []
        self._pulls: dict[tuple[int, str], PullRow] = {}
        self._requests: dict[tuple[int, str], Record] = {}
        self._leases: dict[tuple[int, str], int | None] = {}
        self._lease_changes: Counter[int] = Counter()
        self._heads: dict[int, _Head] = {}
        self._answers: list[AnswerRow] = []
        self._answer_of: dict[tuple[str, str], AnswerRow] = {}

    def __bool__(self) -> bool:
        return bool(self._heads or self._lease_changes or self._answers)

    @property
    def is_long(self) -> bool:
        """Whether to write now, before this takes much memory."""
        return len(self._events) >= _MOST_EVENTS

    @property
    def studies(self) -> list[StudyRow]:
        """The studies whose logs are to be written, as they will be afterwards."""
        return [head.after for head in self._heads.values()]

    def touches(self, study_id: int) -> bool:
        """Return whether there are changes to that study."""
        return study_id in self._heads or study_id in self._lease_changes

    # ----------------------------------------------------------------------- adding

    def follows(self, study: StudyRow) -> bool:
        """Return whether a study has the head that the earlier unwritten changes lead to."""
        head = self._heads.get(study.id)
        if head is None:
            return True
        return (head.after.head_seq, head.after.head_hash) == (study.head_seq, study.head_hash)

    def add(self, study: StudyRow, added: Addition, after: StudyRow) -> None:
        """Add events and pulls of a study; `after` is the study after them."""
        head = self._heads.get(study.id)
        if head is None:
            head = self._heads[study.id] = _Head(study.head_seq, study.head_hash, study)
        head.after = after
        head.duplicates += added.duplicates
        head.environment = added.environment or head.environment
        for record in added.records:
            self._events.append((study.id, *record))
            if record.request_id is not None:
                self._requests[study.id, record.request_id] = record
        for pull in added.pulls:
            self._pulls[study.id, pull.pull_id] = pull
            self._leases.pop((study.id, pull.pull_id), None)

    def set_lease(self, study_id: int, pull: PullRow) -> None:
        """Change the end of a pull's lease."""
        place = study_id, pull.pull_id
        self._lease_changes[study_id] += 1
        if place in self._pulls:
            self._pulls[place] = pull
        else:
            self._leases[place] = pull.lease_until

    def add_answer(self, answer: AnswerRow) -> None:
        """Add the answer to a request."""
        self._answers.append(answer)
        self._answer_of[answer.actor, answer.key] = answer

    # ---------------------------------------------------------------------- reading

    def request(self, study_id: int, request_id: str) -> Record | None:
        """Return the added event with this request key, or None."""
        return self._requests.get((study_id, request_id))

    def answer(self, actor: str, key: str) -> AnswerRow | None:
        """Return an added answer, or None."""
        return self._answer_of.get((actor, key))

    def changes(self) -> list[Change]:
        """Return the changes to make; the last of them changes one row for each of `studies`."""
        return [
            (_INSERT_EVENT, self._events),
            (_REPLACE_PULL, [(study_id, *pull) for (study_id, _), pull in self._pulls.items()]),
            (_SET_LEASE, [(until, *place) for place, until in self._leases.items()]),
            (_COUNT_LEASES, [(number, study) for study, number in self._lease_changes.items()]),
            (_INSERT_ANSWER, self._answers),
            (_MOVE_HEAD, [head.row() for head in self._heads.values()]),
        ]
