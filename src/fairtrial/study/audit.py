"""Audit a study: check the chain of hashes, and derive every decision again from the log."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest

import numpy as np

from fairtrial.core import Decision, Policy
from fairtrial.core.policy import State
from fairtrial.errors import CorruptLog, StorageBusy, StorageError, StorageUnreachable
from fairtrial.study.log import PullRow, Record, commitment, project, seal
from fairtrial.study.long_reads import keep_going
from fairtrial.study.machine import environment
from fairtrial.study.replica import Replica
from fairtrial.study.store import Store, StudyRow

__all__ = ["Auditor", "InUse", "Verification", "verify", "verify_last"]

_BATCH = 250


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of auditing a study.

    Parameters
    ----------
    ok : bool
        Whether the log is complete and every recorded decision was reproduced.
    events : int
        Number of events checked, up to the first difference.
    first_difference : str or None
        What is wrong, and at which event.
    skipped : int
        Number of earlier events that were not checked; 0 unless only the last ones were requested.
    """

    ok: bool
    events: int
    first_difference: str | None = None
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class InUse:
    """What an open study shows, to compare with what its log leads to.

    Parameters
    ----------
    state : dict of str to ndarray, or None
        The state of its policy; None if there is none, or it cannot be saved.
    decisions : tuple of Decision, or None
        When it decided; None if that is not known.
    """

    state: State | None = None
    decisions: tuple[Decision, ...] | None = None


class Auditor:
    """Checks a log from its beginning and stops at the first wrong event.

    Parameters
    ----------
    policy : Policy
        A fresh policy.
    origin : str
        The hash that the first event follows.
    """

    def __init__(self, policy: Policy, origin: str) -> None:
        self.replica = Replica(policy)
        self.head_hash = origin
        self.pulls: dict[str, PullRow] = {}

    @property
    def randomizes(self) -> bool:
        """Whether the policy draws pulls at random."""
        return self.replica.policy.randomizes

    @property
    def events(self) -> int:
        """The number of events found correct so far."""
        return self.replica.seq

    def check(self, records: Sequence[Record]) -> None:
        """Check the next events.

        Raises
        ------
        CorruptLog
            At the first event that does not follow from the earlier ones.
        """
        length, problem = self._chained(records)
        sound = records[:length]
        self.replica.replay(record.step for record in sound)
        self._project(sound)
        if problem is not None:
            raise CorruptLog(problem)

    def _chained(self, records: Sequence[Record]) -> tuple[int, str | None]:
        """Return how many events are chained correctly, and what is wrong with the next one."""
        for length, record in enumerate(records):
            problem = _problem_of(record, self.events + length + 1, self.head_hash)
            if problem is not None:
                return length, problem
            self.head_hash = record.hash
        return len(records), None

    def _project(self, records: Sequence[Record]) -> None:
        for record in records:
            try:
                row = project(record, self.pulls.get(str(record.pull_id)))
            except ValueError as error:
                raise CorruptLog(f"event {record.seq}: {error}") from None
            if row is not None:
                self.pulls[row.pull_id] = row


def verify_last(store: Store, study: StudyRow, last: int) -> Verification:
    """Check only the chain of hashes at the end of a log: fast, however long the log is.

    Earlier events and all decisions are left unchecked.

    Parameters
    ----------
    store : Store
        The store of the study.
    study : StudyRow
        The study, with its head.
    last : int
        Number of events to check.
    """
    skipped = max(study.head_seq - last, 0)
    checked, problem = 0, None
    try:
        records = store.records(study.id, max(skipped - 1, 0), study.head_seq)
        digest = study.origin if skipped == 0 else next(records).hash
        for record in records:
            problem = _problem_of(record, skipped + checked + 1, digest)
            if problem is not None:
                break
            digest, checked = record.hash, checked + 1
        else:
            problem = _problem_of_head(skipped + checked, digest, study) or store.damage()
    except (StorageBusy, StorageUnreachable):
        raise
    except (StorageError, StopIteration) as error:
        problem = str(error) or f"event {skipped} is missing"
    return Verification(problem is None, checked, problem, skipped)


def verify(
    store: Store,
    study: StudyRow,
    policy: Policy,
    in_use: InUse,
    expected: Sequence[str] = (),
) -> Verification:
    """Audit a study up to the head that `study` records.

    Parameters
    ----------
    store : Store
        The store of the study.
    study : StudyRow
        The study, with its head.
    policy : Policy
        A fresh policy.
    in_use : InUse
        What the study in use shows at that head.
    expected : sequence of str
        Hashes of events that were noted elsewhere; the log must contain all of them.
    """
    auditor = Auditor(policy, study.origin)
    try:
        _check_events(auditor, store, study, expected)
        _check_head(auditor, study)
        _check_pulls(auditor, store, study)
        _check_state(auditor, in_use.state)
        _check_decisions(auditor.replica.decisions, in_use.decisions)
    except CorruptLog as error:
        return Verification(False, auditor.events, f"{error}{_other_software(study, policy)}")
    except (StorageBusy, StorageUnreachable):
        raise
    except StorageError as error:
        return Verification(False, auditor.events, f"event {auditor.events + 1}: {error}")
    damage = store.damage()
    if damage is not None:
        return Verification(False, auditor.events, damage)
    return Verification(True, auditor.events)


def _check_events(auditor: Auditor, store: Store, study: StudyRow, expected: Sequence[str]) -> None:
    missing = set(expected) - {study.origin}
    records = store.records(study.id, until=study.head_seq)
    while batch := list(islice(records, _BATCH)):
        auditor.check(batch)
        keep_going(auditor.events)
        if batch[0].seq == 1:
            _check_secret(batch[0], study, auditor.randomizes)
        if missing:
            missing -= {record.hash for record in batch}
    if missing:
        raise CorruptLog(
            f"the log holds no event with the hash {min(missing)}, which was noted elsewhere: it "
            "was replaced or altered, or has lost its end"
        )


def _check_secret(first: Record, study: StudyRow, randomizes: bool) -> None:
    said = json.loads(first.body or "{}").get("secret_sha256")
    # If no pull is drawn at random, the secret decides nothing.
    is_fixed = study.secret is not None and randomizes
    if said != (commitment(str(study.secret)) if is_fixed else None):
        raise CorruptLog("event 1: the study's secret is not the one that it was created with")


def _other_software(study: StudyRow, policy: Policy) -> str:
    """Return, as part of a sentence, which software the log was written with, if it differs."""
    wrote = {} if study.environment is None else json.loads(study.environment)
    here = {**environment(), "policy": str(type(policy).version)}
    wrote.setdefault("policy", str(study.policy_version))
    differences = [
        f"{name} {wrote[name]} (here {here.get(name)})"
        for name in wrote
        if wrote[name] != here.get(name)
    ]
    return f"; the log was written with {', '.join(differences)}" if differences else ""


def _problem_of(record: Record, expected: int, head_hash: str) -> str | None:
    """Return what is wrong with an event where event number `expected` should follow; or None."""
    if record.seq != expected:
        return f"event {expected} is missing; the next one is {record.seq}"
    if not _follows(record, head_hash):
        return f"event {expected}: its hash does not match its content"
    return None


def _problem_of_head(seq: int, digest: str, study: StudyRow) -> str | None:
    """Return what is wrong if the log does not end at the head that the study records; or None."""
    if (seq, digest) == (study.head_seq, study.head_hash):
        return None
    return (
        f"the log ends with event {seq} instead of event {study.head_seq}, "
        "which the study records as its head"
    )


def _follows(record: Record, head_hash: str) -> bool:
    try:
        return record.hash == seal(head_hash, record)
    except (TypeError, ValueError):
        # A column has a type that this package never writes.
        return False


def _check_head(auditor: Auditor, study: StudyRow) -> None:
    problem = _problem_of_head(auditor.events, auditor.head_hash, study)
    if problem is not None:
        raise CorruptLog(problem)


def _check_pulls(auditor: Auditor, store: Store, study: StudyRow) -> None:
    recorded = {row.pull_id: row for row in store.pulls(study.id)}
    # Other processes keep writing: pulls that they have touched since are not compared.
    later = {record.pull_id for record in store.records(study.id, after=study.head_seq)}
    for pull_id in (auditor.pulls.keys() | recorded.keys()) - later:
        if not _agree(auditor.pulls.get(pull_id), recorded.get(pull_id)):
            raise CorruptLog(f"pull {pull_id}: the table of pulls and the log differ")


def _agree(derived: PullRow | None, recorded: PullRow | None) -> bool:
    """Return whether the log and the table say the same of a pull.

    The log does not say when an extended lease ends.
    """
    if derived is None or recorded is None:
        return False
    return derived == recorded._replace(lease_until=derived.lease_until)


def _check_state(auditor: Auditor, live: State | None) -> None:
    if live is not None and not _same(auditor.replica.policy.get_state(), live):
        raise CorruptLog("the policy in use is not in the state that the log leads to")


def _check_decisions(derived: Sequence[Decision], shown: Sequence[Decision] | None) -> None:
    """Compare when the log leads to decisions with when the study in use says that it decided."""
    if shown is None:
        return
    for number, (own, other) in enumerate(zip_longest(derived, shown), start=1):
        if own != other:
            raise CorruptLog(
                f"decision {number}: the log leads to {_in_words(own)}, but the study in use shows "
                f"{_in_words(other)}"
            )


def _in_words(decision: Decision | None) -> str:
    if decision is None:
        return "no such decision"
    said = f"one at event {decision.event} ({decision.at.isoformat()})"
    if decision.withdrawn_by is None or decision.withdrawn_at is None:
        return said
    return (
        f"{said}, withdrawn by event {decision.withdrawn_by} ({decision.withdrawn_at.isoformat()})"
    )


def _same(left: State, right: State) -> bool:
    return left.keys() == right.keys() and all(
        np.array_equal(left[name], right[name], equal_nan=left[name].dtype.kind in "fc")
        for name in left
    )
