"""What lost pulls hide: comparisons that more data with the same losses cannot settle.

An arm that loses its results must not hold back the comparisons of others. So no plan waits for a
hidden item, and another target replaces one that losses make slow. All of this depends on earlier
pulls only: it leaves the guarantee as it is.
"""

import math

import numpy as np
from numpy.typing import NDArray

from fairtrial.confidence.block_betting.book import Book
from fairtrial.core.compilation import inlined

MOST_TRIED = 8
"""Of how many leading answers it is tried what losses leave of their comparisons."""

MOST_WASTED = 9.87
"""With a known noise, an effect is hidden if losses make its variance this many times as large.

That is where nine pulls of ten are lost; no small numbers of pulls have exactly this ratio.
"""

HOPELESS = 29.6
"""The same ratio, where nothing can be forecast any more: 29 pulls of 30 are lost."""

WASTED = 4.0
"""Losses are why a target is slow if it needs this many times as many pulls because of them."""

SOONER = 2.0
"""Another target is preferred if this one needs this many times as many pulls for an answer."""

HIDDEN = -2.0
"""In place of what an item needs: losses hide it."""


@inlined
def share_lost(lost: float, came: float) -> float:
    """Return the share of lost pulls, kept below one because results may still come."""
    return lost / (lost + max(1.0, came))


@inlined
def is_any_hidden(needs: NDArray[np.float64]) -> bool:
    """Return whether losses hide an item."""
    found = False
    for item in range(needs.size):
        found = found or needs[item] == HIDDEN
    return found


@inlined
def leave_out_wasted(needs: NDArray[np.float64], present: NDArray[np.float64]) -> float:
    """Leave out the items that losses waste, if others are left; return the smallest information.

    `present`: the information on every item, on entry negative if losses waste it.
    """
    are_others = False
    for item in range(needs.size):
        are_others = are_others or present[item] > 0.0
    weakest = math.inf
    for item in range(needs.size):
        if present[item] < 0.0:
            present[item] = 0.0 if are_others else -present[item]
        if needs[item] >= 0.0:
            weakest = min(weakest, present[item])
    return weakest


@inlined
def fill_times(
    book: Book,
    needs: NDArray[np.float64],
    values: NDArray[np.float64],
    cost: float,
    target: int,
    times: NDArray[np.float64],
) -> None:
    """Fill how long a target needs to rule out each answer, by the information `values` per time.

    It is infinite if losses hide what is needed, and where nothing is. Evidence against a rival
    counts only if the target keeps its limits.
    """
    arms = book.stated.shape[0]
    limits = 0.0
    for item in range(arms, needs.size):
        if needs[item] >= 0.0:
            value = values[item]
            limits = max(limits, (needs[item] + cost) / value if value > 0.0 else math.inf)
    for answer in range(arms + 1):
        time = limits
        if answer < arms and needs[answer] >= 0.0:
            value = values[answer]
            time = max(time, (needs[answer] + cost) / value if value > 0.0 else math.inf)
        is_live = answer != target and not book.rejected[answer]
        times[answer] = time if is_live and time > 0.0 else math.inf


@inlined
def is_sooner(
    times: NDArray[np.float64],
    without_losses: NDArray[np.float64],
    other_times: NDArray[np.float64],
    other: int,
) -> bool:
    """Return whether another target rules out sooner what losses make slow for the present one.

    Before that, it must not delay an answer that the present target can rule out.

    Parameters
    ----------
    times, other_times : float array
        What both targets need, from `fill_times`.
    without_losses : float array
        What the present target would need without losses.
    other : int
        The other target.
    """
    soonest = math.inf
    for answer in range(times.size):
        if answer != other and other_times[answer] > SOONER * times[answer]:
            soonest = min(soonest, times[answer])
    found = False
    for answer in range(times.size):
        is_wasted = math.inf > WASTED * without_losses[answer] <= times[answer]
        is_faster = SOONER * other_times[answer] <= times[answer]
        is_known = other_times[answer] < math.inf
        is_first = other_times[answer] <= soonest
        found = found or (is_wasted and is_faster and is_known and is_first)
    return found
