"""Carry out one write: the policy decides or learns, and events record what happened."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

from fairtrial.core import UNSOLICITED, Pull
from fairtrial.core.logs import LogEvent, RareLog
from fairtrial.core.problem import Outcome
from fairtrial.errors import (
    AlreadyTold,
    ConflictingOutcome,
    ExperimentFinished,
    FairtrialError,
    InvalidArgument,
    InvalidOutcome,
    MistakesFound,
    NothingToAsk,
    NotSupported,
    PullClosed,
    StorageError,
    UnknownPull,
)
from fairtrial.study.clock import leases_over, time_over
from fairtrial.study.conduct import Conduct
from fairtrial.study.early_values import early_records, early_values
from fairtrial.study.kit_supply import Supply as KitSupply
from fairtrial.study.kit_supply import arms_of, drawn_kits
from fairtrial.study.log import (
    TELLS,
    Lease,
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
from fairtrial.study.result_tables import Correction, Mistake, ResultRow, ResultTable
from fairtrial.study.store import Addition, Store, StudyRow
from fairtrial.study.trace import Moments
from fairtrial.study.writes import (
    Amend,
    AmendTable,
    Ask,
    Cancel,
    Close,
    Extend,
    Fail,
    FailMany,
    Kit,
    Mask,
    Report,
    Stop,
    Supply,
    Tell,
    TellKnown,
    TellMany,
    TellManyKnown,
    TellTable,
    Unmask,
    UnmaskAll,
    Write,
)

__all__ = ["NO_OUTCOME", "AssignedUnit", "Previewed", "Writer", "participant_key", "unit_key"]

_UNKNOWN_LABEL = LogEvent("study", "unknown label", logging.WARNING, ("study", "argument", "times"))
_UNKNOWN = RareLog(_UNKNOWN_LABEL)

_ISSUES = ("ask", "reissue")

NO_OUTCOME = "no outcome in the table"
"""Why a unit without an outcome is recorded as lost."""

_MISSING_ONLY_AT_LAST = "can be missing for good only once all other measures are known"

_About = tuple[str | None, int | None, int | None, int | None]
"""The pull of an event: its id, number, action and tag."""
_NO_PULL: _About = (None, None, None, None)


class AssignedUnit(NamedTuple):
    """A unit of a finished experiment.

    Attributes
    ----------
    action : int
        What was assigned to it.
    outcome : Outcome or None
        Its outcome; None if missing.
    prediction : float, mapping of str to float, or None
        What was known of it before the assignment, if the problem has predictions; with measures
        by measure.
    """

    action: int
    outcome: Outcome | None
    prediction: float | Mapping[str, float] | None = None

    @property
    def context(self) -> dict[str, Any]:
        """What a request for its pull would state."""
        if self.prediction is None or self.prediction == {}:
            return {}
        return {"prediction": self.prediction}


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
    conduct : Conduct
        How people carry out the study.
    """

    def __init__(
        self, store: Store, study: StudyRow, replica: Replica, environment: str, conduct: Conduct
    ) -> None:
        self._store = store
        self._study = study
        self._replica = replica
        self._conduct = conduct
        self._now = store.now()
        self._seq = study.head_seq
        self._hash = study.head_hash
        self._records: list[Record] = []
        self._pulls: dict[str, PullRow] = {}
        self._requests: dict[str, Record] = {}
        self._duplicates = 0
        self._extended: PullRow | None = None
        self.issued: Sequence[PullRow] = ()
        self.corrections: list[Correction] = []
        self.first_results = 0
        self._environment = None if environment == study.environment else environment

    @property
    def last(self) -> Record | None:
        """The last event of this write, or None."""
        return self._records[-1] if self._records else None

    @property
    def has_news(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._records or self._duplicates or self._extended)

    @property
    def lease(self) -> Lease | None:
        """The lease that was extended, or None."""
        return None if self._extended is None else Lease.of(self._extended)

    def flush(self) -> StudyRow:
        """Write everything; return the study afterwards."""
        if self._extended is not None:
            return self._store.set_lease(self._study, self._extended)
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

    def carry_out(self, write: Write) -> list[Record]:
        """Carry out a checked write; return its events, but not those of new pulls.

        New pulls are in `issued`, and corrections by a table in `corrections`.
        """
        return self._HOW[type(write)](self, write)

    @property
    def stopped(self) -> bool:
        """Whether the study has stopped."""
        return self._replica.stopped

    def why_no_pull(self, write: Ask) -> str:
        """Return why a running study has no pull for a request; empty without a special reason."""
        if self.stopped or write.n == 0:
            return ""
        return self._replica.policy.why_no_pull(**write.context)

    # ------------------------------------------------------------------- the clock

    def pass_time(self) -> bool:
        """Expire leases that have run out, and tell the policy when `max_time` is over.

        Return whether there was anything to record.
        """
        where = self._store, self._study.id, self._replica.policy, self._now
        for row in leases_over(*where):
            self._store.require_flush()
            self._take("expire", row)
        seconds = None if self._replica.stopped else time_over(*where)
        if seconds is not None:
            self._store.require_flush()
            self._add("time", body=to_json(seconds=seconds), perform=True)
        return bool(self._records)

    def _extend(self, write: Extend) -> list[Record]:
        """Extend a lease, which is in no event: nothing that is decided depends on it."""
        row = self._open_pull(str(write.pull))
        if write.worker not in (None, row.worker) and self._was_reissued(row):
            raise PullClosed(f"pull {row.pull_id} was handed out again, to another worker")
        self._extended = row._replace(lease_until=self._until(write.lease))
        return []

    def _was_reissued(self, row: PullRow) -> bool:
        events = self._store.all_of(self._study.id, "reissue", after=row.asked_seq)
        return any(event.pull_id == row.pull_id for event in events)

    def _until(self, lease: float | None) -> int | None:
        return None if lease is None else self._now + round(lease * 1e6)

    # ----------------------------------------------------------------------- asks

    def _ask(self, write: Ask) -> list[Record]:
        """Issue pulls: first those that must be handed out again, then new ones."""
        earlier = (
            self._earlier(_key_of(write), _ISSUES)
            if write.participant is None
            else self._of_participant(write)
        )
        if earlier is not None and write.tell is not None and not self._is_told(write.tell):
            # The first request told another outcome, or none.
            raise _used_before(write.request_id)
        told = [] if write.tell is None else self._tell(write.tell)
        if earlier is None:
            self._require_possible(write)
        self.issued = self._issue_all(write) if earlier is None else self._issued_then(earlier)
        return told

    def _require_possible(self, write: Ask) -> None:
        self._replica.require_open(write.context)
        is_reissued = self._replica.policy.expiry == "reissue"
        if write.unit is not None and write.lease is not None and is_reissued:
            accepted = "must be left out: this policy would give the pull of a unit to another one"
            raise InvalidArgument("lease", accepted, write.lease)

    def _issue_all(self, write: Ask) -> list[PullRow]:
        supply = self._supply() if self._conduct.masked else None
        context, n = dict(write.context), write.n
        if supply is not None and supply.least < n:
            if not supply.least and write.tell is None:
                raise _used_up()
            n = supply.least
        body = to_json(context=context) if context else None
        # A pull that somebody else did not finish is not given to another participant or unit.
        has_own = write.participant is not None or write.unit is not None
        again = [] if has_own else self._waiting_again(n, context)
        try:
            fresh, exhausted = self._decide(n - len(again), context, body)
        except InvalidArgument as error:
            if error.name in context:
                # Somebody whom the study does not provide for has arrived.
                at, study = self._now / 1e6, self._study.name
                _UNKNOWN.log(study, at, study=study, argument=error.name)
            raise
        items: list[PullRow | Pull] = [*again, *fresh]
        # The first pull records the request's key and number of pulls.
        first = body
        if write.request_id is not None and len(items) > 1:
            first = to_json(context=context or None, count=len(items))
        until = self._until(write.lease)
        rows: list[PullRow] = []
        for item in items:
            key, said = (None, body) if rows else (_key_of(write), first)
            if write.participant is not None:
                said = _with(body, participant=write.participant)
            rows.append(self._issue(item, until, write.worker, key, said))
        if supply is not None:
            # Last, because a repeated request finds its pulls one after the other.
            for row in rows[len(again) :]:
                self._hand_out(supply, row, write.worker)
        if exhausted:
            self._add("wait", actor=write.worker, body=body)
        return rows

    def _of_participant(self, write: Ask) -> Record | None:
        """Return the event in which this participant got a pull; raise if others asked for it."""
        if write.participant is None:
            return None
        earlier = self._earlier(participant_key(write.participant), _ISSUES)
        if earlier is None:
            return None
        said = json.loads(earlier.body or "{}")
        same = said.get("context", {}) == dict(write.context)
        is_own = earlier.actor == write.worker and said.get("participant") == write.participant
        if not (same and is_own):
            accepted = "was assigned before, with other details or by somebody else"
            raise InvalidArgument("participant", accepted)
        return earlier

    def _supply(self) -> KitSupply:
        """Return the kits that were not handed out so far."""
        return self._replica.kits or KitSupply(self._replica.policy.problem)

    def _hand_out(self, supply: KitSupply, row: PullRow, actor: str | None) -> Record:
        kit = supply.choose(row.action)
        return self._take("kit", row, actor=actor, request_id=kit_key(kit), body=to_json(kit=kit))

    def _add_kits(self, write: Supply) -> list[Record]:
        """Add kits of every arm, with numbers that nobody can tell apart."""
        if not self._conduct.masked:
            raise NotSupported("this study has no kits of its own: it was created without 'masked'")
        earlier = self._earlier(write.request_id, ("supply",))
        if earlier is not None:
            return [earlier]
        arms = arms_of(self._replica.policy.problem)
        kits = drawn_kits(self._conduct, arms, write.number, self._supply().numbers)
        said = to_json(kits=kits)
        key = write.request_id
        return [self._add("supply", actor=write.actor, request_id=key, body=said, perform=True)]

    def _mask(self, write: Mask) -> list[Record]:
        """Record that the unmasking list was made, which happens once."""
        if not self._conduct.masked:
            raise NotSupported("this study has no codes: it was created without 'masked'")
        if self._store.first(self._study.id, "mask") is not None:
            raise InvalidArgument("names", "were sealed before: there is one unmasking list")
        body = to_json(list_sha256=write.list_sha256)
        return [self._add("mask", actor=write.actor, body=body, perform=True)]

    def _unmask(self, write: Unmask | UnmaskAll) -> list[Record]:
        """Record an access to the unmasking list: every one, also a repeated one."""
        if self._store.first(self._study.id, "mask") is None:
            raise NotSupported(f"study {self._study.name!r} has no unmasking list")
        body = to_json(reason=write.reason)
        if isinstance(write, UnmaskAll):
            return [self._add("unmask", actor=write.actor, body=body, perform=True)]
        row = self.pull(str(write.pull))
        return [self._take("unmask", row, actor=write.actor, body=body)]

    def _record_kit(self, write: Kit) -> list[Record]:
        """Record a kit of a pull; do nothing if it was recorded for the same pull."""
        row = self.pull(str(write.pull))
        if write.kit is None:
            supply = self._supply()
            if not supply.least:
                raise _used_up()
            return [self._hand_out(supply, row, write.actor)]
        key = kit_key(write.kit)
        earlier = self._earlier(key, ("kit",))
        if self._conduct.masked and (earlier is None or earlier.pull_id != row.pull_id):
            # Whatever is wrong with the number: an answer must not compare arms.
            raise InvalidArgument("kit", "must be left out: this study chooses the kit")
        if earlier is None:
            body = to_json(kit=write.kit)
            return [self._take("kit", row, actor=write.actor, request_id=key, body=body)]
        if earlier.pull_id != row.pull_id:
            raise InvalidArgument("kit", "was handed out for another pull: check its number")
        return [earlier]

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

    # ------------------------------------------------------------ finished experiments

    def play(
        self, units: Sequence[AssignedUnit], first: int, moments: Moments | None = None
    ) -> None:
        """Record units that were assigned by others, each as a pull with its outcome.

        The policy must take its pulls from the same units in the same order. Once it has stopped,
        outcomes are unsolicited data.

        Parameters
        ----------
        units : sequence of AssignedUnit
            The next units.
        first : int
            Number of units before them.
        moments : Moments, optional
            Notes the progress after each outcome.

        Raises
        ------
        StorageError
            If somebody else wrote to the study meanwhile: its pulls then belong to other units.
        """
        policy = self._replica.policy
        if policy.n_outstanding or not (policy.asked == first or self._replica.stopped):
            raise StorageError(
                f"study {self._study.name!r} was written to by others while its table was read; "
                "analyse the table again under another name"
            )
        begin, contexts = 0, [unit.context for unit in units]
        while begin < len(units):
            pulls = self._replica.ask_many(contexts[begin:])
            if not pulls:
                self._tell_rest(units[begin:], moments)
                return
            end = begin + len(pulls)
            self._play_pulls(pulls, contexts[begin:end], units[begin:end], moments)
            begin = end

    def _play_pulls(
        self,
        pulls: Sequence[Pull],
        contexts: Sequence[Mapping[str, Any]],
        units: Sequence[AssignedUnit],
        moments: Moments | None,
    ) -> None:
        """Record pulls and then their outcomes, as `_issue` and `_take` do one by one."""
        # A table of a database takes keys in ascending order much faster than others.
        prefix = secrets.token_hex(12)
        rows = []
        for place, (pull, said) in enumerate(zip(pulls, contexts, strict=True)):
            about = f"{prefix}{place:08x}", pull.number, pull.action, pull.tag
            record = self._sealed("ask", about, body=to_json(context=said) if said else None)
            rows.append(self._keep(record, None))
        for pull, row, unit in zip(pulls, rows, units, strict=True):
            assert row is not None, "an ask has a pull"
            about = row[:4]
            if unit.outcome is None:
                record = self._sealed("fail", about, body=to_json(reason=NO_OUTCOME))
                self._replica.fail(pull, NO_OUTCOME, record)
            else:
                result = self._completed(None, Result.of(unit.outcome))
                record = self._sealed("tell", about, value=result.value, body=result.body)
                self._replica.tell(pull, result.outcome, record)
                if moments is not None:
                    moments.take(self._replica)
            self._keep(record, row)

    def _tell_rest(self, units: Sequence[AssignedUnit], moments: Moments | None) -> None:
        for unit in units:
            if unit.outcome is not None:
                pull = Pull(UNSOLICITED, unit.action, {})
                self._tell_unsolicited(
                    unit.action, Result.of(unit.outcome), Tell(pull, unit.outcome)
                )
                if moments is not None:
                    moments.take(self._replica)

    # ---------------------------------------------------------------------- tells

    def _tell(self, write: Tell) -> list[Record]:
        """Record an outcome; return the first event if it was told before."""
        result = Result.of(write.value)
        if isinstance(write.pull, Pull):
            return [self._tell_unsolicited(write.pull.action, result, write)]
        pull_id = str(write.pull)
        earlier = self._earlier(write.request_id, TELLS)
        if earlier is not None and earlier.pull_id != pull_id:
            raise _used_before(write.request_id)
        row = self.pull(pull_id)
        if row.told_seq is not None:
            return [self._told_before(row.told_seq, result, row.value_seq)]
        result = self._completed(row, result)
        in_time = row.lease_until is None or row.lease_until > self._now
        event = self._take(
            "tell" if row.state == "open" and in_time else "late_tell",
            row,
            value=result.value,
            actor=write.actor,
            request_id=write.request_id,
            body=result.body,
        )
        return [event]

    def _is_told(self, write: Tell) -> bool:
        """Return whether the pull has an outcome, or the same request told an unsolicited one."""
        if isinstance(write.pull, Pull):
            return self._earlier(write.request_id, TELLS) is not None
        return self.pull(str(write.pull)).told_seq is not None

    def _tell_known(self, write: TellKnown) -> list[Record]:
        """Record an outcome, or its known measures; nothing if all were recorded before."""
        pull_id, given = str(write.pull), write.values
        row, measures = self.pull(pull_id), self._replica.policy.problem.measures
        if not isinstance(given, Mapping) or not measures or row.told_seq is not None:
            return self._tell(Tell(pull_id, given, write.actor))
        known = self._reported(row)
        if {*given, *known} >= {*measures}:
            return self._tell(Tell(pull_id, given, write.actor))
        missing = [name for name, value in given.items() if value is None]
        if missing:
            raise InvalidOutcome(f"outcome: {missing[0]}", _MISSING_ONLY_AT_LAST)
        if any(name not in known or known[name] != value for name, value in given.items()):
            return self._report(Report(pull_id, given, actor=write.actor))
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

    def _tell_unsolicited(self, action: int, result: Result, write: Tell) -> Record:
        earlier = self._earlier(write.request_id, TELLS)
        if earlier is not None:
            if (earlier.kind, earlier.action) != ("unsolicited", action):
                raise _used_before(write.request_id)
            return self._told_before(earlier.seq, result)
        result = self._completed(None, result)
        return self._add(
            "unsolicited",
            (secrets.token_hex(16), UNSOLICITED, action, 0),
            value=result.value,
            actor=write.actor,
            request_id=write.request_id,
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

    def _outcome_of(self, pull_id: str) -> Any:
        """Return what is on record of a pull: its outcome, or the measures reported before it."""
        row = self.pull(pull_id)
        if row.told_seq is None and (known := self._reported(row) or self._withdrawn(row)):
            return known
        current = self._record(self._value_seq(row))
        return outcome_of(current.value, current.body)

    def _value_seq(self, row: PullRow) -> int:
        if row.value_seq is None:
            raise UnknownPull(f"pull {row.pull_id} has no outcome to correct: tell it first")
        return row.value_seq

    def _amend(self, write: Amend) -> list[Record]:
        """Correct an outcome; do nothing if it is already on record."""
        row, result = self.pull(str(write.pull)), Result.of(write.value)
        if row.told_seq is None and (self._reported(row) or self._withdrawn(row)):
            return [self._amend_reported(row, result.fields or {}, write)]
        current = self._record(self._value_seq(row))
        old = outcome_of(current.value, current.body)
        if result.agrees_with(old):
            return [current]
        if self._replica.policy.problem.measured is not None:
            result = Result(None, {**old, **(result.fields or {})})
        event = self._take(
            "amend",
            row,
            value=result.value,
            actor=write.actor,
            body=to_json(outcome=result.fields, old=old, reason=write.reason),
        )
        return [event]

    def _amend_reported(self, row: PullRow, given: Mapping[str, Any], write: Amend) -> Record:
        """Correct or withdraw measures of a pull without an outcome.

        Do nothing if they are on record, or were withdrawn before.
        """
        known = self._reported(row)
        stated = {**self._withdrawn(row), **known}
        for name, value in given.items():
            if name not in known and not (value is None and name in stated):
                accepted = "has no value to correct yet: tell it"
                raise InvalidOutcome(f"outcome: {name}", accepted)
        if all(stated[name] == value for name, value in given.items()):
            return self._last_with(row, given)
        given = {name: value for name, value in given.items() if name in known}
        said = to_json(outcome={**known, **given}, old=known, reason=write.reason)
        return self._take("amend", row, actor=write.actor, body=said)

    def _last_with(self, row: PullRow, names: Iterable[str]) -> Record:
        """Return the last event that reported one of these measures of a pull, or corrected it."""
        records = self._early_records(row)
        return [one for one in records if not early_values(one).keys().isdisjoint(names)][-1]

    def _early_records(self, row: PullRow) -> list[Record]:
        own = [record for record in self._records if record.pull_id == row.pull_id]
        return [*early_records(self._store, self._study.id, [row]), *own]

    def _withdrawn(self, row: PullRow) -> dict[str, None]:
        """Return the measures of a pull without an outcome that were told early and taken back."""
        if self._replica.policy.problem.measured is None:
            return {}
        last: dict[str, Any] = {}
        for one in self._early_records(row):
            last |= early_values(one)
        return {name: None for name, value in last.items() if value is None}

    # --------------------------------------------------------------- other events

    def _report(self, write: Report) -> list[Record]:
        pull_id, reading = str(write.pull), Result.of(write.reading)
        earlier = self._earlier(write.request_id, ("report",))
        if earlier is not None:
            found = earlier.pull_id, outcome_of(earlier.value, earlier.body)
            if found != (pull_id, reading.outcome):
                raise _used_before(write.request_id)
            return [earlier]
        row = self.pull(pull_id)
        if reading.fields is not None and row.told_seq is not None:
            return [self._told_before(row.told_seq, reading, row.value_seq)]
        rest = dict(write.details)
        stage = rest.pop("stage") if _is_stage(rest.get("stage")) else None
        event = self._take(
            "report",
            row,
            value=reading.value,
            stage=stage,
            actor=write.actor,
            request_id=write.request_id,
            body=to_json(details=rest or None, outcome=reading.fields),
        )
        return [event]

    def _close_pull(self, write: Fail) -> list[Record]:
        """Record that a pull will have no outcome; do nothing if it was given up before."""
        row = self.pull(str(write.pull))
        if row.told_seq is not None:
            raise AlreadyTold(f"pull {row.pull_id} was told before: there is nothing to close")
        if row.closed_seq is not None:
            return [self._record(row.closed_seq)]
        kind = "cancel" if isinstance(write, Cancel) else "fail"
        return [self._take(kind, row, actor=write.actor, body=to_json(reason=write.reason))]

    def _stop(self, write: Stop) -> list[Record]:
        """Stop the study; if it was stopped before, the first reason remains."""
        earlier = self._store.first(self._study.id, "stop")
        if earlier is not None:
            return [earlier]
        if self._replica.stopped:
            raise ExperimentFinished(f"study {self._study.name!r} has stopped by itself")
        body = to_json(reason=write.reason)
        return [self._add("stop", actor=write.actor, body=body, perform=True)]

    def _close_part(self, write: Close) -> list[Record]:
        """Close an arm or a group; if it was closed before, the first reason remains."""
        name, label = write.part
        closings = [one for one in self._replica.closings if one.name == name]
        for one in closings:
            if one.label == label:
                return [self._record(one.seq)]
        if self._replica.stopped:
            raise ExperimentFinished(f"study {self._study.name!r} has stopped: nothing is open")
        problem = self._replica.policy.problem
        if name == "group" and len(closings) + 1 == len(problem.stated_shares["group"]):
            accepted = "must not be the last open group: stop the study instead"
            raise InvalidArgument("group", accepted, label)
        body = to_json(**{name: label}, reason=write.reason)
        return [self._add("close", actor=write.actor, body=body, perform=True)]

    # ------------------------------------------------------------------ several in one

    def _all(self, write: TellMany | FailMany) -> list[Record]:
        return [event for each in write.writes for event in self.carry_out(each)]

    def _tell_many_known(self, write: TellManyKnown) -> list[Record]:
        events, mistakes = [], []
        for place, each in enumerate(write.writes):
            try:
                events += self._tell_known(each)
            except FairtrialError as error:
                mistakes.append(f"outcomes[{place}]: {error}")
        if mistakes:
            raise MistakesFound(mistakes, "outcomes")
        return events

    def _tell_table(self, write: TellTable) -> list[Record]:
        def tell(row: ResultRow) -> list[Record]:
            if row.result is None:
                return self._close_pull(Fail(row.pull_id, write.table.reason, write.actor))
            return self._tell_known(TellKnown(row.pull_id, row.result, write.actor))

        return self._by_row(write.table, tell)

    def _amend_table(self, write: AmendTable) -> list[Record]:
        def amend(row: ResultRow) -> list[Record]:
            if row.result is None:
                self._check_failure(row.pull_id)
                return []
            given = self._correctable(row.pull_id, row.result)
            if given is None or Result.of(given).agrees_with(
                before := self._outcome_of(row.pull_id)
            ):
                return []
            events = self._amend(Amend(row.pull_id, given, write.reason, write.actor))
            found = Correction(row.pull_id, before, given, row.participant)
            self.corrections.append(found)
            return events

        events = self._by_row(write.table, amend)
        if write.preview:
            # The error undoes everything that was tried.
            raise Previewed(self.corrections, self.first_results)
        return events

    def _check_failure(self, pull_id: str) -> None:
        """Raise if a table says that a pull failed which has a result."""
        row = self.pull(pull_id)
        if row.told_seq is not None or self._reported(row):
            accepted = "cannot be a correction: a result that was told stays a result"
            raise InvalidArgument("failed", accepted)
        if row.state == "open":
            self.first_results += 1

    def _correctable(self, pull_id: str, given: Outcome) -> Outcome | None:
        """Return what of a row of a table corrects a result on record; None if nothing does.

        The table of a plate is often filled in further when it is corrected. What it says first
        about a pull is no correction, so it is left to be told.
        """
        row = self.pull(pull_id)
        if row.told_seq is not None:
            return given
        known = self._reported(row)
        stated = {**self._withdrawn(row), **known}
        fields = Result.of(given).fields if stated else None
        own = {
            name: value
            for name, value in (fields or {}).items()
            if name in known or (value is None and name in stated)
        }
        if fields is None or len(own) < len(fields):
            self.first_results += 1
        return own or None

    def _by_row(self, table: ResultTable, do: Callable[[ResultRow], list[Record]]) -> list[Record]:
        """Carry out the rows of a table; raise one error for all that are refused."""
        events, mistakes = [], []
        for row in table.rows:
            try:
                row.check_labels(self._replica.policy.problem, self.pull(row.pull_id).action)
                events += do(row)
            except FairtrialError as error:
                mistakes.append(Mistake(row.spot, str(error)))
        table.refuse(mistakes)
        return events

    _HOW: ClassVar[Mapping[type[Write], Callable[[Writer, Any], list[Record]]]] = {
        Ask: _ask,
        Tell: _tell,
        TellKnown: _tell_known,
        TellMany: _all,
        TellManyKnown: _tell_many_known,
        TellTable: _tell_table,
        Amend: _amend,
        AmendTable: _amend_table,
        Report: _report,
        Extend: _extend,
        Fail: _close_pull,
        Cancel: _close_pull,
        FailMany: _all,
        Stop: _stop,
        Close: _close_part,
        Kit: _record_kit,
        Supply: _add_kits,
        Mask: _mask,
        Unmask: _unmask,
        UnmaskAll: _unmask,
    }

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
        perform: bool = False,
        **columns: Any,
    ) -> Record:
        """Add an event, pass it to the policy if it must `perform` it, and note what it changes."""
        record = self._sealed(kind, about, **columns)
        if perform:
            self._replica.perform(record.step)
        self._keep(record, row)
        if record.request_id is not None:
            self._requests[record.request_id] = record
        return record

    def _sealed(
        self,
        kind: str,
        about: _About,
        *,
        value: float | None = None,
        stage: int | None = None,
        lease_until: int | None = None,
        actor: str | None = None,
        request_id: str | None = None,
        body: str | None = None,
    ) -> Record:
        """Return the next event of the log."""
        if self._environment is not None and not self._records:
            body = _with(body, environment=json.loads(self._environment))
        if self._seq == 0:
            body = self._with_commitment(body)
        # In the order of `Record`; creating it at once is several times faster than `_replace`.
        fields = (
            *(self._seq + 1, kind, *about, value, stage, lease_until),
            *(self._now, actor, request_id, body),
        )
        return Record(*fields, sealed(self._hash, fields))

    def _keep(self, record: Record, row: PullRow | None) -> PullRow | None:
        """Add an event to the log; return its pull after it, which was in the state `row`."""
        self._seq, self._hash = record.seq, record.hash
        self._records.append(record)
        after = project(record, row)
        if after is not None:
            self._pulls[after.pull_id] = after
        return after

    def _with_commitment(self, body: str | None) -> str | None:
        """Return the body of the first event: it fixes the secret that pulls are drawn with."""
        secret = self._study.secret
        if secret is None or not self._replica.policy.randomizes:
            return body
        return _with(body, secret_sha256=commitment(secret))

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
        if request_id is None:
            return None
        found = self._requests.get(request_id) or self._store.request(self._study.id, request_id)
        if found is not None and found.kind not in kinds:
            raise _used_before(request_id)
        return found


class Previewed(Exception):
    """Carries what a table would correct out of a write, which it undoes."""

    def __init__(self, corrections: list[Correction], first_results: int) -> None:
        super().__init__()
        self.corrections = corrections
        self.first_results = first_results


def _key_of(ask: Ask) -> str | None:
    """Return the key under which the pulls of a request are found again.

    A participant or a unit is a key of its own, whatever other key comes with the request. The
    storage keeps each key once, and so each of them.
    """
    if ask.participant is not None:
        return participant_key(ask.participant)
    return ask.request_id if ask.unit is None else ask.unit


def _with(body: str | None, **more: Any) -> str | None:
    parts = json.loads(body) if body else {}
    return to_json(**parts, **more)


def participant_key(number: str) -> str:
    """Return the key under which a participant's pull is found."""
    return f"participant {number}"


def unit_key(secret: str, unit: str) -> str:
    """Return the key under which the pull of a unit is found: a hash keyed by the study's secret.

    It shows nothing of the unit to anyone without the secret, and no two studies have the same.
    """
    digest = hmac.new(secret.encode(), b"unit\0" + unit.encode(), hashlib.sha256)
    return f"unit {digest.hexdigest()}"


def kit_key(number: str) -> str:
    """Return the key under which a kit is found."""
    return f"kit {number}"


@lru_cache(maxsize=1024)  # there are few different values
def _with_propensity(body: str | None, propensity: float) -> str | None:
    return _with(body, propensity=propensity)


def _used_before(request_id: str | None) -> InvalidArgument:
    return InvalidArgument("request_id", "was used before, for another request", request_id)


def _used_up() -> NothingToAsk:
    text = "the kits of this study are used up: somebody with the right to do so must add some "
    return NothingToAsk(text + "(`fairtrial study supply`); nothing was drawn")


def _is_stage(value: object) -> bool:
    return type(value) is int and abs(value) < 2**63
