"""Alarm rates of the tests of drift and of shares: false alarms and power."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.drift_test import find_drift
from fairtrial.confidence.share_test import log_evidence_against_shares, log_evidence_of_favour
from fairtrial.core import Pull
from fairtrial.subpopulations import BlockBetting, Problem

Floats = NDArray[np.float64]

LEVELS = (0.1, 0.01, 0.001)
MEANS = (0.4, 0.4, 0.5)
"""Means of the arms in both groups; block betting pulls the last arm more often."""

SHARES = {"x": 0.7, "y": 0.3}
LOOKS = 20

Reward = Callable[[np.random.Generator, int], float]
Change = Callable[[Floats], Floats]


def run(*, quick: bool) -> None:
    """Print how often each test raised an alarm."""
    runs = 40 if quick else 1_000
    print(f"\nno assumption is broken: 3 arms, 2 groups, 600 pulls of block betting, {runs} runs")
    print(f"ever at the level .1 / .01 / .001, at {LOOKS} looks")
    print(f"{'rewards':<36}{'drift':>24}{'pulls passed over':>24}{'arrivals':>24}")
    for name, reward, batch, lost in HONEST:
        _show_false_alarms(name, reward, batch, lost, runs)
    runs = 40 if quick else 300
    print(f"\ndrift found, by results of each cell, {runs} runs")
    print(f"{'change of the mean':<44}{'cells':>12}" + "".join(f"{n:>7}" for n in SIZES))
    for change_name, change in CHANGES.items():
        for n_cells, drifting in ((2, 1), (6, 6)):
            _show_power(change_name, change, n_cells, drifting, runs)


# ------------------------------------------------------------------------ false alarms


def _success(rng: np.random.Generator, arm: int) -> float:
    return float(rng.random() < MEANS[arm])


def _rare(rng: np.random.Generator, arm: int) -> float:
    return float(rng.random() < MEANS[arm] / 10)


def _skewed(rng: np.random.Generator, arm: int) -> float:
    return float(rng.beta(0.1 * MEANS[arm], 0.1 * (1 - MEANS[arm])))


def _thirds(rng: np.random.Generator, arm: int) -> float:
    return float(rng.binomial(3, MEANS[arm])) / 3


HONEST: list[tuple[str, Reward, int, float]] = [
    ("0 or 1, one by one", _success, 1, 0.0),
    ("0 or 1, in batches of 60", _success, 60, 0.0),
    ("0 or 1, a fifth lost", _success, 1, 0.2),
    ("0 or 1, rare successes", _rare, 1, 0.0),
    ("skewed, between 0 and 1", _skewed, 1, 0.0),
    ("four values", _thirds, 10, 0.1),
]


def _show_false_alarms(name: str, reward: Reward, batch: int, lost: float, runs: int) -> None:
    found = np.array([_honest_run(reward, batch, lost, seed) for seed in range(runs)])
    rates = "".join(
        f"{' / '.join(f'{np.mean(column <= level):.3f}' for level in LEVELS):>24}"
        for column in found.T
    )
    print(f"{name:<36}{rates}", flush=True)


def _honest_run(reward: Reward, batch: int, lost: float, seed: int) -> tuple[float, float, float]:
    """Return the smallest p-values over all looks: of drift, skipped pulls and arrivals."""
    policy = BlockBetting(Problem(3, SHARES, reward_range=(0, 1)), delta=1e-9, seed=seed)
    rng = np.random.default_rng([seed, 21])
    log = _Results()
    smallest = np.ones(3)
    while policy.asked < 600:
        groups = ["x" if rng.random() < SHARES["x"] else "y" for _ in range(batch)]
        for pull in [policy.ask(group=group) for group in groups]:
            log.arrivals[list(SHARES).index(pull.group)] += 1
            if rng.random() < lost:
                policy.fail(pull)
            else:
                value = reward(rng, int(pull.arm))
                policy.tell(pull, value)
                log.add(pull, value)
        if policy.asked % (600 // LOOKS) == 0:
            smallest = np.minimum(smallest, log.p_values())
    return float(smallest[0]), float(smallest[1]), float(smallest[2])


class _Results:
    """Results of a run in the form that the tests use."""

    def __init__(self) -> None:
        self.cells: list[list[float]] = [[] for _ in range(6)]
        self.arms: list[int] = []
        self.propensities: list[float] = []
        self.arrivals = np.zeros(2)

    def add(self, pull: Pull, value: float) -> None:
        """Add a result."""
        assert pull.propensity is not None
        self.cells[pull.action].append(value)
        self.arms.append(int(pull.arm))
        self.propensities.append(pull.propensity)

    def p_values(self) -> tuple[float, float, float]:
        """Return the current p-values of drift, skipped pulls and arrivals."""
        favour = log_evidence_of_favour(self.arms, self.propensities, 3).max()
        shares = log_evidence_against_shares(self.arrivals, list(SHARES.values()))
        return find_drift(self.cells).p_value, 3 * math.exp(-favour), math.exp(-shares)


# ------------------------------------------------------------------------------- power

SIZES = (50, 100, 200, 400, 800)

CHANGES: dict[str, Change] = {
    "none": lambda time: 0.0 * time,
    "a jump by 1 standard deviation halfway": lambda time: 1.0 * (time >= 0.5),
    "a jump by .5 halfway": lambda time: 0.5 * (time >= 0.5),
    "a steady rise by 1": lambda time: time,
    "a steady rise by 2": lambda time: 2.0 * time,
    "up and down by .5, every 40 results": lambda time: 0.5 * _seasons(time, 40),
    "up and down by 1, every 10 results": lambda time: 1.0 * _seasons(time, 10),
}


def _seasons(time: Floats, period: int) -> Floats:
    """Return 1 and -1 alternately, each for half a period."""
    return np.where(np.arange(time.size) % period < period / 2, 1.0, -1.0)


def _show_power(name: str, change: Change, n_cells: int, drifting: int, runs: int) -> None:
    rates = "".join(f"{_power(change, n_cells, drifting, n, runs):>7.2f}" for n in SIZES)
    print(f"{name:<44}{f'{drifting} of {n_cells}':>12}{rates}", flush=True)


def _power(change: Change, n_cells: int, drifting: int, results: int, runs: int) -> float:
    """Return the share of runs in which drift is found, with normal noise of deviation 1."""
    moved = np.zeros((n_cells, results))
    moved[:drifting] = change(np.arange(results) / results)
    found = [
        find_drift(list(np.random.default_rng([seed, 22]).normal(size=moved.shape) + moved)).found
        for seed in range(runs)
    ]
    return float(np.mean(found))
