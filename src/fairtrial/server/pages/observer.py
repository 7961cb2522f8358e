"""What pages show of a study: brought up to date by its new events, never read again as a whole."""

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
from fairtrial.server.pages.moments import CloserLook, Trace
from fairtrial.study import Event, Study
from fairtrial.study.audit import Verification
from fairtrial.study.log import Record
from fairtrial.study.replica import Replica
from fairtrial.study.session import Session
from fairtrial.study.store import StudyRow

__all__ = ["Checks", "ObservedStudy", "Observer", "make_checks"]

_BATCH = 500
_MOST_LOOKS = 4
"""Parts of an experiment, looked at closely, of which moments are kept."""


@dataclass(frozen=True, slots=True)
class Checks:
    """What takes a reading of the whole log, and the moment that it is of.

    Parameters
    ----------
    verification : Verification
        Of the whole log.
    health, blinded_health : mapping
        What `Study.health` gave.
    weighted_means : tuple of float or None
        By action.
    seq : int
        The last event that was looked at.
    made_at : datetime
        When (UTC).
    seconds : float
        How long it took.
    """

    verification: Verification
    health: Mapping[str, Any]
    blinded_health: Mapping[str, Any]
    weighted_means: tuple[float | None, ...]
    seq: int
    made_at: datetime
    seconds: float


def make_checks(study: Study) -> Checks:
    """Read the whole log of a study: milliseconds for a short one, half a minute for a million."""
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

    What it has read is never read again: a page costs what is new since the page before.

    Parameters
    ----------
    session : Session
        To read by.

    Attributes
    ----------
    lock : lock
        To be held by whoever lets it move, or reads what moves.
    checks : Checks or None
        The latest; whoever makes them puts them here.
    arrivals : Arrivals
        How pulls became results.
    first_teller : str or None
        Who told the first result: of replayed rows that has to be said on every page.
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
        self._looks: OrderedDict[tuple[int, int], CloserLook] = OrderedDict()
        self._wanted: tuple[CloserLook, int] | None = None

    @property
    def seq(self) -> int:
        """The last event that was read."""
        return self._replica.seq

    @property
    def told(self) -> int:
        """Results among the events that were read."""
        return self._replica.policy.told

    def advance(self, seconds: float) -> StudyRow:
        """Read new events for at most about that long, and return the study as it is stored.

        It is at the end of the log if its `seq` is the row's `head_seq` then.
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

    def trace(self, end: Progress) -> list[Progress]:
        """Return the moments that were read, in order, and the end."""
        return [*(one for one in self._trace.moments if one.told < end.told), end]

    def look_closer(self, begin: int, end: int, seconds: float) -> list[Progress]:
        """Return more moments of a part of the experiment, as many as the whole may have.

        Those that it does not know yet are read for at most about that long; `looks_on` says
        whether some are left.

        Parameters
        ----------
        begin, end : int
            Numbers of results, the first one smaller.
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
            look = CloserLook(self._checkpoints.before(first), first, stride)
            self._looks[first, stride] = look
            if len(self._looks) > _MOST_LOOKS:
                self._looks.popitem(last=False)
        self._looks.move_to_end((first, stride))
        self._wanted = look, last
        self.look_on(seconds)
        return [one for one in look.moments if one.told <= last]

    @property
    def looks(self) -> int:
        """What differs as soon as there is more detail."""
        return sum(len(look.moments) for look in self._looks.values())

    @property
    def looks_on(self) -> bool:
        """Whether moments of the part that was looked at last are still to be read."""
        return self._wanted is not None and not self._wanted[0].reaches(self._wanted[1])

    def look_on(self, seconds: float) -> None:
        """Read such moments, for at most about that long."""
        if self._wanted is not None:
            look, last = self._wanted
            look.advance(self._session, self.seq, last, seconds)

    def observed(self) -> ObservedStudy:
        """Return the study as its pages show it."""
        with self._session.replica_at_head() as (row, replica):
            progress = replica.progress()
            # Now, while nobody moves the policy.
            effects = progress.effects
            known = replace(progress, find_effects=lambda: effects)
            return ObservedStudy(
                self.study, replica.policy, row, known, self.trace(known), self.checks
            )


@dataclass(frozen=True)
class ObservedStudy:
    """A study as sections of a report read it, at one moment; nothing is computed for it.

    Parameters
    ----------
    study : Study
        For its events, which are read a page at a time.
    policy : Policy
        For its class and parameters.
    row : StudyRow
        The study at that moment.
    end : Progress
        How far it had come.
    moments : list of Progress
        How far at earlier moments, and then.
    checks : Checks
        What needs the whole log.
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
        """What is known and wanted."""
        return self.study.problem

    @property
    def seed(self) -> int:
        """The policy's."""
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
        """Return how far it had come."""
        return self.end

    def trace(self, points: int = 200) -> Sequence[Progress]:
        """Return how far it had come at earlier moments; `points` is not looked at."""
        return self.moments

    def looked_at(self, more: Sequence[Progress]) -> ObservedStudy:
        """Return the study with more of the earlier moments."""
        # What is known of the whole goes first, the end above all: it is more than a moment.
        known = {moment.told: moment for moment in (*more, *self.moments)}
        return replace(self, moments=[known[told] for told in sorted(known)])

    def events(self, after: int = 0) -> Iterator[Event]:
        """Yield the events after number `after`."""
        return self.study.events(after)

    def verify(self) -> Verification:
        """Return what the check of the whole log found; pages say of which moment it is."""
        # Even a check of the end alone would look at the whole file of a database.
        return Verification(True, 0) if self.checks is None else self.checks.verification

    def health(self, *, blinded: bool = False) -> Mapping[str, Any]:
        """Return what may be wrong with it."""
        if self.checks is None:
            return {}
        return self.checks.blinded_health if blinded else self.checks.health

    def weighted_means(self) -> Sequence[float | None]:
        """Return the means weighted by the inverse of propensities."""
        none = (None,) * self.problem.n_actions
        return none if self.checks is None else self.checks.weighted_means
