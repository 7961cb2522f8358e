"""The event log: the fields of a record, the chain of hashes, and the state of each pull."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import isfinite
from typing import Any, NamedTuple, Self

__all__ = [
    "CHAIN",
    "KINDS",
    "TELLS",
    "Event",
    "Lease",
    "PullRow",
    "Record",
    "Result",
    "Step",
    "as_microseconds",
    "as_time",
    "canonical",
    "commitment",
    "origin",
    "outcome_of",
    "project",
    "seal",
    "sealed",
    "to_json",
]

KINDS = (
    "ask",
    "wait",
    "reissue",
    "extend",
    "report",
    "tell",
    "late_tell",
    "unsolicited",
    "amend",
    "expire",
    "cancel",
    "fail",
    "time",
    "stop",
    "close",
    "kit",
    "supply",
    "mask",
    "unmask",
)
"""Every kind of event.

`wait`: a pull was requested and the policy had none. `late_tell`: an outcome that came after its
lease had expired or its pull had been given up. `extend`: a lease was extended, in logs of earlier
versions; leases are kept beside the log. `time`: the policy's `max_time` was over, that
many seconds after the first event. `stop`: a user stopped the study.
`close`: a user closed an arm or a group. `kit`: the number of a kit that was handed out.
`supply`: kits were added. `mask`: an unmasking list was made. `unmask`: it was opened.
"""

TELLS = ("tell", "late_tell", "unsolicited")
"""The kinds of events with a first outcome."""

_WITHOUT_PULL = ("wait", "time", "stop", "close", "supply", "mask")
_STATE_AFTER = {"expire": "expired", "cancel": "cancelled", "fail": "lost"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_quoted: Callable[[Any], str] = json.encoder.encode_basestring_ascii

canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode
"""Return the canonical JSON text of data: sorted keys, no spaces, no NaN, no infinities."""


class Record(NamedTuple):
    """One event as it is stored; times are microseconds since 1970 (UTC)."""

    seq: int
    kind: str
    pull_id: str | None
    number: int | None
    action: int | None
    tag: int | None
    value: float | None
    stage: int | None
    lease_until: int | None
    at: int
    actor: str | None
    request_id: str | None
    body: str | None
    hash: str

    @property
    def step(self) -> Step:
        """The part of the event that a replay needs."""
        return Step(
            self.seq,
            self.kind,
            self.number,
            self.action,
            self.tag,
            self.value,
            self.stage,
            self.body,
            self.at,
        )


class Step(NamedTuple):
    """The part of an event that a replay needs."""

    seq: int
    kind: str
    number: int | None
    action: int | None
    tag: int | None
    value: float | None
    stage: int | None
    body: str | None
    at: int


class PullRow(NamedTuple):
    """The state of one pull; all but an extended lease can be rebuilt from the log at any time.

    `told_seq` is the event of the first outcome, `value_seq` that of the outcome on record, and
    `closed_seq` the event in which the pull was given up.
    """

    pull_id: str
    number: int
    action: int
    tag: int
    state: str
    lease_until: int | None
    worker: str | None
    context: str | None
    asked_seq: int
    told_seq: int | None = None
    value_seq: int | None = None
    closed_seq: int | None = None
    propensity: float | None = None

    def told(self, seq: int) -> PullRow:
        """Return the row after the event with the pull's first outcome."""
        # Positional arguments are several times faster than `_replace`; this runs for every pull.
        return PullRow(
            *(self.pull_id, self.number, self.action, self.tag, "told", None),
            *(self.worker, self.context, self.asked_seq, seq, seq),
            *(self.closed_seq, self.propensity),
        )


class Result(NamedTuple):
    """An outcome as it is stored: either a number or named fields; the other one is None."""

    value: float | None
    fields: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, outcome: Any) -> Self:
        """Return the form in which a checked outcome is stored."""
        return cls(outcome) if type(outcome) is float else cls(None, outcome)

    @property
    def outcome(self) -> float | Mapping[str, Any]:
        """The outcome in the form that the policy takes."""
        return self.value if self.fields is None else self.fields  # type: ignore[return-value]

    def agrees_with(self, told: Any) -> bool:
        """Return whether this equals the outcome that was told, in all fields present here."""
        if self.fields is None or not isinstance(told, Mapping):
            return bool(self.outcome == told)
        return all(name in told and told[name] == value for name, value in self.fields.items())

    @property
    def body(self) -> str | None:
        """The fields in the form of an event's body."""
        return None if self.fields is None else to_json(outcome=self.fields)


def outcome_of(value: float | None, body: str | None) -> Any:
    """Return the outcome of a record, from its column or its body."""
    return value if value is not None or body is None else json.loads(body)["outcome"]


# ------------------------------------------------------------------------------ chain


def to_json(**parts: Any) -> str | None:
    """Return the canonical JSON of all parts that are not None; None if there are none.

    Examples
    --------
    >>> to_json(reason="typing error", old=None)
    '{"reason":"typing error"}'
    """
    kept = {name: part for name, part in parts.items() if part is not None}
    return canonical(kept) if kept else None


def commitment(secret: str) -> str:
    """Return the hash of a study's secret, which the first event records."""
    return hashlib.sha256(secret.encode()).hexdigest()


CHAIN = 2
"""The version of new chains of hashes."""


def origin(
    chain: int, spec_sha256: str, policy_version: int, created_with: str, created_at: int
) -> str:
    """Return the value that the first event of a log follows, in place of a previous hash.

    In chain 2 it is the SHA-256 of the specification's hash (hexadecimal digits) and the canonical
    JSON of the other three as a list, so that these cannot be altered either. In chain 1, of the
    first released schema, it was just the specification's hash.
    """
    if chain == 1:
        return spec_sha256
    made = canonical([policy_version, created_with, created_at])
    return hashlib.sha256((spec_sha256 + made).encode()).hexdigest()


def seal(previous: str, record: Record) -> str:
    """Return the hash of a record that follows the one whose hash is `previous`.

    It is the SHA-256 of the previous hash (hexadecimal digits) and the canonical JSON of the list
    of the record's fields in order, without its own hash.
    """
    return sealed(previous, record[:-1])


def sealed(previous: str, fields: tuple[str | int | float | None, ...]) -> str:
    """Return the hash of a record's fields without its hash; as `seal`, but without a record."""
    # Gives the same text as `canonical`, several times faster: this runs for every event.
    parts = [
        "null"
        if field is None
        else _quoted(field)
        if type(field) is str
        else repr(field)
        if type(field) is int
        else _other(field)
        for field in fields
    ]
    return hashlib.sha256(f"{previous}[{','.join(parts)}]".encode()).hexdigest()


def _other(value: object) -> str:
    """Return the JSON of a float, or of a value that no record should contain."""
    return repr(value) if type(value) is float and isfinite(value) else canonical(value)


# ------------------------------------------------------------------------- projection


def project(record: Record, row: PullRow | None) -> PullRow | None:
    """Return the state of a pull after this record, given its state before.

    Raises
    ------
    ValueError
        If the record cannot follow: its pull does not exist yet, or would be created twice.
    """
    kind, seq = record.kind, record.seq
    if kind in _WITHOUT_PULL or (kind == "unmask" and record.pull_id is None):
        return None
    if (row is None) != (kind in ("ask", "unsolicited")):
        raise ValueError(f"unexpected {kind} of pull {record.pull_id}")
    if row is None:
        return _first_row(record)
    if kind in ("tell", "late_tell"):
        return row.told(seq)
    if kind == "amend":
        # Before the outcome, measures that were reported are corrected.
        return row if row.told_seq is None else row._replace(value_seq=seq)
    if kind == "extend":
        return row._replace(lease_until=record.lease_until)
    if kind == "reissue":
        return row._replace(lease_until=record.lease_until, worker=record.actor)
    if kind in _STATE_AFTER:
        return row._replace(state=_STATE_AFTER[kind], lease_until=None, closed_seq=seq)
    return row


def _first_row(record: Record) -> PullRow:
    told = record.seq if record.kind == "unsolicited" else None
    context, propensity = (None, None) if told is not None else _said_of_ask(record.body)
    return PullRow(
        pull_id=str(record.pull_id),
        number=int(record.number or 0),
        action=int(record.action or 0),
        tag=int(record.tag or 0),
        state="open" if told is None else "told",
        lease_until=record.lease_until,
        worker=record.actor if told is None else None,
        context=context,
        asked_seq=record.seq,
        told_seq=told,
        value_seq=told,
        propensity=propensity,
    )


@lru_cache(maxsize=1024)  # few bodies differ: contexts recur, as do the shares in small blocks
def _said_of_ask(body: str | None) -> tuple[str | None, float | None]:
    """Return the context of an ask, as JSON, and its propensity."""
    parts = json.loads(body) if body else {}
    context = parts.get("context")
    return None if context is None else canonical(context), parts.get("propensity")


# ----------------------------------------------------------------------------- public


@dataclass(frozen=True, slots=True)
class Lease:
    """The time that a worker has for a pull.

    Parameters
    ----------
    pull_id : str
        The pull.
    number : int
        The pull's number.
    until : datetime
        When the lease ends, by the store's clock (UTC).
    """

    pull_id: str
    number: int
    until: datetime

    @classmethod
    def of(cls, row: PullRow) -> Self:
        """Return the lease of an open pull that has one."""
        assert row.lease_until is not None, "this pull waits for ever"
        return cls(row.pull_id, row.number, as_time(row.lease_until))


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a study's log.

    Parameters
    ----------
    seq : int
        Position in the log, from 1.
    kind : str
        What happened: ``ask``, ``wait``, ``reissue``, ``report``, ``tell``, ``late_tell``,
        ``unsolicited``, ``amend``, ``expire``, ``cancel``, ``fail``, ``time``, ``stop``, ``close``
        or ``kit``; in logs of earlier versions also ``extend``.
    at : datetime
        Time by the store's clock (UTC). Events are ordered by `seq`, not by time.
    pull_id : str or None
        The pull that the event concerns.
    number, action, tag : int or None
        The pull's number, its action and the policy's note on it.
    value : float or None
        An outcome or reading that is a number.
    stage : int or None
        The number of a partial reading, if there are several.
    lease_until : datetime or None
        When the lease ends that the pull was issued with. No event says whether it was extended.
    actor, request_id : str or None
        Who caused the event, and the caller's own key of the request.
    body : mapping
        Everything else: ``context``, ``propensity`` (of an arm drawn at random), ``outcome`` (named
        fields), ``old``, ``reason``, ``details``, ``seconds`` (since the first event). In the first
        event also ``secret_sha256``, the hash of the secret of a randomised study.
    hash : str
        SHA-256 of the previous event's hash and of this event: tamper evidence. Empty if a service
        hides it from a reader who may not see results.
    """

    seq: int
    kind: str
    at: datetime
    pull_id: str | None
    number: int | None
    action: int | None
    tag: int | None
    value: float | None
    stage: int | None
    lease_until: datetime | None
    actor: str | None
    request_id: str | None
    hash: str
    body: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, record: Record) -> Self:
        """Return the event that a record stores."""
        return cls(
            seq=record.seq,
            kind=record.kind,
            at=as_time(record.at),
            pull_id=record.pull_id,
            number=record.number,
            action=record.action,
            tag=record.tag,
            value=record.value,
            stage=record.stage,
            lease_until=None if record.lease_until is None else as_time(record.lease_until),
            actor=record.actor,
            request_id=record.request_id,
            hash=record.hash,
            body=json.loads(record.body) if record.body else {},
        )

    @property
    def outcome(self) -> float | Mapping[str, Any] | None:
        """The outcome or reading: a number or named fields."""
        return self.body.get("outcome") if self.value is None else self.value


def as_time(microseconds: int) -> datetime:
    """Return the time that many microseconds after 1970 (UTC)."""
    return _EPOCH + timedelta(microseconds=microseconds)


def as_microseconds(moment: datetime) -> int:
    """Return a time in microseconds since 1970 (UTC), as it is stored.

    Examples
    --------
    >>> as_microseconds(as_time(1_800_000_000_000_000))
    1800000000000000
    """
    return (moment - _EPOCH) // timedelta(microseconds=1)
