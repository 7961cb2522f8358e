"""What lost pulls hide: comparisons that more data with the same losses cannot settle.

An arm that loses its results must not hold back the comparisons of others. So no plan waits for a
hidden item, and no target is chosen of which nothing can be shown. All of this depends on earlier
pulls only: it leaves the guarantee as it is.
"""

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.compilation import inlined

MOST_TRIED = 8
"""Of how many leading answers it is tried whether losses hide everything that they need."""

MOST_WASTED = 9.87
"""With a known noise, an effect is hidden if losses make its variance this many times as large.

That is where nine pulls of ten are lost; no small numbers of pulls have exactly this ratio.
"""

HIDDEN = -2.0
"""In place of what an item needs: losses hide it."""


@inlined
def share_lost(lost: float, came: float) -> float:
    """Return the share of lost pulls, kept below one because results may still come."""
    return lost / (lost + max(1.0, came))


@inlined
def mark_hidden(needs: NDArray[np.float64], present: NDArray[np.float64]) -> None:
    """Mark the items that losses hide: something is needed, and bets see nothing of the effect."""
    for item in range(needs.size):
        if needs[item] >= 0.0 and present[item] == 0.0:
            needs[item] = HIDDEN


@inlined
def can_show(needs: NDArray[np.float64], arms: int) -> bool:
    """Return whether losses hide no limit of a target, and not everything else that it needs.

    Evidence against a rival counts only if the target keeps its limits. `needs`: of every item,
    first those of the `arms`, then those of the target's limits; no more than 0 if an item is
    settled, and `HIDDEN` if losses hide it.
    """
    is_open = is_any_hidden = is_limit_hidden = False
    for item in range(needs.size):
        is_hidden = needs[item] == HIDDEN
        is_open = is_open or needs[item] > 0.0
        is_any_hidden = is_any_hidden or is_hidden
        is_limit_hidden = is_limit_hidden or (is_hidden and item >= arms)
    return not is_limit_hidden and (is_open or not is_any_hidden)


@inlined
def is_any_hidden(needs: NDArray[np.float64]) -> bool:
    """Return whether losses hide an item."""
    found = False
    for item in range(needs.size):
        found = found or needs[item] == HIDDEN
    return found
