"""Gain of the learners over an even split if every arm has a guaranteed share."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np

from fairtrial.allocation import (
    KLUCB,
    UCB1,
    BernoulliEnvironment,
    BetaEnvironment,
    FairLearn,
    Learner,
    Problem,
    Thompson,
)
from fairtrial.allocation.environments import AllocationEnvironment
from fairtrial.core.seeds import spawn_seeds
from papers.fair_mab.instances import headlines

LEARNERS: dict[str, Callable[[], Learner]] = {"UCB1": UCB1, "KL-UCB": KLUCB, "Thompson": Thompson}


def run(*, quick: bool) -> None:
    print(
        "\ngain in expected reward over an even split, half of the traffic guaranteed (+- 2 s.e.)"
    )
    print(f"{'rewards':<50}" + "".join(f"{name:>20}" for name in LEARNERS), flush=True)
    for what, environments, rounds in _cases(quick):
        gains = [_gains(make(), environments, rounds) for make in LEARNERS.values()]
        print(
            f"{what:<50}" + "".join(f"{gain:>13.1f} +-{error:4.1f}" for gain, error in gains) + " %"
        )


def _cases(quick: bool) -> list[tuple[str, list[AllocationEnvironment], list[int]]]:
    """Return the environments, one for each run, and the number of rounds of each run."""
    real = headlines()[: 40 if quick else None]
    clear = [test for test in headlines() if test.lead > 3][: 5 if quick else None]
    runs = 10 if quick else 40
    cases = [
        ("Upworthy, all tests, own visitors", real, 1),
        ("Upworthy, a clear winner, own visitors", clear, 1),
        ("Upworthy, a clear winner, 10 times the visitors", clear, 10),
    ]
    found: list[tuple[str, list[AllocationEnvironment], list[int]]] = [
        (what, [test.environment() for test in tests], [times * test.impressions for test in tests])
        for what, tests, times in cases
    ]
    ten, spread = _problem(10), np.linspace(0.3, 0.7, 10)
    for rounds in (300, 3_000, 30_000):
        coin = BernoulliEnvironment(ten, spread)
        found.append((f"10 coins, .3 to .7, {rounds:,} rounds", [coin] * runs, [rounds] * runs))
    close = BernoulliEnvironment(_problem(2), [0.5, 0.52])
    found.append(("2 coins, .50 and .52, 10,000 rounds", [close] * runs, [10_000] * runs))
    narrow = BetaEnvironment(ten, spread, concentration=100)
    found.append(("10 arms, sd .05 about .3 to .7, 3,000", [narrow] * runs, [3_000] * runs))
    many = BernoulliEnvironment(_problem(100), np.linspace(0.01, 0.05, 100))
    found.append(("100 arms, rates of .01 to .05, 30,000", [many] * runs, [30_000] * runs))
    return found


def _problem(arms: int) -> Problem:
    return Problem(arms, Fraction(1, 2 * arms))


def _gains(
    learner: Learner, environments: Sequence[AllocationEnvironment], rounds: Sequence[int]
) -> tuple[float, float]:
    """Return the gain over an even split in per cent, and two standard errors of it."""

    def serve(
        environment: AllocationEnvironment, pulls: int, stream: np.random.SeedSequence
    ) -> tuple[float, float]:
        rewards, own = map(np.random.default_rng, stream.spawn(2))
        found = FairLearn(environment.problem, learner, seed=own).compiled_run(
            environment, rewards, pulls
        )
        assert found is not None
        means = np.asarray(environment.truth.means).ravel()
        return float(found.pulls @ means), float(pulls * means.mean())

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        streams = spawn_seeds(0, len(environments))
        served, even = np.array(list(pool.map(serve, environments, rounds, streams))).T
    gain = served - even
    error = gain.std(ddof=1) * np.sqrt(gain.size)
    return 100 * gain.sum() / even.sum(), 200 * error / even.sum()
