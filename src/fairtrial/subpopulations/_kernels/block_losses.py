"""The effect of lost pulls on what bets see.

Bets on rewards in a known range see other means; those with a known noise see fewer results.
"""

import math
from typing import NamedTuple

from fairtrial.confidence.block_betting.hidden import share_lost
from fairtrial.core.arithmetic import square
from fairtrial.core.compilation import inlined, kernel, uncounted
from fairtrial.subpopulations._kernels.block_state import Rules, State
from fairtrial.subpopulations._kernels.model import CEILING, Floats
from fairtrial.subpopulations._kernels.pitfalls import Alternative


class Losses(NamedTuple):
    """What losses do to what is known when a block is planned; without losses, nothing."""

    are_any: bool
    move_means: bool  # lost pulls count as the worst values
    cost_results: bool  # lost pulls are left out
    issued: Floats  # the precisions that cells would have if no pull were lost
    per_result: Floats  # pulls that bring one result; 1 if lost pulls count as the worst values


@kernel(inline="always")
def losses_of(rules: Rules, are_any: bool, issued: Floats, per_result: Floats) -> Losses:
    """Return what losses do, as `fill_losses` has found it."""
    by_range = rules.bounded
    return Losses(are_any, are_any and by_range, are_any and not by_range, issued, per_result)


@uncounted
def fill_losses(
    rules: Rules, state: State, precisions: Floats, issued: Floats, per_result: Floats
) -> bool:
    """Fill the arrays of `Losses`; return whether pulls of settled blocks are lost for good."""
    is_any = False
    groups = issued.shape[1]
    for cell in range(issued.size):
        k, group = cell // groups, cell % groups
        share = 0.0 if rules.pulls_again else _share_lost(state, cell)
        is_any = is_any or share > 0.0
        issued[k, group] = precisions[k, group] / (1.0 - share)
        per_result[k, group] = 1.0 if rules.bounded else 1.0 / (1.0 - share)
    return is_any


@kernel
def without_losses(losses: Losses) -> Losses:
    """Return what would be known if no pull were lost."""
    return Losses(False, False, False, losses.issued, losses.per_result)


@kernel
def with_all_results(losses: Losses) -> Losses:
    """Return what losses do to means alone: they cost no results."""
    return Losses(losses.are_any, losses.move_means, False, losses.issued, losses.per_result)


@uncounted
def discount_losses(
    alternative: Alternative,
    rules: Rules,
    state: State,
    leader: int,
    means: Floats,
    variances: Floats,
    control_means: Floats,
) -> None:
    """Replace means and variances by those that bets will see.

    A bet counts a lost pull as the worst value. According to the share of lost pulls, the leader's
    means therefore move down, and its rivals' means up, but not beyond their ceilings. A mean above
    its ceiling moves down to it. The control's means move down in bets against rivals that are
    compared with it.
    """
    groups = means.shape[1]
    if not rules.bounded or rules.pulls_again:
        return
    for k in range(means.shape[0]):
        for group in range(groups):
            share = _share_lost(state, k * groups + group)
            if share == 0.0:
                continue
            mean = means[k, group]
            if k == alternative.control:
                control_means[group] = mean + share * (rules.low - mean)
            worst = rules.low if k == leader else rules.high
            ceiling = alternative.limits[CEILING, k, group]
            if k != leader and mean > ceiling:
                worst = rules.low
            moved = mean + share * (worst - mean)
            if k != leader and ceiling < math.inf:
                moved = max(moved, ceiling) if mean > ceiling else min(moved, ceiling)
            means[k, group] = moved
            variances[k, group] *= 1.0 - share
            variances[k, group] += share * (1.0 - share) * square(worst - mean)


@uncounted
def lift_by_losses(rules: Rules, state: State, k: int, group: int) -> float:
    """Return how far lost pulls separate the means that a cell's floor and ceiling see."""
    if not rules.bounded or rules.pulls_again:
        return 0.0
    return _share_lost(state, k * state.counts.shape[1] + group) * (rules.high - rules.low)


@inlined
def _share_lost(state: State, cell: int) -> float:
    return share_lost(state.blocks.lost[cell], state.blocks.came[cell])
