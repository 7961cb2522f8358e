"""What a prediction that is known before the arm adds to estimates, plans and bets.

Within a group all arms have the same mean prediction, whatever it is. A bet may therefore subtract
any combination of predictions whose weights sum to zero over the pulls of a group; if that mean is
known, any combination of their distances from it. What is left of the rewards varies less, and
their means in the bet stay the same. Proof: docs/explanation/predictions.md.
"""

import math

from fairtrial.confidence.block_betting.planned_end import target_of
from fairtrial.core.arithmetic import square
from fairtrial.core.compilation import inlined, unchecked
from fairtrial.subpopulations._kernels.block_plans import PRIOR_PULLS
from fairtrial.subpopulations._kernels.measures.model import Floats, Model, Seen
from fairtrial.subpopulations._kernels.measures.state import (
    CONTROL,
    EXPECTED,
    LOST,
    LOST_GUESS,
    LOST_SQUARED,
    MEAN,
    OFF,
    OFF_SQUARED,
    OTHER,
    RIVAL,
    SLOPE,
    TARGET,
    State,
)

MISSING = math.inf
"""The prediction of a pull that has none: it counts as the mean of its group. NaN stands for a
prediction that is unknown because its pull was never made: it counts as its worst value."""

_SHRINKAGE = 0.02
"""Pulls' worth of predictions at the ends of the range that shrink a fitted slope."""

_CONSTANT = 1e-9
"""Predictions whose variance is a smaller share of the squared range count as constant."""

_RELIEF = 0.5
"""Part of the largest loss of a pull that counts for stakes: adjusted bets may risk twice as much
as others, because the range limits them long before ruin does."""


# ------------------------------------------------------------------------ the regression


@inlined
def fit_predictions(model: Model, state: State, seen: Seen) -> None:
    """Fill the slope, the mean prediction and the explained variance of every group."""
    arms, groups = state.pulls.shape
    at = model.objective.size - 1
    width = model.high[at] - model.low[at]
    for group in range(groups):
        number = total = both = spread = 0.0
        for k in range(arms):
            count = state.counts[k, group, at, at]
            if count == 0.0:
                continue
            mean = state.sums[k, group, at] / count
            number += count
            total += state.sums[k, group, at]
            both += _shared(state, k, group, at)
            spread += state.products[k, group, at, at] - count * square(mean)
        slope = 0.0
        if spread > _CONSTANT * number * square(width):
            slope = both / (spread + _SHRINKAGE * square(width))
            if not math.isnan(model.slope):
                slope = model.slope
        seen.slopes[group] = slope
        middle = 0.5 * (model.low[at] + model.high[at])
        seen.expected[group] = total / number if number > 0.0 else middle
        seen.explained[group] = square(slope) * spread / max(1.0, number)
        if _is_known(model, group):
            # Nothing of it has to be estimated.
            seen.expected[group], seen.explained[group] = model.known_means[group], 0.0


@inlined
def _is_known(model: Model, group: int) -> bool:
    """Return whether the mean prediction of a group is stated."""
    return not math.isnan(model.known_means[group])


@inlined
def _shared(state: State, k: int, group: int, at: int) -> float:
    """Return the sum of products of the deviations of rewards and predictions from their means."""
    count = max(1.0, state.counts[k, group, 0, 0])
    mean = state.sums[k, group, 0] / count
    return state.products[k, group, 0, at] - mean * state.sums[k, group, at]


@inlined
def adjust_estimates(model: Model, state: State, seen: Seen) -> None:
    """Replace means and variances of rewards by those of rewards minus their predictions.

    Nothing else of the prediction is left in the estimates: plans and directions then are those of
    one measure.
    """
    fit_predictions(model, state, seen)
    arms, groups = state.pulls.shape
    at = model.objective.size - 1
    width = model.high[0] - model.low[0]
    for k in range(arms):
        for group in range(groups):
            count, known = state.counts[k, group, 0, 0], state.counts[k, group, at, at]
            slope = seen.slopes[group]
            spread = 0.0
            if known > 0.0:
                off = state.sums[k, group, at] - known * seen.expected[group]
                mean = seen.means[k, group, 0] - slope * off / count
                seen.means[k, group, 0] = min(max(mean, model.low[0]), model.high[0])
                spread = state.products[k, group, at, at]
                spread -= square(state.sums[k, group, at]) / known
                spread = square(slope) * spread - 2.0 * slope * _shared(state, k, group, at)
            spread += state.products[k, group, 0, 0]
            spread -= square(state.sums[k, group, 0]) / max(count, 1e-300)
            spread = max(0.0, spread) + PRIOR_PULLS * square(width) / 4.0
            seen.covariances[k, group, 0, 0] = spread / (count + PRIOR_PULLS)
            for m in range(at + 1):
                seen.covariances[k, group, m, at] = seen.covariances[k, group, at, m] = 0.0


# ------------------------------------------------------------------------------ freezing


@inlined
def freeze_fit(model: Model, state: State, slot: int, seen: Seen) -> None:
    """Freeze how a block cuts predictions, and how it guesses a reward from its prediction."""
    at = model.objective.size - 1
    arms, groups = state.pulls.shape
    any_known = False
    for group in range(groups):
        any_known = any_known or _is_known(model, group)
    state.clip[slot, 0] = max(model.low[at], state.reach[0])
    state.clip[slot, 1] = min(model.high[at], state.reach[1])
    # A stated mean is that of predictions which are cut to the stated range.
    if any_known or state.clip[slot, 0] > state.clip[slot, 1]:
        state.clip[slot, 0], state.clip[slot, 1] = model.low[at], model.high[at]
    for group in range(groups):
        total = number = 0.0
        for k in range(arms):
            total += state.counts[k, group, 0, 0] * seen.means[k, group, 0]
            number += state.counts[k, group, 0, 0]
        middle = 0.5 * (model.low[0] + model.high[0])
        state.guess[slot, group, MEAN] = total / number if number > 0.0 else middle
        state.guess[slot, group, SLOPE] = seen.slopes[group]
        state.guess[slot, group, EXPECTED] = seen.expected[group]


@unchecked
def add_predictions(
    model: Model,
    state: State,
    slot: int,
    bet: int,
    rival: int,
    seen: Seen,
    planned: Floats,
    losses: Floats,
) -> tuple[float, float, float]:
    """Freeze the weights of predictions in a bet, whose weights of rewards are frozen.

    In every group, the weights of predictions sum to zero over the pulls of the block, unless the
    mean prediction is known. They are the ones that leave the least variance.

    Parameters
    ----------
    losses : array of shape (roles, L)
        The most that the reward of one pull can lose.

    Returns
    -------
    block, earlier, ruin : float
        What the predictions add to the variance of the block's effect and of its estimate so far,
        and the most that one pull can lose, with its prediction.
    """
    arms, groups = planned.shape
    at = model.objective.size - 1
    coefficients, centres = state.coefficients[slot, bet], state.centres[slot, bet]
    low, high = state.clip[slot, 0], state.clip[slot, 1]
    block = earlier = ruin = 0.0
    adjusts = False
    for group in range(groups):
        pulls = weight = known = 0.0
        for k in range(arms):
            role = _role(model, state, slot, bet, k, rival)
            pulls += planned[k, group]
            known += state.counts[k, group, at, at]
            weight += planned[k, group] * coefficients[role, group, 0]
        slope, expected = seen.slopes[group], seen.expected[group]
        if pulls == 0.0:
            continue
        mean = 0.0 if _is_known(model, group) else weight / pulls
        adjusts = adjusts or slope != 0.0
        for role in range(coefficients.shape[0]):
            coefficients[role, group, at] = slope * (mean - coefficients[role, group, 0])
            centres[role, group, at] = expected
        for k in range(arms):
            if planned[k, group] > 0.0:
                role = _role(model, state, slot, bet, k, rival)
                weight_of_one = coefficients[role, group, at]
                most = weight_of_one * (expected - (low if weight_of_one > 0.0 else high))
                ruin = max(ruin, losses[role, group] + most)
        block += seen.explained[group] * square(weight) / pulls
        if known > 0.0:
            earlier += seen.explained[group] * square(weight) / known
    return block, earlier, (_RELIEF * ruin if adjusts else ruin)


@inlined
def _role(model: Model, state: State, slot: int, bet: int, arm: int, rival: int) -> int:
    """Return the role of an arm in a bet of a block against a rival, or on the target itself."""
    if arm == target_of(state, slot, bet):
        return TARGET
    if arm == rival:
        return RIVAL
    return CONTROL if arm == model.control else OTHER


# -------------------------------------------------------------------------------- results


@inlined
def prediction_in_bet(state: State, slot: int, value: float, weight: float, centre: float) -> float:
    """Return a prediction as a bet counts it: cut to the range that was frozen for the block."""
    low, high = state.clip[slot, 0], state.clip[slot, 1]
    if value == MISSING:
        return centre
    if math.isnan(value):
        return low if weight > 0.0 else high
    return min(max(value, low), high)


@inlined
def add_adjusted(
    model: Model, state: State, slot: int, cell: int, values: Floats, sign: float
) -> None:
    """Add a pull's reward minus its guess to the sums of its block; NaN is a lost reward.

    The guess of a pull that was never made is unknown.
    """
    group = cell % state.pulls.shape[1]
    frozen, sums = state.guess[slot, group], state.adjusted[slot, cell]
    reward, prediction = values[0], values[values.size - 1]
    if math.isnan(prediction):
        return
    guess = frozen[MEAN]
    if prediction != MISSING:
        own = min(max(prediction, state.clip[slot, 0]), state.clip[slot, 1])
        guess += frozen[SLOPE] * (own - frozen[EXPECTED])
    guess = min(max(guess, model.low[0]), model.high[0])
    if math.isnan(reward):
        sums[LOST] += sign
        sums[LOST_GUESS] += sign * guess
        sums[LOST_SQUARED] += sign * square(guess)
    else:
        sums[OFF] += sign * (reward - guess)
        sums[OFF_SQUARED] += sign * square(reward - guess)


@inlined
def note_reach(state: State, prediction: float) -> None:
    """Note how far predictions reach."""
    state.reach[0] = min(state.reach[0], prediction)
    state.reach[1] = max(state.reach[1], prediction)
