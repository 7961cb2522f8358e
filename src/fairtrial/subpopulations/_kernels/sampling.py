"""Sampling rules that choose one draw at a time, over a shared state of planes.

Documentation: docs/explanation/sampling.md. Rules: the information-balanced rule (after
You, Qin, Wang, Yang 2023), the paper's T-a-SCS, exact tracking, plain Track-and-Stop
(Garivier and Kaufmann 2016), uniform and round robin.
"""

import math

import numpy as np

from fairtrial.core._philox import philox_uniform
from fairtrial.core.compilation import kernel
from fairtrial.subpopulations._kernels.allocations import (
    NEGLIGIBLE,
    fluid_step,
    gaussian_allocation,
    none_allocation,
    project_on_simplex,
    raise_to_floor,
    weakest_gradient,
)
from fairtrial.subpopulations._kernels.doubt import doubt_rival
from fairtrial.subpopulations._kernels.indices import (
    ANY_GROUP,
    BALANCED,
    BEST,
    COUNTS,
    CREDIT,
    EXACT,
    MEANS,
    PAPER,
    PENDING,
    PLAIN,
    PRECISIONS,
    SHARES,
    STATIC,
    UNIFORM,
    WEAKEST,
)
from fairtrial.subpopulations._kernels.model import (
    Floats,
    Integers,
    Model,
    copy_into,
    total,
)
from fairtrial.subpopulations._kernels.pitfalls import (
    NONE,
    empirical_best,
    pitfall_gradient,
)
from fairtrial.subpopulations._kernels.recording import is_ready

LEAST_SHARE = 1e-6
"""Least share of exact tracking, spread over all cells: by multiplication none could return."""


@kernel
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
    issued = _issued(state, k, column)
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


@kernel
def _issued(state: Floats, k: int, column: int) -> float:
    """Return the draws of a cell that were asked for, told or not."""
    return state[COUNTS, k, column] + state[PENDING, k, column]


@kernel
def _total_issued(state: Floats) -> float:
    return total(state[COUNTS]) + total(state[PENDING])


@kernel
def _least_issued(model: Model, state: Floats, group: int) -> int:
    """Return the active cell (of the group that arrived) with the fewest draws issued."""
    groups = state.shape[2]
    least = math.inf
    best = 0 if group == ANY_GROUP else group
    for k in range(state.shape[1]):
        for column in range(groups):
            if model.active[k, column] > 0.0 and (group == ANY_GROUP or column == group):
                issued = _issued(state, k, column)
                if issued < least:
                    least = issued
                    best = k * groups + column
    return best


@kernel
def _most_owed(state: Floats, group: int) -> int:
    """Return the cell whose credit is furthest ahead of its draws."""
    groups = state.shape[2]
    most = -math.inf
    best = 0
    for k in range(state.shape[1]):
        for column in range(groups):
            if group == ANY_GROUP or column == group:
                issued = _issued(state, k, column)
                if state[CREDIT, k, column] - issued > most:
                    most = state[CREDIT, k, column] - issued
                    best = k * groups + column
    return best


@kernel
def _most_owed_share(state: Floats, group: int) -> int:
    """Return the cell whose draws lag furthest behind its share."""
    groups = state.shape[2]
    issued_so_far = _total_issued(state)
    most = -math.inf
    best = 0
    for k in range(state.shape[1]):
        for column in range(groups):
            if group == ANY_GROUP or column == group:
                issued = _issued(state, k, column)
                if issued_so_far * state[SHARES, k, column] - issued > most:
                    most = issued_so_far * state[SHARES, k, column] - issued
                    best = k * groups + column
    return best


# ------------------------------------------------------------------ information-balanced


@kernel
def _balanced(model: Model, state: Floats, scan: Integers, values: Floats, group: int) -> int:
    gradient = np.empty(state[0].shape)
    lam = np.empty((1, 2, state.shape[2]))
    best, weakest = scan[BEST], scan[WEAKEST]
    value = _gradient_of(weakest, best, model, state, lam, gradient)
    if weakest < state.shape[1]:
        value = _doubted_gradient(weakest, best, model, state, lam, value, gradient)
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


@kernel
def _gradient_of(
    index: int, best: int, model: Model, state: Floats, lam: Floats, gradient: Floats
) -> float:
    return pitfall_gradient(
        index, best, state[MEANS], state[PRECISIONS], model.weights,
        model.own_limits, model.rival_limits, model.tolerance, lam, gradient,
    )  # fmt: skip


@kernel
def _doubted_gradient(
    rival: int, best: int, model: Model, state: Floats, lam: Floats, value: float, gradient: Floats
) -> float:
    """Put the gradient at doubted means in the place of that at the estimates, if they differ."""
    means = state[MEANS].copy()
    average = total(state[COUNTS]) / max(1.0, total(model.active))
    if not doubt_rival(
        model, rival, best == NONE, state[COUNTS], state[MEANS], state[PRECISIONS], average, means
    ):
        return value
    return pitfall_gradient(
        rival, best, means, state[PRECISIONS], model.weights,
        model.own_limits, model.rival_limits, model.tolerance, lam, gradient,
    )  # fmt: skip


@kernel
def _touches(gradient: Floats, group: int) -> bool:
    touched = False
    for k in range(gradient.shape[0]):
        touched = touched or gradient[k, group] > 0.0
    return touched


@kernel
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


@kernel
def _balanced_in_column(state: Floats, gradient: Floats, group: int) -> int:
    whole = 0.0
    for k in range(gradient.shape[0]):
        whole += state[PRECISIONS, k, group] * gradient[k, group]
    for k in range(gradient.shape[0]):
        state[CREDIT, k, group] += state[PRECISIONS, k, group] * gradient[k, group] / whole
    return _most_owed(state, group)


@kernel
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


@kernel
def _most_owed_touched(state: Floats, gradient: Floats) -> int:
    groups = state.shape[2]
    most = -math.inf
    best = 0
    for k in range(state.shape[1]):
        for column in range(groups):
            if gradient[k, column] > 0.0:
                issued = _issued(state, k, column)
                if state[CREDIT, k, column] - issued > most:
                    most = state[CREDIT, k, column] - issued
                    best = k * groups + column
    return best


@kernel
def _least_issued_touched(model: Model, state: Floats, gradient: Floats) -> int:
    """At an exact tie, or a mean exactly on its floor: the least drawn of the cells concerned."""
    groups = state.shape[2]
    least = math.inf
    best = -1
    for k in range(state.shape[1]):
        for column in range(groups):
            issued = _issued(state, k, column)
            if gradient[k, column] > 0.0 and issued < least:
                least = issued
                best = k * groups + column
    return best if best >= 0 else _least_issued(model, state, ANY_GROUP)


# ------------------------------------------------------ rules that track shares


@kernel
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


@kernel
def _exact(model: Model, state: Floats, group: int) -> int:
    best = empirical_best(state[MEANS], model.weights, model.limits)
    if best == NONE:
        none_allocation(model, state[MEANS], state[SHARES])
        return _most_owed_share(state, group)
    gradient = np.empty(state[0].shape)
    cells = state[0].size
    for k in range(state.shape[1]):
        for column in range(state.shape[2]):
            state[SHARES, k, column] = max(state[SHARES, k, column], LEAST_SHARE / cells)
    for step in range(20):
        fluid_step(model, state[MEANS], best, state[SHARES], gradient, 1.0 / (30.0 + step))
    return _most_owed_share(state, group)


@kernel
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
            owed -= _issued(state, k, column)
        if owed > most:
            most = owed
            arm = k
    return arm * state.shape[2] + _arrival(model, group, key0, key1, number)


@kernel
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
