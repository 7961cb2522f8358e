"""What the next block should draw: the leader, what each item still needs, shares, counts."""

import math

import numpy as np

from fairtrial.core.compilation import kernel
from fairtrial.subpopulations._kernels.block_book import Book, Rules
from fairtrial.subpopulations._kernels.block_wealth import current_wealth, log_wealth
from fairtrial.subpopulations._kernels.model import (
    Booleans,
    Floats,
    Integers,
    Limits,
    Model,
    copy_into,
    divide,
    fill,
    multiply,
    total,
)
from fairtrial.subpopulations._kernels.pitfalls import (
    is_limited,
    margin,
    none_value,
    pair_value,
)

PRIOR_DRAWS = 2.0
"""Draws of a fair coin over the range that a cell's variance is shrunk by."""


@kernel
def can_plan(model: Model, book: Book) -> bool:
    """Return whether every cell that matters has a mean, which a plan needs."""
    for k in range(book.counts.shape[0]):
        for group in range(model.weights.size):
            if model.active[k, group] > 0.0 and book.counts[k, group] < 1.0:
                return False
    return True


@kernel
def summarise(model: Model, rules: Rules, book: Book, means: Floats, variances: Floats) -> None:
    """Fill means and variances of a draw from all data; bounded rewards shrink to a fair coin."""
    for k in range(means.shape[0]):
        for group in range(means.shape[1]):
            count = max(book.counts[k, group], 1e-300)
            means[k, group] = book.sums[k, group] / count
            variances[k, group] = model.variances[k, group]
            if rules.bounded:
                spread = PRIOR_DRAWS * (rules.high - rules.low) ** 2 / 4.0
                squares = book.squares[k, group] - book.sums[k, group] ** 2 / count
                variances[k, group] = (squares + spread) / (book.counts[k, group] + PRIOR_DRAWS)


@kernel
def find_leader(model: Model, book: Book, means: Floats, precisions: Floats) -> int:
    """Return the best empirically feasible live answer; else none; else the least infeasible."""
    arms = means.shape[0]
    best = -1
    best_quality = -math.inf
    for k in range(arms):
        if book.rejected[k] or none_value(k, means, precisions, model.limits) > 0.0:
            continue
        quality = 0.0
        for group in range(means.shape[1]):
            quality += model.weights[group] * means[k, group]
        if quality > best_quality:
            best = k
            best_quality = quality
    if best >= 0:
        return best
    if not book.rejected[arms]:
        return arms
    least = math.inf
    for k in range(arms):
        if not book.rejected[k]:
            short = none_value(k, means, precisions, model.limits)
            if short < least:
                least = short
                best = k
    return best


@kernel
def leader_now(model: Model, rules: Rules, book: Book) -> int:
    """Return the leader by all data so far, -1 before every cell that matters has some."""
    if not can_plan(model, book):
        return -1
    means = np.empty(model.active.shape)
    variances = np.empty(model.active.shape)
    summarise(model, rules, book, means, variances)
    precisions = np.empty(model.active.shape)
    divide(precisions, book.counts, variances)
    return find_leader(model, book, means, precisions)


@kernel
def needs_of(model: Model, rules: Rules, book: Book, leader: int, needs: Floats) -> None:
    """Fill what each item still needs in nats; negative where it is settled or absent.

    Items 0 .. K-1: the rival k. Items from K on: the limits of the leader, floors first.
    """
    arms, groups = model.active.shape
    for item in range(needs.size):
        needs[item] = -1.0
    for k in range(arms):
        if book.rejected[k] or k == leader:
            continue
        if leader == arms:
            needs[k] = max(0.0, rules.threshold - current_wealth(model, book, k))
        else:
            missing = rules.threshold - log_wealth(model, book, k, leader, book.pairs[k, leader])
            needs[k] = missing if missing > 0.0 else -1.0
    if leader == arms:
        return
    for item in range(arms, needs.size):
        end, group = (item - arms) // groups, (item - arms) % groups
        if abs(model.limits[end, leader, group]) == math.inf:
            continue
        largest = -math.inf
        for answer in range(arms + 1):
            if answer != leader and not book.rejected[answer]:
                missing = rules.threshold - log_wealth(
                    model, book, answer, leader, book.cells[end, leader, group]
                )
                largest = max(largest, missing)
        needs[item] = largest if largest > 0.0 else -1.0


@kernel
def item_value(
    item: int,
    leader: int,
    means: Floats,
    precisions: Floats,
    weights: Floats,
    limits: Limits,
    lam: Floats,
) -> float:
    """Return the information that precisions give on one item; a pair fills ``lam[item]``."""
    arms, groups = means.shape
    if item >= arms:
        end, group = (item - arms) // groups, (item - arms) % groups
        distance = means[leader, group] - limits[end, leader, group]
        return precisions[leader, group] * distance**2
    if leader == arms:
        return none_value(item, means, precisions, limits)
    value, _ = pair_value(
        leader, item, means, precisions, leader, item, weights, limits, 0.0, lam, item
    )
    return value


@kernel
def _item_gradient(
    item: int, leader: int, means: Floats, limits: Limits, lam: Floats, gradient: Floats
) -> None:
    """Fill an item's derivatives by the precisions, after `item_value` has filled `lam`."""
    arms, groups = means.shape
    fill(gradient, 0.0)
    if item >= arms:
        end, group = (item - arms) // groups, (item - arms) % groups
        gradient[leader, group] = (means[leader, group] - limits[end, leader, group]) ** 2
        return
    for group in range(groups):
        if leader == arms:
            gradient[item, group] = min(0.0, margin(means[item, group], limits, item, group)) ** 2
        else:
            gradient[leader, group] = (means[leader, group] - lam[item, 0, group]) ** 2
            gradient[item, group] = (means[item, group] - lam[item, 1, group]) ** 2


@kernel(error_model="numpy")
def find_shares(
    model: Model,
    rules: Rules,
    book: Book,
    leader: int,
    means: Floats,
    variances: Floats,
    needs: Floats,
    present: Floats,
) -> float:
    """Set the shares of cost that finish the neediest item soonest; return what it will cost.

    `present`: each item's value at the data so far.
    """
    arms, groups = means.shape
    weights, limits = model.weights, model.limits
    per_cost = np.empty((arms, groups))
    shares = np.empty((arms, groups))
    _start_shares(model, book, variances, per_cost, shares)
    urgency = np.empty(needs.size)
    live = np.empty(needs.size, dtype=np.int64)
    number = _list_live_items(rules, needs, present, urgency, live)
    lam = np.empty((needs.size, 2, groups))
    values = np.empty(needs.size)
    precisions = np.empty((arms, groups))
    gradient = np.empty((arms, groups))
    most = -1.0
    forecast = math.inf
    for step in range(rules.steps if number > 0 else 0):
        multiply(precisions, shares, per_cost)
        weakest = _weakest_live_item(
            leader, means, precisions, weights, limits, urgency, live, number, lam, values
        )
        progress = values[weakest] * urgency[weakest]
        if progress > most:
            most = progress
            forecast = _cost_to_finish(needs, values, live, number)
            copy_into(book.shares, shares)
        if values[weakest] <= 0.0:
            break
        _item_gradient(weakest, leader, means, limits, lam, gradient)
        gain = 1.0 / (8.0 + step)
        scale = gain / values[weakest]
        for k in range(arms):
            for group in range(groups):
                pull = gradient[k, group] * per_cost[k, group]
                shares[k, group] *= 1.0 - gain + scale * pull
    return forecast


@kernel(error_model="numpy")
def _start_shares(
    model: Model, book: Book, variances: Floats, per_cost: Floats, shares: Floats
) -> None:
    """Fill the precision that a unit of cost buys, and shares that leave no cell out."""
    arms, groups = shares.shape
    for k in range(arms):
        for group in range(groups):
            per_cost[k, group] = 1.0 / (variances[k, group] * model.costs[k, group])
            shares[k, group] = 0.7 * book.shares[k, group] + 0.3 / (arms * groups)


@kernel(error_model="numpy")
def _list_live_items(
    rules: Rules, needs: Floats, present: Floats, urgency: Floats, live: Integers
) -> int:
    """List the items that data can settle; return how many. Urgent: little known, much needed."""
    number = 0
    for item in range(needs.size):
        if needs[item] >= 0.0 and present[item] > 0.0:
            urgency[item] = (1.0 + rules.kappa / present[item]) / (needs[item] + rules.cost)
            live[number] = item
            number += 1
    return number


# Passing this many arrays costs more than the work: it is compiled into its caller.
@kernel(error_model="numpy", inline="always")
def _weakest_live_item(
    leader: int,
    means: Floats,
    precisions: Floats,
    weights: Floats,
    limits: Limits,
    urgency: Floats,
    live: Integers,
    number: int,
    lam: Floats,
    values: Floats,
) -> int:
    """Fill the live items' values; return the one that is last to be settled."""
    weakest = live[0]
    least = math.inf
    for i in range(number):
        item = live[i]
        values[item] = item_value(item, leader, means, precisions, weights, limits, lam)
        if values[item] * urgency[item] < least:
            least = values[item] * urgency[item]
            weakest = item
    return weakest


@kernel(error_model="numpy")
def _cost_to_finish(needs: Floats, values: Floats, live: Integers, number: int) -> float:
    """Return the cost after which every live item has what it needs."""
    cost = 0.0
    for i in range(number):
        item = live[i]
        cost = max(cost, 2.0 * needs[item] / max(values[item], 1e-300))
    return cost


@kernel
def find_support(
    model: Model,
    book: Book,
    leader: int,
    means: Floats,
    variances: Floats,
    needs: Floats,
    support: Booleans,
) -> int:
    """Mark the cells that some live item can use; return how many there are."""
    arms, groups = means.shape
    for k in range(arms):
        for group in range(groups):
            support[k, group] = False
    lam = np.empty((needs.size, 2, groups))
    gradient = np.empty((arms, groups))
    precisions = np.empty((arms, groups))
    divide(precisions, book.shares, variances)
    for item in range(needs.size):
        if needs[item] < 0.0:
            continue
        item_value(item, leader, means, precisions, model.weights, model.limits, lam)
        _item_gradient(item, leader, means, model.limits, lam, gradient)
        touched = False
        for k in range(arms):
            for group in range(groups):
                if gradient[k, group] > 0.0:
                    support[k, group] = True
                    touched = True
        if not touched:
            _mark_cells_of(item, leader, model.weights, model.limits, support)
    number = 0
    for k in range(arms):
        for group in range(groups):
            if leader == arms and book.shares[k, group] <= 0.02 / (arms * groups):
                support[k, group] = False
            number += support[k, group]
    if number == 0:
        # An exact tie, or a mean exactly on its floor: nothing is known of where to look.
        for k in range(arms):
            for group in range(groups):
                support[k, group] = model.active[k, group] > 0.0
                number += support[k, group]
    return number


@kernel
def _mark_cells_of(
    item: int, leader: int, weights: Floats, limits: Limits, support: Booleans
) -> None:
    """Mark every cell that an item rests on: where a mean sits exactly on its border.

    No direction stands out there, and cells that were left alone would stay there for ever.
    """
    arms, groups = support.shape
    if item >= arms:
        support[leader, (item - arms) % groups] = True
        return
    for group in range(weights.size):
        if weights[group] > 0.0 or is_limited(limits, item, group):
            support[item, group] = True
        if weights[group] > 0.0 and leader < arms:
            support[leader, group] = True


@kernel
def block_counts(
    model: Model,
    rules: Rules,
    book: Book,
    support: Booleans,
    number: int,
    size: float,
    planned: Floats,
) -> None:
    """Fill the draws of the next block: at least one in every cell of the support."""
    share = 0.0
    for k in range(support.shape[0]):
        for group in range(support.shape[1]):
            planned[k, group] = 0.0
            if support[k, group]:
                planned[k, group] = book.shares[k, group] / model.costs[k, group]
                share += planned[k, group]
    if size <= 0.0:
        size = max(math.ceil(rules.growth * total(book.counts)), rules.touch * number)
    for k in range(support.shape[0]):
        for group in range(support.shape[1]):
            if support[k, group]:
                planned[k, group] = max(1.0, round(size * planned[k, group] / share))
