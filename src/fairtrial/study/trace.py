"""How far an experiment had come at earlier moments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from fairtrial.core import Policy, Progress
from fairtrial.study.log import TELLS, Step
from fairtrial.study.replica import Replica

__all__ = ["trace"]


def trace(steps: Iterable[Step], policy: Policy, tells: int, points: int) -> list[Progress]:
    """Return the progress after numbers of outcomes that are evenly spaced.

    Parameters
    ----------
    steps : iterable of Step
        The log.
    policy : Policy
        Fresh.
    tells : int
        Outcomes in the log.
    points : int
        Most moments wanted; the first is the start, the last the end of the log.
    """
    replica = Replica(policy)
    stops = {int(stop) for stop in np.linspace(0, tells, points).round()} - {tells}
    moments = []
    for part in _parts(steps, stops):
        replica.replay(part)
        moments.append(replica.progress())
    return moments


def _parts(steps: Iterable[Step], stops: set[int]) -> Iterator[list[Step]]:
    """Yield the log in parts: each ends with one of the wanted outcomes, the last with the log."""
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
