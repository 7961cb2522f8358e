"""Cost of a reward range that is wider than necessary: two arms, sd 4, gap 5."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from fairtrial.subpopulations import BlockBetting, GaussianEnvironment, Problem, ReplayEnvironment

MEANS, STD, DELTA = (0.0, 5.0), 4.0, 0.05
ROWS = 400


def run(*, quick: bool) -> None:
    runs = 40 if quick else 300
    print(f"\nresults until the stop, two arms, sd {STD:g}, gap 5, delta {DELTA} (mean, sd of it)")
    known = Problem(["a", "b"], 1, floors=None, noise_std=STD)
    _line("noise_std=4", GaussianEnvironment(known, np.transpose([MEANS])), runs)
    for width in (40, 100, 300, 1000):
        problem = Problem(["a", "b"], 1, floors=None, reward_range=(-width / 2, width / 2))
        normal = NormalDist(0.0, STD)
        # Within 13 of the mean, so that every range contains them.
        rows = [normal.inv_cdf((rank + 0.5) / ROWS) for rank in range(ROWS)]
        table = {
            "arm": ["a"] * ROWS + ["b"] * ROWS,
            "group": ["0"] * (2 * ROWS),
            "reward": [mean + row for mean in MEANS for row in rows],
        }
        terms = f"{8 * STD**2 / 5**2:.1f}, {4 * width / 5:.0f} a unit"
        _line(f"range {width}  ({terms})", ReplayEnvironment(problem, table), runs)

    print("one arm, 5 above or below its floor, by the floor's position in a range of width 300")
    for low in (-150, -20):
        problem = Problem(["a"], 1, floors=0.0, reward_range=(low, low + 300))
        for mean in (5.0, -5.0):
            rows = [mean + STD * (-1) ** place for place in range(ROWS)]
            table = {"arm": ["a"] * ROWS, "group": ["0"] * ROWS, "reward": rows}
            _line(
                f"from {low}, mean {mean:g}  (120 a unit)", ReplayEnvironment(problem, table), runs
            )


def _line(name: str, environment: object, runs: int) -> None:
    template = BlockBetting(environment.problem, delta=DELTA)
    pulls = []
    for seed in range(runs):
        policy = template.clone()
        policy.compiled_run(environment, np.random.default_rng(seed), 200_000)
        pulls.append(policy.told)
    error = np.std(pulls) / np.sqrt(runs)
    print(f"{name:<28}{np.mean(pulls):>9.0f}{error:>8.1f}", flush=True)
