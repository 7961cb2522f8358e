"""The plan of the next block: its target, the shares of the arms, and their pulls."""

import math
from typing import NamedTuple

import numpy as np

from fairtrial.confidence.block_betting.blocks import (
    next_slot,
    open_block,
    open_planned_block,
)
from fairtrial.confidence.block_betting.plan_steps import take_steps
from fairtrial.confidence.block_betting.planned_end import (
    End,
    end_with,
    fit_to_end,
    no_end,
    pulls_until_end,
    size_until_end,
)
from fairtrial.core.compilation import inlined, kernel, unchecked, uncounted
from fairtrial.delayed._kernels.block_state import Floats, Integers, Plans, Rules, State, Wealth
from fairtrial.delayed._kernels.top_sets import (
    find_places,
    find_runner_up,
    find_target,
    is_live,
    is_settled,
    ledger_of,
    replace_rejected,
    wealth_against,
)

PRIOR_PULLS = 2.0
"""Weight, in pulls of a fair coin over the range, of the prior that shrinks an arm's variance."""


@kernel
def plan_block(
    variances: Floats, rules: Rules, state: State, batch: float, assigned: Floats
) -> int:
    """Open the next block, whose target is the leading arms; return its slot.

    `batch`: requested pulls of the block; 0 leaves the size to the method. `assigned`: pulls of
    every arm if an outside experiment assigned them; empty if the method plans them.
    """
    slot = next_slot(state.blocks)
    wealth = state.wealth
    plans = state.plans
    inside = plans.inside[slot]
    for arm in range(variances.size):
        plans.earlier[slot, arm] = state.counts[arm]
        plans.estimate[slot, arm] = state.means[arm]
        plans.spread[slot, arm] = variances[arm]
        if rules.bounded:
            # The observed variance, shrunk towards that of a fair coin.
            squares = state.squares[arm] + 0.25 * PRIOR_PULLS
            plans.spread[slot, arm] = squares / (state.counts[arm] + PRIOR_PULLS)
    find_target(state.means, rules.top, inside)
    if rules.tolerance == 0.0 and wealth_against(wealth, inside) == math.inf:
        replace_rejected(wealth, state.means, inside)
    if rules.tolerance > 0.0 and is_settled(wealth, inside):
        # The search ends with the next complete block. Until then, the last target has open pairs.
        for arm in range(inside.size):
            inside[arm] = wealth.target[arm]
    find_places(state.means, inside, plans.place[slot])
    find_positions(inside, plans.position[slot])
    state.forecast[0] = _find_shares(rules, wealth, plans, slot, state.shares)
    if assigned.size:
        open_block(state.blocks, assigned)
        return slot
    planned = np.zeros(variances.size)
    left = pulls_until_end(rules, state.blocks)
    _fill_counts(rules, wealth, plans, slot, state.shares, batch, left, planned)
    open_planned_block(state.blocks, planned)
    return slot


@inlined
def bet_on(rules: Rules, plans: Plans, slot: int, j: int, b: int) -> int:
    """Return the number of the bet against "arm j, outside, is as good as arm b, inside"."""
    return int(plans.position[slot, j]) * rules.top + int(plans.position[slot, b])


@inlined
def bet_on_target(rules: Rules, plans: Plans) -> int:
    """Return the number of the bet on the target, which is also the number of pairs."""
    return rules.top * (plans.inside.shape[1] - rules.top)


@kernel
def end_of(rules: Rules, state: State, slot: int) -> End:
    """Return what the bets of the newest block know about the planned end."""
    if rules.max_pulls == math.inf:
        return no_end()
    wealth, plans = state.wealth, state.plans
    inside = plans.inside[slot]
    lacking = np.empty(bet_on_target(rules, plans) + 1)
    for j in range(inside.size):
        for b in range(inside.size):
            if inside[j] == 0.0 and inside[b] > 0.0:
                won = ledger_of(rules, wealth, inside, j, b)
                lacking[bet_on(rules, plans, slot, j, b)] = rules.threshold - won
    won = wealth_against(wealth, inside)
    if rules.tolerance > 0.0:
        best, worst = find_runner_up(plans, slot, rules.top)
        won = wealth.ledgers[worst, best]
    lacking[lacking.size - 1] = rules.threshold - won
    return end_with(rules, state.blocks, slot, lacking)


@kernel
def find_positions(inside: Floats, position: Floats) -> None:
    """Fill each arm's index among the arms on its side of the target."""
    number = np.zeros(2, dtype=np.int64)
    for arm in range(inside.size):
        side = int(inside[arm])
        position[arm] = number[side]
        number[side] += 1


@inlined
def gap_of(rules: Rules, plans: Plans, slot: int, j: int, b: int) -> float:
    """Return how much better b is than j, by the outcomes before a block."""
    return plans.estimate[slot, b] - plans.estimate[slot, j] + rules.tolerance


@inlined
def error_of(plans: Plans, slot: int, j: int, b: int) -> float:
    """Return the variance of that gap."""
    error = plans.spread[slot, b] / plans.earlier[slot, b]
    return error + plans.spread[slot, j] / plans.earlier[slot, j]


class _Pairs(NamedTuple):
    """The pairs of arms that a plan is made for: arms `outside` and `inside` the target."""

    outside: Integers
    inside: Integers
    ease: Floats  # squared gap per need
    number: int


@kernel(error_model="numpy")
def _find_shares(rules: Rules, wealth: Wealth, plans: Plans, slot: int, shares: Floats) -> float:
    """Set the shares of pulls that settle the neediest pair soonest; return the pulls needed.

    The information about a pair is gap^2 / (v_b / w_b + v_j / w_j).
    """
    pairs = _live_pairs(rules, wealth, plans, slot)
    if pairs.number == 0:
        return 0.0
    spread = plans.spread[slot]
    trial = np.empty(shares.size)
    for arm in range(shares.size):
        trial[arm] = 0.7 * shares[arm] + 0.3 / shares.size
    plan, progress = _Steps(pairs, spread, trial), np.empty(pairs.number)
    return take_steps(plan, trial, shares, progress, _fill_progress, _add_pull, _forecast)


@kernel(error_model="numpy")
def _live_pairs(rules: Rules, wealth: Wealth, plans: Plans, slot: int) -> _Pairs:
    """Return the pairs that still need evidence."""
    inside = plans.inside[slot]
    most = rules.top * (inside.size - rules.top)
    first, second = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    ease = np.empty(most)
    number = 0
    for j in range(inside.size):
        for b in range(inside.size):
            if not is_live(wealth, inside, j, b):
                continue
            gap = max(gap_of(rules, plans, slot, j, b), 0.0)
            # A gap near zero is replaced by its standard error.
            square = gap * gap + rules.kappa * error_of(plans, slot, j, b)
            need = max(0.0, rules.threshold - wealth.ledgers[j, b]) + rules.cost
            first[number], second[number], ease[number] = j, b, square / need
            number += 1
    return _Pairs(first, second, ease, number)


class _Steps(NamedTuple):
    """What the steps of a plan use."""

    pairs: _Pairs
    spread: Floats
    shares: Floats


@unchecked
def _fill_progress(plan: _Steps, progress: Floats) -> None:
    """Fill the information per need of every pair."""
    for i in range(progress.size):
        j, b = plan.pairs.outside[i], plan.pairs.inside[i]
        variance = plan.spread[b] / plan.shares[b] + plan.spread[j] / plan.shares[j]
        progress[i] = plan.pairs.ease[i] / variance


@unchecked
def _add_pull(plan: _Steps, progress: Floats, i: int, weight: float, pull: Floats) -> None:
    """Add the derivatives of a pair's progress by the shares."""
    j, b = plan.pairs.outside[i], plan.pairs.inside[i]
    own, other = plan.spread[b] / plan.shares[b], plan.spread[j] / plan.shares[j]
    gained = weight * progress[i] / (own + other)
    pull[b] += gained * own / plan.shares[b]
    pull[j] += gained * other / plan.shares[j]


@unchecked
def _forecast(_plan: _Steps, progress: Floats) -> float:
    """Return the pulls needed."""
    least = math.inf
    for i in range(progress.size):
        least = min(least, progress[i])
    return 2.0 / least if least > 0.0 else math.inf


@uncounted
def _fill_counts(
    rules: Rules,
    wealth: Wealth,
    plans: Plans,
    slot: int,
    shares: Floats,
    batch: float,
    left: float,
    planned: Floats,
) -> None:
    """Fill the pulls of the block: at least one for every arm of a live pair.

    `left`: pulls before a planned end, else infinite. The last block has all of them, and may leave
    out arms.
    """
    inside = plans.inside[slot]
    support = 0
    whole = 0.0
    earlier = 0.0
    for arm in range(planned.size):
        earlier += plans.earlier[slot, arm]
        for other in range(planned.size):
            if is_live(wealth, inside, arm, other) or is_live(wealth, inside, other, arm):
                planned[arm] = 1.0
        if planned[arm] > 0.0:
            support += 1
            whole += shares[arm]
    size = batch if batch > 0.0 else max(math.ceil(rules.growth * earlier), rules.touch * support)
    size = size_until_end(size, left)
    for arm in range(planned.size):
        if planned[arm] > 0.0:
            planned[arm] = max(1.0, round(size * shares[arm] / whole))
    if left < math.inf:
        fit_to_end(planned, size, left)
