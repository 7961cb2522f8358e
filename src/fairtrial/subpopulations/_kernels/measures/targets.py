"""What losses hide from bets on several measures, and of which target something can be shown.

An arm that leads by the few of its results that came could otherwise hold back all bets for ever.
"""

import numpy as np

from fairtrial.confidence.block_betting.book import fill_needs
from fairtrial.confidence.block_betting.hidden import (
    MOST_TRIED,
    can_show,
    mark_hidden,
    share_lost,
)
from fairtrial.confidence.block_betting.planned_end import NOBODY
from fairtrial.core.compilation import kernel
from fairtrial.subpopulations._kernels.block_losses import Losses
from fairtrial.subpopulations._kernels.block_state import Rules
from fairtrial.subpopulations._kernels.measures.items import Programmes, Work, fill_programmes
from fairtrial.subpopulations._kernels.measures.model import BOUNDED, Model, Seen
from fairtrial.subpopulations._kernels.measures.plans import fill_present
from fairtrial.subpopulations._kernels.measures.state import State
from fairtrial.subpopulations._kernels.measures.views import best_feasible, share_missing
from fairtrial.subpopulations._kernels.model import Booleans


@kernel
def losses_so_far(model: Model, rules: Rules, state: State) -> Losses:
    """Return what the losses of settled blocks do; pulls stand for the precisions of all values."""
    issued = state.pulls.copy()
    is_any = False
    groups = issued.shape[1]
    for cell in range(issued.size):
        if model.noise == BOUNDED:
            for m in range(model.objective.size):
                is_any = is_any or share_missing(model, state, cell, m) > 0.0
        elif not rules.pulls_again:
            share = share_lost(state.blocks.lost[cell], state.blocks.came[cell])
            is_any = is_any or share > 0.0
            issued[cell // groups, cell % groups] /= 1.0 - share
    is_bounded = model.noise == BOUNDED
    return Losses(is_any, is_any and is_bounded, is_any and not is_bounded, issued)


@kernel
def find_target(
    model: Model,
    rules: Rules,
    state: State,
    seen: Seen,
    leader: int,
    losses: Losses,
    programmes: Programmes,
    work: Work,
    passed: Booleans,
) -> int:
    """Return the answer that the next block compares with others.

    It is the leader or, if losses hide everything that it needs, the best arm of which something
    can be shown. Mark in `passed` the arms that are better by the estimates.
    """
    arms = seen.quality.size
    target = leader
    if not losses.are_any:
        return target
    for _ in range(MOST_TRIED):
        if target == arms or _is_anything_shown(
            model, rules, state, seen, target, losses, programmes, work
        ):
            return target
        passed[target] = True
        target = best_feasible(state, seen, passed)
        if target == NOBODY:
            break
    for k in range(arms):
        passed[k] = False
    return leader


@kernel
def _is_anything_shown(
    model: Model,
    rules: Rules,
    state: State,
    seen: Seen,
    target: int,
    losses: Losses,
    programmes: Programmes,
    work: Work,
) -> bool:
    """Return whether bets on a target can show something in spite of losses."""
    arms = seen.quality.size
    fill_programmes(model, seen, target, seen.saved, programmes)
    needs = np.empty(arms + model.signs.size)
    fill_needs(state.book, rules.threshold, rules.separately, target, needs)
    present = np.empty(needs.size)
    fill_present(programmes, target, state.pulls, losses, needs, work, present)
    mark_hidden(needs, present)
    return can_show(needs, arms)
