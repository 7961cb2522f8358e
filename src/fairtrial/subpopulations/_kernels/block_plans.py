"""The plan of the next block: the leader, the needs of each item, shares, and counts."""

import math
from typing import Any, NamedTuple

import numpy as np

from fairtrial.confidence.block_betting.blocks import FIXED, Blocks, draw_action
from fairtrial.confidence.block_betting.book import CLOSED, Book
from fairtrial.confidence.block_betting.hidden import (
    HIDDEN,
    HOPELESS,
    MOST_WASTED,
    is_any_hidden,
    leave_out_wasted,
)
from fairtrial.confidence.block_betting.plan_steps import take_steps
from fairtrial.confidence.block_betting.planned_end import (
    NOBODY,
    End,
    fit_to_end,
    must_bet_now,
    pulls_until_end,
    size_until_end,
)
from fairtrial.core.arithmetic import copy_into, square, sum_of
from fairtrial.core.compilation import counted, inlined, kernel, unchecked, uncounted
from fairtrial.subpopulations._kernels.block_losses import Losses
from fairtrial.subpopulations._kernels.block_state import Estimates, Rules, State, View
from fairtrial.subpopulations._kernels.control_limits import (
    CONTROL,
    RIVAL,
    ROLES,
    TARGET,
    above_control,
    alternative_at,
    control_means_of,
    difference_value,
    difference_weight,
    rival_value,
    shortfall,
)
from fairtrial.subpopulations._kernels.doubt import doubt_control, doubt_rival, fair_count
from fairtrial.subpopulations._kernels.indices import ANY_GROUP
from fairtrial.subpopulations._kernels.model import (
    CEILING,
    FLOOR,
    GROUP_DIFFERENCE,
    NO_CONTROL,
    OVERALL_DIFFERENCE,
    Booleans,
    Floats,
    Integers,
    Model,
    divide,
    fill,
    multiply,
)
from fairtrial.subpopulations._kernels.pitfalls import (
    Alternative,
    is_limited,
    margin,
    none_value,
    pair_value,
)
from fairtrial.subpopulations._kernels.plans_without_limits import (
    Items,
    has_no_limits,
    optimal_shares,
)

PRIOR_PULLS = 2.0
"""Weight, in tosses of a fair coin over the range, of the prior that shrinks a cell's variance."""

LEADER_NONE_PAUSE = 1.0
"""Replaces `rules.pause` if "none" leads and rewards are bounded."""

_MOST_STRETCHED = 10.0
"""A block waits for at most this many times its own pulls, to be filled by people who arrive."""

NOTHING = 1e-300
"""Information on an item whose means are on its border except for rounding."""


@uncounted
def can_plan(model: Model, state: State) -> bool:
    """Return whether every cell that matters has a result, or need not be waited for."""
    groups = model.weights.size
    for k in range(state.counts.shape[0]):
        is_open = state.book.rejected[k] != CLOSED
        for group in range(groups):
            is_missing = model.active[k, group] > 0.0 and state.counts[k, group] == 0.0
            cell = k * groups + group
            if is_open and is_missing and not stays_away(state.blocks, state.counts, cell):
                return False
    return True


@inlined
def stays_away(blocks: Blocks, counts: Floats, cell: int) -> bool:
    """Return whether a plan need not wait for the first result of a cell.

    Its first pulls are lost; or they are open, and other cells, some of them in its group, have
    given as many results as the first block has pulls. `counts`: results by cell.
    """
    if blocks.lost[cell] > 0.0:
        return True
    slot = blocks.first[0] % blocks.waiting.size
    if blocks.first[0] > 0 or blocks.to_issue[slot, cell] > 0.0:
        return False
    groups = counts.shape[1]
    in_group = 0.0
    for k in range(counts.shape[0]):
        in_group += counts[k, cell % groups]
    return in_group > 0.0 and sum_of(counts) >= sum_of(blocks.planned[slot])


@uncounted
def mark_silent(
    active: Floats, counts: Floats, book: Book, bounded: bool, silent: Booleans
) -> None:
    """Mark the arms that cannot be compared, because a cell that matters has no result.

    They can if rewards have a known range, because a lost pull then counts as its worst. No arm is
    marked if no other live arm is left. On entry, `silent` is False.
    """
    arms, groups = counts.shape
    are_others = False
    for k in range(arms):
        for group in range(groups):
            is_unknown = active[k, group] > 0.0 and counts[k, group] == 0.0
            silent[k] = silent[k] or (is_unknown and not bounded)
        are_others = are_others or not (silent[k] or book.rejected[k])
    for k in range(arms):
        silent[k] = silent[k] and are_others


@uncounted
def hide_silent(silent: Booleans, needs: Floats) -> None:
    """Let no plan wait for silent arms."""
    for k in range(silent.size):
        if silent[k] and needs[k] >= 0.0:
            needs[k] = HIDDEN


@uncounted
def try_silent_again(
    active: Floats,
    counts: Floats,
    leader: int,
    needs: Floats,
    shares: Floats,
    support: Booleans,
    number: int,
) -> int:
    """Give a block one pull of each cell that keeps an arm hidden; return its number of cells.

    If nothing else can be settled, its other pulls are of the leader.
    """
    arms, groups = counts.shape
    is_any_open = leader == arms
    for item in range(needs.size):
        is_any_open = is_any_open or needs[item] >= 0.0
    is_waiting = is_any_hidden(needs) and not is_any_open
    for k in range(arms):
        for group in range(groups):
            if is_waiting and support[k, group] != (k == leader and active[k, group] > 0.0):
                support[k, group] = k == leader
                number += 1 if k == leader else -1
            if needs[k] == HIDDEN and active[k, group] > 0.0 and counts[k, group] == 0.0:
                number += not support[k, group]
                support[k, group] = True
                shares[k, group] = 0.0
    return number


@uncounted
def summarise(model: Model, rules: Rules, state: State, means: Floats, variances: Floats) -> None:
    """Fill means and variances from all data; bounded rewards are shrunk to a fair coin.

    A cell without results gets the mean of the other arms in its group.
    """
    for k in range(means.shape[0]):
        for group in range(means.shape[1]):
            count = max(state.counts[k, group], 1e-300)
            means[k, group] = state.sums[k, group] / count
            variances[k, group] = model.variances[k, group]
            if rules.bounded:
                spread = PRIOR_PULLS * square(rules.high - rules.low) / 4.0
                squares = state.squares[k, group] - square(state.sums[k, group]) / count
                variances[k, group] = (squares + spread) / (state.counts[k, group] + PRIOR_PULLS)
    for group in range(means.shape[1]):
        _fill_unknown_means(state, group, means)


@inlined
def _fill_unknown_means(state: State, group: int, means: Floats) -> None:
    total = number = 0.0
    for k in range(means.shape[0]):
        if state.counts[k, group] > 0.0:
            total += means[k, group]
            number += 1.0
    for k in range(means.shape[0]):
        if state.counts[k, group] == 0.0 and number > 0.0:
            means[k, group] = total / number


@uncounted
def best_feasible(
    state: State,
    means: Floats,
    precisions: Floats,
    alternative: Alternative,
    passed: Booleans,
) -> int:
    """Return the best arm that keeps its limits by the estimates, or `NOBODY`.

    Arms that are ruled out or `passed` over do not count.
    """
    best = NOBODY
    best_quality = -math.inf
    for k in range(means.shape[0]):
        if passed[k] or state.book.rejected[k]:
            continue
        if shortfall(k, means, precisions, alternative) > 0.0:
            continue
        quality = 0.0
        for group in range(means.shape[1]):
            quality += alternative.weights[group] * means[k, group]
        if quality > best_quality:
            best = k
            best_quality = quality
    return best


@uncounted
def find_leader(
    state: State,
    means: Floats,
    precisions: Floats,
    alternative: Alternative,
    passed: Booleans,
) -> int:
    """Return the best live answer by the estimates, without arms that are `passed` over.

    It is the best feasible arm; if there is none, "none"; if that is rejected, the least infeasible
    arm.
    """
    arms = means.shape[0]
    best = best_feasible(state, means, precisions, alternative, passed)
    if best != NOBODY:
        return best
    if not state.book.rejected[arms]:
        return arms
    least = math.inf
    for k in range(arms):
        if not (passed[k] or state.book.rejected[k]):
            short = shortfall(k, means, precisions, alternative)
            if short < least:
                least = short
                best = k
    return best


@uncounted
def find_runner_up(
    rules: Rules,
    state: State,
    target: int,
    means: Floats,
    precisions: Floats,
    alternative: Alternative,
    passed: Booleans,
) -> int:
    """Return the arm for which a block bets on its target, too; only a planned end needs one.

    Arms that were `passed` over in the search for the target do not count; nor does the target,
    which is marked as well.
    """
    if rules.max_pulls == math.inf or target == means.shape[0]:
        return NOBODY
    passed[target] = True
    return best_feasible(state, means, precisions, alternative, passed)


@kernel
def leader_now(model: Model, rules: Rules, state: State) -> int:
    """Return the leader by all data so far; -1 before every cell that matters has data."""
    if not can_plan(model, state):
        return -1
    means = np.empty(model.active.shape)
    variances = np.empty(model.active.shape)
    summarise(model, rules, state, means, variances)
    precisions = np.empty(model.active.shape)
    divide(precisions, state.counts, variances)
    alternative = alternative_at(model, model.limits, control_means_of(model, means))
    passed = np.zeros(model.active.shape[0], dtype=np.bool_)
    mark_silent(model.active, state.counts, state.book, rules.bounded, passed)
    return find_leader(state, means, precisions, alternative, passed)


@uncounted
def doubt_means(
    active: Floats, rules: Rules, state: State, leader: int, view: View, doubted: Estimates
) -> bool:
    """Fill the means that the next block is planned for; return whether they differ.

    `active`: the cells that are needed.
    """
    seen, alternative, precisions = view.seen, view.alternative, view.precisions
    arms, groups = seen.means.shape
    copy_into(doubted.means, seen.means)
    for group in range(groups):
        doubted.control_means[group] = seen.control_means[group]
    if not rules.doubts:
        return False
    counts, moved = state.counts, doubted.means
    fair = fair_count(active, counts)
    differs = False
    control = alternative.control
    if control != NO_CONTROL and control != leader:
        differs = doubt_control(control, counts, fair, precisions, doubted.control_means)
        for group in range(groups):
            if rules.bounded:
                doubted.control_means[group] = min(doubted.control_means[group], rules.high)
    for k in range(arms):
        if k == leader or state.book.rejected[k]:
            continue
        if doubt_rival(alternative, k, leader == arms, counts, fair, seen.means, precisions, moved):
            for group in range(groups):
                if rules.bounded:
                    moved[k, group] = min(max(moved[k, group], rules.low), rules.high)
                differs = differs or moved[k, group] != seen.means[k, group]
    return differs


@uncounted
def item_value(
    item: int, leader: int, means: Floats, precisions: Floats, alternative: Alternative, lam: Floats
) -> float:
    """Return the information on one item, given precisions; a pair fills ``lam[item]``.

    If limits refer to a control, every item except the leader's own floors and ceilings fills it.
    """
    arms, groups = means.shape
    if item >= arms:
        end, group = (item - arms) // groups, (item - arms) % groups
        if end > CEILING:
            return difference_value(leader, end, group, means, precisions, alternative, lam, item)
        distance = means[leader, group] - alternative.limits[end, leader, group]
        return precisions[leader, group] * square(distance)
    if alternative.control != NO_CONTROL:
        return _value_beside_control(item, leader, means, precisions, alternative, lam)
    if leader == arms:
        return none_value(item, means, precisions, alternative.limits)
    value, _ = pair_value(leader, item, means, precisions, alternative, lam, item)
    return value


@counted
def _value_beside_control(
    item: int, leader: int, means: Floats, precisions: Floats, alternative: Alternative, lam: Floats
) -> float:
    coefficients = np.empty((ROLES, means.shape[1]))
    value, _ = rival_value(leader, item, means, precisions, alternative, lam, item, coefficients)
    return value


@uncounted
def fill_present(
    leader: int, view: View, losses: Losses, needs: Floats, lam: Floats, present: Floats
) -> float:
    """Fill the information on each needed item, else 0; return the smallest of the needed.

    It is 0 for an item that losses hide: more data with the same losses cannot settle it. Items
    that they waste are left out, too, as long as there are others. 0 is returned if one is
    hopeless. `lam`: work space.
    """
    means, precisions, alternative = view.seen.means, view.precisions, view.alternative
    arms = means.shape[0]
    is_hopeless = False
    for item in range(needs.size):
        present[item] = 0.0
        if needs[item] < 0.0:
            continue
        may_be_beyond = losses.move_means and item >= arms
        if not (may_be_beyond and _is_beyond(item, leader, means, alternative)):
            present[item] = item_value(item, leader, means, precisions, alternative, lam)
        if losses.cost_results:
            issued = item_value(item, leader, means, losses.issued, alternative, lam)
            is_hopeless = is_hopeless or issued >= HOPELESS * present[item]
            if issued >= MOST_WASTED * present[item]:
                present[item] = -present[item]
    weakest = leave_out_wasted(needs, present)
    return 0.0 if is_hopeless else weakest


@uncounted
def _is_beyond(item: int, leader: int, means: Floats, alternative: Alternative) -> bool:
    """Return whether the leader is beyond an item's limit."""
    arms, groups = means.shape
    end, group = (item - arms) // groups, (item - arms) % groups
    limit = alternative.limits[end, leader, group]
    if end > CEILING:
        control_means = means[alternative.control]
        weights = alternative.weights
        return above_control(leader, end, group, means, control_means, weights) < limit
    above = means[leader, group] - limit
    return above < 0.0 if end == FLOOR else above > 0.0


@uncounted
def item_gradient(
    item: int, leader: int, means: Floats, alternative: Alternative, lam: Floats, gradient: Floats
) -> None:
    """Fill an item's derivatives by the precisions; `item_value` must have filled `lam`."""
    arms, groups = means.shape
    limits, control = alternative.limits, alternative.control
    fill(gradient, 0.0)
    if item >= arms:
        end, group = (item - arms) // groups, (item - arms) % groups
        if end > CEILING:
            for i in range(groups):
                gradient[leader, i] = square(means[leader, i] - lam[item, TARGET, i])
                gradient[control, i] = square(means[control, i] - lam[item, CONTROL, i])
            return
        gradient[leader, group] = square(means[leader, group] - limits[end, leader, group])
        return
    for group in range(groups):
        if control != NO_CONTROL:
            moved = alternative.control_means[group] - lam[item, CONTROL, group]
            gradient[control, group] = square(moved)
            gradient[item, group] += square(means[item, group] - lam[item, RIVAL, group])
            if leader < arms:
                gradient[leader, group] += square(means[leader, group] - lam[item, TARGET, group])
        elif leader == arms:
            gradient[item, group] = square(
                min(0.0, margin(means[item, group], limits, item, group))
            )
        else:
            gradient[leader, group] = square(means[leader, group] - lam[item, 0, group])
            gradient[item, group] = square(means[item, group] - lam[item, 1, group])


@uncounted
def find_shares(
    costs: Floats, leader: int, view: View, items: Items, found: Floats, work: Floats
) -> float:
    """Find the shares of cost that (nearly) finish the neediest item soonest.

    Return the cost to finish. `found`: on entry the shares of the last plan, from which the search
    starts. `work`: space for three numbers of every item.
    """
    alternative = view.alternative
    if has_no_limits(alternative.limits):
        return optimal_shares(costs, leader, view.seen, alternative, items, found, work)
    return _nearly_optimal_shares(costs, leader, view.seen, alternative, items, found)


class _Steps(NamedTuple):
    """What the steps of a plan use: the problem as it is seen, the shares, and work space."""

    leader: int
    means: Floats
    alternative: Alternative
    items: Items
    per_cost: Floats  # precision, by cell
    shares: Floats
    values: Floats  # by item
    lam: Floats
    precisions: Floats
    gradient: Floats


@counted(error_model="numpy")
def _nearly_optimal_shares(
    costs: Floats,
    leader: int,
    seen: Estimates,
    alternative: Alternative,
    items: Items,
    found: Floats,
) -> float:
    """Find shares by steps from those of the last plan; return the cost to finish."""
    means = seen.means
    arms, groups = means.shape
    per_cost = np.empty((arms, groups))
    for k in range(arms):
        for group in range(groups):
            per_cost[k, group] = 1.0 / (seen.variances[k, group] * costs[k, group])
    shares = np.empty((arms, groups))
    _start_shares(leader, means, alternative, items, found, shares)
    copy_into(found, shares)
    plan = _Steps(
        leader,
        means,
        alternative,
        items,
        per_cost,
        shares,
        np.empty(items.needs.size),
        np.empty((items.needs.size, ROLES, groups)),
        np.empty((arms, groups)),
        np.empty((arms, groups)),
    )
    flat, best = shares.reshape(shares.size), found.reshape(found.size)
    progress = np.empty(items.number)
    return take_steps(plan, flat, best, progress, _fill_progress, _add_pull, cost_to_finish)


@unchecked
def _fill_progress(plan: _Steps, progress: Floats) -> None:
    """Fill the progress of every item: its value times its urgency."""
    multiply(plan.precisions, plan.shares, plan.per_cost)
    for i in range(progress.size):
        item = plan.items.live[i]
        plan.values[item] = item_value(
            item, plan.leader, plan.means, plan.precisions, plan.alternative, plan.lam
        )
        progress[i] = plan.values[item] * plan.items.urgency[item]


@unchecked
def _add_pull(plan: _Steps, _progress: Floats, i: int, weight: float, pull: Floats) -> None:
    """Add an item's derivatives by the shares."""
    item = plan.items.live[i]
    item_gradient(item, plan.leader, plan.means, plan.alternative, plan.lam, plan.gradient)
    add_gradient(weight * plan.items.urgency[item], plan.gradient, plan.per_cost, pull)


@unchecked
def add_gradient(weight: float, gradient: Floats, per_cost: Floats, pull: Floats) -> None:
    """Add an item's derivatives by the cost spent on each cell."""
    groups = gradient.shape[1]
    for k in range(gradient.shape[0]):
        for group in range(groups):
            pull[k * groups + group] += weight * gradient[k, group] * per_cost[k, group]


@uncounted
def _start_shares(
    leader: int,
    means: Floats,
    alternative: Alternative,
    items: Items,
    before: Floats,
    shares: Floats,
) -> None:
    """Fill start shares from those `before`, with every useful cell included."""
    fill(shares, 0.0)
    for i in range(items.number):
        _mark_useful_cells(items.live[i], leader, means, alternative, shares)
    blend_shares(before, shares)


@unchecked
def blend_shares(before: Floats, shares: Floats) -> None:
    """Mix the shares `before` with equal ones, in the cells marked with a one."""
    useful = sum_of(shares)
    whole = 0.0
    for k in range(shares.shape[0]):
        for group in range(shares.shape[1]):
            shares[k, group] *= 0.7 * before[k, group] + 0.3 / max(1.0, useful)
            whole += shares[k, group]
    for k in range(shares.shape[0]):
        for group in range(shares.shape[1]):
            shares[k, group] = shares[k, group] / whole if whole > 0.0 else 1.0 / shares.size


@uncounted
def _mark_useful_cells(
    item: int, leader: int, means: Floats, alternative: Alternative, useful: Floats
) -> None:
    """Mark with a one the cells that an item can use."""
    arms, groups = means.shape
    weights, limits = alternative.weights, alternative.limits
    if item >= arms:
        _mark_limit_of(item, leader, arms, alternative, useful)
        return
    if alternative.control != NO_CONTROL:
        _mark_differences(item, means, alternative, useful)
    for group in range(groups):
        if margin(means[item, group], limits, item, group) < 0.0:
            useful[item, group] = 1.0
        if leader < arms and weights[group] > 0.0:
            useful[leader, group] = 1.0
            useful[item, group] = 1.0


@uncounted
def _mark_limit_of(
    item: int, leader: int, arms: int, alternative: Alternative, useful: Floats
) -> None:
    """Mark the cells of one of the leader's limits."""
    groups = alternative.weights.size
    end, group = (item - arms) // groups, (item - arms) % groups
    if end <= CEILING:
        useful[leader, group] = 1.0
        return
    for i in range(groups):
        if difference_weight(end, group, i, alternative.weights) > 0.0:
            useful[leader, i] = useful[alternative.control, i] = 1.0


@uncounted
def _mark_differences(k: int, means: Floats, alternative: Alternative, useful: Floats) -> None:
    """Mark the cells in which arm k is compared with the control, if the comparison can matter.

    A limit that holds now matters only if a ceiling or an overall difference moves the arm or the
    control in the wrong direction.
    """
    limits, weights, control = alternative.limits, alternative.weights, alternative.control
    for end in range(GROUP_DIFFERENCE, limits.shape[0]):
        for group in range(weights.size):
            limit = limits[end, k, group]
            if limit == -math.inf:
                continue
            above = above_control(k, end, group, means, alternative.control_means, weights)
            if above >= limit and limits[CEILING, k, group] == math.inf:
                continue
            for i in range(weights.size):
                if difference_weight(end, group, i, weights) > 0.0:
                    useful[k, i] = useful[control, i] = 1.0


@uncounted(error_model="numpy")
def list_items(
    rules: Rules, needs: Floats, present: Floats, urgency: Floats, live: Integers
) -> int:
    """Fill the `Items` that data can settle; return their number.

    Urgent ones have little information and large needs. `present`: the information on each item
    from the data so far.
    """
    number = 0
    for item in range(needs.size):
        if needs[item] >= 0.0 and present[item] > NOTHING:
            urgency[item] = (1.0 + rules.kappa / present[item]) / (needs[item] + rules.cost)
            live[number] = item
            number += 1
    return number


@unchecked
def cost_to_finish(plan: Any, progress: Floats) -> float:
    """Return the cost until every live item of a plan has what it needs."""
    cost = 0.0
    for i in range(progress.size):
        item = plan.items.live[i]
        cost = max(cost, 2.0 * plan.items.needs[item] / max(plan.values[item], 1e-300))
    return cost


@uncounted
def mark_support(
    leader: int,
    view: View,
    needs: Floats,
    shares: Floats,
    lam: Floats,
    work: Floats,
    support: Booleans,
) -> None:
    """Mark the cells that a live item can use; `lam` and `work` are work space."""
    means, alternative = view.seen.means, view.alternative
    arms, groups = means.shape
    precisions, gradient = work[0], work[1]
    divide(precisions, shares, view.seen.variances)
    for k in range(arms):
        for group in range(groups):
            support[k, group] = False
    for item in range(needs.size):
        if needs[item] < 0.0:
            continue
        item_value(item, leader, means, precisions, alternative, lam)
        item_gradient(item, leader, means, alternative, lam, gradient)
        touched = False
        for k in range(arms):
            for group in range(groups):
                if gradient[k, group] > 0.0:
                    support[k, group] = True
                    touched = True
        if not touched:
            _mark_cells_of(item, leader, alternative, support)


@uncounted
def close_support(active: Floats, leader: int, shares: Floats, support: Booleans) -> int:
    """Drop cells that "none" hardly needs from a support; if nothing is left, mark all that matter.

    Return the number of marked cells.
    """
    arms, groups = shares.shape
    number = 0
    for k in range(arms):
        for group in range(groups):
            if leader == arms and shares[k, group] <= 0.02 / (arms * groups):
                support[k, group] = False
            number += support[k, group]
    if number == 0:
        # An exact tie, or a mean exactly on its floor: the items give no hint where to pull.
        for k in range(arms):
            for group in range(groups):
                support[k, group] = active[k, group] > 0.0
                number += support[k, group]
    return number


@uncounted
def take_equally(shares: Floats, support: Booleans) -> int:
    """Give every cell the same share, and mark it; return the number of cells."""
    for k in range(shares.shape[0]):
        for group in range(shares.shape[1]):
            shares[k, group] = 1.0 / shares.size
            support[k, group] = True
    return shares.size


@uncounted
def keep_open(active: Floats, book: Book, support: Booleans, number: int) -> int:
    """Drop the cells of closed arms from a support; if nothing is left, mark all other cells.

    Return the number of marked cells.
    """
    arms, groups = support.shape
    for k in range(arms):
        for group in range(groups):
            if book.rejected[k] == CLOSED and support[k, group]:
                support[k, group] = False
                number -= 1
    if number == 0:
        for k in range(arms):
            for group in range(groups):
                is_open = book.rejected[k] != CLOSED
                support[k, group] = is_open and active[k, group] > 0.0
                number += support[k, group]
    return number


@uncounted
def _mark_cells_of(item: int, leader: int, alternative: Alternative, support: Booleans) -> None:
    """Mark every cell of an item whose mean is exactly on its border.

    There the item prefers no cell, and unmarked cells would stay unmarked forever.
    """
    arms = support.shape[0]
    weights, limits = alternative.weights, alternative.limits
    if item >= arms:
        _mark_limit_of(item, leader, arms, alternative, support)
        return
    for group in range(weights.size):
        if weights[group] > 0.0 or is_limited(limits, item, group):
            support[item, group] = True
        if weights[group] > 0.0 and leader < arms:
            support[leader, group] = True
        if alternative.control != NO_CONTROL and (
            limits[GROUP_DIFFERENCE, item, group] > -math.inf
            or (weights[group] > 0.0 and limits[OVERALL_DIFFERENCE, item, 0] > -math.inf)
        ):
            support[item, group] = support[alternative.control, group] = True


@uncounted
def shares_of_pulls(costs: Floats, shares: Floats, support: Booleans, found: Floats) -> None:
    """Fill the pulls per unit of cost by the planned shares of cost, in the cells of a support."""
    for k in range(found.shape[0]):
        for group in range(found.shape[1]):
            found[k, group] = shares[k, group] / costs[k, group] if support[k, group] else 0.0


@uncounted
def fill_block_counts(
    rules: Rules,
    blocks: Blocks,
    pulls: Floats,
    support: Booleans,
    number: int,
    size: float,
    arrived: int,
    planned: Floats,
) -> None:
    """Fill the pulls of the next block by cell: at least one in every cell of the support.

    If people arrive by themselves, everybody who comes until the block is filled has a place in it,
    unless its `size` is requested. The last block before a planned end has all pulls that are left,
    and may leave out cells.

    Parameters
    ----------
    rules : Rules
        The constants of the method.
    blocks : Blocks
        The open blocks.
    pulls : float array
        Pulls so far, by cell.
    support : bool array
        Which cells the block has; their number is `number`.
    size : float
        Requested pulls of the block; 0 leaves them to the method.
    arrived : int
        The group that has arrived; `ANY_GROUP` if groups are chosen.
    planned : float array
        On entry what `shares_of_pulls` fills.
    """
    left = pulls_until_end(rules, blocks)
    share = sum_of(planned)
    is_free = size <= 0.0
    if is_free:
        size = max(math.ceil(rules.growth * sum_of(pulls)), rules.touch * number)
    size = size_until_end(size, left)
    for k in range(support.shape[0]):
        for group in range(support.shape[1]):
            if support[k, group]:
                planned[k, group] = max(1.0, round(size * planned[k, group] / share))
    if is_free and arrived != ANY_GROUP:
        _take_arrivals(pulls, _MOST_STRETCHED * size, planned)
    if left < math.inf:
        fit_to_end(planned, size, left)


@counted
def _take_arrivals(pulls: Floats, most: float, planned: Floats) -> None:
    """Raise a block's pulls to those of all who arrive until its slowest group is filled.

    Groups are taken to arrive as they did so far, and the arms of a group keep their proportions.
    `most`: arrivals that the block waits for; the rarest group may never come.
    """
    arms, groups = planned.shape
    came = np.zeros(groups)
    wanted = np.zeros(groups)
    for k in range(arms):
        for group in range(groups):
            came[group] += pulls[k, group]
            wanted[group] += planned[k, group]
    slowest = 0.0
    for group in range(groups):
        if wanted[group] > 0.0:
            slowest = max(slowest, wanted[group] / max(1.0, came[group]))
    slowest = min(slowest, most / sum_of(came))
    for group in range(groups):
        expected = slowest * came[group]
        if wanted[group] > 0.0 and expected > wanted[group]:
            for k in range(arms):
                planned[k, group] = round(planned[k, group] * expected / wanted[group])


@kernel
def extra_cell(
    blocks: Blocks, book: Book, matters: Floats, counts: Floats, shares: Floats, group: int
) -> int:
    """Return the cell of a pull outside the plan: the least known, or one drawn by planned shares.

    `matters`: which cells do. `group`: the group that arrived, which the cell must belong to; -1
    for every group. If none of its cells matters, all of them are taken.
    """
    arms, groups = matters.shape
    active = matters.copy()
    if group >= 0 and sum_of(matters[:, group]) == 0.0:
        for k in range(arms):
            active[k, group] = 1.0
    for k in range(arms):
        if book.rejected[k] == CLOSED:
            active[k] = 0.0
    if blocks.order[0] != FIXED:
        return draw_action(blocks, _shares_within(active, shares, group), groups)
    least = math.inf
    best = max(group, 0)
    for k in range(arms):
        for column in range(groups):
            wanted = active[k, column] > 0.0 and (group < 0 or column == group)
            known = counts[k, column]
            if known == 0.0:
                # Its pulls so far are in flight, or lost.
                known = blocks.pulls[0] / counts.size
            if wanted and known < least:
                least = known
                best = k * groups + column
    return best


@kernel
def _shares_within(active: Floats, planned: Floats, group: int) -> Floats:
    """Return the planned shares of cells, in a group or in all; equal ones if all are 0."""
    groups = active.shape[1]
    shares = np.zeros(active.size)
    for least in (0.0, 1.0):
        for cell in range(shares.size):
            k, column = cell // groups, cell % groups
            if active[k, column] > 0.0 and (group < 0 or column == group):
                shares[cell] = max(planned[k, column], least)
        if shares.sum() > 0.0:
            break
    return shares


# ------------------------------------------------------------- the first block, and when to bet


@kernel
def initial_block(active: Floats, rules: Rules) -> Floats:
    """Return the first block's pulls by cell, flat: the initial pulls of every active cell."""
    planned = np.zeros(active.shape)
    for k in range(active.shape[0]):
        for group in range(active.shape[1]):
            if active[k, group] > 0.0:
                planned[k, group] = max(1.0, rules.initial_pulls)
    return planned.reshape(planned.size)


@uncounted
def weakest_open(weakest: float, lossy: bool, needs: Floats, present: Floats) -> float:
    """Return the smallest information on a needed item that may be settled; 0 if there is none.

    `weakest`: the smallest on all needed items, as `fill_present` returns it. It is 0 if `lossy`
    and missing results hide that the leader is better than a rival. More data with the same losses
    cannot show it then, so waiting for that item would hold back the bets on all others for ever.
    """
    if not lossy or weakest > 0.0:
        return weakest
    found = math.inf
    for item in range(needs.size):
        if needs[item] >= 0.0 and present[item] > 0.0:
            found = min(found, present[item])
    return found if found < math.inf else 0.0


@inlined
def is_worth_a_bet(weakest: float, rules: Rules, none_leads: bool, end: End) -> bool:
    """Return whether there is enough information on the leader's weakest item to bet on it."""
    if must_bet_now(end, none_leads):
        return True
    pause = rules.pause
    if none_leads:
        pause = LEADER_NONE_PAUSE if rules.bounded else 0.0
    return weakest >= square(pause)
