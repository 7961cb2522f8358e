"""What a study needs of a place to keep it. One test-suite runs against every store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

from fairtrial.study.log import PullRow, Record, Step, origin

__all__ = [
    "AnswerRow",
    "NewStudy",
    "SessionRow",
    "Snapshot",
    "Store",
    "StudyRow",
    "StudySummary",
    "TokenRow",
]

_Answer = TypeVar("_Answer")


class NewStudy(NamedTuple):
    """A study to be written down; all of it is immutable."""

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
        """What the first event of the log follows."""
        return origin(
            self.chain, self.spec_sha256, self.policy_version, self.created_with, self.created_at
        )


class StudyRow(NamedTuple):
    """A study as it is stored: what is immutable, and the head of its log.

    `secret` is the text that the coins of a randomised study come from. `machine` wrote last;
    `environment` is the software that it did so with, as JSON.
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

    @property
    def origin(self) -> str:
        """What the first event of the log follows."""
        return origin(
            self.chain, self.spec_sha256, self.policy_version, self.created_with, self.created_at
        )

    def after(
        self,
        records: Sequence[Record],
        status: str,
        duplicates: int,
        environment: str | None,
        machine: str | None = None,
    ) -> StudyRow:
        """Return the study after a write: `duplicates` more, and the environment if it changed."""
        seq, digest = self.head_seq, self.head_hash
        if records:
            seq, digest = records[-1].seq, records[-1].hash
        # In the order of the fields: several times faster than `_replace`, and done in every write.
        changed = status, seq, digest, self.duplicates + duplicates
        made_with = environment or self.environment
        return StudyRow._make((*self[:_FIRST_TO_CHANGE], *changed, machine, made_with))


_FIRST_TO_CHANGE = StudyRow._fields.index("status")


class Snapshot(NamedTuple):
    """A policy's arrays after an event: a cache that may be thrown away."""

    seq: int
    policy: str
    policy_version: int
    state: bytes
    sha256: str


class TokenRow(NamedTuple):
    """Who may use the service; `scopes` and `studies` are JSON. A new one has the id 0."""

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
    """A browser in which somebody has logged in with a token."""

    secret_sha256: str
    token_id: int
    created_at: int
    expires_at: int


class AnswerRow(NamedTuple):
    """What a request with an idempotency key was answered when it came first."""

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
        After its last event.
    events : int
        Length of its log.
    family, policy : str
        Of its problem, and the name of its policy.
    seed : int
        The policy's.
    created_at : datetime
        When it was made (UTC).
    """

    name: str
    status: str
    events: int
    family: str
    policy: str
    seed: int
    created_at: datetime


@runtime_checkable
class Store(Protocol):
    """Keeps studies: append-only logs with a head, a projection of pulls, and snapshots.

    Errors are those of `fairtrial.errors`: `StorageBusy` if another process holds the
    store for too long, else `StorageError`. One store may be used by several threads.
    """

    @property
    def url(self) -> str:
        """The address that opens it again; a password is left out."""

    @property
    def software(self) -> str:
        """What keeps the studies, with its version."""

    def now(self) -> int:
        """Return the store's clock: microseconds since 1970 (UTC); it may run backwards."""

    def close(self) -> None:
        """Release it."""

    def transact(self, operation: Callable[[], _Answer]) -> _Answer:
        """Carry out an operation while this process alone writes; all or nothing is kept."""

    def insert_study(self, new: NewStudy) -> StudyRow:
        """Write a study down, within a transaction; its log is empty."""

    def find_study(self, name: str) -> StudyRow | None:
        """Return the study of that name."""

    def read_study(self, study_id: int) -> StudyRow:
        """Return the study as it is now; within a transaction nobody else changes it."""

    def studies(self) -> list[StudyRow]:
        """Return all studies, the oldest first."""

    def append(
        self,
        study: StudyRow,
        records: Sequence[Record],
        pulls: Sequence[PullRow],
        status: str,
        duplicates: int = 0,
        environment: str | None = None,
    ) -> StudyRow:
        """Add events and their projection, within a transaction; return the study after them.

        The head must still be that of `study`: else nothing is kept, and `StorageError`. An
        `environment` replaces the one on record.
        """

    def records(self, study_id: int, after: int = 0, until: int | None = None) -> Iterator[Record]:
        """Yield events ``after < seq <= until`` in order, without holding anybody up."""

    def steps(self, study_id: int, after: int = 0, until: int | None = None) -> Iterator[Step]:
        """Yield the same events, of each only what a replay needs."""

    def request(self, study_id: int, request_id: str) -> Record | None:
        """Return the event that carries the request's key."""

    def pull(self, study_id: int, pull_id: str) -> PullRow | None:
        """Return one pull."""

    def pulls(self, study_id: int) -> Iterator[PullRow]:
        """Yield every pull, in the order in which they entered the log."""

    def open_pulls(self, study_id: int, due_by: int | None = None) -> list[PullRow]:
        """Return the open pulls by number; with `due_by` those whose lease ends by then."""

    def first(self, study_id: int, kind: str) -> Record | None:
        """Return the first event of a kind that is rare: neither ask nor report nor tell."""

    def counts(self, study_id: int) -> Mapping[str, int]:
        """Return the numbers of events by kind, of all kinds but ask, report and tell."""

    def save_snapshot(self, study_id: int, snapshot: Snapshot) -> None:
        """Keep a snapshot, in a transaction of its own; drop all but the newest two."""

    def snapshots(self, study_id: int) -> Iterator[Snapshot]:
        """Yield the snapshots, the newest first, without those that cannot be read."""

    def publish_statistic(self, study_id: int, process: str, body: str) -> None:
        """Put what a process has to say in place of what it said before, in a transaction."""

    def statistics(self, study_id: int) -> Mapping[str, str]:
        """Return what every process has published, by its name."""

    def insert_token(self, new: TokenRow) -> TokenRow:
        """Write a token down, within a transaction; its name and secret must be new."""

    def tokens(self) -> list[TokenRow]:
        """Return all tokens, the oldest first."""

    def token(self, secret_sha256: str) -> TokenRow | None:
        """Return the token whose secret has this hash."""

    def revoke_token(self, token_id: int, at: int) -> None:
        """Let a token be valid no longer, within a transaction."""

    def touch_token(self, token_id: int, at: int) -> None:
        """Note when a token was used, within a transaction."""

    def insert_session(self, new: SessionRow) -> None:
        """Write a browser's session down, within a transaction."""

    def session(self, secret_sha256: str) -> tuple[SessionRow, TokenRow] | None:
        """Return the session whose secret has this hash, and its token."""

    def remove_session(self, secret_sha256: str) -> None:
        """End a session, within a transaction."""

    def answer(self, actor: str, key: str) -> AnswerRow | None:
        """Return what a request with this key was answered when it came first."""

    def save_answer(self, answer: AnswerRow) -> None:
        """Keep an answer for requests with the same key, within a transaction."""

    def drop_answers(self, before: int, sessions_before: int) -> None:
        """Forget old answers, and sessions that ended by then, within a transaction."""

    def save_notice(self, study_id: int, notice: str, at: int) -> None:
        """Keep that somebody outside was told something of a study, within a transaction."""

    def notices(self, study_id: int) -> set[str]:
        """Return what somebody outside was told of a study."""

    def changes(self) -> object:
        """Return what will be another value once anybody has written to the storage."""

    def await_change(self, seen: object, seconds: float) -> None:
        """Wait until `changes` is no longer `seen`, or for so many seconds; or less."""

    def wait(self, study_id: int, after: int, seconds: float) -> bool:
        """Wait until a study has more events than `after`; return whether they came in time."""

    def damage(self) -> str | None:
        """Return what is wrong with the place itself, whatever the logs say; None if nothing."""
