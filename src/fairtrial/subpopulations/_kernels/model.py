"""What the kernels are given: the problem in arrays, and the planes of a tracker's state."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.compilation import kernel

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

Limits = NDArray[np.float64]
"""Floors and ceilings of every cell, shape (2, K, L); infinite where there is none."""

FLOOR, CEILING = 0, 1


class Model(NamedTuple):
    """A problem as its kernels see it: maximise, between floors and ceilings.

    `weights` has shape (L,); `variances`, `costs` and `active` have shape (K, L). The
    answer's own cells are held to `own_limits`, its rivals' to `rival_limits`; both equal
    `limits` without slack. Inactive cells are never needed.
    """

    weights: Floats
    limits: Limits
    own_limits: Limits
    rival_limits: Limits
    variances: Floats
    costs: Floats
    active: Floats
    slack: float


def pack_model(model: Model) -> Floats:
    """Return a model in one array: compiled code unpacks it faster than a tuple is passed."""
    return np.concatenate([np.ravel(part) for part in model])


@kernel
def open_model(packed: Floats, arms: int, groups: int) -> Model:
    """Return the named views of a packed model."""
    cells = arms * groups
    planes = packed[groups : groups + 9 * cells].reshape((9, arms, groups))
    return Model(
        packed[:groups],
        planes[0:2],
        planes[2:4],
        planes[4:6],
        planes[6],
        planes[7],
        planes[8],
        packed[groups + 9 * cells],
    )


# Explicit loops: array expressions take numba a hundred times longer to compile.


@kernel
def fill(array: Floats, value: float) -> None:
    """Set every entry of a matrix."""
    for row in range(array.shape[0]):
        for column in range(array.shape[1]):
            array[row, column] = value


@kernel
def copy_into(target: Floats, source: Floats) -> None:
    """Copy a matrix."""
    for row in range(target.shape[0]):
        for column in range(target.shape[1]):
            target[row, column] = source[row, column]


@kernel
def multiply(target: Floats, first: Floats, second: Floats) -> None:
    """Fill a matrix with a product, entry by entry."""
    for row in range(target.shape[0]):
        for column in range(target.shape[1]):
            target[row, column] = first[row, column] * second[row, column]


@kernel
def divide(target: Floats, numerator: Floats, denominator: Floats) -> None:
    """Fill a matrix with a quotient, entry by entry."""
    for row in range(target.shape[0]):
        for column in range(target.shape[1]):
            target[row, column] = numerator[row, column] / denominator[row, column]


@kernel
def total(array: Floats) -> float:
    """Return the sum of a matrix."""
    found = 0.0
    for row in range(array.shape[0]):
        for column in range(array.shape[1]):
            found += array[row, column]
    return found
