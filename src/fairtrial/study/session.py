"""A study in use: the log in its store, and the policy kept at the head of the log."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import TypeVar

from fairtrial.core import Policy, Problem
from fairtrial.core.loading import NotLoaded, loaded_only, uninterrupted
from fairtrial.core.policy import State
from fairtrial.errors import ConnectionLost, CorruptLog, NotSupported, StorageError
from fairtrial.study.cache import Cache
from fairtrial.study.clock import leases_over, time_over
from fairtrial.study.head_notes import HeadNotes
from fairtrial.study.log import Record, canonical
from fairtrial.study.machine import environment
from fairtrial.study.store import Store, StudyRow
from fairtrial.study.writer import Writer

__all__ = ["Session"]

_Answer = TypeVar("_Answer")

_MOST_LOST = 3
"""Connections lost in one write, after which it is given up."""


class _TimePassed:
    """What the clock had brought about had to be written first."""


class _Behind(Exception):
    """The policy is far from the head of the log."""


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
        """Return the study as it is stored now."""
        self._require_open()
        return self.store.read_study(self.id)

    def _require_open(self) -> None:
        if self._is_closed:
            raise StorageError(f"study {self.name!r} is closed; open it again")

    @contextmanager
    def at_head(self) -> Iterator[tuple[StudyRow, Policy]]:
        """Give the study and the policy after its last event; no thread moves it meanwhile."""
        with self._lock:
            row = self.row()
            yield row, self._cache.at_head(row).policy

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
            answer = self._transact(now)
            while isinstance(answer, _TimePassed):
                answer = self._transact(now)
            self._cache.save_if_due()
            return answer

    def pass_time(self) -> None:
        """Write down what the clock alone has brought about."""
        # Looked at first, so that whoever waits for results keeps nobody from writing.
        with self.at_head() as (_, policy):
            where = self.store, self.id, policy, self.store.now()
            if leases_over(*where) or time_over(*where) is not None:
                self._transact(Writer.pass_time)

    def _transact(self, operation: Callable[[Writer], _Answer]) -> _Answer:
        # Before the transaction: it takes some milliseconds, once.
        software = self._software

        def write() -> tuple[_Answer, StudyRow, Record | None]:
            with uninterrupted(), loaded_only():
                study = self.store.read_study(self.id)
                if not self._cache.is_near(study):
                    raise _Behind
                writer = Writer(self.store, study, self._cache.at_head(study), software)
                answer = operation(writer)
                return answer, writer.flush(), writer.last

        lost = 0
        while True:
            try:
                answer, head, last = self.store.transact(write)
                break
            except ConnectionLost:
                # Nothing was kept, and the store connects again.
                lost += 1
                if lost == _MOST_LOST:
                    raise
            except _Behind:
                # Outside the transaction: nobody else is kept waiting while a long log is replayed.
                self._catch_up()
            except NotLoaded as needed:
                # Outside the transaction: nobody else is kept waiting for a compiler.
                needed.load()
        self._cache.settle(head, last)
        self._has_written = True
        if self._notes is not None and last is not None:
            self._notes.note(head)
        return answer

    def _catch_up(self) -> None:
        with self.at_head():
            pass

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
