"""The bets of a block: frozen when it is planned, moved by its draws, paid when it is complete."""

import math

import numpy as np

from fairtrial.confidence._betting import (
    DRAWS_PER_LOG,
    GRID,
    bounded_stakes,
    flush_products,
    log_bet,
    log_mixture,
    multiply_factor,
)
from fairtrial.core.compilation import kernel
from fairtrial.subpopulations._kernels.block_book import (
    CELL_OF_LEADER,
    LIMITS_OF_RIVAL,
    NO_BET,
    PAIR,
    Book,
    Rules,
)
from fairtrial.subpopulations._kernels.block_losses import lift_by_losses
from fairtrial.subpopulations._kernels.model import (
    CEILING,
    FLOOR,
    Floats,
    Model,
    divide,
    fill,
)
from fairtrial.subpopulations._kernels.pitfalls import nearest_allowed, pair_value

# Passing a book to a function costs more than what most of these do: where there is one caller
# for each bet, they are compiled into it.


@kernel
def place_bets(
    model: Model, rules: Rules, book: Book, slot: int, leader: int, means: Floats, variances: Floats
) -> None:
    """Freeze the bets of a block: one on each live rival, one on each limit of the leader."""
    arms, groups = means.shape
    for k in range(arms):
        if k != leader and not book.rejected[k]:
            _bet_on_rival(model, rules, book, slot, leader, k, means, variances)
    if leader == arms:
        return
    for bet in range(arms, book.ledger.shape[1]):
        end, group = (bet - arms) // groups, (bet - arms) % groups
        limited = abs(model.limits[end, leader, group]) < math.inf
        if limited and book.planned[slot, leader, group] > 0.0:
            lift = lift_by_losses(rules, book, leader, group) if end == CEILING else 0.0
            _bet_on_cell(model, rules, book, slot, bet, leader, means, variances, lift)


@kernel(inline="always")
def _bet_on_rival(
    model: Model,
    rules: Rules,
    book: Book,
    slot: int,
    leader: int,
    k: int,
    means: Floats,
    variances: Floats,
) -> None:
    """Freeze the bet against "k is feasible and at least as good as the leader".

    Coefficients are built from multiplier and limit terms exactly as the proof wants
    them: then the effect is at most 0 under the null however inexact the solver.
    """
    arms, groups = means.shape
    precisions = np.empty((arms, groups))
    divide(precisions, book.planned[slot], variances)
    # As many slots as arms: a constant slot would have all of this compiled once more.
    lam = np.zeros((arms, 2, groups))
    multiplier = 0.0
    if leader < arms:
        _, multiplier = pair_value(
            leader, k, means, precisions, leader, k, model.weights, model.limits, 0.0, lam, k
        )
    else:
        for group in range(groups):
            lam[k, 1, group] = nearest_allowed(means[k, group], model.limits, k, group)
    coefficients = book.coefficients[slot, k]
    centres = book.centres[slot, k]
    constant = 0.0
    for group in range(groups):
        pull = multiplier * model.weights[group]
        up = 0.0
        floor = model.limits[FLOOR, k, group]
        if lam[k, 1, group] <= floor:
            up = max(0.0, precisions[k, group] * (floor - means[k, group]) - pull)
            constant += up * floor if up > 0.0 else 0.0
        down = 0.0
        ceiling = model.limits[CEILING, k, group]
        if lam[k, 1, group] >= ceiling:
            down = max(0.0, precisions[k, group] * (means[k, group] - ceiling) + pull)
            constant -= down * ceiling if down > 0.0 else 0.0
        coefficients[0, group] = pull
        coefficients[1, group] = down - (pull + up)
        centres[0, group] = lam[k, 0, group]
        centres[1, group] = lam[k, 1, group]
    if leader < arms:
        book.ledger[slot, k] = PAIR if multiplier > 0.0 else LIMITS_OF_RIVAL
    else:
        book.ledger[slot, k] = LIMITS_OF_RIVAL
    _freeze(rules, book, slot, k, leader, k, constant, means, variances, 0.0)


@kernel
def _bet_on_cell(
    model: Model,
    rules: Rules,
    book: Book,
    slot: int,
    bet: int,
    leader: int,
    means: Floats,
    variances: Floats,
    lift: float,
) -> None:
    """Freeze the bet against "the leader is beyond this limit of this cell".

    `lift`: by how much the mean that this bet sees is above that in `means`.
    """
    arms, groups = means.shape
    end, group = (bet - arms) // groups, (bet - arms) % groups
    limit = model.limits[end, leader, group]
    fill(book.coefficients[slot, bet], 0.0)
    fill(book.centres[slot, bet], 0.0)
    weight = book.planned[slot, leader, group] / variances[leader, group]
    if end == CEILING:
        weight = -weight
    book.coefficients[slot, bet, 0, group] = weight
    book.centres[slot, bet, 0, group] = limit
    book.ledger[slot, bet] = CELL_OF_LEADER
    _freeze(rules, book, slot, bet, leader, leader, -weight * limit, means, variances, lift)


@kernel(inline="always")
def _freeze(
    rules: Rules,
    book: Book,
    slot: int,
    bet: int,
    leader: int,
    rival: int,
    constant: float,
    means: Floats,
    variances: Floats,
    lift: float,
) -> None:
    """Freeze a bet on sum of coefficients times means plus a constant.

    `coefficients` come as the weight of a cell's mean and stay so for known noise; for
    bounded rewards they are kept per draw.
    """
    groups = means.shape[1]
    counts = book.planned[slot]
    coefficients = book.coefficients[slot, bet]
    centres = book.centres[slot, bet]
    book.rival[slot, bet] = rival
    effect = constant
    at_centre = constant
    earlier = 0.0
    inside = 0.0
    ruin = 0.0
    for row in range(2):
        arm = leader if row == 0 else rival
        for group in range(groups):
            weight = coefficients[row, group]
            if weight == 0.0:
                continue
            count = counts[arm, group]
            if count == 0.0:
                book.ledger[slot, bet] = NO_BET
                return
            mean, variance = means[arm, group] + lift, variances[arm, group]
            effect += weight * mean
            earlier += weight**2 * variance / book.counts[arm, group]
            if rules.bounded:
                centre = centres[row, group]
                at_centre += weight * centre
                per_draw = weight / count
                inside += count * per_draw**2 * (variance + (mean - centre) ** 2)
                loss = centre - rules.low if per_draw > 0.0 else centre - rules.high
                ruin = max(ruin, per_draw * loss)
                coefficients[row, group] = per_draw
            else:
                inside += weight**2 * variance / count
    if earlier <= 0.0 or inside <= 0.0:
        book.ledger[slot, bet] = NO_BET
        return
    deviation = math.sqrt(earlier)
    book.estimate[slot, bet] = effect / deviation
    book.constant[slot, bet] = constant
    book.variance[slot, bet] = earlier
    if rules.bounded:
        book.cash[slot, bet] = bounded_stakes(
            effect / deviation, deviation, inside, ruin,
            book.thetas[slot, bet], book.stakes[slot, bet],
        )  # fmt: skip
        book.drawn[slot, bet] = 0
        for point in range(GRID):
            book.products[slot, bet, point] = 1.0
            book.logs[slot, bet, point] = book.thetas[slot, bet, point] * at_centre


@kernel(inline="always")
def multiply_bets(
    rules: Rules, book: Book, slot: int, cell: int, reward: float, lost: bool
) -> None:
    """Multiply one draw's factor into every bet that it takes part in.

    A lost draw counts as the worst value for each bet: whatever made it get lost.
    """
    groups = book.counts.shape[1]
    k, group = cell // groups, cell % groups
    for bet in range(book.ledger.shape[1]):
        if book.ledger[slot, bet] == NO_BET:
            continue
        for row in range(2):
            arm = book.target[slot] if row == 0 else book.rival[slot, bet]
            weight = book.coefficients[slot, bet, row, group]
            if arm != k or weight == 0.0:
                continue
            value = reward
            if lost:
                value = rules.low if weight > 0.0 else rules.high
            step = weight * (value - book.centres[slot, bet, row, group])
            multiply_factor(book.thetas[slot, bet], book.products[slot, bet], step)
            book.drawn[slot, bet] += 1
            if book.drawn[slot, bet] == DRAWS_PER_LOG:
                flush_products(book.products[slot, bet], book.logs[slot, bet])
                book.drawn[slot, bet] = 0


@kernel
def replace_worst(rules: Rules, book: Book, slot: int, cell: int, reward: float) -> None:
    """Replace the worst value that each bet took for a lost draw by the draw's reward."""
    groups = book.counts.shape[1]
    k, group = cell // groups, cell % groups
    for bet in range(book.ledger.shape[1]):
        if book.ledger[slot, bet] == NO_BET:
            continue
        for row in range(2):
            arm = book.target[slot] if row == 0 else book.rival[slot, bet]
            weight = book.coefficients[slot, bet, row, group]
            if arm == k and weight != 0.0:
                worst = rules.low if weight > 0.0 else rules.high
                _replace_factor(book, slot, bet, row, group, worst, reward)


@kernel
def correct_bets(book: Book, slot: int, cell: int, old: float, new: float) -> None:
    """Replace one draw's factor in every bet that it takes part in."""
    groups = book.counts.shape[1]
    k, group = cell // groups, cell % groups
    for bet in range(book.ledger.shape[1]):
        if book.ledger[slot, bet] == NO_BET:
            continue
        for row in range(2):
            arm = book.target[slot] if row == 0 else book.rival[slot, bet]
            weight = book.coefficients[slot, bet, row, group]
            if arm == k and weight != 0.0:
                _replace_factor(book, slot, bet, row, group, old, new)


@kernel
def _replace_factor(
    book: Book, slot: int, bet: int, row: int, group: int, old: float, new: float
) -> None:
    """Replace one draw's factor in a bet by that of another value."""
    weight = book.coefficients[slot, bet, row, group]
    before = weight * (old - book.centres[slot, bet, row, group])
    after = weight * (new - book.centres[slot, bet, row, group])
    for point in range(GRID):
        theta = book.thetas[slot, bet, point]
        book.logs[slot, bet, point] += math.log((1.0 + theta * after) / (1.0 + theta * before))


@kernel
def is_bet_on(book: Book, slot: int, cell: int) -> bool:
    """Return whether the draws of a cell move a bet of a block."""
    groups = book.counts.shape[1]
    k, group = cell // groups, cell % groups
    for bet in range(book.ledger.shape[1]):
        if book.ledger[slot, bet] != NO_BET:
            for row in range(2):
                arm = book.target[slot] if row == 0 else book.rival[slot, bet]
                if arm == k and book.coefficients[slot, bet, row, group] != 0.0:
                    return True
    return False


@kernel(inline="always")
def pay(model: Model, rules: Rules, book: Book, slot: int, bet: int) -> None:
    """Add what a bet of a complete block has won to its ledger."""
    gain = (
        _bounded_gain(book, slot, bet) if rules.bounded else _gaussian_gain(model, book, slot, bet)
    )
    rival, leader = book.rival[slot, bet], book.target[slot]
    kind = book.ledger[slot, bet]
    if kind == LIMITS_OF_RIVAL:
        book.limits_of[rival] += gain
    elif kind == PAIR:
        book.pairs[rival, leader] += gain
    else:
        arms, groups = model.active.shape
        book.cells[(bet - arms) // groups, leader, (bet - arms) % groups] += gain


@kernel(inline="always")
def _bounded_gain(book: Book, slot: int, bet: int) -> float:
    flush_products(book.products[slot, bet], book.logs[slot, bet])
    return log_mixture(book.cash[slot, bet], book.stakes[slot, bet], book.logs[slot, bet])


@kernel(inline="always")
def _gaussian_gain(model: Model, book: Book, slot: int, bet: int) -> float:
    """Return what a block pays on known noise, from the draws that did arrive."""
    effect = book.constant[slot, bet]
    variance = 0.0
    for row in range(2):
        arm = book.target[slot] if row == 0 else book.rival[slot, bet]
        for group in range(model.weights.size):
            weight = book.coefficients[slot, bet, row, group]
            if weight != 0.0:
                got = book.got[slot, arm, group]
                if got == 0.0:
                    return 0.0
                effect += weight * book.block_sums[slot, arm, group] / got
                variance += weight**2 * model.variances[arm, group] / got
    earlier = book.variance[slot, bet]
    return log_bet(book.estimate[slot, bet], earlier / variance, effect / math.sqrt(earlier))
