"""The progress of an experiment at earlier times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from fairtrial.core import Policy, Progress
from fairtrial.study.log import TELLS, Step
from fairtrial.study.replica import Replica

__all__ = ["trace"]


def trace(steps: Iterable[Step], policy: Policy, tells: int, points: int) -> list[Progress]:
    """Return the progress at evenly spaced numbers of outcomes.

    Parameters
    ----------
    steps : iterable of Step
        The whole log.
    policy : Policy
        A fresh policy.
    tells : int
        Number of outcomes in the log.
    points : int
        Largest number of times; the first is the start of the log, the last its end.
    """
    replica = Replica(policy)
    stops = {int(stop) for stop in np.linspace(0, tells, points).round()} - {tells}
    moments = []
    for part in _parts(steps, stops):
        replica.replay(part)
        moments.append(replica.progress())
    return moments


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
