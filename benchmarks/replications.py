"""Cost of a simulation: replications of E1, on one core and on all cores."""

from __future__ import annotations

import os
from functools import partial

from benchmarks.measuring import heading, measure, show
from fairtrial import simulate
from fairtrial.subpopulations import BalancedTracking, BlockBetting, TrackAndStop
from papers.baics.instances import E1

REPLICATIONS = 300


def run(*, quick: bool) -> None:
    heading(f"{REPLICATIONS} replications of E1, delta .1", "s")
    policies = (
        BlockBetting(E1.problem, delta=0.1),
        BalancedTracking(E1.problem, delta=0.1),
        BalancedTracking(E1.problem, delta=0.1, stopping="stylised"),
        TrackAndStop(E1.problem, delta=0.1, stopping="stylised"),
    )
    cores = os.cpu_count() or 1
    for policy in policies[: 1 if quick else None]:
        simulate(policy, E1.environment, 2)
        name = f"{type(policy).__name__}, {getattr(policy, 'stopping', 'its own stop')}"
        for workers in sorted({1, cores}):
            work = partial(simulate, policy, E1.environment, REPLICATIONS, workers=workers)
            timing = measure(work, 2 if quick else 5)
            threads = "1 thread" if workers == 1 else f"{workers} threads"
            show(f"{name}, {threads}", timing, 1.0, "2" if workers == cores else "")
