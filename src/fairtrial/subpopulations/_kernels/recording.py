"""A tracker's record of rewards: counts, means, the current answer, and its pitfalls."""

import math

import numpy as np

from fairtrial.core.arithmetic import square
from fairtrial.core.compilation import inlined, kernel
from fairtrial.subpopulations._kernels.model import Model
from fairtrial.subpopulations._kernels.pitfalls import empirical_best, pitfall_value
from fairtrial.subpopulations._kernels.tracker_state import Rules, State

ROUNDING = 2.0**-52
"""The relative error of a sum, by each of its terms."""


@kernel(forceinline=True)
def record(
    model: Model, rules: Rules, state: State, cell: int, reward: float, solicited: bool
) -> None:
    """Record a reward of a flat cell, and update means and pitfalls."""
    groups = model.weights.size
    k, group = cell // groups, cell % groups
    state.counts[k, group] += 1.0
    if solicited:
        state.pending[k, group] -= 1.0
    # Sum squared deviations from the mean: with means far from zero, plain squares lose digits.
    before = state.sums[k, group] / max(1.0, state.counts[k, group] - 1.0)
    state.sums[k, group] += reward
    mean = state.sums[k, group] / state.counts[k, group]
    if state.counts[k, group] > 1.0:
        state.squares[k, group] += (reward - before) * (reward - mean)
    _summarise(model, rules, state, k, group)
    _refresh(model, rules, state, k)


@kernel
def correct(model: Model, rules: Rules, state: State, cell: int, old: float, new: float) -> None:
    """Replace a recorded reward."""
    groups = model.weights.size
    k, group = cell // groups, cell % groups
    before = state.sums[k, group] / state.counts[k, group]
    state.sums[k, group] += new - old
    mean = state.sums[k, group] / state.counts[k, group]
    state.squares[k, group] += (new - old) * ((new - mean) + (old - before))
    _summarise(model, rules, state, k, group)
    _refresh(model, rules, state, k)


@inlined
def _summarise(model: Model, rules: Rules, state: State, k: int, group: int) -> None:
    count = state.counts[k, group]
    state.means[k, group] = state.sums[k, group] / count
    if rules.estimates_noise:
        _estimate_precisions(state)
    else:
        state.precisions[k, group] = count / model.variances[k, group]


@kernel
def _estimate_precisions(state: State) -> None:
    """Estimate the precision of every mean from the spread of its cell's results.

    While these are all equal, that of all cells is used: the first results of a rare outcome are
    alike, and do not show that there is no noise. If all results are equal, the precision is 0.
    """
    common = _common_variance(state)
    for k in range(state.counts.shape[0]):
        for group in range(state.counts.shape[1]):
            count = state.counts[k, group]
            variance = common
            if _has_spread(state, k, group):
                variance = state.squares[k, group] / (count - 1.0)
            state.precisions[k, group] = count / variance if variance > 0.0 else 0.0


@inlined
def _common_variance(state: State) -> float:
    """Return the variance within cells, with the largest difference of means as one more result."""
    squares = 0.0
    freedom = 1.0
    smallest = math.inf
    largest = -math.inf
    for k in range(state.counts.shape[0]):
        for group in range(state.counts.shape[1]):
            if state.counts[k, group] > 0.0:
                freedom += state.counts[k, group] - 1.0
                smallest = min(smallest, state.means[k, group])
                largest = max(largest, state.means[k, group])
                if _has_spread(state, k, group):
                    squares += state.squares[k, group]
    apart = largest - smallest
    if apart <= freedom * ROUNDING * max(abs(smallest), abs(largest)):
        apart = 0.0
    return (squares + square(apart)) / freedom


@inlined
def _has_spread(state: State, k: int, group: int) -> bool:
    """Return whether a cell's results differ by more than rounding can explain."""
    count = state.counts[k, group]
    rounding = count * ROUNDING * state.means[k, group]
    return count > 1.0 and state.squares[k, group] > count * square(rounding)


@kernel(forceinline=True)
def _refresh(model: Model, rules: Rules, state: State, changed: int) -> None:
    """Update answer and pitfalls after a change in arm `changed`."""
    best = empirical_best(state.means, model.weights, model.limits)
    lam = np.empty((1, 2, model.weights.size))
    everything = best != state.best[0] or changed == best or rules.estimates_noise
    for index in range(state.pitfalls.size):
        if everything or index == changed:
            state.pitfalls[index] = pitfall_value(
                index, best, state.means, state.precisions, model, lam
            )
    state.best[0] = best
    state.weakest[0] = np.argmin(state.pitfalls)


@inlined
def is_ready(model: Model, state: State, start: float) -> bool:
    """Return whether every cell that can matter has the results of its initial pulls."""
    needed = max(1.0, start)
    for k in range(state.counts.shape[0]):
        for group in range(state.counts.shape[1]):
            if model.active[k, group] > 0.0 and state.counts[k, group] < needed:
                return False
    return True
