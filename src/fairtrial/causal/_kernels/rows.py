"""Compiled draws of network rows, with the random numbers of `fairtrial.causal._sampling`."""

import numpy as np
from numpy.typing import NDArray

from fairtrial.causal._row_source import RowSource
from fairtrial.core.compilation import inlined, uncounted

Integers = NDArray[np.int64]


@uncounted
def draw_row(
    source: RowSource, arm: int, forced: int, generator: np.random.Generator, row: Integers
) -> None:
    """Fill the states of all nodes in one row of an arm.

    `forced`: the value to which the sensitive attribute is set; -1 for none.
    """
    for node in range(row.size):
        row[node] = _state(source, node, arm, row, generator.random())
        attribute = source.attribute[node]
        if forced >= 0 and attribute >= 0:
            row[node] = source.combinations[forced, attribute]


@inlined
def _state(source: RowSource, node: int, arm: int, row: Integers, uniform: float) -> int:
    """Return the state of a node, given those of its parents."""
    begin = source.start[node] + arm * source.arm_step[node]
    for place in range(source.parents.shape[1]):
        parent = source.parents[node, place]
        if parent >= 0:
            begin += row[parent] * source.steps[node, place]
    state = 0
    for border in range(begin, begin + source.width[node]):
        state += uniform >= source.borders[border]
    return state


@inlined
def index_of(row: Integers, steps: Integers) -> int:
    """Return the index of a row; `steps` says how much one state of each node adds."""
    index = 0
    for node in range(row.size):
        index += row[node] * steps[node]
    return index
