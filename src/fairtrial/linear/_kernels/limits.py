"""Candidates that must keep limits: what stands between the estimates and a rival, row by row.

A rival is right if it is at least as good as the target and keeps its own limits. Each of these is
a row: at most zero, and affine in theta. The nearest theta that satisfies all rows is found by a
quadratic programme in one multiplier for each row. The sum of multipliers times rows is an effect
that is at most zero if the rival is right, however inexact the solver.
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

    All arrays are empty if there are none. A bound of minus infinity is no limit. `own` bounds are
    those that an answer must keep, and `rival` bounds those of its rivals: with a tolerance these
    differ.
    """

    rows: Annotated[Floats, "limited limits rank"]
    stated: Annotated[Floats, "limited limits"]
    own: Annotated[Floats, "limited limits"]
    rival: Annotated[Floats, "limited limits"]
    excluded: Annotated[Floats, "limited"]  # 1 if no theta lets the candidate keep its limits


class Metric(NamedTuple):
    """Distances from an estimate, as pulls measure them.

    `root` takes a direction to one whose squared length is its variance: a matrix R with R'R the
    (pseudo-)inverse of the Gram matrix. `seen` of its dimensions are measured.
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
    """Return whether a candidate keeps all its limits at some theta."""
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
    """Fill the rows that rival k has to satisfy, and their constants; return how many there are.

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

    `short`: the rows at the estimate, or what a plan takes them for. Fills the `direction` of the
    effect, whose largest entry is one in size; zeros if all rows are satisfied. Rows that the
    metric does not measure are left out: they are satisfied at no price.
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

    Fills the `direction` of the effect that separates the estimate from there; also returns its
    constant.
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
    """Return the squared distance of the estimate to where candidate k keeps its limits."""
    if limits.excluded[k]:
        return math.inf
    none = model.candidates.shape[0]
    direction = np.empty(metric.theta.size)
    value, _ = rival_value(model, limits, limits.stated, 0.0, none, k, metric, direction)
    return value
