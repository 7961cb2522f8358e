"""Records of the spread of sums of a pull's measures, which test the stated noise.

A record has a row for each direction of each cell. A direction is a sum of measures in units of its
stated noise. It leaves out pulls that lack one of its measures.

Values that no bet uses can come after their block was settled, at a time that depends on them. So
`settled_noise` has, for each direction, the first blocks in which nothing of it is awaited any
more.
"""

import math

from fairtrial.confidence.block_betting.blocks import serial_in
from fairtrial.confidence.noise_kernels import (
    COUNT,
    FIRST,
    MEAN,
    NUMBER,
    SPREAD,
    add_row,
    record_as_issued,
    replace_numbered,
)
from fairtrial.core.compilation import kernel, uncounted
from fairtrial.subpopulations._kernels.measures.model import Floats, Model
from fairtrial.subpopulations._kernels.measures.state import State


@uncounted
def record_noise(model: Model, record: Floats, cell: int, values: Floats, number: int) -> None:
    """Add the values of a pull in every direction; NaN for missing ones."""
    directions = model.directions.shape[2]
    for d in range(directions):
        value = _in_direction(model, cell, d, values)
        if not math.isnan(value):
            record_as_issued(record, cell * directions + d, float(number), value)


@kernel
def settle_noise(model: Model, state: State, serial: int, noise: Floats, awaited: Floats) -> bool:
    """Add the record of a settled block, where it is the next; return whether any part was added.

    Directions with awaited values are not added.
    """
    directions = state.in_noise.size
    found = False
    for d in range(directions):
        if state.in_noise[d] == serial and not _is_awaited(model, d, awaited):
            for row in range(d, state.settled_noise.shape[0], directions):
                add_row(state.settled_noise[row], noise[row])
            state.in_noise[d] += 1
            found = True
    return found


@uncounted
def _is_awaited(model: Model, d: int, awaited: Floats) -> bool:
    """Return whether a measure of a direction is awaited."""
    found = False
    for m in range(awaited.size):
        if awaited[m] > 0.0:
            for k in range(model.directions.shape[0]):
                for group in range(model.directions.shape[1]):
                    found = found or model.directions[k, group, d, m] != 0.0
    return found


@kernel
def correct_noise(
    model: Model, state: State, slot: int, cell: int, old: Floats, new: Floats, number: int
) -> None:
    """Replace the values of a pull of an open block; values may become known or missing."""
    serial = serial_in(state.blocks, slot)
    for d in range(state.in_noise.size):
        if serial >= state.in_noise[d]:
            _correct_direction(model, state.noise[slot], d, cell, old, new, number)


@kernel
def correct_settled_noise(
    model: Model, state: State, serial: int, cell: int, old: Floats, new: Floats, number: int
) -> None:
    """Replace the values of a pull of a settled block where its record was added."""
    for d in range(state.in_noise.size):
        if 0 <= serial < state.in_noise[d]:
            _correct_direction(model, state.settled_noise, d, cell, old, new, number)


@uncounted
def _correct_direction(
    model: Model, record: Floats, d: int, cell: int, old: Floats, new: Floats, number: int
) -> None:
    row = cell * model.directions.shape[2] + d
    before = _in_direction(model, cell, d, old)
    after = _in_direction(model, cell, d, new)
    if before == after or (math.isnan(before) and math.isnan(after)):
        return
    if math.isnan(before):
        record_as_issued(record, row, float(number), after)
    elif math.isnan(after):
        _remove(record[row], before, float(number))
    else:
        replace_numbered(record, row, float(number), before, after)


@uncounted
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
