"""The bets of a block: how they are frozen, moved by results, and paid."""

import math
from typing import NamedTuple

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
    rival_ledger,
)
from fairtrial.confidence.block_betting.exact_bets import log_exact_bet
from fairtrial.confidence.block_betting.planned_end import (
    NOBODY,
    End,
    aim_bet,
    is_lacking,
    leaves_tie,
    target_of,
)
from fairtrial.core.arithmetic import square, sum_of
from fairtrial.core.compilation import counted, inlined, kernel, uncounted
from fairtrial.subpopulations._kernels.block_losses import lift_by_losses
from fairtrial.subpopulations._kernels.block_state import (
    Estimates,
    Rules,
    State,
)
from fairtrial.subpopulations._kernels.control_limits import (
    CONTROL,
    RIVAL,
    ROLES,
    TARGET,
    alternative_at,
    difference_value,
    difference_weight,
    rival_value,
)
from fairtrial.subpopulations._kernels.model import (
    CEILING,
    FLOOR,
    NO_CONTROL,
    Floats,
    Model,
    divide,
    fill,
    limits_of_items,
)
from fairtrial.subpopulations._kernels.pitfalls import (
    Alternative,
    alternative_of,
    nearest_allowed,
    pair_value,
)

# ----------------------------------------------------------------------- freezing bets


class _Rivals(NamedTuple):
    """What the bets on all rivals of a block share, in a problem without a control."""

    precisions: Floats  # by the block's pulls, shape (K, G)
    nearest: Floats  # by rival, for both arms of its pair, shape (K, ROLES, G)
    alternative: Alternative


@uncounted
def place_bets(
    model: Model,
    rules: Rules,
    state: State,
    slot: int,
    seen: Estimates,
    end: End,
    precisions: Floats,
    nearest: Floats,
) -> None:
    """Freeze the bets of a block: one on each live rival, one on each limit of the leader.

    With a planned end, one is on the leader itself, as the rival of the runner-up. `precisions` and
    `nearest` are work space.
    """
    arms, groups = seen.means.shape
    leader, bets = state.target[slot], state.bets
    begin_bets(state.book, bets, slot, leader)
    if state.runner_up[slot] != NOBODY and is_lacking(end, leader):
        _bet_on_gap(model, rules, state, slot, leader, seen, end)
    rivals = _Rivals(precisions, nearest, alternative_of(model))
    divide(precisions, state.blocks.planned[slot].reshape((arms, groups)), seen.variances)
    for k in range(arms):
        fill(nearest[k], 0.0)
    for bet in range(bets.number[slot]):
        side, group = (bet - arms) // groups, (bet - arms) % groups
        if not (is_wanted(state.book, bet, leader, rules.separately) and is_lacking(end, bet)):
            continue
        if bet < arms:
            if model.control == NO_CONTROL:
                _bet_on_rival(model, rules, state, slot, bet, seen, end, rivals)
            else:
                _bet_on_rows(model, rules, state, slot, bet, seen, end)
            if leaves_tie(state, slot, bet, end):
                _bet_on_gap(model, rules, state, slot, bet, seen, end)
        elif side > CEILING:
            _bet_on_difference(model, rules, state, slot, bet, seen, end)
        elif state.blocks.planned[slot, leader * groups + group] > 0.0:
            _bet_on_limit(model, rules, state, slot, bet, seen, end)


@uncounted
def place_exact_bets(rules: Rules, state: State, slot: int, end: End) -> None:
    """Freeze the bets on two arms whose rewards are 0 or 1: one against each.

    They are paid from the block's numbers of ones. Of the past they use only a forecast: how much
    the scores of later blocks will vary.
    """
    begin_bets(state.book, state.bets, slot, state.target[slot])
    ones = sum_of(state.sums) - rules.low * sum_of(state.counts)
    share = (ones + 0.5) / (sum_of(state.counts) + 1.0)
    pulls = end.ahead * sum_of(state.blocks.planned[slot])
    for rival in range(state.book.stated.shape[0]):
        if not is_lacking(end, rival):
            continue
        target = 1 - rival
        fill(state.coefficients[slot, rival], 0.0)
        fill(state.centres[slot, rival], 0.0)
        state.coefficients[slot, rival, TARGET, 0] = 1.0
        state.coefficients[slot, rival, RIVAL, 0] = -1.0
        state.rival[slot, rival] = rival
        state.constant[slot, rival] = 0.0
        state.bets.ledger[slot, rival] = pair_ledger(state.book, rival, target)
        state.bets.need[slot, rival] = end.needs[rival]
        state.bets.later[slot, rival] = 0.25 * pulls * share * (1.0 - share)
        state.book.led[target] = 1


@uncounted
def _bet_on_rival(
    model: Model,
    rules: Rules,
    state: State,
    slot: int,
    k: int,
    seen: Estimates,
    end: End,
    rivals: _Rivals,
) -> None:
    """Freeze the bet against "k is feasible and at least as good as the leader".

    With a tolerance, the claim is that k is feasible and better by that tolerance. The coefficients
    are built from the multiplier and limit terms of the proof, so the effect is at most 0 under the
    null even if the solver is inexact.
    """
    means, precisions, lam = seen.means, rivals.precisions, rivals.nearest
    arms, groups = means.shape
    leader = state.target[slot]
    limits = model.rival_limits
    multiplier = 0.0
    if leader < arms:
        _, multiplier = pair_value(leader, k, means, precisions, rivals.alternative, lam, k)
    else:
        for group in range(groups):
            lam[k, 1, group] = nearest_allowed(means[k, group], limits, k, group)
    coefficients = state.coefficients[slot, k]
    centres = state.centres[slot, k]
    constant = multiplier * model.tolerance
    for group in range(groups):
        pull = multiplier * model.weights[group]
        up = 0.0
        floor = limits[FLOOR, k, group]
        if lam[k, 1, group] <= floor:
            up = max(0.0, precisions[k, group] * (floor - means[k, group]) - pull)
            constant += up * floor if up > 0.0 else 0.0
        down = 0.0
        ceiling = limits[CEILING, k, group]
        if lam[k, 1, group] >= ceiling:
            down = max(0.0, precisions[k, group] * (means[k, group] - ceiling) + pull)
            constant -= down * ceiling if down > 0.0 else 0.0
        coefficients[0, group] = pull
        coefficients[1, group] = down - (pull + up)
        centres[0, group] = lam[k, 0, group]
        centres[1, group] = lam[k, 1, group]
    is_pair = leader < arms and multiplier > 0.0
    state.bets.ledger[slot, k] = pair_ledger(state.book, k, leader) if is_pair else own_ledger(k)
    state.rival[slot, k] = k
    state.constant[slot, k] = constant
    _freeze(model, rules, state, slot, k, seen, 0.0, end)


@uncounted
def _bet_on_gap(
    model: Model, rules: Rules, state: State, slot: int, k: int, seen: Estimates, end: End
) -> None:
    """Freeze the bet against "k is at least as good as the target", whatever limits they have."""
    means, variances = seen.means, seen.variances
    target = target_of(state, slot, k)
    planned = state.blocks.planned[slot].reshape(means.shape)
    fill(state.coefficients[slot, k], 0.0)
    gap = model.tolerance
    variance = 0.0
    for group in range(means.shape[1]):
        weight = model.weights[group]
        gap += weight * (means[target, group] - means[k, group])
        for arm in (target, k):
            if weight > 0.0:
                variance += square(weight) * variances[arm, group] / max(1.0, planned[arm, group])
    for row in (TARGET, RIVAL):
        arm, sign = (target, 1.0) if row == TARGET else (k, -1.0)
        for group in range(means.shape[1]):
            weight = sign * model.weights[group]
            # To the nearest means without a gap.
            spread = variances[arm, group] / max(1.0, planned[arm, group])
            moved = means[arm, group] - gap / variance * weight * spread
            state.coefficients[slot, k, row, group] = weight
            state.centres[slot, k, row, group] = moved
    state.bets.ledger[slot, k] = pair_ledger(state.book, k, target)
    state.book.led[target] = 1
    state.rival[slot, k] = k
    state.constant[slot, k] = model.tolerance
    _freeze(model, rules, state, slot, k, seen, 0.0, end)


@counted
def _bet_on_rows(
    model: Model, rules: Rules, state: State, slot: int, k: int, seen: Estimates, end: End
) -> None:
    """Freeze the bet on a rival if limits refer to a control; rows use means of three arms.

    The bets of a block share the pulls of the control and must not be multiplied. In a block whose
    target is an arm, all evidence against k therefore goes into the ledger of the pair.
    """
    means = seen.means
    arms, groups = means.shape
    leader = state.target[slot]
    precisions = np.empty((arms, groups))
    divide(precisions, state.blocks.planned[slot].reshape((arms, groups)), seen.variances)
    lam = np.empty((arms, ROLES, groups))
    alternative = alternative_at(model, model.rival_limits, seen.control_means)
    _, constant = rival_value(
        leader, k, means, precisions, alternative, lam, k, state.coefficients[slot, k]
    )
    for role in range(ROLES):
        for group in range(groups):
            state.centres[slot, k, role, group] = lam[k, role, group]
    state.bets.ledger[slot, k] = rival_ledger(state.book, k, leader)
    state.rival[slot, k] = k
    state.constant[slot, k] = constant
    _freeze(model, rules, state, slot, k, seen, 0.0, end)


@uncounted
def _bet_on_limit(
    model: Model, rules: Rules, state: State, slot: int, bet: int, seen: Estimates, end: End
) -> None:
    """Freeze the bet against "the leader is beyond this limit of this cell"."""
    arms, groups = seen.means.shape
    leader = state.target[slot]
    side, group = (bet - arms) // groups, (bet - arms) % groups
    limit = model.own_limits[side, leader, group]
    # How far the mean seen by this bet is above the estimate.
    lift = lift_by_losses(rules, state, leader, group) if side == CEILING else 0.0
    fill(state.coefficients[slot, bet], 0.0)
    fill(state.centres[slot, bet], 0.0)
    weight = state.blocks.planned[slot, leader * groups + group] / seen.variances[leader, group]
    if side == CEILING:
        weight = -weight
    state.coefficients[slot, bet, 0, group] = weight
    state.centres[slot, bet, 0, group] = limit
    state.bets.ledger[slot, bet] = limit_ledger(state.book, leader, bet - arms)
    state.rival[slot, bet] = leader
    state.constant[slot, bet] = -weight * limit
    _freeze(model, rules, state, slot, bet, seen, lift, end)


@counted(error_model="numpy")
def _bet_on_difference(
    model: Model, rules: Rules, state: State, slot: int, bet: int, seen: Estimates, end: End
) -> None:
    """Freeze the bet against "the leader is too far below the control" in a group, or overall."""
    means, variances = seen.means, seen.variances
    arms, groups = means.shape
    leader, control = state.target[slot], model.control
    side, group = (bet - arms) // groups, (bet - arms) % groups
    limits = limits_of_items(model, leader)
    precisions = np.empty((arms, groups))
    divide(precisions, state.blocks.planned[slot].reshape((arms, groups)), variances)
    alternative = alternative_at(model, limits, means[control])
    lam = np.zeros((arms, ROLES, groups))
    difference_value(leader, side, group, means, precisions, alternative, lam, leader)
    scale = 0.0
    for i in range(groups):
        weight = difference_weight(side, group, i, model.weights)
        if weight > 0.0:
            scale += (
                square(weight) / precisions[leader, i] + square(weight) / precisions[control, i]
            )
    fill(state.coefficients[slot, bet], 0.0)
    fill(state.centres[slot, bet], 0.0)
    for i in range(groups):
        weight = difference_weight(side, group, i, model.weights) / scale
        state.coefficients[slot, bet, TARGET, i] = weight
        state.coefficients[slot, bet, CONTROL, i] = -weight
        state.centres[slot, bet, TARGET, i] = lam[leader, TARGET, i]
        state.centres[slot, bet, CONTROL, i] = lam[leader, CONTROL, i]
    state.bets.ledger[slot, bet] = limit_ledger(state.book, leader, bet - arms)
    state.rival[slot, bet] = leader
    state.constant[slot, bet] = -limits[side, leader, group] / scale
    own = Estimates(means, means[control], variances)
    _freeze(model, rules, state, slot, bet, own, 0.0, end)


@uncounted
def _freeze(
    model: Model,
    rules: Rules,
    state: State,
    slot: int,
    bet: int,
    seen: Estimates,
    lift: float,
    end: End,
) -> None:
    """Freeze a bet on the sum of coefficients times means, plus a constant.

    On entry, `coefficients` are the weights of the cells' means. They stay so for known noise; for
    bounded rewards they are converted to weights per pull.
    """
    means, control_means = seen.means, seen.control_means
    groups = means.shape[1]
    bets = state.bets
    coefficients = state.coefficients[slot, bet]
    centres = state.centres[slot, bet]
    effect = state.constant[slot, bet]
    at_centre = effect
    earlier = 0.0
    inside = 0.0
    ruin = 0.0
    for row in range(coefficients.shape[0]):
        arm = _arm_in_bet(model, state, slot, bet, row)
        for group in range(groups):
            weight = coefficients[row, group]
            if weight == 0.0:
                continue
            count = state.blocks.planned[slot, arm * groups + group]
            if count == 0.0 or (state.counts[arm, group] == 0.0 and not rules.bounded):
                bets.ledger[slot, bet] = NO_BET
                return
            mean = control_means[group] if row == CONTROL else means[arm, group] + lift
            variance = seen.variances[arm, group]
            effect += weight * mean
            earlier += square(weight) * variance / max(1.0, state.counts[arm, group])
            if rules.bounded:
                centre = centres[row, group]
                at_centre += weight * centre
                per_pull = weight / count
                inside += count * square(per_pull) * (variance + square(mean - centre))
                loss = centre - rules.low if per_pull > 0.0 else centre - rules.high
                ruin = max(ruin, per_pull * loss)
                coefficients[row, group] = per_pull
            else:
                inside += square(weight) * variance / count
    if earlier <= 0.0 or inside <= 0.0:
        bets.ledger[slot, bet] = NO_BET
        return
    bets.estimate[slot, bet] = effect / math.sqrt(earlier)
    bets.variance[slot, bet] = earlier
    aim_bet(bets, slot, bet, inside, end)
    if rules.bounded:
        freeze_stakes(bets, slot, bet, at_centre, inside, ruin)


# ------------------------------------------------------------------------- moving bets


@inlined
def _arm_in_bet(model: Model, state: State, slot: int, bet: int, row: int) -> int:
    """Return the arm of a bet's row."""
    if row == CONTROL:
        return model.control
    return target_of(state, slot, bet) if row == TARGET else state.rival[slot, bet]


@inlined
def part_in_bet(model: Model, state: State, slot: int, bet: int, cell: int) -> tuple[float, float]:
    """Return weight and centre of a cell's results in a bet; the weight is 0 if it is not in it."""
    groups = state.counts.shape[1]
    arm, group = cell // groups, cell % groups
    weight = 0.0
    centre = 0.0
    if state.bets.ledger[slot, bet] != NO_BET:
        if arm == target_of(state, slot, bet):
            row = TARGET
        elif arm == state.rival[slot, bet]:
            row = RIVAL
        else:
            row = CONTROL
        if row != CONTROL or arm == model.control:
            weight = state.coefficients[slot, bet, row, group]
            centre = state.centres[slot, bet, row, group]
    return weight, centre


@inlined
def is_bet_on(model: Model, state: State, slot: int, cell: int) -> bool:
    """Return whether a cell's results move a bet of a block."""
    for bet in range(state.bets.number[slot]):
        weight, _ = part_in_bet(model, state, slot, bet, cell)
        if weight != 0.0:
            return True
    return False


@inlined
def result_moves_bets(rules: Rules) -> bool:
    """Return whether each result moves bets; otherwise these are paid from the block's sums."""
    return rules.bounded and not rules.exact


@inlined
def multiply_bets(
    model: Model, rules: Rules, state: State, slot: int, cell: int, reward: float
) -> None:
    """Multiply a result's factor into every bet that uses its cell; it may be `LOST`."""
    for bet in range(state.bets.number[slot]):
        weight, centre = part_in_bet(model, state, slot, bet, cell)
        if weight != 0.0:
            value = value_in_bet(reward, rules.low, rules.high, weight)
            multiply_bet(state.bets, slot, bet, weight * (value - centre))


@kernel
def correct_bets(
    model: Model, rules: Rules, state: State, slot: int, cell: int, old: float, new: float
) -> None:
    """Replace a result's factor in every bet that uses its cell; it may have been `LOST`."""
    for bet in range(state.bets.number[slot]):
        weight, centre = part_in_bet(model, state, slot, bet, cell)
        if weight != 0.0:
            before = value_in_bet(old, rules.low, rules.high, weight)
            correct_bet(state.bets, slot, bet, weight * (before - centre), weight * (new - centre))


# ------------------------------------------------------------------------- paying bets


@uncounted
def pay_bets(model: Model, rules: Rules, state: State, slot: int) -> None:
    """Add the winnings of a complete block's bets to their ledgers."""
    if rules.exact:
        _pay_exact_bets(rules, state, slot)
    elif rules.bounded:
        pay_bounded(state.bets, slot, state.book.ledgers)
    else:
        _pay_known_noise(model, state, slot)


@counted
def _pay_known_noise(model: Model, state: State, slot: int) -> None:
    values = np.empty(GRID)
    for bet in range(state.bets.number[slot]):
        ledger = state.bets.ledger[slot, bet]
        if ledger != NO_BET:
            state.book.ledgers[ledger] += _known_noise_gain(model, state, slot, bet, values)


@uncounted
def _pay_exact_bets(rules: Rules, state: State, slot: int) -> None:
    """Pay the bets on two arms whose rewards are 0 or 1; a missing result counts as its worst."""
    blocks = state.blocks
    for rival in range(state.bets.number[slot]):
        ledger = state.bets.ledger[slot, rival]
        if ledger == NO_BET:
            continue
        target = 1 - rival
        missing = blocks.planned[slot, rival] - blocks.results[slot, rival]
        state.book.ledgers[ledger] += log_exact_bet(
            state.bets.need[slot, rival],
            state.bets.later[slot, rival],
            int(blocks.planned[slot, target]),
            int(blocks.planned[slot, rival]),
            _ones(rules, state, slot, target),
            _ones(rules, state, slot, rival) + int(missing),
        )


@inlined
def _ones(rules: Rules, state: State, slot: int, cell: int) -> int:
    """Return how many rewards of a cell were the better one of 0 and 1."""
    blocks = state.blocks
    return int(blocks.sums[slot, cell] - rules.low * blocks.results[slot, cell] + 0.5)


@uncounted
def _known_noise_gain(model: Model, state: State, slot: int, bet: int, values: Floats) -> float:
    """Return the payment of a bet under known noise, from the results that arrived."""
    effect = state.constant[slot, bet]
    variance = 0.0
    groups = model.weights.size
    for row in range(state.coefficients.shape[2]):
        arm = _arm_in_bet(model, state, slot, bet, row)
        for group in range(groups):
            weight = state.coefficients[slot, bet, row, group]
            if weight != 0.0:
                cell = arm * groups + group
                results = state.blocks.results[slot, cell]
                if results == 0.0:
                    return 0.0
                effect += weight * state.blocks.sums[slot, cell] / results
                variance += square(weight) * model.variances[arm, group] / results
    return known_noise_gain(state.bets, slot, bet, effect, variance, values)
