"""Means with intervals that hold at all times, from results of which some will never be known."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.bounds import NormalMixture
from fairtrial.confidence.effects import (
    LARGEST_BET,
    MOST_STEPS,
    SCALES,
    SMALLEST_STEP,
    BlockResults,
    DifferenceInterval,
    Spread,
    difference_of_arms,
    known_before,
)

__all__ = ["BlockMeans", "Means", "Settled", "means_in_range", "means_of"]

Floats = NDArray[np.float64]

_FIXED_STAKES = 3.0 * 0.5 ** np.arange(11)
"""Sizes of bets that are the same in all blocks; from a few results to a few million."""

_MOST_AT_ONCE = 2_000_000
"""Most numbers, of all blocks and bets, in one array."""


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

    def in_range(self, reward_range: tuple[float, float], *, combines: bool = False) -> BlockMeans:
        """Return what finds means from these results alone, without their blocks.

        `combines`: as in `BlockMeans`.
        """
        counts, sums, missing = (values.ravel()[np.newaxis] for values in self)
        unknown = np.full_like(sums, np.nan)
        rows = BlockResults(counts, missing, sums, unknown, np.zeros_like(sums))
        return BlockMeans(rows, reward_range, is_whole=False, combines=combines)


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

    def reshaped(self, shape: tuple[int, ...]) -> Means:
        """Return the same in another shape."""
        return Means(*(values.reshape(shape) for values in self))

    def around(self, mean: Floats) -> Means:
        """Return the same intervals with other means, each moved into its interval."""
        moved = np.fmin(np.fmax(mean, self.lower), self.upper)
        return self._replace(mean=np.where(np.isnan(mean), np.nan, moved))

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
        The standard deviation of a result; infinite where it is not known.
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
            is_known = np.isfinite(scale)
            radius = NormalMixture().radius(counts, level, np.where(is_known, scale, 1.0))
            radius = np.where(is_known, radius, np.nan)
            return Means(mean, mean - radius, mean + radius)
        low, high = reward_range
        drawn = counts + missing
        radius = NormalMixture().radius(drawn, level, scale)
        lower = np.where(drawn > 0.0, (sums + missing * low) / drawn - radius, np.nan)
        upper = np.where(drawn > 0.0, (sums + missing * high) / drawn + radius, np.nan)
    return Means(mean, lower, upper)


class BlockMeans(NamedTuple):
    """Weighted sums of means of results in a range, with intervals that hold at all times.

    Parameters
    ----------
    results : BlockResults
        Results of blocks whose counts did not depend on their results.
    reward_range : (float, float)
        The range of the results.
    is_whole : bool
        False if the blocks are not known: the results are then those of all blocks together.
    combines : bool
        Without the blocks, whether sums have the sums of the intervals of means, which share the
        level. It must be False if the blocks were known before: each kind of interval could fail.
    """

    results: BlockResults
    reward_range: tuple[float, float]
    is_whole: bool = True
    combines: bool = False

    def __call__(self, target: Floats, *, level: float) -> DifferenceInterval | None:
        """Return the sum for the weight of every action's mean; None if nothing is known of it.

        The interval ever fails with probability `level`, and either end with half of it.
        """
        if not self.is_whole:
            return self._combined(target, level) if self.combines else None
        low, high = self.reward_range
        spread = Spread(np.full(target.size, 0.5 * (high - low)), self.reward_range)
        return difference_of_arms(self.results, target, spread, level)

    def _combined(self, target: Floats, level: float) -> DifferenceInterval | None:
        """Return a sum from the intervals of its means; None if one of them is unknown."""
        single = np.stack(self.of_each(level / np.count_nonzero(target)))
        mean, lower, upper = Means(*single[:, np.newaxis]).combined(target)
        if np.isnan(lower[0]):
            return None
        return DifferenceInterval(float(mean[0]), float(lower[0]), float(upper[0]))

    def of_each(self, level: float) -> Means:
        """Return the mean of every action; NaN where nothing is known.

        An interval ever fails with probability `level`, and either end with half of it.
        """
        return means_in_range(self.results, *self.reward_range, level, is_whole=self.is_whole)

    def of(self, targets: Floats, level: float) -> Means:
        """Return several such sums; NaN where nothing is known.

        Parameters
        ----------
        targets : ndarray of shape (n, actions)
            The weight of each action in each of the sums.
        level : float
            The probability that the interval of a sum ever fails; either end fails with half of it.
        """
        found = np.full((3, len(targets)), np.nan)
        is_single = (np.count_nonzero(targets, axis=1) == 1) & (targets.max(axis=1) == 1.0)
        if is_single.any():
            each = np.stack(self.of_each(level))
            found[:, is_single] = each[:, targets[is_single].argmax(axis=1)]
        for number in np.flatnonzero(~is_single):
            interval = self(targets[number], level=level)
            if interval is not None:
                found[:, number] = interval
        return Means(*found)


def means_in_range(
    results: BlockResults, low: float, high: float, level: float, *, is_whole: bool = True
) -> Means:
    """Return the mean of every action for results in a range, by bets that adapt to the spread.

    A lost pull counts as its worst value, which differs between the two ends of the interval.

    Parameters
    ----------
    results : BlockResults
        Results of T blocks of A actions, whose counts did not depend on their results.
    low, high : float
        The range.
    level : float
        The probability that the interval of an action ever fails; either end fails with half of it.
    is_whole : bool
        False if the blocks are not known: the results are then those of all blocks together.

    Returns
    -------
    Means
        Means of the results, each moved into its interval if it is outside. Intervals are within
        the range.

    Notes
    -----
    Take results Y in [0, 1] with mean m. Half of the capital is bet as in `difference_in_range`.
    The other half is bet with stakes x that are the same for all results: ``exp(x Y) / (1 - m + m
    exp(x))`` has mean at most 1, because exp(x y) is convex in y. These bets need no guesses; they
    are best for few results, and for results of 0 and 1. Without the blocks, nothing else is left:
    their half of the capital. Both kinds grow with Y, so lost pulls can count as 0. The upper end
    is 1 minus the lower end for 1 - Y.

    Source: Fan, Grama and Liu (2015), Exponential inequalities for martingales with applications;
    Hoeffding (1963), Probability inequalities for sums of bounded random variables, (4.1).

    Examples
    --------
    >>> ones = np.ones((4, 2))
    >>> results = BlockResults(50 * ones, 0 * ones, [[30, 0]] * ones, [[30, 0]] * ones, 0 * ones)
    >>> [values.round(2).tolist() for values in means_in_range(results, 0.0, 1.0, 0.05)]
    [[0.6, 0.0], [0.47, 0.0], [0.72, 0.03]]
    """
    known = results.in_units(low, high - low)
    blocks, actions = results.counts.shape
    found = np.full((3, actions), np.nan)
    width = max(1, _MOST_AT_ONCE // (max(1, blocks) * SCALES.size))
    for begin in range(0, actions, width):
        part = np.arange(actions) // width == begin // width
        part &= np.asarray((known.drawn > 0.0).any(axis=0))
        if part.any():
            own = known.only(np.ones(blocks, dtype=np.bool_), part)
            inside = _means_in_units(own, level, is_whole=is_whole)
            found[:, part] = np.clip(low + (high - low) * inside, low, high)
    return Means(*found)


def _means_in_units(results: BlockResults, level: float, *, is_whole: bool) -> Floats:
    """Return means and their ends, shape (3, A), of actions that all have been drawn; in [0, 1]."""
    came = results.counts.sum(axis=0)
    sums = (results.sums + results.counts * results.centres).sum(axis=0)
    ends = []
    for is_upper in (False, True):
        own = results.mirrored() if is_upper else results
        bets = _Bets.fixed(own)
        if is_whole:
            bets = bets.with_adapted(own, level)
        end = bets.least_not_rejected(level)
        ends.append(1.0 - end if is_upper else end)
    means = np.where(came > 0.0, sums / np.maximum(came, 1.0), np.nan)
    return np.stack([np.clip(means, *ends), *ends])


class _Bets(NamedTuple):
    """Bets against small means of results in [0, 1], for each of A actions.

    Attributes
    ----------
    won, drawn : ndarray of shape (A, 1)
        The sum of all results, and their number; both for the bets with fixed stakes.
    adapted, staked : ndarray of shape (A, bets)
        Of bets whose stakes adapt: their log wealth against a mean of 0, and by how much it falls
        if the mean rises by 1.
    """

    won: Floats
    drawn: Floats
    adapted: Floats
    staked: Floats

    @classmethod
    def fixed(cls, results: BlockResults) -> _Bets:
        """Return bets with fixed stakes alone; lost results count as 0."""
        won = (results.sums + results.counts * results.centres).sum(axis=0)
        none = np.zeros((won.size, 0))
        return cls(won[:, np.newaxis], results.drawn.sum(axis=0)[:, np.newaxis], none, none)

    def with_adapted(self, results: BlockResults, level: float) -> _Bets:
        """Return the same with bets whose stakes adapt to the results of earlier blocks."""
        drawn = results.drawn
        guesses, variances = known_before(results)
        first = drawn[np.argmax(drawn > 0.0, axis=0), np.arange(drawn.shape[1])]
        targets = np.sqrt(math.log(2.0 / level) / (2.0 * first[:, np.newaxis] * SCALES))
        # The part of the range that each bet stakes on every result of a block.
        stakes = np.minimum(targets / variances[:, :, np.newaxis], LARGEST_BET)
        spread = results.squares_about(guesses) + results.losses * guesses**2
        sums = results.sums + results.counts * results.centres
        return self._replace(
            adapted=np.einsum("ta,tas->as", sums, stakes)
            - np.einsum("ta,tas->as", spread, -np.log1p(-stakes) - stakes),
            staked=np.einsum("ta,tas->as", drawn, stakes),
        )

    def least_not_rejected(self, level: float) -> Floats:
        """Return the smallest mean of each action against which wealth is less than 2 / level."""
        needed = math.log(2.0 / level)
        ends = np.zeros(len(self.won))
        # The log wealth is convex and decreasing, so Newton steps never overshoot the crossing.
        for _ in range(MOST_STEPS):
            value, fall = self._log_wealth(ends[:, np.newaxis])
            steps = (value - needed) / fall
            if not (steps > SMALLEST_STEP).any():
                break
            ends = np.minimum(ends + np.maximum(steps, 0.0), 1.0)
        return ends

    def _log_wealth(self, means: Floats) -> tuple[Floats, Floats]:
        """Return the log wealth against means of shape (A, 1), and how fast it falls with them."""
        rise = np.expm1(_FIXED_STAKES)
        fixed = _FIXED_STAKES * self.won - self.drawn * np.log1p(means * rise)
        logs = np.concatenate([fixed, self.adapted - means * self.staked], axis=1)
        falls = np.concatenate([self.drawn * rise / (1.0 + means * rise), self.staked], axis=1)
        largest = logs.max(axis=1, keepdims=True)
        shares = np.exp(logs - largest)
        whole = shares.sum(axis=1)
        capital = largest[:, 0] + np.log(whole) - math.log(_FIXED_STAKES.size + SCALES.size)
        return capital, (shares * falls).sum(axis=1) / whole


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
