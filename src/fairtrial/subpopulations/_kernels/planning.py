"""Planning with known means: a good start for the shares, and the cuts that bound F.

F(w), the weakest pitfall, is concave and homogeneous in the shares. The gradient of any
pitfall at any shares is a cut: F(w') <= <gradient, w'> for all shares w'.
"""

import math

import numpy as np

from fairtrial.core.compilation import kernel
from fairtrial.subpopulations._kernels.allocations import weakest_gradient
from fairtrial.subpopulations._kernels.model import Floats, Model
from fairtrial.subpopulations._kernels.pitfalls import all_pitfalls, pitfall_gradient


@kernel
def fluid_start(model: Model, means: Floats, best: int, totals: Floats, steps: int) -> Floats:
    """Return the best shares that the fluid recursion of the balanced rule finds.

    `totals`: what the shares sum to, all together (one entry) or in every group.
    """
    shares = np.ones(means.shape)
    gradient = np.empty(means.shape)
    found = np.empty(means.shape)
    most = -1.0
    for step in range(steps):
        _rescale(shares, totals)
        value = weakest_gradient(model, means, shares, best, gradient)
        if value > most:
            most = value
            found[:, :] = shares
        if value <= 0.0:
            break
        shares *= 1.0 + gradient / (value * (19.0 + step))
    return found


@kernel
def _rescale(shares: Floats, totals: Floats) -> None:
    if totals.size == 1:
        shares *= totals[0] / shares.sum()
    else:
        for group in range(totals.size):
            shares[:, group] *= totals[group] / max(shares[:, group].sum(), 1e-300)


@kernel
def cuts_at(
    model: Model, means: Floats, best: int, shares: Floats, factor: float
) -> tuple[float, Floats]:
    """Return F at the shares, and the gradients of all pitfalls up to `factor` times F."""
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
