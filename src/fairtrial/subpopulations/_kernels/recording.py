"""What a tracker keeps of its rewards: counts, means, the present answer, and its pitfalls."""

import numpy as np

from fairtrial.core.compilation import kernel
from fairtrial.subpopulations._kernels.indices import (
    BEST,
    COUNTS,
    MEANS,
    PENDING,
    PRECISIONS,
    SQUARES,
    SUMS,
    WEAKEST,
)
from fairtrial.subpopulations._kernels.model import Floats, Integers, Model
from fairtrial.subpopulations._kernels.pitfalls import empirical_best, pitfall_value


@kernel
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
    # Squares are those of deviations from the mean: far from zero, others would drown them.
    before = state[SUMS, k, group] / max(1.0, state[COUNTS, k, group] - 1.0)
    state[SUMS, k, group] += reward
    mean = state[SUMS, k, group] / state[COUNTS, k, group]
    if state[COUNTS, k, group] > 1.0:
        state[SQUARES, k, group] += (reward - before) * (reward - mean)
    _summarise(model, state, k, group, estimate_noise)
    refresh(model, state, scan, values, k)


@kernel
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
    before = state[SUMS, k, group] / state[COUNTS, k, group]
    state[SUMS, k, group] += new - old
    mean = state[SUMS, k, group] / state[COUNTS, k, group]
    state[SQUARES, k, group] += (new - old) * ((new - mean) + (old - before))
    _summarise(model, state, k, group, estimate_noise)
    refresh(model, state, scan, values, k)


@kernel
def _summarise(model: Model, state: Floats, k: int, group: int, estimate_noise: bool) -> None:
    count = state[COUNTS, k, group]
    mean = state[SUMS, k, group] / count
    variance = model.variances[k, group]
    if estimate_noise:
        variance = max(state[SQUARES, k, group] / max(1.0, count - 1.0), 1e-300)
    state[MEANS, k, group] = mean
    state[PRECISIONS, k, group] = count / variance


@kernel
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
                model.own_limits, model.rival_limits, model.tolerance, lam,
            )  # fmt: skip
    scan[BEST] = best
    scan[WEAKEST] = np.argmin(values)


@kernel
def is_ready(model: Model, state: Floats, start: float) -> bool:
    """Whether every cell that can matter has its initial draws told."""
    needed = max(1.0, start)
    for k in range(state.shape[1]):
        for group in range(state.shape[2]):
            if model.active[k, group] > 0.0 and state[COUNTS, k, group] < needed:
                return False
    return True
