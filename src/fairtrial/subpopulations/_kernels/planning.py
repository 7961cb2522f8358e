"""Planning with known means: start shares, and cuts that bound F.

F(w), the weakest pitfall, is concave and homogeneous in the shares. The gradient of any pitfall at
any shares is a cut: F(w') <= <gradient, w'> for all shares w'.
"""

import math

import numpy as np

from fairtrial.core.arithmetic import copy_into, sum_of
from fairtrial.core.compilation import apart, kernel
from fairtrial.subpopulations._kernels.allocations import weakest_gradient
from fairtrial.subpopulations._kernels.block_plans import item_gradient, item_value
from fairtrial.subpopulations._kernels.control_limits import (
    ROLES,
    alternative_at,
    control_means_of,
)
from fairtrial.subpopulations._kernels.model import (
    NO_CONTROL,
    Floats,
    Model,
    divide,
    limits_of_items,
)
from fairtrial.subpopulations._kernels.pitfalls import (
    NONE,
    Alternative,
    all_pitfalls,
    pitfall_gradient,
)


@kernel
def fluid_start(model: Model, means: Floats, best: int, totals: Floats, steps: int) -> Floats:
    """Return the best shares found by the fluid recursion of the balanced rule.

    `totals`: the sums of the shares, of all together (one entry) or of every group.
    """
    shares = np.ones(means.shape)
    gradient = np.empty(means.shape)
    found = np.empty(means.shape)
    most = -1.0
    for step in range(steps):
        rescale(shares, totals)
        if model.control == NO_CONTROL:
            value = weakest_gradient(model, means, model.variances, shares, best, gradient)
        else:
            value = _weakest_item_gradient(model, means, shares, best, gradient)
        if value > most:
            most = value
            copy_into(found, shares)
        if value <= 0.0:
            break
        shares *= 1.0 + gradient / (value * (19.0 + step))
    return found


@kernel
def rescale(shares: Floats, totals: Floats) -> None:
    if totals.size == 1:
        shares *= totals[0] / sum_of(shares)
    else:
        for group in range(totals.size):
            shares[:, group] *= totals[group] / max(sum_of(shares[:, group]), 1e-300)


@kernel
def cuts_at(
    model: Model, means: Floats, best: int, shares: Floats, factor: float
) -> tuple[float, Floats]:
    """Return F at the shares, and the gradients of all pitfalls up to `factor` times F."""
    if model.control != NO_CONTROL:
        return _cuts_of_items(model, means, best, shares, factor)
    arms, groups = means.shape
    lam = np.empty((1, 2, groups))
    precisions = shares / model.variances
    values = np.empty(arms + groups)
    weakest = all_pitfalls(best, means, precisions, model, lam, values)
    least = values[weakest]
    near = np.flatnonzero((values <= factor * least) & (values < math.inf))
    cuts = np.empty((near.size, arms, groups))
    for i in range(near.size):
        pitfall_gradient(near[i], best, means, precisions, model, lam, cuts[i])
        cuts[i] /= model.variances
    return least, cuts


# --------------------------------------------------------------- limits against a control


@apart
def _items_at(
    model: Model, means: Floats, best: int, shares: Floats, lam: Floats, values: Floats
) -> Alternative:
    """Fill the value of every item of a plan; infinite for absent items."""
    arms, groups = means.shape
    leader = arms if best == NONE else best
    limits = limits_of_items(model, leader)
    alternative = alternative_at(model, limits, control_means_of(model, means))
    precisions = np.empty((arms, groups))
    divide(precisions, shares, model.variances)
    for item in range(values.size):
        values[item] = math.inf
        end, group = (item - arms) // groups, (item - arms) % groups
        is_limit = item >= arms and leader < arms
        if is_limit and abs(limits[end, leader, group]) == math.inf:
            continue
        if is_limit or (item < arms and item != leader):
            values[item] = item_value(item, leader, means, precisions, alternative, lam)
    return alternative


@kernel
def _number_of_items(model: Model) -> int:
    """Return the largest number of rivals and limits of one arm."""
    ends, arms, groups = model.limits.shape
    return arms + (ends - 1) * groups + 1


@kernel
def _weakest_item_gradient(
    model: Model, means: Floats, shares: Floats, best: int, gradient: Floats
) -> float:
    """Fill the derivatives of F with respect to the shares; return F."""
    arms, groups = means.shape
    values = np.empty(_number_of_items(model))
    lam = np.empty((values.size, ROLES, groups))
    alternative = _items_at(model, means, best, shares, lam, values)
    weakest = int(np.argmin(values))
    leader = arms if best == NONE else best
    item_gradient(weakest, leader, means, alternative, lam, gradient)
    divide(gradient, gradient, model.variances)
    return float(values[weakest])


@kernel
def _cuts_of_items(
    model: Model, means: Floats, best: int, shares: Floats, factor: float
) -> tuple[float, Floats]:
    """Return F at the shares, and the gradients of all items with values up to `factor` times F."""
    arms, groups = means.shape
    values = np.empty(_number_of_items(model))
    lam = np.empty((values.size, ROLES, groups))
    alternative = _items_at(model, means, best, shares, lam, values)
    least = values.min()
    near = np.flatnonzero((values <= factor * least) & (values < math.inf))
    cuts = np.empty((near.size, arms, groups))
    leader = arms if best == NONE else best
    for i in range(near.size):
        item_gradient(near[i], leader, means, alternative, lam, cuts[i])
        cuts[i] /= model.variances
    return least, cuts
