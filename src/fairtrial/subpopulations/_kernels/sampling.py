"""Sampling rules that choose one pull at a time, using a shared state.

Documentation: docs/explanation/sampling.md. Rules: the information-balanced rule (after You, Qin,
Wang, Yang 2023), the paper's T-a-SCS, exact tracking, plain Track-and-Stop (Garivier and Kaufmann
2016), uniform and round robin.
"""

import math

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.arithmetic import copy_into, square, sum_of
from fairtrial.core.compilation import apart, inlined, kernel
from fairtrial.core.philox import philox_uniform
from fairtrial.subpopulations._kernels.allocations import (
    NEGLIGIBLE,
    fluid_step,
    gaussian_allocation,
    none_allocation,
    project_on_simplex,
    raise_to_floor,
    weakest_gradient,
)
from fairtrial.subpopulations._kernels.control_limits import alternative_at
from fairtrial.subpopulations._kernels.doubt import doubt_rival, fair_count
from fairtrial.subpopulations._kernels.indices import (
    ANY_GROUP,
    BALANCED,
    EXACT,
    PAPER,
    PLAIN,
    STATIC,
    UNIFORM,
)
from fairtrial.subpopulations._kernels.model import Floats, Model
from fairtrial.subpopulations._kernels.pitfalls import (
    NONE,
    empirical_best,
    margin,
    pitfall_gradient,
)
from fairtrial.subpopulations._kernels.recording import is_ready
from fairtrial.subpopulations._kernels.tracker_state import Rules, State

Words = NDArray[np.uint64]
"""The key of a stream of random numbers: two words."""

LEAST_SHARE = 1e-6
"""Smallest share in exact tracking: multiplicative steps could not revive a share of zero."""


@kernel(forceinline=True)
def choose(model: Model, rules: Rules, state: State, key: Words, group: int, number: int) -> int:
    """Choose the next cell, record it as pending, and return it (flat).

    `group`: the group that has arrived, or `ANY_GROUP`. `key`: the random stream of rules that draw
    at random; `number`: the number of the pull in that stream.
    """
    cell = _least_issued(model, state, group)
    groups = model.weights.size
    k, column = cell // groups, cell % groups
    issued = _issued(state, k, column)
    guard = rules.guard
    if issued < max(1.0, rules.initial_pulls) or not is_ready(model, state, 1.0):
        state.credit[k, column] = max(state.credit[k, column], issued + 1.0)
    elif guard > 0.0 and issued < guard * math.sqrt(_total_issued(state) / state.counts.size):
        pass
    elif rules.sampling == BALANCED:
        cell = _balanced(model, state, group)
    elif rules.sampling == PAPER:
        cell = _paper(model, rules, state, group)
    elif rules.sampling == EXACT:
        cell = _exact(model, rules, state, group)
    elif rules.sampling == STATIC:
        copy_into(state.shares, rules.shares)
        cell = _most_owed_share(state, group)
    elif rules.sampling == PLAIN:
        cell = _plain(model, rules, state, group, key, number)
    elif rules.sampling == UNIFORM:
        arm = int(philox_uniform(key[0], key[1], number, 0) * state.counts.shape[0])
        cell = arm * groups + _arrival(model, group, key, number)
    state.pending[cell // groups, cell % groups] += 1.0
    return cell


@inlined
def _issued(state: State, k: int, column: int) -> float:
    """Return the issued pulls of a cell, with or without a result."""
    return state.counts[k, column] + state.pending[k, column]


@inlined
def _total_issued(state: State) -> float:
    return sum_of(state.counts) + sum_of(state.pending)


@inlined
def _least_issued(model: Model, state: State, group: int) -> int:
    """Return the active cell, in the group that arrived, with the fewest issued pulls."""
    groups = state.counts.shape[1]
    least = math.inf
    best = 0 if group == ANY_GROUP else group
    for k in range(state.counts.shape[0]):
        for column in range(groups):
            if model.active[k, column] > 0.0 and (group == ANY_GROUP or column == group):
                issued = _issued(state, k, column)
                if issued < least:
                    least = issued
                    best = k * groups + column
    return best


@inlined
def _most_owed(state: State, group: int) -> int:
    """Return the cell whose credit exceeds its pulls by most."""
    return _furthest_behind(state, state.credit, 1.0, group)


@inlined
def _most_owed_share(state: State, group: int) -> int:
    """Return the cell whose pulls are furthest behind its share."""
    return _furthest_behind(state, state.shares, _total_issued(state), group)


@inlined
def _furthest_behind(state: State, wanted: Floats, scale: float, group: int) -> int:
    """Return the cell, in the group that arrived, furthest behind `scale` times `wanted`."""
    groups = state.counts.shape[1]
    most = -math.inf
    best = 0
    for k in range(state.counts.shape[0]):
        for column in range(groups):
            if group == ANY_GROUP or column == group:
                owed = scale * wanted[k, column] - _issued(state, k, column)
                if owed > most:
                    most = owed
                    best = k * groups + column
    return best


# ------------------------------------------------------------------ information-balanced


@kernel(forceinline=True)
def _balanced(model: Model, state: State, group: int) -> int:
    gradient = np.empty(state.counts.shape)
    lam = np.empty((1, 2, model.weights.size))
    weakest = state.weakest[0]
    value = _gradient_of(weakest, model, state, lam, gradient)
    if weakest < state.counts.shape[0]:
        value = _doubted_gradient(weakest, model, state, lam, value, gradient)
    if group != ANY_GROUP:
        if not _touches(gradient, group):
            _weakest_touching(model, state, group, lam, gradient)
        if not _touches(gradient, group):
            return _least_issued(model, state, group)
        return _balanced_in_column(model, state, gradient, group)
    if value <= NEGLIGIBLE:
        return _least_issued_touched(model, state, gradient)
    _earn_credit(model, state, gradient)
    return _most_owed_touched(state, gradient)


@kernel
def _gradient_of(index: int, model: Model, state: State, lam: Floats, gradient: Floats) -> float:
    best = state.best[0]
    return pitfall_gradient(index, best, state.means, state.precisions, model, lam, gradient)


@kernel
def _doubted_gradient(
    rival: int, model: Model, state: State, lam: Floats, value: float, gradient: Floats
) -> float:
    """Replace the gradient at the estimates by that at doubted means, if these differ."""
    best = state.best[0]
    counts, means, precisions = state.counts, state.means, state.precisions
    doubted = means.copy()
    # Trackers know no control, so its means are not used.
    alternative, none_leads = alternative_at(model, model.limits, model.weights), best == NONE
    fair = fair_count(model.active, counts)
    if not doubt_rival(alternative, rival, none_leads, counts, fair, means, precisions, doubted):
        return value
    return pitfall_gradient(rival, best, doubted, precisions, model, lam, gradient)


@inlined
def _touches(gradient: Floats, group: int) -> bool:
    touched = False
    for k in range(gradient.shape[0]):
        touched = touched or gradient[k, group] > 0.0
    return touched


@kernel
def _weakest_touching(
    model: Model, state: State, group: int, lam: Floats, gradient: Floats
) -> None:
    """Leave in `gradient` that of the weakest pitfall that has a cell in the group."""
    values = state.pitfalls
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
        _gradient_of(index, model, state, lam, gradient)
        if _touches(gradient, group):
            return
        lower = least


@kernel
def _balanced_in_column(model: Model, state: State, gradient: Floats, group: int) -> int:
    whole = 0.0
    for k in range(gradient.shape[0]):
        whole += state.precisions[k, group] * gradient[k, group]
    if whole <= 0.0:
        return _least_issued(model, state, group)
    for k in range(gradient.shape[0]):
        state.credit[k, group] += state.precisions[k, group] * gradient[k, group] / whole
    return _most_owed(state, group)


@inlined
def _earn_credit(model: Model, state: State, gradient: Floats) -> None:
    whole = 0.0
    for k in range(gradient.shape[0]):
        for column in range(gradient.shape[1]):
            share = state.precisions[k, column] * gradient[k, column]
            whole += share / model.costs[k, column]
    for k in range(gradient.shape[0]):
        for column in range(gradient.shape[1]):
            share = state.precisions[k, column] * gradient[k, column]
            state.credit[k, column] += share / model.costs[k, column] / whole


@inlined
def _most_owed_touched(state: State, gradient: Floats) -> int:
    groups = state.counts.shape[1]
    most = -math.inf
    best = 0
    for k in range(state.counts.shape[0]):
        for column in range(groups):
            if gradient[k, column] > 0.0:
                owed = state.credit[k, column] - _issued(state, k, column)
                if owed > most:
                    most = owed
                    best = k * groups + column
    return best


@kernel
def _least_issued_touched(model: Model, state: State, gradient: Floats) -> int:
    """Return the least pulled cell with a gradient; used at a tie or with a mean on its floor."""
    groups = state.counts.shape[1]
    least = math.inf
    best = -1
    for k in range(state.counts.shape[0]):
        for column in range(groups):
            issued = _issued(state, k, column)
            if gradient[k, column] > 0.0 and issued < least:
                least = issued
                best = k * groups + column
    return best if best >= 0 else _least_issued(model, state, ANY_GROUP)


# ------------------------------------------------------ rules that track shares


@kernel
def _fill_variances(model: Model, rules: Rules, state: State, variances: Floats) -> None:
    """Fill the variances of rewards: the stated ones, or the estimates.

    A cell that has no estimate has the largest one. If no cell has any, all have the same one: a
    square of a distance to a limit, so that shares do not depend on the unit of rewards.
    """
    copy_into(variances, model.variances)
    if not rules.estimates_noise:
        return
    largest = 0.0
    for k in range(variances.shape[0]):
        for column in range(variances.shape[1]):
            variances[k, column] = 0.0
            if state.precisions[k, column] > 0.0:
                variances[k, column] = state.counts[k, column] / state.precisions[k, column]
                largest = max(largest, variances[k, column])
    if largest == 0.0:
        largest = _largest_square(model, state)
    for k in range(variances.shape[0]):
        for column in range(variances.shape[1]):
            if variances[k, column] == 0.0:
                variances[k, column] = largest


@inlined
def _largest_square(model: Model, state: State) -> float:
    """Return the largest square of the distance from a mean to its limit; 1 if all are zero."""
    largest = 0.0
    for k in range(state.means.shape[0]):
        for column in range(state.means.shape[1]):
            distance = abs(margin(state.means[k, column], model.limits, k, column))
            if distance < math.inf:
                largest = max(largest, square(distance))
    return largest if largest > 0.0 else 1.0


@apart
def _paper(model: Model, rules: Rules, state: State, group: int) -> int:
    arms, groups = state.counts.shape[0], state.counts.shape[1]
    shares = state.shares
    target = np.empty((arms, groups))
    variances = np.empty((arms, groups))
    _fill_variances(model, rules, state, variances)
    best = empirical_best(state.means, model.weights, model.limits)
    if best == NONE:
        none_allocation(model, state.means, variances, target)
    else:
        weakest_gradient(model, state.means, variances, shares, best, target)
        for k in range(arms):
            for column in range(groups):
                target[k, column] += shares[k, column]
        project_on_simplex(target)
    exploration = 0.5 / math.sqrt(square(arms * groups) + sum_of(state.counts))
    raise_to_floor(target, exploration)
    for k in range(arms):
        for column in range(groups):
            shares[k, column] = target[k, column]
            state.credit[k, column] += target[k, column]
    return _most_owed(state, group)


@apart
def _exact(model: Model, rules: Rules, state: State, group: int) -> int:
    variances = np.empty(state.counts.shape)
    _fill_variances(model, rules, state, variances)
    best = empirical_best(state.means, model.weights, model.limits)
    if best == NONE:
        none_allocation(model, state.means, variances, state.shares)
        return _most_owed_share(state, group)
    gradient = np.empty(state.counts.shape)
    cells = state.counts.size
    for k in range(state.counts.shape[0]):
        for column in range(state.counts.shape[1]):
            state.shares[k, column] = max(state.shares[k, column], LEAST_SHARE / cells)
    for step in range(20):
        gain = 1.0 / (30.0 + step)
        fluid_step(model, state.means, variances, best, state.shares, gradient, gain)
    return _most_owed_share(state, group)


@apart
def _plain(model: Model, rules: Rules, state: State, group: int, key: Words, number: int) -> int:
    arms = state.counts.shape[0]
    variances = np.empty(state.counts.shape)
    _fill_variances(model, rules, state, variances)
    quality = np.zeros(arms)
    for k in range(arms):
        for column in range(state.counts.shape[1]):
            quality[k] += model.weights[column] * state.means[k, column]
    largest = math.sqrt(variances.max())
    for k in range(arms):
        quality[k] /= largest
    shares = np.empty((1, arms))
    gaussian_allocation(quality, shares[0])
    raise_to_floor(shares, 0.5 / math.sqrt(square(arms) + sum_of(state.counts)))
    most = -math.inf
    arm = 0
    for k in range(arms):
        state.credit[k, 0] += shares[0, k]
        owed = 0.0
        for column in range(state.counts.shape[1]):
            owed += state.credit[k, column]
            owed -= _issued(state, k, column)
        if owed > most:
            most = owed
            arm = k
    return arm * state.counts.shape[1] + _arrival(model, group, key, number)


@kernel
def _arrival(model: Model, group: int, key: Words, number: int) -> int:
    """Return the group that arrived, or one drawn by the weights."""
    if group != ANY_GROUP:
        return group
    uniform = philox_uniform(key[0], key[1], number, 1)
    for column in range(model.weights.size - 1):
        uniform -= model.weights[column]
        if uniform < 0.0:
            return column
    return model.weights.size - 1
