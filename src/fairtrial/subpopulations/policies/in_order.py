"""Results in the order of issue, cell by cell: what holds whatever decides when they come."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

__all__ = ["NOTHING_HELD", "hold", "release"]

Held = NDArray[np.float64]
"""Results told but not yet used: one row each, of number, action and reward."""

NOTHING_HELD = np.empty((0, 3))


def hold(held: Held, number: int, action: int, reward: float) -> Held:
    """Return the held results with one more."""
    return np.concatenate([held, [(number, action, reward)]])


def release(held: Held, action: int, missing: Iterable[int]) -> tuple[Held, Held]:
    """Return what becomes usable of an action's results, in order of issue, and what is left.

    A result is usable once every pull of its action that was issued before it is told;
    `missing` are the numbers of the action's pulls that are not, and perhaps never will be.

    Examples
    --------
    >>> held = hold(hold(NOTHING_HELD, 7, 0, 0.5), 3, 0, 0.1)
    >>> usable, left = release(held, 0, missing=[5])
    >>> usable[:, 0].tolist(), left[:, 0].tolist()
    ([3.0], [7.0])
    """
    first_missing = min(missing, default=np.inf)
    usable = (held[:, 1] == action) & (held[:, 0] < first_missing)
    released = held[usable]
    return released[np.argsort(released[:, 0])], held[~usable]
