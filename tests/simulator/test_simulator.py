"""Many simulations; and faults that are put into the code, which they must find."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import effort
from tests.simulator.faults_of_our_own import FAULTS
from tests.simulator.scheduler import Killed, Process, Scheduler, Stuck
from tests.simulator.simulation import Failed, run
from tests.simulator.standard_library import StandardLibrary

ROOT = Path(__file__).parent.parent.parent
BATCH = 25
SEEDS_TO_FIND_A_FAULT = 40


def pytest_generate_tests(metafunc):
    if "seeds" not in metafunc.fixturenames:
        return
    seed = metafunc.config.getoption("--seed")
    if seed is not None:
        metafunc.parametrize("seeds", [range(seed, seed + 1)], ids=[str(seed)])
        return
    number = effort.runs(45, whole=5_000)
    batches = [range(first, first + BATCH) for first in range(0, number, BATCH)]
    metafunc.parametrize("seeds", batches, ids=[f"from {batch.start}" for batch in batches])


def test_whatever_goes_wrong_nothing_is_lost_doubled_or_out_of_order(seeds):
    run_all(seeds)


def run_all(seeds):
    for seed in seeds:
        run(seed)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_the_code_is_found_within_40_seeds(name):
    with FAULTS[name](), pytest.raises(Failed, match=r"--seed \d+"):
        run_all(range(SEEDS_TO_FIND_A_FAULT))


def traces(first, last, hash_seed):
    """Return the steps of a simulation in another process."""
    script = (
        "from tests.simulator.simulation import run\n"
        f"for seed in range({first}, {last}): print(*run(seed).scheduler.trace, sep='\\n')"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, check=True, cwd=ROOT
    )
    return done.stdout.decode().splitlines()


def test_a_seed_gives_the_same_steps_in_every_process():
    last = effort.runs(2, whole=100)
    here = [line for seed in reversed(range(last)) for line in reversed(run(seed).scheduler.trace)]
    assert here[::-1] == traces(0, last, "1")


# ------------------------------------------------------------------------- the scheduler


def test_tasks_that_wait_for_each_other_are_found():
    scheduler = Scheduler(0)
    threading = StandardLibrary(scheduler).threading
    one, two = threading.Lock(), threading.Lock()
    order = []

    def take(first, second):
        with first:
            scheduler.sleep(1.0)
            with second:
                order.append(scheduler.current)

    process = Process("both")
    scheduler.spawn(process, "a", lambda: take(one, two))
    scheduler.spawn(process, "b", lambda: take(two, one))
    with pytest.raises(Stuck, match="wait for each other"):
        scheduler.run(lambda: len(order) == 2)
    scheduler.end()


def test_tasks_that_never_end_are_found():
    scheduler = Scheduler(0, most_steps=100)

    def turn():
        while True:
            scheduler.pause()

    scheduler.spawn(Process("wheel"), "turn", turn)
    with pytest.raises(Stuck, match="no end"):
        scheduler.run(lambda: False)
    scheduler.end()


def test_a_lock_of_a_process_that_is_killed_goes_to_the_next():
    scheduler = Scheduler(0)
    lock = StandardLibrary(scheduler).threading.RLock()
    first, second, done = Process("first"), Process("second"), []

    def hold():
        with lock:
            scheduler.sleep(100.0)

    def follow():
        with lock:
            done.append(scheduler.seconds)

    scheduler.spawn(first, "holds", hold)
    scheduler.run(lambda: lock._count > 0)
    scheduler.spawn(first, "waits", follow)
    scheduler.spawn(second, "waits", follow)
    scheduler.spawn(second, "kills", lambda: scheduler.kill(first))
    scheduler.run(lambda: bool(done))
    scheduler.end()
    assert len(done) == 1
    assert done[0] < 1.0


def test_whoever_waits_with_a_condition_holds_its_lock_again_when_killed():
    scheduler = Scheduler(0)
    threading = StandardLibrary(scheduler).threading
    condition = threading.Condition()
    process, caught = Process("one"), []

    def wait():
        with condition:
            try:
                condition.wait(50.0)
            except Killed:
                caught.append(condition._lock._count)
                raise

    def hold():
        with condition:
            scheduler.kill(process)
            scheduler.sleep(1.0)

    scheduler.spawn(process, "waits", wait)
    scheduler.run(lambda: bool(condition._waiting))
    scheduler.spawn(Process("two"), "holds", hold)
    scheduler.run(lambda: not scheduler.alive())
    assert caught == [1]
    assert condition._lock._count == 0


def test_an_error_in_a_task_ends_the_run():
    scheduler = Scheduler(0)

    def fail():
        raise ValueError("nobody expected this")

    scheduler.spawn(Process("one"), "fails", fail)
    with pytest.raises(ValueError, match="nobody expected"):
        scheduler.run(lambda: False)
