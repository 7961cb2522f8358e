"""What lost pulls do to the means that bets on rewards in a known range will see."""

import math

from fairtrial.core.compilation import inlined, kernel
from fairtrial.subpopulations._kernels.block_state import Rules, State
from fairtrial.subpopulations._kernels.model import CEILING, Floats, Model


@kernel
def discount_losses(
    model: Model,
    rules: Rules,
    state: State,
    leader: int,
    means: Floats,
    variances: Floats,
    control_means: Floats,
) -> bool:
    """Replace means and variances by those of what the bets will see; return whether they differ.

    A lost pull counts as the worst value for a bet. So the leader's means move down by the share
    of pulls that get lost, and its rivals' up, but not beyond their ceilings. A mean that is above
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
            variances[k, group] += share * (1.0 - share) * (worst - mean) ** 2
    return differs


@kernel
def lift_by_losses(rules: Rules, state: State, k: int, group: int) -> float:
    """Return how far apart lost pulls put the means that floor and ceiling of a cell see."""
    if not rules.bounded or rules.pulls_again:
        return 0.0
    return _share_lost(state, k * state.counts.shape[1] + group) * (rules.high - rules.low)


@inlined
def _share_lost(state: State, cell: int) -> float:
    """Return the share of a cell's pulls that got lost; below one, as some result may come yet."""
    lost = state.blocks.lost[cell]
    return lost / (lost + max(1.0, state.blocks.came[cell]))
