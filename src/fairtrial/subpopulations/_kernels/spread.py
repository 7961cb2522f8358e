"""What the test of a stated noise is given: the spread of the results that evidence rests on.

A record has a row per cell: the columns of `fairtrial.confidence.noise_kernels`, and the number of
the pull that was issued first. Block betting keeps one record for every open block and one for all
that are settled: results of an open block may come in an order that depends on their values.
"""

import math

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.noise_kernels import (
    COLUMNS,
    COUNT,
    FIRST,
    MEAN,
    SPREAD,
    record_result,
    replace_result,
)
from fairtrial.core.compilation import kernel
from fairtrial.subpopulations._kernels.model import Floats, Model

NUMBER = COLUMNS
"""Column, the last of `NOISE_FIELDS`: the number of the pull that gave the first result."""

Records = NDArray[np.float64]
"""Shape (1, cells, NOISE_FIELDS), or empty if no noise is stated."""

SETTLED = 0


@kernel
def in_units(model: Model, cell: int, reward: float) -> float:
    """Return a reward in units of the stated noise of its cell."""
    groups = model.weights.size
    return reward / math.sqrt(model.variances[cell // groups, cell % groups])


@kernel
def note_as_told(record: Floats, cell: int, number: float, value: float) -> None:
    """Add a result, whose pull has a number; the first one told is the first."""
    if record[cell, COUNT] == 0.0:
        record[cell, NUMBER] = number
    record_result(record, cell, value)


@kernel
def note_as_issued(record: Floats, cell: int, number: float, value: float) -> None:
    """Add a result in any order; the one whose pull was issued first is the first."""
    is_first = record[cell, COUNT] == 0.0 or number < record[cell, NUMBER]
    record_result(record, cell, value)
    if is_first:
        record[cell, NUMBER] = number
        record[cell, FIRST] = value


@kernel
def correct_result(record: Floats, cell: int, number: float, old: float, new: float) -> None:
    """Put a corrected result in the place of the one that was recorded."""
    first = record[cell, FIRST]
    replace_result(record, cell, old, new)
    is_first = number == record[cell, NUMBER] and old == first
    record[cell, FIRST] = new if is_first else first


@kernel
def settle_block(settled: Floats, block: Floats) -> None:
    """Add the record of a block to that of what is settled, and clear it."""
    for cell in range(block.shape[0]):
        if block[cell, COUNT] > 0.0:
            _add(settled[cell], block[cell])
            block[cell] = 0.0


@kernel
def _add(total: Floats, more: Floats) -> None:
    """Add the results of a later block to those of a cell."""
    if total[COUNT] == 0.0:
        total[FIRST] = more[FIRST]
        total[NUMBER] = more[NUMBER]
    count = total[COUNT] + more[COUNT]
    gap = more[MEAN] - total[MEAN]
    total[SPREAD] += more[SPREAD] + gap * gap * total[COUNT] * more[COUNT] / count
    total[MEAN] += gap * more[COUNT] / count
    total[COUNT] = count
