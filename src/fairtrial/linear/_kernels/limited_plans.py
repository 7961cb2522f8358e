"""Plans and bets if candidates have limits: leader, needs, directions and counts."""

import math
from typing import NamedTuple

import numpy as np

from fairtrial.confidence.block_betting.blocks import next_slot, open_block, open_planned_block
from fairtrial.confidence.block_betting.book import (
    UNDECIDED,
    begin_bets,
    conclude,
    fill_needs,
    is_wanted,
    limit_ledger,
    own_ledger,
    pair_ledger,
    rival_ledger,
    rule_out_none,
)
from fairtrial.confidence.block_betting.hidden import (
    HIDDEN,
    MOST_TRIED,
    fill_times,
    is_any_hidden,
    is_sooner,
)
from fairtrial.confidence.block_betting.planned_end import (
    NOBODY,
    end_after,
    fit_to_end,
    must_bet_now,
    pulls_until_end,
    size_until_end,
)
from fairtrial.core.arithmetic import copy_into, square, sum_of
from fairtrial.core.compilation import apart, inlined, kernel
from fairtrial.linear._kernels.limits import (
    Limits,
    Metric,
    combine_rows,
    fill_rival_rows,
    keeps_limits,
    length_of,
    rival_value,
    shortfall,
)
from fairtrial.linear._kernels.losses import (
    Losses,
    hidden_by_losses,
    is_hidden,
    model_after_losses,
    shares_lost,
)
from fairtrial.linear._kernels.matrices import (
    Floats,
    Integers,
    dot,
    gram,
    root_of_inverse,
    whitener,
    whitener_of_rows,
)
from fairtrial.linear._kernels.model import Model, difference
from fairtrial.linear._kernels.planning import (
    MANY,
    MOST_ESTIMATE,
    block_counts,
    find_design,
    fit,
    freeze_bets,
    measures_all,
    mix,
    natural_size,
    plan_large,
)
from fairtrial.linear._kernels.state import Rules, State

ROUNDS = 4
"""How often a plan alternates between directions for its shares and shares for its directions."""

EASY = 1.5
"""A plan doubts rows whose variance is this many times that of equal pulls of all arms."""

NONE_PAUSE = 1.0
"""Replaces `rules.pause` if "none" leads and rewards are bounded."""


class Seen(NamedTuple):
    """The estimates from all data, and what losses do to them."""

    metric: Metric
    noise: float  # its variance
    losses: Losses


class Known(NamedTuple):
    """What is known when a block is planned."""

    leader: int  # the target of the block
    runner_up: int  # on which the leader is bet, too; only a planned end needs one
    metric: Metric  # the estimates from all data, and their precision
    noise: float  # variance of the noise
    losses: Losses


@kernel
def _best_feasible(
    model: Model, limits: Limits, state: State, metric: Metric, passed: Integers
) -> int:
    """Return the best live candidate, not passed over, whose estimate keeps its limits.

    It is `NOBODY` if there is none. `passed`: 1 for the candidates to pass over.
    """
    best = NOBODY
    most = -math.inf
    for k in range(model.candidates.shape[0]):
        is_live = not (passed[k] or state.book.rejected[k])
        if is_live and keeps_limits(limits, k, metric.theta):
            value = dot(model.candidates[k], metric.theta) + dot(model.rest[k], metric.theta)
            if value > most:
                most = value
                best = k
    return best


@kernel
def leader_with_limits(model: Model, limits: Limits, state: State, metric: Metric) -> int:
    """Return the best live answer whose estimate keeps its limits; otherwise "none".

    If "none" is ruled out, return the live candidate closest to its limits.
    """
    candidates = model.candidates.shape[0]
    nobody = np.zeros(candidates, dtype=np.int64)
    best = _best_feasible(model, limits, state, metric, nobody)
    if best != NOBODY:
        return best
    if not state.book.rejected[candidates]:
        return candidates
    least = math.inf
    for k in range(candidates):
        if not state.book.rejected[k]:
            short = shortfall(model, limits, k, metric)
            if short < least or best < 0:
                least = short
                best = k
    return best


@kernel
def _find_target(
    model: Model,
    limits: Limits,
    rules: Rules,
    state: State,
    known: Seen,
    needs: Floats,
    passed: Integers,
) -> int:
    """Return the answer that the next block compares with others; fill its needs.

    It is the leader or, if losses make it slow, a candidate that rules out others sooner. Mark in
    `passed` the candidates that are better by the estimates.
    """
    candidates = model.candidates.shape[0]
    metric, losses = known.metric, known.losses
    leader = leader_with_limits(model, limits, state, metric)
    target = tried_last = leader
    times, at_best = np.empty(candidates + 1), np.empty(candidates + 1)
    others, others_at_best = np.empty(candidates + 1), np.empty(candidates + 1)
    tried = np.zeros(candidates, dtype=np.int64)
    is_any_lost = losses.shares.size > 0 and leader < candidates
    if is_any_lost:
        _fill_times(model, limits, rules, state, known, leader, times, at_best)
    for _ in range(MOST_TRIED - 1 if is_any_lost else 0):
        tried[tried_last] = 1
        tried_last = _best_feasible(model, limits, state, metric, tried)
        if tried_last == NOBODY:
            break
        _fill_times(model, limits, rules, state, known, tried_last, others, others_at_best)
        if is_sooner(times, at_best, others, tried_last):
            target = tried_last
            copy_into(times, others)
            copy_into(at_best, others_at_best)
            copy_into(passed, tried)
    fill_needs(state.book, rules.threshold, rules.separately, target, needs)
    _leave_out_hidden(model, limits, rules, losses, metric, target, needs)
    return target


@kernel
def _fill_times(
    model: Model,
    limits: Limits,
    rules: Rules,
    state: State,
    known: Seen,
    target: int,
    times: Floats,
    at_best: Floats,
) -> None:
    """Fill how many pulls a target needs to rule out each answer, with losses and without.

    All arms get equally many.
    """
    theta, losses = known.metric.theta, known.losses
    needs = np.empty(at_best.size - 1 + limits.stated.shape[1])
    fill_needs(state.book, rules.threshold, rules.separately, target, needs)
    pulls = np.ones(losses.shares.size)
    whole = metric_of_shares(model, pulls, theta)
    some = whole if rules.bounded else metric_of_shares(model, 1.0 - losses.shares, theta)
    values, most = np.zeros(needs.size), np.zeros(needs.size)
    direction = np.empty(theta.size)
    for item in range(needs.size):
        if needs[item] < 0.0:
            continue
        _, constant = item_value(model, limits, rules.tolerance, target, item, some, direction)
        effect = dot(direction, theta) + constant
        hidden = hidden_by_losses(model, rules, losses, some, pulls, direction)
        variance, least = length_of(some, direction), length_of(whole, direction)
        if least > 0.0:
            values[item] = square(max(0.0, effect - hidden)) / (known.noise * variance)
            most[item] = square(effect) / (known.noise * least)
    fill_times(state.book, needs, values, rules.cost, target, times)
    fill_times(state.book, needs, most, rules.cost, target, at_best)


@kernel
def start_with_limits(model: Model, limits: Limits, rules: Rules, state: State) -> None:
    """Rule out what cannot be right at any theta: candidates that break a limit, or "none"."""
    book = state.book
    for k in range(limits.excluded.size):
        for r in range(limits.stated.shape[1]):
            book.stated[k, r] = limits.stated[k, r] > -math.inf
        if limits.excluded[k]:
            book.ledgers[own_ledger(k)] = math.inf
            book.rejected[k] = 1
    if rules.tolerance > 0.0:
        _settle_twins(model, state)
    rule_out_none(book)
    conclude_with_limits(rules, state)


@kernel
def _settle_twins(model: Model, state: State) -> None:
    """Settle the pairs of equal candidates: with a tolerance, neither is better than the other."""
    candidates, rank = model.candidates.shape
    for j in range(candidates):
        for k in range(candidates):
            same = j != k
            for i in range(rank):
                same = same and model.candidates[j, i] == model.candidates[k, i]
                if not same:
                    break
            if same and model.rest[j, 0] == model.rest[k, 0]:
                state.book.ledgers[pair_ledger(state.book, k, j)] = math.inf


@kernel
def conclude_with_limits(rules: Rules, state: State) -> None:
    """Reject permanently every answer that the wealth rules out; finish when one is left."""
    leader = chosen_answer(state)
    answer = conclude(state.book, rules.threshold, rules.separately, leader)
    if answer != UNDECIDED:
        state.finished[0] = 1
        choose(state, answer)


@kernel
def choose(state: State, answer: int) -> None:
    """Mark one answer as the leader."""
    for k in range(state.chosen.size):
        state.chosen[k] = 1 if k == answer else 0


@kernel
def chosen_answer(state: State) -> int:
    """Return the current leader or the answer; -1 before there is one."""
    for k in range(state.chosen.size):
        if state.chosen[k]:
            return k
    return -1


@kernel
def leader_with_limits_now(model: Model, limits: Limits, rules: Rules, state: State) -> int:
    """Return the leader by all data so far, or the answer; -1 before theta can be estimated."""
    if state.finished[0]:
        return chosen_answer(state)
    if not state.estimable[0] and not measures_all(model, state.counts):
        return -1
    metric, _ = _metric_of_data(model, rules, state)
    return leader_with_limits(model, limits, state, metric)


@kernel
def _metric_of_data(model: Model, rules: Rules, state: State) -> tuple[Metric, float]:
    """Return the fit to all data, and the variance of the noise."""
    rank = model.arms.shape[1]
    theta = np.empty(rank)
    root = np.empty((rank, rank))
    noise = fit(model, rules, state, root, theta)
    return Metric(theta, root, root, rank), noise


@kernel
def _losses_so_far(model: Model, state: State, metric: Metric) -> Losses:
    shares = shares_lost(state)
    if shares.size == 0:
        return Losses(shares, state.counts, metric)
    issued = np.empty(state.counts.size)
    for k in range(issued.size):
        issued[k] = state.counts[k] + state.lost[k]
    return Losses(shares, state.counts, metric_of_shares(model, issued, metric.theta))


@kernel
def metric_of_shares(model: Model, shares: Floats, theta: Floats) -> Metric:
    """Return what shares of the pulls measure, if they include every arm that is needed."""
    rank = model.arms.shape[1]
    matrix = np.empty((rank, rank))
    root = np.empty((rank, rank))
    gram(model.arms, shares, matrix)
    if not whitener(matrix, root):
        whitener_of_rows(model.arms, shares, root)
    return Metric(theta, root, root, rank)


@kernel
def _metric_of_pulls(model: Model, pulls: Floats, theta: Floats) -> Metric:
    """Return what the given pulls of every arm measure."""
    rank = model.arms.shape[1]
    matrix = np.empty((rank, rank))
    root = np.empty((rank, rank))
    null_space = np.zeros((rank, rank))
    gram(model.arms, pulls, matrix)
    seen = root_of_inverse(matrix, root, null_space)
    return Metric(theta, root, null_space, seen)


# ------------------------------------------------------------------------------ directions


@kernel
def item_value(
    model: Model,
    limits: Limits,
    tolerance: float,
    leader: int,
    item: int,
    metric: Metric,
    direction: Floats,
) -> tuple[float, float]:
    """Return the information on an item and the constant of its effect; fill its direction.

    The direction is zero if the estimate is on the item's border.
    """
    candidates = model.candidates.shape[0]
    if item < candidates:
        return rival_value(model, limits, limits.rival, tolerance, leader, item, metric, direction)
    r = item - candidates
    for i in range(direction.size):
        direction[i] = limits.rows[leader, r, i]
    constant = -limits.own[leader, r]
    distance = dot(direction, metric.theta) + constant
    variance = length_of(metric, direction)
    return distance * distance / variance, constant


@kernel
def _doubted_direction(
    model: Model,
    limits: Limits,
    rules: Rules,
    known: Known,
    item: int,
    metric: Metric,
    direction: Floats,
) -> float:
    """Fill the direction in which a plan measures an item; return the effect assumed by the plan.

    Rows with a much larger variance than from equal pulls of all arms are assumed easier to decide.
    Otherwise, a rival that looked good in a few early pulls would be measured only against its
    limits, even if it breaks them by very little, and its value would never be measured again.
    """
    candidates = model.candidates.shape[0]
    leader, theta = known.leader, known.metric.theta
    if item >= candidates:
        _, constant = item_value(model, limits, rules.tolerance, leader, item, metric, direction)
        return abs(dot(direction, theta) + constant)
    most = 1 + limits.rival.shape[1]
    rows = np.empty((most, direction.size))
    constants = np.empty(most)
    number = fill_rival_rows(
        model, limits, limits.rival, rules.tolerance, leader, item, rows, constants
    )
    number_of_results = sum_of(known.losses.counts)
    short = np.empty(number)
    first = 0
    for row in range(number):
        length = length_of(known.metric, rows[row])
        short[row] = dot(rows[row], theta) + constants[row]
        # After equal pulls of all arms, a direction's variance is its squared length over their
        # number.
        usual = EASY * dot(rows[row], rows[row]) / number_of_results
        if length > usual > 0.0:
            short[row] += math.sqrt(2.0 * math.log(length / usual) * known.noise * length)
        if short[row] > short[first]:
            first = row
    value, _ = combine_rows(metric, rows[:number], constants[:number], short, direction)
    if value > 0.0:
        # The distance is the squared effect over the variance of the direction.
        return math.sqrt(value * length_of(metric, direction))
    for i in range(direction.size):
        direction[i] = rows[first, i]
    return 0.0


@kernel
def _fill_targets(
    model: Model,
    limits: Limits,
    rules: Rules,
    known: Known,
    needs: Floats,
    metric: Metric,
    targets: Floats,
) -> int:
    """Fill the directions to plan for, in units of what each needs; return their number."""
    number = 0
    for item in range(needs.size):
        if needs[item] < 0.0:
            continue
        target = targets[number]
        effect = _doubted_direction(model, limits, rules, known, item, metric, target)
        variance = known.noise * length_of(known.metric, target)
        if variance <= 0.0:
            continue
        scale = math.sqrt((needs[item] + rules.cost) / (square(effect) + rules.kappa * variance))
        for i in range(target.size):
            target[i] *= scale
        number += 1
    return number


# ------------------------------------------------------------------------------- planning


@apart
def plan_block_with_limits(
    model: Model, limits: Limits, rules: Rules, state: State, batch: float, assigned: Floats
) -> None:
    """Plan the next block and freeze its counts and bets.

    `batch`: requested pulls of the block; 0 leaves the size to the method. `assigned`: pulls of
    every arm if an outside experiment assigned them; empty if the method plans them.
    """
    candidates, rank = model.candidates.shape
    metric, noise = _metric_of_data(model, rules, state)
    losses = _losses_so_far(model, state, metric)
    needs = np.empty(candidates + limits.stated.shape[1])
    passed = np.zeros(candidates, dtype=np.int64)
    seen = Seen(metric, noise, losses)
    leader = _find_target(model, limits, rules, state, seen, needs, passed)
    runner_up = NOBODY
    if rules.max_pulls < math.inf and leader < candidates:
        passed[leader] = 1
        runner_up = _best_feasible(model, limits, state, metric, passed)
    known = Known(leader, runner_up, metric, noise, losses)
    choose(state, leader)
    slot = next_slot(state.blocks)
    for i in range(rank):
        state.prediction[slot, i] = metric.theta[i]
    planned = np.empty(model.arms.shape[0])
    size = _plan_counts(
        model_after_losses(model, losses), limits, rules, state, known, needs, batch, planned
    )
    if is_any_hidden(needs):
        state.forecast[0] = math.inf
    left = pulls_until_end(rules, state.blocks)
    if left < math.inf:
        fit_to_end(planned, size, left)
    weakest = _weakest_item(model, limits, rules, known, needs) / noise
    if assigned.size:
        open_block(state.blocks, assigned)
    else:
        open_planned_block(state.blocks, planned)
    pause = square(rules.pause)
    if leader == candidates:
        pause = square(NONE_PAUSE) if rules.bounded else 0.0
    state.bets.number[slot] = 0
    end = end_after(rules, state, slot, leader, runner_up, needs)
    if weakest >= pause or must_bet_now(end, leader == candidates):
        _place_bets(model, limits, rules, state, slot, known)
        freeze_bets(model, rules, state, slot, metric.root, metric.theta, noise, end)


@kernel
def _leave_out_hidden(
    model: Model,
    limits: Limits,
    rules: Rules,
    losses: Losses,
    metric: Metric,
    target: int,
    needs: Floats,
) -> None:
    """Replace the needs of items that losses hide by `HIDDEN`.

    More data with the same losses cannot settle them. So waiting for them would hold back the bets
    on all others for ever, and planning for them would waste pulls.
    """
    if losses.shares.size == 0:
        return
    direction = np.empty(metric.theta.size)
    for item in range(needs.size):
        if needs[item] < 0.0:
            continue
        _, constant = item_value(model, limits, rules.tolerance, target, item, metric, direction)
        if is_hidden(model, rules, losses, metric, direction, constant):
            needs[item] = HIDDEN


@kernel
def _weakest_item(model: Model, limits: Limits, rules: Rules, known: Known, needs: Floats) -> float:
    """Return the smallest information on a needed item; it is 0 for a broken limit."""
    candidates = model.candidates.shape[0]
    metric = known.metric
    direction = np.empty(metric.theta.size)
    weakest = math.inf
    for item in range(needs.size):
        if needs[item] < 0.0:
            continue
        value, constant = item_value(
            model, limits, rules.tolerance, known.leader, item, metric, direction
        )
        if item >= candidates and dot(direction, metric.theta) + constant < 0.0:
            value = 0.0
        weakest = min(weakest, value)
    return weakest


@kernel
def _plan_counts(
    model: Model,
    limits: Limits,
    rules: Rules,
    state: State,
    known: Known,
    needs: Floats,
    batch: float,
    planned: Floats,
) -> float:
    """Fill the pulls of the next block, and update the shares that plans start from.

    Return the size of the block; it may have more pulls, as many as its directions need.
    """
    arms, rank = model.arms.shape
    targets = np.empty((needs.size, rank))
    trial = np.empty(arms)
    shares = np.empty(arms)
    value = math.inf
    number = 0
    size = batch
    for turn in range(ROUNDS):
        mix(model, state.shares, trial)
        metric = metric_of_shares(model, trial, known.metric.theta)
        number = _fill_targets(model, limits, rules, known, needs, metric, targets)
        if number == 0:
            # No item needs evidence: data in flight have restored a leader with all its evidence.
            number = _all_directions(model, targets)
        if size <= 0.0:
            size = natural_size(rules, state, rank, number + 1)
        size = size_until_end(size, pulls_until_end(rules, state.blocks))
        if arms + number > MANY:
            # `plan_large` already plans twice, starting from the shares of the last block.
            value = plan_large(model, rules, targets[:number], size, state.shares, planned)
            break
        for k in range(arms):
            shares[k] = 0.0
        value = find_design(model, rules.steps // ROUNDS, targets[:number], state.shares, shares)
        if turn == ROUNDS - 1:
            enough = rules.excess * value / size
            block_counts(model, shares, targets[:number], size, enough, planned)
        for k in range(arms):
            state.shares[k] = shares[k]
    state.forecast[0] = 2.0 * known.noise * value
    return size


@kernel
def _all_directions(model: Model, targets: Floats) -> int:
    """Fill the arms of a basis as targets, as many as there is room for; return their number."""
    number = min(targets.shape[0], model.start.size)
    for i in range(number):
        for j in range(targets.shape[1]):
            targets[i, j] = model.arms[int(model.start[i]), j]
    return number


# ------------------------------------------------------------------------- freezing bets


@kernel
def _fill_gap(model: Model, rules: Rules, winner: int, rival: int, direction: Floats) -> float:
    """Fill the direction of "the rival is at least as good", whatever limits; return a constant."""
    difference(model, winner, rival, direction)
    return rules.tolerance


@inlined
def _is_zero(direction: Floats) -> bool:
    return dot(direction, direction) == 0.0


@kernel
def _place_bets(
    model: Model, limits: Limits, rules: Rules, state: State, slot: int, known: Known
) -> None:
    """Freeze the bets of a block: one on each live rival, one on each limit of the leader.

    The bets of a block share its pulls, so those on rivals use the ledger of the pair. With a
    planned end, one is on the leader itself, as the rival of the runner-up.
    """
    candidates = model.candidates.shape[0]
    leader, theta, bets = known.leader, known.metric.theta, state.bets
    metric = _metric_of_pulls(model, state.blocks.planned[slot], theta)
    begin_bets(state.book, bets, slot, leader)
    for bet in range(bets.number[slot]):
        is_own = bet == leader and known.runner_up != NOBODY
        if not (is_own or is_wanted(state.book, bet, leader, rules.separately)):
            continue
        direction = state.directions[slot, bet]
        if is_own:
            ledger = pair_ledger(state.book, leader, known.runner_up)
            state.book.led[known.runner_up] = 1
            constant = _fill_gap(model, rules, known.runner_up, leader, direction)
        else:
            _, constant = item_value(model, limits, rules.tolerance, leader, bet, metric, direction)
            if bet < candidates:
                ledger = rival_ledger(state.book, bet, leader)
                if rules.max_pulls < math.inf and leader < candidates and _is_zero(direction):
                    # A tie leaves no direction, but the block must not go to waste.
                    constant = _fill_gap(model, rules, leader, bet, direction)
            else:
                ledger = limit_ledger(state.book, leader, bet - candidates)
        variance = known.noise * length_of(known.metric, direction)
        if not 0.0 < variance < math.inf or length_of(metric, direction) == math.inf:
            continue
        planned = state.blocks.planned[slot]
        hidden = hidden_by_losses(model, rules, known.losses, metric, planned, direction)
        effect = dot(direction, theta) + constant - hidden
        if hidden > 0.0 >= effect:
            continue
        estimate = effect / math.sqrt(variance)
        bets.estimate[slot, bet] = min(max(estimate, -MOST_ESTIMATE), MOST_ESTIMATE)
        bets.variance[slot, bet] = variance
        bets.ledger[slot, bet] = ledger
        state.constant[slot, bet] = constant
