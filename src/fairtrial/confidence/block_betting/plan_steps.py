"""Steps towards the shares of a block that settle the slowest of its items soonest.

The *progress* of an item is the information that it gains per cost, in parts of what it needs. It
is concave in the shares and proportional to them, so at any shares its derivatives bound it for all
others: it is at most the sum of derivatives times shares. A weighted average of such bounds, over
items and steps, bounds the least progress that any shares can reach. Near that bound, more steps
gain nothing.

A step multiplies each share by what the items gain from it (Arora, Hazan and Kale 2012, "The
multiplicative weights update method"). The items are those that are settled last, with weights that
fall with their lead. A step for the last item alone takes from those next to it what the next step
has to give back: it needs some ten times as many steps.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.arithmetic import square
from fairtrial.core.compilation import inlined, kernel, unchecked

Floats = NDArray[np.float64]

MOST_STEPS, ENOUGH = 300, 0.9
"""Steps end at this part of the bound, or after that many."""

REACH, NARROWING = 0.6, 40.0
"""Lead over the last item, in parts of its progress, from which an item has no weight in a step;
after how many steps that lead has halved."""

FIRST_GAIN, SLOWING = 0.16, 25.0
"""By how much the first step moves the shares; after how many steps the moves have halved."""


@kernel(inline="always")
def take_steps(
    plan: Any,
    shares: Floats,
    found: Floats,
    progress: Floats,
    fill_progress: Any,
    add_pull: Any,
    forecast_of: Any,
) -> float:
    """Change the shares step by step; fill the best shares `found`, and return their forecast.

    Parameters
    ----------
    plan : NamedTuple
        What the kernels need; those below are inlined. They see changes of `shares` in it.
    shares, found : ndarray
        Of all cells, one after the other.
    progress : ndarray
        Work space, with one place for every item.
    fill_progress : kernel
        ``fill_progress(plan, progress)``, at the present shares.
    add_pull : kernel
        ``add_pull(plan, progress, item, weight, pull)``: adds the weighted derivatives of the
        progress of an item by the shares.
    forecast_of : kernel
        ``forecast_of(plan, progress)``: what the present shares need to settle all items.
    """
    pull = np.empty(shares.size)
    prices = np.zeros(shares.size)
    most = -1.0
    bound = math.inf
    forecast = math.inf
    for step in range(MOST_STEPS if progress.size > 0 else 0):
        fill_progress(plan, progress)
        least = math.inf
        for item in range(progress.size):
            least = min(least, progress[item])
        if least > most:
            most = least
            forecast = forecast_of(plan, progress)
            for i in range(shares.size):
                found[i] = shares[i]
        if least <= 0.0:
            break
        weights = 0.0
        for i in range(shares.size):
            pull[i] = 0.0
        for item in range(progress.size):
            weight = weight_in_step(step, progress[item], least)
            if weight > 0.0:
                add_pull(plan, progress, item, weight, pull)
                weights += weight
        bound = min(bound, move_shares(step, weights, pull, shares, prices))
        if most >= ENOUGH * bound:
            break
    return forecast


@inlined
def weight_in_step(step: int, progress: float, least: float) -> float:
    """Return the weight of an item with this progress in a step, if the slowest has the `least`."""
    lead = (progress / least - 1.0) * (1.0 + step / NARROWING)
    return square(square(1.0 - lead / REACH)) if lead < REACH else 0.0


@unchecked
def move_shares(step: int, weights: float, pull: Floats, shares: Floats, prices: Floats) -> float:
    """Move shares to where the items gain most; return a bound for the least progress.

    `pull`: weighted sum of the derivatives of the items' progress; `weights`: the sum of these
    weights. `prices`: average derivatives of all steps; this step adds to it.
    """
    gain = FIRST_GAIN / (1.0 + step / SLOWING)
    blend = 1.0 if step == 0 else gain
    whole = 0.0
    for i in range(shares.size):
        whole += pull[i] * shares[i]
    now, on_average = 0.0, 0.0
    for i in range(shares.size):
        price = pull[i] / weights
        shares[i] *= 1.0 - gain + gain * pull[i] / whole
        prices[i] += blend * (price - prices[i])
        now = max(now, price)
        on_average = max(on_average, prices[i])
    return min(now, on_average)
