"""Several measures per pull: pulls compared with separate tests, errors, cost per pull.

The separate tests use the same blocks and ledgers. But each ledger is compared with its own share
of delta, which is split evenly over the objective and the measures with limits, and within a
measure over its limits and arms. A rival is ruled out by its pair with the leader, or by its own
limits.

If no arm keeps its limits ("none"), the mean of an independent rule was 2,315 pulls (107) at delta
.1, with nearly the same median, 1,601. That rule does not account for the uncertainty of means of
cells with few pulls, so some of its runs are stuck for a long time. Without this correction ours
needs 2,197 pulls (94), with it 1,734 (43).
"""

from __future__ import annotations

import math
import time

import numpy as np

from fairtrial import simulate
from fairtrial.subpopulations import BernoulliEnvironment, BlockBetting, Problem
from tests.subpopulations.measured_instances import MEASURED, Measured, pulls_of_separate_tests
from tests.subpopulations.measured_nulls import NULLS, shares_of

MOST_PULLS = 200_000


def run(*, quick: bool) -> None:
    """Print pulls by rule and delta, rejections of right answers, and the cost of a pull."""
    runs = 2 if quick else 200
    print(f"\nmean pulls (standard error), median; {runs} runs; wrong answers")
    for name, make in MEASURED.items():
        for delta in (0.1,) if quick else (0.1, 0.01):
            _compare(name, make(), delta, runs)
    runs = 10 if quick else 2_000
    print(
        f"\nright answer ever ruled out, wrong, undecided at delta .1; {runs} runs of 2,000 pulls"
    )
    for name in NULLS:
        shares = shares_of(name, runs)
        print(f"{name:>40}" + "".join(f"{share:>10.2%}" for share in shares), flush=True)
    print("\nmicroseconds of CPU time per pull, in total")
    for arms, groups, measures in ((5, 1, 2), (3, 2, 3), (4, 3, 2)):
        cost, pulls = _cost(arms, groups, measures, runs=3 if quick else 30)
        print(f"{arms:>12} x {groups} x {measures}: {cost:.1f} in runs of {pulls:,.0f} pulls")
    print("\none measure by its own kernels, and by those of several: microseconds, mean pulls")
    for arms, groups, floor in ((4, 1, None), (4, 3, 0.4), (10, 1, None)):
        own, of_several = _costs_of_one(arms, groups, floor, runs=5 if quick else 100)
        print(f"{arms:>12} x {groups}, floor {floor}: {own}; {of_several}", flush=True)


def _compare(name: str, question: Measured, delta: float, runs: int) -> None:
    environment = question.environment
    policy = BlockBetting(environment.problem, delta=delta)
    found = simulate(policy, environment, runs, seed=1, horizon=MOST_PULLS, progress=False)
    times = found.stopping_time
    separate = np.array(
        [pulls_of_separate_tests(environment, delta, seed, MOST_PULLS) for seed in range(runs)]
    )
    ratio = times.mean() / (question.complexity * math.log(1.0 / delta))
    print(
        f"{name:>10} {delta}: {_said(times)}; {found.error_rate:.1%} wrong; "
        f"{ratio:.2f} times the bound; separate tests {_said(separate)}",
        flush=True,
    )


def _said(times: np.ndarray) -> str:
    error = times.std() / math.sqrt(len(times))
    return f"{times.mean():,.0f} ({error:,.0f}), {np.median(times):,.0f}"


# ---------------------------------------------------------------------------------------- cost


def _cost(arms: int, groups: int, measures: int, *, runs: int) -> tuple[float, float]:
    """Return microseconds per pull of complete runs, and the length of the runs."""
    names = [f"m{i}" for i in range(measures)]
    problem = Problem(
        arms,
        groups,
        measures=dict.fromkeys(names, (0, 1)),
        objective="m0",
        ceilings=dict.fromkeys(names[1:], 0.3),
    )
    means = np.full((arms, groups, measures), 0.2)
    means[..., 0] = np.linspace(0.1, 0.6, arms)[:, np.newaxis]
    means[-1, :, 1] = 0.42
    environment = BernoulliEnvironment(problem, means)
    pulls, spent = 0, 0.0
    for seed in range(runs + 1):
        policy = BlockBetting(problem, delta=0.1, seed=seed)
        start = time.process_time()
        policy.compiled_run(environment, np.random.default_rng(seed), MOST_PULLS)
        if seed:
            # The first run compiles, or loads compiled code.
            spent += time.process_time() - start
            pulls += policy.told
    return 1e6 * spent / pulls, pulls / runs


def _costs_of_one(arms: int, groups: int, floor: float | None, *, runs: int) -> tuple[str, str]:
    """Return cost and length of runs with one measure, by its own kernels and by the others."""
    means = np.linspace(0.45, 0.6, arms)[:, np.newaxis] + np.linspace(0.0, 0.05, groups)
    plain = Problem(arms, groups, floors=floor, reward_range=(0, 1))
    floors = {} if floor is None else {"floors": {"m0": floor}}
    measured = Problem(arms, groups, measures={"m0": (0, 1)}, objective="m0", **floors)
    environments = (
        BernoulliEnvironment(plain, means),
        BernoulliEnvironment(measured, means[:, :, np.newaxis]),
    )
    return tuple(_cost_and_length(environment, runs) for environment in environments)


def _cost_and_length(environment: BernoulliEnvironment, runs: int) -> str:
    policy = BlockBetting(environment.problem, delta=0.05)
    spent = pulls = 0.0
    for seed in range(2):
        start = time.process_time()
        found = simulate(policy, environment, runs, seed=seed, workers=1, progress=False)
        if seed:
            # The first runs compile, or load compiled code.
            spent = time.process_time() - start
            pulls = found.stopping_time.sum()
    return f"{1e6 * spent / pulls:.2f}, {_said(found.stopping_time)}"
