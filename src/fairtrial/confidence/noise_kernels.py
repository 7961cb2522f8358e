"""Compiled running record of each cell's spread, for the test of a stated noise.

A record is an array of shape (cells, 4); its columns are named below. Values are in units of the
stated noise: the caller divides by it first. A numbered record has one more column, the number of
the pull that gave the first result.
"""

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.arithmetic import square
from fairtrial.core.compilation import kernel, uncounted

Floats = NDArray[np.float64]

COUNT, MEAN, SPREAD, FIRST = range(4)
"""Columns: number of results, their mean, the sum of squares about it, the first result."""

COLUMNS = 4

NUMBER = COLUMNS
"""The last column of a numbered record."""

NUMBERED_COLUMNS = 5


@uncounted
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
    """Replace a recorded result by a corrected one."""
    row = record[cell]
    if row[FIRST] == old:
        row[FIRST] = new
    mean = row[MEAN] + (new - old) / row[COUNT]
    change = (new - old) * (new - mean + old - row[MEAN])
    row[SPREAD] = max(0.0, row[SPREAD] + change)
    row[MEAN] = mean


# --------------------------------------------------------------------- numbered records


@uncounted
def record_as_told(record: Floats, cell: int, number: float, value: float) -> None:
    """Add a result with the number of its pull; the first result told counts as the first."""
    if record[cell, COUNT] == 0.0:
        record[cell, NUMBER] = number
    record_result(record, cell, value)


@uncounted
def record_as_issued(record: Floats, cell: int, number: float, value: float) -> None:
    """Add a result in any order; that of the pull issued first counts as the first."""
    is_first = record[cell, COUNT] == 0.0 or number < record[cell, NUMBER]
    record_result(record, cell, value)
    if is_first:
        record[cell, NUMBER] = number
        record[cell, FIRST] = value


@kernel
def replace_numbered(record: Floats, cell: int, number: float, old: float, new: float) -> None:
    """Replace a recorded result by a corrected one.

    Does nothing if the record is empty, as that of a block is after it was settled.
    """
    if record[cell, COUNT] == 0.0:
        return
    first = record[cell, FIRST]
    replace_result(record, cell, old, new)
    is_first = number == record[cell, NUMBER] and old == first
    record[cell, FIRST] = new if is_first else first


@uncounted
def settle_record(settled: Floats, block: Floats) -> None:
    """Add the record of a block to the record of settled results, and clear it.

    Until then they are kept apart, because results of an open block can arrive in an order that
    depends on their values.
    """
    for cell in range(block.shape[0]):
        add_row(settled[cell], block[cell])
        block[cell] = 0.0


@uncounted
def add_row(total: Floats, more: Floats) -> None:
    """Add the results of a later block to the total of a cell."""
    if more[COUNT] == 0.0:
        return
    if total[COUNT] == 0.0:
        total[FIRST] = more[FIRST]
        total[NUMBER] = more[NUMBER]
    add_summary(total, more[COUNT], more[MEAN], more[SPREAD])


@uncounted
def add_summary(total: Floats, count: float, mean: float, spread: float) -> None:
    """Add results to the total of a cell: their number, mean and sum of squares about the mean."""
    number = total[COUNT] + count
    gap = mean - total[MEAN]
    total[SPREAD] += spread + square(gap) * total[COUNT] * count / number
    total[MEAN] += gap * count / number
    total[COUNT] = number
