"""The usual trial with several requirements: an arm must pass all its tests at the same look."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.group_sequential import GroupSequential

__all__ = ["ArmTests", "Contrasts", "LookResults", "simulate", "size"]

Floats = NDArray[np.float64]

_MOST_DRAWN = 10_000_000
"""Most random numbers, and most test statistics, in memory at once."""

_MOST_DOUBLINGS = 40

_SAME = 1e-9

_LEAST_SPREAD = 1e-7
"""The standard deviation of what does not vary; signals are then large, and finite."""

_FINE = 1e-3
"""A size that is found by bisection is right to this share of it, besides its simulation error."""


@dataclass(frozen=True, eq=False)
class ArmTests:
    """The one-sided tests that an arm must pass together.

    Test i shows that ``(own[i] * m).sum() - (control[i] * c).sum() > bounds[i]``, where m and c are
    the means of the arm and of the control.

    Parameters
    ----------
    own, control : ndarray of shape (tests, strata, measures)
        Weights of the arm's and of the control's means. The first test is on the overall mean that
        arms are ranked by.
    bounds : ndarray of shape (tests,)
        What must be exceeded; minus infinity if it need not be tested.
    """

    own: Floats
    control: Floats
    bounds: Floats

    @classmethod
    def together(cls, rows: Sequence[tuple[Floats, Floats, float]]) -> Self:
        """Return the tests with these weights and bounds; of tests of one sum, the strictest.

        Examples
        --------
        >>> one, none = np.ones((1, 1)), np.zeros((1, 1))
        >>> ArmTests.together([(one, one, 0.0), (2 * one, 2 * one, 1.0), (one, none, 0.2)]).bounds
        array([0.5, 0.2])
        """
        found: list[tuple[Floats, float]] = []
        for own, control, bound in rows:
            length = float(np.abs(own).max())
            sides = np.stack([own, control]) / length
            for place, (known, least) in enumerate(found):
                if np.abs(sides - known).max() < _SAME:
                    found[place] = known, max(least, bound / length)
                    break
            else:
                found.append((sides, bound / length))
        weights = np.stack([sides for sides, _ in found])
        return cls(weights[:, 0], weights[:, 1], np.array([bound for _, bound in found]))


@dataclass(frozen=True, eq=False)
class Contrasts:
    """What is true of the arms, and what must be shown of each.

    Every arm, and the control, gets the same number of results. They come from strata in fixed
    proportions, and each has a value of every measure.

    Parameters
    ----------
    arms : tuple of str
        The arms that are tested; without the control.
    tests : tuple of ArmTests
        What must be shown of each of them.
    means : ndarray of shape (takers, strata, measures)
        The true means of the control, if there is one, and then of the arms.
    covariances : ndarray of shape (takers, strata, measures, measures)
        The covariance of the measures of one result.
    shares : ndarray of shape (strata,)
        The proportions of the strata.
    """

    arms: tuple[str, ...]
    tests: tuple[ArmTests, ...]
    means: Floats
    covariances: Floats
    shares: Floats

    @property
    def has_control(self) -> bool:
        """Whether the arms are compared with a control."""
        return len(self.means) > len(self.arms)

    @property
    def has_limits(self) -> bool:
        """Whether more must be shown of any arm than that its overall mean is better."""
        return any(own.bounds.size > 1 or own.bounds[0] > 0.0 for own in self.tests)

    def without_limits(self) -> Contrasts:
        """Return the same arms, each of which must only be shown to be better than the control."""
        only = tuple(ArmTests(own.own[:1], own.control[:1], np.zeros(1)) for own in self.tests)
        return replace(self, tests=only)

    def effects(self, place: int) -> Floats:
        """Return the true values of what the tests of an arm are about, shape (tests,)."""
        own = self.tests[place]
        found = np.tensordot(own.own, self.means[self.taker(place)], 2)
        return found - np.tensordot(own.control, self.means[0], 2) if self.has_control else found

    def spreads(self, place: int) -> Floats:
        """Return the standard deviations of their estimates from one result of each arm.

        They are infinite for a test of a stratum that nobody comes from.
        """
        own = self.tests[place]
        sides = [(own.own, self.taker(place))]
        sides += [(own.control, 0)] if self.has_control else []
        variances = np.zeros(own.bounds.size)
        for weights, taker in sides:
            by_stratum = np.einsum("tsm,smn,tsn->ts", weights, self.covariances[taker], weights)
            variances += by_stratum @ self._results_per_stratum
        unknown = (own.own != 0.0).any(axis=2)[:, self.shares == 0.0].any(axis=1)
        known = np.where(variances > 0.0, np.sqrt(np.maximum(variances, 0.0)), _LEAST_SPREAD)
        return np.where(unknown, np.inf, known)

    def signals(self, place: int) -> Floats:
        """Return the expected test statistics of an arm with one result of each arm."""
        spreads = self.spreads(place)
        apart = self.effects(place) - self.tests[place].bounds
        return np.where(np.isinf(spreads), 0.0, apart / np.where(np.isinf(spreads), 1.0, spreads))

    def noise(self, taker: int, looks: int, runs: int, generator: np.random.Generator) -> Floats:
        """Return errors of the means, summed until each look.

        The shape is (runs, looks, strata, measures). Each stage adds an error as large as that of
        one result.
        """
        factors = _factors(self.covariances[taker])
        factors = factors * np.sqrt(self._results_per_stratum)[:, np.newaxis, np.newaxis]
        drawn = generator.standard_normal((runs, looks, *self.means.shape[1:]))
        return np.asarray(np.einsum("smn,rlsn->rlsm", factors, drawn).cumsum(axis=1))

    def taker(self, place: int) -> int:
        """Return the place of an arm in `means`."""
        return place + len(self.means) - len(self.arms)

    @property
    def _results_per_stratum(self) -> Floats:
        """The number of results among which one is of the stratum; 0 if none ever is."""
        with np.errstate(divide="ignore"):
            return np.where(self.shares > 0.0, 1.0 / self.shares, 0.0)


def _factors(covariances: Floats) -> Floats:
    """Return matrices that turn independent normal numbers into numbers with these covariances.

    They may be singular. Correlations are decomposed, so that units do not matter.
    """
    stds = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
    scales = np.where(stds > 0.0, stds, 1.0)
    correlations = covariances / (scales[:, :, np.newaxis] * scales[:, np.newaxis, :])
    values, vectors = np.linalg.eigh(correlations)
    roots = np.sqrt(np.maximum(values, 0.0))[:, np.newaxis]
    return np.asarray(stds[:, :, np.newaxis] * vectors * roots)


@dataclass(frozen=True, eq=False)
class LookResults:
    """What simulated trials did.

    Parameters
    ----------
    named : ndarray of int, shape (runs,)
        The arm that was named, as an index of the arms tested; -1 if none was.
    claimed : ndarray of bool, shape (runs, arms)
        The arms that had passed all their tests when the trial ended.
    results : ndarray of int, shape (runs,)
        Results of all arms and the control until the end.
    """

    named: NDArray[np.int64]
    claimed: NDArray[np.bool_]
    results: NDArray[np.int64]


def size(
    design: GroupSequential, contrasts: Contrasts, place: int, power: float, runs: int, seed: int
) -> int | None:
    """Return the most results, of all arms and the control, that give an arm this power.

    Parameters
    ----------
    design : GroupSequential
        Looks and boundaries. It is an intersection-union test: every test has the whole level of
        its arm, because a false claim about the arm needs one particular test to be passed falsely.
    contrasts : Contrasts
        What is assumed, and what must be shown.
    place : int
        The arm. With a control, the power is the probability that it passes all its tests at the
        same look; without, that it is named.
    power : float
        The probability.
    runs, seed : int
        Number of simulated trials, and source of randomness. A single test against the control
        needs none.

    Returns
    -------
    int or None
        A multiple of the looks and of the number of arms with the control; None if the arm does not
        have all that must be shown, or no size is enough.

    Notes
    -----
    With the same random numbers, a trial in which the arm passes also passes with more results. So
    each simulated trial has a smallest size, and the size for a power is a quantile of these.
    Source of the test: Berger, "Multiparameter hypothesis testing and acceptance sampling",
    Technometrics 24 (1982).
    """
    signals = contrasts.signals(place)
    if not (signals > 0.0).all():
        return None
    if contrasts.has_control and signals.size == 1:
        return design.size(float(signals[0]), 1.0, power)
    needed = [
        _needed_roots(design, signals, statistics[place])
        for statistics in _statistics(design, contrasts, [place], runs, seed)
    ]
    root = float(np.quantile(np.concatenate(needed), power, method="higher"))
    if not contrasts.has_control:
        return _size_to_be_named(design, contrasts, place, power, runs, seed, root)
    return _whole(design, contrasts, root**2)


def _whole(design: GroupSequential, contrasts: Contrasts, each: float) -> int:
    """Return the results of all arms and the control if each gets this number, rounded up."""
    return design.looks * len(contrasts.means) * max(1, math.ceil(each / design.looks - 1e-9))


def _needed_roots(design: GroupSequential, signals: Floats, statistics: Floats) -> Floats:
    """Return by run the root of the smallest number of results per arm that passes all tests."""
    looks = np.arange(1, design.looks + 1)[:, np.newaxis]
    missing = design.critical_values[:, np.newaxis] - statistics
    roots = missing / (signals * np.sqrt(looks / design.looks))
    return np.asarray(np.maximum(roots.max(axis=2).min(axis=1), 0.0))


def _size_to_be_named(
    design: GroupSequential,
    contrasts: Contrasts,
    place: int,
    power: float,
    runs: int,
    seed: int,
    root: float,
) -> int | None:
    """Return the smallest size with which the arm is named that often; at least ``root**2``."""

    def suffices(each: float) -> bool:
        most = _whole(design, contrasts, each)
        named = simulate(design, contrasts, most, runs, seed).named
        return float((named == place).mean()) >= power

    low = high = max(root**2, float(design.looks))
    for _ in range(_MOST_DOUBLINGS):
        if suffices(high):
            break
        low, high = high, 2.0 * high
    else:
        return None
    while high - low > max(design.looks, _FINE * high):
        middle = (low + high) / 2.0
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return _whole(design, contrasts, high)


def simulate(
    design: GroupSequential, contrasts: Contrasts, most: int, runs: int, seed: int
) -> LookResults:
    """Return simulated trials with at most that many results.

    A trial ends at the first look at which an arm passes all its tests, and names, of the arms that
    do, the one with the largest estimated overall mean.

    Parameters
    ----------
    design : GroupSequential
        Looks and boundaries.
    contrasts : Contrasts
        What is true, and what must be shown.
    most : int
        Most results, as `size` returns them.
    runs, seed : int
        Number of trials, and source of randomness.
    """
    each = most / len(contrasts.means)
    places = range(len(contrasts.arms))
    parts = [
        _ended(design, contrasts, each, statistics)
        for statistics in _statistics(design, contrasts, places, runs, seed)
    ]
    named, claimed, looks = (np.concatenate(part) for part in zip(*parts, strict=True))
    return LookResults(named, claimed, (looks * (most // design.looks)).astype(np.int64))


def _ended(
    design: GroupSequential, contrasts: Contrasts, each: float, statistics: dict[int, Floats]
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]:
    """Return by run the arm named, the arms that passed, and the number of looks."""
    roots = np.sqrt(each * np.arange(1, design.looks + 1) / design.looks)
    critical = design.critical_values[:, np.newaxis]
    passed, overall = [], []
    for place, noise in statistics.items():
        shifts = roots[:, np.newaxis] * contrasts.signals(place)
        passed.append((noise + shifts > critical).all(axis=2))
        errors = noise[..., 0] * contrasts.spreads(place)[0] / roots
        overall.append(contrasts.effects(place)[0] + errors)
    above = np.stack(passed, axis=2)
    ends: NDArray[np.bool_] = np.any(above, axis=2)
    last = np.where(np.any(ends, axis=1), ends.argmax(axis=1), design.looks - 1)
    run = np.arange(last.size)
    claimed: NDArray[np.bool_] = above[run, last]
    best = np.where(claimed, np.stack(overall, axis=2)[run, last], -np.inf).argmax(axis=1)
    return np.where(np.any(claimed, axis=1), best, -1), claimed, last + 1


def _statistics(
    design: GroupSequential, contrasts: Contrasts, places: Sequence[int], runs: int, seed: int
) -> Iterator[dict[int, Floats]]:
    """Yield by arm the test statistics if there are no effects, some runs at a time.

    The shape is (runs, looks, tests). The tests of all arms depend on each other through the
    control, and those of an arm through its results.
    """
    generator = np.random.default_rng(seed)
    looks = np.sqrt(np.arange(1, design.looks + 1))[:, np.newaxis]
    tests = max(contrasts.tests[place].bounds.size for place in places)
    of_a_look = (len(places) + 1) * max(tests, contrasts.means[0].size)
    batch = max(1, _MOST_DRAWN // (design.looks * of_a_look))
    for start in range(0, runs, batch):
        some = min(batch, runs - start)
        shape = design.looks, some
        control = contrasts.noise(0, *shape, generator) if contrasts.has_control else None
        found = {}
        for place in places:
            own = contrasts.tests[place]
            drawn = contrasts.noise(contrasts.taker(place), *shape, generator)
            sums = np.tensordot(drawn, own.own, ([2, 3], [1, 2]))
            if control is not None:
                sums = sums - np.tensordot(control, own.control, ([2, 3], [1, 2]))
            found[place] = sums / (contrasts.spreads(place) * looks)
        yield found
