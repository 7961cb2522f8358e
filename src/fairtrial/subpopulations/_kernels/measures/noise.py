"""Records of the spread of sums of a pull's measures, which test the stated noise.

A record has a row for each direction of each cell. A direction is a sum of measures in units of its
stated noise. It leaves out pulls that lack one of its measures.
"""

import math

from fairtrial.confidence.noise_kernels import (
    COUNT,
    FIRST,
    MEAN,
    NUMBER,
    SPREAD,
    record_as_issued,
    replace_numbered,
)
from fairtrial.core.compilation import inlined, kernel
from fairtrial.subpopulations._kernels.measures.model import Floats, Model


@inlined
def record_noise(model: Model, record: Floats, cell: int, values: Floats, number: int) -> None:
    """Add the values of a pull in every direction; NaN for missing ones."""
    directions = model.directions.shape[2]
    for d in range(directions):
        value = _in_direction(model, cell, d, values)
        if not math.isnan(value):
            record_as_issued(record, cell * directions + d, float(number), value)


@kernel
def correct_noise(
    model: Model, record: Floats, cell: int, old: Floats, new: Floats, number: int
) -> None:
    """Replace the values of a pull; values may have become known or missing."""
    directions = model.directions.shape[2]
    for d in range(directions):
        row = cell * directions + d
        before = _in_direction(model, cell, d, old)
        after = _in_direction(model, cell, d, new)
        if before == after or (math.isnan(before) and math.isnan(after)):
            continue
        if math.isnan(before):
            record_as_issued(record, row, float(number), after)
        elif math.isnan(after):
            _remove(record[row], before, float(number))
        else:
            replace_numbered(record, row, float(number), before, after)


@inlined
def _in_direction(model: Model, cell: int, d: int, values: Floats) -> float:
    """Return the sum of a pull's measures in a direction."""
    groups = model.weights.size
    found = 0.0
    for m in range(values.size):
        weight = model.directions[cell // groups, cell % groups, d, m]
        if weight != 0.0:
            found += weight * values[m]
    return found


@kernel
def _remove(row: Floats, value: float, number: float) -> None:
    """Remove a result from a record."""
    if row[COUNT] <= 1.0:
        row[:] = 0.0
        return
    was_first = number == row[NUMBER] and value == row[FIRST]
    mean = row[MEAN] - (value - row[MEAN]) / (row[COUNT] - 1.0)
    row[SPREAD] = max(0.0, row[SPREAD] - (value - row[MEAN]) * (value - mean))
    row[MEAN] = mean
    row[COUNT] -= 1.0
    if was_first:
        # It is unknown which result is the first now. With this value, the log evidence is the
        # average over all results in its place, which is at most the logarithm of their average
        # evidence.
        row[FIRST] = mean + math.sqrt(row[SPREAD] / row[COUNT])
