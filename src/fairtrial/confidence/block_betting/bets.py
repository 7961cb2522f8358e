"""Compiled bets: what a block's results pay against a null "effect <= 0", and their state.

An effect is a constant plus a weighted sum of means. Weights, centres and stakes are frozen before
the block. A result moves a bet by its *step*: its weight in the bet times its value minus its
centre. Documentation: docs/explanation/block-betting.md and bounded-rewards.md.
"""

import math
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.block_betting.end_bets import log_end_bet
from fairtrial.core.arithmetic import square
from fairtrial.core.compilation import inlined, kernel, unchecked, uncounted

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

GRID = 24
SPREAD = 1.5
ROUNDING = 0.5
CAP = 0.4
RESULTS_PER_LOG = 16

_REACH = 4.0 * math.sqrt(SPREAD)


@unchecked
def _fill_density(
    low: float, width: float, centre: float, curvature: float, values: Floats
) -> tuple[float, float]:
    """Fill exp(-curvature (u - centre)^2 / 2) / (|u| + ROUNDING) at the points u of a grid.

    The exponential is relative to its largest. Return the point of the largest, and the sum of the
    values. From one point to the next, the change of the logarithm changes by a constant, so only
    the first factors need an exponential function.
    """
    nearest = 0
    # Where rounding leaves no distance between the points, all are alike.
    if width > 0.0 and centre - low >= width:
        nearest = int(min((centre - low) / width, GRID - 1.0))
    top = low + (nearest + 0.5) * width
    bend = math.exp(-curvature * width * width)
    for direction in (1, -1):
        # Rounding must not let the values grow on the way from the largest.
        slope = -curvature * width * (0.5 * width + direction * (top - centre))
        factor = math.exp(min(slope, 0.0))
        value = 1.0
        values[nearest] = value
        i = nearest + direction
        while 0 <= i < GRID:
            value *= factor
            factor *= bend
            values[i] = value
            i += direction
    total = 0.0
    for i in range(GRID):
        values[i] /= abs(low + (i + 0.5) * width) + ROUNDING
        total += values[i]
    return top, total


@inlined
def _low_end(m: float) -> float:
    """Return the lower end of the grid of positive effects; the upper one is `_REACH` above m."""
    return max(0.0, m - _REACH)


@unchecked
def _width(m: float, low: float) -> float:
    """Return the distance between points of the grid of positive effects."""
    return (max(0.0, m) + _REACH - low) / GRID


@inlined
def _stakes(
    m: float, low: float, width: float, cash_values: Floats, values: Floats
) -> tuple[float, float, float, float]:
    """Fill the stakes on the effects of a grid, relative to the largest of them.

    Return the cash and the logarithm of its unit, and the sum of the stakes and the logarithm of
    their unit. `cash_values` is work space, and may be the same array as `values`.
    """
    cash = 0.0
    depth = -math.inf
    if m < _REACH:
        cash_low = min(0.0, m) - _REACH
        cash_width = -cash_low / GRID
        top, cash = _fill_density(cash_low, cash_width, m, 1.0 / SPREAD, cash_values)
        depth = -square(top - m) / (2.0 * SPREAD)
        cash *= cash_width / width
    top, staked = _fill_density(low, width, m, 1.0 / SPREAD, values)
    height = -square(top - m) / (2.0 * SPREAD)
    return cash, depth, staked, height


@kernel
def bet_weights(m: float, points: Floats, weights: Floats) -> float:
    """Fill the effects to bet on and their stakes; return the stake kept as cash.

    `m`: the estimated effect in units of its standard error. Stakes and cash sum to one.
    """
    low = _low_end(m)
    width = _width(m, low)
    # The points serve as work space.
    cash, depth, staked, height = _stakes(m, low, width, points, weights)
    largest = max(height, depth)
    cash *= math.exp(depth - largest)
    scale = math.exp(height - largest)
    total = cash + scale * staked
    for i in range(GRID):
        points[i] = low + (i + 0.5) * width
        weights[i] *= scale / total
    return cash / total


@uncounted
def log_mixture(cash: float, weights: Floats, logs: Floats) -> float:
    """Return log(cash + sum of weights times exp(logs)), without overflow for large logs."""
    largest = 0.0 if cash > 0.0 else -math.inf
    for i in range(GRID):
        if weights[i] > 0.0:
            largest = max(largest, logs[i])
    total = cash * math.exp(-largest) if cash > 0.0 else 0.0
    for i in range(GRID):
        if weights[i] > 0.0:
            total += weights[i] * math.exp(logs[i] - largest)
    return largest + math.log(total)


@uncounted
def log_bet(m: float, f: float, e: float, values: Floats) -> float:
    """Return the log of what a block pays: Gaussian or sub-Gaussian noise, known scale.

    `m`: earlier estimate of the effect; `f`: precision of the block; `e`: estimate from
    the block alone; all in units of the earlier standard error. `values`: work space for a grid.
    The stake on the effect u pays exp(u f (e - u / 2)), so the paid stakes have a normal density in
    u as the stakes have.
    """
    low = _low_end(m)
    width = _width(m, low)
    cash, depth, staked, height = _stakes(m, low, width, values, values)
    curvature = 1.0 / SPREAD + f
    centre = (m / SPREAD + f * e) / curvature
    top, paid = _fill_density(low, width, centre, curvature, values)
    paid_height = top * f * (e - 0.5 * top) - square(top - m) / (2.0 * SPREAD)
    return _log_sum(cash, depth, paid, paid_height) - _log_sum(cash, depth, staked, height)


@inlined
def _log_sum(a: float, log_a: float, b: float, log_b: float) -> float:
    """Return log(a exp(log_a) + b exp(log_b)); `a` may be 0, with an infinite logarithm."""
    largest = max(log_a, log_b)
    return largest + math.log(a * math.exp(log_a - largest) + b * math.exp(log_b - largest))


@kernel
def bounded_stakes(
    m: float, deviation: float, block_variance: float, ruin: float, thetas: Floats, weights: Floats
) -> float:
    """Fill the stakes per unit of coefficient for rewards in a known range; return the cash.

    `m`: estimated effect in units of its standard error; `deviation`: that standard error;
    `block_variance`: variance of the block's effect; `ruin`: the most that one result can lose per
    unit of theta. No result can lose more than the fraction `CAP` of a stake.
    """
    cash = bet_weights(m, thetas, weights)
    most = CAP / ruin if ruin > 0.0 else math.inf
    for i in range(GRID):
        thetas[i] = min(thetas[i] * deviation / block_variance, most)
    return cash


@inlined
def one_bounded_stake(
    aim: float,
    deviation: float,
    block_variance: float,
    ruin: float,
    thetas: Floats,
    weights: Floats,
) -> float:
    """Fill one stake, on the effect `aim`, as `bounded_stakes` fills many; return no cash."""
    most = CAP / ruin if ruin > 0.0 else math.inf
    for i in range(GRID):
        thetas[i] = weights[i] = 0.0
    thetas[0] = min(aim * deviation / block_variance, most)
    weights[0] = 1.0
    return 0.0


@uncounted
def multiply_factor(thetas: Floats, products: Floats, step: float) -> None:
    """Multiply each point's product by 1 + theta * step."""
    for i in range(GRID):
        products[i] *= 1.0 + thetas[i] * step


@uncounted
def flush_products(products: Floats, logs: Floats) -> None:
    """Move the products into their logarithms before they can overflow."""
    for i in range(GRID):
        logs[i] += math.log(products[i])
        products[i] = 1.0


# ------------------------------------------------------------------ bets of open blocks

NO_BET = -1
"""The ledger of a bet that is not placed."""

LOST = math.nan
"""The value of a lost result."""


class Bets(NamedTuple):
    """The bets of open blocks; the families know the effects.

    With known noise only estimates and ledgers are used, and there are no points.
    """

    number: Annotated[Integers, "slots"]  # bets of the block
    ledger: Annotated[Integers, "slots bets"]  # into which they are paid, or NO_BET
    received: Annotated[Integers, "slots bets"]  # results since the last move of products into logs
    estimate: Annotated[Floats, "slots bets"]  # of the effect, in units of its standard error
    variance: Annotated[Floats, "slots bets"]  # of that estimate
    aim: Annotated[Floats, "slots bets"]  # the only effect that is bet on; 0 for a whole grid
    need: Annotated[Floats, "slots bets"]  # what an end bet's ledger lacks; 0 for other bets
    later: Annotated[Floats, "slots bets"]  # precision that an end bet expects of later blocks
    cash: Annotated[Floats, "slots bets"]  # the stake that no result changes
    thetas: Annotated[Floats, "slots bets points"]  # stake per unit of a step
    stakes: Annotated[Floats, "slots bets points"]
    products: Annotated[Floats, "slots bets points"]  # factors of the latest results
    logs: Annotated[Floats, "slots bets points"]  # logarithms of the earlier factors


@inlined
def value_in_bet(value: float, low: float, high: float, weight: float) -> float:
    """Return a result's value in a bet; a lost result counts as its worst possible value."""
    if not math.isnan(value):
        return value
    return low if weight > 0.0 else high


@inlined
def freeze_stakes(
    bets: Bets, slot: int, bet: int, at_centre: float, inside: float, ruin: float
) -> None:
    """Freeze the stakes on an effect of rewards in a known range; its estimate is already stored.

    `at_centre`: the effect if every mean were at its centre; `inside`: variance of the block's
    effect; `ruin`: the most that one result can lose per unit of theta.
    """
    thetas, logs = bets.thetas[slot, bet], bets.logs[slot, bet]
    stakes, aim = bets.stakes[slot, bet], bets.aim[slot, bet]
    deviation = math.sqrt(bets.variance[slot, bet])
    if aim > 0.0:
        cash = one_bounded_stake(aim, deviation, inside, ruin, thetas, stakes)
    else:
        estimate = bets.estimate[slot, bet]
        cash = bounded_stakes(estimate, deviation, inside, ruin, thetas, stakes)
    bets.cash[slot, bet] = cash
    bets.received[slot, bet] = 0
    for point in range(GRID):
        bets.products[slot, bet, point] = 1.0
        logs[point] = thetas[point] * at_centre


@inlined
def multiply_bet(bets: Bets, slot: int, bet: int, step: float) -> None:
    """Multiply a result's factor into a bet."""
    multiply_factor(bets.thetas[slot, bet], bets.products[slot, bet], step)
    bets.received[slot, bet] += 1
    if bets.received[slot, bet] == RESULTS_PER_LOG:
        flush_products(bets.products[slot, bet], bets.logs[slot, bet])
        bets.received[slot, bet] = 0


@inlined
def correct_bet(bets: Bets, slot: int, bet: int, before: float, after: float) -> None:
    """Replace a result's factor in a bet: its step was `before` and becomes `after`."""
    for point in range(GRID):
        theta = bets.thetas[slot, bet, point]
        bets.logs[slot, bet, point] += math.log((1.0 + theta * after) / (1.0 + theta * before))


@inlined
def bounded_gain(bets: Bets, slot: int, bet: int) -> float:
    """Return the log of the payment of a bet on rewards in a known range."""
    flush_products(bets.products[slot, bet], bets.logs[slot, bet])
    return log_mixture(bets.cash[slot, bet], bets.stakes[slot, bet], bets.logs[slot, bet])


@uncounted
def pay_bounded(bets: Bets, slot: int, ledgers: Floats) -> None:
    """Pay a complete block's bets on rewards in a known range into their ledgers."""
    for bet in range(bets.number[slot]):
        ledger = bets.ledger[slot, bet]
        if ledger != NO_BET:
            ledgers[ledger] += bounded_gain(bets, slot, bet)


@uncounted
def known_noise_gain(
    bets: Bets, slot: int, bet: int, effect: float, variance: float, values: Floats
) -> float:
    """Return the log of the payment of a bet under noise of known scale.

    `effect`: its estimate from the block alone; `variance`: of that estimate; `values`: work space
    for a grid.
    """
    earlier, aim = bets.variance[slot, bet], bets.aim[slot, bet]
    precision, found = earlier / variance, effect / math.sqrt(earlier)
    if aim > 0.0:
        return aim * precision * (found - 0.5 * aim)
    if bets.need[slot, bet] > 0.0:
        later = bets.later[slot, bet]
        return log_end_bet(bets.need[slot, bet], precision, later, precision * found)
    return log_bet(bets.estimate[slot, bet], precision, found, values)
