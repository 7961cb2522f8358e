"""The effect of lost pulls on the means seen by bets on rewards in a known range."""

import math

from fairtrial.confidence.block_betting.hidden import share_lost
from fairtrial.core.arithmetic import square
from fairtrial.core.compilation import inlined, uncounted
from fairtrial.subpopulations._kernels.block_state import Rules, State
from fairtrial.subpopulations._kernels.model import CEILING, Floats, Model


@uncounted
def discount_losses(
    model: Model,
    rules: Rules,
    state: State,
    leader: int,
    means: Floats,
    variances: Floats,
    control_means: Floats,
) -> bool:
    """Replace means and variances by those that bets will see; return whether they differ.

    A bet counts a lost pull as the worst value. According to the share of lost pulls, the leader's
    means therefore move down, and its rivals' means up, but not beyond their ceilings. A mean above
    its ceiling moves down to it. The control's means move down in bets against rivals that are
    compared with it.
    """
    differs = False
    groups = means.shape[1]
    if not rules.bounded or rules.pulls_again:
        return differs
    for k in range(means.shape[0]):
        for group in range(groups):
            share = _share_lost(state, k * groups + group)
            if share == 0.0:
                continue
            differs = True
            mean = means[k, group]
            if k == model.control:
                control_means[group] = mean + share * (rules.low - mean)
            worst = rules.low if k == leader else rules.high
            ceiling = model.limits[CEILING, k, group]
            if k != leader and mean > ceiling:
                worst = rules.low
            moved = mean + share * (worst - mean)
            if k != leader and ceiling < math.inf:
                moved = max(moved, ceiling) if mean > ceiling else min(moved, ceiling)
            means[k, group] = moved
            variances[k, group] *= 1.0 - share
            variances[k, group] += share * (1.0 - share) * square(worst - mean)
    return differs


@uncounted
def lift_by_losses(rules: Rules, state: State, k: int, group: int) -> float:
    """Return how far lost pulls separate the means that a cell's floor and ceiling see."""
    if not rules.bounded or rules.pulls_again:
        return 0.0
    return _share_lost(state, k * state.counts.shape[1] + group) * (rules.high - rules.low)


@inlined
def _share_lost(state: State, cell: int) -> float:
    return share_lost(state.blocks.lost[cell], state.blocks.came[cell])
