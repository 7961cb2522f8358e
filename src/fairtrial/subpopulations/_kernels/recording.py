"""A tracker's record of rewards: counts, means, the current answer, and its pitfalls."""

import numpy as np

from fairtrial.core.compilation import inlined, kernel
from fairtrial.subpopulations._kernels.model import Model
from fairtrial.subpopulations._kernels.pitfalls import empirical_best, pitfall_value
from fairtrial.subpopulations._kernels.tracker_state import Rules, State


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
    _refresh(model, state, k)


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
    _refresh(model, state, k)


@inlined
def _summarise(model: Model, rules: Rules, state: State, k: int, group: int) -> None:
    count = state.counts[k, group]
    mean = state.sums[k, group] / count
    variance = model.variances[k, group]
    if rules.estimates_noise:
        variance = max(state.squares[k, group] / max(1.0, count - 1.0), 1e-300)
    state.means[k, group] = mean
    state.precisions[k, group] = count / variance


@kernel(forceinline=True)
def _refresh(model: Model, state: State, changed: int) -> None:
    """Update answer and pitfalls after a change in arm `changed`."""
    best = empirical_best(state.means, model.weights, model.limits)
    lam = np.empty((1, 2, model.weights.size))
    everything = best != state.best[0] or changed == best
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
