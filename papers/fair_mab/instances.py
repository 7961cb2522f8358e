"""The paper's two instances, and the real headline tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from fairtrial.allocation import BernoulliEnvironment, Problem
from fairtrial.data import headline_tests

__all__ = ["FIXED_QUOTAS", "ONE_A", "ONE_B", "TWO", "HeadlineTest", "Instance", "headlines"]


@dataclass(frozen=True)
class Instance:
    """Bernoulli arms with guaranteed shares, and the paper's number of rounds.

    Parameters
    ----------
    name : str
        Its name in the tables.
    means : tuple of float
        Mean rewards by arm.
    shares : tuple of str
        Shares by arm, as fractions.
    horizon : int
        Number of rounds.
    """

    name: str
    means: tuple[float, ...]
    shares: tuple[str, ...]
    horizon: int

    def problem(self, unfairness_tolerance: int = 0) -> Problem:
        """Return the problem with a given unfairness tolerance."""
        return Problem(len(self.means), self.shares, unfairness_tolerance)

    def environment(self, unfairness_tolerance: int = 0) -> BernoulliEnvironment:
        """Return the environment of the problem with this tolerance."""
        return BernoulliEnvironment(self.problem(unfairness_tolerance), self.means)


def _instance_1(name: str, gaps: tuple[float, ...]) -> Instance:
    means = (0.8, *(round(0.8 - gap, 10) for gap in gaps))
    return Instance(name, means, ("1/20",) * 10, 1_000_000)


ONE_A = _instance_1("1A", tuple(0.01 * i for i in range(2, 11)))
"""Instance 1 as printed: the gap of arm i = 2, ..., 10 is .01 i."""

ONE_B = _instance_1("1B", tuple(0.01 * i for i in range(1, 10)))
"""Instance 1 with the other reading of its index: gaps .01, .02, ..., .09."""

TWO = Instance("2", (0.7, 0.5, 0.4), ("1/5", "3/10", "1/4"), 200)

FIXED_QUOTAS = Instance("3", (0.8, 0.3, 0.2), ("3/10",) * 3, 20_000)
"""The quotas exceed the pulls that UCB1 would make, so they alone cause the regret."""


@dataclass(frozen=True)
class HeadlineTest:
    """One real test: each headline's click rate, and the number of visitors.

    Parameters
    ----------
    name : str
        Its name in the archive.
    rates : tuple of float
        Clicks per impression, by headline; these are the truth of the replay.
    impressions : int
        Impressions of all headlines together; the replay has this number of rounds.
    lead : float
        Lead of the best rate over the second best, in standard errors.
    """

    name: str
    rates: tuple[float, ...]
    impressions: int
    lead: float

    @property
    def problem(self) -> Problem:
        """The problem: half of the traffic is guaranteed in equal shares, half is free."""
        return Problem(len(self.rates), Fraction(1, 2 * len(self.rates)))

    def environment(self) -> BernoulliEnvironment:
        """Return the environment in which a visitor clicks at random, at the headline's rate."""
        return BernoulliEnvironment(self.problem, self.rates)


@cache
def headlines() -> tuple[HeadlineTest, ...]:
    """Return all real tests, in the order of the file."""
    return tuple(_headline_test(name, counts) for name, counts in _counts())


def _counts() -> Iterator[tuple[str, list[tuple[int, int]]]]:
    table = headline_tests()
    found: dict[str, list[tuple[int, int]]] = {}
    columns = (table[name] for name in ("test", "impressions", "clicks"))
    for test, impressions, clicks in zip(*columns, strict=True):
        found.setdefault(test, []).append((impressions, clicks))
    yield from found.items()


def _headline_test(name: str, counts: list[tuple[int, int]]) -> HeadlineTest:
    rates = tuple(clicks / shown for shown, clicks in counts)
    (first, n_first), (second, n_second) = sorted(
        ((clicks / shown, shown) for shown, clicks in counts), reverse=True
    )[:2]
    variance = first * (1 - first) / n_first + second * (1 - second) / n_second
    total = sum(shown for shown, _ in counts)
    return HeadlineTest(name, rates, total, float((first - second) / variance**0.5))
