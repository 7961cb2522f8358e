"""The progress of an experiment at earlier times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fairtrial.core import Policy, Progress
from fairtrial.study.log import TELLS, Step
from fairtrial.study.replica import Replica

__all__ = ["Moments", "stride_of", "trace"]


def stride_of(tells: int, points: int) -> int:
    """Return from one moment to the next how many results there are: a power of two.

    Powers of two let a page that follows a growing log drop every other moment, and still have
    the same moments as a report that reads the whole log.

    Parameters
    ----------
    tells : int
        Number of outcomes in the log.
    points : int
        Largest number of moments, from the start of the log, without its end.

    Returns
    -------
    int
        The stride.

    Examples
    --------
    >>> stride_of(199, 200), stride_of(200, 200), stride_of(1_974, 200)
    (1, 2, 16)
    """
    stride = 1
    while tells // stride + 1 > points:
        stride *= 2
    return stride


class Moments:
    """Notes the progress after every outcome or every 2nd, 4th, 8th..., while they are told.

    Parameters
    ----------
    replica : Replica
        The policy before the first outcome.
    tells : int
        Number of outcomes that will be told.
    points : int
        Largest number of moments, from the start of the log, without its end.
    """

    def __init__(self, replica: Replica, tells: int, points: int) -> None:
        self.points = points
        self._stops = _stops(tells, points)
        self._told = 0
        self._found = [replica.progress()] if 0 in self._stops else []

    def take(self, replica: Replica) -> None:
        """Note the progress after the next outcome, if it is one of the moments."""
        self._told += 1
        if self._told in self._stops:
            self._found.append(replica.progress())

    def until(self, end: Progress) -> list[Progress]:
        """Return all moments; the last one is the end of the log."""
        return [*self._found, end]


def trace(steps: Iterable[Step], policy: Policy, tells: int, points: int) -> list[Progress]:
    """Return the progress after every outcome or every 2nd, 4th, 8th..., and at the end.

    Parameters
    ----------
    steps : iterable of Step
        The whole log.
    policy : Policy
        A fresh policy.
    tells : int
        Number of outcomes in the log.
    points : int
        Largest number of moments, from the start of the log, without its end.
    """
    replica = Replica(policy)
    moments = []
    for part in _parts(steps, _stops(tells, points)):
        replica.replay(part)
        moments.append(replica.progress())
    return moments


def _stops(tells: int, points: int) -> set[int]:
    """Return the numbers of outcomes of the moments, without the end."""
    return set(range(0, tells, stride_of(tells, points)))


def _parts(steps: Iterable[Step], stops: set[int]) -> Iterator[list[Step]]:
    """Yield the log in parts: each ends with a requested outcome, the last with the log."""
    part: list[Step] = []
    told = 0
    if 0 in stops:
        yield part
    for step in steps:
        part.append(step)
        if step[1] in TELLS:
            told += 1
            if told in stops:
                yield part
                part = []
    yield part
