"""The bets of a block on the best k arms: how they are frozen, moved by results, and paid."""

import math

import numpy as np

from fairtrial.confidence.block_betting.bets import (
    GRID,
    NO_BET,
    Bets,
    bounded_gain,
    correct_bet,
    freeze_stakes,
    known_noise_gain,
    multiply_bet,
    value_in_bet,
)
from fairtrial.confidence.block_betting.blocks import Blocks
from fairtrial.confidence.block_betting.planned_end import End, aim_bet, is_lacking
from fairtrial.core.arithmetic import square
from fairtrial.core.compilation import counted, inlined, kernel, uncounted
from fairtrial.delayed._kernels.block_plans import (
    bet_on,
    bet_on_target,
    end_of,
    error_of,
    gap_of,
)
from fairtrial.delayed._kernels.block_state import Floats, Plans, Rules, State, Wealth
from fairtrial.delayed._kernels.top_sets import (
    carry,
    find_runner_up,
    is_live,
    keeps_target,
    take_last_set,
    take_settled_set,
)

LOW, HIGH = 0.0, 1.0
"""The range of outcomes in internal units."""


# ----------------------------------------------------------------------- freezing bets


@kernel
def place_bets(rules: Rules, state: State, slot: int) -> None:
    """Freeze the bets of a block: on every pair that can be live when the block is paid.

    With a planned end, the block bets on its target, too.
    """
    wealth, plans, blocks, bets = state.wealth, state.plans, state.blocks, state.bets
    inside = plans.inside[slot]
    planned = blocks.planned[slot]
    arms = inside.size
    end = end_of(rules, state, slot)
    # If ledgers will be carried to another target, settled pairs can become open again.
    stays = rules.tolerance > 0.0 or keeps_target(
        wealth, plans, blocks.first[0], blocks.first[0] + blocks.number[0]
    )
    bets.number[slot] = bet_on_target(rules, plans)
    for j in range(arms):
        for b in range(arms):
            if inside[j] > 0.0 or inside[b] == 0.0:
                continue
            bet = bet_on(rules, plans, slot, j, b)
            bets.ledger[slot, bet] = NO_BET
            if not stays or is_live(wealth, inside, j, b):
                _place(rules, plans, planned, bets, slot, bet, j, b, end)
    if end.is_planned:
        bet = bets.number[slot]
        best, worst = find_runner_up(plans, slot, rules.top)
        bets.number[slot] += 1
        bets.ledger[slot, bet] = NO_BET
        _place(rules, plans, planned, bets, slot, bet, worst, best, end)


@uncounted
def _place(
    rules: Rules,
    plans: Plans,
    planned: Floats,
    bets: Bets,
    slot: int,
    bet: int,
    j: int,
    b: int,
    end: End,
) -> None:
    """Place a bet on a pair, unless its block or its estimates do not allow one."""
    if is_lacking(end, bet) and _is_clear(rules, plans, planned, slot, j, b, end):
        bets.ledger[slot, bet] = j * plans.inside.shape[1] + b
        freeze(rules, plans, planned, bets, slot, bet, j, b, end)


@uncounted
def _is_clear(
    rules: Rules, plans: Plans, planned: Floats, slot: int, j: int, b: int, end: End
) -> bool:
    """Return whether a block has pulls of both arms, and their order is not entirely unclear.

    A planned end leaves no time to wait until it is clearer.
    """
    if planned[j] == 0.0 or planned[b] == 0.0:
        return False
    gap = max(gap_of(rules, plans, slot, j, b), 0.0)
    return end.is_planned or square(gap) >= square(rules.pause) * error_of(plans, slot, j, b)


@uncounted
def freeze(
    rules: Rules,
    plans: Plans,
    planned: Floats,
    bets: Bets,
    slot: int,
    bet: int,
    j: int,
    b: int,
    end: End,
) -> None:
    """Freeze the bet on a pair."""
    earlier = error_of(plans, slot, j, b)
    bets.variance[slot, bet] = earlier
    bets.estimate[slot, bet] = gap_of(rules, plans, slot, j, b) / math.sqrt(earlier)
    bets.aim[slot, bet] = bets.need[slot, bet] = 0.0
    spread_j = plans.spread[slot, j]
    spread_b = plans.spread[slot, b]
    planned_j = planned[j]
    planned_b = planned[b]
    if not rules.bounded:
        aim_bet(bets, slot, bet, spread_j / planned_j + spread_b / planned_b, end)
        return
    mean_j = plans.estimate[slot, j]
    mean_b = plans.estimate[slot, b]
    weight_j = planned_j / spread_j
    weight_b = planned_b / spread_b
    middle = weight_b * mean_b + weight_j * (mean_j - rules.tolerance)
    centre_b = _clipped(middle / (weight_b + weight_j))
    centre_j = _clipped(centre_b + rules.tolerance)
    plans.centres[slot, bet] = centre_b
    at_centre = centre_b - centre_j + rules.tolerance
    inside = (spread_b + square(mean_b - centre_b)) / planned_b
    inside += (spread_j + square(mean_j - centre_j)) / planned_j
    ruin = max(centre_b / planned_b, (HIGH - centre_j) / planned_j)
    aim_bet(bets, slot, bet, inside, end)
    freeze_stakes(bets, slot, bet, at_centre, inside, ruin)


@inlined
def _clipped(value: float) -> float:
    return min(max(value, LOW), HIGH)


# ------------------------------------------------------------------------- moving bets


@inlined
def _bets_on(rules: Rules, plans: Plans, bets: Bets, slot: int, arm: int) -> tuple[int, int, int]:
    """Return the first pair's bet that uses an arm, the end of these bets, and their distance."""
    number = min(bets.number[slot], bet_on_target(rules, plans))
    position = int(plans.position[slot, arm])
    if plans.inside[slot, arm] > 0.0:
        return min(position, number), number, rules.top
    first = min(position * rules.top, number)
    return first, min(first + rules.top, number), 1


@inlined
def _is_on_target(rules: Rules, plans: Plans, bets: Bets, slot: int, arm: int) -> bool:
    """Return whether the block bets on its target, and that bet uses an arm."""
    bet = bet_on_target(rules, plans)
    if bets.number[slot] <= bet or bets.ledger[slot, bet] == NO_BET:
        return False
    arms = plans.inside.shape[1]
    side = rules.top if plans.inside[slot, arm] > 0.0 else arms - rules.top
    return bool(plans.place[slot, arm] == side - 1)


@inlined
def _part_in_bet(
    rules: Rules, plans: Plans, planned: Floats, slot: int, bet: int, arm: int
) -> tuple[float, float]:
    """Return the weight and the centre of an arm's results in a bet that uses the arm."""
    weight = 1.0 / planned[arm]
    centre = plans.centres[slot, bet]
    # On the target, the bet is that the arm outside is better.
    if (plans.inside[slot, arm] > 0.0) != (bet == bet_on_target(rules, plans)):
        return weight, centre
    return -weight, _clipped(centre + rules.tolerance)


@inlined
def multiply_bets(
    rules: Rules, plans: Plans, planned: Floats, bets: Bets, slot: int, arm: int, value: float
) -> None:
    """Multiply a result's factor into every bet that uses its arm; the result may be `LOST`."""
    first, last, step = _bets_on(rules, plans, bets, slot, arm)
    for bet in range(first, last, step):
        if bets.ledger[slot, bet] != NO_BET:
            _multiply(rules, plans, planned, bets, slot, bet, arm, value)
    if _is_on_target(rules, plans, bets, slot, arm):
        bet = bet_on_target(rules, plans)
        _multiply(rules, plans, planned, bets, slot, bet, arm, value)


@inlined
def _multiply(
    rules: Rules,
    plans: Plans,
    planned: Floats,
    bets: Bets,
    slot: int,
    bet: int,
    arm: int,
    value: float,
) -> None:
    weight, centre = _part_in_bet(rules, plans, planned, slot, bet, arm)
    own = value_in_bet(value, LOW, HIGH, weight)
    multiply_bet(bets, slot, bet, weight * (own - centre))


@uncounted
def correct_bets(
    rules: Rules,
    plans: Plans,
    planned: Floats,
    bets: Bets,
    slot: int,
    arm: int,
    old: float,
    new: float,
) -> None:
    """Replace a result's factor in every bet that uses its arm; it may have been `LOST`."""
    first, last, step = _bets_on(rules, plans, bets, slot, arm)
    for bet in range(first, last, step):
        if bets.ledger[slot, bet] != NO_BET:
            _correct(rules, plans, planned, bets, slot, bet, arm, old, new)
    if _is_on_target(rules, plans, bets, slot, arm):
        bet = bet_on_target(rules, plans)
        _correct(rules, plans, planned, bets, slot, bet, arm, old, new)


@inlined
def _correct(
    rules: Rules,
    plans: Plans,
    planned: Floats,
    bets: Bets,
    slot: int,
    bet: int,
    arm: int,
    old: float,
    new: float,
) -> None:
    weight, centre = _part_in_bet(rules, plans, planned, slot, bet, arm)
    before = value_in_bet(old, LOW, HIGH, weight)
    correct_bet(bets, slot, bet, weight * (before - centre), weight * (new - centre))


# ------------------------------------------------------------------------- paying bets


@uncounted
def pay_bets(
    rules: Rules,
    wealth: Wealth,
    plans: Plans,
    blocks: Blocks,
    bets: Bets,
    slot: int,
    means: Floats,
) -> bool:
    """Pay the bets of a complete block; return whether only one set is left, the target."""
    carry(rules, wealth, plans.inside[slot], plans.place[slot])
    arms = wealth.target.size
    best, worst = find_runner_up(plans, slot, rules.top)
    # After a pair was settled, pulls of its arms may have been cancelled.
    may_pay_on_target = is_live(wealth, wealth.target, best, worst)
    finished = True
    for j in range(arms):
        for b in range(arms):
            if not is_live(wealth, wealth.target, j, b):
                continue
            bet = bet_on(rules, plans, slot, j, b)
            if bets.ledger[slot, bet] != NO_BET:
                wealth.ledgers[j, b] += _gain(rules, plans, blocks, bets, slot, bet, j, b)
                if wealth.ledgers[j, b] >= rules.threshold:
                    wealth.ledgers[j, b] = math.inf
            finished = finished and wealth.ledgers[j, b] == math.inf
    if may_pay_on_target:
        _pay_on_target(rules, wealth, plans, blocks, bets, slot, best, worst)
    if wealth.own[0] == math.inf and not finished:
        return take_last_set(wealth)
    if rules.tolerance > 0.0 and not finished:
        return take_settled_set(wealth, means, rules.top)
    return finished


@uncounted
def _pay_on_target(
    rules: Rules,
    wealth: Wealth,
    plans: Plans,
    blocks: Blocks,
    bets: Bets,
    slot: int,
    best: int,
    worst: int,
) -> None:
    """Pay the bet on a block's target, if any: that the best arm outside is better than its worst.

    With a tolerance, it counts for the two arms; else against the target, which has no other bet
    against it in this block.
    """
    bet = bet_on_target(rules, plans)
    if bets.number[slot] <= bet or bets.ledger[slot, bet] == NO_BET:
        return
    gain = _gain(rules, plans, blocks, bets, slot, bet, worst, best)
    if rules.tolerance > 0.0:
        wealth.ledgers[worst, best] += gain
        if wealth.ledgers[worst, best] >= rules.threshold:
            wealth.ledgers[worst, best] = math.inf
    else:
        wealth.own[0] += gain
        if wealth.own[0] >= rules.threshold:
            wealth.own[0] = math.inf


@counted
def _gain(
    rules: Rules, plans: Plans, blocks: Blocks, bets: Bets, slot: int, bet: int, j: int, b: int
) -> float:
    """Return the payment of a bet; with known noise it uses only the results that arrived."""
    if rules.bounded:
        return bounded_gain(bets, slot, bet)
    results = blocks.results[slot]
    sums = blocks.sums[slot]
    if results[j] == 0.0 or results[b] == 0.0:
        return 0.0
    effect = sums[b] / results[b] - sums[j] / results[j] + rules.tolerance
    variance = plans.spread[slot, b] / results[b] + plans.spread[slot, j] / results[j]
    return known_noise_gain(bets, slot, bet, effect, variance, np.empty(GRID))
