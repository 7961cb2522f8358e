"""Results in the order of issue, cell by cell: valid whatever decides when results come."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

__all__ = ["NOTHING_HELD", "hold", "release"]

Held = NDArray[np.float64]
"""Results told but not used yet: one row each with number, action and reward."""

NOTHING_HELD = np.empty((0, 3))


def hold(held: Held, number: int, action: int, reward: float) -> Held:
    """Return the held results with one more."""
    return np.concatenate([held, [(number, action, reward)]])


def release(held: Held, action: int, missing: Iterable[int]) -> tuple[Held, Held]:
    """Return an action's results that become usable, in order of issue, and the rest.

    A result is usable once every pull of its action that was issued before it is told;
    `missing` are the numbers of the action's pulls without a result, which may never come.

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
