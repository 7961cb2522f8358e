"""Pitfalls: the ways in which the current answer could be wrong, and their values.

Source: Wu, Zheng, Zhu, "Best Arm Identification with Fairness Constraints on Subpopulations", eq.
(6) to (8), with the q-weighted quality throughout.
"""

import math
from typing import NamedTuple

from fairtrial.core.arithmetic import square
from fairtrial.core.compilation import kernel, unchecked, uncounted
from fairtrial.subpopulations._kernels.model import (
    CEILING,
    FLOOR,
    NO_CONTROL,
    Floats,
    Limits,
    Model,
    fill,
)

NONE = -1
"""The answer "no arm is feasible"."""

_ROUNDING = 1e-15
"""A gap this small, relative to the means that it is made of, is closed."""


class Alternative(NamedTuple):
    """The conditions under which a rival is the right answer.

    It keeps the limits, and its quality by the `weights` exceeds the leader's by `tolerance`.
    `control_means`: those of the control, if limits refer to one.
    """

    weights: Floats
    limits: Limits
    tolerance: float
    control: int
    control_means: Floats


@kernel(inline="always")
def alternative_of(model: Model) -> Alternative:
    """Return the conditions under which a rival is right, in a problem without a control."""
    return Alternative(
        model.weights, model.rival_limits, model.tolerance, NO_CONTROL, model.weights
    )


@unchecked
def nearest_allowed(mean: float, limits: Limits, k: int, cell: int) -> float:
    """Return the value between a cell's floor and ceiling that is nearest to a mean."""
    return min(max(mean, limits[FLOOR, k, cell]), limits[CEILING, k, cell])


@uncounted
def is_limited(limits: Limits, k: int, cell: int) -> bool:
    """Return whether a cell has a floor or a ceiling."""
    return limits[FLOOR, k, cell] > -math.inf or limits[CEILING, k, cell] < math.inf


@uncounted
def margin(mean: float, limits: Limits, k: int, cell: int) -> float:
    """Return the distance from a mean to the nearer limit of its cell; infinite if it has none."""
    return min(mean - limits[FLOOR, k, cell], limits[CEILING, k, cell] - mean)


@uncounted
def empirical_best(means: Floats, weights: Floats, limits: Limits) -> int:
    """Return the feasible arm with the largest quality, or `NONE`; ties go to the lowest index."""
    best = NONE
    best_quality = -math.inf
    for k in range(means.shape[0]):
        quality = 0.0
        feasible = True
        for cell in range(means.shape[1]):
            quality += weights[cell] * means[k, cell]
            if margin(means[k, cell], limits, k, cell) < 0.0:
                feasible = False
                break
        if feasible and quality > best_quality:
            best = k
            best_quality = quality
    return best


@unchecked
def pair_value(
    b: int,
    k: int,
    means: Floats,
    precisions: Floats,
    alternative: Alternative,
    lam: Floats,
    slot: int,
) -> tuple[float, float]:
    """Return the weighted distance to "k is feasible and better than b", and its multiplier.

    Fill ``lam[slot]`` with the nearest such means of b and k. The result is exact: the gap between
    them is piecewise linear, and is followed from piece to piece. Rows are accessed by index,
    because a slice would cost more than the arithmetic.
    """
    weights, limits = alternative.weights, alternative.limits
    gap = alternative.tolerance
    value = 0.0
    free = 0.0
    room = 0.0
    for cell in range(weights.size):
        allowed = nearest_allowed(means[k, cell], limits, k, cell)
        lam[slot, 0, cell] = means[b, cell]
        lam[slot, 1, cell] = allowed
        gap += weights[cell] * (means[b, cell] - allowed)
        value += precisions[k, cell] * square(allowed - means[k, cell])
        ceiling = limits[CEILING, k, cell]
        if weights[cell] > 0.0:
            if precisions[b, cell] == 0.0:
                free += square(weights[cell])
            if precisions[k, cell] == 0.0:
                if ceiling == math.inf:
                    free += square(weights[cell])
                else:
                    room += weights[cell] * (ceiling - allowed)
    if gap <= 0.0:
        return value, 0.0
    if free > 0.0:
        for cell in range(weights.size):
            if precisions[b, cell] == 0.0:
                lam[slot, 0, cell] -= gap / free * weights[cell]
            if precisions[k, cell] == 0.0 and limits[CEILING, k, cell] == math.inf:
                lam[slot, 1, cell] += gap / free * weights[cell]
        return value, 0.0
    if room > 0.0:
        part = min(1.0, gap / room)
        for cell in range(weights.size):
            if weights[cell] > 0.0 and precisions[k, cell] == 0.0:
                lam[slot, 1, cell] += part * (limits[CEILING, k, cell] - lam[slot, 1, cell])
        if gap <= room:
            return value, 0.0
        gap -= room
    return _close_gap(gap, b, k, means, precisions, alternative, lam, slot)


@unchecked
def _close_gap(
    gap: float,
    b: int,
    k: int,
    means: Floats,
    precisions: Floats,
    alternative: Alternative,
    lam: Floats,
    slot: int,
) -> tuple[float, float]:
    """Return value and multiplier where the gap closes; on entry, `lam` holds the speeds."""
    weights, limits = alternative.weights, alternative.limits
    slope_b = 0.0
    lowest_ceiling = math.inf
    for cell in range(weights.size):
        if weights[cell] > 0.0:
            lowest_ceiling = min(lowest_ceiling, limits[CEILING, k, cell])
            lam[slot, 0, cell] = weights[cell] / precisions[b, cell]
            lam[slot, 1, cell] = weights[cell] / precisions[k, cell]
            slope_b += weights[cell] * lam[slot, 0, cell]
    if lowest_ceiling < math.inf:
        multiplier = _walk(b, k, means, alternative, lam, slot, slope_b)
    else:
        multiplier = _newton(gap, b, k, means, alternative, lam, slot, slope_b)
    value = square(multiplier) * slope_b
    for cell in range(weights.size):
        if weights[cell] > 0.0:
            moved = means[k, cell] + multiplier * lam[slot, 1, cell]
            lam[slot, 0, cell] = means[b, cell] - multiplier * lam[slot, 0, cell]
            lam[slot, 1, cell] = nearest_allowed(moved, limits, k, cell)
        value += precisions[k, cell] * square(lam[slot, 1, cell] - means[k, cell])
    return value, multiplier


@unchecked
def _newton(
    gap: float,
    b: int,
    k: int,
    means: Floats,
    alternative: Alternative,
    speeds: Floats,
    slot: int,
    slope_b: float,
) -> float:
    """Return where a gap with only floors closes; concave, at most one step per piece."""
    weights, limits = alternative.weights, alternative.limits
    multiplier = 0.0
    for _ in range(weights.size + 3):
        slope = slope_b
        for cell in range(weights.size):
            if weights[cell] > 0.0:
                moved = means[k, cell] + multiplier * speeds[slot, 1, cell]
                if moved >= limits[FLOOR, k, cell]:
                    slope += weights[cell] * speeds[slot, 1, cell]
        multiplier += gap / slope
        gap = alternative.tolerance
        size = gap
        for cell in range(weights.size):
            if weights[cell] > 0.0:
                low = means[b, cell] - multiplier * speeds[slot, 0, cell]
                moved = means[k, cell] + multiplier * speeds[slot, 1, cell]
                high = max(limits[FLOOR, k, cell], moved)
                gap += weights[cell] * (low - high)
                size += weights[cell] * (abs(low) + abs(high))
        if gap >= -_ROUNDING * size:
            break
    return multiplier


@uncounted(error_model="numpy")
def _walk(
    b: int,
    k: int,
    means: Floats,
    alternative: Alternative,
    speeds: Floats,
    slot: int,
    slope_b: float,
) -> float:
    """Return where a gap with floors and ceilings closes, going from bend to bend in order."""
    weights, limits = alternative.weights, alternative.limits
    multiplier = 0.0
    for _ in range(2 * weights.size + 1):
        gap = alternative.tolerance
        slope = slope_b
        bend = math.inf
        for cell in range(weights.size):
            if weights[cell] == 0.0:
                continue
            low = means[b, cell] - multiplier * speeds[slot, 0, cell]
            speed = speeds[slot, 1, cell]
            leaves = (limits[FLOOR, k, cell] - means[k, cell]) / speed
            arrives = (limits[CEILING, k, cell] - means[k, cell]) / speed
            if speed == math.inf or multiplier >= arrives:
                place = limits[CEILING, k, cell]
            elif multiplier < leaves:
                place = limits[FLOOR, k, cell]
                bend = min(bend, leaves)
            else:
                place = means[k, cell] + multiplier * speed
                slope += weights[cell] * speed
                bend = min(bend, arrives)
            gap += weights[cell] * (low - place)
        closes = multiplier + gap / slope
        if closes <= bend:
            return closes
        multiplier = bend
    return multiplier


@uncounted
def none_value(k: int, means: Floats, precisions: Floats, limits: Limits) -> float:
    """Return the weighted distance from arm k to where it keeps its limits."""
    value = 0.0
    for cell in range(means.shape[1]):
        outside = margin(means[k, cell], limits, k, cell)
        if outside < 0.0:
            value += precisions[k, cell] * square(outside)
    return value


@kernel(forceinline=True)
def pitfall_value(
    index: int, best: int, means: Floats, precisions: Floats, model: Model, lam: Floats
) -> float:
    """Return the value of one pitfall of the answer `best`; infinite if it does not exist.

    Pitfalls 0 .. K-1: arm k should be the answer. Pitfalls K .. K+L-1: `best` fails its nearer
    limit in that cell. `lam` is work space of shape (1, 2, L).
    """
    arms = means.shape[0]
    if index >= arms:
        cell = index - arms
        if best == NONE or not is_limited(model.own_limits, best, cell):
            return math.inf
        return precisions[best, cell] * square(
            margin(means[best, cell], model.own_limits, best, cell)
        )
    if index == best:
        return math.inf
    if best == NONE:
        return none_value(index, means, precisions, model.rival_limits)
    value, _ = pair_value(best, index, means, precisions, alternative_of(model), lam, 0)
    return value


@kernel
def pitfall_gradient(
    index: int,
    best: int,
    means: Floats,
    precisions: Floats,
    model: Model,
    lam: Floats,
    gradient: Floats,
) -> float:
    """Fill the derivatives of one pitfall's value by the precisions; return the value."""
    arms, cells = means.shape
    fill(gradient, 0.0)
    value = pitfall_value(index, best, means, precisions, model, lam)
    if index >= arms:
        cell = index - arms
        gradient[best, cell] = square(margin(means[best, cell], model.own_limits, best, cell))
    elif best == NONE:
        for cell in range(cells):
            outside = margin(means[index, cell], model.rival_limits, index, cell)
            gradient[index, cell] = square(min(0.0, outside))
    else:
        for cell in range(cells):
            gradient[best, cell] = square(means[best, cell] - lam[0, 0, cell])
            gradient[index, cell] = square(means[index, cell] - lam[0, 1, cell])
    return value


@kernel
def all_pitfalls(
    best: int, means: Floats, precisions: Floats, model: Model, lam: Floats, values: Floats
) -> int:
    """Fill the values of all K + L pitfalls; return the index of the weakest."""
    weakest = 0
    for index in range(values.size):
        values[index] = pitfall_value(index, best, means, precisions, model, lam)
        if values[index] < values[weakest]:
            weakest = index
    return weakest
