"""What bets on a target see after losses, and of which target something can be shown.

An arm that leads by the few of its results that came could otherwise hold back all bets for ever.
"""

from typing import NamedTuple

import numpy as np

from fairtrial.confidence.block_betting.book import fill_needs
from fairtrial.confidence.block_betting.hidden import MOST_TRIED, can_show, mark_hidden
from fairtrial.confidence.block_betting.planned_end import NOBODY
from fairtrial.core.compilation import kernel
from fairtrial.subpopulations._kernels.block_losses import (
    Losses,
    discount_losses,
    lift_by_losses,
)
from fairtrial.subpopulations._kernels.block_plans import best_feasible, fill_present
from fairtrial.subpopulations._kernels.block_state import Estimates, Rules, State
from fairtrial.subpopulations._kernels.control_limits import control_means_of
from fairtrial.subpopulations._kernels.model import (
    CEILING,
    Booleans,
    Floats,
    Model,
    divide,
    limits_of_items,
    with_limits,
)


class View(NamedTuple):
    """What bets on a target are expected to see."""

    model: Model  # with the limits that they use
    seen: Estimates
    precisions: Floats


@kernel
def view_of(
    model: Model,
    rules: Rules,
    state: State,
    target: int,
    losses: Losses,
    means: Floats,
    variances: Floats,
) -> View:
    """Return what bets on a target are expected to see, by the estimates from all data."""
    arms, groups = means.shape
    limits = limits_of_items(model, target)
    wanted = with_limits(model, limits)
    seen = Estimates(means.copy(), control_means_of(model, means), variances.copy())
    precisions = np.empty((arms, groups))
    divide(precisions, state.counts, variances)
    if losses.move_means:
        discount_losses(
            wanted, rules, state, target, seen.means, seen.variances, seen.control_means
        )
        divide(precisions, state.counts, seen.variances)
        if target < arms:
            for group in range(groups):
                limits[CEILING, target, group] -= lift_by_losses(rules, state, target, group)
    return View(wanted, seen, precisions)


@kernel
def find_target(
    model: Model,
    rules: Rules,
    state: State,
    leader: int,
    losses: Losses,
    means: Floats,
    variances: Floats,
    passed: Booleans,
) -> int:
    """Return the answer that the next block compares with others.

    It is the leader or, if losses hide everything that it needs, the best arm of which something
    can be shown. Mark in `passed` the arms that are better by the estimates.
    """
    arms = means.shape[0]
    precisions = np.empty(means.shape)
    divide(precisions, state.counts, variances)
    target = leader
    if not losses.are_any:
        return target
    for _ in range(MOST_TRIED):
        if target == arms or _is_anything_shown(
            model, rules, state, target, losses, means, variances
        ):
            return target
        passed[target] = True
        target = best_feasible(model, state, means, precisions, passed)
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
    target: int,
    losses: Losses,
    means: Floats,
    variances: Floats,
) -> bool:
    """Return whether bets on a target can show something in spite of losses."""
    view = view_of(model, rules, state, target, losses, means, variances)
    needs = np.empty(state.rival.shape[1])
    fill_needs(state.book, rules.threshold, rules.separately, target, needs)
    present = np.empty(needs.size)
    fill_present(view.model, target, view.seen, view.precisions, losses, needs, present)
    mark_hidden(needs, present)
    return can_show(needs, means.shape[0])
