"""The running record of each cell's spread that the test of a stated noise needs, compiled.

A record is an array of shape (cells, 4); its columns are named below. Values are in units of the
stated noise, so the caller divides by it first.
"""

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.compilation import kernel

Floats = NDArray[np.float64]

COUNT, MEAN, SPREAD, FIRST = range(4)
"""Columns: results, their mean, the sum of squares about it, and the first result."""

COLUMNS = 4


@kernel
def record_result(record: Floats, cell: int, value: float) -> None:
    """Add one result of a cell to the record."""
    row = record[cell]
    if row[COUNT] == 0.0:
        row[FIRST] = value
    row[COUNT] += 1.0
    error = value - row[MEAN]
    row[MEAN] += error / row[COUNT]
    row[SPREAD] += error * (value - row[MEAN])


@kernel
def replace_result(record: Floats, cell: int, old: float, new: float) -> None:
    """Put a corrected result in the place of the one that was recorded."""
    row = record[cell]
    if row[FIRST] == old:
        row[FIRST] = new
    mean = row[MEAN] + (new - old) / row[COUNT]
    change = (new - old) * (new - mean + old - row[MEAN])
    row[SPREAD] = max(0.0, row[SPREAD] + change)
    row[MEAN] = mean
