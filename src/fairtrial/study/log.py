"""The event log: what one record holds, how records are chained, what they say of a pull."""

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
    "PullRow",
    "Record",
    "Result",
    "Step",
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
)
"""Every kind of event.

`wait`: a pull was asked for and the policy had none to give. `late_tell`: an outcome that
came after its lease had run out, or after its pull had been given up. `time`: the policy's
`max_time` was over, that many seconds after the first event. `stop`: somebody stopped the study.
"""

TELLS = ("tell", "late_tell", "unsolicited")
"""The kinds that bring a first outcome."""

_GIVEN_UP = {"expire": "expired", "cancel": "cancelled", "fail": "lost"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_quoted: Callable[[Any], str] = json.encoder.encode_basestring_ascii

canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode
"""Return the one JSON text of some data: keys sorted, no blanks, NaN and infinity refused."""


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
        )


class Step(NamedTuple):
    """What a replay needs of an event."""

    seq: int
    kind: str
    number: int | None
    action: int | None
    tag: int | None
    value: float | None
    stage: int | None
    body: str | None


class PullRow(NamedTuple):
    """What the log says of one pull so far: a projection, rebuilt from the log at any time.

    `told_seq` is the event of the first outcome, `value_seq` that of the outcome on record,
    `closed_seq` the one that gave the pull up.
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
        """Return the row after the event that brings the pull's first outcome."""
        # In the order of the fields: several times faster than `_replace`, and done for every pull.
        return PullRow(
            *(self.pull_id, self.number, self.action, self.tag, "told", None),
            *(self.worker, self.context, self.asked_seq, seq, seq),
            *(self.closed_seq, self.propensity),
        )


class Result(NamedTuple):
    """An outcome as it is stored: a number, or named fields; the other is None."""

    value: float | None
    fields: Mapping[str, Any] | None = None

    @property
    def outcome(self) -> float | Mapping[str, Any]:
        """The outcome as the policy takes it."""
        return self.value if self.fields is None else self.fields  # type: ignore[return-value]

    def agrees_with(self, told: Any) -> bool:
        """Return whether this says what was told: of named fields, those that are there."""
        if self.fields is None or not isinstance(told, Mapping):
            return bool(self.outcome == told)
        return all(name in told and told[name] == value for name, value in self.fields.items())

    @property
    def body(self) -> str | None:
        """The fields as an event's body holds them."""
        return None if self.fields is None else to_json(outcome=self.fields)


def outcome_of(value: float | None, body: str | None) -> Any:
    """Return the outcome that a record holds, in its column or in its body."""
    return value if value is not None or body is None else json.loads(body)["outcome"]


# ------------------------------------------------------------------------------ chain


def to_json(**parts: Any) -> str | None:
    """Return the canonical JSON of the parts that are not None; None if all are.

    Examples
    --------
    >>> to_json(reason="typing error", old=None)
    '{"reason":"typing error"}'
    """
    kept = {name: part for name, part in parts.items() if part is not None}
    return canonical(kept) if kept else None


def commitment(secret: str) -> str:
    """Return what the first event says of a study's secret: enough to know it again."""
    return hashlib.sha256(secret.encode()).hexdigest()


CHAIN = 2
"""How chains of hashes start that are made now."""


def origin(
    chain: int, spec_sha256: str, policy_version: int, created_with: str, created_at: int
) -> str:
    """Return what the first event of a log follows, as if it were the hash of one before it.

    In chain 2 it is SHA-256 of the specification's hash (hexadecimal digits) and the canonical
    JSON of the other three as a list, so that these cannot be altered either. In chain 1, that
    of the first released schema, it was the specification's hash alone.
    """
    if chain == 1:
        return spec_sha256
    made = canonical([policy_version, created_with, created_at])
    return hashlib.sha256((spec_sha256 + made).encode()).hexdigest()


def seal(previous: str, record: Record) -> str:
    """Return the hash that makes a record follow the one whose hash is `previous`.

    It is SHA-256 of the previous hash (hexadecimal digits) and the canonical JSON of all
    fields of the record but its hash, in their order, as a list.
    """
    return sealed(previous, record[:-1])


def sealed(previous: str, fields: tuple[str | int | float | None, ...]) -> str:
    """Return the hash of a record's fields, all but its hash: `seal`, before there is a record."""
    # The same text as `canonical` gives, several times faster: this is done for every event.
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
    """Return the JSON of a real number, or of what no record should hold."""
    return repr(value) if type(value) is float and isfinite(value) else canonical(value)


# ------------------------------------------------------------------------- projection


def project(record: Record, row: PullRow | None) -> PullRow | None:
    """Return what the log says of a pull after this record, given what it said before.

    Raises
    ------
    ValueError
        If the record cannot follow: it speaks of a pull that is not there, or again of one
        that is.
    """
    kind, seq = record.kind, record.seq
    if kind in ("wait", "time", "stop"):
        return None
    if (row is None) != (kind in ("ask", "unsolicited")):
        raise ValueError(f"{kind} of pull {record.pull_id}, which is not expected there")
    if row is None:
        return _first_row(record)
    if kind in ("tell", "late_tell"):
        return row.told(seq)
    if kind == "amend":
        return row._replace(value_seq=seq)
    if kind == "extend":
        return row._replace(lease_until=record.lease_until)
    if kind == "reissue":
        return row._replace(lease_until=record.lease_until, worker=record.actor)
    if kind in _GIVEN_UP:
        return row._replace(state=_GIVEN_UP[kind], lease_until=None, closed_seq=seq)
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


@lru_cache(maxsize=1024)  # few are different: a context that recurs, a share of some small block
def _said_of_ask(body: str | None) -> tuple[str | None, float | None]:
    """Return the context of an ask, as JSON, and the propensity."""
    parts = json.loads(body) if body else {}
    context = parts.get("context")
    return None if context is None else canonical(context), parts.get("propensity")


# ----------------------------------------------------------------------------- public


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a study's log.

    Parameters
    ----------
    seq : int
        Its place in the log, from 1.
    kind : str
        What happened: ``ask``, ``wait``, ``reissue``, ``extend``, ``report``, ``tell``,
        ``late_tell``, ``unsolicited``, ``amend``, ``expire``, ``cancel``, ``fail``, ``time`` or
        ``stop``.
    at : datetime
        When, by the store's clock (UTC). Events are ordered by `seq`, not by it.
    pull_id : str or None
        The pull that it is about.
    number, action, tag : int or None
        That pull's number, action and the policy's note on it.
    value : float or None
        An outcome or reading that is a number.
    stage : int or None
        Which of several partial readings it is.
    lease_until : datetime or None
        When the pull is due.
    actor, request_id : str or None
        Who, and the caller's own key of the request.
    body : mapping
        The rest: ``context``, ``propensity`` (of an arm that was drawn at random), ``outcome`` (of
        named fields), ``old``, ``reason``, ``details``, ``seconds`` (since the first event); and of
        the first event ``secret_sha256``, by which the secret of a randomised study is fixed.
    hash : str
        SHA-256 of the event before and of this one: tamper evidence. Empty where a service keeps
        it from somebody who may not see results.
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
        """Return the event that the record stores."""
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
        """The outcome or reading: a number, or named fields."""
        return self.body.get("outcome") if self.value is None else self.value


def as_time(microseconds: int) -> datetime:
    """Return the moment that many microseconds after 1970 (UTC)."""
    return _EPOCH + timedelta(microseconds=microseconds)
