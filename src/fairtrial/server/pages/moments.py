"""The moments of an experiment that pages show: of the whole, and more of a part in close-up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeVar

from fairtrial.core import Problem, Progress
from fairtrial.presentation.sources import moments_of
from fairtrial.study.log import TELLS, Record, Step
from fairtrial.study.replica import Replica
from fairtrial.study.session import Session
from fairtrial.study.trace import stride_of

__all__ = ["FinerTrace", "Trace"]

_Event = TypeVar("_Event", Record, Step)

_MOMENTS = 200
_BATCH = 500


class Trace:
    """Moments of an experiment, evenly spaced in results, while its log grows.

    Parameters
    ----------
    problem : Problem
        The problem; the more actions it has, the fewer moments are kept.

    Attributes
    ----------
    moments : list of Progress
        The moments, in order.
    stride : int
        Number of results from one moment to the next: a power of two.
    """

    def __init__(self, problem: Problem) -> None:
        self._most = moments_of(problem.n_actions, _MOMENTS)
        self.stride = 1
        self.moments: list[Progress] = []

    def parts(self, records: Sequence[Record], told: int) -> Iterator[Sequence[Record]]:
        """Yield events in parts; each ends where a moment is due, the last with the events."""
        return _parts(records, told, lambda: self.stride)

    def note(self, replica: Replica) -> None:
        """Keep the moment if it is due; if there are too many, keep every other one."""
        if not _is_due(replica, self.stride, self.moments):
            return
        self.moments.append(_moment(replica))
        if (stride := stride_of(replica.policy.told, self._most)) > self.stride:
            self.stride = stride
            self.moments = [one for one in self.moments if one.told % self.stride == 0]

    def stride_of(self, results: int) -> int:
        """Return the stride at which that many results have as many moments as the whole may."""
        return stride_of(results - 1, self._most)


class FinerTrace:
    """More moments of a part of an experiment, replayed from a state before it.

    Parameters
    ----------
    replica : Replica
        A replica with fewer than `begin` results, or a fresh one.
    begin : int
        Number of results at the first moment: a multiple of `stride`.
    stride : int
        Number of results from one moment to the next.

    Attributes
    ----------
    moments : list of Progress
        The moments, in order.
    """

    def __init__(self, replica: Replica, begin: int, stride: int) -> None:
        self._replica = replica
        self._begin = begin
        self._stride = stride
        self.moments: list[Progress] = []
        self._note()

    def reaches(self, last: int) -> bool:
        """Return whether the part has been replayed up to that many results."""
        return last < self._begin or (bool(self.moments) and self.moments[-1].told >= last)

    def advance(self, session: Session, until: int, last: int, seconds: float) -> None:
        """Replay up to `last` results and event `until`, for about that many seconds at most."""
        deadline = time.monotonic() + seconds
        steps = session.store.steps(session.id, self._replica.seq, until)
        while not self.reaches(last) and (batch := list(islice(steps, _BATCH))):
            for part in _parts(batch, self._replica.policy.told, lambda: self._stride):
                if self.reaches(last):
                    return
                self._replica.replay(part)
                self._note()
                # Computing a policy's progress can take milliseconds each time.
                if time.monotonic() > deadline:
                    return

    def _note(self) -> None:
        told = self._replica.policy.told
        if told >= self._begin and _is_due(self._replica, self._stride, self.moments):
            self.moments.append(_moment(self._replica))


def _parts(
    events: Sequence[_Event], told: int, stride: Callable[[], int]
) -> Iterator[Sequence[_Event]]:
    """Yield events in parts that end with each result whose number is a multiple of the stride."""
    begin = 0
    for place, event in enumerate(events, start=1):
        # A store returns steps as plain tuples; the kind is the second field of both types.
        if event[1] in TELLS:
            told += 1
            if told % stride() == 0:
                yield events[begin:place]
                begin = place
    yield events[begin:]


def _is_due(replica: Replica, stride: int, moments: Sequence[Progress]) -> bool:
    told = replica.policy.told
    return told % stride == 0 and told != (moments[-1].told if moments else -1)


def _moment(replica: Replica) -> Progress:
    # Effects are not needed later, and their function would keep the policy in memory.
    return replace(replica.progress(), find_effects=tuple)
