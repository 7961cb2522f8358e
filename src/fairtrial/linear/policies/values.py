"""Values of arms and candidates from blocks of results in a range, with intervals.

The counts of a block are fixed before its results. So a least-squares fit to the results of one
block gives an unbiased value of every direction that the block measures. Bets on these values
adapt to the spread of the results. All that a bet uses is fixed when its block is planned.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.effects import LARGEST_BET, MOST_STEPS, SCALES, SMALLEST_STEP

__all__ = ["LinearResults", "values_in_range"]

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

_UNSEEN = 1e-9
"""The share of a direction that a block may miss and still count as having measured it."""

_FACTORS = (1.0 / 2.0, 1.0 / 3.0, (math.log(2.0) - 2.0 / 3.0) / LARGEST_BET**4)
"""Of x^2, x^3 and x^4 in the price of a bet x: their sum is ``-log(1 - x) - x`` at the largest bet.

For smaller bets it is larger, since the series of that function has only positive terms.
"""

_POOLED = 10.0
"""How many results of an arm count as much for its variance as those of all arms together."""

_MOST_AT_ONCE = 2_000_000
"""Most numbers in one array."""


@dataclass(frozen=True)
class LinearResults:
    """The results of T blocks of K linear arms; all but `width` is in units of the range's width.

    Parameters
    ----------
    arms : array of shape (K, r)
        The features of every arm.
    counts, losses : array of shape (T, K)
        Number of results received, and of other planned pulls, which count as the worst value.
    sums, squares : array of shape (T, K)
        Sums and sums of squares of the results, each minus its prediction.
    predictions : array of shape (T, r)
        The coefficients of the predictions, fixed before the block.
    known : array of shape (2, T, K)
        For each block, the number of results known when it was planned, and the sum of squares of
        their differences from their own predictions.
    deviations : array of shape (K,)
        How far the mean of an arm may be from a linear one.
    low : float
        The lower end of the range, minus `shift`.
    shift : float
        A constant that predictions leave out; 0 unless the features include a constant.
    width : float
        The width of the range, in the units of the values that are wanted.
    """

    arms: Floats
    counts: Floats
    losses: Floats
    sums: Floats
    squares: Floats
    predictions: Floats
    known: Floats
    deviations: Floats
    low: float
    shift: float
    width: float

    @property
    def drawn(self) -> Floats:
        """Number of planned pulls, shape (T, K)."""
        return self.counts + self.losses

    @property
    def variances(self) -> Floats:
        """The variance of a result about its prediction, as known when planned, shape (T, K).

        That of an arm with few results is close to that of all arms. Before any, it is the largest
        that a range allows.
        """
        number, squares = self.known
        together = (squares.sum(axis=1) + 0.25) / (number.sum(axis=1) + 1.0)
        pooled = _POOLED * together[:, np.newaxis]
        return np.asarray(np.clip((squares + pooled) / (number + _POOLED), 1e-9, 0.25))


class _Blocks(NamedTuple):
    """Some blocks, with as many columns as the widest of them has arms; 0 where there is none.

    Attributes
    ----------
    rows : ndarray of shape (T, S, r)
        The features of the arms.
    drawn, lost, spread, deviations : ndarray of shape (T, S)
        Numbers of pulls, and of lost ones; the variance of a result as known when planned; how far
        the mean of an arm may be from a linear one.
    lows : ndarray of shape (T, S)
        The lower end of the range, minus the prediction.
    sums : ndarray of shape (T, S)
        Sums of results minus predictions, with every lost pull at the lowest value.
    squares, unlike : ndarray of shape (T, S)
        Sums of squares of results minus guesses: the mean of those with every lost pull at the
        lowest and at the highest value, and half of the difference of the two.
    predictions : ndarray of shape (T, r)
        The coefficients of the predictions.
    """

    rows: Floats
    drawn: Floats
    lost: Floats
    spread: Floats
    deviations: Floats
    lows: Floats
    sums: Floats
    squares: Floats
    unlike: Floats
    predictions: Floats


def _blocks_at_once(results: LinearResults, directions: int) -> Iterator[_Blocks]:
    """Yield the blocks in order, so many at once that arrays by direction stay small."""
    drawn, variances = results.drawn, results.variances
    support = drawn > 0.0
    width = max(1, int(support.sum(axis=1).max(initial=0)))
    columns = np.argsort(~support, axis=1, kind="stable")[:, :width]
    step = _MOST_AT_ONCE // (max(width, results.arms.shape[1], SCALES.size) * directions)
    for begin in range(0, len(drawn), max(1, step)):
        part = slice(begin, begin + max(1, step))
        places = columns[part]
        of = partial(_columns, part, places)
        rows, predictions = results.arms[places], results.predictions[part]
        lows = results.low - np.einsum("tsr,tr->ts", rows, predictions)
        guesses = np.clip(0.0, lows, lows + 1.0)
        lost, counts, sums = of(results.losses), of(results.counts), of(results.sums)
        known = of(results.squares) - 2.0 * guesses * sums + counts * guesses**2
        least, most = lost * (lows - guesses) ** 2, lost * (lows + 1.0 - guesses) ** 2
        yield _Blocks(
            rows,
            counts + lost,
            lost,
            of(variances),
            results.deviations[places],
            lows,
            sums + lost * lows,
            known + 0.5 * (least + most),
            0.5 * (least - most),
            predictions,
        )


def _columns(part: slice, places: NDArray[np.intp], values: Floats) -> Floats:
    """Return some columns of each of some rows, shape (T, S)."""
    return np.asarray(np.take_along_axis(values[part], places, axis=1))


class _Bets:
    """Bets against small values of D directions.

    Attributes
    ----------
    gained, staked : ndarray of shape (D, bets)
        Their log wealth against a value of 0, and by how much it falls if the value rises by 1.
    lowest : ndarray of shape (D,)
        The least value that any block allows; minus infinity before the first one.
    """

    def __init__(self, directions: int) -> None:
        self.gained = np.zeros((directions, SCALES.size))
        self.staked = np.zeros((directions, SCALES.size))
        self.lowest = np.full(directions, -math.inf)

    def add(
        self, bets: Floats, seen: Booleans, fitted: Floats, least: Floats, costs: Sequence[Floats]
    ) -> None:
        """Add the bets on some blocks.

        Parameters
        ----------
        bets : ndarray of shape (T, D, bets)
            The bets; 0 on what a block does not measure.
        seen : ndarray of shape (T, D)
            What blocks measure.
        fitted, least : ndarray of shape (T, D)
            The fitted values, and the least ones that the range allows.
        costs : sequence of ndarray of shape (T, D)
            The price of a bet, as factors of its second, third and fourth power.
        """
        self.lowest = np.maximum(self.lowest, np.where(seen, least, -math.inf).max(axis=0))
        self.staked += bets.sum(axis=0)
        self.gained += np.einsum("td,tdb->db", fitted, bets)
        power = bets
        for cost in costs:
            power = power * bets
            self.gained -= np.einsum("td,tdb->db", cost, power)

    def least_not_rejected(self, level: float) -> Floats:
        """Return the smallest value of each direction against which wealth is below 2 / level."""
        needed = math.log(2.0 / level) + math.log(SCALES.size)
        ends = self.lowest.copy()
        moving = np.isfinite(ends)
        # The log wealth is convex and decreasing, so Newton steps never overshoot the crossing.
        for _ in range(MOST_STEPS):
            staked = self.staked[moving]
            logs = self.gained[moving] - ends[moving, np.newaxis] * staked
            largest = logs.max(axis=1, keepdims=True)
            shares = np.exp(logs - largest)
            whole = shares.sum(axis=1)
            excess = largest[:, 0] + np.log(whole) - needed
            steps = np.maximum(excess * whole / (shares * staked).sum(axis=1), 0.0)
            ends[moving] += steps
            moving[moving] = steps > SMALLEST_STEP
            if not moving.any():
                break
        return ends


def values_in_range(
    results: LinearResults, targets: Floats, spare: Floats | float, level: float
) -> tuple[Floats, Floats]:
    """Return both ends of the interval of the value of every direction.

    Parameters
    ----------
    results : LinearResults
        Results of T blocks whose counts did not depend on their results.
    targets : array of shape (D, r)
        The directions.
    spare : float or array of shape (D,)
        How far a value may be from that of a linear function.
    level : float
        The probability that one of the intervals ever fails; either end fails with half of it.

    Returns
    -------
    lower, upper : array of shape (D,)
        Infinite where no block has measured a direction.

    Notes
    -----
    For a result Y in [0, 1] with mean m, a guess g and a bet |x| of at most 1/2, all fixed before
    Y, ``exp(x (Y - m) - (x^2 / 2 + |x|^3 / 3 + c x^4) (Y - g)^2)`` has mean at most 1; the
    polynomial is at least ``-log(1 - |x|) - |x|``. A bet on a block takes ``x = b w[a]`` for the
    results of arm a, with w the weights of the least-squares fit of that block alone, so its
    exponent contains b times the difference of the fitted value and the true one. Eleven sizes of b
    have equal parts of the capital. Lost pulls count as the worst value, by the sign of w.

    Source: Fan, Grama and Liu (2015), Exponential inequalities for martingales with applications.

    Examples
    --------
    >>> ones, none = np.ones((4, 2)), np.zeros((4, 2))
    >>> sums = np.array([[30.0, 10.0]]) * ones
    >>> known = np.zeros((2, 4, 2))
    >>> results = LinearResults(
    ...     np.eye(2), 50 * ones, none, sums, sums, none, known, np.zeros(2), 0.0, 0.0, 1.0
    ... )
    >>> lower, upper = values_in_range(results, np.array([[1.0, 0.0], [1.0, -1.0]]), 0.0, 0.05)
    >>> lower.round(2).tolist(), upper.round(2).tolist()
    ([0.38, 0.16], [0.82, 0.64])
    """
    sizes = np.abs(targets).max(axis=1, initial=0.0)
    used = sizes > 0.0
    lower, upper = np.zeros(len(targets)), np.zeros(len(targets))
    if not used.all():
        # The value of a direction without length is 0, up to what may be misspecified.
        lower, upper = lower - spare, upper + spare
    if used.any():
        own = np.broadcast_to(spare, sizes.shape)[used] / results.width / sizes[used]
        ends = _ends(results, targets[used] / sizes[used, np.newaxis], own, level)
        lower[used], upper[used] = (sizes[used] * (results.width * end) for end in ends)
    return np.minimum(lower, upper), np.maximum(lower, upper)


def _ends(
    results: LinearResults, targets: Floats, spare: Floats, level: float
) -> tuple[Floats, Floats]:
    """Return both ends for directions of size 1."""
    shifts = np.zeros(len(targets))
    if results.shift:
        constant = np.linalg.lstsq(results.arms, np.ones(len(results.arms)), rcond=None)[0]
        shifts = results.shift * (targets @ constant)
    below, above = _Bets(len(targets)), _Bets(len(targets))
    goals = np.full((len(targets), SCALES.size), math.nan)
    for blocks in _blocks_at_once(results, len(targets)):
        weights, seen = _weights(blocks, targets)
        square = weights * weights
        begins = np.isnan(goals[:, 0]) & seen.any(axis=0)
        # The first block that measures a direction sets the scale of its bets.
        first = 0.25 * _sums(square, blocks.drawn)[seen.argmax(axis=0), np.arange(len(targets))]
        wanted = np.sqrt(2.0 * math.log(2.0 / level) * first[:, np.newaxis] / SCALES)
        goals = np.where(begins[:, np.newaxis], wanted, goals)
        variance = _sums(square, blocks.drawn * blocks.spread)
        bets = _bets(goals, variance, np.abs(weights).max(axis=1), seen)
        fitted = blocks.predictions @ targets.T + shifts
        _place(blocks, weights, square, bets, seen, fitted, spare, (below, above))
    return below.least_not_rejected(level), -above.least_not_rejected(level)


def _weights(blocks: _Blocks, targets: Floats) -> tuple[Floats, Booleans]:
    """Return the weight of each result in the value of a direction, and what blocks measure.

    The shapes are (T, S, D) and (T, D). Without a measurement, the weights are 0.
    """
    rows = blocks.rows * np.sqrt(blocks.drawn)[:, :, np.newaxis]
    matrices, wanted = rows.transpose(0, 2, 1) @ rows, np.ascontiguousarray(targets.T)
    solved = np.linalg.pinv(matrices, rcond=_UNSEEN, hermitian=True) @ wanted
    missed = np.linalg.norm(matrices @ solved - wanted, axis=1)
    seen = missed <= _UNSEEN * np.linalg.norm(targets, axis=1)
    solved *= seen[:, np.newaxis]
    return blocks.rows @ solved * (blocks.drawn > 0.0)[:, :, np.newaxis], seen


def _bets(goals: Floats, variance: Floats, largest: Floats, seen: Booleans) -> Floats:
    """Return the bets on blocks, shape (T, D, bets), as large as their variance makes sensible."""
    bets = np.zeros((*seen.shape, SCALES.size))
    known = np.broadcast_to(goals, bets.shape)[seen] / variance[seen][:, np.newaxis]
    bets[seen] = np.minimum(known, LARGEST_BET / largest[seen][:, np.newaxis])
    return bets


def _place(
    blocks: _Blocks,
    weights: Floats,
    square: Floats,
    bets: Floats,
    seen: Booleans,
    fitted: Floats,
    spare: Floats,
    sides: tuple[_Bets, _Bets],
) -> None:
    """Place the bets on blocks, against small values and against large ones."""
    size = np.abs(weights)
    bias = _sums(size, blocks.drawn * blocks.deviations) + spare
    change = fitted + _sums(weights, blocks.sums)
    lowest = fitted + _sums(weights, blocks.drawn * blocks.lows)
    # A weight below 0 takes a lost pull, or the whole range, at its highest value: 1 more.
    lost, whole = ((_sums(size, of), _sums(weights, of)) for of in (blocks.lost, blocks.drawn))
    powers = square, square * size, square * square
    costs = [f * _sums(one, blocks.squares) for f, one in zip(_FACTORS, powers, strict=True)]
    unlike = [np.zeros(1) for _ in costs]
    if blocks.unlike.any():
        signs = np.sign(weights)
        signed = [signs * one for one in powers]
        unlike = [f * _sums(one, blocks.unlike) for f, one in zip(_FACTORS, signed, strict=True)]
    for sign, side in zip((1.0, -1.0), sides, strict=True):
        value = sign * change - 0.5 * (lost[0] - sign * lost[1]) - bias
        least = sign * lowest - 0.5 * (whole[0] - sign * whole[1]) - bias
        own = [cost + sign * more for cost, more in zip(costs, unlike, strict=True)]
        side.add(bets, seen, value, least, own)


def _sums(weights: Floats, values: Floats) -> Floats:
    """Return weighted sums over the arms of each block: (T, S, D) and (T, S) to (T, D)."""
    return np.asarray((values[:, np.newaxis] @ weights)[:, 0])
