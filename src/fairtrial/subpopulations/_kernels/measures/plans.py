"""Plans if a pull gives several measures: the shares and the support of the next block."""

import math

import numpy as np

from fairtrial.confidence.block_betting.plan_steps import (
    ENOUGH,
    MOST_STEPS,
    move_shares,
    weight_in_step,
)
from fairtrial.core.compilation import kernel, uncounted
from fairtrial.subpopulations._kernels.block_plans import (
    add_pull,
    blend_shares,
    close_support,
    cost_to_finish,
    least_progress,
)
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
from fairtrial.subpopulations._kernels.model import copy_into, divide, fill
from fairtrial.subpopulations._kernels.plans_without_limits import Items


@uncounted(error_model="numpy")
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
    leader: int,
    seen: Seen,
    programmes: Programmes,
    items: Items,
    work: Work,
    found: Floats,
) -> float:
    """Find the shares of cost that (nearly) finish the neediest item soonest.

    Return the cost to finish. `found`: on entry the shares of the last plan, from which the search
    starts. Values are concave and homogeneous, so an average of the items' derivatives bounds what
    any shares can reach. Near that bound, more steps gain nothing.
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
    pull = np.empty((arms, groups))
    prices = np.zeros(shares.size)
    most = -1.0
    bound = math.inf
    forecast = math.inf
    for step in range(MOST_STEPS if items.number > 0 else 0):
        divide(pulls, shares, model.costs)
        for i in range(items.number):
            item = items.live[i]
            values[item] = item_value(programmes, item, leader, pulls, work)
        least = least_progress(items, values)
        if least > most:
            most = least
            forecast = cost_to_finish(items, values)
            copy_into(found, shares)
        if least <= 0.0:
            break
        fill(pull, 0.0)
        weights = 0.0
        for i in range(items.number):
            item = items.live[i]
            weight = weight_in_step(step, values[item] * items.urgency[item], least)
            if weight > 0.0:
                item_gradient(programmes, item, leader, pulls, work, gradient)
                add_pull(weight * items.urgency[item], gradient, per_cost, pull)
                weights += weight
        flat, at_once = shares.reshape(shares.size), pull.reshape(pull.size)
        bound = min(bound, move_shares(step, weights, at_once, flat, prices))
        if most >= ENOUGH * bound:
            break
    return forecast


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
