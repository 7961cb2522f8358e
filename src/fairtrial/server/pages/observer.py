"""What pages show of a study: brought up to date by its new events, never read again as a whole."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from fairtrial.core import Policy, Problem, Progress
from fairtrial.presentation.arrivals import Arrivals
from fairtrial.presentation.sources import moments_of
from fairtrial.study import Event, Study
from fairtrial.study.audit import Verification
from fairtrial.study.log import TELLS, Record
from fairtrial.study.replica import Replica
from fairtrial.study.session import Session
from fairtrial.study.store import StudyRow

__all__ = ["Checks", "ObservedStudy", "Observer", "make_checks"]

_MOMENTS = 200
_BATCH = 500


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
        self._trace = _Trace(session.problem)
        self._trace.note(self._replica)

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
        for record in records:
            self.arrivals.take(Event.of(record))
            if self.first_teller is None and record.kind == "tell":
                self.first_teller = record.actor

    def trace(self, end: Progress) -> list[Progress]:
        """Return the moments that were read, in order, and the end."""
        return [*(one for one in self._trace.moments if one.told < end.told), end]

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


class _Trace:
    """Moments of an experiment, evenly spaced in results, of a log that grows.

    Parameters
    ----------
    problem : Problem
        The more actions it has, the fewer moments are kept.
    """

    def __init__(self, problem: Problem) -> None:
        self._most = moments_of(problem.n_actions, _MOMENTS)
        self._stride = 1
        self.moments: list[Progress] = []

    def parts(self, records: Sequence[Record], told: int) -> Iterator[Sequence[Record]]:
        """Yield events in parts that end where a moment is due, the last where they end."""
        begin = 0
        for place, record in enumerate(records, start=1):
            if record.kind in TELLS:
                told += 1
                if told % self._stride == 0:
                    yield records[begin:place]
                    begin = place
        yield records[begin:]

    def note(self, replica: Replica) -> None:
        """Keep the moment if it is due; of twice too many keep every other one."""
        told = replica.policy.told
        last = self.moments[-1].told if self.moments else -1
        if told % self._stride or told == last:
            return
        # What arms differ by is of no use later, and would hold on to the policy.
        self.moments.append(replace(replica.progress(), find_effects=tuple))
        if len(self.moments) > 2 * self._most:
            self._stride *= 2
            self.moments = [one for one in self.moments if one.told % self._stride == 0]


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

    def trace(self, points: int = _MOMENTS) -> Sequence[Progress]:
        """Return how far it had come at earlier moments; `points` is not looked at."""
        return self.moments

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
