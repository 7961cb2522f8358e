"""Decide what people who recruit or treat learn of results: their own, and nothing of others'.

They have the scope ``run`` without ``read``. An answer must not even reveal whether they have
guessed another person's result.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

from fairtrial.errors import (
    AlreadyTold,
    ConflictingOutcome,
    FairtrialError,
    InvalidArgument,
    InvalidTable,
    MistakesFound,
    NothingToAsk,
)
from fairtrial.server.documents import event_document
from fairtrial.server.problems import Refusal, as_refusal
from fairtrial.server.security.access import Caller
from fairtrial.server.service import Answer, Key, Service
from fairtrial.study import Event, Study
from fairtrial.study.early_values import early_records, early_values
from fairtrial.study.log import TELLS, PullRow, Record, outcome_of
from fairtrial.study.result_tables import Correction, Mistake, ResultRow, ResultTable
from fairtrial.study.writes import (
    Amend,
    AmendTable,
    Ask,
    Report,
    Tell,
    TellKnown,
    TellMany,
    TellManyKnown,
    TellTable,
    Write,
    Written,
)

__all__ = [
    "Entered",
    "correction_for",
    "entered",
    "event_for",
    "may_correct",
    "require_correction",
    "require_own",
    "seal",
    "sees_arms",
    "should_stop",
    "write_as",
    "write_for",
]

_HOLD_RESULTS = (*TELLS, "amend", "report")
_KEY = secrets.token_bytes(32)


def seal(state: str) -> str:
    """Return a text that changes whenever a state does and reveals nothing else.

    A hash of the log would reveal more: anyone who knows an event except for its outcome could
    find the outcome by trying which one gives that hash.
    """
    return hashlib.blake2b(state.encode(), key=_KEY, digest_size=16).hexdigest()


def sees_arms(study: Study, viewer: Caller) -> bool:
    """Return whether the caller may know which arm a pull has: in a masked study only readers."""
    return viewer.can("read") or not study.checks.conduct.masked


def should_stop(study: Study, viewer: Caller, pull: str) -> bool:
    """Return whether a pull's outcome is no longer needed, as far as the caller may know.

    In a masked study, that an outcome is not needed while others are would show who has the same
    arm.
    """
    return study.should_stop(pull) if sees_arms(study, viewer) else study.stopped


# ---------------------------------------------------------------------------- writing


async def write_as(
    service: Service,
    viewer: Caller,
    study: str,
    operation: Callable[[Study], Answer],
    key: Key | None,
    request_id: str | None,
    *,
    needs_flush: bool = True,
) -> Answer:
    """Write to a study, and return the answer in the form that the caller may see.

    `needs_flush` says whether the write must survive a power failure.

    Raises
    ------
    InvalidArgument
        If the key of the request was used under another name.
    ConflictingOutcome
        If the pull was told a different outcome before; the message names it only to callers who
        may know it.
    """

    def once(opened: Study) -> Answer:
        _require_own_request(opened, viewer, request_id)
        try:
            return operation(opened)
        except ConflictingOutcome as error:
            raise _conflict_for(viewer, error, opened) from None

    return await service.write(study, once, key, needs_flush=needs_flush)


def write_for(service: Service, study: Study, viewer: Caller, write: Write) -> Written:
    """Carry out a write; raise if its caller may not, or may not ask for more pulls."""
    require_own(study, viewer, *write.pulls)
    _require_no_arm(study, viewer, write)
    if isinstance(write, TellTable | AmendTable) and not viewer.can("read"):
        return _write_table_for(study, viewer, write)
    if isinstance(write, Amend):
        require_correction(study, viewer, write)
    else:
        _require_new(study, viewer, write)
    if isinstance(write, Ask):
        write = _with_room(service, study, viewer, write)
    try:
        done = study.write(write)
    except MistakesFound as error:
        raise _mistakes_for(viewer, error) from None
    except FairtrialError as error:
        raise error if sees_arms(study, viewer) else _without_arm(error) from None
    if any(event.kind == "unsolicited" and event.actor != viewer.actor for event in done.events):
        raise _used_by_somebody_else(write.key)
    return done


def _require_no_arm(study: Study, viewer: Caller, write: Write) -> None:
    """Raise if somebody who must not see arms names one.

    Raises
    ------
    Refusal
        With the status 403.
    """
    if sees_arms(study, viewer):
        return
    writes = write.writes if isinstance(write, TellMany) else [write]
    tells = [one.tell if isinstance(one, Ask) else one for one in writes]
    if any(isinstance(one, Tell) and not isinstance(one.pull, str) for one in tells):
        text = "the arms of this study are masked: without the scope 'read', a token tells results "
        raise Refusal(403, "access-refused", text + "of its own pulls only", reason="scope")


def _without_arm(error: FairtrialError) -> FairtrialError:
    """Return the error, or one that says less if it shows the labels of a pull.

    An error from a user's own policy has no `labels`, but may print a pull.
    """
    if getattr(error, "labels", None) is None and "arm=" not in str(error):
        return error
    text = "the pull takes this no more, or not yet"
    return AlreadyTold(text) if isinstance(error, AlreadyTold) else InvalidArgument("pull", text)


def _with_room(service: Service, study: Study, viewer: Caller, ask: Ask) -> Write:
    """Return what of a request can be carried out: an outcome is told even without room."""
    store, study_id = study.session.store, study.session.id
    if ask.unit is not None:
        _require_own_unit(study, viewer, ask.unit)
        key: str | None = study.session.unit_key(ask.unit)
    else:
        key = ask.key
    if key is not None and store.request(study_id, key) is not None:
        # It hands out the pulls of the first time again.
        return ask
    if ask.tell is None:
        _require_room(service, study, viewer, ask.n)
        return ask
    (pull,) = ask.tell.pulls
    try:
        _require_room(service, study, viewer, ask.n, told=pull)
    except NothingToAsk:
        return ask.tell
    return ask


def _conflict_for(viewer: Caller, error: ConflictingOutcome, study: Study) -> ConflictingOutcome:
    """Return the conflict that the caller may see; the message can name the earlier outcome."""
    if viewer.can("read"):
        return error
    if error.told_by != viewer.actor:
        return _told_by_somebody_else(error.pull)
    if study.problem.measures:
        # Another person may have reported some of the measures.
        return ConflictingOutcome(f"pull {error.pull} was told another outcome before")
    return error


def _mistakes_for(viewer: Caller, error: MistakesFound) -> MistakesFound:
    """Return the mistakes that the caller may see, for outcomes of several measures."""
    if viewer.can("read"):
        return error
    places = [mistake.partition(": ")[0] for mistake in error.mistakes]
    reason = "the pull is unknown, or another value was told before"
    return MistakesFound([f"{place}: {reason}" for place in places], "outcomes")


_Table = TellTable | AmendTable


def _write_table_for(study: Study, viewer: Caller, write: _Table) -> Written:
    """Carry out the write of a table for a caller who may not read results of others.

    What the caller may not write is a mistake of its row. Labels of masked arms are not compared:
    whether they are right must not be revealed.
    """
    arms_seen = sees_arms(study, viewer)
    shown = study.checks.conduct.shown_labels(study.problem, 0, sees_arms=arms_seen)
    rows, mistakes, is_refused = [], list(write.table.mistakes), False
    for row in write.table.rows:
        try:
            _require_row(study, viewer, write, row)
        except (FairtrialError, Refusal) as error:
            mistakes.append(Mistake(row.spot, str(error)))
            is_refused |= isinstance(error, Refusal)
        else:
            rows.append(row if arms_seen else replace(row, labels=_only(shown, row.labels)))
    table = replace(write.table, rows=tuple(rows), mistakes=tuple(mistakes))
    own = replace(write, table=table).check(study.checks)
    try:
        return study.write(own)
    except InvalidTable as error:
        refusal = as_refusal(_without_values(error, own.table))
        refusal.reason = "scope" if is_refused else None
        raise refusal from None


def _require_row(study: Study, viewer: Caller, write: _Table, row: ResultRow) -> None:
    """Raise if a caller may not tell or correct the result in a row of a table."""
    require_own(study, viewer, row.pull_id)
    if row.result is None:
        return
    if isinstance(write, AmendTable):
        require_correction(study, viewer, Amend(row.pull_id, row.result, write.reason))
    else:
        _require_new(study, viewer, TellKnown(row.pull_id, row.result))


def _without_values(error: InvalidTable, table: ResultTable) -> InvalidTable:
    """Return the mistakes without those that the log tells: values in it can be another's."""
    known = {f"{one.spot.line}: {one.text}" for one in table.mistakes}
    reason = "the pull is unknown, or it has other labels or another value on record"
    said = [
        one if one in known else f"{one.partition(': ')[0]}: {reason}" for one in error.mistakes
    ]
    return InvalidTable(said, error.source)


def correction_for(viewer: Caller, one: Correction) -> dict[str, Any]:
    """Return a correction as the caller may see it: other measures can be another's."""
    before = one.before
    if not viewer.can("read") and isinstance(before, Mapping) and isinstance(one.after, Mapping):
        before = _only(one.after, before)
    return {
        "pull": one.pull_id,
        "before": before,
        "after": one.after,
        "participant": one.participant,
    }


def _only(names: Collection[str], values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name in names}


def _require_own_request(study: Study, viewer: Caller, request_id: str | None) -> None:
    """Raise if another person used the key, whose answer the caller would get."""
    store, study_id = study.session.store, study.session.id
    first = None if request_id is None else store.request(study_id, request_id)
    if first is not None and first.actor != viewer.actor:
        raise _used_by_somebody_else(request_id)


def _require_own_unit(study: Study, viewer: Caller, unit: str) -> None:
    """Raise if another person asked for the pull of this unit, whose arm the caller would learn."""
    first = study.session.store.request(study.session.id, study.session.unit_key(unit))
    if first is not None and first.actor != viewer.actor and not viewer.can("read"):
        accepted = (
            "must not have a pull that another token asked for, unless the token may read: "
            "processes that serve the same units share one"
        )
        raise InvalidArgument("unit", accepted)


def _used_by_somebody_else(request_id: str | None) -> InvalidArgument:
    text = "was used before by somebody else: use a key that nobody else can think of"
    return InvalidArgument("Idempotency-Key", text, request_id)


def _told_by_somebody_else(pull: str | None) -> ConflictingOutcome:
    which = "the pull" if pull is None else f"pull {pull}"
    conflict = ConflictingOutcome(f"{which} was told before, perhaps by somebody else")
    conflict.pull = pull
    return conflict


def _require_new(study: Study, viewer: Caller, write: Write) -> None:
    """Raise if another person has told or reported what a write contains.

    Raises
    ------
    ConflictingOutcome
        Whether or not the new values are the same.
    """
    pull = None if viewer.can("read") else _of_others(study, viewer, _given(study, write))
    if pull is not None:
        raise _told_by_somebody_else(pull)


def require_own(study: Study, viewer: Caller, *pulls: str) -> None:
    """Raise if somebody else asked for one of the pulls, and the caller may not read the study.

    Otherwise those who recruit could count arms, or tell results of others' pulls.

    Raises
    ------
    Refusal
        With the status 403.
    """
    if viewer.can("read"):
        return
    store, study_id = study.session.store, study.session.id
    for pull in pulls:
        row = store.pull(study_id, pull)
        if row is not None and row.worker != viewer.actor:
            text = f"pull {pull} is somebody else's: without the scope 'read', a token sees and "
            text += "tells only the pulls that it asked for"
            raise Refusal(403, "access-refused", text, reason="scope")


def _require_room(
    service: Service, study: Study, viewer: Caller, number: int, told: str | None = None
) -> None:
    """Raise if a study or a token would have too many open pulls.

    The pull that is `told` in the same write makes room for another one, unless it was told or
    given up before.

    Raises
    ------
    NothingToAsk
        Until enough of them have results or are given up.
    """
    most = service.settings.open_pulls
    own = max(most // 2, 1)
    in_flight = study.session.n_outstanding()
    if in_flight is not None and in_flight + number <= own:
        # The usual case, for which nothing has to be counted.
        return
    store, study_id = study.session.store, study.session.id
    # Asking gives these up, or hands them out again.
    ending = {row.pull_id: row.worker for row in store.open_pulls(study_id, due_by=store.now())}
    row = None if told is None else store.pull(study_id, told)
    if row is not None and row.state == "open":
        ending[row.pull_id] = row.worker
    of_workers = Counter(ending.values())
    for owner, limit, worker, no_longer in (
        (f"token {viewer.actor!r}", own, viewer.actor, of_workers[viewer.actor]),
        (f"study {study.name!r}", most, None, of_workers.total()),
    ):
        found = store.count_open(study_id, worker) - no_longer
        if found + number > limit:
            raise NothingToAsk(
                f"{owner} has {found:,} open pulls, and this service's limit `open_pulls` is "
                f"{limit:,} for it: tell or give up some of them before you ask for {number:,}"
            )


def require_correction(study: Study, viewer: Caller, write: Amend) -> None:
    """Raise if a pull's result is another person's, and the caller may not know it.

    Raises
    ------
    Refusal
        With the status 403.
    """
    if not viewer.can("read") and _of_others(study, viewer, _given(study, write)) is not None:
        text = "a result is corrected by the person who told it, or by one who may read results"
        raise Refusal(403, "access-refused", text, reason="scope")


def may_correct(study: Study, viewer: Caller, row: PullRow, seen: Entered) -> bool:
    """Return whether the caller may correct what they see of a pull's result, if there is any."""
    has_values = row.told_seq is not None or bool(study.problem.measures and seen.values)
    if not has_values or viewer.can("read"):
        return has_values
    given = _Given(row, seen.values if study.problem.measures else None)
    return seen.values is not None and _of_others(study, viewer, [given]) is None


class _Given(NamedTuple):
    """Values that a write gives to a pull, as far as they are compared with earlier reports."""

    row: PullRow
    values: Any


def _given(study: Study, write: Write) -> list[_Given]:
    """Return the values that a write gives to pulls of this study."""
    if isinstance(write, TellMany | TellManyKnown):
        return [given for each in write.writes for given in _given(study, each)]
    if isinstance(write, Ask):
        return [] if write.tell is None else _given(study, write.tell)
    if isinstance(write, Report):
        values: Any = write.reading
    elif isinstance(write, Tell | TellKnown | Amend):
        values = write.values if isinstance(write, TellKnown) else write.value
        # Readings are no part of an outcome, which is never compared with them.
        values = values if study.problem.measures else None
    else:
        return []
    store, study_id = study.session.store, study.session.id
    rows = [store.pull(study_id, pull) for pull in write.pulls]
    return [_Given(row, values) for row in rows if row is not None]


def _of_others(study: Study, viewer: Caller, given: Sequence[_Given]) -> str | None:
    """Return a pull for which another person told, corrected or reported what is given now.

    None if there is none. Measures that are not given may be those of others.
    """
    compared: dict[str, list[_Given]] = {}
    for one in given:
        for seq in (one.row.told_seq, one.row.value_seq):
            if seq is not None and next(study.events(seq - 1)).actor != viewer.actor:
                return one.row.pull_id
        if one.values is not None:
            compared.setdefault(one.row.pull_id, []).append(one)
    rows = [ones[0].row for ones in compared.values()]
    of_others: dict[str, dict[str, Any]] = {}
    for early in early_records(study.session.store, study.session.id, rows):
        pull_id, named = str(early.pull_id), early_values(early)
        if early.actor != viewer.actor:
            stated = named or outcome_of(early.value, early.body)
            if not isinstance(stated, Mapping):
                return pull_id
            of_others.setdefault(pull_id, {}).update(stated)
        for name, value in named.items():
            if value is None:  # Anybody may tell what was withdrawn.
                of_others.get(pull_id, {}).pop(name, None)
    for pull_id, stated in of_others.items():
        if any(_overlap(one.values, stated) for one in compared[pull_id]):
            return pull_id
    return None


def _overlap(given: Any, reported: Any) -> bool:
    """Return whether values contain one of the measures that were reported."""
    if isinstance(given, Mapping) and isinstance(reported, Mapping):
        return not given.keys().isdisjoint(reported)
    return True


# ------------------------------------------------------------------ what people entered


class Entered(NamedTuple):
    """What somebody may see of the values of a pull.

    `values` is an outcome; if the problem has measures, those that they may see. It is None if
    there is nothing to see. `is_outcome` says whether it is the whole outcome on record, and
    `is_outdated` whether somebody else has corrected the result since they entered it.
    """

    values: Any = None
    is_outcome: bool = False
    is_outdated: bool = False


def entered(study: Study, viewer: Caller, rows: Sequence[PullRow]) -> list[Entered]:
    """Return for each pull what the caller may see: everything, or what they entered themselves."""
    if not study.problem.measures:
        return [_single(study, viewer, row) for row in rows]
    early: dict[str, list[Record]] = {row.pull_id: [] for row in rows}
    for one in early_records(study.session.store, study.session.id, rows):
        early[str(one.pull_id)].append(one)
    return [_measured(study, viewer, row, early[row.pull_id]) for row in rows]


def _single(study: Study, viewer: Caller, row: PullRow) -> Entered:
    if row.told_seq is None or row.value_seq is None:
        return Entered()
    first, last = _event(study, row.told_seq), _event(study, row.value_seq)
    if viewer.can("read") or last.actor == viewer.actor:
        return Entered(last.outcome, is_outcome=True)
    return Entered(first.outcome, is_outdated=True) if first.actor == viewer.actor else Entered()


class _Early(NamedTuple):
    """The measures that were told before the others of a pull.

    Who told each of them first, its value as the caller may know it, and those that somebody else
    has corrected, whose new values the caller may not know.
    """

    owners: dict[str, str | None]
    values: dict[str, Any]
    hidden: set[str]

    @classmethod
    def of(cls, viewer: Caller, records: Sequence[Record]) -> Self:
        found = cls({}, {}, set())
        for one in records:
            may_know = viewer.can("read") or one.actor == viewer.actor
            for name, value in early_values(one).items():
                if value is None:  # It was withdrawn, and is told again by whoever knows it.
                    found.owners.pop(name, None)
                    found.values.pop(name, None)
                    found.hidden.discard(name)
                    continue
                found.owners.setdefault(name, one.actor)
                if may_know or name not in found.values:
                    found.values[name] = value
                elif one.kind == "amend":
                    found.hidden.add(name)
        return found


def _measured(study: Study, viewer: Caller, row: PullRow, early: Sequence[Record]) -> Entered:
    owners, values, hidden = _Early.of(viewer, early)
    last = None
    if row.told_seq is not None and row.value_seq is not None:
        told, last = _event(study, row.told_seq), _event(study, row.value_seq)
        assert isinstance(told.outcome, Mapping), "the problem has measures"
        for name, value in told.outcome.items():
            owners.setdefault(name, told.actor)
            values.setdefault(name, value)
    if viewer.can("read"):
        own = set(values)
    else:
        own = {name for name, owner in owners.items() if owner == viewer.actor}
    # Nobody corrects a result after somebody else has, without the right to read all results.
    is_current = last is not None and (
        row.value_seq == row.told_seq or viewer.can("read") or last.actor == viewer.actor
    )
    if is_current and last is not None and isinstance(last.outcome, Mapping):
        values = {**last.outcome, **{name: values[name] for name in hidden}}
    shown = {name: values[name] for name in study.problem.measures if name in own}
    if not shown:
        return Entered()
    is_outdated = (last is not None and not is_current) or not hidden.isdisjoint(shown)
    is_outcome = is_current and len(shown) == len(values) and not is_outdated
    return Entered(shown, is_outcome, is_outdated)


def _event(study: Study, seq: int) -> Event:
    return next(study.events(seq - 1))


# ---------------------------------------------------------------------------- answers


def _is_own(viewer: Caller, event: Event, study: Study) -> bool:
    """Return whether the values of an event are entirely the caller's own."""
    # With several measures, another person may have reported some of an outcome.
    return event.actor == viewer.actor and (event.kind == "report" or not study.problem.measures)


def event_for(viewer: Caller, event: Event, study: Study) -> dict[str, Any]:
    """Return an event as the answer to the caller who caused it.

    Raises
    ------
    ConflictingOutcome
        If it is a result that another person told and the caller may not know.
    """
    unblinded = viewer.can("read")
    document = event_document(event, unblinded=unblinded)
    if unblinded:
        return document
    if not sees_arms(study, viewer):
        document["action"] = None
    if event.actor != viewer.actor:
        if event.kind in _HOLD_RESULTS:
            raise _told_by_somebody_else(event.pull_id)
        document["reason"] = None
        document["body"].pop("reason", None)
    if not _is_own(viewer, event, study):
        document["body"].pop("outcome", None)
    return document
