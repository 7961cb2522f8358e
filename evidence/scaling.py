"""How much faster replications are with more workers: threads, and the processes of Dask."""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import fairtrial as ft

__all__ = ["SCALINGS", "Scaling", "measure_scaling", "on_paper"]

_EMPTY_TASKS = 300
"""Tasks that do nothing: what one costs is what its bookkeeping costs."""
_PILOT = 20


@dataclass(frozen=True)
class Scaling:
    """A kind of workers.

    Parameters
    ----------
    name : str
        What the workers are.
    workers : tuple of int
        Their numbers.
    opened : callable
        ``opened(workers)`` is a context manager that yields their executor, or None for threads,
        and a function that makes all workers ready and returns their processor seconds so far.
    """

    name: str
    workers: tuple[int, ...]
    opened: Callable[[int], AbstractContextManager[tuple[Executor | None, Callable[[], float]]]]


def _simulated(replications: int, **options: Any) -> None:
    from papers.baics.instances import NONE_FEASIBLE

    policy = ft.subpopulations.BlockBetting(NONE_FEASIBLE.problem, delta=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ft.simulate(policy, NONE_FEASIBLE.environment, replications, progress=False, **options)


def _ready() -> float:
    """Load the machine code in this process; return its processor seconds so far."""
    _simulated(1, workers=1)
    return time.process_time()


def _nothing(number: int) -> int:
    return number


def _threads(workers: int) -> AbstractContextManager[tuple[None, Callable[[], float]]]:
    return nullcontext((None, lambda: 0.0))


@contextmanager
def _dask(workers: int) -> Iterator[tuple[Executor, Callable[[], float]]]:
    distributed: Any = import_module("distributed")  # its classes have no types
    with (
        tempfile.TemporaryDirectory() as folder,
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            local_directory=folder,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client.get_executor(), lambda: sum(client.run(_ready).values())


SCALINGS: dict[str, Scaling] = {
    "threads": Scaling("threads of one process", (1, 2, 4, 8), _threads),
    "dask": Scaling("Dask, processes", (1, 2, 4, 8), _dask),
}
"""The kinds of workers, by name."""


def measure_scaling(
    name: str, skip: set[str], effort: float, seed: int
) -> Iterator[dict[str, Any]]:
    """Yield time and efficiency for each number of workers that this machine has cores for."""
    scaling = SCALINGS[name]
    for workers in scaling.workers:
        if str(workers) in skip:
            continue
        if workers > (os.cpu_count() or 1):
            yield {"case": str(workers), "missing": f"this machine has {os.cpu_count()} cores"}
            continue
        yield {"case": str(workers), **_figures(scaling, workers, effort, seed)}


def _figures(scaling: Scaling, workers: int, effort: float, seed: int) -> dict[str, Any]:
    _ready()
    _, each = _timed(partial(_simulated, _PILOT, seed=seed, workers=1))
    replications = max(int(2.0 * effort / (each / _PILOT)), _PILOT)
    alone, alone_processor = _timed(partial(_simulated, replications, seed=seed, workers=1))
    with scaling.opened(workers) as (executor, processor_of_workers):
        before = processor_of_workers()
        run = partial(_simulated, replications, seed=seed, workers=workers, executor=executor)
        seconds, processor = _timed(run)
        processor += processor_of_workers() - before
        task = 0.0
        if executor is not None:
            _, tasks = _timed(lambda: list(executor.map(_nothing, range(_EMPTY_TASKS))))
            task = tasks / _EMPTY_TASKS
    return {
        "replications": replications,
        "alone_seconds": alone,
        "seconds": seconds,
        "efficiency": alone / (workers * seconds),
        "alone_processor_seconds": alone_processor,
        "processor_seconds": processor,
        "task_seconds": task,
    }


def _timed(run: Callable[[], object]) -> tuple[float, float]:
    """Return wall time and processor time of a call, the latter without other processes."""
    started, processor = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - started, time.process_time() - processor


def on_paper(work: float, workers: int, task: float, chunks: int = 8) -> float:
    """Return the efficiency of that many workers by a simple model.

    Each worker gets `chunks` tasks. The slowest worker ends one task after the others, and all
    tasks pass through one scheduler, which works before the workers in the worst case.

    Parameters
    ----------
    work : float
        Processor seconds of all replications.
    workers : int
        Number of workers.
    task : float
        Seconds that the scheduler takes for a task.
    chunks : int
        Tasks for each worker.

    Examples
    --------
    >>> round(on_paper(3_600.0, 1_000, 0.001), 2)
    0.3
    """
    share = work / workers
    waiting = (1 - 1 / workers) * share / chunks
    return share / (share + waiting + chunks * workers * task)
