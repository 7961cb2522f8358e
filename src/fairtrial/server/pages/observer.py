"""Follow a study for its pages: read new events only, and never the whole log again."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from fairtrial.core import Policy, Problem, Progress
from fairtrial.presentation.arrivals import Arrivals
from fairtrial.server.pages.checkpoints import Checkpoints
from fairtrial.server.pages.moments import FinerTrace, Trace
from fairtrial.study import Event, Study
from fairtrial.study.audit import Verification
from fairtrial.study.log import Record
from fairtrial.study.replica import Replica
from fairtrial.study.session import Session
from fairtrial.study.store import StudyRow

__all__ = ["Checks", "ObservedStudy", "Observer", "make_checks"]

_BATCH = 500
_MOST_LOOKS = 4
"""Number of parts in close-up whose moments are kept."""


@dataclass(frozen=True, slots=True)
class Checks:
    """Results of checks that read the whole log, and when they were made.

    Parameters
    ----------
    verification : Verification
        The audit of the whole log.
    health, blinded_health : mapping
        Output of `Study.health`.
    weighted_means : tuple of float or None
        Means by action, weighted by inverse propensities.
    seq : int
        The last event that was checked.
    made_at : datetime
        Time of the checks (UTC).
    seconds : float
        How long they took.
    """

    verification: Verification
    health: Mapping[str, Any]
    blinded_health: Mapping[str, Any]
    weighted_means: tuple[float | None, ...]
    seq: int
    made_at: datetime
    seconds: float


def make_checks(study: Study) -> Checks:
    """Check the whole log of a study: milliseconds if short, half a minute for a million events."""
    began = time.monotonic()
    seq = study.n_events
    return Checks(
        study.verify(),
        study.health(),
        study.health(blinded=True),
        tuple(study.weighted_means()),
        seq,
        datetime.now(UTC),
        time.monotonic() - began,
    )


class Observer:
    """Follows one study for its pages.

    Nothing is read twice: a page only costs the events that are new since the last one.

    Parameters
    ----------
    session : Session
        The session to read from.

    Attributes
    ----------
    lock : lock
        Hold it while moving the observer or reading what changes.
    checks : Checks or None
        The latest checks; set by whatever code makes them.
    arrivals : Arrivals
        How pulls turned into results.
    first_teller : str or None
        Who told the first result; pages must always say if rows were replayed.
    """

    def __init__(self, session: Session) -> None:
        self.study = Study(session)
        self.lock = threading.RLock()
        self.checks: Checks | None = None
        self.arrivals = Arrivals()
        self.first_teller: str | None = None
        self._session = session
        self._replica = Replica(session.build())
        self._trace = Trace(session.problem)
        self._trace.note(self._replica)
        self._checkpoints = Checkpoints(session.build)
        self._looks: OrderedDict[tuple[int, int], FinerTrace] = OrderedDict()
        self._wanted: tuple[FinerTrace, int] | None = None

    @property
    def seq(self) -> int:
        """The last event that has been read."""
        return self._replica.seq

    @property
    def told(self) -> int:
        """Number of results that have been read."""
        return self._replica.policy.told

    def advance(self, seconds: float) -> StudyRow:
        """Read new events for about that many seconds at most; return the stored study.

        The observer is at the end of the log if its `seq` equals the row's `head_seq`.
        """
        row = self._session.row()
        deadline = time.monotonic() + seconds
        records = self._session.store.records(self._session.id, self.seq, row.head_seq)
        while batch := list(islice(records, _BATCH)):
            self._take(batch)
            if time.monotonic() > deadline:
                break
        return row

    def _take(self, records: Sequence[Record]) -> None:
        for part in self._trace.parts(records, self.told):
            self._replica.replay(record.step for record in part)
            self._trace.note(self._replica)
        self._checkpoints.note(self._replica, records[-1].hash)
        for record in records:
            self.arrivals.take(Event.of(record))
            if self.first_teller is None and record.kind == "tell":
                self.first_teller = record.actor

    def trace(self, end: Progress, head_seq: int) -> list[Progress]:
        """Return the moments read so far, in order, and `end` if nothing before it is missing.

        Otherwise all that happened in between would seem to have happened at the end.
        """
        if self.seq < head_seq:
            return list(self._trace.moments)
        return [*(one for one in self._trace.moments if one.told < end.told), end]

    def read_range(self, begin: int, end: int, seconds: float) -> list[Progress]:
        """Return more moments of a part of the experiment, as many as the whole may have.

        Read missing moments for about that many seconds at most; `is_reading_more` says whether any
        are still missing.

        Parameters
        ----------
        begin, end : int
            Numbers of results, with `begin` smaller than `end`.
        seconds : float
            How long it may take.
        """
        stride = self._trace.stride_of(end - begin)
        if stride >= self._trace.stride:
            return []
        first, last = begin // stride * stride, -(-end // stride) * stride
        if last > self.told:
            last = self.told // stride * stride
        look = self._looks.get((first, stride))
        if look is None:
            look = FinerTrace(self._checkpoints.before(first), first, stride)
            self._looks[first, stride] = look
            if len(self._looks) > _MOST_LOOKS:
                self._looks.popitem(last=False)
        self._looks.move_to_end((first, stride))
        self._wanted = look, last
        self.read_more(seconds)
        return [one for one in look.moments if one.told <= last]

    @property
    def looks(self) -> int:
        """A number that changes whenever more detail has been read."""
        return sum(len(look.moments) for look in self._looks.values())

    @property
    def is_reading_more(self) -> bool:
        """Whether moments of the latest part in close-up are still missing."""
        return self._wanted is not None and not self._wanted[0].reaches(self._wanted[1])

    def read_more(self, seconds: float) -> None:
        """Read missing moments, for about that many seconds at most."""
        if self._wanted is not None:
            look, last = self._wanted
            look.advance(self._session, self.seq, last, seconds)

    def observed(self) -> ObservedStudy:
        """Return the study in the form that pages show."""
        with self._session.replica_at_head() as (row, replica):
            progress = replica.progress()
            # Compute the effects now, while no other thread moves the policy.
            effects = progress.effects
            known = replace(progress, find_effects=lambda: effects)
            return ObservedStudy(
                self.study,
                replica.policy,
                row,
                known,
                self.trace(known, row.head_seq),
                self.checks,
            )


@dataclass(frozen=True)
class ObservedStudy:
    """A study at one moment, for the sections of a report; reading it computes nothing.

    Parameters
    ----------
    study : Study
        The study, whose events are read one page at a time.
    policy : Policy
        The policy, for its class and parameters.
    row : StudyRow
        The study's row at that moment.
    end : Progress
        The progress at that moment.
    moments : list of Progress
        The progress at earlier moments and at that one.
    checks : Checks
        Results of checks of the whole log, if there are any.
    """

    study: Study
    policy: Policy
    row: StudyRow
    end: Progress
    moments: list[Progress]
    checks: Checks | None

    @property
    def name(self) -> str:
        """The study's name."""
        return self.study.name

    @property
    def problem(self) -> Problem:
        """The problem."""
        return self.study.problem

    @property
    def notes(self) -> dict[str, str]:
        """What was noted when the study was created, by topic."""
        return self.study.notes

    @property
    def has_participants(self) -> bool:
        """Whether its pulls are for participants who have numbers."""
        return self.study.has_participants

    @property
    def seed(self) -> int:
        """The policy's seed."""
        return self.study.seed

    @property
    def head_hash(self) -> str:
        """The hash of the last event."""
        return self.row.head_hash

    @property
    def n_events(self) -> int:
        """Number of events."""
        return self.row.head_seq

    def progress(self) -> Progress:
        """Return the progress."""
        return self.end

    def trace(self, points: int = 200) -> Sequence[Progress]:
        """Return the progress at earlier moments; `points` is ignored."""
        return self.moments

    def looked_at(self, more: Sequence[Progress]) -> ObservedStudy:
        """Return the study with further earlier moments."""
        # Moments of the whole take precedence, above all the end, which holds more.
        known = {moment.told: moment for moment in (*more, *self.moments)}
        return replace(self, moments=[known[told] for told in sorted(known)])

    def events(self, after: int = 0) -> Iterator[Event]:
        """Yield the events after number `after`."""
        return self.study.events(after)

    def rare_events(self, *kinds: str) -> list[Event]:
        """Return all events of some rare kinds, any but ``ask``, ``report`` and ``tell``."""
        return self.study.rare_events(*kinds)

    def verify(self) -> Verification:
        """Return the latest audit of the whole log; pages say when it was made."""
        # Even checking only the end would read the whole file of a database.
        return Verification(True, 0) if self.checks is None else self.checks.verification

    def health(self, *, blinded: bool = False) -> Mapping[str, Any]:
        """Return signs of problems: counts as they are now, warnings from the latest checks."""
        if self.checks is None:
            return {}
        checked = self.checks.blinded_health if blinded else self.checks.health
        return {**checked, **self.study.counts_of_health(blinded=blinded)}

    def weighted_means(self) -> Sequence[float | None]:
        """Return the means weighted by inverse propensities, from the latest checks."""
        none = (None,) * self.problem.n_actions
        return none if self.checks is None else self.checks.weighted_means
