"""Estimates from earlier rows, the leading answer, and the number of rows to plan per action."""

import math
from typing import NamedTuple

import numpy as np

from fairtrial.causal._kernels.betting_state import (
    COVARIATES,
    RATIOS,
    Floats,
    Integers,
    Model,
    Rules,
    State,
)
from fairtrial.confidence.block_betting.book import fill_needs
from fairtrial.confidence.block_betting.hidden import (
    HIDDEN,
    MOST_TRIED,
    fill_times,
    is_any_hidden,
    is_sooner,
    share_lost,
)
from fairtrial.core.arithmetic import copy_into, square, sum_of
from fairtrial.core.compilation import kernel, unchecked

_SINGULAR = 1e-12
_ROUNDING = 1e-9

_LOSS_PRIOR = 5.0
"""Number of rows by which an action's share of lost rows is shrunk to that of all actions."""


class Beliefs(NamedTuple):
    """Estimates by cell from all rows so far; any values leave plans and bets valid."""

    mean: Floats
    variance: Floats
    number: Floats  # rows of the cell's class
    law: Floats  # the part that is the same for all actions
    earlier: Floats  # sum over the rows of their actions' weights in the cell
    overall: float  # mean outcome


class Items(NamedTuple):
    """What still has to be shown: first for each arm, then for each limit of the target.

    An item's effect is the best mixture of `first` and `second`, with nonnegative weights; `gains`
    and `excess` are their effects.
    """

    first: Floats  # shape (items, cells): the target's mean minus the arm's; zero for a limit
    second: Floats  # the arm's gap; for a limit, minus the target's gap
    gains: Floats
    excess: Floats
    needs: Floats  # log wealth still needed; 0 if none, `HIDDEN` if losses hide the item
    limit: Integers  # limit used for the arm, or the target's limit


@kernel
def believe(model: Model, rules: Rules, state: State) -> Beliefs:
    """Return the estimates from all rows so far."""
    cells = state.rows.size
    number, sums, squares = np.zeros(cells), np.zeros(cells), np.zeros(cells)
    for x in range(cells):
        c = int(model.class_of[x])
        number[c] += state.rows[x]
        sums[c] += state.sums[x]
        squares[c] += state.squares[x]
    rows = number.sum()
    overall = sum_of(sums) / rows if rows > 0.0 else 0.5
    mean, variance, of_class = np.empty(cells), np.empty(cells), np.empty(cells)
    for x in range(cells):
        c = int(model.class_of[x])
        n = number[c]
        mean[x] = (sums[c] + rules.mean_prior * overall) / (n + rules.mean_prior)
        spread = squares[c] - square(sums[c]) / n if n > 0.0 else 0.0
        prior = rules.variance_prior / 4.0
        variance[x] = (max(0.0, spread) + prior) / (n + rules.variance_prior)
        of_class[x] = n
    earlier = weighted(model.actions, state.counts)
    law = _law_of_cells(model, rules, state, earlier, rows)
    return Beliefs(mean, variance, of_class, law, earlier, overall)


@kernel
def weighted(actions: Floats, counts: Floats) -> Floats:
    """Return for every cell the sum of the actions' weights, each times its number of rows."""
    result = np.zeros(actions.shape[1])
    add_weighted(actions, counts, result)
    return result


@unchecked
def add_weighted(actions: Floats, counts: Floats, result: Floats) -> None:
    """Add to every cell the sum of the actions' weights, each times its number of rows."""
    for a in range(counts.size):
        count = counts[a]
        if count > 0.0:
            for x in range(result.size):
                result[x] += count * actions[a, x]


@kernel
def _law_of_cells(model: Model, rules: Rules, state: State, earlier: Floats, rows: float) -> Floats:
    cells = state.rows.size
    law = np.ones(cells)
    if rules.knowledge == COVARIATES:
        strata = model.group_of.size
        seen = np.zeros(strata)
        for x in range(cells):
            seen[int(model.stratum_of[x])] += state.rows[x]
        for x in range(cells):
            law[x] = (seen[int(model.stratum_of[x])] + 1.0) / (rows + strata)
    elif rules.knowledge == RATIOS and rows > 0.0:
        half = 0.5 * sum_of(earlier) / rows
        for x in range(cells):
            law[x] = (state.rows[x] + 0.5) / (earlier[x] + half)
    return law


# ------------------------------------------------------------------------------- the leader


@unchecked
def estimate(functional: Floats, beliefs: Beliefs, rules: Rules) -> float:
    """Return the estimate of a mean or a gap.

    Where the cells' law is estimated, only outcomes minus the overall mean are used. This does not
    change a gap or a difference of means.
    """
    centre = beliefs.overall if rules.knowledge == RATIOS else 0.0
    total = 0.0
    for x in range(functional.size):
        total += functional[x] * beliefs.law[x] * (beliefs.mean[x] - centre)
    return total


@kernel
def estimates(model: Model, rules: Rules, beliefs: Beliefs) -> tuple[Floats, Floats]:
    """Return the estimates of all means, shape (K,), and of all gaps, shape (K, L)."""
    arms, limits = model.breakable.shape
    means, gaps = np.empty(arms), np.empty((arms, limits))
    centre = beliefs.overall if rules.knowledge == RATIOS else 0.0
    for k in range(arms):
        means[k] = centre + estimate(model.means[k], beliefs, rules)
        for limit in range(limits):
            gaps[k, limit] = estimate(model.gaps[k, limit], beliefs, rules)
    return means, gaps


@kernel
def find_leader(rules: Rules, state: State, means: Floats, gaps: Floats) -> int:
    """Return the best answer that is not rejected: an arm, or K for "none".

    If "none" is rejected but no arm seems fair, return the arm that seems least unfair.
    """
    return _best_answer(rules, state, means, gaps, np.zeros(means.size))


@unchecked
def _best_answer(rules: Rules, state: State, means: Floats, gaps: Floats, passed: Floats) -> int:
    """Return the best answer without the arms that are passed over."""
    arms = means.size
    best = -1
    nearest = -1
    least = math.inf
    for k in range(arms):
        if state.book.rejected[k] or passed[k] > 0.0:
            continue
        worst = -math.inf
        for limit in range(gaps.shape[1]):
            worst = max(worst, gaps[k, limit])
        if worst < rules.bound and (best < 0 or means[k] > means[best]):
            best = k
        if worst < least or nearest < 0:
            nearest = k
            least = worst
    if best >= 0:
        return best
    if not state.book.rejected[arms] or nearest < 0:
        return arms
    return nearest


@kernel
def find_target(
    model: Model,
    rules: Rules,
    state: State,
    beliefs: Beliefs,
    means: Floats,
    gaps: Floats,
    lost: Floats,
) -> tuple[int, Items, Floats]:
    """Return the answer that the next block compares with others, with its items and their values.

    It is the leader or, if losses make it slow, an arm that rules out others sooner.
    """
    arms = means.size
    target = tried_last = find_leader(rules, state, means, gaps)
    found, worth = list_items(model, rules, state, beliefs, target, means, gaps, lost)
    if target == arms or lost.size == 0:
        return target, found, worth
    times = _times_of(model, rules, state, beliefs, found, target, lost)
    tried = np.zeros(arms)
    for _ in range(MOST_TRIED - 1):
        tried[tried_last] = 1.0
        tried_last = _best_answer(rules, state, means, gaps, tried)
        if tried_last == arms:
            break
        items, values = list_items(model, rules, state, beliefs, tried_last, means, gaps, lost)
        others = _times_of(model, rules, state, beliefs, items, tried_last, lost)
        if is_sooner(times[0], times[1], others[0], tried_last):
            target, found, worth, times = tried_last, items, values, others
    return target, found, worth


@kernel
def _times_of(
    model: Model,
    rules: Rules,
    state: State,
    beliefs: Beliefs,
    items: Items,
    target: int,
    lost: Floats,
) -> Floats:
    """Return how many rows a target needs to rule out each answer, with losses and without.

    All actions get equally many.
    """
    needs = np.empty(items.needs.size)
    fill_needs(state.book, rules.threshold, rules.separately, target, needs)
    number = lost.size
    some = metric_of(beliefs, weighted(model.actions, (1.0 - lost) / number))
    whole = metric_of(beliefs, weighted(model.actions, np.full(number, 1.0 / number)))
    values, most = np.zeros(needs.size), np.zeros(needs.size)
    for item in range(needs.size):
        if needs[item] < 0.0:
            continue
        first, second = items.first[item], items.second[item]
        gain, excess = items.gains[item], items.excess[item]
        most[item] = weigh(first, second, gain, excess, whole)[2]
        s, nu, value = weigh(first, second, gain, excess, some)
        left = max(0.0, _left_by_losses(model, beliefs, items, item, lost, s, nu))
        if left > 0.0:
            values[item] = value * square(left / (s * gain + nu * excess))
    times = np.empty((2, state.book.rejected.size))
    fill_times(state.book, needs, values, rules.cost, target, times[0])
    fill_times(state.book, needs, most, rules.cost, target, times[1])
    return times


# -------------------------------------------------------------------------------- the items


@kernel
def shares_lost(rules: Rules, state: State) -> Floats:
    """Return the share of every action's rows that are lost and count as the worst.

    The array is empty if there are none. Few rows of an action show little, so its share is shrunk
    to that of all actions: otherwise plans would prefer actions whose losses are not known yet.
    """
    lost, came = state.blocks.lost, state.blocks.came
    if rules.pulls_again or sum_of(lost) == 0.0:
        return np.empty(0)
    overall = share_lost(sum_of(lost), sum_of(came))
    found = np.empty(lost.size)
    for a in range(lost.size):
        found[a] = (lost[a] + _LOSS_PRIOR * overall) / (lost[a] + came[a] + _LOSS_PRIOR)
    return found


@unchecked
def multipliers(
    gain: float, excess: float, first: float, both: float, second: float
) -> tuple[float, float, float]:
    """Return the most informative weights s, nu >= 0 of two effects, and their information.

    They maximise ``s gain + nu excess`` minus half its variance, given the covariance matrix
    ``[[first, both], [both, second]]``. The information is the squared effect over its variance.
    """
    s, nu = 0.0, 0.0
    best = 0.0
    if gain > 0.0 and first > 0.0:
        s, best = gain / first, gain * gain / first
    if excess > 0.0 and second > 0.0 and excess * excess / second > best:
        s, nu, best = 0.0, excess / second, excess * excess / second
    determinant = first * second - both * both
    if determinant > _SINGULAR * first * second:
        inner_s = (second * gain - both * excess) / determinant
        inner_nu = (first * excess - both * gain) / determinant
        if inner_s > 0.0 and inner_nu > 0.0:
            s, nu = inner_s, inner_nu
            best = s * gain + nu * excess
    return s, nu, best


@kernel
def metric_of(beliefs: Beliefs, density: Floats) -> Floats:
    """Return the variance cost of a squared score in every cell, for rows with this `density`.

    The cost is infinite in cells that no row can reach.
    """
    result = np.empty(density.size)
    for x in range(density.size):
        result[x] = math.inf
        if density[x] > 0.0:
            result[x] = beliefs.law[x] * beliefs.variance[x] / density[x]
    return result


@unchecked
def weigh(
    first: Floats, second: Floats, gain: float, excess: float, metric: Floats
) -> tuple[float, float, float]:
    """Return the best weights of two functionals, and the value of their mixture.

    All are zero if a functional needs a cell that no row can reach.
    """
    variance, both, other = 0.0, 0.0, 0.0
    for x in range(metric.size):
        one, two = first[x], second[x]
        if one != 0.0 or two != 0.0:
            variance += one * one * metric[x]
            both += one * two * metric[x]
            other += two * two * metric[x]
    if not variance + other < math.inf:
        return 0.0, 0.0, 0.0
    return multipliers(gain, excess, variance, both, other)


@kernel
def list_items(
    model: Model,
    rules: Rules,
    state: State,
    beliefs: Beliefs,
    leader: int,
    means: Floats,
    gaps: Floats,
    lost: Floats,
) -> tuple[Items, Floats]:
    """Return a leader's items, and the value for each item of all rows so far.

    `lost`: from `shares_lost`.
    """
    arms, limits = model.breakable.shape
    cells = state.rows.size
    number = arms + (limits if leader < arms else 0)
    items = Items(
        np.zeros((number, cells)),
        np.zeros((number, cells)),
        np.zeros(number),
        np.zeros(number),
        np.zeros(number),
        np.full(number, -1),
    )
    values = np.zeros(number)
    metric = metric_of(beliefs, _rows_so_far(model, beliefs))
    for k in range(arms):
        if k != leader and not state.book.rejected[k]:
            if leader < arms:
                for x in range(cells):
                    items.first[k, x] = model.means[leader, x] - model.means[k, x]
                items.gains[k] = means[leader] - means[k]
            values[k] = _take_best_limit(model, rules, items, k, gaps[k], metric)
    for limit in range(number - arms):
        if model.breakable[leader, limit] > 0.0:
            item = arms + limit
            for x in range(cells):
                items.second[item, x] = -model.gaps[leader, limit, x]
            items.excess[item] = rules.bound - gaps[leader, limit]
            items.limit[item] = limit
            values[item] = weigh(
                items.first[item], items.second[item], 0.0, items.excess[item], metric
            )[2]
    fill_needs(state.book, rules.threshold, rules.separately, leader, items.needs)
    for item in range(number):
        missing = items.needs[item]
        items.needs[item] = missing + rules.cost if missing >= 0.0 else 0.0
        is_needed = missing >= 0.0 and lost.size > 0
        if is_needed and _is_hidden(model, beliefs, items, item, lost, metric):
            items.needs[item] = HIDDEN
    return items, values


@kernel
def _is_hidden(
    model: Model,
    beliefs: Beliefs,
    items: Items,
    item: int,
    lost: Floats,
    metric: Floats,
) -> bool:
    """Return whether losses hide an item, even if each cell is measured where least is lost."""
    first, second = items.first[item], items.second[item]
    s, nu, _ = weigh(first, second, items.gains[item], items.excess[item], metric)
    return _left_by_losses(model, beliefs, items, item, lost, s, nu) <= 0.0


@kernel
def _left_by_losses(
    model: Model,
    beliefs: Beliefs,
    items: Items,
    item: int,
    lost: Floats,
    s: float,
    nu: float,
) -> float:
    """Return what losses leave of an effect, if each cell is measured where least is lost.

    Bets count a lost row as its worst. If its outcome alone were unknown, that would be the lowest
    outcome in a cell with a positive weight, and the highest in others.
    """
    first, second = items.first[item], items.second[item]
    effect = s * items.gains[item] + nu * items.excess[item]
    for x in range(first.size):
        weight = (s * first[x] + nu * second[x]) * beliefs.law[x]
        if weight == 0.0:
            continue
        least = 1.0
        for a in range(lost.size):
            if model.actions[a, x] > 0.0:
                least = min(least, lost[a])
        worst = 0.0 if weight > 0.0 else 1.0
        effect -= least * weight * (beliefs.mean[x] - worst)
    return effect


@kernel
def _rows_so_far(model: Model, beliefs: Beliefs) -> Floats:
    """Return the weight of all rows so far by cell; cells without rows get that of one future row.

    Otherwise a plan would never reach cells without rows.
    """
    density = beliefs.earlier.copy()
    mixtures = model.mixtures.shape[0]
    for x in range(density.size):
        if density[x] == 0.0:
            for mixture in range(mixtures):
                for a in range(model.actions.shape[0]):
                    density[x] += model.mixtures[mixture, a] * model.actions[a, x] / mixtures
    return density


@unchecked
def _take_best_limit(
    model: Model, rules: Rules, items: Items, k: int, gaps: Floats, metric: Floats
) -> float:
    """Choose the most informative limit for an arm's item; return its value."""
    best = -math.inf
    chosen = -1
    for limit in range(gaps.size):
        if model.breakable[k, limit] > 0.0:
            second, excess = model.gaps[k, limit], gaps[limit] - rules.bound
            value = weigh(items.first[k], second, items.gains[k], excess, metric)[2]
            if value > best:
                best = value
                chosen = limit
    if chosen < 0:
        return weigh(items.first[k], items.second[k], items.gains[k], 0.0, metric)[2]
    for x in range(metric.size):
        items.second[k, x] = model.gaps[k, chosen, x]
    items.excess[k] = gaps[chosen] - rules.bound
    items.limit[k] = chosen
    return best


@unchecked
def weakest_value(items: Items, values: Floats) -> float:
    """Return the smallest value of an item that is still needed; 0 if there is none."""
    least = math.inf
    for item in range(values.size):
        if items.needs[item] > 0.0:
            least = min(least, values[item])
    return least if least < math.inf else 0.0


# --------------------------------------------------------------------------------- the plan


class Race(NamedTuple):
    """The items that a plan is made for, and their constants while the plan is computed."""

    live: Integers  # the items, by number
    products: Floats
    """Products of the items' functionals: first squared, both, second squared; (cells, 3 live)."""
    gains: Floats  # shape (live,), as all the following arrays of items
    excess: Floats
    needs: Floats
    inflation: Floats  # extra weight of an item about which little is known
    spread: Floats  # of a single row, by cell
    options: Floats  # density of rows of every mixture, shape (mixtures, cells)
    by_cell: Floats  # the same, shape (cells, mixtures)


class Work(NamedTuple):
    """Arrays that the steps of a plan use."""

    density: Floats  # density of rows for the trial shares, by cell
    metric: Floats  # variance cost of a squared score there; 0 where no row can be
    variances: Floats  # as `products`, summed over all cells
    speeds: Floats  # of the items
    price: Floats  # by cell
    told: Floats  # information from every mixture


@kernel
def find_shares(
    model: Model,
    rules: Rules,
    beliefs: Beliefs,
    items: Items,
    values: Floats,
    lost: Floats,
    shares: Floats,
) -> float:
    """Find the shares of mixtures that settle the slowest item soonest.

    Return the estimated rows that this takes; infinite if no row is informative about any item, or
    if losses hide one.
    """
    race = _line_up(model, rules, beliefs, items, values, lost)
    cells, live = race.spread.size, race.live.size
    work = Work(
        np.empty(cells),
        np.empty(cells),
        np.empty(3 * live),
        np.empty(live),
        np.empty(cells),
        np.empty(shares.size),
    )
    trial = 0.7 * shares + 0.3 / shares.size
    best = 0.0
    for step in range(rules.steps if live > 0 else 0):
        _fill_variances(race, items, trial, work)
        speed, place = _slowest(race, work)
        if place < 0:
            break
        if speed > best:
            best = speed
            copy_into(shares, trial)
        _step(race, items, work, place, 1.0 / (8.0 + step), trial)
    return 2.0 / best if best > 0.0 and not is_any_hidden(items.needs) else math.inf


@kernel
def _line_up(
    model: Model, rules: Rules, beliefs: Beliefs, items: Items, values: Floats, lost: Floats
) -> Race:
    """Return the items that a plan is made for: needed ones that rows are informative about."""
    cells, mixtures = beliefs.mean.size, model.mixtures.shape[0]
    number = 0
    live = np.empty(values.size, dtype=np.int64)
    for item in range(values.size):
        if items.needs[item] > 0.0 and values[item] > 0.0:
            live[number] = item
            number += 1
    products, inflation = np.empty((cells, 3 * number)), np.empty(number)
    for place in range(number):
        item = live[place]
        inflation[place] = 1.0 + rules.kappa / values[item]
        for x in range(cells):
            first, second = items.first[item, x], items.second[item, x]
            products[x, place] = first * first
            products[x, number + place] = first * second
            products[x, 2 * number + place] = second * second
    spread = np.empty(cells)
    for x in range(cells):
        spread[x] = beliefs.law[x] * beliefs.variance[x]
    options, by_cell = np.zeros((mixtures, cells)), np.empty((cells, mixtures))
    for mixture in range(mixtures):
        expected = model.mixtures[mixture].copy()
        for a in range(lost.size):
            expected[a] *= 1.0 - lost[a]
        add_weighted(model.actions, expected, options[mixture])
        for x in range(cells):
            by_cell[x, mixture] = options[mixture, x]
    chosen = live[:number]
    gains, excess, needs = items.gains[chosen], items.excess[chosen], items.needs[chosen]
    return Race(chosen, products, gains, excess, needs, inflation, spread, options, by_cell)


@unchecked
def _fill_variances(race: Race, items: Items, trial: Floats, work: Work) -> None:
    """Fill the variances of all live items for the trial shares, and the intermediate arrays."""
    _sum_rows(race.options, trial, work.density)
    some_are_dark = False
    for x in range(work.density.size):
        density = work.density[x]
        metric = race.spread[x] / density
        work.metric[x] = metric if density > 0.0 else 0.0
        some_are_dark |= density == 0.0
    _sum_rows(race.products, work.metric, work.variances)
    if some_are_dark:
        _hide_what_needs_dark_cells(race, items, work)


@unchecked
def _hide_what_needs_dark_cells(race: Race, items: Items, work: Work) -> None:
    """Set an item's variance to infinity if it needs a cell that no row can reach."""
    for x in range(work.density.size):
        if work.density[x] > 0.0:
            continue
        for place in range(race.live.size):
            item = race.live[place]
            if items.first[item, x] != 0.0 or items.second[item, x] != 0.0:
                work.variances[place] = math.inf


@unchecked
def _sum_rows(rows: Floats, weights: Floats, found: Floats) -> None:
    """Fill the weighted sum of rows: add to each column term by term, four terms at a time."""
    if weights.size < 4 or found.size <= 8:
        _sum_few_rows(rows, weights, found)
        return
    whole = weights.size - weights.size % 4
    for column in range(found.size):
        found[column] = 0.0
    for row in range(0, whole, 4):
        a, b, c, d = weights[row], weights[row + 1], weights[row + 2], weights[row + 3]
        for column in range(found.size):
            total = found[column] + a * rows[row, column]
            total += b * rows[row + 1, column]
            total += c * rows[row + 2, column]
            found[column] = total + d * rows[row + 3, column]
    for row in range(whole, weights.size):
        weight = weights[row]
        for column in range(found.size):
            found[column] += weight * rows[row, column]


@unchecked
def _sum_few_rows(rows: Floats, weights: Floats, found: Floats) -> None:
    """Fill the weighted sum of rows: four columns at a time, term by term."""
    columns = found.size
    whole = columns - columns % 4
    for column in range(0, whole, 4):
        a, b, c, d = 0.0, 0.0, 0.0, 0.0
        for row in range(weights.size):
            weight = weights[row]
            a += weight * rows[row, column]
            b += weight * rows[row, column + 1]
            c += weight * rows[row, column + 2]
            d += weight * rows[row, column + 3]
        found[column], found[column + 1], found[column + 2], found[column + 3] = a, b, c, d
    for column in range(whole, columns):
        a = 0.0
        for row in range(weights.size):
            a += weights[row] * rows[row, column]
        found[column] = a


@unchecked
def _weights(race: Race, work: Work, place: int) -> tuple[float, float, float]:
    """Return the best weights of a live item's functionals and their information."""
    live = race.live.size
    first, both = work.variances[place], work.variances[live + place]
    second = work.variances[2 * live + place]
    if not first + second < math.inf:
        return 0.0, 0.0, 0.0
    return multipliers(race.gains[place], race.excess[place], first, both, second)


@unchecked
def _fill_speeds(race: Race, work: Work) -> None:
    """Fill the speeds of all live items: the values that `multipliers` would return.

    There are no branches, so several items are computed at once.
    """
    live = race.live.size
    for place in range(live):
        first, both = work.variances[place], work.variances[live + place]
        second = work.variances[2 * live + place]
        gain, excess = race.gains[place], race.excess[place]
        alone, other = gain * gain / first, excess * excess / second
        determinant = first * second - both * both
        s = (second * gain - both * excess) / determinant
        nu = (first * excess - both * gain) / determinant
        value = alone if (gain > 0.0) & (first > 0.0) else 0.0
        value = other if (excess > 0.0) & (second > 0.0) & (other > value) else value
        is_inside = (determinant > _SINGULAR * first * second) & (s > 0.0) & (nu > 0.0)
        value = s * gain + nu * excess if is_inside else value
        value = value if first + second < math.inf else 0.0
        work.speeds[place] = value * race.inflation[place] / race.needs[place]


@unchecked
def _slowest(race: Race, work: Work) -> tuple[float, int]:
    """Return the speed of the slowest item and its place; the place is -1 if there is no item."""
    _fill_speeds(race, work)
    slowest, found = math.inf, -1
    for place in range(race.live.size):
        if work.speeds[place] < slowest:
            slowest, found = work.speeds[place], place
    return slowest, found


@unchecked
def _step(race: Race, items: Items, work: Work, place: int, size: float, trial: Floats) -> None:
    """Move the shares towards the mixture that is most informative about an item."""
    item = race.live[place]
    s, nu, _ = _weights(race, work, place)
    for x in range(work.metric.size):
        score = s * items.first[item, x] + nu * items.second[item, x]
        price = score * score * work.metric[x] / work.density[x]
        work.price[x] = price if score != 0.0 else 0.0
    _sum_rows(race.by_cell, work.price, work.told)
    total = 0.0
    for mixture in range(trial.size):
        total += trial[mixture] * work.told[mixture]
    if total > 0.0:
        for mixture in range(trial.size):
            trial[mixture] *= 1.0 - size + size * work.told[mixture] / total


@kernel
def initial_counts(model: Model, rules: Rules, state: State) -> Floats:
    """Return the rows of the first block, with mixtures as equal as its size allows."""
    shares = weighted(model.mixtures, state.shares)
    counts = np.zeros(shares.size)
    action, passed = 0, shares[0]
    for row in range(rules.initial_pulls):
        while action < shares.size - 1 and (row + 0.5) / rules.initial_pulls > passed:
            action += 1
            passed += shares[action]
        counts[action] += 1.0
    _carry(rules, state, rules.initial_pulls * shares, counts)
    return counts


@kernel
def _carry(rules: Rules, state: State, wanted: Floats, counts: Floats) -> None:
    if rules.carries:
        for action in range(counts.size):
            state.owed[action] = wanted[action] - counts[action]


@kernel
def block_counts(model: Model, rules: Rules, state: State, batch: float) -> Floats:
    """Return the rows of the next block by action: the planned shares, rounded to whole rows.

    `batch`: requested rows of the block; 0 leaves the size to the method.
    """
    size = batch
    if size == 0.0:
        rows = state.counts.sum()
        for slot in range(state.blocks.waiting.size):
            rows += max(0, state.blocks.waiting[slot])
        size = max(math.ceil(rules.growth * rows - _ROUNDING), rules.least)
    wanted = size * weighted(model.mixtures, state.shares) + state.owed
    counts = np.empty(wanted.size)
    for a in range(wanted.size):
        counts[a] = max(0.0, math.floor(wanted[a] + _ROUNDING))
    rest = wanted - counts
    for _ in range(int(size - counts.sum())):
        largest = np.argmax(rest)
        counts[largest] += 1.0
        rest[largest] -= 1.0
    _carry(rules, state, wanted, counts)
    return counts
