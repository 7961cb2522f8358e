"""The study: a policy whose every step is written down before it counts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, overload

from fairtrial.core import Policy, Problem, Progress, Pull, Recommendation
from fairtrial.core.parameters import Parametrized
from fairtrial.core.problem import Outcome
from fairtrial.core.seeds import as_seed
from fairtrial.core.validation import check_integer
from fairtrial.errors import ExperimentFinished, NothingToAsk, UnknownPull
from fairtrial.study.arguments import (
    as_json,
    as_pairs,
    as_path,
    as_result,
    check_lease,
    check_name,
    check_reason,
    check_template,
    check_texts,
    is_encodable,
    is_unsolicited,
    own_action,
)
from fairtrial.study.audit import Verification, verify
from fairtrial.study.export import export, history
from fairtrial.study.location import Durability, Storage
from fairtrial.study.log import Event, PullRow, Record
from fairtrial.study.log_file import LogFile
from fairtrial.study.opening import create_study, import_study, open_study
from fairtrial.study.pull import StudyPull
from fairtrial.study.session import Session
from fairtrial.study.specification import Specification, own_classes
from fairtrial.study.trace import trace
from fairtrial.study.writer import Writer

if TYPE_CHECKING:
    import pandas as pd

    from fairtrial.core.seeds import Seed

__all__ = ["Study"]


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

    def __init__(self, session: Session) -> None:
        self.name = session.name
        self.problem = session.problem
        self.seed = session.seed
        self._session = session
        self._store = session.store

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
        policies: Sequence[type[Parametrized]] = (),
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
            flushes; or only the end of the process, which waits for no disk.
            A store that is open already keeps its own.
        exist_ok : bool
            Whether an existing study of the same specification is opened instead (of any
            seed, if none is given).
        policies : sequence of type
            Further classes of your own that the policy needs; its own and those of its parts (a
            learner, say) are known. Classes of a policy's parts are accepted.

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
        check_name(name)
        check_template(problem, policy)
        session = create_study(
            Specification.of(problem, policy, as_seed(seed)),
            storage,
            name,
            ((*own_classes(policy), *policies), (type(problem),)),
            durability=durability,
            exist_ok=exist_ok,
            any_seed=seed is None,
        )
        return cls(session)

    @classmethod
    def open(
        cls,
        storage: Storage,
        name: str,
        *,
        policies: Sequence[type[Parametrized]] = (),
        problems: Sequence[type[Problem]] = (),
        durability: Durability = "full",
    ) -> Self:
        """Open a study that exists.

        Parameters
        ----------
        storage, name, durability
            As in `create`.
        policies, problems : sequence of type
            Classes of your own that the study was made with; classes of a policy's parts (a
            learner, say) are accepted among `policies`.

        Raises
        ------
        StudyNotFound
            If the storage has no study of that name, or there is no storage.
        InvalidArgument
            If a class of your own is needed and was not given.
        StorageError
            If the storage cannot be used.
        """
        check_name(name)
        return cls(open_study(storage, name, (policies, problems), durability))

    @classmethod
    def import_log(
        cls,
        path: str | os.PathLike[str],
        *,
        storage: Storage,
        name: str | None = None,
        policies: Sequence[type[Parametrized]] = (),
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
        file = LogFile(as_path(path))
        name = file.name if name is None else name
        check_name(name)
        return cls(import_study(file, storage, name, (policies, problems), durability))

    def close(self) -> None:
        """Keep a snapshot, so that the next opening is quick, and let go of the storage."""
        self._session.close()

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
        pulls = self._session.write(lambda writer: self._bound(asking(writer)))
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
        check_texts(worker=worker, request_id=request_id)
        seconds = None if lease is None else check_lease(lease)
        clean = as_json("context", context)
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
        pull_id, seconds = self._pull_id(pull), check_lease(lease)
        return self._event(lambda writer: writer.extend(pull_id, seconds))

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
        return self._event(self._telling(pull, value, actor, request_id))

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
        telling = [self._telling(pull, value, actor, None) for pull, value in as_pairs(outcomes)]
        records = self._session.write(lambda writer: [tell(writer) for tell in telling])
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

        pulls = self._session.write(both)
        return pulls[0] if pulls else None

    def _telling(
        self, pull: Pull | str, value: Outcome, actor: str | None, request_id: str | None
    ) -> Callable[[Writer], Record]:
        check_texts(actor=actor, request_id=request_id)
        result = as_result(self.problem, value)
        if isinstance(pull, Pull) and is_unsolicited(pull):
            action = own_action(self.problem, pull)
            return lambda writer: writer.tell_unsolicited(action, result, actor, request_id)
        pull_id = self._pull_id(pull)
        return lambda writer: writer.tell(pull_id, result, actor, request_id)

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
        check_texts(actor=actor)
        check_reason(reason)
        pull_id, result = self._pull_id(pull), as_result(self.problem, value)
        return Event.of(
            self._session.write(lambda writer: writer.amend(pull_id, result, reason, actor))
        )

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
        check_texts(actor=actor, request_id=request_id)
        pull_id, clean = self._pull_id(pull), self.problem.check_reading(value) + 0.0
        known = as_json("details", details)
        return Event.of(
            self._session.write(
                lambda writer: writer.report(pull_id, clean, known, actor, request_id)
            )
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
        check_texts(actor=actor)
        check_reason(reason)
        pull_id = self._pull_id(pull)
        return Event.of(
            self._session.write(lambda writer: writer.give_up(kind, pull_id, reason, actor))
        )

    def should_stop(self, pull: Pull | str) -> bool:
        """Return whether a pull's outcome no longer matters to the policy, or was given up."""
        pull_id = self._pull_id(pull)
        with self._session.at_head() as (_, policy):
            row = self._store.pull(self._session.id, pull_id)
            if row is None:
                raise UnknownPull(f"pull {pull_id} was never issued by study {self.name!r}")
            return row.state != "open" or row.number in [pull.number for pull in policy.cancelled()]

    def cancelled(self) -> list[StudyPull]:
        """Return the pulls in flight whose outcome no longer matters to the policy.

        They are to be called back with `cancel`; an outcome that comes all the same counts.
        """
        with self._session.at_head() as (row, policy):
            numbers = {pull.number for pull in policy.cancelled()}
            rows = self._store.open_pulls(row.id) if numbers else []
        return self._bound([row for row in rows if row.number in numbers])

    # ----------------------------------------------------------------------- answers

    @property
    def policy(self) -> Policy:
        """The policy after the last event: to be read, not to be asked or told."""
        with self._session.at_head() as (_, policy):
            return policy

    def recommend(self) -> Recommendation:
        """Return the answer now."""
        with self._session.at_head() as (_, policy):
            return policy.recommend()

    def progress(self) -> Progress:
        """Return all that a plot or a page shows."""
        with self._session.at_head() as (_, policy):
            return policy.progress()

    @property
    def status(self) -> str:
        """``"running"``, ``"decided"`` or ``"undecided"``."""
        return self.recommend().status

    def outstanding(self) -> list[StudyPull]:
        """Return the pulls in flight, in the order in which they were issued."""
        return self._bound(self._store.open_pulls(self._session.id))

    def trace(self, points: int = 200) -> list[Progress]:
        """Return how far the study had come at up to `points` earlier moments, and now.

        The moments are evenly spaced in outcomes; the log is replayed for them.
        """
        wanted = check_integer("points", points, low=2)
        with self._session.at_head() as (row, policy):
            tells = policy.told
        steps = self._store.steps(row.id, until=row.head_seq)
        return trace(steps, self._session.build(), tells, wanted)

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
        counts = self._store.counts(self._session.id)
        return {
            "open": len(self._store.open_pulls(self._session.id)),
            "overdue": len(self._store.open_pulls(self._session.id, due_by=self._store.now())),
            "expired": counts.get("expire", 0),
            "reissued": counts.get("reissue", 0),
            "cancelled": counts.get("cancel", 0),
            "lost": counts.get("fail", 0),
            "late": counts.get("late_tell", 0),
            "amended": counts.get("amend", 0),
            "duplicates": self._session.row().duplicates,
            "unsolicited": counts.get("unsolicited", 0),
            "expiry": self._session.build().expiry,
        }

    # ----------------------------------------------------------------------- the log

    @property
    def head_hash(self) -> str:
        """The hash of the last event: two logs with the same are the same."""
        return self._session.row().head_hash

    def events(self, after: int = 0) -> Iterator[Event]:
        """Yield the events of the log that come after number `after`."""
        records = self._store.records(self._session.id, check_integer("after", after, low=0))
        return map(Event.of, records)

    def history(self) -> pd.DataFrame:
        """Return the log as a table, one row per event (extra ``data``)."""
        return history(self._store, self._session.row(), self.problem)

    def export(self, path: str | os.PathLike[str]) -> Path:
        """Write the log to a file and return its path.

        Parameters
        ----------
        path : str or path
            Ends in ``.jsonl`` (all there is, for `import_log`), ``.csv`` or ``.parquet``
            (extra ``data``). An existing file is replaced.
        """
        target = as_path(path)
        export(self._store, self._session.row(), self.problem, target)
        return target

    def verify(self) -> Verification:
        """Audit the log: its chain of hashes, and every decision derived once more.

        Returns
        -------
        Verification
            `ok`, the number of `events` checked, and the `first_difference`.
        """
        row, live = self._session.state_at_head()
        return verify(self._store, row, self._session.build(), live)

    def snapshot(self) -> None:
        """Keep the policy's state, so that the next opening need not replay the log.

        This happens by itself every thousand events and on `close`.

        Raises
        ------
        NotSupported
            If the policy's `state_fields` forget a part of its state.
        """
        self._session.snapshot()

    # ----------------------------------------------------------------------- machinery

    def _event(self, operation: Callable[[Writer], Record]) -> Event:
        return Event.of(self._session.write(operation))

    def _pull_id(self, pull: Pull | str) -> str:
        """Return the identity by which the store knows a pull."""
        if isinstance(pull, str) and is_encodable(pull):
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
