"""The nearest point that satisfies several linear conditions: a small quadratic programme."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.compilation import kernel, unchecked, uncounted

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

ROUNDING = 1e-11
"""A row whose violation is smaller, relative to its terms, counts as satisfied."""

_RIDGE = 1e-12


class Scratch(NamedTuple):
    """Work space for a programme of up to n rows: inputs, solution and intermediate values."""

    short: Floats
    """Violation of every row at the starting point."""
    matrix: Floats
    """Change of one row per unit of another row's multiplier, shape (n, n)."""
    multipliers: Floats
    active: Integers
    lower: Floats
    wanted: Floats


@kernel
def new_scratch(most: int) -> Scratch:
    """Return work space for that many rows."""
    return Scratch(
        np.empty(most),
        np.empty((most, most)),
        np.empty(most),
        np.empty(most, dtype=np.int64),
        np.empty((most, most)),
        np.empty(most),
    )


@kernel(error_model="numpy")
def solve_rows(rows: Floats, short: Floats, spreads: Floats, multipliers: Floats) -> float:
    """Fill in the multipliers of the violated rows; return the weighted distance.

    It is the distance from a point to the set where all rows are at most zero. `short`: values of
    the rows at the point. `spreads`: square of how far a unit of distance moves each coordinate; it
    is infinite only where all rows are zero.
    """
    number = rows.shape[0]
    scratch = new_scratch(number)
    for row in range(number):
        scratch.short[row] = short[row]
        for other in range(row + 1):
            scratch.matrix[row, other] = _product(rows, row, other, spreads)
            scratch.matrix[other, row] = scratch.matrix[row, other]
    value = solve_programme(scratch, number)
    for row in range(number):
        multipliers[row] = scratch.multipliers[row]
    return value


@unchecked
def solve_programme(scratch: Scratch, number: int) -> float:
    """Fill in the multipliers x >= 0 that maximise ``2 short @ x - x @ matrix @ x``; return it.

    Only the first `number` rows count. The returned value is always a lower bound of the maximum.

    Source: Lawson and Hanson, "Solving least squares problems" (1974), chapter 23.
    """
    multipliers, active = scratch.multipliers, scratch.active
    if number == 1 and scratch.matrix[0, 0] > 0.0:
        multipliers[0] = max(0.0, scratch.short[0]) / scratch.matrix[0, 0]
        return multipliers[0] * max(0.0, scratch.short[0])
    for row in range(number):
        multipliers[row] = 0.0
    size = 0
    for _ in range(3 * number):
        row = _shortest_row(scratch, number, size)
        if row < 0:
            break
        active[size] = row
        size = _fit_active(scratch, size + 1)
    value = 0.0
    for i in range(size):
        row = active[i]
        value += multipliers[row] * (scratch.short[row] + _left(scratch, row, size))
    return max(0.0, value)


@uncounted
def _product(rows: Floats, first: int, second: int, spreads: Floats) -> float:
    """Return the change of one row per unit of another row's multiplier."""
    found = 0.0
    for part in range(spreads.size):
        both = rows[first, part] * rows[second, part]
        if both != 0.0:
            found += both * spreads[part]
    return found


@unchecked
def _left(scratch: Scratch, row: int, size: int) -> float:
    """Return the violation of a row at the point to which the multipliers moved."""
    found = scratch.short[row]
    for i in range(size):
        other = scratch.active[i]
        found -= scratch.matrix[row, other] * scratch.multipliers[other]
    return found


@unchecked
def _shortest_row(scratch: Scratch, number: int, size: int) -> int:
    """Return the most violated row, in units of its norm; -1 if all are satisfied."""
    best = -1
    most = 0.0
    for row in range(number):
        norm, short = scratch.matrix[row, row], scratch.short[row]
        left = _left(scratch, row, size)
        if norm <= 0.0 or left <= ROUNDING * (abs(short) + abs(short - left)):
            continue
        is_active = False
        for i in range(size):
            is_active = is_active or scratch.active[i] == row
        if not is_active and left / math.sqrt(norm) > most:
            most = left / math.sqrt(norm)
            best = row
    return best


@unchecked
def _fit_active(scratch: Scratch, size: int) -> int:
    """Optimise the multipliers of the active rows; drop those that fall to zero."""
    multipliers, active = scratch.multipliers, scratch.active
    lower, wanted = scratch.lower, scratch.wanted
    while size > 0:
        for i in range(size):
            wanted[i] = scratch.short[active[i]]
            for j in range(i + 1):
                lower[i, j] = scratch.matrix[active[i], active[j]]
            lower[i, i] *= 1.0 + _RIDGE
        _solve_in_place(lower, wanted, size)
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


@unchecked
def _solve_in_place(matrix: Floats, right: Floats, size: int) -> None:
    """Solve a positive definite system given by its lower triangle; overwrite both arguments."""
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
