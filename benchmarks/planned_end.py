"""Power at the same maximum, with and without a planned end.

Two arms with normal noise of standard deviation 1. The maximum is what one test after all pulls
needs for a power of .9 at a difference of .25.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairtrial import simulate
from fairtrial.subpopulations import BlockBetting, GaussianEnvironment, Problem

MAXIMA = {0.025: 673, 0.05: 549}
"""Most pulls by delta, the probability of an error in each direction."""

GAPS = (0.25, 0.5, 0.0)

RULES: dict[str, dict[str, Any]] = {
    "no planned end": {},
    "planned end": {"planned_end": True},
    "planned end, normal noise": {"planned_end": True, "noise": "normal"},
}


def run(*, quick: bool) -> None:
    """Print how often each rule decides, after how many pulls, and how often wrongly in a tie."""
    runs = 100 if quick else 3_000
    problem = Problem(2, 1, floors=None, noise_std=1.0)
    print(f"\ntwo arms, {runs} runs: share decided (standard error), mean pulls (standard error)")
    for delta, most in MAXIMA.items():
        for said, rule in RULES.items():
            policy = BlockBetting(problem, delta, max_pulls=most, **rule)
            print(f"delta {delta}, at most {most} pulls, {said}")
            for gap in GAPS:
                environment = GaussianEnvironment(problem, [[gap], [0.0]])
                found = simulate(policy, environment, runs, seed=3, progress=False)
                power, times = found.decided.mean(), found.stopping_time
                error = np.sqrt(power * (1.0 - power) / runs)
                print(f"{gap:>8}: {power:.3f} ({error:.3f})", end=", ")
                print(f"{times.mean():.0f} ({times.std() / np.sqrt(runs):.1f})", flush=True)
