"""A network in the form from which compiled code draws rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class RowSource(NamedTuple):
    """The tables of a network's nodes, parents first, and how to compute a row's value and cell.

    A node takes the state whose position is the number of borders that a uniform number has
    reached. `borders` holds the borders of all tables. For a node with its parents in states p,
    they begin at ``start + p @ steps``, and there are `width` of them. The node that arms set has a
    table for each arm, `arm_step` borders apart (0 for all other nodes). A forced mode sets the
    nodes with an `attribute` to their part of a combination. A row's value and its cell are the
    sums of its states times `value_step` and `cell_step`.
    """

    borders: Floats
    start: Integers
    """Shape (nodes,)."""
    width: Integers
    arm_step: Integers
    parents: Integers
    """Columns of the parents, shape (nodes, most parents); -1 for none."""
    steps: Integers
    attribute: Integers
    """Which of the sensitive attributes a node is, shape (nodes,); -1 for none."""
    combinations: Integers
    """States of the attributes in every value, shape (values, attributes)."""
    value_step: Integers
    cell_step: Integers
    outcome: int
    """The column of the outcome."""
    numbers: Floats
    """The scaled outcome in every state."""
