"""The bets on a block of rows: frozen when the block is planned, and multiplied by every row.

A row's score in a bet is ``slope * outcome - offset``, where slope and offset depend on its cell.
Whatever the mean outcomes are, the expected sum of scores over a block is the functional minus its
null. See docs/explanation/fair-interventions.md.
"""

import math
from typing import NamedTuple

import numpy as np

from fairtrial.causal._kernels.betting_plans import (
    Beliefs,
    Items,
    metric_of,
    weigh,
    weighted,
)
from fairtrial.causal._kernels.betting_state import (
    COVARIATES,
    RATIOS,
    Floats,
    Model,
    Rules,
    State,
)
from fairtrial.confidence.block_betting.bets import (
    CAP,
    NO_BET,
    correct_bet,
    freeze_stakes,
    multiply_bet,
)
from fairtrial.confidence.block_betting.book import (
    begin_bets,
    is_wanted,
    limit_ledger,
    rival_ledger,
)
from fairtrial.core.arithmetic import copy_into, square
from fairtrial.core.compilation import inlined, kernel

_RIDGE = 1e-4


class Span(NamedTuple):
    """Functions with known totals, from which one block's predictions are made."""

    usable: Floats  # 1 for functions that are zero in every cell without rows of the block
    basis: Floats  # the usable functions, 0 for others; shape (cells, functions)
    inverse: Floats  # inverse of their matrix, transposed; shape (functions, functions)


class Room(NamedTuple):
    """Arrays that the bets of a block fill in turn, so that none allocates its own."""

    functional: Floats  # by cell, as the next ones
    predicted: Floats
    of_class: Floats
    variances: Floats
    shifts: Floats  # for bets that do not store them
    of_stratum: Floats
    law: Floats  # by stratum
    of_group: Floats
    shares: Floats  # by group
    right: Floats  # by function with a known total
    weights: Floats


class Block(NamedTuple):
    """What all bets on a block share."""

    size: float
    lost: Floats  # rows of each action expected to be lost and count as the worst
    density: Floats  # sum over its rows of their actions' weights, by cell
    metric: Floats
    span: Span
    room: Room


class Effect(NamedTuple):
    """The functional of a bet: weights of the cells' mean outcomes, and its null."""

    weights: Floats
    null: float


class Scores(NamedTuple):
    """A row's score, by cell: ``slope * outcome - offset``.

    `shifts`: the centre minus the offset; like the slope, this is inversely proportional to the
    density.
    """

    slopes: Floats
    offsets: Floats
    shifts: Floats


@kernel
def place_bets(
    model: Model,
    rules: Rules,
    state: State,
    slot: int,
    beliefs: Beliefs,
    items: Items,
    lost: Floats,
) -> None:
    """Freeze the bets on a block that has just been opened.

    `lost`: share of the rows of each action, from earlier rows; empty if there are none.
    """
    arms = model.breakable.shape[0]
    size = state.blocks.planned[slot].sum()
    if _is_recorded(model):
        # Later actions can depend on rows of this block, so only earlier rows may be used.
        density = beliefs.earlier * (size / max(1.0, state.counts.sum()))
        copy_into(state.densities[slot], density)
    else:
        density = weighted(model.actions, state.blocks.planned[slot])
    span = _span_of(model, rules, beliefs, density)
    metric = metric_of(beliefs, density)
    expected = np.zeros(lost.size)
    for a in range(lost.size):
        expected[a] = state.blocks.planned[slot, a] * lost[a]
    block = Block(size, expected, density, metric, span, _room_for(model))
    target = state.target[slot]
    begin_bets(state.book, state.bets, slot, target)
    for item in range(items.needs.size):
        if not is_wanted(state.book, item, target, rules.separately):
            continue
        if _place_bet(model, rules, state, slot, item, beliefs, items, block):
            if item < arms:
                state.bets.ledger[slot, item] = rival_ledger(state.book, item, target)
            else:
                state.bets.ledger[slot, item] = limit_ledger(state.book, target, item - arms)


@inlined
def _is_recorded(model: Model) -> bool:
    """Return whether a log is read that records the probabilities of each row's actions."""
    return model.allocation.shape[0] > 0


@kernel
def _room_for(model: Model) -> Room:
    cells, strata, groups = model.class_of.size, model.group_of.size, model.group_shares.size
    functions = model.totals.size
    return Room(
        np.empty(cells),
        np.empty(cells),
        np.empty(cells),
        np.empty(cells),
        np.empty(cells),
        np.empty(strata),
        np.empty(strata),
        np.empty(groups),
        np.empty(groups),
        np.empty(functions),
        np.empty(functions),
    )


@inlined
def _place_bet(
    model: Model,
    rules: Rules,
    state: State,
    slot: int,
    item: int,
    beliefs: Beliefs,
    items: Items,
    block: Block,
) -> bool:
    """Freeze the bet on one item; return whether the block is informative about it."""
    arms, cells = model.means.shape
    first, second = items.first[item], items.second[item]
    s, nu, value = weigh(first, second, items.gains[item], items.excess[item], block.metric)
    if value <= 0.0:
        return False
    room, functional = block.room, block.room.functional
    for x in range(cells):
        functional[x] = s * first[x] + nu * second[x]
    effect = Effect(functional, nu * rules.bound if item < arms else -nu * rules.bound)
    slopes, offsets = state.slopes[slot, item], state.offsets[slot, item]
    shifts = state.shifts[slot, item] if _is_recorded(model) else room.shifts
    scores = Scores(slopes, offsets, shifts)
    within = _fill_scores(model, rules, effect, beliefs, block, scores, room)
    inside, noise, ruin = 0.0, 0.0, -math.inf
    for x in range(cells):
        if block.density[x] > 0.0:
            weight = block.density[x] * beliefs.law[x]
            noise += weight * square(slopes[x]) * beliefs.variance[x]
            inside += weight * square(slopes[x] * beliefs.mean[x] - offsets[x])
            ruin = max(ruin, offsets[x] - min(slopes[x], 0.0))
    inside += noise
    excess = s * items.gains[item] + nu * items.excess[item]
    if rules.knowledge == RATIOS:
        squared = _error_with_ratios(functional, beliefs)
        if noise > 0.0:
            squared *= max(1.0, (inside - excess * excess / block.size) / noise)
    else:
        rows = state.rows.sum()
        squared = _error_by_class(model, rules, beliefs, room) + within / max(1.0, rows)
    state.ruins[slot, item] = ruin
    effect_of_all = excess
    excess, inside = _after_losses(model, state, slot, item, block, excess, inside)
    if effect_of_all > 0.0 >= excess:
        # Losses like those so far hide this effect, so there is no telling when a study ends.
        state.forecast[0] = math.inf
    if squared <= 0.0 or inside <= 0.0 or excess <= 0.0:
        return False
    state.bets.variance[slot, item] = squared
    state.bets.estimate[slot, item] = excess / math.sqrt(squared)
    # The engine limits a result's part of a stake to `CAP`; this method limits it to `rules.cap`.
    freeze_stakes(state.bets, slot, item, 0.0, inside, ruin * CAP / rules.cap)
    return True


@inlined
def _after_losses(
    model: Model, state: State, slot: int, bet: int, block: Block, excess: float, inside: float
) -> tuple[float, float]:
    """Return a bet's effect and variance if rows get lost, which get the smallest score."""
    mean, square_mean = excess / block.size, inside / block.size
    for a in range(block.lost.size):
        if block.lost[a] > 0.0:
            score = _lost_score(model, state, slot, bet, a)
            excess += block.lost[a] * (score - mean)
            inside += block.lost[a] * (score * score - square_mean)
    return excess, inside


# -------------------------------------------------------------------------------- the scores


@inlined
def _fill_scores(
    model: Model,
    rules: Rules,
    effect: Effect,
    beliefs: Beliefs,
    block: Block,
    scores: Scores,
    room: Room,
) -> float:
    """Fill a row's score by its cell; return the variance of its prediction.

    This is the variance of the values that covariates predict.
    """
    weights, slopes = effect.weights, scores.slopes
    for x in range(weights.size):
        slopes[x] = weights[x] / block.density[x] if block.density[x] > 0.0 else 0.0
    if rules.knowledge == RATIOS:
        _centre_by_totals(model, effect, beliefs, block, scores, room)
        return 0.0
    if rules.knowledge == COVARIATES:
        return _centre_by_covariates(model, effect, beliefs, block, scores, room)
    total = -effect.null
    for x in range(weights.size):
        total += weights[x] * beliefs.law[x] * beliefs.mean[x]
    for x in range(weights.size):
        scores.shifts[x] = total / block.size
        scores.offsets[x] = slopes[x] * beliefs.mean[x] - scores.shifts[x]
    return 0.0


@inlined
def _centre_by_covariates(
    model: Model, effect: Effect, beliefs: Beliefs, block: Block, scores: Scores, room: Room
) -> float:
    """Centre scores at what a row's covariates predict; no action changes the covariates' law.

    Predictions are compared within observed groups, whose shares are known.
    """
    strata, groups = model.group_of.size, model.group_shares.size
    predicted, law = room.of_stratum, room.law
    for w in range(strata):
        predicted[w], law[w] = 0.0, 0.0
    for x in range(effect.weights.size):
        w = int(model.stratum_of[x])
        predicted[w] += effect.weights[x] * beliefs.mean[x]
        law[w] = beliefs.law[x]
    sums, weights = room.of_group, room.shares
    for b in range(groups):
        sums[b], weights[b] = 0.0, 0.0
    for w in range(strata):
        sums[int(model.group_of[w])] += law[w] * predicted[w]
        weights[int(model.group_of[w])] += law[w]
    total = -effect.null
    for b in range(groups):
        if weights[b] > 0.0:
            sums[b] /= weights[b]
        total += model.group_shares[b] * sums[b]
    variance = 0.0
    for w in range(strata):
        predicted[w] -= sums[int(model.group_of[w])]
        variance += law[w] * square(predicted[w])
    for x in range(effect.weights.size):
        scores.shifts[x] = (predicted[int(model.stratum_of[x])] + total) / block.size
        scores.offsets[x] = scores.slopes[x] * beliefs.mean[x] - scores.shifts[x]
    return variance


@kernel
def _span_of(model: Model, rules: Rules, beliefs: Beliefs, density: Floats) -> Span:
    """Return the functions that can predict the rows of a block, and the inverse of their matrix.

    A function's total over the block is known only if the function is zero in every cell without
    rows of the block.
    """
    functions, cells = model.basis.shape
    usable = np.ones(functions)
    basis, matrix = np.zeros((cells, functions)), np.zeros((functions, functions))
    if rules.knowledge != RATIOS:
        return Span(usable, basis, matrix)
    scaled = np.zeros((cells, functions))
    for x in range(cells):
        root = math.sqrt(beliefs.law[x] / density[x]) if density[x] > 0.0 else 0.0
        for i in range(functions):
            scaled[x, i] = model.basis[i, x] * root
            if density[x] == 0.0 and model.basis[i, x] > 0.0:
                usable[i] = 0.0
    _add_squares(scaled, matrix)
    trace, number = 0.0, usable.sum()
    for i in range(functions):
        for x in range(cells):
            basis[x, i] = usable[i] * model.basis[i, x]
        for j in range(i + 1):
            if usable[i] * usable[j] == 0.0:
                matrix[i, j] = 0.0
            matrix[j, i] = matrix[i, j]
        trace += matrix[i, i]
    for i in range(functions):
        matrix[i, i] += _RIDGE * trace / number if usable[i] > 0.0 else 1.0
    return Span(usable, basis, np.ascontiguousarray(np.linalg.inv(matrix).T))


@inlined
def _add_squares(rows: Floats, matrix: Floats) -> None:
    """Add every row's products with itself to the lower half of a matrix, one row at a time."""
    whole = rows.shape[0] - rows.shape[0] % 4
    for x in range(0, whole, 4):
        for i in range(matrix.shape[0]):
            a, b, c, d = rows[x, i], rows[x + 1, i], rows[x + 2, i], rows[x + 3, i]
            for j in range(i + 1):
                total = matrix[i, j] + a * rows[x, j]
                total += b * rows[x + 1, j]
                total += c * rows[x + 2, j]
                matrix[i, j] = total + d * rows[x + 3, j]
    for x in range(whole, rows.shape[0]):
        for i in range(matrix.shape[0]):
            for j in range(i + 1):
                matrix[i, j] += rows[x, i] * rows[x, j]


@inlined
def _centre_by_totals(
    model: Model, effect: Effect, beliefs: Beliefs, block: Block, scores: Scores, room: Room
) -> None:
    """Centre scores at the best prediction from functions with known totals."""
    functions, cells = model.basis.shape
    right, weights, predicted = room.right, room.weights, room.predicted
    for i in range(functions):
        right[i], weights[i] = 0.0, 0.0
    for x in range(cells):
        if block.density[x] > 0.0:
            score = effect.weights[x] * beliefs.mean[x] * beliefs.law[x] / block.density[x]
            for i in range(functions):
                right[i] += block.span.basis[x, i] * score
    for j in range(functions):
        for i in range(functions):
            weights[i] += block.span.inverse[j, i] * right[j]
    total = -effect.null
    for i in range(functions):
        weights[i] *= block.span.usable[i]
        total += weights[i] * model.totals[i]
    for x in range(cells):
        predicted[x] = 0.0
    for i in range(functions):
        for x in range(cells):
            predicted[x] += weights[i] * model.basis[i, x]
    for x in range(cells):
        scores.shifts[x] = total / block.size
        scores.offsets[x] = -scores.shifts[x]
        if block.density[x] > 0.0:
            scores.offsets[x] += predicted[x] / block.density[x]


@inlined
def _error_with_ratios(functional: Floats, beliefs: Beliefs) -> float:
    """Return the variance of an estimated functional if the cells' law is estimated too."""
    total = 0.0
    for x in range(functional.size):
        if functional[x] != 0.0 and beliefs.earlier[x] > 0.0:
            spread = square(functional[x]) * beliefs.law[x] * beliefs.variance[x]
            total += spread / beliefs.earlier[x]
    return total


@inlined
def _error_by_class(model: Model, rules: Rules, beliefs: Beliefs, room: Room) -> float:
    """Return the variance of an estimated functional, from the variances of the class means."""
    sums, variances = room.of_class, room.variances
    cells = sums.size
    for c in range(cells):
        sums[c], variances[c] = 0.0, 0.0
    for x in range(cells):
        c = int(model.class_of[x])
        sums[c] += room.functional[x] * beliefs.law[x]
        variances[c] = beliefs.variance[x] / (beliefs.number[x] + rules.mean_prior)
    total = 0.0
    for c in range(cells):
        total += sums[c] * sums[c] * variances[c]
    return total


# ---------------------------------------------------------------------------- rows and gains


@inlined
def _planned_score(state: State, slot: int, bet: int, cell: int, outcome: float) -> float:
    """Return a row's score in a bet."""
    return state.slopes[slot, bet, cell] * outcome - state.offsets[slot, bet, cell]


@inlined
def _lost_score(model: Model, state: State, slot: int, bet: int, action: int) -> float:
    """Return a lost row's score: the smallest that a row of its action can have.

    If a log is read, the densities of rows differ; then it is the smallest of any row.
    """
    if _is_recorded(model):
        return -state.ruins[slot, bet]
    slopes, offsets = state.slopes[slot, bet], state.offsets[slot, bet]
    worst = -math.inf
    for x in range(slopes.size):
        if model.actions[action, x] > 0.0:
            worst = max(worst, offsets[x] - min(slopes[x], 0.0))
    return -worst


@kernel
def density_of_row(model: Model, state: State, slot: int, row: int) -> Floats:
    """Return the density of a block whose rows are all allocated like this row of a log.

    The array is empty if no probabilities are recorded.
    """
    if not _is_recorded(model) or row < 0:
        return np.empty(0)
    return weighted(model.actions, state.blocks.planned[slot].sum() * model.allocation[row])


@inlined
def _recorded_score(
    state: State, slot: int, bet: int, density: Floats, cell: int, outcome: float
) -> float:
    """Return a row's score by the density of its own allocation, reduced if it is too large.

    The reduction keeps every row's score at or above the block's minimum. The score is 0 if the row
    is not informative about some cell that the bet uses.
    """
    slopes, offsets = state.slopes[slot, bet], state.offsets[slot, bet]
    shifts, planned = state.shifts[slot, bet], state.densities[slot]
    ruin = 0.0
    for x in range(density.size):
        centre = offsets[x] + shifts[x]
        if density[x] > 0.0:
            ratio = planned[x] / density[x]
            ruin = max(ruin, centre * ratio - shifts[x] - min(slopes[x] * ratio, 0.0))
        elif slopes[x] != 0.0 or centre != 0.0:
            return 0.0
    ratio = planned[cell] / density[cell]
    score = (slopes[cell] * outcome - offsets[cell] - shifts[cell]) * ratio + shifts[cell]
    allowed = max(0.0, state.ruins[slot, bet])
    return score if ruin <= allowed else score * (allowed / ruin)


@inlined
def _score(state: State, slot: int, bet: int, density: Floats, cell: int, outcome: float) -> float:
    if density.size == 0:
        return _planned_score(state, slot, bet, cell, outcome)
    return _recorded_score(state, slot, bet, density, cell, outcome)


@kernel(inline="always")
def multiply_bets(
    model: Model, state: State, slot: int, cell: int, outcome: float, row: int
) -> None:
    """Multiply a row's factor into every bet of its block.

    `row`: its index in a log that is read.
    """
    if row >= 0 and _is_recorded(model):
        density = density_of_row(model, state, slot, row)
        _multiply_recorded(state, slot, density, cell, outcome)
    else:
        _multiply_planned(state, slot, cell, outcome)


@inlined
def _multiply_planned(state: State, slot: int, cell: int, outcome: float) -> None:
    for bet in range(state.bets.number[slot]):
        if state.bets.ledger[slot, bet] != NO_BET:
            score = _planned_score(state, slot, bet, cell, outcome)
            multiply_bet(state.bets, slot, bet, score)


@inlined
def _multiply_recorded(state: State, slot: int, density: Floats, cell: int, outcome: float) -> None:
    for bet in range(state.bets.number[slot]):
        if state.bets.ledger[slot, bet] != NO_BET:
            score = _score(state, slot, bet, density, cell, outcome)
            multiply_bet(state.bets, slot, bet, score)


@kernel
def correct_bets(
    model: Model,
    state: State,
    slot: int,
    old_cell: int,
    old: float,
    new_cell: int,
    new: float,
    row: int,
) -> None:
    """Replace a row's factor in every bet of its block."""
    density = density_of_row(model, state, slot, row)
    for bet in range(state.bets.number[slot]):
        if state.bets.ledger[slot, bet] != NO_BET:
            before = _score(state, slot, bet, density, old_cell, old)
            after = _score(state, slot, bet, density, new_cell, new)
            correct_bet(state.bets, slot, bet, before, after)


@kernel
def take_lost_row(model: Model, state: State, slot: int, action: int) -> None:
    """Multiply a lost row's factor into every bet of its block."""
    for bet in range(state.bets.number[slot]):
        if state.bets.ledger[slot, bet] != NO_BET:
            multiply_bet(state.bets, slot, bet, _lost_score(model, state, slot, bet, action))


@kernel
def take_late_row(
    model: Model, state: State, slot: int, action: int, cell: int, outcome: float, row: int
) -> None:
    """Replace the factor of a row that was lost and has arrived, in every bet of its block."""
    density = density_of_row(model, state, slot, row)
    for bet in range(state.bets.number[slot]):
        if state.bets.ledger[slot, bet] != NO_BET:
            before = _lost_score(model, state, slot, bet, action)
            after = _score(state, slot, bet, density, cell, outcome)
            correct_bet(state.bets, slot, bet, before, after)


@inlined
def is_bet_on(state: State, slot: int) -> bool:
    """Return whether a block has any bets; every row contributes to all of them."""
    found = False
    for bet in range(state.bets.number[slot]):
        found = found or state.bets.ledger[slot, bet] != NO_BET
    return found
