"""Guaranteed shares in real headline tests: their cost in clicks, and their benefit."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fairtrial.allocation import KLUCB, UCB1, FairLearn, Learner, Thompson, UnconstrainedLearner
from fairtrial.core.seeds import spawn_seeds
from papers.fair_mab.cache import SimulationCache
from papers.fair_mab.instances import HeadlineTest
from papers.fair_mab.instances import headlines as all_tests
from papers.report import AGREES, Measured, Row, Section, Table

__all__ = ["SERVERS", "Outcome", "headlines", "play"]

SERVERS: dict[str, tuple[Learner, bool]] = {
    "UCB1, no quotas": (UCB1(), False),
    "UCB1, half guaranteed": (UCB1(), True),
    "KL-UCB, no quotas": (KLUCB(), False),
    "KL-UCB, half guaranteed": (KLUCB(), True),
    "Thompson, no quotas": (Thompson(), False),
    "Thompson, half guaranteed": (Thompson(), True),
}
"""Ways to serve headlines: a learner, and whether shares are guaranteed."""


@dataclass(frozen=True)
class Outcome:
    """Results of one way of serving, one entry per test.

    Parameters
    ----------
    clicks : ndarray
        Expected clicks of the pulls.
    rotation, best : ndarray
        Expected clicks of uniform rotation, and of the best headline alone.
    share_of_best : ndarray
        Share of impressions of the best headline.
    most_to_best : ndarray of bool
        Whether no headline got more impressions than the best one.
    behind : ndarray
        Largest number of whole impressions by which a headline was ever behind its guaranteed
        share.
    least : ndarray
        Smallest ratio, at the end, of a headline's share to its guaranteed share.
    """

    clicks: NDArray[np.float64]
    rotation: NDArray[np.float64]
    best: NDArray[np.float64]
    share_of_best: NDArray[np.float64]
    most_to_best: NDArray[np.bool_]
    behind: NDArray[np.float64]
    least: NDArray[np.float64]


def play(cache: SimulationCache, tests: Sequence[HeadlineTest], name: str) -> Outcome:
    """Serve the visitors of every test once, and return the results."""
    streams = spawn_seeds(cache.seed, len(tests))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        served = list(pool.map(partial(_serve, name), tests, streams))
    return Outcome(*map(np.array, zip(*served, strict=True)))


def _serve(name: str, test: HeadlineTest, stream: np.random.SeedSequence) -> tuple[float, ...]:
    learner, guaranteed = SERVERS[name]
    rule = FairLearn if guaranteed else UnconstrainedLearner
    visitors, own = map(np.random.default_rng, stream.spawn(2))
    policy = rule(test.problem, learner, seed=own)
    run = policy.compiled_run(test.environment(), visitors, test.impressions)
    assert run is not None
    rates = np.array(test.rates)
    best = int(rates.argmax())
    return (
        float(run.pulls @ rates),
        float(test.impressions * rates.mean()),
        float(test.impressions * rates.max()),
        float(run.pulls[best] / test.impressions),
        bool(run.pulls[best] == run.pulls.max()),
        float(run.metrics["floored_violation"]),
        float(run.pulls.min() / test.impressions * 2 * len(rates)),
    )


def headlines(cache: SimulationCache) -> Section:
    """Measure clicks, the best headline's traffic, and every headline's share."""
    tests = all_tests()
    clear = [test for test in tests if test.lead > 3]
    if cache.quick:
        tests, clear = tests[:25], clear[:12]
    served = {name: play(cache, tests, name) for name in SERVERS}
    served_clear = {name: play(cache, clear, name) for name in SERVERS}
    return Section(
        "headlines",
        "Real headline tests",
        "A replay of every test of the Upworthy Research Archive that this package ships: a "
        "visitor clicks with the measured rate of the headline, and there are as many visitors "
        "as in the test. Each of K headlines is guaranteed 1 / (2 K) of the impressions. Gains "
        "are in expected clicks, relative to uniform rotation; the maximum is reached by always "
        "showing the best headline. The rates are themselves measured, so the best headline of a "
        "test looks better than it is; the gains apply to this replay. In most tests no headline "
        "is clearly best. The second table has the tests in which one leads by more than three "
        "standard errors.",
        (
            Table(tuple(_rows(served)), f"{len(tests):,} tests"),
            Table(tuple(_rows(served_clear)), f"{len(clear)} tests with a clear winner"),
        ),
    )


def _rows(served: dict[str, Outcome]) -> Iterator[Row]:
    any_of_them = next(iter(served.values()))
    yield {
        "served by": "uniform rotation",
        "clicks": round(float(any_of_them.rotation.sum())),
        "gain over rotation": "",
        "of the possible gain": Measured(0.0),
        "best headline's share": None,
        "best gets most, tests": "",
        "most behind its quota": 0,
        "least share / quota": 2.0,
        AGREES: None,
    }
    for name, outcome in served.items():
        gain = outcome.clicks - outcome.rotation
        possible = float((outcome.best - outcome.rotation).sum())
        guaranteed = SERVERS[name][1]
        yield {
            "served by": name,
            "clicks": round(float(outcome.clicks.sum())),
            "gain over rotation": f"{100 * gain.sum() / outcome.rotation.sum():+.2f} %",
            "of the possible gain": Measured(float(gain.sum()) / possible, _error(gain, possible)),
            "best headline's share": Measured.of(outcome.share_of_best),
            "best gets most, tests": f"{100 * outcome.most_to_best.mean():.1f} %",
            "most behind its quota": int(outcome.behind.max()),
            "least share / quota": round(float(outcome.least.min()), 3),
            AGREES: bool(outcome.behind.max() <= 0) if guaranteed else None,
        }


def _error(gain: NDArray[np.float64], possible: float) -> float | None:
    """Return the standard error, over tests, of the share of the possible gain."""
    if gain.size < 2:
        return None
    return float(gain.std(ddof=1) * np.sqrt(gain.size) / possible)
