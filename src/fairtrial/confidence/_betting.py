"""Bets of block betting, compiled: what a block's data pay against a null "effect <= 0".

All functions are scalar or work on preallocated rows, so that policies of every
family can call them from their own kernels. Documentation: docs/explanation/block-betting.md.
"""

import math

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.compilation import kernel

Floats = NDArray[np.float64]

GRID = 24
SPREAD = 1.5
ROUNDING = 0.5
CAP = 0.4
DRAWS_PER_LOG = 16

_REACH = 4.0 * math.sqrt(SPREAD)


@kernel
def _log_density(u: float, m: float, width: float) -> float:
    return math.log(width) - (u - m) ** 2 / (2.0 * SPREAD) - math.log(abs(u) + ROUNDING)


@kernel
def bet_weights(m: float, points: Floats, weights: Floats) -> float:
    """Fill the effects that are bet on and their stakes; return the stake kept as cash.

    `m` is the estimated effect in its own standard errors. Stakes and cash sum to one.
    """
    low = max(0.0, m - _REACH)
    width = (max(0.0, m) + _REACH - low) / GRID
    largest = -math.inf
    for i in range(GRID):
        points[i] = low + (i + 0.5) * width
        weights[i] = _log_density(points[i], m, width)
        largest = max(largest, weights[i])
    cash_low = min(0.0, m) - _REACH
    cash_width = -cash_low / GRID
    keeps_cash = m < _REACH
    if keeps_cash:
        for i in range(GRID):
            largest = max(largest, _log_density(cash_low + (i + 0.5) * cash_width, m, cash_width))
    total = 0.0
    for i in range(GRID):
        weights[i] = math.exp(weights[i] - largest)
        total += weights[i]
    cash = 0.0
    if keeps_cash:
        for i in range(GRID):
            u = cash_low + (i + 0.5) * cash_width
            cash += math.exp(_log_density(u, m, cash_width) - largest)
    total += cash
    for i in range(GRID):
        weights[i] /= total
    return cash / total


@kernel
def log_mixture(cash: float, weights: Floats, logs: Floats) -> float:
    """Return log(cash + sum of weights times exp(logs)), whatever the size of the logs."""
    largest = 0.0 if cash > 0.0 else -math.inf
    for i in range(GRID):
        if weights[i] > 0.0:
            largest = max(largest, logs[i])
    total = cash * math.exp(-largest) if cash > 0.0 else 0.0
    for i in range(GRID):
        if weights[i] > 0.0:
            total += weights[i] * math.exp(logs[i] - largest)
    return largest + math.log(total)


@kernel
def log_bet(m: float, f: float, e: float) -> float:
    """Return the log of what a block pays: Gaussian or sub-Gaussian noise, known scale.

    `m`: earlier estimate of the effect; `f`: precision of the block; `e`: estimate from
    the block alone; all in units of the earlier standard error.
    """
    points = np.empty(GRID)
    weights = np.empty(GRID)
    cash = bet_weights(m, points, weights)
    for i in range(GRID):
        points[i] = points[i] * f * (e - 0.5 * points[i])
    return log_mixture(cash, weights, points)


@kernel
def bounded_stakes(
    m: float, deviation: float, block_variance: float, ruin: float, thetas: Floats, weights: Floats
) -> float:
    """Fill the stakes per unit of coefficient for rewards in a known range; return the cash.

    `m`: estimated effect in its own standard errors; `deviation`: that standard error;
    `block_variance`: variance of the block's effect; `ruin`: the most that one draw can
    lose per unit of theta. No draw takes more than the share `CAP` of a stake.
    """
    cash = bet_weights(m, thetas, weights)
    most = CAP / ruin if ruin > 0.0 else math.inf
    for i in range(GRID):
        thetas[i] = min(thetas[i] * deviation / block_variance, most)
    return cash


@kernel
def multiply_factor(thetas: Floats, products: Floats, step: float) -> None:
    """Multiply each point's product by 1 + theta * step."""
    for i in range(GRID):
        products[i] *= 1.0 + thetas[i] * step


@kernel
def flush_products(products: Floats, logs: Floats) -> None:
    """Move products into their logarithms, before they can overflow."""
    for i in range(GRID):
        logs[i] += math.log(products[i])
        products[i] = 1.0
