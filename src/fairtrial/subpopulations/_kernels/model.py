"""The problem as arrays, in the form that kernels use."""

import math
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.compilation import kernel, uncounted
from fairtrial.core.layout import Layout

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

Limits = NDArray[np.float64]
"""Floors and ceilings of every cell, shape (2, K, L); infinite for none.

If limits refer to a control, there are two more kinds: on the difference from the control in a
group, and overall (stored for the first group). Both are lower limits.
"""

FLOOR, CEILING, GROUP_DIFFERENCE, OVERALL_DIFFERENCE = 0, 1, 2, 3

NO_CONTROL = -1


class Model(NamedTuple):
    """A problem in the form that kernels use: maximise, between floors and ceilings.

    The answer must keep `own_limits`, its rivals `rival_limits`; without a tolerance, both equal
    `limits`. Inactive cells are never needed. `control`: the arm that limits refer to, or
    `NO_CONTROL`.
    """

    weights: Annotated[Floats, "groups"]
    limits: Annotated[Limits, "ends arms groups"]
    own_limits: Annotated[Limits, "ends arms groups"]
    rival_limits: Annotated[Limits, "ends arms groups"]
    variances: Annotated[Floats, "arms groups"]
    costs: Annotated[Floats, "arms groups"]
    active: Annotated[Floats, "arms groups"]
    tolerance: float
    control: int = NO_CONTROL


MODEL = Layout(Model)
open_model = MODEL.open


@kernel
def limits_of_items(model: Model, leader: int) -> Limits:
    """Return the limits that bets use, as `fill_limits_of_items` fills them."""
    limits = np.empty(model.limits.shape)
    fill_limits_of_items(model, leader, limits)
    return limits


@uncounted
def fill_limits_of_items(model: Model, leader: int, limits: Limits) -> None:
    """Fill the limits that bets use: the leader's own, and those that rivals must keep.

    They differ from the problem's only by its tolerance.
    """
    ends, arms, groups = limits.shape
    for end in range(ends):
        for k in range(arms):
            for group in range(groups):
                limit = model.rival_limits[end, k, group]
                limits[end, k, group] = model.own_limits[end, k, group] if k == leader else limit


@kernel
def in_units(model: Model, cell: int, reward: float) -> float:
    """Return a reward in units of the stated noise of its cell."""
    groups = model.weights.size
    return reward / math.sqrt(model.variances[cell // groups, cell % groups])


# Explicit loops: numba takes a hundred times longer to compile array expressions.


@uncounted
def fill(array: Floats, value: float) -> None:
    """Set every entry of a matrix."""
    for row in range(array.shape[0]):
        for column in range(array.shape[1]):
            array[row, column] = value


@uncounted
def multiply(target: Floats, first: Floats, second: Floats) -> None:
    """Fill a matrix with an entrywise product."""
    for row in range(target.shape[0]):
        for column in range(target.shape[1]):
            target[row, column] = first[row, column] * second[row, column]


@uncounted
def divide(target: Floats, numerator: Floats, denominator: Floats) -> None:
    """Fill a matrix with an entrywise quotient."""
    for row in range(target.shape[0]):
        for column in range(target.shape[1]):
            target[row, column] = numerator[row, column] / denominator[row, column]
