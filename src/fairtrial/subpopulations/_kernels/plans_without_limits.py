"""The optimal plan of a block if no cell has a limit; it needs only one root.

Without limits, an arm matters only through its quality. The information about leader b and rival k
is gap**2 / (A[b] / S[b] + A[k] / S[k]). S is the cost spent on an arm, divided optimally among its
cells, and A is the variance of its quality after one unit of cost. Source: Garivier and Kaufmann
(2016), Theorem 5; here with a variance and a cost for each cell, and an urgency for each pair.
"""

import math
from typing import NamedTuple

from fairtrial.core.arithmetic import square
from fairtrial.core.compilation import uncounted
from fairtrial.subpopulations._kernels.block_state import Estimates
from fairtrial.subpopulations._kernels.model import Floats, Integers, Limits, fill
from fairtrial.subpopulations._kernels.pitfalls import Alternative

MOST_STEPS = 100
"""Only a safeguard: Newton's method needs about five steps."""


class Items(NamedTuple):
    """The items that a plan is made for, which data can still settle.

    By item: the evidence that it `needs`, in nats, and its `urgency`. The first `number` entries of
    `live` are the items that can be settled.
    """

    needs: Floats
    urgency: Floats
    live: Integers
    number: int


@uncounted
def has_no_limits(limits: Limits) -> bool:
    """Return whether there is no limit."""
    for end in range(limits.shape[0]):
        for k in range(limits.shape[1]):
            for group in range(limits.shape[2]):
                if abs(limits[end, k, group]) < math.inf:
                    return False
    return True


@uncounted(error_model="numpy")
def optimal_shares(
    costs: Floats,
    leader: int,
    seen: Estimates,
    alternative: Alternative,
    items: Items,
    shares: Floats,
    work: Floats,
) -> float:
    """Fill the shares of cost that finish the neediest live rival soonest.

    Return the cost to finish. Shares are equal if there is no live rival. `work`: space for three
    numbers of every item.
    """
    arms, groups = shares.shape
    live, number = items.live, items.number
    if number == 0:
        fill(shares, 1.0 / (arms * groups))
        return math.inf
    deviations, ease, scales = work[0], work[1], work[2]
    _fill_deviations(costs, seen.variances, alternative.weights, deviations, shares)
    hardest = _fill_ease(leader, seen.means, alternative, items, ease)
    own = square(deviations[leader])
    excess = _excess_on_leader(leader, deviations, ease, live, number)
    spent = own + excess
    for k in range(arms):
        scales[k] = 0.0
    scales[leader] = spent / deviations[leader]
    whole = spent
    neediest = 0.0
    for i in range(number):
        k = live[i]
        left = own * (ease[i] - 1.0) + ease[i] * excess
        on_rival = square(deviations[k]) * spent / left
        scales[k] = on_rival / deviations[k]
        whole += on_rival
        neediest = max(neediest, items.needs[k] * items.urgency[k])
    for k in range(arms):
        for group in range(groups):
            shares[k, group] = scales[k] * shares[k, group] / whole
    return 2.0 * neediest * whole / hardest


@uncounted
def _fill_deviations(
    costs: Floats, variances: Floats, weights: Floats, deviations: Floats, of_cells: Floats
) -> None:
    """Fill the root of A by arm, and its parts by cell.

    An arm's spending is divided among its cells in proportion to these parts.
    """
    for k in range(costs.shape[0]):
        deviations[k] = 0.0
        for group in range(costs.shape[1]):
            part = weights[group] * math.sqrt(variances[k, group] * costs[k, group])
            of_cells[k, group] = part
            deviations[k] += part


@uncounted(error_model="numpy")
def _fill_ease(
    leader: int, means: Floats, alternative: Alternative, items: Items, ease: Floats
) -> float:
    """Fill how easily live rivals are settled, relative to the hardest; return what that has."""
    hardest = math.inf
    for i in range(items.number):
        k = items.live[i]
        gap = alternative.tolerance
        for group in range(means.shape[1]):
            gap += alternative.weights[group] * (means[leader, group] - means[k, group])
        ease[i] = items.urgency[k] * square(gap)
        hardest = min(hardest, ease[i])
    for i in range(items.number):
        ease[i] /= hardest
    return hardest


@uncounted(error_model="numpy")
def _excess_on_leader(
    leader: int, deviations: Floats, ease: Floats, live: Integers, number: int
) -> float:
    """Return the excess over A[b] to spend on the leader so that all pairs reach 1 at least cost.

    If A[b] + x is spent on the leader, rival k costs A[k] (A[b] + x) / left[k], where `left` is
    A[b] (ease[k] - 1) + ease[k] x. Units are such that the hardest pair has an ease of one. The
    total cost is minimal where the sum of A[b] A[k] / left[k]**2 is one. That sum to the power -1/2
    is concave in x and nearly linear, so Newton's method from the left never overshoots.
    """
    own = square(deviations[leader])
    excess = 0.0
    for i in range(number):
        reached = deviations[leader] * deviations[live[i]] - own * (ease[i] - 1.0)
        excess = max(excess, reached / ease[i])
    for _ in range(MOST_STEPS):
        value = 0.0
        slope = 0.0
        for i in range(number):
            left = own * (ease[i] - 1.0) + ease[i] * excess
            part = own * square(deviations[live[i]] / left)
            value += part
            slope += part * ease[i] / left
        step = value * (math.sqrt(value) - 1.0) / slope
        excess += step
        if step <= 1e-12 * excess:
            break
    return excess
