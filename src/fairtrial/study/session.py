"""A study in use: the log in its store, and the policy at the head of the log."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from fairtrial.core import Policy, Problem
from fairtrial.core.frames import Library
from fairtrial.core.loading import NotLoaded, loaded_only, uninterrupted
from fairtrial.core.logs import LogEvent
from fairtrial.core.warning import warn_caller
from fairtrial.errors import ConnectionLost, CorruptLog, NotSupported, StorageError
from fairtrial.study.arguments import check_unit
from fairtrial.study.audit import InUse
from fairtrial.study.cache import Cache
from fairtrial.study.clock import leases_over, time_over
from fairtrial.study.conduct import Conduct
from fairtrial.study.kit_supply import arm_of, arms_of
from fairtrial.study.log import Event, PullRow, Record, canonical
from fairtrial.study.machine import environment
from fairtrial.study.numbers import Asked, asked_for, numbers_of
from fairtrial.study.pull import StudyPull
from fairtrial.study.replica import Replica
from fairtrial.study.specification import Specification
from fairtrial.study.store import Store, StudyRow, Unflushed
from fairtrial.study.trace import Moments
from fairtrial.study.unmasking import unmasking_key
from fairtrial.study.witness import Witness
from fairtrial.study.writer import AssignedUnit, Previewed, Writer, unit_key
from fairtrial.study.writes import Ask, Write, Written

__all__ = ["Behind", "Committer", "Session", "transact"]

_Answer = TypeVar("_Answer")

_FINISHED = LogEvent("study", "study finished", logging.INFO, ("study", "status", "events"))
_RETRIED = LogEvent("study", "write retried", logging.WARNING, ("storage", "attempt"))
_NO_SNAPSHOT = LogEvent("study", "snapshot not saved", logging.WARNING, ("study", "error"))
_MOST_LOST = 3
"""Number of connections lost in one write after which the write is given up."""


class _TimePassed:
    """What the clock had caused was written first; the operation still has to be carried out."""


class _Carried(NamedTuple, Generic[_Answer]):
    """The result of an operation: its answer, the study after it, and its last event.

    `has_finished` says whether it has ended the study.
    """

    answer: _Answer
    head: StudyRow
    last: Record | None
    has_finished: bool


class Behind(BaseException):
    """The policy is far from the head of the log; not an `Exception`, so that no caller catches it.

    Parameters
    ----------
    catch_up : callable
        Advances the policy to the head, outside of any transaction.
    """

    def __init__(self, catch_up: Callable[[], object]) -> None:
        super().__init__("the policy is far from the head of the log")
        self.catch_up = catch_up


class Committer(Protocol):
    """Commits transactions that contain writes of several sessions.

    `has_written` says whether an action has written something, or begun to, other than what the
    clock caused.
    """

    has_written: bool

    def joins(self, session: Session) -> bool:
        """Note that the session takes part; return whether it did not before."""


def transact(store: Store, operation: Callable[[], _Answer], *, flush: bool = True) -> _Answer:
    """Carry out an operation in a transaction; retry if nothing was kept for a passing reason.

    Parameters
    ----------
    store : Store
        The store.
    operation : callable
        What to do; it can be called several times.
    flush : bool
        Whether the transaction must survive a power failure. One that turns out to need it is
        repeated with a flush.

    Raises
    ------
    ConnectionLost
        If the connection is lost repeatedly.
    """
    lost = 0
    while True:
        try:
            return store.transact(operation, flush=flush)
        except Unflushed:
            flush = True
        except ConnectionLost:
            # Nothing was kept, and the store reconnects.
            lost += 1
            if lost == _MOST_LOST:
                raise
            _RETRIED.log(storage=store.url, attempt=lost + 1)
        except Behind as far:
            # Outside the transaction, so that other writers do not wait for a long replay.
            far.catch_up()
        except NotLoaded as needed:
            # Outside the transaction, so that other writers do not wait for the compiler.
            needed.load()


class Session:
    """Reads and writes one study; one thread at a time.

    Parameters
    ----------
    store : Store
        The store of the study.
    row : StudyRow
        The study.
    build : callable
        Returns a fresh policy.
    spec : Specification
        The study's specification.
    owns_store : bool
        Whether closing the session closes the store.
    witness : Witness, optional
        A separate file that records the head of the log after every write.

    Attributes
    ----------
    problem : Problem
        The study's problem.
    conduct : Conduct
        What requests for pulls must state.
    notes : mapping of str to str
        What was noted when the study was created, by topic.
    has_blocks : bool
        Whether pulls with the same tag must be measured under the same circumstances.
    library : {"pandas", "polars", "pyarrow"} or None
        The library of the data frame that was analysed; None if there is none.
    committer : Committer or None
        Begins and commits the transactions of this session's writes; None if the session does so.
    """

    def __init__(
        self,
        store: Store,
        row: StudyRow,
        build: Callable[[], Policy],
        spec: Specification,
        *,
        owns_store: bool,
        witness: Witness | None = None,
    ) -> None:
        if witness is not None:
            witness.require_in(store, row)
        self.store = store
        self.id = row.id
        self.name = row.name
        self.seed = int(row.seed)
        self._secret = row.secret
        self.build = build
        fresh = build()
        self.problem: Problem = fresh.problem
        self.conduct = Conduct.of(fresh.problem, spec.conduct)
        self.notes = spec.notes
        self.has_blocks = fresh.has_shared_blocks
        _warn_of_version(row, fresh)
        self._cache = Cache(store, row.id, build)
        self._lock = threading.RLock()
        self._owns_store = owns_store
        self._witness = witness
        self._has_written = False
        self._is_closed = False
        self.library: Library | None = None
        self.committer: Committer | None = None
        # The study as left so far by a transaction with several writes.
        self._joined: StudyRow | None = None
        self._is_written = False
        self._has_finished = False

    def close(self) -> None:
        """Save a snapshot, so that the next opening is quick, and release the store."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            try:
                if self._has_written or self._cache.is_due:
                    self._save_at_the_end()
            finally:
                if self._owns_store:
                    self.store.close()

    def _save_at_the_end(self) -> None:
        try:
            self._cache.save()
        except NotSupported:
            pass
        except StorageError as error:
            _NO_SNAPSHOT.log(study=self.name, error=type(error).__name__)

    # ----------------------------------------------------------------------- reading

    def row(self) -> StudyRow:
        """Return the study as stored or, within a transaction, as changed so far."""
        self._require_open()
        return self._joined or self.store.read_study(self.id)

    def _require_open(self) -> None:
        if self._is_closed:
            raise StorageError(f"study {self.name!r} is closed; open it again")

    @contextmanager
    def replica_at_head(self) -> Iterator[tuple[StudyRow, Replica]]:
        """Yield the study and its replica at the last event; no other thread moves it meanwhile."""
        with self._lock:
            row = self.row()
            yield row, self._cache.at_head(row)

    def n_outstanding(self) -> int | None:
        """Return the number of pulls in flight; None if the policy is far from the head."""
        with self._lock:
            row = self.row()
            if not self._cache.is_near(row):
                return None
            return self._cache.at_head(row).policy.n_outstanding

    @contextmanager
    def at_head(self) -> Iterator[tuple[StudyRow, Policy]]:
        """Yield the study and its policy at the last event; no other thread moves it meanwhile."""
        with self.replica_at_head() as (row, replica):
            yield row, replica.policy

    def in_use_at_head(self) -> tuple[StudyRow, InUse]:
        """Return the study with its policy's state and decisions, as far as they can be derived."""
        with self._lock:
            row = self.row()
            with suppress(CorruptLog, StorageError):
                replica = self._cache.at_head(row)
                with suppress(NotSupported):
                    return row, InUse(replica.policy.get_state(), replica.decisions)
                return row, InUse(None, replica.decisions)
            return row, InUse()

    # ----------------------------------------------------------------------- writing

    def write(self, write: Write) -> Written:
        """Carry out a checked write in a transaction: keep all of it, or nothing."""

        def carry_out(writer: Writer) -> tuple[list[Record], Writer]:
            return writer.carry_out(write), writer

        if isinstance(write, Ask) and write.unit is not None:
            write = replace(write, unit=self.unit_key(write.unit))
            kept = self._pulls_of_unit(str(write.unit))
            if kept:
                return Written([], kept, [])
        try:
            records, writer = self._write(carry_out, flush=write.needs_flush)
        except Previewed as previewed:
            found = previewed.corrections
            return Written([], [], found, first_results=previewed.first_results)
        pulls = self.pulls_of(writer.issued)
        stopped = not pulls and writer.stopped
        events = list(map(Event.of, records))
        reason = "" if pulls or not isinstance(write, Ask) else writer.why_no_pull(write)
        return Written(
            events,
            pulls,
            writer.corrections,
            stopped,
            writer.lease,
            reason,
            first_results=writer.first_results,
        )

    def unit_key(self, unit: str) -> str:
        """Return the key under which the pull of a unit is found; the unit itself is not kept.

        Raises
        ------
        NotSupported
            If the study has no secret for it: an earlier version created it, or it is a copy.
        """
        if self._secret is None:
            raise NotSupported(
                f"study {self.name!r} has no secret to recognise units by: it was created by an "
                "earlier version of fairtrial, or is a copy without the secret"
            )
        return unit_key(self._secret, check_unit(unit))

    def unmasking_keys(self, *codes: str) -> dict[str, str]:
        """Return the keys of the names behind codes; record the access before.

        Raises
        ------
        NotSupported
            If this is a copy of a study without its secret.
        """
        if self._secret is None:
            raise NotSupported(f"study {self.name!r} is a copy without the secret: it has no keys")
        secret = self._secret
        return {code: unmasking_key(secret, code) for code in codes or arms_of(self.problem)}

    def unmasked(self, event: Event) -> dict[str, Any]:
        """Return what opens the unmasking list after an access: keys, and the list's digest."""
        made = self.store.first(self.id, "mask")
        assert made is not None, "an access needs a list"
        codes = [] if event.action is None else [arm_of(self.problem, event.action)]
        return {**Event.of(made).body, "keys": self.unmasking_keys(*codes)}

    def pull_with_key(self, key: str) -> PullRow | None:
        """Return the pull that was issued under the key of a participant or unit, or None."""
        self._require_open()
        asked = self.store.request(self.id, key)
        return None if asked is None else self.store.pull(self.id, str(asked.pull_id))

    def _pulls_of_unit(self, key: str) -> list[StudyPull]:
        """Return the pull that a unit has, without waiting for other writers."""
        row = self.pull_with_key(key) if self.committer is None else None
        return [] if row is None else self.pulls_of([row])

    def asked_for(self, rows: Sequence[PullRow]) -> list[Asked]:
        """Return when pulls were asked for, and for whom."""
        return asked_for(self.store, self.id, rows)

    def pulls_of(self, rows: Sequence[PullRow]) -> list[StudyPull]:
        """Return pulls, not yet bound to a handle of the study."""
        labels, has_blocks = self.problem.labels, self.has_blocks
        pulls = [
            StudyPull(
                *(row.number, row.action, labels(row.action), row.tag),
                *(row.pull_id, None, row.propensity),
                *(row.tag if has_blocks else None, row.worker),
            )
            for row in rows
        ]
        if self.conduct.masked:
            numbers = numbers_of(self.store, self.id, self.conduct, rows)
            for pull, own in zip(pulls, numbers, strict=True):
                pull.kits = own.kits
        return pulls

    def _write(self, operation: Callable[[Writer], _Answer], *, flush: bool) -> _Answer:
        def now(writer: Writer) -> _Answer | _TimePassed:
            # What the clock has caused is a fact even if the operation fails, so it is written in
            # a transaction of its own.
            return _TimePassed() if writer.pass_time() else operation(writer)

        with self._lock:
            self._require_open()
            if self.committer is not None:
                return self._join(self.committer, operation)
            answer = self._transact(now, flush=flush)
            while isinstance(answer, _TimePassed):
                answer = self._transact(now, flush=flush)
            self._cache.save_if_due()
            return answer

    @contextmanager
    def without_snapshots(self) -> Iterator[None]:
        """Save no snapshot before the end of many writes.

        A snapshot of a finished experiment takes time in proportion to its size, so one for every
        thousand events would take time in proportion to the square of it.
        """
        self._cache.is_paused = True
        try:
            yield
        finally:
            self._cache.is_paused = False
        self.save_if_due()

    def play(
        self, units: Sequence[AssignedUnit], first: int, moments: Moments | None = None
    ) -> None:
        """Write units that were assigned by others to a study that nobody else writes to.

        The policy moves before the transaction begins. So it may compile its kernels, and other
        studies of the store can be written to meanwhile. `first` is the number of units that were
        written before these, and `moments` notes the progress on the way.
        """
        with self._lock:
            self._require_open()
            study = self.row()
            writer = self._writer(study, self._software)
            try:
                writer.play(units, first, moments)
                head = transact(self.store, writer.flush)
            except BaseException:
                self._cache.forget()
                raise
            self._cache.settle(head, writer.last)
            self._has_written = True
            if self._witness is not None and writer.last is not None:
                self._witness.note(head)

    def pass_time(self) -> None:
        """Write the events that the clock alone has caused."""
        # Read first, so that waiting for results does not block writers.
        with self.replica_at_head() as (_, replica):
            where = self.store, self.id, replica.policy, self.store.now()
            is_over = not replica.stopped and time_over(*where) is not None
            if is_over or leases_over(*where):
                self._transact(Writer.pass_time)

    def _writer(self, study: StudyRow, software: str) -> Writer:
        return Writer(self.store, study, self._cache.at_head(study), software, self.conduct)

    def _transact(self, operation: Callable[[Writer], _Answer], *, flush: bool = True) -> _Answer:
        # Computed before the transaction, because the first time takes some milliseconds.
        software = self._software

        def write() -> _Carried[_Answer]:
            with uninterrupted(), loaded_only():
                return self._carry_out(operation, software)

        done = transact(self.store, write, flush=flush)
        self._cache.settle(done.head, done.last)
        self._has_written = True
        if self._witness is not None and done.last is not None:
            self._witness.note(done.head)
        if done.has_finished:
            _log_end(done.head)
        return done.answer

    def _carry_out(
        self, operation: Callable[[Writer], _Answer], software: str
    ) -> _Carried[_Answer]:
        """Carry out an operation within a transaction."""
        # Within the transaction, no one else changes the study.
        study = self._joined or self.store.read_study(self.id)
        if not self._cache.is_near(study):
            raise Behind(self.catch_up)
        writer = self._writer(study, software)
        answer = operation(writer)
        if self.committer is not None and writer.has_news:
            # This also counts if the flush fails half-way.
            self.committer.has_written = True
        head = writer.flush()
        has_finished = study.status == "running" != head.status
        return _Carried(answer, head, writer.last, has_finished)

    def catch_up(self) -> None:
        """Advance the policy to the head of the log, which can take long."""
        with self.at_head():
            pass

    # ------------------------------------------- one of several writes in a transaction

    def _join(self, committer: Committer, operation: Callable[[Writer], _Answer]) -> _Answer:
        if committer.joins(self):
            before = committer.has_written
            self._settle(self._carry_out(Writer.pass_time, self._software))
            committer.has_written = before
        done = self._carry_out(operation, self._software)
        self._settle(done)
        return done.answer

    def _settle(self, done: _Carried[Any]) -> None:
        self._cache.settle(done.head, done.last)
        self._joined = done.head
        self._is_written |= done.last is not None
        self._has_finished |= done.has_finished

    @property
    def is_ahead(self) -> bool:
        """Whether the policy is ahead of the log because an operation failed after moving it."""
        return self._cache.is_ahead

    def undo(self) -> None:
        """Note that the transaction was rolled back."""
        self._joined, self._is_written, self._has_finished = None, False, False
        self._cache.forget()

    def commit(self) -> None:
        """Note that the transaction was committed."""
        self._has_written = True
        if self._witness is not None and self._is_written and self._joined is not None:
            self._witness.note(self._joined)
        if self._has_finished and self._joined is not None:
            _log_end(self._joined)
        self._joined, self._is_written, self._has_finished = None, False, False

    def save_if_due(self) -> None:
        """Save a snapshot every thousand events, after a commit."""
        with self._lock:
            self._cache.save_if_due()

    @cached_property
    def _software(self) -> str:
        """The software and hardware that the policy runs on, as JSON."""
        version = str(type(self.build()).version)
        return canonical({**environment(), "policy": version})

    def snapshot(self) -> None:
        """Save a snapshot of the policy after the last event.

        Raises
        ------
        NotSupported
            If the policy's state cannot be saved completely.
        """
        with self.at_head():
            self._cache.save()


def _log_end(head: StudyRow) -> None:
    _FINISHED.log(study=head.name, status=head.status, events=head.head_seq)


def _warn_of_version(row: StudyRow, policy: Policy) -> None:
    name, version = type(policy).__name__, type(policy).version
    if version != row.policy_version:
        warn_caller(
            f"study {row.name!r} was made with version {row.policy_version} of {name}, and this is "
            f"version {version}: its decisions may differ: check with verify()",
            RuntimeWarning,
        )
