"""The interface between studies and the stores that keep them; all stores share one test suite."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

from fairtrial.errors import StorageBusy
from fairtrial.study.log import PullRow, Record, Step, origin

__all__ = [
    "Addition",
    "AnswerRow",
    "NewStudy",
    "RowLocked",
    "SessionRow",
    "Snapshot",
    "Store",
    "StudyRow",
    "StudySummary",
    "TokenRow",
    "Unflushed",
]

_Answer = TypeVar("_Answer")


class NewStudy(NamedTuple):
    """A study to be stored; all of its fields are immutable."""

    name: str
    spec_json: str
    spec_sha256: str
    seed: str
    policy_version: int
    created_with: str
    created_at: int
    chain: int
    secret: str | None = None

    @property
    def origin(self) -> str:
        """The value that the first event of the log follows."""
        return origin(
            self.chain, self.spec_sha256, self.policy_version, self.created_with, self.created_at
        )


class StudyRow(NamedTuple):
    """A study as it is stored: its immutable fields and the head of its log.

    `secret` is the source of the random numbers of a randomised study. `machine` wrote last, and
    `environment` is the software that it used, as JSON. `lease_changes` counts the leases that were
    extended, which the log does not record.
    """

    id: int
    name: str
    spec_json: str
    spec_sha256: str
    seed: str
    policy_version: int
    created_with: str
    created_at: int
    chain: int
    secret: str | None
    status: str
    head_seq: int
    head_hash: str
    duplicates: int
    machine: str | None = None
    environment: str | None = None
    lease_changes: int = 0

    @property
    def origin(self) -> str:
        """The value that the first event of the log follows."""
        return origin(
            self.chain, self.spec_sha256, self.policy_version, self.created_with, self.created_at
        )

    def after(self, added: Addition, machine: str | None = None) -> StudyRow:
        """Return the study after a write by that machine."""
        seq, digest = self.head_seq, self.head_hash
        if added.records:
            seq, digest = added.records[-1].seq, added.records[-1].hash
        # Positional arguments are several times faster than `_replace`; this runs in every write.
        changed = added.status, seq, digest, self.duplicates + added.duplicates
        made_with = added.environment or self.environment
        rest = machine, made_with, self.lease_changes
        return StudyRow._make((*self[:_FIRST_TO_CHANGE], *changed, *rest))

    def after_lease(self) -> StudyRow:
        """Return the study after the lease of one of its pulls was extended."""
        return self._replace(lease_changes=self.lease_changes + 1)


_FIRST_TO_CHANGE = StudyRow._fields.index("status")


class Addition(NamedTuple):
    """What a write adds to the log of a study.

    `status` is the study's after the `records`, and `pulls` are the rows that they change.
    `duplicates` are results that were told again. An `environment` replaces the one on record.
    """

    records: Sequence[Record]
    pulls: Sequence[PullRow]
    status: str
    duplicates: int = 0
    environment: str | None = None


class Snapshot(NamedTuple):
    """A policy's arrays after an event; a cache that can be discarded."""

    seq: int
    policy: str
    policy_version: int
    state: bytes
    sha256: str


class TokenRow(NamedTuple):
    """A token of the service; `scopes` and `studies` are JSON. A new token has the id 0."""

    id: int
    name: str
    secret_sha256: str
    scopes: str
    studies: str | None
    created_at: int
    expires_at: int | None = None
    revoked_at: int | None = None
    last_used_at: int | None = None


class SessionRow(NamedTuple):
    """A browser session in which a user has logged in with a token."""

    secret_sha256: str
    token_id: int
    created_at: int
    expires_at: int


class AnswerRow(NamedTuple):
    """The answer to the first request with an idempotency key."""

    actor: str
    key: str
    fingerprint: str
    status: int
    body: str
    at: int


@dataclass(frozen=True, slots=True)
class StudySummary:
    """One line of a list of studies.

    Parameters
    ----------
    name : str
        The study's name.
    status : {"running", "decided", "undecided"}
        The status after the last event.
    events : int
        The length of the study's log.
    family, policy : str
        The family of the problem, and the name of the policy.
    seed : int
        The policy's seed.
    created_at : datetime
        When the study was created (UTC).
    """

    name: str
    status: str
    events: int
    family: str
    policy: str
    seed: int
    created_at: datetime


class RowLocked(StorageBusy):
    """Another process has locked a part of the storage, such as one study, for too long."""


class Unflushed(BaseException):
    """A transaction without a flush is about to write what must survive a power failure.

    Nothing was kept: repeat it with a flush. It is not an `Exception`, so that no caller
    catches it.
    """


@runtime_checkable
class Store(Protocol):
    """Keeps studies: append-only logs, each with a head, the state of its pulls, and snapshots.

    Errors are those of `fairtrial.errors`: `StorageBusy` if another process locks the store for
    too long, otherwise `StorageError`. Several threads can use one store.
    """

    @property
    def url(self) -> str:
        """The address of the store, without any password."""

    @property
    def software(self) -> str:
        """The software that keeps the studies, with its version."""

    def now(self) -> int:
        """Return the store's clock: microseconds since 1970 (UTC); it can run backwards."""

    def close(self) -> None:
        """Release the store."""

    def transact(self, operation: Callable[[], _Answer], *, flush: bool = True) -> _Answer:
        """Carry out an operation while only this process writes; keep all of it or nothing.

        Without `flush`, a power failure may undo it, but nothing that was written with a flush.
        """

    def require_flush(self) -> None:
        """Raise `Unflushed` if the present transaction is carried out without a flush."""

    def wait_for_locks(self, seconds: float | None) -> None:
        """Set how long later writes wait for a lock on one study; None: as long as for the rest.

        If it is locked for longer, `RowLocked` is raised.
        """

    def insert_study(self, new: NewStudy) -> StudyRow:
        """Record a study with an empty log, within a transaction."""

    def find_study(self, name: str) -> StudyRow | None:
        """Return the study of that name, or None."""

    def read_study(self, study_id: int) -> StudyRow:
        """Return the current row of a study; within a transaction no one else changes it."""

    def studies(self) -> list[StudyRow]:
        """Return all studies, the oldest first."""

    def studies_named(self, names: Sequence[str]) -> list[StudyRow]:
        """Return the studies with these names, in the same order; leave out those that are none."""

    def study_names(self, after: str, limit: int) -> list[str]:
        """Return the next names of studies after that one, by code points."""

    def newest_names(self, before: int, limit: int) -> list[tuple[int, str]]:
        """Return ids and names of the newest studies with an id below `before`."""

    def heads(self) -> Mapping[str, int]:
        """Return the number of events of every study, by its name."""

    def statuses(self) -> Mapping[str, int]:
        """Return the number of studies by status."""

    def append(self, study: StudyRow, added: Addition) -> StudyRow:
        """Add events and their pulls' rows, within a transaction; return the study after them.

        If the head is no longer that of `study`, nothing is kept and `StorageError` is raised.
        """

    def set_lease(self, study: StudyRow, pull: PullRow) -> StudyRow:
        """Set the end of an open pull's lease, within a transaction; return the study after it.

        `pull` is the row with the new lease. No event is written.
        """

    def records(self, study_id: int, after: int = 0, until: int | None = None) -> Iterator[Record]:
        """Yield the events ``after < seq <= until`` in order, without blocking other callers."""

    def steps(self, study_id: int, after: int = 0, until: int | None = None) -> Iterator[Step]:
        """Yield the same events, reduced to what a replay needs."""

    def request(self, study_id: int, request_id: str) -> Record | None:
        """Return the event with this request key, or None."""

    def pull(self, study_id: int, pull_id: str) -> PullRow | None:
        """Return one pull, or None."""

    def pulls(self, study_id: int) -> Iterator[PullRow]:
        """Yield every pull, in the order in which they entered the log."""

    def open_pulls(self, study_id: int, due_by: int | None = None) -> list[PullRow]:
        """Return the open pulls by number; with `due_by`, those whose lease ends by then."""

    def some_pulls(
        self, study_id: int, state: str | None, worker: str | None, after: int, limit: int
    ) -> list[PullRow]:
        """Return pulls by number, after that number: those in a state, or of a worker, or all."""

    def count_open(self, study_id: int, worker: str | None = None) -> int:
        """Return the number of open pulls, of one worker or of all."""

    def reports(self, study_id: int, pulls: Sequence[PullRow]) -> list[Record]:
        """Return the readings of some pulls, and measures that were reported before the others."""

    def first(self, study_id: int, kind: str) -> Record | None:
        """Return the first event of a rare kind: any but ask, report and tell."""

    def all_of(self, study_id: int, kind: str, after: int = 0) -> list[Record]:
        """Return the events ``after < seq`` of a rare kind: any but ask, report and tell."""

    def counts(self, study_id: int) -> Mapping[str, int]:
        """Return the numbers of events by kind, for all kinds except ask, report and tell."""

    def save_snapshot(self, study_id: int, snapshot: Snapshot) -> None:
        """Save a snapshot in a transaction of its own, and delete all but the newest two."""

    def snapshots(self, study_id: int) -> Iterator[Snapshot]:
        """Yield the readable snapshots, the newest first."""

    def publish_statistic(self, study_id: int, process: str, body: str) -> None:
        """Replace the statistics of a process, in a transaction of its own."""

    def statistics(self, study_id: int) -> Mapping[str, str]:
        """Return the latest statistics of every process, by its name."""

    def insert_token(self, new: TokenRow) -> TokenRow:
        """Record a token, within a transaction; its name and secret must be new."""

    def tokens(self) -> list[TokenRow]:
        """Return all tokens, the oldest first."""

    def token(self, secret_sha256: str) -> TokenRow | None:
        """Return the token whose secret has this hash."""

    def revoke_token(self, token_id: int, at: int) -> None:
        """Revoke a token, within a transaction."""

    def touch_token(self, token_id: int, at: int) -> None:
        """Record when a token was used, within a transaction."""

    def insert_session(self, new: SessionRow) -> None:
        """Record a browser's session, within a transaction."""

    def session(self, secret_sha256: str) -> tuple[SessionRow, TokenRow] | None:
        """Return the session whose secret has this hash, and its token."""

    def remove_session(self, secret_sha256: str) -> None:
        """End a session, within a transaction."""

    def answer(self, actor: str, key: str) -> AnswerRow | None:
        """Return the answer to the first request with this key, or None."""

    def save_answer(self, answer: AnswerRow) -> None:
        """Keep an answer for requests with the same key, within a transaction."""

    def drop_answers(self, before: int, sessions_before: int) -> None:
        """Delete old answers, and sessions that have ended by then, within a transaction."""

    def save_notice(self, study_id: int, notice: str, at: int) -> None:
        """Record that a notice about a study was sent, within a transaction."""

    def notices(self, study_id: int) -> set[str]:
        """Return the notices about a study that were sent."""

    def changes(self) -> object:
        """Return a value that differs after any write to the storage."""

    def await_change(self, seen: object, seconds: float) -> None:
        """Wait until `changes` no longer equals `seen`, for at most that many seconds."""

    def wait(self, study_id: int, after: int, seconds: float) -> bool:
        """Wait until a study has more events than `after`; return whether they came in time."""

    def damage(self) -> str | None:
        """Return what is wrong with the storage itself, apart from the logs; or None."""
