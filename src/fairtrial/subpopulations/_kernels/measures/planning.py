"""Planning with known means of several measures: start shares, and cuts that bound F."""

import math

import numpy as np

from fairtrial.core.arithmetic import copy_into
from fairtrial.core.compilation import apart, kernel
from fairtrial.subpopulations._kernels.measures.items import (
    Programmes,
    Work,
    fill_programmes,
    item_gradient,
    item_value,
    new_programmes,
    new_work,
)
from fairtrial.subpopulations._kernels.measures.model import (
    Floats,
    Model,
    derive,
    has_limit,
    new_view,
)
from fairtrial.subpopulations._kernels.model import divide
from fairtrial.subpopulations._kernels.planning import rescale


@kernel
def fluid_start(
    model: Model,
    means: Floats,
    covariances: Floats,
    explained: Floats,
    leader: int,
    totals: Floats,
    steps: int,
) -> Floats:
    """Return the best shares found by the fluid recursion of the balanced rule.

    `explained`: the covariances that predictions explain, by group, shape (L, P, P). `leader`: the
    answer, K for "none". `totals`: the sums of the shares, of all together (one entry) or of every
    group.
    """
    programmes, work = _open(model, means, covariances, explained, leader)
    shares = np.ones(model.costs.shape)
    pulls = np.empty(shares.shape)
    gradient = np.empty(shares.shape)
    found = np.empty(shares.shape)
    values = np.empty(work.multipliers.shape[0])
    most = -1.0
    for step in range(steps):
        rescale(shares, totals)
        divide(pulls, shares, model.costs)
        _fill_values(model, programmes, leader, pulls, work, values)
        weakest = int(np.argmin(values))
        value = values[weakest]
        if value > most:
            most = value
            copy_into(found, shares)
        if value <= 0.0:
            break
        item_gradient(programmes, weakest, leader, pulls, work, gradient)
        divide(gradient, gradient, model.costs)
        shares *= 1.0 + gradient / (value * (19.0 + step))
    return found


@kernel
def cuts_at(
    model: Model,
    means: Floats,
    covariances: Floats,
    explained: Floats,
    leader: int,
    shares: Floats,
    factor: float,
) -> tuple[float, Floats]:
    """Return F at the shares, and the gradients of all items with values up to `factor` times F."""
    programmes, work = _open(model, means, covariances, explained, leader)
    pulls = np.empty(shares.shape)
    divide(pulls, shares, model.costs)
    values = np.empty(work.multipliers.shape[0])
    _fill_values(model, programmes, leader, pulls, work, values)
    least = values.min()
    near = np.flatnonzero((values <= factor * least) & (values < math.inf))
    cuts = np.empty((near.size, *shares.shape))
    for i in range(near.size):
        item_gradient(programmes, near[i], leader, pulls, work, cuts[i])
        divide(cuts[i], cuts[i], model.costs)
    return least, cuts


@apart
def _open(
    model: Model, means: Floats, covariances: Floats, explained: Floats, leader: int
) -> tuple[Programmes, Work]:
    """Return the programmes of a leader at these means."""
    seen = new_view(model)
    copy_into(seen.means, means)
    copy_into(seen.lowest, means)
    copy_into(seen.highest, means)
    copy_into(seen.covariances, covariances)
    copy_into(seen.explained, explained)
    derive(model, seen, seen)
    programmes = new_programmes(model)
    fill_programmes(model, seen, leader, seen.short, programmes)
    return programmes, new_work(model)


@apart
def _fill_values(
    model: Model, programmes: Programmes, leader: int, pulls: Floats, work: Work, values: Floats
) -> None:
    """Fill the value of every item; infinite for absent items."""
    arms = pulls.shape[0]
    for item in range(values.size):
        is_there = item != leader
        if item >= arms:
            is_there = leader < arms and has_limit(model, leader, item - arms)
        values[item] = math.inf
        if is_there:
            values[item] = item_value(programmes, item, leader, pulls, work)
