"""Power at the same maximum, with and without a planned end.

Two arms, and four of which the first is the control, with normal noise of standard deviation 1; two
arms with rewards of 0 and 1. The maximum is what one test after all pulls needs for a power of .9:
for normal noise at a difference of .25, with four arms by Dunnett's test; otherwise for rates of
.10 and .12. The best arms if results come late, and the best of five doses with a quadratic curve.
Last, how much a maximum near or far from what a decision needs changes: three arms in three groups
with floors (E1), ten arms of which one is better by .5, and a trial.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fairtrial import Environment, delayed, linear, simulate
from fairtrial.subpopulations import (
    BernoulliEnvironment,
    BlockBetting,
    GaussianEnvironment,
    Problem,
)
from papers.baics.instances import E1, trial

TWO_ARMS = {0.025: 673, 0.05: 549}
"""Most pulls by delta, the probability of an error in each direction."""

FOUR_ARMS = {0.025: 1_684, 0.05: 1_432}

BINARY = {0.025: 10_278, 0.05: 8_376}

GAPS = (0.25, 0.5, 0.0)

DOSES = 400
"""Most pulls of five doses whose effect is a quadratic function of the dose."""

BEST_ARMS: Sequence[tuple[str, Sequence[float], int, Mapping[str, Any]]] = (
    ("best of two", (0.25, 0.0), 1, {"noise_std": 1.0}),
    ("best of two, 20 in flight", (0.25, 0.0), 20, {"noise_std": 1.0}),
    ("best of two, results 0 or 1", (0.62, 0.5), 1, {"reward_range": (0, 1)}),
    ("best two of four", (0.35, 0.35, 0.0, 0.0), 1, {"noise_std": 1.0, "top": 2}),
    ("best of two, tolerance .05", (0.3, 0.0), 1, {"noise_std": 1.0, "tolerance": 0.05}),
)
"""Questions about the best arms: their means, pulls in flight, and the problem."""

Rules = Mapping[str, Mapping[str, Any]]

RULES: Rules = {
    "no planned end": {},
    "planned end": {"planned_end": True},
    "planned end, normal noise": {"planned_end": True, "noise": "normal"},
}


def run(*, quick: bool) -> None:
    """Print how often each rule decides, after how many pulls, and how often wrongly in a tie."""
    _show_two_arms(100 if quick else 3_000)
    _show_four_arms(20 if quick else 300)
    _show_binary(10 if quick else 300)
    _show_best_arms(5 if quick else 1_000)
    _show_linear(10 if quick else 1_000)
    _show_far_ends(3 if quick else 60)


def _show_two_arms(runs: int) -> None:
    problem = Problem(2, 1, floors=None, noise_std=1.0)
    print(f"\ntwo arms, {runs} runs: share decided, mean pulls, each with its standard error")
    for delta, most in TWO_ARMS.items():
        for said, rule in RULES.items():
            policy = BlockBetting(problem, delta, max_pulls=most, **rule)
            print(f"delta {delta}, at most {most} pulls, {said}")
            for gap in GAPS:
                environment = GaussianEnvironment(problem, [[gap], [0.0]])
                _show(f"{gap:>8}", simulate(policy, environment, runs, seed=3, progress=False))


def _show_four_arms(runs: int) -> None:
    problem = Problem(["control", "a", "b", "c"], 1, floors=None, noise_std=1.0)
    print(
        f"\nfour arms, c better, {runs} runs: c chosen, control ruled out, c ruled out, mean pulls"
    )
    for delta, most in FOUR_ARMS.items():
        for said, rule in RULES.items():
            print(f"delta {delta}, at most {most} pulls, {said}")
            for gap in GAPS:
                environment = GaussianEnvironment(problem, [[0.0], [0.0], [0.0], [gap]])
                ends = []
                for seed in range(runs):
                    policy = BlockBetting(problem, delta, max_pulls=most, **rule, seed=seed)
                    policy.compiled_run(environment, np.random.default_rng([5, seed]), None)
                    left = policy.recommend().candidates or ()
                    ends.append((left == ("c",), "control" not in left, "c" not in left))
                    ends[-1] = (*ends[-1], policy.told)
                found = np.array(ends, dtype=np.float64)
                shares = ", ".join(_with_error(column) for column in found[:, :3].T)
                pulls = _with_error(found[:, 3], digits=0)
                print(f"{gap:>8}: {shares}, {pulls}", flush=True)


def _show_binary(runs: int) -> None:
    problem = Problem(2, 1, floors=None, reward_range=(0, 1))
    exact = problem.clone(outcomes="binary")
    print(f"\nrewards of 0 and 1, {runs} runs: share decided, mean pulls")
    for delta, most in BINARY.items():
        for said, asked in (("aimed stakes", problem), ("exact bets", exact)):
            policy = BlockBetting(asked, delta, max_pulls=most, planned_end=True, block_draws=True)
            print(f"delta {delta}, at most {most} pulls, {said}")
            for high in (0.12, 0.14, 0.10):
                environment = BernoulliEnvironment(asked, [[0.10], [high]])
                _show(f"{high:>8}", simulate(policy, environment, runs, seed=3, progress=False))


def _show_best_arms(runs: int) -> None:
    print(f"\nbest k arms, delta .05, {runs} runs: share decided, mean pulls, wrong answers")
    for said, means, parallel, asked in BEST_ARMS:
        problem = delayed.Problem(len(means), **asked)
        environment = _late_results(problem, means)
        most = 900 if problem.top > 1 else 549
        for planned in (False, True):
            policy = delayed.BlockBetting(problem, max_pulls=most, planned_end=planned)
            found = simulate(policy, environment, runs, 3, parallel=parallel, progress=False)
            end = "planned end" if planned else "no planned end"
            _show(f"{said}, at most {most} pulls, {end}", found)
            print(f"  wrong answers: {found.error_rate:.4f}", flush=True)


def _late_results(problem: delayed.Problem, means: Sequence[float]) -> Environment:
    """Return an environment with normal results or, in a range, with results of 0 and 1."""
    if problem.reward_range is None:
        return delayed.SimulatedEnvironment(problem, means)
    rows = [
        {"arm": arm, "curve": number, "elapsed": 1.0, "value": float(number < 100 * mean)}
        for arm, mean in zip(problem.arms, means, strict=True)
        for number in range(100)
    ]
    return delayed.CurveEnvironment(problem, {key: [row[key] for row in rows] for key in rows[0]})


def _show_linear(runs: int) -> None:
    doses = np.linspace(0.0, 1.0, 5)
    rows = np.column_stack([np.ones(5), doses, doses**2])
    problem = linear.Problem(rows, noise_std=1.0)
    print(f"\nfive doses, a quadratic curve, delta .05, at most {DOSES} pulls, {runs} runs")
    for said, rule in RULES.items():
        print(said)
        for slope in (1.0, 1.5, 0.0):
            environment = linear.GaussianEnvironment(problem, [0.0, slope, 0.0])
            policy = linear.BlockBetting(problem, max_pulls=DOSES, **rule)
            _show(f"{slope:>8}", simulate(policy, environment, runs, seed=3, progress=False))


def _show_far_ends(runs: int) -> None:
    """Print shares decided and pulls at delta .1; the easier questions have more runs."""
    ten = Problem(10, 1, floors=None, noise_std=1.0)
    better = GaussianEnvironment(ten, [[0.5], *[[0.0]] * 9])
    for name, environment, ends, times in (
        ("E1", E1.environment, (1_000, 1_200, 2_000, 4_000, 20_000), 7),
        ("ten arms", better, (600, 800, 1_500, 20_000), 5),
        ("ACTG 175", trial("cd4", 0.0).environment, (2_000, 4_000, 60_000), 1),
    ):
        print(f"\n{name}, {runs * times} runs: share decided, mean pulls, without and with the end")
        for end in ends:
            for planned in (False, True):
                policy = BlockBetting(environment.problem, 0.1, max_pulls=end, planned_end=planned)
                found = simulate(policy, environment, runs * times, seed=3, progress=False)
                _show(f"{end:>8}", found)


def _show(said: str, found: Any) -> None:
    pulls = _with_error(found.stopping_time, digits=0)
    print(f"{said}: {_with_error(found.decided)}, {pulls}", flush=True)


def _with_error(values: Any, digits: int = 3) -> str:
    """Return a mean with its standard error."""
    numbers = np.asarray(values, dtype=np.float64)
    error = numbers.std() / np.sqrt(numbers.size)
    return f"{numbers.mean():.{digits}f} ({error:.{digits if digits else 1}f})"
