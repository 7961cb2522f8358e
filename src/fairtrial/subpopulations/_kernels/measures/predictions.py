"""What predictions that are known before the arm add to estimates, plans and bets.

Each is a prediction of one measure of a pull. Within a group all arms have the same mean
prediction, whatever it is. A bet may therefore subtract any combination of predictions whose
weights sum to zero over the pulls of a group; if that mean is known, any combination of their
distances from it. What is left of the measures varies less, and their means in the bet stay the
same. Proof: docs/explanation/predictions.md.
"""

import math

from fairtrial.confidence.block_betting.planned_end import target_of
from fairtrial.core.arithmetic import square
from fairtrial.core.compilation import kernel, uncounted
from fairtrial.subpopulations._kernels.block_plans import PRIOR_PULLS
from fairtrial.subpopulations._kernels.measures.model import (
    Floats,
    Model,
    Seen,
    measure_of,
    outcomes_of,
    prediction_of,
)
from fairtrial.subpopulations._kernels.measures.state import (
    CONTROL,
    EXPECTED,
    LOST,
    LOST_GUESS,
    LOST_SQUARED,
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

LARGEST_CORRELATION = 0.999
"""Largest estimated correlation that is used; data cannot support larger ones."""

_RELIEF = 0.5
"""Part of the largest loss of a pull that counts for stakes: adjusted bets may risk twice as much
as others, because the range limits them long before ruin does."""


# ------------------------------------------------------------------------ the regression


@uncounted
def fit_predictions(model: Model, state: State, seen: Seen) -> None:
    """Fill the slopes, the mean predictions and what they explain in every group."""
    groups = state.pulls.shape[1]
    for group in range(groups):
        for p in range(model.predicted):
            _fit_prediction(model, state, seen, p, group)
        for p in range(model.predicted):
            for q in range(p):
                both = _explained_by_both(model, state, seen, p, q, group)
                seen.explained[group, p, q] = seen.explained[group, q, p] = both


@uncounted
def _fit_prediction(model: Model, state: State, seen: Seen, p: int, group: int) -> None:
    """Fill the slope on a prediction in a group, its mean, and the variance that it explains."""
    at, m = outcomes_of(model) + p, measure_of(model, p)
    width = model.high[at] - model.low[at]
    number = total = both = spread = 0.0
    for k in range(state.pulls.shape[0]):
        count = state.counts[k, group, at, at]
        if count == 0.0:
            continue
        mean = state.sums[k, group, at] / count
        number += count
        total += state.sums[k, group, at]
        both += _shared(state, k, group, m, at)
        spread += state.products[k, group, at, at] - count * square(mean)
    slope = 0.0
    if spread > _CONSTANT * number * square(width):
        slope = both / (spread + _SHRINKAGE * square(width))
        if not math.isnan(model.slopes[p]):
            slope = model.slopes[p]
    middle = 0.5 * (model.low[at] + model.high[at])
    seen.slopes[p, group] = slope
    seen.expected[p, group] = total / number if number > 0.0 else middle
    seen.explained[group, p, p] = square(slope) * spread / max(1.0, number)
    if _is_known(model, p, group):
        # Nothing of it has to be estimated.
        seen.expected[p, group] = model.known_means[p, group]
        seen.explained[group, p, p] = 0.0


@uncounted
def _explained_by_both(model: Model, state: State, seen: Seen, p: int, q: int, group: int) -> float:
    """Return the covariance of two predictions times their slopes, within the arms of a group."""
    first, second = outcomes_of(model) + p, outcomes_of(model) + q
    number = total = 0.0
    for k in range(state.pulls.shape[0]):
        count = state.counts[k, group, first, second]
        if count > 0.0:
            means = state.sums[k, group, first] / state.counts[k, group, first, first]
            means *= state.sums[k, group, second] / state.counts[k, group, second, second]
            number += count
            total += state.products[k, group, first, second] - count * means
    both = seen.slopes[p, group] * seen.slopes[q, group] * total / max(1.0, number)
    most = math.sqrt(seen.explained[group, p, p] * seen.explained[group, q, q])
    return min(max(both, -most), most)


@uncounted
def _is_known(model: Model, p: int, group: int) -> bool:
    """Return whether the mean of a prediction is stated for a group."""
    return not math.isnan(model.known_means[p, group])


@uncounted
def _shared(state: State, k: int, group: int, m: int, at: int) -> float:
    """Return the sum of products of the deviations of a measure and its prediction from means."""
    count = max(1.0, state.counts[k, group, m, m])
    mean = state.sums[k, group, m] / count
    return state.products[k, group, m, at] - mean * state.sums[k, group, at]


@uncounted
def adjust_estimates(model: Model, state: State, seen: Seen) -> None:
    """Replace means and covariances of measures by those of measures minus their predictions.

    Nothing else of the predictions is left in the estimates: plans and directions then are those of
    the measures.
    """
    fit_predictions(model, state, seen)
    arms, groups = state.pulls.shape
    for k in range(arms):
        for group in range(groups):
            for m in range(outcomes_of(model)):
                for other in range(m):
                    _adjust_pair(model, seen, k, group, m, other)
            for p in range(model.predicted):
                _adjust_measure(model, state, seen, k, group, p)
            for m in range(outcomes_of(model)):
                for other in range(m):
                    _limit_correlation(seen, k, group, m, other)
            for at in range(outcomes_of(model), model.objective.size):
                for m in range(model.objective.size):
                    seen.covariances[k, group, m, at] = seen.covariances[k, group, at, m] = 0.0


@uncounted
def _adjust_pair(model: Model, seen: Seen, k: int, group: int, m: int, other: int) -> None:
    """Replace the covariance of two measures by that of what their predictions leave."""
    p, q = prediction_of(model, m), prediction_of(model, other)
    at, other_at = outcomes_of(model) + p, outcomes_of(model) + q
    known = seen.covariances[k, group]
    found = known[m, other]
    if p >= 0:
        found -= seen.slopes[p, group] * known[at, other]
    if q >= 0:
        found -= seen.slopes[q, group] * known[m, other_at]
    if p >= 0 and q >= 0:
        found += seen.slopes[p, group] * seen.slopes[q, group] * known[at, other_at]
    known[m, other] = known[other, m] = found


@uncounted
def _adjust_measure(model: Model, state: State, seen: Seen, k: int, group: int, p: int) -> None:
    """Replace mean and variance of a predicted measure by those of what its prediction leaves."""
    at, m = outcomes_of(model) + p, measure_of(model, p)
    width = model.high[m] - model.low[m]
    count, known = state.counts[k, group, m, m], state.counts[k, group, at, at]
    slope = seen.slopes[p, group]
    spread = 0.0
    if known > 0.0:
        off = state.sums[k, group, at] - known * seen.expected[p, group]
        mean = seen.means[k, group, m] - slope * off / count
        seen.means[k, group, m] = min(max(mean, model.low[m]), model.high[m])
        spread = state.products[k, group, at, at]
        spread -= square(state.sums[k, group, at]) / known
        spread = square(slope) * spread - 2.0 * slope * _shared(state, k, group, m, at)
    spread += state.products[k, group, m, m]
    spread -= square(state.sums[k, group, m]) / max(count, 1e-300)
    spread = max(0.0, spread) + PRIOR_PULLS * square(width) / 4.0
    seen.covariances[k, group, m, m] = spread / (count + PRIOR_PULLS)


@uncounted
def _limit_correlation(seen: Seen, k: int, group: int, m: int, other: int) -> None:
    """Keep an adjusted covariance within what data can support."""
    own = seen.covariances[k, group, m, m] * seen.covariances[k, group, other, other]
    most = LARGEST_CORRELATION * math.sqrt(max(0.0, own))
    found = min(max(seen.covariances[k, group, m, other], -most), most)
    seen.covariances[k, group, m, other] = seen.covariances[k, group, other, m] = found


# ------------------------------------------------------------------------------ freezing


@uncounted
def freeze_fit(model: Model, state: State, slot: int, seen: Seen) -> None:
    """Freeze how a block cuts predictions, and how it guesses an objective from them."""
    groups = state.pulls.shape[1]
    for p in range(model.predicted):
        at = outcomes_of(model) + p
        any_known = False
        for group in range(groups):
            any_known = any_known or _is_known(model, p, group)
        clip = state.clip[slot, p]
        clip[0] = max(model.low[at], state.reach[p, 0])
        clip[1] = min(model.high[at], state.reach[p, 1])
        # A stated mean is that of predictions which are cut to the stated range.
        if any_known or clip[0] > clip[1]:
            clip[0], clip[1] = model.low[at], model.high[at]
        for group in range(groups):
            state.fits[slot, p, group, SLOPE] = seen.slopes[p, group]
            state.fits[slot, p, group, EXPECTED] = seen.expected[p, group]
    for group in range(groups):
        state.guess[slot, group] = 0.0
        for m in range(outcomes_of(model)):
            total = number = 0.0
            for k in range(state.pulls.shape[0]):
                total += state.counts[k, group, m, m] * seen.means[k, group, m]
                number += state.counts[k, group, m, m]
            middle = 0.5 * (model.low[m] + model.high[m])
            mean = total / number if number > 0.0 else middle
            state.guess[slot, group] += model.objective[m] * mean


@kernel
def guess_without_results(model: Model, state: State) -> None:
    """Guess the middle of each range until there are results."""
    middle = 0.0
    for m in range(outcomes_of(model)):
        middle += model.objective[m] * 0.5 * (model.low[m] + model.high[m])
    state.guess[:] = middle


@uncounted(error_model="numpy")
def add_predictions(
    model: Model,
    state: State,
    slot: int,
    bet: int,
    rival: int,
    seen: Seen,
    planned: Floats,
    losses: Floats,
    scratch: Floats,
) -> tuple[float, float, float]:
    """Freeze the weights of predictions in a bet, whose weights of measures are frozen.

    In every group, the weights of a prediction sum to zero over the pulls of the block, unless its
    mean is known. They are the ones that leave the least variance.

    Parameters
    ----------
    losses : array of shape (roles, L)
        The most that the measures of one pull can lose.
    scratch : array of shape (M,)
        Work space.

    Returns
    -------
    block, earlier, ruin : float
        What the predictions add to the variance of the block's effect and of its estimate so far,
        and the most that one pull can lose, with its predictions.
    """
    arms, groups = planned.shape
    first, number = outcomes_of(model), model.predicted
    coefficients, centres = state.coefficients[slot, bet], state.centres[slot, bet]
    # There are at most as many predictions as other measures.
    sums, so_far = scratch[:number], scratch[number : 2 * number]
    block = earlier = ruin = 0.0
    adjusts = False
    for group in range(groups):
        pulls = 0.0
        for k in range(arms):
            pulls += planned[k, group]
        if pulls == 0.0:
            continue
        for p in range(number):
            at, m = first + p, measure_of(model, p)
            weight = known = 0.0
            for k in range(arms):
                role = _role(model, state, slot, bet, k, rival)
                known += state.counts[k, group, at, at]
                weight += planned[k, group] * coefficients[role, group, m]
            slope = seen.slopes[p, group]
            mean = 0.0 if _is_known(model, p, group) else weight / pulls
            adjusts = adjusts or slope != 0.0
            for role in range(coefficients.shape[0]):
                coefficients[role, group, at] = slope * (mean - coefficients[role, group, m])
                centres[role, group, at] = seen.expected[p, group]
            sums[p] = weight
            so_far[p] = weight / math.sqrt(known) if known > 0.0 else 0.0
        for k in range(arms):
            if planned[k, group] > 0.0:
                role = _role(model, state, slot, bet, k, rival)
                lost = _most_lost(model, state, slot, bet, role, group)
                ruin = max(ruin, losses[role, group] + lost)
        block += _variance_of(seen, group, sums) / pulls
        earlier += _variance_of(seen, group, so_far)
    return block, earlier, (_RELIEF * ruin if adjusts else ruin)


@uncounted
def _most_lost(model: Model, state: State, slot: int, bet: int, role: int, group: int) -> float:
    """Return the most that the predictions of one pull can lose in a bet."""
    found = 0.0
    for p in range(model.predicted):
        at = outcomes_of(model) + p
        weight = state.coefficients[slot, bet, role, group, at]
        end = state.clip[slot, p, 0] if weight > 0.0 else state.clip[slot, p, 1]
        found += weight * (state.centres[slot, bet, role, group, at] - end)
    return found


@uncounted
def _variance_of(seen: Seen, group: int, weights: Floats) -> float:
    """Return the variance that predictions of a group explain of a sum of measures."""
    found = 0.0
    for p in range(weights.size):
        for q in range(weights.size):
            found += seen.explained[group, p, q] * (weights[p] * weights[q])
    return max(0.0, found)


@uncounted
def _role(model: Model, state: State, slot: int, bet: int, arm: int, rival: int) -> int:
    """Return the role of an arm in a bet of a block against a rival, or on the target itself."""
    if arm == target_of(state, slot, bet):
        return TARGET
    if arm == rival:
        return RIVAL
    return CONTROL if arm == model.control else OTHER


# -------------------------------------------------------------------------------- results


@uncounted
def prediction_in_bet(
    state: State, slot: int, p: int, value: float, weight: float, centre: float
) -> float:
    """Return a prediction as a bet counts it: cut to the range that was frozen for the block."""
    low, high = state.clip[slot, p, 0], state.clip[slot, p, 1]
    if value == MISSING:
        return centre
    if math.isnan(value):
        return low if weight > 0.0 else high
    return min(max(value, low), high)


@uncounted
def add_adjusted(
    model: Model, state: State, slot: int, cell: int, values: Floats, sign: float
) -> None:
    """Add a pull's objective minus its guess to the sums of its block; NaN is a lost objective.

    The guess of a pull that was never made is unknown.
    """
    sums = state.adjusted[slot, cell]
    guess = _guess_of(model, state, slot, cell % state.pulls.shape[1], values)
    if math.isnan(guess):
        return
    score = objective_of(model, values)
    if math.isnan(score):
        sums[LOST] += sign
        sums[LOST_GUESS] += sign * guess
        sums[LOST_SQUARED] += sign * square(guess)
    else:
        sums[OFF] += sign * (score - guess)
        sums[OFF_SQUARED] += sign * square(score - guess)


@uncounted
def _guess_of(model: Model, state: State, slot: int, group: int, values: Floats) -> float:
    """Return the guess of a pull's objective from its predictions, within the objective's range."""
    guess, low, high = state.guess[slot, group], 0.0, 0.0
    for p in range(model.predicted):
        value = values[outcomes_of(model) + p]
        if value != MISSING:
            own = min(max(value, state.clip[slot, p, 0]), state.clip[slot, p, 1])
            off = state.fits[slot, p, group, SLOPE] * (own - state.fits[slot, p, group, EXPECTED])
            guess += model.objective[measure_of(model, p)] * (
                off if not math.isnan(value) else value
            )
    for m in range(outcomes_of(model)):
        weight = model.objective[m]
        low += weight * (model.low[m] if weight > 0.0 else model.high[m])
        high += weight * (model.high[m] if weight > 0.0 else model.low[m])
    return guess if math.isnan(guess) else min(max(guess, low), high)


@uncounted
def objective_of(model: Model, values: Floats) -> float:
    """Return the objective of a pull; NaN if a measure of it is unknown."""
    score = 0.0
    for m in range(values.size):
        if model.objective[m] != 0.0:
            score += model.objective[m] * values[m]
    return score


@uncounted
def note_reach(state: State, p: int, prediction: float) -> None:
    """Note how far a prediction reaches."""
    state.reach[p, 0] = min(state.reach[p, 0], prediction)
    state.reach[p, 1] = max(state.reach[p, 1], prediction)
