"""The information that shares of the pulls give on an answer with limits."""

import numpy as np

from fairtrial.core.arithmetic import square
from fairtrial.core.compilation import kernel
from fairtrial.linear._kernels.limited_plans import item_value, metric_of_shares
from fairtrial.linear._kernels.limits import Limits
from fairtrial.linear._kernels.matrices import Floats, dot
from fairtrial.linear._kernels.model import Model


@kernel
def cuts_with_limits(
    model: Model,
    limits: Limits,
    tolerance: float,
    answer: int,
    theta: Floats,
    shares: Floats,
    near: float,
) -> tuple[float, Floats, Floats]:
    """Return the information on the hardest item, cuts of the nearly hardest, and directions.

    The entries of a cut are the derivatives of an item's information at the shares. At any other
    shares, the item's information is at most the sum of these entries weighted by those shares. The
    number of candidates stands for the answer "none". The directions are those of the items'
    effects, divided by the effects.
    """
    candidates, rank = model.candidates.shape
    items = candidates + limits.stated.shape[1]
    metric = metric_of_shares(model, shares, theta)
    values = np.full(items, np.inf)
    directions = np.empty((items, rank))
    effects = np.empty(items)
    for item in range(items):
        if not _is_asked(limits, answer, item):
            continue
        values[item], constant = item_value(
            model, limits, tolerance, answer, item, metric, directions[item]
        )
        effects[item] = dot(directions[item], theta) + constant
    hardest = values.min()
    chosen = np.flatnonzero(values <= near * hardest)
    cuts = np.zeros((chosen.size, shares.size, 1))
    aims = np.zeros((chosen.size, rank))
    for place in range(chosen.size):
        item = chosen[place]
        if values[item] <= 0.0:
            continue
        # The Gram matrix's solution for the direction, times the distance over the effect.
        solved = metric.root.T @ (metric.root @ directions[item])
        scale = values[item] / effects[item]
        for i in range(rank):
            aims[place, i] = directions[item, i] / effects[item]
        for k in range(shares.size):
            cuts[place, k, 0] = square(scale * dot(model.arms[k], solved))
    return hardest, cuts, aims


@kernel
def _is_asked(limits: Limits, answer: int, item: int) -> bool:
    """Return whether an answer depends on an item: on any rival, and on its own limits."""
    candidates = limits.excluded.size
    if item < candidates:
        return item != answer and limits.excluded[item] == 0.0
    return answer < candidates and limits.stated[answer, item - candidates] > -np.inf
