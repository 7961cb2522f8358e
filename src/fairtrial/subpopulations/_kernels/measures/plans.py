"""Plans if a pull gives several measures: the shares and the support of the next block."""

from typing import NamedTuple

import numpy as np

from fairtrial.confidence.block_betting.hidden import (
    HOPELESS,
    MOST_WASTED,
    leave_out_wasted,
)
from fairtrial.confidence.block_betting.plan_steps import take_steps
from fairtrial.core.arithmetic import copy_into
from fairtrial.core.compilation import kernel, unchecked, uncounted
from fairtrial.subpopulations._kernels.block_losses import Losses
from fairtrial.subpopulations._kernels.block_plans import (
    add_gradient,
    blend_shares,
    close_support,
    cost_to_finish,
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
from fairtrial.subpopulations._kernels.model import divide
from fairtrial.subpopulations._kernels.plans_without_limits import Items


@uncounted(error_model="numpy")
def fill_present(
    programmes: Programmes,
    leader: int,
    pulls: Floats,
    losses: Losses,
    needs: Floats,
    work: Work,
    present: Floats,
) -> float:
    """Fill the information on each needed item, else 0; return the smallest of the needed.

    It is 0 for an item that losses hide: more data of the same kind cannot settle it. Items that
    they waste are left out, too, as long as there are others. 0 is returned if one is hopeless.
    """
    arms = pulls.shape[0]
    is_hopeless = False
    for item in range(needs.size):
        present[item] = 0.0
        if needs[item] < 0.0:
            continue
        may_be_beyond = losses.move_means and item >= arms
        if not (may_be_beyond and programmes.distance[item - arms] > 0.0):
            present[item] = item_value(programmes, item, leader, pulls, work)
        if losses.cost_results:
            issued = item_value(programmes, item, leader, losses.issued, work)
            is_hopeless = is_hopeless or issued >= HOPELESS * present[item]
            if issued >= MOST_WASTED * present[item]:
                present[item] = -present[item]
    weakest = leave_out_wasted(needs, present)
    return 0.0 if is_hopeless else weakest


class _Steps(NamedTuple):
    """What the steps of a plan use: the problem as it is seen, the shares, and work space."""

    leader: int
    costs: Floats
    programmes: Programmes
    items: Items
    work: Work
    per_cost: Floats  # pulls, by cell
    shares: Floats
    values: Floats  # by item
    pulls: Floats
    gradient: Floats


@kernel(error_model="numpy")
def find_shares(
    model: Model,
    costs: Floats,
    leader: int,
    seen: Seen,
    programmes: Programmes,
    items: Items,
    work: Work,
    found: Floats,
) -> float:
    """Find the shares of cost that (nearly) finish the neediest item soonest.

    Return the cost to finish. `costs`: of a result, by cell. `found`: on entry the shares of the
    last plan, from which the search starts.
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
            per_cost[k, group] = 1.0 / costs[k, group]
    plan = _Steps(
        leader,
        costs,
        programmes,
        items,
        work,
        per_cost,
        shares,
        np.empty(items.needs.size),
        np.empty((arms, groups)),
        np.empty((arms, groups)),
    )
    flat, best = shares.reshape(shares.size), found.reshape(found.size)
    progress = np.empty(items.number)
    return take_steps(plan, flat, best, progress, _fill_progress, _add_pull, cost_to_finish)


@unchecked
def _fill_progress(plan: _Steps, progress: Floats) -> None:
    """Fill the progress of every item: its value times its urgency."""
    divide(plan.pulls, plan.shares, plan.costs)
    for i in range(progress.size):
        item = plan.items.live[i]
        plan.values[item] = item_value(plan.programmes, item, plan.leader, plan.pulls, plan.work)
        progress[i] = plan.values[item] * plan.items.urgency[item]


@unchecked
def _add_pull(plan: _Steps, _progress: Floats, i: int, weight: float, pull: Floats) -> None:
    """Add an item's derivatives by the shares."""
    item = plan.items.live[i]
    item_gradient(plan.programmes, item, plan.leader, plan.pulls, plan.work, plan.gradient)
    add_gradient(weight * plan.items.urgency[item], plan.gradient, plan.per_cost, pull)


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
