"""The blocks whose bets are paid, kept so that a correction can have them paid once more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fairtrial.core.layout import Layout

__all__ = ["PaidBlocks", "Slots"]

Rows = NDArray[Any]

_MOST_NUMBERS = 4_000_000
"""That are kept of all blocks together: 32 MB."""


class Slots:
    """The slots of a state, each with all that belongs to the block in it.

    Parameters
    ----------
    layout : Layout
        Of the state; its arrays by slot are those of a block.
    floats, integers : array
        The buffers of the state.
    """

    def __init__(self, layout: Layout[Any], floats: Rows, integers: Rows) -> None:
        self._buffers = floats, integers
        # The places of all numbers, in views as the state has them; its head says their shapes.
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
        """Return a copy of all floats, and of all integers, of a slot."""
        floats, integers = self._buffers
        in_floats, in_integers = self._positions(slot)
        return floats[in_floats], integers[in_integers]

    def fill(self, slot: int, floats: Rows, integers: Rows) -> None:
        """Let a slot hold what `rows` once returned."""
        in_floats, in_integers = self._positions(slot)
        self._buffers[0][in_floats] = floats
        self._buffers[1][in_integers] = integers

    def in_row(self, path: str) -> slice:
        """Return where in the row of floats an array of the state is."""
        return self._in_row[path]

    def _positions(self, slot: int) -> list[Rows]:
        return [
            first + slot * stride for first, stride in zip(self._first, self._strides, strict=True)
        ]


class PaidBlocks:
    """All blocks from the first, each as it was when its bets were paid.

    Attributes
    ----------
    floats, integers : list of array
        One row for every block.
    """

    def __init__(self) -> None:
        self.floats: list[Rows] = []
        self.integers: list[Rows] = []

    def __len__(self) -> int:
        return len(self.floats)

    def keep(self, slots: Slots, slot: int) -> None:
        """Keep one more block; give all up if they take too much room."""
        floats, integers = slots.rows(slot)
        if (len(self) + 1) * (floats.size + integers.size) > _MOST_NUMBERS:
            self.floats, self.integers = [], []
            return
        self.floats.append(floats)
        self.integers.append(integers)

    def replace(self, serial: int, slots: Slots, slot: int) -> None:
        """Keep a block as it is now in place of what it was."""
        self.floats[serial], self.integers[serial] = slots.rows(slot)

    def restore(self, serial: int, slots: Slots, slot: int) -> None:
        """Put a block as it was into a slot."""
        slots.fill(slot, self.floats[serial], self.integers[serial])
