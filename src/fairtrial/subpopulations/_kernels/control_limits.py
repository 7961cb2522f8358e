"""Conditions under which a rival would be right, for limits relative to a control.

A rival is right if it is at least as good as the target, keeps its own limits, and is not too far
below the control. Each of these conditions is a row: a linear function of the means of at most
three arms (target, rival and control) that must be at most zero. The nearest means that satisfy all
rows are the solution of a quadratic programme with one multiplier per row.
"""

import math

import numpy as np

from fairtrial.confidence.row_kernels import solve_rows
from fairtrial.core.arithmetic import square
from fairtrial.core.compilation import counted, kernel, uncounted
from fairtrial.subpopulations._kernels.model import (
    CEILING,
    FLOOR,
    GROUP_DIFFERENCE,
    NO_CONTROL,
    OVERALL_DIFFERENCE,
    Floats,
    Limits,
    Model,
)
from fairtrial.subpopulations._kernels.pitfalls import Alternative, none_value

TARGET, RIVAL, CONTROL = 0, 1, 2
"""The role of an arm in a comparison. A control that is also the target counts as the target."""

ROLES = 3


@kernel
def control_means_of(model: Model, means: Floats) -> Floats:
    """Return a copy of the control's means; zeros if no limit refers to a control."""
    found = np.empty(model.weights.size)
    fill_control_means(model, means, found)
    return found


@uncounted
def fill_control_means(model: Model, means: Floats, found: Floats) -> None:
    """Fill the control's means; zeros if no limit refers to a control."""
    for group in range(found.size):
        found[group] = means[model.control, group] if model.control != NO_CONTROL else 0.0


@kernel(inline="always")
def alternative_at(model: Model, limits: Limits, control_means: Floats) -> Alternative:
    """Return the conditions under which a rival is right, for these limits and control means."""
    return Alternative(model.weights, limits, model.tolerance, model.control, control_means)


@uncounted
def shortfall(k: int, means: Floats, precisions: Floats, alternative: Alternative) -> float:
    """Return the weighted distance from arm k to where it keeps its limits."""
    if alternative.control == NO_CONTROL:
        return none_value(k, means, precisions, alternative.limits)
    return _shortfall_beside_control(k, means, precisions, alternative)


@counted
def _shortfall_beside_control(
    k: int, means: Floats, precisions: Floats, alternative: Alternative
) -> float:
    lam = np.empty((1, ROLES, alternative.weights.size))
    coefficients = np.empty((ROLES, alternative.weights.size))
    arms = means.shape[0]
    value, _ = rival_value(arms, k, means, precisions, alternative, lam, 0, coefficients)
    return value


@uncounted
def difference_weight(end: int, group: int, i: int, weights: Floats) -> float:
    """Return the weight of group i in a difference from the control."""
    if end == OVERALL_DIFFERENCE:
        return weights[i]
    return 1.0 if i == group else 0.0


@uncounted
def above_control(
    k: int, end: int, group: int, means: Floats, control_means: Floats, weights: Floats
) -> float:
    """Return how much arm k exceeds the control, in a group or overall."""
    found = 0.0
    for i in range(weights.size):
        found += difference_weight(end, group, i, weights) * (means[k, i] - control_means[i])
    return found


@uncounted
def is_short_of_control(k: int, means: Floats, alternative: Alternative) -> bool:
    """Return whether arm k breaks a limit against the control."""
    limits = alternative.limits
    for end in range(GROUP_DIFFERENCE, limits.shape[0]):
        for group in range(limits.shape[2]):
            if limits[end, k, group] > -math.inf:
                above = above_control(
                    k, end, group, means, alternative.control_means, alternative.weights
                )
                if above < limits[end, k, group]:
                    return True
    return False


# ------------------------------------------------------------------- limits of the leader


@uncounted(error_model="numpy")
def difference_value(
    leader: int,
    end: int,
    group: int,
    means: Floats,
    precisions: Floats,
    alternative: Alternative,
    lam: Floats,
    slot: int,
) -> float:
    """Return the weighted distance to "the leader is exactly on a limit against the control".

    Fill ``lam[slot]`` with the nearest such means of leader and control.
    """
    weights, control = alternative.weights, alternative.control
    limit = alternative.limits[end, leader, group]
    distance = above_control(leader, end, group, means, means[control], weights) - limit
    variance = 0.0
    for i in range(weights.size):
        lam[slot, TARGET, i], lam[slot, CONTROL, i] = means[leader, i], means[control, i]
        weight = difference_weight(end, group, i, weights)
        if weight > 0.0:
            variance += square(weight) * (
                1.0 / precisions[leader, i] + 1.0 / precisions[control, i]
            )
    if variance == math.inf:
        return 0.0
    for i in range(weights.size):
        weight = difference_weight(end, group, i, weights)
        if weight > 0.0:
            step = distance / variance * weight
            lam[slot, TARGET, i] -= step / precisions[leader, i]
            lam[slot, CONTROL, i] += step / precisions[control, i]
    return square(distance) / variance


# ------------------------------------------------------------------------- a rival's rows


@kernel(error_model="numpy")
def rival_value(
    b: int,
    k: int,
    means: Floats,
    precisions: Floats,
    alternative: Alternative,
    lam: Floats,
    slot: int,
    coefficients: Floats,
) -> tuple[float, float]:
    """Return the weighted distance to "k keeps its limits, and is at least as good as b".

    If b is the number of arms, there is no target and only the limits count. Fill ``lam[slot]``
    with the nearest such means by role, and `coefficients` with those of the effect that separates
    these means from the current ones; also return the effect's constant. The effect is at most zero
    if all rows are satisfied, even if the solver is inexact.
    """
    groups = alternative.weights.size
    most = 2 + OVERALL_DIFFERENCE * groups
    rows = np.zeros((most, ROLES * groups))
    bounds = np.empty(most)
    spreads = np.empty(ROLES * groups)
    present = np.empty(ROLES * groups)
    _fill_roles(b, k, means, precisions, alternative, present, spreads)
    number = _fill_rows(b, k, means.shape[0], alternative, spreads, rows, bounds)
    multipliers = np.zeros(number)
    short = np.empty(number)
    for row in range(number):
        short[row] = bounds[row]
        for part in range(present.size):
            short[row] += rows[row, part] * present[part]
    value = solve_rows(rows[:number], short, spreads, multipliers)
    constant = 0.0
    for part in range(present.size):
        role, group = part // groups, part % groups
        total = 0.0
        for row in range(number):
            total += multipliers[row] * rows[row, part]
        coefficients[role, group] = total
        lam[slot, role, group] = present[part] - (total * spreads[part] if total != 0.0 else 0.0)
    for row in range(number):
        constant += multipliers[row] * bounds[row]
    return value, constant


@uncounted(error_model="numpy")
def _fill_roles(
    b: int,
    k: int,
    means: Floats,
    precisions: Floats,
    alternative: Alternative,
    present: Floats,
    spreads: Floats,
) -> None:
    """Fill the means and reciprocal precisions of the arms by role; zeros for an unused role."""
    groups = alternative.weights.size
    for group in range(groups):
        for role in range(ROLES):
            present[role * groups + group] = spreads[role * groups + group] = 0.0
        if b < means.shape[0]:
            present[TARGET * groups + group] = means[b, group]
            spreads[TARGET * groups + group] = 1.0 / precisions[b, group]
        present[RIVAL * groups + group] = means[k, group]
        spreads[RIVAL * groups + group] = 1.0 / precisions[k, group]
        present[CONTROL * groups + group] = alternative.control_means[group]
        spreads[CONTROL * groups + group] = 1.0 / precisions[alternative.control, group]


@kernel
def _fill_rows(
    b: int,
    k: int,
    arms: int,
    alternative: Alternative,
    spreads: Floats,
    rows: Floats,
    bounds: Floats,
) -> int:
    """Fill the rows that k has to satisfy and their constants; return their number.

    Rows that use a cell without pulls are left out, because such a cell satisfies them at no cost.
    """
    weights, limits = alternative.weights, alternative.limits
    groups = weights.size
    number = 0
    if b < arms:
        for i in range(groups):
            rows[0, TARGET * groups + i] = weights[i]
            rows[0, RIVAL * groups + i] = -weights[i]
        bounds[0] = alternative.tolerance
        number = _keep_row(rows, spreads, 0)
    reference = TARGET if alternative.control == b else CONTROL
    for end in range(limits.shape[0]):
        for group in range(groups):
            if abs(limits[end, k, group]) == math.inf:
                continue
            sign = 1.0 if end == CEILING else -1.0
            bounds[number] = -sign * limits[end, k, group]
            for i in range(groups):
                weight = difference_weight(end, group, i, weights)
                rows[number, RIVAL * groups + i] = sign * weight
                if end != FLOOR and end != CEILING:
                    rows[number, reference * groups + i] = weight
            number = _keep_row(rows, spreads, number)
    return number


@uncounted
def _keep_row(rows: Floats, spreads: Floats, row: int) -> int:
    """Return the number of rows including this one, which is cleared if it cannot be kept."""
    for part in range(spreads.size):
        if rows[row, part] != 0.0 and spreads[part] == math.inf:
            for other in range(spreads.size):
                rows[row, other] = 0.0
            return row
    return row + 1
