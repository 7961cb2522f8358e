"""The unit of values whose size only the values themselves show, such as those of unknown noise."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["are_usual", "unit_after"]

Floats = NDArray[np.float64]

_USUAL = 200
"""Values within this many powers of two of the unit need no other one: squares are in reach."""

_LARGEST = 1000
"""The largest power of two of a unit, so that it has an inverse."""


def unit_after(unit: float, value: float, *, is_first: bool) -> float:
    """Return the unit in which a value is kept together with earlier ones.

    It is a power of two, so that a change of the unit rounds nothing. It is 1 while all values have
    usual sizes, and otherwise about the size of the largest value, as smaller ones then do not
    matter.

    Parameters
    ----------
    unit : float
        The unit of the earlier values.
    value : float
        The next value, in no unit.
    is_first : bool
        Whether all earlier values are 0.

    Examples
    --------
    >>> unit_after(1.0, 0.3, is_first=True), unit_after(1.0, 1e160, is_first=False) > 1e159
    (1.0, True)
    """
    if value == 0.0:
        return unit
    exponent = math.frexp(value)[1]
    larger = exponent - math.frexp(unit)[1]
    if larger > _USUAL or (is_first and larger < -_USUAL):
        return math.ldexp(1.0, min(max(exponent, -_LARGEST), _LARGEST))
    return unit


def are_usual(*values: Floats | float) -> bool:
    """Return whether the largest of some values needs no unit but 1.

    Examples
    --------
    >>> are_usual(np.array([1.0, -2.0]), 1e-200), are_usual(1e160)
    (True, False)
    """
    largest = max(float(np.abs(part).max(initial=0.0)) for part in values)
    return unit_after(1.0, largest, is_first=True) == 1.0
