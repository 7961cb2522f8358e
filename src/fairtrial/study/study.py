"""The study: a policy whose every step is recorded before it counts."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from fairtrial.core import Policy, Problem, Progress, Pull, Recommendation
from fairtrial.core.frames import Library
from fairtrial.core.keywords import named_arguments
from fairtrial.core.logs import LogEvent
from fairtrial.core.noted import problems_of_table
from fairtrial.core.parameters import Parametrized
from fairtrial.core.seeds import as_seed
from fairtrial.core.validation import check_instance, check_integer
from fairtrial.core.wording import listed, said_of_closed_groups
from fairtrial.errors import UnknownPull
from fairtrial.study.arguments import (
    as_hashes,
    as_path,
    check_name,
    check_one_of,
    check_secret,
    check_template,
)
from fairtrial.study.assumption_checks import BLINDED, AssumptionWarning, warnings_in
from fairtrial.study.audit import Verification, verify, verify_last
from fairtrial.study.base import BaseStudy
from fairtrial.study.export import export, history, records_of
from fairtrial.study.kit_supply import arms_of, said_of_few_kits
from fairtrial.study.known import Known
from fairtrial.study.location import Durability, Storage
from fairtrial.study.log import Event, PullRow
from fairtrial.study.log_file import LogFile
from fairtrial.study.numbers import Asked
from fairtrial.study.opening import create_study, import_study, open_study
from fairtrial.study.pull import StudyPull
from fairtrial.study.pull_histories import PullHistories
from fairtrial.study.session import Session
from fairtrial.study.specification import Specification, own_classes
from fairtrial.study.store import StudyRow
from fairtrial.study.trace import Moments, trace
from fairtrial.study.unmasking import check_names, list_digest, sealed_names
from fairtrial.study.witness import Witness
from fairtrial.study.writer import participant_key
from fairtrial.study.writes import Checks, Mask

if TYPE_CHECKING:
    from fairtrial.core.seeds import Seed

__all__ = ["Study"]


_WARNED = LogEvent("study", "new warnings", logging.WARNING, ("study", "new", "warnings"))


class Study(BaseStudy):
    """A durable experiment; use `Study.create`, `Study.open` or `Study.import_log` to get one.

    Every pull, reading, outcome and loss is an event in an append-only log, written before the
    call returns. Replaying the log always gives the policy's state, so a study continues after
    any interruption as if nothing had happened. Several threads, handles and processes can use
    one study at the same time.

    Attributes
    ----------
    name : str
        The study's name in its storage.
    problem : Problem
        The problem.
    seed : int
        The policy's seed.

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
        check_instance("session", session, Session)
        checks = Checks(session.name, session.problem, session.store.url, conduct=session.conduct)
        super().__init__(checks, session.write)
        self.seed = session.seed
        self._session = session
        self._store = session.store
        self._seen: set[str] = set()
        self._known = Known(-1)

    @property
    def session(self) -> Session:
        """The underlying session, for programs built on studies, such as the service."""
        return self._session

    def close(self) -> None:
        """Save a snapshot, so that the next opening is quick, and release the storage."""
        self._session.close()

    @property
    def notes(self) -> dict[str, str]:
        """What was noted when the study was created, by topic."""
        return dict(self._session.notes)

    @property
    def storage(self) -> str:
        """The address of the storage, without any password."""
        return self._store.url

    @property
    def storage_software(self) -> str:
        """The software that keeps the study and its version, such as ``"SQLite 3.45.1"``."""
        return self._store.software

    def __repr__(self) -> str:
        return f"Study(name={self.name!r}, storage={self.storage!r})"

    @classmethod
    @named_arguments
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
        secret: str | None = None,
        witness: str | os.PathLike[str] | None = None,
        require_group: bool = False,
        participants: str | None = None,
        kits: str | None = None,
        masked: bool = False,
        notes: Mapping[str, str] | None = None,
    ) -> Self:
        """Create a study.

        Parameters
        ----------
        problem : Problem
            The problem.
        policy : Policy
            A template: its class and parameters are recorded, and the study uses a fresh copy.
        storage : str, path or Store
            ``"sqlite:///trial.db"`` (four slashes begin an absolute path), a path,
            ``"postgresql://user@host/database"`` (extra ``postgres``), or ``"memory://"``.
        name : str
            The study's name, unique in the storage.
        seed : None, int or numpy.random.Generator
            The policy's seed; by default a random one. It is recorded.
        durability : {"full", "process"}
            What an acknowledged event survives: a power failure, as far as the disk honours
            flushes; or only the end of the process, which is faster. A store that is already open
            keeps its own setting.
        exist_ok : bool
            Whether to open an existing study with the same specification instead (with any seed,
            if none is given).
        policies : sequence of type
            Further classes of your own that the policy needs. Its own class, and those of its parts
            (such as a learner), are known already.
        secret : str, optional
            The source of the random order of pulls, if the policy `randomizes`. The default is a
            random secret, so that knowing the seed is not enough to predict the next pull. The
            first event records its hash. Pass one only to repeat a simulated study exactly.
        witness : str or path, optional
            A file where people with write access to the storage cannot write. It records number
            and hash of the log's last event after every write. Pass it again to `open` and
            `verify`.
        require_group : bool
            Whether every request for pulls must name a group, for studies in which people arrive
            by themselves. It becomes part of the specification, as do the next two.
        participants : str, optional
            The form of participant numbers, such as ``"W#-###"``: ``#`` is a digit and ``@`` a
            capital letter. Every request then names one participant, who gets one pull. Such a
            number is never a name or a date of birth, and what does not have the form is refused.
        kits : str, optional
            The form of kit numbers, for `record_kit`.
        masked : bool
            Whether tokens without the scope ``read`` see kits instead of arms. Then call the arms
            by codes; `supply` adds kits, and `seal_names` keeps what the codes mean.
        notes : mapping of str to str, optional
            What should be known about the study, by topic, such as ``{"Population": "adults"}``.
            They are part of the specification and of the report, and nothing depends on them.

        Raises
        ------
        StudyExists
            If the name is taken by a study with another specification or, without `exist_ok`, by
            any study; the message says how they differ.
        InvalidArgument
            If an argument is invalid, or the policy is for another problem.
        NotSupported
            If the policy cannot be converted to data.
        StorageError
            If the storage cannot be used.
        """
        check_name(name)
        check_template(problem, policy)
        session = create_study(
            Specification.of(
                problem,
                policy,
                as_seed(seed),
                {
                    "require_group": require_group,
                    "participants": participants,
                    "kits": kits,
                    "masked": masked,
                },
                notes,
            ),
            storage,
            name,
            ((*own_classes(policy), *policies), (type(problem),)),
            durability=durability,
            exist_ok=exist_ok,
            any_seed=seed is None,
            secret=None if secret is None else check_secret(secret),
            witness=None if witness is None else as_path(witness),
        )
        return cls(session)

    @classmethod
    @named_arguments
    def open(
        cls,
        storage: Storage,
        name: str,
        *,
        policies: Sequence[type[Parametrized]] = (),
        problems: Sequence[type[Problem]] = (),
        durability: Durability = "full",
        witness: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Open an existing study.

        Parameters
        ----------
        storage, name, durability, witness
            As for `create`. The log must contain the last head that the witness recorded.
        policies, problems : sequence of type
            Classes of your own that the study uses; `policies` can include classes of a policy's
            parts (such as a learner).

        Raises
        ------
        StudyNotFound
            If the storage does not exist or has no study of that name.
        CorruptLog
            If the log does not contain the last head that the witness recorded.
        InvalidArgument
            If a class of your own is needed and was not passed.
        StorageError
            If the storage cannot be used.
        """
        check_name(name)
        path = None if witness is None else as_path(witness)
        return cls(open_study(storage, name, (policies, problems), durability, path))

    @classmethod
    @named_arguments
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
        """Create a study from a log that `export` wrote as JSON lines; it keeps the head hash.

        Parameters
        ----------
        path : str or path
            The file.
        name : str, optional
            The new study's name; by default the name in the file.
        storage, policies, problems, durability
            As for `open`.

        Raises
        ------
        CorruptLog
            If the file is not a complete log, or an event does not follow from the earlier ones.
            Nothing is kept then.
        StudyExists
            If the storage already has a study of that name.
        StorageError
            If the file or the storage cannot be used.
        """
        file = LogFile(as_path(path))
        name = file.name if name is None else name
        check_name(name)
        return cls(import_study(file, storage, name, (policies, problems), durability))

    def pull_of(self, participant: str | None = None, *, unit: str | None = None) -> StudyPull:
        """Return the pull of a participant, by their number, or of a unit.

        Raises
        ------
        UnknownPull
            If this participant or unit has no pull.
        """
        check_one_of(participant, unit)
        if unit is not None:
            key: str | None = self._session.unit_key(unit)
        else:
            checked = self.checks.conduct.check_participant(participant, 1)
            key = None if checked is None else participant_key(checked)
        row = None if key is None else self._session.pull_with_key(key)
        if row is None:
            raise UnknownPull(f"study {self.name!r} has no pull of this participant or unit")
        return self._bind(self._session.pulls_of([row]))[0]

    def seal_names(self, names: Mapping[str, str], *, actor: str | None = None) -> dict[str, Any]:
        """Return the unmasking list of a masked study: what is behind each code, sealed.

        Keep it in a file apart from the storage. Only `unmask` opens it, which records the access.
        The log gets its SHA-256; a study has one list.

        Parameters
        ----------
        names : mapping of str to str
            What is behind each arm, for example ``{"A": "placebo", "B": "20 mg"}``.
        actor : str, optional
            Who made the list; recorded.

        Raises
        ------
        InvalidArgument
            If a code has no name or two have the same, or the study has a list already.
        NotSupported
            If the study is not masked, or is a copy without its secret.
        """
        checked = check_names(names, arms_of(self.problem))
        sealed = sealed_names(self.name, checked, self._session.unmasking_keys())
        self.write(Mask(list_digest(sealed), actor))
        return sealed

    def _unmasked(self, event: Event) -> Mapping[str, Any]:
        return self._session.unmasked(event)

    # ----------------------------------------------------------------------- the clock

    def pass_time(self) -> None:
        """Check the clock: expire leases, and stop the study if `max_time` is over.

        Every write does this too, so call it only while you wait for results. `max_time` is
        counted in seconds from the first event.
        """
        self._session.pass_time()

    def snapshot(self) -> None:
        """Save the policy's state, so that opening the study does not replay the whole log.

        This happens automatically every thousand events and on `close`.

        Raises
        ------
        NotSupported
            If the policy's `state_fields` do not cover all of its state.
        """
        self._session.snapshot()

    # ----------------------------------------------------------------------- answers

    @property
    def policy(self) -> Policy:
        """The policy after the last event; read it, but do not call `ask` or `tell` on it."""
        with self._session.at_head() as (_, policy):
            return policy

    def recommend(self) -> Recommendation:
        """Return the present answer."""
        with self._session.replica_at_head() as (_, replica):
            return replica.recommend()

    def progress(self) -> Progress:
        """Return the data for plots and pages."""
        with self._session.replica_at_head() as (_, replica):
            return replica.progress()

    @property
    def status(self) -> str:
        """``"running"``, ``"decided"`` or ``"undecided"``."""
        return self.recommend().status

    @property
    def stopped(self) -> bool:
        """Whether the study has stopped: its policy by itself, or a user by `stop`."""
        with self._session.replica_at_head() as (_, replica):
            return replica.stopped

    def outstanding(self) -> list[StudyPull]:
        """Return the open pulls, in the order in which they were issued."""
        return self._bound(self._store.open_pulls(self._session.id))

    def asked_for(self, pulls: Sequence[StudyPull]) -> list[Asked]:
        """Return when pulls were asked for, and for which participants.

        Examples
        --------
        >>> from fairtrial.subpopulations import BlockBetting, Problem
        >>> problem = Problem(["A", "B"], ["x"], reward_range=(0, 1))
        >>> given = {"storage": "memory://", "name": "trial", "participants": "P-###"}
        >>> study = Study.create(problem, BlockBetting(problem), **given)
        >>> [asked] = study.asked_for([study.ask(participant="P-007")])
        >>> asked.number, asked.participant
        (0, 'P-007')
        """
        store, study_id = self._store, self._session.id
        rows = [store.pull(study_id, pull.id) for pull in pulls]
        return self._session.asked_for([row for row in rows if row is not None])

    def trace(self, points: int = 200) -> list[Progress]:
        """Return the study's progress at up to `points` earlier times, and now.

        The times are after every outcome, or every 2nd, 4th, 8th... if there are too many. The log
        is replayed for them. Pages show the same times.
        """
        wanted = check_integer("points", points, low=2)
        with self._session.at_head() as (row, policy):
            tells, known = policy.told, self._known_at(row.head_seq)
        if known.moments and known.points == wanted:
            return list(known.moments)
        steps = self._store.steps(row.id, until=row.head_seq)
        return trace(steps, self._session.build(), tells, wanted)

    def keep_trace(self, moments: Moments) -> None:
        """Keep what was noted while the whole log was written, so that `trace` need not replay it.

        Parameters
        ----------
        moments : Moments
            The moments of this log.
        """
        end = self.progress()
        known = self._known_at(self._session.row().head_seq)
        self._known = replace(known, moments=moments.until(end), points=moments.points)

    def _known_at(self, head: int) -> Known:
        return self._known if self._known.head == head else Known(head)

    def weighted_means(self) -> list[float | None]:
        """Return the mean of every action, with each result weighted by its inverse propensity.

        Reported next to the plain means of `progress`, which are biased upwards for the winning
        arm because a study stops when an arm looks good. Weighted means are hardly less biased.

        Returns
        -------
        list of float or None
            By action. None if an action has no result of a pull that was drawn at random, or if
            outcomes have named fields.

        Notes
        -----
        This reads the whole log: some seconds for a million events.

        Source: Hajek (1971), Comment on "An essay on the logical foundations of survey sampling".

        Examples
        --------
        >>> import fairtrial as ft
        >>> problem = ft.subpopulations.Problem(["a", "b"], ["x"], reward_range=(0, 1))
        >>> policy = ft.subpopulations.BlockBetting(problem, delta=0.05)
        >>> with ft.Study.create(problem, policy, storage="memory://", name="t", seed=7) as study:
        ...     for pull in study.ask(20):
        ...         told = study.tell(pull, 0.75 if pull.arm == "a" else 0.25)
        ...     [round(mean, 2) for mean in study.weighted_means()]
        [0.75, 0.25]
        """
        head = self._session.row().head_seq
        known = self._known_at(head)
        if known.weighted_means is not None:
            return list(known.weighted_means)
        histories = PullHistories(self._store.steps(self._session.id, until=head))
        return histories.weighted_means(self.problem.n_actions)

    def health(self, *, blinded: bool = False) -> dict[str, Any]:
        """Return signs of problems with a running study.

        This reads the whole log: some seconds for a million events.

        Parameters
        ----------
        blinded : bool
            Whether the readers recruit or treat participants; if so, there are only warnings that
            neither depend on results by arm nor reveal the evidence so far.

        Returns
        -------
        dict
            Numbers of pulls: `open`, `overdue` (those open pulls whose lease has expired since the
            last event), `expired`, `reissued`, `cancelled`, `lost`. Numbers of outcomes: `late`
            (after the lease, or after the pull was given up), `amended`, `duplicates` (told again),
            `unsolicited`. `expiry`: what the policy does about expired leases; if outcomes get
            lost because of their values, the answer may be biased. `kits_left`: in a masked study,
            how many kits of each arm are left (not if blinded). `warnings`: sentences about
            assumptions that the results contradict, or about what prevents a decision. They
            include drift, pulls of some arms that are passed over, groups that arrive in other
            proportions than stated, and what the checks of a finished experiment's table found.
        """
        return {**self.counts_of_health(blinded=blinded), "warnings": self._warnings(blinded)}

    def counts_of_health(self, *, blinded: bool = False) -> dict[str, Any]:
        """Return all of `health` except its warnings, which take the time; for pages."""
        counts = self._store.counts(self._session.id)
        return {
            "open": self._store.count_open(self._session.id),
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
            **self._kits(blinded),
        }

    def _kits(self, blinded: bool) -> dict[str, dict[str, int]]:
        left = {} if blinded else self.kits_left()
        return {"kits_left": left} if left else {}

    def warnings_to_send(self) -> list[str]:
        """Return the warnings of `health` in words that anybody may read.

        One sentence stands for all those that would name an arm, so that whoever is notified looks
        at the full view. Do not show it to people who recruit or treat: they cannot act on it, and
        it hints at the results by arm.
        """
        return self._warnings(blinded=True, hint=[BLINDED])

    def _warnings(self, blinded: bool, hint: Sequence[str] = ()) -> list[str]:
        """Return the warnings; if blinded, with `hint` in place of each that is about arms."""

        def shown(warning: str) -> Sequence[str]:
            return hint if blinded else [warning]

        found = [one for said in self._problems_of_table() for one in shown(said)]
        with self._session.at_head() as (row, policy):
            found += [one for warning in policy.warnings() for one in shown(warning)]
            found += policy.remarks()
            open_as_worst = policy.open_as_worst()
            if not blinded:
                found += policy.remarks_on_arms()
        if not blinded:
            found += [*self._named_open_pulls(open_as_worst), *self._few_kits()]
            found += self._of_closed_groups(policy.closed_groups)
        # After the lock is released, so that others can write while a long log is read.
        doubts = self._doubts(row, policy)
        sentences = [
            said
            for one in doubts
            for said in (shown(one.sentence) if one.is_about_arms else [one.sentence])
        ]
        self._log_new(found + sentences)
        return list(dict.fromkeys(found + sentences))

    def _named_open_pulls(self, numbers: Sequence[int]) -> list[str]:
        """Return the sentence that names the open pulls that count as their worst, if any do."""
        if not numbers:
            return []
        wanted = set(numbers)
        rows = [one for one in self._store.open_pulls(self._session.id) if one.number in wanted]
        if not rows:
            return []
        known = self._session.asked_for(rows)
        return [f"open and counted as their worst: {listed([own.in_words for own in known])}"]

    def _of_closed_groups(self, groups: Sequence[str]) -> list[str]:
        """Return the sentence about groups that people have closed while the study goes on."""
        return [said_of_closed_groups(groups)] if groups and not self.stopped else []

    def _few_kits(self) -> list[str]:
        with self._session.replica_at_head() as (_, replica):
            needs_none = replica.stopped and not replica.policy.n_outstanding
            if replica.kits is None or needs_none:
                return []
            return said_of_few_kits(replica.kits, replica.policy.closed_arms)

    def kits_left(self) -> dict[str, int]:
        """Return how many kits of each arm of a masked study are left; empty if it has none.

        Show it to those who may know the codes of arms, but to nobody on a ward: how fast the kits
        of an arm are used tells which arm leads.

        Examples
        --------
        >>> from fairtrial.subpopulations import BlockBetting, Problem
        >>> problem = Problem(["A", "B"], ["x"], reward_range=(0, 1))
        >>> policy, rules = BlockBetting(problem), {"masked": True, "kits": "K####"}
        >>> study = Study.create(problem, policy, storage="memory://", name="trial", **rules)
        >>> event = study.supply(20, actor="pharmacy")
        >>> study.kits_left()
        {'A': 20, 'B': 20}
        """
        with self._session.replica_at_head() as (_, replica):
            return {} if replica.kits is None else replica.kits.left

    def _problems_of_table(self) -> list[str]:
        return [f"{topic}: {said}" for topic, said in problems_of_table(self.notes).items()]

    def _doubts(self, row: StudyRow, policy: Policy) -> Sequence[AssumptionWarning]:
        """Return what in the log contradicts the assumptions; nothing if the policy never stops."""
        if policy.endless:
            return []
        known = self._known_at(row.head_seq)
        if known.doubts is None:
            steps = self._store.steps(row.id, until=row.head_seq)
            log = PullHistories(steps, policy.problem.measured is not None)
            means = log.weighted_means(policy.problem.n_actions)
            known = replace(known, doubts=warnings_in(log, policy), weighted_means=means)
            self._known = known
        return known.doubts or ()

    def _log_new(self, warnings: Sequence[str]) -> None:
        """Log that there are warnings that this handle has not found before."""
        new = set(warnings) - self._seen
        if new:
            self._seen |= new
            _WARNED.log(study=self.name, new=len(new), warnings=len(set(warnings)))

    @property
    def secret(self) -> str | None:
        """The source of the random order of pulls, and the key of the hashes of units.

        Keep it from everyone who recruits or treats: it reveals all pulls in advance. None for a
        copy without it, and for a study of an earlier version that draws no random numbers.
        """
        return self._session.row().secret

    # --------------------------------------------------------------- pulls in flight

    def should_stop(self, pull: Pull | str) -> bool:
        """Return whether the policy no longer needs a pull's outcome, or the pull has ended."""
        pull_id = self.checks.pull_id(pull)
        with self._session.replica_at_head() as (_, replica):
            row = self._store.pull(self._session.id, pull_id)
            if row is None:
                raise UnknownPull(f"pull {pull_id} was never issued by study {self.name!r}")
            to_cancel = [pull.number for pull in replica.to_cancel()]
        return row.state != "open" or row.number in to_cancel

    def to_cancel(self) -> list[StudyPull]:
        """Return the open pulls whose outcomes the policy no longer needs.

        Cancel them with `cancel`; an outcome that comes anyway still counts.
        """
        with self._session.replica_at_head() as (row, replica):
            numbers = {pull.number for pull in replica.to_cancel()}
            rows = self._store.open_pulls(row.id) if numbers else []
        return self._bound([row for row in rows if row.number in numbers])

    # ----------------------------------------------------------------------- the log

    @property
    def head_hash(self) -> str:
        """The hash of the last event; logs with equal hashes are equal."""
        return self._session.row().head_hash

    @property
    def n_events(self) -> int:
        """Number of events in the log."""
        return self._session.row().head_seq

    def events(self, after: int = 0) -> Iterator[Event]:
        """Yield the events of the log after number `after`."""
        records = self._store.records(self._session.id, check_integer("after", after, low=0))
        return map(Event.of, records)

    def rare_events(self, *kinds: str) -> list[Event]:
        """Return all events of some rare kinds, any but ``ask``, ``report`` and ``tell``.

        The rest of the log is not read.

        Examples
        --------
        >>> from fairtrial.subpopulations import BlockBetting, Problem
        >>> problem = Problem(["A", "B"], ["x"], reward_range=(0, 1))
        >>> study = Study.create(problem, BlockBetting(problem), storage="memory://", name="trial")
        >>> event = study.stop("the sponsor withdrew")
        >>> [event.kind for event in study.rare_events("amend", "stop")]
        ['stop']
        """
        study_id = self._session.id
        found = [record for kind in kinds for record in self._store.all_of(study_id, kind)]
        return [Event.of(record) for record in sorted(found, key=attrgetter("seq"))]

    def history(self, library: Library | None = None) -> Any:
        """Return the log as a table, one row per event.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow"}, optional
            The library of the table; by default that of the data frame that was analysed, or else
            the first of these that is installed.

        Raises
        ------
        MissingExtra
            If the library is not installed.
        """
        chosen = library or self._session.library
        return history(records_of(self._store, self._session.row()), self.problem, chosen)

    def export(self, path: str | os.PathLike[str]) -> Path:
        """Write the log to a file and return its path.

        Parameters
        ----------
        path : str or path
            Must end in ``.jsonl`` (complete, for `import_log`), ``.csv``, ``.parquet`` (extra
            ``data``) or ``.xlsx`` (extra ``excel``). An existing file is replaced.
        """
        target = as_path(path)
        export(self._store, self._session.row(), self.problem, target)
        return target

    def verify(
        self,
        expected: str | Sequence[str] = (),
        witness: str | os.PathLike[str] | None = None,
    ) -> Verification:
        """Audit the log: check its chain of hashes, and derive every decision again.

        Parameters
        ----------
        expected : str or sequence of str
            Earlier values of `head_hash` that were noted elsewhere. Anyone who can write the file
            can replace the whole log, but the new log cannot contain these hashes.
        witness : str or path, optional
            The file that was passed as `witness` while the study was in use; the log must contain
            every event recorded there.

        Returns
        -------
        Verification
            `ok`, the number of `events` checked, and the `first_difference`.
        """
        row, in_use = self._session.in_use_at_head()
        hashes = as_hashes(expected)
        if witness is not None:
            hashes += Witness(as_path(witness)).hashes()
        return verify(self._store, row, self._session.build(), in_use, hashes)

    def verify_last(self, events: int) -> Verification:
        """Check only the hashes of the last events: fast, however long the log is.

        This finds neither changes to earlier events nor decisions that do not follow from the log.
        `verify` finds both, and takes about 13 s for a million events.

        Parameters
        ----------
        events : int
            Number of events to check.

        Returns
        -------
        Verification
            `skipped` is the number of earlier events that were not checked.
        """
        wanted = check_integer("events", events, low=1)
        return verify_last(self._store, self._session.row(), wanted)

    def _bound(self, rows: Sequence[PullRow]) -> list[StudyPull]:
        return self._bind(self._session.pulls_of(rows))
