"""Sampling rules that choose one draw at a time, over a shared state of planes.

Documentation: docs/explanation/sampling.md. Rules: the information-balanced rule (after
You, Qin, Wang, Yang 2023), the paper's T-a-SCS, exact tracking, plain Track-and-Stop
(Garivier and Kaufmann 2016), uniform and round robin.
"""

import math

import numba as nb
import numpy as np

from fairtrial.core._philox import philox_uniform
from fairtrial.subpopulations._kernels.model import (
    COUNTS,
    CREDIT,
    MEANS,
    PENDING,
    PRECISIONS,
    SHARES,
    SQUARES,
    SUMS,
    Floats,
    Integers,
    Model,
    copy_into,
    fill,
    total,
)
from fairtrial.subpopulations._kernels.pitfalls import (
    NONE,
    empirical_best,
    margin,
    pitfall_gradient,
    pitfall_value,
)

BALANCED, PAPER, EXACT, PLAIN, UNIFORM, ROUND_ROBIN, STATIC = range(7)
"""The rules by number; round robin is nothing but the least drawn cell, again and again."""

ANY_GROUP = -1
NEGLIGIBLE = 1e-12

BEST, WEAKEST = 0, 1
"""Entries of `scan`: the answer and its weakest pitfall when last looked at."""

UNKNOWN = -2
"""What both are before the first reward."""


@nb.njit(cache=True, nogil=True)
def record(
    model: Model,
    state: Floats,
    scan: Integers,
    values: Floats,
    cell: int,
    reward: float,
    solicited: bool,
    estimate_noise: bool,
) -> None:
    """Take one reward of a flat cell and bring means and pitfalls up to date."""
    groups = model.weights.size
    k, group = cell // groups, cell % groups
    state[COUNTS, k, group] += 1.0
    if solicited:
        state[PENDING, k, group] -= 1.0
    state[SUMS, k, group] += reward
    state[SQUARES, k, group] += reward * reward
    _summarise(model, state, k, group, estimate_noise)
    refresh(model, state, scan, values, k)


@nb.njit(cache=True, nogil=True)
def correct(
    model: Model,
    state: Floats,
    scan: Integers,
    values: Floats,
    cell: int,
    old: float,
    new: float,
    estimate_noise: bool,
) -> None:
    """Replace a reward taken before."""
    groups = model.weights.size
    k, group = cell // groups, cell % groups
    state[SUMS, k, group] += new - old
    state[SQUARES, k, group] += new * new - old * old
    _summarise(model, state, k, group, estimate_noise)
    refresh(model, state, scan, values, k)


@nb.njit(cache=True, nogil=True)
def _summarise(model: Model, state: Floats, k: int, group: int, estimate_noise: bool) -> None:
    count = state[COUNTS, k, group]
    mean = state[SUMS, k, group] / count
    variance = model.variances[k, group]
    if estimate_noise:
        centred = max(0.0, state[SQUARES, k, group] - count * mean * mean)
        variance = max(centred / max(1.0, count - 1.0), 1e-300)
    state[MEANS, k, group] = mean
    state[PRECISIONS, k, group] = count / variance


@nb.njit(cache=True, nogil=True)
def refresh(model: Model, state: Floats, scan: Integers, values: Floats, changed: int) -> None:
    """Bring answer and pitfalls up to date after a change in arm `changed` (or -1: anywhere)."""
    groups = state.shape[2]
    means, precisions = state[MEANS], state[PRECISIONS]
    best = empirical_best(means, model.weights, model.limits)
    lam = np.empty((1, 2, groups))
    everything = changed < 0 or best != scan[BEST] or changed == best
    for index in range(values.size):
        if everything or index == changed:
            values[index] = pitfall_value(
                index, best, means, precisions, model.weights,
                model.own_limits, model.rival_limits, model.slack, lam,
            )  # fmt: skip
    scan[BEST] = best
    scan[WEAKEST] = np.argmin(values)


@nb.njit(cache=True, nogil=True)
def is_ready(model: Model, state: Floats, start: float) -> bool:
    """Whether every cell that can matter has its initial draws told."""
    needed = max(1.0, start)
    for k in range(state.shape[1]):
        for group in range(state.shape[2]):
            if model.active[k, group] > 0.0 and state[COUNTS, k, group] < needed:
                return False
    return True


@nb.njit(cache=True, nogil=True)
def choose(
    rule: int,
    model: Model,
    state: Floats,
    scan: Integers,
    values: Floats,
    group: int,
    start: float,
    guard: float,
    shares: Floats,
    key0: int,
    key1: int,
    number: int,
) -> int:
    """Choose the next cell, note it as pending, and return it (flat).

    `group`: the group that has arrived, or `ANY_GROUP`. `start`: initial draws a cell.
    `guard`: exploration constant (0: none). `shares`: what `STATIC` tracks.
    `key0`, `key1`, `number`: the random stream, used by rules that toss coins.
    """
    cell = _least_issued(model, state, group)
    groups = state.shape[2]
    k, column = cell // groups, cell % groups
    issued = state[COUNTS, k, column] + state[PENDING, k, column]
    if issued < max(1.0, start) or not is_ready(model, state, 1.0):
        state[CREDIT, k, column] = max(state[CREDIT, k, column], issued + 1.0)
    elif guard > 0.0 and issued < guard * math.sqrt(_total_issued(state) / state[0].size):
        pass
    elif rule == BALANCED:
        cell = _balanced(model, state, scan, values, group)
    elif rule == PAPER:
        cell = _paper(model, state, group)
    elif rule == EXACT:
        cell = _exact(model, state, group)
    elif rule == STATIC:
        copy_into(state[SHARES], shares)
        cell = _most_owed_share(state, group)
    elif rule == PLAIN:
        cell = _plain(model, state, group, key0, key1, number)
    elif rule == UNIFORM:
        arm = int(philox_uniform(key0, key1, number, 0) * state.shape[1])
        cell = arm * groups + _arrival(model, group, key0, key1, number)
    state[PENDING, cell // groups, cell % groups] += 1.0
    return cell


@nb.njit(cache=True, nogil=True)
def _total_issued(state: Floats) -> float:
    return total(state[COUNTS]) + total(state[PENDING])


@nb.njit(cache=True, nogil=True)
def _least_issued(model: Model, state: Floats, group: int) -> int:
    """Return the active cell (of the group that arrived) with the fewest draws issued."""
    groups = state.shape[2]
    least = math.inf
    best = 0 if group == ANY_GROUP else group
    for k in range(state.shape[1]):
        for column in range(groups):
            if model.active[k, column] > 0.0 and (group == ANY_GROUP or column == group):
                issued = state[COUNTS, k, column] + state[PENDING, k, column]
                if issued < least:
                    least = issued
                    best = k * groups + column
    return best


@nb.njit(cache=True, nogil=True)
def _most_owed(state: Floats, group: int) -> int:
    """Return the cell whose credit is furthest ahead of its draws."""
    groups = state.shape[2]
    most = -math.inf
    best = 0
    for k in range(state.shape[1]):
        for column in range(groups):
            if group == ANY_GROUP or column == group:
                issued = state[COUNTS, k, column] + state[PENDING, k, column]
                if state[CREDIT, k, column] - issued > most:
                    most = state[CREDIT, k, column] - issued
                    best = k * groups + column
    return best


@nb.njit(cache=True, nogil=True)
def _most_owed_share(state: Floats, group: int) -> int:
    """Return the cell whose draws lag furthest behind its share."""
    groups = state.shape[2]
    issued_so_far = _total_issued(state)
    most = -math.inf
    best = 0
    for k in range(state.shape[1]):
        for column in range(groups):
            if group == ANY_GROUP or column == group:
                issued = state[COUNTS, k, column] + state[PENDING, k, column]
                if issued_so_far * state[SHARES, k, column] - issued > most:
                    most = issued_so_far * state[SHARES, k, column] - issued
                    best = k * groups + column
    return best


# ------------------------------------------------------------------ information-balanced


@nb.njit(cache=True, nogil=True)
def _balanced(model: Model, state: Floats, scan: Integers, values: Floats, group: int) -> int:
    gradient = np.empty(state[0].shape)
    lam = np.empty((1, 2, state.shape[2]))
    best = scan[BEST]
    value = _gradient_of(scan[WEAKEST], best, model, state, lam, gradient)
    if group != ANY_GROUP:
        if not _touches(gradient, group):
            _weakest_touching(best, model, state, values, group, lam, gradient)
        if not _touches(gradient, group):
            return _least_issued(model, state, group)
        return _balanced_in_column(state, gradient, group)
    if value <= NEGLIGIBLE:
        return _least_issued_touched(model, state, gradient)
    _earn_credit(model, state, gradient)
    return _most_owed_touched(state, gradient)


@nb.njit(cache=True, nogil=True)
def _gradient_of(
    index: int, best: int, model: Model, state: Floats, lam: Floats, gradient: Floats
) -> float:
    return pitfall_gradient(
        index, best, state[MEANS], state[PRECISIONS], model.weights,
        model.own_limits, model.rival_limits, model.slack, lam, gradient,
    )  # fmt: skip


@nb.njit(cache=True, nogil=True)
def _touches(gradient: Floats, group: int) -> bool:
    touched = False
    for k in range(gradient.shape[0]):
        touched = touched or gradient[k, group] > 0.0
    return touched


@nb.njit(cache=True, nogil=True)
def _weakest_touching(
    best: int,
    model: Model,
    state: Floats,
    values: Floats,
    group: int,
    lam: Floats,
    gradient: Floats,
) -> None:
    """Leave in `gradient` that of the weakest pitfall which has a cell in the group."""
    lower = -math.inf
    for _ in range(values.size):
        index = -1
        least = math.inf
        for other in range(values.size):
            if lower < values[other] < least:
                least = values[other]
                index = other
        if index < 0:
            return
        _gradient_of(index, best, model, state, lam, gradient)
        if _touches(gradient, group):
            return
        lower = least


@nb.njit(cache=True, nogil=True)
def _balanced_in_column(state: Floats, gradient: Floats, group: int) -> int:
    whole = 0.0
    for k in range(gradient.shape[0]):
        whole += state[PRECISIONS, k, group] * gradient[k, group]
    for k in range(gradient.shape[0]):
        state[CREDIT, k, group] += state[PRECISIONS, k, group] * gradient[k, group] / whole
    return _most_owed(state, group)


@nb.njit(cache=True, nogil=True)
def _earn_credit(model: Model, state: Floats, gradient: Floats) -> None:
    whole = 0.0
    for k in range(gradient.shape[0]):
        for column in range(gradient.shape[1]):
            share = state[PRECISIONS, k, column] * gradient[k, column]
            whole += share / model.costs[k, column]
    for k in range(gradient.shape[0]):
        for column in range(gradient.shape[1]):
            share = state[PRECISIONS, k, column] * gradient[k, column]
            state[CREDIT, k, column] += share / model.costs[k, column] / whole


@nb.njit(cache=True, nogil=True)
def _most_owed_touched(state: Floats, gradient: Floats) -> int:
    groups = state.shape[2]
    most = -math.inf
    best = 0
    for k in range(state.shape[1]):
        for column in range(groups):
            if gradient[k, column] > 0.0:
                issued = state[COUNTS, k, column] + state[PENDING, k, column]
                if state[CREDIT, k, column] - issued > most:
                    most = state[CREDIT, k, column] - issued
                    best = k * groups + column
    return best


@nb.njit(cache=True, nogil=True)
def _least_issued_touched(model: Model, state: Floats, gradient: Floats) -> int:
    """At an exact tie, or a mean exactly on its floor: the least drawn of the cells concerned."""
    groups = state.shape[2]
    least = math.inf
    best = -1
    for k in range(state.shape[1]):
        for column in range(groups):
            issued = state[COUNTS, k, column] + state[PENDING, k, column]
            if gradient[k, column] > 0.0 and issued < least:
                least = issued
                best = k * groups + column
    return best if best >= 0 else _least_issued(model, state, ANY_GROUP)


# ------------------------------------------------------------------- the paper's T-a-SCS


@nb.njit(cache=True, nogil=True)
def _paper(model: Model, state: Floats, group: int) -> int:
    arms, groups = state.shape[1], state.shape[2]
    shares = state[SHARES]
    target = np.empty((arms, groups))
    best = empirical_best(state[MEANS], model.weights, model.limits)
    if best == NONE:
        none_allocation(model, state[MEANS], target)
    else:
        weakest_gradient(model, state[MEANS], shares, best, target)
        for k in range(arms):
            for column in range(groups):
                target[k, column] += shares[k, column]
        project_on_simplex(target)
    exploration = 0.5 / math.sqrt((arms * groups) ** 2 + total(state[COUNTS]))
    raise_to_floor(target, exploration)
    for k in range(arms):
        for column in range(groups):
            shares[k, column] = target[k, column]
            state[CREDIT, k, column] += target[k, column]
    return _most_owed(state, group)


@nb.njit(cache=True, nogil=True)
def weakest_gradient(
    model: Model, means: Floats, shares: Floats, best: int, gradient: Floats
) -> float:
    """Fill the derivatives of F by the shares, and return F."""
    arms, groups = means.shape
    lam = np.empty((1, 2, groups))
    precisions = np.empty((arms, groups))
    for k in range(arms):
        for column in range(groups):
            precisions[k, column] = shares[k, column] / model.variances[k, column]
    weakest = -1
    least = math.inf
    for index in range(arms + groups):
        value = pitfall_value(
            index, best, means, precisions, model.weights,
            model.own_limits, model.rival_limits, model.slack, lam,
        )  # fmt: skip
        if value < least:
            least = value
            weakest = index
    pitfall_gradient(
        weakest, best, means, precisions, model.weights,
        model.own_limits, model.rival_limits, model.slack, lam, gradient,
    )  # fmt: skip
    for k in range(arms):
        for column in range(groups):
            gradient[k, column] /= model.variances[k, column]
    return least


@nb.njit(cache=True, nogil=True)
def none_allocation(model: Model, means: Floats, shares: Floats) -> None:
    """Fill the optimal shares when no arm is feasible, in closed form."""
    arms, groups = means.shape
    fill(shares, 0.0)
    scale = 0.0
    for k in range(arms):
        strongest = 0.0
        where = 0
        for column in range(groups):
            outside = min(0.0, margin(means[k, column], model.rival_limits, k, column))
            value = outside**2 / model.variances[k, column]
            if value > strongest:
                strongest = value
                where = column
        shares[k, where] = 1.0 / max(strongest, NEGLIGIBLE)
        scale += shares[k, where]
    for k in range(arms):
        for column in range(groups):
            shares[k, column] /= scale


@nb.njit(cache=True, nogil=True)
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


@nb.njit(cache=True, nogil=True)
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


# --------------------------------------------------------------------- exact and plain tracking


@nb.njit(cache=True, nogil=True)
def fluid_step(
    model: Model, means: Floats, best: int, shares: Floats, gradient: Floats, gain: float
) -> float:
    """Move the shares one step of the fluid recursion; return the value of F before it."""
    value = weakest_gradient(model, means, shares, best, gradient)
    if value > NEGLIGIBLE:
        for k in range(means.shape[0]):
            for column in range(means.shape[1]):
                shares[k, column] *= 1.0 + gain * (gradient[k, column] / value - 1.0)
    return value


@nb.njit(cache=True, nogil=True)
def _exact(model: Model, state: Floats, group: int) -> int:
    best = empirical_best(state[MEANS], model.weights, model.limits)
    if best == NONE:
        none_allocation(model, state[MEANS], state[SHARES])
        return _most_owed_share(state, group)
    gradient = np.empty(state[0].shape)
    cells = state[0].size
    # A share that has died out could never return by multiplication.
    for k in range(state.shape[1]):
        for column in range(state.shape[2]):
            state[SHARES, k, column] = max(state[SHARES, k, column], 1e-6 / cells)
    for step in range(20):
        fluid_step(model, state[MEANS], best, state[SHARES], gradient, 1.0 / (30.0 + step))
    return _most_owed_share(state, group)


@nb.njit(cache=True, nogil=True)
def _plain(model: Model, state: Floats, group: int, key0: int, key1: int, number: int) -> int:
    arms = state.shape[1]
    quality = np.zeros(arms)
    for k in range(arms):
        for column in range(state.shape[2]):
            quality[k] += model.weights[column] * state[MEANS, k, column]
    shares = np.empty((1, arms))
    gaussian_allocation(quality, shares[0])
    raise_to_floor(shares, 0.5 / math.sqrt(arms**2 + total(state[COUNTS])))
    most = -math.inf
    arm = 0
    for k in range(arms):
        state[CREDIT, k, 0] += shares[0, k]
        owed = 0.0
        for column in range(state.shape[2]):
            owed += state[CREDIT, k, column]
            owed -= state[COUNTS, k, column] + state[PENDING, k, column]
        if owed > most:
            most = owed
            arm = k
    return arm * state.shape[2] + _arrival(model, group, key0, key1, number)


@nb.njit(cache=True, nogil=True)
def gaussian_allocation(quality: Floats, shares: Floats) -> None:
    """Fill the optimal shares of ordinary best-arm identification, equal variances.

    Source: Garivier and Kaufmann (2016), Theorem 5.
    """
    arms = quality.size
    best = np.argmax(quality)
    smallest = math.inf
    for k in range(arms):
        if k != best:
            smallest = min(smallest, 0.5 * (quality[best] - quality[k]) ** 2)
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
                gap = 0.5 * (quality[best] - quality[k]) ** 2
                whole += (level / (gap - level)) ** 2 if gap > level else math.inf
        if whole > 1.0:
            high = level
        else:
            low = level
    whole = 1.0
    for k in range(arms):
        shares[k] = 1.0
        if k != best:
            gap = 0.5 * (quality[best] - quality[k]) ** 2
            shares[k] = low / (gap - low)
            whole += shares[k]
    for k in range(arms):
        shares[k] /= whole


@nb.njit(cache=True, nogil=True)
def _arrival(model: Model, group: int, key0: int, key1: int, number: int) -> int:
    """Return the group that arrived, or one drawn by the weights."""
    if group != ANY_GROUP:
        return group
    uniform = philox_uniform(key0, key1, number, 1)
    for column in range(model.weights.size - 1):
        uniform -= model.weights[column]
        if uniform < 0.0:
            return column
    return model.weights.size - 1
