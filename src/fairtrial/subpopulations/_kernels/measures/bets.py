"""The bets of a block if a pull gives several measures: how they are frozen, moved and paid.

The score of a pull in a bet is one number, the sum of coefficients times measures. Results for one
measure therefore apply to it, however the measures of a pull depend on each other.
"""

import math

import numpy as np

from fairtrial.confidence.block_betting.bets import (
    GRID,
    NO_BET,
    correct_bet,
    freeze_stakes,
    known_noise_gain,
    multiply_bet,
    pay_bounded,
    value_in_bet,
)
from fairtrial.confidence.block_betting.book import (
    begin_bets,
    is_wanted,
    limit_ledger,
    own_ledger,
    pair_ledger,
)
from fairtrial.confidence.block_betting.planned_end import (
    NOBODY,
    End,
    aim_bet,
    is_lacking,
    leaves_tie,
    target_of,
)
from fairtrial.core.arithmetic import square
from fairtrial.core.compilation import kernel, uncounted
from fairtrial.subpopulations._kernels.block_state import Rules
from fairtrial.subpopulations._kernels.measures.items import (
    Programmes,
    Work,
    along_limit,
    item_value,
    pull_beside,
    pull_on,
    variance_of_limit,
)
from fairtrial.subpopulations._kernels.measures.model import (
    BOUNDED,
    NO_CONTROL,
    SCALES,
    Floats,
    Model,
    Seen,
    end_measure,
    first_measure,
    is_relative,
    outcomes_of,
    part_in_limit,
    weight_in_limit,
)
from fairtrial.subpopulations._kernels.measures.predictions import (
    add_predictions,
    prediction_in_bet,
)
from fairtrial.subpopulations._kernels.measures.state import (
    CONTROL,
    OTHER,
    RIVAL,
    TARGET,
    State,
)

# ----------------------------------------------------------------------- freezing bets


@uncounted(error_model="numpy")
def place_bets(
    model: Model,
    rules: Rules,
    state: State,
    slot: int,
    seen: Seen,
    programmes: Programmes,
    work: Work,
    end: End,
) -> None:
    """Freeze the bets of a block: one on each live rival, one on each limit of the leader.

    With a planned end, one is on the leader itself, as the rival of the runner-up.
    """
    arms, groups = state.pulls.shape
    leader, bets = state.target[slot], state.bets
    begin_bets(state.book, bets, slot, leader)
    planned = state.blocks.planned[slot].reshape((arms, groups))
    for bet in range(bets.number[slot]):
        _clear(state, slot, bet)
        if bet == leader and state.runner_up[slot] != NOBODY and is_lacking(end, bet):
            _bet_on_gap(model, state, slot, bet, seen, planned, work, end)
        if not (is_wanted(state.book, bet, leader, rules.separately) and is_lacking(end, bet)):
            continue
        if bet < arms:
            item_value(programmes, bet, leader, planned, work)
            _bet_on_rival(model, state, slot, bet, seen, planned, work, end)
            if leaves_tie(state, slot, bet, end):
                _bet_on_gap(model, state, slot, bet, seen, planned, work, end)
            continue
        variance = variance_of_limit(programmes, bet - arms, leader, planned)
        if 0.0 < variance < math.inf:
            _bet_on_limit(model, state, slot, bet - arms, seen, planned, variance, work, end)


@uncounted
def _clear(state: State, slot: int, bet: int) -> None:
    state.coefficients[slot, bet] = 0.0
    state.centres[slot, bet] = 0.0


@uncounted(error_model="numpy")
def _bet_on_rival(
    model: Model, state: State, slot: int, k: int, seen: Seen, planned: Floats, work: Work, end: End
) -> None:
    """Freeze the bet against "k keeps its limits and is at least as good as the leader".

    The coefficients are built from the multipliers as in the proof, so the effect is at most 0
    under the null even if the solver is inexact.

    If limits refer to a control, or if predictions of all arms count, the bets of a block share
    pulls and must not be multiplied. In a block whose target is an arm, all evidence against k then
    goes into the ledger of the pair.
    """
    arms, groups = planned.shape
    leader = state.target[slot]
    multiplier = work.multipliers[k, 0]
    coefficients, centres = state.coefficients[slot, k], state.centres[slot, k]
    constant = multiplier * model.tolerance
    for r in range(model.signs.size):
        if work.multipliers[k, r + 1] > 0.0:
            constant += work.multipliers[k, r + 1] * model.bounds[k, r]
    for group in range(groups):
        scale = multiplier * model.weights[group]
        if pull_on(model, work.multipliers, k, group, work.pull):
            for m in range(work.pull.size):
                coefficients[RIVAL, group, m] = -work.pull[m]
                moved = 0.0
                for other in range(work.pull.size):
                    moved += seen.covariances[k, group, m, other] * work.pull[other]
                centres[RIVAL, group, m] = moved / planned[k, group]
        if scale > 0.0:
            for m in range(work.pull.size):
                coefficients[TARGET, group, m] = scale * model.objective[m]
                moved = -scale * seen.pulled[leader, group, m] / planned[leader, group]
                centres[TARGET, group, m] = moved
        if model.control != NO_CONTROL:
            _add_control(model, state, slot, k, group, seen, planned, work)
    shares_pulls = model.control != NO_CONTROL or model.predicted > 0
    is_pair = leader < arms and (multiplier > 0.0 or shares_pulls)
    state.bets.ledger[slot, k] = pair_ledger(state.book, k, leader) if is_pair else own_ledger(k)
    state.constant[slot, k] = constant
    _freeze(model, state, slot, k, k, seen, planned, work, end)


@uncounted(error_model="numpy")
def _bet_on_gap(
    model: Model, state: State, slot: int, k: int, seen: Seen, planned: Floats, work: Work, end: End
) -> None:
    """Freeze the bet against "k is at least as good as the target", whatever limits they have."""
    target = target_of(state, slot, k)
    _clear(state, slot, k)
    gap = model.tolerance + seen.quality[target] - seen.quality[k]
    variance = 0.0
    for group in range(model.weights.size):
        for arm in (target, k):
            spread = square(model.weights[group]) * seen.spread[arm, group]
            variance += spread / max(1.0, planned[arm, group])
    for role in (TARGET, RIVAL):
        arm, sign = (target, 1.0) if role == TARGET else (k, -1.0)
        for group in range(model.weights.size):
            weight = sign * model.weights[group]
            # To the nearest means without a gap.
            away = gap * weight / (variance * max(1.0, planned[arm, group]))
            for m in range(model.objective.size):
                state.coefficients[slot, k, role, group, m] = weight * model.objective[m]
                state.centres[slot, k, role, group, m] = -away * seen.pulled[arm, group, m]
    state.bets.ledger[slot, k] = pair_ledger(state.book, k, target)
    state.book.led[target] = 1
    state.constant[slot, k] = model.tolerance
    _freeze(model, state, slot, k, k, seen, planned, work, end)


@uncounted(error_model="numpy")
def _add_control(
    model: Model,
    state: State,
    slot: int,
    k: int,
    group: int,
    seen: Seen,
    planned: Floats,
    work: Work,
) -> None:
    """Add the control's means in a group to the bet on a rival; the control may be the leader."""
    if not pull_beside(model, work.multipliers, k, group, work.pull):
        return
    control = model.control
    role = TARGET if control == state.target[slot] else CONTROL
    for m in range(work.pull.size):
        moved = 0.0
        for other in range(work.pull.size):
            moved += seen.covariances[control, group, m, other] * work.pull[other]
        state.coefficients[slot, k, role, group, m] += work.pull[m]
        state.centres[slot, k, role, group, m] -= moved / planned[control, group]


@uncounted(error_model="numpy")
def _bet_on_limit(
    model: Model,
    state: State,
    slot: int,
    r: int,
    seen: Seen,
    planned: Floats,
    variance: float,
    work: Work,
    end: End,
) -> None:
    """Freeze the bet against "the leader breaks limit r"; `variance`: of the block's estimate."""
    arms, groups = planned.shape
    leader = state.target[slot]
    bet = arms + r
    distance = seen.failed[leader, r]
    for role in (TARGET, CONTROL):
        if role == CONTROL and not is_relative(model, r):
            continue
        arm, sign = (leader, 1.0) if role == TARGET else (model.control, -1.0)
        for group in range(groups):
            part = part_in_limit(model, r, group)
            if part == 0.0:
                continue
            for m in range(first_measure(model, r), end_measure(model, r)):
                weight = sign * part * weight_in_limit(model, r, m) / variance
                state.coefficients[slot, bet, role, group, m] = weight
            weight = sign * part * model.signs[r] / variance
            for other in range(model.objective.size):
                spread = along_limit(model, seen, arm, group, r, other)
                moved = weight * distance * spread / planned[arm, group]
                state.centres[slot, bet, role, group, other] = moved
    state.bets.ledger[slot, bet] = limit_ledger(state.book, leader, r)
    state.constant[slot, bet] = -model.bounds[leader, r] / variance
    _freeze(model, state, slot, bet, leader, seen, planned, work, end)


@uncounted
def mean_in_bet(seen: Seen, k: int, group: int, m: int, weight: float) -> float:
    """Return a mean as a bet sees it: missing values count as the worst for its weight."""
    return seen.lowest[k, group, m] if weight > 0.0 else seen.highest[k, group, m]


@uncounted(error_model="numpy")
def _freeze(
    model: Model,
    state: State,
    slot: int,
    bet: int,
    rival: int,
    seen: Seen,
    planned: Floats,
    work: Work,
    end: End,
) -> None:
    """Freeze a bet on the sum of coefficients times means, plus a constant.

    On entry, `coefficients` are weights of means. They stay so for known noise; for ranges they are
    converted to weights per pull. On entry, `centres` are the moves of the means to the
    alternative.
    """
    groups, measures = model.weights.size, model.objective.size
    bets = state.bets
    coefficients, centres = state.coefficients[slot, bet], state.centres[slot, bet]
    effect = at_centre = state.constant[slot, bet]
    earlier = inside = ruin = 0.0
    work.losses[:] = 0.0
    for role in range(min(OTHER, coefficients.shape[0])):
        arm = _arm_of_role(model, state, slot, bet, role, rival)
        for group in range(groups):
            if not _has_part(coefficients, role, group):
                continue
            count = planned[arm, group]
            if count == 0.0:
                bets.ledger[slot, bet] = NO_BET
                return
            off = loss = 0.0
            for m in range(measures):
                weight = coefficients[role, group, m]
                if weight == 0.0:
                    continue
                mean = mean_in_bet(seen, arm, group, m, weight)
                centre = mean + centres[role, group, m]
                if model.predicted:
                    # An estimated mean, less what predictions explain, can leave the range.
                    centre = min(max(centre, model.low[m]), model.high[m])
                centres[role, group, m] = centre
                effect += weight * mean
                at_centre += weight * centre
                off += weight * (mean - centre)
                loss += weight * (centre - (model.low[m] if weight > 0.0 else model.high[m]))
            earlier += _variance_so_far(
                model, state, seen, arm, group, coefficients[role, group], work.pull
            )
            spread = _proxy(model, seen, arm, group, coefficients[role, group])
            if model.noise == BOUNDED:
                inside += (spread + square(off)) / count
                ruin = max(ruin, loss / count)
                work.losses[role, group] = loss / count
                for m in range(measures):
                    coefficients[role, group, m] /= count
            else:
                inside += spread / count
    if model.predicted:
        in_block, so_far, ruin = add_predictions(
            model, state, slot, bet, rival, seen, planned, work.losses, work.pull
        )
        inside += in_block
        earlier += so_far
    if not 0.0 < earlier < math.inf or inside <= 0.0:
        bets.ledger[slot, bet] = NO_BET
        return
    bets.estimate[slot, bet] = effect / math.sqrt(earlier)
    bets.variance[slot, bet] = earlier
    aim_bet(bets, slot, bet, inside, end)
    if model.noise == BOUNDED:
        freeze_stakes(bets, slot, bet, at_centre, inside, ruin)


@uncounted
def _has_part(coefficients: Floats, role: int, group: int) -> bool:
    found = False
    for m in range(coefficients.shape[2]):
        found = found or coefficients[role, group, m] != 0.0
    return found


@uncounted
def _proxy(model: Model, seen: Seen, k: int, group: int, weights: Floats) -> float:
    """Return the variance, or a bound on it, of the weighted measures of a pull."""
    if model.noise == SCALES:
        scale = 0.0
        for m in range(weights.size):
            scale += abs(weights[m]) * model.scales[k, group, m]
        return square(scale)
    found = 0.0
    for m in range(weights.size):
        for other in range(weights.size):
            found += weights[m] * seen.covariances[k, group, m, other] * weights[other]
    return max(0.0, found)


@uncounted(error_model="numpy")
def _variance_so_far(
    model: Model, state: State, seen: Seen, k: int, group: int, weights: Floats, shrunk: Floats
) -> float:
    """Return a bound on the variance of the weighted means of the values so far.

    Measures can differ in their numbers of values. `shrunk`: work space, one number per measure.
    """
    for m in range(weights.size):
        shrunk[m] = 0.0
        if weights[m] != 0.0:
            shrunk[m] = weights[m] / math.sqrt(state.counts[k, group, m, m])
    return _proxy(model, seen, k, group, shrunk)


# ------------------------------------------------------------------------- moving bets


@uncounted
def _arm_of_role(model: Model, state: State, slot: int, bet: int, role: int, rival: int) -> int:
    """Return the arm that has a role in a bet against a rival."""
    if role == CONTROL:
        return model.control
    return target_of(state, slot, bet) if role == TARGET else rival


@uncounted
def role_in_bet(model: Model, state: State, slot: int, bet: int, cell: int) -> int:
    """Return the role of a cell's arm in a bet; -1 if there is no bet or the arm is not in it."""
    arms, groups = state.pulls.shape
    if state.bets.ledger[slot, bet] == NO_BET:
        return -1
    arm = cell // groups
    if arm == target_of(state, slot, bet):
        return TARGET
    if arm == bet and bet < arms:
        return RIVAL
    if arm == model.control:
        return CONTROL
    return OTHER if model.predicted else -1


@uncounted
def is_used(model: Model, state: State, slot: int, cell: int, m: int) -> bool:
    """Return whether a bet of a block uses a measure of a cell."""
    group = cell % state.pulls.shape[1]
    for bet in range(state.bets.number[slot]):
        role = role_in_bet(model, state, slot, bet, cell)
        if role >= 0 and state.coefficients[slot, bet, role, group, m] != 0.0:
            return True
    return False


@uncounted
def is_bet_on(model: Model, state: State, slot: int, cell: int) -> bool:
    """Return whether a cell's results move a bet of a block."""
    found = False
    for m in range(state.values.shape[2]):
        found = found or is_used(model, state, slot, cell, m)
    return found


@uncounted
def step_in_bet(
    model: Model, state: State, slot: int, bet: int, role: int, group: int, values: Floats
) -> float:
    """Return a pull's score in a bet minus that of its centre; NaN counts as the worst value."""
    found = 0.0
    for m in range(values.size):
        weight = state.coefficients[slot, bet, role, group, m]
        if weight != 0.0:
            centre = state.centres[slot, bet, role, group, m]
            if m >= outcomes_of(model):
                p = m - outcomes_of(model)
                value = prediction_in_bet(state, slot, p, values[m], weight, centre)
            else:
                value = value_in_bet(values[m], model.low[m], model.high[m], weight)
            found += weight * (value - centre)
    return found


@uncounted
def _is_in_bet(state: State, slot: int, bet: int, role: int, group: int) -> bool:
    found = False
    for m in range(state.values.shape[2]):
        found = found or state.coefficients[slot, bet, role, group, m] != 0.0
    return found


@uncounted
def multiply_bets(model: Model, state: State, slot: int, cell: int, values: Floats) -> None:
    """Multiply a pull's factor into every bet that uses it; NaN is a missing value."""
    group = cell % state.pulls.shape[1]
    for bet in range(state.bets.number[slot]):
        role = role_in_bet(model, state, slot, bet, cell)
        if role >= 0 and _is_in_bet(state, slot, bet, role, group):
            step = step_in_bet(model, state, slot, bet, role, group, values)
            multiply_bet(state.bets, slot, bet, step)


@kernel
def correct_bets(
    model: Model, state: State, slot: int, cell: int, old: Floats, new: Floats
) -> None:
    """Replace a pull's factor in every bet that uses it."""
    group = cell % state.pulls.shape[1]
    for bet in range(state.bets.number[slot]):
        role = role_in_bet(model, state, slot, bet, cell)
        if role >= 0:
            before = step_in_bet(model, state, slot, bet, role, group, old)
            after = step_in_bet(model, state, slot, bet, role, group, new)
            if before != after:
                correct_bet(state.bets, slot, bet, before, after)


@kernel
def divide_bets(model: Model, state: State, slot: int, cell: int, values: Floats) -> None:
    """Take a pull's factor out of every bet that uses it."""
    group = cell % state.pulls.shape[1]
    for bet in range(state.bets.number[slot]):
        role = role_in_bet(model, state, slot, bet, cell)
        if role >= 0:
            step = step_in_bet(model, state, slot, bet, role, group, values)
            correct_bet(state.bets, slot, bet, step, 0.0)


# ------------------------------------------------------------------------- paying bets


@kernel
def pay_bets(model: Model, state: State, slot: int) -> None:
    """Add the winnings of a complete block's bets to their ledgers."""
    if model.noise == BOUNDED:
        pay_bounded(state.bets, slot, state.book.ledgers)
        return
    for bet in range(state.bets.number[slot]):
        ledger = state.bets.ledger[slot, bet]
        if ledger != NO_BET:
            state.book.ledgers[ledger] += _known_noise_gain(model, state, slot, bet)


@kernel
def _known_noise_gain(model: Model, state: State, slot: int, bet: int) -> float:
    """Return the payment of a bet under known noise, from the values that arrived.

    Each measure counts by its own mean in the block. A pull's score is therefore the sum of its
    values, each weighted by the inverse number of values of its measure.
    """
    groups, measures = model.weights.size, model.objective.size
    effect = state.constant[slot, bet]
    variance = 0.0
    weights = np.empty(measures)
    for role in range(state.coefficients.shape[2]):
        arm = _arm_of_role(model, state, slot, bet, role, bet)
        for group in range(groups):
            if not _is_in_bet(state, slot, bet, role, group):
                continue
            cell = arm * groups + group
            for m in range(measures):
                weights[m] = state.coefficients[slot, bet, role, group, m]
                if weights[m] == 0.0:
                    continue
                number = state.pairs[slot, cell, m, m]
                if number == 0.0:
                    return 0.0
                effect += weights[m] * state.values[slot, cell, m] / number
                weights[m] /= number
            variance += _proxy_of_block(model, state, slot, arm, group, weights)
    if variance <= 0.0:
        # A stated covariance can be singular: then only rounding made the bet seem risky.
        return 0.0
    return known_noise_gain(state.bets, slot, bet, effect, variance, np.empty(GRID))


@kernel
def _proxy_of_block(
    model: Model, state: State, slot: int, k: int, group: int, weights: Floats
) -> float:
    """Return the variance proxy of the weighted sums of values from a cell's pulls."""
    cell = k * state.pulls.shape[1] + group
    found = 0.0
    for m in range(weights.size):
        for other in range(weights.size):
            number = state.pairs[slot, cell, m, other]
            if model.noise == SCALES:
                both = abs(weights[m] * weights[other])
                both *= model.scales[k, group, m] * model.scales[k, group, other]
            else:
                both = weights[m] * weights[other] * model.covariances[k, group, m, other]
            found += number * both
    return max(0.0, found)
