"""The nearest point that satisfies several linear conditions: a small quadratic programme."""

import math

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.compilation import kernel

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

ROUNDING = 1e-11
"""A row that is short by less, in parts of what it is made of, is satisfied."""

_RIDGE = 1e-12


@kernel(error_model="numpy")
def solve_rows(rows: Floats, short: Floats, spreads: Floats, multipliers: Floats) -> float:
    """Fill the multipliers of the rows that are not satisfied; return the weighted distance.

    The distance from a point to where all rows are at most zero: the largest
    ``2 short @ x - x @ A @ x`` over multipliers ``x >= 0``, with ``A = rows @ diag(spreads) @
    rows.T``. `short`: the rows at the point. `spreads`: the square of how far a unit of distance
    moves each coordinate; infinite only where all rows are zero.

    Source: Lawson and Hanson, "Solving least squares problems" (1974), chapter 23.
    """
    number = rows.shape[0]
    norms = np.empty(number)
    for row in range(number):
        norms[row] = _product(rows, row, row, spreads)
    active = np.empty(number, dtype=np.int64)
    matrix = np.empty((number, number))
    wanted = np.empty(number)
    moved = np.zeros(spreads.size)
    size = 0
    for _ in range(3 * number):
        row = _shortest_row(rows, short, norms, moved, active[:size])
        if row < 0:
            break
        active[size] = row
        size = _fit_active(rows, short, spreads, multipliers, active, size + 1, matrix, wanted)
        _fill_moved(rows, spreads, multipliers, active[:size], moved)
    value = 0.0
    for i in range(size):
        row = active[i]
        value += multipliers[row] * (short[row] + _left(rows, short, moved, row))
    return max(0.0, value)


@kernel
def _product(rows: Floats, first: int, second: int, spreads: Floats) -> float:
    """Return the entry of A for two rows."""
    found = 0.0
    for part in range(spreads.size):
        both = rows[first, part] * rows[second, part]
        if both != 0.0:
            found += both * spreads[part]
    return found


@kernel
def _fill_moved(
    rows: Floats, spreads: Floats, multipliers: Floats, active: Integers, moved: Floats
) -> None:
    """Fill how far down the multipliers move each coordinate."""
    for part in range(spreads.size):
        found = 0.0
        for row in active:
            found += multipliers[row] * rows[row, part]
        moved[part] = found * spreads[part] if found != 0.0 else 0.0


@kernel
def _left(rows: Floats, short: Floats, moved: Floats, row: int) -> float:
    """Return what a row still lacks where the multipliers have moved the point to."""
    found = short[row]
    for part in range(moved.size):
        found -= rows[row, part] * moved[part]
    return found


@kernel
def _shortest_row(
    rows: Floats, short: Floats, norms: Floats, moved: Floats, active: Integers
) -> int:
    """Return the row that lacks most, in units of its norm; -1 if all are satisfied."""
    best = -1
    most = 0.0
    for row in range(short.size):
        left = _left(rows, short, moved, row)
        if norms[row] <= 0.0 or left <= ROUNDING * (abs(short[row]) + abs(short[row] - left)):
            continue
        is_active = False
        for other in active:
            is_active = is_active or other == row
        if not is_active and left / math.sqrt(norms[row]) > most:
            most = left / math.sqrt(norms[row])
            best = row
    return best


@kernel(error_model="numpy")
def _fit_active(
    rows: Floats,
    short: Floats,
    spreads: Floats,
    multipliers: Floats,
    active: Integers,
    size: int,
    matrix: Floats,
    wanted: Floats,
) -> int:
    """Move the multipliers of the active rows to their best; drop those that fall to zero."""
    while size > 0:
        for i in range(size):
            wanted[i] = short[active[i]]
            for j in range(i + 1):
                matrix[i, j] = _product(rows, active[i], active[j], spreads)
            matrix[i, i] *= 1.0 + _RIDGE
        _solve_in_place(matrix, wanted, size)
        step = 1.0
        for i in range(size):
            if wanted[i] <= 0.0:
                now = multipliers[active[i]]
                step = min(step, now / (now - wanted[i]) if now > 0.0 else 0.0)
        kept = 0
        for i in range(size):
            row = active[i]
            moved = multipliers[row] + step * (wanted[i] - multipliers[row])
            if step < 1.0 and wanted[i] <= 0.0 and moved <= ROUNDING * multipliers[row]:
                multipliers[row] = 0.0
            else:
                multipliers[row] = max(0.0, moved)
                active[kept] = row
                kept += 1
        if step == 1.0:
            return size
        size = kept
    return size


@kernel(error_model="numpy")
def _solve_in_place(matrix: Floats, right: Floats, size: int) -> None:
    """Solve a positive definite system, given its lower triangle; both are overwritten."""
    for i in range(size):
        for j in range(i + 1):
            found = matrix[i, j]
            for inner in range(j):
                found -= matrix[i, inner] * matrix[j, inner]
            if i == j:
                matrix[i, i] = math.sqrt(max(found, _RIDGE * abs(matrix[i, i])))
            else:
                matrix[i, j] = found / matrix[j, j]
        for inner in range(i):
            right[i] -= matrix[i, inner] * right[inner]
        right[i] /= matrix[i, i]
    for i in range(size - 1, -1, -1):
        for inner in range(i + 1, size):
            right[i] -= matrix[inner, i] * right[inner]
        right[i] /= matrix[i, i]
