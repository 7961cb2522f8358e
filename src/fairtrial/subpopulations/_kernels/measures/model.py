"""A problem with several measures in the form that kernels use."""

import math
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairtrial.core.compilation import kernel, uncounted

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

OVERALL = -1
"""The group number of a limit on the weighted mean of all groups."""

OBJECTIVE = -1
"""The measure number of a limit on the objective."""

NO_CONTROL = -1
"""The control's number if no limit refers to one."""

BOUNDED, COVARIANCE, SCALES = 0, 1, 2
"""What is known about the noise: ranges, its covariance, or only the scale of each measure."""


class Model(NamedTuple):
    """A problem: maximise the objective, with every limit written as a lower one.

    The objective of a pull with measures y is the number ``objective @ y``. Limit r requires that
    ``signs[r] * y[measure_of[r]]`` has a mean of at least ``bounds[k, r]`` for arm k, in the group
    ``group_of[r]`` or over all groups (`OVERALL`); minus infinity if the arm has no such limit. A
    ceiling has the sign -1. A limit on the `OBJECTIVE` has its weights instead of one measure, and
    the sign 1. If ``relative[r]`` is 1, the limit is on the mean minus that of the arm `control`.
    `low` and `high` are the ranges of measures, if they are `BOUNDED`.
    `covariances` and `scales` describe a known noise; plans use the former. `directions` are
    weights of sums of measures whose stated variance is 1, which is tested. Inactive cells are
    never needed.

    If something is predicted, the predictions are the last measures; their number is `predicted`.
    The objective and the limits do not use them. Prediction p is one of the measure
    ``predicts[p]``, and ``slopes[p]`` is the stated slope of that measure on it; NaN if it is
    fitted. `known_means` are the stated mean predictions; NaN for a group without one.
    """

    weights: Annotated[Floats, "groups"]
    objective: Annotated[Floats, "measures"]
    bounds: Annotated[Floats, "arms limits"]
    signs: Annotated[Floats, "limits"]
    measure_of: Annotated[Floats, "limits"]
    group_of: Annotated[Floats, "limits"]
    relative: Annotated[Floats, "limits"]
    low: Annotated[Floats, "measures"]
    high: Annotated[Floats, "measures"]
    covariances: Annotated[Floats, "arms groups measures measures"]
    scales: Annotated[Floats, "arms groups measures"]
    costs: Annotated[Floats, "arms groups"]
    active: Annotated[Floats, "arms groups"]
    directions: Annotated[Floats, "arms groups directions measures"]
    predicts: Annotated[Floats, "predictions"]
    slopes: Annotated[Floats, "predictions"]
    known_means: Annotated[Floats, "predictions groups"]
    noise: int
    tolerance: float
    control: int
    predicted: int = 0


@kernel(forceinline=True)
def part_in_limit(model: Model, r: int, group: int) -> float:
    """Return the weight of a group's mean in limit r."""
    of = int(model.group_of[r])
    if of == OVERALL:
        return model.weights[group]
    return 1.0 if of == group else 0.0


@kernel(forceinline=True)
def first_group(model: Model, r: int) -> int:
    """Return the first group of limit r."""
    return max(0, int(model.group_of[r]))


@kernel(forceinline=True)
def end_group(model: Model, r: int) -> int:
    """Return the group after the last one of limit r."""
    of = int(model.group_of[r])
    return model.weights.size if of == OVERALL else of + 1


@kernel(forceinline=True)
def first_measure(model: Model, r: int) -> int:
    """Return the first measure of limit r."""
    return max(0, int(model.measure_of[r]))


@kernel(forceinline=True)
def end_measure(model: Model, r: int) -> int:
    """Return the measure after the last one of limit r."""
    of = int(model.measure_of[r])
    return model.objective.size if of == OBJECTIVE else of + 1


@kernel(forceinline=True)
def weight_in_limit(model: Model, r: int, m: int) -> float:
    """Return the weight in limit r of one of its measures."""
    of_objective = model.measure_of[r] == OBJECTIVE
    return model.signs[r] * (model.objective[m] if of_objective else 1.0)


@kernel(forceinline=True)
def is_relative(model: Model, r: int) -> bool:
    """Return whether limit r is on the difference from the control."""
    return model.relative[r] > 0.0


@kernel(forceinline=True)
def outcomes_of(model: Model) -> int:
    """Return the number of measures that an outcome consists of: all but the predictions."""
    return model.objective.size - model.predicted


@kernel(forceinline=True)
def measure_of(model: Model, p: int) -> int:
    """Return the measure that prediction p is one of."""
    return int(model.predicts[p])


@kernel(forceinline=True)
def prediction_of(model: Model, m: int) -> int:
    """Return the number of the prediction of a measure; -1 if it has none."""
    found = -1
    for p in range(model.predicted):
        if measure_of(model, p) == m:
            found = p
    return found


@kernel(forceinline=True)
def has_limit(model: Model, k: int, r: int) -> bool:
    """Return whether arm k has limit r."""
    return model.bounds[k, r] > -math.inf


# -------------------------------------------------------------------------- estimates


class Seen(NamedTuple):
    """Estimates for every cell, and the numbers that items use.

    If values are missing there are three versions of a mean: from the observed values, and as in
    bets that replace missing values by the lowest or by the highest value.
    """

    means: Floats
    """Of every measure, shape (K, L, M)."""
    lowest: Floats
    highest: Floats
    covariances: Floats
    """Of one pull, shape (K, L, M, M)."""
    pulled: Floats
    """Covariances times the objective, shape (K, L, M)."""
    spread: Floats
    """Variance of the objective, shape (K, L)."""
    quality: Floats
    """Of every arm, from the observed means."""
    best: Floats
    worst: Floats
    short: Floats
    """Shortfall of every arm in every limit, shape (K, R), from the observed means."""
    saved: Floats
    """The same, with missing values replaced by those that would keep the limit."""
    failed: Floats
    """The same, with missing values replaced by those that would break it."""
    slopes: Floats
    """Slopes of measures on their predictions, shape (P, L)."""
    expected: Floats
    """Means of the predictions, shape (P, L)."""
    explained: Floats
    """Covariances of slopes times predictions, shape (L, P, P)."""


@kernel
def new_view(model: Model) -> Seen:
    """Return empty estimates."""
    arms, groups = model.costs.shape
    measures, limits, predictions = model.objective.size, model.signs.size, model.predicted
    return Seen(
        np.empty((arms, groups, measures)),
        np.empty((arms, groups, measures)),
        np.empty((arms, groups, measures)),
        np.empty((arms, groups, measures, measures)),
        np.empty((arms, groups, measures)),
        np.empty((arms, groups)),
        np.empty(arms),
        np.empty(arms),
        np.empty(arms),
        np.empty((arms, limits)),
        np.empty((arms, limits)),
        np.empty((arms, limits)),
        np.zeros((predictions, groups)),
        np.zeros((predictions, groups)),
        np.zeros((groups, predictions, predictions)),
    )


@uncounted
def derive(model: Model, seen: Seen, beside: Seen) -> None:
    """Fill everything that follows from means and covariances.

    `beside`: the estimates with the control's means that limits refer to.
    """
    arms, groups, measures = seen.means.shape
    for k in range(arms):
        for group in range(groups):
            spread = 0.0
            for m in range(measures):
                pulled = 0.0
                for other in range(measures):
                    pulled += seen.covariances[k, group, m, other] * model.objective[other]
                seen.pulled[k, group, m] = pulled
                spread += model.objective[m] * pulled
            seen.spread[k, group] = max(0.0, spread)
        _derive_arm(model, seen, beside, k)


@uncounted
def _derive_arm(model: Model, seen: Seen, beside: Seen, k: int) -> None:
    """Fill everything that follows from the means of an arm."""
    groups, measures = model.weights.size, model.objective.size
    quality = best = worst = 0.0
    for group in range(groups):
        q = model.weights[group]
        if q == 0.0:
            continue
        for m in range(measures):
            g = model.objective[m]
            up, down = seen.highest[k, group, m], seen.lowest[k, group, m]
            quality += q * g * seen.means[k, group, m]
            best += q * g * (up if g > 0.0 else down)
            worst += q * g * (down if g > 0.0 else up)
    seen.quality[k], seen.best[k], seen.worst[k] = quality, best, worst
    for r in range(model.signs.size):
        seen.short[k, r] = seen.saved[k, r] = seen.failed[k, r] = -math.inf
        if not has_limit(model, k, r):
            continue
        plain = saved = failed = 0.0
        for group in range(groups):
            part = part_in_limit(model, r, group)
            if part == 0.0:
                continue
            for m in range(first_measure(model, r), end_measure(model, r)):
                weight = part * weight_in_limit(model, r, m)
                up, down = seen.highest[k, group, m], seen.lowest[k, group, m]
                plain += weight * seen.means[k, group, m]
                saved += weight * (up if weight > 0.0 else down)
                failed += weight * (down if weight > 0.0 else up)
                if is_relative(model, r):
                    # What is the best value for the arm is the worst one for the control.
                    up = beside.highest[model.control, group, m]
                    down = beside.lowest[model.control, group, m]
                    plain -= weight * beside.means[model.control, group, m]
                    saved -= weight * (down if weight > 0.0 else up)
                    failed -= weight * (up if weight > 0.0 else down)
        bound = model.bounds[k, r]
        seen.short[k, r] = bound - plain
        seen.saved[k, r] = bound - saved
        seen.failed[k, r] = bound - failed
