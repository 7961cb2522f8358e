"""What a whole simulated run of block betting costs."""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.measuring import heading, measure, show
from fairtrial.reproduce.baics.instances import CLICKS, E1, E2, NONE_FEASIBLE, TRAP, Instance, trial
from fairtrial.subpopulations import BlockBetting

RUNS = 20


def run(*, quick: bool) -> None:
    cases = [(E1, 0.1, "5"), (E1, 0.01, ""), (E2, 0.1, ""), (NONE_FEASIBLE, 0.1, "")]
    if not quick:
        cases += [(trial("cd4", 0.0), 0.05, ""), (CLICKS, 0.05, ""), (TRAP, 0.1, "")]
    heading("a run of BlockBetting", "ms")
    for instance, delta, target in cases:
        work = partial(_play, instance, delta)
        pulls = work() / RUNS
        timing = measure(work, 3 if quick else 7).per(RUNS)
        show(f"{instance.name}, delta {delta:g} ({pulls:,.0f} pulls)", timing, 1e3, target)


def _play(instance: Instance, delta: float) -> int:
    """Play the same runs each time; return their pulls."""
    template = BlockBetting(instance.problem, delta=delta)
    pulls = 0
    for seed in range(RUNS):
        made = template.clone().compiled_run(
            instance.environment, np.random.default_rng(seed), 20_000
        )
        assert made is not None
        pulls += made.stopping_time
    return pulls
