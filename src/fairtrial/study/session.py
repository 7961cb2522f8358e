"""A study in use: the log in its store, and the policy kept at the head of the log."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from fairtrial.core import Policy, Problem
from fairtrial.core.loading import NotLoaded, loaded_only, uninterrupted
from fairtrial.core.policy import State
from fairtrial.errors import ConnectionLost, CorruptLog, NotSupported, StorageError
from fairtrial.study.cache import Cache
from fairtrial.study.clock import leases_over, time_over
from fairtrial.study.head_notes import HeadNotes
from fairtrial.study.log import Record, canonical
from fairtrial.study.machine import environment
from fairtrial.study.replica import Replica
from fairtrial.study.store import Store, StudyRow
from fairtrial.study.writer import Writer

__all__ = ["Behind", "Committer", "Session", "transact"]

_Answer = TypeVar("_Answer")

_MOST_LOST = 3
"""Connections lost in one write, after which it is given up."""


class _TimePassed:
    """What the clock had brought about had to be written first."""


class _Write(NamedTuple, Generic[_Answer]):
    """What an operation came to: its answer, the study after it, and its last event."""

    answer: _Answer
    head: StudyRow
    last: Record | None


class Behind(BaseException):
    """The policy is far from the head of the log; no `Exception`, so that nobody catches it.

    Parameters
    ----------
    catch_up : callable
        Brings it there, outside of any transaction.
    """

    def __init__(self, catch_up: Callable[[], object]) -> None:
        super().__init__("the policy is far from the head of the log")
        self.catch_up = catch_up


class Committer(Protocol):
    """Who commits, when a write of a session is one of several in a transaction.

    `has_written` tells whether something was written, or begun to be, that is more than what the
    clock has brought about.
    """

    has_written: bool

    def joins(self, session: Session) -> bool:
        """Take note that the session takes part; return whether it did not before."""


def transact(store: Store, operation: Callable[[], _Answer]) -> _Answer:
    """Carry out an operation in a transaction, once more after a mishap that kept nothing.

    Raises
    ------
    ConnectionLost
        If the connection is lost again and again.
    """
    lost = 0
    while True:
        try:
            return store.transact(operation)
        except ConnectionLost:
            # Nothing was kept, and the store connects again.
            lost += 1
            if lost == _MOST_LOST:
                raise
        except Behind as far:
            # Outside the transaction: nobody else is kept waiting while a long log is replayed.
            far.catch_up()
        except NotLoaded as needed:
            # Outside the transaction: nobody else is kept waiting for a compiler.
            needed.load()


class Session:
    """Reads and writes one study, for one thread at a time.

    Parameters
    ----------
    store : Store
        Where the study is.
    row : StudyRow
        The study.
    build : callable
        Returns a fresh policy.
    owns_store : bool
        Whether the store is closed with the session.
    notes : HeadNotes, optional
        Where the head of the log is noted after every write.

    Attributes
    ----------
    committer : Committer or None
        Who begins and commits the transactions that this session writes in; None if it does so.
    """

    def __init__(
        self,
        store: Store,
        row: StudyRow,
        build: Callable[[], Policy],
        *,
        owns_store: bool,
        notes: HeadNotes | None = None,
    ) -> None:
        if notes is not None:
            notes.require_in(store, row)
        self.store = store
        self.id = row.id
        self.name = row.name
        self.seed = int(row.seed)
        self.build = build
        fresh = build()
        self.problem: Problem = fresh.problem
        _warn_of_version(row, fresh)
        self._cache = Cache(store, row.id, build)
        self._lock = threading.RLock()
        self._owns_store = owns_store
        self._notes = notes
        self._has_written = False
        self._is_closed = False
        self.committer: Committer | None = None
        # The study as a transaction of several writes has left it so far.
        self._joined: StudyRow | None = None
        self._is_written = False

    def close(self) -> None:
        """Keep a snapshot, so that the next opening is quick, and release the store."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            try:
                if self._has_written or self._cache.is_due:
                    with suppress(StorageError, NotSupported):
                        self._cache.save()
            finally:
                if self._owns_store:
                    self.store.close()

    # ----------------------------------------------------------------------- reading

    def row(self) -> StudyRow:
        """Return the study as it is stored now; within a transaction as that has left it so far."""
        self._require_open()
        return self._joined or self.store.read_study(self.id)

    def _require_open(self) -> None:
        if self._is_closed:
            raise StorageError(f"study {self.name!r} is closed; open it again")

    @contextmanager
    def replica_at_head(self) -> Iterator[tuple[StudyRow, Replica]]:
        """Give the study and its replica after the last event; no thread moves it meanwhile."""
        with self._lock:
            row = self.row()
            yield row, self._cache.at_head(row)

    @contextmanager
    def at_head(self) -> Iterator[tuple[StudyRow, Policy]]:
        """Give the study and the policy after its last event; no thread moves it meanwhile."""
        with self.replica_at_head() as (row, replica):
            yield row, replica.policy

    def state_at_head(self) -> tuple[StudyRow, State | None]:
        """Return the study and its policy's state; None if it cannot be derived, or saved."""
        with self._lock:
            row = self.row()
            with suppress(CorruptLog, NotSupported, StorageError):
                return row, self._cache.at_head(row).policy.get_state()
            return row, None

    # ----------------------------------------------------------------------- writing

    def write(self, operation: Callable[[Writer], _Answer]) -> _Answer:
        """Carry out an operation in a transaction: all of it is kept, or nothing."""

        def now(writer: Writer) -> _Answer | _TimePassed:
            # What the clock has brought about are facts, even if the operation should fail:
            # they are a write of their own.
            return _TimePassed() if writer.pass_time() else operation(writer)

        with self._lock:
            self._require_open()
            if self.committer is not None:
                return self._join(self.committer, operation)
            answer = self._transact(now)
            while isinstance(answer, _TimePassed):
                answer = self._transact(now)
            self._cache.save_if_due()
            return answer

    def pass_time(self) -> None:
        """Write down what the clock alone has brought about."""
        # Looked at first, so that whoever waits for results keeps nobody from writing.
        with self.replica_at_head() as (_, replica):
            where = self.store, self.id, replica.policy, self.store.now()
            is_over = not replica.stopped and time_over(*where) is not None
            if is_over or leases_over(*where):
                self._transact(Writer.pass_time)

    def _transact(self, operation: Callable[[Writer], _Answer]) -> _Answer:
        # Before the transaction: it takes some milliseconds, once.
        software = self._software

        def write() -> _Write[_Answer]:
            with uninterrupted(), loaded_only():
                return self._carry_out(operation, software)

        done = transact(self.store, write)
        self._cache.settle(done.head, done.last)
        self._has_written = True
        if self._notes is not None and done.last is not None:
            self._notes.note(done.head)
        return done.answer

    def _carry_out(self, operation: Callable[[Writer], _Answer], software: str) -> _Write[_Answer]:
        """Carry out an operation within a transaction."""
        # Nobody else changes it within the transaction.
        study = self._joined or self.store.read_study(self.id)
        if not self._cache.is_near(study):
            raise Behind(self.catch_up)
        writer = Writer(self.store, study, self._cache.at_head(study), software)
        answer = operation(writer)
        if self.committer is not None and writer.has_news:
            # Also if it fails half-way.
            self.committer.has_written = True
        return _Write(answer, writer.flush(), writer.last)

    def catch_up(self) -> None:
        """Bring the policy to the head of the log; that may take a while."""
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

    def _settle(self, done: _Write[Any]) -> None:
        self._cache.settle(done.head, done.last)
        self._joined = done.head
        self._is_written |= done.last is not None

    @property
    def is_ahead(self) -> bool:
        """Whether the policy knows more than the log: an operation failed after it had moved."""
        return self._cache.is_ahead

    def undo(self) -> None:
        """Take note that nothing of the transaction was kept."""
        self._joined, self._is_written = None, False
        self._cache.forget()

    def commit(self) -> None:
        """Take note that the transaction is kept."""
        self._has_written = True
        if self._notes is not None and self._is_written and self._joined is not None:
            self._notes.note(self._joined)
        self._joined, self._is_written = None, False

    def save_if_due(self) -> None:
        """Keep a snapshot every thousand events, after a commit."""
        with self._lock:
            self._cache.save_if_due()

    @cached_property
    def _software(self) -> str:
        """What the policy runs on and with, as JSON."""
        version = str(type(self.build()).version)
        return canonical({**environment(), "policy": version})

    def snapshot(self) -> None:
        """Keep a snapshot of the policy after the last event.

        Raises
        ------
        NotSupported
            If the policy's state cannot be saved whole.
        """
        with self.at_head():
            self._cache.save()


def _warn_of_version(row: StudyRow, policy: Policy) -> None:
    name, version = type(policy).__name__, type(policy).version
    if version != row.policy_version:
        warnings.warn(
            f"study {row.name!r} was made with version {row.policy_version} of {name}, and this is "
            f"version {version}: its decisions may differ; verify() tells",
            RuntimeWarning,
            stacklevel=5,  # where the user's program opened the study
        )
