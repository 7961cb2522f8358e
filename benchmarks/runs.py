"""Cost of a complete simulated run, from a new policy to its answer."""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.measuring import heading, measure, show
from fairtrial import Policy
from fairtrial.subpopulations import (
    BalancedTracking,
    BernoulliEnvironment,
    BlockBetting,
    GaussianEnvironment,
    Problem,
)
from fairtrial.subpopulations.environments import CellEnvironment
from papers.baics.instances import CLICKS, E1, E2, NONE_FEASIBLE, TRAP, trial

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
        template = policy(instance.problem, delta=delta)
        work = partial(_play, template, instance.environment)
        pulls = work() / RUNS
        timing = measure(work, 3 if quick else 7).per(RUNS)
        what = f"{policy.__name__}, {instance.name}, {delta:g} ({pulls:,.0f})"
        show(what, timing, 1e3, target)
    print("(delta, and the mean number of pulls)")
    heading("a simulated pull, ten arms without groups or floors, delta .1", "us")
    for what, environment in _plain_arms().items():
        work = partial(_play, BlockBetting(environment.problem, delta=0.1), environment)
        pulls = work()
        timing = measure(work, 3 if quick else 7).per(pulls)
        show(f"BlockBetting, {what} ({pulls / RUNS:,.0f})", timing, 1e6, "2")


def _plain_arms() -> dict[str, CellEnvironment]:
    known = Problem(10, 1, floors=None, noise_std=1.0)
    bounded = Problem(10, 1, floors=None, reward_range=(0, 1))
    return {
        "normal noise, .5 and nine 0": GaussianEnvironment(known, [[0.5]] + [[0.0]] * 9),
        "coins, .7 and nine .5": BernoulliEnvironment(bounded, [[0.7]] + [[0.5]] * 9),
    }


def _play(template: Policy, environment: CellEnvironment) -> int:
    """Play the same runs each time; return their pulls."""
    pulls = 0
    for seed in range(RUNS):
        generator = np.random.default_rng(seed)
        made = template.clone().compiled_run(environment, generator, MOST_PULLS)
        assert made is not None
        pulls += made.stopping_time
    return pulls
