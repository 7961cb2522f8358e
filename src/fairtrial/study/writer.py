"""Carry out one write: the policy decides or learns, and events record what happened."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from fairtrial.core import UNSOLICITED, Pull
from fairtrial.errors import (
    AlreadyTold,
    ConflictingOutcome,
    ExperimentFinished,
    InvalidArgument,
    InvalidOutcome,
    PullClosed,
    UnknownPull,
)
from fairtrial.study.clock import leases_over, time_over
from fairtrial.study.log import (
    TELLS,
    PullRow,
    Record,
    Result,
    commitment,
    outcome_of,
    project,
    sealed,
    to_json,
)
from fairtrial.study.replica import Replica
from fairtrial.study.store import Addition, Store, StudyRow

__all__ = ["Writer"]

_ISSUES = ("ask", "reissue")
_About = tuple[str | None, int | None, int | None, int | None]
"""The pull of an event: its id, number, action and tag."""
_NO_PULL: _About = (None, None, None, None)


class Writer:
    """Collects the events of one write, within a transaction of the store.

    Nothing is written before `flush`. The replica moves at once; if the transaction fails, the
    replica is left ahead of the log, and its cache detects this.

    Parameters
    ----------
    store : Store
        The store, in a transaction.
    study : StudyRow
        The study, locked.
    replica : Replica
        The replica, at the study's head.
    environment : str
        The software in use, as JSON; recorded with the first event that it writes.
    """

    def __init__(self, store: Store, study: StudyRow, replica: Replica, environment: str) -> None:
        self._store = store
        self._study = study
        self._replica = replica
        self._now = store.now()
        self._seq = study.head_seq
        self._hash = study.head_hash
        self._records: list[Record] = []
        self._pulls: dict[str, PullRow] = {}
        self._duplicates = 0
        self._environment = None if environment == study.environment else environment

    @property
    def last(self) -> Record | None:
        """The last event of this write, or None."""
        return self._records[-1] if self._records else None

    @property
    def has_news(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._records or self._duplicates)

    def flush(self) -> StudyRow:
        """Write everything; return the study afterwards."""
        if not self.has_news:
            return self._study
        added = Addition(
            self._records,
            list(self._pulls.values()),
            self._replica.status if self._records else self._study.status,
            self._duplicates,
            self._environment if self._records else None,
        )
        return self._store.append(self._study, added)

    # ------------------------------------------------------------------- the clock

    def pass_time(self) -> bool:
        """Expire leases that have run out, and tell the policy when `max_time` is over.

        Return whether there was anything to record.
        """
        where = self._store, self._study.id, self._replica.policy, self._now
        for row in leases_over(*where):
            self._take("expire", row)
        seconds = None if self._replica.stopped else time_over(*where)
        if seconds is not None:
            self._add("time", body=to_json(seconds=seconds), perform=True)
        return bool(self._records)

    def extend(self, pull_id: str, lease: float) -> Record:
        """Renew the lease of an open pull, starting now."""
        row = self._open_pull(pull_id)
        return self._take("extend", row, lease_until=self._until(lease))

    def _until(self, lease: float | None) -> int | None:
        return None if lease is None else self._now + round(lease * 1e6)

    # ----------------------------------------------------------------------- asks

    def ask(
        self,
        n: int,
        context: Mapping[str, Any],
        worker: str | None = None,
        lease: float | None = None,
        request_id: str | None = None,
    ) -> list[PullRow]:
        """Issue up to `n` pulls: first those that must be handed out again, then new ones."""
        earlier = self._earlier(request_id, _ISSUES)
        if earlier is not None:
            return self._issued_then(earlier)
        body = to_json(context=context) if context else None
        again = self._waiting_again(n, context)
        fresh, exhausted = self._decide(n - len(again), context, body)
        items: list[PullRow | Pull] = [*again, *fresh]
        # The first pull records the request's key and number of pulls.
        first = body
        if request_id is not None and len(items) > 1:
            first = to_json(context=context or None, count=len(items))
        until = self._until(lease)
        rows: list[PullRow] = []
        for item in items:
            key, said = (None, body) if rows else (request_id, first)
            rows.append(self._issue(item, until, worker, key, said))
        if exhausted:
            self._add("wait", body=body)
        return rows

    def _waiting_again(self, n: int, context: Mapping[str, Any]) -> list[PullRow]:
        """Return pulls with expired leases whose context equals that of this request."""
        if self._replica.policy.expiry != "reissue" or self._replica.stop_reason is not None:
            return []
        due = self._store.open_pulls(self._study.id, due_by=self._now)
        wanted = to_json(**context)
        # The store does not know yet which pulls this write has changed.
        return [row for row in due if row.context == wanted and row.pull_id not in self._pulls][:n]

    def _decide(
        self, n: int, context: Mapping[str, Any], body: str | None
    ) -> tuple[list[Pull], bool]:
        """Return up to `n` new pulls, and whether a running policy had fewer."""
        pulls: list[Pull] = []
        if self._replica.last == ("wait", body):
            return pulls, False
        while len(pulls) < n:
            pull = self._replica.ask(context)
            if pull is None:
                return pulls, not self._replica.stopped
            pulls.append(pull)
        return pulls, False

    def _issue(
        self,
        item: PullRow | Pull,
        lease_until: int | None,
        actor: str | None,
        request_id: str | None,
        body: str | None,
    ) -> PullRow:
        if isinstance(item, PullRow):
            kind, row, pull_id = "reissue", item, item.pull_id
        else:
            kind, row, pull_id = "ask", None, secrets.token_hex(16)
            if item.propensity is not None:
                body = _with_propensity(body, item.propensity)
        self._add(
            kind,
            (pull_id, item.number, item.action, item.tag),
            row,
            lease_until=lease_until,
            actor=actor,
            request_id=request_id,
            body=body,
        )
        return self._pulls[pull_id]

    def _issued_then(self, first: Record) -> list[PullRow]:
        """Return the pulls that the same request got the first time."""
        count = json.loads(first.body or "{}").get("count", 1)
        records = self._store.records(self._study.id, first.seq - 1, first.seq - 1 + count)
        return [self.pull(str(record.pull_id)) for record in records]

    # ---------------------------------------------------------------------- tells

    def tell(
        self,
        pull_id: str,
        result: Result,
        actor: str | None = None,
        request_id: str | None = None,
    ) -> Record:
        """Record the outcome of a pull; return the first event if it was told before."""
        earlier = self._earlier(request_id, TELLS)
        if earlier is not None and earlier.pull_id != pull_id:
            raise _used_before(request_id)
        row = self.pull(pull_id)
        if row.told_seq is not None:
            return self._told_before(row.told_seq, result, row.value_seq)
        result = self._completed(row, result)
        in_time = row.lease_until is None or row.lease_until > self._now
        return self._take(
            "tell" if row.state == "open" and in_time else "late_tell",
            row,
            value=result.value,
            actor=actor,
            request_id=request_id,
            body=result.body,
        )

    def tell_or_report(
        self, pull_id: str, result: Result, actor: str | None = None
    ) -> list[Record]:
        """Record a row of a table: an outcome, or its known measures.

        Write nothing if all of them were recorded before.
        """
        row, measures = self.pull(pull_id), self._replica.policy.problem.measures
        given, known = result.fields or {}, self._reported(row)
        if not measures or row.told_seq is not None or {*given, *known} >= {*measures}:
            return [self.tell(pull_id, result, actor)]
        missing = [name for name, value in given.items() if value is None]
        if missing:
            accepted = "can be missing for good only once all other measures are known"
            raise InvalidOutcome(f"outcome: {missing[0]}", accepted)
        if any(name not in known or known[name] != value for name, value in given.items()):
            return [self.report(pull_id, result, {}, actor)]
        return []

    def _reported(self, row: PullRow) -> Mapping[str, float]:
        """Return the measures of a pull that were reported before, by name."""
        policy = self._replica.policy
        if policy.problem.measured is None:
            return {}
        labels = policy.problem.labels(row.action)
        values = policy.reported(Pull(row.number, row.action, labels, row.tag))
        if values is None:
            return {}
        named = policy.problem.measured.as_row(values)
        return {name: value for name, value in named.items() if value is not None}

    def _completed(self, row: PullRow | None, result: Result) -> Result:
        """Return the complete outcome, including measures that were reported before."""
        measured = self._replica.policy.problem.measured
        if measured is None:
            return result
        known = {} if row is None else self._reported(row)
        before = measured.partial(known) if known else None
        return Result(None, measured.as_row(measured.complete(result.fields, before)))

    def tell_unsolicited(
        self,
        action: int,
        result: Result,
        actor: str | None = None,
        request_id: str | None = None,
    ) -> Record:
        """Record an unsolicited result."""
        earlier = self._earlier(request_id, TELLS)
        if earlier is not None:
            if (earlier.kind, earlier.action) != ("unsolicited", action):
                raise _used_before(request_id)
            return self._told_before(earlier.seq, result)
        result = self._completed(None, result)
        return self._add(
            "unsolicited",
            (secrets.token_hex(16), UNSOLICITED, action, 0),
            value=result.value,
            actor=actor,
            request_id=request_id,
            body=result.body,
            perform=True,
        )

    def _told_before(self, seq: int, result: Result, value_seq: int | None = None) -> Record:
        """Return the first event of an outcome that is told again; it may have been corrected."""
        first = self._record(seq)
        current = first if value_seq is None else self._record(value_seq)
        told = outcome_of(first.value, first.body)
        if not any(map(result.agrees_with, (told, outcome_of(current.value, current.body)))):
            conflict = ConflictingOutcome(
                f"pull {first.pull_id} was told {told!r} before, and now {result.outcome!r}; "
                "correct it with amend(pull, value, reason), or `fairtrial study amend`"
            )
            conflict.pull, conflict.told_by = first.pull_id, first.actor
            raise conflict
        self._duplicates += 1
        return first

    def outcome_of(self, pull_id: str) -> Any:
        """Return the outcome of a pull that is on record."""
        current = self._record(self._value_seq(self.pull(pull_id)))
        return outcome_of(current.value, current.body)

    def _value_seq(self, row: PullRow) -> int:
        if row.value_seq is None:
            raise UnknownPull(f"pull {row.pull_id} has no outcome to correct: tell it first")
        return row.value_seq

    def amend(self, pull_id: str, result: Result, reason: str, actor: str | None = None) -> Record:
        """Correct an outcome; do nothing if it is already on record."""
        row = self.pull(pull_id)
        current = self._record(self._value_seq(row))
        old = outcome_of(current.value, current.body)
        if result.agrees_with(old):
            return current
        if self._replica.policy.problem.measured is not None:
            result = Result(None, {**old, **(result.fields or {})})
        return self._take(
            "amend",
            row,
            value=result.value,
            actor=actor,
            body=to_json(outcome=result.fields, old=old, reason=reason),
        )

    # --------------------------------------------------------------- other events

    def report(
        self,
        pull_id: str,
        reading: Result,
        details: Mapping[str, Any],
        actor: str | None = None,
        request_id: str | None = None,
    ) -> Record:
        """Record a partial reading."""
        earlier = self._earlier(request_id, ("report",))
        if earlier is not None:
            found = earlier.pull_id, outcome_of(earlier.value, earlier.body)
            if found != (pull_id, reading.outcome):
                raise _used_before(request_id)
            return earlier
        row = self.pull(pull_id)
        if reading.fields is not None and row.told_seq is not None:
            return self._told_before(row.told_seq, reading, row.value_seq)
        rest = dict(details)
        stage = rest.pop("stage") if _is_stage(rest.get("stage")) else None
        return self._take(
            "report",
            row,
            value=reading.value,
            stage=stage,
            actor=actor,
            request_id=request_id,
            body=to_json(details=rest or None, outcome=reading.fields),
        )

    def close_pull(self, kind: str, pull_id: str, reason: str, actor: str | None = None) -> Record:
        """Record that a pull will have no outcome; do nothing if it was given up before."""
        row = self.pull(pull_id)
        if row.told_seq is not None:
            raise AlreadyTold(f"pull {pull_id} was told before: there is nothing to close")
        if row.closed_seq is not None:
            return self._record(row.closed_seq)
        return self._take(kind, row, actor=actor, body=to_json(reason=reason))

    def stop(self, reason: str, actor: str | None = None) -> Record:
        """Stop the study; if it was stopped before, the first reason remains."""
        earlier = self._store.first(self._study.id, "stop")
        if earlier is not None:
            return earlier
        if self._replica.stopped:
            raise ExperimentFinished(f"study {self._study.name!r} has stopped by itself")
        return self._add("stop", actor=actor, body=to_json(reason=reason), perform=True)

    # -------------------------------------------------------------------- the log

    def _take(self, kind: str, row: PullRow, **columns: Any) -> Record:
        """Pass the policy an event of a known pull, and record it."""
        about = row.pull_id, row.number, row.action, row.tag
        return self._add(kind, about, row, perform=True, **columns)

    def _add(
        self,
        kind: str,
        about: _About = _NO_PULL,
        row: PullRow | None = None,
        *,
        value: float | None = None,
        stage: int | None = None,
        lease_until: int | None = None,
        actor: str | None = None,
        request_id: str | None = None,
        body: str | None = None,
        perform: bool = False,
    ) -> Record:
        if self._environment is not None and not self._records:
            body = _with(body, environment=json.loads(self._environment))
        if self._seq == 0 and self._study.secret is not None:
            body = _with(body, secret_sha256=commitment(self._study.secret))
        # In the order of `Record`; creating it at once is several times faster than `_replace`.
        fields = (
            *(self._seq + 1, kind, *about, value, stage, lease_until),
            *(self._now, actor, request_id, body),
        )
        record = Record(*fields, sealed(self._hash, fields))
        if perform:
            self._replica.perform(record.step)
        self._seq, self._hash = record.seq, record.hash
        self._records.append(record)
        after = project(record, row)
        if after is not None:
            self._pulls[after.pull_id] = after
        return record

    def _find(self, pull_id: str) -> PullRow | None:
        return self._pulls.get(pull_id) or self._store.pull(self._study.id, pull_id)

    def pull(self, pull_id: str) -> PullRow:
        """Return the state of a pull according to the log so far."""
        row = self._find(pull_id)
        if row is None:
            raise UnknownPull(f"pull {pull_id} was never issued by study {self._study.name!r}")
        return row

    def _open_pull(self, pull_id: str) -> PullRow:
        row = self.pull(pull_id)
        if row.state != "open":
            kind = AlreadyTold if row.state == "told" else PullClosed
            raise kind(f"pull {pull_id} is no longer open: it is {row.state}")
        return row

    def _record(self, seq: int) -> Record:
        if seq > self._study.head_seq:
            return self._records[seq - self._study.head_seq - 1]
        return next(iter(self._store.records(self._study.id, seq - 1, seq)))

    def _earlier(self, request_id: str | None, kinds: tuple[str, ...]) -> Record | None:
        """Return the event that the same request wrote the first time."""
        found = None if request_id is None else self._store.request(self._study.id, request_id)
        if found is not None and found.kind not in kinds:
            raise _used_before(request_id)
        return found


def _with(body: str | None, **more: Any) -> str | None:
    parts = json.loads(body) if body else {}
    return to_json(**parts, **more)


@lru_cache(maxsize=1024)  # there are few different values
def _with_propensity(body: str | None, propensity: float) -> str | None:
    return _with(body, propensity=propensity)


def _used_before(request_id: str | None) -> InvalidArgument:
    return InvalidArgument("request_id", "was used before, for another request", request_id)


def _is_stage(value: object) -> bool:
    return type(value) is int and abs(value) < 2**63
