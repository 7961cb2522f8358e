"""Products of rows and matrices with twice the digits of a float.

If features are large and differ by little (times in seconds since 1970, their squares), a plain
product loses the differences between rows. A row is kept here as an unevaluated sum of two floats.
Source: Dekker (1971), "A floating-point technique for extending the available precision".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

UNIT = 2.0**-100
"""Error of a product, relative to the sum of the sizes of its terms; 2^-104 per term."""

_SPLITTER = 2.0**27 + 1.0


class Pair(NamedTuple):
    """Rows as the sum of two arrays of the same shape; the second has the rounding errors."""

    high: Floats
    low: Floats


def exact_difference(rows: Floats, origin: Floats) -> Pair:
    """Return rows minus one row, exactly."""
    return _two_sum(rows, -origin)


def product(rows: Pair, matrix: Floats) -> Pair:
    """Return rows times a matrix, with an error of `UNIT` times the sum of its terms' sizes."""
    shape = (len(rows.high), matrix.shape[1])
    total = Pair(np.zeros(shape), np.zeros(shape))
    for column, line in enumerate(matrix):
        high = rows.high[:, column, np.newaxis]
        term = _two_product(high, line[np.newaxis, :])
        rest = term.low + rows.low[:, column, np.newaxis] * line
        added = _two_sum(total.high, term.high)
        total = _fast_two_sum(added.high, added.low + (total.low + rest))
    return total


def _two_sum(left: Floats, right: Floats) -> Pair:
    total = left + right
    part = total - left
    return Pair(total, (left - (total - part)) + (right - part))


def _fast_two_sum(large: Floats, small: Floats) -> Pair:
    total = large + small
    return Pair(total, small - (total - large))


def _two_product(left: Floats, right: Floats) -> Pair:
    whole = left * right
    first, second = _split(left)
    third, fourth = _split(right)
    rest = ((first * third - whole) + first * fourth + second * third) + second * fourth
    return Pair(whole, rest)


def _split(value: Floats) -> Pair:
    scaled = _SPLITTER * value
    high = scaled - (scaled - value)
    return Pair(high, value - high)
