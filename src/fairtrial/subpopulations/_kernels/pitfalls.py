"""Pitfalls: the ways in which the current answer could still be wrong, and what each weighs.

Source: Wu, Zheng, Zhu, "Best Arm Identification with Fairness Constraints on
Subpopulations", eq. (6) to (8), with the q-weighted quality throughout.
"""

import math

import numba as nb
import numpy as np

from fairtrial.subpopulations._kernels.model import Floats, fill

NONE = -1
"""The answer "no arm is feasible"."""


@nb.njit(cache=True, nogil=True)
def empirical_best(means: Floats, weights: Floats, floors: Floats) -> int:
    """Return the feasible arm of the largest quality, or `NONE`; ties to the lowest index."""
    best = NONE
    best_quality = -math.inf
    for k in range(means.shape[0]):
        quality = 0.0
        feasible = True
        for cell in range(means.shape[1]):
            quality += weights[cell] * means[k, cell]
            if means[k, cell] < floors[k, cell]:
                feasible = False
                break
        if feasible and quality > best_quality:
            best = k
            best_quality = quality
    return best


@nb.njit(cache=True, nogil=True, error_model="numpy")
def pair_value(
    b: int,
    k: int,
    means: Floats,
    precisions: Floats,
    row_b: int,
    row_k: int,
    weights: Floats,
    floors: Floats,
    slack: float,
    lam: Floats,
    slot: int,
) -> tuple[float, float]:
    """Return the weighted distance to "k is feasible and better than b", and its multiplier.

    Precisions are those of rows `row_b` and `row_k`. Fills ``lam[slot]`` with the nearest
    such means of b and k. Exact: Newton on a concave piecewise linear gap, at most one
    step a piece. Rows go by index: a slice would cost more than the arithmetic.
    """
    gap = slack
    value = 0.0
    free = 0.0
    for cell in range(weights.size):
        raised = max(means[k, cell], floors[k, cell])
        lam[slot, 0, cell] = means[b, cell]
        lam[slot, 1, cell] = raised
        gap += weights[cell] * (means[b, cell] - raised)
        value += precisions[row_k, cell] * (raised - means[k, cell]) ** 2
        if weights[cell] > 0.0:
            if precisions[row_b, cell] == 0.0:
                free += weights[cell] ** 2
            if precisions[row_k, cell] == 0.0:
                free += weights[cell] ** 2
    if gap <= 0.0:
        return value, 0.0
    if free > 0.0:
        for cell in range(weights.size):
            if precisions[row_b, cell] == 0.0:
                lam[slot, 0, cell] -= gap / free * weights[cell]
            if precisions[row_k, cell] == 0.0:
                lam[slot, 1, cell] += gap / free * weights[cell]
        return value, 0.0
    return _close_gap(gap, b, k, means, precisions, row_b, row_k, weights, floors, slack, lam, slot)


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _close_gap(
    gap: float,
    b: int,
    k: int,
    means: Floats,
    precisions: Floats,
    row_b: int,
    row_k: int,
    weights: Floats,
    floors: Floats,
    slack: float,
    lam: Floats,
    slot: int,
) -> tuple[float, float]:
    """Return value and multiplier where the gap closes; until then `lam` holds the speeds."""
    tolerance = -1e-15 * (1.0 + gap)
    slope_b = 0.0
    for cell in range(weights.size):
        if weights[cell] > 0.0:
            lam[slot, 0, cell] = weights[cell] / precisions[row_b, cell]
            lam[slot, 1, cell] = weights[cell] / precisions[row_k, cell]
            slope_b += weights[cell] * lam[slot, 0, cell]
    multiplier = 0.0
    for _ in range(weights.size + 3):
        slope = slope_b
        for cell in range(weights.size):
            if weights[cell] > 0.0:
                moved = means[k, cell] + multiplier * lam[slot, 1, cell]
                if moved >= floors[k, cell]:
                    slope += weights[cell] * lam[slot, 1, cell]
        multiplier += gap / slope
        gap = slack
        for cell in range(weights.size):
            if weights[cell] > 0.0:
                low = means[b, cell] - multiplier * lam[slot, 0, cell]
                moved = means[k, cell] + multiplier * lam[slot, 1, cell]
                gap += weights[cell] * (low - max(floors[k, cell], moved))
        if gap >= tolerance:
            break
    value = multiplier**2 * slope_b
    for cell in range(weights.size):
        if weights[cell] > 0.0:
            moved = means[k, cell] + multiplier * lam[slot, 1, cell]
            lam[slot, 0, cell] = means[b, cell] - multiplier * lam[slot, 0, cell]
            lam[slot, 1, cell] = max(floors[k, cell], moved)
        value += precisions[row_k, cell] * (lam[slot, 1, cell] - means[k, cell]) ** 2
    return value, multiplier


@nb.njit(cache=True, nogil=True)
def none_value(k: int, means: Floats, precisions: Floats, floors: Floats) -> float:
    """Return the weighted distance of arm k to its floors, from below."""
    value = 0.0
    for cell in range(means.shape[1]):
        if means[k, cell] < floors[k, cell]:
            value += precisions[k, cell] * (floors[k, cell] - means[k, cell]) ** 2
    return value


@nb.njit(cache=True, nogil=True)
def pitfall_value(
    index: int,
    best: int,
    means: Floats,
    precisions: Floats,
    weights: Floats,
    lowered: Floats,
    raised: Floats,
    slack: float,
    lam: Floats,
) -> float:
    """Return the value of one pitfall of the answer `best`; infinite where there is none.

    Pitfalls 0 .. K-1: arm k should be the answer. Pitfalls K .. K+L-1: `best` fails its
    floor in that cell. `lowered` are the floors that the answer is held to, `raised` those
    that its rivals are (equal unless there is slack). `lam` is scratch of shape (1, 2, L).
    """
    arms = means.shape[0]
    if index >= arms:
        cell = index - arms
        if best == NONE or lowered[best, cell] == -math.inf:
            return math.inf
        return precisions[best, cell] * (means[best, cell] - lowered[best, cell]) ** 2
    if index == best:
        return math.inf
    if best == NONE:
        return none_value(index, means, precisions, raised)
    value, _ = pair_value(
        best, index, means, precisions, best, index, weights, raised, slack, lam, 0
    )
    return value


@nb.njit(cache=True, nogil=True)
def pitfall_gradient(
    index: int,
    best: int,
    means: Floats,
    precisions: Floats,
    weights: Floats,
    lowered: Floats,
    raised: Floats,
    slack: float,
    lam: Floats,
    gradient: Floats,
) -> float:
    """Fill the derivatives of one pitfall's value by the precisions; return the value."""
    arms, cells = means.shape
    fill(gradient, 0.0)
    value = pitfall_value(index, best, means, precisions, weights, lowered, raised, slack, lam)
    if index >= arms:
        cell = index - arms
        gradient[best, cell] = (means[best, cell] - lowered[best, cell]) ** 2
    elif best == NONE:
        for cell in range(cells):
            short = raised[index, cell] - means[index, cell]
            gradient[index, cell] = max(0.0, short) ** 2
    else:
        for cell in range(cells):
            gradient[best, cell] = (means[best, cell] - lam[0, 0, cell]) ** 2
            gradient[index, cell] = (means[index, cell] - lam[0, 1, cell]) ** 2
    return value


@nb.njit(cache=True, nogil=True)
def all_pitfalls(
    best: int,
    means: Floats,
    precisions: Floats,
    weights: Floats,
    lowered: Floats,
    raised: Floats,
    slack: float,
    lam: Floats,
    values: Floats,
) -> int:
    """Fill the values of all K + L pitfalls; return the index of the weakest."""
    weakest = 0
    for index in range(values.size):
        values[index] = pitfall_value(
            index, best, means, precisions, weights, lowered, raised, slack, lam
        )
        if values[index] < values[weakest]:
            weakest = index
    return weakest


@nb.njit(cache=True, nogil=True)
def weakest_pitfall(
    means: Floats,
    precisions: Floats,
    weights: Floats,
    floors: Floats,
    lowered: Floats,
    raised: Floats,
    slack: float,
) -> tuple[int, int, float, Floats]:
    """Return answer, weakest pitfall, its value and its gradient, from nothing but the means."""
    arms, cells = means.shape
    lam = np.empty((1, 2, cells))
    values = np.empty(arms + cells)
    gradient = np.zeros((arms, cells))
    best = empirical_best(means, weights, floors)
    index = all_pitfalls(best, means, precisions, weights, lowered, raised, slack, lam, values)
    value = pitfall_gradient(
        index, best, means, precisions, weights, lowered, raised, slack, lam, gradient
    )
    return best, index, value, gradient
