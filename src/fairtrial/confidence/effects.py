"""How much better one arm is than another, with intervals that hold at all times.

The counts of a block are fixed before its results. So a weighted sum of its results, with weights
that depend on these counts, has a fixed mean: the difference of two arms. Each block gives one such
number, a new look at the difference, however the counts were chosen.

A policy has to use one kind of interval throughout: if it switched between kinds as results come
in, each kind could fail once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.bounds import NormalMixture
from fairtrial.core.documentation import documented_by
from fairtrial.core.recommendation import Effect

__all__ = [
    "LARGEST_BET",
    "MOST_STEPS",
    "SCALES",
    "SMALLEST_STEP",
    "BlockResults",
    "Difference",
    "DifferenceInterval",
    "Ends",
    "GuessedResults",
    "Spread",
    "difference_from_sums",
    "difference_in_range",
    "difference_of_arms",
    "difference_with_guesses",
    "difference_with_noise",
    "effects_of_arms",
    "known_before",
    "level_of_each",
    "unit_for",
]

Floats = NDArray[np.float64]

LARGEST_BET = 0.5
"""Largest part of a range to bet on one result, so a lost one can count as its worst value."""

_PRIOR = NormalMixture().prior

_SMALLEST_SIZE = 1e-145
"""The smallest size whose square is computed; the inverse is the largest one."""

MOST_STEPS, SMALLEST_STEP = 100, 1e-9
"""Limits of the search for an end of the interval; the step is in units of the range."""

SCALES = 4.0 ** np.arange(11)
"""Amounts of information relative to the first block; there is one bet for each of them."""


class DifferenceInterval(NamedTuple):
    """A difference and the ends of an interval that holds at all times."""

    estimate: float
    lower: float
    upper: float

    def around(self, estimate: float | None) -> DifferenceInterval:
        """Return the interval with another estimate, moved into it if it is outside."""
        if estimate is None:
            return self
        return self._replace(estimate=min(max(estimate, self.lower), self.upper))

    def plus(self, shift: float) -> DifferenceInterval:
        """Return the interval moved by a number."""
        return DifferenceInterval(*(value + shift for value in self))

    def times(self, factor: float) -> DifferenceInterval:
        """Return the interval in other units, or of the opposite difference."""
        low, high = sorted((self.lower * factor, self.upper * factor))
        return DifferenceInterval(self.estimate * factor, low, high)


Difference = Callable[[Floats], DifferenceInterval | None]
"""Maps the weight of every action's mean to the difference of weighted means."""


Ends = tuple[float | None, float | None]
"""A lower and an upper limit."""

_NO_LIMITS: Mapping[tuple[str, str | None], Ends] = MappingProxyType({})


def unit_for(size: float) -> float:
    """Return a unit for values of some size in which their squares can be computed.

    It is a power of two, so nothing is rounded, and 1 for all usual sizes.

    Examples
    --------
    >>> unit_for(-40.0), unit_for(1e160) > 1e159
    (1.0, True)
    """
    if _SMALLEST_SIZE <= abs(size) <= 1.0 / _SMALLEST_SIZE:
        return 1.0
    return 2.0 ** min(math.frexp(size)[1], 1000)


def level_of_each(delta: float, arms: int, *, has_control: bool) -> float:
    """Return the probability that one interval is allowed to ever fail.

    Against a control that was named in advance, it is `delta`. Without a control, arms are compared
    with the leader, which depends on the results. So an arm's interval has to hold against each of
    the other arms.

    Examples
    --------
    >>> level_of_each(0.06, 4, has_control=True), level_of_each(0.06, 4, has_control=False)
    (0.06, 0.02)
    """
    return delta if has_control else delta / max(1, arms - 1)


def effects_of_arms(
    arms: Sequence[str],
    reference: int,
    weights: Mapping[str | None, Floats],
    difference: Difference,
    limits: Mapping[tuple[str, str | None], Ends] = _NO_LIMITS,
) -> tuple[Effect, ...]:
    """Return the effects of all other arms against one reference arm.

    Parameters
    ----------
    arms : sequence of str
        Labels of the K arms.
    reference : int
        Index of the arm that they are compared with.
    weights : mapping of str or None to array of shape (L,)
        The weights of an arm's L actions, by group; the key None is for all groups together.
    difference : callable
        Returns the difference of means for weights of shape (K L,).
    limits : mapping of (str, str or None) to pair of (float or None), optional
        Lower and upper limits of the true difference, by arm and group.
    """
    found = []
    for group, own in weights.items():
        for arm, label in enumerate(arms):
            if arm != reference:
                target = np.zeros((len(arms), own.size))
                target[arm], target[reference] = own, -own
                interval = difference(target.ravel())
                effect = Effect(label, arms[reference], group, *(interval or ()))
                lower, upper = limits.get((label, group), (None, None))
                found.append(replace(effect, lower_limit=lower, upper_limit=upper))
    return tuple(found)


@dataclass(frozen=True)
class Spread:
    """What is known about the spread of results around their means.

    Parameters
    ----------
    scale : array of shape (A,)
        The standard deviation of a result of each action, if the noise is known.
    reward_range : (float, float) or None
        The range of all results, if the range is known instead.
    """

    scale: Floats
    reward_range: tuple[float, float] | None = None

    def only(self, actions: NDArray[np.bool_]) -> Spread:
        """Return the spread of the results of some actions."""
        return Spread(self.scale[actions], self.reward_range)

    def over(self, unit: float) -> Spread:
        """Return the spread of results that are measured in another unit."""
        if self.reward_range is None:
            return Spread(self.scale / unit)
        low, high = self.reward_range
        return Spread(self.scale / unit, (low / unit, high / unit))


@dataclass(frozen=True)
class BlockResults:
    """The results of blocks: one row for each block, one column for each action.

    Parameters
    ----------
    counts, losses : array of shape (T, A)
        Number of results received, and of lost pulls, which count as the worst value.
    sums, squares : array of shape (T, A)
        Sums and sums of squares of the results, each minus its centre.
    centres : array of shape (T, A)
        The value subtracted from each result; fixed before the block.
    earlier : array of shape (3, T, A), optional
        For each block, the number, the sum and the sum of squares of earlier results that were
        known before its first result; each minus the centre of the block. By default those of all
        earlier blocks, which must then have had all their results.
    unit : float
        The unit of sums, squares, centres and `earlier`, in the units of the values that are
        wanted: squares of very large or very small values are out of reach.
    """

    counts: Floats
    losses: Floats
    sums: Floats
    squares: Floats
    centres: Floats
    earlier: Floats | None = None
    unit: float = field(default=1.0, kw_only=True)

    @property
    def drawn(self) -> Floats:
        """Number of results that were received or count as such."""
        return self.counts + self.losses

    def means_of(self, weights: Floats) -> Floats:
        """Return the weighted sum of all results of each block."""
        values = self.sums + self.counts * self.centres
        return np.asarray((weights * values).sum(axis=1))

    def squares_about(self, guesses: Floats) -> Floats:
        """Return sums of squares of results minus guesses of shape (T, A)."""
        off = guesses - self.centres
        return np.asarray(self.squares - 2.0 * off * self.sums + self.counts * off**2)

    def without_losses(self) -> BlockResults:
        """Return the results alone, with no losses that count as the worst value."""
        return replace(self, losses=np.zeros_like(self.losses))

    def followed_by(self, later: BlockResults) -> BlockResults:
        """Return these blocks and later ones, which began after these had all their results.

        Both have the same unit.
        """
        mine = (self.counts, self.losses, self.sums, self.squares, self.centres)
        theirs = (later.counts, later.losses, later.sums, later.squares, later.centres)
        together = BlockResults(*map(np.concatenate, zip(mine, theirs, strict=True)))
        return replace(together, unit=self.unit)

    def difference_of_means(self, target: Floats) -> float | None:
        """Return the weighted sum of the means of all results; None if one has no results."""
        used = target != 0.0
        counts, sums = self.counts[:, used].sum(axis=0), self.sums + self.counts * self.centres
        if not (counts > 0.0).all():
            return None
        return self.unit * float((target[used] * sums[:, used].sum(axis=0) / counts).sum())

    def only(self, blocks: NDArray[np.bool_], actions: NDArray[np.bool_]) -> BlockResults:
        """Return the results of the selected blocks and actions only."""
        fields = (self.counts, self.losses, self.sums, self.squares, self.centres)
        earlier = None if self.earlier is None else self.earlier[:, blocks][:, :, actions]
        own = BlockResults(*(field[blocks][:, actions] for field in fields))
        return replace(own, earlier=earlier, unit=self.unit)

    def in_units(self, low: float, width: float) -> BlockResults:
        """Return the results minus `low`, in units of `width`."""
        low, width = low / self.unit, width / self.unit
        return BlockResults(
            self.counts,
            self.losses,
            self.sums / width,
            self.squares / width / width,
            (self.centres - low) / width,
            self._earlier_times(1.0 / width),
        )

    def _earlier_times(self, factor: float) -> Floats | None:
        if self.earlier is None:
            return None
        number, sums, squares = self.earlier
        return np.stack([number, factor * sums, factor * (factor * squares)])

    def mirrored(self) -> BlockResults:
        """Return 1 minus each result."""
        return replace(
            self,
            sums=-self.sums,
            centres=1.0 - self.centres,
            earlier=self._earlier_times(-1.0),
        )

    def with_losses_worth(self, values: Floats) -> BlockResults:
        """Return the results with values of shape (T, A) in place of lost pulls."""
        off = values - self.centres
        return BlockResults(
            self.drawn,
            np.zeros_like(self.losses),
            self.sums + self.losses * off,
            self.squares + self.losses * off**2,
            self.centres,
            self.earlier,
        )


@dataclass(frozen=True)
class GuessedResults:
    """The results of blocks, each with a guess of it that was fixed before its arm was drawn.

    Parameters
    ----------
    counts, losses : array of shape (T, A)
        Number of results received, and of lost pulls, which count as the worst value.
    sums, squares : array of shape (T, A)
        Sums and sums of squares of the results, each minus its guess.
    guessed : array of shape (T, A)
        Number of the lost pulls whose guess is known; that of others counts as its worst.
    lost_guesses, lost_squares : array of shape (T, A)
        Sums and sums of squares of those guesses.
    earlier : array of shape (2, T, A), optional
        For each block, the number of earlier results that were known before its first result, and
        the sum of squares of their differences from their guesses; as in `BlockResults`.
    """

    counts: Floats
    losses: Floats
    sums: Floats
    squares: Floats
    guessed: Floats
    lost_guesses: Floats
    lost_squares: Floats
    earlier: Floats | None = None

    @property
    def _own(self) -> list[Floats]:
        """All fields of shape (T, A)."""
        return [getattr(self, name) for name in self.__dataclass_fields__ if name != "earlier"]

    def followed_by(self, later: GuessedResults) -> GuessedResults:
        """Return the results of these blocks and of later ones, which began after these ended."""
        pairs = zip(self._own, later._own, strict=True)
        return GuessedResults(*map(np.concatenate, pairs))

    @property
    def variances_before(self) -> Floats:
        """The variance of differences from guesses, as known before each block, shape (T, A)."""
        if self.earlier is None:
            number, squares = _until(self.counts), _until(self.squares)
        else:
            number, squares = self.earlier
        return np.asarray(np.clip((squares + 0.25) / (number + 1.0), 1e-9, 0.25))

    def only(self, blocks: NDArray[np.bool_], actions: NDArray[np.bool_]) -> GuessedResults:
        """Return the results of the selected blocks and actions only."""
        earlier = None if self.earlier is None else self.earlier[:, blocks][:, :, actions]
        own = GuessedResults(*(field[blocks][:, actions] for field in self._own))
        return replace(own, earlier=earlier)

    def in_units(self, low: float, width: float) -> GuessedResults:
        """Return the results minus `low`, in units of `width`."""
        guesses = self.lost_guesses - low * self.guessed
        squares = self.lost_squares - 2.0 * low * self.lost_guesses + low**2 * self.guessed
        return replace(
            self,
            sums=self.sums / width,
            squares=self.squares / width**2,
            lost_guesses=guesses / width,
            lost_squares=squares / width**2,
            earlier=None if self.earlier is None else self.earlier / [[[1.0]], [[width**2]]],
        )

    def with_losses_worth(self, values: Floats) -> BlockResults:
        """Return the differences from the guesses, with 0 or 1 in place of lost pulls (T, A)."""
        off = self.guessed * values - self.lost_guesses
        squares = self.guessed * values**2 - 2.0 * values * self.lost_guesses + self.lost_squares
        # Without a known guess, the worst one is the opposite end of the range.
        unknown = self.losses - self.guessed
        return BlockResults(
            self.counts + self.losses,
            np.zeros_like(self.losses),
            self.sums + off + unknown * (2.0 * values - 1.0),
            self.squares + squares + unknown,
            np.zeros_like(self.losses),
        )


def difference_with_guesses(
    results: GuessedResults,
    target: Floats,
    low: float,
    high: float,
    level: float,
) -> DifferenceInterval | None:
    """Return a difference of weighted means of results in a range, each with a guess.

    Parameters
    ----------
    results : GuessedResults
        Results of T blocks whose counts did not depend on their results.
    target : array of shape (A,)
        The weight of each action's mean; the weights of actions with guesses of the same mean (the
        arms of a group) sum to 0.
    low, high : float
        The range.
    level : float
        The probability that the interval ever fails.

    Returns
    -------
    DifferenceInterval or None
        None if no block has results of all actions with a weight.

    Notes
    -----
    As `difference_in_range`, with a guess of its own for each result Y: ``exp(x (Y - g) - (-log(1 -
    |x|) - |x|) (Y - g)^2) <= 1 + x (Y - g)``. In a block the bets x of the arms of a group sum to
    0, so the guesses cancel out in the mean. An interval is narrower by what they explain.

    Examples
    --------
    >>> ones, none = np.ones((4, 2)), np.zeros((4, 2))
    >>> off, squares = np.array([[5.0, -5.0]]) * ones, 2.0 * ones
    >>> results = GuessedResults(50 * ones, none, off, squares, none, none, none)
    >>> found = difference_with_guesses(results, np.array([1.0, -1.0]), 0.0, 1.0, 0.05)
    >>> [round(end, 2) for end in found]
    [0.2, 0.12, 0.28]
    """
    wanted = target != 0.0
    drawn = results.counts + results.losses
    usable = np.asarray((drawn[:, wanted] > 0.0).all(axis=1))
    if not usable.any():
        return None
    width = high - low
    known = results.only(usable, wanted).in_units(low, width)
    drawn = known.counts + known.losses
    weights = target[wanted] / drawn
    variance = (weights**2 * drawn * known.variances_before).sum(axis=1)
    bets = _bets(weights, drawn, variance, level)
    ends = []
    for sign in (1.0, -1.0):
        taken = known.with_losses_worth(np.where(sign * weights > 0.0, 0.0, 1.0))
        gained = sign * taken.means_of(weights)
        least = float(np.minimum(sign * target, 0.0).sum())
        end = _lower_end(taken, weights, bets, gained, np.zeros_like(drawn), level, least)
        ends.append(sign * width * end)
    came = target[wanted] / np.maximum(known.counts, 1.0)
    means = (came * known.sums).sum(axis=1)
    estimate = width * float((means / variance).sum() / (1.0 / variance).sum())
    return DifferenceInterval(min(max(estimate, ends[0]), ends[1]), ends[0], ends[1])


def difference_of_arms(
    results: BlockResults,
    target: Floats,
    spread: Spread,
    level: float,
) -> DifferenceInterval | None:
    """Return a difference of weighted means from the blocks that have results of all of them.

    Parameters
    ----------
    results : BlockResults
        Results of T blocks whose counts did not depend on their results.
    target : array of shape (A,)
        The weight of each action's mean in the difference; the positive ones sum to 1, as do the
        negative ones. Without negative ones, the difference is a mean.
    spread : Spread
        What is known about the spread of the results.
    level : float
        The probability that the interval ever fails.

    Returns
    -------
    DifferenceInterval or None
        The estimate is the difference of the means of all results, moved into the interval if it is
        outside. None if no block has results of all actions with a weight.
    """
    wanted = target != 0.0
    usable = np.asarray((results.drawn[:, wanted] > 0.0).all(axis=1))
    if not usable.any():
        return None
    known = results.only(usable, wanted)
    known, own = replace(known, unit=1.0), spread.only(wanted).over(results.unit)
    weights = target[wanted] / known.drawn
    if own.reward_range is None:
        one_of_each = float((target[wanted] ** 2 * own.scale**2).sum())
        found = difference_with_noise(known, weights, own.scale, level, one_of_each)
    else:
        # In the units of the range its lower end is 0. That cancels out of differences only.
        start = own.reward_range[0] * float(target.sum())
        found = difference_in_range(known, weights, *own.reward_range, level).plus(start)
    return found.times(results.unit).around(results.difference_of_means(target))


@documented_by(difference_of_arms)
def difference_from_sums(
    counts: Floats,
    sums: Floats,
    target: Floats,
    spread: Spread,
    level: float,
    missing: Floats | None = None,
) -> DifferenceInterval | None:
    """Return a difference of weighted means from all results, however pulls were chosen.

    The interval is wider than one from blocks, because each action's mean adds its own uncertainty.

    Parameters
    ----------
    counts, sums : array of shape (A,)
        Number of results of each action, and their sums.
    spread : Spread
        What is known about the spread of the results; in a range, the scale is half its width.
        While a scale is infinite, because it cannot be estimated yet, nothing is returned.
    missing : array of shape (A,), optional
        Number of missing results. In a range, each counts as its worst value, which differs between
        the two ends of the interval; with known noise they are left out.

    Notes
    -----
    A normal mixture for each action's sum of results is a martingale. So is their product, because
    each result changes one factor. It exceeds 1/level outside an ellipsoid.

    Source: de la Pena, Lai and Shao (2009), Self-normalized processes, section 14.2.

    Examples
    --------
    >>> ends = difference_from_sums(
    ...     np.array([50.0, 50.0]),
    ...     np.array([30.0, 10.0]),
    ...     np.array([1.0, -1.0]),
    ...     Spread(np.ones(2)),
    ...     0.05,
    ... )
    >>> [round(end, 2) for end in ends]
    [0.4, -0.46, 1.26]
    """
    wanted = target != 0.0
    came, summed, weights = counts[wanted], sums[wanted], target[wanted]
    if not ((came > 0.0) & np.isfinite(spread.scale[wanted])).all():
        return None
    lost, (low, high) = np.zeros_like(came), spread.reward_range or (0.0, 0.0)
    if spread.reward_range is not None and missing is not None:
        lost = missing[wanted]
    own = came + lost
    total = own + _PRIOR
    growth = 2.0 * math.log(1.0 / level) + float(np.log(total / _PRIOR).sum())
    unit = unit_for(float(spread.scale[wanted].max(initial=0.0)))
    scale = spread.scale[wanted] / unit
    reach = unit * math.sqrt(growth * float((weights**2 * scale**2 * total / own**2).sum()))
    least = summed + lost * np.where(weights > 0.0, low, high)
    most = summed + lost * np.where(weights > 0.0, high, low)
    return DifferenceInterval(
        float((weights * summed / came).sum()),
        float((weights * least / own).sum()) - reach,
        float((weights * most / own).sum()) + reach,
    )


def difference_with_noise(
    results: BlockResults,
    weights: Floats,
    scale: Floats,
    level: float,
    one_of_each: float,
    bias: Floats | float = 0.0,
) -> DifferenceInterval:
    """Return a difference for results with known noise, by a normal mixture over blocks.

    Parameters
    ----------
    results : BlockResults
        Results of T blocks whose counts did not depend on their results.
    weights : array of shape (T, A)
        Weights for every block that make the mean of its weighted sum equal to the difference.
    scale : array of shape (A,)
        The standard deviation of a result of each action.
    level : float
        The probability that the interval ever fails.
    one_of_each : float
        The variance of the difference of single results, which sets the scale of the mixture.
    bias : float or array of shape (T,)
        How far the mean of the weighted sum may be from the difference.

    Notes
    -----
    Source: Robbins (1970), with blocks in place of results (`NormalMixture`).

    Examples
    --------
    >>> ones = np.ones((1, 2))
    >>> results = BlockResults(50 * ones, 0 * ones, [[30, 10]] * ones, 50 * ones, 0 * ones)
    >>> weights = np.array([[0.02, -0.02]])
    >>> interval = difference_with_noise(results, weights, np.ones(2), 0.05, 2.0)
    >>> [round(end, 2) for end in interval]
    [0.4, -0.3, 1.1]
    """
    variance = (weights**2 * results.counts * scale**2).sum(axis=1)
    known = float((1.0 / variance).sum())
    estimate = float((results.means_of(weights) / variance).sum() / known)
    radius = NormalMixture().radius(known * one_of_each, level, math.sqrt(one_of_each))
    reach = float(radius) + float((bias / variance).sum()) / known
    return DifferenceInterval(estimate, estimate - reach, estimate + reach)


@documented_by(difference_with_noise)
def difference_in_range(
    results: BlockResults,
    weights: Floats,
    low: float,
    high: float,
    level: float,
) -> DifferenceInterval:
    """Return a difference for results in a range, by bets that adapt to the observed spread.

    A lost pull counts as its worst value, which differs between the two ends of the interval.

    Parameters
    ----------
    low, high : float
        The range. If it does not begin at 0, the weights of a block's results must add up to 0.

    Notes
    -----
    Take rewards in [0, 1], a result Y with mean m, and a guess g and a bet |x| < 1 that are fixed
    before the result. Then ``exp(x (Y - m) - (-log(1 - |x|) - |x|) (Y - g)^2)`` has mean at most 1.
    Its product over all results, averaged over bets for different amounts of evidence, is an
    e-value against every difference that is too small (or too large). The differences that are not
    rejected form the interval.

    Source: Fan, Grama and Liu (2015), Exponential inequalities for martingales with applications;
    Waudby-Smith and Ramdas (2024), Estimating means of bounded random variables by betting.

    Examples
    --------
    >>> ones = np.ones((4, 2))
    >>> results = BlockResults(50 * ones, 0 * ones, [[30, 10]] * ones, [[30, 10]] * ones, 0 * ones)
    >>> weights = np.array([[0.02, -0.02]]) * ones
    >>> interval = difference_in_range(results, weights, 0.0, 1.0, 0.05)
    >>> [round(end, 2) for end in interval]
    [0.4, 0.22, 0.58]
    """
    width = high - low
    results = results.in_units(low, width)
    guesses, variances = known_before(results)
    variance = (weights**2 * results.drawn * variances).sum(axis=1)
    bets = _bets(weights, results.drawn, variance, level)
    ends = []
    for sign in (1.0, -1.0):
        taken = results.with_losses_worth(np.where(sign * weights > 0.0, 0.0, 1.0))
        gained = sign * taken.means_of(weights)
        possible = np.minimum(sign * weights * results.drawn, 0.0).sum(axis=1)
        lowest = float(possible.max())
        end = _lower_end(taken, weights, bets, gained, guesses, level, lowest)
        ends.append(sign * width * end)
    came = weights * results.drawn / np.maximum(results.counts, 1.0)
    estimate = width * float((results.means_of(came) / variance).sum() / (1 / variance).sum())
    return DifferenceInterval(min(max(estimate, ends[0]), ends[1]), ends[0], ends[1])


def known_before(results: BlockResults) -> tuple[Floats, Floats]:
    """Return the mean and variance of each action as known before each block.

    The prior is one result in the middle of the range, with the largest possible variance.
    """
    off = results.centres - 0.5
    own = results.counts, results.sums, results.squares
    number, summed, squared = own if results.earlier is None else results.earlier
    sums, squares = summed + number * off, squared + 2 * off * summed + number * off**2
    if results.earlier is None:
        number, sums, squares = map(_until, (number, sums, squares))
    counts = number + 1.0
    means = sums / counts
    variances = np.clip((squares + 0.25) / counts - means**2, 1e-9, 0.25)
    return 0.5 + means, variances


def _until(values: Floats) -> Floats:
    """Return for each row the sum of all earlier rows."""
    before: Floats = np.cumsum(values, axis=0) - values
    return before


def _bets(weights: Floats, drawn: Floats, variance: Floats, level: float) -> Floats:
    """Return the bets on each block, shape (T, bets).

    A bet on a block is larger where the variance is smaller.
    """
    first = float((weights[0] ** 2 * drawn[0]).sum()) / 4
    targets = np.sqrt(2.0 * math.log(2.0 / level) * first / SCALES)
    most = LARGEST_BET / np.abs(weights).max(axis=1)
    bets: Floats = np.minimum(targets / variance[:, None], most[:, None])
    return bets


def _lower_end(
    results: BlockResults,
    weights: Floats,
    bets: Floats,
    gained: Floats,
    guesses: Floats,
    level: float,
    lowest: float,
) -> float:
    """Return the smallest difference, at least `lowest`, that bets do not reject (range [0, 1])."""
    spread = results.squares_about(guesses)
    stakes = np.abs(weights)[:, :, None] * bets[:, None, :]
    paid = np.einsum("ta,tas->s", spread, -np.log1p(-stakes) - stakes)
    total, gains = bets.sum(axis=0), gained @ bets - math.log(SCALES.size)
    needed = math.log(2.0 / level)

    end = lowest
    # The log e-value is convex and decreasing, so Newton steps never overshoot the crossing.
    for _ in range(MOST_STEPS):
        logs = gains - paid - end * total
        shares = np.exp(logs - logs.max())
        excess = float(logs.max() + math.log(shares.sum())) - needed
        step = excess / float(shares @ total / shares.sum())
        if step <= SMALLEST_STEP:
            break
        end += step
    return end
