"""Many runs of one policy in one environment."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from fairtrial.core import Environment, Policy
from fairtrial.core.contract import check_members
from fairtrial.core.counting import counting
from fairtrial.core.keywords import named_arguments
from fairtrial.core.run import check_horizon
from fairtrial.core.runs import Runs
from fairtrial.core.seeds import as_seed
from fairtrial.core.validation import (
    check_choice,
    check_flag,
    check_instance,
    check_integer,
    check_number,
)
from fairtrial.errors import InvalidArgument
from fairtrial.simulation._replications import Engine, Task, pack, replicate
from fairtrial.simulation.results import Simulation

__all__ = ["check_pair", "simulate"]

_CHUNKS_PER_WORKER = 8


@named_arguments
def simulate(
    policy: Policy,
    environment: Environment,
    replications: int,
    seed: int | np.random.Generator | None = 0,
    horizon: int | None = None,
    executor: Executor | None = None,
    workers: int | None = None,
    parallel: int = 1,
    progress: bool | str = True,
    lower_bound: float | None = None,
    engine: Engine = "auto",
    chunk_size: int | None = None,
    estimates: bool = False,
) -> Simulation:
    """Run a policy many times in a simulated environment.

    Replication i draws all its randomness from stream i of `seed`. The results are the same
    for any executor, number of workers, size of the chunks, and engine.

    Parameters
    ----------
    policy : Policy
        A template: every replication runs a fresh clone with its own seed.
    environment : Environment
        The environment that answers the pulls, made for the same problem.
    replications : int
        Number of runs.
    seed : int, numpy.random.Generator or None
        Source of all randomness; None draws fresh entropy. The result holds the integer.
    horizon : int, optional
        Most pulls of one run; needed if the policy never stops by itself. If neither it nor the
        policy's `max_pulls` or `budget` is given, a run ends undecided after 1,000,000 pulls, and
        the summary says how many runs did.
    executor : concurrent.futures.Executor, optional
        Where the runs are computed: threads, processes, ``dask_client.get_executor()``. It is not
        closed. By default a pool of threads, in which compiled runs use all cores.
    workers : int, optional
        Number of threads; with an `executor`, its number of workers, which decides the size of
        the chunks. By default the number of cores.
    parallel : int
        Most pulls in flight at once within one run.
    progress : bool or str
        Show a progress bar on a terminal and in a notebook, otherwise a line on standard error
        every ten seconds. A text is shown as the name of these runs.
    lower_bound : float, optional
        The mean stopping time that no policy can beat, for the summary.
    engine : {"auto", "python"}
        ``"python"`` uses the plain ask-and-tell loop even if there is a compiled one.
    chunk_size : int, optional
        Number of runs that a worker does at a time.
    estimates : bool
        Whether to keep also, for every run, the estimated mean of the policy's answer.

    Raises
    ------
    InvalidArgument
        If an argument is not acceptable; then nothing has run.

    Examples
    --------
    Any policy will do, for example this one, which compares two arms after ten pulls:

    >>> from fairtrial.core import Environment, Policy, Problem, Recommendation, Truth
    >>> class Coins(Problem):
    ...     family = "coins"
    ...     action_labels = ({"arm": "left"}, {"arm": "right"})
    >>> class Flips(Environment):
    ...     problem = Coins()
    ...     truth = Truth("right", ("right",), np.array([0.4, 0.6]))
    ...     def sample(self, pull, generator):
    ...         return generator.random() < self.truth.means[pull.action]
    >>> class TenPulls(Policy):
    ...     def __init__(self, problem, seed=None):
    ...         super().__init__(problem, seed)
    ...         self.score = [0.0, 0.0]
    ...     def choose(self):
    ...         return self.asked % 2
    ...     def learn(self, pull, outcome):
    ...         self.score[pull.action] += outcome
    ...     @property
    ...     def stopped(self):
    ...         return self.told == 10
    ...     def recommend(self):
    ...         arm = "left" if self.score[0] > self.score[1] else "right"
    ...         return Recommendation(arm, "decided" if self.stopped else "running", leader=arm)
    >>> result = simulate(TenPulls(Coins()), Flips(), replications=50)
    >>> result.stopping_time.mean(), result.error_rate < 0.5
    (np.float64(10.0), True)
    """
    check_pair(policy, environment)
    replications = check_integer("replications", replications, low=1)
    longest = check_horizon(horizon, policy)
    if lower_bound is not None:
        lower_bound = check_number("lower_bound", lower_bound, low=0, open_low=True)
    check_choice("engine", engine, ["auto", "python"])
    task = Task(
        policy=policy.clone(),
        environment=environment,
        seed=as_seed(seed),
        horizon=None if longest == math.inf else int(longest),
        parallel=check_integer("parallel", parallel, low=1),
        engine=engine,
        estimates=check_flag("estimates", estimates),
    )
    threads = (os.cpu_count() or 1) if workers is None else check_integer("workers", workers, low=1)
    chunks = _chunks(replications, threads, chunk_size)
    started = time.perf_counter()
    with _counting(replications, progress) as advance, _opened(executor, threads) as pool:
        runs = Runs.joined(list(_in_order(pool, task, chunks, advance)))
    return Simulation.from_runs(
        runs,
        policy=task.policy,
        environment=environment,
        seed=task.seed,
        horizon=horizon,
        parallel=task.parallel,
        lower_bound=lower_bound,
        seconds=time.perf_counter() - started,
    )


def check_pair(policy: object, environment: object) -> None:
    """Require a policy and an environment for the same problem."""
    problem = check_instance("policy", policy, Policy).problem
    check_members(policy, Policy, "policy")
    answering = check_instance("environment", environment, Environment)
    check_members(answering, Environment, "environment")
    if answering.problem != problem:
        message = f"must be made for the policy's problem, {problem!r}"
        raise InvalidArgument("environment", message, environment)


def _chunks(replications: int, workers: int, size: int | None) -> list[tuple[int, int]]:
    """Return the first replication and the number of replications of every chunk."""
    if size is None:
        size = math.ceil(replications / (_CHUNKS_PER_WORKER * workers))
    size = check_integer("chunk_size", size, low=1)
    return [(first, min(size, replications - first)) for first in range(0, replications, size)]


@contextmanager
def _opened(executor: Executor | None, threads: int) -> Iterator[Executor]:
    """Yield the caller's executor, which stays open, or a pool that is closed at the end."""
    if executor is not None:
        if not callable(getattr(executor, "submit", None)):
            message = "must be a concurrent.futures.Executor, such as client.get_executor() of Dask"
            raise InvalidArgument("executor", message, executor)
        yield executor
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="fairtrial") as pool:
        yield pool


@contextmanager
def _counting(total: int, progress: bool | str) -> Iterator[Callable[[int], object]]:
    """Yield a function that adds a number of finished runs, and shows how many there are."""
    if not progress:
        yield _ignore
        return
    done, name = 0, progress if isinstance(progress, str) else ""

    def advance(number: int) -> None:
        nonlocal done
        done += number
        count(done, total)

    with counting(name, "replication", last=bool(name)) as count:
        count(done, total)
        yield advance


def _ignore(number: int) -> None:
    """Do nothing, because nothing is shown."""


def _in_order(
    executor: Executor,
    task: Task,
    chunks: Iterable[tuple[int, int]],
    advance: Callable[[int], object],
) -> Iterator[Runs]:
    """Yield the runs of all chunks, in order; if one fails, cancel the rest."""
    stop = threading.Event()
    in_threads = isinstance(executor, ThreadPoolExecutor)
    payload = replace(task, stop=stop) if in_threads else pack(task)
    futures: list[Future[Runs]] = [
        executor.submit(replicate, payload, first, number) for first, number in chunks
    ]
    try:
        for future in futures:
            runs = future.result()
            advance(len(runs))
            yield runs
    except BaseException:
        stop.set()
        for future in futures:
            future.cancel()
        raise
