"""Candidates with limits: rows of conditions under which a rival would be right.

A rival is right if it is at least as good as the target and keeps its own limits. Each of these
conditions is a row: an affine function of theta that must be at most zero. The nearest theta that
satisfies all rows is the solution of a quadratic programme with one multiplier per row. The sum of
the rows, weighted by the multipliers, is an effect that is at most zero if the rival is right, even
if the solver is inexact.
"""

import math
from typing import Annotated, NamedTuple

import numpy as np

from fairtrial.confidence.row_kernels import solve_rows
from fairtrial.core.compilation import kernel
from fairtrial.linear._kernels.matrices import Floats, dot, is_seen, multiply
from fairtrial.linear._kernels.model import Model, difference


class Limits(NamedTuple):
    """The limits of the distinct candidates: ``rows[k, r] @ theta >= stated[k, r]``.

    All arrays are empty if there are no limits. A bound of minus infinity means no limit. An answer
    must keep its `own` bounds; its rivals must keep the `rival` bounds. The two differ only if
    there is a tolerance.
    """

    rows: Annotated[Floats, "limited limits rank"]
    stated: Annotated[Floats, "limited limits"]
    own: Annotated[Floats, "limited limits"]
    rival: Annotated[Floats, "limited limits"]
    excluded: Annotated[Floats, "limited"]  # 1 if no theta lets the candidate keep its limits


class Metric(NamedTuple):
    """Distances from an estimate, in the metric of the pulls.

    `root` maps a direction to a vector whose squared length is the direction's variance: it is a
    matrix R such that R'R is the (pseudo-)inverse of the Gram matrix. `seen`: number of measured
    dimensions.
    """

    theta: Floats
    root: Floats
    null_space: Floats
    seen: int


@kernel
def length_of(metric: Metric, direction: Floats) -> float:
    """Return the variance of the estimate of a direction; infinite if it is not measured."""
    if not is_seen(metric.null_space, metric.seen, direction):
        return math.inf
    work = np.empty(direction.size)
    multiply(metric.root, direction, work)
    return dot(work, work)


@kernel
def keeps_limits(limits: Limits, k: int, theta: Floats) -> bool:
    """Return whether a candidate keeps all its limits at theta."""
    if limits.excluded[k]:
        return False
    for r in range(limits.rows.shape[1]):
        if dot(limits.rows[k, r], theta) < limits.stated[k, r]:
            return False
    return True


@kernel
def fill_rival_rows(
    model: Model,
    limits: Limits,
    bounds: Floats,
    tolerance: float,
    target: int,
    k: int,
    rows: Floats,
    constants: Floats,
) -> int:
    """Fill the rows that rival k has to satisfy and their constants; return their number.

    If the target is the number of candidates, "none", only the rival's limits count.
    """
    number = 0
    if target < model.candidates.shape[0]:
        difference(model, target, k, rows[0])
        constants[0] = tolerance
        number = 1
    for r in range(bounds.shape[1]):
        if bounds[k, r] > -math.inf:
            for i in range(rows.shape[1]):
                rows[number, i] = -limits.rows[k, r, i]
            constants[number] = bounds[k, r]
            number += 1
    return number


@kernel
def combine_rows(
    metric: Metric, rows: Floats, constants: Floats, short: Floats, direction: Floats
) -> tuple[float, float]:
    """Return the squared distance to where all rows are at most zero, and the effect's constant.

    `short`: the rows at the estimate, or the values that a plan assumes. Fill the `direction` of
    the effect, scaled to a largest entry of 1 in size; it is zero if all rows are satisfied. Rows
    that the metric does not measure are left out, because they can be satisfied at no cost.
    """
    number, rank = rows.shape
    whitened = np.empty((number, rank))
    kept = np.empty(number, dtype=np.int64)
    left = np.empty(number)
    size = 0
    for row in range(number):
        if is_seen(metric.null_space, metric.seen, rows[row]):
            multiply(metric.root, rows[row], whitened[size])
            left[size] = short[row]
            kept[size] = row
            size += 1
    multipliers = np.zeros(size)
    value = solve_rows(whitened[:size], left[:size], np.ones(rank), multipliers)
    largest = 0.0
    for i in range(size):
        largest = max(largest, multipliers[i])
    constant = 0.0
    for j in range(rank):
        direction[j] = 0.0
    if largest <= 0.0 or not largest < math.inf:
        return value, constant
    for i in range(size):
        share = multipliers[i] / largest
        if share > 0.0:
            constant += share * constants[kept[i]]
            for j in range(rank):
                direction[j] += share * rows[kept[i], j]
    return value, constant


@kernel
def rival_value(
    model: Model,
    limits: Limits,
    bounds: Floats,
    tolerance: float,
    target: int,
    k: int,
    metric: Metric,
    direction: Floats,
) -> tuple[float, float]:
    """Return the squared distance to "k keeps its limits, and is at least as good as the target".

    Fill the `direction` of the effect that separates the estimate from that set; also return the
    effect's constant.
    """
    most = 1 + bounds.shape[1]
    rows = np.empty((most, metric.theta.size))
    constants = np.empty(most)
    number = fill_rival_rows(model, limits, bounds, tolerance, target, k, rows, constants)
    short = np.empty(number)
    for row in range(number):
        short[row] = dot(rows[row], metric.theta) + constants[row]
    return combine_rows(metric, rows[:number], constants[:number], short, direction)


@kernel
def shortfall(model: Model, limits: Limits, k: int, metric: Metric) -> float:
    """Return the squared distance from the estimate to where candidate k keeps its limits."""
    if limits.excluded[k]:
        return math.inf
    none = model.candidates.shape[0]
    direction = np.empty(metric.theta.size)
    value, _ = rival_value(model, limits, limits.stated, 0.0, none, k, metric, direction)
    return value
