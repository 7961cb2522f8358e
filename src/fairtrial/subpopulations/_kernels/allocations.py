"""Shares of the pulls: optimal ones in closed form, steps towards them, and projections.

F(w) is the weakest pitfall at the shares w; optimal shares maximise it.
"""

import math

import numpy as np

from fairtrial.core.arithmetic import square
from fairtrial.core.compilation import kernel
from fairtrial.subpopulations._kernels.model import Floats, Model, divide, fill
from fairtrial.subpopulations._kernels.pitfalls import all_pitfalls, margin, pitfall_gradient

NEGLIGIBLE = 1e-12


@kernel
def weakest_gradient(
    model: Model, means: Floats, variances: Floats, shares: Floats, best: int, gradient: Floats
) -> float:
    """Fill the derivatives of F with respect to the shares; return F."""
    arms, groups = means.shape
    lam = np.empty((1, 2, groups))
    values = np.empty(arms + groups)
    precisions = np.empty((arms, groups))
    divide(precisions, shares, variances)
    weakest = all_pitfalls(best, means, precisions, model, lam, values)
    pitfall_gradient(weakest, best, means, precisions, model, lam, gradient)
    divide(gradient, gradient, variances)
    return values[weakest]


@kernel
def fluid_step(
    model: Model,
    means: Floats,
    variances: Floats,
    best: int,
    shares: Floats,
    gradient: Floats,
    gain: float,
) -> float:
    """Move the shares by one step of the fluid recursion; return F before the step."""
    value = weakest_gradient(model, means, variances, shares, best, gradient)
    if value > NEGLIGIBLE:
        for k in range(means.shape[0]):
            for column in range(means.shape[1]):
                shares[k, column] *= 1.0 + gain * (gradient[k, column] / value - 1.0)
    return value


@kernel
def none_allocation(model: Model, means: Floats, variances: Floats, shares: Floats) -> None:
    """Fill the optimal shares if no arm is feasible, in closed form."""
    arms, groups = means.shape
    fill(shares, 0.0)
    scale = 0.0
    for k in range(arms):
        strongest = 0.0
        where = 0
        for column in range(groups):
            outside = min(0.0, margin(means[k, column], model.rival_limits, k, column))
            value = square(outside) / variances[k, column]
            if value > strongest:
                strongest = value
                where = column
        shares[k, where] = 1.0 / max(strongest, NEGLIGIBLE)
        scale += shares[k, where]
    for k in range(arms):
        for column in range(groups):
            shares[k, column] /= scale


@kernel
def gaussian_allocation(quality: Floats, shares: Floats) -> None:
    """Fill the optimal shares of ordinary best-arm identification with equal variances.

    Source: Garivier and Kaufmann (2016), Theorem 5.
    """
    arms = quality.size
    best = np.argmax(quality)
    smallest = math.inf
    for k in range(arms):
        if k != best:
            smallest = min(smallest, 0.5 * square(quality[best] - quality[k]))
    if arms == 1 or smallest <= NEGLIGIBLE:
        for k in range(arms):
            shares[k] = 1.0 / arms
        return
    low, high = 0.0, smallest
    for _ in range(100):
        level = 0.5 * (low + high)
        whole = 0.0
        for k in range(arms):
            if k != best:
                gap = 0.5 * square(quality[best] - quality[k])
                whole += square(level / (gap - level)) if gap > level else math.inf
        if whole > 1.0:
            high = level
        else:
            low = level
    whole = 1.0
    for k in range(arms):
        shares[k] = 1.0
        if k != best:
            gap = 0.5 * square(quality[best] - quality[k])
            shares[k] = low / (gap - low)
            whole += shares[k]
    for k in range(arms):
        shares[k] /= whole


@kernel
def project_on_simplex(shares: Floats) -> None:
    """Replace the array by its Euclidean projection on the simplex."""
    arms, groups = shares.shape
    ordered = np.empty(shares.size)
    for place in range(shares.size):
        at = place
        value = shares[place // groups, place % groups]
        while at > 0 and ordered[at - 1] < value:
            ordered[at] = ordered[at - 1]
            at -= 1
        ordered[at] = value
    whole = 0.0
    offset = 0.0
    for i in range(ordered.size):
        whole += ordered[i]
        if ordered[i] - (whole - 1.0) / (i + 1) > 0.0:
            offset = (whole - 1.0) / (i + 1)
    for k in range(arms):
        for column in range(groups):
            shares[k, column] = max(0.0, shares[k, column] - offset)


@kernel
def raise_to_floor(shares: Floats, floor: float) -> None:
    """Replace the array by its L-infinity projection on shares of at least `floor`."""
    for _ in range(shares.size + 1):
        excess = 0.0
        above = 0
        for k in range(shares.shape[0]):
            for column in range(shares.shape[1]):
                if shares[k, column] <= floor:
                    excess += floor - shares[k, column]
                    shares[k, column] = floor
                else:
                    above += 1
        if excess <= 1e-15 or above == 0:
            return
        for k in range(shares.shape[0]):
            for column in range(shares.shape[1]):
                if shares[k, column] > floor:
                    shares[k, column] -= excess / above
