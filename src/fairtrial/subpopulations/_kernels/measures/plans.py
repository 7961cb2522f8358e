"""Plans if a pull gives several measures: the shares and the support of the next block."""

import math

import numpy as np

from fairtrial.core.compilation import kernel, unchecked
from fairtrial.subpopulations._kernels.block_plans import (
    blend_shares,
    close_support,
    cost_to_finish,
    move_shares,
)
from fairtrial.subpopulations._kernels.block_state import Rules
from fairtrial.subpopulations._kernels.measures.items import (
    Programmes,
    Work,
    item_gradient,
    item_value,
    mark_cells_in_use,
    mark_cells_of,
    mark_useful_cells,
)
from fairtrial.subpopulations._kernels.measures.model import (
    Booleans,
    Floats,
    Model,
    Seen,
)
from fairtrial.subpopulations._kernels.model import copy_into, divide
from fairtrial.subpopulations._kernels.plans_without_limits import Items


@unchecked
def fill_present(
    programmes: Programmes,
    leader: int,
    pulls: Floats,
    lossy: bool,
    needs: Floats,
    work: Work,
    present: Floats,
) -> float:
    """Fill the information on each needed item, else 0; return the smallest of the needed.

    `lossy`: values are missing. If their worst case puts the leader beyond a limit, more data of
    the same kind cannot settle that limit.
    """
    arms = pulls.shape[0]
    weakest = math.inf
    for item in range(needs.size):
        present[item] = 0.0
        if needs[item] < 0.0:
            continue
        if not (lossy and item >= arms and programmes.distance[item - arms] > 0.0):
            present[item] = item_value(programmes, item, leader, pulls, work)
        weakest = min(weakest, present[item])
    return weakest


@kernel(error_model="numpy")
def find_shares(
    model: Model,
    rules: Rules,
    leader: int,
    seen: Seen,
    programmes: Programmes,
    items: Items,
    work: Work,
    found: Floats,
) -> float:
    """Find the shares of cost that (nearly) finish the neediest item soonest.

    Return the cost to finish. `found`: on entry the shares of the last plan, from which the search
    starts. Values are concave and homogeneous, so an average of the weakest items' derivatives
    bounds what any shares can reach. Near that bound, more steps gain nothing.
    """
    arms, groups = found.shape
    shares = np.zeros((arms, groups))
    for i in range(items.number):
        mark_useful_cells(model, seen, items.live[i], leader, shares)
    blend_shares(found, shares)
    copy_into(found, shares)
    per_cost = np.empty((arms, groups))
    for k in range(arms):
        for group in range(groups):
            per_cost[k, group] = 1.0 / model.costs[k, group]
    values = np.empty(items.needs.size)
    pulls = np.empty((arms, groups))
    gradient = np.empty((arms, groups))
    prices = np.zeros((arms, groups))
    most = -1.0
    forecast = math.inf
    for step in range(rules.steps if items.number > 0 else 0):
        divide(pulls, shares, model.costs)
        weakest = _weakest_item(programmes, leader, pulls, items, work, values)
        value, urgency = values[weakest], items.urgency[weakest]
        if value * urgency > most:
            most = value * urgency
            forecast = cost_to_finish(items, values)
            copy_into(found, shares)
        if value <= 0.0:
            break
        item_gradient(programmes, weakest, leader, pulls, work, gradient)
        bound = move_shares(step, value, urgency, gradient, per_cost, shares, prices)
        if most >= rules.precision * bound:
            break
    return forecast


@unchecked
def _weakest_item(
    programmes: Programmes, leader: int, pulls: Floats, items: Items, work: Work, values: Floats
) -> int:
    """Fill the live items' values; return the item that is settled last."""
    weakest = items.live[0]
    least = math.inf
    for i in range(items.number):
        item = items.live[i]
        values[item] = item_value(programmes, item, leader, pulls, work)
        if values[item] * items.urgency[item] < least:
            least = values[item] * items.urgency[item]
            weakest = item
    return weakest


@kernel(error_model="numpy")
def find_support(
    model: Model,
    leader: int,
    programmes: Programmes,
    needs: Floats,
    shares: Floats,
    work: Work,
    support: Booleans,
) -> int:
    """Mark the cells that a live item can use; return their number."""
    arms, groups = shares.shape
    pulls = np.empty((arms, groups))
    divide(pulls, shares, model.costs)
    for item in range(needs.size):
        if needs[item] < 0.0:
            continue
        item_value(programmes, item, leader, pulls, work)
        if not mark_cells_in_use(model, work.multipliers, item, leader, support):
            mark_cells_of(model, item, leader, support)
    return close_support(model.active, leader, shares, support)
