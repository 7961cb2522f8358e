"""The blocks whose bets are paid, kept so that a correction can have them paid once more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fairtrial.core.layout import Layout

__all__ = ["Block", "PaidBlocks"]

Rows = NDArray[Any]

_MOST_NUMBERS = 4_000_000
"""That are kept of all blocks together: 32 MB."""


class Block:
    """One slot of a state: all that belongs to the block in it.

    Parameters
    ----------
    layout : Layout
        Of the state; its arrays by slot are those of a block.
    floats, integers : array
        The buffers of the state.
    slot : int
        Where the block is.
    """

    def __init__(self, layout: Layout[Any], floats: Rows, integers: Rows, slot: int) -> None:
        marks = np.zeros_like(floats), integers.copy()
        state = layout.view(*marks)
        marks[1][:] = 0
        self._numbers = {array.path: number for number, array in enumerate(layout.arrays, start=1)}
        for array, leaf in zip(layout.arrays, layout.leaves(state), strict=True):
            if array.shape is not None and array.shape[0] == "slots":
                leaf[slot] = self._numbers[array.path]
        self._floats, self._integers = floats, integers
        self._positions = np.flatnonzero(marks[0]), np.flatnonzero(marks[1])
        self._arrays = marks[0][self._positions[0]]

    def rows(self) -> tuple[Rows, Rows]:
        """Return a copy of all floats, and of all integers."""
        of_floats, of_integers = self._positions
        return self._floats[of_floats], self._integers[of_integers]

    def places(self, path: str) -> NDArray[np.intp]:
        """Return where in the row of floats an array of the state is."""
        return np.flatnonzero(self._arrays == self._numbers[path])

    def fill(self, floats: Rows, integers: Rows) -> None:
        """Let the slot hold what `rows` once returned."""
        of_floats, of_integers = self._positions
        self._floats[of_floats] = floats
        self._integers[of_integers] = integers


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

    def keep(self, block: Block) -> None:
        """Keep one more block; give all up if they take too much room."""
        floats, integers = block.rows()
        if (len(self) + 1) * (floats.size + integers.size) > _MOST_NUMBERS:
            self.floats, self.integers = [], []
            return
        self.floats.append(floats)
        self.integers.append(integers)

    def replace(self, serial: int, block: Block) -> None:
        """Keep a block as it is now in place of what it was."""
        self.floats[serial], self.integers[serial] = block.rows()

    def restore(self, serial: int, block: Block) -> None:
        """Put a block as it was into a slot."""
        block.fill(self.floats[serial], self.integers[serial])
