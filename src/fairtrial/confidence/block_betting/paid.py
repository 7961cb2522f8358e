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

    Of a state, the arrays by slot are what is kept of a block; its layout says which these are.

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

    def keep(self, layout: Layout[Any], state: Any, slot: int) -> None:
        """Keep one more block; give all up if they take too much room."""
        floats, integers = (_row(layout, state, slot, kind) for kind in (float, int))
        if (len(self) + 1) * (floats.size + integers.size) > _MOST_NUMBERS:
            self.floats, self.integers = [], []
            return
        self.floats.append(floats)
        self.integers.append(integers)

    def replace(self, serial: int, layout: Layout[Any], state: Any, slot: int) -> None:
        """Keep a block as it is now in place of what it was."""
        self.floats[serial] = _row(layout, state, slot, float)
        self.integers[serial] = _row(layout, state, slot, int)

    def restore(self, serial: int, layout: Layout[Any], state: Any, slot: int) -> None:
        """Make a block the only open one of a state, its bets still to be paid."""
        for kind, rows in ((float, self.floats), (int, self.integers)):
            at = 0
            for part in _parts(layout, state, slot, kind):
                part[...] = rows[serial][at : at + part.size].reshape(part.shape)
                at += part.size
        state.blocks.first[0] = serial
        state.blocks.number[0] = 1


def _row(layout: Layout[Any], state: Any, slot: int, kind: type) -> Rows:
    return np.concatenate([part.ravel() for part in _parts(layout, state, slot, kind)])


def _parts(layout: Layout[Any], state: Any, slot: int, kind: type) -> list[Rows]:
    return [
        leaf[slot : slot + 1]
        for array, leaf in zip(layout.arrays, layout.leaves(state), strict=True)
        if array.kind is kind and array.shape is not None and array.shape[0] == "slots"
    ]
