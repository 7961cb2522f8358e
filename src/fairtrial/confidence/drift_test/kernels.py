"""Compiled bets that the results of one cell change over time."""

import math

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.arithmetic import sum_of
from fairtrial.core.compilation import kernel
from fairtrial.core.philox import philox_uniform

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_KEY = 0x6472696674
"""Key of the draws that order equal results; fixed, so equal data give equal evidence."""

_STAKES = np.array([-1.8, -0.9, 0.0, 0.9, 1.8])
"""Bets that results rank low (negative) or high among earlier ones; zero bets nothing."""

_SWITCHING = np.array([0.001, 0.01, 0.1])
"""Fractions of the wealth that change their stake after every result."""


@kernel
def largest_log_wealth(levels: Integers, n_levels: int, cell: int) -> float:
    """Return the largest log wealth that bets on the order of results have reached so far.

    Parameters
    ----------
    levels : array of shape (results,)
        Rank of each result's value among the distinct values: 0 for the smallest.
    n_levels : int
        Number of distinct values.
    cell : int
        Index of the cell: equal results are ordered by draws that differ between cells.
    """
    below = np.zeros(n_levels + 1, dtype=np.int64)
    wealth = np.full((_SWITCHING.size, _STAKES.size), 1.0 / (_SWITCHING.size * _STAKES.size))
    log_scale, largest = 0.0, 0.0
    for index in range(levels.size):
        level = levels[index]
        _count(below, level)
        lower = _counted_below(below, level)
        equal = _counted_below(below, level + 1) - lower
        rank = (lower + philox_uniform(_KEY, cell, index, 0) * equal) / (index + 1)
        _bet(wealth, rank)
        held = sum_of(wealth)
        wealth /= held
        log_scale += math.log(held)
        largest = max(largest, log_scale)
    return largest


@kernel
def _bet(wealth: Floats, rank: float) -> None:
    """Move a part of the wealth to other stakes, then pay all bets on the next rank."""
    for row in range(_SWITCHING.size):
        moved = _SWITCHING[row] * sum_of(wealth[row]) / _STAKES.size
        for column in range(_STAKES.size):
            kept = (1.0 - _SWITCHING[row]) * wealth[row, column]
            wealth[row, column] = (kept + moved) * (1.0 + _STAKES[column] * (rank - 0.5))


@kernel
def _count(tree: Integers, level: int) -> None:
    """Add a result to a tree of counts (Fenwick 1994)."""
    node = level + 1
    while node < tree.size:
        tree[node] += 1
        node += node & -node


@kernel
def _counted_below(tree: Integers, level: int) -> int:
    """Return how many results in the tree are at lower levels."""
    total, node = 0, level
    while node > 0:
        total += tree[node]
        node -= node & -node
    return total
