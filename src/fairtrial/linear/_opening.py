"""An order of arms in which any first part is varied: for a first plate of different arms."""

from __future__ import annotations

from math import gcd

import numpy as np
import scipy
from numpy.typing import NDArray

__all__ = ["varied_order"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_TIMES_START = 4
"""This many times the arms of the start are chosen to measure all directions well."""

_GOLDEN = (5**0.5 - 1) / 2


def varied_order(rows: Floats, arms: Integers, start: Integers) -> Integers:
    """Return arms in an order in which any first part measures many directions.

    The arms of the start come first, then another basis of the remaining arms, and so on; after
    four times as many arms as the start has, the rest follow.

    Parameters
    ----------
    rows : ndarray of shape (K, r)
        The features of all arms.
    arms : ndarray of int
        The arms to order; each measures something, and no two the same.
    start : ndarray of int
        The arms that come first.

    Examples
    --------
    >>> rows = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 0.0], [0.0, 2.0]])
    >>> varied_order(rows, np.arange(5), np.array([0])).tolist()
    [0, 3, 4, 2, 1]
    """
    chosen = [start]
    left = np.setdiff1d(arms, start)
    while left.size and sum(part.size for part in chosen) < _TIMES_START * start.size:
        _, pivots = scipy.linalg.qr(rows[left].T, mode="r", pivoting=True, check_finite=False)
        chosen.append(left[pivots[: rows.shape[1]]])
        left = np.setdiff1d(left, chosen[-1])
    return np.concatenate([*chosen, _scattered(left)])


def _scattered(arms: Integers) -> Integers:
    """Return arms in an order in which neighbours, which are often similar, are far apart."""
    size = arms.size
    step = max(1, round(_GOLDEN * size))
    while size > 1 and gcd(step, size) > 1:
        step += 1
    return arms[(np.arange(size) * step) % max(1, size)]
