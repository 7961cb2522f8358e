"""Paid blocks, kept so that they can be paid again after a correction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fairtrial.core.layout import Layout

__all__ = ["PaidBlocks", "Slots"]

Rows = NDArray[Any]

_MOST_NUMBERS = 4_000_000
"""Most numbers that are kept, over all blocks: 32 MB."""


class Slots:
    """The slots of a state; each holds all arrays of one block.

    Parameters
    ----------
    layout : Layout
        Layout of the state; its arrays by slot belong to blocks.
    floats, integers : array
        The buffers of the state.
    """

    def __init__(self, layout: Layout[Any], floats: Rows, integers: Rows) -> None:
        self._buffers = floats, integers
        # The position of every number, in the views of the state; the head stores their shapes.
        places = np.arange(floats.size, dtype=np.float64), np.arange(integers.size)
        head = len(layout.dimensions)
        places[1][:head] = integers[:head]
        first: dict[str, list[Rows]] = {"floats": [], "integers": []}
        self._in_row: dict[str, slice] = {}
        for array, leaf in zip(layout.arrays, layout.leaves(layout.view(*places)), strict=True):
            if array.shape is not None and array.shape[0] == "slots":
                row = first[array.buffer]
                begin = sum(map(len, row))
                row.append(np.ravel(leaf[0]).astype(np.intp))
                self._in_row[array.path] = slice(begin, begin + len(row[-1]))
        self._first = [np.concatenate(row) for row in first.values()]
        self._strides = [
            np.concatenate([np.full(len(own), len(own)) for own in row]) for row in first.values()
        ]

    def rows(self, slot: int) -> tuple[Rows, Rows]:
        """Return a copy of all floats and of all integers of a slot."""
        floats, integers = self._buffers
        in_floats, in_integers = self._positions(slot)
        return floats[in_floats], integers[in_integers]

    def fill(self, slot: int, floats: Rows, integers: Rows) -> None:
        """Fill a slot with what `rows` returned."""
        in_floats, in_integers = self._positions(slot)
        self._buffers[0][in_floats] = floats
        self._buffers[1][in_integers] = integers

    def in_row(self, path: str) -> slice:
        """Return the position of an array of the state in a row of floats."""
        return self._in_row[path]

    def _positions(self, slot: int) -> list[Rows]:
        return [
            first + slot * stride for first, stride in zip(self._first, self._strides, strict=True)
        ]


class PaidBlocks:
    """The paid blocks from the first on, each as it was when its bets were paid.

    Attributes
    ----------
    floats, integers : list of array
        One row per block.
    """

    def __init__(self) -> None:
        self.floats: list[Rows] = []
        self.integers: list[Rows] = []

    def __len__(self) -> int:
        return len(self.floats)

    def keep(self, slots: Slots, slot: int) -> None:
        """Keep one more block; drop all blocks if they take too much memory."""
        floats, integers = slots.rows(slot)
        if (len(self) + 1) * (floats.size + integers.size) > _MOST_NUMBERS:
            self.floats, self.integers = [], []
            return
        self.floats.append(floats)
        self.integers.append(integers)

    def replace(self, serial: int, slots: Slots, slot: int) -> None:
        """Replace a kept block by its current state."""
        self.floats[serial], self.integers[serial] = slots.rows(slot)

    def restore(self, serial: int, slots: Slots, slot: int) -> None:
        """Copy a kept block into a slot."""
        slots.fill(slot, self.floats[serial], self.integers[serial])
