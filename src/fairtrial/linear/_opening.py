"""An order of arms of which every beginning is varied: for a first plate of different arms."""

from __future__ import annotations

from math import gcd

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

__all__ = ["varied_order"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_TIMES_START = 4
"""How many times as many arms as the start has are chosen to measure all directions well."""

_GOLDEN = (5**0.5 - 1) / 2


def varied_order(rows: Floats, arms: Integers, start: Integers) -> Integers:
    """Return some arms in an order of which every beginning measures many directions.

    First come those of the start, then another basis from those that are left, and so on; once
    four times as many as the start has are chosen, the rest.

    Parameters
    ----------
    rows : ndarray of shape (K, r)
        The features of all arms.
    arms : ndarray of int
        The arms to order; each measures something, and no two the same.
    start : ndarray of int
        Those that come first.

    Examples
    --------
    >>> rows = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 0.0], [0.0, 2.0]])
    >>> varied_order(rows, np.arange(5), np.array([0])).tolist()
    [0, 3, 4, 2, 1]
    """
    chosen = [start]
    left = np.setdiff1d(arms, start)
    while left.size and sum(part.size for part in chosen) < _TIMES_START * start.size:
        _, pivots = qr(rows[left].T, mode="r", pivoting=True, check_finite=False)
        chosen.append(left[pivots[: rows.shape[1]]])
        left = np.setdiff1d(left, chosen[-1])
    return np.concatenate([*chosen, _scattered(left)])


def _scattered(arms: Integers) -> Integers:
    """Return arms in an order in which neighbours, often alike, are far from each other."""
    size = arms.size
    step = max(1, round(_GOLDEN * size))
    while size > 1 and gcd(step, size) > 1:
        step += 1
    return arms[(np.arange(size) * step) % max(1, size)]
