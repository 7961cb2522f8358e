"""The study: a policy whose every step is written down before it counts."""

from __future__ import annotations

import json
import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from fairtrial.core import UNSOLICITED, Policy, Problem, Progress, Pull, Recommendation
from fairtrial.core.parameters import plain
from fairtrial.core.policy import State
from fairtrial.core.problem import Outcome
from fairtrial.core.seeds import as_seed
from fairtrial.core.validation import check_integer, check_number
from fairtrial.errors import (
    CorruptLog,
    ExperimentFinished,
    InvalidArgument,
    InvalidOutcome,
    NothingToAsk,
    NotSupported,
    StorageError,
    StudyExists,
    StudyNotFound,
    UnknownPull,
)
from fairtrial.study.audit import Verification, verify
from fairtrial.study.location import Durability, Storage, open_store, parse_storage
from fairtrial.study.log import Event, PullRow, Record, Result, canonical
from fairtrial.study.pull import StudyPull
from fairtrial.study.replica import Cache
from fairtrial.study.specification import Specification
from fairtrial.study.store import NewStudy, Store, StudyRow
from fairtrial.study.trace import trace
from fairtrial.study.transfer import LogFile, export, history
from fairtrial.study.writer import Writer

if TYPE_CHECKING:
    import pandas as pd

    from fairtrial.core.seeds import Seed

__all__ = ["Study"]

_Answer = TypeVar("_Answer")


class Study:
    """A durable experiment; made by `Study.create`, `Study.open` or `Study.import_log`.

    Every ask, reading, outcome and loss is an event in an append-only log, written before
    the call returns. The policy's state is what a replay of the log gives, so a study goes
    on after any interruption as if there had been none. One study may be used by several
    threads, by several handles and by several processes at once.

    Attributes
    ----------
    name : str
        The study's name in its storage.
    problem : Problem
        What is known and wanted.
    seed : int
        The policy's.

    Examples
    --------
    >>> from fairtrial.subpopulations import BlockBetting, Problem
    >>> problem = Problem(["a", "b"], ["x"], reward_range=(0, 1))
    >>> policy = BlockBetting(problem, delta=0.05)
    >>> with Study.create(problem, policy, storage="memory://", name="demo", seed=7) as study:
    ...     pull = study.ask()
    ...     event = study.tell(pull, 0.5)
    ...     study.verify().ok, event.seq
    (True, 2)
    """

    def __init__(
        self, store: Store, row: StudyRow, build: Callable[[], Policy], *, owns_store: bool
    ) -> None:
        self.name = row.name
        self.seed = int(row.seed)
        self._store = store
        self._id = row.id
        self._build = build
        self.problem: Problem = build().problem
        self._cache = Cache(store, row.id, build)
        self._lock = threading.RLock()
        self._owns_store = owns_store
        self._has_written = False
        self._is_closed = False

    # -------------------------------------------------------------- create, open, close

    @classmethod
    def create(
        cls,
        problem: Problem,
        policy: Policy,
        *,
        storage: Storage,
        name: str,
        seed: Seed = None,
        durability: Durability = "full",
        exist_ok: bool = False,
        policies: Sequence[type[Policy]] = (),
    ) -> Self:
        """Make a new study.

        Parameters
        ----------
        problem : Problem
            What is known and wanted.
        policy : Policy
            A template: its class and parameters are recorded, a fresh copy is used.
        storage : str, path or Store
            ``"sqlite:///trial.db"`` (four slashes begin an absolute path), a path, or
            ``"memory://"``.
        name : str
            The study's name, one of its kind in the storage.
        seed : None, int or numpy.random.Generator
            The policy's; without one it is drawn. It is recorded.
        durability : {"full", "process"}
            What an acknowledged event survives: a loss of power, as far as the disk honours
            flushes; or only the end of the process, and is about twenty times faster.
        exist_ok : bool
            Whether an existing study of the same specification is opened instead (of any
            seed, if none is given).
        policies : sequence of type
            Classes of your own that the policy is made of, besides its own.

        Raises
        ------
        StudyExists
            If there is a study of that name, with another specification or without
            `exist_ok`; the message says how they differ.
        InvalidArgument
            If an argument is not accepted, or the policy is for another problem.
        NotSupported
            If the policy cannot be written down as data.
        StorageError
            If the storage cannot be used.
        """
        _check_name(name)
        _check_template(problem, policy)
        spec = Specification.of(problem, policy, as_seed(seed))
        own = ((type(policy), *policies), (type(problem),))
        fresh = spec.build(name, *own)
        spec.require_faithful(fresh)
        store = open_store(storage, durability)
        try:
            with store.transaction():
                row = store.find_study(name)
                if row is None:
                    row = store.insert_study(_new_study(name, spec, fresh, store.now()))
                else:
                    _require_same(row, spec, store.url, exist_ok=exist_ok, any_seed=seed is None)
        except BaseException:
            _close_owned(store, storage)
            raise
        return cls._of(store, storage, row, *own)

    @classmethod
    def open(
        cls,
        storage: Storage,
        name: str,
        *,
        policies: Sequence[type[Policy]] = (),
        problems: Sequence[type[Problem]] = (),
        durability: Durability = "full",
    ) -> Self:
        """Open a study that exists.

        Parameters
        ----------
        storage, name, durability
            As in `create`.
        policies, problems : sequence of type
            Classes of your own that the study was made with.

        Raises
        ------
        StudyNotFound
            If the storage has no study of that name, or there is no storage.
        InvalidArgument
            If a class of your own is needed and was not given.
        StorageError
            If the storage cannot be used.
        """
        _check_name(name)
        in_memory = _require_storage(storage, name)
        store = open_store(storage, durability, create=in_memory)
        try:
            row = _found(store, name)
            return cls._of(store, storage, row, policies, problems)
        except BaseException:
            _close_owned(store, storage)
            raise

    @classmethod
    def import_log(
        cls,
        path: str | os.PathLike[str],
        *,
        storage: Storage,
        name: str | None = None,
        policies: Sequence[type[Policy]] = (),
        problems: Sequence[type[Problem]] = (),
        durability: Durability = "full",
    ) -> Self:
        """Make a study from a log that `export` wrote as JSON lines; its head hash is the same.

        Parameters
        ----------
        path : str or path
            The file.
        name : str, optional
            The new study's name; without it the one that the file gives.
        storage, policies, problems, durability
            As in `open`.

        Raises
        ------
        CorruptLog
            If the file is no whole log, or an event does not follow from those before.
            Nothing is kept then.
        StudyExists
            If the storage has a study of that name.
        StorageError
            If the file or the storage cannot be used.
        """
        file = LogFile(Path(path))
        name = file.name if name is None else name
        _check_name(name)
        fresh = file.spec.build(name, policies, problems)
        store = open_store(storage, durability)
        try:
            row = file.insert(store, name, fresh)
            return cls._of(store, storage, row, policies, problems)
        except BaseException:
            _close_owned(store, storage)
            raise

    @classmethod
    def _of(
        cls,
        store: Store,
        storage: Storage,
        row: StudyRow,
        policies: Sequence[type[Policy]],
        problems: Sequence[type[Problem]],
    ) -> Self:
        spec = Specification.from_json(row.spec_json)
        if spec.sha256 != row.spec_sha256:
            raise CorruptLog(
                f"the specification of study {row.name!r} is not the one that it was made with"
            )
        build = partial(spec.build, row.name, policies, problems)
        return cls(store, row, build, owns_store=store is not storage)

    def close(self) -> None:
        """Keep a snapshot, so that the next opening is quick, and let go of the storage."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            if self._has_written or self._cache.is_due:
                with suppress(StorageError, NotSupported):
                    self._cache.save()
            if self._owns_store:
                self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Study(name={self.name!r}, storage={self._store.url!r})"

    # ------------------------------------------------------------------------- asks

    @overload
    def ask(
        self,
        n: None = None,
        *,
        worker: str | None = None,
        lease: float | None = None,
        request_id: str | None = None,
        **context: Any,
    ) -> StudyPull: ...
    @overload
    def ask(
        self,
        n: int,
        *,
        worker: str | None = None,
        lease: float | None = None,
        request_id: str | None = None,
        **context: Any,
    ) -> list[StudyPull]: ...
    def ask(
        self,
        n: int | None = None,
        *,
        worker: str | None = None,
        lease: float | None = None,
        request_id: str | None = None,
        **context: Any,
    ) -> StudyPull | list[StudyPull]:
        """Issue the next pull, or up to `n` of them as a list, in one write.

        Parameters
        ----------
        n : int, optional
            Number wanted. Without it one pull is returned, not a list.
        worker : str, optional
            Who will carry it out; recorded.
        lease : float, optional
            Seconds after which the pull counts as lost, or is handed out again, as the
            policy's `expiry` says. Without it the study waits for ever.
        request_id : str, optional
            A key of your own: the same request again gets the same pulls.
        **context
            What the world says beforehand: ``group=`` for passive arrivals.

        Returns
        -------
        StudyPull or list of StudyPull
            The list is shorter than `n`, or empty, when no more can be issued now.

        Raises
        ------
        ExperimentFinished
            One pull was asked and the policy has stopped.
        NothingToAsk
            One pull was asked and none can be issued before the next result.
        """
        wanted = 1 if n is None else check_integer("n", n, low=0)
        asking = self._asking(wanted, worker, lease, request_id, context)
        pulls = self._write(lambda writer: self._bound(asking(writer)))
        if n is not None:
            return pulls
        if not pulls:
            raise self._nothing()
        return pulls[0]

    def _asking(
        self,
        n: int,
        worker: str | None,
        lease: float | None,
        request_id: str | None,
        context: Mapping[str, Any],
    ) -> Callable[[Writer], list[PullRow]]:
        _check_texts(worker=worker, request_id=request_id)
        seconds = None if lease is None else _check_lease(lease)
        clean = _as_json("context", context)
        return lambda writer: writer.ask(n, clean, worker, seconds, request_id)

    def _bound(self, rows: Sequence[PullRow]) -> list[StudyPull]:
        return [
            StudyPull(
                row.number, row.action, self.problem.labels(row.action), row.tag, row.pull_id, self
            )
            for row in rows
        ]

    def _nothing(self) -> ExperimentFinished | NothingToAsk:
        if self.policy.stopped:
            return ExperimentFinished(f"study {self.name!r} has stopped: see recommend()")
        return NothingToAsk(f"study {self.name!r} has no pull to give before the next result")

    def extend(self, pull: Pull | str, lease: float) -> Event:
        """Let the lease of a pull in flight run for so many seconds from now (a heartbeat).

        Raises
        ------
        AlreadyTold
            If the pull is no longer open: told, or given up.
        UnknownPull
            If it is not a pull of this study.
        """
        pull_id, seconds = self._pull_id(pull), _check_lease(lease)
        return Event.of(self._write(lambda writer: writer.extend(pull_id, seconds)))

    # ------------------------------------------------------------------------- tells

    def tell(
        self,
        pull: Pull | str,
        value: Outcome,
        *,
        request_id: str | None = None,
        actor: str | None = None,
    ) -> Event:
        """Take the outcome of a pull; it is safe when this returns.

        Parameters
        ----------
        pull : StudyPull, str or Pull
            The pull or its `id`; or ``problem.pull(arm=...)`` for data that nobody asked for.
        value : float or mapping
            The outcome, as the problem types it.
        request_id : str, optional
            A key of your own, by which data that nobody asked for count once.
        actor : str, optional
            Who says so; recorded.

        Returns
        -------
        Event
            What was written. The same outcome told again gives the first event again.

        Raises
        ------
        InvalidOutcome
            If the problem refuses the outcome.
        ConflictingOutcome
            If the pull was told another outcome before; the message names both.
        UnknownPull
            If it is not a pull of this study.
        """
        return Event.of(self._write(self._telling(pull, value, actor, request_id)))

    def tell_many(
        self, outcomes: Sequence[tuple[Pull | str, Outcome]], *, actor: str | None = None
    ) -> list[Event]:
        """Take many outcomes in one write: all of them, or after an error none.

        Parameters
        ----------
        outcomes : sequence of (pull, value)
            Each as in `tell`.
        actor : str, optional
            Who says so; recorded.
        """
        telling = [self._telling(pull, value, actor, None) for pull, value in outcomes]
        records = self._write(lambda writer: [tell(writer) for tell in telling])
        return [Event.of(record) for record in records]

    def tell_and_ask(
        self,
        pull: Pull | str,
        value: Outcome,
        *,
        worker: str | None = None,
        lease: float | None = None,
        request_id: str | None = None,
        **context: Any,
    ) -> StudyPull | None:
        """Take an outcome and issue the next pull, in one write instead of two.

        Returns
        -------
        StudyPull or None
            None when the policy has stopped, or has nothing to give before the next result.

        Examples
        --------
        >>> from fairtrial.subpopulations import BlockBetting, Problem
        >>> problem = Problem(["a", "b"], ["x"], reward_range=(0, 1))
        >>> study = Study.create(problem, BlockBetting(problem), storage="memory://", name="demo")
        >>> pull = study.ask()
        >>> while pull is not None:
        ...     pull = study.tell_and_ask(pull, 0.9 if pull.arm == "a" else 0.1)
        >>> study.recommend().arm
        'a'
        """
        tell = self._telling(pull, value, worker, None)
        asking = self._asking(1, worker, lease, request_id, context)

        def both(writer: Writer) -> list[StudyPull]:
            tell(writer)
            return self._bound(asking(writer))

        pulls = self._write(both)
        return pulls[0] if pulls else None

    def _telling(
        self, pull: Pull | str, value: Outcome, actor: str | None, request_id: str | None
    ) -> Callable[[Writer], Record]:
        _check_texts(actor=actor, request_id=request_id)
        result = self._result(value)
        if (
            isinstance(pull, Pull)
            and pull.number == UNSOLICITED
            and not isinstance(pull, StudyPull)
        ):
            action = self._own_action(pull)
            return lambda writer: writer.tell_unsolicited(action, result, actor, request_id)
        pull_id = self._pull_id(pull)
        return lambda writer: writer.tell(pull_id, result, actor, request_id)

    def _result(self, value: Outcome) -> Result:
        clean = self.problem.check_outcome(value)
        if isinstance(clean, Mapping):
            return Result(None, _as_json("reward", clean, InvalidOutcome))
        if not isinstance(clean, int | float) or not math.isfinite(clean):
            raise InvalidOutcome("reward", "must be a finite number, or named fields", value)
        # A database keeps no sign of zero: a replay shall see what the policy sees now.
        return Result(float(clean) + 0.0)

    def amend(
        self, pull: Pull | str, value: Outcome, reason: str, *, actor: str | None = None
    ) -> Event:
        """Correct an outcome that was told before; the reason is recorded.

        Raises
        ------
        NotSupported
            If the policy cannot correct an outcome.
        UnknownPull
            If the pull was never told.
        """
        _check_texts(actor=actor)
        _check_reason(reason)
        pull_id, result = self._pull_id(pull), self._result(value)
        return Event.of(self._write(lambda writer: writer.amend(pull_id, result, reason, actor)))

    # ----------------------------------------------------------------- other events

    def report(
        self,
        pull: Pull | str,
        value: float,
        *,
        request_id: str | None = None,
        actor: str | None = None,
        **details: Any,
    ) -> Event:
        """Take a partial reading of a pull in flight, where the policy has use for them.

        Parameters
        ----------
        pull : StudyPull or str
            The pull or its `id`.
        value : float
            The reading.
        request_id : str, optional
            A key of your own, by which the reading counts once.
        actor : str, optional
            Who says so; recorded.
        **details
            What the family wants to know of it.

        Raises
        ------
        NotSupported
            If the policy takes no readings.
        InvalidOutcome
            If the problem refuses the value.
        AlreadyTold
            If the pull was told before, and the policy has no use for late readings.
        """
        _check_texts(actor=actor, request_id=request_id)
        pull_id, clean = self._pull_id(pull), self.problem.check_reading(value) + 0.0
        known = _as_json("details", details)
        return Event.of(
            self._write(lambda writer: writer.report(pull_id, clean, known, actor, request_id))
        )

    def cancel(self, pull: Pull | str, reason: str = "user", *, actor: str | None = None) -> Event:
        """Call a pull back; its outcome is not waited for. Should it come, it still counts."""
        return self._give_up("cancel", pull, reason, actor)

    def fail(self, pull: Pull | str, reason: str = "lost", *, actor: str | None = None) -> Event:
        """Say that a pull was lost: it will have no outcome. Should one come, it still counts.

        The policy is told the reason.
        """
        return self._give_up("fail", pull, reason, actor)

    def _give_up(self, kind: str, pull: Pull | str, reason: str, actor: str | None) -> Event:
        _check_texts(actor=actor)
        _check_reason(reason)
        pull_id = self._pull_id(pull)
        return Event.of(self._write(lambda writer: writer.give_up(kind, pull_id, reason, actor)))

    def should_stop(self, pull: Pull | str) -> bool:
        """Return whether a pull's outcome no longer matters to the policy, or was given up."""
        pull_id = self._pull_id(pull)
        with self._lock:
            policy = self._at_head()
            row = self._store.pull(self._id, pull_id)
        if row is None:
            raise UnknownPull(f"pull {pull_id} was never issued by study {self.name!r}")
        return row.state != "open" or row.number in [item.number for item in policy.cancelled()]

    # ----------------------------------------------------------------------- answers

    @property
    def policy(self) -> Policy:
        """The policy after the last event: to be read, not to be asked or told."""
        with self._lock:
            return self._at_head()

    def recommend(self) -> Recommendation:
        """Return the answer now."""
        with self._lock:
            return self._at_head().recommend()

    def progress(self) -> Progress:
        """Return all that a plot or a page shows."""
        with self._lock:
            return self._at_head().progress()

    @property
    def status(self) -> str:
        """``"running"``, ``"decided"`` or ``"undecided"``."""
        return self.recommend().status

    def outstanding(self) -> list[StudyPull]:
        """Return the pulls in flight, in the order in which they were issued."""
        return self._bound(self._store.open_pulls(self._id))

    def trace(self, points: int = 200) -> list[Progress]:
        """Return how far the study had come at up to `points` earlier moments, and now.

        The moments are evenly spaced in outcomes; the log is replayed for them.
        """
        wanted = check_integer("points", points, low=2)
        with self._lock:
            row, tells = self._row(), self._at_head().told
        steps = self._store.steps(self._id, until=row.head_seq)
        return trace(steps, self._build(), tells, wanted)

    def health(self) -> dict[str, Any]:
        """Return what may be wrong with a study that runs.

        Returns
        -------
        dict
            Numbers of pulls: `open`, of those `overdue` (their lease has run out since the
            last event), `expired`, `reissued`, `cancelled`, `lost`. Of outcomes: `late`
            (after the lease, or given up), `amended`, `duplicates` (told again),
            `unsolicited`. And `expiry`, what the policy does about a lease that ran out:
            if outcomes get lost because of what they are, the answer may be biased.
        """
        counts = self._store.counts(self._id)
        return {
            "open": len(self._store.open_pulls(self._id)),
            "overdue": len(self._store.open_pulls(self._id, due_by=self._store.now())),
            "expired": counts.get("expire", 0),
            "reissued": counts.get("reissue", 0),
            "cancelled": counts.get("cancel", 0),
            "lost": counts.get("fail", 0),
            "late": counts.get("late_tell", 0),
            "amended": counts.get("amend", 0),
            "duplicates": self._row().duplicates,
            "unsolicited": counts.get("unsolicited", 0),
            "expiry": self._build().expiry,
        }

    # ----------------------------------------------------------------------- the log

    @property
    def head_hash(self) -> str:
        """The hash of the last event: two logs with the same are the same."""
        return self._row().head_hash

    def events(self, after: int = 0) -> Iterator[Event]:
        """Yield the events of the log that come after number `after`."""
        records = self._store.records(self._id, check_integer("after", after, low=0))
        return map(Event.of, records)

    def history(self) -> pd.DataFrame:
        """Return the log as a table, one row per event (extra ``data``)."""
        return history(self._store, self._row(), self.problem)

    def export(self, path: str | os.PathLike[str]) -> Path:
        """Write the log to a file and return its path.

        Parameters
        ----------
        path : str or path
            Ends in ``.jsonl`` (all there is, for `import_log`), ``.csv`` or ``.parquet``
            (extra ``data``). An existing file is replaced.
        """
        target = Path(path)
        export(self._store, self._row(), self.problem, target)
        return target

    def verify(self) -> Verification:
        """Audit the log: its chain of hashes, and every decision derived once more.

        Returns
        -------
        Verification
            `ok`, the number of `events` checked, and the `first_difference`.
        """
        with self._lock:
            row, live = self._row(), self._live_state()
        return verify(self._store, row, self._build(), live)

    def _live_state(self) -> State | None:
        try:
            return self._at_head().get_state()
        except (CorruptLog, NotSupported):
            return None

    def snapshot(self) -> None:
        """Keep the policy's state, so that the next opening need not replay the log.

        This happens by itself every thousand events and on `close`.

        Raises
        ------
        NotSupported
            If the policy's `state_fields` forget a part of its state.
        """
        with self._lock:
            self._at_head()
            self._cache.save()

    # ---------------------------------------------------------------------- machinery

    def _row(self) -> StudyRow:
        self._require_open()
        return self._store.read_study(self._id)

    def _at_head(self) -> Policy:
        return self._cache.at_head(self._row()).policy

    def _require_open(self) -> None:
        if self._is_closed:
            raise StorageError(f"study {self.name!r} is closed; open it again")

    def _write(self, operation: Callable[[Writer], _Answer]) -> _Answer:
        with self._lock:
            # A long log is replayed before others are kept waiting.
            expiry = self._at_head().expiry
            # Leases that ran out are facts, even if the operation should fail.
            if expiry == "drop" and self._store.open_pulls(self._id, due_by=self._store.now()):
                self._transact(Writer.expire_leases)
            answer = self._transact(operation)
            with suppress(StorageError):
                self._cache.save_if_due()
            return answer

    def _transact(self, operation: Callable[[Writer], _Answer]) -> _Answer:
        with self._store.transaction():
            study = self._store.read_study(self._id)
            writer = Writer(self._store, study, self._cache.at_head(study))
            answer = operation(writer)
            head = writer.flush()
        self._cache.settle(head, writer.last)
        self._has_written = True
        return answer

    def _pull_id(self, pull: Pull | str) -> str:
        """Return the identity by which the store knows a pull."""
        if isinstance(pull, str):
            return pull
        if not isinstance(pull, StudyPull):
            raise UnknownPull(
                f"{pull!r} was not issued by study {self.name!r}: give what its ask returned, "
                "or the id of that"
            )
        owner = pull.study
        if owner is not None and (owner.name, owner._store.url) != (self.name, self._store.url):  # noqa: SLF001
            raise UnknownPull(f"{pull!r} is a pull of study {owner.name!r}, not of {self.name!r}")
        return pull.id

    def _own_action(self, pull: Pull) -> int:
        known = 0 <= pull.action < self.problem.n_actions
        if not known or self.problem.labels(pull.action) != pull.labels:
            raise UnknownPull(f"{pull!r} is not one of this problem's actions")
        return pull.action


# ------------------------------------------------------------------------------ checks


def _check_name(name: object) -> None:
    fits = isinstance(name, str) and name.isprintable() and 0 < len(name.strip()) <= 200
    if not fits:
        raise InvalidArgument("name", "must be 1 to 200 printable characters", name)


def _check_texts(**texts: object) -> None:
    for name, text in texts.items():
        fits = text is None or (isinstance(text, str) and 0 < len(text) <= 200)
        if not fits or not _is_encodable(text):
            raise InvalidArgument(name, "must be a text of 1 to 200 characters, or None", text)


def _check_reason(reason: object) -> None:
    if not isinstance(reason, str) or not reason.strip() or not _is_encodable(reason):
        raise InvalidArgument("reason", "must be a text that says why", reason)


def _is_encodable(text: object) -> bool:
    return text is None or str(text).encode(errors="ignore").decode() == text


def _check_lease(lease: object) -> float:
    # A century is for ever, and small enough for the database.
    return check_number("lease", lease, low=0, high=3.2e9, open_low=True)


def _as_json(
    name: str, data: Mapping[str, Any], error: type[InvalidArgument] = InvalidArgument
) -> dict[str, Any]:
    """Return the data as a replay will read them: through JSON and back."""
    try:
        text = canonical(plain(data, name))
    except (NotSupported, ValueError, RecursionError):
        raise error(name, "must be made of finite numbers, texts and lists", data) from None
    clean: dict[str, Any] = json.loads(text)
    return clean


def _check_template(problem: object, policy: object) -> None:
    if not isinstance(problem, Problem):
        raise InvalidArgument("problem", "must be a Problem", problem)
    if not isinstance(policy, Policy):
        raise InvalidArgument("policy", "must be a Policy", policy)
    if policy.problem != problem:
        raise InvalidArgument("policy", f"must be made for {problem!r}", policy.problem)


# ------------------------------------------------------------------------- create, open


def _new_study(name: str, spec: Specification, policy: Policy, now: int) -> NewStudy:
    from fairtrial import __version__

    return NewStudy(
        name=name,
        spec_json=spec.to_json(),
        spec_sha256=spec.sha256,
        seed=str(spec.seed),
        policy_version=type(policy).version,
        created_with=__version__,
        created_at=now,
    )


def _require_same(
    row: StudyRow, spec: Specification, url: str, *, exist_ok: bool, any_seed: bool
) -> None:
    existing = Specification.from_json(row.spec_json)
    wanted = replace(spec, seed=existing.seed) if any_seed else spec
    difference = existing.difference(wanted)
    if difference:
        raise StudyExists(
            f"{url} has a study {row.name!r} with another specification (existing and wanted "
            f"differ): {difference}"
        )
    if not exist_ok:
        raise StudyExists(
            f"{url} has a study {row.name!r} with this specification already; open it with "
            "Study.open, or pass exist_ok=True"
        )


def _require_storage(storage: Storage, name: str) -> bool:
    """Raise if there is nothing to open; return whether the storage is a new one in memory."""
    if isinstance(storage, Store):
        return False
    path = parse_storage(storage)
    if path is not None and not path.exists():
        raise StudyNotFound(f"there is no study {name!r}: no file {path} exists")
    return path is None


def _found(store: Store, name: str) -> StudyRow:
    row = store.find_study(name)
    if row is None:
        names = ", ".join(repr(other.name) for other in store.studies()[:10]) or "none"
        raise StudyNotFound(f"{store.url} has no study {name!r}; it has {names}")
    return row


def _close_owned(store: Store, storage: Storage) -> None:
    if store is not storage:
        store.close()
