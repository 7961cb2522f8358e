"""How fast simulations of block betting are: runs a second, pull by pull and block by block.

Cases are measured in turns, so that another load of the machine slows all of them alike; the ratio
to the first case is then what remains comparable. Runs a second are per second of processor time of
one thread. The last table compares one thread with all cores in wall time, on a quiet machine.
"""

from __future__ import annotations

import os
import time
from functools import partial
from statistics import median

from fairtrial import simulate
from fairtrial.simulation import Simulation
from fairtrial.subpopulations import (
    BernoulliEnvironment,
    BlockBetting,
    GaussianEnvironment,
    Problem,
)
from fairtrial.subpopulations.environments import CellEnvironment
from papers.baics.instances import E1, trial

Case = tuple[BlockBetting, CellEnvironment, int, str]


def run(*, quick: bool) -> None:
    cases = _cases()
    for policy, environment, _, _ in cases.values():
        simulate(policy, environment, 1, progress=False)
    rates: dict[str, list[float]] = {name: [] for name in cases}
    pulls: dict[str, float] = {}
    for _ in range(3 if quick else 9):
        for name, (policy, environment, number, _) in cases.items():
            number = max(2, number // 4) if quick else number
            work = partial(simulate, policy, environment, number, workers=1, progress=False)
            start = time.process_time()
            found: Simulation = work()
            rates[name].append(number / (time.process_time() - start))
            pulls[name] = float(found.stopping_time.mean())
    titles = ("runs/s best", "median", "ratio", "pulls a run", "us a pull", "target")
    print(f"\n{'one thread':<42}" + "".join(f"{title:>13}" for title in titles), flush=True)
    first = median(next(iter(rates.values())))
    for name, (_, _, _, target) in cases.items():
        best, middle = max(rates[name]), median(rates[name])
        print(
            f"{name:<42}{best:13,.1f}{middle:13,.1f}{middle / first:13.2f}"
            f"{pulls[name]:13,.0f}{1e6 / best / pulls[name]:13.3f}{target:>13}",
            flush=True,
        )
    _compare_threads(cases["ten plain arms, block draws"], quick)


def _cases() -> dict[str, Case]:
    """Return policy, environment, number of runs and target by name."""
    plain = Problem(10, 1, floors=None, noise_std=1.0)
    ten = GaussianEnvironment(plain, [[0.5]] + [[0.0]] * 9)
    rates = Problem(2, 1, floors=None, reward_range=(0, 1))
    visits = BernoulliEnvironment(rates, [[0.04], [0.045]])
    patients = trial("cd4", 0.0)
    found: dict[str, Case] = {}
    for block_draws, how in ((False, "pull by pull"), (True, "block draws")):
        make = partial(BlockBetting, block_draws=block_draws)
        fast = ("2,500 runs/s", "400 runs/s", "3 us a pull", ".4 s a run")
        targets = fast if block_draws else ("", "", "", "")
        sizes = (1000, 300, 40, 4)
        environments = {
            "ten plain arms": (make(plain, delta=0.05), ten),
            "E1": (make(E1.problem, delta=0.1), E1.environment),
            "ACTG 175, floors and a range": (
                make(patients.problem, delta=0.05),
                patients.environment,
            ),
            "conversion of 4 %": (make(rates, delta=0.05), visits),
        }
        for (name, pair), size, target in zip(environments.items(), sizes, targets, strict=True):
            found[f"{name}, {how}"] = (*pair, size, target)
    return found


def _compare_threads(case: Case, quick: bool) -> None:
    policy, environment, number, _ = case
    cores = os.cpu_count() or 1
    # Long enough that starting the threads does not count.
    number *= 5 if quick else 25
    print(f"\n{'ten plain arms, block draws':<42}{'wall s':>13}{'cpu s':>13}{'ratio':>13}")
    alone = 0.0
    for workers in sorted({1, cores}):
        wall, cpu = [], []
        for _ in range(3):
            start, start_cpu = time.perf_counter(), time.process_time()
            simulate(policy, environment, number, workers=workers, progress=False)
            wall.append(time.perf_counter() - start)
            cpu.append(time.process_time() - start_cpu)
        alone = alone or min(wall)
        threads = "1 thread" if workers == 1 else f"{workers} threads"
        print(f"{threads:<42}{min(wall):13.2f}{min(cpu):13.2f}{alone / min(wall):13.2f}")
