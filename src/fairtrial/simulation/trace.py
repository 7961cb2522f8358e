"""One run, observed while it proceeds."""

from __future__ import annotations

import numpy as np

from fairtrial.core import Environment, Policy, Progress, run_policy
from fairtrial.core.keywords import named_arguments
from fairtrial.core.seeds import as_seed
from fairtrial.core.validation import check_integer
from fairtrial.errors import InvalidArgument
from fairtrial.simulation._replications import Task, run_of, start
from fairtrial.simulation.replicate import check_pair

__all__ = ["trace"]


@named_arguments
def trace(
    policy: Policy,
    environment: Environment,
    seed: int | np.random.Generator | None = 0,
    horizon: int | None = None,
    points: int = 200,
    parallel: int = 1,
    replication: int = 0,
) -> list[Progress]:
    """Return a policy's progress at evenly spaced results of one run.

    The run is the given replication of `simulate` with the same arguments. It is done twice: first
    compiled, if possible, to learn its length; then step by step, to observe it. Pulls that are in
    flight when the policy stops are open at its end.

    Parameters
    ----------
    policy : Policy
        A template: the run uses a fresh clone.
    environment : Environment
        The environment that answers the pulls, made for the same problem.
    seed : int, numpy.random.Generator or None
        Source of all randomness.
    horizon : int, optional
        Most pulls; needed if the policy never stops by itself.
    points : int
        The most moments; the first is before any result, the last at the end.
    parallel : int
        Most pulls in flight at once.
    replication : int
        The number of the run.

    Raises
    ------
    InvalidArgument
        If an argument is not acceptable, or the run draws the results of a block in one step
        (`block_draws`): nobody can then see it pull by pull.
    """
    check_pair(policy, environment)
    points = check_integer("points", points, low=2)
    number = as_seed(seed)
    index = check_integer("replication", replication, low=0)

    task = Task(policy, environment, number, horizon, parallel, "auto")
    run = run_of(task, index)
    if run.metrics.get("block_draws"):
        accepted = "must have block_draws=False, because the results of a block have no order"
        raise InvalidArgument("policy", accepted, policy)
    length = run.stopping_time
    marks = set(np.linspace(0, length, points).round().astype(int).tolist()) - {length}

    fresh, generator = start(policy, number, index)
    looks = [fresh.progress()]
    end: list[Progress] = []

    def look(running: Policy) -> None:
        if running.stopped:
            # A simulated run cancels what is then in flight; a study still gets these results.
            end.append(running.progress())
        elif running.told in marks:
            looks.append(running.progress())

    run_policy(fresh, environment, generator, horizon, parallel, watch=look)
    return [*looks, *(end or [fresh.progress()])]
