"""Limits on linear arms: pulls, error rates and speed.

It measures the pulls of block betting if the best reaction must also work at a lower temperature,
next to the lower bound for all rules and an experiment of fixed size with a test for each limit; a
problem on which plans could get stuck; how often a right answer is ruled out if candidates are on
their limits, or a millionth beyond; and processor time per simulated pull, with and without limits.
"""

from __future__ import annotations

import time

import numpy as np

from fairtrial import simulate
from fairtrial.linear import (
    BernoulliEnvironment,
    BlockBetting,
    GaussianEnvironment,
    Problem,
    complexity,
)
from fairtrial.linear.fixed_design import fixed_design
from tests.linear.limited_instances import DOSES, HARD, cold, share_rejected

DELTA = 0.05
MOST_PULLS = 300_000


def run(*, quick: bool) -> None:
    """Print pulls, rejections of right answers, and times."""
    runs = 4 if quick else 200
    print(f"\ndelta {DELTA}, {runs} runs: mean pulls (standard error), median, 99 % over median")
    for name, environment in _instances().items():
        _cost(name, environment, runs)
    runs = 20 if quick else 2_000
    print(f"\nright answer ever ruled out at delta .1, {runs} runs of at most 2,000 pulls")
    for name in HARD:
        for kind in ("0 or 1", "normal"):
            share = share_rejected(name, runs, known_noise=kind == "normal")
            print(f"{name:>38}{kind:>8}{share:>9.2%}", flush=True)
    _times(quick=quick)


# ------------------------------------------------------------------------------- what it costs


def _instances() -> dict[str, GaussianEnvironment | BernoulliEnvironment]:
    """Return easy and hard problems with their truth."""
    rng = np.random.default_rng(5)
    many = rng.standard_normal((60, 6))
    other = many + 0.5 * rng.standard_normal((60, 6))
    theta = np.array([1.0, 0.5, -0.5, 0.3, 0.2, 0.0])
    floor = float(np.quantile(other @ theta, 0.7))
    second = {"limits": {"other": {"features": other, "floors": floor}}}
    lucky = {"features": np.eye(4), "candidates": [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]}
    hidden = {"limits": {"side": {"features": [[0, 0, 0, 1]] * 3, "floors": [0.01, None, None]}}}
    return {
        "three doses, cold": GaussianEnvironment(
            Problem(**DOSES, **cold(floors=0.4), noise_std=0.5), [0.2, 0.25, 0.1, 0.2]
        ),
        "three doses, cold, coins": BernoulliEnvironment(
            Problem(**DOSES, **cold(floors=0.4), reward_range=(0, 1)), [0.2, 0.25, 0.1, 0.2]
        ),
        "no dose will do": GaussianEnvironment(
            Problem(**DOSES, **cold(floors=0.6), noise_std=0.5), [0.2, 0.25, 0.1, 0.2]
        ),
        "margin in the cold": GaussianEnvironment(
            Problem(**DOSES, **cold(margin=0.05), control="none", noise_std=0.5),
            [0.5, -0.2, 0.0, 0.5],
        ),
        "superior to a control": GaussianEnvironment(
            Problem(np.eye(5), control="0", superiority=0.2, noise_std=1.0),
            [0.0, 0.7, 0.4, 0.1, -0.3],
        ),
        "eight arms, floors": GaussianEnvironment(
            Problem(np.eye(8), floors=0.0, noise_std=1.0),
            [0.5, 0.2, 0.2, 0.1, -0.4, -0.4, -0.5, -0.6],
        ),
        "60 candidates in 6 dimensions": GaussianEnvironment(
            Problem(many, noise_std=1.0, **second), theta
        ),
        "a rival short by .01 and worse": GaussianEnvironment(
            Problem(**lucky, noise_std=0.3, **hidden), [0.3, 0.5, 0.1, 0.0]
        ),
    }


def _cost(name: str, environment: GaussianEnvironment | BernoulliEnvironment, runs: int) -> None:
    policy = BlockBetting(environment.problem, delta=DELTA)
    found = simulate(policy, environment, runs, seed=1, horizon=MOST_PULLS, progress=False)
    times = found.stopping_time
    needed = complexity(environment)
    size = fixed_design(environment)
    fixed = None if size is None else size.size(DELTA, 0.9)
    ratio = times.mean() / (needed.value * np.log(1.0 / DELTA))
    tail = np.quantile(times, 0.99) / np.median(times)
    print(
        f"{name:>34}: {times.mean():>8,.0f} ({times.std() / np.sqrt(runs):,.0f}), "
        f"{np.median(times):,.0f}, {tail:.1f}; {ratio:.2f} T* ln(1/delta); answer "
        f"{environment.truth.best}, {found.error_rate:.1%} wrong, "
        f"{found.undecided_rate:.1%} undecided; tests with power .9: {fixed:,}",
        flush=True,
    )


# -------------------------------------------------------------------------------------- speed


def _times(*, quick: bool) -> None:
    pulls = 2_000 if quick else 20_000
    print(f"\nmicroseconds of CPU time per simulated pull, {pulls:,} pulls without a decision")
    rng = np.random.default_rng(0)
    rows = np.hstack([np.ones((50, 1)), rng.standard_normal((50, 9))])
    theta = [0.5, *[1e-9] * 9]
    for name, bounds in (("no limits", {}), ("a floor", {"floors": 0.0})):
        coins = Problem(rows, reward_range=(0, 1), **bounds)
        normal = coins.clone(noise_std=1.0)
        for environment in (GaussianEnvironment(normal, theta), BernoulliEnvironment(coins, theta)):
            policy = BlockBetting(environment.problem, seed=0)
            policy.clone().compiled_run(environment, np.random.default_rng(1), 100, 1)
            start = time.process_time()
            policy.compiled_run(environment, np.random.default_rng(1), pulls, 1)
            spent = time.process_time() - start
            kind = "coins" if environment.problem is coins else "normal"
            print(f"{name:>12} {kind:>8}: {1e6 * spent / policy.told:6.2f}", flush=True)
