"""The work of one worker: replications of a task, each from its own two seeds."""

from __future__ import annotations

import importlib
import math
import pickle
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from fairtrial.core import Environment, Policy, Run, run_policy
from fairtrial.core.claims import arms_within_limits, is_gain
from fairtrial.core.numpy_streams import can_reseed, stream_of
from fairtrial.core.runs import Runs
from fairtrial.core.streams import streams_of

__all__ = ["Engine", "Task", "pack", "replicate", "run_of", "start"]

Engine = Literal["auto", "python"]


@dataclass(frozen=True, slots=True)
class Task:
    """What is replicated; every worker gets a copy.

    Threads share `stop`: when it is set, they begin no more runs.
    """

    policy: Policy
    environment: Environment
    seed: int
    horizon: int | None
    parallel: int
    engine: Engine
    estimates: bool = False
    stop: threading.Event | None = None


def pack(task: Task) -> bytes:
    """Return a task as bytes, for other processes.

    A worker unpacks it inside `replicate`. If this were left to the executor, a class that the
    worker cannot import would break a pool of processes, and make Dask wait forever.
    """
    try:
        # It comes with Dask, and can also pack objects defined in a notebook.
        packer = importlib.import_module("cloudpickle")
    except ImportError:
        packer = pickle
    packed: bytes = packer.dumps(task)
    return packed


def replicate(task: Task | bytes, first: int, number: int) -> Runs:
    """Return replications ``first .. first + number - 1`` of a task."""
    if isinstance(task, bytes):
        task = pickle.loads(task)  # noqa: S301 - packed by the process that asks
        assert isinstance(task, Task)
    found = None
    if task.engine == "auto" and not task.estimates and can_reseed():
        streams = streams_of(task.seed, first, number)
        found = task.policy.compiled_runs(task.environment, streams, task.horizon, task.parallel)
    if found is None:
        found = Runs.of(list(_runs(task, range(first, first + number))))
    return found


def _runs(task: Task, indices: Iterable[int]) -> Iterator[Run]:
    for index in indices:
        if task.stop is not None and task.stop.is_set():
            raise CancelledError
        yield run_of(task, index)


def start(template: Policy, seed: int, index: int) -> tuple[Policy, np.random.Generator]:
    """Return a fresh policy for one replication, and the randomness of its environment.

    Both depend only on the seed and the replication's number: not on the worker, the size of the
    chunks, or the engine.
    """
    generator, own_seed = stream_of(seed, index)
    return template.clone(seed=own_seed), generator


def run_of(task: Task, index: int) -> Run:
    """Return one replication of a task."""
    policy, generator = start(task.policy, task.seed, index)
    run = None
    # Compiled runs do not keep the blocks from which differences from a control are computed.
    needs_blocks = task.estimates and policy.problem.get_params().get("control") is not None
    if task.engine == "auto" and not needs_blocks:
        run = policy.compiled_run(task.environment, generator, task.horizon, task.parallel)
    if run is None:
        run = run_policy(policy, task.environment, generator, task.horizon, task.parallel)
    return _with_claims(_with_estimate(run, policy), policy) if task.estimates else run


def _with_claims(run: Run, policy: Policy) -> Run:
    """Return the run with the arms that are shown to be better than the problem's control."""
    control = policy.problem.get_params().get("control")
    progress = policy.progress()
    effects = [one for one in progress.effects if one.group is None]
    if control is None or not effects:
        return run
    minimize = policy.problem.direction == "minimize"
    shown = {one.arm for one in effects if one.reference == control and is_gain(one, minimize)}
    arms = dict.fromkeys(labels["arm"] for labels in policy.problem.action_labels)
    kept = arms_within_limits(progress)
    return replace(
        run,
        better=tuple(arm in shown for arm in arms),
        within_limits=tuple(kept.get(str(arm), True) for arm in arms) if kept else (),
    )


def _with_estimate(run: Run, policy: Policy) -> Run:
    """Return the run with the policy's estimate of the mean of its answer."""
    answer = run.answer
    label = answer[0] if isinstance(answer, tuple) and len(answer) == 1 else answer
    if label is None or isinstance(label, tuple):
        return run
    arms = {arm.labels.get("arm"): arm for arm in policy.progress().arms}
    if label not in arms:
        return run
    arm, control = arms[label], policy.problem.get_params().get("control")
    base = arms[control].mean if control in arms and control != label else None
    mean, lower, upper, other = (
        math.nan if value is None else float(value)
        for value in (arm.mean, arm.lower, arm.upper, base)
    )
    return replace(run, estimate=mean, interval=(lower, upper), difference=mean - other)
