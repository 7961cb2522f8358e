"""The bets of a block on the best k arms: how they are frozen, moved by results, and paid."""

import math

from fairtrial.confidence.block_betting.bets import (
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
from fairtrial.core.arithmetic import square
from fairtrial.core.compilation import inlined, kernel
from fairtrial.delayed._kernels.block_plans import error_of, gap_of
from fairtrial.delayed._kernels.block_state import Floats, Plans, Rules, Wealth
from fairtrial.delayed._kernels.top_sets import carry, is_live, keeps_target

LOW, HIGH = 0.0, 1.0
"""The range of outcomes in internal units."""


@inlined
def _bet_of(rules: Rules, plans: Plans, slot: int, j: int, b: int) -> int:
    """Return the number of the bet against "arm j, outside, is as good as arm b, inside"."""
    return int(plans.position[slot, j]) * rules.top + int(plans.position[slot, b])


# ----------------------------------------------------------------------- freezing bets


@kernel
def place_bets(
    rules: Rules, wealth: Wealth, plans: Plans, blocks: Blocks, bets: Bets, slot: int
) -> None:
    """Freeze the bets of a block: on every pair that can be live when the block is paid."""
    inside = plans.inside[slot]
    planned = blocks.planned[slot]
    arms = inside.size
    # If ledgers will be carried to another target, settled pairs can become open again.
    stays = rules.tolerance > 0.0 or keeps_target(
        wealth, plans, blocks.first[0], blocks.first[0] + blocks.number[0]
    )
    bets.number[slot] = rules.top * (arms - rules.top)
    for j in range(arms):
        for b in range(arms):
            if inside[j] > 0.0 or inside[b] == 0.0:
                continue
            bet = _bet_of(rules, plans, slot, j, b)
            bets.ledger[slot, bet] = NO_BET
            may_pay = not stays or is_live(wealth, inside, j, b)
            if may_pay and _is_clear(rules, plans, planned, slot, j, b):
                bets.ledger[slot, bet] = j * arms + b
                freeze(rules, plans, planned, bets, slot, bet, j, b)


@kernel
def _is_clear(rules: Rules, plans: Plans, planned: Floats, slot: int, j: int, b: int) -> bool:
    """Return whether a block has pulls of both arms, and their order is not entirely unclear."""
    if planned[j] == 0.0 or planned[b] == 0.0:
        return False
    gap = max(gap_of(rules, plans, slot, j, b), 0.0)
    return square(gap) >= square(rules.pause) * error_of(plans, slot, j, b)


@kernel
def freeze(
    rules: Rules, plans: Plans, planned: Floats, bets: Bets, slot: int, bet: int, j: int, b: int
) -> None:
    """Freeze the bet on a pair."""
    earlier = error_of(plans, slot, j, b)
    bets.variance[slot, bet] = earlier
    bets.estimate[slot, bet] = gap_of(rules, plans, slot, j, b) / math.sqrt(earlier)
    if not rules.bounded:
        return
    mean_j = plans.estimate[slot, j]
    mean_b = plans.estimate[slot, b]
    spread_j = plans.spread[slot, j]
    spread_b = plans.spread[slot, b]
    planned_j = planned[j]
    planned_b = planned[b]
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
    freeze_stakes(bets, slot, bet, at_centre, inside, ruin)


@inlined
def _clipped(value: float) -> float:
    return min(max(value, LOW), HIGH)


# ------------------------------------------------------------------------- moving bets


@inlined
def _bets_on(rules: Rules, plans: Plans, bets: Bets, slot: int, arm: int) -> tuple[int, int, int]:
    """Return the first bet that uses an arm, the end of these bets, and the step between them."""
    number = bets.number[slot]
    position = int(plans.position[slot, arm])
    if plans.inside[slot, arm] > 0.0:
        return min(position, number), number, rules.top
    first = min(position * rules.top, number)
    return first, min(first + rules.top, number), 1


@inlined
def _part_in_bet(
    rules: Rules, plans: Plans, planned: Floats, slot: int, bet: int, arm: int
) -> tuple[float, float]:
    """Return the weight and the centre of an arm's results in a bet that uses the arm."""
    weight = 1.0 / planned[arm]
    centre = plans.centres[slot, bet]
    if plans.inside[slot, arm] > 0.0:
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
            weight, centre = _part_in_bet(rules, plans, planned, slot, bet, arm)
            own = value_in_bet(value, LOW, HIGH, weight)
            multiply_bet(bets, slot, bet, weight * (own - centre))


@kernel
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
            weight, centre = _part_in_bet(rules, plans, planned, slot, bet, arm)
            before = value_in_bet(old, LOW, HIGH, weight)
            correct_bet(bets, slot, bet, weight * (before - centre), weight * (new - centre))


# ------------------------------------------------------------------------- paying bets


@kernel
def pay_bets(
    rules: Rules, wealth: Wealth, plans: Plans, blocks: Blocks, bets: Bets, slot: int
) -> bool:
    """Pay the bets of a complete block; return whether its target is the only set left."""
    carry(rules, wealth, plans.inside[slot], plans.place[slot])
    arms = wealth.target.size
    finished = True
    for j in range(arms):
        for b in range(arms):
            if not is_live(wealth, wealth.target, j, b):
                continue
            bet = _bet_of(rules, plans, slot, j, b)
            if bets.ledger[slot, bet] != NO_BET:
                wealth.ledgers[j, b] += _gain(rules, plans, blocks, bets, slot, bet, j, b)
                if wealth.ledgers[j, b] >= rules.threshold:
                    wealth.ledgers[j, b] = math.inf
            finished = finished and wealth.ledgers[j, b] == math.inf
    return finished


@kernel
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
    return known_noise_gain(bets, slot, bet, effect, variance)
