"""Single runs of a scenario, from beginning to end: a fast, a typical and a slow one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairtrial.core import Policy, Progress
from fairtrial.core.keywords import named_arguments
from fairtrial.core.validation import check_instance, check_integer
from fairtrial.simulation.characteristics import Characteristics
from fairtrial.simulation.trace import trace

__all__ = ["ExampleRun", "example_runs"]

_POINTS = 60


@dataclass(frozen=True, eq=False)
class ExampleRun:
    """One run, seen step by step.

    Parameters
    ----------
    name : str
        ``"fast"``, ``"typical"`` or ``"slow"``.
    share : float
        The share of the runs that were at least as fast.
    replication : int
        The number of the run.
    trace : tuple of Progress
        Its progress at evenly spaced results, the last at its end.
    """

    name: str
    share: float
    replication: int
    trace: tuple[Progress, ...]


@named_arguments
def example_runs(policy: Policy, row: Characteristics, points: int = _POINTS) -> list[ExampleRun]:
    """Return a fast, a typical and a slow run: those at 5, 50 and 95 % of the stopping times.

    Parameters
    ----------
    policy : Policy
        The policy of the runs.
    row : Characteristics
        The scenario, and its runs.
    points : int
        The most moments of a run.

    Returns
    -------
    list of ExampleRun
        Fewer than three if there were fewer runs; none if results were drawn in blocks
        (`block_draws`), because such a run cannot be seen pull by pull.

    Raises
    ------
    InvalidArgument
        If an argument is not acceptable.
    """
    check_instance("policy", policy, Policy)
    found = check_instance("row", row, Characteristics).simulation
    points = check_integer("points", points, low=2)
    if np.any(found.metrics.get("block_draws", 0.0)):
        return []
    order = np.argsort(found.stopping_time, kind="stable")
    places: dict[int, tuple[str, float]] = {}
    for name, share in (("typical", 0.5), ("fast", 0.05), ("slow", 0.95)):
        place = int(order[round(share * (order.size - 1))])
        places.setdefault(place, (name, share))
    runs = [
        ExampleRun(name, share, index, tuple(_trace(policy, row, index, points)))
        for index, (name, share) in places.items()
    ]
    return sorted(runs, key=lambda run: run.share)


def _trace(policy: Policy, row: Characteristics, index: int, points: int) -> list[Progress]:
    found = row.simulation
    return trace(
        policy,
        row.environment,
        found.seed,
        found.horizon,
        points,
        found.parallel,
        replication=index,
    )
