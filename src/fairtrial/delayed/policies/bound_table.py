"""The radii of a bound by number of outcomes, for kernels."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.bounds import Bound
from fairtrial.errors import InvalidArgument

__all__ = ["bound_table"]

Floats = NDArray[np.float64]


@lru_cache(maxsize=32)
def bound_table(bound: Bound, size: int) -> Floats:
    """Return the squared radii as ``first + second ln(1/level)``, by number of outcomes."""
    counts = np.arange(size, dtype=np.float64)
    small, least, smaller = 0.1, 1e-200, 1e-300
    at = [bound.radius(counts, level) ** 2 for level in (small, smaller, least)]
    second = (at[1][1:] - at[0][1:]) / math.log(small / smaller)
    first = at[0][1:] + second * math.log(small)
    if not np.allclose(first - second * math.log(least), at[2][1:], rtol=1e-9, atol=0.0):
        raise InvalidArgument(
            "bound", "must have a squared radius that is linear in ln(1/level)", bound
        )
    table = np.full((2, size), np.inf)
    table[:, 1:] = first, second
    return table
