"""What a whole simulated run costs, from a fresh policy to its answer."""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.measuring import heading, measure, show
from fairtrial import Policy
from fairtrial.subpopulations import BalancedTracking, BlockBetting
from papers.baics.instances import CLICKS, E1, E2, NONE_FEASIBLE, TRAP, Instance, trial

RUNS = 20
MOST_PULLS = 20_000


def run(*, quick: bool) -> None:
    cases = [(BlockBetting, E1, 0.1, "5"), (BalancedTracking, E1, 0.1, "")]
    if not quick:
        cases += [(BlockBetting, E1, 0.01, ""), (BlockBetting, E2, 0.1, "")]
        cases += [(BlockBetting, NONE_FEASIBLE, 0.1, ""), (BlockBetting, TRAP, 0.1, "")]
        cases += [(BlockBetting, trial("cd4", 0.0), 0.05, ""), (BlockBetting, CLICKS, 0.05, "")]
    heading("a simulated run", "ms")
    for policy, instance, delta, target in cases:
        work = partial(_play, policy(instance.problem, delta=delta), instance)
        pulls = work() / RUNS
        timing = measure(work, 3 if quick else 7).per(RUNS)
        what = f"{policy.__name__}, {instance.name}, {delta:g} ({pulls:,.0f})"
        show(what, timing, 1e3, target)
    print("(delta, and the mean number of pulls)")


def _play(template: Policy, instance: Instance) -> int:
    """Play the same runs each time; return their pulls."""
    pulls = 0
    for seed in range(RUNS):
        generator = np.random.default_rng(seed)
        made = template.clone().compiled_run(instance.environment, generator, MOST_PULLS)
        assert made is not None
        pulls += made.stopping_time
    return pulls
