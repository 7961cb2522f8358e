"""What bets on a target see after losses, and which target rules out others soonest.

An arm that leads by the few of its results that came could otherwise hold back all bets for ever.
"""

import numpy as np

from fairtrial.confidence.block_betting.book import fill_needs
from fairtrial.confidence.block_betting.hidden import MOST_TRIED, fill_times, is_sooner
from fairtrial.confidence.block_betting.planned_end import NOBODY
from fairtrial.core.arithmetic import copy_into
from fairtrial.core.compilation import counted, kernel, uncounted
from fairtrial.subpopulations._kernels.block_losses import (
    Losses,
    discount_losses,
    lift_by_losses,
    with_all_results,
    without_losses,
)
from fairtrial.subpopulations._kernels.block_plans import best_feasible, fill_present, mark_silent
from fairtrial.subpopulations._kernels.block_state import Estimates, Rules, State, View
from fairtrial.subpopulations._kernels.control_limits import (
    ROLES,
    alternative_at,
    control_means_of,
    fill_control_means,
)
from fairtrial.subpopulations._kernels.model import (
    CEILING,
    Booleans,
    Floats,
    Model,
    divide,
    fill_limits_of_items,
)


@uncounted
def fill_view(
    model: Model,
    rules: Rules,
    state: State,
    target: int,
    losses: Losses,
    means: Floats,
    variances: Floats,
    view: View,
) -> None:
    """Fill what bets on a target are expected to see, by the estimates from all data."""
    limits, seen = view.alternative.limits, view.seen
    fill_limits_of_items(model, target, limits)
    copy_into(seen.means, means)
    copy_into(seen.variances, variances)
    fill_control_means(model, means, seen.control_means)
    if losses.move_means:
        discount_losses(
            view.alternative, rules, state, target, seen.means, seen.variances, seen.control_means
        )
        if target < means.shape[0]:
            for group in range(means.shape[1]):
                limits[CEILING, target, group] -= lift_by_losses(rules, state, target, group)
    divide(view.precisions, state.counts, seen.variances)


@kernel
def _new_view(model: Model) -> View:
    """Return room for what bets on a target are expected to see."""
    cells = model.active.shape
    control_means = np.empty(cells[1])
    seen = Estimates(np.empty(cells), control_means, np.empty(cells))
    limits = np.empty(model.limits.shape)
    return View(alternative_at(model, limits, control_means), seen, np.empty(cells))


@counted
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
    """Return the answer that the next block compares with others; the leader is an arm.

    It is the leader or, if losses make it slow, an arm that rules out others sooner. Mark in
    `passed` the arms that are better by the estimates; on entry, it marks silent ones.
    """
    arms = means.shape[0]
    alternative = alternative_at(model, model.limits, control_means_of(model, means))
    precisions = np.empty(means.shape)
    divide(precisions, state.counts, variances)
    counted, ideal = with_all_results(losses), without_losses(losses)
    times, at_best, others = np.empty(arms + 1), np.empty(arms + 1), np.empty(arms + 1)
    _fill_times(model, rules, state, leader, counted, means, variances, times)
    _fill_times(model, rules, state, leader, ideal, means, variances, at_best)
    tried = passed.copy()
    target = tried_last = leader
    for _ in range(MOST_TRIED - 1):
        tried[tried_last] = True
        tried_last = best_feasible(state, means, precisions, alternative, tried)
        if tried_last == NOBODY:
            break
        _fill_times(model, rules, state, tried_last, counted, means, variances, others)
        if is_sooner(times, at_best, others, tried_last):
            target = tried_last
            copy_into(times, others)
            _fill_times(model, rules, state, target, ideal, means, variances, at_best)
            copy_into(passed, tried)
    return target


@kernel
def _fill_times(
    model: Model,
    rules: Rules,
    state: State,
    target: int,
    losses: Losses,
    means: Floats,
    variances: Floats,
    times: Floats,
) -> None:
    """Fill how many pulls a target needs to rule out each answer, if all cells get equally many."""
    view = _new_view(model)
    fill_view(model, rules, state, target, losses, means, variances, view)
    needs = np.empty(state.rival.shape[1])
    fill_needs(state.book, rules.threshold, rules.separately, target, needs)
    per_pull, precisions = np.ones(means.shape), np.empty(means.shape)
    if losses.are_any:
        divide(per_pull, per_pull, losses.per_result)
    divide(precisions, per_pull, view.seen.variances)
    values = np.empty(needs.size)
    lam = np.empty((needs.size, ROLES, means.shape[1]))
    equally = View(view.alternative, view.seen, precisions)
    fill_present(target, equally, losses, needs, lam, values)
    silent = np.zeros(means.shape[0], dtype=np.bool_)
    mark_silent(model.active, state.counts, state.book, rules.bounded, silent)
    for k in range(silent.size):
        values[k] = 0.0 if silent[k] else values[k]
    fill_times(state.book, needs, values, rules.cost, target, times)
