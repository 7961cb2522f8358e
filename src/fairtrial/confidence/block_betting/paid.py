"""The blocks whose bets are paid, kept so that a correction can have them paid once more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fairtrial.core.layout import Layout

__all__ = ["PaidBlocks"]

Rows = NDArray[Any]

_MOST_NUMBERS = 4_000_000
"""That are kept of all blocks together: 32 MB."""


class PaidBlocks:
    """All blocks from the first, each as it was when its bets were paid.

    Parameters
    ----------
    layout : Layout
        Of the state that the blocks are a part of: its arrays by slot are what is kept of one.

    Attributes
    ----------
    floats, integers : list of array
        One row for every block.
    """

    def __init__(self, layout: Layout[Any]) -> None:
        self._layout = layout
        self.floats: list[Rows] = []
        self.integers: list[Rows] = []

    def __len__(self) -> int:
        return len(self.floats)

    def keep(self, state: Any, slot: int) -> None:
        """Keep one more block; give all up if they take too much room."""
        floats, integers = self._row(state, slot, float), self._row(state, slot, int)
        if (len(self) + 1) * (floats.size + integers.size) > _MOST_NUMBERS:
            self.floats, self.integers = [], []
            return
        self.floats.append(floats)
        self.integers.append(integers)

    def replace(self, serial: int, state: Any, slot: int) -> None:
        """Keep a block as it is now in place of what it was."""
        self.floats[serial] = self._row(state, slot, float)
        self.integers[serial] = self._row(state, slot, int)

    def restore(self, serial: int, state: Any, slot: int) -> None:
        """Make a block the only open one of a state, its bets still to be paid."""
        for kind, rows in ((float, self.floats), (int, self.integers)):
            at = 0
            for part in self._parts(state, slot, kind):
                part[...] = rows[serial][at : at + part.size].reshape(part.shape)
                at += part.size
        state.blocks.first[0] = serial
        state.blocks.number[0] = 1

    def _row(self, state: Any, slot: int, kind: type) -> Rows:
        parts = [part.ravel() for part in self._parts(state, slot, kind)]
        return np.concatenate(parts) if parts else np.empty(0)

    def _parts(self, state: Any, slot: int, kind: type) -> list[Rows]:
        arrays = zip(self._layout.arrays, self._layout.leaves(state), strict=True)
        return [
            leaf[slot : slot + 1]
            for array, leaf in arrays
            if array.kind is kind and array.shape is not None and array.shape[0] == "slots"
        ]
