"""Means with intervals that hold at all times, from results of which some will never be known."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.bounds import NormalMixture
from fairtrial.confidence.effects import DifferenceAt

__all__ = ["Means", "Settled", "means_from", "means_of"]

Floats = NDArray[np.float64]


class Settled(NamedTuple):
    """The results that count: those of settled blocks, whose number does not depend on values.

    Attributes
    ----------
    counts, sums : array
        Numbers of results, and their sums.
    missing : array
        Number of further pulls whose results are unknown, such as lost ones.
    """

    counts: Floats
    sums: Floats
    missing: Floats


class Means(NamedTuple):
    """Means and the ends of their intervals; NaN where nothing is known."""

    mean: Floats
    lower: Floats
    upper: Floats

    @classmethod
    def so_far(cls, counts: Floats, sums: Floats) -> Means:
        """Return the plain means of all results, which have no intervals."""
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.where(counts > 0.0, sums / counts, np.nan)
        unknown = np.full(mean.shape, np.nan)
        return cls(mean, unknown, unknown)

    def at(self, place: tuple[int, ...] | int) -> tuple[float | None, float | None, float | None]:
        """Return mean, lower and upper end of one of the means; None where nothing is known."""
        mean, lower, upper = (float(values[place]) for values in self)
        return _known(mean), _known(lower), _known(upper)

    def within(self, ends: tuple[Floats | float, Floats | float] | None) -> Means:
        """Return the same intervals, cut at the ends of a range, if there is one."""
        if ends is None:
            return self
        return Means(self.mean, np.clip(self.lower, *ends), np.clip(self.upper, *ends))

    def weighted(self, weights: Floats) -> Means:
        """Return the weighted means over the last axis; NaN if one with a weight is unknown.

        Their intervals contain the weighted mean if each single one contains its mean.
        """
        used = weights > 0.0
        return Means(*(values[..., used] @ weights[used] for values in self))

    def combined(self, weights: Floats) -> Means:
        """Return sums over all axes but the first, with weights of any sign.

        NaN if a mean with a weight is unknown. Intervals contain the sum if each single one
        contains its mean.
        """
        used = weights != 0.0
        mean, lower, upper = (values[:, used] for values in self)
        own = weights[used]
        least, most = np.minimum(own * lower, own * upper), np.maximum(own * lower, own * upper)
        return Means(mean @ own, least.sum(axis=1), most.sum(axis=1))

    def apart_from(self, place: int) -> Means:
        """Return all means minus the one at a place.

        Intervals contain the difference if each single one contains its mean.
        """
        mean, lower, upper = self
        return Means(mean - mean[place], lower - upper[place], upper - lower[place])

    def or_so_far(self, counts: Floats, sums: Floats) -> Means:
        """Return the same, with the mean of all results so far where none of them counts yet.

        Such a mean has no interval.
        """
        so_far = Means.so_far(counts, sums).mean
        return self._replace(mean=np.where(np.isnan(self.mean), so_far, self.mean))


def means_of(
    settled: Settled,
    scale: Floats | float,
    level: float,
    reward_range: tuple[Floats | float, Floats | float] | None = None,
) -> Means:
    """Return means with intervals; each interval ever fails with probability at most `level`.

    Parameters
    ----------
    settled : Settled
        The results. In a range, each missing one counts as the worst value, which differs between
        the two ends of the interval; with known noise it is left out.
    scale : array or float
        The standard deviation of a result.
    reward_range : pair of array or of float, optional
        The range of all results, if it is known; intervals are not cut at its ends.

    Notes
    -----
    With every missing value at its lowest, the lower end is at most the one that all values would
    give; likewise the upper end. So it does not matter why values are missing.

    Examples
    --------
    >>> lossy = Settled(np.array([70.0]), np.array([70.0]), missing=np.array([30.0]))
    >>> found = means_of(lossy, scale=0.5, level=0.05, reward_range=(0.0, 1.0))
    >>> [round(float(values[0]), 2) for values in found.within((0.0, 1.0))]
    [1.0, 0.52, 1.0]
    """
    counts, sums, missing = settled
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(counts > 0.0, sums / counts, np.nan)
        if reward_range is None:
            radius = NormalMixture().radius(counts, level, scale)
            return Means(mean, mean - radius, mean + radius)
        low, high = reward_range
        drawn = counts + missing
        radius = NormalMixture().radius(drawn, level, scale)
        lower = np.where(drawn > 0.0, (sums + missing * low) / drawn - radius, np.nan)
        upper = np.where(drawn > 0.0, (sums + missing * high) / drawn + radius, np.nan)
    return Means(mean, lower, upper)


def means_from(difference: DifferenceAt, targets: Floats, level: float) -> Means:
    """Return weighted means with intervals; each interval ever fails with probability `level`.

    Parameters
    ----------
    difference : callable
        Finds a weighted sum of means.
    targets : ndarray of shape (n, actions)
        The weight of each action in each of the means; they sum to 1.
    """
    found = np.full((3, len(targets)), np.nan)
    for number, target in enumerate(targets):
        interval = difference(target, level=level)
        if interval is not None:
            found[:, number] = interval
    return Means(*found)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
